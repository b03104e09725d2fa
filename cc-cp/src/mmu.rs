//! A shared packet buffer, and the pauses that keep it from overflowing (priority flow control, IEEE 802.1Qbb).
//!
//! Thresholds as in HPCC's public simulator (switch-mmu.cc), which are those of shared-memory switch chips: every
//! ingress (port, priority) has a reserve of its own, then takes from the shared part up to a threshold, and what arrives
//! while a pause takes effect goes into its headroom.
//!
//! ```text
//! T      = (buffer - all headroom - all reserves - shared in use) >> alpha_shift     dynamic, or Xoff
//! pause  when headroom is in use, or the shared part is at T
//! resume when no headroom is in use, and the shared part is empty or resume_offset below T (or at Xon)
//! drop   when the headroom is exhausted, which a lossless network must never see
//! ```
//!
//! Fixed thresholds may add up to more than the shared part, and a packet that it has no room for goes into the headroom.

use crate::Upstream;
use cc_core::clock::LocalClock;
use cc_core::params::{ParamError, Settings};
use cc_core::wire::pfc::Quantum;
use cc_core::{Bytes, Instant, Link, Nanos, Stamp, Zeroed};

cc_core::settings! {
    /// What the user sets.
    pub struct MmuSettings {
        /// The whole buffer.
        buffer: Bytes, 1..=0xffff_ffff, [];
        /// Headroom of each ingress queue; 0 computes it: twice the link's delay at line rate, and two packets.
        headroom: Bytes, 0..=0xffff_ffff, [];
        /// Propagation delay of the links, for that.
        link_delay: Nanos, 0..=100_000_000, [];
        /// Ports and priorities that have headroom and a reserve.
        lossless_queues: Count, 1..=2_048, [];
        /// What each of them has for itself.
        reserve: Bytes, 0..=0xffff_ffff, [];
        /// The dynamic threshold is what is free of the shared part, shifted right by this.
        alpha_shift: Count, 0..=16, [];
        /// By so much less than the dynamic threshold ends a pause.
        resume_offset: Bytes, 0..=0xffff_ffff, [];
        /// A fixed threshold at which to pause; 0 takes the dynamic one.
        xoff: Bytes, 0..=0xffff_ffff, ["X_off"];
        /// The fixed threshold at which to resume: at most `xoff`, and two packets below it where equal.
        xon: Bytes, 0..=0xffff_ffff, ["X_on"];
        /// What pause frames ask for. They are renewed in half that time.
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

/// What the buffer computes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// What all queues share.
    shared: u32,
    headroom: u32,
    reserve: u32,
    alpha_shift: u32,
    resume_offset: u32,
    /// Fixed thresholds (pause, resume), where there are any.
    fixed: Option<(u32, u32)>,
    quanta: u16,
    /// Half of what the quanta last.
    refresh: Nanos,
}

impl Zeroed for Params {
    const ZEROED: Self = Self {
        shared: 0,
        headroom: 0,
        reserve: 0,
        alpha_shift: 0,
        resume_offset: 0,
        fixed: None,
        quanta: 0,
        refresh: Nanos::ZERO,
    };
}

impl Params {
    /// Turns settings into parameters for links like this one.
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
        let quanta = u16::try_from(settings.pause_quanta).unwrap_or(u16::MAX);
        Ok(Self {
            shared,
            headroom,
            reserve: settings.reserve,
            alpha_shift: settings.alpha_shift,
            resume_offset: settings.resume_offset,
            fixed: (settings.xoff > 0).then_some((settings.xoff, xon)),
            quanta,
            refresh: Nanos::new(Quantum::at(link.line_rate).pause(quanta).get() >> 1),
        })
    }
}

/// What became of a packet that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Admission {
    /// It is in the buffer.
    Taken,
    /// There was no room.
    Dropped,
}

