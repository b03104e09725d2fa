//! The most stack that linked code can need, from the stack frame of each function and the call graph.
//!
//! Stack frames are those that the compiler reports in its remarks (`-C remark=prologepilog`). Precompiled routines of the
//! target have none: for those, all instructions that lower the stack pointer by a constant are added up, which is an upper
//! bound over all paths. The call graph comes from the linker's relocations (`--emit-relocs`): every reference from code to a
//! function counts as a call. Code that stores or passes a function's address, and tables of such addresses, are errors: their
//! callers are unknown.

use anyhow::{Context, Result, bail, ensure};
use hil_sorted::{SortedMap, SortedSet};
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionKind, SymbolKind, elf,
};

/// Stack bytes of functions as the compiler reports them, by their names in the object file.
#[derive(Clone, Debug, Default)]
pub struct Frames(SortedMap<String, u64>);

impl Frames {
    /// Reads the remarks in the compiler's output; other lines are ignored.
    pub fn from_remarks(text: &str) -> Self {
        let mut frames = SortedMap::new();
        for line in text.lines() {
            let Some((before, after)) = line.split_once(" stack bytes in function '") else { continue };
            let bytes = before.rsplit(' ').next().and_then(|bytes| bytes.parse().ok());
            if let (Some(bytes), Some((name, _))) = (bytes, after.split_once('\'')) {
                frames.insert(name.to_owned(), bytes);
            }
        }
        Self(frames)
    }

    /// Whether the compiler reported no function.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug)]
struct Function {
    /// One of its names.
    name: String,
    end: u64,
    takes: u64,
    calls: SortedSet<u64>,
}

/// Placeholder for a function that the compiler did not report, until its code is read.
const UNKNOWN: u64 = u64::MAX;

/// The functions of a linked file.
#[derive(Debug, Default)]
pub struct Calls {
    /// By address.
    functions: SortedMap<u64, Function>,
    /// Names of functions; one function may have several.
    names: SortedMap<String, u64>,
}

impl Calls {
    /// Reads a file that was linked with `--emit-relocs`.
    ///
    /// # Errors
    /// It cannot be read, or stores the address of a function, whose callers are then unknown.
    pub fn of(file: &[u8], frames: &Frames) -> Result<Self> {
        let file = object::File::parse(file).context("expected an ELF file")?;
        // On Arm the lowest bit of a function's address is set for Thumb code.
        let even = if file.architecture() == Architecture::Arm { !1 } else { !0 };
        let mut calls = Self::default();
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let (start, name) = (symbol.address() & even, symbol.name()?);
            calls.names.insert(name.to_owned(), start);
            let takes = frames.0.get(name).copied();
            // The compiler reports a function under one of its names.
            if takes.is_some() || !calls.functions.contains_key(&start) {
                let (takes, end) = (takes.unwrap_or(UNKNOWN), start + symbol.size());
                let function = Function { name: name.to_owned(), end, takes, calls: SortedSet::new() };
                calls.functions.insert(start, function);
            }
        }
        for section in file.sections() {
            let text = section.kind() == SectionKind::Text;
            if text {
                calls.read_runtime(section.address(), section.data()?, file.architecture())?;
            }
            let data = matches!(section.kind(), SectionKind::Data | SectionKind::ReadOnlyData);
            for (offset, relocation) in section.relocations().filter(|_| text || data) {
                let RelocationTarget::Symbol(index) = relocation.target() else { continue };
                let symbol = file.symbol_by_index(index)?;
                if symbol.is_undefined() {
                    continue;
                }
                // If the relocation names a section, the addend gives the address in it; on Arm the linked word does.
                let of_section = symbol.kind() == SymbolKind::Section;
                let target = match file.architecture() {
                    Architecture::Arm if of_section => {
                        let word = section.data_range(offset, 4)?.context("a relocation outside its section")?;
                        u64::from(u32::from_le_bytes(word.try_into()?))
                    }
                    _ if of_section => symbol.address().wrapping_add_signed(relocation.addend()),
                    _ => symbol.address(),
                };
                let target = target & even;
                let names_function = symbol.kind() == SymbolKind::Text || of_section;
                if text && is_call(relocation.flags(), file.architecture()) {
                    ensure!(
                        !(of_section && file.architecture() == Architecture::Arm),
                        "{offset:#x} calls into a section"
                    );
                    calls.reference(offset, target, names_function)?;
                } else if names_function && let Some(function) = calls.functions.get(&target) {
                    bail!("{}: its address is stored at {offset:#x}: its callers are unknown", function.name);
                }
            }
        }
        Ok(calls)
    }

