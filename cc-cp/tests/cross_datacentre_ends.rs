//! The stages at the ends of a long link that send feedback, MLCC's two switches and HPCC*'s direct INT, compared with their
//! rules in double precision and on clocks that do not wrap, event by event.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::wire::shim::MlccAck;
use cc_core::wire::{FlowKey, RateMessage};
use cc_core::{Bytes, Instant, Link, Nanos, Qpn, Rate};
use cc_cp::lscc::direct_int::{self, DirectInt, DirectIntSettings};
use cc_cp::mlcc::near_source::{self, NearSource, NearSourceSettings};
use cc_cp::mlcc::per_flow_queues::{self, PerFlowQueues, PerFlowQueuesSettings};
use tolerance::SplitMix;

/// The rules of the papers. Times in nanoseconds, rates in bytes per nanosecond, sizes in bytes.
mod oracle {
    /// MLCC 3.2.2: a flow's own queue, drained at R_credit.
    #[derive(Clone, Copy)]
    pub(super) struct Queue {
        pub(super) queued: f64,
        pub(super) release: f64,
        pub(super) next: f64,
        pub(super) credit: Option<u16>,
    }

    impl Queue {
        /// The next packet may leave after the gap of this one at the rate; a packet that is late makes up for at most one gap.
        pub(super) fn depart(&mut self, now: f64, bytes: f64) {
            let gap = bytes / self.release;
            self.queued -= bytes;
            self.next = self.next.max(now - gap) + gap;
        }

        /// C_D and R_credit are those of the newest credit.
        pub(super) fn acknowledged(&mut self, credit: u16, release: f64) {
            let newer = |old: u16| (1..1 << 15).contains(&credit.wrapping_sub(old));
            if credit != 0 && self.credit.is_none_or(newer) {
                (self.credit, self.release) = (Some(credit), release);
            }
        }
    }

    /// LSCC (10), and R: that of the last feedback, and after 4 T without feedback dR more at the end of each T.
    #[derive(Clone, Copy)]
    pub(super) struct Pseudo {
        pub(super) queue: f64,
        pub(super) left: f64,
        pub(super) rate: f64,
        as_of: f64,
        rises: f64,
        /// There is feedback that is not so old that R rises by itself: only newer numbers are accepted.
        pub(super) has_feedback: bool,
    }

    #[derive(Clone, Copy)]
    pub(super) struct Link {
        pub(super) period: f64,
        pub(super) slew: f64,
        pub(super) line: f64,
    }

    impl Pseudo {
        pub(super) fn new(link: &Link, now: f64) -> Self {
            Self { queue: 0.0, left: 0.0, rate: link.line, as_of: now, rises: now, has_feedback: false }
        }

        fn drain(&mut self, until: f64) {
            let drained = (self.rate * (until - self.as_of)).min(self.queue);
            (self.queue, self.left, self.as_of) = (self.queue - drained, self.left + drained, until);
        }

        pub(super) fn pass(&mut self, link: &Link, now: f64) {
            self.has_feedback &= self.rises > now;
            while self.rate < link.line && self.rises <= now {
                self.drain(self.rises);
                self.rate = (self.rate + link.slew).min(link.line);
                self.rises += link.period;
            }
            self.drain(now);
        }

        pub(super) fn on_rate(&mut self, link: &Link, now: f64, rate: f64) {
            (self.rate, self.has_feedback) = (rate.min(link.line), true);
            self.rises = now + 5.0 * link.period;
        }
    }
}

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(24_000) };
const FLOWS: u32 = 8;

const PACKET: Bytes = Bytes::new(1_064);

fn key(flow: u32) -> FlowKey {
    FlowKey { peers: flow.wrapping_mul(0x0101_0101), data_qpn: Qpn::new(17 + flow) }
}

fn bytes_per_nano(rate: Rate) -> f64 {
    f64::from(rate.to_bits()) / f64::from(1 << 24)
}

#[test]
fn a_flow_s_own_queue_is_drained_by_the_equations() {
    let settings = PerFlowQueuesSettings { initial_rate: 25_000, min_rate: 25 };
    let p = per_flow_queues::Params::new(&settings, &LINK).unwrap();
    let (least, line) = (0.025 / 8.0, 12.5);
    let mut departures = 0;
    for seed in 0..8 {
        let mut random = SplitMix::new(seed);
        let mut machine = PerFlowQueues::<64, 4>::open();
        let mut queues: [Option<oracle::Queue>; FLOWS as usize] = [None; FLOWS as usize];
        let mut now = 4_294_000_000_u64;
        for _ in 0..40_000 {
            now += u64::from(random.within(0..=400)) * u64::from(random.within(0..=20) / 20 * 20 + 1);
            let (instant, at) = (Instant::from_nanos(now), now as f64);
            let flow = random.within(0..=FLOWS - 1);
            let key = key(flow);
            let wait = f64::from(machine.wait(instant.stamp(), key).get());
            match (&mut queues[flow as usize], random.within(0..=9)) {
                (queue, 0..4) => {
                    machine.arrive(&p, instant.stamp(), key, PACKET);
                    let new = oracle::Queue { queued: 0.0, release: 25.0 / 8.0, next: at, credit: None };
                    queue.get_or_insert(new).queued += 1_064.0;
                }
                (Some(queue), 4..8) if queue.queued > 0.0 && wait == 0.0 => {
                    let written = machine.departure(instant.stamp(), key, PACKET);
                    // The oracle continues with the machine's whole nanoseconds until the next packet may leave, and half of
                    // one for the fraction.
                    queue.depart(at, 1_064.0);
                    assert_eq!(f64::from(written.queue.get()), queue.queued);
                    assert_eq!(written.credit, queue.credit.unwrap_or(0));
                    let wait = f64::from(machine.wait(instant.stamp(), key).get());
                    let (gap, due) = (1_064.0 / queue.release, (queue.next - at).max(0.0));
                    assert!((wait - due).abs() <= 2.0 + gap * 1e-5, "{wait} ns for {due}, a gap of {gap}");
                    queue.next = if wait > 0.0 { at + wait + 0.5 } else { queue.next };
                    departures += 1;
                }
                (Some(queue), 8..) => {
                    let credit = queue.credit.unwrap_or(0).wrapping_add(random.within(0..=6) as u16).wrapping_sub(3);
                    let release = Rate::from_bits(random.within(0..=300_000_000));
                    let ack = MlccAck { credit, data_qpn: key.data_qpn, release, advised_rate: Rate::from_bits(0) };
                    machine.acknowledged(&p, key, &ack);
                    queue.acknowledged(credit, bytes_per_nano(release).clamp(least, line));
                    let (actual, expected) = (bytes_per_nano(machine.release(key).unwrap()), queue.release);
                    assert!((actual - expected).abs() <= expected * 1e-3 + 1e-6, "{actual} B/ns for {expected}");
                }
                _ => {}
            }
        }
    }
    assert!(departures > 20_000, "{departures}");
}

