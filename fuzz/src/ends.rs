//! What is not in the registry of congestion points: the ends of segments, the shared buffer, and the relays of pauses.

use crate::operations;
use arbitrary::{Arbitrary, Unstructured};
use cc_core::wire::RateMessage;
use cc_core::wire::shim::MlccAck;
use cc_core::{Bytes, CnpKind, Ecn, Instant, Link, Nanos, Qpn, Rate, Stamp};
use cc_cp::lscc::direct_int::{self, DirectInt};
use cc_cp::lscc::rate_calculation::{self, Crossing, Feedback, RateCalculation};
use cc_cp::lscc::rate_limiting::{self, RateLimiting};
use cc_cp::mlcc::near_source::{self, NearSource};
use cc_cp::mlcc::per_flow_queues::{self, PerFlowQueues};
use cc_cp::mmu::{self, Admission, Mmu, MmuSettings};
use cc_cp::segment::{Endpoint, FlowKey, Rewrite, Transit};
use cc_cp::swing::{self, ReceiverRelay, RelayMessage, SenderRelay};
use std::collections::BTreeMap;

const LINK: Link = Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_500), base_rtt: Nanos::new(2_000_000) };
const SECOND: u64 = 1_000_000_000;
/// Ingress queues of the buffer, two to a port.
const QUEUES: u8 = 4;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// A packet passes every end. More flows than entries.
    Packet {
        flow: u8,
        data: bool,
        bytes: (u32, u8),
        ecn: u8,
    },
    /// LSCC's far end says a rate: repeated, overtaken, or nothing at all.
    Told {
        seq: u16,
        mbps: (u32, u8),
    },
    /// A CNP of the far datacentre.
    Notified(u8),
    /// Bytes come or go by the long link.
    Crossing {
        bytes: (u32, u8),
        queued: (u32, u8),
        leaves: bool,
    },
    /// A receiver's credit, old or new or none, and the rate that goes with it.
    Credit {
        flow: u8,
        credit: u16,
        rate: (u32, u8),
    },
    Admit(u8, (u32, u8)),
    Release(u8),
    Thresholds(bool),
    /// The far relay's switch pauses or resumes it.
    Held(bool),
    Relayed {
        paused: bool,
        seq: u16,
    },
    /// Nanoseconds, shifted so that short ones are as frequent as long ones.
    Wait(u32, u8),
    Wake,
    /// Only the buffer takes the time of a clock; the rest have stamps of local time.
    Jump(i64),
}

/// Small numbers are as frequent as large ones.
fn small((value, by): (u32, u8)) -> u32 {
    value >> (by % 32)
}

/// Drives one of each, and answers how many operations the bytes held.
///
/// # Panics
/// - An end lowers a mark that it must not, or notifies a sender of a packet without data; Not-ECT or control is marked.
/// - R leaves its limits; a flow gets more direct CNPs than periods; counters are not the sums of what happened.
/// - The buffer's occupancy is not what is in it, or goes below zero; a pause is not followed by one resume; a renewal is put
///   off beyond half a pause.
/// - A relay resumes whom it has not paused.
#[must_use]
pub fn ends(data: &[u8]) -> usize {
    let mut source = Unstructured::new(data);
    let Ok(start) = source.arbitrary::<u64>() else { return 0 };
    let mut bench = Bench::new(start >> 1);
    let mut count = 0;
    for operation in operations(&mut source) {
        bench.operate(&operation);
        bench.adds_up();
        count += 1;
    }
    bench.empties();
    count
}

struct Bench {
    now: u64,
    /// The buffer's clock less that of the others.
    skew: u64,
    limiting: (rate_limiting::Params, RateLimiting<2, 2>),
    calculation: (rate_calculation::Params, RateCalculation<10>),
    direct_int: (direct_int::Params, DirectInt<4>),
    near: (near_source::Params, NearSource<2, 2>),
    queues: (per_flow_queues::Params, PerFlowQueues<2, 2>),
    buffers: [mmu::Params; 2],
    buffer: Mmu<2, 2>,
    relays: (swing::Params, ReceiverRelay, SenderRelay),
    feedback: Feedback,
    told: u64,
    notified: u64,
    returned: u64,
    notified_by_int: u64,
    held: Vec<(u8, u32)>,
    /// Which ingress queues are paused.
    paused: BTreeMap<(usize, usize), bool>,
    dropped: u64,
    pauses: u64,
    far_seq: u16,
}

