//! The report of a replay: its data, and its JSON form for scripts. `text.rs` prints it as text.

use super::cnps::Comparison;
use super::distribution::{Distribution, Summary};
use super::findings;
use super::flows::{Address, Flow};
use super::losses::Losses;
use super::replayer::{Outcome, Paused};
use cc_core::Rate;
use cc_core::wire::opcode::{self, Transport};
use hil_algorithms::NicCounters;
use hil_algorithms::settings::SettingValue;
use hil_cores::interrupts::Interrupts;
use hil_cores::probe::Span;
use hil_sorted::SortedMap;
use serde::Serialize;
use std::net::IpAddr;

/// The version of the JSON's keys.
pub const SCHEMA: u32 = 2;
/// Everything that a replay reports. Two replays of one capture with the same options are equal.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The algorithm and its settings.
    pub algorithm: Algorithm,
    /// The port of every NIC.
    pub link: Port,
    /// How the reading of the capture ended.
    pub ending: Ending,
    /// From the first frame to the last.
    pub duration_ns: u64,
    /// Frames.
    pub frames: Frames,
    /// Checks of the ICRC.
    pub icrc: Icrc,
    /// Counters of the notification points, summed.
    pub np: SortedMap<&'static str, u64>,
    /// Counters of the reaction points, summed.
    pub rp: SortedMap<&'static str, u64>,
    /// CNPs that our notification points would send.
    pub cnps: Cnps,
    /// Counts of flows, and of packets that belong to no known flow.
    pub flows: Flows,
    /// RoCE packets by ECN field.
    pub ecn: Ecn,
    /// RoCE packets by DSCP.
    pub dscp: Dscp,
    /// Losses that the capture shows.
    pub losses: LossReport,
    /// Round-trip times: from a data packet to the acknowledgement that names it. `null` if there are no samples.
    pub rtt_ns: Option<Rtt>,
    /// The capture in spans of time: packets, marks, and the rates that the algorithm allows.
    pub timeline: Vec<Moment>,
    /// The rate of each flow over time.
    pub rates: Vec<Rates>,
    /// Flows whose rates were not kept, because there were too many.
    pub rates_omitted: u64,
    /// The counters of each NIC.
    pub nics: Vec<Nic>,
    /// Addresses that were not replayed, because there were too many.
    pub nics_refused: u64,
    /// How long pauses kept priorities of NICs from sending; priorities without a pause are left out.
    pub pauses: Vec<Pause>,
    /// Pauses that NICs sent.
    pub pauses_sent: Vec<PauseSent>,
    /// The signals that the reaction point uses, and those of them that the capture lacks.
    pub signals: Signals,
    /// Faults of the network, of the configuration of its hosts, or of the capture; empty if there are none.
    pub findings: Vec<String>,
    /// Limits of what the capture can show, which are no faults.
    pub notes: Vec<String>,
    /// The rows of the machines' transition tables that the replay's events reached.
    pub coverage: Coverage,
    /// Memory of the library and of the image.
    pub sizes: Sizes,
    /// The core and how its decisions compare with the library's; `null` without `--core`.
    pub core: Option<Core>,
}

/// How the reading of a capture ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The whole capture was read.
    Whole,
    /// The file ends inside a frame; the text describes where.
    Cut(String),
    /// The signal of this number ended the reading.
    Interrupted(i32),
}

/// RoCE packets by ECN field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Ecn {
    /// Data packets.
    pub data: EcnCounts,
    /// All others.
    pub other: EcnCounts,
}

/// Packets by ECN field (RFC 3168, 5; RFC 9331).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct EcnCounts {
    /// Not ECN-capable.
    pub not_ect: u64,
    /// ECT(1).
    pub ect1: u64,
    /// ECT(0).
    pub ect0: u64,
    /// Congestion experienced.
    pub ce: u64,
}

impl EcnCounts {
    fn of([not_ect, ect1, ect0, ce]: [u64; 4]) -> Self {
        Self { not_ect, ect1, ect0, ce }
    }

