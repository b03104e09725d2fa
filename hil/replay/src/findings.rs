//! Findings: faults of the network, of the configuration of its hosts, or of the capture. Each says what was found, how often,
//! and what to do next. A healthy capture has none.

use super::flows::{Address, Flow, Slot};
use super::losses::Losses;
use super::replayer::{Outcome, PathCounts};
use hil_capture::Dropped;
use hil_sorted::SortedMap;
use std::fmt::Write as _;

/// Tolerance between the speed of an interface in the capture and `--line-rate`, in per cent of the latter.
const SAME_RATE: u64 = 2;
/// Marked data packets from which on "every packet is marked" is a finding; fewer may be chance.
const ALL_MARKED: u64 = 3;

/// The findings of a replay on ports of `line_rate` Gb/s. Those that put others in doubt come first. `is_blind`: the capture
/// has none of the signals that the algorithm uses.
pub(crate) fn of(outcome: &Outcome, rp: &SortedMap<&'static str, u64>, is_blind: bool, line_rate: u32) -> Vec<String> {
    let findings = [
        wrong_icrc(outcome),
        lost_by_capture(outcome),
        not_captured(outcome),
        pairs_of_others(outcome),
        untimed(outcome),
        out_of_order(outcome),
        clocks(outcome),
        copies(outcome),
        speeds(outcome, line_rate),
        too_fast(outcome, line_rate),
        refused(outcome),
        trimmed(outcome),
        losses(outcome),
        if is_blind { None } else { telemetry(rp) },
        reaction(outcome, is_blind),
        not_ect(outcome),
        all_marked(outcome),
    ];
    findings.into_iter().flatten().chain(pauses(outcome)).collect()
}

/// Notes: limits of what the capture can show, which need not be faults. A simulated receiver, for example, acknowledges in
/// zero time.
pub(crate) fn notes(outcome: &Outcome) -> Vec<String> {
    rtt_zero(outcome).into_iter().collect()
}

fn wrong_icrc(outcome: &Outcome) -> Option<String> {
    let frames = &outcome.frames;
    let (wrong, others) = (frames.icrc_invalid, frames.icrc_valid + frames.icrc_unchecked);
    let ignored = frames.dropped.get("icrc").copied().unwrap_or(0) == 0;
    (wrong > 0 && others == 0 && !ignored).then(|| {
        format!(
            "the ICRC is wrong in all {wrong} RoCE frames, so none was replayed: they were captured before the NIC \
             computed the ICRC, or a device changes the packets on the way; --icrc ignore replays them"
        )
    })
}

fn lost_by_capture(outcome: &Outcome) -> Option<String> {
    let dropped @ Dropped { interface, system, between } = outcome.survey.dropped;
    (dropped.total() > 0).then(|| {
        format!(
            "{} frames were dropped on their way into the file (interface {interface}, operating system {system}, \
             noted between packets {between}): a packet missing here may have been on the wire; capture with a larger \
             buffer (tcpdump -B) or a shorter snap length",
            dropped.total()
        )
    })
}

/// The losses of all flows, and negative acknowledgements that belong to no known flow.
fn total(outcome: &Outcome) -> Losses {
    outcome.flows.all().iter().fold(outcome.losses, |sum, flow| sum.plus(flow.sequence.losses()))
}

fn pairs_of_others(outcome: &Outcome) -> Option<String> {
    outcome.survey.pairs_are_of_others.then(|| {
        "none of the connections of --pairs is between hosts of the capture: check its addresses, and the line `address \
         ADDR` before the output of rdma"
            .to_owned()
    })
}

fn not_captured(outcome: &Outcome) -> Option<String> {
    let missing = total(outcome).not_captured;
    (missing > 0).then(|| {
        format!(
            "{missing} packets are missing that were acknowledged: the capture lost them, not the network; capture \
             with a larger buffer (tcpdump -B) or a shorter snap length"
        )
    })
}

fn untimed(outcome: &Outcome) -> Option<String> {
    let untimed = outcome.frames.untimed;
    (untimed > 0).then(|| {
        format!(
            "{untimed} packets have no time stamp (simple packet blocks of pcapng): rates over time, round-trip times \
             and intervals between CNPs mean nothing; capture with a program that writes enhanced packet blocks"
        )
    })
}