impl Bench {
    fn new(now: u64) -> Self {
        let stamp = Stamp::from_bits(now as u32);
        let limiting = rate_limiting::Params::new(&rate_limiting::PRESETS[0].values, &LINK).expect("a preset");
        let calculation =
            rate_calculation::Params::new(&rate_calculation::PRESETS[0].values, &LINK, 10).expect("a preset");
        let mut first = RateCalculation::<10>::open(&calculation, stamp);
        let wake = Crossing::Wake { queued: Bytes::ZERO };
        let feedback = first.on(&calculation, stamp.after(Nanos::new(200_000)), &wake).expect("a period is over");
        let direct_int = direct_int::Params::new(&direct_int::PRESETS[0].values, &LINK).expect("a preset");
        let near = near_source::Params::new(&near_source::PRESETS[0].values).expect("a preset");
        let queues = per_flow_queues::Params::new(&per_flow_queues::PRESETS[0].values, &LINK).expect("a preset");
        let small = |settings| {
            mmu::Params::new(&MmuSettings { buffer: 2_000_000, lossless_queues: 4, ..settings }, &LINK)
                .expect("it fits")
        };
        let buffers = [small(MmuSettings::HPCC), small(MmuSettings { reserve: 0, ..MmuSettings::LSCC })];
        let swing = swing::Params::new(&swing::PRESETS[0].values, &LINK).expect("a preset");
        Self {
            now,
            skew: 0,
            limiting: (limiting, RateLimiting::open(&limiting, stamp)),
            calculation: (calculation, RateCalculation::open(&calculation, stamp)),
            direct_int: (direct_int, DirectInt::open(&direct_int, stamp)),
            near: (near, NearSource::open(stamp)),
            queues: (queues, PerFlowQueues::open()),
            buffers,
            buffer: Mmu::new(buffers[0]),
            relays: (swing, ReceiverRelay::open(&swing, stamp), SenderRelay::open(&swing, stamp)),
            feedback,
            told: 0,
            notified: 0,
            returned: 0,
            notified_by_int: 0,
            held: Vec::new(),
            paused: BTreeMap::new(),
            dropped: 0,
            pauses: 0,
            far_seq: 0,
        }
    }

    fn stamp(&self) -> Stamp {
        Stamp::from_bits(self.now as u32)
    }

    fn operate(&mut self, operation: &Operation) {
        let now = self.stamp();
        match *operation {
            Operation::Packet { flow, data, bytes, ecn } => {
                let (bytes, ecn) = (Bytes::new(small(bytes)), Ecn::from_bits(ecn));
                self.packet(&Transit { flow: key(flow), data, bytes, ecn });
            }
            Operation::Told { seq, mbps } => {
                let (p, machine) = &mut self.limiting;
                machine.on_rate(p, now, &Feedback { rate: Rate::from_mbps(small(mbps)), seq, ..self.feedback });
                let message = RateMessage { seq, units: small(mbps), ..RateMessage::default() };
                self.direct_int.1.on_message(&self.direct_int.0, now, &message);
                self.told += 1;
            }
            Operation::Notified(flow) => {
                let (p, machine) = &mut self.limiting;
                machine.notified(p, now, key(flow));
            }
            Operation::Crossing { bytes, queued, leaves } => {
                let (bytes, queued) = (Bytes::new(small(bytes)), Bytes::new(small(queued)));
                let crossing = if leaves { Crossing::Left { bytes, queued } } else { Crossing::Arrived { queued } };
                self.crosses(&crossing);
                let (p, far, _) = &mut self.relays;
                let said = if leaves { far.left(p, now, bytes) } else { far.arrived(p, now, bytes) };
                self.said(said);
            }
            Operation::Credit { flow, credit, rate } => {
                let (p, machine) = &mut self.queues;
                let ack = MlccAck { credit, release: Rate::from_bits(small(rate)), ..MlccAck::default() };
                machine.acknowledged(p, key(flow), &ack);
            }
            Operation::Admit(queue, bytes) => self.admit(queue % (QUEUES + 1), small(bytes)),
            Operation::Release(which) => self.release(which),
            Operation::Thresholds(fixed) => self.buffer.set_params(self.buffers[usize::from(fixed)]),
            Operation::Held(held) => {
                let (p, far, _) = &mut self.relays;
                let said = far.paused(p, now, held);
                self.said(said);
            }
            Operation::Relayed { paused, seq } => {
                let (p, _, near) = &mut self.relays;
                let was = near.is_pausing();
                obeyed(was, near.on_message(p, now, RelayMessage { paused, seq }), near);
            }
            Operation::Wait(nanos, shift) => {
                self.wake();
                self.now += u64::from(nanos >> (3 + shift % 29)).min(SECOND / 2);
                self.wake();
            }
            Operation::Wake => self.wake(),
            Operation::Jump(by) => self.skew = self.skew.wrapping_add_signed(by),
        }
    }

