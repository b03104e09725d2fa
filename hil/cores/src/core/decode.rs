//! Decodes instruction words into operations that execute without further bit tests.
//!
//! Compressed parcels are first expanded to the word they stand for, so there is one decoder. Encodings: the RISC-V Instruction
//! Set Manual, volume I. Encodings that no core here implements (reserved parcels, other extensions) are [`Kind::Illegal`].

/// The register slot for writes to x0, which are discarded.
pub(super) const NOWHERE: u8 = 32;

/// What an operation does. Operands are in [`Op`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Not decoded yet, or watched: must be looked up before execution.
    Unknown,
    Illegal,
    /// `rd = immediate`: `lui`, and `auipc`, whose result is known when it is decoded.
    Constant,
    Jal,
    Jalr,
    Beq,
    Bne,
    Blt,
    Bge,
    Bltu,
    Bgeu,
    Lb,
    Lh,
    Lw,
    Lbu,
    Lhu,
    Sb,
    Sh,
    Sw,
    Addi,
    Slti,
    Sltiu,
    Xori,
    Ori,
    Andi,
    Slli,
    Srli,
    Srai,
    Add,
    Sub,
    Sll,
    Slt,
    Sltu,
    Xor,
    Srl,
    Sra,
    Or,
    And,
    Mul,
    Mulh,
    Mulhsu,
    Mulhu,
    Div,
    Divu,
    Rem,
    Remu,
    Fence,
    FenceI,
    Ecall,
    Ebreak,
    Mret,
    Wfi,
    /// CSR access; `immediate` is the register's number, `rs1` the source register.
    Csrrw,
    Csrrs,
    Csrrc,
    /// CSR access with a five-bit constant, which is in `rs1`.
    Csrrwi,
    Csrrsi,
    Csrrci,
    // PicoRV32's own: its interrupt registers, return, mask, wait, and timer.
    Getq,
    Setq,
    Retirq,
    Maskirq,
    Waitirq,
    Timer,
}

/// Extends the bytes that a load of this kind has read, in the low bits of `value`, to 32 bits.
pub(super) fn extended(kind: Kind, value: u32) -> u32 {
    match kind {
        Kind::Lb => value as i8 as u32,
        Kind::Lh => value as i16 as u32,
        Kind::Lbu => value & 0xff,
        Kind::Lhu => value & 0xffff,
        _ => value,
    }
}

/// Position of the next instruction relative to a word boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// It begins at a word boundary.
    Word,
    /// It lies within the upper half of a word.
    Half,
    /// It straddles a word boundary.
    Split,
}

/// A decoded instruction at a known address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Op {
    /// A constant, an offset, or, for jumps and branches relative to pc, the target itself.
    pub(super) immediate: u32,
    pub(super) kind: Kind,
    /// Destination, 0 to 31; 32 in place of x0.
    pub(super) rd: u8,
    pub(super) rs1: u8,
    pub(super) rs2: u8,
    /// Bytes of the encoding: 2 or 4.
    pub(super) size: u8,
    /// The registers that it reads; x0 for each missing one.
    pub(super) sources: [u8; 2],
    /// The position of the next instruction in memory.
    pub(super) next: Next,
}

impl Op {
    /// The placeholder at addresses that have not been decoded.
    pub(super) const UNKNOWN: Self = Self {
        immediate: 0,
        kind: Kind::Unknown,
        rd: NOWHERE,
        rs1: 0,
        rs2: 0,
        size: 0,
        sources: [0; 2],
        next: Next::Word,
    };
}

/// Decodes the instruction at `pc` whose first two bytes are the low half of `word`; the high half matters only for
/// 32-bit instructions.
pub(super) fn decode(pc: u32, word: u32) -> Op {
    if is_compressed(word) {
        let expanded = expand(word as u16);
        Op { size: 2, ..expanded.map_or(Op { kind: Kind::Illegal, ..Op::UNKNOWN }, |word| decode_word(pc, word)) }
    } else {
        decode_word(pc, word)
    }
}

/// Whether the instruction that begins with these bits is a 16-bit one.
pub(super) fn is_compressed(word: u32) -> bool {
    word & 3 != 3
}

