//! From the frames of a capture to the descriptors of the NICs that it shows.
//!
//! Open loop: what the capture shows has happened, whatever our machines decide. A frame with data was sent by the NIC
//! at its source address and arrived at the one at its destination; every NIC is handed its side of it, in the order
//! and at the times of the capture. Between descriptors a NIC is woken when it asked to be; at equal times the wake
//! goes first. NICs do not meet except through the capture, so each is brought forward on its own.

use super::cnps::{Cnps, Route};
use super::device::{Actions, Arrival, Counters, Device, Difference};
use super::distribution::Distribution;
use super::fast::FastMap;
use super::flows::{Acknowledged, Address, DriverCommand, Flow, Flows, Slot};
use super::pauses::Pauses;
use super::series::Series;
use anyhow::{Result, bail};
use cc_core::table::Handle;
use cc_core::wire::cm::{self, Message};
use cc_core::wire::opcode::{Class, Transport};
use cc_core::wire::pfc::Pfc;
use cc_core::wire::{self, Icrc, Parsed, Roce, Shims, Syndrome, Version, shim};
use cc_core::{CnpBodyKind, Ecn, Mark, Rate};
use cc_rp::Signals;
use hil_capture::Record;
use hil_capture::crc::HostCrc;
use hil_cores::board::{Action, PacerStore};
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::{LogKind, NO_FLOW};
use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;

/// Addresses followed at most; packets of further ones are counted and go nowhere.
const MAX_ADDRESSES: usize = 65_535;
/// The longest time between two frames that is replayed as it is; a longer one is cut to this and counted.
const LONGEST_GAP: u64 = 3_600_000_000_000;
/// Flows whose rates over time are kept.
pub const MAX_SERIES: usize = 256;

/// Which addresses become NICs, and how many may.
#[derive(Clone, Debug)]
pub struct NicFilter {
    /// These; every one that the capture shows if empty.
    pub only: Vec<IpAddr>,
    /// So many at most.
    pub limit: usize,
    /// One too many is an error, where otherwise it is counted.
    pub strict: bool,
}

/// Frames by what they are.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// All of them.
    pub total: u64,
    /// RoCEv2.
    pub rocev2: u64,
    /// RoCEv2 with shims, on their UDP port.
    pub rocev2_shim: u64,
    /// RoCEv1.
    pub rocev1: u64,
    /// Priority flow control.
    pub pfc: u64,
    /// None of ours, by what they are instead.
    pub other: BTreeMap<&'static str, u64>,
    /// Malformed, or cut within their headers.
    pub unparsed: u64,
    /// Cut by the capture's snap length.
    pub truncated: u64,
    /// Frames that reached no NIC because of what is wrong with them, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// RoCE packets by opcode.
    pub by_opcode: BTreeMap<u8, u64>,
    /// RoCE packets with a right ICRC.
    pub icrc_valid: u64,
    /// RoCE packets with a wrong one.
    pub icrc_invalid: u64,
    /// RoCE packets cut by the snap length; the NIC that received them is taken to have found it right.
    pub icrc_unchecked: u64,
    /// RoCE packets whose source or destination is beyond the number of addresses followed.
    pub unfollowed: u64,
    /// PFC frames of which it is not known whom they pause.
    pub pfc_unattributed: u64,
    /// Times without a frame that were cut to an hour.
    pub gaps: u64,
}

/// What a replay came to.
#[derive(Debug)]
pub struct Outcome {
    /// The address of each number.
    pub addresses: Vec<IpAddr>,
    /// The NICs replayed, with what they counted.
    pub nics: Vec<(Address, Counters)>,
    /// Nanoseconds that PFC paused each priority of each NIC.
    pub pauses: Vec<(Address, [u64; 8])>,
    /// Addresses that were not replayed because there were too many.
    pub refused_nics: u64,
    /// The flows.
    pub flows: Flows,
    /// Flows for which an engine had no slot.
    pub refused_flows: u64,
    /// Flows whose rates over time were not kept.
    pub unkept_series: u64,
    /// The frames.
    pub frames: Frames,
    /// Signals that reached NICs.
    pub signals: Signals,
    /// The CNPs.
    pub cnps: Cnps,
    /// From each data packet that an acknowledgement names to that acknowledgement, in nanoseconds.
    pub rtt: Distribution,
    /// Packets sent while more was in flight than our window would have allowed.
    pub window_exceeded: u64,
    /// The first difference between library and image, the NIC and the flow.
    pub difference: Option<(Difference, Address, Option<usize>)>,
    /// From the first frame to the last, in nanoseconds.
    pub duration: u64,
}