fn out_of_order(outcome: &Outcome) -> Option<String> {
    let (count, first) = outcome.survey.disorder;
    let first = first?;
    let side = if first.by < 0 { "behind" } else { "ahead of" };
    Some(format!(
        "{count} time stamps are out of order, the first in frame {}, {} s {side} those around it: such frames are \
         replayed at the time of the frame before them; check the clock of the capturing host",
        first.frame,
        seconds(first.by.unsigned_abs()),
    ))
}

fn clocks(outcome: &Outcome) -> Option<String> {
    let offset = outcome.survey.offsets.values().copied().max_by_key(|offset| offset.unsigned_abs())?;
    Some(format!(
        "the clocks of the interfaces or directions disagree by {} s: their frames are replayed in the order of the \
         file, and no round-trip times are measured; let one clock stamp both (ethtool -T, tcpdump -j)",
        seconds(offset.unsigned_abs())
    ))
}

fn copies(outcome: &Outcome) -> Option<String> {
    let copies = outcome.survey.copies.count();
    (copies > 0).then(|| {
        format!(
            "{copies} frames are copies of others, from a mirror port or from taps on both sides of a switch, and are \
             left out; --dedup=off replays them"
        )
    })
}

fn speeds(outcome: &Outcome, line_rate_gbps: u32) -> Option<String> {
    let line_rate = u64::from(line_rate_gbps) * 1_000_000_000;
    let differs = |speed: u64| speed.abs_diff(line_rate) * 100 > line_rate * SAME_RATE;
    let (&interface, &speed) = outcome.survey.speeds.iter().find(|&(_, &speed)| differs(speed))?;
    Some(format!(
        "interface {interface} of the capture has {} Gb/s, the replay assumes {}: only the durations of pauses use the \
         interface's speed; give --line-rate {}",
        gbps(speed),
        line_rate_gbps,
        gbps(speed)
    ))
}

fn too_fast(outcome: &Outcome, line_rate_gbps: u32) -> Option<String> {
    let &(nic, rate) = outcome.too_fast.iter().max_by_key(|&&(_, rate)| rate)?;
    Some(format!(
        "{} sends {} Gb/s, more than its line rate of {} Gb/s: give the port's speed with --line-rate; if it is right, \
         the time stamps are in another unit than the file says",
        name(outcome, nic),
        gbps(rate),
        line_rate_gbps
    ))
}

/// RoCE packets that a receiver discards, by reason.
fn refused(outcome: &Outcome) -> Option<String> {
    let dropped = &outcome.frames.dropped;
    let reasons = [
        ("ip_checksum", "wrong IPv4 header checksum"),
        ("source_address", "source address that no host can have"),
        ("cnp_source", "CNPs from another address than the flow goes to"),
        ("ack_source", "acknowledgements from another address than the flow goes to"),
        ("tunnel_marked_not_ect", "Not-ECT in a marked tunnel"),
    ];
    let found: Vec<_> =
        reasons.iter().filter_map(|(key, what)| dropped.get(key).map(|count| format!("{what} {count}"))).collect();
    (!found.is_empty()).then(|| {
        format!(
            "RoCE packets that a receiver drops: {}; find the host that sends them, or the device that changes them on \
             the way",
            found.join(", ")
        )
    })
}

fn trimmed(outcome: &Outcome) -> Option<String> {
    let trimmed = outcome.frames.trimmed;
    (trimmed > 0).then(|| {
        format!(
            "{trimmed} packets were trimmed to their headers: the buffers of a switch were full, and the payload is \
             lost; check its marking thresholds"
        )
    })
}

fn losses(outcome: &Outcome) -> Option<String> {
    let all = total(outcome);
    if all.naks() == 0 && all.retransmitted == 0 {
        return None;
    }
    let kinds = [
        (all.nak_sequence, "PSN out of sequence"),
        (all.rnr_nak, "receiver not ready"),
        (all.nak_invalid, "invalid request"),
        (all.nak_access, "access not allowed"),
        (all.nak_operational, "failure at the responder"),
        (all.nak_other, "others"),
    ];
    // Without a negative acknowledgement, a packet that fills a gap need not have been lost.
    let is_late = all.naks() == 0 && all.lost_before == all.retransmitted;
    let what = if is_late { "come after later ones, and fill the gaps there" } else { "were sent again" };
    let mut text = format!("{} packets {what}", all.retransmitted);
    let kinds: Vec<_> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{kind} {count}")).collect();
    let advice = match (all.nak_sequence, all.rnr_nak, all.naks()) {
        _ if is_late => {
            "no negative acknowledgement: their order changed, in the network (multipath routing) or in the capture \
             (several receive queues: reordercap sorts it), or else acknowledgements get lost and a sender's timer ran out"
        }
        (_, _, 0) => "no negative acknowledgement: a sender's timer ran out; check whether acknowledgements get lost",
        (0, 1.., _) => "the receiver had no buffer posted; check its application",
        (1.., ..) => {
            "packets are lost: check whether PFC is on for their priority, and the drop counters of the switches"
        }
        _ => "check the application at the responder",
    };
    if !kinds.is_empty() {
        let _ = write!(text, ", negative acknowledgements: {}", kinds.join(", "));
    }
    Some(format!("{text}: {advice}"))
}

