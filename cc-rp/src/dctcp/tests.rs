use super::*;
use cc_core::Instant;
use cc_core::params::Settings;

const MTU: u32 = 1_000;
const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(MTU), base_rtt: Nanos::new(8_000) };

fn params(settings: DctcpSettings) -> Params {
    Dctcp::check(&settings, &LINK).unwrap()
}

/// A flow that sends and acknowledges packets of the largest size.
struct Flow<'a> {
    state: Dctcp,
    params: &'a Params,
    next: u32,
    acked: u32,
}

impl<'a> Flow<'a> {
    fn from(params: &'a Params, first: u32) -> Self {
        let state = Dctcp::open(&Self::cx(params));
        Self { state, params, next: first, acked: first }
    }

    fn cx(params: &Params) -> Cx<'_, Params> {
        let now = Instant::from_nanos(0);
        Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
    }

    fn on(&mut self, event: Event<'_>) -> Decision {
        self.state.on(&Self::cx(self.params), &event)
    }

    fn send(&mut self, packets: u32) {
        for _ in 0..packets {
            self.on(Event::Sent { psn: Psn::new(self.next), bytes: Bytes::new(MTU) });
            self.next += 1;
        }
    }

    /// One acknowledgement of this many packets.
    fn ack(&mut self, packets: u32, mark: Mark) -> Decision {
        self.acked += packets;
        let psn = Psn::new(self.acked.wrapping_sub(1));
        self.on(Event::Ack(Ack { psn, acked: Bytes::new(packets * MTU), mark, ..Ack::default() }))
    }

    /// Ten packets are in flight: a round of ten acknowledgements, of which the first `marked` carry a mark. For each a packet
    /// is sent.
    fn round(&mut self, marked: u32) {
        for nth in 0..10 {
            self.ack(1, if nth < marked { Mark::Congested } else { Mark::None });
            self.send(1);
        }
    }

    fn mbps(&self) -> f64 {
        f64::from(self.state.rate.to_bits()) / f64::from(1 << 24) * 8e3
    }

    fn alpha(&self) -> f64 {
        f64::from(self.state.alpha.to_bits()) / f64::from(1u32 << 31)
    }
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected * 1e-5 + 1e-3, "{found} for {expected}");
}

#[test]
fn the_first_mark_halves_the_rate_and_others_of_the_round_trip_do_not() {
    let params = params(SCALED);
    let mut flow = Flow::from(&params, 0);
    flow.send(10);
    // The ten packets in flight, then the first that was sent after the cut: it is a mark of the next round trip.
    for nth in 1..=11 {
        flow.ack(1, Mark::Congested);
        flow.send(1);
        assert_near(flow.mbps(), if nth < 11 { 50_000.0 } else { 25_000.0 });
    }
    assert_near(flow.alpha(), 1.0);
}

#[test]
fn alpha_falls_by_g_in_each_round_without_marks_and_the_rate_gains_a_packet() {
    let params = params(SCALED);
    let mut flow = Flow::from(&params, 0);
    flow.send(10);
    flow.ack(1, Mark::Congested);
    flow.send(1);
    // Of the first round, eleven packets, one was marked.
    for _ in 0..10 {
        flow.ack(1, Mark::None);
        flow.send(1);
    }
    let mut alpha = 15.0 / 16.0 + 1.0 / 11.0 / 16.0;
    for round in 1..200 {
        assert_near(flow.alpha(), alpha);
        // 1,000 B in 8 us are 1 Gb/s. The last acknowledgement of a round, with which the next begins, raises the rate.
        assert_near(flow.mbps(), (50_000.0 + 1_000.0 * f64::from(round)).min(100_000.0));
        flow.round(0);
        alpha *= 15.0 / 16.0;
    }
    assert!(flow.alpha() < 1e-5, "{}", flow.alpha());
}

#[test]
fn a_cut_is_by_half_of_alpha_and_no_round_that_begins_in_it_adds() {
    let params = params(HPCC_SIM);
    let mut flow = Flow::from(&params, 0);
    flow.send(10);
    (0..40).for_each(|_| flow.round(0));
    flow.ack(1, Mark::None);
    flow.send(1);
    // A mark within a round, then none: the round that ends before the cut is a round trip old adds nothing.
    let alpha = flow.alpha();
    flow.ack(1, Mark::Congested);
    flow.send(1);
    assert_near(flow.mbps(), 100_000.0 * (1.0 - alpha / 2.0));
    for _ in 0..9 {
        flow.ack(1, Mark::None);
        flow.send(1);
        assert_near(flow.mbps(), 100_000.0 * (1.0 - alpha / 2.0));
    }
    assert!(flow.state.is_reduced());
    flow.round(0);
    assert!(!flow.state.is_reduced());
    assert_near(flow.mbps(), 100_000.0 * (1.0 - alpha / 2.0) + 615.0);
}

