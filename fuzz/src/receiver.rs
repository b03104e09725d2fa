//! The invariants of every notification point: any packets, any settings, a clock that may jump, and a transmit ring that may
//! be full.

use crate::{operations, settings};
use arbitrary::{Arbitrary, Unstructured};
use cc_core::table::{Fixed, Storage};
use cc_core::wire::shim::{IntShim, MlccData, Time};
use cc_core::wire::{
    Addresses, Bth, Class, Deth, Extensions, Frame, Icrc, Mac, Parsed, Roce, Shims, TableCrc, Tags, Transport, parse,
};
use cc_core::{Bytes, Ecn, Instant, IntLayout, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp, Zeroed};
use cc_np::registry::{self, Visitor};
use cc_np::{AckOutcome, ArrivalOutcome, CnpOutcome, NotificationPoint};
use cc_np::{NpCounters, NpEngine, RxMeta};
use programs::{FrameOut, HeaderCache, HeaderCacheOf, TransmitRing};
use std::net::Ipv4Addr;

const FLOWS: u8 = 9;
const SECOND: u64 = 1_000_000_000;
const LONGEST_WAIT: Nanos = Nanos::new(400_000_000);

/// An engine whose table has room for four flows, fewer than there are.
type Engine<A> = NpEngine<A, 2, 2>;

#[derive(Arbitrary, Debug)]
enum Operation {
    Frame(Arrived),
    /// Time passes: nanoseconds, shifted right so that short waits are as frequent as long ones.
    Wait(u32, u8),
    Wake(u8),
    Jump(i64),
    Configure,
    Enable(bool),
    Forget(u8),
    Disconnect(u8),
}

#[derive(Arbitrary, Debug)]
struct Arrived {
    flow: u8,
    opcode: u8,
    ecn: u8,
    ack_request: bool,
    remote_known: bool,
    msn: Option<u32>,
    room: u16,
    psn: u32,
    payload: u8,
    /// Its send time by the sender's clock, which has no relation to the receiver's.
    sent: Option<u32>,
    telemetry: Option<(u8, u16)>,
    rx_buffer_level: u8,
    /// How long ago it arrived, in nanoseconds.
    receiver_hold: u16,
}

/// RC send first, middle, last, only; write first, middle, only; READ request and response; acknowledgement, UC and UD
/// send only, XRC write only, CNP.
const OPCODES: [u8; 14] = [0x00, 0x01, 0x02, 0x04, 0x06, 0x07, 0x0a, 0x0c, 0x0e, 0x11, 0x24, 0x64, 0xaa, 0x81];

/// A transmit ring that keeps the frames that are sent.
struct Ring {
    room: Vec<u8>,
    sent: Vec<Vec<u8>>,
    rows: usize,
}

impl Ring {
    fn new(room: usize, rows: usize) -> Self {
        Self { room: vec![0; room], sent: Vec::new(), rows }
    }
}

impl TransmitRing for Ring {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.room
    }

    fn transmit(&mut self, length: usize) {
        self.sent.push(self.room[..length].to_vec());
    }

    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        let transition = transition();
        assert!(transition < self.rows, "row {transition} does not exist");
    }
}

/// The builder of frames for a ring.
fn out<'a, S: Storage>(ring: &'a mut Ring, headers: &'a HeaderCache<S, 4>) -> FrameOut<'a, Ring, S, TableCrc> {
    FrameOut::new(ring, headers)
}

/// Drives the notification point of this name. Returns the number of operations in the bytes.
///
/// # Panics
/// - The frames in the ring are not those that the outcome names, are not addressed to the packet's sender, or have a wrong
///   ICRC.
/// - An unmarked packet causes a frame other than the acknowledgement that it requests.
/// - A wake changes an outcome of a machine without slots; CNPs of two slots are closer than the slot interval.
/// - Counters do not add up; the table has more flows than its capacity; the machine reports a transition that is not in its
///   table.
#[must_use]
pub fn np_of(name: &str, data: &[u8]) -> usize {
    registry::with(name, Run { source: Unstructured::new(data) }).expect("a notification point of the registry")
}

