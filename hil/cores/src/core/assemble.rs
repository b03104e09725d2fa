//! A small RV32IMC + Zicsr assembler, with PicoRV32's own instructions: one function per instruction, named after it, and a
//! [`Program`] to put them in.
//!
//! It serves tests and generators of random programs, so operands are taken as they are: register numbers modulo 32
//! (modulo 8 above x8 in the short forms), immediates cut to the bits that the encoding has. Encodings: the RISC-V
//! Instruction Set Manual, volume I, chapters "RV32I", "M", "C" and "Zicsr".

/// An encoded instruction: a 16-bit parcel (`u16`) or a 32-bit word (`u32`).
pub trait Encoded {
    /// Appends the instruction to `bytes`, in memory order.
    fn append(self, bytes: &mut Vec<u8>);
}

impl Encoded for u16 {
    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
}

impl Encoded for u32 {
    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
}

/// Instructions in the order of memory, from a base address on.
#[derive(Clone, Debug, Default)]
pub struct Program {
    base: u32,
    bytes: Vec<u8>,
}

impl Program {
    /// An empty program that begins at `base`.
    #[must_use]
    pub fn at(base: u32) -> Self {
        Self { base, bytes: Vec::new() }
    }

    /// Appends an instruction (or a word of data) and returns its address.
    pub fn put(&mut self, instruction: impl Encoded) -> u32 {
        let address = self.here();
        instruction.append(&mut self.bytes);
        address
    }

    /// Appends `lui` and `addi` such that `rd` becomes `value`: always two words.
    pub fn load_immediate(&mut self, rd: u32, value: u32) -> u32 {
        let address = self.put(lui(rd, value.wrapping_add(0x800)));
        self.put(addi(rd, rd, value as i32));
        address
    }

    /// Fills with the two-byte `nop` up to `address`; does nothing if the program already reaches it.
    pub fn pad_to(&mut self, address: u32) {
        while self.here() < address {
            self.put(c_nop());
        }
    }

    /// Overwrites the instruction at `address`, which must have been put already. Used for branches to a later target.
    pub fn patch(&mut self, address: u32, instruction: impl Encoded) {
        let mut encoded = Vec::new();
        instruction.append(&mut encoded);
        let offset = address.wrapping_sub(self.base) as usize;
        let place = self.bytes.get_mut(offset..offset + encoded.len());
        place.expect("the patched instruction lies in the program").copy_from_slice(&encoded);
    }

    /// The address of the next instruction.
    #[must_use]
    pub fn here(&self) -> u32 {
        self.base.wrapping_add(self.bytes.len() as u32)
    }

    /// The address of the first instruction.
    #[must_use]
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The program's bytes, in the order of memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bits `high..=low` of `value`, moved down to bit 0.
const fn bits(value: u32, high: u32, low: u32) -> u32 {
    (value >> low) & (u32::MAX >> (31 - (high - low)))
}

const fn r_type(funct7: u32, funct3: u32, opcode: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    funct7 << 25 | bits(rs2, 4, 0) << 20 | bits(rs1, 4, 0) << 15 | funct3 << 12 | bits(rd, 4, 0) << 7 | opcode
}

const fn i_type(funct3: u32, opcode: u32, rd: u32, rs1: u32, immediate: u32) -> u32 {
    bits(immediate, 11, 0) << 20 | bits(rs1, 4, 0) << 15 | funct3 << 12 | bits(rd, 4, 0) << 7 | opcode
}

const fn s_type(funct3: u32, rs2: u32, rs1: u32, offset: i32) -> u32 {
    let offset = offset as u32;
    r_type(bits(offset, 11, 5), funct3, 0x23, offset, rs1, rs2)
}

const fn b_type(funct3: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let offset = offset as u32;
    let high = bits(offset, 12, 12) << 6 | bits(offset, 10, 5);
    r_type(high, funct3, 0x63, bits(offset, 4, 1) << 1 | bits(offset, 11, 11), rs1, rs2)
}

/// Defines one public function per instruction of a shape; the doc line is the assembly syntax.
macro_rules! instructions {
    ($($name:ident($($operand:ident: $type:ty),*) -> $output:ty = $code:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name) $(, " ", stringify!($operand))*, "`.")]
        #[must_use]
        pub const fn $name($($operand: $type),*) -> $output { $code }
    )*};
}