    fn packet(&mut self, packet: &Transit) {
        let (now, stamp) = (Instant::from_nanos(self.now), self.stamp());
        let direct = self.limiting.1.forward(&self.limiting.0, now, packet);
        self.notified += u64::from(direct.notify.is_some());
        let _ = self.queues.1.arrive(&self.queues.0, stamp, packet);
        let near = self.near.1.forward(&self.near.0, now, packet);
        self.returned += u64::from(near.notify.is_some());
        let int = self.direct_int.1.forward(&self.direct_int.0, now, packet);
        self.notified_by_int += u64::from(int.notify.is_some());
        assert!(int.record.is_some() == int.notify.is_some());
        let far = self.queues.1.forward(&self.queues.0, now, packet);
        for (rewrite, answers_marks) in [(direct, true), (int, false), (near, false), (far, false)] {
            let answered = answers_marks && packet.data && packet.ecn == Ecn::Ce;
            assert_eq!(rewrite.ecn, if answered { Ecn::Ect0 } else { packet.ecn });
            assert!(packet.data || rewrite == Rewrite { ecn: packet.ecn, ..Rewrite::default() });
        }
        for (rewrite, kind) in [(direct, CnpKind::Direct), (int, CnpKind::DirectInt), (near, CnpKind::SwitchInt)] {
            let Some(cnp) = rewrite.notify else { continue };
            assert_eq!((cnp.kind, cnp.names_remote_qpn, cnp.remote_qpn), (kind, true, packet.flow.data_qpn));
        }
        if let Some(release) = self.queues.1.release(packet.flow) {
            assert!(Rate::ZERO < release && release <= LINK.line_rate);
        }
        let wait = self.queues.1.wait(stamp, packet.flow);
        assert!(wait < Nanos::new(u32::MAX / 2), "{wait:?}");
    }

    fn crosses(&mut self, crossing: &Crossing) {
        let (p, machine) = &mut self.calculation;
        let told = machine.on(p, Stamp::from_bits(self.now as u32), crossing);
        if let Some(told) = told {
            // A two hundredth of 200 Gb/s at the least, rounded down to whole Mb/s.
            assert!((1_000..=200_000).contains(&told.units), "{told:?}");
            assert!(told.rate == machine.rate() && told.rate <= LINK.line_rate);
        }
    }

