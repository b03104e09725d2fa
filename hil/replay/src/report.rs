//! What a replay prints: for people as text, for scripts as JSON.

use super::cnps::Comparison;
use super::device::Counters;
use super::distribution::{Distribution, Summary};
use super::flows::{Address, Flow, Slot};
use super::replayer::Outcome;
use cc_core::Rate;
use hil_algorithms::settings::SettingValue;
use hil_cores::interrupts::Interrupts;
use hil_cores::probe::Span;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// The version of the JSON's keys.
pub const SCHEMA: u32 = 2;
/// CNPs that the text lists.
const LISTED: usize = 10;
/// Flows whose rates the text shows.
const SHOWN: usize = 16;

/// Everything that a replay says. Two replays of one capture say the same.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The algorithm and its settings.
    pub algorithm: Algorithm,
    /// The port of every NIC.
    pub link: Port,
    /// From the first frame to the last.
    pub duration_ns: u64,
    /// Frames.
    pub frames: Frames,
    /// Checks of the ICRC.
    pub icrc: Icrc,
    /// Counters of the notification points, summed.
    pub np: BTreeMap<&'static str, u64>,
    /// Counters of the reaction points, summed.
    pub rp: BTreeMap<&'static str, u64>,
    /// CNPs that our notification points would send.
    pub cnps: Cnps,
    /// Flows and what was learnt of them.
    pub flows: Flows,
    /// From a data packet to the acknowledgement that names it.
    pub rtt_ns: Option<Rtt>,
    /// Rates over time.
    pub rates: Vec<Rates>,
    /// Flows whose rates are not shown.
    pub rates_omitted: u64,
    /// The same counters for each NIC.
    pub nics: Vec<Nic>,
    /// Addresses that were not replayed, there being too many.
    pub nics_refused: u64,
    /// How long PFC paused the priorities of the NICs, where it did.
    pub pauses: Vec<Pause>,
    /// What the reaction point lives on, and what of it the capture has.
    pub signals: Signals,
    /// What is amiss in the network, or in how its ends are set up; empty where nothing is.
    pub findings: Vec<String>,
    /// What of the machines the replay exercised.
    pub coverage: Coverage,
    /// Memory.
    pub sizes: Sizes,
    /// The core; `null` without one.
    pub core: Option<Core>,
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
    pub rp: BTreeMap<&'static str, SettingValue>,
    /// Settings of the notification point, in their units.
    pub np: BTreeMap<&'static str, SettingValue>,
}

/// The port.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Port {
    /// Line rate.
    pub line_rate_gbps: u32,
    /// Largest packet.
    pub mtu_bytes: u32,
    /// Round-trip time of the empty network.
    pub base_rtt_us: u32,
}

/// Frames. `rocev2`, `rocev2_shim`, `rocev1`, `pfc`, `other` and `unparsed` sum up to `total`.
#[derive(Clone, Debug, Serialize)]
pub struct Frames {
    /// All.
    pub total: u64,
    /// RoCEv2.
    pub rocev2: u64,
    /// RoCEv2 with shims, on their UDP port.
    pub rocev2_shim: u64,
    /// RoCEv1.
    pub rocev1: u64,
    /// Priority flow control.
    pub pfc: u64,
    /// None of ours.
    pub other: u64,
    /// Malformed, or cut within their headers.
    pub unparsed: u64,
    /// What `other` is.
    pub by_other: BTreeMap<&'static str, u64>,
    /// RoCE packets by opcode.
    pub by_opcode: BTreeMap<String, u64>,
    /// Frames that reached no NIC, by what is wrong with them.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Cut by the snap length.
    pub truncated: u64,
    /// RoCE packets of addresses beyond the number followed.
    pub unfollowed: u64,
    /// PFC frames of which it is not known whom they pause.
    pub pfc_unattributed: u64,
    /// Times without a frame that were cut to an hour.
    pub gaps_cut: u64,
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

/// CNPs of ours, and how those captured compare with them.
#[derive(Clone, Debug, Serialize)]
pub struct Cnps {
    /// CNPs that we would send.
    pub sent: u64,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The first of ours.
    pub list: Vec<Cnp>,
}

/// One CNP of ours.
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

/// Flows and what was learnt of them.
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
    /// Data packets of flows beyond the number followed.
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

/// The rate of one flow over time.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// The NIC that sends.
    pub nic: IpAddr,
    /// The NIC that receives; `null` for the datagrams of one QP.
    pub peer: Option<IpAddr>,
    /// The sending QP, once known.
    pub qpn: Option<u32>,
    /// The receiving QP; `null` for datagrams.
    pub peer_qpn: Option<u32>,
    /// Changes for each point.
    pub every: u32,
    /// Pairs of nanoseconds since the first frame and bits per second from then on.
    pub points: Vec<(u64, u64)>,
}