    /// All of them.
    pub fn total(self) -> u64 {
        self.not_ect + self.ect1 + self.ect0 + self.ce
    }
}

/// RoCE packets by DSCP.
#[derive(Clone, Debug, Serialize)]
pub struct Dscp {
    /// Data packets.
    pub data: SortedMap<u8, u64>,
    /// CNPs.
    pub cnp: SortedMap<u8, u64>,
    /// All others.
    pub other: SortedMap<u8, u64>,
}

/// Losses that a capture shows.
#[derive(Clone, Debug, Serialize)]
pub struct LossReport {
    /// Losses of all flows, and negative acknowledgements that belong to no known flow.
    #[serde(flatten)]
    pub total: Losses,
    /// Losses of each flow that has any.
    pub flows: Vec<FlowLosses>,
}

/// Losses of one flow.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FlowLosses {
    /// The NIC that sends.
    pub nic: IpAddr,
    /// The NIC that receives.
    pub peer: Option<IpAddr>,
    /// The sending QP, once known.
    pub qpn: Option<u32>,
    /// The receiving QP.
    pub peer_qpn: Option<u32>,
    /// What was lost.
    #[serde(flatten)]
    pub losses: Losses,
}

/// The algorithm and its settings.
#[derive(Clone, Debug, Serialize)]
pub struct Algorithm {
    /// Its name.
    pub name: &'static str,
    /// Preset of the reaction point.
    pub preset: &'static str,
    /// Preset of the notification point.
    pub np_preset: &'static str,
    /// Settings of the reaction point, in their units.
    pub rp: SortedMap<&'static str, SettingValue>,
    /// Settings of the notification point, in their units.
    pub np: SortedMap<&'static str, SettingValue>,
    /// Settings that are counted in blocks, converted to bytes.
    pub in_bytes: Vec<String>,
}

/// The port that every NIC is assumed to have.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Port {
    /// Line rate.
    pub line_rate_gbps: u32,
    /// Largest packet.
    pub mtu_bytes: u32,
    /// Round-trip time of the empty network.
    pub base_rtt_us: u32,
}

/// Counts of frames. `rocev2`, `rocev2_shim`, `rocev1`, `pfc`, `other` and `unparsed` add up to `total`.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// All.
    pub total: u64,
    /// RoCEv2.
    pub rocev2: u64,
    /// RoCEv2 with shims, on the UDP port of shims.
    pub rocev2_shim: u64,
    /// RoCEv1.
    pub rocev1: u64,
    /// Priority flow control, and the pause of a whole link.
    pub pfc: u64,
    /// Neither RoCE nor PFC.
    pub other: u64,
    /// Malformed, or cut within their headers.
    pub unparsed: u64,
    /// Frames counted in `other`, by protocol.
    pub by_other: SortedMap<&'static str, u64>,
    /// RoCE packets by opcode.
    pub by_opcode: SortedMap<String, u64>,
    /// The names of these opcodes.
    pub opcode_names: SortedMap<String, String>,
    /// Frames that were not passed to a NIC, by the fault in them.
    pub dropped: SortedMap<&'static str, u64>,
    /// Cut by the snap length.
    pub truncated: u64,
    /// Cut to their headers by a switch whose buffers were full.
    pub trimmed: u64,
    /// RoCE packets that came in tunnels or mirror sessions.
    pub tunnelled: u64,
    /// Without a time stamp.
    pub untimed: u64,
    /// Whose time stamps are out of order.
    pub reordered: u64,
    /// RoCE packets captured before the sender's NIC filled in their IPv4 checksum.
    pub checksum_unfilled: u64,
    /// RoCE packets of addresses beyond the number that is tracked.
    pub unfollowed: u64,
    /// PFC frames for which the paused NIC is not known.
    pub pfc_unattributed: u64,
    /// PFC frames to a unicast address, which have no effect.
    pub pfc_unicast: u64,
    /// Times that a clock was set, or that no frame came for a day. The replay lets no time pass there.
    pub gaps_cut: u64,
    /// Frames that were dropped on the way into the file, as the file itself reports.
    pub capture_dropped: u64,
}

