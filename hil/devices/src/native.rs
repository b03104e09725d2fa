//! A NIC that runs the library natively on the host, with the same NIC as the firmware.

use super::device::{Decision, Decisions, Device};
use super::event::NicEvent;
use super::reference::{Handled, Reference};
use anyhow::{Context, Result, anyhow};
use cc_core::table::Handle;
use cc_core::wire::{self, NoCrc, Response, Roce, opcode};
use cc_core::{Bytes, Instant, Nanos, Rate};
use cc_np::NotSent;
use cc_rp::TraceValue;
use hil_algorithms::settings::ResolvedSettings;
use hil_algorithms::{Algorithm, NicCounters, NicGroup, NicOutput, NicSize};
use hil_capture::crc::HostCrc;
use hil_cores::board::{Action, LogRecord, PacerStore};
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::layout::TX_FRAME_BYTES;
use programs::{LogKind, NO_FLOW};

/// The number of the only NIC of its group.
const NIC: usize = 0;

/// A NIC that runs natively.
pub struct Native {
    nics: Box<dyn NicGroup>,
    next_wake: u64,
    record: Option<Vec<(u64, Action)>>,
}

impl Native {
    /// A NIC with these settings and tables of this size, whose clock shows zero.
    ///
    /// # Errors
    /// The settings contradict each other or the port.
    pub fn new(algorithm: &dyn Algorithm, settings: &ResolvedSettings, size: NicSize) -> Result<Self> {
        let ResolvedSettings { rp, np, link, .. } = settings;
        let mut nics = algorithm.nics(*link, [rp, np]).map_err(|error| anyhow!("{error}"))?;
        let [flows, peers] = size.room();
        let nic = nics.add(Instant::from_nanos(0), flows, peers);
        nics.count_transitions(nic);
        let next_wake = nics.next_wake(nic).nanos();
        Ok(Self { nics, next_wake, record: None })
    }

    /// Also records the actions of a board on which the firmware decides the same, whole frames included.
    pub fn recorded(self) -> Self {
        Self { record: Some(Vec::new()), ..self }
    }

    /// The actions recorded since the last call.
    pub fn take_record(&mut self) -> Vec<(u64, Action)> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The group of which it is the only NIC.
    pub fn group(&self) -> &dyn NicGroup {
        &*self.nics
    }

    /// One wake, at this time.
    pub fn wake_at(&mut self, now: u64, decisions: &mut Decisions) {
        let (nics, mut output) = self.nic(now, decisions);
        let due = nics.timer(NIC, Instant::from_nanos(now), &mut output).expect("the library does not fail");
        output.log(LogKind::Wake, due.map_or(NO_FLOW, u32::from));
        self.next_wake = self.nics.next_wake(NIC).nanos();
    }

    /// Passes names and values of the state variables of the flow in a slot to `show`, see
    /// [`ReactionPoint::trace_values`](cc_rp::ReactionPoint::trace_values).
    pub fn explain(&self, slot: u16, show: &mut dyn FnMut(&'static str, f64)) {
        self.nics.explain(NIC, slot, &mut |TraceValue { name, bits, fraction_bits }| {
            show(name, f64::from(bits) / 2_f64.powi(fraction_bits as i32));
        });
    }

    /// Handles an event at this time, without the wakes that it makes due. Returns kind and index of its log record.
    // Always inlined: a native replay calls it twice for each packet, and a call takes a fifth of the time of an event.
    #[inline(always)]
    pub fn handle(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> (LogKind, u32) {
        let (nics, mut output) = self.nic(now, decisions);
        let now = Instant::from_nanos(now);
        let slot = |flow: Handle| u32::from(flow.index());
        let (kind, index) = match *event {
            NicEvent::Packet { roce, frame, ref meta } => {
                let received = nics.received(NIC, now, roce, frame.bytes, meta, &mut output);
                let (kind, flow) = received.expect("the library handles it at once").logged();
                (kind, flow.map_or(NO_FLOW, slot))
            }
            NicEvent::Pause { pfc, .. } => {
                nics.pause(NIC, now, pfc);
                (LogKind::Pause, NO_FLOW)
            }
            NicEvent::Sent { flow, psn, bytes } => {
                nics.sent(NIC, now, flow, psn, bytes, &mut output);
                (LogKind::Sent, slot(flow))
            }
            NicEvent::Open { priority } => {
                let opened = nics.open(NIC, now, priority, &mut output);
                (LogKind::Open, opened.map_or(NO_FLOW, Handle::to_bits))
            }
            NicEvent::Bind { flow, local } => {
                let bound = nics.bind(NIC, now, flow, local);
                (LogKind::Bind, if bound.is_ok() { slot(flow) } else { NO_FLOW })
            }
            NicEvent::Close { flow } => {
                nics.close(NIC, now, flow);
                (LogKind::Close, slot(flow))
            }
            NicEvent::Connect { roce, frame, remote } => {
                let learnt = nics.learn_sender(NIC, now, roce, frame.bytes, remote);
                (if learnt { LogKind::Connect } else { LogKind::Nothing }, NO_FLOW)
            }
            NicEvent::LearnRemote { roce, frame, flow } => {
                if nics.learn_remote(NIC, now, flow, roce, frame.bytes) {
                    (LogKind::Connect, slot(flow))
                } else {
                    (LogKind::Nothing, NO_FLOW)
                }
            }
            NicEvent::Disconnect { local } => {
                nics.forget(NIC, now, local);
                (LogKind::Connect, NO_FLOW)
            }
        };
        output.log(kind, index);
        self.next_wake = self.nics.next_wake(NIC).nanos();
        (kind, index)
    }

    /// The group with this NIC, and the output for what it decides and sends at this time.
    fn nic<'a>(&'a mut self, now: u64, decisions: &'a mut Decisions) -> (&'a mut dyn NicGroup, Output<'a>) {
        (&mut *self.nics, Output { now, decisions, record: self.record.as_mut() })
    }

    /// Wakes it until nothing is due at `now`: the firmware's timer line stays high as long.
    fn settle(&mut self, now: u64, decisions: &mut Decisions) {
        while self.next_wake <= now {
            self.wake_at(now, decisions);
        }
    }
}

/// The flow that was opened, by the log record of an event.
pub fn opened((kind, index): (LogKind, u32)) -> Option<Handle> {
    (kind == LogKind::Open && index != NO_FLOW).then(|| Handle::from_bits(index))
}

impl Device for Native {
    #[inline]
    fn next_wake(&self) -> u64 {
        self.next_wake
    }

