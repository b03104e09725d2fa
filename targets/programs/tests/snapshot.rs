//! A harness reads a flow's state from a NIC, and replaces it.

use cc_core::table::Handle;
use cc_core::{Bytes, Instant, Link, Nanos, Qpn, Rate};
use cc_rp::RateLimiter;
use cc_rp::dcqcn::{Dcqcn, DcqcnSnapshot, PAPER};
use programs::{Nic, Small};

/// A rate limiter that keeps the last rate.
struct Limiter(Rate);

impl RateLimiter for Limiter {
    fn set(&mut self, _index: u16, rate: Rate, _window: Bytes, _hold: Nanos) {
        self.0 = rate;
    }
}

#[test]
fn an_injected_state_sets_the_rate_at_once_and_is_read_back_unchanged() {
    let link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(4_096), base_rtt: Nanos::new(12_000) };
    let now = Instant::from_nanos(1 << 40);
    let np = cc_np::dcqcn::PAPER.values;
    let mut nic = Nic::<Dcqcn, cc_np::dcqcn::Dcqcn, Small>::new(now, link, &PAPER, &np).unwrap();
    let mut limiter = Limiter(Rate::ZERO);
    let flow: Handle = nic.open(now, 3, &mut limiter).unwrap();
    assert_eq!(limiter.0, link.line_rate);
    let later = now.stamp().after(Nanos::new(1_000_000));
    let (current, target) = (Rate::from_gbps(40), Rate::from_gbps(80));
    let state = DcqcnSnapshot { current, target, rate_due: later, is_limited: true, ..nic.snapshot(flow).unwrap() };
    assert!(nic.inject(now, flow, state, &mut limiter));
    assert_eq!((limiter.0, nic.snapshot(flow)), (current, Some(state)));
    assert!(nic.close(flow));
    assert!(nic.snapshot(flow).is_none() && !nic.inject(now, flow, state, &mut limiter));
    assert!(nic.snapshot_received(Qpn::new(1)).is_none());
}
