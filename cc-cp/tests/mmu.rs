//! The shared buffer compared with its thresholds in whole numbers, event by event: admissions, pauses, renewals, and new
//! settings under traffic.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::table::Fixed;
use cc_core::{Bytes, Instant, Link, Nanos, Rate};
use cc_cp::mmu::{MmuSettings, SharedBuffer};
use cc_cp::recorder::Recorder;
use cc_cp::{Event, Packet, Queue, Switch};
use tolerance::SplitMix;

/// The thresholds of HPCC's public simulator (switch-mmu.cc) with numbers that do not wrap, and PFC's timing (IEEE 802.1Qbb): a
/// quantum is 512 bit times, and a pause is renewed after half of its time. Everything is computed from the bytes of each
/// ingress.
mod oracle {
    use std::collections::BTreeMap;

    #[derive(Clone, Copy)]
    pub(super) struct Thresholds {
        pub(super) buffer: u64,
        pub(super) queues: u64,
        pub(super) headroom: u64,
        pub(super) reserve: u64,
        pub(super) shift: u64,
        pub(super) offset: u64,
        /// Xoff and Xon, if they are fixed.
        pub(super) fixed: Option<(u64, u64)>,
        pub(super) quanta: u16,
        pub(super) gbps: u64,
    }

    #[derive(Clone, Copy, Default)]
    struct Ingress {
        bytes: u64,
        headroom: u64,
        /// When the pause is to be renewed.
        renew: Option<u64>,
    }

    pub(super) struct Buffer {
        pub(super) set: Thresholds,
        ingress: BTreeMap<(usize, usize), Ingress>,
    }

    impl Buffer {
        pub(super) fn new(set: Thresholds) -> Self {
            Self { set, ingress: BTreeMap::new() }
        }

        fn shared_of(&self, ingress: &Ingress) -> u64 {
            ingress.bytes.saturating_sub(self.set.reserve)
        }

        fn shared(&self) -> u64 {
            self.set.buffer - self.set.queues * (self.set.headroom + self.set.reserve)
        }

        fn shared_used(&self) -> u64 {
            self.ingress.values().map(|ingress| self.shared_of(ingress)).sum()
        }

        pub(super) fn occupancy(&self) -> u64 {
            self.ingress.values().map(|ingress| ingress.bytes + ingress.headroom).sum()
        }

        fn threshold(&self) -> u64 {
            match self.set.fixed {
                Some((xoff, _)) => xoff,
                None => self.shared().saturating_sub(self.shared_used()) >> self.set.shift,
            }
        }

        /// Half of the duration of a pause, in whole nanoseconds.
        pub(super) fn half_a_pause(&self) -> u64 {
            (u64::from(self.set.quanta) * 512).div_ceil(self.set.gbps) / 2
        }

        /// Returns whether there is room for the packet, and the quanta of the PFC frame, if one is sent.
        pub(super) fn admit(&mut self, now: u64, at: (usize, usize), bytes: u64) -> (bool, Option<u16>) {
            let ingress = *self.ingress.entry(at).or_default();
            let more = Ingress { bytes: ingress.bytes + bytes, ..ingress };
            let free = self.shared().saturating_sub(self.shared_used());
            let shared_after = self.shared_of(&more);
            let taken = if shared_after == 0
                || (shared_after <= self.threshold() && shared_after - self.shared_of(&ingress) <= free)
            {
                self.ingress.insert(at, more);
                true
            } else if ingress.headroom + bytes <= self.set.headroom {
                self.ingress.insert(at, Ingress { headroom: ingress.headroom + bytes, ..ingress });
                true
            } else {
                false
            };
            (taken, self.pfc_frame(now, at))
        }

        pub(super) fn release(&mut self, now: u64, at: (usize, usize), bytes: u64) -> Option<u16> {
            let ingress = self.ingress.entry(at).or_default();
            let from_headroom = bytes.min(ingress.headroom);
            ingress.headroom -= from_headroom;
            ingress.bytes -= bytes - from_headroom;
            self.pfc_frame(now, at)
        }

        fn pfc_frame(&mut self, now: u64, at: (usize, usize)) -> Option<u16> {
            let ingress = self.ingress[&at];
            let (threshold, shared) = (self.threshold(), self.shared_of(&ingress));
            let too_much = ingress.headroom > 0 || (shared > 0 && shared >= threshold);
            let little = match self.set.fixed {
                Some((_, xon)) => shared <= xon,
                None => shared + self.set.offset <= threshold,
            };
            let renew = Some(now + self.half_a_pause());
            let ingress = self.ingress.get_mut(&at)?;
            match ingress.renew {
                None if too_much => {
                    ingress.renew = renew;
                    Some(self.set.quanta)
                }
                Some(_) if !too_much && (shared == 0 || little) => {
                    ingress.renew = None;
                    Some(0)
                }
                _ => None,
            }
        }