/// Telemetry that could not be measured.
fn telemetry(rp: &SortedMap<&'static str, u64>) -> Option<String> {
    let reasons = [
        ("rp_int_missing", "no telemetry", "find the switches that write none, or the device that removes it"),
        ("rp_int_overflowed", "more hops than the packets had room for", "give the packets more room for telemetry"),
        ("rp_int_too_many_hops", "more hops than the algorithm keeps", "check the length of the path"),
        (
            "rp_int_path_changed",
            "another path than the packet before",
            "check multipath routing: one flow must keep its path",
        ),
        ("rp_int_clock", "a switch's clock that runs backwards or too fast", "check the clocks of the switches"),
        ("rp_int_link_down", "a link of speed 0", "check the ports of the switches"),
        (
            "rp_int_bytes",
            "more bytes than a link carries",
            "check the speeds that the switches write, and the setting int_multi",
        ),
    ];
    let found = || reasons.iter().filter_map(|&(name, what, advice)| Some((*rp.get(name)?, what, advice)));
    let worst = found().max_by_key(|&(count, ..)| count).filter(|&(count, ..)| count > 0)?;
    let list: Vec<_> =
        found().filter(|&(count, ..)| count > 0).map(|(count, what, _)| format!("{what} {count}")).collect();
    Some(format!(
        "telemetry (INT) of acknowledgements could not be measured: {}; flows without any for no_int_rtts round trips halve \
         their rate; {}",
        list.join(", "),
        worst.2
    ))
}

/// Marked flows of which none was slowed down. Only flows whose sender is replayed count.
fn reaction(outcome: &Outcome, is_blind: bool) -> Option<String> {
    let marked: Vec<&Flow> =
        outcome.flows.all().iter().filter(|flow| flow.marked > 0 && matches!(flow.slot, Slot::Open { .. })).collect();
    let packets: u64 = marked.iter().map(|flow| flow.marked).sum();
    if marked.is_empty() || marked.iter().any(|flow| flow.slowed) {
        return None;
    }
    let what = format!("CE in {packets} packets of {} flows", marked.len());
    let back = |flow: &Flow| {
        let paths = flow.target.and_then(|target| outcome.paths.get(&(target, flow.source)));
        paths.copied().unwrap_or_default()
    };
    let one_way = marked.iter().filter(|flow| flow.target.is_some() && back(flow).packets == 0);
    if let Some(target) = one_way.filter_map(|flow| flow.target).next() {
        return Some(format!(
            "{what}, and it cannot be known whether their senders react: no packet from {} is in the capture, which \
             shows only one direction; capture both",
            name(outcome, target)
        ));
    }
    let unbound = marked.iter().filter(|flow| flow.local.is_none());
    let unknown = unbound.map(|flow| back(flow)).find(|paths: &PathCounts| paths.cnps_unknown > 0);
    if unknown.is_some() {
        let cnps: u64 = outcome.paths.values().map(|paths| paths.cnps_unknown).sum();
        return Some(format!(
            "{what}, and it cannot be known whether their senders react: {cnps} CNPs go to queue pairs whose flow the \
             capture does not show; give the pairs with --pairs (rdma resource show qp)"
        ));
    }
    if outcome.survey.dropped.total() > 0 || total(outcome).not_captured > 0 {
        return Some(format!(
            "{what}, and it cannot be known whether their senders react: the capture is not complete, see above"
        ));
    }
    let advice = if is_blind {
        "check whether the notification point is on at the receiver, and the reaction point at the sender"
    } else {
        "check whether the reaction point is on for their priority"
    };
    Some(format!("{what}, and no reaction: no flow was slowed down; {advice}"))
}