/// One NIC of the capture.
#[derive(Debug)]
struct NicInstance<D> {
    address: Address,
    device: D,
    /// The flow that each slot of its engine serves.
    slots: Vec<usize>,
    /// The interface of the capture and the Ethernet address that its frames were last sent to.
    next_hop: Option<(u32, [u8; 6])>,
    pauses: Pauses,
}

/// Plays a capture to devices.
#[derive(Debug)]
pub struct Replayer<D, F> {
    make: F,
    nic_filter: NicFilter,
    numbers: FastMap<Address, u128>,
    addresses: Vec<IpAddr>,
    /// Its station, for each address that has one.
    instance_of: Vec<Option<u16>>,
    nic_instances: Vec<NicInstance<D>>,
    line_rate: u32,
    shim_port: u16,
    refused: u64,
    flows: Flows,
    frames: Frames,
    opcodes: Vec<u64>,
    signals: Signals,
    cnps: Cnps,
    rtt: Distribution,
    series: usize,
    unkept_series: u64,
    window_exceeded: u64,
    refused_flows: u64,
    difference: Option<(Difference, Address, Option<usize>)>,
    base: Option<u64>,
    now: u64,
    opened: Option<u32>,
    actions: Actions,
}

impl<D: Device, F: FnMut(IpAddr) -> Result<D>> Replayer<D, F> {
    /// A player that has played nothing; `make` makes the NIC of an address. Flows begin at
    /// `line_rate`.
    pub fn new(nic_filter: NicFilter, line_rate: Rate, make: F) -> Self {
        Self {
            make,
            nic_filter,
            numbers: FastMap::default(),
            addresses: Vec::new(),
            instance_of: Vec::new(),
            nic_instances: Vec::new(),
            line_rate: line_rate.to_bits(),
            shim_port: shim::PORT,
            refused: 0,
            flows: Flows::default(),
            frames: Frames::default(),
            opcodes: vec![0; 256],
            signals: Signals::NONE,
            cnps: Cnps::default(),
            rtt: Distribution::default(),
            series: 0,
            unkept_series: 0,
            window_exceeded: 0,
            refused_flows: 0,
            difference: None,
            base: None,
            now: 0,
            opened: None,
            actions: Actions::new(),
        }
    }

    /// Expects shims on this UDP port. The NICs have them on [`shim::PORT`], and see the frames as if they came there.
    pub fn with_shim_port(self, shim_port: u16) -> Self {
        Self { shim_port, ..self }
    }

    /// Plays one frame.
    ///
    /// # Errors
    /// Too many NICs, where that is an error; firmware that misbehaves.
    pub fn frame(&mut self, record: &Record<'_>) -> Result<()> {
        let now = self.clock(record.timestamp_ns);
        self.frames.total += 1;
        self.frames.truncated += u64::from((record.bytes.len() as u64) < u64::from(record.original_len));
        let packet = match wire::parse_on(record.bytes, record.original_len as usize, self.shim_port) {
            Ok(packet) => packet,
            Err(reason) => {
                self.frames.unparsed += 1;
                *self.frames.dropped.entry(reason.name()).or_default() += 1;
                return Ok(());
            }
        };
        match &packet {
            Parsed::Roce(roce) if roce.is_shimmed() && self.shim_port != shim::PORT => {
                self.rewrite_shim_port(record, roce, now)
            }
            Parsed::Roce(roce) => self.roce(record, &packet, roce, now),
            Parsed::Pfc(pfc) => self.pfc(record, &packet, pfc, now),
            Parsed::NotRoce(foreign) => {
                *self.frames.other.entry(foreign.kind().name()).or_default() += 1;
                Ok(())
            }
        }
    }

