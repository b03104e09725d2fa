//! The shared packet buffer of a switch, and the PFC pauses (IEEE 802.1Qbb) that keep its lossless classes free of loss.
//!
//! Each packet of data is counted where it came in, by (port, class), and where it waits to leave. Its bytes are charged to one of
//! three parts of the buffer:
//!
//! ```text
//! T        = alpha x (shared part - shared bytes in use), or a static number of bytes
//!
//! lossless   to the reserve of its ingress (port, class); then to the shared part, up to T for each; else to the headroom
//!   pause    when headroom is in use, or the shared bytes have reached T
//!   resume   when no headroom is in use, and the shared bytes are resume_offset below T, or below resume_below
//!   drop     when the headroom is full: it was too small
//! lossy      to the shared part, while its egress queue with it is at most T of lossy classes; else it is dropped
//! ```
//!
//! The rules for lossless classes are those of HPCC's ns-3 (`switch-mmu.cc`). The dynamic threshold is that of Choudhury and Hahne
//! (IEEE/ACM Transactions on Networking 6(2), 1998). Control packets that do not wait with data are not counted.

use super::host::DATA_CLASS;
use super::port::{CLASSES, FRAMING, Port};
use super::{Effects, Topology};
use crate::Picos;
use anyhow::{Result, bail, ensure};
use cc_core::Nanos;
use cc_core::wire::pfc::{self, Quantum};

/// The packet buffer of each switch of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Bytes of a switch's whole buffer, below 2^40. Default: 32 MiB, `BUFFER_SIZE` of HPCC's `run.py` at 100 Gb/s.
    pub pool: u64,
    /// Headrooms are in addition to the pool. Default: they are a part of it, as in `switch-mmu.cc`.
    pub headroom_apart: bool,
    /// The lossless classes, a bit each: class n is bit n. All others are lossy; zero switches PFC off. (PFC without congestion
    /// control is the algorithm `pfc` with no stages.) Each lossless class has a reserve and a headroom at each port. Default: class
    /// 3, that of the fabric's data.
    pub lossless: u8,
    /// The pause time of a PFC frame. Rounded up to quanta of the port, of which there are at most 65,535. The frame is sent again
    /// after half of it while the pause lasts. Default: the longest.
    pub pause: Nanos,
    /// The limits at each port.
    pub limits: Limits,
    /// The limits at the switch ports at the ends of some links, in place of `limits`: a link's number in [`Topology::links`], in
    /// ascending order, and the limits.
    pub links: Vec<(u32, Limits)>,
}

/// The limits of the classes at a switch port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Bytes that each lossless class has for itself. Default: 4,096 (`reserve` of `switch-mmu.cc`).
    pub reserve: u32,
    /// What each lossless class has for packets that arrive while a pause takes effect. Default: [`Headroom::Worst`].
    pub headroom: Headroom,
    /// The threshold of the shared bytes of each lossless class that came in by the port. Default: alpha 1/8 (`pfc_a_shift` of
    /// HPCC's `third.cc`).
    pub threshold: Threshold,
    /// A pause ends when the shared bytes are this many below the threshold. Default: 3,072 (`resume_offset` of
    /// `switch-mmu.cc`).
    pub resume_offset: u32,
    /// A pause also ends when fewer shared bytes than this are in use. Default: 1 (`switch-mmu.cc`: when none are).
    pub resume_below: u32,
    /// The threshold of each lossy class's queue at the port. Default: alpha 1 (`alphaEgress` of ns3-datacenter's
    /// `switch-mmu.cc`).
    pub lossy_threshold: Threshold,
}

/// A threshold of a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Threshold {
    /// A multiple of the shared bytes that are free: above 0, at most 64.
    Dynamic(f64),
    /// Bytes. The sum over queues may exceed the shared part, which is never overdrawn.
    Static(u32),
}