/// Checks of the ICRC.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Icrc {
    /// Right.
    pub valid: u64,
    /// Wrong.
    pub invalid: u64,
    /// Cut by the snap length.
    pub unchecked: u64,
}

/// CNPs that our notification points would send, and how the captured CNPs compare with them.
#[derive(Clone, Debug, Serialize)]
pub struct Cnps {
    /// CNPs that we would send.
    pub sent: u64,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The first of the CNPs that we would send.
    pub list: Vec<Cnp>,
}

/// One CNP that we would send.
#[derive(Clone, Debug, Serialize)]
pub struct Cnp {
    /// When, since the first frame.
    pub time_ns: u64,
    /// The NIC that notifies.
    pub from: IpAddr,
    /// The NIC that is notified.
    pub to: IpAddr,
    /// Its QP.
    pub qpn: u32,
}

/// Counts of flows, and of packets that belong to no known flow.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Flows {
    /// Flows with data.
    pub seen: u64,
    /// Flows whose sending QP is known.
    pub bound: u64,
    /// Acknowledgements that could belong to several flows.
    pub ambiguous: u64,
    /// Flows for which a NIC had no slot.
    pub refused: u64,
    /// Data packets of flows beyond the number that is tracked.
    pub unfollowed: u64,
}

/// Round-trip times in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rtt {
    /// Samples.
    pub count: u64,
    /// Their summary.
    #[serde(flatten)]
    pub summary: Summary,
}

/// A span of time of the capture.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// When it begins, in nanoseconds since the first frame.
    pub from_ns: u64,
    /// When it ends, in nanoseconds since the first frame.
    pub to_ns: u64,
    /// Data packets.
    pub data: u64,
    /// Those with CE.
    pub ce: u64,
    /// CNPs captured.
    pub cnps: u64,
    /// All data on the wire together, bits per second.
    pub data_bps: u64,
    /// Sum of the rates that the flows are allowed at its end, in bits per second. Flows whose rates are not kept are left out.
    pub allowed_bps: u64,
}

/// The rate of one flow over time.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// The NIC that sends.
    pub nic: IpAddr,
    /// The network of the two NICs: the VLAN identifier, plus 4,096 times the identifier of the tunnel's network. 0 unless
    /// several hosts have the same address.
    pub network: u32,
    /// The NIC that receives; `null` for the datagrams of one QP.
    pub peer: Option<IpAddr>,
    /// The sending QP, once known.
    pub qpn: Option<u32>,
    /// The receiving QP; `null` for datagrams.
    pub peer_qpn: Option<u32>,
    /// Changes of the rate for each point: 1, or a power of two when older points were thinned out.
    pub every: u32,
    /// The rate over time: pairs of nanoseconds since the first frame, and bits per second from then on.
    pub points: Vec<(u64, u64)>,
}

/// One NIC.
#[derive(Clone, Debug, Serialize)]
pub struct Nic {
    /// Its address.
    pub address: IpAddr,
    /// Its network, where several hosts have the address, see [`Rates::network`].
    pub network: u32,
    /// Counters of its notification point.
    pub np: SortedMap<&'static str, u64>,
    /// Counters of its reaction point.
    pub rp: SortedMap<&'static str, u64>,
}

/// How long pauses kept one priority of a NIC from sending.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pause {
    /// The NIC.
    pub nic: IpAddr,
    /// Priority.
    pub priority: u8,
    /// Sum of its pauses, in microseconds.
    pub paused_us: f64,
    /// Their share of the run, in per cent.
    pub percent: f64,
    /// PFC frames with a pause that it received.
    pub frames: u64,
    /// Packets that it sent while paused.
    pub ignored: u64,
}

