//! `hil sim`: simulates a network from a scenario, or from a configuration of HPCC's ns-3.

use super::Format;
use super::observe::{Observers, Options};
use anyhow::{Context, Error, Result, ensure};
use hil_algorithms::quantity;
use hil_capture::NewFile;
use hil_devices::core_log;
use hil_sim::Picos;
use hil_sim::distributions;
use hil_sim::fabric::{Cores, Examples, Measure, Network, Part, QueueRule, Scenario, Totals};
use hil_sim::input::Input;
use hil_sim::ns3;
use hil_sim::summary::{self, Cost, Summary};
use hil_sorted::SortedSet;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `hil sim`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A scenario (`*.toml`), or `config.txt` of HPCC's ns-3 or of a fork. Paths in it are relative to its folder.
    config: PathBuf,
    /// The folder for the files of completions, PFC frames and, if queues are monitored, their lengths: `fct.txt`, `pfc.txt` and
    /// `qlen.txt`, or as the configuration names them. Without it none is written.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Chooses marks, first sequence numbers, and what workloads draw; by default the scenario's, or 1.
    #[arg(long)]
    seed: Option<u64>,
    /// Adds events to the event queue in an order that this seed chooses. The results are the same.
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Runs a second time, without what is written while it runs, and fails if anything differs.
    #[arg(long)]
    twice: bool,
    /// Measures this interval of the run, two times with a unit: rates of hosts, utilisation and pauses of links, queues over time, and
    /// how equal the rates of flows are. Replaces the interval of the scenario.
    #[arg(long, value_name = "FROM..UNTIL", value_parser = measured)]
    measure: Option<(Picos, Picos)>,
    /// The length of the windows in which rates of flows are compared in the measured interval; by default the scenario's, or 1ms.
    #[arg(long, value_name = "TIME", value_parser = super::observe::interval)]
    window: Option<Picos>,
    /// Writes the distributions of times and slowdowns of flows and, of a measured interval, of queues, buffers and Jain's index, as CSV.
    #[arg(long, value_name = "FILE.csv")]
    distributions: Option<PathBuf>,
    #[command(flatten)]
    cores: CoreArgs,
    #[command(flatten)]
    observers: Options,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Cores that run the NICs of all hosts and stages of switches, in place of those of the scenario.
#[derive(clap::Args, Debug)]
struct CoreArgs {
    /// Runs the reaction points of all hosts on a core: the compiled image on a model of the core, with its clock, such as
    /// `ibex@250MHz`; `ibex@infinite` for one that is infinitely fast; `library` for the library with the tables of the image.
    /// Notification points run as without cores.
    #[arg(long, value_name = "CORE@CLOCK", value_parser = core)]
    rp_core: Option<Cores>,
    /// The same for the notification points. With the same core for both, one core runs the whole NIC.
    #[arg(long, value_name = "CORE@CLOCK", value_parser = core)]
    np_core: Option<Cores>,
    /// Runs the stages of all switches on cores, such as `ibex@1GHz` or `ibex@infinite`: one for each chain of stages at up to four
    /// ports. A packet that leaves waits for its verdict.
    #[arg(long, value_name = "CORE@CLOCK", value_parser = core)]
    stage_core: Option<Cores>,
    /// Cores at each host, 1 to 64, which share its queue pairs: flows are dealt to them in the order in which they are opened, and
    /// received ones by queue pair number, modulo this number. By default 1.
    #[arg(long, value_name = "CORES", value_parser = clap::value_parser!(u32).range(1..=i64::from(Cores::MOST)))]
    core_count: Option<u32>,
    /// The most events in front of each core, the one in service included: 1 to 65536. By default 16, as in the image's receive ring.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..=QueueRule::MOST as i64))]
    core_queue: Option<u32>,
    /// What happens to an acknowledgement or a CNP while another of its flow waits: both wait, and the newest is lost if the queue is
    /// full; or they are merged.
    #[arg(long, value_name = "POLICY")]
    core_policy: Option<Policy>,
    /// The image for the cores; built from the source tree if not given.
    #[arg(long, value_name = "ELF")]
    firmware: Option<PathBuf>,
    /// Writes what each core did with each event: when the event came, when the core began, the cycle of each store.
    #[arg(long, value_name = "FILE")]
    core_log: Option<PathBuf>,
}

/// What a core's queue does with events of one flow.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Policy {
    /// Keeps all that fit.
    Lose,
    /// Merges acknowledgements, and standard CNPs.
    Join,
}

pub(super) fn core(text: &str) -> Result<Cores, String> {
    Cores::parse(text).map_err(|error| format!("{error:#}"))
}

