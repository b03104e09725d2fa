//! The target of DCQCN's notification point in a [`Nic`], compared with an exact model: any packets, any settings, and a clock
//! that may jump.

use crate::{FewFlows, operations};
use arbitrary::{Arbitrary, Unstructured};
use cc_core::clock::LocalClock;
use cc_core::params::Settings;
use cc_core::table::Fixed;
use cc_core::wire::{
    Addresses, Bth, Deth, Extensions, Frame, Icrc, Mac, Parsed, Roce, Shims, TableCrc, Tag, Tags, opcode, parse,
};
use cc_core::{Bytes, Ecn, Instant, Link, Nanos, Psn, Qpn, Rate, Zeroed};
use cc_np::dcqcn::{Dcqcn, DcqcnSettings};
use cc_np::{CnpOutcome, NotificationPoint, NpCounters};
use cc_rp::{RateLimiter, ReactionPoint, dcqcn};
use programs::{FrameOut, HeaderCache, Nic, Received, RxFields, TransmitRing};
use std::net::{Ipv4Addr, Ipv6Addr};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_500), base_rtt: Nanos::new(10_000) };
const FLOWS: usize = 8;
const SECOND: u64 = 1_000_000_000;
/// The number of the latest CNPs over which the port's limit is checked.
const CHECKED_CNPS: usize = 64;

#[derive(Arbitrary, Debug)]
enum Operation {
    Frame(Arrived),
    /// Time passes: nanoseconds, shifted right so that short waits are as frequent as long ones; at most half a second.
    Wait(u32, u8),
    Jump(i64),
    Configure([u32; 6]),
    Preset(u8),
    Enable(bool),
    Forget(u8),
}

#[derive(Arbitrary, Debug)]
struct Arrived {
    flow: u8,
    opcode: u8,
    ecn: u8,
    network: u8,
    tagged: bool,
    remote_known: bool,
    room: u8,
    psn: u32,
}

/// How the notification point treats the packets of an opcode.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    /// A flow of its own for each queue pair.
    Data,
    /// One flow for all datagrams.
    Datagram,
    /// No CNP.
    Ignored,
    /// For the reaction point: the notification point does not see it.
    Feedback,
}

const OPCODES: [(u8, Meaning); 10] = [
    (0x0a, Meaning::Data),     // RC write only
    (0x04, Meaning::Data),     // RC send only
    (0x0e, Meaning::Data),     // RC read response middle
    (0x24, Meaning::Data),     // UC send only
    (0xa7, Meaning::Data),     // XRC write middle
    (0x64, Meaning::Datagram), // UD send only
    (0x44, Meaning::Ignored),  // RD send only
    (0x0c, Meaning::Ignored),  // RC read request
    (0x11, Meaning::Feedback), // RC acknowledge
    (0x81, Meaning::Feedback), // CNP
];

/// A transmit ring with room for one frame at a time.
struct Ring {
    room: Vec<u8>,
    sent: Option<Vec<u8>>,
}

impl Ring {
    fn new(room: usize) -> Self {
        Self { room: vec![0; room], sent: None }
    }
}

impl TransmitRing for Ring {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.room
    }

    fn transmit(&mut self, length: usize) {
        assert!(self.sent.is_none(), "two frames for one packet");
        self.sent = Some(self.room[..length].to_vec());
    }
}

impl RateLimiter for Ring {
    fn set(&mut self, _: u16, _: Rate, _: Bytes, _: Nanos) {
        panic!("a decision, where no flow is open");
    }
}

/// The builder of frames for a ring. DCQCN sends a CNP only in response to a received packet, so no header cache is needed.
fn out(ring: &mut Ring) -> FrameOut<'_, Ring, Fixed<0>, TableCrc> {
    static NO_HEADERS: HeaderCache<Fixed<0>, 4> = HeaderCache::ZEROED;
    FrameOut::new(ring, &NO_HEADERS)
}

