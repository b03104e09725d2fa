//! Seeded random programs that cover the instruction set, to be run on two cores and compared.
//!
//! A program uses all of [`RAM`]: vectors and handlers first, then the body, then data. It reports its results by stores to
//! [`DEVICE`]: markers in the body, the return address at every interrupt, and at the end [`EXIT`]. [`super::play`] raises the
//! interrupts; the program's handlers acknowledge them.

use crate::random::SplitMix;
use std::fmt;

use crate::core::assemble::{self as asm, Encoded, csr};
use crate::core::{Dialect, Ram};

/// The RAM: 64 KiB.
pub const RAM: Ram = Ram { base: 0x0010_0000, size: 0x0001_0000 };
/// The device region: 4 KiB.
pub const DEVICE: std::ops::Range<u32> = 0x8000_0000..0x8000_1000;
/// Stores here and in the next 15 bytes are markers.
pub const MARKER: u32 = DEVICE.start;
/// A store here lowers the timer line.
pub const TIMER_ACKNOWLEDGE: u32 = DEVICE.start + 0x10;
/// A store here lowers the external line.
pub const EXTERNAL_ACKNOWLEDGE: u32 = DEVICE.start + 0x14;
/// The interrupt handlers store their return address here.
pub const RETURN: u32 = DEVICE.start + 0x18;
/// A store here ends the program.
pub const EXIT: u32 = DEVICE.start + 0x20;
/// Loads from here on read values that [`super::play`] supplies.
pub const INPUT: u32 = DEVICE.start + 0x40;

/// Instructions in a body, at least.
pub const LENGTH: usize = 220;

/// The trap vectors: exceptions first, the machine timer's at 4 x 7, the external one's at 4 x 11. PicoRV32 has one, at 16,
/// and begins here.
const VECTORS: u32 = RAM.base;
/// The first instruction.
const ENTRY: u32 = RAM.base + 0x200;
/// Middle of the data, where loads and stores land, within 1,024 bytes.
const DATA: u32 = RAM.base + 0xc000;

const SP: u32 = 2;
/// Points into the data for the short loads and stores.
const SHORT_BASE: u32 = 9;
/// Loop counter: a register that short branches can test.
const ROUNDS: u32 = 15;
/// The two registers of the handlers.
const TRAP: [u32; 2] = [26, 27];
const DATA_BASE: u32 = 30;
const DEVICE_BASE: u32 = 31;
const RESERVED: [u32; 7] = [SP, SHORT_BASE, ROUNDS, TRAP[0], TRAP[1], DATA_BASE, DEVICE_BASE];

/// A program in RAM, and its assembly text.
#[derive(Clone, Debug)]
pub struct Program {
    code: asm::Program,
    listing: Vec<(u32, String)>,
    names: Vec<&'static str>,
    watched: Vec<u32>,
    entry: u32,
}

impl Program {
    /// An empty program.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        let entry = if dialect == Dialect::Picorv32 { RAM.base } else { ENTRY };
        Self { code: asm::Program::at(RAM.base), listing: Vec::new(), names: Vec::new(), watched: Vec::new(), entry }
    }

    /// Address of the program.
    #[must_use]
    pub fn base(&self) -> u32 {
        self.code.base()
    }

    /// Its first instruction.
    #[must_use]
    pub fn entry(&self) -> u32 {
        self.entry
    }

    /// Its bytes from [`Program::base`] on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.code.bytes()
    }

    /// The instructions by name, in the order of memory.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Instructions at which a run is to stop.
    #[must_use]
    pub fn watched(&self) -> &[u32] {
        &self.watched
    }

    /// The address of the next instruction.
    #[must_use]
    pub fn here(&self) -> u32 {
        self.code.here()
    }

    /// Appends an instruction that reads as `text`, whose first word is its name.
    pub fn put(&mut self, name: &'static str, text: String, instruction: impl Encoded) -> u32 {
        let address = self.code.put(instruction);
        self.names.push(name);
        self.listing.push((address, text));
        address
    }

    /// Replaces the instruction at `address`, whose target is known only now.
    fn patch(&mut self, address: u32, text: String, instruction: impl Encoded) {
        self.code.patch(address, instruction);
        if let Ok(line) = self.listing.binary_search_by_key(&address, |line| line.0) {
            self.listing[line].1 = text;
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (address, text) in &self.listing {
            writeln!(f, "{address:8x}: {text}")?;
        }
        Ok(())
    }
}

