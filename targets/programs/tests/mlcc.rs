//! All four roles of MLCC together: one flow whose data packets go from the sender's engine through both interconnect switches
//! to the receiver's engine, and whose acknowledgements and Switch-INT come back. What passes between them are bytes of frames.

use cc_core::table::Fixed;
use cc_core::table::Handle;
use cc_core::wire::shim::{self, IntShim, MlccData};
use cc_core::wire::{
    AckFields, Addresses, Bth, CnpMarking, Extensions, Frame, Icrc, Mac, Response, Roce, Shims, TableCrc, Tags, opcode,
};
use cc_core::{Bytes, CnpBody, CnpBodyKind, Ecn, Hop, Instant, IntLayout, Link, Nanos, Psn, Qpn, Rate};
use cc_cp::mlcc::near_source::NearSource;
use cc_cp::mlcc::per_flow_queues::PerFlowQueues;
use cc_cp::{Emit, Event as SwitchEvent, OnQueues, PeerMessage, Queue, SendPfc, Stage, Switch, Verdict};
use cc_np::mlcc::Mlcc16;
use cc_np::{NotSent, NotificationPoint, NpEngine, RxMeta, Transmit};
use cc_rp::mlcc::Mlcc;
use cc_rp::{AckProgress, Event, RateLimiter, ReactionPoint, RpEngine};
use programs::switch_ring::{self, Room};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The servers' links. Their speed and round trip, and the delays below, are the paper's. `LOCAL` is the delay between a server
/// and its interconnect switch, `FAR` that between the two servers, both one way and in nanoseconds.
const LINK: Link = Link { line_rate: Rate::from_gbps(10), mtu: Bytes::new(4_096), base_rtt: Nanos::new(24_000) };
const LOCAL: u64 = 12_000;
const FAR: u64 = 3_000_000;
const SENDER: Qpn = Qpn::new(0x99);
const RECEIVER: Qpn = Qpn::new(0x118);

/// A link of 10 Gb/s that other flows share.
struct LongLink {
    others: f64,
    free: f64,
    ours: f64,
}

impl LongLink {
    /// Bytes per nanosecond.
    const SPEED: f64 = 1.25;

    fn new(others: f64) -> Self {
        Self { others, free: 0.0, ours: 0.0 }
    }

    /// Sends a packet of our flow. Returns the time at which its last byte has left, and the telemetry that the port adds to
    /// it.
    fn carry(&mut self, now: u64, bytes: usize) -> (u64, Hop) {
        let queue = (self.free - now as f64).max(0.0) * Self::SPEED;
        self.free = self.free.max(now as f64) + bytes as f64 / (Self::SPEED * (1.0 - self.others));
        let sent = self.free * Self::SPEED * self.others + self.ours;
        self.ours += bytes as f64;
        let (clock, sent) = (self.free as u32, (sent / 64.0) as u32);
        (self.free as u64, Hop { mbps: 10_000, flags: 0, clock, sent, queue: queue as u32 })
    }
}

/// An event of the simulation.
enum Happening {
    /// The sender's rate permits its next packet.
    Send,
    /// A data packet arrives at one of the switches, or at the receiver.
    AtNearSwitch(Vec<u8>),
    AtFarSwitch(Vec<u8>),
    AtReceiver(Vec<u8>),
    /// The far switch may send the next packet of its queue.
    Release,
    /// An acknowledgement arrives at the far switch; an acknowledgement or a Switch-INT arrives at the sender.
    BackAtFarSwitch(Vec<u8>),
    BackAtSender(Vec<u8>),
}

#[derive(Default)]
struct Wire {
    rate: Option<Rate>,
    sent: Vec<Vec<u8>>,
}

impl RateLimiter for Wire {
    fn set(&mut self, _index: u16, rate: Rate, _window: Bytes, _hold: Nanos) {
        self.rate = Some(rate);
    }
}

impl Transmit for Wire {
    fn cnp(&mut self, _: &Roce<'_>, _: Qpn, _: CnpBodyKind, _: CnpMarking) -> Result<(), NotSent> {
        panic!("MLCC's receiver sends no CNPs");
    }

