//! `hil keepup`: finds the rates of events at which a core falls behind, and what that does to queues and flows.

use anyhow::{Context, Result};
use hil_algorithms::CoreUse;
use hil_cores::firmware;
use hil_sim::fabric::{CoreStreams, Cores, EventKind, Part, QueueRule, Totals};
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
    /// The rate of the links of the incast in the second table, in Gb/s.
    #[arg(long, value_name = "GBPS", default_value_t = 100.0, value_parser = link_rate)]
    rate: f64,
}

/// DCQCN, once with a CNP for each marked packet in place of one in 50 us, and HPCC.
const DEFAULT: &str = "dcqcn,dcqcn:min_time_between_cnps=0:cnp_port_interval=0,hpcc";

/// The least and the highest rate of links in the search, in Gb/s.
const LINK_RATES: [f64; 2] = [0.1, 800.0];
/// The most and the fewest cycles between two events of a stream in the search.
const CYCLES: [f64; 2] = [262_144.0, 32.0];
/// Parses the rate of a link in Gb/s.
fn link_rate(text: &str) -> Result<f64, String> {
    let [least, most] = LINK_RATES;
    let rate = text.parse().ok().filter(|rate| (least..=most).contains(rate));
    rate.ok_or_else(|| format!("expected a rate from {least} to {most}, in Gb/s"))
}

/// Steps of a search: each halves the logarithm of the interval, so that the last is at most 0.5 % wide.
const STEPS: u32 = 11;
/// Events of a stream. Of these, 16 wait when the first is lost, so that a stream that is 1 % too fast loses some.
const STREAM: usize = 2_000;
/// Packets at each core in the third table, over those that take all of its time.
const LOADS: [f64; 5] = [0.5, 0.8, 1.0, 1.2, 2.0];

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

/// Events that were merged with others.
fn merged(totals: &Totals) -> u64 {
    sum(totals, |core| core.joined_acks + core.joined_cnps)
}

/// A number of events, in % of all that came.
fn share(totals: &Totals, count: u64) -> f64 {
    let came = sum(totals, |core| core.events) + merged(totals) + lost(totals);
    100.0 * count as f64 / came.max(1) as f64
}

/// The mean slowdown of four flows, with the number of those that are complete if not all are.
fn slowdown(input: &Input, totals: &Totals) -> String {
    let slowdown = Percentiles::of(slowdowns(input, totals).into_iter().map(|(_, slowdown)| slowdown));
    let times = slowdown.map_or("-".to_owned(), |all| format!("{:.2}", all.mean));
    match totals.completions.len() {
        4 => times,
        some => format!("{times} ({some} of 4)"),
    }
}

/// The longest queue of the switch in kB, and the mean slowdown.
fn effect(input: &Input, totals: &Totals) -> String {
    format!("{} kB, {}", totals.longest_queue / 1_000, slowdown(input, totals))
}

fn run(mut input: Input, cores: Option<&Cores>) -> Result<(Input, Totals)> {
    input.cores = cores.cloned().into_iter().collect();
    let totals = input.scenario().run()?;
    Ok((input, totals))
}

/// The highest rate in an interval that passes a test, by bisection; `None` if the least does not.
fn highest([mut least, mut most]: [f64; 2], test: impl Fn(f64) -> Result<bool>) -> Result<Option<f64>> {
    if !test(least)? {
        return Ok(None);
    }
    for _ in 0..STEPS {
        let middle = (least * most).sqrt();
        *(if test(middle)? { &mut least } else { &mut most }) = middle;
    }
    Ok(Some(least))
}

/// The kinds of events of a part of a NIC.
fn kinds(part: Part) -> &'static [EventKind] {
    match part {
        Part::Np => &[EventKind::Data, EventKind::Marked],
        _ => &[EventKind::Sent, EventKind::Ack, EventKind::Cnp],
    }
}

/// An algorithm of which one part runs on cores.
struct Case<'a> {
    algorithm: &'a str,
    cores: Cores,
}

impl<'a> Case<'a> {
    fn new(algorithm: &'a str, part: Part, cores: &Cores) -> Result<Self> {
        let design = cores.design.filter(|_| cores.clock.is_some());
        let design = design.with_context(|| format!("{}: expected a core with a clock", cores.name()))?;
        let name = algorithm.split(':').next().unwrap_or_default();
        let firmware = Some(firmware::build(name, firmware::Kind::Inlining, design.dialect())?);
        Ok(Self { algorithm, cores: Cores { part, firmware, ..cores.clone() } })
    }

    /// Of a constant stream of events of each kind of the part, the highest rate at which none is lost, per second: 0 if some are at
    /// the least rate of the search, `None` for a kind that the part does not get. And the rate in Gb/s of a link whose packets take all the time of the core, by these rates.
    fn streams(&self) -> Result<(Vec<Option<f64>>, f64)> {
        let host = if self.cores.part == Part::Np { 0 } else { 1 };
        let streams = CoreStreams::record(scenario(self.algorithm, 4, 100.0)?.scenario(), &self.cores, host)?;
        let rates = CYCLES.map(|cycles| self.cores.clock.unwrap_or_default() as f64 / cycles);
        let one = |&kind| {
            if !streams.has(kind) {
                return Ok(None);
            }
            Ok(Some(highest(rates, |rate| streams.keeps_up(kind, STREAM, rate))?.unwrap_or(0.0)))
        };
        let kinds = kinds(self.cores.part);
        let found = kinds.iter().map(one).collect::<Result<Vec<_>>>()?;
        let of_packet =
            kinds.iter().zip(&found).filter(|(kind, _)| !matches!(kind, EventKind::Cnp | EventKind::Marked));
        let seconds: f64 = of_packet.filter_map(|(_, rate)| Some(1.0 / (*rate)?)).sum();
        Ok((found, f64::from(streams.packet_bits()) / seconds / 1e9))
    }