        /// The queues whose pause is renewed at `now`.
        pub(super) fn wake(&mut self, now: u64) -> Vec<(usize, usize)> {
            let half = self.half_a_pause();
            let due = self.ingress.iter_mut().filter(|(_, ingress)| ingress.renew.is_some_and(|at| at <= now));
            due.map(|(&at, ingress)| {
                ingress.renew = Some(now + half);
                at
            })
            .collect()
        }

        pub(super) fn next_wake(&self, now: u64) -> Option<u64> {
            self.ingress.values().filter_map(|ingress| ingress.renew).min().map(|at| at.saturating_sub(now))
        }
    }
}

const QUEUES: usize = 8;
const MTU: u32 = 1_500;

/// Random settings for a port of this speed, in multiples of `grain` bytes, and the thresholds of the oracle for them.
fn settings(random: &mut SplitMix, gbps: u32, grain: u32) -> (MmuSettings, oracle::Thresholds) {
    let is_fixed = random.within(0..=1) == 0;
    let mut bytes = |most: u32| random.within(1..=most / grain) * grain;
    let xoff = if is_fixed { bytes(400_000) } else { 0 };
    let (xon, headroom, reserve, resume_offset) =
        (bytes(xoff.max(grain)).min(xoff), bytes(60_000), bytes(10_000), bytes(10_000));
    let buffer = 1_000_000 + bytes(1_000_000);
    let xon = if random.within(0..=2) == 0 { xoff } else { xon };
    let (headroom, link_delay) = (headroom * random.within(0..=1), random.within(0..=500));
    let set = MmuSettings {
        buffer,
        headroom,
        link_delay,
        lossless_queues: QUEUES as u32,
        reserve: reserve * random.within(0..=1),
        alpha_shift: random.within(0..=6),
        resume_offset,
        xoff,
        xon,
        pause_quanta: random.within(2..=65_535),
    };
    // What arrives at line rate in twice the delay, and two packets.
    let computed = u64::from(link_delay * 2 * gbps / 8 + 2 * MTU);
    let thresholds = oracle::Thresholds {
        buffer: set.buffer.into(),
        queues: QUEUES as u64,
        headroom: if headroom == 0 { computed } else { headroom.into() },
        reserve: set.reserve.into(),
        shift: set.alpha_shift.into(),
        offset: set.resume_offset.into(),
        fixed: is_fixed.then(|| (xoff.into(), xon.min(xoff.saturating_sub(2 * MTU)).into())),
        quanta: set.pause_quanta as u16,
        gbps: gbps.into(),
    };
    (set, thresholds)
}

/// A buffer, its oracle, and the packets in it.
struct Bench {
    switch: Switch<SharedBuffer<Fixed<16>>, Fixed<16>>,
    sent: Recorder,
    oracle: oracle::Buffer,
    held: Vec<(usize, usize, u32)>,
    dropped: u64,
    /// Number of pauses, resumes and renewals.
    frames: [u64; 3],
}

fn queue_of((port, class): (usize, usize)) -> Queue {
    Queue { port: port as u16, class: class as u8 }
}

impl Bench {
    fn configure(&mut self, now: u64, set: &MmuSettings, link: &Link) {
        for at in (0..2).flat_map(|link| (0..4).map(move |class| (link, class))) {
            self.switch.configure(Instant::from_nanos(now), queue_of(at), link, set, 0).unwrap();
        }
    }

    /// An event of a queue. Returns whether its packet is dropped, and the quanta of the PFC frame, if one is sent.
    fn on(&mut self, now: u64, at: (usize, usize), event: &Event<'_>) -> (bool, Option<u16>) {
        let verdict = self.switch.on(Instant::from_nanos(now), queue_of(at), event, &mut self.sent);
        let frame = self.sent.pfcs.pop();
        assert!(self.sent.pfcs.is_empty() && frame.is_none_or(|(to, _)| to == queue_of(at)));
        (verdict.drop, frame.map(|(_, quanta)| quanta))
    }

    fn admit(&mut self, now: u64, at: (usize, usize), bytes: u32) {
        let packet = Packet::of(Bytes::new(bytes));
        let (dropped, frame) = self.on(now, at, &Event::Arrival { packet, queued: Bytes::ZERO });
        let (taken, quanta) = self.oracle.admit(now, at, bytes.into());
        assert_eq!((!dropped, frame), (taken, quanta));
        if taken {
            self.held.push((at.0, at.1, bytes));
        } else {
            self.dropped += 1;
        }
        self.count(quanta);
    }