/// The pauses that a NIC sent to its neighbour, for one priority.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PauseSent {
    /// The NIC.
    pub nic: IpAddr,
    /// Priority.
    pub priority: u8,
    /// PFC frames with a pause.
    pub frames: u64,
    /// The sum of their pause times, in microseconds.
    pub pause_us: f64,
}

/// The signals that a reaction point uses, and those of them that a capture lacks.
#[derive(Clone, Debug, Serialize)]
pub struct Signals {
    /// The signals that the algorithm uses.
    pub needed: Vec<&'static str>,
    /// Of these, those that the capture lacks.
    pub missing: Vec<&'static str>,
    /// Why there was no decision, if the capture lacks all of them.
    pub no_decisions: Option<String>,
}

/// Congestion signals, their keys in JSON, and their names in sentences.
const SIGNALS: [(cc_rp::Signals, &str, &str); 8] = [
    (cc_rp::Signals::CNP, "cnp", "CNPs"),
    (cc_rp::Signals::MARK, "mark", "marks in acknowledgements"),
    (cc_rp::Signals::UNDETERMINED, "undetermined", "marks of undetermined ports"),
    (cc_rp::Signals::DELAY, "delay", "round-trip times"),
    (cc_rp::Signals::INT, "int", "INT"),
    (cc_rp::Signals::GRANT, "grant", "grants"),
    (cc_rp::Signals::SWITCH_INT, "switch_int", "INT that switches send back"),
    (cc_rp::Signals::ADVISED_RATE, "advice", "advised rates"),
];

impl Signals {
    /// Compares the signals that the algorithm needs with those found in the capture.
    pub fn new(needed: cc_rp::Signals, found: cc_rp::Signals) -> Self {
        let used = || SIGNALS.iter().filter(move |(signal, ..)| needed.contains(*signal));
        let lacking = || used().filter(move |(signal, ..)| !found.contains(*signal));
        let lacks_all = used().count() > 0 && used().count() == lacking().count();
        let reasons: Vec<_> = lacking().map(|(_, _, what)| format!("no {what}")).collect();
        Self {
            needed: used().map(|&(_, name, _)| name).collect(),
            missing: lacking().map(|&(_, name, _)| name).collect(),
            no_decisions: lacks_all.then(|| format!("the capture has {}", reasons.join(" and "))),
        }
    }

    /// Whether the capture cannot show any decision of the algorithm: it lacks all signals, and the algorithm does not use
    /// CNPs. An algorithm that uses CNPs is not blind without them: then there was no congestion, and staying at the line rate
    /// is the right decision. Any other signal is missing because the captured network does not provide it.
    pub fn is_blind(&self) -> bool {
        self.no_decisions.is_some() && !self.needed.contains(&"cnp")
    }
}

/// The rows of the machines' transition tables that a replay's events reached.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    /// Rows of the reaction point's table.
    pub rp: Rows,
    /// Rows of the notification point's table.
    pub np: Rows,
}

/// Rows of a transition table, each for a state and an event.
#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    /// Number of rows.
    pub rows: usize,
    /// Number of rows that an event reached.
    pub visited: usize,
    /// The rows that no event reached.
    pub missing: Vec<&'static str>,
}

impl Rows {
    /// Makes it from the rows of a table and, for each NIC, how often events reached each row.
    pub fn new<'a>(table: &[&'static str], counts: impl Iterator<Item = &'a [u64]> + Clone) -> Self {
        let is_missing = |row: usize| counts.clone().all(|counts| counts.get(row).is_none_or(|&times| times == 0));
        let missing: Vec<_> =
            table.iter().enumerate().filter(|&(row, _)| is_missing(row)).map(|(_, &row)| row).collect();
        Self { rows: table.len(), visited: table.len() - missing.len(), missing }
    }
}

/// Memory of the library and of the image.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    /// Compiled for this host.
    pub native: Size,
    /// From the image's start-up report; `null` without an image.
    pub image: Option<Size>,
}

