//! A shared packet buffer, and the pauses (priority flow control, IEEE 802.1Qbb) that keep it from overflowing.
//!
//! The thresholds are those of HPCC's public simulator (switch-mmu.cc), as in shared-memory switch chips. The packets of every
//! ingress (port, priority) are charged to its own reserve first, then to the shared part up to a threshold; those that arrive
//! while a pause takes effect are charged to its headroom.
//!
//! ```text
//! T      = (buffer - all headroom - all reserves - shared in use) >> alpha_shift     dynamic, or Xoff
//! pause  when headroom is in use, or the shared part is at T
//! resume when no headroom is in use, and the shared part is empty or resume_offset below T (or at Xon)
//! drop   when the headroom is exhausted, which must never happen in a lossless network
//! ```
//!
//! The sum of fixed thresholds may exceed the shared part; a packet for which the shared part has no room is charged to the
//! headroom.

use crate::{ConfigureError, Emit, Event, Inspect, Kind, Kinds, OnQueues, Queue, Stage, StageSizes, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{Array, Storage};
use cc_core::{Bytes, Instant, Link, Nanos, Zeroed};

cc_core::settings! {
    /// Settings of the buffer.
    pub struct MmuSettings {
        /// Size of the whole buffer.
        buffer: Bytes, 1..=0xffff_ffff, [];
        /// Headroom of each ingress queue; 0: what arrives at line rate in twice `link_delay`, and two packets.
        headroom: Bytes, 0..=0xffff_ffff, [];
        /// Propagation delay of the links, for `headroom` = 0.
        link_delay: Nanos, 0..=100_000_000, [];
        /// Number of ingress queues (port, priority) that have headroom and a reserve.
        lossless_queues: Count, 1..=2_048, [];
        /// Reserve of each of these queues.
        reserve: Bytes, 0..=0xffff_ffff, [];
        /// The dynamic threshold is the number of free bytes of the shared part, shifted right by this.
        alpha_shift: Count, 0..=16, [];
        /// A pause ends when the queue is this far below the dynamic threshold.
        resume_offset: Bytes, 0..=0xffff_ffff, [];
        /// The fixed threshold at which a pause begins; 0 selects the dynamic threshold.
        xoff: Bytes, 0..=0xffff_ffff, ["X_off"];
        /// The fixed threshold at which a pause ends: at most `xoff`. It is limited to two packets below `xoff`.
        xon: Bytes, 0..=0xffff_ffff, ["X_on"];
        /// Pause time in a pause frame, in quanta of 512 bit times. The pause is renewed after half of it.
        pause_quanta: Count, 2..=65_535, [];
    }
}

impl MmuSettings {
    /// The thresholds of HPCC's public simulator (switch-mmu.cc) for a 32 MB buffer.
    pub const HPCC: Self = Self {
        buffer: 32_000_000,
        headroom: 0,
        link_delay: 1_000,
        lossless_queues: 32,
        reserve: 4_096,
        alpha_shift: 3,
        resume_offset: 3_072,
        xoff: 0,
        xon: 0,
        pause_quanta: 65_535,
    };

    /// The fixed thresholds of LSCC's small experiments (section IV-B): 300 and 100 KB.
    pub const LSCC: Self = Self { xoff: 300_000, xon: 100_000, ..Self::HPCC };
}

/// Checked parameters of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Size of the shared part.
    shared: u32,
    headroom: u32,
    reserve: u32,
    alpha_shift: u32,
    resume_offset: u32,
    /// Fixed thresholds (pause, resume); `None` with the dynamic threshold.
    fixed: Option<(u32, u32)>,
    quanta: u16,
}

impl Zeroed for Params {
    const ZEROED: Self =
        Self { shared: 0, headroom: 0, reserve: 0, alpha_shift: 0, resume_offset: 0, fixed: None, quanta: 0 };
}