#[test]
fn marks_count_by_the_bytes_of_their_acknowledgements() {
    let params = params(DctcpSettings { g: 999_999, ..SCALED });
    let mut flow = Flow::from(&params, 0);
    flow.send(12);
    flow.ack(1, Mark::None);
    flow.send(12);
    // The first round has 12 packets; with g near 1 alpha is its marked share. The mark of a pause is none of congestion.
    flow.ack(3, Mark::Congested);
    flow.ack(8, Mark::Undetermined);
    flow.ack(1, Mark::None);
    assert_near(flow.alpha(), 3.0 / 13.0);
    flow.send(1);
    flow.ack(11, Mark::Congested);
    flow.ack(1, Mark::Congested);
    assert_near(flow.alpha(), 1.0);
}

#[test]
fn the_rate_stays_at_the_floor() {
    let params = params(HPCC_SIM);
    let mut flow = Flow::from(&params, 0);
    flow.send(10);
    (0..20).for_each(|_| flow.round(10));
    assert_near(flow.mbps(), 1_000.0);
}

#[test]
fn the_window_follows_the_rate_or_the_line_or_is_none() {
    for (window, before, after) in [(0, 100_000, 50_000), (1, 100_000, 100_000), (2, u32::MAX, u32::MAX)] {
        let params = params(DctcpSettings { window, ..SCALED });
        let mut flow = Flow::from(&params, 0);
        flow.send(10);
        assert_eq!(flow.on(Event::Wake).window, Bytes::new(before));
        assert_eq!(flow.ack(1, Mark::Congested).window, Bytes::new(after));
    }
    // At 100 Mb/s 8 us are 100 bytes: one packet may be in flight.
    let params = params(SCALED);
    let mut flow = Flow::from(&params, 0);
    flow.send(10);
    (0..40).for_each(|_| flow.round(10));
    assert_eq!(flow.on(Event::Wake).window, Bytes::new(MTU));
}

#[test]
fn packet_numbers_wrap_and_begin_anywhere() {
    let params = params(SCALED);
    let end = |first: u32| {
        let mut flow = Flow::from(&params, first);
        flow.send(10);
        (0..100).for_each(|nth| flow.round(nth % 3));
        (flow.state.rate, flow.state.alpha)
    };
    for first in [1, 1 << 22, (1 << 23) - 7, (1 << 24) - 500, (1 << 24) - 1] {
        assert_eq!(end(first), end(0), "from {first}");
    }
}

#[test]
fn acknowledgements_of_nothing_new_or_of_what_was_not_sent_change_nothing() {
    let params = params(SCALED);
    let mut flow = Flow::from(&params, 0);
    let marked = |psn, bytes| {
        let (psn, acked) = (Psn::new(psn), Bytes::new(bytes));
        Event::Ack(Ack { psn, acked, mark: Mark::Congested, ..Ack::default() })
    };
    let fresh = flow.state;
    flow.on(marked(0, MTU));
    assert_eq!(flow.state, fresh);
    flow.send(10);
    let sent = flow.state;
    flow.on(marked(10, MTU));
    flow.on(marked(4, 0));
    assert_eq!(flow.state, sent);
}

#[test]
fn after_go_back_n_a_round_ends_where_it_would_have_ended() {
    let params = params(SCALED);
    let mut flow = Flow::from(&params, 0);
    flow.send(100);
    flow.ack(1, Mark::None);
    let round = flow.state.round;
    assert_eq!(round, Psn::new(99));
    // Packets from 1 on are sent again.
    flow.next = 1;
    for _ in 1..=99 {
        flow.send(1);
        flow.ack(1, Mark::None);
        assert_eq!(flow.state.round, round);
    }
    flow.send(1);
    flow.ack(1, Mark::None);
    assert_eq!(flow.state.round, Psn::new(100));
    // A connection that begins again far below does not wait for the old numbers.
    flow.state.round = Psn::new(9_000_000);
    flow.send(1);
    flow.ack(1, Mark::None);
    assert_eq!(flow.state.round, Psn::new(101));
}

#[test]
fn settings_that_do_not_fit_the_port_are_refused() {
    let refused = |settings: DctcpSettings, base_rtt: u32| {
        let link = Link { base_rtt: Nanos::new(base_rtt), ..LINK };
        match Dctcp::check(&settings, &link) {
            Err(ParamError::Conflict { field, .. }) => field,
            Err(ParamError::OutOfRange(field)) => field.name,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(DctcpSettings { min_rate: 100_001, ..SCALED }, 8_000), "min_rate");
    assert_eq!(refused(SCALED, 999), "base_rtt");
    assert_eq!(refused(DctcpSettings { g: 999, ..SCALED }, 8_000), "g");
    for preset in Dctcp::PRESETS {
        preset.values.in_range().unwrap();
    }
    // However long the round trip is, the rate rises.
    let link = Link { base_rtt: Nanos::MAX, ..LINK };
    assert!(Dctcp::check(&SCALED, &link).unwrap().step > Rate::ZERO);
}