/// The headroom of a lossless class at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headroom {
    /// The most that can arrive after a packet has crossed the threshold (IEEE 802.1Qbb annex O, without delays inside
    /// interfaces): what the link carries in two propagation delays, a PFC frame, and three of the longest frames, which are the
    /// one that crosses, the one that leaves before the PFC frame does, and the one that the neighbour sends when the PFC frame
    /// arrives. Each frame is counted with its 24 bytes of preamble, check sequence and gap:
    ///
    /// `2 x delay x rate + (60 + 24) + 3 x (frame + 24)` bytes
    Worst,
    /// What the link carries in this many propagation delays. HPCC's ns-3 has 3.
    Delays(u32),
    /// Bytes.
    Bytes(u32),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reserve: 4_096,
            headroom: Headroom::Worst,
            threshold: Threshold::Dynamic(0.125),
            resume_offset: 3_072,
            resume_below: 1,
            lossy_threshold: Threshold::Dynamic(1.0),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            pool: 32 << 20,
            headroom_apart: false,
            lossless: 1 << DATA_CLASS,
            pause: Nanos::MAX,
            limits: Limits::default(),
            links: Vec::new(),
        }
    }
}

impl Buffer {
    /// Checks what does not depend on a switch.
    pub(super) fn check(&self, topology: &Topology) -> Result<()> {
        ensure!(self.pool < 1 << 40, "a buffer of {} bytes: expected less than 2^40", self.pool);
        ensure!(
            self.links.is_sorted_by(|one, next| one.0 < next.0),
            "limits of links: expected ascending numbers of links"
        );
        let links = topology.links.len();
        if let Some((link, _)) = self.links.last() {
            ensure!((*link as usize) < links, "limits of link {link}: the topology has {links} links, counted from 0");
        }
        Ok(())
    }
}

impl Headroom {
    /// Bytes of headroom at a port with this link, whose longest frame has so many bytes.
    pub fn bytes(self, bits_per_second: u64, delay: Picos, frame_bytes: u32) -> u64 {
        let in_delay = (u128::from(bits_per_second) * u128::from(delay) / 8_000_000_000_000) as u64;
        match self {
            Self::Worst => {
                2 * in_delay + pfc::FRAME_LEN as u64 + u64::from(FRAMING) + 3 * u64::from(frame_bytes + FRAMING)
            }
            Self::Delays(delays) => u64::from(delays).saturating_mul(in_delay),
            Self::Bytes(bytes) => bytes.into(),
        }
    }
}

/// A threshold as it is computed.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// What each free byte adds, times 2^16.
    alpha: u64,
    bytes: u64,
}

impl Limit {
    fn of(threshold: Threshold) -> Result<Self> {
        match threshold {
            Threshold::Dynamic(alpha) => {
                ensure!(alpha > 0.0 && alpha <= 64.0, "alpha {alpha}: expected a number above 0 and at most 64");
                Ok(Self { alpha: (alpha * 65_536.0).round() as u64, bytes: 0 })
            }
            Threshold::Static(bytes) => Ok(Self { alpha: 0, bytes: bytes.into() }),
        }
    }

    fn at(self, free: u64) -> u64 {
        ((free * self.alpha) >> 16) + self.bytes
    }
}

/// The buffer of a switch while it runs.
#[derive(Debug)]
pub(super) struct SharedBuffer {
    /// Bytes of the shared part.
    shared: u64,
    /// Those in use.
    used: u64,
    lossless: u8,
    /// [`Effects::headroom_until_empty`].
    headroom_until_empty: bool,
    ports: Vec<PortBuffer>,
    /// When a pause is to be renewed next.
    pub(super) renew_at: Picos,
}