fn not_ect(outcome: &Outcome) -> Option<String> {
    let flows =
        outcome.flows.all().iter().filter(|flow| flow.notified > 0 && flow.ecn[1..].iter().all(|&count| count == 0));
    let (mut packets, mut cnps) =
        flows.fold((0, 0), |(packets, cnps), flow| (packets + flow.ecn[0], cnps + flow.notified));
    let data = outcome.marking.data;
    let captured: u64 = outcome.paths.values().map(|paths| paths.cnps).sum();
    if packets == 0 && data[0] > 0 && data[1..].iter().all(|&count| count == 0) {
        (packets, cnps) = (data[0], captured);
    }
    (packets > 0 && cnps > 0).then(|| {
        format!(
            "{packets} data packets are Not-ECT, which no switch marks, and yet {cnps} CNPs came for their flows: a \
             device clears the ECN field on the way, or the notification point counts packets without a mark; check \
             the ECN setting of the senders"
        )
    })
}

fn all_marked(outcome: &Outcome) -> Option<String> {
    let (data, other) = (outcome.marking.data, outcome.marking.other);
    let of = |counts: [u64; 4]| counts.iter().sum::<u64>();
    let (all, marked) = (of(data) + of(other), data[3] + other[3]);
    (marked == all && data[3] >= ALL_MARKED && other[3] > 0).then(|| {
        format!(
            "CE in all {all} RoCE packets, {} of data, acknowledgements and CNPs too: a device marks every packet; \
             check the marking thresholds of the switches, and look for DSCP settings that write the whole TOS byte",
            data[3]
        )
    })
}

fn rtt_zero(outcome: &Outcome) -> Option<String> {
    let (zero, all) = (outcome.rtt_zero, outcome.rtt.count());
    (zero > 0 && outcome.frames.untimed == 0).then(|| {
        format!(
            "{zero} of {all} round-trip times are zero, because acknowledgements have the time stamp of the packets \
             that they acknowledge: the clock is too coarse, or packets are stamped in bursts; capture with hardware \
             time stamps (tcpdump -j adapter_unsynced)"
        )
    })
}

fn pauses(outcome: &Outcome) -> Vec<String> {
    let mut findings = Vec::new();
    if outcome.frames.pfc_unicast > 0 {
        findings.push(format!(
            "{} PFC frames go to a unicast address and have no effect: IEEE 802.1Q requires the destination \
             01-80-C2-00-00-01; find the device that sends them",
            outcome.frames.pfc_unicast
        ));
    }
    for paused in &outcome.pauses {
        let nic = name(outcome, paused.nic);
        if paused.ignored > 0 {
            findings.push(format!(
                "{nic} sent {} packets of priority {} while that was paused (PFC): it ignores pauses; check whether \
                 PFC is on for this priority, and its DSCP or VLAN mapping",
                paused.ignored, paused.priority
            ));
        }
        let of_nic = || outcome.pauses.iter().filter(|other| other.nic == paused.nic && other.data > 0);
        let link = (0..8)
            .all(|priority| outcome.pauses.iter().any(|other| other.nic == paused.nic && other.priority == priority));
        if paused.time > 0 && paused.data == 0 && !link && of_nic().next().is_none() && sends(outcome, paused.nic) {
            findings.push(format!(
                "PFC pauses priority {} of {nic}, but its RoCE data has another priority: PFC does not protect that \
                 one, or NIC and switch map priorities differently; compare the DSCP and VLAN mapping of both",
                paused.priority
            ));
        }
    }
    for (&(nic, priority), requests) in outcome.pauses_sent.iter().filter(|(_, requests)| requests.is_certain) {
        findings.push(format!(
            "{} paused its switch by {} PFC frames of priority {priority} for {:.1} us: it cannot keep up with \
             what it receives; check its PCIe, memory and receive buffers",
            name(outcome, nic),
            requests.frames,
            requests.time as f64 / 1e3
        ));
    }
    findings
}

/// Whether a NIC sends data.
fn sends(outcome: &Outcome, nic: Address) -> bool {
    outcome.flows.all().iter().any(|flow| flow.source == nic)
}

/// A host's address, and its VLAN where several hosts have the address.
fn name(outcome: &Outcome, number: Address) -> String {
    let at = usize::from(number);
    let address = outcome.addresses.get(at).map_or_else(|| "?".to_owned(), ToString::to_string);
    match outcome.networks.get(at) {
        None | Some(0) => address,
        Some(network) => format!("{address} (VLAN {})", network & 0xfff),
    }
}

fn seconds(nanos: u128) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn gbps(rate: u64) -> String {
    let text = format!("{:.2}", rate as f64 / 1e9);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
