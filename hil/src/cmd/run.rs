//! `hil run`: runs any bare-metal image from its entry, and prints cycle and instruction counts at each store to the marker
//! address.

use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use hil_capture::NewFile;
use hil_cores::core::{Core, Ram, Stop};
use hil_cores::elf::Image;
use hil_cores::observed_core::ObservedCore;
use hil_cores::processor::Processor;
use hil_cores::wave::{self, Recorder};
use serde::Serialize;

use super::{CLOCK, CLOCKS};

/// Arguments of `hil run`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The image: a 32-bit little-endian RISC-V ELF executable.
    elf: PathBuf,
    /// The core, see `hil list`.
    #[arg(long, value_name = "NAME", value_parser = super::unknown::core)]
    core: Processor,
    /// RAM, which is zero before the image is loaded; decimal or 0x numbers, sizes with K or M. May be given several times.
    #[arg(long, value_name = "BASE:SIZE", required = true, value_parser = ram)]
    ram: Vec<Ram>,
    /// An address outside RAM: each word stored to it is printed with the cycle and the instructions so far.
    #[arg(long, value_name = "ADDR", value_parser = number)]
    marker: u32,
    /// An address outside RAM: a word stored to it ends the run and is its exit value.
    #[arg(long, value_name = "ADDR", value_parser = number)]
    exit: u32,
    /// Extra cycles of every instruction fetch, load and store.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_WAIT))]
    wait: u64,
    /// Most cycles that the run may take; it fails when they are over.
    #[arg(long, value_name = "N", default_value_t = 2_000_000_000)]
    max_cycles: u64,
    /// Writes a wave (VCD) of the core's instructions and stores to this file, for GTKWave. About 30 bytes per instruction.
    /// `-` is standard output; the markers then go to standard error.
    #[arg(long, value_name = "FILE")]
    vcd: Option<PathBuf>,
    /// Cycles per second in the wave.
    #[arg(long, value_name = "HZ", requires = "vcd", default_value_t = CLOCK)]
    #[arg(value_parser = clap::value_parser!(u64).range(CLOCKS))]
    clock: u64,
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Most wait states that `--wait` accepts: more than any real memory has.
const MAX_WAIT: u64 = 1000;

/// Most RAM that `--ram` accepts, in bytes: more than any core of this size has. The bound is there because the model's store
/// of decoded instructions takes several times as much memory of the host.
const MAX_RAM: u64 = 64 << 20;

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// A line for each marker, printed when it is stored.
    Text,
    /// One JSON object at the end.
    Json,
}

/// A store to the marker address.
#[derive(Serialize, Debug)]
struct Marker {
    value: u32,
    /// The cycle in which the bus accepted the store; the first instruction is in decode in cycle 0.
    cycles: u64,
    /// Instructions retired before the store.
    instructions: u64,
}

#[derive(Serialize, Debug)]
struct Report {
    markers: Vec<Marker>,
    exit: u32,
}

/// Runs the image and prints its markers.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.marker != args.exit, "marker and exit are the same address, {:#010x}", args.exit);
    for (name, address) in [("marker", args.marker), ("exit", args.exit)] {
        ensure!(address.is_multiple_of(4), "the {name} address {address:#010x} is not a multiple of 4");
        let in_ram = args.ram.iter().any(|region| region.contains(address, 4));
        ensure!(!in_ram, "the {name} address {address:#010x} lies in RAM, where a store does not stop the core");
    }

    let ram = args.ram.iter().fold(0, |sum: u64, region| sum + u64::from(region.size));
    ensure!(ram <= MAX_RAM, "--ram: {ram} bytes in all, expected at most {}M", MAX_RAM >> 20);
    for (index, region) in args.ram.iter().enumerate() {
        let overlaps = |other: &&Ram| other.contains(region.base, 1) || region.contains(other.base, 1);
        let other = args.ram.iter().take(index).find(overlaps);
        ensure!(other.is_none(), "two RAM regions overlap at {:#010x}", region.base);
    }

    let path = args.elf.display();
    let file = std::fs::read(&args.elf).with_context(|| format!("cannot read {path}"))?;
    let image = Image::parse(&file).with_context(|| path.to_string())?;
    let end = args.marker.max(args.exit).checked_add(4).context("--marker, --exit: expected at most 0xfffffff8")?;
    let devices = args.marker.min(args.exit)..end;
    let mut core = ObservedCore::from(args.core.start(&args.ram, devices, args.wait, image.entry)?);
    image.load(&mut core, &args.ram).with_context(|| path.to_string())?;

    let file = args.vcd.as_deref().map(|path| NewFile::create(path, &[&args.elf])).transpose()?;
    if let Some(vcd) = &args.vcd {
        let recorder = Recorder::new(wave::folder(vcd), args.clock, core.cycles());
        core.record(recorder.with_context(|| format!("cannot record {}", vcd.display()))?);
    }

    // Where the wave goes to standard output, the markers go to standard error.
    let is_taken = args.vcd.as_deref() == Some(Path::new("-"));
    let mut output: Box<dyn Write> = if is_taken { Box::new(stderr().lock()) } else { Box::new(stdout().lock()) };
    let mut markers = Vec::new();
    let exit = execute(&mut core, args, |marker| {
        match args.format {
            Format::Text => writeln!(
                output,
                "marker {:#010x} cycles {} instructions {}",
                marker.value, marker.cycles, marker.instructions
            )?,
            Format::Json => markers.push(marker),
        }
        Ok(())
    })
    .with_context(|| path.to_string());
    // The wave is written for a failed run, too.
    let written = file.zip(core.take_recorder()).map_or(Ok(()), |(file, recorder)| {
        let comments = [format!("a cycle is 1/{} s", args.clock)];
        wave::write(file, vec![("core".to_owned(), recorder)], &comments)
    });
    let exit = exit?;
    written.with_context(|| {
        format!("cannot write the wave to {}", args.vcd.as_deref().unwrap_or(Path::new("")).display())
    })?;
    match args.format {
        Format::Text => writeln!(output, "exit {exit}")?,
        Format::Json => writeln!(output, "{}", serde_json::to_string(&Report { markers, exit })?)?,
    }
    Ok(())
}

