//! The replayer: turns the frames of a capture into events of the NICs that it shows.
//!
//! Open loop: our decisions do not change the frames of the capture. A data frame was sent by the NIC at its source address and
//! arrived at the NIC at its destination address; each of the two receives an event for its side, in the order and at the
//! times of the capture. Between events a NIC is woken at its `next_wake`; at equal times the wake comes first. NICs
//! affect each other only through the capture, so the time of each NIC advances separately. When a NIC has been at rest for a
//! while, its clock stands still until its next event, so that long idle times cost nothing.

use super::cnps::{Cnps, Route};
use super::decode::{Buffers, Checksum, Content, Frame, checksum, decode};
use super::distribution::Distribution;
use super::fast::FastMap;
use super::flows::{Acknowledged, Address, DriverCommand, Flow, Flows, Slot};
use super::losses::Losses;
use super::pauses::Pauses;
use super::series::Series;
use super::survey::{Host, Survey};
use super::timeline::Timeline;
use anyhow::{Result, bail};
use cc_core::table::Handle;
use cc_core::wire::cm::{self, Message};
use cc_core::wire::opcode::{Class, Transport};
use cc_core::wire::pfc::{self, Pfc};
use cc_core::wire::{Addresses, Icrc, Roce, Shims, Syndrome, Version, shim};
use cc_core::{Bytes, CnpBodyKind, Ecn, Instant, Mark, Nanos, Qpn, Rate};
use cc_rp::Signals;
use hil_algorithms::{NicCounters, RxFields};
use hil_capture::crc::HostCrc;
use hil_capture::{Direction, Record};
use hil_cores::board::PacerStore;
use hil_devices::device::{Decision, Decisions, Device, Difference};
use hil_devices::event::{NicEvent, RxFrame};
use hil_sorted::SortedMap;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::net::IpAddr;
use std::rc::Rc;

/// Most addresses that are tracked; packets of further ones are only counted.
const MAX_ADDRESSES: usize = 65_535;
/// How long a NIC must have been at rest, in nanoseconds, before its clock stands still: 0.5 s. By then, state that decays
/// without a change of rate has decayed: DCQCN's alpha, with the paper's g of 1/256 and 55 us, is at 2^-31 after 0.3 s.
const REST: u64 = 500_000_000;
/// Tolerance for sending faster than the line rate, in packets of the largest size that the NIC has sent. It allows for time
/// stamps that come in bursts.
const BURST: u64 = 32;
/// Flows whose rates over time are kept.
pub const MAX_SERIES: usize = 256;

/// The addresses that become NICs, and how many they may be.
#[derive(Clone, Debug)]
pub struct NicFilter {
    /// Only these addresses; if empty, all that the capture shows.
    pub only: Vec<IpAddr>,
    /// Most NICs.
    pub limit: usize,
    /// Whether an address beyond the limit is an error. Otherwise it is counted and not replayed.
    pub strict: bool,
}

/// Counts of frames by kind.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// All of them.
    pub total: u64,
    /// RoCEv2.
    pub rocev2: u64,
    /// RoCEv2 with shims, on the UDP port of shims.
    pub rocev2_shim: u64,
    /// RoCEv1.
    pub rocev1: u64,
    /// Priority flow control, and the pause of a whole link.
    pub pfc: u64,
    /// Neither RoCE nor PFC, by protocol.
    pub other: SortedMap<&'static str, u64>,
    /// Malformed, or cut within their headers.
    pub unparsed: u64,
    /// Cut by the capture's snap length.
    pub truncated: u64,
    /// Cut to their headers by a switch.
    pub trimmed: u64,
    /// RoCE packets that came in tunnels or mirror sessions.
    pub tunnelled: u64,
    /// Frames that were not passed to a NIC, by the fault in them.
    pub dropped: SortedMap<&'static str, u64>,
    /// RoCE packets by opcode.
    pub by_opcode: SortedMap<u8, u64>,
    /// RoCE packets with a right ICRC.
    pub icrc_valid: u64,
    /// RoCE packets with a wrong one.
    pub icrc_invalid: u64,
    /// RoCE packets cut by the snap length. Their ICRC is assumed to be right.
    pub icrc_unchecked: u64,
    /// RoCE packets captured before the sender's NIC filled in their IPv4 checksum.
    pub checksum_unfilled: u64,
    /// RoCE packets whose source or destination is beyond the number of addresses that are tracked.
    pub unfollowed: u64,
    /// PFC frames for which the paused NIC is not known.
    pub pfc_unattributed: u64,
    /// PFC frames to a unicast address, which have no effect.
    pub pfc_unicast: u64,
    /// Times that a clock was set. The replay lets no time pass there.
    pub gaps: u64,
    /// Frames without a time stamp.
    pub untimed: u64,
    /// Frames whose time stamps are before that of an earlier frame, or otherwise out of order.
    pub reordered: u64,
}

/// RoCE packets by the ECN field and the DSCP of their IP headers.
#[derive(Clone, Debug)]
pub struct Marking {
    /// Data packets by ECN field: Not-ECT, ECT(1), ECT(0), CE.
    pub data: [u64; 4],
    /// All others.
    pub other: [u64; 4],
    /// DSCPs of data packets.
    pub data_dscp: [u64; 64],
    /// DSCPs of CNPs.
    pub cnp_dscp: [u64; 64],
    /// DSCPs of all others.
    pub other_dscp: [u64; 64],
}

/// The pauses of one priority of a NIC.
#[derive(Clone, Copy, Debug)]
pub struct Paused {
    /// The NIC.
    pub nic: Address,
    /// The priority.
    pub priority: u8,
    /// Nanoseconds paused.
    pub time: u64,
    /// PFC frames with a pause that it received.
    pub frames: u64,
    /// Packets sent while paused.
    pub ignored: u64,
    /// Data packets of this priority that it sent.
    pub data: u64,
}

