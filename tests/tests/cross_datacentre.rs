//! Congestion control across a long link: the firmware of an interconnect switch sends frames to a flow's source. The firmware
//! of the source's NIC changes the rate of the queue pair that these frames name, and of no other.

use cc_core::table::{Fixed, Handle};
use cc_core::wire::shim::IntShim;
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, RateFrame, RateMessage, Shims, TableCrc, Tags, opcode};
use cc_core::{Bytes, Ecn, Hop, IntLayout, IntStackBuilder, Qpn, Rate};
use cc_cp::{OnQueues, Queue, Stage};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil_algorithms::settings::{Request, ResolvedSettings, words};
use hil_cores::board::{Action, Board, Pace, PacerStore, board};
use hil_cores::core::Ibex;
use hil_cores::firmware;
use hil_devices::{boot, native_switch};
use hil_measure::stage_cycles::LINK;
use programs::LogKind;
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::switch_ring::SwitchEvent;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The queue towards the long link.
const QUEUE: Queue = Queue { port: 1, class: 3 };

/// The flows of one sender: whether over IPv6, receiver, and the receiver's queue pair. One queue pair number occurs at two
/// receivers, one receiver has two numbers, and one flow is over IPv6.
const FLOWS: [(bool, u8, u32); 4] = [(false, 1, 0x11), (false, 2, 0x11), (false, 1, 0x12), (true, 1, 0x11)];

/// The number of packets that each flow sends.
const PACKETS: u64 = 800;
/// Nanoseconds between two packets, which then leave at about the speed of the link.
const GAP: u64 = 340;

/// The headers of a packet from the sender to a receiver.
fn to(six: bool, receiver: u8) -> Frame<'static> {
    let addresses = if six {
        let host = |site, host: u8| Ipv6Addr::new(0xfd00, site, 0, 0, 0, 0, 0, host.into());
        Addresses::V6 { source: host(1, 9), destination: host(2, receiver) }
    } else {
        let host = |site, host| Ipv4Addr::new(10, site, 0, host);
        Addresses::V4 { source: host(1, 9), destination: host(2, receiver) }
    };
    Frame {
        destination: Mac::new([2, 0, 0, 0, 2, receiver]),
        source: Mac::new([2, 0, 0, 0, 1, 9]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0xc000,
        shims: Shims::NONE,
        bth: Bth::default(),
        extensions: Extensions::default(),
        payload: &[],
    }
}

/// A data packet that leaves at this time, with the telemetry of two ports that have sent without a gap. The second has a queue
/// of 1 MB.
fn data((six, receiver, qpn): (bool, u8, u32), now: u64, telemetry: bool) -> Vec<u8> {
    let mut int = IntStackBuilder::new(IntLayout::Wide, 7).with_room(2);
    for queue in [0, 1_000_000] {
        // Ports count what they have sent in units of 64 bytes; 100 Gb/s are 12.5 bytes per nanosecond.
        let sent = (now * 25 / 128) as u32;
        int.push(&Hop { mbps: 100_000, clock: now as u32, sent, queue, ..Hop::default() });
    }
    let shims = Shims { int: telemetry.then(|| IntShim::of(&int)), ..Shims::NONE };
    let bth = Bth { opcode: opcode::SEND_MIDDLE, dest_qp: Qpn::new(qpn), ..Bth::default() };
    Frame { shims, bth, payload: &[0; 4_096], ..to(six, receiver) }.to_vec::<TableCrc>().unwrap()
}

/// The first bytes of a frame. An image receives no more than these.
fn head(frame: &[u8]) -> &[u8] {
    &frame[..frame.len().min(256)]
}