/// One ingress (port, priority).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ingress {
    /// Bytes in the reserve and the shared part.
    bytes: u32,
    /// Bytes in the headroom.
    headroom: u32,
    /// When the pause that was asked of the node upstream has to be renewed, while there is one.
    renew_at: Option<Stamp>,
}

/// What a buffer has counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MmuCounters {
    /// Packets for which there was no room.
    pub dropped: u64,
    /// Pauses asked for, renewals not counted.
    pub pauses: u64,
    /// The most bytes that were in the buffer.
    pub most_bytes: u64,
}

/// The buffer of a switch with `PORTS` ports of `PRIORITIES` classes each. The time passed to its calls may jump: see
/// [`LocalClock`].
pub struct Mmu<const PORTS: usize, const PRIORITIES: usize> {
    /// Since the first call.
    clock: Option<LocalClock>,
    params: Params,
    ingress: [[Ingress; PRIORITIES]; PORTS],
    /// Bytes in the shared part.
    shared_used: u32,
    /// Bytes in the whole buffer.
    bytes: u64,
    counters: MmuCounters,
}

/// A frame to be sent upstream: the port, the priority, and the quanta (zero resumes).
pub type PauseFrame = (usize, usize, u16);

impl<const PORTS: usize, const PRIORITIES: usize> Zeroed for Mmu<PORTS, PRIORITIES> {
    const ZEROED: Self = Self::new(Params::ZEROED);
}

impl<const PORTS: usize, const PRIORITIES: usize> Mmu<PORTS, PRIORITIES> {
    /// An empty buffer.
    pub const fn new(params: Params) -> Self {
        let ingress = Ingress { bytes: 0, headroom: 0, renew_at: None };
        let counters = MmuCounters { dropped: 0, pauses: 0, most_bytes: 0 };
        Self { clock: None, params, ingress: [[ingress; PRIORITIES]; PORTS], shared_used: 0, bytes: 0, counters }
    }

