//! Measures the memory that each role of an algorithm takes on each target: state, tables, code, constants and stack.
//!
//! All numbers are read from linked code. `targets/footprint` links each role as firmware in Rust does, with engine and frame
//! parsing. The C library contains only the state machine, which the caller's own engine calls.

use crate::library::{self, Archive};
use anyhow::{Context, Result, ensure};
use hil_cores::core::Dialect;
use hil_cores::firmware::{self, Built};
use hil_cores::stack::Calls;
use hil_cores::tree;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::PathBuf;

/// The functions of each role in `targets/footprint`; the first initialises the engine.
const ROLES: [(&str, &[&str]); 3] = [
    ("rp", &["start", "open", "close", "sent", "frame", "wake"]),
    ("np", &["start", "connect", "forget", "frame", "wake"]),
    ("cp", &["start", "frame", "wake"]),
];

/// Bytes of linked code, by section, and of stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Linked {
    /// Bytes of code.
    pub text: u64,
    /// Bytes of constants.
    pub rodata: u64,
    /// Bytes of variables with a value at the start.
    pub data: u64,
    /// Bytes of zeroed variables, the tables for 1,024 flows included.
    pub bss: u64,
    /// Most bytes of stack that an event can take, the opening of a flow included.
    pub stack: u64,
    /// Most bytes of stack that initialisation can take; for C, setting parameters and reading counters are included.
    pub start_stack: u64,
}

/// One role of one algorithm on one target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Footprint {
    /// `rp`, `np` or `cp`.
    pub role: &'static str,
    /// The algorithm, or the stage of a switch.
    pub algorithm: &'static str,
    /// The target, as `rustc` names it.
    pub target: &'static str,
    /// Bytes of the machine's state: of a flow, or of a queue if the machine has no state per flow.
    pub state_bytes: u32,
    /// Bytes that each further flow, or queue, takes: state, pacer, timer, and entries in tables.
    pub qp_bytes: u32,
    /// Bytes of the engine with room for 1,024, 16,384 and 65,536 flows, or queues. For a reaction point the last is
    /// 65,535.
    pub tables_1k: u32,
    /// See `tables_1k`.
    pub tables_16k: u32,
    /// See `tables_1k`.
    pub tables_64k: u32,
    /// The role as firmware in Rust links it, with the engine.
    #[serde(flatten)]
    pub linked: Linked,
    /// The machine with its C interface; `null` for stages, which have none.
    pub c: Option<Linked>,
}

/// Measures every role of the named algorithms, or of all if none is named, on a target.
///
/// # Errors
/// A library cannot be built or linked.
pub fn measure(target: &'static str, algorithms: &[&str]) -> Result<Vec<Footprint>> {
    let chosen = |name: &&str| algorithms.is_empty() || algorithms.contains(name);
    let (ours, for_c) = (library::compile("footprint", target)?, library::build(target)?);
    let rp = cc_rp::registry::ALL.iter().map(|entry| (0, entry.name));
    let np = cc_np::registry::ALL.iter().map(|entry| (1, entry.name));
    let cp = cc_cp::registry::NAMES.iter().map(|&name| (2, name));
    let all = rp.chain(np).chain(cp).filter(|(_, name)| chosen(name));
    all.map(|(role, algorithm)| {
        let (role, functions) = ROLES[role];
        measure_role(&ours, &for_c, role, algorithm, functions, target)
            .with_context(|| format!("{role} {algorithm} for {target}"))
    })
    .collect()
}

fn measure_role(
    ours: &Archive,
    for_c: &Archive,
    role: &'static str,
    algorithm: &'static str,
    functions: &[&str],
    target: &'static str,
) -> Result<Footprint> {
    let symbol = |name: &str| format!("{role}_{algorithm}_{name}");
    let [state_bytes, qp_bytes, tables_1k, tables_16k, tables_64k] = sizes(ours, &symbol("sizes"))?;
    let names: Vec<String> = functions.iter().map(|name| symbol(name)).collect();
    let c = match role {
        "cp" => None,
        _ => {
            let is_event = |name: &str| name.ends_with("_on") || name.ends_with("_open");
            Some(linked(for_c, &library::functions_of(role, algorithm), |name| !is_event(name))?)
        }
    };
    let linked = linked(ours, &names, |name| name.ends_with("_start"))?;
    Ok(Footprint { role, algorithm, target, state_bytes, qp_bytes, tables_1k, tables_16k, tables_64k, linked, c })
}

/// Reads the five sizes that are stored at a symbol.
fn sizes(archive: &Archive, symbol: &str) -> Result<[u32; 5]> {
    let image = archive.link(&[symbol.to_owned()])?;
    let file = object::File::parse(&*image)?;
    let symbol = file.symbol_by_name(symbol).with_context(|| format!("there is no symbol {symbol}"))?;
    let section = symbol.section_index().context("the symbol of the sizes has no section")?;
    let words = file
        .section_by_index(section)?
        .data_range(symbol.address(), 20)?
        .context("the section ends before the sizes")?;
    ensure!(symbol.size() == 20, "the sizes have {} bytes: expected 20", symbol.size());
    let mut sizes = [0; 5];
    for (size, word) in sizes.iter_mut().zip(words.chunks_exact(4)) {
        *size = u32::from_le_bytes(word.try_into()?);
    }
    Ok(sizes)
}