/// What a switch keeps of a port.
#[derive(Debug)]
struct PortBuffer {
    reserve: u32,
    headroom: u32,
    threshold: Limit,
    lossy_threshold: Limit,
    resume_offset: u32,
    resume_below: u32,
    /// The quanta of a PFC frame, and half of its time.
    quanta: u16,
    renewal: Picos,
    /// Bytes in the headroom of each class.
    in_headroom: [u32; CLASSES],
    /// The classes that the buffer wants paused, a bit each.
    pausing: u8,
    /// The pause that the stages want of each class, in quanta.
    stages: [u16; CLASSES],
    /// When the pause of each class is to be renewed, while the buffer wants it.
    renew_at: [Picos; CLASSES],
}

/// The part of the buffer that has room for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The reserve or the shared part, of which it takes so many bytes.
    Shared(u32),
    Headroom,
}

/// Bytes of an ingress (port, class) of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ingress {
    /// The port's number at the switch.
    pub(super) port: usize,
    pub(super) class: u8,
    /// Bytes in the switch that came in there.
    pub(super) arrived: u32,
}

/// No time.
const NEVER: Picos = Picos::MAX;

impl SharedBuffer {
    /// The buffer of a switch with these ports, where the longest frame has so many bytes.
    ///
    /// # Errors
    /// A limit is out of range, or reserves and headrooms leave nothing of the pool.
    pub(super) fn new(buffer: &Buffer, ports: &[Port], frame_bytes: u16, effects: &Effects) -> Result<Self> {
        let Buffer { pool, headroom_apart, lossless, pause, .. } = *buffer;
        let mut taken = 0;
        let ports = ports.iter().map(|port| {
            let own = buffer.links.binary_search_by_key(&port.link, |&(link, _)| link);
            let limits = own.map_or(buffer.limits, |place| buffer.links[place].1);
            let headroom = limits.headroom.bytes(port.bits_per_second(), port.delay(), frame_bytes.into());
            let apart = if headroom_apart { 0 } else { headroom };
            taken += u64::from(lossless.count_ones()) * (u64::from(limits.reserve) + apart);
            let Ok(headroom) = u32::try_from(headroom) else {
                bail!(
                    "a headroom of {headroom} bytes at its link of {} Gb/s and {} us: expected less than 2^32 bytes (4.29 GB); give \
                     `headroom` in bytes, or the link a shorter delay",
                    port.bits_per_second() as f64 / 1e9,
                    port.delay() as f64 / 1e6
                );
            };
            let quantum: Quantum = port.quantum();
            let quanta = quantum.quanta(pause).max(2);
            Ok(PortBuffer {
                reserve: limits.reserve,
                headroom,
                threshold: Limit::of(limits.threshold)?,
                lossy_threshold: Limit::of(limits.lossy_threshold)?,
                resume_offset: limits.resume_offset,
                resume_below: limits.resume_below,
                quanta,
                renewal: if effects.pauses_until_resumed {
                    NEVER
                } else {
                    Picos::from(quantum.pause(quanta).get().max(2) / 2) * 1_000
                },
                in_headroom: [0; CLASSES],
                pausing: 0,
                stages: [0; CLASSES],
                renew_at: [NEVER; CLASSES],
            })
        });
        let ports = ports.collect::<Result<_>>()?;
        ensure!(
            taken < pool,
            "a buffer of {pool} bytes, of which reserves and headrooms take {taken}: expected a larger pool, fewer lossless \
             classes, or smaller headrooms"
        );
        Ok(Self {
            shared: pool - taken,
            used: 0,
            lossless,
            headroom_until_empty: effects.headroom_until_empty,
            ports,
            renew_at: NEVER,
        })
    }

    /// Whether a class is lossless.
    pub(super) fn is_lossless(&self, class: u8) -> bool {
        self.lossless >> class & 1 != 0
    }