#[test]
fn telemetry_is_returned_to_its_source_at_the_interval_of_the_setting() {
    let mut notified = 0;
    for (seed, interval) in (0..).zip([0, 700, 2_000, 500_000]) {
        let p = near_source::Params::new(&NearSourceSettings { interval }).unwrap();
        let mut random = SplitMix::new(seed);
        let mut machine = NearSource::<64, 4>::open(Instant::from_nanos(0).stamp());
        let mut last: [Option<u64>; FLOWS as usize] = [None; FLOWS as usize];
        let mut now = 4_294_000_000_u64;
        for step in 0..30_000_u32 {
            now += u64::from(random.within(0..=300)) * u64::from(random.within(0..=50) / 50 * 50_000 + 1);
            let flow = random.within(0..=FLOWS - 1);
            if random.within(0..=99) == 0 || step % 64 == 0 {
                machine.wake(Instant::from_nanos(now).stamp());
            }
            let returned = machine.departure(&p, Instant::from_nanos(now).stamp(), key(flow));
            let last = &mut last[flow as usize];
            let due = last.is_none_or(|last| now - last >= u64::from(interval));
            if due {
                *last = Some(now);
                notified += 1;
            }
            assert_eq!(returned, due, "{step}");
        }
    }
    assert!(notified > 30_000, "{notified}");
}

#[test]
fn direct_int_carries_the_pseudo_queue_of_the_equations() {
    let settings = DirectIntSettings { spacing: 0, period: 200_000, slew: 1_000, unit: 1 };
    let p = direct_int::Params::new(&settings, &LINK).unwrap();
    let link = oracle::Link { period: 200_000.0, slew: 0.125, line: 12.5 };
    for seed in 0..4 {
        let mut random = SplitMix::new(seed);
        let mut now = 4_290_000_000_u64;
        let mut machine = DirectInt::<8>::open(&p, Instant::from_nanos(now).stamp());
        let mut pseudo = oracle::Pseudo::new(&link, now as f64);
        let (mut seq, mut without_feedback) = (0_u16, 0);
        for _ in 0..30_000 {
            without_feedback = if random.within(0..=999) == 0 { 300 } else { i32::max(without_feedback - 1, 0) };
            // One gap in 200 is so long that the pseudo queue empties and R rises more than once.
            let longest = match (random.within(0..=199), without_feedback) {
                (0, _) => 3_000_000,
                (_, 0) => 2_000,
                _ => 20_000,
            };
            now += u64::from(random.within(0..=longest));
            let (instant, at) = (Instant::from_nanos(now), now as f64);
            if random.within(0..=9) == 0 && without_feedback == 0 {
                let repeated = random.within(0..=4) == 0 && seq > 0;
                seq += u16::from(!repeated);
                let mbps = random.within(500..=120_000);
                machine.on_message(&p, instant.stamp(), &RateMessage { seq, units: mbps, ..RateMessage::default() });
                pseudo.pass(&link, at);
                if !repeated || !pseudo.has_feedback {
                    pseudo.on_rate(&link, at, f64::from(mbps) / 8_000.0);
                }
            }
            let bytes = random.within(64..=9_000);
            machine.enqueue(&p, instant.stamp(), Bytes::new(bytes));
            let record = machine.departure(&p, instant.stamp(), Some(key(1))).unwrap();
            pseudo.pass(&link, at);
            // With preamble, check sequence and gap.
            pseudo.queue += f64::from(bytes + 24);
            let near = |actual: f64, expected: f64, least: f64| (actual - expected).abs() <= expected * 1e-3 + least;
            assert!(near(f64::from(record.mbps), pseudo.rate * 8_000.0, 2.0), "{} Mb/s", record.mbps);
            assert!(near(f64::from(record.queue), pseudo.queue, 64.0), "{} B for {}", record.queue, pseudo.queue);
            assert_eq!(record.clock, now as u32);
            // One step at a time: the next begins at the machine's own state.
            pseudo.queue = f64::from(record.queue);
            pseudo.rate = bytes_per_nano(machine.rate());
        }
    }
}