    /// The far relay has spoken, or not.
    fn said(&mut self, said: Option<RelayMessage>) {
        if let Some(RelayMessage { seq, .. }) = said {
            assert_eq!(seq, self.far_seq.wrapping_add(1));
            self.far_seq = seq;
        }
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now.wrapping_add(self.skew) >> 1)
    }

    fn admit(&mut self, queue: u8, bytes: u32) {
        let (port, priority) = (usize::from(queue / 2), usize::from(queue % 2));
        let (admission, frame) = self.buffer.admit(self.at(), port, priority, Bytes::new(bytes));
        match admission {
            Admission::Taken => self.held.push((queue, bytes)),
            Admission::Dropped => self.dropped += 1,
        }
        assert!(queue < QUEUES || admission == Admission::Dropped);
        self.frame(frame, port, priority);
    }

    fn release(&mut self, which: u8) {
        if self.held.is_empty() {
            return;
        }
        let (queue, bytes) = self.held.swap_remove(usize::from(which) % self.held.len());
        let (port, priority) = (usize::from(queue / 2), usize::from(queue % 2));
        let frame = self.buffer.release(self.at(), port, priority, Bytes::new(bytes));
        self.frame(frame, port, priority);
    }

    fn frame(&mut self, frame: Option<mmu::PauseFrame>, port: usize, priority: usize) {
        let Some((to, of, quanta)) = frame else { return };
        assert_eq!((to, of), (port, priority));
        let was = self.paused.insert((port, priority), quanta > 0).unwrap_or(false);
        assert_ne!(was, quanta > 0, "said twice");
        self.pauses += u64::from(quanta > 0);
    }

    fn wake(&mut self) {
        let (now, at) = (self.stamp(), self.at());
        self.limiting.1.wake(&self.limiting.0, now);
        self.direct_int.1.wake(&self.direct_int.0, now);
        self.near.1.wake(now);
        self.queues.1.wake(now);
        self.crosses(&Crossing::Wake { queued: Bytes::ZERO });
        let (p, far, near) = &mut self.relays;
        let (was, said) = (near.is_pausing(), far.wake(p, now));
        obeyed(was, near.wake(p, now), near);
        self.said(said);
        let paused = &self.paused;
        self.buffer.wake(at, |(port, priority, quanta)| {
            assert!(quanta > 0 && paused.get(&(port, priority)) == Some(&true), "renewed, and not paused");
        });
        // 65 535 quanta of 2.56 ns, by two.
        assert!(self.buffer.next_wake(at).is_none_or(|wait| wait <= Nanos::new(83_885)));
    }

    fn adds_up(&self) {
        let limiting = &self.limiting.1;
        assert!(limiting.rate() <= LINK.line_rate);
        let (counters, int) = (limiting.counters(), &self.direct_int.1);
        assert!(int.rate() <= LINK.line_rate);
        for feedback in [counters.feedback, int.feedback()] {
            assert_eq!(u64::from(feedback.taken + feedback.old), self.told);
        }
        assert_eq!(u64::from(int.notified()), self.notified_by_int);
        assert_eq!(u64::from(counters.notified), self.notified);
        assert_eq!(self.near.1.counters().returned, self.returned);
        assert!(self.queues.1.occupied() <= 4);
        let held: u64 = self.held.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
        assert_eq!(self.buffer.occupancy(), held);
        let counters = self.buffer.counters();
        assert_eq!((counters.dropped, counters.pauses), (self.dropped, self.pauses));
        assert_eq!(self.buffer.next_wake(self.at()).is_some(), self.paused.values().any(|&paused| paused));
    }

    /// When all has left, nobody is paused, and there is as much room as in a buffer that has seen nothing.
    fn empties(&mut self) {
        while !self.held.is_empty() {
            self.release(0);
        }
        assert_eq!(self.buffer.occupancy(), 0);
        assert!(self.paused.values().all(|&paused| !paused));
        self.buffer.set_params(self.buffers[0]);
        let mut fresh = Mmu::<2, 2>::new(self.buffers[0]);
        for _ in 0..400 {
            let (at, bytes) = (self.at(), Bytes::new(1_000));
            assert_eq!(self.buffer.admit(at, 1, 1, bytes), fresh.admit(at, 1, 1, bytes));
        }
    }
}

/// More than there are entries, of few peers.
fn key(flow: u8) -> FlowKey {
    FlowKey { peers: u32::from(flow % 2), data_qpn: Qpn::new(u32::from(flow % 8) + 2) }
}

/// What the near relay has its switch told: a pause when it begins and again and again, and one resume behind it.
fn obeyed(was: bool, frame: Option<u16>, relay: &SenderRelay) {
    match frame {
        Some(0) => assert!(was && !relay.is_pausing(), "resumed whom it had not paused"),
        Some(_) => assert!(relay.is_pausing()),
        None => assert_eq!(was, relay.is_pausing()),
    }
}
