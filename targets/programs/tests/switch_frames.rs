//! The frames that stages change, and those that they send: headers, telemetry and checksums, over IPv4 and IPv6.

mod sent;

use cc_core::table::Fixed;
use cc_core::wire::shim::{self, IntShim};
use cc_core::wire::{
    Addresses, Bth, CnpMarking, Extensions, FRAMING, Frame, Icrc, Mac, RateMessage, Response, Roce, Shims, TableCrc,
    Tags, opcode,
};
use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Hop, Instant, IntLayout, Link, Nanos, Qpn, Rate};
use cc_cp::lscc::direct_int::{self, DirectInt};
use cc_cp::lscc::rate_limiting::{self, RateLimiting};
use cc_cp::{Event, OnQueues, Packet, PeerMessage, Queue, Stage, Switch, Verdict};
use programs::switch_ring;
use sent::Sent;
use std::net::{Ipv4Addr, Ipv6Addr};

const LINK: Link = Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };
const QUEUE: Queue = Queue { port: 0, class: 3 };

/// A switch with one stage, and the CNPs that it has sent.
struct Bench<S: OnQueues> {
    switch: Switch<S::Stage<Fixed<8>>, Fixed<8>>,
    sent: Sent,
}

impl<S: OnQueues> Bench<S> {
    fn new(settings: &<S::Stage<Fixed<8>> as Stage>::Settings) -> Self {
        let mut switch = Switch::new(Instant::from_nanos(0));
        switch.configure(Instant::from_nanos(0), QUEUE, &LINK, settings, 0).unwrap();
        Self { switch, sent: Sent::default() }
    }

    fn on(&mut self, now: u64, event: &Event<'_>) -> Verdict {
        self.switch.on(Instant::from_nanos(now), QUEUE, event, &mut self.sent)
    }

    fn grants(&mut self, mbps: u32) {
        let message = RateMessage { seq: 1, units: mbps, ..RateMessage::default() };
        self.on(0, &Event::Peer(PeerMessage::Rate(message)));
    }

    fn arrives(&mut self, now: u64, frame: &[u8]) {
        let roce = Roce::of(frame).unwrap();
        self.on(now, &Event::Arrival { packet: Packet::roce(&roce), queued: Bytes::ZERO });
    }

    /// A packet that has `bytes` bytes on the line, if any, joins the queue and leaves. Returns the stage's verdict on it, and the CNP
    /// that the stage sends because of it.
    fn departs(&mut self, now: u64, frame: &[u8], bytes: u32) -> (Verdict, Option<Vec<u8>>) {
        if bytes > 0 {
            self.on(now, &Event::Enqueue { bytes: Bytes::new(bytes - FRAMING) });
        }
        let roce = Roce::of(frame).unwrap();
        let (packet, queued) = (Packet { bytes: Bytes::new(bytes), roce: Some(&roce) }, Bytes::new(bytes));
        let verdict = self.on(now, &Event::Departure { packet, ecn: roce.ecn, queued, port_queued: queued });
        assert!(self.sent.0.len() <= 1);
        (verdict, self.sent.0.pop())
    }
}

/// A data packet to the queue pair `qpn` of a host, with room for `room` records of telemetry, into which `records` are
/// written.
fn data((six, host, qpn): (bool, u8, u32), layout: IntLayout, records: &[Hop], room: u8) -> Vec<u8> {
    let addresses = if six {
        Addresses::V6 { source: Ipv6Addr::from_bits(1), destination: Ipv6Addr::from_bits(host.into()) }
    } else {
        Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 1, 0, host) }
    };
    let frame = Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 61,
        udp_source: 0xc123,
        shims: Shims { int: Some(IntShim::empty(layout, 5, room)), ..Shims::NONE },
        bth: Bth { opcode: opcode::SEND_MIDDLE, dest_qp: Qpn::new(qpn), ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[0; 8],
    };
    let mut bytes = frame.to_vec::<TableCrc>().unwrap();
    for record in records {
        let len = bytes.len();
        shim::push_into(&mut bytes, len, shim::PORT, record).unwrap();
    }
    bytes
}

fn respond(response: &Response<'_>) -> Vec<u8> {
    response.to_vec::<TableCrc>().unwrap()
}

fn hop(queue: u32) -> Hop {
    Hop { mbps: 100_000, flags: 0, clock: 9, sent: 3, queue }
}