    /// The part that has room for a packet, which would wait at an egress port behind so many bytes of its class.
    #[inline(always)]
    pub(super) fn room(&self, at: Ingress, (egress, queued): (usize, u32), bytes: u32) -> Option<Part> {
        let free = self.shared - self.used;
        if !self.is_lossless(at.class) {
            let fits = u64::from(queued + bytes) <= self.ports[egress].lossy_threshold.at(free);
            return (fits && u64::from(bytes) <= free).then_some(Part::Shared(bytes));
        }
        let port = &self.ports[at.port];
        let in_headroom = port.in_headroom[usize::from(at.class)];
        let held = at.arrived - in_headroom;
        let shared = (held + bytes).saturating_sub(port.reserve);
        let gained = shared - held.saturating_sub(port.reserve);
        let counted = if self.headroom_until_empty { gained } else { 0 };
        let fits = u64::from(gained) <= free
            && u64::from(shared) <= port.threshold.at(free - u64::from(counted))
            && !(self.headroom_until_empty && in_headroom > 0);
        if fits { Some(Part::Shared(gained)) } else { (in_headroom + bytes <= port.headroom).then_some(Part::Headroom) }
    }

    /// Charges a packet to the part that has room for it. Returns whether the buffer wants a pause from now on.
    #[inline(always)]
    pub(super) fn charge(&mut self, at: Ingress, part: Part, bytes: u32) -> bool {
        let port = &mut self.ports[at.port];
        let in_headroom = &mut port.in_headroom[usize::from(at.class)];
        match part {
            Part::Shared(gained) => self.used += u64::from(gained),
            Part::Headroom => *in_headroom += bytes,
        }
        let bit = 1 << at.class;
        if self.lossless & bit == 0 || port.pausing & bit != 0 {
            return false;
        }
        let pauses = *in_headroom > 0 || {
            let shared = u64::from((at.arrived + bytes).saturating_sub(port.reserve));
            !self.headroom_until_empty && shared > 0 && shared >= port.threshold.at(self.shared - self.used)
        };
        port.pausing |= if pauses { bit } else { 0 };
        pauses
    }

    /// A packet that is still counted in `arrived` has left. Returns whether the buffer wants no pause from now on.
    pub(super) fn release(&mut self, at: Ingress, bytes: u32) -> bool {
        if !self.is_lossless(at.class) {
            self.used -= u64::from(bytes);
            return false;
        }
        let port = &mut self.ports[at.port];
        let in_headroom = &mut port.in_headroom[usize::from(at.class)];
        let held = at.arrived - *in_headroom;
        let from_headroom = bytes.min(*in_headroom);
        *in_headroom -= from_headroom;
        let shared = (held + from_headroom - bytes).saturating_sub(port.reserve);
        self.used -= u64::from(held.saturating_sub(port.reserve) - shared);
        let bit = 1 << at.class;
        if port.pausing & bit == 0 || *in_headroom > 0 {
            return false;
        }
        let threshold = port.threshold.at(self.shared - self.used);
        let resumes = shared < port.resume_below || u64::from(shared) + u64::from(port.resume_offset) <= threshold;
        port.pausing &= if resumes { !bit } else { u8::MAX };
        resumes
    }

    /// The quanta of the PFC frame that is to be sent because the buffer's wish has changed or its pause is to be renewed: those
    /// of the longest pause that the buffer or a stage wants, zero if none does.
    pub(super) fn joined(&mut self, port: usize, class: u8, now: Picos) -> u16 {
        let at = &mut self.ports[port];
        let class = usize::from(class);
        if at.pausing >> class & 1 == 0 {
            at.renew_at[class] = NEVER;
            return at.stages[class];
        }
        at.renew_at[class] = now.saturating_add(at.renewal);
        self.renew_at = self.renew_at.min(at.renew_at[class]);
        at.stages[class].max(at.quanta)
    }

    /// The stages want a class paused for these quanta; zero for none. Returns the quanta of the PFC frame that is to be sent.
    pub(super) fn stages_want(&mut self, port: usize, class: u8, quanta: u16, now: Picos) -> u16 {
        self.ports[port].stages[usize::from(class)] = quanta;
        self.joined(port, class, now)
    }

