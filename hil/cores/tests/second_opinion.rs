//! Compares the core models with a second model of the instruction set, `rrs-lib`, on random RV32IM programs: registers and
//! memory must be the same at the end.

use hil_cores::core::assemble::*;
use hil_cores::core::{Core, Design, Ram, Stop};
use proptest::prelude::*;
use rrs_lib::instruction_executor::InstructionExecutor;
use rrs_lib::{HartState, MemAccessSize, Memory};

const RAM: Ram = Ram { base: 0x1000, size: 0x4000 };
/// Loads and stores go to the 2,048 bytes from this address on.
const DATA: u32 = 0x3000;
/// The register that holds [`DATA`]; random instructions do not write it.
const DATA_BASE: u32 = 31;
const EXIT: u32 = 0x8000_0000;

/// One random instruction: its kind, its registers, and a number for its immediate or offset.
#[derive(Clone, Copy, Debug)]
struct Choice {
    kind: u32,
    rd: u32,
    rs1: u32,
    rs2: u32,
    number: i32,
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let choice = (0_u32..43, 0..DATA_BASE, 0_u32..32, 0_u32..32, any::<i32>());
    let choice = choice.prop_map(|(kind, rd, rs1, rs2, number)| Choice { kind, rd, rs1, rs2, number });
    proptest::collection::vec(choice, 1..200)
}

impl Choice {
    /// The instruction, `left` instructions before the end: branches and jumps go forward, at most that far.
    fn encode(self, left: usize) -> u32 {
        let Self { kind, rd, rs1, rs2, number } = self;
        let amount = number as u32 & 31;
        let skip = 4 * (1 + (number as u32 % 8).min(left as u32)) as i32;
        let place = |width: i32| (number & 0x7ff) & !(width - 1);
        match kind {
            0 => lui(rd, number as u32),
            1 => auipc(rd, number as u32),
            2 => jal(rd, skip),
            3 => beq(rs1, rs2, skip),
            4 => bne(rs1, rs2, skip),
            5 => blt(rs1, rs2, skip),
            6 => bge(rs1, rs2, skip),
            7 => bltu(rs1, rs2, skip),
            8 => bgeu(rs1, rs2, skip),
            9 => lb(rd, DATA_BASE, place(1)),
            10 => lh(rd, DATA_BASE, place(2)),
            11 => lw(rd, DATA_BASE, place(4)),
            12 => lbu(rd, DATA_BASE, place(1)),
            13 => lhu(rd, DATA_BASE, place(2)),
            14 => sb(rs2, DATA_BASE, place(1)),
            15 => sh(rs2, DATA_BASE, place(2)),
            16 => sw(rs2, DATA_BASE, place(4)),
            17 => addi(rd, rs1, number),
            18 => slti(rd, rs1, number),
            19 => sltiu(rd, rs1, number),
            20 => xori(rd, rs1, number),
            21 => ori(rd, rs1, number),
            22 => andi(rd, rs1, number),
            23 => slli(rd, rs1, amount),
            24 => srli(rd, rs1, amount),
            25 => srai(rd, rs1, amount),
            26 => add(rd, rs1, rs2),
            27 => sub(rd, rs1, rs2),
            28 => sll(rd, rs1, rs2),
            29 => slt(rd, rs1, rs2),
            30 => sltu(rd, rs1, rs2),
            31 => xor(rd, rs1, rs2),
            32 => srl(rd, rs1, rs2),
            33 => sra(rd, rs1, rs2),
            34 => or(rd, rs1, rs2),
            35 => mul(rd, rs1, rs2),
            36 => mulh(rd, rs1, rs2),
            37 => mulhsu(rd, rs1, rs2),
            38 => mulhu(rd, rs1, rs2),
            39 => div(rd, rs1, rs2),
            40 => divu(rd, rs1, rs2),
            41 => rem(rd, rs1, rs2),
            _ => remu(rd, rs1, rs2),
        }
    }
}

/// The program: registers x1 to x30 loaded with `values`, then the instructions.
fn assemble(values: &[u32], choices: &[Choice]) -> Program {
    let mut program = Program::at(RAM.base);
    for (register, value) in (1..).zip(values) {
        program.load_immediate(register, *value);
    }
    program.load_immediate(DATA_BASE, DATA);
    for (index, choice) in choices.iter().enumerate() {
        program.put(choice.encode(choices.len() - index - 1));
    }
    program
}

struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn read_mem(&mut self, address: u32, size: MemAccessSize) -> Option<u32> {
        let bytes = self.0.get(address.wrapping_sub(RAM.base) as usize..)?;
        Some(match size {
            MemAccessSize::Byte => u32::from(*bytes.first()?),
            MemAccessSize::HalfWord => u32::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            MemAccessSize::Word => u32::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    fn write_mem(&mut self, address: u32, size: MemAccessSize, value: u32) -> bool {
        let width = match size {
            MemAccessSize::Byte => 1,
            MemAccessSize::HalfWord => 2,
            MemAccessSize::Word => 4,
        };
        let offset = address.wrapping_sub(RAM.base) as usize;
        let place = self.0.get_mut(offset..offset + width);
        place.map(|place| place.copy_from_slice(&value.to_le_bytes()[..width])).is_some()
    }
}

/// Registers and memory at the end of the run on the second model.
fn opinion(program: &Program) -> ([u32; 32], Vec<u8>) {
    let mut memory = Bytes(vec![0; RAM.size as usize]);
    memory.0[..program.bytes().len()].copy_from_slice(program.bytes());
    let mut hart = HartState::new();
    hart.pc = program.base();
    while hart.pc != program.here() {
        let step = InstructionExecutor { mem: &mut memory, hart_state: &mut hart }.step();
        assert!(step.is_ok(), "{step:?}");
    }
    (std::array::from_fn(|index| hart.registers[index]), memory.0)
}

/// Registers and memory at the end of the run on the core model, which executes up to the store to the exit after the program.
fn ours(program: &Program, design: Design, wait: u64) -> ([u32; 32], Vec<u8>) {
    let mut core = design.model(&[RAM], EXIT..EXIT + 4, wait, program.base());
    core.poke(program.base(), program.bytes());
    core.watch(program.here());
    assert_eq!(core.run(1_000_000), Stop::Watch { pc: program.here() });
    let mut memory = vec![0; RAM.size as usize];
    core.peek(RAM.base, &mut memory);
    (std::array::from_fn(|index| core.register(index)), memory)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn both_models_agree(
        values in proptest::collection::vec(prop_oneof![any::<u32>(), Just(0), Just(1 << 31), Just(u32::MAX)], 30),
        choices in choices(),
    ) {
        let program = assemble(&values, &choices);
        let (registers, memory) = opinion(&program);
        for (design, wait) in Design::ALL.into_iter().flat_map(|design| [(design, 0), (design, 2)]) {
            let (our_registers, our_memory) = ours(&program, design, wait);
            prop_assert_eq!(registers, our_registers);
            prop_assert!(memory == our_memory, "memories differ");
        }
    }
}
