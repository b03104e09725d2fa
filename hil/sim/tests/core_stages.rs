//! Stages of switches that run on cores, as the compiled image on a model of an Ibex.

use anyhow::Result;
use cc_core::wire::{RateMessage, Roce};
use cc_core::{Bytes, Link, Rate};
use cc_cp::{Kind, Queue, queues};
use hil_algorithms::stage;
use hil_cores::board::Action;
use hil_devices::core_log;
use hil_devices::core_queue::Entry;
use hil_devices::native_switch::NativeSwitch;
use hil_sim::fabric::{
    Cores, Examples, Network, NodePort, Origin, Part, Quantity, QueueRule, Sample, Scenario, Totals,
};
use hil_sim::input::Input;
use hil_sim::ns3::write_fct;
use programs::switch_ring::SwitchEvent;
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

/// At the two switches that have LSCC's stages.
fn cores_of_lscc(name: &str) -> Cores {
    Cores { nodes: DCI.to_vec(), ..cores(name) }
}

/// What a run came to.
struct Run {
    totals: Totals,
    series: Vec<Sample>,
    log: Vec<(u32, &'static str, Entry)>,
    /// The times in picoseconds at which switches sent CNPs, and these.
    cnps: Vec<(u64, Vec<u8>)>,
    /// The times in picoseconds at which data packets began to leave by the last port of the switch that comes last.
    departures: Vec<u64>,
}

fn run(input: &Input, cores: &[Cores], shuffle: Option<u64>) -> Result<Run> {
    let (mut series, cnps, departures) = (Vec::new(), RefCell::new(Vec::new()), RefCell::new(Vec::new()));
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
    let links = |node| input.topology.links.iter().filter(|link| link.ends.contains(&node)).count() as u32;
    let last = (0..input.topology.nodes.len() as u32).rfind(|&node| links(node) > 1).unwrap();
    network.tap_port(last, links(last), |now, origin, frame| {
        if origin == Origin::Sent && Roce::of(frame).is_some_and(|roce| roce.info.class().carries_data()) {
            departures.borrow_mut().push(now);
        }
        Ok(())
    })?;
    while network.advance(1 << 20)? {}
    let log = network.take_core_log();
    let totals = network.finish()?;
    let (cnps, departures) = (cnps.into_inner(), departures.into_inner());
    Ok(Run { totals, series, log, cnps, departures })
}

/// Two datacentres with a leaf and a spine each, of two hosts, and a long link of 50 us.
fn two_dc(algorithm: &str, stages: &[&str]) -> String {
    let stages: String = stages.iter().map(|stage| format!("[[stages]]\nname = {stage}\n\n")).collect();
    format!(
        "duration = \"2ms\"\n\n[topology]\nkind = \"two-dc\"\nleaves = 1\nspines = 1\nhosts = 2\nrate = \"25Gb/s\"\ndelay = \"1us\"\n\
         trunk_rate = \"100Gb/s\"\n\n[[topology.long_links]]\nrate = \"100Gb/s\"\ndelay = \"50us\"\n\n[algorithm]\n{algorithm}\n\n\
         {stages}[buffer]\nthreshold = \"300kB\"\nresume_offset = \"200kB\"\n\n[[buffers]]\nat = \"dci\"\npool = \"64MB\"\n\n\
         [[workload]]\nkind = \"pairs\"\npairs = [[0, 2], [1, 2]]\nbytes = \"500kB\"\n"
    )
}

/// Hosts that all send to the last one over one switch, without a limit of its buffer.
fn star(hosts: u32, algorithm: &str, stages: &[&str]) -> String {
    let stages: String = stages.iter().map(|stage| format!("[[stages]]\nname = {stage}\n\n")).collect();
    format!(
        "duration = \"2ms\"\n\n[topology]\nkind = \"star\"\nhosts = {hosts}\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\n[algorithm]\n\
         {algorithm}\n\n{stages}[[workload]]\nkind = \"incast\"\nreceiver = {}\nbytes = \"200kB\"\n",
        hosts - 1
    )
}

/// The names of stages, and a scenario in which they make a difference.
fn cases() -> Vec<(&'static str, String)> {
    let int = [
        r#""int"
at = "leaf""#,
        r#""int"
at = "spine""#,
        r#""int"
at = "dci"
to = "spine""#,
    ];
    let long_link = |stage: &str| format!("{stage}\nat = \"dci\"\nto = \"dci\"");
    let with_int = |algorithm: &str, stages: &[String]| {
        let stages = int.into_iter().chain(stages.iter().map(String::as_str));
        two_dc(algorithm, &stages.collect::<Vec<_>>())
    };
    let lscc = "name = \"dcqcn\"\npreset = \"paper\"";
    let calculation = long_link(
        "\"lscc_rate_calculation\"\nperiod = \"20us\"\ndelay = \"50us\"\nreference = \"100kB\"\nslew = \"100Mb/s\"",
    );
    let limiting = calculation.replace("calculation", "limiting");
    let direct = long_link("\"lscc_direct_int\"");
    let mlcc = "name = \"mlcc\"\n\"rp.local_rtt\" = \"24us\"\n\"np.local_rtt\" = \"24us\"\nfar_rtt = \"100us\"\ntheta = \"1ms\"";
    let swing = two_dc("name = \"pfc\"", &["\"swing\"\nat = \"relay\"\nto = \"relay\"\ndelay = \"50us\""])
        .replace("hosts = 2", "hosts = 2\nrelays = true");
    vec![
        ("red", star(6, "name = \"dcqcn\"", &["\"red\""])),
        ("tcd", two_dc("name = \"dcqcn_tcd\"", &["\"tcd\""])),
        ("int", star(5, "name = \"hpcc\"", &["\"int\""])),
        ("mmu", star(4, "name = \"pfc\"", &["\"mmu\"\npreset = \"lscc\""]).replace("200kB", "1MB")),
        ("lscc_rate_calculation", two_dc(lscc, &[&calculation])),
        (
            "lscc_rate_limiting",
            two_dc(lscc, &["\"red\"\nat = \"leaf\"\nkmin = \"1kB\"\nkmax = \"2kB\"\npmax = \"100%\"", &limiting]),
        ),
        ("lscc_direct_int", with_int("name = \"hpcc_star\"", std::slice::from_ref(&direct))),
        ("mlcc_near_source", with_int(mlcc, &[long_link("\"mlcc_near_source\"\npreset = \"spaced\"")])),
        (
            "mlcc_per_flow_queues",
            with_int(mlcc, &["\"mlcc_per_flow_queues\"\nat = \"dci\"\nto = \"spine\"".to_owned()]),
        ),
        ("swing", swing),
        ("red int", star(6, "name = \"hpcc\"", &["\"red\"", "\"int\""])),
        (
            "tcd mmu int",
            star(4, "name = \"pfc\"", &["\"int\"", "\"mmu\"\npreset = \"lscc\"", "\"tcd\""]).replace("200kB", "1MB"),
        ),
        ("lscc_rate_calculation lscc_direct_int", with_int("name = \"hpcc_star\"", &[calculation, direct])),
    ]
}

/// All totals, the times of flows, every microsecond of the series, and the CNPs, bit by bit, for every stage and for chains.
#[test]
fn an_infinitely_fast_core_decides_as_the_library() {
    let mut all = cases();
    // A stage without a case of its own is in a star.
    for &stage in cc_cp::registry::NAMES {
        if all.iter().all(|&(name, _)| name != stage) {
            all.push((stage, star(6, "name = \"dcqcn\"", &[&format!("\"{stage}\"")])));
        }
    }
    for (name, text) in all.into_iter().chain([("lscc_rate_calculation lscc_rate_limiting", scenario())]) {
        let input = read(&text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let native = run(&input, &[], None).unwrap();
        let core = run(&input, &[cores("ibex@infinite")], None).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let events: u64 = core.totals.cores.iter().map(|(_, core)| core.events).sum();
        assert!(events > 500, "{name}: {events}");
        assert_eq!(native.cnps, core.cnps, "{name}");
        assert_eq!(
            write_fct(&input, &native.totals.completions),
            write_fct(&input, &core.totals.completions),
            "{name}"
        );
        assert_eq!(native.totals, Totals { cores: Vec::new(), ..core.totals }, "{name}");
        assert_eq!(native.series, core.series, "{name}");
        let scenario = input.scenario();
        let others = |place| {
            let all = (scenario.stages)(place)?.into_iter();
            Ok(all.filter(|(stage, _)| !name.split(' ').any(|own| own == *stage)).collect())
        };
        let without = Scenario { stages: Box::new(others), cores: &[], ..input.scenario() }.run().unwrap();
        assert_ne!(native.totals, without, "{name}: they make no difference");
    }
}

/// Decides natively again what the cores of a log have decided, which is written as text and read again before. `native` makes the
/// switch of the core with this number at a node. Returns the number of events.
fn replay(log: &[(u32, &'static str, Entry)], native: impl Fn(u32, usize) -> Result<NativeSwitch>) -> Result<u64> {
    let mut check = core_log::Check::default();
    for (node, part, entry) in log {
        let line = core_log::line(*node, part, entry);
        let (of, its_part, read) = core_log::parse(&line)?;
        assert_eq!((of, its_part.as_str(), &read), (*node, *part, entry));
        check.take(of, &its_part, &read, || native(of, read.core))?;
    }
    Ok(check.events())
}

/// A link at 100 Gb/s of a scenario.
fn link(input: &Input, mtu: u32) -> Link {
    let line_rate = Rate::from_bits_per_second(100_000_000_000);
    Link { line_rate, mtu: Bytes::new(mtu), base_rtt: input.base_rtt }
}

/// The log in text is the log; replayed natively, each core's decisions are the same; with a bit of a rate changed they are not.
#[test]
fn the_log_of_each_core_replayed_natively_decides_the_same() {
    let input = read(&scenario()).unwrap();
    let Run { log, .. } = run(&input, &[cores_of_lscc("ibex@1GHz")], None).unwrap();
    let scenario = input.scenario();
    let native = |of: u32, _| {
        let other = if of == DCI[0] { DCI[1] } else { DCI[0] };
        let [at, to] = [of, other].map(|node| scenario.topology.nodes[node as usize]);
        let place = NodePort { at, to, bits_per_second: 100_000_000_000, node: of, neighbour: other };
        let (names, settings): (Vec<_>, Vec<_>) = (scenario.stages)(place)?.into_iter().unzip();
        NativeSwitch::new(&names, &settings, &link(&input, 1_058), 1)
    };
    assert_eq!(replay(&log, native).unwrap(), log.len() as u64);
    assert!(log.len() > 2_000, "{}", log.len());
    let mut other = log;
    let actions = other.iter_mut().flat_map(|(_, _, entry)| &mut entry.handled.actions);
    let frames = actions.filter_map(|(_, action)| if let Action::Frame(frame) = action { Some(frame) } else { None });
    *frames.last().unwrap().last_mut().unwrap() ^= 1;
    let error = replay(&other, native).unwrap_err().to_string();
    assert!(error.contains("the library sends"), "{error}");
}

/// All data leaves by port 6, whose core is the second of the switch and draws the random numbers of that port.
#[test]
fn the_log_of_a_chain_replayed_natively_decides_the_same() {
    let input = read(&star(6, "name = \"hpcc\"", &["\"red\"", "\"int\""])).unwrap();
    let Run { log, .. } = run(&input, &[cores("ibex@2GHz")], None).unwrap();
    let stages = [("red", None), ("int", None)].map(|(name, preset)| stage(name, preset).unwrap());
    let (names, settings): (Vec<_>, Vec<_>) =
        stages.map(|(name, settings)| (name, settings.words().to_vec())).into_iter().unzip();
    let native = |node: u32, core: usize| {
        let seed = queues::seed_of(input.scenario().seed ^ u64::from(node) << 32, core * 32);
        NativeSwitch::new(&names, &settings, &link(&input, 1_100), seed)
    };
    assert_eq!(replay(&log, native).unwrap(), log.len() as u64);
    assert!(log.iter().all(|(.., entry)| entry.core == 1) && log.len() == 1_000, "{}", log.len());
    let other_seed = |_, _| NativeSwitch::new(&names, &settings, &link(&input, 1_100), 1);
    assert!(replay(&log, other_seed).unwrap_err().to_string().contains("core 1: "));
}

/// A core handles events in the order of their arrival, each no earlier than it came and not before the one in front of it was
/// handled; its timer may interrupt the work on an event. A CNP leaves in the nanosecond of its store's cycle. So does a message, of which the other end gets as many.
#[test]
fn a_store_takes_effect_at_arrival_and_queueing_and_cycles() {
    let input = read(&scenario()).unwrap();
    for (name, mhz) in [("ibex@5GHz", 5_000), ("ibex@20GHz", 20_000)] {
        let Run { totals, log, cnps, .. } = run(&input, &[cores_of_lscc(name)], None).unwrap();
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

/// A port sends a packet in the nanosecond of the cycle in which the core stores its verdict or, if it passes unchanged, the record of
/// its event; the next packet's event comes when the port is free again. So the port sends as fast as the core decides, and no
/// departure is lost, whatever the bound.
#[test]
fn a_packet_leaves_when_the_core_has_stored_its_verdict() {
    let input = read(&star(6, "name = \"hpcc\"", &["\"red\"", "\"int\""])).unwrap();
    let red = read(&star(6, "name = \"dcqcn\"", &["\"red\""])).unwrap();
    for (input, name, mhz) in [(&input, "ibex@200MHz", 200), (&input, "ibex@3GHz", 3_000), (&red, "ibex@400MHz", 400)] {
        let cores = [Cores { queue: QueueRule { bound: 1, joins: false }, ..cores(name) }];
        let Run { totals, log, departures, .. } = run(input, &cores, None).unwrap();
        let (mut decided, mut passed, mut free) = (Vec::new(), 0, 0);
        for (_, _, Entry { core, began, handled }) in &log {
            let (Some((descriptor, _)), 1) = (&handled.descriptor, core) else { continue };
            let Some((Queue { port: 1, .. }, SwitchEvent::Departure { .. })) = SwitchEvent::of(descriptor) else {
                continue;
            };
            let time = |cycle: u64| (cycle * 1_000).div_ceil(mhz) * 1_000;
            let verdict = handled.actions.iter().find(|(_, action)| matches!(action, Action::Stage(_)));
            let (cycle, _) = verdict.unwrap_or(handled.actions.last().unwrap());
            assert!(*began * 1_000 >= descriptor.now() * mhz && descriptor.now() * 1_000 >= free);
            passed += u64::from(verdict.is_none());
            decided.push(time(*cycle));
            // 83 ns: a packet of at least 1,058 bytes and 20 of preamble and gap at 100 Gb/s.
            free = time(*cycle) + 83_000;
        }
        decided.truncate(departures.len());
        assert!(departures.len() >= 500 && decided == departures, "{name}: {}", departures.len());
        assert!(passed == 0 || name == "ibex@400MHz" && (100..900).contains(&passed), "{name}: {passed}");
        assert!(totals.cores.iter().all(|(_, core)| core.lost.all() == 0 && core.longest <= 1));
        assert_eq!(totals.completions.len(), if mhz == 200 { 0 } else { 5 }, "{name}");
    }
}

/// Packets of which the chain decides whether there is room wait for that decision, and one whose event is lost is dropped. The stages
/// of a switch share the queue of their core; a departure waits for room in it.
#[test]
fn an_arrival_that_finds_the_queue_full_is_dropped() {
    let stages = ["\"mmu\"\npreset = \"lscc\"", "\"int\""];
    let input = read(&star(4, "name = \"pfc\"", &stages).replace("200kB", "1MB")).unwrap();
    let cores = [Cores { queue: QueueRule { bound: 4, joins: false }, ..cores("ibex@2GHz") }];
    let Run { totals, log, series, .. } = run(&input, &cores, None).unwrap();
    let handled = |kind: Kind| {
        let descriptors = log.iter().filter_map(|(.., entry)| entry.handled.descriptor.as_ref());
        descriptors.filter(|(descriptor, _)| descriptor.kind == kind as u8).count() as u64
    };
    let [(_, core)] = totals.cores[..] else { panic!("{:?}", totals.cores) };
    let (arrived, left) = (handled(Kind::Arrival), handled(Kind::Departure));
    assert!(totals.dropped > 1_000 && arrived > 100 && left > 100, "{totals:?}");
    assert_eq!(core.lost.all(), core.lost.at_queues);
    assert!(core.lost.at_queues >= totals.dropped && core.longest == 4, "{core:?}");
    assert!(totals.lossless_dropped == totals.dropped && left <= arrived, "{left} {arrived}");
    // A port has at most one packet that leaves.
    let waiting = series.iter().filter(|sample| sample.quantity == Quantity::CoreQueue);
    assert!(waiting.map(|sample| sample.value).max().is_some_and(|most| (4..=4 + 4).contains(&most)));
    assert_eq!(totals, run(&input, &cores, Some(7)).unwrap().totals);
}

/// The link of the receiver fails again and again, with packets that wait for their verdicts: they are lost as those in the queues are. A
/// run ends with an error unless each packet is delivered, dropped or in flight.
#[test]
fn a_packet_that_waits_for_its_verdict_is_lost_with_its_link() {
    let faults =
        "\n[[faults]]\nkind = \"down\"\nlinks = [[3, 4]]\nfrom = \"50us\"\nuntil = \"60us\"\nevery = \"100us\"\n";
    let stages = ["\"mmu\"\npreset = \"lscc\"", "\"red\""];
    let input = read(&(star(4, "name = \"dcqcn\"", &stages) + faults)).unwrap();
    let [native, infinite, slow] = [&[][..], &[cores("ibex@infinite")], &[cores("ibex@2GHz")]]
        .map(|cores| run(&input, cores, None).unwrap().totals);
    assert!(native.lost > 20 && slow.lost > 20, "{} {}", native.lost, slow.lost);
    assert_eq!(native, Totals { cores: Vec::new(), ..infinite });
}

/// The queue has no more events than its bound and the departures of two ports, at any time; what finds it full is lost and counted; and
/// a run is the same in any order of adding events.
#[test]
fn the_queue_of_a_core_is_bounded() {
    let input = read(&scenario()).unwrap();
    let cores = [Cores { queue: QueueRule { bound: 16, joins: false }, ..cores_of_lscc("ibex@1GHz") }];
    let Run { totals, series, .. } = run(&input, &cores, None).unwrap();
    let waiting = series.iter().filter(|sample| sample.quantity == Quantity::CoreQueue);
    assert!(waiting.map(|sample| sample.value).max().is_some_and(|most| (16..=16 + 2).contains(&most)));
    assert!(totals.completions.is_empty(), "two flows of 2 MB in 5 ms");
    for (node, core) in &totals.cores {
        assert!(core.longest == 16 && core.lost.at_queues > 0, "{node}: {core:?}");
        assert_eq!(core.lost.all(), core.lost.at_queues);
    }
    assert_eq!(totals, run(&input, &cores, Some(7)).unwrap().totals);
}

#[test]
fn what_a_core_cannot_do_is_said() {
    let error = |more: &str| {
        let text = scenario().replace("switches = [6, 9]", more);
        read(&text).and_then(|input| run(&input, &input.cores, None)).map(|_| ()).unwrap_err()
    };
    let text = format!("{:#}", error("policy = \"join\""));
    assert!(text.contains("events of a switch are not merged: expected the policy lose"), "{text}");
    let text = format!("{:#}", error("switches = [5]"));
    assert!(text.contains("switch 5 has no stages, which are to run on a core"), "{text}");
    let text = format!("{:#}", error("switches = [0]"));
    assert!(text.contains("`switches`: node 0 is a host, expected a switch"), "{text}");
    let buffers = star(6, "name = \"pfc\"", &["\"mmu\"\npreset = \"lscc\""]);
    let text = format!("{:#}", run(&read(&buffers).unwrap(), &[cores("ibex@infinite")], None).map(|_| ()).unwrap_err());
    assert!(
        text.contains("switch 6: ports 1 and 5 have mmu, whose buffer all ports share, but no core runs both"),
        "{text}"
    );
}