/// Runs until the store to the exit address, and returns the stored value.
fn execute(
    core: &mut dyn Core,
    args: &Args,
    mut on_marker: impl FnMut(Marker) -> anyhow::Result<()>,
) -> anyhow::Result<u32> {
    loop {
        match core.run(args.max_cycles) {
            Stop::Store { address, value, width: 4 } if address == args.exit => return Ok(value),
            Stop::Store { address, value, width: 4 } if address == args.marker => {
                on_marker(Marker { value, cycles: core.cycles(), instructions: core.instructions() })?;
            }
            Stop::Store { address, width, .. } => {
                bail!("a store of {width} bytes to {address:#010x}, where there is neither RAM nor a device")
            }
            Stop::Load { address, .. } => bail!("a load from {address:#010x}, where there is nothing to read"),
            Stop::Fault { pc, address, reason } => bail!("{reason}: address {address:#010x}, pc {pc:#010x}"),
            Stop::Idle => bail!("the program waits for an interrupt, and none will come, at cycle {}", core.cycles()),
            Stop::Watch { pc } => bail!("stopped at {pc:#010x}, where no watchpoint is set"),
            Stop::Cycle => bail!("the program did not exit within {} cycles (see --max-cycles)", args.max_cycles),
        }
    }
}

/// Parses a number in decimal, or in hexadecimal with the prefix 0x.
fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number below 2^32, decimal or 0x".to_owned())
}

/// Parses `BASE:SIZE`; the size may end in K (1,024 bytes) or M (1,024 K).
fn ram(text: &str) -> Result<Ram, String> {
    let (base, size) = text.split_once(':').ok_or("expected BASE:SIZE")?;
    let (digits, unit) = match size.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => size.strip_suffix(['M', 'm']).map_or((size, 1), |digits| (digits, 1 << 20)),
    };
    let base = number(base)?;
    let size = number(digits)?.checked_mul(unit).ok_or("the size does not fit 32 bits")?;
    if size == 0 || !base.is_multiple_of(4) || !size.is_multiple_of(4) {
        return Err("base and size must be multiples of 4, and the size not zero".into());
    }
    if base.checked_add(size - 1).is_none() {
        return Err("the region reaches beyond the address space".into());
    }
    Ok(Ram { base, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_read_in_all_notations() {
        let expected = Ok(Ram { base: 0x0010_0000, size: 65_536 });
        for text in ["0x100000:64K", "0x100000:0x10000", "1048576:65536", "0X100000:64k"] {
            assert_eq!(ram(text), expected, "{text}");
        }
        assert_eq!(ram("0:1M"), Ok(Ram { base: 0, size: 1 << 20 }));
        assert_eq!(ram("0xffff0000:64K"), Ok(Ram { base: 0xffff_0000, size: 1 << 16 }));
    }

    #[test]
    fn bad_regions_are_refused() {
        for text in ["", "0", "0x:4", "0:0", "2:4", "0:6", "0:5000M", "0xffff0000:128K", "-4:4", "0:4G", "0x1_0:4"] {
            assert!(ram(text).is_err(), "{text}");
        }
    }
}