fn decode_word(pc: u32, word: u32) -> Op {
    let rd = (word >> 7 & 31) as u8;
    let funct3 = word >> 12 & 7;
    let funct7 = word >> 25;
    let i_immediate = (word as i32 >> 20) as u32;
    let (kind, immediate) = match word & 0x7f {
        0x37 => (Kind::Constant, word & 0xffff_f000),
        0x17 => (Kind::Constant, pc.wrapping_add(word & 0xffff_f000)),
        0x6f => (Kind::Jal, pc.wrapping_add(j_immediate(word))),
        0x67 if funct3 == 0 => (Kind::Jalr, i_immediate),
        0x63 => (branch(funct3), pc.wrapping_add(b_immediate(word))),
        0x03 => (load(funct3), i_immediate),
        0x23 => (store(funct3), i_immediate & !31 | word >> 7 & 31),
        0x13 => (arithmetic_immediate(funct3, funct7), if funct3 & 3 == 1 { word >> 20 & 31 } else { i_immediate }),
        0x33 => (arithmetic(funct3, funct7), 0),
        0x0f if funct3 == 0 => (Kind::Fence, 0),
        0x0f if funct3 == 1 => (Kind::FenceI, 0),
        0x73 => (system(word), word >> 20),
        0x0b => (custom(funct7), 0),
        _ => (Kind::Illegal, 0),
    };
    let (rs1, rs2) = ((word >> 15 & 31) as u8, (word >> 20 & 31) as u8);
    let sources = match word & 0x7f {
        _ if kind == Kind::Illegal => [0; 2],
        0x63 | 0x23 | 0x33 => [rs1, rs2],
        0x67 | 0x03 | 0x13 => [rs1, 0],
        0x73 if matches!(kind, Kind::Csrrw | Kind::Csrrs | Kind::Csrrc) => [rs1, 0],
        _ => [0; 2],
    };
    Op { immediate, kind, rd: if rd == 0 { NOWHERE } else { rd }, rs1, rs2, size: 4, sources, next: Next::Word }
}

fn j_immediate(word: u32) -> u32 {
    (word as i32 >> 11) as u32 & 0xfff0_0000 | word & 0x000f_f000 | word >> 9 & 0x800 | word >> 20 & 0x7fe
}

fn b_immediate(word: u32) -> u32 {
    (word as i32 >> 19) as u32 & 0xffff_f000 | word << 4 & 0x800 | word >> 20 & 0x7e0 | word >> 7 & 0x1e
}

fn branch(funct3: u32) -> Kind {
    match funct3 {
        0 => Kind::Beq,
        1 => Kind::Bne,
        4 => Kind::Blt,
        5 => Kind::Bge,
        6 => Kind::Bltu,
        7 => Kind::Bgeu,
        _ => Kind::Illegal,
    }
}

fn load(funct3: u32) -> Kind {
    match funct3 {
        0 => Kind::Lb,
        1 => Kind::Lh,
        2 => Kind::Lw,
        4 => Kind::Lbu,
        5 => Kind::Lhu,
        _ => Kind::Illegal,
    }
}

fn store(funct3: u32) -> Kind {
    match funct3 {
        0 => Kind::Sb,
        1 => Kind::Sh,
        2 => Kind::Sw,
        _ => Kind::Illegal,
    }
}

fn arithmetic_immediate(funct3: u32, funct7: u32) -> Kind {
    match (funct3, funct7) {
        (0, _) => Kind::Addi,
        (2, _) => Kind::Slti,
        (3, _) => Kind::Sltiu,
        (4, _) => Kind::Xori,
        (6, _) => Kind::Ori,
        (7, _) => Kind::Andi,
        (1, 0x00) => Kind::Slli,
        (5, 0x00) => Kind::Srli,
        (5, 0x20) => Kind::Srai,
        _ => Kind::Illegal,
    }
}

fn arithmetic(funct3: u32, funct7: u32) -> Kind {
    match (funct7, funct3) {
        (0x00, 0) => Kind::Add,
        (0x20, 0) => Kind::Sub,
        (0x00, 1) => Kind::Sll,
        (0x00, 2) => Kind::Slt,
        (0x00, 3) => Kind::Sltu,
        (0x00, 4) => Kind::Xor,
        (0x00, 5) => Kind::Srl,
        (0x20, 5) => Kind::Sra,
        (0x00, 6) => Kind::Or,
        (0x00, 7) => Kind::And,
        (0x01, 0) => Kind::Mul,
        (0x01, 1) => Kind::Mulh,
        (0x01, 2) => Kind::Mulhsu,
        (0x01, 3) => Kind::Mulhu,
        (0x01, 4) => Kind::Div,
        (0x01, 5) => Kind::Divu,
        (0x01, 6) => Kind::Rem,
        (0x01, 7) => Kind::Remu,
        _ => Kind::Illegal,
    }
}