impl CoreArgs {
    /// Sets the cores of an input.
    fn set(&self, input: &mut Input) -> Result<()> {
        let part = |part| move |cores| Cores { part, ..cores };
        let mut given: Vec<Cores> = match (self.rp_core.clone(), self.np_core.clone()) {
            (Some(rp), Some(np)) if rp == np => vec![rp],
            (rp, np) => rp.map(part(Part::Rp)).into_iter().chain(np.map(part(Part::Np))).collect(),
        };
        given.extend(self.stage_core.clone().map(part(Part::Stages)));
        if !given.is_empty() {
            input.cores = given;
        }
        ensure!(
            !input.cores.is_empty() || !self.is_given(),
            "--core-count, --core-queue, --core-policy, --firmware, --core-log: there is no core: give --rp-core, --np-core or \
             --stage-core, or [[cores]] in the scenario"
        );
        ensure!(
            input.cores.iter().any(|cores| cores.part != Part::Stages)
                || self.core_count.is_none() && self.core_policy != Some(Policy::Join),
            "--core-count and --core-policy join: are for cores at hosts: give --rp-core or --np-core"
        );
        for cores in &mut input.cores {
            if cores.part != Part::Stages {
                cores.count = self.core_count.map_or(cores.count, |count| count as usize);
                cores.queue.joins = self.core_policy.map_or(cores.queue.joins, |policy| policy == Policy::Join);
            }
            cores.queue.bound = self.core_queue.map_or(cores.queue.bound, |bound| bound as usize);
            cores.firmware.clone_from(&self.firmware);
            cores.keep_log = self.core_log.is_some();
        }
        Ok(())
    }

    /// Whether anything is given that only matters with cores.
    fn is_given(&self) -> bool {
        let of_queue = self.core_count.is_some() || self.core_queue.is_some() || self.core_policy.is_some();
        of_queue || self.firmware.is_some() || self.core_log.is_some()
    }
}

/// Exit code of a run that has ended because nothing progressed.
const STALLED: u8 = 5;

/// Two times with units, the first before the second.
fn measured(text: &str) -> Result<(Picos, Picos), String> {
    let picos = |text: &str| {
        let nanoseconds = quantity::nanoseconds(text).filter(|nanoseconds| (0.0..1e15).contains(nanoseconds));
        nanoseconds.map(|nanoseconds| (nanoseconds * 1e3).round() as Picos)
    };
    let times = text.split_once("..").and_then(|(from, until)| Some((picos(from)?, picos(until)?)));
    times
        .filter(|(from, until)| from < until)
        .ok_or_else(|| "expected two times, the first before the second, such as 150ms..350ms".to_owned())
}

/// Measures what the arguments say, in place of what the input does.
fn set_measure(args: &Args, input: &mut Input) -> Result<()> {
    if let Some((from, until)) = args.measure {
        ensure!(until <= input.end, "--measure: the run ends at {} ns, before the interval does", input.end / 1_000);
        let usual = Measure { from, until, window: Measure::WINDOW, within: Measure::WITHIN };
        input.measure = Some(Measure { from, until, ..input.measure.unwrap_or(usual) });
    }
    if let Some(window) = args.window {
        let measure = input.measure.as_mut();
        measure.context("--window: nothing is measured: give --measure, or [measure] in the scenario")?.window = window;
    }
    Ok(())
}