    fn slot_cnp(&mut self, _: Qpn, _: CnpBodyKind, _: CnpMarking) -> Result<(), NotSent> {
        panic!("MLCC's receiver sends no CNPs in slots");
    }

    fn ack(&mut self, cause: &Roce<'_>, to: Qpn, fields: &AckFields) -> Result<(), NotSent> {
        let mut frame = vec![0; 512];
        let length = Response::ack(cause, to, fields).emit::<TableCrc>(&mut frame).map_err(|_| NotSent::Full)?;
        frame.truncate(length);
        self.sent.push(frame);
        Ok(())
    }
}

/// An interconnect switch with one stage.
type Interconnect<S> = Switch<<S as OnQueues>::Stage<Fixed<8>>, Fixed<8>>;
/// The queue of the long link.
const QUEUE: Queue = Queue { port: 0, class: 3 };

fn interconnect<S: OnQueues>(settings: &<S::Stage<Fixed<8>> as Stage>::Settings) -> Interconnect<S> {
    let start = Instant::from_nanos(0);
    let mut switch = Interconnect::<S>::new(start);
    switch.configure(start, QUEUE, &LINK, settings, 0).unwrap();
    switch
}

/// A packet leaves a switch. Returns the stage's verdict on it.
fn departs<S: OnQueues>(switch: &mut Interconnect<S>, now: Instant, frame: &[u8], sent: &mut Sent) -> Verdict {
    let roce = Roce::of(frame).unwrap();
    let (packet, queued) = (cc_cp::Packet::roce(&roce), roce.wire_len);
    let event = SwitchEvent::Departure { packet, ecn: roce.ecn, queued, port_queued: queued };
    switch.on(now, QUEUE, &event, sent)
}

/// A data packet arrives over the long link, or an acknowledgement on its way back.
fn arrives<S: OnQueues>(switch: &mut Interconnect<S>, now: Instant, frame: &[u8]) {
    let roce = Roce::of(frame).unwrap();
    let event = SwitchEvent::Arrival { packet: cc_cp::Packet::roce(&roce), queued: Bytes::ZERO };
    switch.on(now, QUEUE, &event, &mut Sent::default());
}

/// The CNPs that a switch has sent.
#[derive(Default)]
struct Sent(Vec<Vec<u8>>);

impl Emit for Sent {
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>) {
        let mut room: Room = [0; _];
        let cnp = switch_ring::cnp(about, body, hop, CnpMarking::default(), &mut room).unwrap();
        self.0.push(respond(&cnp));
    }

    fn peer(&mut self, at: Queue, message: PeerMessage) {
        panic!("{at:?}: {message:?}");
    }

    fn queued(&self, _at: Queue) -> Bytes {
        Bytes::ZERO
    }
}

impl SendPfc for Sent {
    fn pfc(&mut self, at: Queue, quanta: u16) {
        panic!("{at:?}: {quanta} quanta");
    }
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    frame.to_vec::<TableCrc>().unwrap()
}

fn respond(response: &Response<'_>) -> Vec<u8> {
    response.to_vec::<TableCrc>().unwrap()
}

/// The sender's packet with this PSN, with room for the records that switches add.
fn data(addresses: Addresses, psn: u32) -> Vec<u8> {
    let int = IntShim::new(IntLayout::Wide, 1, 0, &[0; 64]);
    emit(&Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0xc001,
        shims: Shims { int, mlcc_data: Some(MlccData::default()), ..Shims::NONE },
        bth: Bth {
            opcode: opcode::SEND_ONLY,
            dest_qp: RECEIVER,
            psn: Psn::new(psn),
            ack_request: true,
            ..Bth::default()
        },
        extensions: Extensions::default(),
        payload: &[7; 3_900],
    })
}