instructions! {
    lui(rd: u32, value: u32) -> u32 = value & 0xffff_f000 | bits(rd, 4, 0) << 7 | 0x37;
    auipc(rd: u32, value: u32) -> u32 = value & 0xffff_f000 | bits(rd, 4, 0) << 7 | 0x17;
    jal(rd: u32, offset: i32) -> u32 = {
        let offset = offset as u32;
        bits(offset, 20, 20) << 31 | bits(offset, 10, 1) << 21 | bits(offset, 11, 11) << 20
            | bits(offset, 19, 12) << 12 | bits(rd, 4, 0) << 7 | 0x6f
    };
    jalr(rd: u32, rs1: u32, offset: i32) -> u32 = i_type(0, 0x67, rd, rs1, offset as u32);

    beq(rs1: u32, rs2: u32, offset: i32) -> u32 = b_type(0, rs1, rs2, offset);
    bne(rs1: u32, rs2: u32, offset: i32) -> u32 = b_type(1, rs1, rs2, offset);
    blt(rs1: u32, rs2: u32, offset: i32) -> u32 = b_type(4, rs1, rs2, offset);
    bge(rs1: u32, rs2: u32, offset: i32) -> u32 = b_type(5, rs1, rs2, offset);
    bltu(rs1: u32, rs2: u32, offset: i32) -> u32 = b_type(6, rs1, rs2, offset);
    bgeu(rs1: u32, rs2: u32, offset: i32) -> u32 = b_type(7, rs1, rs2, offset);

    lb(rd: u32, rs1: u32, offset: i32) -> u32 = i_type(0, 0x03, rd, rs1, offset as u32);
    lh(rd: u32, rs1: u32, offset: i32) -> u32 = i_type(1, 0x03, rd, rs1, offset as u32);
    lw(rd: u32, rs1: u32, offset: i32) -> u32 = i_type(2, 0x03, rd, rs1, offset as u32);
    lbu(rd: u32, rs1: u32, offset: i32) -> u32 = i_type(4, 0x03, rd, rs1, offset as u32);
    lhu(rd: u32, rs1: u32, offset: i32) -> u32 = i_type(5, 0x03, rd, rs1, offset as u32);
    sb(rs2: u32, rs1: u32, offset: i32) -> u32 = s_type(0, rs2, rs1, offset);
    sh(rs2: u32, rs1: u32, offset: i32) -> u32 = s_type(1, rs2, rs1, offset);
    sw(rs2: u32, rs1: u32, offset: i32) -> u32 = s_type(2, rs2, rs1, offset);

    addi(rd: u32, rs1: u32, value: i32) -> u32 = i_type(0, 0x13, rd, rs1, value as u32);
    slti(rd: u32, rs1: u32, value: i32) -> u32 = i_type(2, 0x13, rd, rs1, value as u32);
    sltiu(rd: u32, rs1: u32, value: i32) -> u32 = i_type(3, 0x13, rd, rs1, value as u32);
    xori(rd: u32, rs1: u32, value: i32) -> u32 = i_type(4, 0x13, rd, rs1, value as u32);
    ori(rd: u32, rs1: u32, value: i32) -> u32 = i_type(6, 0x13, rd, rs1, value as u32);
    andi(rd: u32, rs1: u32, value: i32) -> u32 = i_type(7, 0x13, rd, rs1, value as u32);
    slli(rd: u32, rs1: u32, amount: u32) -> u32 = r_type(0x00, 1, 0x13, rd, rs1, amount);
    srli(rd: u32, rs1: u32, amount: u32) -> u32 = r_type(0x00, 5, 0x13, rd, rs1, amount);
    srai(rd: u32, rs1: u32, amount: u32) -> u32 = r_type(0x20, 5, 0x13, rd, rs1, amount);

    add(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 0, 0x33, rd, rs1, rs2);
    sub(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x20, 0, 0x33, rd, rs1, rs2);
    sll(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 1, 0x33, rd, rs1, rs2);
    slt(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 2, 0x33, rd, rs1, rs2);
    sltu(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 3, 0x33, rd, rs1, rs2);
    xor(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 4, 0x33, rd, rs1, rs2);
    srl(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 5, 0x33, rd, rs1, rs2);
    sra(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x20, 5, 0x33, rd, rs1, rs2);
    or(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 6, 0x33, rd, rs1, rs2);
    and(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x00, 7, 0x33, rd, rs1, rs2);
    mul(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 0, 0x33, rd, rs1, rs2);
    mulh(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 1, 0x33, rd, rs1, rs2);
    mulhsu(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 2, 0x33, rd, rs1, rs2);
    mulhu(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 3, 0x33, rd, rs1, rs2);
    div(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 4, 0x33, rd, rs1, rs2);
    divu(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 5, 0x33, rd, rs1, rs2);
    rem(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 6, 0x33, rd, rs1, rs2);
    remu(rd: u32, rs1: u32, rs2: u32) -> u32 = r_type(0x01, 7, 0x33, rd, rs1, rs2);

    getq(rd: u32, q: u32) -> u32 = r_type(0, 4, 0x0b, rd, q & 3, 0);
    setq(q: u32, rs1: u32) -> u32 = r_type(1, 2, 0x0b, q & 3, rs1, 0);
    retirq() -> u32 = r_type(2, 0, 0x0b, 0, 0, 0);
    maskirq(rd: u32, rs1: u32) -> u32 = r_type(3, 6, 0x0b, rd, rs1, 0);
    waitirq(rd: u32) -> u32 = r_type(4, 4, 0x0b, rd, 0, 0);
    timer(rd: u32, rs1: u32) -> u32 = r_type(5, 6, 0x0b, rd, rs1, 0);

    fence() -> u32 = 0x0ff0_000f;
    fence_i() -> u32 = 0x0000_100f;
    ecall() -> u32 = 0x0000_0073;
    ebreak() -> u32 = 0x0010_0073;
    mret() -> u32 = 0x3020_0073;
    wfi() -> u32 = 0x1050_0073;
    csrrw(rd: u32, csr: u32, rs1: u32) -> u32 = i_type(1, 0x73, rd, rs1, csr);
    csrrs(rd: u32, csr: u32, rs1: u32) -> u32 = i_type(2, 0x73, rd, rs1, csr);
    csrrc(rd: u32, csr: u32, rs1: u32) -> u32 = i_type(3, 0x73, rd, rs1, csr);
    csrrwi(rd: u32, csr: u32, value: u32) -> u32 = i_type(5, 0x73, rd, value, csr);
    csrrsi(rd: u32, csr: u32, value: u32) -> u32 = i_type(6, 0x73, rd, value, csr);
    csrrci(rd: u32, csr: u32, value: u32) -> u32 = i_type(7, 0x73, rd, value, csr);
}