/// One NIC.
#[derive(Clone, Debug, Serialize)]
pub struct Nic {
    /// Its address.
    pub address: IpAddr,
    /// Counters of its notification point.
    pub np: BTreeMap<&'static str, u64>,
    /// Counters of its reaction point.
    pub rp: BTreeMap<&'static str, u64>,
}

/// How long PFC kept one priority of a NIC from sending.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pause {
    /// The NIC.
    pub nic: IpAddr,
    /// Priority.
    pub priority: u8,
    /// All its pauses together.
    pub paused_us: f64,
    /// The share of the run.
    pub percent: f64,
}

/// What a reaction point lives on, and what of it a capture has.
#[derive(Clone, Debug, Serialize)]
pub struct Signals {
    /// The signals that the algorithm takes.
    pub needed: Vec<&'static str>,
    /// Of these, those that the capture lacks.
    pub missing: Vec<&'static str>,
    /// Why no decision was taken, where the capture lacks them all.
    pub no_decisions: Option<String>,
}

/// Signals, their names in reports, and what a capture without one lacks.
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
    /// What `needed` and `found` have in common, in words.
    pub fn new(needed: cc_rp::Signals, found: cc_rp::Signals) -> Self {
        let wanted = || SIGNALS.iter().filter(move |(signal, ..)| needed.contains(*signal));
        let lacking = || wanted().filter(move |(signal, ..)| !found.contains(*signal));
        let lacks_all = wanted().count() > 0 && wanted().count() == lacking().count();
        let reasons: Vec<_> = lacking().map(|(_, _, what)| format!("no {what}")).collect();
        Self {
            needed: wanted().map(|&(_, name, _)| name).collect(),
            missing: lacking().map(|&(_, name, _)| name).collect(),
            no_decisions: lacks_all.then(|| format!("the capture has {}", reasons.join(" and "))),
        }
    }

    /// Whether what the image did says nothing of its decisions. A capture without CNPs is one without congestion, in
    /// which to stay at the line rate is the decision; one without any other signal is of another network.
    pub fn is_blind(&self) -> bool {
        self.no_decisions.is_some() && !self.needed.contains(&"cnp")
    }
}

/// What of the machines a replay exercised.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    /// The reaction point's table of states and events.
    pub rp: Rows,
    /// The notification point's.
    pub np: Rows,
}

/// Rows of a table of states and events.
#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    /// All of them.
    pub rows: usize,
    /// Those that an event met.
    pub visited: usize,
    /// The others.
    pub missing: Vec<&'static str>,
}

impl Rows {
    /// Of a table whose rows were met so often at each NIC.
    pub fn new<'a>(table: &[&'static str], met: impl Iterator<Item = &'a [u64]> + Clone) -> Self {
        let is_missing = |row: usize| met.clone().all(|met| met.get(row).is_none_or(|&times| times == 0));
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
    /// As the image says of itself; `null` without one.
    pub image: Option<Size>,
}

/// Memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// State of one flow at the reaction point.
    pub state_bytes: u32,
    /// All that grows with each further QP.
    pub qp_bytes: u32,
    /// QPs that fit.
    pub qps: u32,
    /// One record of the notification point, key included.
    pub peer_bytes: u32,
    /// Records that fit.
    pub peers: u32,
}

