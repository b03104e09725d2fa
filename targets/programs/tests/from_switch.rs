//! A NIC program and the CNPs that a switch originates. A switch reads a flow's packets on their way to the receiver, so its
//! CNP names the flow by the receiver's queue pair and the two addresses; the program finds the flow in its table of remote
//! queue pairs.

use cc_core::table::{Fixed, Handle};
use cc_core::wire::{
    Addresses, Bth, CnpMarking, Extensions, Frame, Mac, Response, Roce, Shims, TableCrc, Tags, opcode,
};
use cc_core::{Bytes, CnpBody, CnpBodyKind, CnpKind, Ecn, Instant, Link, Nanos, Psn, Qpn, Rate};
use cc_rp::RateLimiter;
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::{Hardware, LogKind, NO_FLOW, NicProgram, Sizes, TransmitRing};
use std::net::{Ipv4Addr, Ipv6Addr};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_024), base_rtt: Nanos::new(8_000) };

/// A NIC of eight flows: two sets of four entries each for remote queue pair numbers.
struct Eight;

impl Sizes for Eight {
    type Flows = Fixed<8>;
    type QpnMap = Fixed<16>;
    type Peers = Fixed<4>;
    type Remotes = Fixed<2>;
}

type Sender = NicProgram<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn, Eight>;

/// The program's last stores to its hardware.
#[derive(Default)]
struct Bench {
    log: Option<(LogKind, u32)>,
    rates: [Option<Rate>; 8],
}

impl RateLimiter for Bench {
    fn set(&mut self, index: u16, rate: Rate, _window: Bytes, _hold: Nanos) {
        self.rates[usize::from(index)] = Some(rate);
    }
}

impl TransmitRing for Bench {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut []
    }

    fn transmit(&mut self, _length: usize) {}
}

impl Hardware for Bench {
    type Crc = TableCrc;

    fn log(&mut self, kind: LogKind, _now: Instant, index: u32) {
        self.log = Some((kind, index));
    }
}

fn nic() -> (Sender, Bench) {
    let nic = NicProgram::new(
        Instant::from_nanos(0),
        LINK,
        &<cc_rp::dcqcn::Dcqcn as cc_rp::ReactionPoint>::PRESETS[0].values,
        &<cc_np::dcqcn::Dcqcn as cc_np::NotificationPoint>::PRESETS[0].values,
    );
    (nic.unwrap(), Bench::default())
}

/// A packet from our host to the queue pair `qpn` of the far host `to`.
fn data(six: bool, to: u8, qpn: u32) -> Vec<u8> {
    let addresses = if six {
        let host = |n: u8| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into());
        Addresses::V6 { source: host(1), destination: host(to) }
    } else {
        let host = |n| Ipv4Addr::new(10, 0, 0, n);
        Addresses::V4 { source: host(1), destination: host(to) }
    };
    emit(&Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0xc123,
        shims: Shims::NONE,
        bth: Bth { opcode: opcode::SEND_MIDDLE, dest_qp: Qpn::new(qpn), psn: Psn::new(1), ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[0; 32],
    })
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    frame.to_vec::<TableCrc>().unwrap()
}

fn respond(response: &Response<'_>) -> Vec<u8> {
    response.to_vec::<TableCrc>().unwrap()
}

/// The direct CNP that a switch sends when it forwards the packet `cause`.
fn direct(cause: &[u8]) -> Vec<u8> {
    let body = CnpBody { kind: CnpKind::Direct, ce: true, ..CnpBody::default() };
    respond(&Response::from_switch(&Roce::of(cause).unwrap(), body, &[], CnpMarking::default()))
}

fn descriptor(kind: DescriptorKind, handle: u32, frame: &[u8]) -> Descriptor {
    let wire_bytes = u32::try_from(frame.len()).unwrap();
    Descriptor { handle, wire_bytes, ..Descriptor::at(kind, 1_000) }
}

fn deliver(nic: &mut Sender, bench: &mut Bench, kind: DescriptorKind, handle: u32, frame: &[u8]) -> (LogKind, u32) {
    nic.handle(Instant::from_nanos(1_000), &descriptor(kind, handle, frame), frame, bench);
    bench.log.take().unwrap()
}

/// Opens a flow and passes one of its packets to the NIC, which learns the remote end from it. Returns the flow's handle.
fn open(nic: &mut Sender, bench: &mut Bench, frame: &[u8]) -> u32 {
    let (_, handle) = deliver(nic, bench, DescriptorKind::Open, 3, &[]);
    let slot = u32::from(Handle::from_bits(handle).index());
    assert_eq!(deliver(nic, bench, DescriptorKind::LearnRemote, handle, frame), (LogKind::Connect, slot));
    handle
}

