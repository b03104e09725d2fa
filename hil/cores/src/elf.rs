//! Loading a bare-metal RISC-V image from an ELF file.

use hil_sorted::SortedMap;
use std::fmt;

use object::LittleEndian;
use object::elf::{EM_RISCV, ET_EXEC, FileHeader32, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, Sym};

/// A linked program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Address of the first instruction.
    pub entry: u32,
    /// The contents of memory before it runs.
    pub segments: Vec<Segment>,
    /// Addresses of named symbols.
    pub symbols: SortedMap<String, u32>,
}

/// A piece of a program's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where its bytes are loaded (the ELF's physical address).
    pub load_address: u32,
    /// Where the program uses it (the virtual address). If it differs from the load address, start-up code copies the bytes.
    pub address: u32,
    /// Its bytes in the file.
    pub bytes: Vec<u8>,
    /// Bytes that it occupies when the program runs; those that are not in the file are zero.
    pub size: u32,
}

/// The error for a file that is no program for the cores here, or does not fit their memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The magic number of ELF files is missing.
    NotElf,
    /// An ELF file of another kind; the text names the kind and the expected one.
    Unsupported(String),
    /// The structure of the file is broken; the text is the parser's.
    Malformed(String),
    /// A segment does not lie in RAM.
    OutsideRam {
        /// Its first address.
        address: u32,
        /// Its bytes.
        size: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => write!(f, "not an ELF file (no magic number at its start)"),
            Self::Unsupported(what) => write!(f, "{what}"),
            Self::Malformed(what) => write!(f, "malformed ELF file: {what}"),
            Self::OutsideRam { address, size } => {
                write!(f, "the segment of {size} bytes at {address:#010x} lies outside RAM")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<object::read::Error> for Error {
    fn from(error: object::read::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl Image {
    /// Reads an ELF file: 32-bit, little-endian, RISC-V, executable.
    ///
    /// # Errors
    /// [`Error`] gives the reason.
    pub fn parse(file: &[u8]) -> Result<Self, Error> {
        check_kind(file)?;
        let header = FileHeader32::<LittleEndian>::parse(file)?;
        let machine = header.e_machine(LittleEndian);
        if machine != EM_RISCV {
            return Err(Error::Unsupported(format!("an ELF file for machine {}, not RISC-V (243)", machine.0)));
        }
        let kind = header.e_type(LittleEndian);
        if kind != ET_EXEC {
            return Err(Error::Unsupported(format!("an ELF file of type {}, not an executable (2)", kind.0)));
        }

        let mut segments = Vec::new();
        for program in header.program_headers(LittleEndian, file)? {
            let size = program.p_memsz(LittleEndian);
            if program.p_type(LittleEndian) != PT_LOAD || size == 0 {
                continue;
            }
            let bytes = program.data(LittleEndian, file).map_err(|()| {
                let address = program.p_vaddr(LittleEndian);
                Error::Malformed(format!("the segment at {address:#010x} reaches beyond the end of the file"))
            })?;
            if bytes.len() > size as usize {
                return Err(Error::Malformed(format!("a segment of {size} bytes has {} in the file", bytes.len())));
            }
            segments.push(Segment {
                load_address: program.p_paddr(LittleEndian),
                address: program.p_vaddr(LittleEndian),
                bytes: bytes.to_vec(),
                size,
            });
        }
        if segments.is_empty() {
            return Err(Error::Unsupported("an ELF file with nothing to load".into()));
        }

        let sections = header.sections(LittleEndian, file)?;
        let table = sections.symbols(LittleEndian, file, object::elf::SHT_SYMTAB)?;
        let symbols = table
            .iter()
            .filter(|symbol| symbol.st_shndx(LittleEndian) != object::elf::SHN_UNDEF)
            .filter_map(|symbol| {
                let name = std::str::from_utf8(symbol.name(LittleEndian, table.strings()).ok()?).ok()?;
                (!name.is_empty()).then(|| (name.to_owned(), symbol.st_value(LittleEndian)))
            })
            .collect();
        Ok(Self { entry: header.e_entry(LittleEndian), segments, symbols })
    }
}

/// Rejects files that the 32-bit little-endian parser would misread.
fn check_kind(file: &[u8]) -> Result<(), Error> {
    let Some(&[magic @ .., class, data]) = file.first_chunk::<6>() else { return Err(Error::NotElf) };
    if magic != *b"\x7fELF" {
        return Err(Error::NotElf);
    }
    if class != 1 {
        return Err(Error::Unsupported("an ELF file of another class than 32-bit".into()));
    }
    if data != 1 {
        return Err(Error::Unsupported("an ELF file of another byte order than little-endian".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Core, Ibex, Ram, Timing};

    const RAM: Ram = Ram { base: 0x1000, size: 0x1000 };

    fn words(file: &mut Vec<u8>, words: &[u32]) {
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// A file with one segment of eight bytes, twelve in memory, loaded at 0x1100 and used at 0x1800, and with the symbols
    /// `main` and `missing`, of which the latter is undefined.
    fn file() -> Vec<u8> {
        const NAMES: &[u8; 16] = b"\0main\0missing\0\0\0";
        let (names, symbols, sections) = (84 + 8, 84 + 8 + 16, 84 + 8 + 16 + 48);
        let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0".to_vec();
        words(&mut file, &[1, 0x1804, 52, sections, 0]);
        file.extend([52_u16, 32, 1, 40, 3, 2].map(u16::to_le_bytes).concat());
        words(&mut file, &[1, 84, 0x1800, 0x1100, 8, 12, 7, 4]);
        words(&mut file, &[0x1122_3344, 0x5566_7788]);
        file.extend(NAMES);
        words(&mut file, &[0, 0, 0, 0]);
        words(&mut file, &[1, 0x1806, 0, 0xfff1_0012]);
        words(&mut file, &[6, 0, 0, 0x0000_0012]);
        words(&mut file, &[0; 10]);
        words(&mut file, &[0, 2, 0, 0, symbols, 48, 2, 1, 4, 16]);
        words(&mut file, &[0, 3, 0, 0, names, 16, 0, 0, 1, 0]);
        file
    }

    #[test]
    fn an_image_has_entry_segments_and_symbols() {
        let image = Image::parse(&file()).expect("a good file");
        assert_eq!(image.entry, 0x1804);
        assert_eq!(image.symbols, SortedMap::from([("main".to_owned(), 0x1806)]));
        let bytes = [0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55].to_vec();
        assert_eq!(image.segments, [Segment { load_address: 0x1100, address: 0x1800, bytes, size: 12 }]);
    }

    #[test]
    fn segments_are_loaded_at_their_load_addresses() {
        let image = Image::parse(&file()).expect("a good file");
        let mut core = Ibex::new(&[RAM], 0..0, Timing::IBEX_SMALL, image.entry);
        image.load(&mut core, &[RAM]).expect("RAM is there");
        let mut word = [0; 4];
        core.peek(0x1104, &mut word);
        assert_eq!(u32::from_le_bytes(word), 0x5566_7788);
        let small = Ram { base: 0x1000, size: 0x808 };
        assert_eq!(image.load(&mut core, &[small]), Err(Error::OutsideRam { address: 0x1800, size: 12 }));
    }

    /// The parser returns an error, without a panic, for every prefix of a file and every changed byte of its headers.
    #[test]
    fn broken_files_are_errors() {
        let good = file();
        for length in 0..good.len() {
            assert!(Image::parse(&good[..length]).is_err(), "{length} bytes");
        }
        for place in 0..84 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[place] = value;
                let _ = Image::parse(&bad);
            }
        }
    }
}