/// Memory of a NIC program.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// Bytes of state of one flow at the reaction point.
    pub state_bytes: u32,
    /// Bytes of memory that each further QP adds, in all tables.
    pub qp_bytes: u32,
    /// QPs for which the tables have room.
    pub qps: u32,
    /// Bytes of one record of the notification point, key included.
    pub peer_bytes: u32,
    /// Records for which the table has room.
    pub peers: u32,
}

/// The core, and how its decisions compare with the library's.
#[derive(Clone, Debug, Serialize)]
pub struct Core {
    /// Its name.
    pub name: &'static str,
    /// How its clock ran: lockstep or real time.
    pub pace: &'static str,
    /// Cycles per second; `null` in lockstep.
    pub clock_hz: Option<u64>,
    /// Whether every event compared equal, and there was at least one.
    pub identical: bool,
    /// Events compared.
    pub events: u64,
    /// The first event that differed.
    pub difference: Option<Difference>,
    /// RAM that the image used; `null` on QEMU, where it is not measured.
    pub memory: Option<Memory>,
    /// Cycles per event by kind; a kind that did not occur is absent.
    pub cycles: SortedMap<&'static str, KindCycles>,
    /// In real time: descriptors that were lost because the receive ring was full.
    pub ring_overflows: u64,
    /// Of these, those of CNPs.
    pub cnps_lost: u64,
    /// In real time: CNPs that were counted into the descriptor of an earlier CNP, still waiting in the receive ring.
    pub cnps_coalesced: u64,
    /// Outcome of interrupting events after every instruction, with `--interrupts`.
    pub interrupts: Option<Interrupts>,
}

/// The RAM that an image used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Bytes of code, data, tables and rings.
    pub static_ram_bytes: u32,
    /// Most bytes of stack that it has used, start-up included.
    pub stack_bytes: u32,
}

/// Cycles of one kind of event, by span.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KindCycles {
    /// From the engine's first instruction to the last pacer store, or to the engine's return if the decision did not change.
    #[serde(flatten)]
    pub step: Option<Summary>,
    /// The state machine alone, from the call of `on` to its return. Measured in a separate image that does not inline `on`;
    /// the other spans are measured in the image that inlines it, so they may be shorter. `null` without the separate image,
    /// and in real time.
    pub on: Option<Summary>,
    /// The engine, from its first instruction to its return.
    pub step_total: Option<Summary>,
    /// From reading the descriptor to the pacer store.
    pub frame: Option<Summary>,
}

impl KindCycles {
    /// The spans by name.
    pub fn named(&self) -> [(&'static str, Option<Summary>); 4] {
        [("on", self.on), ("step", self.step), ("step_total", self.step_total), ("frame", self.frame)]
    }
}

/// The first difference between library and image.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The NIC.
    pub nic: IpAddr,
    /// The number of the NIC's event, from 1.
    pub event: u64,
    /// Its time in nanoseconds since the first frame.
    pub time_ns: u64,
    /// The kind of event.
    pub kind: &'static str,
    /// The slot of the event, if it has one.
    pub slot: Option<u16>,
    /// The QP of that slot, if known.
    pub qpn: Option<u32>,
    /// What the library did.
    pub native: String,
    /// What the image did.
    pub core: String,
}

