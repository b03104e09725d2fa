//! Every algorithm, and a single frame of each kind lost or doubled: every flow ends soon. The table is printed with
//! `cargo test -p hil-sim --test fault_matrix -- --nocapture`.

use cc_core::{IntLayout, Nanos};
use cc_cp::QueueStage;
use cc_cp::red::{Red, RedSettings};
use cc_rp::Signals;
use hil_algorithms::{algorithm, registry};
use hil_sim::Picos;
use hil_sim::fabric::{
    Action, Buffer, DATA_CLASS, Fault, FlowSpec, FlowTuple, FrameSet, Kind, Limits, Link, Nth, Recovery, Scenario,
    Threshold, Topology, Totals, Transport,
};
use hil_sim::marking::stress_scenario;
use std::fmt::Write;
use std::path::Path;
use std::slice::from_ref;

/// The retransmission timeout.
const TIMEOUT: Picos = 1_000_000_000;
/// Hosts that send 100 packets each to one more host.
const SENDERS: u32 = 4;

/// The frames that are lost or doubled, of each flow one; of PFC frames one in all.
const FRAMES: [(&str, FrameSet, Nth); 8] = [
    ("first packet", FrameSet::DATA, Nth::Number(1)),
    ("last packet", FrameSet::DATA, Nth::Last),
    ("last ACK", FrameSet::ACK, Nth::Last),
    ("CNP", FrameSet::CNP, Nth::Number(1)),
    ("PFC frame", FrameSet::PFC, Nth::Number(1)),
    ("grant", FrameSet::GRANT, Nth::Number(1)),
    ("telemetry", FrameSet::TELEMETRY, Nth::Number(1)),
    ("READ request", FrameSet::READ_REQUEST, Nth::Number(1)),
];

/// What flows are, and how hosts recover from losses.
#[derive(Clone, Copy, Debug)]
enum Flows {
    Sends(Recovery),
    Reads,
}

/// A run of an algorithm with the switches and pauses that produce its signals, see [`stress_scenario`], and with PFC.
fn run(name: &str, kind: Flows, faults: &[Fault], shuffle: Option<u64>) -> Totals {
    let (recovery, reads) = match kind {
        Flows::Sends(recovery) => (recovery, &[][..]),
        Flows::Reads => (Recovery::GoBackN, &[0, 1, 2, 3][..]),
    };
    let algorithm = algorithm(name).unwrap();
    let [(_, rp), (_, np)] = algorithm.presets(None).unwrap();
    let red = RedSettings { kmin: 5_000, kmax: 50_000, pmax: 1_000_000, ..Red::PRESETS[0].values };
    let (pauses, switches) = stress_scenario(algorithm.signals(), red);
    let first = SENDERS + 1;
    let last = SENDERS + switches.len() as u32;
    let mut ends: Vec<[u32; 2]> = (0..SENDERS).map(|host| [host, first]).collect();
    ends.extend((first..last).map(|switch| [switch, switch + 1]));
    ends.push([SENDERS, last]);
    let link = |ends| Link { ends, bits_per_second: 100_000_000_000, delay: 1_000_000, loss: 0 };
    let mut nodes = vec![Kind::Host; first as usize];
    nodes.resize(last as usize + 1, Kind::Switch);
    let topology = Topology { nodes, links: ends.into_iter().map(link).collect(), ..Topology::default() };
    let flows: Vec<FlowSpec> = (0..SENDERS)
        .map(|source| {
            let tuple = FlowTuple { source, destination: SENDERS, ports: 0 };
            FlowSpec { source, destination: SENDERS, bytes: 100_000, start: 0, class: DATA_CLASS, tuple }
        })
        .collect();
    let limits = Limits { threshold: Threshold::Static(20_000), ..Limits::default() };
    let scenario = Scenario {
        stages: Box::new(|port| Ok(switches[(port.node - first) as usize].clone())),
        buffer: Some(Buffer { lossless: 1 << DATA_CLASS, pause: Nanos::new(50_000), limits, ..Buffer::default() }),
        pauses: pauses.map(|pauses| (SENDERS, pauses)),
        int_layout: IntLayout::Wide,
        transport: Transport { recovery, timeout: TIMEOUT, ..Transport::default() },
        faults,
        shuffle,
        reads,
        ..Scenario::new(&topology, &flows, &*algorithm, [&rp, &np], Nanos::new(5_000 * (last - first + 1)))
    };
    scenario.run().unwrap()
}