/// The sizes of these functions and of all that they call. `starts` returns, for a function's name, whether it initialises.
fn linked(archive: &Archive, functions: &[String], starts: impl Fn(&str) -> bool) -> Result<Linked> {
    let image = archive.link(functions)?;
    let file = object::File::parse(&*image)?;
    let mut linked = Linked { text: 0, rodata: 0, data: 0, bss: 0, stack: 0, start_stack: 0 };
    for section in file.sections() {
        let bytes = match section.kind() {
            SectionKind::Text => &mut linked.text,
            // Unwinding tables are not counted: the linker scripts of firmware discard them.
            SectionKind::ReadOnlyData | SectionKind::ReadOnlyString if section.name()? != ".eh_frame" => {
                &mut linked.rodata
            }
            SectionKind::Data => &mut linked.data,
            SectionKind::UninitializedData => &mut linked.bss,
            _ => continue,
        };
        *bytes += section.size();
    }
    let calls = Calls::of(&image, &archive.frames)?;
    for name in functions {
        let stack = if starts(name) { &mut linked.start_stack } else { &mut linked.stack };
        *stack = (*stack).max(calls.need(name)?);
    }
    Ok(linked)
}

/// The size of an algorithm's whole image for RISC-V: both engines, rings and interrupts, for 1,024 flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageSize {
    /// Bytes of code.
    pub text: u64,
    /// Most bytes of stack that it can take: the main program with its start-up code, plus the timer interrupt, which is not
    /// interrupted itself.
    pub stack: u64,
}

/// Measures an algorithm's image.
///
/// # Errors
/// The image cannot be built or read.
pub fn of_image(algorithm: &str) -> Result<ImageSize> {
    let kind = firmware::Kind::Inlining;
    let Built { path, frames } = firmware::compile(tree::here()?, algorithm, kind, Dialect::Machine)?;
    let file = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let calls = Calls::of(&file, &frames).with_context(|| path.display().to_string())?;
    let stack = calls.need("_start")? + calls.need("timer_entry")?;
    let sections = object::File::parse(&*file)?;
    let code = sections.sections().filter(|section| section.kind() == SectionKind::Text);
    Ok(ImageSize { text: code.map(|section| section.size()).sum(), stack })
}

/// First line of the golden files.
pub const GOLDEN_HEAD: &str = "# Bytes, by role and algorithm. Made by `hil footprint --write`.\n";

/// The path of the golden file with the footprints on a target, which a test compares with.
///
/// # Errors
/// There is no source tree.
pub fn golden(target: &str) -> Result<PathBuf> {
    Ok(tree::here()?.root().join("tests/golden").join(format!("footprint-{target}.txt")))
}

/// The footprints as a text table.
pub fn text(footprints: &[Footprint]) -> String {
    HEAD.to_owned() + &footprints.iter().map(Footprint::to_string).collect::<String>()
}

const HEAD: &str = "\
role algorithm             state    qp  tables 1k      16k       64k    text rodata data     bss stack start |  C text rodata stack start
";

/// One line of the text table.
impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, algorithm, state_bytes, qp_bytes, tables_1k, tables_16k, tables_64k, linked, c, .. } = self;
        let Linked { text, rodata, data, bss, stack, start_stack } = linked;
        write!(
            f,
            "{role:<4} {algorithm:<21} {state_bytes:>5} {qp_bytes:>5} {tables_1k:>10} {tables_16k:>8} {tables_64k:>9} "
        )?;
        write!(f, "{text:>7} {rodata:>6} {data:>4} {bss:>7} {stack:>5} {start_stack:>5}")?;
        if let Some(Linked { text, rodata, stack, start_stack, .. }) = c {
            write!(f, " | {text:>7} {rodata:>6} {stack:>5} {start_stack:>5}")?;
        }
        writeln!(f)
    }
}

/// The head of the Markdown table.
pub const MARKDOWN: &str = "\
| target | role | algorithm | state_bytes | qp_bytes | tables: 1K / 16K / 64K | text | rodata | data | bss | stack | start | C: text / rodata / stack |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

impl Footprint {
    /// A row of the table under [`MARKDOWN`].
    pub fn markdown(&self) -> String {
        let Self { role, algorithm, target, state_bytes, qp_bytes, tables_1k, tables_16k, tables_64k, linked, c } =
            self;
        let Linked { text, rodata, data, bss, stack, start_stack } = linked;
        let c = c.map_or(String::new(), |c| format!("{} / {} / {}", c.text, c.rodata, c.stack));
        format!(
            "| {target} | {role} | {algorithm} | {state_bytes} | {qp_bytes} | {tables_1k} / {tables_16k} / {tables_64k} \
             | {text} | {rodata} | {data} | {bss} | {stack} | {start_stack} | {c} |\n"
        )
    }
}
