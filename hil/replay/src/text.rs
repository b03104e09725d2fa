//! The report as text: first the findings, then the numbers behind them, then the flows.
//!
//! Long lists are cut unless an option asks for them; the JSON report has everything.

use super::Summary;
use super::cnps::Comparison;
use super::report::{
    Algorithm, Core, Difference, Ending, Flows, Frames, Icrc, Memory, Moment, Pause, PauseSent, Port, Rates, Report,
    Rtt, Size,
};
use hil_cores::interrupts::Interrupts;
use hil_sorted::SortedMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// Flows and pauses that are shown by default.
const SHOWN: usize = 8;
/// CNPs that `--cnps` shows at most: as many as the report lists.
const LISTED: usize = 1_024;

/// A report, and the long lists of it that are shown.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The report.
    pub report: &'a Report,
    /// Whether all flows are shown, and all NICs with their counters.
    pub flows: bool,
    /// Whether the CNPs that our receivers would send are shown.
    pub cnps: bool,
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Text { report: self, flows: false, cnps: false }.fmt(f)
    }
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.findings(f)?;
        writeln!(f)?;
        self.evidence(f)?;
        writeln!(f)?;
        self.timeline(f)?;
        self.rates(f)?;
        self.nics(f)?;
        self.cnp_list(f)?;
        writeln!(f)?;
        self.sizes(f)?;
        let report = self.report;
        report.core.as_ref().map_or(Ok(()), |core| core.write(f, report.signals.is_blind()))?;
        writeln!(f, "more         --flows, --cnps, --format json")
    }
}

