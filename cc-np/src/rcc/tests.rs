use super::*;
use cc_core::{IntStack, Psn, Rate, Stamp};
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };
/// C RTT.
const CARRIED: u32 = 150_000;

struct Bench {
    params: Params,
    active_flows: ActiveFlowCounter,
    flows: Vec<Rcc>,
}

impl Bench {
    fn new(flows: usize) -> Self {
        let params = Rcc::check(&STABLE, &LINK).unwrap();
        Self { params, active_flows: Rcc::SHARED, flows: std::vec![Rcc::ZEROED; flows] }
    }

    fn cx(&self, now: u64) -> Cx<'_, Params> {
        Cx { now: Instant::from_nanos(now), link: &LINK, params: &self.params }
    }

    /// A packet of a flow arrives, `delay` after it was sent. Returns the window and N of the grant.
    fn arrives(&mut self, now: u64, flow: usize, first: bool, last: bool, delay: Option<u32>) -> (u32, u16) {
        let arrived = Stamp::from_bits(now as u32);
        let arrival = Arrival {
            local: Qpn::new(flow as u32),
            psn: Psn::new(0),
            bytes: Bytes::new(1_064),
            payload: Bytes::new(1_000),
            ecn: Ecn::Ect0,
            mark: Mark::None,
            first,
            last,
            sent: delay.map(|delay| Stamp::from_bits((now as u32).wrapping_sub(delay))),
            arrived,
            int: IntStack::NONE,
            mlcc: None,
        };
        let params = self.params;
        let cx = Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
        match self.flows[flow].on(&cx, &mut self.active_flows, &arrival).grant {
            Grant::Rcc { window, flows, .. } => (window.get(), flows),
            _ => panic!("no grant"),
        }
    }
}

#[test]
fn the_window_is_what_the_link_carries_in_a_round_trip_divided_by_the_active_flows() {
    let mut bench = Bench::new(150);
    for flow in 0..150 {
        let (window, flows) = bench.arrives(flow as u64, flow, true, false, Some(5_000));
        assert_eq!((window, flows), (CARRIED / (flow as u32 + 1), flow as u16 + 1));
    }
    // The share of 150 flows is 1 000 bytes, less than a packet.
    for flow in 0..149 {
        bench.arrives(300, flow, false, true, Some(5_000));
    }
    assert_eq!(bench.arrives(400, 149, false, false, Some(5_000)), (CARRIED, 1));
}

#[test]
fn messages_are_counted_once_for_each_queue_pair_until_their_last_packet() {
    let mut bench = Bench::new(3);
    bench.arrives(0, 0, true, false, None);
    bench.arrives(1, 0, true, false, None); // its first packet again, by go-back-N
    assert_eq!(bench.arrives(2, 1, false, false, None).1, 2, "the first packet was lost");
    assert_eq!(bench.arrives(3, 2, true, true, None).1, 3, "a message of one packet counts for that packet");
    assert_eq!(bench.arrives(4, 0, false, true, None).1, 2);
    assert_eq!(bench.arrives(5, 0, false, true, None).1, 2, "its last packet again");
    assert_eq!(bench.arrives(6, 1, false, true, None).1, 1);
    assert_eq!(bench.active_flows.flows(), 1, "never zero");
}

#[test]
fn an_abandoned_message_is_no_longer_counted_without_any_wake() {
    let mut bench = Bench::new(3);
    bench.arrives(0, 0, true, false, None);
    bench.arrives(1, 1, true, false, None);
    // Sixteen round trips later both still count in N; one sends again.
    assert_eq!(bench.arrives(192_000, 1, false, false, None), (CARRIED / 2, 2));
    let end = 38 * 12_000;
    assert_eq!(bench.arrives(end, 1, false, false, None), (CARRIED, 1));
    // The other resumes and counts again. An eviction removes a flow from N once.
    assert_eq!(bench.arrives(end + 1, 0, false, false, None), (CARRIED / 2, 2));
    let (gone, mut active_flows) = (bench.flows[0], bench.active_flows);
    gone.on_evicted(&bench.cx(end + 2), &mut active_flows);
    assert_eq!((active_flows.flows(), active_flows.fair().get()), (1, CARRIED));
    let mut active_flows = bench.active_flows;
    gone.on_evicted(&bench.cx(end + 38 * 12_000), &mut active_flows);
    bench.active_flows = active_flows;
    assert_eq!(bench.arrives(end + 39 * 12_000, 2, true, false, None), (CARRIED, 1));
}

