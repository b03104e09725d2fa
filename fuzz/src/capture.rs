//! Any bytes as a capture file.

use hil_capture::{Reader, Record, Writer};
use std::io::{self, ErrorKind, Read};

/// What the writer takes: the snap length that it declares, bytes.
const LONGEST_WRITTEN: usize = 262_144;

/// Reads the bytes as a capture in one piece and in small ones, and writes the packets to a new capture.
///
/// # Panics
/// - Numbers are not consecutive, positions run backwards, or more bytes are lent than the file has.
/// - An error message is empty, has more than one line, or does not name the file; a packet follows an error or the end.
/// - The result depends on the sizes of the reads.
/// - A written packet is not equal when read back, or an impossible packet was written.
pub fn capture(data: &[u8]) {
    let whole = Contents::of(data, data.len());
    let step = data.len() % 61 + 1;
    assert!(whole == Contents::of(Drip { left: data, step, interrupt: false }, data.len()), "in steps of {step}");
    rewritten(&whole.packets);
}

/// A packet with bytes of its own.
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

/// All packets of a capture, up to the error if there is one.
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
                let lent = packets.last().map_or(0, |packet| packet.bytes.len() as u64);
                assert!(reader.position() >= position + lent && reader.position() <= file_len as u64);
                position = reader.position();
            };
            assert!(matches!(reader.next(), Ok(None)), "nothing follows the end");
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

/// A reader that returns at most `step` bytes a time, and fails with `Interrupted` before each.
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

/// Packets that the writer takes are read back unchanged; those that it refuses leave nothing in the file.
fn rewritten(packets: &[Packet]) {
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