/// What a run measured.
#[derive(Default)]
struct Seen {
    /// When the sender's rate was first updated, and by which event.
    first: Option<(u64, &'static str)>,
    /// Bytes in the far switch's queue and the sender's rate in Gb/s, sampled once in a local round trip.
    queue: Vec<f64>,
    rate: Vec<f64>,
    /// Acknowledgements with a newer credit at the far switch, and Switch-INTs that the near switch sent.
    credits: u64,
    returned: u64,
}

/// Runs one flow for `time` nanoseconds. Other flows take these shares of the link within the sender's and the receiver's
/// datacentre.
fn run(addresses: Addresses, time: u64, near_others: f64, far_others: f64) -> Seen {
    let start = Instant::from_nanos(0);
    let sender_params = Mlcc::check(&cc_rp::mlcc::PAPER, &LINK).unwrap();
    let mut sender = RpEngine::<Mlcc, 4, 8>::new(start, LINK, sender_params);
    let receiver_params = Mlcc16::check(&cc_np::mlcc::PAPER, &LINK).unwrap();
    let mut receiver = NpEngine::<Mlcc16, 4, 2>::new(start, LINK, receiver_params);
    let mut near = interconnect::<NearSource>(&cc_cp::mlcc::near_source::PRESETS[0].values);
    let queues = cc_cp::mlcc::per_flow_queues::PRESETS[0].values;
    let queues = cc_cp::mlcc::per_flow_queues::PerFlowQueuesSettings { initial_rate: 0, ..queues };
    let mut far = interconnect::<PerFlowQueues>(&queues);
    // When the far queue's next packet may leave: the verdict on the last one held it until then.
    let mut free = 0;
    let (mut near_link, mut far_link) = (LongLink::new(near_others), LongLink::new(far_others));
    let mut wire = Wire::default();
    let handle: Handle = sender.open(start, 3, &mut wire).unwrap();
    sender.bind(handle, SENDER).unwrap();

    let (mut seen, mut next_sample) = (Seen::default(), 0);
    let (mut psn, mut waiting, mut queued, mut releasing) = (0, VecDeque::<Vec<u8>>::new(), 0_usize, false);
    let (mut agenda, mut count) = (BTreeMap::from([((0, 0), Happening::Send)]), 0_u64);
    while let Some(((now, _), what)) = agenda.pop_first() {
        if now > time {
            break;
        }
        let mut then = |at: u64, what| {
            count += 1;
            agenda.insert((at, count), what);
        };
        let at = Instant::from_nanos(now);
        if now >= next_sample {
            next_sample += 2 * LOCAL;
            seen.queue.push(queued as f64);
            seen.rate.push(wire.rate.map_or(0.0, |rate| f64::from(rate.to_bits()) * 8.0 / f64::from(1 << 24)));
        }
        match what {
            Happening::Send => {
                let mut bytes = data(addresses, psn);
                let length = bytes.len();
                sender.sent(at, handle, Psn::new(psn), Bytes::new(length as u32), &mut wire);
                psn += 1;
                let rate = wire.rate.unwrap_or(LINK.line_rate);
                then(now + u64::from(rate.time_for(Bytes::new(length as u32)).get()).max(1), Happening::Send);
                let (through, hop) = near_link.carry(now, length);
                shim::push_into(&mut bytes, length, shim::PORT, &hop);
                then(through + LOCAL, Happening::AtNearSwitch(bytes));
            }
            Happening::AtNearSwitch(mut bytes) => {
                let mut sent = Sent::default();
                let verdict = departs::<NearSource>(&mut near, at, &bytes, &mut sent);
                for cnp in sent.0 {
                    then(now + LOCAL, Happening::BackAtSender(cnp));
                }
                let length = bytes.len();
                switch_ring::rewrite(&mut bytes, length, shim::PORT, &verdict.rewrite.unwrap());
                assert!(Roce::of(&bytes).unwrap().shims().int.unwrap().stack().is_empty());
                then(now + FAR - 2 * LOCAL, Happening::AtFarSwitch(bytes));
            }
            Happening::AtFarSwitch(bytes) => {
                arrives::<PerFlowQueues>(&mut far, at, &bytes);
                queued += bytes.len();
                waiting.push_back(bytes);
                if !releasing {
                    releasing = true;
                    then(now, Happening::Release);
                }
            }
            Happening::Release => {
                if waiting.is_empty() {
                    releasing = false;
                    continue;
                }
                if now < free {
                    then(free, Happening::Release);
                    continue;
                }
                let mut bytes = waiting.pop_front().unwrap();
                let length = bytes.len();
                queued -= length;
                let verdict = departs::<PerFlowQueues>(&mut far, at, &bytes, &mut Sent::default());
                free = now + u64::from(verdict.hold.get());
                then(free, Happening::Release);
                switch_ring::rewrite(&mut bytes, length, shim::PORT, &verdict.rewrite.unwrap());
                assert_eq!(Roce::of(&bytes).unwrap().shims().mlcc_data.unwrap().queue.get() as usize, queued);
                let (through, hop) = far_link.carry(now, length);
                shim::push_into(&mut bytes, length, shim::PORT, &Hop { flags: Hop::INTERCONNECT, ..hop });
                then(through + LOCAL, Happening::AtReceiver(bytes));
            }
            Happening::AtReceiver(bytes) => {
                let packet = Roce::of(&bytes).unwrap();
                if packet.bth.psn.get() < 1_000 {
                    assert_eq!(packet.icrc::<TableCrc>(), Icrc::Valid, "after both switches' changes");
                }
                let receipt = RxMeta { msn: Some(packet.bth.psn.get()), ..RxMeta::new(at.stamp(), Some(SENDER)) };
                receiver.arrival(at, &packet, receipt, &mut wire);
                then(now + LOCAL, Happening::BackAtFarSwitch(wire.sent.pop().unwrap()));
            }
            Happening::BackAtFarSwitch(bytes) => {
                arrives::<PerFlowQueues>(&mut far, at, &bytes);
                then(now + FAR - LOCAL, Happening::BackAtSender(bytes));
            }
            Happening::BackAtSender(bytes) => {
                let (before, packet) = (wire.rate, Roce::of(&bytes).unwrap());
                let what = match packet.switch_int() {
                    Some(int) => {
                        assert_eq!(packet.icrc::<TableCrc>(), Icrc::Valid);
                        sender.step(at, handle, &Event::SwitchInt { int: int.stack() }, &mut wire).unwrap();
                        "Switch-INT"
                    }
                    None => {
                        sender.ack(at, &packet, AckProgress::default(), &mut wire).unwrap();
                        "ACK"
                    }
                };
                if seen.first.is_none() && before.is_some() && wire.rate != before {
                    seen.first = Some((now, what));
                }
            }
        }
    }
    seen.credits = far.stages().state(QUEUE).unwrap().counters().credits_taken;
    seen.returned = near.stages().state(QUEUE).unwrap().counters().returned;
    seen
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const V4: Addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 1, 0, 9) };