/// After a pause of many round trips the least delay is still the old one, not that of the next packet.
#[test]
fn the_least_delay_is_kept_over_pauses_of_less_than_a_second() {
    let mut bench = Bench::new(1);
    assert_eq!(Rcc::idle_timeout(&bench.params), Nanos::new(1_000_000_000));
    let mut now = 1_000;
    for pause in [300_000, 900_000_000, 999_000_000] {
        bench.arrives(now, 0, true, false, Some(5_000));
        bench.arrives(now + 1_000, 0, false, true, Some(5_000));
        now += pause;
        bench.arrives(now, 0, true, false, Some(65_000));
        assert_eq!(bench.flows[0].law().least_delay(), Some(5_000), "{pause} ns");
    }
}

#[test]
fn b_r_is_measured_over_the_last_whole_round() {
    let mut bench = Bench::new(1);
    // A packet of 1 064 bytes each 100 ns, and 24 bytes between packets: 10.88 of the 12.5 B/ns.
    for packet in 0..360_u64 {
        bench.arrives(packet * 100, 0, packet == 0, false, Some(5_000));
    }
    let in_use = f64::from(bench.active_flows.in_use()) / 65_536.0;
    assert!((in_use - 10.88 / 12.5).abs() < 0.02, "{in_use}");
    bench.arrives(100_000, 0, false, false, Some(5_000));
    assert_eq!(bench.active_flows.in_use(), 0, "no packet arrived in the last round");
}

#[test]
fn congestion_inside_the_network_begins_pid_control_and_at_the_last_hop_does_not() {
    for (gap, controlled) in [(1_000_u64, true), (80, false)] {
        let mut bench = Bench::new(2);
        for packet in 0..2_000_u64 {
            let now = packet * gap;
            // Delays rise from the fourth round trip on.
            let delay = if now > 48_000 { 15_000 } else { 5_000 };
            bench.arrives(now, 0, packet == 0, false, Some(delay));
            assert!(!bench.flows[0].law().is_controlled() || now > 48_000);
        }
        assert_eq!(bench.flows[0].law().is_controlled(), controlled, "a packet each {gap} ns");
    }
}

/// The last hop becomes full in the middle of a round; until then packets of a slow flow begin the rounds. B_R shows a full
/// last hop only after the first whole round from then on. PID control must not begin at any time, because the congestion is
/// not inside the network.
#[test]
fn an_incast_that_begins_anywhere_in_a_round_is_not_congestion_inside_the_network() {
    const FLOWS: usize = 16;
    for phase in (0..12_000).step_by(500) {
        let mut bench = Bench::new(FLOWS + 1);
        let begins = 120_000 + phase;
        for trickle in 0..begins / 4_000 {
            bench.arrives(trickle * 4_000, FLOWS, trickle == 0, false, Some(5_000));
        }
        for packet in 0..4_000_u64 {
            // 1 064 bytes and 24 between take 87 ns at 12.5 B/ns; the delay of the queue grows to 60 us.
            let (since, flow) = (packet * 87, packet as usize % FLOWS);
            let queue = (since * 9 / 10).min(60_000) as u32;
            bench.arrives(begins + since, flow, packet < FLOWS as u64, false, Some(5_000 + queue));
            assert!(!bench.flows[flow].law().is_controlled(), "{since} ns after an incast {phase} ns into a round");
        }
    }
}

#[test]
fn a_full_line_is_measured_as_full_at_any_speed_and_with_packets_of_any_size() {
    for (gbps, round, payload) in [
        (100, 12_000, 1_024_u32),
        (100, 12_000, 64),
        (400, 1_000_000, 4_096),
        (400, 10_000_000, 256),
        (800, 7_000_000, 4_096),
    ] {
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(4_174), base_rtt: Nanos::new(round) };
        let params = Rcc::check(&STABLE, &link).unwrap();
        let (frame, mut active_flows, mut sent) = (payload + 78, Rcc::SHARED, 0_u64);
        loop {
            // IEEE 802.3: 24 bytes more on the line than in the frame.
            let now = sent * u64::from(frame + 24) * 8 / u64::from(gbps);
            if now > u64::from(round) * 5 / 2 {
                break;
            }
            active_flows.receive(&params, Instant::from_nanos(now), Bytes::new(frame));
            sent += 1;
        }
        let in_use = f64::from(active_flows.in_use()) / 65_536.0;
        assert!(in_use > 0.985, "{in_use} at {gbps} Gb/s, {round} ns, {payload} bytes");
    }
}