fn system(word: u32) -> Kind {
    match (word >> 12 & 7, word) {
        (0, 0x0000_0073) => Kind::Ecall,
        (0, 0x0010_0073) => Kind::Ebreak,
        (0, 0x3020_0073) => Kind::Mret,
        (0, 0x1050_0073) => Kind::Wfi,
        (1, _) => Kind::Csrrw,
        (2, _) => Kind::Csrrs,
        (3, _) => Kind::Csrrc,
        (5, _) => Kind::Csrrwi,
        (6, _) => Kind::Csrrsi,
        (7, _) => Kind::Csrrci,
        _ => Kind::Illegal,
    }
}

/// PicoRV32's interrupt instructions: its README, chapter "Custom Instructions for IRQ Handling".
fn custom(funct7: u32) -> Kind {
    match funct7 {
        0 => Kind::Getq,
        1 => Kind::Setq,
        2 => Kind::Retirq,
        3 => Kind::Maskirq,
        4 => Kind::Waitirq,
        5 => Kind::Timer,
        _ => Kind::Illegal,
    }
}

/// The 32-bit instruction that a parcel stands for; `None` for reserved ones and those of other extensions.
fn expand(parcel: u16) -> Option<u32> {
    use super::assemble as a;
    let word = u32::from(parcel);
    let field = |high: u32, low: u32| word >> low & ((1 << (high - low + 1)) - 1);
    // `place` moves a bit of the parcel to a bit of the immediate; `sign` extends a bit to all higher ones.
    let place = |from: u32, to: u32| (word >> from & 1) << to;
    let sign = |from: u32, to: u32| if word >> from & 1 == 1 { u32::MAX << to } else { 0 };

    let (rd, rs2) = (field(11, 7), field(6, 2));
    let (short_high, short_low) = (8 + field(9, 7), 8 + field(4, 2));
    let six_bits = (sign(12, 5) | field(6, 2)) as i32;
    let near = field(12, 10) << 3 | place(6, 2) | place(5, 6);
    let far = (sign(12, 11)
        | place(11, 4)
        | field(10, 9) << 8
        | place(8, 10)
        | place(7, 6)
        | place(6, 7)
        | field(5, 3) << 1
        | place(2, 5)) as i32;
    let branch = (sign(12, 8) | field(11, 10) << 3 | field(6, 5) << 6 | field(4, 3) << 1 | place(2, 5)) as i32;

    Some(match (word & 3, word >> 13) {
        (0, 0) => {
            let value = field(12, 11) << 4 | field(10, 7) << 6 | place(6, 2) | place(5, 3);
            if value == 0 {
                return None;
            }
            a::addi(short_low, 2, value as i32)
        }
        (0, 2) => a::lw(short_low, short_high, near as i32),
        (0, 6) => a::sw(short_low, short_high, near as i32),
        (1, 0) => a::addi(rd, rd, six_bits),
        (1, 1) => a::jal(1, far),
        (1, 2) => a::addi(rd, 0, six_bits),
        (1, 3) if six_bits == 0 => return None,
        (1, 3) if rd == 2 => {
            let value = sign(12, 9) | place(6, 4) | place(5, 6) | field(4, 3) << 7 | place(2, 5);
            a::addi(2, 2, value as i32)
        }
        (1, 3) => a::lui(rd, (six_bits as u32) << 12),
        (1, 4) => match (field(11, 10), field(12, 12), field(6, 5)) {
            (0, 0, _) => a::srli(short_high, short_high, rs2),
            (1, 0, _) => a::srai(short_high, short_high, rs2),
            (2, _, _) => a::andi(short_high, short_high, six_bits),
            (3, 0, 0) => a::sub(short_high, short_high, short_low),
            (3, 0, 1) => a::xor(short_high, short_high, short_low),
            (3, 0, 2) => a::or(short_high, short_high, short_low),
            (3, 0, 3) => a::and(short_high, short_high, short_low),
            _ => return None,
        },
        (1, 5) => a::jal(0, far),
        (1, 6) => a::beq(short_high, 0, branch),
        (1, 7) => a::bne(short_high, 0, branch),
        (2, 0) if field(12, 12) == 0 => a::slli(rd, rd, rs2),
        (2, 2) if rd != 0 => a::lw(rd, 2, (field(6, 4) << 2 | place(12, 5) | field(3, 2) << 6) as i32),
        (2, 4) => match (field(12, 12), rd, rs2) {
            (0, 0, 0) => return None,
            (0, _, 0) => a::jalr(0, rd, 0),
            (0, _, _) => a::add(rd, 0, rs2),
            (_, 0, 0) => a::ebreak(),
            (_, _, 0) => a::jalr(1, rd, 0),
            (_, _, _) => a::add(rd, rd, rs2),
        },
        (2, 6) => a::sw(rs2, 2, (field(12, 9) << 2 | field(8, 7) << 6) as i32),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::assemble::*;
    use super::*;

    /// Every short form, with the long form that the manual's table of the C extension gives for it.
    #[test]
    fn parcels_expand_to_words() {
        let pairs = [
            (c_addi4spn(9, 1020), addi(9, 2, 1020)),
            (c_addi4spn(15, 4), addi(15, 2, 4)),
            (c_lw(8, 15, 124), lw(8, 15, 124)),
            (c_lw(8, 15, 64), lw(8, 15, 64)),
            (c_sw(9, 14, 4), sw(9, 14, 4)),
            (c_nop(), addi(0, 0, 0)),
            (c_addi(31, -32), addi(31, 31, -32)),
            (c_addi(1, 31), addi(1, 1, 31)),
            (c_jal(-2048), jal(1, -2048)),
            (c_jal(2046), jal(1, 2046)),
            (c_li(17, -1), addi(17, 0, -1)),
            (c_addi16sp(-512), addi(2, 2, -512)),
            (c_addi16sp(496), addi(2, 2, 496)),
            (c_lui(3, 0xfffe_0000), lui(3, 0xfffe_0000)),
            (c_lui(3, 0x0001_f000), lui(3, 0x0001_f000)),
            (c_srli(8, 31), srli(8, 8, 31)),
            (c_srai(15, 1), srai(15, 15, 1)),
            (c_andi(10, -2), andi(10, 10, -2)),
            (c_sub(8, 15), sub(8, 8, 15)),
            (c_xor(9, 14), xor(9, 9, 14)),
            (c_or(10, 13), or(10, 10, 13)),
            (c_and(11, 12), and(11, 11, 12)),
            (c_j(-2), jal(0, -2)),
            (c_j(1024), jal(0, 1024)),
            (c_beqz(8, -256), beq(8, 0, -256)),
            (c_bnez(15, 254), bne(15, 0, 254)),
            (c_slli(20, 31), slli(20, 20, 31)),
            (c_lwsp(21, 252), lw(21, 2, 252)),
            (c_jr(5), jalr(0, 5, 0)),
            (c_mv(6, 7), add(6, 0, 7)),
            (c_ebreak(), ebreak()),
            (c_jalr(5), jalr(1, 5, 0)),
            (c_add(6, 7), add(6, 6, 7)),
            (c_swsp(22, 252), sw(22, 2, 252)),
        ];
        for (short, long) in pairs {
            let expanded = expand(short).map(|word| format!("{word:08x}"));
            assert_eq!(expanded, Some(format!("{long:08x}")), "parcel {short:04x}");
            let (from_short, from_long) = (decode(0x1000, u32::from(short)), decode(0x1000, long));
            assert_eq!((from_short.size, from_long.size), (2, 4));
            assert_eq!(Op { size: 4, ..from_short }, from_long);
        }
    }

    /// Parcels that the manual reserves or gives to extensions that Ibex small lacks.
    #[test]
    fn reserved_parcels_are_illegal() {
        let reserved = [
            0x0000,           // the defined illegal instruction
            0x2000,           // floating-point load
            0x8000,           // quadrant 0, function 4
            0x6081,           // lui with a zero constant
            0x6101,           // addi16sp with zero
            0x9001 | 1 << 10, // shift by 32 or more
            0x9c01,           // subw of the 64-bit ISA
            0x1002,           // slli by 32 or more
            0x4002,           // lwsp to x0
            0x8002,           // jr x0
        ];
        for parcel in reserved {
            assert_eq!(decode(0, parcel).kind, Kind::Illegal, "{parcel:04x}");
        }
    }

    #[test]
    fn words_of_other_extensions_are_illegal() {
        for word in [0x0000_007f, 0x4000_1033, 0x0400_0033, 0x0000_3003, 0x0000_3023, 0x2000_5013, 0x7b20_0073, 0x8073]
        {
            assert_eq!(decode(0, word | 3).kind, Kind::Illegal, "{word:08x}");
        }
    }

    #[test]
    fn targets_are_absolute() {
        assert_eq!(decode(0x1000, jal(1, -0x1000)).immediate, 0);
        assert_eq!(decode(0x1000, beq(1, 2, -4096)).immediate, 0);
        assert_eq!(decode(0x1000, beq(1, 2, 4094)).immediate, 0x1ffe);
        assert_eq!(decode(0x1000, auipc(1, 0xffff_f000)).immediate, 0);
        assert_eq!(decode(0, jal(0, 0xf_fffe)).immediate, 0xf_fffe);
    }
}