/// A NIC with room for the records of this many sets of received flows.
type Receiver<const SETS: usize> = Nic<dcqcn::Dcqcn, Dcqcn, FewFlows<SETS>>;
type Ample = Receiver<16>;
type Tight = Receiver<1>;

/// Passes the same packets to three NICs: two have room for every flow, and one of these is woken between packets; the third has
/// room for four flows, and has to evict others.
///
/// # Panics
/// - The outcome differs from the model's: a CNP is too early, too late or one too many, or is sent for a packet without a
///   mark.
/// - A wake changes an outcome; the counters do not add up; settings are accepted out of range, or refused in range.
/// - A packet for the reaction point changes the notification point's counters.
/// - A frame that was sent is not a CNP for the sender's queue pair.
pub fn np(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok(start) = source.arbitrary::<u64>() else { return };
    let mut now = start >> 1;
    let settings = Dcqcn::PRESETS[0].values;
    let start = Instant::from_nanos(now);
    let rp = dcqcn::Dcqcn::PRESETS[0].values;
    let mut ample = Ample::new(start, LINK, &rp, &settings).expect("a preset");
    let mut woken = Ample::new(start, LINK, &rp, &settings).expect("a preset");
    let mut tight = Tight::new(start, LINK, &rp, &settings).expect("a preset");
    let mut clock = LocalClock::new(start);
    let mut model = Model::new(settings);
    for operation in operations(&mut source) {
        match operation {
            Operation::Frame(arrived) => {
                let sent = arrived.frame();
                let frame = arrived.parse(&sent);
                let remote = arrived.remote_known.then_some(Qpn::new(0x77));
                let at = Instant::from_nanos(now);
                let room = usize::from(arrived.room) % 128;
                let (mut a, mut b, mut c) = (Ring::new(room), Ring::new(room), Ring::new(room));
                let rx = RxFields { remote, ..RxFields::at(at) };
                let feedback = arrived.meaning() == Meaning::Feedback;
                let outcome = arrive(&mut ample, &frame, &rx, &mut a, feedback);
                let again = arrive(&mut woken, &frame, &rx, &mut b, feedback);
                assert_eq!((outcome, &a.sent), (again, &b.sent), "a wake changed the outcome");
                let other = arrive(&mut tight, &frame, &rx, &mut c, feedback);
                model.assert_outcome(clock.advance(at).nanos(), &arrived, &frame, room, outcome);
                for (outcome, ring) in [(outcome, a), (other, c)] {
                    assert_eq!(outcome == CnpOutcome::Sent, ring.sent.is_some());
                    if let Some(cnp) = ring.sent {
                        assert_cnp(&cnp, &frame, remote);
                    }
                }
            }
            Operation::Wait(nanos, shift) => {
                let wait = u64::from(nanos >> (3 + shift % 29));
                for third in 1..=3 {
                    idle(&mut woken, Instant::from_nanos(now + wait * third / 3));
                }
                now += wait;
                clock.advance(Instant::from_nanos(now));
                idle(&mut ample, Instant::from_nanos(now));
                idle(&mut tight, Instant::from_nanos(now));
            }
            Operation::Jump(by) => {
                let to = now.saturating_add_signed(by >> 8) >> 1;
                if (now..=now + SECOND).contains(&to) {
                    continue;
                }
                now = to;
                for at in [now, now] {
                    clock.advance(Instant::from_nanos(at));
                    idle(&mut ample, Instant::from_nanos(at));
                    idle(&mut woken, Instant::from_nanos(at));
                    idle(&mut tight, Instant::from_nanos(at));
                }
            }
            Operation::Configure(values) => {
                let [min_time_between_cnps, cnp_dscp, cnp_802p_prio, cnp_port_interval, cnp_port_burst, cnp_sequence] =
                    values;
                let settings = DcqcnSettings {
                    min_time_between_cnps,
                    cnp_dscp,
                    cnp_802p_prio,
                    cnp_port_interval,
                    cnp_port_burst,
                    cnp_sequence,
                };
                model.configure(clock.now().nanos(), &mut [&mut ample, &mut woken], &mut tight, settings);
            }
            Operation::Preset(preset) => {
                let preset = Dcqcn::PRESETS[usize::from(preset) % Dcqcn::PRESETS.len()].values;
                model.configure(clock.now().nanos(), &mut [&mut ample, &mut woken], &mut tight, preset);
            }
            Operation::Enable(on) => {
                model.enabled = on;
                ample.np_mut().set_enabled(on);
                woken.np_mut().set_enabled(on);
                tight.np_mut().set_enabled(on);
                assert_eq!(ample.np().is_enabled(), on);
            }
            Operation::Forget(flow) => {
                let flow = usize::from(flow) % FLOWS;
                model.flows[flow] = None;
                ample.forget(qpn(flow));
                woken.forget(qpn(flow));
                tight.forget(qpn(flow));
            }
        }
        let expected = NpCounters {
            np_clock_jumps_forward: clock.forward_jumps().into(),
            np_clock_reversals: clock.backward_jumps().into(),
            ..model.counters
        };
        assert_eq!(ample.np().counters(), expected);
        assert_eq!(woken.np().counters(), expected);
        assert!(ample.np().live_flows() as usize <= FLOWS && tight.np().live_flows() <= 4);
        assert_eq!(accounted(&tight.np().counters()), model.counters.np_ecn_marked_roce_packets);
        assert_eq!(accounted(&ample.np().counters()), model.counters.np_ecn_marked_roce_packets);
    }
}

