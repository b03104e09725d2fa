//! DCQCN's notification point with ternary marks compared with a list of the marks themselves.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, CnpBodyKind, CnpKind, Ecn, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp};
use cc_np::dcqcn_tcd::{DcqcnTcd, DcqcnTcdSettings, TCD_SIM};
use cc_np::{Arrival, Cx, NotificationPoint};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

/// A CNP is due for any mark N after the last CNP or later, and carries the marks of its window: those since the last CNP, or
/// since the first mark whose CNP could not be sent, if that is less than 2 N ago. Microseconds.
mod oracle {
    #[derive(Clone, Debug, Default)]
    pub(super) struct Flow {
        pub(super) last_cnp: Option<f64>,
        /// The marks that no CNP has carried: time, and whether it was CE.
        pub(super) pending: Vec<(f64, bool)>,
    }

    /// `None` where no CNP is due; otherwise whether it carries CE, and whether it carries UE.
    pub(super) fn mark(flow: &mut Flow, now: f64, ce: bool, n: f64) -> Option<(bool, bool)> {
        let begin = flow.last_cnp.filter(|last| now - last < 2.0 * n);
        match (begin, flow.pending.first()) {
            (Some(_), _) => {}
            // The window of the last CNP is over. Marks in it that no CNP carried opened no window of their own.
            (None, Some(&(first, _))) if flow.last_cnp.is_none_or(|last| first - last >= 2.0 * n) => {
                if now - first >= 2.0 * n {
                    flow.pending.clear();
                }
            }
            (None, _) => flow.pending.clear(),
        }
        flow.pending.push((now, ce));
        let due = flow.last_cnp.is_none_or(|last| now - last >= n);
        due.then(|| (flow.pending.iter().any(|&(_, ce)| ce), flow.pending.iter().any(|&(_, ce)| !ce)))
    }
}

fn pending_marks(flow: &DcqcnTcd, cx: &Cx<'_, <DcqcnTcd as NotificationPoint>::Params>) -> [f64; 2] {
    let (ce, ue) = flow.marks(cx);
    [f64::from(u8::from(ce)), f64::from(u8::from(ue))]
}

#[test]
fn each_cnp_reports_the_marks_of_its_window() {
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(5);
    for run in 0..60 {
        let n = if run % 10 == 0 { 0 } else { random.within(1..=200) };
        let settings = DcqcnTcdSettings { min_time_between_cnps: n, ..TCD_SIM.values };
        let params = DcqcnTcd::check(&settings, &LINK).unwrap();
        let mut now = u64::from(random.within(0..=u32::MAX));
        let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
        let mut flow = DcqcnTcd::open(&cx, &mut (), Some(Qpn::new(1)));
        let mut oracle = oracle::Flow::default();
        for _ in 0..3_000 {
            now += u64::from(random.within(0..=50_000));
            let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
            let ce = random.within(0..=2) == 0;
            let mark = if ce { Mark::Congested } else { Mark::Undetermined };
            let arrival = Arrival {
                local: Qpn::new(1),
                psn: Psn::new(0),
                bytes: Bytes::new(1_064),
                payload: Bytes::new(1_000),
                ecn: if ce { Ecn::Ce } else { Ecn::Ect1 },
                mark,
                first: false,
                last: false,
                sent: None,
                arrived: Stamp::from_bits(0),
                int: IntStack::NONE,
                mlcc: None,
            };
            let micros = now as f64 / 1e3;
            let expected = oracle::mark(&mut oracle, micros, ce, n.into());
            let sent = match flow.on(&cx, &mut (), &arrival).cnp {
                Some(CnpBodyKind::Extended(body)) => {
                    assert_eq!(body.kind == CnpKind::Undetermined, !body.ce, "kind 3 where every mark was UE");
                    [1.0, f64::from(u8::from(body.ce)), f64::from(u8::from(body.ue))]
                }
                Some(CnpBodyKind::Standard) => panic!("a CNP that reports no marks"),
                None => [0.0, 0.0, 0.0],
            };
            let [ce_left, ue_left] = pending_marks(&flow, &cx);
            let outcome = [
                ("cnp", sent[0], 0.0),
                ("ce", sent[1], 0.0),
                ("ue", sent[2], 0.0),
                ("ce pending", ce_left, 0.0),
                ("ue pending", ue_left, 0.0),
            ];
            let bit = |set: bool| f64::from(u8::from(set));
            let (due, (ce_sent, ue_sent)) = (expected.is_some(), expected.unwrap_or_default());
            // With N = 0 a window is over as soon as it has begun.
            let (ce_left, ue_left) = if n == 0 {
                (false, false)
            } else {
                (oracle.pending.iter().any(|&(_, ce)| ce), oracle.pending.iter().any(|&(_, ce)| !ce))
            };
            let allowed = vec![bit(due), bit(ce_sent), bit(ue_sent), bit(ce_left), bit(ue_left)];
            tolerance.assert(&(now, mark, n), &outcome, &[allowed]);
            if due && random.within(0..=9) != 0 {
                flow.on_cnp_sent(&cx, &mut ());
                oracle = oracle::Flow { last_cnp: Some(micros), pending: Vec::new() };
            }
        }
    }
    tolerance.finish(100_000);
}
