//! The target of the capture reader and writer: the bytes are a capture file.

use hil_capture::{Reader, Record, Writer};
use std::io::{self, ErrorKind, Read};

/// The longest packet that the writer accepts, in bytes: the snap length that it declares.
const LONGEST_WRITTEN: usize = 262_144;

/// Reads the bytes as a capture twice, in one piece and in small ones. Then writes the packets to a new capture and reads that.
///
/// # Panics
/// - Packets are not numbered consecutively, positions run backwards, or packets have more bytes than the file.
/// - An error message is empty, has more than one line, or does not name the file; a packet follows an error or the end.
/// - The result depends on the sizes of the reads.
/// - A written packet is not equal when read back, or the writer accepted an impossible packet.
pub fn capture(data: &[u8]) {
    let whole = Contents::of(data, data.len());
    let step = data.len() % 61 + 1;
    assert!(whole == Contents::of(Drip { left: data, step, interrupt: false }, data.len()), "in steps of {step}");
    assert_rewritten(&whole.packets);
}

/// A packet that owns its bytes.
#[derive(PartialEq)]
struct Packet {
    timestamp_ns: u64,
    interface: u32,
    original_len: u32,
    bytes: Vec<u8>,
}

impl Packet {
    fn of(record: &Record<'_>) -> Self {
        let &Record { timestamp_ns, interface, original_len, bytes, .. } = record;
        Self { timestamp_ns, interface, original_len, bytes: bytes.to_vec() }
    }
}

/// The packets of a capture, up to its end or the first error.
#[derive(PartialEq)]
struct Contents {
    packets: Vec<Packet>,
    error: Option<String>,
}

impl Contents {
    fn of(source: impl Read, file_len: usize) -> Self {
        let mut packets = Vec::new();
        let outcome = Reader::new(source, "fuzzed").and_then(|mut reader| {
            let mut position = reader.position();
            let outcome = loop {
                match reader.next() {
                    Ok(Some(record)) => {
                        packets.push(Packet::of(&record));
                        assert_eq!(record.number, packets.len() as u64);
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
                let length = packets.last().map_or(0, |packet| packet.bytes.len() as u64);
                assert!(reader.position() >= position + length && reader.position() <= file_len as u64);
                position = reader.position();
            };
            assert!(matches!(reader.next(), Ok(None)), "a packet follows the end");
            outcome
        });
        let error = outcome.err().map(|error| error.to_string());
        if let Some(text) = &error {
            assert!(text.strip_prefix("fuzzed: ").is_some_and(|rest| !rest.trim().is_empty()), "{text:?}");
            assert_eq!(text.lines().count(), 1, "{text:?}");
        }
        Self { packets, error }
    }
}

/// A reader that returns at most `step` bytes in one read, and fails with `Interrupted` before each successful read.
struct Drip<'a> {
    left: &'a [u8],
    step: usize,
    interrupt: bool,
}

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(ErrorKind::Interrupted.into());
        }
        let end = buffer.len().min(self.step);
        self.left.read(&mut buffer[..end])
    }
}

/// Checks that packets which the writer accepts are read back unchanged, and that those which it refuses leave no bytes in the
/// file.
fn assert_rewritten(packets: &[Packet]) {
    let mut writer = Writer::new(Vec::new(), &["even", "odd"]).expect("memory takes a header");
    let mut written = Vec::new();
    for packet in packets {
        let Packet { timestamp_ns, interface, original_len, bytes } = packet;
        let accepted = writer.write(interface % 2, *timestamp_ns, bytes, *original_len).is_ok();
        let possible = bytes.len() <= LONGEST_WRITTEN && bytes.len() <= *original_len as usize;
        assert_eq!(accepted, possible);
        if accepted {
            written.push(packet);
        }
    }
    let file = writer.into_sink().expect("memory flushes");
    let again = Contents::of(file.as_slice(), file.len());
    assert_eq!(again.error, None);
    assert_eq!(again.packets.len(), written.len());
    for (packet, written) in again.packets.iter().zip(written) {
        assert_eq!(packet.interface, written.interface % 2);
        assert!((packet.timestamp_ns, packet.original_len) == (written.timestamp_ns, written.original_len));
        assert_eq!(packet.bytes, written.bytes);
    }
}