/// The rate message with which the switch at the other end of the long link requests 1 Gb/s.
fn rate_request() -> Vec<u8> {
    let Frame { destination, source, tags, addresses, dscp, .. } = to(false, 1);
    let message = RateMessage { seq: 1, units: 1_000, ..RateMessage::default() };
    let mut buffer = vec![0; RateFrame::LONGEST];
    let length = RateFrame { destination, source, tags, addresses, dscp, message }.emit(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

struct Bench {
    switch: Board<Ibex>,
    nic: Board<Ibex>,
    slots: Vec<u32>,
}

impl Bench {
    /// An interconnect switch that runs the stage `S`, and a NIC that has learnt the remote ends of its flows, but not their
    /// local queue pair numbers.
    fn new<A: ReactionPoint, N: NotificationPoint, S: OnQueues>(telemetry: bool) -> Self {
        let chosen = ResolvedSettings::of::<A, N>(&Request::default()).unwrap();
        let mut nic = board(&firmware::image(None, A::NAME).unwrap(), &boot(&chosen), Pace::Lockstep).unwrap();
        let (name, settings) = (S::Stage::<Fixed<8>>::NAME, S::Stage::<Fixed<8>>::DEFAULT);
        let boot = native_switch::boot(&[words(&settings)], &LINK, 1);
        let switch = board(&firmware::image(None, name).unwrap(), &boot, Pace::Lockstep).unwrap();
        let mut slots = Vec::new();
        for flow in FLOWS {
            let opened =
                nic.deliver(&Descriptor { handle: 3, ..Descriptor::at(DescriptorKind::Open, 1) }, &[]).unwrap();
            let handle = opened.iter().find_map(|(_, action)| match action {
                Action::Log(log) if log.kind == LogKind::Open as u32 => Some(log.index),
                _ => None,
            });
            let handle = handle.unwrap();
            let frame = data(flow, 1, telemetry);
            let learn =
                Descriptor { handle, wire_bytes: frame.len() as u32, ..Descriptor::at(DescriptorKind::LearnRemote, 1) };
            nic.deliver(&learn, head(&frame)).unwrap();
            slots.push(Handle::from_bits(handle).index().into());
        }
        Self { switch, nic, slots }
    }

    /// A frame of the remote switch arrives over the long link.
    fn arrives(&mut self, now: u64, frame: &[u8]) {
        let event = SwitchEvent::Arrival { bytes: Bytes::new(frame.len() as u32), queued: Bytes::ZERO };
        let actions = self.switch.deliver(&event.at(now, QUEUE), frame).unwrap();
        assert!(!actions.iter().any(|(_, action)| matches!(action, Action::Frame(_))));
    }

    /// A packet leaves for the long link. Returns the frames that the switch then sends.
    fn leaves(&mut self, now: u64, frame: &[u8]) -> Vec<Vec<u8>> {
        let bytes = Bytes::new(frame.len() as u32);
        self.switch.deliver(&SwitchEvent::Enqueue { bytes }.at(now, QUEUE), &[]).unwrap();
        let event = SwitchEvent::Departure { bytes, ecn: Ecn::Ect0, queued: bytes, port_queued: bytes };
        let actions = self.switch.deliver(&event.at(now, QUEUE), head(frame)).unwrap();
        actions
            .into_iter()
            .filter_map(|(_, action)| if let Action::Frame(frame) = action { Some(frame) } else { None })
            .collect()
    }

    /// A frame arrives at the NIC, whose firmware checks its ICRC. Returns the pacer stores that it causes.
    fn notify(&mut self, now: u64, frame: &[u8]) -> Vec<PacerStore> {
        while self.nic.next_wake() <= now {
            self.nic.wake().unwrap();
        }
        let arrival = Descriptor { wire_bytes: frame.len() as u32, ..Descriptor::at(DescriptorKind::Frame, now) };
        let actions = self.nic.deliver(&arrival, frame).unwrap();
        actions
            .into_iter()
            .filter_map(|(_, action)| if let Action::Pace(store) = action { Some(store) } else { None })
            .collect()
    }

    /// Lets the flows send one after the other, and asserts that the switch's frames slow down the flow that is sending, and no
    /// other.
    fn assert_each_is_slowed_down_alone(mut self, telemetry: bool) {
        let mut now = 1_000;
        for (flow, slot) in FLOWS.into_iter().zip(self.slots.clone()) {
            let (mut sent, mut stores) = (0, Vec::new());
            for _ in 0..PACKETS {
                now += GAP;
                for frame in self.leaves(now, &data(flow, now, telemetry)) {
                    sent += 1;
                    stores.extend(self.notify(now, &frame));
                }
            }
            assert!(!stores.is_empty(), "{flow:?}: {sent} frames change no rate");
            assert!(stores.iter().all(|store| store.index == slot), "{flow:?}, slot {slot}: {stores:?}");
            let slowest = stores.iter().map(|store| store.rate).min().unwrap();
            assert!(slowest <= Rate::from_gbps(50).to_bits(), "{flow:?}: {slowest}");
        }
    }
}

#[test]
fn a_direct_cnp_of_lscc_cuts_only_the_queue_pair_of_dcqcn_that_it_names() {
    let mut bench =
        Bench::new::<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn, cc_cp::lscc::rate_limiting::RateLimiting>(false);
    bench.arrives(500, &rate_request());
    bench.assert_each_is_slowed_down_alone(false);
}

#[test]
fn a_direct_int_of_lscc_slows_only_the_queue_pair_of_hpcc_star_that_it_names() {
    let mut bench =
        Bench::new::<cc_rp::hpcc_star::HpccStar5, cc_np::echo::Echo, cc_cp::lscc::direct_int::DirectInt>(true);
    bench.arrives(500, &rate_request());
    bench.assert_each_is_slowed_down_alone(true);
}

#[test]
fn a_switch_int_of_mlcc_slows_only_the_queue_pair_that_it_names() {
    let bench = Bench::new::<cc_rp::mlcc::Mlcc, cc_np::mlcc::Mlcc16, cc_cp::mlcc::near_source::NearSource>(true);
    bench.assert_each_is_slowed_down_alone(true);
}