/// A short-form parcel from its 3-bit function, its 11 bits between, and its quadrant.
const fn parcel(funct3: u32, middle: u32, quadrant: u32) -> u16 {
    (funct3 << 13 | middle << 2 | quadrant) as u16
}

/// The six-bit immediate of the CI format, around the register field.
const fn ci(register: u32, immediate: u32) -> u32 {
    bits(immediate, 5, 5) << 10 | bits(register, 4, 0) << 5 | bits(immediate, 4, 0)
}

/// A CB-format operation on one of x8 to x15, with a six-bit immediate.
const fn cb(funct2: u32, register: u32, immediate: u32) -> u32 {
    bits(immediate, 5, 5) << 10 | funct2 << 8 | bits(register, 2, 0) << 5 | bits(immediate, 4, 0)
}

/// A CA-format operation on two of x8 to x15.
const fn ca(funct2: u32, rd: u32, rs2: u32) -> u32 {
    0b011 << 8 | bits(rd, 2, 0) << 5 | funct2 << 3 | bits(rs2, 2, 0)
}

/// The offset and registers of the word load and store between two of x8 to x15.
const fn cl(register: u32, base: u32, offset: u32) -> u32 {
    bits(offset, 5, 3) << 8
        | bits(base, 2, 0) << 5
        | bits(offset, 2, 2) << 4
        | bits(offset, 6, 6) << 3
        | bits(register, 2, 0)
}

const fn cj(offset: i32) -> u32 {
    let offset = offset as u32;
    bits(offset, 11, 11) << 10
        | bits(offset, 4, 4) << 9
        | bits(offset, 9, 8) << 7
        | bits(offset, 10, 10) << 6
        | bits(offset, 6, 6) << 5
        | bits(offset, 7, 7) << 4
        | bits(offset, 3, 1) << 1
        | bits(offset, 5, 5)
}

const fn cbranch(register: u32, offset: i32) -> u32 {
    let offset = offset as u32;
    bits(offset, 8, 8) << 10
        | bits(offset, 4, 3) << 8
        | bits(register, 2, 0) << 5
        | bits(offset, 7, 6) << 3
        | bits(offset, 2, 1) << 1
        | bits(offset, 5, 5)
}

