//! `echo` compared with the definition: an acknowledgement carries the strongest mark of the packets that it covers.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Ecn, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp};
use cc_np::echo::{Echo, TERNARY};
use cc_np::{Arrival, Cx, NotificationPoint};
use tolerance::{SplitMix, Tolerance};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

/// The strongest mark of the packets that an acknowledgement covers: 0 none, 1 UE, 2 CE.
mod oracle {
    pub(super) fn strongest(covered: &[f64]) -> f64 {
        covered.iter().copied().fold(0.0, f64::max)
    }
}

fn strength(mark: Mark) -> f64 {
    match mark {
        Mark::None => 0.0,
        Mark::Undetermined => 1.0,
        Mark::Congested => 2.0,
    }
}

#[test]
fn each_acknowledgement_carries_the_strongest_mark_of_the_packets_that_it_covers() {
    let params = Echo::check(&TERNARY.values, &LINK).unwrap();
    let mut random = SplitMix::new(7);
    let mut tolerance = Tolerance::default();
    let cx = Cx { now: Instant::from_nanos(0), link: &LINK, params: &params };
    let mut flow = Echo::open(&cx, &mut (), Some(Qpn::new(1)));
    let mut covered = Vec::new();
    for packet in 0..200_000_u64 {
        let cx = Cx { now: Instant::from_nanos(packet * 90), link: &LINK, params: &params };
        let mark = match random.within(0..=19) {
            0 => Mark::Congested,
            1..=3 => Mark::Undetermined,
            _ => Mark::None,
        };
        let arrival = Arrival {
            local: Qpn::new(1),
            psn: Psn::new(packet as u32),
            bytes: Bytes::new(1_064),
            payload: Bytes::new(1_000),
            ecn: Ecn::Ect0,
            mark,
            first: false,
            last: false,
            sent: None,
            arrived: Stamp::from_bits(0),
            int: IntStack::NONE,
            mlcc: None,
        };
        // One step from the machine's own state.
        let before = strength(flow.mark());
        let echo = flow.on(&cx, &mut (), &arrival).echo;
        covered.push(strength(mark));
        let outcome = [("echo", strength(echo), 0.0), ("state", strength(flow.mark()), 0.0)];
        let step = oracle::strongest(&[before, strength(mark)]);
        tolerance.assert(&packet, &outcome, &[vec![step, step]]);
        // And the whole run: all packets that no acknowledgement has covered.
        assert_eq!(strength(echo).to_bits(), oracle::strongest(&covered).to_bits());
        if random.within(0..=3) == 0 {
            flow.on_ack_sent(&cx, &mut ());
            covered.clear();
        }
    }
    tolerance.finish(100_000);
}
