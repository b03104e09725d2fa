//! NICs whose programs run on cores: the compiled image on a model of an Ibex.

use anyhow::Result;
use cc_core::{Bytes, Link, Rate};
use hil_algorithms::NicSize;
use hil_algorithms::settings::ResolvedSettings;
use hil_cores::board::Action;
use hil_devices::core_log;
use hil_devices::core_queue::Entry;
use hil_devices::native::Native;
use hil_sim::fabric::{Cores, Examples, Network, Part, Quantity, QueueRule, Sample, Scenario, Subject, Totals};
use hil_sim::input::Input;
use hil_sim::ns3::write_fct;
use programs::descriptor::DescriptorKind;
use std::fs;

/// Four hosts send 100 kB each to host 0 over one switch.
fn incast(algorithm: &str, more: &str) -> Input {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    let stage = if algorithm == "hpcc" {
        "name = \"int\""
    } else {
        "name = \"red\"\nkmin = \"40kB\"\nkmax = \"160kB\"\npmax = \"20%\""
    };
    let text = format!(
        "duration = \"2ms\"\n{more}\n[topology]\nkind = \"star\"\nhosts = 5\nrate = \"100Gb/s\"\ndelay = \"1us\"\n[algorithm]\n\
         name = \"{algorithm}\"\n[[stages]]\n{stage}\n[[workload]]\nkind = \"incast\"\nreceiver = 0\nsenders = 4\n\
         bytes = \"100kB\"\nspread = \"2us\"\n"
    );
    fs::write(&path, text).unwrap();
    hil_sim::read(&path, None).unwrap()
}

fn cores(name: &str) -> Cores {
    Cores::parse(name).unwrap()
}