    /// The ports and classes whose pauses are to be renewed now, and when the next one is, if there is one.
    pub(super) fn due(&mut self, now: Picos) -> (Vec<(usize, u8)>, Option<Picos>) {
        let all = self.ports.iter().enumerate().flat_map(|(number, port)| {
            (0u8..).zip(port.renew_at).map(move |(class, renew_at)| (number, class, renew_at))
        });
        let (due, later): (Vec<_>, Vec<_>) = all.partition(|&(.., renew_at)| renew_at <= now);
        self.renew_at = later.into_iter().map(|(.., renew_at)| renew_at).min().unwrap_or(NEVER);
        let next = Some(self.renew_at).filter(|&next| next != NEVER);
        (due.into_iter().map(|(port, class, _)| (port, class)).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Link;
    use super::*;
    use hil_cores::random::SplitMix;

    /// The buffer of a switch with so many ports of 100 Gb/s and 1 us, for frames of 1,000 bytes.
    fn buffer(buffer: &Buffer, ports: u32, effects: &Effects) -> SharedBuffer {
        let link = Link { ends: [0, 0], bits_per_second: 100_000_000_000, delay: 1_000_000, loss: 0 };
        let port = |number| Port::new((0, number), (number, &link), FRAMING, false);
        let ports: Vec<Port> = (0..ports).map(port).collect();
        SharedBuffer::new(buffer, &ports, 1_000, effects).unwrap()
    }

    /// The ingress queue of class 3 at a port.
    fn at(port: usize, arrived: u32) -> Ingress {
        Ingress { port, class: 3, arrived }
    }

    /// A class is paused while the buffer or a stage wants it, for the longer of both times.
    #[test]
    fn pauses_of_the_buffer_and_of_stages_join() {
        let limits = Limits { threshold: Threshold::Static(1_000), reserve: 0, ..Limits::default() };
        // 100 quanta of 5.12 ns.
        let wanted = Buffer { pause: Nanos::new(512), limits, ..Buffer::default() };
        let mut buffer = buffer(&wanted, 2, &Effects::default());
        assert_eq!(buffer.stages_want(1, 3, 40, 0), 40);
        assert_eq!(buffer.renew_at, NEVER, "the switch renews the pause of its stages");
        let part = buffer.room(at(1, 0), (0, 0), 1_000).unwrap();
        assert!(buffer.charge(at(1, 0), part, 1_000));
        assert_eq!(buffer.joined(1, 3, 0), 100);
        assert_eq!(buffer.renew_at, 256_000);
        assert_eq!(buffer.stages_want(1, 3, 0, 0), 100);
        assert_eq!(buffer.stages_want(1, 3, 300, 0), 300);
        assert_eq!((buffer.stages_want(0, 3, 7, 0), buffer.stages_want(1, 4, 8, 0)), (7, 8));
        assert_eq!(buffer.due(255_999), (vec![], Some(256_000)));
        // A frame that is sent because a stage wants another pause is a renewal too.
        assert_eq!(buffer.stages_want(1, 3, 300, 100_000), 300);
        assert_eq!(buffer.due(256_000), (vec![], Some(356_000)));
        assert_eq!(buffer.due(356_000), (vec![(1, 3)], None));
        assert!(buffer.release(at(1, 1_000), 1_000));
        assert_eq!(buffer.joined(1, 3, 0), 300);
        assert_eq!(buffer.stages_want(1, 3, 0, 0), 0);
    }

    /// HPCC's rule by hand: a shared part of 80,000 bytes and alpha 1/8. A queue has 8,888 bytes when it reaches its threshold,
    /// T = (80,000 - T) / 8; by ns3-datacenter's rule the packet that crosses it is the first in the headroom.
    #[test]
    fn a_queue_pauses_at_its_share_of_what_is_free() {
        let limits = Limits { headroom: Headroom::Bytes(10_000), ..Limits::default() };
        let wanted = Buffer { pool: 80_000 + 2 * 14_096, limits, ..Buffer::default() };
        let fork = Effects { headroom_until_empty: true, ..Effects::default() };
        for (effects, pauses_at, headroom) in [(Effects::default(), 13_000, 0), (fork, 13_000, 1_000)] {
            let mut buffer = buffer(&wanted, 2, &effects);
            let mut arrived = 0;
            let paused = std::iter::from_fn(|| {
                let part = buffer.room(at(0, arrived), (1, 0), 1_000)?;
                let pauses = buffer.charge(at(0, arrived), part, 1_000);
                arrived += 1_000;
                Some((arrived, pauses))
            });
            let paused: Vec<u32> = paused.filter(|&(_, pauses)| pauses).map(|(arrived, _)| arrived).collect();
            assert_eq!(paused, [pauses_at]);
            // Ten packets more fit the headroom.
            assert_eq!(arrived, pauses_at - headroom + 10_000);
        }
    }

    /// What is charged is released, whatever comes when: the bytes in use are the sum over the queues, and zero at the end. The
    /// buffer is never overdrawn.
    #[test]
    fn all_that_is_charged_is_released() {
        let thresholds = [Threshold::Dynamic(0.5), Threshold::Dynamic(4.0), Threshold::Static(30_000)];
        for (seed, threshold) in (0..).zip(thresholds.into_iter().flat_map(|threshold| [threshold; 2])) {
            let limits = Limits { threshold, reserve: 2_000, headroom: Headroom::Bytes(5_000), ..Limits::default() };
            let wanted = Buffer { pool: 150_000, lossless: 0b1010, limits, ..Buffer::default() };
            let effects = Effects { headroom_until_empty: seed % 2 == 1, ..Effects::default() };
            let mut buffer = buffer(&wanted, 4, &effects);
            let mut random = SplitMix::new(seed);
            let (mut arrived, mut queued) = ([[0u32; CLASSES]; 4], [[0u32; CLASSES]; 4]);
            let mut packets: Vec<(usize, usize, usize, u32)> = Vec::new();
            let (mut dropped, mut pauses) = (0, 0);
            for step in 0..20_000 {
                let draw = random.draw();
                let (from, to, class) = (draw as usize % 4, (draw >> 8) as usize % 4, (draw >> 16) as usize % CLASSES);
                let bytes = 64 + (draw >> 32) as u32 % 1_000;
                if step < 15_000 && draw >> 60 < 9 {
                    let ingress = Ingress { port: from, class: class as u8, arrived: arrived[from][class] };
                    let Some(part) = buffer.room(ingress, (to, queued[to][class]), bytes) else {
                        dropped += 1;
                        continue;
                    };
                    pauses += u32::from(buffer.charge(ingress, part, bytes));
                    arrived[from][class] += bytes;
                    queued[to][class] += bytes;
                    packets.push((from, to, class, bytes));
                } else if !packets.is_empty() {
                    let (from, to, class, bytes) = packets.swap_remove(from * to % packets.len());
                    let ingress = Ingress { port: from, class: class as u8, arrived: arrived[from][class] };
                    pauses -= u32::from(buffer.release(ingress, bytes));
                    arrived[from][class] -= bytes;
                    queued[to][class] -= bytes;
                }
                let shared = |port: usize, class: usize| {
                    let held = arrived[port][class] - buffer.ports[port].in_headroom[class];
                    held.saturating_sub(if buffer.is_lossless(class as u8) { 2_000 } else { 0 })
                };
                let all = (0..4).flat_map(|port| (0..CLASSES).map(move |class| (port, class)));
                assert_eq!(buffer.used, all.map(|(port, class)| u64::from(shared(port, class))).sum::<u64>());
                assert!(buffer.used <= buffer.shared);
                let wanted: u32 = buffer.ports.iter().map(|port| port.pausing.count_ones()).sum();
                assert_eq!(pauses, wanted);
            }
            assert!(dropped > 100, "{dropped}");
            assert_eq!((packets.len(), buffer.used, pauses), (0, 0, 0), "{threshold:?}");
        }
    }
}
