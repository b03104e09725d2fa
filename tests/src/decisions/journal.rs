//! Records of decisions as plain integers, and checksums of them.

use crc32fast::Hasher;
use std::fmt::Write;

/// The number of records that share one checksum.
pub const CHUNK: usize = 1_000;

/// The kind of a record. The checksum covers its number; a dump of the text shows its name and those of its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A reaction point set a flow's rate (2^-24 bytes per nanosecond), window (bytes) and hold (nanoseconds).
    Rate = 1,
    /// A flow was opened in this slot, or refused (slot 2^32 - 1).
    Opened = 2,
    /// A queue pair number was bound to a flow (1), or refused (0).
    Bound = 3,
    /// A frame was sent: destination address, and the bytes between the IP header and the ICRC.
    Sent = 4,
    /// The verdict of a stage on a packet; a verdict that leaves the packet as it is gets no record. Mark: 0 none,
    /// 1 undetermined, 2 congested. ECN and credit: the value to be written plus one, or 0 to keep the packet's own.
    Verdict = 5,
    /// A stage pauses the neighbour upstream (1), or resumes it (0).
    Pause = 6,
    /// A stage sends its relay's state to the other end of the long link.
    Relay = 7,
    /// An event of the traffic.
    Event = 8,
}

impl Kind {
    const fn names(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Rate => ("rate", &["flow", "rate", "window", "hold"]),
            Self::Opened => ("opened", &["slot"]),
            Self::Bound => ("bound", &["taken"]),
            Self::Sent => ("sent", &[]),
            Self::Verdict => (
                "verdict",
                &[
                    "port",
                    "class",
                    "mark",
                    "not_ect",
                    "drop",
                    "hold",
                    "ecn",
                    "clear_int",
                    "credit",
                    "credit_queue",
                    "hop",
                    "mbps",
                    "flags",
                    "clock",
                    "bytes",
                    "queue",
                ],
            ),
            Self::Pause => ("pause", &["port", "class", "level"]),
            Self::Relay => ("relay", &["port", "class", "paused", "seq"]),
            Self::Event => ("event", &[]),
        }
    }
}

/// Records in order: one checksum for each [`CHUNK`] of them, and on request their text.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    open: Hasher,
    sums: Vec<u32>,
    count: usize,
    text: Option<Vec<String>>,
}

impl Journal {
    /// An empty journal. It keeps the text of records if `text` is set.
    pub fn new(text: bool) -> Self {
        Self { text: text.then(Vec::new), ..Self::default() }
    }

    /// Adds a record. The checksum covers kind, time, words and bytes, each integer little-endian in 64 bits.
    pub fn add(&mut self, kind: Kind, now: u64, words: &[u64], bytes: &[u8]) {
        let head = [kind as u64, now, words.len() as u64, bytes.len() as u64];
        for word in head.iter().chain(words) {
            self.open.update(&word.to_le_bytes());
        }
        self.open.update(bytes);
        self.count += 1;
        if self.count.is_multiple_of(CHUNK) {
            self.sums.push(std::mem::take(&mut self.open).finalize());
        }
        if let Some(text) = &mut self.text {
            let (name, fields) = kind.names();
            let mut line = format!("{now} {name}");
            for (nth, word) in words.iter().enumerate() {
                let field = fields.get(nth).copied().unwrap_or("");
                let _ = write!(line, " {field}={word}");
            }
            for byte in bytes.chunks(4) {
                line.push(' ');
                byte.iter().for_each(|byte| _ = write!(line, "{byte:02x}"));
            }
            text.push(line);
        }
    }

    /// Number of records.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no record.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// CRC-32 of each [`CHUNK`] records, and of those that remain at the end.
    pub fn sums(&self) -> Vec<u32> {
        let mut sums = self.sums.clone();
        if !self.count.is_multiple_of(CHUNK) {
            sums.push(self.open.clone().finalize());
        }
        sums
    }

    /// CRC-32 of the checksums.
    pub fn sum(&self) -> u32 {
        let mut whole = Hasher::new();
        self.sums().iter().for_each(|sum| whole.update(&sum.to_le_bytes()));
        whole.finalize()
    }

    /// The records' text, one line each; empty if the journal does not keep it.
    pub fn text(&self) -> &[String] {
        self.text.as_deref().unwrap_or_default()
    }
}