instructions! {
    c_addi4spn(rd: u32, value: u32) -> u16 = parcel(
        0,
        bits(value, 5, 4) << 9 | bits(value, 9, 6) << 5 | bits(value, 2, 2) << 4 | bits(value, 3, 3) << 3
            | bits(rd, 2, 0),
        0,
    );
    c_lw(rd: u32, rs1: u32, offset: u32) -> u16 = parcel(2, cl(rd, rs1, offset), 0);
    c_sw(rs2: u32, rs1: u32, offset: u32) -> u16 = parcel(6, cl(rs2, rs1, offset), 0);
    c_nop() -> u16 = parcel(0, 0, 1);
    c_addi(rd: u32, value: i32) -> u16 = parcel(0, ci(rd, value as u32), 1);
    c_jal(offset: i32) -> u16 = parcel(1, cj(offset), 1);
    c_li(rd: u32, value: i32) -> u16 = parcel(2, ci(rd, value as u32), 1);
    c_addi16sp(value: i32) -> u16 = {
        let value = value as u32;
        let low = bits(value, 4, 4) << 4 | bits(value, 6, 6) << 3 | bits(value, 8, 7) << 1 | bits(value, 5, 5);
        parcel(3, bits(value, 9, 9) << 10 | 2 << 5 | low, 1)
    };
    c_lui(rd: u32, value: u32) -> u16 = parcel(3, ci(rd, bits(value, 17, 12)), 1);
    c_srli(rd: u32, amount: u32) -> u16 = parcel(4, cb(0, rd, bits(amount, 4, 0)), 1);
    c_srai(rd: u32, amount: u32) -> u16 = parcel(4, cb(1, rd, bits(amount, 4, 0)), 1);
    c_andi(rd: u32, value: i32) -> u16 = parcel(4, cb(2, rd, value as u32), 1);
    c_sub(rd: u32, rs2: u32) -> u16 = parcel(4, ca(0, rd, rs2), 1);
    c_xor(rd: u32, rs2: u32) -> u16 = parcel(4, ca(1, rd, rs2), 1);
    c_or(rd: u32, rs2: u32) -> u16 = parcel(4, ca(2, rd, rs2), 1);
    c_and(rd: u32, rs2: u32) -> u16 = parcel(4, ca(3, rd, rs2), 1);
    c_j(offset: i32) -> u16 = parcel(5, cj(offset), 1);
    c_beqz(rs1: u32, offset: i32) -> u16 = parcel(6, cbranch(rs1, offset), 1);
    c_bnez(rs1: u32, offset: i32) -> u16 = parcel(7, cbranch(rs1, offset), 1);
    c_slli(rd: u32, amount: u32) -> u16 = parcel(0, ci(rd, bits(amount, 4, 0)), 2);
    c_lwsp(rd: u32, offset: u32) -> u16 = parcel(
        2,
        bits(offset, 5, 5) << 10 | bits(rd, 4, 0) << 5 | bits(offset, 4, 2) << 2 | bits(offset, 7, 6),
        2,
    );
    c_jr(rs1: u32) -> u16 = parcel(4, bits(rs1, 4, 0) << 5, 2);
    c_mv(rd: u32, rs2: u32) -> u16 = parcel(4, bits(rd, 4, 0) << 5 | bits(rs2, 4, 0), 2);
    c_ebreak() -> u16 = parcel(4, 1 << 10, 2);
    c_jalr(rs1: u32) -> u16 = parcel(4, 1 << 10 | bits(rs1, 4, 0) << 5, 2);
    c_add(rd: u32, rs2: u32) -> u16 = parcel(4, 1 << 10 | bits(rd, 4, 0) << 5 | bits(rs2, 4, 0), 2);
    c_swsp(rs2: u32, offset: u32) -> u16 = parcel(
        6,
        bits(offset, 5, 2) << 7 | bits(offset, 7, 6) << 5 | bits(rs2, 4, 0),
        2,
    );
}