impl Params {
    /// Converts settings into parameters, for ports with this link.
    ///
    /// # Errors
    /// A setting out of range, a buffer smaller than its reserves and headrooms, Xon above Xoff.
    pub fn new(settings: &MmuSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let packets = link.mtu.saturating_add(link.mtu);
        let headroom = match settings.headroom {
            0 => {
                let delay = Nanos::new(settings.link_delay);
                link.line_rate.bytes_in(delay.saturating_add(delay)).saturating_add(packets).get()
            }
            headroom => headroom,
        };
        let each = u64::from(headroom).wrapping_add(u64::from(settings.reserve));
        let all = each.wrapping_mul(u64::from(settings.lossless_queues));
        let shared = u64::from(settings.buffer).checked_sub(all).and_then(|left| u32::try_from(left).ok());
        let shared = shared.ok_or(ParamError::Conflict {
            field: "buffer",
            expected: "must hold reserve and headroom of all lossless queues",
        })?;
        if settings.xon > settings.xoff {
            return Err(ParamError::Conflict { field: "xon", expected: "must be at most xoff" });
        }
        let xon = settings.xon.min(settings.xoff.saturating_sub(packets.get()));
        Ok(Self {
            shared,
            headroom,
            reserve: settings.reserve,
            alpha_shift: settings.alpha_shift,
            resume_offset: settings.resume_offset,
            fixed: (settings.xoff > 0).then_some((settings.xoff, xon)),
            quanta: u16::try_from(settings.pause_quanta).unwrap_or(u16::MAX),
        })
    }
}

cc_core::zeroed! {
    /// One ingress queue (port, class).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Ingress {
        /// Bytes in the reserve and the shared part.
        bytes: u32,
        /// Bytes in the headroom.
        headroom: u32,
        configured: bool,
        /// The neighbour is to be paused.
        pausing: bool,
    }
}

cc_core::zeroed! {
    /// Counters of the buffer.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct MmuCounters {
        /// Packets that were dropped because there was no room.
        pub dropped: u64,
        /// Pauses that began.
        pub pauses: u64,
        /// The largest number of bytes in the buffer so far.
        pub most_bytes: u64,
    }
}

/// The entry of the shared buffer in the registry of stages: a [`SharedBuffer`] for each kind of storage of its queues.
#[derive(Clone, Copy, Debug)]
pub enum Mmu {}

impl OnQueues for Mmu {
    type Stage<Q: Storage> = SharedBuffer<Q>;
}

/// The buffer of a switch. All ports have the thresholds with which a queue was configured last.
#[expect(missing_debug_implementations, reason = "thousands of records")]
pub struct SharedBuffer<Q: Storage> {
    params: Params,
    /// Bytes in the shared part.
    shared_used: u32,
    /// Bytes in the whole buffer.
    bytes: u64,
    counters: MmuCounters,
    ingress: Q::Array<Ingress>,
}

impl<Q: Storage> Zeroed for SharedBuffer<Q> {
    const ZEROED: Self = Self {
        params: Params::ZEROED,
        shared_used: 0,
        bytes: 0,
        counters: MmuCounters::ZEROED,
        ingress: Zeroed::ZEROED,
    };
}

impl<Q: Storage> SharedBuffer<Q> {
    /// The counters.
    pub const fn counters(&self) -> &MmuCounters {
        &self.counters
    }

    /// Bytes in the buffer.
    pub const fn occupancy(&self) -> u64 {
        self.bytes
    }

    /// Changes the thresholds. Bytes in the buffer stay, and are charged to the new reserves first, then to the shared part.
    fn set_params(&mut self, params: Params) {
        self.params = params;
        let shared = |ingress: &Ingress| ingress.bytes.saturating_sub(params.reserve);
        self.shared_used = self.ingress.items().iter().map(shared).fold(0, u32::saturating_add);
    }

    fn ingress(&mut self, at: Queue) -> Option<&mut Ingress> {
        self.ingress.items_mut().get_mut(at.index()).filter(|ingress| ingress.configured)
    }

    /// Processes a packet that arrives. Returns whether there is room for it.
    fn admit(&mut self, at: Queue, bytes: Bytes) -> bool {
        let threshold = self.threshold();
        let Params { reserve, headroom, .. } = self.params;
        let free = self.params.shared.saturating_sub(self.shared_used);
        let bytes = bytes.get();
        let Some(ingress) = self.ingress(at) else { return true };
        let after = ingress.bytes.saturating_add(bytes);
        let shared = after.saturating_sub(reserve);
        let gained = shared.saturating_sub(ingress.bytes.saturating_sub(reserve));
        // Fixed thresholds may be larger than the free bytes of the shared part.
        let taken = if shared == 0 || (shared <= threshold && gained <= free) {
            ingress.bytes = after;
            self.shared_used = self.shared_used.saturating_add(gained);
            true
        } else if ingress.headroom.saturating_add(bytes) <= headroom {
            ingress.headroom = ingress.headroom.saturating_add(bytes);
            true
        } else {
            false
        };
        if taken {
            self.bytes = self.bytes.wrapping_add(u64::from(bytes));
            self.counters.most_bytes = self.counters.most_bytes.max(self.bytes);
        } else {
            self.counters.dropped = self.counters.dropped.saturating_add(1);
        }
        self.judge(at);
        taken
    }

