//! The target of the Ibex model: the bytes are a program, and what happens outside the core while it runs.

use arbitrary::{Arbitrary, Unstructured};
use hil_cores::core::{Core, Ibex, Ram, Stop, Timing};

/// RAM begins at address 0, to which the trap vector points after reset, so that a program that traps continues there.
const RAM: Ram = Ram { base: 0, size: 1 << 10 };
/// The devices' addresses follow the RAM. A load or store reaches them with an offset from x0.
const DEVICES: std::ops::Range<u32> = 0x400..0x480;
/// The address of the program's first instruction.
const ENTRY: u32 = 0x100;
/// The cycles that the program runs after the last change of an interrupt line.
const TAIL: u64 = 500;

/// The outside of the core: wait states of memory, changes of the interrupt lines, and the values that devices return to loads.
#[derive(Arbitrary, Debug)]
struct Outside {
    wait_states: u8,
    lines: [Change; 4],
    /// A load returns this value, exclusive-or its address.
    load_value: u32,
    /// The lengths of the second run's pieces, and the address of an instruction before which it stops too.
    pieces: [u8; 4],
    watched: u16,
}

/// The state of the interrupt lines, so many cycles after the previous change.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Change {
    after: u8,
    timer: bool,
    external: bool,
}

/// Runs the program twice: with a stop only where an interrupt line changes, and in many short pieces.
///
/// # Panics
/// - Time stops or runs backwards; x0 is not zero; more instructions retire than there are cycles.
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
    /// The stops at loads, stores and a fault, with the numbers of cycles and instructions so far.
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

/// Runs the core up to a cycle, serves its loads and records its stops. Returns `false` after a fault.
fn advance(core: &mut Ibex, outside: &Outside, piecewise: bool, until: u64, stops: &mut Vec<(Stop, u64, u64)>) -> bool {
    let mut pieces = outside.pieces.iter().cycle();
    while core.cycles() < until {
        let (cycles, instructions) = (core.cycles(), core.instructions());
        let piece = pieces.next().map_or(1, |&piece| u64::from(piece % 16) + 1);
        let target = if piecewise { until.min(cycles + piece) } else { until };
        let stop = core.run(target);
        assert!(core.cycles() >= cycles && core.instructions() >= instructions);
        match stop {
            Stop::Cycle => {
                assert!(core.cycles() >= target, "cycle {}, not {target}", core.cycles());
                continue;
            }
            Stop::Watch { .. } => {
                assert!(piecewise, "this run watches no address");
                continue;
            }
            Stop::Idle => {
                core.sleep_until(target);
                continue;
            }
            Stop::Load { address, .. } => core.answer(outside.load_value ^ address),
            Stop::Store { .. } | Stop::Fault { .. } => {}
        }
        if matches!(stop, Stop::Fault { .. }) {
            // The number of cycles at a fault is undefined, and is therefore not compared.
            stops.push((stop, 0, core.instructions()));
            return false;
        }
        assert!(core.instructions() <= core.cycles() + 1);
        stops.push((stop, core.cycles(), core.instructions()));
    }
    true
}
