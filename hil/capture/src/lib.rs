//! Capture files: a streaming reader of pcap and pcapng, and a writer of pcapng.
//!
//! [`Reader`] reads from any [`Read`] and lends out one [`Record`] at a time from its own buffer: without a copy or an
//! allocation per packet, and with memory that does not grow with the file. It supports
//!
//! - pcap, version 2.4, with all four magics: microseconds or nanoseconds, either byte order
//!   (draft-ietf-opsawg-pcap, section 4);
//! - pcapng, version 1: any number of sections, each in its own byte order, with any number of interfaces, each with
//!   its own link type, snap length, clock resolution and clock offset; enhanced, simple and obsolete packet blocks.
//!   Other blocks are skipped (draft-ietf-opsawg-pcapng, section 4).
//!
//! All packets before a fault in a file are returned before the fault is reported. A [`Source`] can be read twice, even if it
//! is a pipe.
//!
//! The formats are decoded here and not by the crate `pcap-parser` (0.17), because that crate refuses every power-of-two
//! `if_tsresol`, reads `if_tsoffset` as little-endian in big-endian sections, counts seconds in 32 bits, accepts a block length
//! that is no multiple of 4 and a section header with two different lengths, and does not report where a fault is in the file
//! and what was expected there. The tests use it as a second reader to compare with.
#![forbid(unsafe_code)]

use std::fmt::{self, Display};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

pub mod crc;
mod error;
mod input;
pub mod interrupt;
mod pcap;
mod pcapng;
mod source;
pub mod tunnel;
mod writer;

pub use error::{CaptureError, Fault, Place};
pub use source::Source;
pub use writer::{NewFile, Writer};

use input::Input;

/// The most bytes of one packet that any file may hold, whatever snap length it declares: 16 MiB.
pub const MAX_CAPTURED: u32 = 16 << 20;

/// The snap length of `tcpdump` and Wireshark for Ethernet, in bytes. Some programs declare less than they capture, so a reader
/// accepts packets of up to this length even if the file's own snap length is smaller.
const USUAL_SNAPLEN: u32 = 262_144;

/// Link type of Ethernet frames, the only one read (tcpdump.org's list of link types: `LINKTYPE_ETHERNET`).
const ETHERNET: u32 = 1;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// The largest captured length that a packet can have, given its interface's snap length (0: none declared).
fn longest_capture(snaplen: u32) -> u32 {
    if snaplen == 0 { MAX_CAPTURED } else { snaplen.clamp(USUAL_SNAPLEN, MAX_CAPTURED) }
}

/// The direction of a packet at the interface that captured it, from pcapng's `epb_flags`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// It arrived.
    Inbound,
    /// It was sent.
    Outbound,
}

/// Packets that an interface lost before they reached the file, from the file's statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// By the interface (`isb_ifdrop`).
    pub interface: u64,
    /// By the operating system (`isb_osdrop`).
    pub system: u64,
    /// Between the packets of the file (`epb_dropcount`, and the obsolete packet block's).
    pub between: u64,
}

impl Dropped {
    /// The total. The statistics and the packets count the same losses, so this is the larger of the two sums.
    pub fn total(&self) -> u64 {
        self.interface.saturating_add(self.system).max(self.between)
    }
}

/// One packet of a capture: an Ethernet frame, without its frame check sequence unless the interface delivered it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Position among the packets of the file, from 1.
    pub number: u64,
    /// Nanoseconds since 1970-01-01 UTC. A finer clock is rounded down. A simple packet block of pcapng has no time: it gets
    /// the time of the packet before it in the file, or 0 if it is the first.
    pub timestamp_ns: u64,
    /// Whether the file has a time for this packet.
    pub is_timed: bool,
    /// Its direction.
    pub direction: Direction,
    /// The interface's index within its section of the file, from 0; 0 in pcap.
    pub interface: u32,
    /// The interface's speed in bits per second from the file (`if_speed`); 0 if the file does not give it.
    pub speed: u64,
    /// Length of the frame on the wire in bytes, from the file. It is more than the length of `bytes` if the frame was cut.
    pub original_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// A packet that a format's reader has found; its bytes are still in the buffer.