/// The core and how it compares.
#[derive(Clone, Debug, Serialize)]
pub struct Core {
    /// Its name.
    pub name: &'static str,
    /// How its clock went.
    pub pace: &'static str,
    /// Cycles per second, in real time.
    pub clock_hz: Option<u64>,
    /// Every event compared equal, and there was one.
    pub identical: bool,
    /// Events compared.
    pub events: u64,
    /// The first event that differed.
    pub difference: Option<Difference>,
    /// The image in its RAM; `null` where that is not known.
    pub memory: Option<Memory>,
    /// Cycles per event by kind; a kind that did not occur is absent.
    pub cycles: BTreeMap<&'static str, KindCycles>,
    /// Descriptors that found the receive ring full, in real time.
    pub ring_overflows: u64,
    /// Of these, those of CNPs.
    pub cnps_lost: u64,
    /// CNPs that joined one waiting in the receive ring, in real time.
    pub cnps_coalesced: u64,
    /// What came of interrupting events at every moment, where that was asked for.
    pub interrupts: Option<Interrupts>,
}

/// What an image took of its RAM.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Bytes of code, data, tables and rings.
    pub static_ram_bytes: u32,
    /// Bytes of stack that it has used at most, its start included.
    pub stack_bytes: u32,
}

/// Cycles of one kind of event: those of `step`, and of the other spans.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KindCycles {
    /// From the engine's first instruction to the last pacer store, or to the return where nothing changed.
    #[serde(flatten)]
    pub step: Option<Summary>,
    /// The machine alone, from the call of `on` to its return, in an image that calls it for this purpose. The other spans
    /// are those of an image that inlines it, and so may be shorter. `null` without such an image, and in real time.
    pub on: Option<Summary>,
    /// The engine, from first instruction to return.
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

/// Where library and image parted.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The NIC.
    pub nic: IpAddr,
    /// Its event, from 1.
    pub event: u64,
    /// When, since the first frame.
    pub time_ns: u64,
    /// What happened.
    pub kind: &'static str,
    /// The slot, if it was about one.
    pub slot: Option<u16>,
    /// The QP of that slot, if known.
    pub qpn: Option<u32>,
    /// What the library did.
    pub native: String,
    /// What the image did.
    pub core: String,
}

fn named(counters: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    counters.iter().copied().collect()
}