struct Run<'a> {
    source: Unstructured<'a>,
}

impl Visitor for Run<'_> {
    type Output = usize;

    fn visit<A: NotificationPoint>(mut self) -> usize {
        let Ok((start, gbps)) = self.source.arbitrary::<(u64, u8)>() else { return 0 };
        let line_rate = Rate::from_gbps([10, 40, 100, 800][usize::from(gbps % 4)]);
        let link = Link { line_rate, mtu: Bytes::new(1_500), base_rtt: Nanos::new(12_000) };
        let Some(settings) = settings(&mut self.source, A::PRESETS, |settings| A::check(settings, &link)) else {
            return 0;
        };
        let mut bench = Bench::<A>::new(start >> 1, link, &settings);
        let mut count = 0;
        for operation in operations(&mut self.source) {
            bench.operate(&operation);
            bench.assert_counters_add_up();
            count += 1;
        }
        count
    }
}

struct Bench<A: NotificationPoint> {
    now: u64,
    link: Link,
    settings: A::Settings,
    enabled: bool,
    engine: Engine<A>,
    /// A second engine, which gets the same packets and additional wakes.
    woken: Engine<A>,
    headers: HeaderCacheOf<A, Fixed<2>>,
    /// The time of the last CNP of a slot; `None` after a jump of the clock.
    last_slot_cnp: Option<u64>,
}

impl<A: NotificationPoint> Bench<A> {
    fn new(now: u64, link: Link, settings: &A::Settings) -> Self {
        let engine = || {
            let params = A::check(settings, &link).expect("checked before");
            Engine::new(Instant::from_nanos(now), link, params)
        };
        let (settings, headers) = (*settings, Zeroed::ZEROED);
        Self { now, link, settings, enabled: true, engine: engine(), woken: engine(), headers, last_slot_cnp: None }
    }

    fn params(&self) -> A::Params {
        A::check(&self.settings, &self.link).expect("checked before")
    }

    fn operate(&mut self, operation: &Operation) {
        match operation {
            Operation::Frame(arrived) => self.frame(arrived),
            Operation::Wait(nanos, shift) => {
                let wait = u64::from(nanos >> (3 + shift % 29));
                for third in 1..=3 {
                    let _ = self.wake_other(self.now + wait * third / 3);
                }
                self.now += wait;
                self.wake(128);
            }
            Operation::Wake(room) => self.wake(usize::from(*room)),
            Operation::Jump(by) => {
                let to = self.now.saturating_add_signed(by >> 8) >> 1;
                if !(self.now..=self.now + SECOND).contains(&to) {
                    (self.now, self.last_slot_cnp) = (to, None);
                    self.wake(128);
                    let _ = self.wake_other(to);
                }
            }
            Operation::Configure => {
                let (params, other) = (self.params(), self.params());
                self.engine.set_params(params);
                self.woken.set_params(other);
            }
            Operation::Enable(on) => {
                self.enabled = *on;
                self.engine.set_enabled(*on);
                self.woken.set_enabled(*on);
            }
            Operation::Forget(flow) => {
                self.engine.forget(qpn(*flow));
                self.woken.forget(qpn(*flow));
            }
            Operation::Disconnect(flow) => self.headers.remove(qpn(*flow)),
        }
        assert!(self.engine.next_wake() <= LONGEST_WAIT);
        assert!(self.engine.live_flows() <= 4);
    }