struct Found {
    timestamp_ns: Option<u64>,
    interface: u32,
    direction: Direction,
    speed: u64,
    original_len: u32,
    bytes: Range<usize>,
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Reads a capture packet by packet.
///
/// ```
/// use hil_capture::{Reader, Writer};
///
/// let mut writer = Writer::new(Vec::new(), &["eth0"])?;
/// writer.write(0, 1_000, &[0; 60], 60)?;
/// let file = writer.into_sink()?;
///
/// let mut reader = Reader::new(file.as_slice(), "memory")?;
/// while let Some(record) = reader.next()? {
///     assert_eq!((record.timestamp_ns, record.bytes.len()), (1_000, 60));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    packets: u64,
    last_timestamp_ns: u64,
    finished: bool,
}

impl Reader<Box<dyn Read + Send>> {
    /// Opens a file, or standard input if `path` is `-`, and reads the file header.
    ///
    /// # Errors
    /// The file cannot be opened or read, or its header is not that of a capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        Source::open(path)?.into_reader()
    }
}

impl<R: Read> Reader<R> {
    /// Reads the file header from `source`; `name` is the name of the file in errors.
    ///
    /// # Errors
    /// The source cannot be read, or its header is not that of a capture.
    pub fn new(source: R, name: &str) -> Result<Self, CaptureError> {
        let mut input = Input::new(source, name);
        if input.at_end().map_err(|fault| *input.error(Place::File, *fault))? {
            return Err(*input.error(Place::File, Fault::Empty));
        }
        let format = Self::identify(&mut input).map_err(|fault| *input.error(Place::Byte(0), *fault))?;
        Ok(Self { input, format, packets: 0, last_timestamp_ns: 0, finished: false })
    }

    fn identify(input: &mut Input<R>) -> Result<Format, Box<Fault>> {
        let magic = input.peek_magic()?;
        if magic == pcapng::SECTION_HEADER {
            return Ok(Format::Pcapng(pcapng::Pcapng::new()));
        }
        let (order, nanoseconds_per_tick) = pcap::magic(magic).ok_or(Fault::NotACapture { found: magic })?;
        Ok(Format::Pcap(pcap::Pcap::read_header(input, order, nanoseconds_per_tick)?))
    }

    /// The next packet, or `None` at the end of the file. After the end or an error, every call returns `None`.
    ///
    /// # Errors
    /// The source cannot be read, the file is cut off or malformed, or the packet is not an Ethernet frame.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend from its own buffer")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.finished {
            return Ok(None);
        }
        let number = self.packets + 1;
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.input, number),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.input, number),
        };
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.finished = true;
                return Ok(None);
            }
            Err(error) => {
                self.finished = true;
                return Err(*error);
            }
        };
        self.packets = number;
        let is_timed = found.timestamp_ns.is_some();
        let timestamp_ns = found.timestamp_ns.unwrap_or(self.last_timestamp_ns);
        self.last_timestamp_ns = timestamp_ns;
        let Found { interface, direction, speed, original_len, bytes, .. } = found;
        let bytes = self.input.bytes(bytes);
        Ok(Some(Record { number, timestamp_ns, is_timed, direction, interface, speed, original_len, bytes }))
    }

    /// Bytes of the file consumed so far.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The name of the file in errors.
    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// Packets that were lost before they reached the file, as far as the file has been read.
    pub fn dropped(&self) -> Dropped {
        match &self.format {
            Format::Pcap(_) => Dropped::default(),
            Format::Pcapng(pcapng) => pcapng.dropped(),
        }
    }
}

/// The order of the bytes of a file's integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The first `N` words of `bytes`, which holds them: see [`Input::take`].
    fn words<const N: usize>(self, bytes: &[u8]) -> [u32; N] {
        let (words, _) = bytes.as_chunks::<4>();
        let words: [[u8; 4]; N] = std::array::from_fn(|i| words[i]);
        match self {
            Order::Little => words.map(u32::from_le_bytes),
            Order::Big => words.map(u32::from_be_bytes),
        }
    }
}

/// A link type, displayed with its name if it is common in RoCE captures.
struct LinkType(u32);

impl Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0 => "BSD loopback",
            ETHERNET => "Ethernet",
            101 => "raw IP",
            105 => "IEEE 802.11",
            113 => "Linux cooked",
            127 => "IEEE 802.11 radiotap",
            197 => "ERF",
            228 => "raw IPv4",
            229 => "raw IPv6",
            247 => "InfiniBand",
            276 => "Linux cooked v2",
            number => return write!(f, "{number}"),
        };
        write!(f, "{} ({name})", self.0)
    }
}