impl Text<'_> {
    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { frames, flows, nics, algorithm, link, duration_ns, ending, .. } = self.report;
        let roce = frames.rocev2 + frames.rocev2_shim + frames.rocev1;
        writeln!(
            f,
            "capture      {} frames, {roce} of them RoCE, in {}; {} NICs, {} flows, sending QP known of {}",
            frames.total,
            seconds(*duration_ns),
            nics.len(),
            flows.seen,
            flows.bound
        )?;
        match ending {
            Ending::Whole => {}
            Ending::Cut(fault) => writeln!(f, "incomplete   {fault}; the report covers the frames before")?,
            Ending::Interrupted(signal) => {
                writeln!(f, "incomplete   ended by signal {signal}; the report covers the frames read before")?;
            }
        }
        let Algorithm { name, preset, np_preset, .. } = algorithm;
        let Port { line_rate_gbps, mtu_bytes, base_rtt_us } = link;
        write!(f, "algorithm    {name}, preset {preset}")?;
        if np_preset != preset {
            write!(f, " (notification point: {np_preset})")?;
        }
        writeln!(
            f,
            "; port {line_rate_gbps} Gb/s, MTU {mtu_bytes} B, base RTT {base_rtt_us} us; captured CNPs drive the rates"
        )?;
        algorithm.in_bytes.iter().try_for_each(|setting| writeln!(f, "  {setting}"))
    }

    /// The findings.
    fn findings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { findings, signals, .. } = self.report;
        findings.iter().try_for_each(|finding| writeln!(f, "finding      {finding}"))?;
        if findings.is_empty() {
            writeln!(f, "finding      none")?;
        }
        self.report.notes.iter().try_for_each(|note| writeln!(f, "note         {note}"))?;
        signals.no_decisions.as_ref().map_or(Ok(()), |reason| writeln!(f, "no decisions: {reason}"))
    }

    /// The numbers behind the findings.
    fn evidence(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { ecn, cnps, losses, rtt_ns, pauses, pauses_sent, frames, icrc, dscp, flows, .. } = self.report;
        let (data, marked) = (ecn.data.total(), ecn.data.ce);
        let share = if data == 0 { 0.0 } else { 100.0 * marked as f64 / data as f64 };
        write!(f, "ECN          CE in {marked} of {data} data packets ({share:.1} %), ")?;
        writeln!(f, "ECT(0) {}, ECT(1) {}, Not-ECT {}", ecn.data.ect0, ecn.data.ect1, ecn.data.not_ect)?;
        writeln!(f, "DSCP         data {}; CNPs {}", words(&dscp.data), words(&dscp.cnp))?;
        let Comparison { captured, equal, shifted, only_ours, only_captured } = cnps.comparison;
        write!(f, "CNPs         {captured} captured; {} would be sent", cnps.sent)?;
        match (captured, cnps.sent) {
            (0, _) | (_, 0) => writeln!(f)?,
            _ => writeln!(
                f,
                ": {equal} equal in QP and time, {shifted} at another time, {only_ours} only ours, {only_captured} \
                 only captured"
            )?,
        }
        let total = losses.total;
        writeln!(
            f,
            "losses       {} packets sent again, {} NAKs, {} not captured, {} ICRC wrong",
            total.retransmitted,
            total.naks(),
            total.not_captured,
            icrc.invalid
        )?;
        match rtt_ns {
            Some(Rtt { summary: Summary { max: 0, .. }, count }) => {
                writeln!(
                    f,
                    "RTT          none: {count} acknowledgements have the time stamps of the packets that they name"
                )?;
            }
            Some(Rtt { count, summary }) => writeln!(f, "RTT          {count} samples in ns: {summary}")?,
            None => writeln!(f, "RTT          none: {}", self.no_rtt())?,
        }
        for Pause { nic, priority, paused_us, percent, .. } in pauses.iter().take(SHOWN) {
            writeln!(f, "paused       {nic}, priority {priority}: {paused_us:.3} us, {percent:.2} % of the run")?;
        }
        more(f, pauses.len(), SHOWN, "paused priorities")?;
        for PauseSent { nic, priority, frames, pause_us } in pauses_sent.iter().take(SHOWN) {
            writeln!(f, "pauses sent  {nic}, priority {priority}: {frames} PFC frames, for {pause_us:.3} us")?;
        }
        self.frames(f, frames, *icrc)?;
        let Flows { ambiguous, refused, unfollowed, .. } = *flows;
        for (count, what) in [
            (ambiguous, "acknowledgements that could belong to several flows: give the pairs with --pairs"),
            (refused, "flows for which a NIC had no slot"),
            (unfollowed, "data packets of flows beyond the number that is tracked"),
        ] {
            counted(f, count, what)?;
        }
        writeln!(f, "NP           {}", counters(&self.report.np))?;
        writeln!(f, "RP           {}", counters(&self.report.rp))
    }

    /// Why there is no round-trip time.
    fn no_rtt(&self) -> &'static str {
        let Report { frames, flows, .. } = self.report;
        let acks = frames.by_opcode.contains_key("0x11") || frames.by_opcode.contains_key("0xb1");
        match (acks, flows.bound) {
            (false, _) => "no acknowledgement is in the capture",
            (true, 0) => "the acknowledgements are of no known flow; give the queue pairs with --pairs",
            (true, _) => {
                "no acknowledgement names a data packet of the capture that was sent once and stamped by the same clock"
            }
        }
    }

    fn frames(&self, f: &mut Formatter<'_>, frames: &Frames, icrc: Icrc) -> fmt::Result {
        let Frames { rocev2, rocev2_shim, rocev1, pfc, other, unparsed, .. } = frames;
        writeln!(
            f,
            "frames       RoCEv2 {rocev2}, with shims {rocev2_shim}, RoCEv1 {rocev1}, PFC {pfc}, other {other}, \
             unparsed {unparsed}"
        )?;
        if *other > 0 {
            writeln!(f, "  other      {}", pairs(&frames.by_other))?;
        }
        if !frames.by_opcode.is_empty() {
            let name = |opcode: &String| frames.opcode_names.get(opcode).map_or("", String::as_str);
            let named: Vec<_> =
                frames.by_opcode.iter().map(|(opcode, count)| format!("{opcode} ({}) {count}", name(opcode))).collect();
            writeln!(f, "  by opcode  {}", named.join(", "))?;
        }
        if !frames.dropped.is_empty() {
            writeln!(f, "  dropped    {}", pairs(&frames.dropped))?;
        }
        let Icrc { valid, invalid, unchecked } = icrc;
        writeln!(f, "  ICRC       {valid} right, {invalid} wrong, {unchecked} not checked (cut by the snap length)")?;
        for (count, what) in [
            (frames.truncated, "frames cut by the snap length"),
            (frames.tunnelled, "RoCE packets that came in tunnels or mirror sessions"),
            (frames.reordered, "frames out of the order of their time stamps"),
            (frames.checksum_unfilled, "RoCE packets captured before the NIC filled in their IPv4 checksum"),
            (frames.unfollowed, "RoCE packets of addresses beyond the number that is tracked"),
            (frames.pfc_unattributed, "PFC frames whose paused NIC is not known: name the NIC with --nic"),
            (frames.gaps_cut, "times that a clock was set, or that no frame came for a day"),
            (self.report.nics_refused, "addresses not replayed: name those that matter with --nic"),
        ] {
            counted(f, count, what)?;
        }
        Ok(())
    }

    /// The capture over time, beside the sum of the rates that the algorithm allows the flows.
    fn timeline(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.report.timeline.len() < 2 {
            return Ok(());
        }
        writeln!(f, "time us                data Gb/s    CE %    CNPs   allowed, all flows, Gb/s")?;
        for &Moment { from_ns, to_ns, data, ce, cnps, data_bps, allowed_bps } in &self.report.timeline {
            let share = if data == 0 { 0.0 } else { 100.0 * ce as f64 / data as f64 };
            let span = format!("{:.0}-{:.0}", from_ns as f64 / 1e3, to_ns as f64 / 1e3);
            writeln!(
                f,
                "  {span:<20} {:>9.2} {share:>7.1} {cnps:>7} {:>26.2}",
                data_bps as f64 / 1e9,
                allowed_bps as f64 / 1e9
            )?;
        }
        Ok(())
    }

    /// The rates of the flows, slowest first.
    fn rates(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { rates, rates_omitted, .. } = self.report;
        let all = rates.len() + *rates_omitted as usize;
        if all == 0 {
            return writeln!(f, "flows        none: no data packet of RoCE is in the capture");
        }
        writeln!(f, "flows        {all}; from, to: lowest rate allowed, last, changes")?;
        let lowest = |flow: &Rates| flow.points.iter().map(|&(_, rate)| rate).min().unwrap_or(0);
        let mut order: Vec<&Rates> = rates.iter().collect();
        order.sort_by_key(|flow| lowest(flow));
        let shown = if self.flows { order.len() } else { SHOWN };
        for flow in order.iter().take(shown) {
            let last = flow.points.last().map_or(0, |&(_, rate)| rate);
            let changes = flow.points.len().saturating_sub(1) * flow.every as usize;
            writeln!(
                f,
                "  {}, {}: {} Mb/s, {} Mb/s, {changes}",
                end(Some(flow.nic), flow.qpn),
                end(flow.peer, flow.peer_qpn),
                lowest(flow) / 1_000_000,
                last / 1_000_000
            )?;
        }
        more(f, all, shown.min(order.len()), "flows: --flows")
    }

    fn nics(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.flows {
            return Ok(());
        }
        for nic in &self.report.nics {
            writeln!(f, "  {}: {}, {}", nic.address, counters(&nic.np), counters(&nic.rp))?;
        }
        Ok(())
    }

    fn cnp_list(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.cnps {
            return Ok(());
        }
        writeln!(f, "CNPs that we would send")?;
        for cnp in &self.report.cnps.list {
            writeln!(f, "  {} from {} to {} QP {:#x}", seconds(cnp.time_ns), cnp.from, cnp.to, cnp.qpn)?;
        }
        more(f, self.report.cnps.sent as usize, LISTED, "CNPs")
    }

    fn sizes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let lines = [("library", Some(self.report.sizes.native)), ("image", self.report.sizes.image)];
        for (what, size) in lines {
            let Some(Size { state_bytes, qp_bytes, qps, peer_bytes, peers }) = size else { continue };
            writeln!(
                f,
                "memory       {what}: state {state_bytes} B, all for one QP {qp_bytes} B, {qps} QPs; record of a \
                 received flow {peer_bytes} B, {peers} records"
            )?;
        }
        Ok(())
    }
}