/// What a run came to, its samples at each nanosecond that `interval` divides, and the log of its cores.
type Run = (Totals, Vec<Sample>, Vec<(u32, &'static str, Entry)>);

fn run(input: &Input, cores: &[Cores], interval: u64, shuffle: Option<u64>) -> Result<Run> {
    let mut series = Vec::new();
    let scenario = Scenario { cores, shuffle, ..input.scenario() };
    let examples = Examples::new(&scenario)?;
    let mut network = Network::new(&scenario, &examples)?;
    network.sample(interval * 1_000, |sample: &Sample| {
        series.push(*sample);
        Ok(())
    });
    while network.advance(1 << 20)? {}
    let log = network.take_core_log();
    let totals = network.finish()?;
    Ok((totals, series, log))
}

/// Makes NICs of the hosts of an input, whose packets have at most so many bytes.
fn natives(input: &Input, mtu: u32) -> impl Fn() -> Result<Native> {
    let line_rate = Rate::from_bits_per_second(100_000_000_000);
    let link = Link { line_rate, mtu: Bytes::new(mtu), base_rtt: input.base_rtt };
    let settings = ResolvedSettings { link, ..input.settings.clone() };
    move || Native::new(&*input.algorithm, &settings, NicSize::Full).map(Native::recorded)
}

/// A run with cores in real time that keeps their log, sampled at each nanosecond.
fn timed(input: &Input, name: &str, part: Part, queue: QueueRule) -> Run {
    run(input, &[Cores { part, queue, keep_log: true, ..cores(name) }], 1, None).unwrap()
}

/// Totals, every microsecond of the series and `fct.txt` are the same, for an algorithm that reacts to CNPs and one that reacts to
/// telemetry in acknowledgements. With the library's own tables, which are smaller than the image's, the times of flows are too.
#[test]
fn an_infinitely_fast_core_decides_as_the_library() {
    for algorithm in ["dcqcn", "hpcc"] {
        let input = incast(algorithm, "");
        let (native, native_series, _) = run(&input, &[cores("library")], 1_000, None).unwrap();
        let (core, series, _) = run(&input, &[cores("ibex@infinite")], 1_000, None).unwrap();
        assert!(core.cores.iter().map(|(_, core)| core.events).sum::<u64>() > 800, "{algorithm}");
        assert_eq!(write_fct(&input, &native.completions), write_fct(&input, &core.completions), "{algorithm}");
        assert_eq!(native, Totals { cores: Vec::new(), ..core }, "{algorithm}");
        assert_eq!(native_series, series, "{algorithm}");
        let (plain, ..) = run(&input, &[], 1_000, None).unwrap();
        assert_eq!(plain.completions, native.completions, "{algorithm}");
        // Reaction points and notification points on cores of their own.
        let apart = [Part::Rp, Part::Np].map(|part| Cores { part, ..cores("ibex@infinite") });
        let (apart, ..) = run(&input, &apart, 1_000, None).unwrap();
        assert_eq!(apart.completions, native.completions, "{algorithm}");
        assert_eq!(apart.cores.len(), 10, "{algorithm}");
    }
}

/// The log in text is the log; replayed natively, each core's decisions are the same; with one bit of a rate changed they are not.
#[test]
fn the_log_of_each_core_replayed_natively_decides_the_same() {
    for algorithm in ["dcqcn", "hpcc"] {
        let input = incast(algorithm, "");
        let (.., log) = timed(&input, "ibex@250MHz", Part::Nic, QueueRule::default());
        let native = natives(&input, if algorithm == "hpcc" { 1_100 } else { 1_058 });
        let replay = |log: &[(u32, &'static str, Entry)]| -> Result<u64> {
            let mut check = core_log::Check::default();
            for (host, part, entry) in log {
                let line = core_log::line(*host, part, entry);
                let (of, its_part, read) = core_log::parse(&line)?;
                assert_eq!((of, its_part.as_str(), &read), (*host, *part, entry));
                check.take(of, &its_part, &read, &native)?;
            }
            Ok(check.events())
        };
        assert_eq!(replay(&log).unwrap(), log.len() as u64);
        assert!(log.len() >= 100, "{algorithm}: {}", log.len());
        let mut other = log;
        let stores = other.iter_mut().flat_map(|(_, _, entry)| &mut entry.handled.actions);
        let last =
            stores.filter_map(|(_, action)| if let Action::Pace(store) = action { Some(store) } else { None }).last();
        last.unwrap().rate ^= 1;
        let error = replay(&other).unwrap_err().to_string();
        assert!(error.contains("the library paces slot 0"), "{error}");
    }
}

/// Two cores share the flows of each host: infinitely fast they do what the library does in their place, each replays natively by
/// itself, and in real time they lose fewer events than one.
#[test]
fn cores_share_the_queue_pairs_of_a_host() {
    let mut input = incast("hpcc", "");
    let flows = input.flows.clone();
    // Twelve flows: three of each sender.
    input.flows = (0..3).flat_map(|_| flows.clone()).collect();
    let two = |name: &str| Cores { count: 2, keep_log: true, ..cores(name) };
    let (native, native_series, _) = run(&input, &[two("library")], 1_000, None).unwrap();
    let (core, series, log) = run(&input, &[two("ibex@infinite")], 1_000, None).unwrap();
    assert_eq!(core.completions.len(), 12);
    assert_eq!(core.cores.len(), 10);
    assert_eq!(native, Totals { cores: Vec::new(), ..core });
    assert_eq!(native_series, series);
    let opened = |host: u32, core: usize| {
        let of_core = log.iter().filter(|(node, _, entry)| (*node, entry.core) == (host, core));
        let kinds = of_core.filter_map(|(.., entry)| entry.handled.descriptor.as_ref().map(|(event, _)| event.kind));
        kinds.filter(|&kind| kind == DescriptorKind::Open as u8).count()
    };
    for host in 1..5 {
        assert_eq!([opened(host, 0), opened(host, 1)], [2, 1], "host {host}");
    }
    let native = natives(&input, 1_100);
    let mut check = core_log::Check::default();
    log.iter().for_each(|(host, part, entry)| check.take(*host, part, entry, &native).unwrap());
    assert_eq!(check.events(), log.len() as u64);
    let lost = |count| {
        let cores = Cores { count, part: Part::Rp, ..cores("ibex@250MHz") };
        let (totals, ..) = run(&input, &[cores], 1_000, None).unwrap();
        assert_eq!(totals.completions.len(), 12);
        totals.cores.iter().map(|(_, core)| core.lost.all()).sum::<u64>()
    };
    let [one, two] = [1, 2].map(lost);
    assert!(two < one, "{two} lost with two cores, {one} with one");
}

/// A decision takes effect in the nanosecond of its store's cycle: not one before, and not one after. The core handles events in the
/// order of their arrival, each no earlier than it came and not before the one in front of it was handled.
#[test]
fn a_store_takes_effect_at_arrival_and_queueing_and_cycles() {
    for (name, nanoseconds_per_cycle) in [("ibex@250MHz", 4), ("ibex@1GHz", 1)] {
        let input = incast("hpcc", "");
        let (totals, series, log) = timed(&input, name, Part::Rp, QueueRule::default());
        let bits = |rate: u32| Rate::from_bits(rate).to_bits_per_second();
        let mut stores = 0;
        for host in 1..5 {
            let flow = input.flows.iter().position(|flow| flow.source == host).unwrap() as u32;
            let done = totals.completions.iter().find(|done| done.flow == flow).unwrap();
            let over = (done.start + done.time) / 1_000;
            let of_flow = |quantity| {
                let of = series
                    .iter()
                    .filter(move |sample| (sample.quantity, sample.subject) == (quantity, Subject::Flow(flow)));
                of.map(|sample| (sample.at / 1_000, sample.value)).collect::<Vec<_>>()
            };
            let (rates, windows) = (of_flow(Quantity::Rate), of_flow(Quantity::Window));
            let at = |series: &[(u64, u64)], time| {
                series.iter().take_while(|(at, _)| *at <= time).last().map(|(_, value)| *value)
            };
            let (mut free, mut last) = (0, 0);
            for (_, _, entry) in log.iter().filter(|(of, ..)| *of == host) {
                let Entry { began, handled, .. } = entry;
                assert!(*began >= free);
                if let Some((descriptor, _)) = &handled.descriptor {
                    assert!(descriptor.now() >= last && began * nanoseconds_per_cycle >= descriptor.now());
                    last = descriptor.now();
                }
                free = handled.actions.last().unwrap().0;
                for (cycle, action) in &handled.actions {
                    let Action::Pace(store) = action else { continue };
                    let time = cycle * nanoseconds_per_cycle;
                    if time + 1 < over {
                        // A sample shows what was before it.
                        let shown = (at(&rates, time + 1).unwrap(), at(&windows, time + 1).unwrap());
                        assert_eq!(shown, (bits(store.rate), store.window.into()), "host {host} at {time} ns");
                        stores += 1;
                    }
                }
            }
            // And nothing changes at another time.
            let times: Vec<u64> = log
                .iter()
                .filter(|(of, ..)| *of == host)
                .flat_map(|(.., entry)| {
                    entry.handled.actions.iter().map(|(cycle, _)| cycle * nanoseconds_per_cycle + 1)
                })
                .collect();
            let begun = rates.first().unwrap().0;
            let changes = rates.iter().map(|(at, _)| *at).filter(|&at| at > begun && at < over);
            assert_eq!(changes.filter(|at| !times.contains(at)).count(), 0, "host {host}");
        }
        assert!(stores > 20, "{name}: {stores}");
    }
}

/// The queue has no more events than its bound, at any time; what finds it full is lost and counted, or merged and counted; and a run
/// is the same in any order of adding events.
#[test]
fn the_queue_of_a_core_is_bounded() {
    let input = incast("hpcc", "");
    for joins in [false, true] {
        let queue = QueueRule { bound: 4, joins };
        let (totals, series, _) = timed(&input, "ibex@250MHz", Part::Rp, queue);
        let waiting = series.iter().filter(|sample| sample.quantity == Quantity::CoreQueue);
        // The command that closes the flow may wait behind four events.
        assert!((4..=5).contains(&waiting.map(|sample| sample.value).max().unwrap()));
        assert_eq!(totals.completions.len(), 4);
        for (node, core) in totals.cores.iter().filter(|(node, _)| *node > 0) {
            assert_eq!(core.longest, 4, "host {node}");
            assert_eq!(core.joined_acks > 0, joins, "host {node}");
        }
        let lost = |of: &Totals| of.cores.iter().map(|(_, core)| core.lost.acks).sum::<u64>();
        assert!(lost(&totals) > 0);
        let again = Cores { part: Part::Rp, queue, ..cores("ibex@250MHz") };
        let (other, ..) = run(&input, &[again], 1, Some(7)).unwrap();
        assert_eq!(totals, other);
    }
}

#[test]
fn what_a_core_cannot_do_is_said() {
    let error = |name: &str| format!("{:#}", Cores::parse(name).unwrap_err());
    assert!(
        error("ibx@1GHz")
            .starts_with("ibx: expected a core that has a model (ibex, ibex-maxperf, picorv32, picorv32-min)")
    );
    assert!(error("ibex").contains("expected one from 1MHz to 100GHz"));
    let mut input = incast("dcqcn", "");
    input.flows = std::iter::repeat_n(input.flows[0], 1_025).collect();
    let error = run(&input, &[cores("ibex@1GHz")], 1_000, None).unwrap_err();
    assert!(error.to_string().starts_with("host 0 sends 0 flows and receives 1025, but the tables"), "{error:#}");
}