    fn wake(&mut self, decisions: &mut Decisions) -> Result<()> {
        self.settle(self.next_wake, decisions);
        Ok(())
    }

    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        let logged = self.handle(now, event, decisions);
        self.settle(now, decisions);
        Ok(opened(logged))
    }

    fn counters(&self) -> NicCounters {
        self.nics.counters(NIC)
    }
}

impl Reference for Native {
    const WAKE: u32 = LogKind::Wake as u32;
    const REPORTS_ENDS: bool = false;

    fn handle_again(&mut self, now: u64, handled: &Handled, decisions: &mut Decisions) -> Result<Vec<(u64, Action)>> {
        match &handled.descriptor {
            None => self.wake_at(now, decisions),
            Some((descriptor, frame)) => {
                let packet = wire::parse(frame, descriptor.wire_bytes as usize).ok();
                let event = NicEvent::of(descriptor, frame, packet.as_ref()).context("an event that was delivered")?;
                self.handle(now, &event, decisions);
            }
        }
        Ok(self.take_record())
    }

    fn kind(number: u32) -> &'static str {
        LogKind::from_number(number).map_or("unknown", LogKind::name)
    }

    fn is_command(descriptor: &Descriptor) -> bool {
        ![DescriptorKind::Frame as u8, DescriptorKind::Sent as u8].contains(&descriptor.kind)
    }
}

/// The output of a NIC during one event.
struct Output<'a> {
    now: u64,
    decisions: &'a mut Decisions,
    record: Option<&'a mut Vec<(u64, Action)>>,
}

impl Output<'_> {
    fn log(&mut self, kind: LogKind, index: u32) {
        if let Some(record) = &mut self.record {
            record.push((self.now, Action::Log(LogRecord { kind: kind as u32, now: self.now, index })));
        }
    }
}

impl NicOutput for Output<'_> {
    fn set(&mut self, slot: u16, rate: Rate, window: Bytes, hold: Nanos) {
        let store = PacerStore { index: slot.into(), rate: rate.to_bits(), window: window.get(), hold: hold.get() };
        self.decisions.push((self.now, Decision::Pace(store)));
        if let Some(record) = &mut self.record {
            record.push((self.now, Action::Pace(store)));
        }
    }

    fn send(&mut self, frame: &Response<'_>) -> Result<(), NotSent> {
        let mut buffer = [0; TX_FRAME_BYTES];
        // Only a board's frames need an ICRC; a frame that is too long for the ring is not sent in either case.
        let length = match &mut self.record {
            Some(_) => frame.emit::<HostCrc>(&mut buffer),
            None => frame.emit::<NoCrc>(&mut buffer),
        };
        let length = length.map_err(|_| NotSent::Full)?;
        self.forward(&buffer[..length])
    }

    fn forward(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        if let Some(record) = &mut self.record {
            record.push((self.now, Action::Frame(frame.to_vec())));
        }
        if let Some(roce) = Roce::of(frame).filter(|roce| roce.bth.opcode == opcode::CNP) {
            let (to, qpn) = (roce.addresses().destination(), roce.bth.dest_qp.get());
            self.decisions.push((self.now, Decision::Cnp { to, qpn }));
        }
        Ok(())
    }
}
