//! Measures the speed of the core models and of `rrs-lib`, in the same run and on the same RV32IM kernel.
//!
//! The kernel does what a congestion controller does for an event: it looks up a table entry, counts bytes in 64 bits,
//! multiplies, branches on the state, and sometimes divides. A model also counts cycles and takes a timer interrupt every 5,000
//! cycles, whose handler stores to a device; `rrs-lib` does neither.
//!
//! `cargo run --release -p hil-cores --example speed`

use std::time::Instant;

use hil_cores::core::assemble::*;
use hil_cores::core::{Core, Design, Dialect, Ram, Stop};
use rrs_lib::instruction_executor::InstructionExecutor;
use rrs_lib::memories::VecMemory;
use rrs_lib::{HartState, MemAccessSize, Memory};

const RAM: Ram = Ram { base: 0, size: 0x1_0000 };
const DEVICE: u32 = 0x8000_0000;
/// The common kernel; the model enters it from start-up code at 0 and has its trap vectors at 0x200.
const KERNEL: u32 = 0x400;
const TABLE: i32 = 0x2000;
const EVENTS: u32 = 200_000;
const RUNS: usize = 7;
/// Cycles between timer interrupts.
const PERIOD: u64 = 5_000;

/// The kernel: x1 counts events down, x2 is a random state, x3 the table.
fn kernel() -> Program {
    let mut program = Program::at(KERNEL);
    program.load_immediate(1, EVENTS);
    program.load_immediate(2, 0x1234_5678);
    program.load_immediate(3, TABLE as u32);
    let event = program.here();
    // A random number (xorshift), and the entry that it selects: eight words.
    for word in [slli(4, 2, 13), xor(2, 2, 4), srli(4, 2, 17), xor(2, 2, 4), slli(4, 2, 5), xor(2, 2, 4)] {
        program.put(word);
    }
    for word in [andi(5, 2, 0x7e0), add(5, 5, 3), lw(6, 5, 0), lw(7, 5, 4), lw(8, 5, 8), lhu(9, 5, 12)] {
        program.put(word);
    }
    // 64-bit bytes sent, a rate as a product, a counter.
    for word in [andi(10, 2, 1023), add(6, 6, 10), sltu(11, 6, 10), add(7, 7, 11), mulhu(12, 8, 2), addi(9, 9, 1)] {
        program.put(word);
    }
    for word in [sw(6, 5, 0), sw(7, 5, 4), sh(9, 5, 12)] {
        program.put(word);
    }
    // Every other event cuts, the rest recover; one in sixty-four divides.
    program.put(andi(13, 2, 1));
    program.put(beq(13, 0, 20));
    for word in [srli(14, 8, 6), sub(8, 8, 14), addi(8, 8, 3), jal(0, 16)] {
        program.put(word);
    }
    for word in [add(8, 8, 12), srli(8, 8, 1), ori(8, 8, 1)] {
        program.put(word);
    }
    program.put(sw(8, 5, 8));
    program.put(andi(13, 2, 63));
    program.put(bne(13, 0, 12));
    program.put(divu(15, 6, 8));
    program.put(sw(15, 5, 16));
    program.put(addi(1, 1, -1));
    let back = program.here();
    program.put(bne(1, 0, event.wrapping_sub(back) as i32));
    program
}

/// Start-up code and the timer's handler.
fn start() -> Program {
    let mut start = Program::at(0);
    start.load_immediate(5, 0x200);
    start.put(csrrw(0, csr::MTVEC, 5));
    start.put(addi(5, 0, 0x80));
    start.put(csrrw(0, csr::MIE, 5));
    start.put(csrrsi(0, csr::MSTATUS, 8));
    start.put(jal(0, KERNEL.wrapping_sub(start.here()) as i32));
    start.pad_to(0x21c);
    start.load_immediate(31, DEVICE);
    start.put(sw(0, 31, 0));
    start.put(mret());
    start
}

/// The same for PicoRV32.
fn pico_start() -> Program {
    let mut start = Program::at(0);
    start.put(jal(0, 0x40));
    start.pad_to(0x10);
    start.load_immediate(31, DEVICE);
    start.put(sw(0, 31, 0));
    start.put(retirq());
    start.pad_to(0x40);
    start.put(addi(5, 0, !0x80));
    start.put(maskirq(0, 5));
    start.put(jal(0, KERNEL.wrapping_sub(start.here()) as i32));
    start
}

/// Runs start-up code, handler and kernel on a model. Returns instructions per second.
fn model(design: Design, kernel: &Program) -> f64 {
    let start = match design.dialect() {
        Dialect::Machine | Dialect::Vexriscv => start(),
        Dialect::Picorv32 => pico_start(),
    };
    let mut core = design.model(&[RAM], DEVICE..DEVICE + 16, 0, 0);
    core.poke(0, start.bytes());
    core.poke(KERNEL, kernel.bytes());
    core.watch(kernel.here());
    let begun = Instant::now();
    let mut next = PERIOD;
    loop {
        match core.run(next) {
            Stop::Cycle => {
                core.set_timer_line(true);
                next += PERIOD;
            }
            Stop::Store { .. } => core.set_timer_line(false),
            Stop::Watch { .. } => break,
            stop => panic!("{stop:?}"),
        }
    }
    core.instructions() as f64 / begun.elapsed().as_secs_f64()
}

/// Runs the kernel on `rrs-lib` with its fastest memory. Returns instructions per second.
fn rrs(kernel: &Program) -> f64 {
    let mut memory = VecMemory::new(vec![0; RAM.size as usize / 4]);
    for (address, byte) in (KERNEL..).zip(kernel.bytes()) {
        assert!(memory.write_mem(address, MemAccessSize::Byte, u32::from(*byte)));
    }
    let mut hart = HartState::new();
    hart.pc = KERNEL;
    let begun = Instant::now();
    let mut executor = InstructionExecutor { mem: &mut memory, hart_state: &mut hart };
    let mut instructions = 0_u64;
    while executor.hart_state.pc != kernel.here() {
        executor.step().expect("the kernel runs");
        instructions += 1;
    }
    instructions as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let kernel = kernel();
    for design in Design::ALL {
        let runs: Vec<(f64, f64)> = (0..RUNS).map(|_| (model(design, &kernel), rrs(&kernel))).collect();
        let ours = median(runs.iter().map(|run| run.0).collect());
        let theirs = median(runs.iter().map(|run| run.1).collect());
        let ratio = median(runs.iter().map(|run| run.0 / run.1).collect());
        println!(
            "{:<14} {:.1} MIPS, rrs-lib {:.1} MIPS, ratio {ratio:.2} (medians of {RUNS} runs)",
            design.name(),
            ours / 1e6,
            theirs / 1e6
        );
    }
}
