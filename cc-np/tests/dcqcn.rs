//! DCQCN's notification point compared with the paper's rule in double precision.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Ecn, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp, Zeroed};
use cc_np::dcqcn::{Dcqcn, DcqcnSettings, PAPER};
use cc_np::{Arrival, Cx, NotificationPoint};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(40), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

/// "The receiver generates and sends a CNP only if the received packet is marked and the flow has not been notified for
/// a fixed period" (DCQCN+, ICNP 2018, II-B.2). Microseconds.
mod oracle {
    pub(super) fn notifies(marked: bool, since_cnp: Option<f64>, n: f64) -> bool {
        marked && since_cnp.is_none_or(|since| since >= n)
    }
}

fn arrival(now: Instant, ecn: Ecn) -> Arrival<'static> {
    Arrival {
        local: Qpn::new(1),
        psn: Psn::new(0),
        bytes: Bytes::new(1_064),
        payload: Bytes::new(1_000),
        ecn,
        mark: if ecn == Ecn::Ce { Mark::Congested } else { Mark::None },
        first: false,
        last: false,
        sent: None,
        arrived: Stamp::from_bits(now.stamp().to_bits()),
        int: IntStack::NONE,
        mlcc: None,
    }
}

#[test]
fn each_packet_causes_a_cnp_by_the_rule() {
    let mut tolerance = Tolerance::default();
    let mut random = SplitMix::new(3);
    for _ in 0..50 {
        let n = random.within(0..=300);
        let settings = DcqcnSettings { min_time_between_cnps: n, ..PAPER.values };
        let params = Dcqcn::check(&settings, &LINK).unwrap();
        let mut now = u64::from(random.within(0..=u32::MAX));
        let mut flow = Dcqcn::ZEROED;
        for packet in 0..3_000 {
            now += u64::from(random.within(0..=30_000));
            let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
            if packet == 0 {
                flow = Dcqcn::open(&cx, &mut (), Some(Qpn::new(1)));
            }
            // One step from the machine's own state.
            let since = flow.since_cnp(&cx).map(|since| f64::from(since.get()) / 1e3);
            let marked = random.within(0..=3) != 0;
            let ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
            let expected = oracle::notifies(marked, since, n.into());
            let due = flow.on(&cx, &mut (), &arrival(cx.now, ecn)).cnp.is_some();
            let ring_has_room = random.within(0..=9) != 0;
            if due && ring_has_room {
                flow.on_cnp_sent(&cx, &mut ());
            }
            let after = flow.since_cnp(&cx).map_or(-1.0, |since| f64::from(since.get()) / 1e3);
            let since_after = if expected && ring_has_room && n > 0 {
                0.0
            } else if since.is_some_and(|since| since < f64::from(n)) {
                since.unwrap()
            } else {
                -1.0
            };
            let outcome = [("cnp", f64::from(u8::from(due)), 0.0), ("since", after, 0.0)];
            tolerance.assert(&(now, marked), &outcome, &[vec![f64::from(u8::from(expected)), since_after]]);
        }
    }
    tolerance.finish(100_000);
}

#[test]
fn a_run_of_marks_causes_a_cnp_each_50_us() {
    let params = Dcqcn::check(&PAPER.values, &LINK).unwrap();
    let mut flow = Dcqcn::ZEROED;
    let (mut last, mut now) = (None::<f64>, 5_000_000_000_u64);
    let mut random = SplitMix::new(9);
    for packet in 0..200_000 {
        now += u64::from(random.within(200..=2_000));
        let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
        if packet == 0 {
            flow = Dcqcn::open(&cx, &mut (), Some(Qpn::new(1)));
        }
        let micros = now as f64 / 1e3;
        let expected = oracle::notifies(true, last.map(|last| micros - last), 50.0);
        let due = flow.on(&cx, &mut (), &arrival(cx.now, Ecn::Ce)).cnp.is_some();
        assert_eq!(due, expected, "at {now} ns");
        if due {
            flow.on_cnp_sent(&cx, &mut ());
            last = Some(micros);
        }
    }
}