fn sum<'a>(nics: impl Iterator<Item = &'a [(&'static str, u64)]>) -> BTreeMap<&'static str, u64> {
    let mut total = BTreeMap::new();
    for &(name, count) in nics.flatten() {
        *total.entry(name).or_default() += count;
    }
    total
}

impl Report {
    /// Puts the outcome of a replay into words.
    pub fn new(
        outcome: &Outcome,
        algorithm: Algorithm,
        link: Port,
        signals: Signals,
        tables: [&[&'static str]; 2],
        sizes: Sizes,
        mut core: Option<Core>,
    ) -> Self {
        let Outcome { frames, flows, cnps, .. } = outcome;
        let address = |number: Address| outcome.addresses[usize::from(number)];
        let other: u64 = frames.other.values().sum();
        let mut rp = sum(outcome.nics.iter().map(|(_, Counters { rp, .. })| rp.as_slice()));
        rp.insert("window_exceeded", outcome.window_exceeded);
        if let Some(core) = core.as_mut().filter(|_| signals.is_blind()) {
            core.identical = false;
        }
        assert_eq!(
            frames.total,
            frames.rocev2 + frames.rocev2_shim + frames.rocev1 + frames.pfc + other + frames.unparsed,
            "every frame has exactly one class"
        );
        Self {
            schema: SCHEMA,
            algorithm,
            link,
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
                dropped: frames.dropped.clone(),
                truncated: frames.truncated,
                unfollowed: frames.unfollowed,
                pfc_unattributed: frames.pfc_unattributed,
                gaps_cut: frames.gaps,
            },
            icrc: Icrc { valid: frames.icrc_valid, invalid: frames.icrc_invalid, unchecked: frames.icrc_unchecked },
            np: sum(outcome.nics.iter().map(|(_, Counters { np, .. })| np.as_slice())),
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
                ambiguous: flows.ambiguous,
                refused: outcome.refused_flows,
                unfollowed: flows.unfollowed,
            },
            rtt_ns: rtt(&outcome.rtt),
            rates: flows.all().iter().filter_map(|flow| rates(flow, address)).collect(),
            rates_omitted: outcome.unkept_series,
            nics: outcome
                .nics
                .iter()
                .map(|(number, counters)| Nic {
                    address: address(*number),
                    np: named(&counters.np),
                    rp: named(&counters.rp),
                })
                .collect(),
            nics_refused: outcome.refused_nics,
            pauses: pauses(&outcome.pauses, outcome.duration, address),
            signals,
            findings: findings(flows.all()),
            coverage: Coverage {
                rp: Rows::new(tables[0], outcome.nics.iter().map(|(_, counters)| counters.rows.rp.as_slice())),
                np: Rows::new(tables[1], outcome.nics.iter().map(|(_, counters)| counters.rows.np.as_slice())),
            },
            sizes,
            core,
        }
    }
}

/// What the flows show to be amiss. A flow counts here if its sender is replayed.
fn findings(flows: &[Flow]) -> Vec<String> {
    let marked = || flows.iter().filter(|flow| flow.marked > 0 && matches!(flow.slot, Slot::Open { .. }));
    let (count, packets) = (marked().count(), marked().map(|flow| flow.marked).sum::<u64>());
    let heedless = count > 0 && marked().all(|flow| !flow.slowed);
    let finding = || format!("CE in {packets} packets of {count} flows, and no reaction: no flow was slowed down");
    heedless.then(finding).into_iter().collect()
}

fn rtt(samples: &Distribution) -> Option<Rtt> {
    samples.summary().map(|summary| Rtt { count: samples.count(), summary })
}

fn pauses(all: &[(Address, [u64; 8])], duration: u64, address: impl Fn(Address) -> IpAddr) -> Vec<Pause> {
    let of_each =
        all.iter().flat_map(|&(nic, paused)| (0..).zip(paused).map(move |(priority, ns)| (nic, priority, ns)));
    of_each
        .filter(|&(.., ns)| ns > 0)
        .map(|(nic, priority, ns)| Pause {
            nic: address(nic),
            priority,
            paused_us: ns as f64 / 1e3,
            percent: 100.0 * ns as f64 / duration as f64,
        })
        .collect()
}

fn rates(flow: &Flow, address: impl Fn(Address) -> IpAddr) -> Option<Rates> {
    let series = flow.series.as_ref()?;
    Some(Rates {
        nic: address(flow.source),
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
) -> BTreeMap<&'static str, KindCycles> {
    let mut samples: BTreeMap<(&'static str, Span), Vec<u32>> = BTreeMap::new();
    for (&key, more) in all {
        samples.entry(key).or_default().extend(more);
    }
    let mut table = BTreeMap::new();
    for ((kind, span), mut samples) in samples {
        let entry = table.entry(kind).or_insert(KindCycles { step: None, on: None, step_total: None, frame: None });
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Algorithm { name, preset, np_preset, .. } = self.algorithm;
        let Port { line_rate_gbps, mtu_bytes, base_rtt_us } = self.link;
        write!(f, "algorithm    {name}, preset {preset}")?;
        if np_preset != preset {
            write!(f, " (notification point: {np_preset})")?;
        }
        writeln!(f, "; port {line_rate_gbps} Gb/s, MTU {mtu_bytes} B, base RTT {base_rtt_us} us")?;
        self.write_frames(f)?;
        self.write_machines(f)?;
        if let Some(reason) = &self.signals.no_decisions {
            writeln!(f, "no decisions: {reason}")?;
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "finding      {finding}"))?;
        self.write_rates(f)?;
        self.write_coverage(f)?;
        self.write_sizes(f)?;
        self.core.as_ref().map_or(Ok(()), |core| core.write(f, self.signals.is_blind()))
    }
}

impl Report {
    fn write_frames(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frames { total, rocev2, rocev2_shim, rocev1, pfc, other, unparsed, .. } = self.frames;
        writeln!(
            f,
            "frames       {total} in {}: RoCEv2 {rocev2}, with shims {rocev2_shim}, RoCEv1 {rocev1}, PFC {pfc}, other {other}, \
             unparsed {unparsed}",
            seconds(self.duration_ns)
        )?;
        if other > 0 {
            writeln!(f, "  other      {}", pairs(&self.frames.by_other))?;
        }
        if !self.frames.by_opcode.is_empty() {
            writeln!(f, "  by opcode  {}", pairs(&self.frames.by_opcode))?;
        }
        if !self.frames.dropped.is_empty() {
            writeln!(f, "  dropped    {}", pairs(&self.frames.dropped))?;
        }
        let Icrc { valid, invalid, unchecked } = self.icrc;
        writeln!(f, "ICRC         {valid} right, {invalid} wrong, {unchecked} not checked (cut by the snap length)")?;
        for (count, what) in [
            (self.frames.truncated, "frames cut by the snap length"),
            (self.frames.unfollowed, "RoCE packets of addresses beyond the number followed"),
            (self.frames.pfc_unattributed, "PFC frames of which it is not known whom they pause"),
            (self.frames.gaps_cut, "gaps cut to an hour"),
            (self.nics_refused, "addresses not replayed: name those that matter with --nic"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
    }

    fn write_machines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flows { seen, bound, ambiguous, refused, unfollowed } = self.flows;
        writeln!(f, "NICs         {}; flows {seen}, sending QP known of {bound}", self.nics.len())?;
        for (count, what) in [
            (ambiguous, "acknowledgements that could belong to several flows"),
            (refused, "flows for which a NIC had no slot"),
            (unfollowed, "data packets of flows beyond the number followed"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        writeln!(f, "NP           {}", counters(&self.np))?;
        writeln!(f, "RP           {}", counters(&self.rp))?;
        if self.nics.len() > 1 {
            for nic in self.nics.iter().take(SHOWN) {
                writeln!(f, "  {}: {}, {}", nic.address, counters(&nic.np), counters(&nic.rp))?;
            }
            more(f, self.nics.len(), SHOWN, "NICs")?;
        }
        for Pause { nic, priority, paused_us, percent } in self.pauses.iter().take(SHOWN) {
            writeln!(f, "paused       {nic}, priority {priority}: {paused_us:.3} us, {percent:.2} % of the run")?;
        }
        more(f, self.pauses.len(), SHOWN, "paused priorities")?;
        let Comparison { captured, equal, shifted, only_ours, only_captured } = self.cnps.comparison;
        write!(f, "CNPs         {} would be sent", self.cnps.sent)?;
        match captured {
            0 => writeln!(f, "; none captured")?,
            _ => writeln!(
                f,
                "; {captured} captured: {equal} equal in QP and time, {shifted} at another time, {only_ours} only ours, \
                 {only_captured} only captured"
            )?,
        }
        for cnp in self.cnps.list.iter().take(LISTED) {
            writeln!(f, "  {} from {} to {} QP {:#x}", seconds(cnp.time_ns), cnp.from, cnp.to, cnp.qpn)?;
        }
        more(f, self.cnps.sent as usize, LISTED, "CNPs")?;
        match self.rtt_ns {
            Some(Rtt { count, summary }) => writeln!(f, "RTT          {count} samples in ns: {summary}"),
            None => writeln!(f, "RTT          no data packet is named by an acknowledgement"),
        }
    }

    fn write_rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rates        of {} flows; from, to: points, lowest, last", self.rates.len())?;
        for flow in self.rates.iter().take(SHOWN) {
            let end = |nic: Option<IpAddr>, qpn: Option<u32>| {
                let nic = nic.map_or("anybody".to_owned(), |nic| nic.to_string());
                let qpn = qpn.map_or("?".to_owned(), |qpn| format!("{qpn:#x}"));
                format!("{nic} QP {qpn}")
            };
            let lowest = flow.points.iter().map(|&(_, rate)| rate).min().unwrap_or(0);
            let last = flow.points.last().map_or(0, |&(_, rate)| rate);
            writeln!(
                f,
                "  {}, {}: {}, {} Mb/s, {} Mb/s",
                end(Some(flow.nic), flow.qpn),
                end(flow.peer, flow.peer_qpn),
                flow.points.len(),
                lowest / 1_000_000,
                last / 1_000_000
            )?;
        }
        more(f, self.rates.len() + self.rates_omitted as usize, SHOWN, "flows")
    }

    fn write_coverage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (role, Rows { rows, visited, missing }) in [("RP", &self.coverage.rp), ("NP", &self.coverage.np)] {
            writeln!(f, "coverage     {role}: {visited} of {rows} rows of its table of states and events")?;
            missing.iter().try_for_each(|row| writeln!(f, "  not met    {row}"))?;
        }
        Ok(())
    }

    fn write_sizes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [("library", Some(self.sizes.native)), ("image", self.sizes.image)];
        for (what, size) in lines {
            let Some(Size { state_bytes, qp_bytes, qps, peer_bytes, peers }) = size else { continue };
            writeln!(
                f,
                "memory       {what}: state {state_bytes} B, all for one QP {qp_bytes} B, {qps} QPs; record of a received \
                 flow {peer_bytes} B, {peers} records"
            )?;
        }
        Ok(())
    }
}

impl Core {
    fn write(&self, f: &mut fmt::Formatter<'_>, blind: bool) -> fmt::Result {
        let verdict = match self.identical {
            true => "identical",
            false if blind && self.difference.is_none() => "none",
            false => "NOT identical",
        };
        writeln!(
            f,
            "core         {} in {}: decisions {verdict}, {} events compared",
            self.name, self.pace, self.events
        )?;
        if let Some(difference) = &self.difference {
            let Difference { nic, event, time_ns, kind, slot, qpn, native, core } = difference;
            let slot = slot.map_or(String::new(), |slot| format!(", slot {slot}"));
            let qpn = qpn.map_or(String::new(), |qpn| format!(", QP {qpn:#x}"));
            writeln!(f, "  first difference: {nic}, event {event} ({kind}) at {}{slot}{qpn}", seconds(*time_ns))?;
            writeln!(f, "    library  {native}")?;
            writeln!(f, "    image    {core}")?;
        }
        if let Some(Memory { static_ram_bytes, stack_bytes }) = self.memory {
            writeln!(f, "  {static_ram_bytes} bytes of code, data, tables and rings; at most {stack_bytes} of stack")?;
        }
        if self.clock_hz.is_some() {
            writeln!(
                f,
                "  {} descriptors found the ring full, {} of them CNPs; {} CNPs coalesced",
                self.ring_overflows, self.cnps_lost, self.cnps_coalesced
            )?;
        }
        if let Some(Interrupts { events, moments, inconsistent, first_inconsistent, longest_wait }) = &self.interrupts {
            writeln!(
                f,
                "  {events} events interrupted after each of their instructions, {moments} times: {inconsistent} outcomes of no order of \
                 event and wake; cycles to the handler at most: {}",
                pairs(longest_wait)
            )?;
            first_inconsistent.iter().try_for_each(|inconsistent| writeln!(f, "    first      {inconsistent}"))?;
        }
        if !self.cycles.is_empty() {
            writeln!(f, "  cycles     span        min  median     p99     max")?;
            if self.cycles.values().all(|spans| spans.on.is_none()) {
                writeln!(f, "  (the machine's `on` is part of step: the image has it inlined)")?;
            }
        }
        for (kind, spans) in &self.cycles {
            for (span, summary) in spans.named() {
                if let Some(Summary { min, median, p99, max }) = summary {
                    writeln!(f, "  {kind:<10} {span:<10} {min:>4} {median:>7} {p99:>7} {max:>7}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "min {}, median {}, p99 {}, max {}", self.min, self.median, self.p99, self.max)
    }
}

/// The four that everybody looks for, and of the others those that counted something.
fn counters(counts: &BTreeMap<&'static str, u64>) -> String {
    const ALWAYS: [&str; 4] = ["np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"];
    pairs(
        &counts
            .iter()
            .filter(|&(name, &count)| count > 0 || ALWAYS.contains(name))
            .map(|(&name, &count)| (name, count))
            .collect(),
    )
}

fn pairs<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let words: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn more(f: &mut fmt::Formatter<'_>, all: usize, shown: usize, what: &str) -> fmt::Result {
    if all > shown { writeln!(f, "  ... and {} more {what}", all - shown) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_rp::Signals as Set;

    #[test]
    fn a_capture_that_lacks_every_signal_of_an_algorithm_is_said_to() {
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
        // Nothing is needed by who obeys pauses only, and without CNPs there was no congestion.
        assert!(!Signals::new(Set::NONE, Set::NONE).is_blind());
        let quiet = Signals::new(Set::CNP, Set::NONE);
        assert!(quiet.no_decisions.is_some() && !quiet.is_blind());
    }
}