    /// The address of the function whose code contains this address.
    fn at(&self, address: u64) -> Option<u64> {
        let (&start, function) = self.functions.at_or_below(&address)?;
        (address < function.end).then_some(start)
    }

    /// Records a call. Branches within a function refer to places in it, not to the function.
    fn reference(&mut self, from: u64, to: u64, names_function: bool) -> Result<()> {
        let Some(caller) = self.at(from) else { return Ok(()) };
        let callee = self.at(to).with_context(|| format!("{from:#x} calls {to:#x}, where no function is known"))?;
        if (caller != callee || names_function && to == callee)
            && let Some(function) = self.functions.get_mut(&caller)
        {
            function.calls.insert(callee);
        }
        Ok(())
    }

    /// Reads the code of the functions that the compiler did not report.
    fn read_runtime(&mut self, base: u64, code: &[u8], architecture: Architecture) -> Result<()> {
        for (&start, function) in self.functions.iter_mut() {
            let place = start.checked_sub(base).zip(function.end.checked_sub(base));
            let code = place.and_then(|(start, end)| code.get(start as usize..end as usize));
            if let Some(code) = code.filter(|_| function.takes == UNKNOWN) {
                function.takes = lowered(code, architecture).with_context(|| function.name.clone())?;
            }
        }
        Ok(())
    }

    /// The most stack bytes that a function and all functions that it calls can need.
    ///
    /// # Errors
    /// There is no such function, or functions are recursive.
    pub fn need(&self, name: &str) -> Result<u64> {
        let start = *self.names.get(name).with_context(|| format!("there is no function {name}"))?;
        self.need_of(start, &mut SortedMap::new(), 0)
    }

    fn need_of(&self, start: u64, known: &mut SortedMap<u64, u64>, depth: usize) -> Result<u64> {
        if let Some(&need) = known.get(&start) {
            return Ok(need);
        }
        let function = self.functions.get(&start).with_context(|| format!("no function begins at {start:#x}"))?;
        ensure!(depth < self.functions.len(), "{} is recursive, directly or through others", function.name);
        ensure!(function.takes != UNKNOWN, "{}: its code is not in the file", function.name);
        let mut deepest = 0;
        for &callee in &function.calls {
            deepest = deepest.max(self.need_of(callee, known, depth + 1)?);
        }
        known.insert(start, function.takes + deepest);
        Ok(function.takes + deepest)
    }
}

/// Whether a relocation in code belongs to a call, a jump or a branch.
fn is_call(flags: RelocationFlags, architecture: Architecture) -> bool {
    let RelocationFlags::Elf { r_type } = flags else { return false };
    match architecture {
        Architecture::Riscv32 | Architecture::Riscv64 => [
            elf::R_RISCV_BRANCH,
            elf::R_RISCV_JAL,
            elf::R_RISCV_CALL,
            elf::R_RISCV_CALL_PLT,
            elf::R_RISCV_RVC_BRANCH,
            elf::R_RISCV_RVC_JUMP,
        ]
        .contains(&r_type),
        Architecture::Arm => {
            [elf::R_ARM_THM_PC22, elf::R_ARM_THM_JUMP24, elf::R_ARM_THM_JUMP19, elf::R_ARM_THM_PC11, elf::R_ARM_THM_PC9]
                .contains(&r_type)
        }
        _ => [elf::R_AARCH64_CALL26, elf::R_AARCH64_JUMP26, elf::R_AARCH64_CONDBR19, elf::R_AARCH64_TSTBR14]
            .contains(&r_type),
    }
}