#[test]
fn a_direct_int_returns_the_packets_records_and_one_more_and_clears_them_in_the_packet() {
    for six in [false, true] {
        let mut bench = Bench::<DirectInt>::new(&direct_int::PRESETS[0].values);
        let mut frame = data((six, 2, 17), IntLayout::Wide, &[hop(1), hop(2), hop(3)], 6);
        let (verdict, cnp) = bench.departs(5, &frame, 170);
        let length = frame.len();
        switch_ring::rewrite(&mut frame, length, shim::PORT, &verdict.rewrite.unwrap());
        let cnp = cnp.unwrap();
        let cnp = Roce::of(&cnp).unwrap();
        assert_eq!((cnp.bth.opcode, cnp.icrc::<TableCrc>()), (opcode::CNP, Icrc::Valid));
        let int = cnp.switch_int().unwrap();
        let queues: Vec<u32> = int.stack().iter().map(|hop| hop.queue).collect();
        assert_eq!((int.path(), queues), (5, vec![1, 2, 3, 170]));
        let Some(CnpBodyKind::Extended(body)) = cnp.cnp() else { panic!("a body") };
        assert_eq!((body.kind, body.names_remote_qpn, body.remote_qpn.get()), (CnpKind::DirectInt, true, 17));
        let forwarded = Roce::of(&frame).unwrap();
        assert_eq!((forwarded.int_shim().unwrap().hops(), forwarded.int_shim().unwrap().area().len()), (0, 96));
        assert_eq!(forwarded.icrc::<TableCrc>(), Icrc::Valid);
    }
}

#[test]
fn telemetry_that_cannot_take_one_more_record_is_not_returned() {
    let returned = |layout, records: &[Hop], room| {
        let mut bench = Bench::<DirectInt>::new(&direct_int::PRESETS[1].values);
        bench.departs(0, &data((false, 2, 17), layout, records, room), 1_000).1.is_some()
    };
    assert!(returned(IntLayout::Wide, &[], 0), "the pseudo queue alone");
    assert!(returned(IntLayout::Wide, &[hop(1); 13], 13));
    assert!(!returned(IntLayout::Wide, &[hop(1); 14], 14), "more than a shim holds");
    assert!(!returned(IntLayout::Wide, &[hop(1); 3], 2), "overflowed");
    assert!(
        !returned(IntLayout::Compact, &[hop(1); 2], 6),
        "the compact layout has no code for R, the pseudo queue's speed"
    );
}

#[test]
fn a_direct_cnp_is_a_valid_frame_to_the_sender() {
    for six in [false, true] {
        let mut bench = Bench::<RateLimiting>::new(&rate_limiting::PAPER);
        bench.grants(1_000);
        let frame = data((six, 2, 0x0012_3456), IntLayout::Wide, &[], 0);
        assert_eq!(bench.departs(0, &frame, 2_100_000).1, None);
        let cnp = bench.departs(60_000, &frame, 0).1.unwrap();
        let (packet, cnp) = (Roce::of(&frame).unwrap(), Roce::of(&cnp).unwrap());
        assert_eq!((cnp.bth.opcode, cnp.icrc::<TableCrc>()), (opcode::CNP, Icrc::Valid));
        assert_eq!(cnp.addresses(), packet.addresses().reversed());
        let Some(CnpBodyKind::Extended(body)) = cnp.cnp() else { panic!("a body") };
        assert_eq!((body.kind, body.names_remote_qpn, body.remote_qpn.get()), (CnpKind::Direct, true, 0x0012_3456));
        assert_eq!(bench.departs(60_001, &frame, 0).1, None, "one in a period");
    }
}

#[test]
fn a_standard_cnp_marks_only_the_flows_between_its_addresses() {
    let mut bench = Bench::<RateLimiting>::new(&rate_limiting::PAPER);
    bench.grants(1_000);
    let flows = [(false, 2, 17), (false, 2, 18), (false, 3, 17)].map(|flow| data(flow, IntLayout::Wide, &[], 0));
    let sends = |bench: &mut Bench<RateLimiting>, now: u64, flow: usize, bytes: u32| {
        bench.departs(now, &flows[flow], bytes).1.is_some()
    };
    // Each flow sends as many bytes as the threshold, after which it no longer counts as new. None is marked yet.
    for flow in 0..3 {
        sends(&mut bench, 1, flow, 63_000_000);
    }
    assert_eq!([0, 1, 2].map(|flow| sends(&mut bench, 100_000, flow, 0)), [false; 3]);
    let plain = respond(&Response::cnp(
        &Roce::of(&flows[0]).unwrap(),
        Qpn::new(99),
        CnpBodyKind::Standard,
        CnpMarking::default(),
    ));
    bench.arrives(110_000, &plain);
    assert_eq!([0, 1, 2].map(|flow| sends(&mut bench, 150_000, flow, 0)), [true, true, false]);
    assert_eq!([0, 1, 2].map(|flow| sends(&mut bench, 550_000, flow, 0)), [false; 3], "the marks have expired");
    let named = CnpBodyKind::Extended(CnpBody { remote_qpn: Qpn::new(18), ..CnpBody::default() });
    let named = respond(&Response::cnp(&Roce::of(&flows[1]).unwrap(), Qpn::new(99), named, CnpMarking::default()));
    bench.arrives(560_000, &named);
    bench.arrives(560_001, &flows[0]);
    assert_eq!([0, 1, 2].map(|flow| sends(&mut bench, 600_000, flow, 0)), [false, true, false]);
}
