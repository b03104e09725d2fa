//! Errors of capture files: the fault, its place in the file, and what was expected.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;

use super::{ETHERNET, LinkType};

/// A capture that cannot be read on: one line that names the file, the place, the fault and what was expected.
#[derive(Debug)]
pub struct CaptureError {
    /// The file, or `standard input`.
    pub file: String,
    /// The place in the file.
    pub place: Place,
    /// The fault.
    pub fault: Fault,
}

/// A place in a capture file. Offsets are in bytes from the start of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A file or block header.
    Byte(u64),
    /// A block of pcapng that is not a packet.
    Block {
        /// Offset of the block.
        offset: u64,
        /// Its type.
        kind: u32,
    },
    /// A packet: a record of pcap or a packet block of pcapng.
    Packet {
        /// Offset of the record or block.
        offset: u64,
        /// Its number among the packets of the file, from 1.
        number: u64,
    },
}

/// A fault of a capture file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The file cannot be opened.
    Open(io::Error),
    /// The operating system failed to read.
    Read(io::Error),
    /// The file is empty.
    Empty,
    /// The file starts with none of the known magics.
    NotACapture {
        /// Its first bytes.
        found: [u8; 4],
    },
    /// A version of the format that is not known.
    Version {
        /// Major and minor version of the file or section.
        found: (u16, u16),
        /// The version that is supported.
        expected: &'static str,
    },
    /// The file ends too early.
    Cut {
        /// The part that was being read.
        what: &'static str,
        /// Its length in bytes.
        expected: u64,
        /// Bytes left in the file.
        found: u64,
    },
    /// More captured bytes than the snap length, or any genuine file, allows.
    CapturedLength {
        /// Captured length that the packet claims, bytes.
        length: u32,
        /// The most allowed, bytes.
        limit: u32,
    },
    /// More captured bytes than the packet's block has room for.
    Overrun {
        /// Captured length that the packet claims, bytes.
        length: u32,
        /// Bytes that the block has for it.
        room: usize,
    },
    /// A block length that its type does not allow.
    BlockLength {
        /// Length that the block claims, bytes.
        length: u32,
        /// The least allowed, bytes.
        min: u32,
        /// The most allowed, bytes.
        max: u32,
    },
    /// The two length fields of a block differ.
    BlockTrailer {
        /// The one at its head, bytes.
        head: u32,
        /// The one at its end, bytes.
        end: u32,
    },
    /// A section header whose byte-order magic is valid in neither byte order.
    ByteOrder {
        /// The bytes in its place.
        found: [u8; 4],
    },
    /// An option of an interface whose length does not fit its block or its meaning.
    OptionLength {
        /// Option code.
        code: u16,
        /// Length that it claims, bytes.
        length: u16,
    },
    /// A clock resolution that cannot be converted to nanoseconds.
    Resolution(u8),
    /// A time before 1970 or so late that its nanoseconds exceed 64 bits (July 2554).
    Time,
    /// More interfaces in one section than any genuine file has.
    Interfaces {
        /// The most allowed.
        limit: usize,
    },
    /// A packet of an interface that its section has not declared.
    Interface {
        /// The interface's index.
        index: u32,
        /// Number of interfaces that are declared.
        declared: usize,
    },
    /// A packet that is not an Ethernet frame.
    UnsupportedLinkType(u32),
}