/// An assembler function and its name.
type Named<F> = (&'static str, F);

/// An instruction of three operands.
type ThreeOperands = fn(u32, u32, u32) -> u32;

/// A table of assembler functions of one shape.
macro_rules! table {
    ($table:ident: $shape:ty = $($name:ident)*) => {
        const $table: &[Named<$shape>] = &[$((stringify!($name), asm::$name)),*];
    };
}

table!(REGISTERS: ThreeOperands = add sub sll slt sltu xor srl sra or and);
table!(MULTIPLY: ThreeOperands = mul mulh mulhsu mulhu);
table!(DIVIDE: ThreeOperands = div divu rem remu);
table!(IMMEDIATE: fn(u32, u32, i32) -> u32 = addi slti sltiu xori ori andi);
table!(SHIFT: fn(u32, u32, u32) -> u32 = slli srli srai);
table!(UPPER: fn(u32, u32) -> u32 = lui auipc);
table!(LOAD: fn(u32, u32, i32) -> u32 = lb lh lw lbu lhu);
table!(STORE: fn(u32, u32, i32) -> u32 = sb sh sw);
table!(BRANCH: fn(u32, u32, i32) -> u32 = beq bne blt bge bltu bgeu);
table!(CSR: ThreeOperands = csrrw csrrs csrrc csrrwi csrrsi csrrci);
table!(CSR_READ: ThreeOperands = csrrs csrrc csrrsi csrrci);
table!(SHORT_REGISTERS: fn(u32, u32) -> u16 = c_sub c_xor c_or c_and);
table!(SHORT_MOVE: fn(u32, u32) -> u16 = c_mv c_add);
table!(SHORT_IMMEDIATE: fn(u32, i32) -> u16 = c_addi c_li);
table!(SHORT_SHIFT: fn(u32, u32) -> u16 = c_srli c_srai);
table!(SHORT_BRANCH: fn(u32, i32) -> u16 = c_beqz c_bnez);
table!(PLAIN: fn() -> u32 = fence fence_i);

/// PicoRV32's counters.
const COUNTERS: [u32; 4] = [csr::CYCLE, csr::CYCLEH, csr::INSTRET, csr::INSTRETH];

/// Registers whose reading has no side effect and whose value both cores must agree on.
const READABLE: [u32; 12] = [
    csr::MSTATUS,
    csr::MIE,
    csr::MTVEC,
    csr::MSCRATCH,
    csr::MEPC,
    csr::MCAUSE,
    csr::MTVAL,
    csr::MIP,
    csr::MCYCLE,
    csr::MINSTRET,
    csr::MSTATUS,
    csr::MEPC,
];
/// Registers to which a program may write any value.
const WRITABLE: [u32; 7] =
    [csr::MSCRATCH, csr::MEPC, csr::MTVAL, csr::MCYCLE, csr::MINSTRET, csr::MINSTRETH, csr::MCOUNTINHIBIT];

/// The registers of [`READABLE`] that have the same value on every core with machine mode.
const EVERYWHERE: [u32; 6] = [csr::MSTATUS, csr::MIE, csr::MTVEC, csr::MSCRATCH, csr::MEPC, csr::MIP];

/// `mstatus.MIE`.
const INTERRUPTS: u32 = 1 << 3;
/// `mstatus.MPIE`.
const PREVIOUS: u32 = 1 << 7;
/// `mstatus.MPP` of machine mode.
const MACHINE: u32 = 3 << 11;
/// `mie.MTIE`.
const TIMER: u32 = 1 << 7;
/// `mie.MEIE`.
const EXTERNAL: u32 = 1 << 11;

/// Interrupts that PicoRV32 raises itself: its timer, and `ebreak` and its like.
const OWN: u32 = 0b11;

/// The program that belongs to `seed`.
#[must_use]
pub fn generate(dialect: Dialect, seed: u64) -> Program {
    let mut generator = Generator { dialect, random: SplitMix::new(seed), program: Program::new(dialect) };
    match dialect {
        Dialect::Machine | Dialect::Vexriscv => generator.handlers(),
        Dialect::Picorv32 => generator.handler(),
    }
    generator.prologue();
    let start = generator.program.names.len();
    while generator.program.names.len() < start + LENGTH {
        generator.item();
    }
    generator.epilogue();
    generator.watch();
    generator.program
}

struct Generator {
    dialect: Dialect,
    random: SplitMix,
    program: Program,
}

impl Generator {
    fn handlers(&mut self) {
        let exception = VECTORS + 0x40;
        let timer = VECTORS + 0x80 + 2 * self.random.below(2);
        let external = VECTORS + 0x100 + 2 * self.random.below(2);
        for (vector, handler) in [(0, exception), (4 * 7, timer), (4 * 11, external)] {
            self.pad(VECTORS + vector);
            let name = self.random.pick(&["jal", "c_j"]);
            self.jump_to(name, handler);
        }
        self.pad(exception);
        self.exception_handler();
        self.pad(timer);
        self.interrupt_handler(TIMER_ACKNOWLEDGE);
        self.pad(external);
        self.interrupt_handler(EXTERNAL_ACKNOWLEDGE);
    }

    /// The beginning of the program, and PicoRV32's one handler, which reads q1 for the interrupts to acknowledge.
    fn handler(&mut self) {
        let [a, b] = TRAP;
        let handler = VECTORS + 0x40 + 2 * self.random.below(2);
        self.jump_to("jal", ENTRY);
        self.pad(VECTORS + 0x10);
        let name = self.random.pick(&["jal", "c_j"]);
        self.jump_to(name, handler);
        self.pad(handler);
        self.word("getq", format!("x{a}, q0"), asm::getq(a, 0));
        self.word("sw", format!("x{a}, RETURN"), asm::sw(a, DEVICE_BASE, (RETURN - DEVICE.start) as i32));
        self.word("getq", format!("x{b}, q1"), asm::getq(b, 1));
        self.word("sw", format!("x{b}, RETURN"), asm::sw(b, DEVICE_BASE, (RETURN - DEVICE.start) as i32));
        for (bit, acknowledge) in [(TIMER, TIMER_ACKNOWLEDGE), (EXTERNAL, EXTERNAL_ACKNOWLEDGE)] {
            self.constant(a, bit);
            self.word("and", format!("x{a}, x{a}, x{b}"), asm::and(a, a, b));
            self.word("beq", format!("x{a}, x0, +8"), asm::beq(a, 0, 8));
            let offset = acknowledge - DEVICE.start;
            self.word("sw", format!("x{b}, ACKNOWLEDGE"), asm::sw(b, DEVICE_BASE, offset as i32));
        }
        for _ in 0..self.random.below(4) {
            match self.random.below(4) {
                0 => self.word("lw", format!("x{b}, 4(x{DATA_BASE})"), asm::lw(b, DATA_BASE, 4)),
                1 => self.word("mul", format!("x{b}, x{a}, x{b}"), asm::mul(b, a, b)),
                2 => self.csr("csrrs", asm::csrrs, b, csr::CYCLE, 0),
                _ => self.short("c_addi", format!("x{b}, 1"), asm::c_addi(b, 1)),
            }
        }
        self.word("retirq", String::new(), asm::retirq());
    }

    /// Writes the exception handler, which returns to the instruction after the one that raised the exception: 2 bytes after it
    /// if that is a short one, else 4.
    fn exception_handler(&mut self) {
        let [a, b] = TRAP;
        self.csr("csrrs", asm::csrrs, a, csr::MEPC, 0);
        self.word("lhu", format!("x{b}, 0(x{a})"), asm::lhu(b, a, 0));
        self.word("andi", format!("x{b}, x{b}, 3"), asm::andi(b, b, 3));
        self.word("addi", format!("x{b}, x{b}, -3"), asm::addi(b, b, -3));
        self.word("addi", format!("x{a}, x{a}, 2"), asm::addi(a, a, 2));
        self.word("bne", format!("x{b}, x0, +6"), asm::bne(b, 0, 6));
        self.short("c_addi", format!("x{a}, 2"), asm::c_addi(a, 2));
        self.csr("csrrw", asm::csrrw, 0, csr::MEPC, a);
        self.word("mret", String::new(), asm::mret());
    }

    fn interrupt_handler(&mut self, acknowledge: u32) {
        let [a, b] = TRAP;
        self.csr("csrrs", asm::csrrs, a, csr::MEPC, 0);
        self.word("sw", format!("x{a}, RETURN"), asm::sw(a, DEVICE_BASE, (RETURN - DEVICE.start) as i32));
        let acknowledged = self.random.below(4);
        for step in 0..4 {
            if step == acknowledged {
                let offset = acknowledge - DEVICE.start;
                self.word("sw", format!("x{b}, ACKNOWLEDGE"), asm::sw(b, DEVICE_BASE, offset as i32));
            }
            match self.random.below(6) {
                0 => self.word("lw", format!("x{b}, 4(x{DATA_BASE})"), asm::lw(b, DATA_BASE, 4)),
                1 => self.word("sw", format!("x{a}, 4(x{DATA_BASE})"), asm::sw(a, DATA_BASE, 4)),
                2 => self.word("mul", format!("x{b}, x{a}, x{b}"), asm::mul(b, a, b)),
                3 => self.csr("csrrs", asm::csrrs, b, csr::MCYCLE, 0),
                4 => self.csr("csrrs", asm::csrrs, b, csr::MCAUSE, 0),
                _ => self.short("c_addi", format!("x{b}, 1"), asm::c_addi(b, 1)),
            }
        }
        self.word("mret", String::new(), asm::mret());
    }

    fn prologue(&mut self) {
        self.pad(ENTRY);
        self.constant(SP, DATA);
        self.constant(SHORT_BASE, DATA + 64);
        self.constant(DATA_BASE, DATA);
        self.constant(DEVICE_BASE, DEVICE.start);
        if self.dialect != Dialect::Picorv32 {
            let register = self.target();
            self.constant(register, VECTORS | 1);
            self.csr("csrrw", asm::csrrw, 0, csr::MTVEC, register);
            self.constant(register, TIMER | EXTERNAL);
            self.csr("csrrw", asm::csrrw, 0, csr::MIE, register);
            if self.dialect == Dialect::Vexriscv {
                // Its value after reset depends on the core.
                self.constant(register, MACHINE | PREVIOUS);
                self.csr("csrrw", asm::csrrw, 0, csr::MSTATUS, register);
            }
        }
        for register in (1..32).filter(|register| !RESERVED.contains(register)) {
            let value = match self.random.below(6) {
                0 => 0,
                1 => u32::MAX,
                2 => 1 << 31,
                3 => self.random.below(16),
                _ => self.random.draw() as u32,
            };
            self.constant(register, value);
        }
        match self.dialect {
            Dialect::Machine | Dialect::Vexriscv => self.csr("csrrsi", asm::csrrsi, 0, csr::MSTATUS, INTERRUPTS),
            Dialect::Picorv32 => self.mask(!(TIMER | EXTERNAL | OWN)),
        }
    }

    /// Sets the mask of interrupts that are not taken.
    fn mask(&mut self, mask: u32) {
        let (register, rd) = (self.target(), self.target());
        self.constant(register, mask);
        self.word("maskirq", format!("x{rd}, x{register}"), asm::maskirq(rd, register));
    }

    /// Writes the end of the program: reports every register by a store, then exits.
    fn epilogue(&mut self) {
        for register in 0..32 {
            self.word("sw", format!("x{register}, MARKER"), asm::sw(register, DEVICE_BASE, 0));
        }
        self.word("sw", "x0, EXIT".into(), asm::sw(0, DEVICE_BASE, (EXIT - DEVICE.start) as i32));
        let here = self.program.here();
        self.jump_to("jal", here);
    }

    /// Chooses some instructions to stop at, from the entry on.
    fn watch(&mut self) {
        let addresses = self.program.listing.iter().map(|line| line.0).filter(|&address| address >= ENTRY);
        let addresses: Vec<u32> = addresses.collect();
        self.program.watched = (0..6).map(|_| self.random.pick(&addresses)).collect();
    }

    /// One step of the body: straight-line code, or a construct around some of it.
    fn item(&mut self) {
        match self.random.below(24) {
            0..=2 => self.branch_over(),
            3 => self.jump_over(),
            4 => self.loop_around(),
            5 => self.marker(),
            6 => self.input(),
            7 => match (self.random.below(4), self.dialect) {
                (0, _) => self.trap(),
                (1, Dialect::Machine | Dialect::Vexriscv) => self.return_over(),
                (2, Dialect::Machine) => self.sleep(),
                (_, Dialect::Machine | Dialect::Vexriscv) => self.interrupt_enable(),
                (1, Dialect::Picorv32) => self.count_down(),
                (2, Dialect::Picorv32) => {
                    let rd = self.target();
                    self.word("waitirq", format!("x{rd}"), asm::waitirq(rd));
                }
                (_, Dialect::Picorv32) => {
                    let masked = self.random.pick(&[TIMER, EXTERNAL, TIMER | EXTERNAL, 1]);
                    self.mask(masked | !(TIMER | EXTERNAL | OWN));
                    self.some_simple(6);
                    self.mask(!(TIMER | EXTERNAL | OWN));
                }
            },
            _ => self.simple(),
        }
    }

    /// A few instructions without a change of flow.
    fn simple(&mut self) {
        let (rd, rs1, rs2) = (self.target(), self.source(), self.source());
        match self.random.below(32) {
            0..=4 => self.registers(REGISTERS, rd, rs1, rs2),
            5 => self.registers(MULTIPLY, rd, rs1, rs2),
            6 => self.registers(DIVIDE, rd, rs1, rs2),
            7..=8 => {
                let (name, function) = self.random.pick(IMMEDIATE);
                let value = self.random.below(4096) as i32 - 2048;
                self.word(name, format!("x{rd}, x{rs1}, {value}"), function(rd, rs1, value));
            }
            9 => {
                let (name, function) = self.random.pick(SHIFT);
                let amount = self.random.below(32);
                self.word(name, format!("x{rd}, x{rs1}, {amount}"), function(rd, rs1, amount));
            }
            10 => {
                let (name, function) = self.random.pick(UPPER);
                let value = self.random.draw() as u32 & 0xffff_f000;
                self.word(name, format!("x{rd}, {value:#x}"), function(rd, value));
            }
            11..=13 => {
                let (name, function) = self.random.pick(LOAD);
                let offset = self.offset(name);
                self.word(name, format!("x{rd}, {offset}(x{DATA_BASE})"), function(rd, DATA_BASE, offset));
            }
            14..=16 => {
                let (name, function) = self.random.pick(STORE);
                let offset = self.offset(name);
                self.word(name, format!("x{rs1}, {offset}(x{DATA_BASE})"), function(rs1, DATA_BASE, offset));
            }
            17 | 18 if self.dialect == Dialect::Picorv32 => self.own(rd, rs1),
            19 if self.dialect == Dialect::Picorv32 => self.word("fence", String::new(), asm::fence()),
            17 => {
                let (name, function) = self.random.pick(CSR);
                let register =
                    if self.dialect == Dialect::Vexriscv { csr::MSCRATCH } else { self.random.pick(&WRITABLE) };
                self.csr(name, function, rd, register, rs1);
            }
            18 => {
                let (name, function) = self.random.pick(CSR_READ);
                let register = if self.dialect == Dialect::Vexriscv {
                    self.random.pick(&EVERYWHERE)
                } else {
                    self.random.pick(&READABLE)
                };
                self.csr(name, function, rd, register, 0);
            }
            19 => {
                let (name, function) = self.random.pick(PLAIN);
                self.word(name, String::new(), function());
            }
            _ => self.short_simple(),
        }
    }

    /// An offset into the data, by which a load or store of that name may cross a word if the dialect lets it.
    fn offset(&mut self, name: &str) -> i32 {
        let offset = self.random.below(256) as i32 - 128;
        match (self.dialect, name) {
            (Dialect::Machine, _) | (_, "lb" | "lbu" | "sb") => offset,
            (_, "lw" | "sw") => offset & !3,
            _ => offset & !1,
        }
    }

    /// An access to a counter, or to an interrupt register that the handler does not use.
    fn own(&mut self, rd: u32, rs1: u32) {
        let q = 2 + self.random.below(2);
        match self.random.below(4) {
            0 => self.word("getq", format!("x{rd}, q{q}"), asm::getq(rd, q)),
            1 => self.word("setq", format!("q{q}, x{rs1}"), asm::setq(q, rs1)),
            _ => {
                let register = self.random.pick(&COUNTERS);
                self.csr("csrrs", asm::csrrs, rd, register, 0);
            }
        }
    }

    /// Sets PicoRV32's timer, which interrupts soon.
    fn count_down(&mut self) {
        let (register, rd) = (self.target(), self.target());
        let cycles = self.random.below(60);
        self.constant(register, cycles);
        self.word("timer", format!("x{rd}, x{register}"), asm::timer(rd, register));
    }

    fn registers(&mut self, table: &[Named<ThreeOperands>], rd: u32, rs1: u32, rs2: u32) {
        let (name, function) = self.random.pick(table);
        self.word(name, format!("x{rd}, x{rs1}, x{rs2}"), function(rd, rs1, rs2));
    }

    /// As [`Generator::simple`], in 16 bits.
    fn short_simple(&mut self) {
        let (rd, rs) = (self.target(), self.nonzero_source());
        let (short_rd, short_rs) = (self.short_target(), 8 + self.random.below(8));
        let value = self.random.below(64) as i32 - 32;
        let amount = 1 + self.random.below(31);
        match self.random.below(14) {
            0..=2 => {
                let (name, function) = self.random.pick(SHORT_MOVE);
                self.short(name, format!("x{rd}, x{rs}"), function(rd, rs));
            }
            3..=4 => {
                let (name, function) = self.random.pick(SHORT_REGISTERS);
                self.short(name, format!("x{short_rd}, x{short_rs}"), function(short_rd, short_rs));
            }
            5 => {
                let (name, function) = self.random.pick(SHORT_IMMEDIATE);
                self.short(name, format!("x{rd}, {value}"), function(rd, value));
            }
            6 => self.short("c_andi", format!("x{short_rd}, {value}"), asm::c_andi(short_rd, value)),
            7 => {
                let (name, function) = self.random.pick(SHORT_SHIFT);
                self.short(name, format!("x{short_rd}, {amount}"), function(short_rd, amount));
            }
            8 => self.short("c_slli", format!("x{rd}, {amount}"), asm::c_slli(rd, amount)),
            9 => {
                let value = (1 + self.random.below(63)) << 12;
                self.short("c_lui", format!("x{rd}, {value:#x}"), asm::c_lui(rd, value));
            }
            10 => {
                let value = 4 * amount;
                self.short("c_addi4spn", format!("x{short_rd}, {value}"), asm::c_addi4spn(short_rd, value));
            }
            11 => {
                let offset = 4 * self.random.below(32);
                match self.random.below(4) {
                    0 => {
                        let text = format!("x{short_rd}, {offset}(x{SHORT_BASE})");
                        self.short("c_lw", text, asm::c_lw(short_rd, SHORT_BASE, offset));
                    }
                    1 => {
                        let text = format!("x{short_rs}, {offset}(x{SHORT_BASE})");
                        self.short("c_sw", text, asm::c_sw(short_rs, SHORT_BASE, offset));
                    }
                    2 => self.short("c_lwsp", format!("x{rd}, {offset}"), asm::c_lwsp(rd, offset)),
                    _ => self.short("c_swsp", format!("x{rs}, {offset}"), asm::c_swsp(rs, offset)),
                }
            }
            12 => {
                let value = 16 * (1 + self.random.below(8) as i32);
                self.short("c_addi16sp", format!("{value}"), asm::c_addi16sp(value));
                self.short("c_addi16sp", format!("{}", -value), asm::c_addi16sp(-value));
            }
            _ => self.short("c_nop", String::new(), asm::c_nop()),
        }
    }

    fn some_simple(&mut self, at_most: u32) {
        for _ in 0..self.random.below(at_most + 1) {
            self.simple();
        }
    }

    /// A branch over a few instructions, taken or not depending on the registers.
    fn branch_over(&mut self) {
        let at = self.program.here();
        if self.random.below(2) == 0 {
            let (name, function) = self.random.pick(SHORT_BRANCH);
            let register = 8 + self.random.below(8);
            self.short(name, String::new(), function(register, 2));
            self.some_simple(5);
            let target = self.program.here();
            let instruction = function(register, target.wrapping_sub(at) as i32);
            self.program.patch(at, format!("{name} x{register}, {target:#x}"), instruction);
        } else {
            let (name, function) = self.random.pick(BRANCH);
            let (rs1, rs2) = (self.source(), self.source());
            self.word(name, String::new(), function(rs1, rs2, 4));
            self.some_simple(5);
            let target = self.program.here();
            let instruction = function(rs1, rs2, target.wrapping_sub(at) as i32);
            self.program.patch(at, format!("{name} x{rs1}, x{rs2}, {target:#x}"), instruction);
        }
    }

    /// A jump of a random kind over a few instructions.
    fn jump_over(&mut self) {
        let link = if self.random.below(2) == 0 { 0 } else { self.target() };
        let register = self.target();
        let start = self.program.here();
        let kind = self.random.below(6);
        match kind {
            0 => self.word("jal", String::new(), asm::jal(link, 4)),
            1 => self.short("c_j", String::new(), asm::c_j(2)),
            2 => self.short("c_jal", String::new(), asm::c_jal(2)),
            3 => {
                self.word("auipc", format!("x{register}, 0"), asm::auipc(register, 0));
                self.word("jalr", String::new(), asm::jalr(link, register, 8));
            }
            _ => {
                self.word("auipc", format!("x{register}, 0"), asm::auipc(register, 0));
                self.word("addi", String::new(), asm::addi(register, register, 0));
                if kind == 4 {
                    self.short("c_jr", format!("x{register}"), asm::c_jr(register));
                } else {
                    self.short("c_jalr", format!("x{register}"), asm::c_jalr(register));
                }
            }
        }
        self.some_simple(4);
        let target = self.program.here();
        let offset = target.wrapping_sub(start) as i32;
        match kind {
            0 => self.program.patch(start, format!("jal x{link}, {target:#x}"), asm::jal(link, offset)),
            1 => self.program.patch(start, format!("c_j {target:#x}"), asm::c_j(offset)),
            2 => self.program.patch(start, format!("c_jal {target:#x}"), asm::c_jal(offset)),
            3 => {
                // The lowest bit of the sum is dropped.
                let offset = offset + self.random.below(2) as i32;
                let text = format!("jalr x{link}, {offset}(x{register})");
                self.program.patch(start + 4, text, asm::jalr(link, register, offset));
            }
            _ => {
                let text = format!("addi x{register}, x{register}, {offset}");
                self.program.patch(start + 4, text, asm::addi(register, register, offset));
            }
        }
    }

    fn loop_around(&mut self) {
        let rounds = 2 + self.random.below(4) as i32;
        self.short("c_li", format!("x{ROUNDS}, {rounds}"), asm::c_li(ROUNDS, rounds));
        let target = self.program.here();
        for _ in 0..1 + self.random.below(5) {
            match self.random.below(6) {
                0 => self.branch_over(),
                1 => self.marker(),
                _ => self.simple(),
            }
        }
        self.short("c_addi", format!("x{ROUNDS}, -1"), asm::c_addi(ROUNDS, -1));
        let offset = target.wrapping_sub(self.program.here()) as i32;
        if offset >= -256 && self.random.below(2) == 0 {
            self.short("c_bnez", format!("x{ROUNDS}, {target:#x}"), asm::c_bnez(ROUNDS, offset));
        } else {
            self.word("bne", format!("x{ROUNDS}, x0, {target:#x}"), asm::bne(ROUNDS, 0, offset));
        }
    }

    fn marker(&mut self) {
        let register = self.source();
        let (name, function) = self.random.pick(STORE);
        let offset = match name {
            "sw" => 4 * self.random.below(4),
            "sh" => 2 * self.random.below(8),
            _ => self.random.below(16),
        } as i32;
        self.word(name, format!("x{register}, MARKER+{offset}"), function(register, DEVICE_BASE, offset));
    }

    fn input(&mut self) {
        let register = self.target();
        let (name, function) = self.random.pick(LOAD);
        let offset = match name {
            "lw" => 4 * self.random.below(4),
            "lh" | "lhu" => 2 * self.random.below(8),
            _ => self.random.below(16),
        };
        let address = INPUT - DEVICE.start + offset;
        self.word(name, format!("x{register}, INPUT+{offset}"), function(register, DEVICE_BASE, address as i32));
    }

    fn trap(&mut self) {
        match self.random.below(4) {
            0 => self.word("ecall", String::new(), asm::ecall()),
            // On a core without machine mode, its instructions are illegal too.
            3 if self.dialect == Dialect::Picorv32 => self.word("wfi", String::new(), asm::wfi()),
            1 => self.word("ebreak", String::new(), asm::ebreak()),
            _ => self.short("c_ebreak", String::new(), asm::c_ebreak()),
        }
    }

    /// `mret` over a few instructions, with interrupts off until then, and on or off after it.
    fn return_over(&mut self) {
        let register = self.target();
        self.csr("csrrci", asm::csrrci, 0, csr::MSTATUS, INTERRUPTS);
        self.constant(register, MACHINE | PREVIOUS);
        self.csr("csrrs", asm::csrrs, 0, csr::MSTATUS, register);
        if self.random.below(4) == 0 {
            self.constant(register, PREVIOUS);
            self.csr("csrrc", asm::csrrc, 0, csr::MSTATUS, register);
        }
        let start = self.program.here();
        self.word("auipc", format!("x{register}, 0"), asm::auipc(register, 0));
        self.word("addi", String::new(), asm::addi(register, register, 0));
        self.csr("csrrw", asm::csrrw, 0, csr::MEPC, register);
        self.word("mret", String::new(), asm::mret());
        self.some_simple(3);
        let offset = self.program.here().wrapping_sub(start) as i32;
        let text = format!("addi x{register}, x{register}, {offset}");
        self.program.patch(start + 4, text, asm::addi(register, register, offset));
    }

    /// `wfi`, with the timer enabled so that it ends.
    fn sleep(&mut self) {
        let register = self.target();
        self.constant(register, TIMER);
        self.csr("csrrs", asm::csrrs, 0, csr::MIE, register);
        self.word("wfi", String::new(), asm::wfi());
    }

    /// Disables or enables interrupts by one of the possible instructions, mostly for a few instructions only.
    fn interrupt_enable(&mut self) {
        let register = self.target();
        let rd = self.target();
        match self.random.below(6) {
            0 => {
                self.csr("csrrci", asm::csrrci, rd, csr::MSTATUS, INTERRUPTS);
                self.some_simple(6);
                self.csr("csrrsi", asm::csrrsi, rd, csr::MSTATUS, INTERRUPTS);
            }
            1 => {
                self.constant(register, INTERRUPTS);
                self.csr("csrrc", asm::csrrc, rd, csr::MSTATUS, register);
                self.some_simple(6);
                self.constant(register, INTERRUPTS);
                self.csr("csrrs", asm::csrrs, rd, csr::MSTATUS, register);
            }
            2 => {
                let lines = self.random.pick(&[TIMER, EXTERNAL, TIMER | EXTERNAL]);
                self.constant(register, lines);
                self.csr("csrrc", asm::csrrc, rd, csr::MIE, register);
                self.some_simple(6);
                self.constant(register, lines);
                self.csr("csrrs", asm::csrrs, rd, csr::MIE, register);
            }
            3 => {
                self.csr("csrrwi", asm::csrrwi, rd, csr::MSTATUS, 0);
                self.some_simple(6);
                self.csr("csrrwi", asm::csrrwi, rd, csr::MSTATUS, INTERRUPTS);
            }
            4 => {
                self.csr("csrrwi", asm::csrrwi, rd, csr::MIE, 0);
                self.some_simple(6);
                self.constant(register, TIMER | EXTERNAL);
                self.csr("csrrw", asm::csrrw, rd, csr::MIE, register);
            }
            _ => self.csr("csrrsi", asm::csrrsi, rd, csr::MSTATUS, INTERRUPTS),
        }
    }

    /// A register that may be overwritten.
    fn target(&mut self) -> u32 {
        loop {
            let register = 1 + self.random.below(31);
            if !RESERVED.contains(&register) {
                return register;
            }
        }
    }

    /// As [`Generator::target`], among those that short instructions reach.
    fn short_target(&mut self) -> u32 {
        loop {
            let register = 8 + self.random.below(8);
            if !RESERVED.contains(&register) {
                return register;
            }
        }
    }

    fn source(&mut self) -> u32 {
        self.random.below(32)
    }

    fn nonzero_source(&mut self) -> u32 {
        1 + self.random.below(31)
    }

    fn constant(&mut self, register: u32, value: u32) {
        let upper = value.wrapping_add(0x800) & 0xffff_f000;
        self.word("lui", format!("x{register}, {upper:#x}"), asm::lui(register, upper));
        let low = value.wrapping_sub(upper) as i32;
        self.word("addi", format!("x{register}, x{register}, {low}"), asm::addi(register, register, low));
    }

    fn csr(&mut self, name: &'static str, function: ThreeOperands, rd: u32, register: u32, operand: u32) {
        self.word(name, format!("x{rd}, {register:#x}, {operand}"), function(rd, register, operand));
    }

    fn jump_to(&mut self, name: &'static str, target: u32) {
        let offset = target.wrapping_sub(self.program.here()) as i32;
        if name == "c_j" {
            self.short(name, format!("{target:#x}"), asm::c_j(offset));
        } else {
            self.word(name, format!("x0, {target:#x}"), asm::jal(0, offset));
        }
    }

    fn pad(&mut self, address: u32) {
        while self.program.here() < address {
            self.short("c_nop", String::new(), asm::c_nop());
        }
    }

    fn word(&mut self, name: &'static str, operands: String, instruction: u32) {
        self.program.put(name, format!("{name} {operands}"), instruction);
    }

    fn short(&mut self, name: &'static str, operands: String, instruction: u16) {
        self.program.put(name, format!("{name} {operands}"), instruction);
    }
}

#[cfg(test)]
mod tests {
    use hil_sorted::SortedSet;

    use super::*;

    /// Every instruction, except hints, that RV32IMC, Zicsr, Zifencei and machine mode define and the assembler has a name for.
    const ALL: &str = "
        lui auipc jal jalr beq bne blt bge bltu bgeu lb lh lw lbu lhu sb sh sw addi slti sltiu xori ori andi slli srli srai
        add sub sll slt sltu xor srl sra or and fence fence_i ecall ebreak mul mulh mulhsu mulhu div divu rem remu csrrw
        csrrs csrrc csrrwi csrrsi csrrci mret wfi c_addi4spn c_lw c_sw c_nop c_addi c_jal c_li c_addi16sp c_lui c_srli
        c_srai c_andi c_sub c_xor c_or c_and c_j c_beqz c_bnez c_slli c_lwsp c_jr c_mv c_ebreak c_jalr c_add c_swsp";

    #[test]
    fn programs_cover_the_instruction_set() {
        let programs: Vec<Program> = (0..40).map(|seed| generate(Dialect::Machine, seed)).collect();
        let names: SortedSet<&str> = programs.iter().flat_map(|program| program.names()).copied().collect();
        assert_eq!(names, ALL.split_whitespace().collect());

        let programs: Vec<Program> = (0..40).map(|seed| generate(Dialect::Picorv32, seed)).collect();
        let names: SortedSet<&str> = programs.iter().flat_map(|program| program.names()).copied().collect();
        let missing = ["fence_i", "mret", "csrrw", "csrrc", "csrrwi", "csrrsi", "csrrci"];
        let own = ["getq", "setq", "retirq", "maskirq", "waitirq", "timer"];
        assert_eq!(names, ALL.split_whitespace().filter(|name| !missing.contains(name)).chain(own).collect());
    }

    #[test]
    fn programs_are_long_fit_their_memory_and_depend_on_the_seed_alone() {
        for seed in 0..40 {
            let program = generate(Dialect::Machine, seed);
            let body = program.listing.iter().filter(|line| line.0 >= ENTRY);
            assert!(body.count() >= LENGTH, "seed {seed}");
            assert!(program.here() < DATA - 1024, "seed {seed}");
            assert_eq!(program.bytes(), generate(Dialect::Machine, seed).bytes(), "seed {seed}");
        }
        assert_ne!(generate(Dialect::Machine, 1).bytes(), generate(Dialect::Machine, 2).bytes());
    }
}