/// Numbers of the control and status registers that programs here use (privileged manual, volume II, section 2.2).
pub mod csr {
    /// Machine status: MIE is bit 3, MPIE bit 7, MPP bits 11 and 12.
    pub const MSTATUS: u32 = 0x300;
    /// Interrupt enables: the machine timer is bit 7.
    pub const MIE: u32 = 0x304;
    /// Trap vector.
    pub const MTVEC: u32 = 0x305;
    /// Scratch word.
    pub const MSCRATCH: u32 = 0x340;
    /// Address to return to.
    pub const MEPC: u32 = 0x341;
    /// Cause of the trap.
    pub const MCAUSE: u32 = 0x342;
    /// Value that belongs to the trap.
    pub const MTVAL: u32 = 0x343;
    /// Interrupts pending.
    pub const MIP: u32 = 0x344;
    /// Cycles, low word.
    pub const MCYCLE: u32 = 0xb00;
    /// Instructions retired, low word.
    pub const MINSTRET: u32 = 0xb02;
    /// The same, high word.
    pub const MINSTRETH: u32 = 0xb82;
    /// A bit for each counter that stands still.
    pub const MCOUNTINHIBIT: u32 = 0x320;
    /// Cycles, for a program without privilege.
    pub const CYCLE: u32 = 0xc00;
    /// The same, high word.
    pub const CYCLEH: u32 = 0xc80;
    /// Instructions retired, for a program without privilege.
    pub const INSTRET: u32 = 0xc02;
    /// The same, high word.
    pub const INSTRETH: u32 = 0xc82;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that the GNU assembler and the manual's own examples give.
    #[test]
    fn words_equal_those_of_the_manual() {
        assert_eq!(addi(0, 0, 0), 0x0000_0013, "nop");
        assert_eq!(addi(2, 2, -16), 0xff01_0113, "addi sp, sp, -16");
        assert_eq!(sw(1, 2, 12), 0x0011_2623, "sw ra, 12(sp)");
        assert_eq!(lw(1, 2, 12), 0x00c1_2083, "lw ra, 12(sp)");
        assert_eq!(jalr(0, 1, 0), 0x0000_8067, "ret");
        assert_eq!(bne(10, 0, -4), 0xfe05_1ee3, "bnez a0, .-4");
        assert_eq!(jal(1, 2048), 0x0010_00ef, "jal ra, .+2048");
        assert_eq!(lui(5, 0x1234_5fff), 0x1234_52b7, "lui t0, 0x12345");
        assert_eq!(mul(10, 10, 11), 0x02b5_0533, "mul a0, a0, a1");
        assert_eq!(csrrsi(0, csr::MSTATUS, 8), 0x3004_6073, "csrsi mstatus, 8");
        assert_eq!(csrrw(0, csr::MTVEC, 5), 0x3052_9073, "csrw mtvec, t0");
        assert_eq!(srai(10, 10, 3), 0x4035_5513, "srai a0, a0, 3");
    }

    /// The words that the macros in PicoRV32's firmware/custom_ops.S give.
    #[test]
    fn interrupt_words_equal_those_of_picorv32() {
        assert_eq!(getq(2, 0), 0x0000_410b);
        assert_eq!(setq(2, 1), 0x0200_a10b);
        assert_eq!(retirq(), 0x0400_000b);
        assert_eq!(maskirq(10, 11), 0x0605_e50b);
        assert_eq!(waitirq(10), 0x0800_450b);
        assert_eq!(timer(10, 11), 0x0a05_e50b);
    }

    /// Parcels that the GNU assembler gives.
    #[test]
    fn parcels_equal_those_of_the_manual() {
        assert_eq!(c_nop(), 0x0001);
        assert_eq!(c_addi(2, -16), 0x1141, "c.addi sp, -16");
        assert_eq!(c_addi16sp(-64), 0x7139, "c.addi16sp sp, -64");
        assert_eq!(c_addi4spn(10, 16), 0x0808, "c.addi4spn a0, sp, 16");
        assert_eq!(c_swsp(1, 12), 0xc606, "c.swsp ra, 12(sp)");
        assert_eq!(c_lwsp(1, 12), 0x40b2, "c.lwsp ra, 12(sp)");
        assert_eq!(c_jr(1), 0x8082, "ret");
        assert_eq!(c_mv(10, 11), 0x852e, "c.mv a0, a1");
        assert_eq!(c_add(10, 11), 0x952e, "c.add a0, a1");
        assert_eq!(c_lw(10, 11, 4), 0x41c8, "c.lw a0, 4(a1)");
        assert_eq!(c_sw(10, 11, 4), 0xc1c8, "c.sw a0, 4(a1)");
        assert_eq!(c_li(10, -1), 0x557d, "c.li a0, -1");
        assert_eq!(c_lui(10, 0x1000), 0x6505, "c.lui a0, 1");
        assert_eq!(c_beqz(10, 8), 0xc501, "c.beqz a0, .+8");
        assert_eq!(c_bnez(10, -2), 0xfd7d, "c.bnez a0, .-2");
        assert_eq!(c_j(0), 0xa001, "c.j .");
        assert_eq!(c_sub(8, 9), 0x8c05, "c.sub s0, s1");
        assert_eq!(c_ebreak(), 0x9002);
    }

    #[test]
    fn a_program_loads_any_constant() {
        let mut program = Program::at(0x100);
        assert_eq!(program.load_immediate(5, 0xdead_beef), 0x100);
        assert_eq!(program.here(), 0x108);
        assert_eq!(program.bytes()[..4], lui(5, 0xdead_c000).to_le_bytes());
        assert_eq!(program.bytes()[4..], addi(5, 5, -273).to_le_bytes());
    }
}
