//! DCQCN+'s notification point compared with its rules in double precision.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, CnpBodyKind, Ecn, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp};
use cc_np::dcqcn_plus::{DcqcnPlus, PAPER};
use cc_np::{Arrival, Cx, NotificationPoint, Slot};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(10), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

/// DCQCN+ (ICNP 2018) IV-B2, and the rule by which records are removed from the list. Microseconds.
mod oracle {
    pub(super) const DELTA: f64 = 1.0;
    pub(super) const MINIMAL_CNP_INTERVAL: f64 = 45.0;
    pub(super) const IDLE: f64 = 100.0;

    /// A record of the list; time since the last CNP is infinite before the first.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Record {
        pub(super) ecn: bool,
        pub(super) since_cnp: f64,
        pub(super) idle_slots: f64,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    pub(super) enum Outcome {
        Pass,
        Notify,
        Leave,
    }

    /// "NP checks one record at a time to decide whether to send CNP for this flow. CNP will be sent if the ECN bit is
    /// set to 1 and the flow has not been sent CNP to for a while."
    pub(super) fn slot(record: &mut Record) -> Outcome {
        if record.ecn {
            return if record.since_cnp >= MINIMAL_CNP_INTERVAL { Outcome::Notify } else { Outcome::Pass };
        }
        record.idle_slots += 1.0;
        if record.idle_slots >= 3.0 && record.since_cnp >= IDLE { Outcome::Leave } else { Outcome::Pass }
    }

    /// (11).
    pub(super) fn tau(l: f64) -> f64 {
        l * DELTA
    }
}

use oracle::{Outcome, Record};

const MARKED: Arrival<'static> = Arrival {
    local: Qpn::new(1),
    psn: Psn::new(0),
    bytes: Bytes::new(1_064),
    payload: Bytes::new(1_000),
    ecn: Ecn::Ce,
    mark: Mark::Congested,
    first: false,
    last: false,
    sent: None,
    arrived: Stamp::from_bits(0),
    int: IntStack::NONE,
    mlcc: None,
};

/// The most by which a decision may be later than that of exact times, in microseconds, because the machine keeps times in
/// units of 1,024 ns: one unit at either end of an interval.
const COARSE: f64 = 2.048;

fn number(outcome: Outcome) -> f64 {
    match outcome {
        Outcome::Pass => 0.0,
        Outcome::Notify => 1.0,
        Outcome::Leave => 2.0,
    }
}

#[test]
fn each_slot_has_the_outcome_of_the_rules() {
    let params = DcqcnPlus::check(&PAPER.values, &LINK).unwrap();
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(13);
    let mut shared = DcqcnPlus::SHARED;
    let mut now = u64::from(random.within(0..=u32::MAX));
    // Other flows, whose only effect is the length of the list.
    let mut others = Vec::new();
    let cx = |now| Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
    let mut flow = DcqcnPlus::open(&cx(now), &mut shared, Some(Qpn::new(1)));
    let mut record = Record { ecn: false, since_cnp: f64::INFINITY, idle_slots: 0.0 };
    let mut slots = 0;
    while slots < 120_000 {
        let gap = random.within(0..=400_000);
        now += u64::from(gap);
        record.since_cnp += f64::from(gap) / 1e3;
        let cx = cx(now);
        match random.within(0..=9) {
            0..=3 => {
                assert_eq!(flow.on(&cx, &mut shared, &MARKED).cnp, None, "it waits for its slot");
                record.ecn = true;
                record.idle_slots = 0.0;
                assert!(flow.is_marked());
                continue;
            }
            4 if others.len() < 600 => {
                let other = Qpn::new(100 + others.len() as u32);
                others.push(DcqcnPlus::open(&cx, &mut shared, Some(other)));
                continue;
            }
            5 => {
                if let Some(other) = others.pop() {
                    other.on_evicted(&cx, &mut shared);
                }
                continue;
            }
            _ => {}
        }
        slots += 1;
        let before = record;
        let slot = flow.slot(&cx, &mut shared);
        let tau = oracle::tau(others.len() as f64 + 1.0);
        let (outcome, period) = match slot {
            Slot::Skip => (Outcome::Pass, 0.0),
            Slot::Remove => (Outcome::Leave, 0.0),
            Slot::Notify { local, body_kind: CnpBodyKind::Extended(body) } => {
                assert_eq!(local, Qpn::new(1));
                (Outcome::Notify, f64::from(body.period.get()) / 1e3)
            }
            Slot::Notify { body_kind: CnpBodyKind::Standard, .. } => panic!("a CNP without tau"),
        };
        // Two outcomes are allowed: that of the exact time since the last CNP, and that of a time shorter by `COARSE`.
        let allowed = [0.0, COARSE].map(|late| {
            let mut record = Record { since_cnp: before.since_cnp - late, ..before };
            let expected = oracle::slot(&mut record);
            vec![number(expected), if expected == Outcome::Notify { tau } else { 0.0 }]
        });
        let [punctual, late] = allowed;
        let allowed = if punctual == late { vec![punctual] } else { vec![punctual, late] };
        tolerance.assert(&(now, before), &[("outcome", number(outcome), 0.0), ("tau", period, 0.0)], &allowed);
        oracle::slot(&mut record);
        match outcome {
            Outcome::Notify if random.within(0..=9) != 0 => {
                assert!(before.since_cnp >= oracle::MINIMAL_CNP_INTERVAL, "never early");
                flow.on_cnp_sent(&cx, &mut shared);
                record = Record { ecn: false, since_cnp: 0.0, idle_slots: 0.0 };
            }
            Outcome::Leave => {
                assert!(before.since_cnp >= oracle::IDLE, "never early");
                flow.on_evicted(&cx, &mut shared);
                flow = DcqcnPlus::open(&cx, &mut shared, Some(Qpn::new(1)));
                record = Record { ecn: false, since_cnp: f64::INFINITY, idle_slots: 0.0 };
            }
            _ => {}
        }
        assert_eq!(flow.is_marked(), record.ecn);
        assert_eq!(shared.listed() as usize, others.len() + 1);
    }
    tolerance.finish(100_000);
}