    /// Goes on with new thresholds. What is in the buffer stays in it, and fills the reserves as they are now.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
        let shared = |ingress: &Ingress| ingress.bytes.saturating_sub(params.reserve);
        self.shared_used = self.ingress.iter().flatten().map(shared).fold(0, u32::saturating_add);
    }

    /// What was counted so far.
    pub const fn counters(&self) -> &MmuCounters {
        &self.counters
    }

    /// Bytes in the buffer.
    pub const fn occupancy(&self) -> u64 {
        self.bytes
    }

    /// A packet comes in by this port, in this priority: whether there is room for it, and what to ask of the node
    /// upstream. What comes in by a port or a priority that does not exist is dropped.
    pub fn admit(
        &mut self,
        now: Instant,
        port: usize,
        priority: usize,
        bytes: Bytes,
    ) -> (Admission, Option<PauseFrame>) {
        let now = self.local(now);
        let threshold = self.threshold();
        let Params { reserve, headroom, .. } = self.params;
        let free = self.params.shared.saturating_sub(self.shared_used);
        let bytes = bytes.get();
        let Some(ingress) = self.ingress.get_mut(port).and_then(|port| port.get_mut(priority)) else {
            self.counters.dropped = self.counters.dropped.saturating_add(1);
            return (Admission::Dropped, None);
        };
        let after = ingress.bytes.saturating_add(bytes);
        let shared = after.saturating_sub(reserve);
        let gained = shared.saturating_sub(ingress.bytes.saturating_sub(reserve));
        // Fixed thresholds may promise more than there is.
        if shared == 0 || (shared <= threshold && gained <= free) {
            self.shared_used = self.shared_used.saturating_add(gained);
            ingress.bytes = after;
        } else if ingress.headroom.saturating_add(bytes) <= headroom {
            ingress.headroom = ingress.headroom.saturating_add(bytes);
        } else {
            self.counters.dropped = self.counters.dropped.saturating_add(1);
            return (Admission::Dropped, self.upstream(now, port, priority));
        }
        self.bytes = self.bytes.wrapping_add(u64::from(bytes));
        self.counters.most_bytes = self.counters.most_bytes.max(self.bytes);
        (Admission::Taken, self.upstream(now, port, priority))
    }

    /// A packet that came in by this port, in this priority, has left: what to ask of the node upstream.
    pub fn release(&mut self, now: Instant, port: usize, priority: usize, bytes: Bytes) -> Option<PauseFrame> {
        let now = self.local(now);
        let reserve = self.params.reserve;
        let ingress = self.ingress.get_mut(port)?.get_mut(priority)?;
        let bytes = bytes.get().min(ingress.bytes.saturating_add(ingress.headroom));
        let from_headroom = bytes.min(ingress.headroom);
        ingress.headroom = ingress.headroom.wrapping_sub(from_headroom);
        let before = ingress.bytes.saturating_sub(reserve);
        ingress.bytes = ingress.bytes.wrapping_sub(bytes.wrapping_sub(from_headroom));
        let lost = before.wrapping_sub(ingress.bytes.saturating_sub(reserve));
        self.shared_used = self.shared_used.saturating_sub(lost);
        self.bytes = self.bytes.saturating_sub(u64::from(bytes));
        self.upstream(now, port, priority)
    }

    /// Renews the pauses that would run out otherwise, each with a frame. To be called at least as often as
    /// [`Mmu::next_wake`] says.
    pub fn wake(&mut self, now: Instant, mut send: impl FnMut(PauseFrame)) {
        let now = self.local(now);
        let Params { quanta, refresh, .. } = self.params;
        for (port, priorities) in self.ingress.iter_mut().enumerate() {
            for (priority, ingress) in priorities.iter_mut().enumerate() {
                if ingress.renew_at.is_some_and(|at| at.is_due(now.stamp())) {
                    ingress.renew_at = Some(now.stamp().after(refresh));
                    send((port, priority, quanta));
                }
            }
        }
    }

    /// How long after `now` a pause has to be renewed; `None` while there is none.
    pub fn next_wake(&self, now: Instant) -> Option<Nanos> {
        let now = self.clock.map_or(now, |mut clock| clock.advance(now)).stamp();
        let left = |at: Stamp| if at.is_due(now) { Nanos::ZERO } else { at.since(now) };
        self.ingress.iter().flatten().filter_map(|ingress| ingress.renew_at.map(left)).min()
    }

    /// Local time at a call made at `now`.
    fn local(&mut self, now: Instant) -> Instant {
        self.clock.get_or_insert(LocalClock::new(now)).advance(now)
    }

    /// The threshold of the shared part as things stand.
    fn threshold(&self) -> u32 {
        match self.params.fixed {
            Some((xoff, _)) => xoff,
            None => self.params.shared.saturating_sub(self.shared_used) >> self.params.alpha_shift,
        }
    }

    /// What is news to the node upstream.
    fn upstream(&mut self, now: Instant, port: usize, priority: usize) -> Option<PauseFrame> {
        let threshold = self.threshold();
        let Params { reserve, resume_offset, fixed, quanta, refresh, .. } = self.params;
        let ingress = self.ingress.get_mut(port)?.get_mut(priority)?;
        let shared = ingress.bytes.saturating_sub(reserve);
        let wanted = if ingress.headroom > 0 || (shared > 0 && shared >= threshold) {
            Upstream::Pause
        } else if shared == 0
            || fixed.map_or(shared.saturating_add(resume_offset) <= threshold, |(_, xon)| shared <= xon)
        {
            Upstream::Resume
        } else {
            Upstream::AsBefore
        };
        match (wanted, ingress.renew_at) {
            (Upstream::Pause, None) => {
                ingress.renew_at = Some(now.stamp().after(refresh));
                self.counters.pauses = self.counters.pauses.saturating_add(1);
                Some((port, priority, quanta))
            }
            (Upstream::Resume, Some(_)) => {
                ingress.renew_at = None;
                Some((port, priority, 0))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Rate;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_000), base_rtt: Nanos::new(12_000) };
    const PACKET: Bytes = Bytes::new(1_000);

    fn at(now: u64) -> Instant {
        Instant::from_nanos(now)
    }

    fn buffer(settings: &MmuSettings) -> Mmu<4, 8> {
        Mmu::new(Params::new(settings, &LINK).unwrap())
    }

    #[test]
    fn fixed_thresholds_pause_at_xoff_and_resume_at_xon() {
        let mut mmu = buffer(&MmuSettings { reserve: 0, ..MmuSettings::LSCC });
        let mut frames = Vec::new();
        for packet in 0..310 {
            let (admission, frame) = mmu.admit(at(packet), 1, 3, PACKET);
            assert_eq!(admission, Admission::Taken);
            frames.extend(frame.map(|frame| (packet, frame)));
        }
        assert_eq!(frames, [(299, (1, 3, 65_535))], "at 300 KB, once");
        frames.clear();
        for packet in 0..310 {
            frames.extend(mmu.release(at(1_000), 1, 3, PACKET).map(|frame| (packet, frame)));
        }
        assert_eq!(frames, [(209, (1, 3, 0))], "at 100 KB, once");
        assert_eq!((mmu.occupancy(), mmu.counters().pauses, mmu.counters().most_bytes), (0, 1, 310_000));
    }

    #[test]
    fn equal_thresholds_keep_two_packets_of_hysteresis() {
        let settings = MmuSettings { xoff: 50_000, xon: 50_000, reserve: 0, ..MmuSettings::HPCC };
        let mut mmu = buffer(&settings);
        let paused = (0..60).filter_map(|_| mmu.admit(at(0), 0, 0, PACKET).1).count();
        let left = (1..=60).find(|_| mmu.release(at(0), 0, 0, PACKET).is_some());
        assert_eq!((paused, left), (1, Some(12)), "resumes at 48 KB of 60");
    }

    #[test]
    fn the_dynamic_threshold_is_an_eighth_of_what_is_free_and_headroom_takes_what_is_under_way() {
        // 32 queues: headroom 2 x 1 us x 12.5 B/ns + 2 000 = 27 000, reserve 4 096.
        let mut mmu = buffer(&MmuSettings::HPCC);
        let shared = 32_000_000 - 32 * (27_000 + 4_096);
        let mut taken = 0;
        let frame = loop {
            let (admission, frame) = mmu.admit(at(0), 0, 3, PACKET);
            assert_eq!(admission, Admission::Taken);
            taken += 1_000;
            if let Some(frame) = frame {
                break frame;
            }
        };
        assert_eq!(frame, (0, 3, 65_535));
        // It stops where used = (shared - used) / 8.
        let expected = shared / 9 + 4_096;
        assert!((expected - 1_000..=expected + 1_000).contains(&taken), "{taken} bytes, expected about {expected}");
        let more = (0..100).filter(|_| mmu.admit(at(0), 0, 3, PACKET).0 == Admission::Taken).count();
        assert!(more == 26, "{more} packets of headroom beside the one that brought about the pause");
        assert_eq!(mmu.counters().dropped, 100 - more as u64);
        // Another priority of the same port is not held up.
        assert_eq!(mmu.admit(at(0), 0, 4, PACKET), (Admission::Taken, None));
    }

    #[test]
    fn pauses_are_renewed_in_half_their_time_and_only_while_they_last() {
        let mut mmu = buffer(&MmuSettings { xoff: 2_000, xon: 0, reserve: 0, ..MmuSettings::HPCC });
        mmu.admit(at(0), 2, 5, PACKET);
        assert_eq!(mmu.admit(at(100), 2, 5, PACKET).1, Some((2, 5, 65_535)));
        // 65 535 quanta of 5.12 ns are 335.5 us.
        assert_eq!(mmu.next_wake(at(100)), Some(Nanos::new(167_770)));
        let mut renewed = |now| {
            let mut frames = Vec::new();
            mmu.wake(at(now), |frame| frames.push(frame));
            frames
        };
        assert_eq!(renewed(100 + 167_769), []);
        assert_eq!(renewed(100 + 167_770), [(2, 5, 65_535)]);
        assert_eq!(renewed(100 + 167_771), []);
        assert_eq!(mmu.release(at(200_000), 2, 5, PACKET), None);
        assert_eq!(mmu.release(at(200_000), 2, 5, PACKET), Some((2, 5, 0)));
        assert_eq!(mmu.next_wake(at(200_000)), None);
    }

    #[test]
    fn a_clock_that_jumps_puts_no_renewal_off() {
        for jump in [-5_000_000_000_i64, -1, 1_000_000_001, 3_000_000_000] {
            let mut mmu = buffer(&MmuSettings { xoff: 2_000, xon: 0, reserve: 0, ..MmuSettings::HPCC });
            let start = 1_u64 << 40;
            mmu.admit(at(start), 2, 5, PACKET);
            assert!(mmu.admit(at(start), 2, 5, PACKET).1.is_some());
            let after = start.wrapping_add_signed(jump);
            let mut renewed = |now| {
                let mut frames = 0;
                mmu.wake(at(now), |_| frames += 1);
                (frames, mmu.next_wake(at(now)))
            };
            // No time passes in the jump: the whole of half a pause is left.
            assert_eq!(renewed(after), (0, Some(Nanos::new(167_770))), "{jump}");
            assert_eq!(renewed(after + 167_770), (1, Some(Nanos::new(167_770))), "{jump}");
        }
    }

    #[test]
    fn a_buffer_too_small_and_thresholds_the_wrong_way_round_are_refused() {
        let message = |settings| Params::new(&settings, &LINK).unwrap_err().to_string();
        let small = MmuSettings { buffer: 900_000, ..MmuSettings::HPCC };
        assert_eq!(message(small), "buffer: must hold reserve and headroom of all lossless queues");
        assert_eq!(message(MmuSettings { xoff: 1, xon: 2, ..MmuSettings::HPCC }), "xon: must be at most xoff");
    }

    proptest! {
        /// E11: thresholds change under traffic; nothing is lost and no count goes below zero.
        #[test]
        fn accounting_survives_new_thresholds_e11(
            steps in prop::collection::vec((0..4_usize, 0..8_usize, 64..9_000_u32, 0..10_u8), 1..400),
        ) {
            let mut mmu = buffer(&MmuSettings::HPCC);
            let mut held: Vec<(usize, usize, u32)> = Vec::new();
            let (mut sum, mut dropped) = (0_u64, 0);
            for (step, (port, priority, bytes, kind)) in steps.into_iter().enumerate() {
                let now = at(step as u64);
                match kind {
                    0 => mmu.set_params(Params::new(&MmuSettings::LSCC, &LINK).unwrap()),
                    1 => mmu.set_params(Params::new(&MmuSettings { reserve: 0, ..MmuSettings::HPCC }, &LINK).unwrap()),
                    2..=4 if !held.is_empty() => {
                        let (port, priority, bytes) = held.swap_remove(step % held.len());
                        mmu.release(now, port, priority, Bytes::new(bytes));
                        sum -= u64::from(bytes);
                    }
                    _ => match mmu.admit(now, port, priority, Bytes::new(bytes)).0 {
                        Admission::Taken => {
                            held.push((port, priority, bytes));
                            sum += u64::from(bytes);
                        }
                        Admission::Dropped => dropped += 1,
                    },
                }
                prop_assert_eq!((mmu.occupancy(), mmu.counters().dropped), (sum, dropped));
            }
            for (port, priority, bytes) in held {
                mmu.release(at(1_000), port, priority, Bytes::new(bytes));
            }
            prop_assert_eq!((mmu.occupancy(), mmu.shared_used), (0, 0));
            prop_assert!(mmu.next_wake(at(1_000)).is_none(), "an empty buffer pauses no one");
        }
    }
}