/// Passes a packet to a NIC. Returns the outcome of the CNP for it, from the one counter that it raised.
fn arrive<const SETS: usize>(
    nic: &mut Receiver<SETS>,
    packet: &Roce<'_>,
    rx: &RxFields,
    ring: &mut Ring,
    feedback: bool,
) -> CnpOutcome {
    let before = nic.np().counters();
    let received = nic.received(rx.arrived, packet, rx, &mut out(ring));
    assert_eq!(matches!(received, Received::Cnp(None) | Received::Ack(None)), feedback, "{received:?}");
    assert_eq!(received == Received::Data, !feedback, "{received:?}");
    let after = nic.np().counters();
    if feedback {
        assert_eq!(before, after);
    }
    let raised = |counter: fn(&NpCounters) -> u64| counter(&after) - counter(&before);
    let outcomes = [
        (CnpOutcome::Sent, raised(|counters| counters.np_cnp_sent)),
        (CnpOutcome::Unaddressed, raised(|counters| counters.np_cnp_unaddressed)),
        (CnpOutcome::RateLimited, raised(|counters| counters.np_cnp_rate_limited)),
        (CnpOutcome::RingFull, raised(|counters| counters.np_cnp_ring_full)),
        (CnpOutcome::None, raised(|counters| counters.np_cnp_not_due + counters.np_ce_ignored)),
    ];
    let marked = raised(|counters| counters.np_ecn_marked_roce_packets);
    assert_eq!(outcomes.iter().map(|&(_, raised)| raised).sum::<u64>(), marked, "{outcomes:?}");
    outcomes.into_iter().find(|&(_, raised)| raised > 0).map_or(CnpOutcome::None, |(outcome, _)| outcome)
}

/// Wakes a NIC, which must send no CNP.
fn idle<const SETS: usize>(nic: &mut Receiver<SETS>, now: Instant) {
    let mut ring = Ring::new(128);
    nic.timer(now, &mut out(&mut ring));
    assert_eq!(ring.sent, None, "a wake sent a CNP");
}

/// The sum of the counters of marked packets, each of which counts one outcome.
fn accounted(counters: &NpCounters) -> u64 {
    counters.np_cnp_sent
        + counters.np_cnp_not_due
        + counters.np_cnp_unaddressed
        + counters.np_cnp_rate_limited
        + counters.np_cnp_ring_full
        + counters.np_ce_ignored
}

fn qpn(flow: usize) -> Qpn {
    Qpn::new(flow as u32 * 0x10_0001)
}

impl Arrived {
    fn meaning(&self) -> Meaning {
        OPCODES[usize::from(self.opcode) % OPCODES.len()].1
    }

