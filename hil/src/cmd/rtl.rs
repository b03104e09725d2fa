//! `hil rtl`: the same programs on the model of a core and on its RTL, which must agree to the cycle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cc_rp::ReactionPoint;
use hil::board::{Boot, Pace};
use hil::capture::Reader;
use hil::core::Design;
use hil::firmware;
use hil::processor::Processor;
use hil::replay;
use hil::replay::player::{Choice, Player};
use hil::replay::settings::{Chosen, Request};
use hil::rtl::play::Course;
use hil::rtl::program::{self, Program};
use hil::rtl::simulator::Verilog;
use hil::rtl::twin::Twin;
use hil::rtl::{Rtl, record, simulator};

/// Arguments of `hil rtl`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The core, see `hil list`.
    #[arg(long, value_name = "NAME", default_value = "ibex", value_parser = design)]
    core: Design,
    /// Random programs to run.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    programs: u64,
    /// Seed of the first program; the others count on from it.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Extra cycles of every instruction fetch, load and store; several values run each program several times.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,1",
          value_parser = clap::value_parser!(u64).range(..=15))]
    wait: Vec<u64>,
    /// The capture that the firmware image handles on both.
    #[arg(long, value_name = "TRACE", default_value = SAMPLE)]
    capture: PathBuf,
    /// Writes down anew what the RTL does, for the tests that need no simulator, and runs no programs.
    #[arg(long)]
    record: bool,
}

/// The sample that the project carries.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/incast.pcapng");

/// Where the records lie in the source tree.
const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rtl/recorded");

/// Compares the cores, or records the RTL.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(args.programs > 0, "--programs 0: expected at least 1");
    Reader::open(&args.capture)?;
    let simulator = simulator::build(&simulator::folder(), Verilog::Of(args.core))?;
    let mut rtl = Rtl::new(&simulator, &[], 0..0, 0, 0)?;
    if args.record {
        return write_record(args.core, &mut rtl);
    }
    compare(args, &mut rtl)?;
    compare_image(args, &simulator)
}

/// The firmware image with a capture: every act on the same cycle.
fn compare_image(args: &Args, simulator: &Path) -> anyhow::Result<()> {
    type Rp = cc_rp::dcqcn::Dcqcn;
    type Np = cc_np::dcqcn::Dcqcn;
    let image = firmware::build(Rp::NAME, firmware::Kind::Inlining, args.core.dialect())?;
    let image = firmware::read(&image)?;
    for preset in ["paper", "vendor"] {
        let request = Request { preset: Some(preset.to_owned()), ..Request::default() };
        let boot = Boot::of(&Chosen::of::<Rp, Np>(&request)?);
        let make = |_| {
            let rtl = Rtl::new(simulator, &replay::RAM, replay::DEVICES, 0, image.entry)?;
            let rtl = replay::board_with(rtl, &image, &boot, Pace::Lockstep)?;
            let model = args.core.model(&replay::RAM, replay::DEVICES, 0, image.entry);
            Twin::new(replay::board_with(model, &image, &boot, Pace::Lockstep)?, rtl)
        };
        let choice = Choice { only: Vec::new(), limit: 16, strict: true };
        let mut player = Player::new(choice, boot.port.line_rate, make);
        let mut capture = Reader::open(&args.capture)?;
        while let Some(record) = capture.next()? {
            player.frame(&record).with_context(|| format!("packet {}, preset {preset}", record.number))?;
        }
        player.finish()?;
        let (_, twins) = player.into_outcome();
        let sum = |what: fn(&Twin) -> u64| twins.iter().map(what).sum::<u64>();
        println!(
            "firmware image, preset {preset}, {} NICs: {} stores to pacer, log and transmit ring, {} cycles, {} instructions: model and RTL are identical",
            twins.len(),
            sum(Twin::compared),
            sum(Twin::cycles),
            sum(Twin::instructions)
        );
        anyhow::ensure!(sum(Twin::compared) > 0, "{}: nothing to compare", args.capture.display());
    }
    Ok(())
}

/// The design of a name.
fn design(name: &str) -> anyhow::Result<Design> {
    let processor = Processor::named(name)?;
    match processor {
        Processor::Model(design) => Ok(design),
        Processor::Rtl(_) => bail!("{name}: expected the name of a model, whose RTL is compared with it"),
    }
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
    let path = Path::new(RECORDS).join(design.name()).with_extension("txt");
    std::fs::write(&path, &text).with_context(|| format!("{}: cannot be written", path.display()))?;
    println!("{} facts recorded in {}", text.lines().count(), path.display());
    Ok(())
}

fn compare(args: &Args, rtl: &mut Rtl) -> anyhow::Result<()> {
    let mut model = args.core.model(&[], 0..0, 0, 0);
    let (mut cycles, mut instructions, mut interrupts, mut events) = (0, 0, 0, 0);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for offset in 0..args.programs {
        let seed = args.seed.wrapping_add(offset);
        let program = program::generate(args.core.dialect(), seed);
        names.extend(program.names());
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

/// The first event in which two courses differ, those before it, and the code around.
fn difference(program: &Program, expected: &Course, found: &Course) -> String {
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