    /// Processes a packet that has left the switch.
    fn release(&mut self, at: Queue, bytes: Bytes) {
        let reserve = self.params.reserve;
        let Some(ingress) = self.ingress(at) else { return };
        let bytes = bytes.get().min(ingress.bytes.saturating_add(ingress.headroom));
        let from_headroom = bytes.min(ingress.headroom);
        ingress.headroom = ingress.headroom.wrapping_sub(from_headroom);
        let before = ingress.bytes.saturating_sub(reserve);
        ingress.bytes = ingress.bytes.wrapping_sub(bytes.wrapping_sub(from_headroom));
        let lost = before.wrapping_sub(ingress.bytes.saturating_sub(reserve));
        self.shared_used = self.shared_used.saturating_sub(lost);
        self.bytes = self.bytes.saturating_sub(u64::from(bytes));
        self.judge(at);
    }

    /// The threshold of the shared part now, in bytes.
    fn threshold(&self) -> u32 {
        match self.params.fixed {
            Some((xoff, _)) => xoff,
            None => self.params.shared.saturating_sub(self.shared_used) >> self.params.alpha_shift,
        }
    }

    /// Decides whether the neighbour is to be paused now. Between the two thresholds nothing changes.
    fn judge(&mut self, at: Queue) {
        let threshold = self.threshold();
        let Params { reserve, resume_offset, fixed, .. } = self.params;
        let Some(ingress) = self.ingress(at) else { return };
        let shared = ingress.bytes.saturating_sub(reserve);
        if ingress.headroom > 0 || (shared > 0 && shared >= threshold) {
            if !ingress.pausing {
                ingress.pausing = true;
                self.counters.pauses = self.counters.pauses.saturating_add(1);
            }
        } else if shared == 0
            || fixed.map_or(shared.saturating_add(resume_offset) <= threshold, |(_, xon)| shared <= xon)
        {
            ingress.pausing = false;
        }
    }
}

cc_core::snapshot! {
    /// One ingress queue of a shared buffer. The bytes of the whole buffer are the sum over its queues.
    pub struct IngressSnapshot {
        /// Bytes in the reserve and the shared part.
        pub bytes: Bytes,
        /// Bytes in the headroom.
        pub headroom: Bytes,
        /// The neighbour is paused.
        pub is_pausing: bool,
    }
}

impl<Q: Storage> Inspect for SharedBuffer<Q> {
    type Snapshot = IngressSnapshot;

    fn snapshot(&self, at: Queue) -> Option<IngressSnapshot> {
        let ingress = self.ingress.items().get(at.index()).filter(|ingress| ingress.configured)?;
        Some(IngressSnapshot {
            bytes: Bytes::new(ingress.bytes),
            headroom: Bytes::new(ingress.headroom),
            is_pausing: ingress.pausing,
        })
    }

    fn inject(&mut self, at: Queue, s: IngressSnapshot) -> bool {
        let Some(ingress) = self.ingress(at) else { return false };
        (ingress.bytes, ingress.headroom, ingress.pausing) = (s.bytes.get(), s.headroom.get(), s.is_pausing);
        let held = |ingress: &Ingress| u64::from(ingress.bytes).wrapping_add(ingress.headroom.into());
        self.bytes = self.ingress.items().iter().map(held).fold(0, u64::wrapping_add);
        self.set_params(self.params);
        true
    }
}

impl<Q: Storage> Stage for SharedBuffer<Q> {
    type Settings = MmuSettings;