/// Switch-INT reports a full link in the sender's own datacentre after a local round trip, within 100 us; the first
/// acknowledgement takes 6 ms.
#[test]
fn switch_int_updates_the_rate_before_the_first_acknowledgement() {
    let six = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::from_bits(9) };
    for addresses in [V4, six] {
        let seen = run(addresses, 8_000_000, 0.5, 0.0);
        let (when, what) = seen.first.unwrap();
        assert_eq!(what, "Switch-INT");
        assert!(when < 100_000, "{when}");
        assert!(seen.returned > 500);
        // Half of the link, less the share that eta keeps free.
        let rate = mean(&seen.rate[100..240]);
        assert!((3.0..5.5).contains(&rate), "{rate} Gb/s");
    }
}

/// Other flows take half of the last link. The queue that the first round trip built is drained, and the sender's rate settles
/// at what the receiver's datacentre can take (MLCC 4.3).
#[test]
fn the_far_switch_s_queue_is_drained_and_then_held_around_the_target_delay() {
    let seen = run(V4, 150_000_000, 0.0, 0.5);
    let most = seen.queue.iter().copied().fold(0.0, f64::max);
    let (tail, rates) = (&seen.queue[1_250..], &seen.rate[1_250..]);
    assert!(most > 3e6 && seen.queue[..750].contains(&most), "{most}");
    assert!(mean(tail) < most * 0.4, "{} of {most}", mean(tail));
    // Half of the link, less the share that eta keeps free, and less the time in which the queue is empty.
    assert!((3.0..5.0).contains(&mean(rates)), "{} Gb/s", mean(rates));
    assert!(seen.credits > 3_000, "{} rounds of 24 us or more in 150 ms", seen.credits);
}
