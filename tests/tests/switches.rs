//! The frames that interconnect switches originate, and the NIC firmware that receives them. The library's congestion points
//! make the frames; the firmware on the core model checks their ICRC and changes the rate of the flow that they name.

#[path = "../../targets/programs/tests/sent/mod.rs"]
mod sent;

use cc_core::table::Heap;
use cc_core::wire::shim::{self, IntShim};
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, RateMessage, Roce, Shims, TableCrc, Tags, opcode};
use cc_core::{Bytes, Ecn, Hop, Instant, IntLayout, Link, Nanos, Psn, Qpn, Rate};
use cc_cp::list::StageList;
use cc_cp::{Event, PeerMessage, Queue, Switch};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_cores::board::{Action, Board, Pace, board};
use hil_cores::core::Ibex;
use hil_cores::firmware;
use hil_devices::boot;
use programs::descriptor::{Descriptor, DescriptorKind};
use sent::Sent;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The long link.
const LINK: Link = Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_064), base_rtt: Nanos::new(2_000_000) };

/// A board with one flow for each of these packets, in slots 0, 1 and so on. It has learnt the flow's remote end from the
/// packet.
fn sender<A: ReactionPoint, N: NotificationPoint>(flows: &[Vec<u8>]) -> Board<Ibex> {
    let chosen = ResolvedSettings::of::<A, N>(&Request::default()).unwrap();
    let mut board = board(&firmware::image(None, A::NAME).unwrap(), &boot(&chosen), Pace::Lockstep).unwrap();
    for flow in flows {
        let opened = board.deliver(&Descriptor { handle: 3, ..Descriptor::at(DescriptorKind::Open, 0) }, &[]).unwrap();
        let log = opened
            .iter()
            .rev()
            .find_map(|(_, action)| if let Action::Log(log) = action { Some(log.index) } else { None });
        let learn = Descriptor { handle: log.unwrap(), ..descriptor(DescriptorKind::LearnRemote, 0, flow) };
        board.deliver(&learn, flow).unwrap();
    }
    board
}

fn descriptor(kind: DescriptorKind, now: u64, frame: &[u8]) -> Descriptor {
    let captured = u16::try_from(frame.len()).unwrap();
    Descriptor { captured, wire_bytes: captured.into(), ..Descriptor::at(kind, now) }
}

/// Passes this frame to the board. Returns the pacer stores that it causes: slot and new rate.
fn arrives(board: &mut Board<Ibex>, now: u64, frame: &[u8]) -> Vec<(u32, Rate)> {
    let actions = board.deliver(&descriptor(DescriptorKind::Frame, now, frame), frame).unwrap();
    let pace = |action: &Action| {
        if let Action::Pace(store) = action { Some((store.index, Rate::from_bits(store.rate))) } else { None }
    };
    actions.iter().filter_map(|(_, action)| pace(action)).collect()
}

/// A data packet to the queue pair `qpn` of a far host, with room for telemetry.
fn data(six: bool, host: u8, qpn: u32) -> Vec<u8> {
    let addresses = if six {
        Addresses::V6 { source: Ipv6Addr::from_bits(1), destination: Ipv6Addr::from_bits(host.into()) }
    } else {
        Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 1, 0, host) }
    };
    emit(&Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 61,
        udp_source: 0xc123,
        shims: Shims { int: Some(IntShim::empty(IntLayout::Wide, 0, IntShim::ROOM)), ..Shims::NONE },
        bth: Bth { opcode: opcode::SEND_MIDDLE, dest_qp: Qpn::new(qpn), psn: Psn::new(9), ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[0; 1_024],
    })
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    frame.to_vec::<TableCrc>().unwrap()
}

/// The queue towards the long link.
const QUEUE: Queue = Queue { port: 0, class: 3 };

/// An interconnect switch.
struct End {
    switch: Switch<StageList, Heap>,
    sent: Sent,
}

impl End {
    /// A switch with this stage.
    fn new(stage: &str) -> Self {
        let start = Instant::from_nanos(0);
        let mut switch = Switch::<StageList, Heap>::new(start);
        switch.make_room(Queue::CLASSES);
        switch.stages_mut().add(stage, &[]).unwrap();
        switch.configure(start, QUEUE, &LINK, &(), 1).unwrap();
        Self { switch, sent: Sent::default() }
    }

    /// The switch at the other end of the long link requests this rate, in Mb/s.
    fn grants(&mut self, mbps: u32) {
        let message = RateMessage { seq: 1, units: mbps, ..RateMessage::default() };
        let event = Event::Peer(PeerMessage::Rate(message));
        self.switch.on(Instant::from_nanos(0), QUEUE, &event, &mut self.sent);
    }

    /// A packet leaves for the long link. Returns the frame that the switch sends back, if any.
    fn leaves(&mut self, now: u64, packet: &[u8]) -> Option<Vec<u8>> {
        let roce = Roce::of(packet).unwrap();
        let (queued, packet) = (roce.wire_len, cc_cp::Packet::roce(&roce));
        self.switch.on(Instant::from_nanos(now), QUEUE, &Event::Enqueue { bytes: queued }, &mut self.sent);
        let event = Event::Departure { packet, ecn: roce.ecn, queued, port_queued: queued };
        self.switch.on(Instant::from_nanos(now), QUEUE, &event, &mut self.sent);
        let mut sent = std::mem::take(&mut self.sent.0);
        assert!(sent.len() <= 1);
        sent.pop()
    }
}

