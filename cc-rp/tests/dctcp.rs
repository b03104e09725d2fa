//! DCTCP compared, in double precision, with the rules of mode 8 of HPCC's public simulator (`rdma-hw.cc`), which count
//! acknowledgements and compare byte numbers where the machine counts bytes and compares packet numbers.

#[allow(unreachable_pub, reason = "a module that several tests share")]
mod tolerance;

use cc_core::{Bytes, Instant, Link, Mark, Nanos, Psn, Rate};
use cc_rp::dctcp::{Dctcp, DctcpSettings, HPCC_SIM, SCALED};
use cc_rp::{Ack, Cx, Event, ReactionPoint};
use oracle::{Constants, Flow};
use std::collections::BTreeSet;
use tolerance::{SplitMix, Tolerance};

const MTU: u32 = 1_000;
const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(MTU), base_rtt: Nanos::new(12_000) };

/// The rules, for packets of 1,000 bytes that are acknowledged one by one. Rates in Mb/s; numbers of bytes do not wrap.
mod oracle {
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Constants {
        pub(super) g: f64,
        pub(super) increase: f64,
        pub(super) line: f64,
        pub(super) floor: f64,
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Flow {
        pub(super) rate: f64,
        pub(super) alpha: f64,
        /// The next byte to be sent.
        pub(super) next: u64,
        /// The next byte to be sent when the round began; 0 before the first.
        round: u64,
        marks: u64,
        /// How many acknowledgements the round has.
        acknowledgements: u64,
        /// The next byte to be sent at the cut, until a later byte is acknowledged.
        cut: Option<u64>,
    }

    impl Flow {
        pub(super) fn new(c: &Constants) -> Self {
            Self { rate: c.line, alpha: 1.0, next: 0, round: 0, marks: 0, acknowledgements: 0, cut: None }
        }

        /// All bytes before `to` are acknowledged.
        pub(super) fn acknowledge(&mut self, c: &Constants, to: u64, marked: bool) {
            self.marks += u64::from(marked);
            let ends_round = to > self.round;
            if ends_round {
                if self.round == 0 {
                    self.acknowledgements = self.next / 1_000 + 1;
                } else {
                    let share = (self.marks as f64 / self.acknowledgements as f64).min(1.0);
                    self.alpha += c.g * (share - self.alpha);
                    self.marks = 0;
                    self.acknowledgements = (self.next - to) / 1_000 + 1;
                }
                self.round = self.next;
            }
            self.cut = self.cut.filter(|&cut| to <= cut);
            match self.cut {
                None if marked => {
                    self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(c.floor);
                    self.cut = Some(self.next);
                }
                None if ends_round => self.rate = (self.rate + c.increase).min(c.line),
                _ => {}
            }
        }
    }
}

/// A hundred thousand acknowledgements with 1 to 300 packets in flight, through times with no marks, few, and all; every row of the
/// table of states and events for which an acknowledgement of one packet is enough is reached.
#[test]
fn runs_agree_with_the_simulators_rules() {
    // A packet of 1,000 bytes in 12 us.
    let scaled = Constants { g: 1.0 / 16.0, increase: 8_000.0 / 12.0, line: 100_000.0, floor: 100.0 };
    let sim = Constants { increase: 615.0, floor: 1_000.0, ..scaled };
    let slow = DctcpSettings { g: 3_000, ..SCALED };
    for (seed, (settings, c)) in
        (1..).zip([(SCALED, scaled), (HPCC_SIM, sim), (slow, Constants { g: 0.003, ..scaled })])
    {
        let params = Dctcp::check(&settings, &LINK).unwrap();
        let now = Instant::from_nanos(0);
        let cx = Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() };
        let (mut machine, mut flow) = (Dctcp::open(&cx), Flow::new(&c));
        let (mut random, mut tolerance, mut rows) = (SplitMix::new(seed), Tolerance::default(), BTreeSet::new());
        // Numbers of packets wrap in the first round.
        let first = (1 << 24) - 5;
        let (mut acked, mut target) = (0_u64, 10);
        for nth in 0..100_000_u32 {
            if nth.is_multiple_of(1_000) {
                target = u64::from(random.within(1..=300));
            }
            while flow.next / 1_000 < acked + target {
                let psn = Psn::new(first + (flow.next / 1_000) as u32);
                let event = Event::Sent { psn, bytes: Bytes::new(MTU) };
                rows.insert(machine.transition(&cx, &event));
                machine.on(&cx, &event);
                flow.next += 1_000;
            }
            let odds = [0, 1, 10, 500, 1_000][(nth / 4_000) as usize % 5];
            let marked = random.within(1..=1_000) <= odds;
            let mark = if marked { Mark::Congested } else { Mark::None };
            acked += 1;
            let psn = Psn::new(first + (acked - 1) as u32);
            let event = Event::Ack(Ack { psn, acked: Bytes::new(MTU), mark, ..Ack::default() });
            rows.insert(machine.transition(&cx, &event));
            let decision = machine.on(&cx, &event);
            flow.acknowledge(&c, acked * 1_000, marked);
            let raw = 8e3 / f64::from(1 << 24);
            let outcome = [
                ("rate", f64::from(decision.rate.to_bits()) * raw, raw),
                ("alpha", f64::from(machine.alpha().to_bits()) / f64::from(1_u32 << 31), 1e-9),
            ];
            tolerance.assert(&(nth, event), &outcome, &[vec![flow.rate, flow.alpha]]);
        }
        tolerance.finish(100_000);
        assert_eq!(rows, BTreeSet::from([0, 2, 3, 4, 5, 6, 7]), "{settings:?}");
    }
}
