//! `hil keepup`: finds the rate of events at which a core falls behind, and what that does to queues and flows.

use anyhow::{Context, Result};
use hil_algorithms::CoreUse;
use hil_cores::firmware;
use hil_sim::fabric::{Cores, Part, Totals};
use hil_sim::input::Input;
use hil_sim::source::Source;
use hil_sim::summary::{Percentiles, slowdowns};
use std::io::{Write, stdout};

/// Arguments of `hil keepup`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Algorithms, see `hil list`, each with settings if they are not those of its first preset: `dcqcn:min_time_between_cnps=0`.
    #[arg(long, value_name = "NAME[:SETTING=VALUE]", value_delimiter = ',', default_value = DEFAULT)]
    algorithms: Vec<String>,
    /// Cores with their clocks.
    #[arg(long, value_name = "CORE@CLOCK", value_delimiter = ',', default_value = "ibex@250MHz,ibex@1GHz")]
    #[arg(value_parser = super::sim::core)]
    cores: Vec<Cores>,
    /// The rate of the links of the incast, in Gb/s.
    #[arg(long, value_name = "GBPS", default_value_t = 100.0)]
    rate: f64,
}

/// DCQCN, once with a CNP for each marked packet in place of one in 50 us, and HPCC.
const DEFAULT: &str = "dcqcn,dcqcn:min_time_between_cnps=0:cnp_port_interval=0,hpcc";

/// The least and the highest rate of links in the search, in Gb/s.
const RATES: [f64; 2] = [0.1, 800.0];
/// Steps of the search: each halves the logarithm of the interval, so that the last is 0.9 % wide.
const STEPS: u32 = 10;

/// A scenario: so many hosts send to one over links of this rate.
fn scenario(algorithm: &str, senders: u32, gbps: f64) -> Result<Input> {
    // RED's thresholds are 3.2 and 12.8 us of the link, as 40 and 160 kB at 100 Gb/s.
    let [kmin, kmax] = [3.2, 12.8].map(|micros| (gbps * 125.0 * micros).max(2_000.0) as u64);
    let mut parts = algorithm.split(':');
    let (name, settings) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>().join("\n"));
    let text = format!(
        "duration = \"1s\"\n[topology]\nkind = \"star\"\nhosts = {}\nrate = \"{gbps:.3}Gb/s\"\ndelay = \"1us\"\n[algorithm]\n\
         name = \"{name}\"\n{settings}\n[[stages]]\nname = \"red\"\nkmin = {kmin}\nkmax = {kmax}\npmax = \"20%\"\n[[stages]]\nname = \"int\"\n\
         [[workload]]\nkind = \"incast\"\nreceiver = 0\nsenders = {senders}\nbytes = \"1MB\"\nspread = \"2us\"\n",
        senders + 1
    );
    hil_sim::scenario::parse(&Source::of("keepup", text), None)
}

/// What the cores did, all together.
fn sum(totals: &Totals, count: impl Fn(&CoreUse) -> u64) -> u64 {
    totals.cores.iter().map(|(_, core)| count(core)).sum()
}

/// Events that were lost.
fn lost(totals: &Totals) -> u64 {
    sum(totals, |core| core.lost.all())
}

fn run(mut input: Input, cores: Option<Cores>) -> Result<(Input, Totals)> {
    input.cores = cores.into_iter().collect();
    let totals = input.scenario().run()?;
    Ok((input, totals))
}

/// The highest rate of events that no event is lost at, per second, and the rate of the link that gives it in Gb/s: a flow that has the
/// link to itself. `None` if events are lost at the least rate of the search.
fn limit(algorithm: &str, cores: &Cores) -> Result<Option<(f64, f64)>> {
    let events = |gbps: f64| -> Result<Option<f64>> {
        let (_, totals) = run(scenario(algorithm, 1, gbps)?, Some(cores.clone()))?;
        let seconds = totals.end as f64 / 1e12;
        Ok((lost(&totals) == 0).then(|| sum(&totals, |core| core.events) as f64 / seconds))
    };
    let [mut least, mut most] = RATES;
    let Some(mut found) = events(least)? else { return Ok(None) };
    for _ in 0..STEPS {
        let gbps = (least * most).sqrt();
        match events(gbps)? {
            Some(rate) => (least, found) = (gbps, rate),
            None => most = gbps,
        }
    }
    Ok(Some((found, least)))
}

/// Longest queue of the switch in kB and the mean slowdown of the flows, with the flows that are complete if not all are; of cores,
/// events lost and merged in % and the longest queue in events.
fn effect(algorithm: &str, gbps: f64, cores: Option<Cores>) -> Result<String> {
    let (input, totals) = run(scenario(algorithm, 4, gbps)?, cores)?;
    let slowdown = Percentiles::of(slowdowns(&input, &totals).into_iter().map(|(_, slowdown)| slowdown));
    let times = slowdown.map_or("-".to_owned(), |all| format!("{:.2}", all.mean));
    let done = match totals.completions.len() {
        4 => String::new(),
        some => format!(" ({some} of 4)"),
    };
    let queue = totals.longest_queue / 1_000;
    if totals.cores.is_empty() {
        return Ok(format!("{queue} kB, {times}{done}"));
    }
    let came = sum(&totals, |core| core.events + core.joined_acks + core.joined_cnps) + lost(&totals);
    let longest = totals.cores.iter().map(|(_, core)| core.longest).max().unwrap_or(0);
    let (lost, joined) = (lost(&totals), sum(&totals, |core| core.joined_acks + core.joined_cnps));
    let share = |count: u64| 100.0 * count as f64 / came.max(1) as f64;
    Ok(format!("{queue} kB, {times}{done}; lost {:.0} %, merged {:.0} %; {longest}", share(lost), share(joined)))
}

/// Prints the table.
pub(crate) fn print(args: &Args) -> Result<()> {
    let mut output = stdout().lock();
    let gbps = args.rate;
    writeln!(
        output,
        "One flow alone: the highest rate of events without a loss, and the link rate that gives it. Then four flows of 1 MB to one host at \
         {gbps} Gb/s, without cores, and with queues of {} events that lose or merge: longest switch queue, mean slowdown; events lost and merged; \
         longest queue of a core\n",
        hil_sim::fabric::QueueRule::default().bound
    )?;
    writeln!(output, "| algorithm | core runs | core | keeps up to | without cores | `lose` | `join` |")?;
    writeln!(output, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for algorithm in &args.algorithms {
        let native = effect(algorithm, gbps, None)?;
        for (part, of) in [(Part::Rp, "reaction point"), (Part::Np, "notification point")] {
            for cores in &args.cores {
                let mut cores = Cores { part, ..cores.clone() };
                if let Some(design) = cores.design {
                    let name = algorithm.split(':').next().unwrap_or_default();
                    cores.firmware = Some(firmware::build(name, firmware::Kind::Inlining, design.dialect())?);
                }
                let limit = limit(algorithm, &cores).with_context(|| format!("{algorithm} on {}", cores.name()))?;
                let limit = match limit {
                    Some((events, at)) => format!("{:.3} M/s, {at:.1} Gb/s", events / 1e6),
                    None => format!("less than {} Gb/s", RATES[0]),
                };
                let [lose, join] = [false, true].map(|joins| {
                    let mut cores = cores.clone();
                    cores.queue.joins = joins;
                    effect(algorithm, gbps, Some(cores))
                });
                writeln!(
                    output,
                    "| {algorithm} | {of} | `{}` | {limit} | {native} | {} | {} |",
                    cores.name(),
                    lose?,
                    join?
                )?;
                output.flush()?;
            }
        }
    }
    Ok(())
}
