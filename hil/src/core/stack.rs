//! The most stack that an image can need, from its code: what each function takes, and who calls whom.
//!
//! Every function of the ELF file is read once, front to back. It takes as much as all its instructions that lower the stack
//! pointer do together, and calls whom its jumps out of it reach; that is at least what any path through it does. On top of
//! the deepest chain of calls from the entry comes the deepest from the timer interrupt's handler, which interrupts nothing
//! but the main program.

use super::decode::{Kind, Op, decode};
use anyhow::{Context, Result, bail, ensure};
use object::LittleEndian;
use object::elf::{FileHeader32, PT_LOAD, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use std::collections::BTreeMap;

/// What a function needs of the stack by itself, and whom it calls.
#[derive(Debug, Default)]
struct Function {
    name: String,
    takes: u32,
    calls: Vec<u32>,
}

/// The functions of an image by their addresses.
#[derive(Debug)]
pub struct Stack {
    functions: BTreeMap<u32, Function>,
    entry: u32,
    handler: u32,
}

/// The assembly that the interrupt's vector leads to.
const HANDLER: &str = "timer_entry";
const SP: u8 = 2;
const RA: u8 = 1;

impl Stack {
    /// Reads the code of an image of this project.
    ///
    /// # Errors
    /// It is no such image, or its code moves the stack pointer or jumps in a way that cannot be followed.
    pub fn of(file: &[u8]) -> Result<Self> {
        let header = FileHeader32::<LittleEndian>::parse(file).context("expected a 32-bit RISC-V image")?;
        let mut code = BTreeMap::new();
        for program in header.program_headers(LittleEndian, file)? {
            if program.p_type(LittleEndian) == PT_LOAD
                && let Ok(bytes) = program.data(LittleEndian, file)
            {
                code.insert(program.p_vaddr(LittleEndian), bytes);
            }
        }
        let symbols = header.sections(LittleEndian, file)?.symbols(LittleEndian, file, object::elf::SHT_SYMTAB)?;
        let mut functions = BTreeMap::new();
        let mut handler = None;
        for symbol in symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC) {
            let name = std::str::from_utf8(symbol.name(LittleEndian, symbols.strings())?).unwrap_or_default();
            let (address, size) = (symbol.st_value(LittleEndian), symbol.st_size(LittleEndian));
            handler = handler.or((name == HANDLER).then_some(address));
            let name = format!("{:#}", rustc_demangle::demangle(name));
            let bytes = |pc: u32| {
                let (&base, bytes) = code.range(..=pc).next_back()?;
                bytes.get((pc - base) as usize..)
            };
            let function = read(address, size, bytes).with_context(|| name.clone())?;
            functions.insert(address, Function { name, ..function });
        }
        let handler = handler.with_context(|| format!("the image has no symbol {HANDLER}"))?;
        Ok(Self { functions, entry: header.e_entry(LittleEndian), handler })
    }

    /// Bytes that the image can need at most.
    ///
    /// # Errors
    /// Its functions call each other in a circle.
    pub fn bound(&self) -> Result<u32> {
        let mut needs = BTreeMap::new();
        Ok(self.need(self.entry, &mut needs, 0)? + self.need(self.handler, &mut needs, 0)?)
    }

    fn need(&self, address: u32, needs: &mut BTreeMap<u32, u32>, depth: usize) -> Result<u32> {
        if let Some(&need) = needs.get(&address) {
            return Ok(need);
        }
        let function = self.functions.get(&address);
        let Function { name, takes, calls } =
            function.with_context(|| format!("{address:#x} is called, where no function begins"))?;
        ensure!(depth < self.functions.len(), "{name} calls itself, if by way of others");
        let mut deepest = 0;
        for &callee in calls {
            deepest = deepest.max(self.need(callee, needs, depth + 1)?);
        }
        needs.insert(address, takes + deepest);
        Ok(takes + deepest)
    }
}

/// Reads a function of so many bytes.
fn read<'a>(address: u32, size: u32, code: impl Fn(u32) -> Option<&'a [u8]>) -> Result<Function> {
    let mut function = Function::default();
    let inside = |target: u32| target.wrapping_sub(address) < size;
    // What `lui` and `auipc` have put into registers, for the instruction behind them.
    let mut constants = [None; 33];
    let mut pc = address;
    while inside(pc) {
        let bytes = code(pc).context("its code is not in the file")?;
        let word = match *bytes {
            [b0, b1, b2, b3, ..] => u32::from_le_bytes([b0, b1, b2, b3]),
            [b0, b1] => u32::from_le_bytes([b0, b1, 0, 0]),
            _ => bail!("its code is not in the file"),
        };
        let Op { kind, immediate, rd, rs1, size: length, .. } = decode(pc, word);
        let target = match kind {
            Kind::Jal => Some(immediate),
            Kind::Jalr => constants[usize::from(rs1)].map(|base: u32| base.wrapping_add(immediate)),
            _ => None,
        };
        match target {
            Some(target) if rd == RA || !inside(target) => function.calls.push(target),
            // Without a target: a return, or one of the places that a table in this function names.
            None if kind == Kind::Jalr && rd == RA => bail!("at {pc:#x} it calls whom a register names"),
            _ => {}
        }
        // The others have no destination, and bits of something else where it would be.
        let writes = !matches!(
            kind,
            Kind::Beq | Kind::Bne | Kind::Blt | Kind::Bge | Kind::Bltu | Kind::Bgeu | Kind::Sb | Kind::Sh | Kind::Sw
        );
        let sets = kind == Kind::Constant || kind == Kind::Addi && constants[usize::from(rs1)].is_some();
        if writes && rd == SP && !sets {
            ensure!(kind == Kind::Addi && rs1 == SP, "at {pc:#x} it computes the stack pointer");
            function.takes += immediate.cast_signed().min(0).unsigned_abs();
        }
        if writes {
            constants[usize::from(rd)] = (kind == Kind::Constant).then_some(immediate);
        }
        pc += u32::from(length).max(2);
    }
    Ok(function)
}