    const NAME: &'static str = "mmu";
    const PRESETS: &'static [Preset<MmuSettings>] = &[
        Preset {
            name: "hpcc",
            source: "HPCC's public simulator, switch-mmu.cc: dynamic thresholds in 32 MB",
            values: MmuSettings::HPCC,
        },
        Preset { name: "lscc", source: "LSCC IV-B: fixed thresholds, 300 and 100 KB", values: MmuSettings::LSCC },
    ];
    const TAKES: Kinds = Kinds::of(&[Kind::Arrival, Kind::Release]);
    const ADMITS: bool = true;
    const PAUSES: bool = true;
    const SIZES: StageSizes =
        StageSizes { state: size_of::<Ingress>(), queue: size_of::<Ingress>(), flow: 0, flows: 0 };

    fn make_room(&mut self, queues: usize) {
        if let Some(ingress) = Array::of_len(queues) {
            self.ingress = ingress;
        }
    }

    fn configure(
        &mut self,
        _now: Instant,
        at: Queue,
        link: &Link,
        settings: &MmuSettings,
        _seed: u64,
    ) -> Result<(), ConfigureError> {
        let params = Params::new(settings, link)?;
        let ingress = self.ingress.items_mut();
        let ports = ingress.len() >> 3;
        ingress.get_mut(at.index()).ok_or(ConfigureError::NoSuchQueue { at, ports })?.configured = true;
        if params != self.params {
            self.set_params(params);
        }
        Ok(())
    }

    #[inline(always)]
    fn on(&mut self, _now: Instant, at: Queue, event: &Event<'_>, _out: &mut impl Emit) -> Verdict {
        match *event {
            Event::Arrival { packet, .. } => Verdict { drop: !self.admit(at, packet.bytes), ..Verdict::PASS },
            Event::Release { bytes, .. } => {
                self.release(at, bytes);
                Verdict::PASS
            }
            _ => Verdict::PASS,
        }
    }

    #[inline(always)]
    fn pausing(&self, at: Queue) -> u16 {
        self.ingress.items().get(at.index()).map_or(0, |ingress| if ingress.pausing { self.params.quanta } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Rate;
    use cc_core::table::Fixed;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_000), base_rtt: Nanos::new(12_000) };
    const PACKET: Bytes = Bytes::new(1_000);
    const DATA: Queue = Queue { port: 1, class: 3 };

    fn buffer(settings: &MmuSettings) -> SharedBuffer<Fixed<32>> {
        let mut buffer = SharedBuffer::ZEROED;
        configure(&mut buffer, settings);
        buffer
    }

    fn configure(buffer: &mut SharedBuffer<Fixed<32>>, settings: &MmuSettings) {
        for queue in 0..32 {
            buffer.configure(Instant::from_nanos(0), Queue::of(queue), &LINK, settings, 0).unwrap();
        }
    }

    #[test]
    fn fixed_thresholds_pause_at_xoff_and_resume_at_xon() {
        let mut mmu = buffer(&MmuSettings { reserve: 0, ..MmuSettings::LSCC });
        let pauses: Vec<u16> = (0..310).map(|_| (mmu.admit(DATA, PACKET), mmu.pausing(DATA)).1).collect();
        let expected: Vec<u16> = (0..310).map(|packet| if packet < 299 { 0 } else { 65_535 }).collect();
        assert_eq!(pauses, expected, "from 300 KB on");
        let pauses: Vec<u16> = (0..310).map(|_| (mmu.release(DATA, PACKET), mmu.pausing(DATA)).1).collect();
        let expected: Vec<u16> = (0..310).map(|packet| if packet < 209 { 65_535 } else { 0 }).collect();
        assert_eq!(pauses, expected, "down to 100 KB");
        assert_eq!((mmu.occupancy(), mmu.counters().pauses, mmu.counters().most_bytes), (0, 1, 310_000));
    }

    #[test]
    fn equal_thresholds_keep_two_packets_of_hysteresis() {
        let mut mmu = buffer(&MmuSettings { xoff: 50_000, xon: 50_000, reserve: 0, ..MmuSettings::HPCC });
        (0..60).for_each(|_| assert!(mmu.admit(DATA, PACKET)));
        let left = (1..=60).find(|_| (mmu.release(DATA, PACKET), mmu.pausing(DATA)).1 == 0);
        assert_eq!((mmu.counters().pauses, left), (1, Some(12)), "resumes at 48 KB of 60");
    }

    #[test]
    fn the_dynamic_threshold_is_an_eighth_of_the_free_bytes_and_the_headroom_holds_packets_in_flight() {
        // 32 queues: headroom 2 x 1 us x 12.5 B/ns + 2 000 = 27 000, reserve 4 096.
        let mut mmu = buffer(&MmuSettings::HPCC);
        let shared = 32_000_000 - 32 * (27_000 + 4_096);
        let mut taken = 0;
        while mmu.pausing(DATA) == 0 {
            assert!(mmu.admit(DATA, PACKET));
            taken += 1_000;
        }
        // The pause begins at used = (shared - used) / 8.
        let expected = shared / 9 + 4_096;
        assert!((expected - 1_000..=expected + 1_000).contains(&taken), "{taken} bytes, expected about {expected}");
        let more = (0..100).filter(|_| mmu.admit(DATA, PACKET)).count();
        assert!(more == 26, "{more} packets of headroom in addition to the one that caused the pause");
        assert_eq!(mmu.counters().dropped, 100 - more as u64);
        // Another class of the same port is not paused.
        let other = Queue { class: 4, ..DATA };
        assert!(mmu.admit(other, PACKET) && mmu.pausing(other) == 0);
    }

    #[test]
    fn packets_of_a_queue_that_is_not_configured_are_not_counted() {
        let mut mmu = SharedBuffer::<Fixed<16>>::ZEROED;
        mmu.configure(Instant::from_nanos(0), DATA, &LINK, &MmuSettings::LSCC, 0).unwrap();
        let other = Queue { class: 4, ..DATA };
        (0..1_000).for_each(|_| assert!(mmu.admit(other, PACKET)));
        assert_eq!((mmu.occupancy(), mmu.pausing(other)), (0, 0));
        let error = mmu.configure(Instant::from_nanos(0), Queue { port: 2, class: 0 }, &LINK, &MmuSettings::LSCC, 0);
        assert_eq!(error.unwrap_err().to_string(), "no queue for port 2, class 0: ports are below 2, classes below 8");
    }

    #[test]
    fn a_buffer_too_small_and_an_xon_above_xoff_are_refused() {
        let message = |settings| Params::new(&settings, &LINK).unwrap_err().to_string();
        let small = MmuSettings { buffer: 900_000, ..MmuSettings::HPCC };
        assert_eq!(message(small), "buffer: must hold reserve and headroom of all lossless queues");
        assert_eq!(message(MmuSettings { xoff: 1, xon: 2, ..MmuSettings::HPCC }), "xon: must be at most xoff");
    }

    proptest! {
        /// E11: when thresholds change under traffic, every byte stays counted, and no count goes below zero.
        #[test]
        fn byte_counts_stay_exact_when_thresholds_change_e11(
            steps in prop::collection::vec((0..32_usize, 64..9_000_u32, 0..10_u8), 1..400),
        ) {
            let mut mmu = buffer(&MmuSettings::HPCC);
            let mut held: Vec<(Queue, u32)> = Vec::new();
            let (mut sum, mut dropped) = (0_u64, 0);
            for (step, (queue, bytes, kind)) in steps.into_iter().enumerate() {
                match kind {
                    0 => configure(&mut mmu, &MmuSettings::LSCC),
                    1 => configure(&mut mmu, &MmuSettings { reserve: 0, ..MmuSettings::HPCC }),
                    2..=4 if !held.is_empty() => {
                        let (at, bytes) = held.swap_remove(step % held.len());
                        mmu.release(at, Bytes::new(bytes));
                        sum -= u64::from(bytes);
                    }
                    _ if mmu.admit(Queue::of(queue), Bytes::new(bytes)) => {
                        held.push((Queue::of(queue), bytes));
                        sum += u64::from(bytes);
                    }
                    _ => dropped += 1,
                }
                prop_assert_eq!((mmu.occupancy(), mmu.counters().dropped), (sum, dropped));
            }
            for (at, bytes) in held {
                mmu.release(at, Bytes::new(bytes));
            }
            prop_assert_eq!((mmu.occupancy(), mmu.shared_used), (0, 0));
            prop_assert!((0..32).all(|queue| mmu.pausing(Queue::of(queue)) == 0), "an empty buffer sends no pause");
        }
    }
}
