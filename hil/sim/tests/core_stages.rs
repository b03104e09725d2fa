//! Stages of switches that run on cores: LSCC's chain, as the compiled image on a model of an Ibex.

use anyhow::Result;
use cc_core::wire::{RateMessage, Roce};
use cc_core::{Bytes, Link, Rate};
use hil_cores::board::Action;
use hil_devices::core_log;
use hil_devices::core_queue::Entry;
use hil_devices::native_switch::NativeSwitch;
use hil_sim::fabric::{
    Cores, Examples, Network, NodePort, Origin, Part, Quantity, QueueRule, Sample, Scenario, Totals,
};
use hil_sim::input::Input;
use hil_sim::ns3::write_fct;
use std::cell::RefCell;
use std::fs;
use std::path::Path;

/// The switch at the senders' end of the long link, and that at the receivers'.
const DCI: [u32; 2] = [6, 9];

fn scenario() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/cores-lscc.toml")).unwrap()
}

fn read(text: &str) -> Result<Input> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("scenario.toml");
    fs::write(&path, text)?;
    hil_sim::read(&path, None)
}

fn cores(name: &str) -> Cores {
    Cores { part: Part::Stages, keep_log: true, ..Cores::parse(name).unwrap() }
}

/// What a run came to.
struct Run {
    totals: Totals,
    series: Vec<Sample>,
    log: Vec<(u32, &'static str, Entry)>,
    /// The times in picoseconds at which switches sent CNPs, and these.
    cnps: Vec<(u64, Vec<u8>)>,
}

fn run(input: &Input, cores: &[Cores], shuffle: Option<u64>) -> Result<Run> {
    let (mut series, cnps) = (Vec::new(), RefCell::new(Vec::new()));
    let scenario = Scenario { cores, shuffle, ..input.scenario() };
    let examples = Examples::new(&scenario)?;
    let mut network = Network::new(&scenario, &examples)?;
    network.sample(1_000_000, |sample: &Sample| {
        series.push(*sample);
        Ok(())
    });
    network.tap(0, |now, origin, frame| {
        if origin == Origin::Switch {
            cnps.borrow_mut().push((now, frame.to_vec()));
        }
        Ok(())
    });
    while network.advance(1 << 20)? {}
    let log = network.take_core_log();
    let totals = network.finish()?;
    let cnps = cnps.into_inner();
    Ok(Run { totals, series, log, cnps })
}

/// All totals, the times of flows, every microsecond of the series, and the CNPs, bit by bit.
#[test]
fn an_infinitely_fast_core_decides_as_the_library() {
    let input = read(&scenario()).unwrap();
    let native = run(&input, &[], None).unwrap();
    let core = run(&input, &[cores("ibex@infinite")], None).unwrap();
    let events: Vec<u64> = core.totals.cores.iter().map(|(_, core)| core.events).collect();
    assert!(events.len() == 2 && events.iter().all(|&events| events > 5_000), "{events:?}");
    assert!(native.cnps.len() > 10, "{}", native.cnps.len());
    assert_eq!(native.cnps, core.cnps);
    assert_eq!(write_fct(&input, &native.totals.completions), write_fct(&input, &core.totals.completions));
    assert_eq!(native.totals, Totals { cores: Vec::new(), ..core.totals });
    assert_eq!(native.series, core.series);
}

/// The log in text is the log; replayed natively, each core's decisions are the same; with a bit of a rate changed they are not.
#[test]
fn the_log_of_each_core_replayed_natively_decides_the_same() {
    let input = read(&scenario()).unwrap();
    let Run { log, .. } = run(&input, &[cores("ibex@1GHz")], None).unwrap();
    let scenario = input.scenario();
    let link = Link {
        line_rate: Rate::from_bits_per_second(100_000_000_000),
        mtu: Bytes::new(1_058),
        base_rtt: input.base_rtt,
    };
    let replay = |log: &[(u32, &'static str, Entry)]| -> Result<u64> {
        let mut check = core_log::Check::default();
        for (node, part, entry) in log {
            let line = core_log::line(*node, part, entry);
            let (of, its_part, read) = core_log::parse(&line)?;
            assert_eq!((of, its_part.as_str(), &read), (*node, *part, entry));
            check.take(of, &its_part, &read, || {
                let other = if of == DCI[0] { DCI[1] } else { DCI[0] };
                let [at, to] = [of, other].map(|node| scenario.topology.nodes[node as usize]);
                let place = NodePort { at, to, bits_per_second: 100_000_000_000, node: of, neighbour: other };
                let stages = (scenario.stages)(place)?;
                let (names, settings): (Vec<_>, Vec<_>) = stages.into_iter().unzip();
                NativeSwitch::new(&names, &settings, &link)
            })?;
        }
        Ok(check.events())
    };
    assert_eq!(replay(&log).unwrap(), log.len() as u64);
    assert!(log.len() > 2_000, "{}", log.len());
    let mut other = log;
    let actions = other.iter_mut().flat_map(|(_, _, entry)| &mut entry.handled.actions);
    let frames = actions.filter_map(|(_, action)| if let Action::Frame(frame) = action { Some(frame) } else { None });
    *frames.last().unwrap().last_mut().unwrap() ^= 1;
    let error = replay(&other).unwrap_err().to_string();
    assert!(error.contains("the library sends"), "{error}");
}

/// A core handles events in the order of their arrival, each no earlier than it came and not before the one in front of it was
/// handled; its timer may interrupt the work on an event. A CNP leaves in the nanosecond of its store's cycle. So does a message, of which the other end gets as many.
#[test]
fn a_store_takes_effect_at_arrival_and_queueing_and_cycles() {
    let input = read(&scenario()).unwrap();
    for (name, mhz) in [("ibex@5GHz", 5_000), ("ibex@20GHz", 20_000)] {
        let Run { totals, log, cnps, .. } = run(&input, &[cores(name)], None).unwrap();
        let end = totals.completions.iter().map(|done| (done.start + done.time) / 1_000).max().unwrap();
        let (mut stored, mut waited) = (Vec::new(), 0);
        for node in DCI {
            let (mut free, mut last, mut messages) = ([0; 2], 0, 0);
            for (_, part, entry) in log.iter().filter(|(of, ..)| *of == node) {
                let Entry { began, handled, .. } = entry;
                let free = &mut free[usize::from(handled.descriptor.is_none())];
                assert!(*part == "stages" && *began >= *free, "{entry:?}");
                if let Some((descriptor, _)) = &handled.descriptor {
                    assert!(descriptor.now() >= last && began * 1_000 >= descriptor.now() * mhz, "{entry:?}");
                    last = descriptor.now();
                    waited += u64::from(*free > descriptor.now() * mhz / 1_000);
                }
                *free = handled.actions.last().unwrap().0;
                for (cycle, action) in &handled.actions {
                    let Action::Frame(frame) = action else { continue };
                    let time = (cycle * 1_000).div_ceil(mhz);
                    match (Roce::of(frame), RateMessage::parse(frame, frame.len())) {
                        (Some(_), _) if time <= end => stored.push((time * 1_000, frame.clone())),
                        (None, Ok(message)) => {
                            messages += u64::from(time <= end && message.port == 1 && message.priority == 3)
                        }
                        (Some(_), _) => {}
                        (None, Err(_)) => panic!("{frame:x?}"),
                    }
                }
            }
            let feedback = totals.feedback.iter().find(|feedback| feedback.node == node).unwrap();
            assert!(messages > 100 && feedback.messages_sent == messages, "{node}: {messages} {feedback:?}");
        }
        // A CNP of the network has zeros in the place of its ICRC.
        let without_icrc = |(time, frame): &(u64, Vec<u8>)| (*time, frame[..frame.len() - 4].to_vec());
        stored.sort();
        assert!(stored.len() > 5 && waited > 1_000, "{name}: {} {waited}", stored.len());
        let [stored, sent] = [&stored, &cnps].map(|all| all.iter().map(without_icrc).collect::<Vec<_>>());
        assert_eq!(stored, sent, "{name}");
    }
}

/// The queue has no more events than its bound, at any time; what finds it full is lost and counted; and a run is the same in any
/// order of adding events.
#[test]
fn the_queue_of_a_core_is_bounded() {
    let input = read(&scenario()).unwrap();
    let cores = [Cores { queue: QueueRule { bound: 16, joins: false }, ..cores("ibex@1GHz") }];
    let Run { totals, series, .. } = run(&input, &cores, None).unwrap();
    let waiting = series.iter().filter(|sample| sample.quantity == Quantity::CoreQueue);
    assert_eq!(waiting.map(|sample| sample.value).max(), Some(16));
    assert_eq!(totals.completions.len(), 2);
    for (node, core) in &totals.cores {
        assert!(core.longest == 16 && core.lost.at_queues > 1_000, "{node}: {core:?}");
        assert_eq!(core.lost.all(), core.lost.at_queues);
    }
    assert_eq!(totals, run(&input, &cores, Some(7)).unwrap().totals);
}

#[test]
fn what_a_core_cannot_do_is_said() {
    let error = |more: &str| {
        let text = scenario().replace("part = \"stages\"", &format!("part = \"stages\"\n{more}"));
        read(&text).and_then(|input| run(&input, &input.cores, None)).map(|_| ()).unwrap_err()
    };
    let text = format!("{:#}", error("policy = \"join\""));
    assert!(text.contains("events of a switch are not merged: expected the policy lose"), "{text}");
    let text = format!("{:#}", error("switches = [4]"));
    assert!(text.contains("switch 4 has no stages that can run on a core"), "{text}");
    let text = format!("{:#}", error("switches = [0]"));
    assert!(text.contains("`switches`: node 0 is a host, expected a switch"), "{text}");
    let swapped =
        scenario().replace("lscc_rate_calculation", "LATER").replace("lscc_rate_limiting", "lscc_rate_calculation");
    let input = read(&swapped.replace("LATER", "lscc_rate_limiting").replace("reference = \"100kB\"\n", ""));
    let text = format!("{:#}", input.and_then(|input| run(&input, &input.cores, None)).map(|_| ()).unwrap_err());
    assert!(text.contains("there is no image of lscc_rate_limiting and lscc_rate_calculation in this order"), "{text}");
}