/// Runs a configuration, writes its files, and prints the summary.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let begun = cpu_seconds();
    let mut input = hil_sim::read(&args.config, args.seed)?;
    set_measure(args, &mut input)?;
    args.cores.set(&mut input)?;
    let inputs: Vec<&Path> = input.files.iter().map(PathBuf::as_path).collect();
    if let Some(folder) = &args.output {
        super::make_folder("--output", folder)?;
        // There that simulator has written its own results, by the same names.
        let own = args.config.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        ensure!(
            hil_sim::is_scenario(&args.config) || fs::canonicalize(folder)? != fs::canonicalize(own)?,
            "--output {}: is the folder of the configuration, whose {} may be another simulator's: give another folder",
            folder.display(),
            input.outputs[0]
        );
    }
    let files = args.output.iter().flat_map(|folder| input.outputs.iter().map(|name| folder.join(name)));
    let files: Vec<PathBuf> = files.collect();
    let given = args.distributions.iter().chain(&args.cores.core_log);
    ensure_distinct(files.iter().chain(&args.observers.files(args.output.as_deref())).chain(given))?;
    let files = files.iter().map(|path| NewFile::create(path, &inputs)).collect::<Result<Vec<_>, _>>()?;
    let distributions = args.distributions.as_ref().map(|path| NewFile::create(path, &inputs)).transpose()?;
    let mut observers = Observers::create(&args.observers, args.output.as_deref(), &inputs)?;
    let mut core_log = args.cores.core_log.as_ref().map(|path| NewFile::create(path, &inputs)).transpose()?;
    if let Some(file) = &mut core_log {
        writeln!(file, "{}", core_log::HEADER)?;
    }
    let written = (Some(&mut observers), core_log.as_mut());
    let (totals, cost, checked_frames) = simulate(args, &input, args.shuffle, begun, written)?;
    core_log.map_or(Ok(()), NewFile::finish)?;
    if args.twice {
        let (again, ..) = simulate(args, &input, args.shuffle.map(|seed| seed + 1), cpu_seconds(), (None, None))?;
        ensure!(again == totals, "a second run differs from the first: a fault of the simulation");
    }
    let texts = [
        ns3::write_fct(&input, &totals.completions),
        ns3::write_pfc(&input, &totals.pfc),
        ns3::write_qlen(&totals.queue_lengths),
    ];
    for (mut file, text) in files.into_iter().zip(texts) {
        file.write_all(text.as_bytes())?;
        file.finish()?;
    }
    if let Some(mut file) = distributions {
        file.write_all(distributions::csv(&input, &totals).as_bytes())?;
        file.finish()?;
    }
    observers.finish(&summary::slowdowns(&input, &totals))?;
    let summary = Summary { checked_frames, ..Summary::of(&input, &totals, &cost)? };
    // Where a series, a capture, the distributions or the log of cores go to standard output, the summary goes to standard error.
    let mut others = args.distributions.iter().chain(&args.cores.core_log);
    let is_taken = args.observers.is_standard_output_taken() || others.any(|path| path == Path::new("-"));
    let mut output: Box<dyn Write> = if is_taken { Box::new(stderr().lock()) } else { Box::new(stdout().lock()) };
    match args.format {
        Format::Text => writeln!(output, "{summary}"),
        Format::Json => writeln!(output, "{}", serde_json::to_string_pretty(&summary)?),
    }
    .context("cannot write the summary")?;
    Ok(match summary.stall {
        Some(stall) => {
            eprintln!("error: {stall}");
            ExitCode::from(STALLED)
        }
        None => ExitCode::SUCCESS,
    })
}

/// Refuses outputs of which one would replace another.
fn ensure_distinct<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    let mut places = SortedSet::new();
    for path in paths {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default();
        let place = fs::canonicalize(path).or_else(|_| Ok::<_, Error>(fs::canonicalize(folder)?.join(name)));
        let place = place.unwrap_or_else(|_| path.clone());
        ensure!(places.insert(place), "{}: two outputs are to be written there: give another name", path.display());
    }
    Ok(())
}

/// Events between two updates of the progress line.
const EVENTS: u64 = 1 << 18;

fn simulate(
    args: &Args,
    input: &Input,
    shuffle: Option<u64>,
    begun: f64,
    (observers, mut core_log): (Option<&mut Observers>, Option<&mut NewFile>),
) -> Result<(Totals, Cost, Option<u64>)> {
    let mut scenario = Scenario { shuffle, ..input.scenario() };
    scenario.queue_monitor = scenario.queue_monitor.filter(|_| args.output.is_some());
    let examples = Examples::new(&scenario)?;
    let mut network = Network::new(&scenario, &examples)?;
    if let Some(observers) = observers {
        observers.attach(&mut network)?;
    }
    let set_up = cpu_seconds();
    let is_terminal = stderr().is_terminal();
    loop {
        let goes_on = network.advance(EVENTS)?;
        for (host, part, entry) in network.take_core_log() {
            if let Some(file) = &mut core_log {
                writeln!(file, "{}", core_log::line(host, part, &entry))
                    .context("cannot write the log of the cores")?;
            }
        }
        if !goes_on {
            break;
        }
        if is_terminal {
            show_progress(&network, cpu_seconds() - set_up);
        }
    }
    if is_terminal {
        super::show_progress(format_args!(""));
    }
    let cost = Cost {
        cpu_seconds: cpu_seconds() - set_up,
        setup_cpu_seconds: set_up - begun,
        peak_rss_bytes: peak_rss_bytes(),
        core_seconds: network.core_time().as_secs_f64(),
    };
    let checked_frames = network.checked_frames();
    Ok((network.finish()?, cost, checked_frames))
}

/// Shows the simulated time, the speed, and the time that is left if the rest of the bytes takes as long as those acknowledged.
fn show_progress(network: &Network<'_>, cpu_seconds: f64) {
    let (done, all) = network.progress();
    let left = cpu_seconds * (all - done) as f64 / done.max(1) as f64;
    let rate = network.packet_hops() as f64 / cpu_seconds / 1e6;
    let now = network.now() as f64 / 1e12;
    super::show_progress(format_args!("{now:.6} s simulated, {rate:.2} M packet-hops/s, {left:.0} s left"));
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process has had; zero where the system does not say.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kibibytes * 1_024
}