    /// The capture is over: every NIC is brought to the time of the last frame.
    ///
    /// # Errors
    /// Firmware that misbehaves.
    pub fn finish(&mut self) -> Result<()> {
        for number in 0..self.nic_instances.len() {
            self.advance_nic(number, self.now)?;
            let Some(nic_instance) = self.nic_instances.get_mut(number) else { break };
            nic_instance.device.finish(self.now, &mut self.actions)?;
            self.record(number);
        }
        let counted = self.opcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
        self.frames.by_opcode = counted.map(|(opcode, &count)| (opcode as u8, count)).collect();
        Ok(())
    }

    /// What came of it, and the NICs.
    pub fn into_outcome(self) -> (Outcome, Vec<D>) {
        let nics = self
            .nic_instances
            .iter()
            .map(|nic_instance| (nic_instance.address, nic_instance.device.counters()))
            .collect();
        let pauses = self
            .nic_instances
            .iter()
            .map(|nic_instance| (nic_instance.address, nic_instance.pauses.totals(self.now)))
            .collect();
        let outcome = Outcome {
            addresses: self.addresses,
            nics,
            pauses,
            refused_nics: self.refused,
            flows: self.flows,
            refused_flows: self.refused_flows,
            unkept_series: self.unkept_series,
            frames: self.frames,
            signals: self.signals,
            cnps: self.cnps,
            rtt: self.rtt,
            window_exceeded: self.window_exceeded,
            difference: self.difference,
            duration: self.now,
        };
        (outcome, self.nic_instances.into_iter().map(|nic_instance| nic_instance.device).collect())
    }

    /// Nanoseconds on the NICs' clocks, which start with the capture, at this stamp of it.
    fn clock(&mut self, stamp: u64) -> u64 {
        let base = self.base.get_or_insert(stamp);
        let latest = self.now.saturating_add(LONGEST_GAP);
        let mut now = stamp.saturating_sub(*base);
        if now > latest {
            *base += now - latest;
            now = latest;
            self.frames.gaps += 1;
        }
        self.now = self.now.max(now);
        now
    }

    /// A frame with shims on another port than the NICs have: as if it came on theirs.
    fn rewrite_shim_port(&mut self, record: &Record<'_>, roce: &Roce<'_>, now: u64) -> Result<()> {
        let mut bytes = record.bytes.to_vec();
        // The destination port is in the third and fourth of the eight bytes before the chain.
        if let Some(port) = roce.chain_at().checked_sub(6).and_then(|at| bytes.get_mut(at..at + 2)) {
            port.copy_from_slice(&shim::PORT.to_be_bytes());
        }
        let record = Record { bytes: &bytes, ..*record };
        match &wire::parse(&bytes, record.original_len as usize) {
            Ok(packet @ Parsed::Roce(roce)) => self.roce(&record, packet, roce, now),
            _ => Ok(()),
        }
    }