    /// Wakes both engines at the same time, so that their clocks agree.
    fn wake(&mut self, room: usize) {
        let slot = A::slot_interval(&self.params());
        let mut ring = Ring::new(room, A::TRANSITIONS.len());
        let now = Instant::from_nanos(self.now);
        let cnp = self.engine.wake(now, &mut out(&mut ring, &self.headers));
        assert_eq!(cnp == CnpOutcome::Sent, ring.sent.len() == 1);
        assert!(slot.is_some() || cnp == CnpOutcome::None);
        assert!(ring.sent.len() <= 1);
        for frame in &ring.sent {
            assert_eq!(read(frame).info.class(), Class::Cnp);
            assert!(self.last_slot_cnp.is_none_or(|last| self.now - last >= slot.map_or(0, |slot| slot.get().into())));
            self.last_slot_cnp = Some(self.now);
        }
        let _ = self.wake_other(self.now);
    }

    fn wake_other(&mut self, at: u64) -> CnpOutcome {
        let mut ring = Ring::new(128, A::TRANSITIONS.len());
        self.woken.wake(Instant::from_nanos(at), &mut out(&mut ring, &self.headers))
    }

    fn frame(&mut self, arrived: &Arrived) {
        let data = arrived.frame();
        let roce = read(&data);
        let now = Instant::from_nanos(self.now);
        let remote = arrived.remote_known.then_some(Qpn::new(0x77));
        let rx = RxMeta {
            remote,
            msn: arrived.msn,
            arrived: Stamp::from_bits(now.stamp().to_bits().wrapping_sub(arrived.receiver_hold.into())),
            rx_buffer_level: arrived.rx_buffer_level,
        };
        if let Some(remote) = remote {
            assert!(self.headers.learn(now.stamp(), &roce, remote), "RoCEv2 without tags");
        }
        let room = usize::from(arrived.room % 512);
        let mut ring = Ring::new(room, A::TRANSITIONS.len());
        let outcome = self.engine.arrival(now, &roce, rx, &mut out(&mut ring, &self.headers));
        let mut other_ring = Ring::new(room, A::TRANSITIONS.len());
        let other = self.woken.arrival(now, &roce, rx, &mut out(&mut other_ring, &self.headers));
        // A machine with slots acts in wakes: it sends CNPs, or removes flows from a table that is too small. With additional
        // wakes its outcomes may therefore differ.
        if A::slot_interval(&self.params()).is_none() {
            assert_eq!((outcome, &ring.sent), (other, &other_ring.sent), "a wake changed the outcome");
        }
        self.assert_outcome(arrived, &roce, rx, outcome, &ring.sent);
    }

    /// Checks the outcome for a packet, and the frames that were sent.
    fn assert_outcome(
        &self,
        arrived: &Arrived,
        roce: &Roce<'_>,
        rx: RxMeta,
        outcome: ArrivalOutcome,
        sent: &[Vec<u8>],
    ) {
        let mark = match roce.ecn {
            Ecn::Ce => Mark::Congested,
            Ecn::Ect1 if A::is_ternary(&self.params()) => Mark::Undetermined,
            _ => Mark::None,
        };
        let reliable = matches!(Transport::of(roce.bth.opcode), Transport::Rc | Transport::Xrc);
        let request = matches!(roce.info.class(), Class::Send | Class::Write);
        let requests_ack = reliable && request && (arrived.ack_request || roce.info.last());
        let acknowledged = A::REPLIES && self.enabled && requests_ack && rx.msn.is_some();
        assert_eq!(outcome.ack != AckOutcome::None, acknowledged, "{arrived:?}: {outcome:?}");
        if mark == Mark::None && !acknowledged && !A::reacts_to(mark) {
            assert_eq!((outcome, sent.len()), (ArrivalOutcome::default(), 0));
        }
        assert!(mark != Mark::None || outcome.reply.cnp.is_none(), "a CNP for an unmarked packet");
        let to = roce.deth().map(|deth| deth.source_qp).or(rx.remote);
        let expected = [(Class::Cnp, outcome.cnp == CnpOutcome::Sent), (Class::Ack, outcome.ack == AckOutcome::Sent)];
        let expected: Vec<Class> = expected.into_iter().filter(|&(_, sent)| sent).map(|(class, _)| class).collect();
        let frames: Vec<Roce<'_>> = sent.iter().map(|frame| read(frame)).collect();
        assert_eq!(frames.iter().map(|frame| frame.info.class()).collect::<Vec<_>>(), expected);
        for frame in frames {
            assert_eq!((Some(frame.bth.dest_qp), frame.addresses()), (to, roce.addresses().reversed()));
            if frame.info.class() == Class::Ack {
                assert_eq!((frame.bth.psn, frame.shims().int), (roce.bth.psn, roce.shims().int));
                assert_eq!(frame.shims().time.map(|time| time.echo), roce.shims().time.map(|time| time.sent));
                assert_eq!(frame.echo(), outcome.reply.echo);
                // A machine that reacts to unmarked packets too uses signals other than marks, and need not echo these.
                assert!(A::reacts_to(Mark::None) || frame.echo() >= mark, "the acknowledgement hides a mark");
                assert_eq!(frame.aeth().map(|aeth| aeth.msn), rx.msn.map(|msn| msn & 0xff_ffff));
            }
        }
    }