#[test]
fn a_direct_cnp_cuts_only_the_flow_that_it_names_over_ipv4_and_ipv6() {
    for six in [false, true] {
        let (mut nic, mut bench) = nic();
        // Queue pair 17 at two peers, and queue pairs 17 and 18 at one. No flow has its local queue pair number yet.
        let frames = [data(six, 2, 17), data(six, 3, 17), data(six, 2, 18)];
        for frame in &frames {
            open(&mut nic, &mut bench, frame);
        }
        for (cut, frame) in frames.iter().enumerate() {
            bench.rates = [None; 8];
            let cnp = direct(frame);
            assert_eq!(deliver(&mut nic, &mut bench, DescriptorKind::Frame, 0, &cnp), (LogKind::Cnp, cut as u32));
            let paced: Vec<_> = (0..8).filter(|&slot| bench.rates[slot].is_some()).collect();
            assert_eq!((paced, bench.rates[cut]), (vec![cut], Some(Rate::from_gbps(50))));
        }
        assert_eq!(nic.nic().rp().counters().rp_cnp_handled, 3);
    }
}

#[test]
fn a_switch_s_cnps_and_the_receiver_s_numbered_ones_do_not_disturb_each_other() {
    let (mut nic, mut bench) = nic();
    let packet = data(false, 2, 17);
    let handle = open(&mut nic, &mut bench, &packet);
    let bind = Descriptor { qpn: 19, ..descriptor(DescriptorKind::Bind, handle, &[]) };
    nic.handle(Instant::from_nanos(1_000), &bind, &[], &mut bench);
    let numbered = |seq| {
        let body_kind = CnpBodyKind::Extended(CnpBody { seq, ..CnpBody::default() });
        respond(&Response::cnp(&Roce::of(&packet).unwrap(), Qpn::new(19), body_kind, CnpMarking::default()))
    };
    let cnps = [numbered(7), direct(&packet), numbered(8), numbered(8), direct(&packet), numbered(7)];
    let handled = cnps.map(|cnp| deliver(&mut nic, &mut bench, DescriptorKind::Frame, 0, &cnp).1 == 0);
    assert_eq!(handled, [true, true, true, false, true, false]);
    assert_eq!(nic.nic().rp().counters().rp_cnp_stale, 2);
}

#[test]
fn a_switch_s_cnp_for_an_unknown_flow_is_counted_and_cuts_no_rate() {
    let (mut nic, mut bench) = nic();
    let handle = open(&mut nic, &mut bench, &data(false, 2, 17));
    let bind = Descriptor { qpn: 19, ..descriptor(DescriptorKind::Bind, handle, &[]) };
    nic.handle(Instant::from_nanos(1_000), &bind, &[], &mut bench);
    bench.rates = [None; 8];
    // Another peer, another remote number, and the flow's local number in place of the remote one.
    for cause in [data(false, 3, 17), data(false, 2, 18), data(false, 2, 19)] {
        assert_eq!(deliver(&mut nic, &mut bench, DescriptorKind::Frame, 0, &direct(&cause)), (LogKind::Cnp, NO_FLOW));
    }
    let mut damaged = direct(&data(false, 2, 17));
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(deliver(&mut nic, &mut bench, DescriptorKind::Frame, 0, &damaged), (LogKind::IcrcInvalid, NO_FLOW));
    deliver(&mut nic, &mut bench, DescriptorKind::Close, handle, &[]);
    let closed = direct(&data(false, 2, 17));
    assert_eq!(deliver(&mut nic, &mut bench, DescriptorKind::Frame, 0, &closed), (LogKind::Cnp, NO_FLOW));
    assert_eq!(bench.rates, [None; 8]);
    let counters = nic.nic().rp().counters();
    assert_eq!((counters.rp_cnp_handled, counters.rp_cnp_by_remote_qp, counters.rp_cnp_ignored), (0, 4, 4));
}

#[test]
fn a_remote_end_is_learnt_only_from_roce_packets_of_open_flows() {
    let (mut nic, mut bench) = nic();
    let handle = open(&mut nic, &mut bench, &data(false, 2, 17));
    let nothing = (LogKind::Nothing, NO_FLOW);
    assert_eq!(deliver(&mut nic, &mut bench, DescriptorKind::LearnRemote, handle, &[0; 60]), nothing);
    assert_eq!(
        deliver(&mut nic, &mut bench, DescriptorKind::LearnRemote, handle + (1 << 16), &data(false, 2, 18)),
        nothing
    );
}
