//! `hil rtl`: runs the same programs on the model of a core and on its RTL, which must agree to the cycle. VexRiscv's RTL has
//! no model: its results, not its cycles, must agree with the model of Ibex.

use super::CLOCK;
use hil_sorted::SortedSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use hil_algorithms::registry;
use hil_algorithms::settings::Request;
use hil_capture::Source;
use hil_cores::board::Pace;
use hil_cores::core::{Core, Design, Dialect};
use hil_cores::processor::Processor;
use hil_cores::rtl::play::ProgramRun;
use hil_cores::rtl::program::{self, Program};
use hil_cores::rtl::simulator::Verilog;
use hil_cores::rtl::{Rtl, record, simulator};
use hil_cores::tree;
use hil_measure::c_firmware::{Place, Play};
use hil_measure::{cycles, library, stage_cycles};
use hil_replay::{Log, OnCore, Options};

/// Arguments of `hil rtl`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The core, see `hil list`.
    #[arg(long, value_name = "NAME", default_value = "ibex", value_parser = verilog)]
    core: Verilog,
    /// Random programs to run.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    programs: u64,
    /// Seed of the first program; each further program has the next number.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Extra cycles of every instruction fetch, load and store; several values run each program several times.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,1",
          value_parser = clap::value_parser!(u64).range(..=15))]
    wait: Vec<u64>,
    /// The capture that the firmware image handles on model and RTL; the sample in the source tree if not given.
    #[arg(long, value_name = "TRACE")]
    capture: Option<PathBuf>,
    /// Rewrites the records of the RTL's behaviour, and runs no programs. Tests that need no simulator compare the models with
    /// these records.
    #[arg(long)]
    record: bool,
}

/// The presets of DCQCN that the firmware image runs with.
const PRESETS: [&str; 2] = ["paper", "vendor"];

/// Events for firmware in C, for each algorithm.
const C_RECORDS: usize = 1_000;

/// The sample capture in the source tree.
const SAMPLE: &str = "tests/data/incast.pcapng";

/// The folder of the records in the source tree.
const RECORDS: &str = "hil/cores/src/rtl/recorded";

/// Compares the cores, or records the RTL.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.programs > 0, "--programs 0: expected at least 1");
    let tree = tree::here()?;
    let capture = args.capture.clone().unwrap_or_else(|| tree.root().join(SAMPLE));
    Source::open(&capture)?.reader()?;
    let simulator = simulator::build(simulator::folder()?, args.core)?;
    let mut rtl = Rtl::new(&simulator, &[], 0..0, 0, 0)?;
    match args.core {
        Verilog::Of(design) if args.record => write_record(design, &mut rtl),
        Verilog::Of(design) => {
            compare(args, design, &mut rtl)?;
            play(args, &capture, Processor::LockstepPair(design))
        }
        Verilog::Vexriscv => {
            ensure!(!args.record, "--record: expected a core with a model, for which the record is kept");
            compare_outcomes(args, &mut rtl)?;
            play(args, &capture, Processor::Rtl(args.core))
        }
    }
}

/// Runs the firmware image of DCQCN with the capture, every image of the project with its own sample traffic, and firmware in
/// C. All must decide as the library does; if the core has a model, also in the same cycles as on the model.
fn play(args: &Args, capture: &Path, core: Processor) -> anyhow::Result<()> {
    let agreed = match core {
        Processor::LockstepPair(_) => "RTL, model and library agree",
        _ => "RTL and library agree",
    };
    let real = Pace::Real { hz: CLOCK };
    for preset in PRESETS {
        for (how, pace, logs) in [
            ("", Pace::Lockstep, false),
            (" in real time", real, false),
            (" that logs", Pace::Lockstep, true),
            (" that logs in real time", real, true),
        ] {
            let name = core.name().to_owned();
            let options = Options {
                request: Request { preset: Some(preset.to_owned()), ..Request::default() },
                core: Some(OnCore { name, pace, firmware: None, interrupts: false }),
                log: logs.then(|| Log(Rc::new(|_, _| {}))),
                ..Options::default()
            };
            let report = hil_replay::replay(&options, &mut Source::open(capture)?, |_| {})?;
            let played = report.core.filter(|core| core.identical).with_context(|| {
                let capture = capture.display();
                format!("{capture}, preset {preset}: the firmware image{how} decides differently from the library")
            })?;
            ensure!(played.events > 0, "{}: nothing to compare", capture.display());
            println!("firmware image{how}, preset {preset}: {} events: {agreed}", played.events);
        }
    }
    for name in cycles::algorithms()? {
        let run = cycles::sample_on(core, name)?;
        let identical = run.report.core.filter(|core| core.identical);
        let events = identical.with_context(|| format!("{name}: library and image differ"))?.events;
        println!("{name}, preset {}: {events} events: {agreed}", run.preset);
    }
    for name in stage_cycles::names() {
        for run in stage_cycles::measure_on(core, name)? {
            ensure!(run.difference.is_none(), "{name}, preset {}: {:?}", run.preset, run.difference);
            println!("{name}, preset {}: {} events: {agreed}", run.preset, run.events);
        }
    }
    play_c(args.seed, core, agreed)
}