    fn frame(&self) -> Vec<u8> {
        let (v4, v6) = (|low| Ipv4Addr::new(10, 0, 0, low), |low| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, low));
        let addresses = match self.network % 4 {
            0 => Addresses::Gid { source: v6(1), destination: v6(2) },
            1 => Addresses::V6 { source: v6(1), destination: v6(2) },
            _ => Addresses::V4 { source: v4(1), destination: v4(2) },
        };
        let tag = [Tag { vid: 5, ..Tag::default() }.to_bytes()];
        let frame = Frame {
            destination: Mac::new([2; 6]),
            source: Mac::new([4; 6]),
            tags: Tags::new(&tag[..usize::from(self.tagged)]).expect("a tag"),
            addresses,
            dscp: 26,
            ecn: Ecn::from_bits(self.ecn),
            hop_limit: 64,
            udp_source: 0xc000,
            shims: Shims::NONE,
            bth: Bth {
                opcode: OPCODES[usize::from(self.opcode) % OPCODES.len()].0,
                dest_qp: qpn(usize::from(self.flow) % FLOWS),
                psn: Psn::new(self.psn),
                ..Bth::default()
            },
            extensions: Extensions { deth: Deth { queue_key: 1, source_qp: Qpn::new(0x55) }, ..Extensions::default() },
            payload: &[],
        };
        let mut buffer = vec![0; 256];
        let len = frame.emit::<TableCrc>(&mut buffer).expect("the frame fits");
        buffer.truncate(len);
        buffer
    }

    fn parse<'a>(&self, bytes: &'a [u8]) -> Roce<'a> {
        match parse(bytes, bytes.len()) {
            Ok(Parsed::Roce(roce)) => roce,
            other => panic!("{self:?} was read as {other:?}"),
        }
    }
}

/// Checks that the frame is a CNP that is addressed to the sender of `cause`.
fn assert_cnp(cnp: &[u8], cause: &Roce<'_>, remote: Option<Qpn>) {
    let Ok(Parsed::Roce(cnp)) = parse(cnp, cnp.len()) else { panic!("not RoCE: {cnp:02x?}") };
    assert_eq!((cnp.bth.opcode, cnp.icrc::<TableCrc>()), (opcode::CNP, Icrc::Valid));
    assert_eq!(Some(cnp.bth.dest_qp), cause.deth().map(|deth| deth.source_qp).or(remote));
    assert_eq!(cnp.addresses(), cause.addresses().reversed());
}

/// The record of a flow, in local time.
#[derive(Clone, Copy)]
struct Record {
    /// When its last CNP went out.
    notified: Option<u64>,
    /// When its last packet came for which a CNP could have been sent.
    seen: u64,
}

/// The model of a NIC with room for all flows.
struct Model {
    settings: DcqcnSettings,
    enabled: bool,
    /// The record of each flow, and that of datagrams.
    flows: [Option<Record>; FLOWS],
    datagrams: Option<Record>,
    /// The times of the port's CNPs since the last change of settings, which fills the token bucket.
    port: Vec<u64>,
    counters: NpCounters,
}

impl Model {
    fn new(settings: DcqcnSettings) -> Self {
        let (flows, counters) = ([None; FLOWS], NpCounters::default());
        Self { settings, enabled: true, flows, datagrams: None, port: Vec::new(), counters }
    }

    /// How long a record lasts without a packet, in nanoseconds: the interval, or 1 s where CNPs are counted.
    fn idle_timeout(&self) -> u64 {
        if self.settings.cnp_sequence == 1 { SECOND } else { u64::from(self.settings.min_time_between_cnps) * 1_000 }
    }