    fn roce(&mut self, record: &Record<'_>, packet: &Parsed<'_>, roce: &Roce<'_>, now: u64) -> Result<()> {
        match roce.version() {
            Version::V1 => self.frames.rocev1 += 1,
            Version::V2 if roce.is_shimmed() => self.frames.rocev2_shim += 1,
            Version::V2 => self.frames.rocev2 += 1,
        }
        self.opcodes[usize::from(roce.bth.opcode)] += 1;
        match roce.icrc::<HostCrc>() {
            Icrc::Valid => self.frames.icrc_valid += 1,
            Icrc::Unchecked => self.frames.icrc_unchecked += 1,
            Icrc::Invalid => {
                self.frames.icrc_invalid += 1;
                *self.frames.dropped.entry("icrc").or_default() += 1;
                return Ok(());
            }
        }
        let addresses = roce.addresses();
        let (Some(source), Some(target)) = (self.number(addresses.source())?, self.number(addresses.destination())?)
        else {
            self.frames.unfollowed += 1;
            return Ok(());
        };

        let mut descriptor = arrived(record, now);
        match roce.info.class() {
            _ if roce.bth.dest_qp == cm::QP => {
                if let Some(message) = Message::parse(roce) {
                    self.flows.learn(source, target, message);
                    self.run_driver_commands(now)?;
                }
            }
            class if class.carries_data() => {
                let flow = match roce.deth() {
                    Some(deth) => self.flows.of_data(source, None, deth.source_qp.get()),
                    None => self.flows.of_data(source, Some(target), roce.bth.dest_qp.get()),
                };
                self.run_driver_commands(now)?;
                if let Some(flow) = flow {
                    let frame = Arrival { bytes: record.bytes, packet };
                    self.sent(source, flow, roce, record, frame, now)?;
                    self.arrives(target, flow, roce, &mut descriptor, frame)?;
                }
            }
            Class::Ack => {
                let Acknowledged { bytes, rtt } = self.acknowledged(source, target, roce, now)?;
                descriptor.acked = u32::try_from(bytes).unwrap_or(u32::MAX);
                descriptor.rtt = rtt.and_then(|rtt| u32::try_from(rtt).ok()).unwrap_or(Descriptor::UNKNOWN_RTT);
            }
            // A switch's is sent in the receiver's name, and not by its NIC.
            Class::Cnp if self.nic_instance(source).is_some() && !is_from_switch(roce) => {
                self.cnps.captured(now, Route { from: source, to: target, qpn: roce.bth.dest_qp.get() });
            }
            _ => {}
        }

        let Some(nic_instance) = self.nic_instance(target) else { return Ok(()) };
        self.signals = self.signals.with(signals(roce, &descriptor));
        self.deliver(nic_instance, &descriptor, Some(Arrival { bytes: record.bytes, packet }))
    }

    /// The NIC at `source` put this data packet on the wire.
    fn sent(
        &mut self,
        source: Address,
        number: usize,
        roce: &Roce<'_>,
        record: &Record<'_>,
        frame: Arrival<'_>,
        now: u64,
    ) -> Result<()> {
        if is_acknowledged(roce) {
            self.flows.sent(number, roce.bth.psn, roce.wire_len, now);
        }
        let Some(nic_instance) = self.nic_instance(source) else { return Ok(()) };
        self.nic_instances[nic_instance].next_hop = Some((record.interface, roce.destination_mac().octets()));
        let Some(&Flow { slot, .. }) = self.flows.get(number) else { return Ok(()) };
        let opened = slot == Slot::Unopened;
        let slot = if opened { self.open(nic_instance, number, priority(roce), now)? } else { slot };
        let Slot::Open { handle, .. } = slot else { return Ok(()) };
        if opened && roce.deth().is_none() {
            let shown = arrived(record, now);
            let destination = Descriptor { kind: DescriptorKind::LearnRemote as u8, handle, ..shown };
            self.deliver(nic_instance, &destination, Some(frame))?;
        }
        let mut descriptor = Descriptor::at(DescriptorKind::Sent, now);
        descriptor.handle = handle;
        descriptor.psn = roce.bth.psn.get();
        descriptor.wire_bytes = roce.wire_len.get();
        self.deliver(nic_instance, &descriptor, None)?;
        if let Some(&Flow { slot: Slot::Open { window, .. }, .. }) = self.flows.get(number) {
            self.window_exceeded += u64::from(self.flows.in_flight(number) > u64::from(window));
        }
        Ok(())
    }

    /// This data packet is about to arrive at `target`, whose driver and transport know these things of its flow.
    fn arrives(
        &mut self,
        target: Address,
        number: usize,
        roce: &Roce<'_>,
        descriptor: &mut Descriptor,
        arrival: Arrival<'_>,
    ) -> Result<()> {
        let Some(flow) = self.flows.get_mut(number) else { return Ok(()) };
        flow.marked += u64::from(roce.ecn == Ecn::Ce && roce.version() == Version::V2);
        if is_acknowledged(roce) {
            flow.messages += u32::from(roce.info.last());
            descriptor.msn = flow.messages & 0x00ff_ffff;
        }
        let (Some(remote), Some(_)) = (flow.local, flow.target) else { return Ok(()) };
        descriptor.qpn = remote;
        let known = flow.connected.replace(remote);
        if let Some(nic_instance) = self.nic_instance(target).filter(|_| known != Some(remote)) {
            let connect = Descriptor { kind: DescriptorKind::Connect as u8, ..*descriptor };
            self.deliver(nic_instance, &connect, Some(arrival))?;
        }
        Ok(())
    }