/// The pauses that a NIC sent to its neighbour, for one priority.
#[derive(Clone, Copy, Debug, Default)]
pub struct PauseRequests {
    /// PFC frames with a pause.
    pub frames: u64,
    /// The sum of their pause times, in nanoseconds.
    pub time: u64,
    /// Whether the capture marks them as outbound at the NIC's interface, so that the NIC certainly sent them. Otherwise only
    /// the Ethernet address is the NIC's, which may be a router's.
    pub is_certain: bool,
}

/// Outcome of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// The address of each address number.
    pub addresses: Vec<IpAddr>,
    /// The NICs replayed, with their counters.
    pub nics: Vec<(Address, NicCounters)>,
    /// For each address, the network that it belongs to; 0 where the address alone identifies the host.
    pub networks: Vec<u32>,
    /// Priorities of NICs that were paused.
    pub pauses: Vec<Paused>,
    /// Pauses that NICs sent, by NIC and priority.
    pub pauses_sent: SortedMap<(Address, u8), PauseRequests>,
    /// RoCE packets by ECN field and DSCP.
    pub marking: Marking,
    /// Data, marks and CNPs over time.
    pub timeline: Timeline,
    /// Negative acknowledgements whose flow is not known.
    pub losses: Losses,
    /// Round-trip times of zero.
    pub rtt_zero: u64,
    /// NICs that sent faster than their line rate, each with its highest rate in bits per second.
    pub too_fast: Vec<(Address, u64)>,
    /// Captured packets and CNPs from one address to another.
    pub paths: BTreeMap<(Address, Address), PathCounts>,
    /// The results of the survey.
    pub survey: Rc<Survey>,
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
    /// Round-trip times in nanoseconds: from a data packet to the acknowledgement that names it.
    pub rtt: Distribution,
    /// Packets sent while more was in flight than our window would have allowed.
    pub window_exceeded: u64,
    /// The first difference between library and image, with its NIC and flow.
    pub difference: Option<(Difference, Address, Option<usize>)>,
    /// From the first frame to the last, in nanoseconds.
    pub duration: u64,
}

/// Packets from one address to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathCounts {
    /// Packets of any kind.
    pub packets: u64,
    /// CNPs.
    pub cnps: u64,
    /// CNPs to queue pairs without a known flow.
    pub cnps_unknown: u64,
}

/// A pair of addresses that packets go between.
#[derive(Clone, Copy, Debug)]
struct Path {
    source: Address,
    target: Address,
    /// Its index in [`Replayer::paths`].
    number: usize,
}

/// One NIC of the capture.
#[derive(Debug)]
struct NicInstance<D> {
    address: Address,
    device: D,
    /// The flow that each slot of its engine serves.
    slots: Vec<usize>,
    /// The capture's interface and the Ethernet destination address of its last data frame.
    next_hop: Option<(u32, [u8; 6])>,
    /// The capture's interface and the Ethernet source address of its last data frame.
    own: Option<(u32, [u8; 6])>,
    pauses: Pauses,
    /// Data packets that it sent, by priority.
    data: [u64; 8],
    line: Line,
    /// Rate, window and hold of the last store to the pacer of each slot.
    paced: Vec<(u32, u32, u32)>,
    /// The time of its last descriptor, frame or change of pacing, on its own clock.
    busy: u64,
    /// Nanoseconds by which its clock is behind the capture's: the sum of the times for which it stood still.
    skipped: u64,
}

/// The bytes that a NIC sends, compared with its line rate.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Bytes sent beyond those that the line could carry, times 2^24.
    excess: u64,
    last: u64,
    /// When the present busy period began, and the bytes sent since then.
    since: u64,
    bytes: u64,
    largest: u64,
    /// The highest rate above the line rate, in bits per second; 0 if there was none.
    too_fast: u64,
}

impl Line {
    fn sent(&mut self, now: u64, bytes: u64, rate: u32) {
        let drained = u64::from(rate).saturating_mul(now.saturating_sub(self.last));
        self.last = self.last.max(now);
        if drained >= self.excess {
            (self.excess, self.since, self.bytes) = (0, now, 0);
        }
        self.excess = self.excess.saturating_sub(drained).saturating_add(bytes << 24);
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        if self.excess >> 24 > BURST * self.largest {
            let nanos = now.saturating_sub(self.since).max(1);
            self.too_fast = self.too_fast.max(self.bytes * 8_000_000_000 / nanos);
        }
    }
}

/// Plays a capture to devices.
#[derive(Debug)]
pub struct Replayer<D, F> {
    make: F,
    nic_filter: NicFilter,
    survey: Rc<Survey>,
    /// Whether a flow began whose sender connection management did not name.
    needs_sender: bool,
    /// Whether the file gives the speed or the direction of a frame.
    has_interfaces: bool,
    ignores_icrc: bool,
    /// `None` before the first frame, and while a frame borrows from it.
    buffers: Option<Box<Buffers>>,
    rest: u64,
    /// The addresses and the network of the last packet, with its path: most packets have the same as the one before.
    last: Option<((Addresses, u32), Path)>,
    numbers: FastMap<Address, u128>,
    /// The numbers of addresses that several hosts have, by host.
    shared: HashMap<Host, Address>,
    addresses: Vec<IpAddr>,
    networks: Vec<u32>,
    /// The index into `nic_instances` of each address that is replayed.
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
    marking: Marking,
    timeline: Timeline,
    losses: Losses,
    rtt_zero: u64,
    /// Packets from one address to another, and the index of each pair of addresses.
    paths: Vec<((Address, Address), PathCounts)>,
    path_numbers: FastMap<usize>,
    pauses_sent: SortedMap<(Address, u8), PauseRequests>,
    /// For each clock of the capture, the time stamp that is time 0 of the replay.
    bases: Vec<((u32, Direction), u64)>,
    now: u64,
    decisions: Decisions,
}