/// Runs firmware in C with every algorithm of the C library. Only on cores with machine mode, because the firmware reads the
/// standard cycle counter (`mcycle`).
fn play_c(seed: u64, core: Processor, agreed: &str) -> anyhow::Result<()> {
    if core.dialect() != Dialect::Machine {
        return Ok(());
    }
    let place = Place::Riscv(core);
    if let Some(program) = place.missing() {
        println!("firmware in C: skipped, {program} is not installed");
        return Ok(());
    }
    let library = library::build(place.target())?.path;
    for entry in cc_rp::registry::ALL {
        let play = Play { place, library: &library, settings: Vec::new(), seed, records: C_RECORDS };
        let played = play.run(entry.name)?;
        if let Some(difference) = played.difference() {
            bail!("firmware in C, {}: {difference}", entry.name);
        }
        println!("firmware in C, {}: {} events: {agreed}", entry.name, played.trace.records.len());
    }
    Ok(())
}

/// Parses the name of a core with RTL, for clap.
fn verilog(name: &str) -> anyhow::Result<Verilog> {
    let expected = || registry::expected(name, Verilog::all().map(Verilog::name));
    Verilog::all().find(|core| core.name() == name).with_context(|| format!("no RTL of {name}: {}", expected()))
}

fn write_record(design: Design, rtl: &mut Rtl) -> anyhow::Result<()> {
    let mut text = String::new();
    record::lines(
        rtl,
        design.dialect(),
        |wait| wait,
        |line| {
            text.push_str(line);
            text.push('\n');
            std::ops::ControlFlow::Continue(())
        },
    )?;
    let path = tree::here()?.root().join(RECORDS).join(design.name()).with_extension("txt");
    std::fs::write(&path, &text).with_context(|| format!("{}: cannot be written", path.display()))?;
    println!("{} facts recorded in {}", text.lines().count(), path.display());
    Ok(())
}

fn compare(args: &Args, design: Design, rtl: &mut Rtl) -> anyhow::Result<()> {
    let mut model = design.model(&[], 0..0, 0, 0);
    let (mut cycles, mut instructions, mut interrupts, mut events) = (0, 0, 0, 0);
    let mut names: SortedSet<&str> = SortedSet::new();
    for offset in 0..args.programs {
        let seed = args.seed.wrapping_add(offset);
        let program = program::generate(args.core.dialect(), seed);
        names.extend(program.names().iter().copied());
        for &wait in &args.wait {
            let expected = record::run(rtl, wait, &program, seed)?;
            let found = record::run(&mut model, wait, &program, seed)?;
            if expected != found {
                print!("{}", difference(&program, &expected, &found));
                bail!("seed {seed}, {wait} wait states: the model differs from the RTL");
            }
            if !expected.ended() {
                bail!("seed {seed}, {wait} wait states: the program does not end: {:?}", expected.events.last());
            }
            cycles += expected.cycles();
            instructions += expected.instructions();
            interrupts += expected.interrupts;
            events += expected.events.len();
        }
    }
    let last = args.seed.wrapping_add(args.programs.saturating_sub(1));
    println!("seeds {} to {last}, wait states {:?}: model and RTL are identical", args.seed, args.wait);
    println!(
        "{} programs of {} different instructions, {cycles} cycles, {instructions} instructions, {interrupts} \
         interrupts, {events} stores, loads and sleeps compared",
        args.programs,
        names.len()
    );
    Ok(())
}

/// Compares a core that has no model: the results of the programs must be those on the model of Ibex.
fn compare_outcomes(args: &Args, rtl: &mut Rtl) -> anyhow::Result<()> {
    let mut model = Design::Ibex.model(&[], 0..0, 0, 0);
    let (mut instructions, mut accesses) = (0, 0);
    let mut names: SortedSet<&str> = SortedSet::new();
    for offset in 0..args.programs {
        let seed = args.seed.wrapping_add(offset);
        let program = program::generate(args.core.dialect(), seed);
        names.extend(program.names().iter().copied());
        let expected = record::outcome(&mut model, 0, &program, seed)?;
        ensure!(expected.ended(), "seed {seed}: the program does not end: {:?}", expected.accesses.last());
        for &wait in &args.wait {
            let found = record::outcome(rtl, wait, &program, seed)?;
            if expected != found {
                let equal = expected.accesses.iter().zip(&found.accesses).take_while(|(a, b)| a == b).count();
                println!("RTL   {equal}: {:x?}", found.accesses.get(equal));
                println!("model {equal}: {:x?}", expected.accesses.get(equal));
                println!("memory at the end: RTL {:08x}, model {:08x}", found.memory, expected.memory);
                print!("{program}");
                bail!("seed {seed}, {wait} wait states: the RTL's result differs from the model of Ibex");
            }
            instructions += rtl.instructions();
            accesses += found.accesses.len();
        }
    }
    let last = args.seed.wrapping_add(args.programs.saturating_sub(1));
    println!(
        "seeds {} to {last}, wait states {:?}: RTL and the model of Ibex have equal results",
        args.seed, args.wait
    );
    println!(
        "{} programs of {} different instructions, {instructions} instructions, {accesses} stores and loads compared",
        args.programs,
        names.len()
    );
    Ok(())
}

/// The first event in which two runs differ, the events before it, and the program.
fn difference(program: &Program, expected: &ProgramRun, found: &ProgramRun) -> String {
    use std::fmt::Write;
    let equal = expected.events.iter().zip(&found.events).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    // Writing to a string does not fail.
    for index in equal.saturating_sub(3)..=equal {
        let _ = writeln!(text, "RTL   {index}: {:?}", expected.events.get(index));
        let _ = writeln!(text, "model {index}: {:?}", found.events.get(index));
    }
    let _ = writeln!(text, "memory at the end: RTL {:08x}, model {:08x}", expected.memory, found.memory);
    let _ = write!(text, "{program}");
    text
}