/// When the last flow ends, in timeouts.
fn end(totals: &Totals) -> f64 {
    totals.completions.iter().map(|done| done.time).max().unwrap_or(Picos::MAX) as f64 / TIMEOUT as f64
}

/// Whether flows of an algorithm have frames of a kind, by the signals to which it reacts.
fn has(signals: Signals, kind: Flows, frames: FrameSet) -> bool {
    let are_reads = matches!(kind, Flows::Reads);
    match frames {
        FrameSet::ACK => !are_reads,
        FrameSet::READ_REQUEST => are_reads,
        FrameSet::CNP => signals.contains(Signals::CNP) || signals.contains(Signals::SWITCH_INT),
        FrameSet::GRANT => signals.contains(Signals::GRANT) || signals.contains(Signals::ADVISED_RATE),
        FrameSet::TELEMETRY => signals.contains(Signals::INT) || signals.contains(Signals::SWITCH_INT),
        _ => true,
    }
}

#[test]
fn every_flow_ends_within_three_timeouts_if_a_frame_is_lost_or_doubled() {
    let mut table = format!("{:<39}{:>10}", "", "no fault");
    FRAMES.iter().for_each(|(what, ..)| write!(table, "{what:>16}").unwrap());
    let mut late = String::new();
    for name in registry::names() {
        let signals = algorithm(name).unwrap().signals();
        let sends = [Recovery::GoBackN, Recovery::SelectiveRepeat].map(Flows::Sends);
        // READs need an algorithm that does not react to acknowledgements.
        let reads = Signals::CNP.with(Signals::UNDETERMINED).contains(signals).then_some(Flows::Reads);
        for kind in sends.into_iter().chain(reads) {
            let undisturbed = run(name, kind, &[], None);
            write!(table, "\n{name:<15}{:<24}{:>10.3}", format!("{kind:?}"), end(&undisturbed)).unwrap();
            for (what, frames, nth) in FRAMES {
                let cells = [Action::Loss, Action::Duplication].map(|action| {
                    let fault = Fault { frames, nth: Some(nth), ..Fault::of(action) };
                    let totals = run(name, kind, from_ref(&fault), None);
                    let affected = totals.faults[0].1;
                    if (affected > 0) != has(signals, kind, frames) {
                        writeln!(late, "{name}, {kind:?}: {affected} frames of kind {what}").unwrap();
                    }
                    if totals.completions.len() != SENDERS as usize || end(&totals) > 3.0 {
                        writeln!(late, "{name}, {kind:?}, {what}, {}: {totals:?}", action.name()).unwrap();
                    }
                    assert!(
                        run(name, kind, from_ref(&fault), Some(1)) == totals,
                        "{name}, {what}: another order of events"
                    );
                    if affected == 0 { "-".to_owned() } else { format!("{:.3}", end(&totals)) }
                });
                write!(table, "{:>16}", cells.join(" / ")).unwrap();
            }
        }
    }
    println!(
        "\ntime of the last flow in retransmission timeouts, frame lost / doubled; -: not sent by this algorithm\n{table}"
    );
    assert!(late.is_empty(), "{late}");
}

/// The first and the hundredth message between the switches at the ends of a long link: a rate of LSCC, a relayed pause of Swing. If it
/// is lost or doubled, all flows end within three timeouts of when they do otherwise.
#[test]
fn flows_between_datacentres_end_if_a_message_of_switches_is_lost_or_doubled() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for name in ["lscc.toml", "swing.toml"] {
        let input = hil_sim::read(&scenarios.join(name), None).unwrap();
        let run = |faults: &[Fault]| Scenario { faults, ..input.scenario() }.run().unwrap();
        let undisturbed = run(&[]);
        for (action, nth) in
            [Action::Loss, Action::Duplication].into_iter().flat_map(|action| [(action, 1), (action, 100)])
        {
            let fault = Fault { frames: FrameSet::MESSAGE, nth: Some(Nth::Number(nth)), ..Fault::of(action) };
            let totals = run(&[fault]);
            assert_eq!((totals.faults[0].1, totals.completions.len()), (1, input.flows.len()), "{name}, {nth}");
            let late = totals.end.saturating_sub(undisturbed.end);
            println!("{name}, message {nth}, {}: {} us later", action.name(), late / 1_000_000);
            assert!(late <= 3 * input.transport.timeout, "{name}, {nth}: {late} ps");
        }
    }
}
