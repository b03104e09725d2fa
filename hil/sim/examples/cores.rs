//! Prints what cores in the loop cost: 64 hosts of a leaf-spine, natively and with a core at each host, in processor time of this machine.
//!
//! `cargo run --release -p hil-sim --example cores -- [ALGORITHM...]`, by default dcqcn and hpcc. With links of 1 Gb/s a core at 1 GHz sleeps most
//! of the time; at the low clock it hardly sleeps. The time for a cycle is what the run takes longer than the native one, for each cycle in which
//! a core did not sleep.

use anyhow::Result;
use hil_sim::fabric::{Cores, Examples, Network, Part, Scenario};
use hil_sim::source::Source;
use rustix::time::{ClockId, clock_gettime};

/// Each host sends 1 MB to another.
const SCENARIO: &str = "[topology]\nkind = \"leaf-spine\"\nleaves = 8\nhosts = 8\nspines = 4\nrate = \"1Gb/s\"\ndelay = \"1us\"\ntrunk_rate = \"10Gb/s\"\n\
                        [[stages]]\nname = \"red\"\nkmin = \"10kB\"\nkmax = \"40kB\"\npmax = \"20%\"\n[[stages]]\nname = \"int\"\n\
                        [[workload]]\nkind = \"permutation\"\nbytes = \"1MB\"\n[algorithm]\nname = ";

/// What runs on the cores, and their clock.
const CASES: [(Part, &str); 3] = [(Part::Rp, "ibex@1GHz"), (Part::Nic, "ibex@1GHz"), (Part::Rp, "ibex@20MHz")];

/// Runs a scenario, and prints its speed, with cores also beside that of the native run, which is given in seconds of processor time for each
/// packet-hop and returned.
fn run(name: &str, scenario: &Scenario<'_>, native: Option<f64>) -> Result<f64> {
    let examples = Examples::new(scenario)?;
    let mut network = Network::new(scenario, &examples)?;
    let begun = cpu_seconds();
    while network.advance(u64::MAX)? {}
    let seconds = cpu_seconds() - begun;
    let totals = network.finish()?;
    let of_hop = seconds / totals.packet_hops as f64;
    print!("{name:<20} {} packet-hops in {seconds:.3} CPU s: {:.3} M/s", totals.packet_hops, 1e-6 / of_hop);
    if let Some(native) = native {
        let [mut events, mut lost, mut active, mut all] = [0; 4];
        for (_, core) in &totals.cores {
            events += core.events;
            lost += core.lost.all();
            active += core.active_cycles;
            all += core.cycles;
        }
        print!(
            ", {:.3} of the native run; {events} events, {lost} lost; {active} cycles not asleep, {:.1} % of the time, {:.1} ns each",
            native / of_hop,
            100.0 * active as f64 / all as f64,
            (seconds - native * totals.packet_hops as f64) * 1e9 / active as f64
        );
    }
    println!();
    Ok(of_hop)
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() -> Result<()> {
    let mut algorithms: Vec<String> = std::env::args().skip(1).collect();
    if algorithms.is_empty() {
        algorithms = ["dcqcn", "hpcc"].map(str::to_owned).to_vec();
    }
    for algorithm in algorithms {
        let input = hil_sim::scenario::parse(&Source::of("cores", format!("{SCENARIO}\"{algorithm}\"\n")), None)?;
        let native = run(&format!("{algorithm} native"), &input.scenario(), None)?;
        for (part, core) in CASES {
            let cores = [Cores { part, ..Cores::parse(core)? }];
            let name = format!("{algorithm} {} {core}", part.name());
            run(&name, &Scenario { cores: &cores, ..input.scenario() }, Some(native))?;
        }
    }
    Ok(())
}