impl<D: Device, F: FnMut(IpAddr) -> Result<D>> Replayer<D, F> {
    /// A replayer before its first frame. `make` makes the NIC of an address; flows begin at `line_rate`.
    pub fn new(nic_filter: NicFilter, line_rate: Rate, make: F) -> Self {
        Self {
            make,
            nic_filter,
            survey: Rc::default(),
            needs_sender: false,
            has_interfaces: false,
            ignores_icrc: false,
            buffers: None,
            rest: REST,
            last: None,
            numbers: FastMap::default(),
            shared: HashMap::new(),
            addresses: Vec::new(),
            networks: Vec::new(),
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
            marking: Marking::default(),
            timeline: Timeline::default(),
            losses: Losses::default(),
            rtt_zero: 0,
            paths: Vec::new(),
            path_numbers: FastMap::default(),
            pauses_sent: SortedMap::new(),
            bases: Vec::new(),
            now: 0,
            decisions: Decisions::new(),
        }
    }

    /// Sets the UDP port of shims in the capture. The NICs receive such frames with the port replaced by [`shim::PORT`].
    pub fn with_shim_port(self, shim_port: u16) -> Self {
        Self { shim_port, ..self }
    }

    /// Uses the results of a survey of the capture.
    pub fn with_survey(self, survey: Rc<Survey>) -> Self {
        Self { survey, ..self }
    }

    /// Plays frames with a wrong ICRC too.
    pub fn ignoring_icrc(self, ignores_icrc: bool) -> Self {
        Self { ignores_icrc, ..self }
    }

    /// Sets the time in nanoseconds after which the clock of an unchanged NIC stands still; half a second if `rest` is shorter.
    pub fn with_rest(self, rest: u64) -> Self {
        Self { rest: rest.max(REST), ..self }
    }

    /// Plays one frame.
    ///
    /// # Errors
    /// Too many NICs, where that is an error; firmware that misbehaves.
    pub fn frame(&mut self, record: &Record<'_>) -> Result<()> {
        let mut buffers = self.buffers.take().unwrap_or_default();
        let played = decode(*record, self.shim_port, &mut buffers, |frame| {
            let is_wrong = match frame.content {
                // The survey has checked the ICRC, if there was one.
                _ if self.survey.frames > 0 => self.survey.wrong_icrc.has(record.number),
                Content::Packet(roce, _) => roce.icrc::<HostCrc>() == Icrc::Invalid,
                _ => false,
            };
            self.decoded(record, frame, is_wrong)
        });
        self.buffers = Some(buffers);
        played
    }

    /// As [`Replayer::frame`], with what was decoded, and whether the ICRC is wrong.
    ///
    /// # Errors
    /// As for [`Replayer::frame`].
    pub fn decoded(&mut self, record: &Record<'_>, frame: &Frame<'_>, has_wrong_icrc: bool) -> Result<()> {
        let now = self.clock(record);
        self.frames.total += 1;
        self.frames.truncated += u64::from((record.bytes.len() as u64) < u64::from(record.original_len));
        self.frames.untimed += u64::from(!record.is_timed);
        self.has_interfaces |= record.speed > 0 || record.direction != Direction::Unknown;
        match frame.content {
            Content::Packet(roce, fault) => self.roce(frame, roce, fault, has_wrong_icrc, now),
            Content::Pfc(pfc) => self.pfc(&frame.record, pfc, now, false),
            Content::Pause(pfc) => self.pfc(&frame.record, pfc, now, true),
            Content::Other(name) => {
                *self.frames.other.or_default(name) += 1;
                Ok(())
            }
            Content::Malformed(reason) => {
                self.frames.unparsed += 1;
                self.drop(reason.name());
                Ok(())
            }
        }
    }

    /// Whether a frame so far needed what only the whole capture shows: the sender of a flow that connection management did not
    /// name, or, for a pause, the hosts or the speed of an interface.
    #[inline]
    pub fn needs_survey(&self) -> bool {
        self.needs_sender || (self.has_interfaces && self.frames.pfc > 0)
    }

    fn drop(&mut self, reason: &'static str) {
        *self.frames.dropped.or_default(reason) += 1;
    }

    /// Ends the replay after the last frame: advances every NIC to its time.
    ///
    /// # Errors
    /// Firmware that misbehaves.
    pub fn finish(&mut self) -> Result<()> {
        for number in 0..self.nic_instances.len() {
            self.advance_nic(number, self.now)?;
            let Some(nic_instance) = self.nic_instances.get_mut(number) else { break };
            nic_instance.device.finish(self.now - nic_instance.skipped, &mut self.decisions)?;
            self.record(number);
        }
        let counted = self.opcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
        self.frames.by_opcode = counted.map(|(opcode, &count)| (opcode as u8, count)).collect();
        self.frames.gaps = self.survey.set.count();
        Ok(())
    }