fn named(counters: &[(&'static str, u64)]) -> SortedMap<&'static str, u64> {
    counters.iter().copied().collect()
}

fn sum<'a>(nics: impl Iterator<Item = &'a [(&'static str, u64)]>) -> SortedMap<&'static str, u64> {
    let mut total = SortedMap::new();
    for &(name, count) in nics.flatten() {
        *total.or_default(name) += count;
    }
    total
}

impl Report {
    /// Makes the report of a replay from its outcome. `unused` are the counters of a NIC that has handled no event: with them
    /// every report has every counter, even if the capture shows no NIC.
    #[expect(clippy::too_many_arguments, reason = "the parts of a report")]
    pub fn new(
        outcome: &Outcome,
        algorithm: Algorithm,
        link: Port,
        signals: Signals,
        tables: [&[&'static str]; 2],
        unused: &NicCounters,
        sizes: Sizes,
        mut core: Option<Core>,
        ending: Ending,
    ) -> Self {
        let Outcome { frames, flows, cnps, .. } = outcome;
        let address = |number: Address| outcome.addresses[usize::from(number)];
        let other: u64 = frames.other.values().sum();
        let network = |number: Address| outcome.networks.get(usize::from(number)).copied().unwrap_or(0);
        let each = || outcome.nics.iter().map(|(_, counters)| counters).chain([unused]);
        let mut rp = sum(each().map(|counters| counters.rp.as_slice()));
        rp.insert("window_exceeded", outcome.window_exceeded);
        if let Some(core) = core.as_mut().filter(|_| signals.is_blind()) {
            core.identical = false;
        }
        assert_eq!(
            frames.total,
            frames.rocev2 + frames.rocev2_shim + frames.rocev1 + frames.pfc + other + frames.unparsed,
            "every frame has exactly one class"
        );
        let findings = findings::of(outcome, &rp, signals.no_decisions.is_some(), link.line_rate_gbps);
        Self {
            schema: SCHEMA,
            algorithm,
            link,
            ending,
            duration_ns: outcome.duration,
            frames: Frames {
                total: frames.total,
                rocev2: frames.rocev2,
                rocev2_shim: frames.rocev2_shim,
                rocev1: frames.rocev1,
                pfc: frames.pfc,
                other,
                unparsed: frames.unparsed,
                by_other: frames.other.clone(),
                by_opcode: frames.by_opcode.iter().map(|(opcode, &count)| (format!("{opcode:#04x}"), count)).collect(),
                opcode_names: frames
                    .by_opcode
                    .keys()
                    .map(|&opcode| (format!("{opcode:#04x}"), opcode_name(opcode)))
                    .collect(),
                dropped: frames.dropped.clone(),
                truncated: frames.truncated,
                trimmed: frames.trimmed,
                tunnelled: frames.tunnelled,
                untimed: frames.untimed,
                reordered: frames.reordered,
                checksum_unfilled: frames.checksum_unfilled,
                unfollowed: frames.unfollowed,
                pfc_unattributed: frames.pfc_unattributed,
                pfc_unicast: frames.pfc_unicast,
                gaps_cut: frames.gaps,
                capture_dropped: outcome.survey.dropped.total(),
            },
            icrc: Icrc { valid: frames.icrc_valid, invalid: frames.icrc_invalid, unchecked: frames.icrc_unchecked },
            np: sum(each().map(|counters| counters.np.as_slice())),
            rp,
            cnps: Cnps {
                sent: cnps.sent(),
                comparison: cnps.comparison(),
                list: cnps
                    .listed()
                    .iter()
                    .map(|&(time_ns, route)| Cnp {
                        time_ns,
                        from: address(route.from),
                        to: address(route.to),
                        qpn: route.qpn,
                    })
                    .collect(),
            },
            flows: Flows {
                seen: flows.all().len() as u64,
                bound: flows.all().iter().filter(|flow| flow.local.is_some()).count() as u64,
                ambiguous: outcome.survey.ambiguous,
                refused: outcome.refused_flows,
                unfollowed: flows.unfollowed,
            },
            ecn: Ecn { data: EcnCounts::of(outcome.marking.data), other: EcnCounts::of(outcome.marking.other) },
            dscp: Dscp {
                data: counted(&outcome.marking.data_dscp),
                cnp: counted(&outcome.marking.cnp_dscp),
                other: counted(&outcome.marking.other_dscp),
            },
            losses: losses(outcome, address),
            rtt_ns: rtt(&outcome.rtt),
            timeline: timeline(outcome),
            rates: flows.all().iter().filter_map(|flow| rates(flow, address, network(flow.source))).collect(),
            rates_omitted: outcome.unkept_series,
            nics: outcome
                .nics
                .iter()
                .map(|(number, counters)| Nic {
                    address: address(*number),
                    network: network(*number),
                    np: named(&counters.np),
                    rp: named(&counters.rp),
                })
                .collect(),
            nics_refused: outcome.refused_nics,
            pauses: pauses(&outcome.pauses, outcome.duration, address),
            pauses_sent: outcome
                .pauses_sent
                .iter()
                .map(|(&(nic, priority), requests)| PauseSent {
                    nic: address(nic),
                    priority,
                    frames: requests.frames,
                    pause_us: requests.time as f64 / 1e3,
                })
                .collect(),
            findings,
            notes: findings::notes(outcome),
            signals,
            coverage: Coverage {
                rp: Rows::new(tables[0], outcome.nics.iter().map(|(_, counters)| counters.transitions[0].as_slice())),
                np: Rows::new(tables[1], outcome.nics.iter().map(|(_, counters)| counters.transitions[1].as_slice())),
            },
            sizes,
            core,
        }
    }
}

/// The name of an opcode: its transport and its operation (IBTA volume 1, 9.2; annexes A14, A17, A19).
fn opcode_name(opcode: u8) -> String {
    let transport = match Transport::of(opcode) {
        Transport::Rc => "RC",
        Transport::Uc => "UC",
        Transport::Rd => "RD",
        Transport::Ud => "UD",
        Transport::Xrc => "XRC",
        Transport::Cnp if opcode == opcode::CNP => return "CNP".to_owned(),
        Transport::Cnp => return "reserved".to_owned(),
        Transport::Manufacturer => return "manufacturer's own".to_owned(),
    };
    let operation = match opcode & 0x1f {
        0x00 => "SEND first",
        0x01 => "SEND middle",
        0x02 => "SEND last",
        0x03 => "SEND last with immediate",
        0x04 => "SEND only",
        0x05 => "SEND only with immediate",
        0x06 => "WRITE first",
        0x07 => "WRITE middle",
        0x08 => "WRITE last",
        0x09 => "WRITE last with immediate",
        0x0a => "WRITE only",
        0x0b => "WRITE only with immediate",
        0x0c => "READ request",
        0x0d => "READ response first",
        0x0e => "READ response middle",
        0x0f => "READ response last",
        0x10 => "READ response only",
        0x11 => "acknowledge",
        0x12 => "ATOMIC acknowledge",
        0x13 => "CmpSwap",
        0x14 => "FetchAdd",
        0x15 => "RESYNC",
        0x16 => "SEND last with invalidate",
        0x17 => "SEND only with invalidate",
        0x1c => "FLUSH",
        0x1d => "ATOMIC WRITE",
        _ => "reserved",
    };
    format!("{transport} {operation}")
}

fn counted(counts: &[u64; 64]) -> SortedMap<u8, u64> {
    (0..).zip(counts).filter(|&(_, &count)| count > 0).map(|(value, &count)| (value, count)).collect()
}

fn losses(outcome: &Outcome, address: impl Fn(Address) -> IpAddr) -> LossReport {
    let flows = outcome.flows.all().iter().map(|flow| FlowLosses {
        nic: address(flow.source),
        peer: flow.target.map(&address),
        qpn: flow.local,
        peer_qpn: flow.target.map(|_| flow.qpn),
        losses: flow.sequence.losses(),
    });
    let flows: Vec<_> = flows.filter(|flow| flow.losses != Losses::default()).collect();
    let total = flows.iter().fold(outcome.losses, |sum, flow| sum.plus(flow.losses));
    LossReport { total, flows }
}

fn timeline(outcome: &Outcome) -> Vec<Moment> {
    let (spans, width) = outcome.timeline.spans();
    let allowed = |now: u64| {
        let series = outcome.flows.all().iter().filter_map(|flow| flow.series.as_ref());
        series.filter_map(|series| series.at(now)).map(|rate| Rate::from_bits(rate).to_bits_per_second()).sum()
    };
    let moments = spans.map(|(from_ns, span)| {
        let to_ns = (from_ns + width).min(outcome.duration.max(from_ns));
        Moment {
            from_ns,
            to_ns,
            data: span.data,
            ce: span.marked,
            cnps: span.cnps,
            data_bps: if to_ns > from_ns {
                (u128::from(span.bytes) * 8_000_000_000 / u128::from(to_ns - from_ns)) as u64
            } else {
                0
            },
            allowed_bps: allowed(to_ns),
        }
    });
    moments.collect()
}

fn rtt(samples: &Distribution) -> Option<Rtt> {
    samples.summary().map(|summary| Rtt { count: samples.count(), summary })
}

fn pauses(all: &[Paused], duration: u64, address: impl Fn(Address) -> IpAddr) -> Vec<Pause> {
    let paused = all.iter().filter(|paused| paused.time > 0);
    let of_each = paused.map(|&Paused { nic, priority, time, frames, ignored, .. }| Pause {
        nic: address(nic),
        priority,
        paused_us: time as f64 / 1e3,
        percent: 100.0 * time as f64 / duration as f64,
        frames,
        ignored,
    });
    of_each.collect()
}

fn rates(flow: &Flow, address: impl Fn(Address) -> IpAddr, network: u32) -> Option<Rates> {
    let series = flow.series.as_ref()?;
    Some(Rates {
        nic: address(flow.source),
        network,
        peer: flow.target.map(&address),
        qpn: flow.local,
        peer_qpn: flow.target.map(|_| flow.qpn),
        every: series.every(),
        points: series.points().map(|(now, rate)| (now, Rate::from_bits(rate).to_bits_per_second())).collect(),
    })
}

/// The first difference, in words.
pub fn difference(outcome: &Outcome) -> Option<Difference> {
    let (difference, nic, flow) = outcome.difference.as_ref()?;
    Some(Difference {
        nic: outcome.addresses[usize::from(*nic)],
        event: difference.event,
        time_ns: difference.now,
        kind: difference.kind,
        slot: difference.slot,
        qpn: flow.and_then(|flow| outcome.flows.get(flow)?.local),
        native: difference.native.clone(),
        core: difference.core.clone(),
    })
}

/// Cycles per event by kind, from the samples by kind and span of several cores.
pub fn cycles<'a>(
    all: impl Iterator<Item = (&'a (&'static str, Span), &'a Vec<u32>)>,
) -> SortedMap<&'static str, KindCycles> {
    let mut samples: SortedMap<(&'static str, Span), Vec<u32>> = SortedMap::new();
    for (&key, more) in all {
        samples.or_default(key).extend(more);
    }
    let mut table = SortedMap::new();
    for ((kind, span), mut samples) in samples {
        let entry = table.or_insert(kind, KindCycles { step: None, on: None, step_total: None, frame: None });
        let place = match span {
            Span::Step => &mut entry.step,
            Span::On => &mut entry.on,
            Span::StepTotal => &mut entry.step_total,
            Span::Frame => &mut entry.frame,
        };
        *place = Summary::of(&mut samples);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_rp::Signals as Set;

    #[test]
    fn a_capture_without_any_signal_of_the_algorithm_is_reported() {
        let none = Signals::new(Set::INT, Set::CNP.with(Set::DELAY));
        assert_eq!(none.no_decisions.as_deref(), Some("the capture has no INT"));
        assert!(none.is_blind());
        let some = Signals::new(Set::DELAY.with(Set::MARK), Set::DELAY);
        assert_eq!((some.missing.as_slice(), some.no_decisions.is_some()), (&["mark"][..], false));
        let both = Signals::new(Set::DELAY.with(Set::MARK), Set::NONE);
        assert_eq!(
            both.no_decisions.as_deref(),
            Some("the capture has no marks in acknowledgements and no round-trip times")
        );
        // An algorithm that only obeys pauses needs no signal, and without CNPs there was no congestion.
        assert!(!Signals::new(Set::NONE, Set::NONE).is_blind());
        let quiet = Signals::new(Set::CNP, Set::NONE);
        assert!(quiet.no_decisions.is_some() && !quiet.is_blind());
    }
}
