//! The most cycles that a function can take, over all paths through its code.

use super::Timing;
use super::decode::{Kind, NOWHERE, Op, decode};
use crate::elf::Image;
use hil_sorted::SortedMap;

/// The register of the return address, x1.
const RA: u8 = 1;

/// The most cycles from the first instruction of the function at `entry` to the first one after its return, on a core of two
/// stages without wait states and interrupts. All accesses are assumed to be aligned, as those of compiled code are, and every
/// device to respond at once. All paths through the code count, also those that no values can take.
///
/// `None` if the code loops, is recursive, or calls through a register: then the code alone gives no bound.
#[must_use]
pub fn worst(image: &Image, entry: u32, timing: &Timing) -> Option<u64> {
    let mut paths = Paths { image, timing, worst: SortedMap::new() };
    // With a writeback stage or wait states, the cost of an instruction depends on those before it.
    (!timing.writeback && timing.fetch_wait == 0 && timing.data_wait == 0).then_some(())?;
    paths.from(entry)
}

struct Paths<'a> {
    image: &'a Image,
    timing: &'a Timing,
    /// Most cycles from an instruction to the return; `None` while it is being computed, and finally if there is no bound.
    worst: SortedMap<u32, Option<u64>>,
}

impl Paths<'_> {
    fn from(&mut self, pc: u32) -> Option<u64> {
        if let Some(&known) = self.worst.get(&pc) {
            return known;
        }
        self.worst.insert(pc, None);
        let found = self.through(pc);
        self.worst.insert(pc, found);
        found
    }

    fn through(&mut self, pc: u32) -> Option<u64> {
        let timing = self.timing;
        let op = self.op(pc)?;
        let next = pc + u32::from(op.size);
        match op.kind {
            Kind::Beq | Kind::Bne | Kind::Blt | Kind::Bge | Kind::Bltu | Kind::Bgeu => {
                let falls = timing.alu + self.from(next)?;
                let taken = timing.branch_taken + self.entered(op.immediate)?;
                Some(falls.max(taken))
            }
            Kind::Jal if op.rd == RA => Some(timing.jump + self.entered(op.immediate)? + self.entered(next)?),
            Kind::Jal if op.rd == NOWHERE => Some(timing.jump + self.entered(op.immediate)?),
            // A call with another return register, which compiled code does not contain.
            Kind::Jal => None,
            // A return; its caller counts the first instruction there.
            Kind::Jalr if op.rs1 == RA && op.rd != RA && op.immediate == 0 => Some(timing.jump),
            Kind::Jalr => match self.constant_before(pc, op.rs1) {
                Some(base) => {
                    let target = self.entered(base.wrapping_add(op.immediate))?;
                    let rest = if op.rd == RA { self.entered(next)? } else { 0 };
                    Some(timing.jump + target + rest)
                }
                None if op.rd != NOWHERE => None,
                None => Some(timing.jump + self.table(pc)?),
            },
            Kind::Unknown | Kind::Illegal | Kind::Ecall | Kind::Ebreak | Kind::Mret | Kind::Wfi => None,
            kind => Some(cost(timing, kind)? + self.from(next)?),
        }
    }

    /// As [`Paths::from`], at the target of a jump.
    fn entered(&mut self, pc: u32) -> Option<u64> {
        let split = pc & 2 != 0 && self.op(pc)?.size == 4;
        Some(self.from(pc)? + if split { self.timing.split_target } else { 0 })
    }

    /// The worst of the targets in the jump tables of the function around `pc`.
    fn table(&mut self, pc: u32) -> Option<u64> {
        let image = self.image;
        // Symbols with these prefixes are labels inside functions.
        let is_function = |name: &str| !name.starts_with(['.', '$']);
        let starts = || image.symbols.iter().filter(|(name, _)| is_function(name)).map(|(_, &start)| start);
        let start = starts().filter(|&start| start <= pc).max()?;
        let end = starts().filter(|&start| start > pc).min().unwrap_or(u32::MAX);
        // A word that is an even address in the first megabytes is an entry of a jump table: a 32-bit instruction is an odd
        // word, and two 16-bit instructions make a larger number.
        let words = image.segments.iter().flat_map(|segment| segment.bytes.chunks_exact(4));
        let words = words.map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)));
        let targets: Vec<u32> = words.filter(|word| word & 1 == 0 && (start..end).contains(word)).collect();
        targets.into_iter().map(|target| self.entered(target)).reduce(|one, other| Some(one?.max(other?)))?
    }

    /// The constant that `auipc` or `lui` right before `pc` writes to a register.
    fn constant_before(&self, pc: u32, register: u8) -> Option<u32> {
        let before = self.op(pc.wrapping_sub(4))?;
        (before.kind == Kind::Constant && before.size == 4 && before.rd == register).then_some(before.immediate)
    }

    fn op(&self, pc: u32) -> Option<Op> {
        let byte = |at: u32| {
            let mut holders = self.image.segments.iter().filter(|segment| at >= segment.address);
            holders.find_map(|segment| segment.bytes.get((at - segment.address) as usize)).copied()
        };
        let half = |at: u32| Some(u32::from(u16::from_le_bytes([byte(at)?, byte(at.checked_add(1)?)?])));
        let low = half(pc)?;
        Some(decode(pc, low | half(pc.checked_add(2)?).unwrap_or(0) << 16))
    }
}