    /// Checks that each marked packet was counted by one outcome. A machine with slots is not checked: it also counts the CNPs
    /// of slots, which no single packet causes.
    fn assert_counters_add_up(&self) {
        if A::slot_interval(&self.params()).is_some() {
            return;
        }
        for NpCounters {
            np_ecn_marked_roce_packets,
            np_cnp_sent,
            np_cnp_not_due,
            np_cnp_unaddressed,
            np_cnp_rate_limited,
            np_cnp_ring_full,
            np_ce_ignored,
            ..
        } in [self.engine.counters(), self.woken.counters()]
        {
            let accounted = np_cnp_sent
                + np_cnp_not_due
                + np_cnp_unaddressed
                + np_cnp_rate_limited
                + np_cnp_ring_full
                + np_ce_ignored;
            assert_eq!(np_ecn_marked_roce_packets, accounted);
        }
    }
}

fn qpn(flow: u8) -> Qpn {
    Qpn::new(u32::from(flow % FLOWS) * 0x10_0001)
}

/// Parses a frame, whose ICRC must be right.
fn read(frame: &[u8]) -> Roce<'_> {
    match parse(frame, frame.len()) {
        Ok(Parsed::Roce(roce)) if roce.icrc::<TableCrc>() == Icrc::Valid => roce,
        other => panic!("{other:?}: {frame:02x?}"),
    }
}

impl Arrived {
    fn frame(&self) -> Vec<u8> {
        static AREA: [u8; 96] = [0x3c; 96];
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let int = self.telemetry.and_then(|(hops, path)| IntShim::new(IntLayout::Wide, path, hops % 7, &AREA));
        // Few different values, so that one often equals the receiver's own credit C_R.
        let mlcc_data = self.telemetry.map(|(_, path)| MlccData { credit: path % 4, queue: Bytes::new(self.psn) });
        let time = self.sent.map(|sent| Time { sent: Stamp::from_bits(sent), ..Time::default() });
        let frame = Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::NONE,
            addresses: Addresses::V4 { source, destination },
            dscp: 26,
            ecn: Ecn::from_bits(self.ecn),
            hop_limit: 64,
            udp_source: 0xc000,
            shims: Shims { time, int, mlcc_data, ..Shims::NONE },
            bth: Bth {
                opcode: OPCODES[usize::from(self.opcode) % OPCODES.len()],
                dest_qp: qpn(self.flow),
                psn: Psn::new(self.psn),
                ack_request: self.ack_request,
                ..Bth::default()
            },
            extensions: Extensions { deth: Deth { queue_key: 1, source_qp: Qpn::new(0x55) }, ..Extensions::default() },
            payload: &[0; 255][..usize::from(self.payload)],
        };
        let mut buffer = vec![0; 768];
        let len = frame.emit::<TableCrc>(&mut buffer).expect("the frame fits");
        buffer.truncate(len);
        buffer
    }
}