impl Core {
    /// Writes the core's part of the report. `blind`: the capture has none of the signals that the algorithm uses, so there are
    /// no decisions.
    fn write(&self, f: &mut Formatter<'_>, blind: bool) -> fmt::Result {
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
                "  {events} events interrupted after each of their instructions, {moments} times: {inconsistent} \
                 outcomes are neither those of event then wake nor of wake then event; most cycles to the handler: \
                 {}",
                pairs(longest_wait)
            )?;
            first_inconsistent.iter().try_for_each(|inconsistent| writeln!(f, "    first      {inconsistent}"))?;
        }
        if !self.cycles.is_empty() {
            writeln!(f, "  cycles     span        min  median     p99     max")?;
            if self.cycles.values().all(|spans| spans.on.is_none()) {
                writeln!(f, "  (the image inlines the machine's `on`, which is part of step)")?;
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

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "min {}, median {}, p99 {}, max {}", self.min, self.median, self.p99, self.max)
    }
}

/// The four main counters, and those of the others that are not zero.
fn counters(counts: &SortedMap<&'static str, u64>) -> String {
    const ALWAYS: [&str; 4] = ["np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"];
    pairs(
        &counts
            .iter()
            .filter(|&(name, &count)| count > 0 || ALWAYS.contains(name))
            .map(|(&name, &count)| (name, count))
            .collect(),
    )
}

fn pairs<K: Display>(counts: &SortedMap<K, u64>) -> String {
    let words: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}

/// As [`pairs`]; `none` if there are no counts.
fn words<K: Display>(counts: &SortedMap<K, u64>) -> String {
    if counts.is_empty() { "none".to_owned() } else { pairs(counts) }
}

fn end(nic: Option<IpAddr>, qpn: Option<u32>) -> String {
    let nic = nic.map_or("any host".to_owned(), |nic| nic.to_string());
    let qpn = qpn.map_or("?".to_owned(), |qpn| format!("{qpn:#x}"));
    format!("{nic} QP {qpn}")
}

fn counted(f: &mut Formatter<'_>, count: u64, what: &str) -> fmt::Result {
    if count > 0 { writeln!(f, "  {count} {what}") } else { Ok(()) }
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn more(f: &mut Formatter<'_>, all: usize, shown: usize, what: &str) -> fmt::Result {
    if all > shown { writeln!(f, "  ... and {} more {what}", all - shown) } else { Ok(()) }
}