    fn open(&mut self, nic_instance: usize, number: usize, priority: u8, now: u64) -> Result<Slot> {
        let mut descriptor = Descriptor::at(DescriptorKind::Open, now);
        let Some(flow) = self.flows.get(number) else { return Ok(Slot::Refused) };
        let local = flow.local;
        descriptor.handle = priority.into();
        if flow.target.is_some() {
            descriptor.qpn = flow.qpn;
        }
        self.opened = None;
        self.deliver(nic_instance, &descriptor, None)?;
        let slot = match self.opened.take() {
            Some(handle) => Slot::Open { handle, window: u32::MAX },
            None => Slot::Refused,
        };
        let keep_series = self.series < MAX_SERIES;
        if let (Slot::Open { handle, .. }, Some(flow)) = (slot, self.flows.get_mut(number)) {
            flow.slot = slot;
            if flow.series.is_none() && keep_series {
                flow.series = Some(Series::new(now, self.line_rate));
                self.series += 1;
            }
            self.unkept_series += u64::from(flow.series.is_none());
            let index = usize::from(Handle::from_bits(handle).index());
            let slots = &mut self.nic_instances[nic_instance].slots;
            slots.resize(slots.len().max(index + 1), usize::MAX);
            slots[index] = number;
        }
        if let (Slot::Refused, Some(flow)) = (slot, self.flows.get_mut(number)) {
            flow.slot = slot;
            self.refused_flows += 1;
        }
        if let (Slot::Open { handle, .. }, Some(qpn)) = (slot, local) {
            self.bind(nic_instance, handle, qpn, now)?;
        }
        Ok(slot)
    }

    fn bind(&mut self, nic_instance: usize, handle: u32, qpn: u32, now: u64) -> Result<()> {
        let descriptor = Descriptor { handle, qpn, ..Descriptor::at(DescriptorKind::Bind, now) };
        self.deliver(nic_instance, &descriptor, None)
    }

    /// Tells the NICs what has been learnt about their flows.
    fn run_driver_commands(&mut self, now: u64) -> Result<()> {
        while let Some(command) = self.flows.next_driver_command() {
            match command {
                DriverCommand::Bind(number) => {
                    let Some(&Flow { source, slot, local, .. }) = self.flows.get(number) else { continue };
                    if let (Some(nic_instance), Slot::Open { handle, .. }, Some(qpn)) =
                        (self.nic_instance(source), slot, local)
                    {
                        self.bind(nic_instance, handle, qpn, now)?;
                    }
                }
                DriverCommand::Close { flow: number, handle } => {
                    let nic_instance = self.flows.get(number).and_then(|flow| self.nic_instance(flow.source));
                    let descriptor = Descriptor { handle, ..Descriptor::at(DescriptorKind::Close, now) };
                    nic_instance.map_or(Ok(()), |nic_instance| self.deliver(nic_instance, &descriptor, None))?;
                }
                DriverCommand::Disconnect { at, qpn } => {
                    let descriptor = Descriptor { qpn, ..Descriptor::at(DescriptorKind::Disconnect, now) };
                    self.nic_instance(at)
                        .map_or(Ok(()), |nic_instance| self.deliver(nic_instance, &descriptor, None))?;
                }
            }
        }
        Ok(())
    }

    /// An acknowledgement from `source` arrives at `target`, whose transport makes this of it.
    fn acknowledged(&mut self, source: Address, target: Address, roce: &Roce<'_>, now: u64) -> Result<Acknowledged> {
        let positive = matches!(roce.aeth().map(|aeth| aeth.syndrome), Some(Syndrome::Ack { .. }));
        let flow = self.flows.of_ack(source, target, roce.bth.dest_qp.get(), roce.bth.psn);
        self.run_driver_commands(now)?;
        let Some(flow) = flow.filter(|_| positive) else { return Ok(Acknowledged::default()) };
        let acknowledged = self.flows.acked(flow, roce.bth.psn, now);
        if let Some(rtt) = acknowledged.rtt {
            self.rtt.add(rtt);
        }
        Ok(acknowledged)
    }