    /// The highest rate of the link at which no event of a flow is lost that has the link to itself, in Gb/s.
    fn link(&self) -> Result<Option<f64>> {
        highest(LINK_RATES, |gbps| {
            let (_, totals) = run(scenario(self.algorithm, 1, gbps)?, Some(&self.cores))?;
            Ok(lost(&totals) == 0)
        })
    }

    /// Longest queue of the switch in kB and the mean slowdown of an incast of four flows; events lost and merged in %.
    fn incast(&self, gbps: f64, joins: bool) -> Result<String> {
        let cores = Cores { queue: QueueRule { joins, ..self.cores.queue }, ..self.cores.clone() };
        let (input, totals) = run(scenario(self.algorithm, 4, gbps)?, Some(&cores))?;
        let [lost, merged] = [lost(&totals), merged(&totals)].map(|count| share(&totals, count));
        Ok(format!("{}; lost {lost:.0} %, merged {merged:.0} %", effect(&input, &totals)))
    }

    /// Of an incast whose flows, if they share the link equally, bring each core the packets of a link of `gbps`: the events lost in %,
    /// the mean slowdown with cores and without, and the longest queue of a core.
    fn load(&self, gbps: f64) -> Result<(String, usize)> {
        let gbps = if self.cores.part == Part::Np { gbps } else { 4.0 * gbps };
        let [(input, totals), (_, native)] = [
            run(scenario(self.algorithm, 4, gbps)?, Some(&self.cores))?,
            run(scenario(self.algorithm, 4, gbps)?, None)?,
        ];
        let [with, without] = [&totals, &native].map(|totals| slowdown(&input, totals));
        let longest = totals.cores.iter().map(|(_, core)| core.longest).max().unwrap_or(0);
        Ok((format!("{:.1} %, {with} ({without})", share(&totals, lost(&totals))), longest))
    }

    /// The first columns of a row.
    fn name(&self) -> String {
        let part = if self.cores.part == Part::Np { "notification point" } else { "reaction point" };
        format!("| {} | {part} | `{}` |", self.algorithm, self.cores.name())
    }
}

/// Prints the tables.
pub(crate) fn print(args: &Args) -> Result<()> {
    let mut output = stdout().lock();
    let bound = QueueRule::default().bound;
    writeln!(
        output,
        "The highest rates without a loss: of events of one kind, in millions per second, and of the link of a flow that has it to itself\n\n\
         | algorithm | core | packets sent | acknowledgements | CNPs | packets received | marked ones | link, reaction point | link, \
         notification point |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )?;
    let mut cases = Vec::new();
    for algorithm in &args.algorithms {
        for cores in &args.cores {
            let (mut rates, mut links) = (Vec::new(), Vec::new());
            for part in [Part::Rp, Part::Np] {
                let case = Case::new(algorithm, part, cores)?;
                let of = || format!("{algorithm} on {}", cores.name());
                let (of_part, full) = case.streams().with_context(of)?;
                rates.extend(of_part);
                let link = case.link().with_context(of)?;
                links.push(
                    link.map_or_else(|| format!("less than {}", LINK_RATES[0]), |gbps| format!("{gbps:.1} Gb/s")),
                );
                cases.push((case, full));
            }
            let rates = rates.into_iter().map(|rate| rate.map_or("-".to_owned(), |rate| format!("{:.3}", rate / 1e6)));
            let columns: Vec<String> = rates.chain(links).collect();
            writeln!(output, "| {algorithm} | `{}` | {} |", cores.name(), columns.join(" | "))?;
            output.flush()?;
        }
    }
    writeln!(
        output,
        "\nFour flows of 1 MB to one host at {} Gb/s, without cores, and with queues of {bound} events that lose or merge: longest switch queue, \
         mean slowdown; events lost and merged\n\n\
         | algorithm | core runs | core | without cores | `lose` | `join` |\n| --- | --- | --- | --- | --- | --- |",
        args.rate
    )?;
    for (case, _) in &cases {
        let (input, native) = run(scenario(case.algorithm, 4, args.rate)?, None)?;
        let [lose, join] = [false, true].map(|joins| case.incast(args.rate, joins));
        writeln!(output, "{} {} | {} | {} |", case.name(), effect(&input, &native), lose?, join?)?;
        output.flush()?;
    }
    let loads = LOADS.map(|load| load.to_string()).join(" | ");
    writeln!(
        output,
        "\nFour flows of 1 MB to one host whose fair shares of the link bring each core so many times the packets that take all of its time: events \
         lost, mean slowdown (without cores); longest queue of a core in these runs, of at most {bound} events\n\n\
         | algorithm | core runs | core | {loads} | queue |\n| --- | --- | --- |{} --- |",
        " --- |".repeat(LOADS.len())
    )?;
    for (case, full) in cases.iter().filter(|(_, full)| *full > 0.0) {
        let cells = LOADS.into_iter().map(|load| case.load(load * full)).collect::<Result<Vec<_>>>()?;
        let longest = cells.iter().map(|(_, longest)| longest).max().copied().unwrap_or(0);
        let cells: Vec<String> = cells.into_iter().map(|(cell, _)| cell).collect();
        writeln!(output, "{} {} | {longest} |", case.name(), cells.join(" | "))?;
        output.flush()?;
    }
    Ok(())
}