    fn release(&mut self, now: u64, which: u32) {
        let Some(last) = self.held.len().checked_sub(1) else { return };
        let (port, queue, bytes) = self.held.swap_remove(which as usize % (last + 1));
        let event = Event::Release { bytes: Bytes::new(bytes), queued: Bytes::ZERO };
        let frame = self.on(now, (port, queue), &event);
        let quanta = self.oracle.release(now, (port, queue), bytes.into());
        assert_eq!(frame, (false, quanta));
        self.count(quanta);
    }

    fn wake(&mut self, now: u64) {
        let quanta = self.oracle.set.quanta;
        self.switch.wake(Instant::from_nanos(now), &mut self.sent);
        let expected = self.oracle.wake(now).into_iter().map(|at| (queue_of(at), quanta));
        let sent = std::mem::take(&mut self.sent.pfcs);
        assert_eq!(sent, expected.collect::<Vec<_>>());
        self.frames[2] += sent.len() as u64;
    }

    /// The time from `now` to the next wake of the switch.
    fn next_wake(&self, now: u64) -> u64 {
        self.switch.next_wake().nanos().saturating_sub(now)
    }

    fn count(&mut self, quanta: Option<u16>) {
        if let Some(quanta) = quanta {
            self.frames[usize::from(quanta == 0)] += 1;
        }
    }
}

#[test]
fn each_packet_and_each_pause_follows_the_thresholds() {
    let mut random = SplitMix::new(5);
    let mut often = [0; 4];
    for run in 0..100 {
        let gbps = [10, 25, 40, 50, 100, 200, 400, 800][random.within(0..=7) as usize];
        let port = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(MTU), base_rtt: Nanos::new(12_000) };
        // With whole kilobytes queues have the length of a threshold exactly.
        let grain = [1, 1_000][run / 2 % 2];
        let (mut set, thresholds) = settings(&mut random, gbps, grain);
        let mut now = random.draw() >> 2;
        let mut bench = Bench {
            switch: Switch::new(Instant::from_nanos(now)),
            sent: Recorder::default(),
            oracle: oracle::Buffer::new(thresholds),
            held: Vec::new(),
            dropped: 0,
            frames: [0; 3],
        };
        bench.configure(now, &set, &port);
        for event in 0..2_000 {
            now += u64::from(random.within(0..=2_000));
            // The buffer fills and drains in turn. Half of the packets belong to one queue.
            let fills = event / 300 % 2 == 0;
            let incast = random.within(0..=1) == 0;
            let queue = if incast { (0, 3) } else { (random.within(0..=1) as usize, random.within(0..=3) as usize) };
            match random.within(0..=9) {
                0 => bench.wake(now),
                1 if run % 2 == 0 && random.within(0..=9) == 0 => {
                    // Other thresholds under traffic: the packets stay in the buffer.
                    let thresholds;
                    (set, thresholds) = settings(&mut random, gbps, grain);
                    bench.oracle.set = thresholds;
                    bench.configure(now, &set, &port);
                }
                kind if (kind < 8) == fills => {
                    bench.admit(now, queue, (random.within(64..=9_216) / grain).max(1) * grain)
                }
                _ => bench.release(now, random.within(0..=u32::MAX)),
            }
            let mmu = bench.switch.stages();
            let counters = *mmu.counters();
            assert_eq!((mmu.occupancy(), counters.dropped), (bench.oracle.occupancy(), bench.dropped), "{set:?}");
            assert_eq!(counters.pauses, bench.frames[0]);
            // The wake may be earlier, because the deadline of a pause that has ended is not removed.
            let next = bench.oracle.next_wake(now).unwrap_or(u64::MAX);
            assert!(bench.next_wake(now) <= next, "{set:?}, event {event}");
            // The packets fit into the buffer, unless it became smaller under traffic.
            assert!(run % 2 == 0 || bench.switch.stages().occupancy() <= u64::from(set.buffer));
        }
        while !bench.held.is_empty() {
            bench.release(now, 0);
        }
        bench.wake(now);
        assert_eq!((bench.switch.stages().occupancy(), bench.next_wake(now)), (0, 500_000_000), "no pause is left");
        let [pauses, resumes, renewals] = bench.frames;
        assert_eq!(pauses, resumes);
        often = [often[0] + pauses, often[1] + resumes, often[2] + renewals, often[3] + bench.dropped];
    }
    assert!(often.iter().all(|&times| times > 500), "{often:?}");
}