/// The sum of all constants by which instructions lower the stack pointer.
fn lowered(code: &[u8], architecture: Architecture) -> Result<u64> {
    let mut total = 0;
    let mut rest = code;
    while let [b0, b1, ..] = *rest {
        let half = u32::from(u16::from_le_bytes([b0, b1]));
        let next = rest.get(2..4).map_or(0, |bytes| u32::from(bytes[0]) | u32::from(bytes[1]) << 8);
        let (length, bytes) = match architecture {
            Architecture::Riscv32 | Architecture::Riscv64 => riscv(half, next),
            Architecture::Arm => thumb(half, next),
            Architecture::Aarch64 => (4, aarch64(half | next << 16)),
            other => bail!("the stack use of instructions is known for RISC-V and Arm, not for {other:?}"),
        };
        total += u64::from(bytes);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(total)
}

/// The size in bytes of the RISC-V instruction that begins with these two halfwords, and the bytes by which it lowers the stack
/// pointer: `addi`, `c.addi` and `c.addi16sp`.
fn riscv(half: u32, next: u32) -> (usize, u32) {
    let word = half | next << 16;
    let sign = |value: u32, bits: u32| (value.cast_signed() << (32 - bits)) >> (32 - bits);
    let change = if half & 3 == 3 {
        if word & 0xf_ffff == 0x1_0113 { word.cast_signed() >> 20 } else { 0 }
    } else if half & 0xef83 == 0x6101 {
        let scattered = (half >> 12 & 1) << 9
            | (half >> 3 & 3) << 7
            | (half >> 5 & 1) << 6
            | (half >> 2 & 1) << 5
            | (half >> 6 & 1) << 4;
        sign(scattered, 10)
    } else if half & 0xef83 == 0x0101 {
        sign((half >> 12 & 1) << 5 | half >> 2 & 0x1f, 6)
    } else {
        0
    };
    (if half & 3 == 3 { 4 } else { 2 }, change.min(0).unsigned_abs())
}

/// As [`riscv`], for Thumb: `push`, `sub sp` and their wide forms, `vpush`, and stores that lower it.
fn thumb(half: u32, next: u32) -> (usize, u32) {
    if half >> 11 < 0b11101 {
        let bytes = match half >> 8 {
            0xb4 | 0xb5 => 4 * (half & 0x1ff).count_ones(),
            0xb0 if half & 0x80 != 0 => 4 * (half & 0x7f),
            _ => 0,
        };
        return (2, bytes);
    }
    let immediate = (half >> 10 & 1) << 11 | (next >> 12 & 7) << 8 | next & 0xff;
    let bytes = match half {
        0xe92d => 4 * next.count_ones(),
        0xe96d | 0xed2d => 4 * (next & 0xff),
        0xf84d if next & 0x0f00 == 0x0d00 => next & 0xff,
        // `sub.w` encodes a constant above 255 as a rotated byte. Read as a plain number, the bits are more than constants of
        // up to 3,584 bytes, so they are an upper bound for such frames.
        0xf1ad | 0xf5ad | 0xf2ad | 0xf6ad => immediate,
        _ => 0,
    };
    (4, bytes)
}

/// The bytes by which an AArch64 instruction lowers the stack pointer: `sub sp, sp, #n`, and `stp` and `str` with write-back.
fn aarch64(word: u32) -> u32 {
    let back = |bits: u32, at: u32, scale: i32| {
        let field = word >> at & ((1 << bits) - 1);
        let offset = (field.cast_signed() << (32 - bits)) >> (32 - bits);
        (offset * scale).min(0).unsigned_abs()
    };
    if word & 0xff80_03ff == 0xd100_03ff {
        (word >> 10 & 0xfff) << (12 * (word >> 22 & 1))
    } else if word & 0xffc0_03e0 == 0xa980_03e0 {
        back(7, 15, 8)
    } else if word & 0xffe0_0fe0 == 0xf800_0fe0 {
        back(9, 12, 1)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_lower_the_stack_pointer() {
        // Encodings from the GNU assembler.
        assert_eq!(riscv(0x7139, 0), (2, 64), "c.addi16sp sp,-64");
        assert_eq!(riscv(0x1141, 0), (2, 16), "c.addi sp,-16");
        assert_eq!(riscv(0x0113, 0x8101), (4, 2_032), "addi sp,sp,-2032");
        assert_eq!(riscv(0x6121, 0), (2, 0), "c.addi16sp sp,64");
        assert_eq!(thumb(0xb5f0, 0), (2, 20), "push {{r4-r7,lr}}");
        assert_eq!(thumb(0xb085, 0), (2, 20), "sub sp,#20");
        assert_eq!(thumb(0xe92d, 0x4ff0), (4, 36), "push.w {{r4-r11,lr}}");
        assert_eq!(thumb(0xf2ad, 0x5d04), (4, 1_284), "subw sp,sp,#1284");
        assert_eq!(thumb(0xf84d, 0xbd04), (4, 4), "str fp,[sp,#-4]!");
        assert_eq!(aarch64(0xd100_c3ff), 48, "sub sp,sp,#48");
        assert_eq!(aarch64(0xa9bd_7bfd), 48, "stp x29,x30,[sp,#-48]!");
        assert_eq!(aarch64(0xf81e_0ffe), 32, "str x30,[sp,#-32]!");
        assert_eq!(aarch64(0x9100_c3ff), 0, "add sp,sp,#48");
    }

    #[test]
    fn remarks_of_the_compiler() {
        let text =
            "note: a/b.rs:12:0 prologepilog (analysis): 96 stack bytes in function 'f.llvm.1'\n\nwarning: other\n";
        let frames = Frames::from_remarks(text);
        assert_eq!(frames.0, SortedMap::from([("f.llvm.1".to_owned(), 96)]));
    }
}