    /// A PFC frame stops whoever sends to the port that it comes from: the one NIC whose frames go to its Ethernet
    /// address, as behind a router or back to back, or the only NIC that is replayed. Otherwise nobody can tell.
    fn pfc(&mut self, record: &Record<'_>, packet: &Parsed<'_>, pfc: &Pfc, now: u64) -> Result<()> {
        self.frames.pfc += 1;
        let from = record.bytes.get(6..12).and_then(|bytes| bytes.try_into().ok());
        let hop = from.map(|from: [u8; 6]| (record.interface, from));
        let mut paused =
            (0..self.nic_instances.len()).filter(|&nic_instance| self.nic_instances[nic_instance].next_hop == hop);
        let nic_instance = match (paused.next(), paused.next()) {
            (Some(nic_instance), None) => nic_instance,
            (None, None) if self.nic_filter.only.len() == 1 && self.nic_instances.len() == 1 => 0,
            _ => {
                self.frames.pfc_unattributed += 1;
                return Ok(());
            }
        };
        self.nic_instances[nic_instance].pauses.obey(now, pfc, Rate::from_bits(self.line_rate));
        self.deliver(nic_instance, &arrived(record, now), Some(Arrival { bytes: record.bytes, packet }))
    }

    fn deliver(&mut self, nic_instance: usize, descriptor: &Descriptor, arrival: Option<Arrival<'_>>) -> Result<()> {
        self.advance_nic(nic_instance, descriptor.now())?;
        self.nic_instances[nic_instance].device.deliver(descriptor, arrival, &mut self.actions)?;
        self.record(nic_instance);
        Ok(())
    }

    /// Delivers the wakes that are due at or before this time.
    fn advance_nic(&mut self, nic_instance: usize, now: u64) -> Result<()> {
        while self.nic_instances[nic_instance].device.next_wake() <= now {
            self.nic_instances[nic_instance].device.wake(&mut self.actions)?;
            self.record(nic_instance);
        }
        Ok(())
    }

    /// Takes note of what a NIC has just done.
    fn record(&mut self, number: usize) {
        let mut actions = mem::take(&mut self.actions);
        let nic_instance = &mut self.nic_instances[number];
        for (now, action) in actions.drain(..) {
            match action {
                Action::Pace(PacerStore { index, rate, window, .. }) => {
                    let flow = nic_instance.slots.get(index as usize).and_then(|&flow| self.flows.get_mut(flow));
                    let Some(flow) = flow else { continue };
                    if let Some(series) = &mut flow.series {
                        series.push(now, rate);
                    }
                    flow.slowed |= rate < self.line_rate;
                    if let Slot::Open { window: current, .. } = &mut flow.slot {
                        flow.slowed |= window < *current && *current != u32::MAX;
                        *current = window;
                    }
                }
                Action::Log(record) => {
                    if record.kind == LogKind::Open as u32 {
                        self.opened = Some(record.index).filter(|&index| index != NO_FLOW);
                    }
                }
                Action::Frame(bytes) => {
                    if let Ok(Parsed::Roce(roce)) = wire::parse(&bytes, bytes.len())
                        && roce.info.class() == Class::Cnp
                        && let Some(&to) = self.numbers.get(&key(roce.addresses().destination()))
                    {
                        self.cnps.ours(now, Route { from: nic_instance.address, to, qpn: roce.bth.dest_qp.get() });
                    }
                }
                // A NIC has no queues.
                Action::Stage(_) => {}
            }
        }
        self.actions = actions;
        if let Some(difference) = nic_instance.device.difference()
            && self.difference.is_none()
        {
            let slot = difference.slot.and_then(|slot| nic_instance.slots.get(usize::from(slot)));
            self.difference = Some((difference, nic_instance.address, slot.copied()));
        }
    }