    /// A record that is idle for longer than its timeout is gone before the settings change: a longer interval does not bring it
    /// back.
    fn configure(&mut self, now: u64, ample: &mut [&mut Ample; 2], tight: &mut Tight, settings: DcqcnSettings) {
        let in_range = DcqcnSettings::FIELDS
            .iter()
            .enumerate()
            .all(|(index, field)| (field.min..=field.max).contains(&settings.get(index)));
        let checked = Dcqcn::check(&settings, &LINK);
        assert_eq!(checked.is_ok(), in_range, "{settings:?}: {checked:?}");
        if let Ok(params) = checked {
            ample.iter_mut().for_each(|nic| nic.np_mut().set_params(params));
            tight.np_mut().set_params(params);
            let timeout = self.idle_timeout();
            for record in self.flows.iter_mut().chain([&mut self.datagrams]) {
                *record = record.filter(|record| now - record.seen <= timeout);
            }
            self.settings = settings;
            self.port.clear();
        }
    }

    /// Checks the outcome for a packet that arrived at the local time `now`, and counts it.
    fn assert_outcome(&mut self, now: u64, arrived: &Arrived, frame: &Roce<'_>, room: usize, outcome: CnpOutcome) {
        let v2 = !matches!(frame.addresses(), Addresses::Gid { .. });
        let marked = v2 && frame.ecn == Ecn::Ce;
        if !marked || arrived.meaning() == Meaning::Feedback {
            assert_eq!(outcome, CnpOutcome::None);
            return;
        }
        self.counters.np_ecn_marked_roce_packets += 1;
        let timeout = self.idle_timeout();
        let record = match arrived.meaning() {
            Meaning::Ignored | Meaning::Feedback => None,
            _ if !self.enabled => None,
            Meaning::Data => Some(&mut self.flows[usize::from(arrived.flow) % FLOWS]),
            Meaning::Datagram => Some(&mut self.datagrams),
        };
        let Some(record) = record else {
            self.counters.np_ce_ignored += 1;
            assert_eq!(outcome, CnpOutcome::None);
            return;
        };
        if arrived.meaning() == Meaning::Data && !arrived.remote_known {
            self.counters.np_cnp_unaddressed += 1;
            assert_eq!(outcome, CnpOutcome::Unaddressed);
            return;
        }
        let interval = u64::from(self.settings.min_time_between_cnps) * 1_000;
        // A record whose timeout has passed is opened again: a longer interval that is set later does not find the CNP in it.
        *record = record.filter(|record| now - record.seen <= timeout);
        let record = record.get_or_insert(Record { notified: None, seen: now });
        record.seen = now;
        if record.notified.is_some_and(|last| now - last < interval) {
            self.counters.np_cnp_not_due += 1;
            assert_eq!(outcome, CnpOutcome::None);
            return;
        }
        // The interval has passed. A CNP that cannot be sent now stays due, also where a longer interval is set before the next.
        record.notified = None;
        match outcome {
            CnpOutcome::Sent => {
                record.notified = Some(now);
                self.counters.np_cnp_sent += 1;
                self.assert_within_the_port_s_limit(now);
            }
            CnpOutcome::RateLimited => {
                self.counters.np_cnp_rate_limited += 1;
                assert!(self.settings.cnp_port_interval > 0 && !self.port.is_empty());
            }
            CnpOutcome::RingFull => {
                self.counters.np_cnp_ring_full += 1;
                let (network, tag) =
                    (if frame.udp_source().is_none() { 40 } else { 28 }, 4 * usize::from(arrived.tagged));
                assert!(room < 14 + tag + network.max(48) + 12 + 16 + 4);
            }
            CnpOutcome::None | CnpOutcome::Unaddressed => panic!("{arrived:?} at {now}: {outcome:?}"),
        }
    }

    /// Checks that the port sends at most `burst + T / interval` CNPs in any time T.
    fn assert_within_the_port_s_limit(&mut self, now: u64) {
        self.port.push(now);
        let interval = u64::from(self.settings.cnp_port_interval);
        if interval == 0 {
            return;
        }
        for (between, earlier) in self.port.iter().rev().enumerate().take(CHECKED_CNPS) {
            let most = u64::from(self.settings.cnp_port_burst) + (now - earlier) / interval;
            assert!((between as u64) < most, "{} CNPs since {earlier}, now {now}", between + 1);
        }
    }
}