/// Cycles of an instruction that is not a jump, call or return.
fn cost(timing: &Timing, kind: Kind) -> Option<u64> {
    Some(match kind {
        Kind::Lb | Kind::Lh | Kind::Lw | Kind::Lbu | Kind::Lhu => timing.load,
        Kind::Sb | Kind::Sh | Kind::Sw => timing.store,
        Kind::Mul => timing.mul,
        Kind::Mulh | Kind::Mulhsu | Kind::Mulhu => timing.mulh,
        Kind::Div | Kind::Divu | Kind::Rem | Kind::Remu => timing.div,
        Kind::FenceI => timing.jump,
        Kind::Csrrw | Kind::Csrrs | Kind::Csrrc | Kind::Csrrwi | Kind::Csrrsi | Kind::Csrrci => timing.csr_flush,
        Kind::Getq | Kind::Setq | Kind::Retirq | Kind::Maskirq | Kind::Waitirq | Kind::Timer => return None,
        _ => timing.alu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Segment;

    fn image(words: &[u32]) -> Image {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = bytes.len() as u32;
        let segments = vec![Segment { load_address: 0x10_0000, address: 0x10_0000, bytes, size }];
        Image { entry: 0x10_0000, segments, symbols: SortedMap::from([("f".to_owned(), 0x10_0000)]) }
    }

    fn bound(words: &[u32]) -> Option<u64> {
        worst(&image(words), 0x10_0000, &Timing::IBEX_SMALL)
    }

    #[test]
    fn the_longer_of_two_paths_counts() {
        // beq a0,zero,+8; divu a0,a0,a1; ret: one and 37 and 2, or 3 and 2.
        assert_eq!(bound(&[0x0005_0463, 0x02b5_5533, 0x0000_8067]), Some(40));
        // beq a0,zero,+8; nop; ret: taken.
        assert_eq!(bound(&[0x0005_0463, 0x0000_0013, 0x0000_8067]), Some(5));
    }

    #[test]
    fn calls_are_followed_and_loops_have_no_bound() {
        // jal ra,+8; ret; lw a0,0(a0); ret
        assert_eq!(bound(&[0x0080_00ef, 0x0000_8067, 0x0005_2503, 0x0000_8067]), Some(2 + 4 + 2));
        // beq a0,zero,0; ret
        assert_eq!(bound(&[0x0005_0063, 0x0000_8067]), None);
        // jr a0, with a table that names the last instruction.
        assert_eq!(bound(&[0x0005_0067, 0x0010_0008, 0x0000_8067]), Some(4));
        assert_eq!(bound(&[0x0005_0067, 0x0000_8067]), None, "without one");
    }
}