/// Three flows over IPv4 and three over IPv6: the same queue pair number at two hosts, and another at the first.
fn flows() -> Vec<Vec<u8>> {
    [false, true].into_iter().flat_map(|six| [data(six, 2, 17), data(six, 3, 17), data(six, 2, 18)]).collect()
}

#[test]
fn a_direct_cnp_cuts_only_the_flow_that_it_names_on_the_core_of_dcqcn() {
    let flows = flows();
    let mut board = sender::<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn>(&flows);
    let mut end = End::new("lscc_rate_limiting");
    end.grants(1_000);
    // 2 MB leave, while the granted rate is 1 Gb/s: the pseudo queue is long. After that the next packet of each flow causes a
    // CNP, since no flow has had one.
    for packet in 0..2_000 {
        assert_eq!(end.leaves(packet, &flows[0]), None);
    }
    for (slot, flow) in flows.iter().enumerate() {
        let cnp = end.leaves(60_000 + slot as u64, flow).unwrap();
        let half = Rate::from_gbps(50);
        assert_eq!(arrives(&mut board, 60_000 + slot as u64, &cnp), [(slot as u32, half)]);
        let mut damaged = cnp.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(arrives(&mut board, 60_000 + slot as u64, &damaged), []);
    }
    let mut unknown = end.leaves(60_100, &data(false, 4, 17)).unwrap();
    assert_eq!(arrives(&mut board, 60_100, &unknown), [], "a CNP for a flow that the board does not have");
    unknown.truncate(40);
    assert_eq!(arrives(&mut board, 60_101, &unknown), []);
}

#[test]
fn a_direct_int_paces_only_the_flow_that_it_names_on_the_core_of_hpcc_star() {
    let flows = flows();
    let mut board = sender::<cc_rp::hpcc_star::HpccStar5, cc_np::echo::Echo>(&flows);
    let mut end = End::new("lscc_direct_int");
    end.grants(10_000);
    let line = Rate::from_gbps(100);
    for (slot, flow) in flows.iter().enumerate() {
        for round in 0..2 {
            let now = 20_000 * slot as u64 + 10_000 * round;
            let mut packet = flow.clone();
            let length = packet.len();
            let leaf = Hop { mbps: 100_000, flags: 0, clock: now as u32, sent: 0, queue: 0 };
            shim::push_into(&mut packet, length, shim::PORT, &leaf).unwrap();
            // More than 50 kB; at 10 Gb/s only 12.5 kB leave in 10 us.
            for _ in 0..50 {
                end.leaves(now, flow);
            }
            let next = now + 2_000;
            let direct = end.leaves(next, &packet).unwrap();
            let paced = arrives(&mut board, next, &direct);
            let &[(index, rate)] = &paced[..] else { panic!("{paced:?}") };
            assert_eq!(index, slot as u32);
            assert_eq!(rate < line, round == 1, "the second direct INT is compared with the first: {rate:?}");
        }
    }
}

#[test]
fn a_switch_int_slows_only_the_flow_that_it_names_on_the_core_of_mlcc() {
    let flows = flows();
    let mut board = sender::<cc_rp::mlcc::Mlcc, cc_np::mlcc::Mlcc16>(&flows);
    let mut end = End::new("mlcc_near_source");
    for (slot, flow) in flows.iter().enumerate() {
        for round in 0..2 {
            let now = 20_000 * slot as u64 + 8_000 * round;
            let mut packet = flow.clone();
            let length = packet.len();
            // A full link of 100 Gb/s with a queue of 200 kB.
            let leaf = Hop { mbps: 100_000, flags: 0, clock: now as u32, sent: 1_562 * round as u32, queue: 200_000 };
            shim::push_into(&mut packet, length, shim::PORT, &leaf).unwrap();
            let switch_int = end.leaves(now, &packet).unwrap();
            let paced = arrives(&mut board, now, &switch_int);
            match round {
                // The sender computes a rate from the difference between two records; after the first it only remembers that
                // one.
                0 => assert!(paced.iter().all(|&(_, rate)| rate == Rate::from_gbps(100)), "{paced:?}"),
                _ => {
                    let &[(index, rate)] = &paced[..] else { panic!("{paced:?}") };
                    assert_eq!(index, slot as u32);
                    assert!(rate < Rate::from_gbps(60), "the link's load is twice its speed: {rate:?}");
                }
            }
            let mut damaged = switch_int.clone();
            *damaged.last_mut().unwrap() ^= 1;
            assert_eq!(arrives(&mut board, now, &damaged), []);
        }
    }
    let unknown = end.leaves(200_000, &data(false, 4, 17));
    assert!(unknown.is_none_or(|frame| arrives(&mut board, 200_000, &frame).is_empty()));
}
