//! Any bytes as a program of the Ibex model.

use arbitrary::{Arbitrary, Unstructured};
use hil_cores::core::{Core, Ibex, Ram, Stop, Timing};

/// RAM from zero on, where the trap vector is after reset, so that programs that trap go on.
const RAM: Ram = Ram { base: 0, size: 1 << 10 };
/// Devices behind it, within reach of an offset to x0.
const DEVICES: std::ops::Range<u32> = 0x400..0x480;
/// Where the program begins.
const ENTRY: u32 = 0x100;
/// Cycles after the last change of an interrupt line.
const TAIL: u64 = 500;

/// The outside of the core: when its interrupt lines change, and the values that its devices return to loads.
#[derive(Arbitrary, Debug)]
struct Outside {
    wait_states: u8,
    lines: [Change; 4],
    answer: u32,
    /// How the second run is cut into pieces, and where it stops to look.
    pieces: [u8; 4],
    watched: u16,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Change {
    after: u8,
    timer: bool,
    external: bool,
}

/// Runs the program twice, in as few pieces as the interrupts allow and in many.
///
/// # Panics
/// - Time runs backwards or stands still; x0 is not zero; more instructions retire than there are cycles.
/// - The second run differs from the first in any stop, count, register or byte of RAM.
pub fn isa(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok(outside) = source.arbitrary::<Outside>() else { return };
    let program = source.take_rest();
    assert_eq!(Run::of(program, &outside, false), Run::of(program, &outside, true), "{outside:?}");
}

/// The results of a run that are compared.
#[derive(PartialEq, Debug)]
struct Run {
    /// Each with cycles and instructions.
    stops: Vec<(Stop, u64, u64)>,
    instructions: u64,
    registers: [u32; 32],
    ram: Vec<u8>,
}

impl Run {
    fn of(program: &[u8], outside: &Outside, piecewise: bool) -> Self {
        let timing = Timing::IBEX_SMALL.with_wait(u64::from(outside.wait_states % 4));
        let mut core = Ibex::new(&[RAM], DEVICES, timing, ENTRY);
        let room = (RAM.size - ENTRY) as usize;
        core.poke(ENTRY, &program[..program.len().min(room)]);
        if piecewise {
            core.watch((u32::from(outside.watched) % RAM.size) & !1);
        }
        let mut stops = Vec::new();
        let mut until = 0;
        for change in outside.lines.iter().chain([&Change { after: 0, timer: false, external: false }]) {
            until += u64::from(change.after);
            if !advance(&mut core, outside, piecewise, until, &mut stops) {
                break;
            }
            core.set_timer_line(change.timer);
            core.set_external_line(change.external);
        }
        advance(&mut core, outside, piecewise, until + TAIL, &mut stops);
        let mut ram = vec![0; RAM.size as usize];
        core.peek(RAM.base, &mut ram);
        let registers = std::array::from_fn(|index| core.register(index));
        assert_eq!(registers[0], 0);
        Self { stops, instructions: core.instructions(), registers, ram }
    }
}

/// Runs up to a cycle and records what happens. Returns `false` after a fault.
fn advance(core: &mut Ibex, outside: &Outside, piecewise: bool, until: u64, stops: &mut Vec<(Stop, u64, u64)>) -> bool {
    let mut turns = outside.pieces.iter().cycle();
    while core.cycles() < until {
        let (cycles, instructions) = (core.cycles(), core.instructions());
        let piece = turns.next().map_or(1, |&piece| u64::from(piece % 16) + 1);
        let target = if piecewise { until.min(cycles + piece) } else { until };
        let stop = core.run(target);
        assert!(core.cycles() >= cycles && core.instructions() >= instructions);
        match stop {
            Stop::Cycle => {
                assert!(core.cycles() >= target, "cycle {}, not {target}", core.cycles());
                continue;
            }
            Stop::Watch { .. } => {
                assert!(piecewise, "nothing is watched");
                continue;
            }
            Stop::Idle => {
                core.sleep_until(target);
                continue;
            }
            Stop::Load { address, .. } => core.answer(outside.answer ^ address),
            Stop::Store { .. } | Stop::Fault { .. } => {}
        }
        if matches!(stop, Stop::Fault { .. }) {
            // The number of cycles at a fault is not defined, and not compared.
            stops.push((stop, 0, core.instructions()));
            return false;
        }
        assert!(core.instructions() <= core.cycles() + 1);
        stops.push((stop, core.cycles(), core.instructions()));
    }
    true
}