    fn nic_instance(&self, address: Address) -> Option<usize> {
        self.instance_of.get(usize::from(address)).copied().flatten().map(usize::from)
    }

    /// The number of an address; `None` where there are too many. A new one becomes a NIC if it may.
    #[inline]
    fn number(&mut self, address: IpAddr) -> Result<Option<Address>> {
        match self.numbers.get(&key(address)) {
            Some(&number) => Ok(Some(number)),
            None => self.register(address.to_canonical()),
        }
    }

    #[cold]
    fn register(&mut self, address: IpAddr) -> Result<Option<Address>> {
        if self.addresses.len() >= MAX_ADDRESSES {
            return Ok(None);
        }
        let number = self.addresses.len() as Address;
        let wanted =
            !address.is_multicast() && (self.nic_filter.only.is_empty() || self.nic_filter.only.contains(&address));
        let nic_instance = match (wanted, self.nic_instances.len() < self.nic_filter.limit) {
            (true, true) => {
                let device = (self.make)(address)?;
                self.nic_instances.push(NicInstance {
                    address: number,
                    device,
                    slots: Vec::new(),
                    next_hop: None,
                    pauses: Pauses::default(),
                });
                Some(self.nic_instances.len() as u16 - 1)
            }
            (true, false) if self.nic_filter.strict => {
                bail!(
                    "more than {} NICs in the capture: name those to be replayed with --nic ADDR",
                    self.nic_filter.limit
                )
            }
            (true, false) => {
                self.refused += 1;
                None
            }
            (false, _) => None,
        };
        self.numbers.insert(key(address), number);
        self.addresses.push(address);
        self.instance_of.push(nic_instance);
        Ok(Some(number))
    }
}

/// The PFC priority of a packet: that of its VLAN tag, or the upper three bits of its DSCP, as NICs map it by default.
fn priority(roce: &Roce<'_>) -> u8 {
    roce.vlan().map_or(roce.dscp() >> 3, |tag| tag.priority)
}

/// What a frame tells a sender's machine.
fn signals(roce: &Roce<'_>, descriptor: &Descriptor) -> Signals {
    let mut signals = Signals::NONE;
    let mut tell = |told: bool, signal| signals = if told { signals.with(signal) } else { signals };
    match roce.info.class() {
        Class::Cnp if roce.switch_int().is_some() => tell(true, Signals::SWITCH_INT),
        Class::Cnp => tell(true, Signals::CNP),
        Class::Ack => {
            let Shims { time, int, rcc, mlcc_ack, echo, .. } = roce.shims();
            let marked = |mark| roce.echo() == mark || echo == Some(mark);
            tell(marked(Mark::Congested) || marked(Mark::Undetermined), Signals::MARK);
            tell(marked(Mark::Undetermined), Signals::UNDETERMINED);
            tell(time.is_some() || descriptor.rtt != Descriptor::UNKNOWN_RTT, Signals::DELAY);
            tell(int.is_some_and(|int| int.hops() > 0), Signals::INT);
            tell(rcc.is_some(), Signals::GRANT);
            tell(mlcc_ack.is_some(), Signals::ADVISED_RATE);
        }
        _ => {}
    }
    signals
}

/// Whether this is a CNP that a switch sent by itself.
fn is_from_switch(roce: &Roce<'_>) -> bool {
    matches!(roce.cnp(), Some(CnpBodyKind::Extended(body)) if body.is_from_switch())
}

/// Whether the transport acknowledges a data packet.
fn is_acknowledged(roce: &Roce<'_>) -> bool {
    let reliable = matches!(Transport::of(roce.bth.opcode), Transport::Rc | Transport::Xrc);
    reliable && roce.info.class() != Class::ReadResponse
}

/// An IPv4 address and the IPv6 address that maps it are the same NIC.
fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn arrived(record: &Record<'_>, now: u64) -> Descriptor {
    let mut descriptor = Descriptor::at(DescriptorKind::Frame, now);
    descriptor.flags = Descriptor::ICRC_CHECKED;
    descriptor.captured = u16::try_from(record.bytes.len()).unwrap_or(u16::MAX);
    descriptor.wire_bytes = record.original_len;
    descriptor
}