impl Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        match self.place {
            Place::File => {}
            Place::Byte(offset) => write!(f, "byte {offset}: ")?,
            Place::Block { offset, kind } => write!(f, "byte {offset}, block type {kind:#x}: ")?,
            Place::Packet { offset, number } => write!(f, "byte {offset}, packet {number}: ")?,
        }
        self.fault.fmt(f)?;
        self.fault.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl Fault {
    /// What to do next, where the fault itself does not say it. A file that is cut off has been read up to there.
    const fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Open(_) | Self::Read(_) | Self::Empty | Self::NotACapture { .. } | Self::Cut { .. } => None,
            Self::Version { .. } => Some("convert it, editcap -F pcapng FILE OUT"),
            Self::UnsupportedLinkType(113 | 276) => {
                Some("capture on the Ethernet interface by its name, not on `any`: tcpdump -i NAME")
            }
            Self::UnsupportedLinkType(_) => Some("capture on the Ethernet interface of the NIC"),
            Self::CapturedLength { .. }
            | Self::Overrun { .. }
            | Self::BlockLength { .. }
            | Self::BlockTrailer { .. }
            | Self::ByteOrder { .. }
            | Self::OptionLength { .. }
            | Self::Resolution(_)
            | Self::Time
            | Self::Interfaces { .. }
            | Self::Interface { .. } => Some("the file is damaged there: copy it again, or capture again"),
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Open(error) => write!(f, "cannot open: {error}"),
            Fault::Read(error) => write!(f, "cannot read: {error}"),
            Fault::Empty => write!(f, "empty file: expected a pcap or pcapng capture"),
            Fault::NotACapture { found: found @ [a, b, c, d] } => {
                write!(
                    f,
                    "not a capture: expected the magic of pcap or pcapng, found {a:02x} {b:02x} {c:02x} {d:02x}"
                )?;
                hint(*found).map_or(Ok(()), |hint| write!(f, ", which is {hint}"))
            }
            Fault::Version { found: (major, minor), expected } => {
                write!(f, "unknown version {major}.{minor}: expected {expected}")
            }
            Fault::Cut { what, expected, found } => {
                write!(f, "file cut off: expected {expected} bytes of {what}, found {found}")
            }
            Fault::CapturedLength { length, limit } => {
                write!(f, "captured length {length}: expected at most {limit}")
            }
            Fault::Overrun { length, room } => {
                write!(f, "captured length {length}: expected at most the {room} bytes of its block")
            }
            Fault::BlockLength { length, min, max } => {
                write!(f, "block length {length}: expected a multiple of 4 from {min} to {max}")
            }
            Fault::BlockTrailer { head, end } => {
                write!(f, "block length {head} at its head, {end} at its end: expected them equal")
            }
            Fault::ByteOrder { found: [a, b, c, d] } => write!(
                f,
                "section header: expected byte-order magic 1a 2b 3c 4d either way round, \
                 found {a:02x} {b:02x} {c:02x} {d:02x}"
            ),
            Fault::OptionLength { code, length } => {
                let expected = match code {
                    9 => "1 (if_tsresol)",
                    14 => "8 (if_tsoffset)",
                    _ => "at most what its block holds",
                };
                write!(f, "option {code} of length {length}: expected {expected}")
            }
            Fault::Resolution(value) => write!(
                f,
                "clock resolution if_tsresol {value:#04x}: \
                 expected 10^0 to 10^-19 (0 to 0x13) or 2^0 to 2^-63 (0x80 to 0xbf) seconds"
            ),
            Fault::Time => write!(f, "time stamp out of range: expected 1970 to 2554"),
            Fault::Interfaces { limit } => write!(f, "too many interfaces: expected at most {limit} in one section"),
            Fault::Interface { index, declared } => {
                write!(f, "packet of interface {index}: expected one of the {declared} that the section declares")
            }
            Fault::UnsupportedLinkType(number) => {
                write!(f, "unsupported link type {}: expected {}", LinkType(*number), LinkType(ETHERNET))
            }
        }
    }
}

/// The kind of a file with these first bytes, and what to do with it; `None` if it is not known.
fn hint(magic: [u8; 4]) -> Option<&'static str> {
    Some(match magic {
        [0x1f, 0x8b, ..] => "gzip: unpack it on the way, zcat FILE | hil replay -",
        [0x28, 0xb5, 0x2f, 0xfd] => "zstd: unpack it on the way, zstdcat FILE | hil replay -",
        [0xfd, b'7', b'z', b'X'] => "xz: unpack it on the way, xzcat FILE | hil replay -",
        [b'B', b'Z', b'h', _] => "bzip2: unpack it on the way, bzcat FILE | hil replay -",
        [0x04, 0x22, 0x4d, 0x18] => "lz4: unpack it on the way, lz4cat FILE | hil replay -",
        [b'P', b'K', 0x03, 0x04] => "zip: unpack it on the way, unzip -p FILE | hil replay -",
        [b's', b'n', b'o', b'o'] => "a snoop capture: convert it, editcap -F pcapng FILE OUT",
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
            "a modified pcap: convert it, editcap -F pcapng FILE OUT"
        }
        [0x7f, b'E', b'L', b'F'] => {
            "a program or a firmware image: give the capture here, and the image with --firmware"
        }
        _ => return None,
    })
}

impl CaptureError {
    /// Whether the file ends inside a header, block or packet. Everything before it has been read.
    pub fn is_cut(&self) -> bool {
        matches!(self.fault, Fault::Cut { .. })
            && matches!(self.place, Place::Packet { .. } | Place::Block { .. } | Place::Byte(1..))
    }
}

impl Error for CaptureError {}