    /// The outcome of the replay, and the NICs.
    pub fn into_outcome(self) -> (Outcome, Vec<D>) {
        let nics = self
            .nic_instances
            .iter()
            .map(|nic_instance| (nic_instance.address, nic_instance.device.counters()))
            .collect();
        let paused = self.nic_instances.iter().flat_map(|nic_instance| {
            let (times, frames, ignored) =
                (nic_instance.pauses.totals(self.now), nic_instance.pauses.frames(), nic_instance.pauses.ignored());
            (0..8_u8).map(move |priority| {
                let at = usize::from(priority);
                let (time, frames, ignored, data) = (times[at], frames[at], ignored[at], nic_instance.data[at]);
                Paused { nic: nic_instance.address, priority, time, frames, ignored, data }
            })
        });
        let too_fast = self.nic_instances.iter().filter(|nic_instance| nic_instance.line.too_fast > 0);
        let outcome = Outcome {
            pauses: paused.filter(|paused| paused.time > 0 || paused.frames > 0).collect(),
            too_fast: too_fast.map(|nic_instance| (nic_instance.address, nic_instance.line.too_fast)).collect(),
            paths: self.paths.into_iter().collect(),
            addresses: self.addresses,
            networks: self.networks,
            nics,
            pauses_sent: self.pauses_sent,
            marking: self.marking,
            timeline: self.timeline,
            losses: self.losses,
            rtt_zero: self.rtt_zero,
            survey: self.survey,
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

    /// The time of this record in nanoseconds since the capture began. A frame whose stamp is out of order is replayed at the
    /// time of the frame before it, and so is the first frame after a clock was set.
    #[inline]
    fn clock(&mut self, record: &Record<'_>) -> u64 {
        if !record.is_timed {
            return self.now;
        }
        let number = record.number;
        if self.survey.disordered.has(number) {
            self.frames.reordered += 1;
            return self.now;
        }
        let key = (record.interface, record.direction);
        let offset = self.survey.offsets.get(&key).copied().unwrap_or(0);
        let stamp = record.timestamp_ns.wrapping_add(offset as u64);
        // The base of a clock that occurs for the first time is that of the first clock.
        let first = self.bases.first().map(|&(_, base)| base);
        let place = match self.bases.iter().position(|(other, _)| *other == key) {
            Some(place) => place,
            None => {
                self.bases.push((key, first.unwrap_or(stamp.wrapping_sub(self.now))));
                self.bases.len() - 1
            }
        };
        let Some((_, base)) = self.bases.get_mut(place) else { return self.now };
        if self.survey.set.has(number) {
            *base = stamp.wrapping_sub(self.now);
        }
        // Negative if the stamp is before the first frame's.
        let now = stamp.wrapping_sub(*base) as i64;
        let is_late = now < 0 || (now as u64) < self.now;
        self.frames.reordered += u64::from(is_late);
        if !is_late {
            self.now = now as u64;
        }
        self.now
    }

    fn roce(
        &mut self,
        frame: &Frame<'_>,
        roce: &Roce<'_>,
        fault: Option<&'static str>,
        has_wrong_icrc: bool,
        now: u64,
    ) -> Result<()> {
        let record = &frame.record;
        match roce.version() {
            Version::V1 => self.frames.rocev1 += 1,
            Version::V2 if roce.is_shimmed() => self.frames.rocev2_shim += 1,
            Version::V2 => self.frames.rocev2 += 1,
        }
        self.opcodes[usize::from(roce.bth.opcode)] += 1;
        self.frames.tunnelled += u64::from(frame.is_tunnelled);
        self.frames.trimmed += u64::from(frame.is_trimmed);
        if self.survey.copies.has(record.number) {
            self.drop("copy");
            return Ok(());
        }
        match (roce.is_truncated(), has_wrong_icrc) {
            (true, _) => self.frames.icrc_unchecked += 1,
            (false, false) => self.frames.icrc_valid += 1,
            (false, true) => {
                self.frames.icrc_invalid += 1;
                if !self.ignores_icrc {
                    self.drop("icrc");
                    return Ok(());
                }
            }
        }
        if let Some(fault) = fault {
            self.drop(fault);
            return Ok(());
        }
        match checksum(record.bytes) {
            Checksum::Right => {}
            // The switch that trims a packet changes its DSCP and leaves the checksum.
            Checksum::Wrong if !frame.is_trimmed && record.direction != Direction::Outbound => {
                self.drop("ip_checksum");
                return Ok(());
            }
            Checksum::Zero | Checksum::Wrong => self.frames.checksum_unfilled += u64::from(!frame.is_trimmed),
        }
        let addresses = (roce.addresses(), frame.network);
        let path = match self.last {
            Some((last, path)) if last == addresses => path,
            _ => {
                let Some(path) = self.path(addresses)? else {
                    self.frames.unfollowed += 1;
                    return Ok(());
                };
                self.last = Some((addresses, path));
                path
            }
        };
        let Path { source, target, number } = path;
        let class = roce.info.class();
        self.marking.count(roce, class);
        if class.carries_data() {
            let span = self.timeline.at(now);
            span.data += 1;
            span.bytes += u64::from(roce.wire_len.get());
            span.marked += u64::from(roce.ecn == Ecn::Ce);
        } else if class == Class::Cnp {
            self.timeline.at(now).cnps += 1;
        }
        self.paths[number].1.packets += 1;

        let qpn = roce.bth.dest_qp.get();
        let rx_frame = rx_frame(record);
        let mut meta = RxFields::at(Instant::from_nanos(now));
        match class {
            _ if roce.bth.dest_qp == cm::QP => {
                if let Some(message) = Message::parse(roce) {
                    self.flows.learn(source, target, message);
                    self.run_driver_commands(now)?;
                }
            }
            class if class.carries_data() => {
                let flow = match (Transport::of(roce.bth.opcode), roce.deth()) {
                    (_, Some(deth)) => self.flows.of_data(source, None, deth.source_qp.get(), || None),
                    // The snap length cut off the DETH, which holds the sender's QP.
                    (Transport::Ud | Transport::Rd, None) => None,
                    (_, None) => {
                        let (survey, addresses, networks) = (&self.survey, &self.addresses, &self.networks);
                        let needs_sender = &mut self.needs_sender;
                        let host = |number: Address| {
                            let at = usize::from(number);
                            Some(Host { address: *addresses.get(at)?, network: *networks.get(at)? })
                        };
                        let sender = || {
                            *needs_sender = true;
                            survey.sender(host(source)?, host(target)?, qpn)
                        };
                        self.flows.of_data(source, Some(target), qpn, sender)
                    }
                };
                self.run_driver_commands(now)?;
                if let Some(flow) = flow {
                    self.sent(source, flow, roce, record, now)?;
                    if frame.is_trimmed {
                        // A trimmed packet is lost: the receiver gets its headers only, so nothing arrives.
                        return Ok(());
                    }
                    self.arrives(target, flow, roce, rx_frame, &mut meta, now)?;
                }
            }
            Class::ReadRequest | Class::Atomic => {
                let read = roce.reth().map_or(1, |reth| reth.len);
                if let Some(flow) = self.flows.to(source, target, qpn).and_then(|flow| self.flows.get_mut(flow)) {
                    flow.sequence.request(roce.bth.psn, (class == Class::ReadRequest).then_some(read));
                }
            }
            Class::Ack => {
                let flow = self.flows.of_local(source, target, qpn);
                if flow.is_some_and(|(_, is_peer)| !is_peer) {
                    self.drop("ack_source");
                    return Ok(());
                }
                let Acknowledged { bytes, rtt } = self.acknowledged(flow.map(|(flow, _)| flow), roce, now);
                meta.acked = Bytes::new(u32::try_from(bytes).unwrap_or(u32::MAX));
                meta.rtt = rtt.and_then(|rtt| u32::try_from(rtt).ok()).filter(|&rtt| rtt < u32::MAX).map(Nanos::new);
            }
            // Only CNPs of receivers are compared. A switch's CNP has the receiver's address, but its NIC did not send it.
            Class::Cnp if !is_from_switch(roce) => {
                if let Some(nic_instance) = self.nic_instance(source) {
                    // Our own CNPs of the same time are recorded before it.
                    self.advance_nic(nic_instance, now)?;
                    self.cnps.captured(now, Route { from: source, to: target, qpn });
                }
                let (_, counts) = &mut self.paths[number];
                counts.cnps += 1;
                match self.flows.of_local(source, target, qpn) {
                    Some((_, false)) => {
                        self.drop("cnp_source");
                        return Ok(());
                    }
                    Some((flow, true)) => {
                        if let Some(flow) = self.flows.get_mut(flow) {
                            flow.notified += 1;
                        }
                    }
                    None => counts.cnps_unknown += 1,
                }
            }
            _ => {}
        }

        let Some(nic_instance) = self.nic_instance(target) else { return Ok(()) };
        self.signals = self.signals.with(signals(roce, meta.rtt));
        self.deliver(nic_instance, now, NicEvent::Packet { roce, frame: rx_frame, meta })?;
        Ok(())
    }

    /// Handles a data packet at its sender: the NIC at `source` transmitted it.
    fn sent(&mut self, source: Address, number: usize, roce: &Roce<'_>, record: &Record<'_>, now: u64) -> Result<()> {
        let transport = Transport::of(roce.bth.opcode);
        if is_acknowledged(roce) {
            self.flows.sent(number, roce.bth.psn, roce.wire_len, now);
        }
        if let Some(flow) = self.flows.get_mut(number) {
            flow.ecn[usize::from(roce.ecn.to_bits())] += 1;
            if matches!(transport, Transport::Rc | Transport::Xrc) {
                match roce.info.class() {
                    Class::ReadResponse => flow.sequence.response(roce.bth.psn),
                    _ => flow.sequence.request(roce.bth.psn, None),
                }
            }
        }
        let Some(nic_instance) = self.nic_instance(source) else { return Ok(()) };
        let priority = priority(roce);
        if let Some(nic_instance) = self.nic_instances.get_mut(nic_instance) {
            nic_instance.next_hop = Some((record.interface, roce.destination_mac().octets()));
            nic_instance.own = Some((record.interface, roce.source_mac().octets()));
            let bytes = u64::from(roce.wire_len.get());
            nic_instance.line.sent(now, bytes, self.line_rate);
            nic_instance.pauses.sent(now, priority, (bytes << 24) / u64::from(self.line_rate.max(1)));
            nic_instance.data[usize::from(priority & 7)] += 1;
        }
        let Some(&Flow { slot, .. }) = self.flows.get(number) else { return Ok(()) };
        let opened = slot == Slot::Unopened;
        let slot = if opened { self.open(nic_instance, number, priority, now)? } else { slot };
        let Slot::Open { handle, .. } = slot else { return Ok(()) };
        let flow = Handle::from_bits(handle);
        if opened && roce.deth().is_none() {
            self.deliver(nic_instance, now, NicEvent::LearnRemote { roce, frame: rx_frame(record), flow })?;
        }
        self.deliver(nic_instance, now, NicEvent::Sent { flow, psn: roce.bth.psn, bytes: roce.wire_len })?;
        if let Some(&Flow { slot: Slot::Open { window, .. }, .. }) = self.flows.get(number) {
            self.window_exceeded += u64::from(self.flows.in_flight(number) > u64::from(window));
        }
        Ok(())
    }

    /// Prepares the descriptor of a data packet that arrives at `target`: fills in what the receiver's driver and transport
    /// know of the flow, and connects the queue pairs on the NIC before the first packet.
    fn arrives(
        &mut self,
        target: Address,
        number: usize,
        roce: &Roce<'_>,
        frame: RxFrame<'_>,
        meta: &mut RxFields,
        now: u64,
    ) -> Result<()> {
        let Some(flow) = self.flows.get_mut(number) else { return Ok(()) };
        flow.marked += u64::from(roce.ecn == Ecn::Ce && roce.version() == Version::V2);
        if is_acknowledged(roce) {
            flow.messages += u32::from(roce.info.last());
            meta.msn = Some(flow.messages & 0x00ff_ffff);
        }
        let (Some(remote), Some(_)) = (flow.local, flow.target) else { return Ok(()) };
        meta.remote = Some(Qpn::new(remote));
        let known = flow.connected.replace(remote);
        if let Some(nic_instance) = self.nic_instance(target).filter(|_| known != Some(remote)) {
            self.deliver(nic_instance, now, NicEvent::Connect { roce, frame, remote: Qpn::new(remote) })?;
        }
        Ok(())
    }

    fn open(&mut self, nic_instance: usize, number: usize, priority: u8, now: u64) -> Result<Slot> {
        let Some(&Flow { local, .. }) = self.flows.get(number) else { return Ok(Slot::Refused) };
        let slot = match self.deliver(nic_instance, now, NicEvent::Open { priority })? {
            Some(handle) => Slot::Open { handle: handle.to_bits(), window: u32::MAX },
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
            self.deliver(nic_instance, now, bind(handle, qpn))?;
        }
        Ok(slot)
    }

    /// Runs the driver commands that are due after a flow was bound, closed or disconnected.
    #[inline]
    fn run_driver_commands(&mut self, now: u64) -> Result<()> {
        while let Some(command) = self.flows.next_driver_command() {
            self.run_driver_command(command, now)?;
        }
        Ok(())
    }

    #[cold]
    fn run_driver_command(&mut self, command: DriverCommand, now: u64) -> Result<()> {
        let (nic_instance, event) = match command {
            DriverCommand::Bind(number) => {
                let Some(&Flow { source, slot: Slot::Open { handle, .. }, local: Some(qpn), .. }) =
                    self.flows.get(number)
                else {
                    return Ok(());
                };
                (self.nic_instance(source), bind(handle, qpn))
            }
            DriverCommand::Close { flow, handle } => {
                let nic_instance = self.flows.get(flow).and_then(|flow| self.nic_instance(flow.source));
                (nic_instance, NicEvent::Close { flow: Handle::from_bits(handle) })
            }
            DriverCommand::Disconnect { at, qpn } => {
                (self.nic_instance(at), NicEvent::Disconnect { local: Qpn::new(qpn) })
            }
        };
        if let Some(nic_instance) = nic_instance {
            self.deliver(nic_instance, now, event)?;
        }
        Ok(())
    }

    /// Handles an acknowledgement at the sender of a flow. Returns the bytes newly acknowledged, and the round-trip time if it
    /// can be measured.
    fn acknowledged(&mut self, flow: Option<usize>, roce: &Roce<'_>, now: u64) -> Acknowledged {
        let none = Acknowledged::default();
        // Without the syndrome, which the snap length may have cut off, it counts as neither positive nor negative.
        let Some(syndrome) = roce.aeth().map(|aeth| aeth.syndrome) else { return none };
        let Some((number, flow)) = flow.and_then(|number| Some((number, self.flows.get_mut(number)?))) else {
            self.losses.refused(syndrome);
            return none;
        };
        if !matches!(syndrome, Syndrome::Ack { .. }) {
            flow.sequence.refused(syndrome);
            return none;
        }
        flow.sequence.acknowledged(roce.bth.psn);
        let mut acknowledged = self.flows.acked(number, roce.bth.psn, now);
        if self.survey.clocks_disagree() {
            // The two time stamps are from different clocks.
            acknowledged.rtt = None;
        }
        if let Some(rtt) = acknowledged.rtt {
            self.rtt.add(rtt);
            self.rtt_zero += u64::from(rtt == 0);
        }
        acknowledged
    }

    /// Handles a PFC frame, or the pause of a whole link: it pauses the NIC that sends to the port that the frame comes from.
    /// If the capture gives the frame's direction, inbound, this is the host at the interface. Otherwise it is the one NIC
    /// whose frames go to the Ethernet address that the pause comes from (a router, or a NIC connected back to back), or the
    /// only NIC that is replayed.
    fn pfc(&mut self, record: &Record<'_>, pfc: &Pfc, now: u64, is_link: bool) -> Result<()> {
        self.frames.pfc += 1;
        let mac = |at: usize| record.bytes.get(at..at + 6).and_then(|bytes| bytes.first_chunk::<6>().copied());
        if !is_link && mac(0) != Some(pfc::DESTINATION.octets()) {
            self.frames.pfc_unicast += 1;
            return Ok(());
        }
        let speed = self.survey.speeds.get(&record.interface).map(|&speed| rate_of(speed)).unwrap_or(self.line_rate);
        let hop = mac(6).map(|from| (record.interface, from));
        let local: Vec<usize> = self.survey.local.get(&record.interface).map_or(Vec::new(), |hosts| {
            let at = |nic_instance: &NicInstance<D>| {
                let number = usize::from(nic_instance.address);
                let host = self.addresses.get(number).zip(self.networks.get(number));
                host.is_some_and(|(&address, &network)| hosts.contains(&Host { address, network }))
            };
            (0..self.nic_instances.len())
                .filter(|&nic_instance| self.nic_instances.get(nic_instance).is_some_and(at))
                .collect()
        });
        let from_own: Vec<usize> = (0..self.nic_instances.len())
            .filter(|&nic_instance| hop.is_some() && self.nic_instances[nic_instance].own == hop)
            .collect();
        let sender = match (record.direction, local.as_slice(), from_own.as_slice()) {
            (Direction::Outbound, &[one], _) | (Direction::Outbound, _, &[one]) => Some((one, true)),
            (Direction::Unknown, _, &[one]) => Some((one, false)),
            _ => None,
        };
        if let Some((nic_instance, is_certain)) = sender {
            let quantum = pfc::Quantum::at(Rate::from_bits(speed));
            let address = self.nic_instances[nic_instance].address;
            for priority in 0..8 {
                let Some(quanta) = pfc.time(priority).filter(|&quanta| quanta > 0) else { continue };
                let requests = self.pauses_sent.or_default((address, priority));
                requests.frames += 1;
                requests.time += u64::from(quantum.pause(quanta).get());
                requests.is_certain |= is_certain;
            }
        }
        let paused = match record.direction {
            Direction::Outbound => Vec::new(),
            Direction::Inbound if !local.is_empty() => local,
            Direction::Inbound | Direction::Unknown => {
                let by_hop: Vec<usize> = (0..self.nic_instances.len())
                    .filter(|&nic_instance| hop.is_some() && self.nic_instances[nic_instance].next_hop == hop)
                    .collect();
                match by_hop.len() {
                    1 => by_hop,
                    0 if self.nic_filter.only.len() == 1 && self.nic_instances.len() == 1 => vec![0],
                    _ => Vec::new(),
                }
            }
        };
        if paused.is_empty() && sender.is_none_or(|(_, is_certain)| !is_certain) {
            self.frames.pfc_unattributed += 1;
        }
        for nic_instance in paused {
            self.nic_instances[nic_instance].pauses.obey(now, pfc, Rate::from_bits(speed));
            self.deliver(nic_instance, now, NicEvent::Pause { pfc, frame: rx_frame(record) })?;
        }
        Ok(())
    }

    /// Passes an event to a NIC; its time is converted from the capture's clock to the NIC's own. Returns the flow that the NIC
    /// opened.
    fn deliver(&mut self, nic_instance: usize, now: u64, mut event: NicEvent<'_>) -> Result<Option<Handle>> {
        self.advance_nic(nic_instance, now)?;
        let Some(NicInstance { device, skipped, busy, .. }) = self.nic_instances.get_mut(nic_instance) else {
            return Ok(None);
        };
        let now = now - *skipped;
        *busy = now;
        if let NicEvent::Packet { meta, .. } = &mut event {
            meta.arrived = Instant::from_nanos(now);
        }
        let opened = device.deliver(now, &event, &mut self.decisions)?;
        self.record(nic_instance);
        Ok(opened)
    }

    /// Delivers the wakes that are due at or before time `now` of the capture. A NIC at rest gets them for `rest` nanoseconds
    /// only: after that nothing changes any more, so its clock stands still until its next event.
    fn advance_nic(&mut self, nic_instance: usize, now: u64) -> Result<()> {
        loop {
            let Some(NicInstance { device, skipped, busy, .. }) = self.nic_instances.get_mut(nic_instance) else {
                return Ok(());
            };
            let (until, wake) = (now - *skipped, device.next_wake());
            if wake > until {
                return Ok(());
            }
            let rests_from = *busy + self.rest;
            if wake > rests_from {
                *skipped += until - rests_from;
                return Ok(());
            }
            device.wake(&mut self.decisions)?;
            self.record(nic_instance);
        }
    }

    /// Records the decisions of a NIC for its last event or wake.
    fn record(&mut self, number: usize) {
        let nic_instance = &mut self.nic_instances[number];
        for &(own, decision) in &self.decisions {
            let now = own + nic_instance.skipped;
            match decision {
                Decision::Pace(PacerStore { index, rate, window, hold }) => {
                    let slot = index as usize;
                    if nic_instance.paced.len() <= slot {
                        nic_instance.paced.resize(slot + 1, (0, 0, 0));
                    }
                    if mem::replace(&mut nic_instance.paced[slot], (rate, window, hold)) != (rate, window, hold) {
                        nic_instance.busy = nic_instance.busy.max(own);
                    }
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
                Decision::Cnp { to, qpn } => {
                    nic_instance.busy = nic_instance.busy.max(own);
                    let network = self.networks.get(usize::from(nic_instance.address)).copied().unwrap_or(0);
                    if let Some(to) = known(&self.survey, &self.numbers, &self.shared, to, network) {
                        self.cnps.ours(now, Route { from: nic_instance.address, to, qpn });
                    }
                }
            }
        }
        self.decisions.clear();
        if let Some(difference) = nic_instance.device.difference()
            && self.difference.is_none()
        {
            let slot = difference.slot.and_then(|slot| nic_instance.slots.get(usize::from(slot)));
            let now = difference.now + nic_instance.skipped;
            self.difference = Some((Difference { now, ..difference }, nic_instance.address, slot.copied()));
        }
    }

    fn nic_instance(&self, address: Address) -> Option<usize> {
        self.instance_of.get(usize::from(address)).copied().flatten().map(usize::from)
    }

    /// The path between two addresses of a network; `None` if there are too many addresses.
    #[inline(never)]
    fn path(&mut self, (addresses, network): (Addresses, u32)) -> Result<Option<Path>> {
        let source = self.number(addresses.source(), network)?;
        let target = self.number(addresses.destination(), network)?;
        let (Some(source), Some(target)) = (source, target) else { return Ok(None) };
        let key = u64::from(source) << 16 | u64::from(target);
        let number = *self.path_numbers.entry(key).or_insert(self.paths.len());
        if number == self.paths.len() {
            self.paths.push(((source, target), PathCounts::default()));
        }
        Ok(Some(Path { source, target, number }))
    }

    /// The number of an address in a network; `None` if there are too many. A new address becomes a NIC if the filter lets it.
    fn number(&mut self, address: IpAddr, network: u32) -> Result<Option<Address>> {
        match known(&self.survey, &self.numbers, &self.shared, address, network) {
            Some(number) => Ok(Some(number)),
            None => self.register(address.to_canonical(), network),
        }
    }

    #[cold]
    fn register(&mut self, address: IpAddr, network: u32) -> Result<Option<Address>> {
        if self.addresses.len() >= MAX_ADDRESSES {
            return Ok(None);
        }
        let host = self.survey.host(address, network);
        let number = self.addresses.len() as Address;
        let selected =
            !address.is_multicast() && (self.nic_filter.only.is_empty() || self.nic_filter.only.contains(&address));
        let nic_instance = match (selected, self.nic_instances.len() < self.nic_filter.limit) {
            (true, true) => {
                let device = (self.make)(address)?;
                self.nic_instances.push(NicInstance {
                    address: number,
                    device,
                    slots: Vec::new(),
                    next_hop: None,
                    own: None,
                    pauses: Pauses::default(),
                    data: [0; 8],
                    line: Line::default(),
                    paced: Vec::new(),
                    busy: 0,
                    // The NIC's clock starts at the time of the replay.
                    skipped: 0,
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
        if host.network == 0 {
            self.numbers.insert(key(address), number);
        } else {
            self.shared.insert(host, number);
        }
        self.addresses.push(address);
        self.networks.push(host.network);
        self.instance_of.push(nic_instance);
        Ok(Some(number))
    }
}

/// The number of an address in a network, if it has one yet.
#[inline]
fn known(
    survey: &Survey,
    numbers: &FastMap<Address, u128>,
    shared: &HashMap<Host, Address>,
    address: IpAddr,
    network: u32,
) -> Option<Address> {
    if shared.is_empty() {
        return numbers.get(&key(address)).copied();
    }
    let host = survey.host(address.to_canonical(), network);
    if host.network == 0 { numbers.get(&key(address)).copied() } else { shared.get(&host).copied() }
}

/// Converts bits per second to 2^-24 bytes per nanosecond.
fn rate_of(bits_per_second: u64) -> u32 {
    u32::try_from((u128::from(bits_per_second) << 24) / 8_000_000_000).unwrap_or(u32::MAX).max(1)
}

impl Default for Marking {
    fn default() -> Self {
        Self { data: [0; 4], other: [0; 4], data_dscp: [0; 64], cnp_dscp: [0; 64], other_dscp: [0; 64] }
    }
}

impl Marking {
    #[inline]
    fn count(&mut self, roce: &Roce<'_>, class: Class) {
        let is_data = class.carries_data();
        let (ecn, dscp) = match class {
            _ if is_data => (&mut self.data, &mut self.data_dscp),
            Class::Cnp => (&mut self.other, &mut self.cnp_dscp),
            _ => (&mut self.other, &mut self.other_dscp),
        };
        ecn[usize::from(roce.ecn.to_bits())] += 1;
        dscp[usize::from(roce.dscp() & 63)] += 1;
    }
}

/// The PFC priority of a packet: that of its VLAN tag, or the upper three bits of its DSCP, as NICs map it by default.
fn priority(roce: &Roce<'_>) -> u8 {
    roce.vlan().map_or(roce.dscp() >> 3, |tag| tag.priority)
}

/// The congestion signals in a frame that arrives at a sender.
fn signals(roce: &Roce<'_>, rtt: Option<Nanos>) -> Signals {
    let mut signals = Signals::NONE;
    let mut add = |present: bool, signal| signals = if present { signals.with(signal) } else { signals };
    match roce.info.class() {
        Class::Cnp if roce.switch_int().is_some() => add(true, Signals::SWITCH_INT),
        Class::Cnp => add(true, Signals::CNP),
        Class::Ack => {
            let Shims { time, int, rcc, mlcc_ack, echo, .. } = roce.shims();
            let marked = |mark| roce.echo() == mark || echo == Some(mark);
            add(marked(Mark::Congested) || marked(Mark::Undetermined), Signals::MARK);
            add(marked(Mark::Undetermined), Signals::UNDETERMINED);
            add(time.is_some() || rtt.is_some(), Signals::DELAY);
            add(int.is_some_and(|int| int.hops() > 0), Signals::INT);
            add(rcc.is_some(), Signals::GRANT);
            add(mlcc_ack.is_some(), Signals::ADVISED_RATE);
        }
        _ => {}
    }
    signals
}

/// Whether this is a CNP that a switch sent by itself.
fn is_from_switch(roce: &Roce<'_>) -> bool {
    matches!(roce.cnp(), Some(CnpBodyKind::Extended(body)) if body.is_from_switch())
}

/// Whether the transport acknowledges this data packet: requests of RC and XRC, not READ responses.
fn is_acknowledged(roce: &Roce<'_>) -> bool {
    let reliable = matches!(Transport::of(roce.bth.opcode), Transport::Rc | Transport::Xrc);
    reliable && roce.info.class() != Class::ReadResponse
}

/// The key of an address. An IPv4 address and the IPv6 address that maps it have the same key: they are one NIC.
fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The command that binds an open flow to its sending QP.
fn bind(handle: u32, qpn: u32) -> NicEvent<'static> {
    NicEvent::Bind { flow: Handle::from_bits(handle), local: Qpn::new(qpn) }
}

/// The frame of a record.
fn rx_frame<'a>(record: &Record<'a>) -> RxFrame<'a> {
    RxFrame { bytes: record.bytes, wire_len: record.original_len }
}
