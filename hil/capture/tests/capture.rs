//! Captures of every format and byte order, with every fault, and cut at every byte.

use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use hil_capture::{Direction, Dropped, Fault, MAX_CAPTURED, Reader, Source, Writer};
use proptest::prelude::*;

/// Byte order of the files made here.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Order {
    Little,
    Big,
}
use Order::{Big, Little};

/// A file under construction.
#[derive(Clone)]
struct Bytes(Order, Vec<u8>);

impl Bytes {
    fn u16(mut self, value: u16) -> Self {
        self.1.extend(if self.0 == Little { value.to_le_bytes() } else { value.to_be_bytes() });
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.1.extend(if self.0 == Little { value.to_le_bytes() } else { value.to_be_bytes() });
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.1.extend(if self.0 == Little { value.to_le_bytes() } else { value.to_be_bytes() });
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.1.extend(bytes);
        self
    }

    fn padded(mut self, bytes: &[u8]) -> Self {
        self.1.extend(bytes);
        self.1.extend(vec![0; bytes.len().next_multiple_of(4) - bytes.len()]);
        self
    }

    fn pcap_header(self, magic: u32, snaplen: u32, link_type: u32) -> Self {
        self.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(snaplen).u32(link_type)
    }

    fn record(self, seconds: u32, ticks: u32, bytes: &[u8], original: u32) -> Self {
        self.u32(seconds).u32(ticks).u32(bytes.len() as u32).u32(original).raw(bytes)
    }

    fn block(self, kind: u32, body: impl Fn(Bytes) -> Bytes) -> Self {
        let body = body(Bytes(self.0, Vec::new())).1;
        let length = body.len() as u32 + 12;
        self.u32(kind).u32(length).raw(&body).u32(length)
    }

    /// A section header in the given order, which holds from there on.
    fn section(self, order: Order) -> Self {
        Bytes(order, self.1).block(0x0a0d_0d0a, |b| b.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX))
    }

    /// An interface with its clock's resolution and offset.
    fn interface(self, link_type: u16, snaplen: u32, resolution: u8, offset: i64) -> Self {
        self.block(1, |b| {
            let b = b.u16(link_type).u16(0).u32(snaplen).u16(2).u16(3).padded(b"nic");
            b.u16(9).u16(1).padded(&[resolution]).u16(14).u16(8).u64(offset as u64).u16(0).u16(0)
        })
    }

    fn enhanced(self, interface: u32, ticks: u64, bytes: &[u8], original: u32) -> Self {
        self.block(6, |b| {
            let b = b.u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32);
            b.u32(bytes.len() as u32).u32(original).padded(bytes)
        })
    }

    fn simple(self, bytes: &[u8], original: u32) -> Self {
        self.block(3, |b| b.u32(original).padded(bytes))
    }

    fn obsolete(self, interface: u16, ticks: u64, bytes: &[u8], original: u32) -> Self {
        self.block(2, |b| {
            let b = b.u16(interface).u16(0xffff).u32((ticks >> 32) as u32).u32(ticks as u32);
            b.u32(bytes.len() as u32).u32(original).padded(bytes)
        })
    }
}

fn file(order: Order) -> Bytes {
    Bytes(order, Vec::new())
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Interface, nanoseconds, original length, bytes.
type Packet = (u32, u64, u32, Vec<u8>);

/// All packets of a source, and the error after them if there is one. Checks the numbers of the packets.
fn read(source: impl Read) -> (Vec<Packet>, Option<String>) {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(source, "x") {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error.to_string())),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                packets.push((record.interface, record.timestamp_ns, record.original_len, record.bytes.to_vec()));
                assert_eq!(record.number, packets.len() as u64);
            }
            end => {
                let error = end.err().map(|error| error.to_string());
                assert!(matches!(reader.next(), Ok(None)), "a packet follows the end");
                return (packets, error);
            }
        }
    }
}

fn read_well(source: impl Read) -> Vec<Packet> {
    let (packets, error) = read(source);
    assert_eq!(error, None);
    packets
}

/// A source that returns one byte at a time, each after an interrupted read.
struct Dribble<'a>(&'a [u8], bool);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let one = buffer.len().min(1);
        self.0.read(&mut buffer[..one])
    }
}

/// A small file of each kind.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for order in [Little, Big] {
        for magic in [MICROSECONDS, NANOSECONDS] {
            let pcap = file(order).pcap_header(magic, 65_535, 1);
            samples.push(pcap.record(1, 5, b"hello", 60).record(2, 7, &[], 9).record(3, 9, b"last", 4).1);
        }
        let other = if order == Little { Big } else { Little };
        let pcapng = file(order).section(order).interface(1, 4, 9, 0).interface(1, 0, 6, -1);
        let pcapng = pcapng.block(4, |b| b.u32(0)).enhanced(1, 2_000_000, b"hello", 60).simple(b"cut.", 9);
        let pcapng = pcapng.block(0xbad, |b| b.u32(1).padded(b"custom")).section(other).interface(1, 0, 0x94, 0);
        samples.push(pcapng.obsolete(0, 3 << 20, b"old", 3).block(5, |b| b.u32(0).u64(0)).enhanced(0, 0, b"", 0).1);
    }
    samples
}

#[test]
fn the_four_pcap_magics_give_the_same_times() {
    for order in [Little, Big] {
        let micro = file(order).pcap_header(MICROSECONDS, 65_535, 1).record(1_700_000_000, 123_456, b"abc", 64);
        let nano = file(order).pcap_header(NANOSECONDS, 65_535, 1).record(1_700_000_000, 123_456_000, b"abc", 64);
        let expected = vec![(0, 1_700_000_000_123_456_000, 64, b"abc".to_vec())];
        assert_eq!(read_well(micro.1.as_slice()), expected);
        assert_eq!(read_well(nano.1.as_slice()), expected);
    }
}

#[test]
fn a_pcap_with_frame_check_sequences_is_read_as_ethernet() {
    let pcap = file(Little).pcap_header(MICROSECONDS, 65_535, 0x4400_0001).record(0, 0, b"abc", 3);
    assert_eq!(read_well(pcap.1.as_slice()).len(), 1);
}

#[test]
fn every_interface_of_pcapng_has_its_own_clock() {
    for order in [Little, Big] {
        let pcapng = file(order)
            .section(order)
            .interface(1, 0, 6, 0)
            .interface(1, 0, 9, 0)
            .interface(1, 0, 3, 0)
            .interface(1, 0, 0x8a, 0)
            .interface(1, 0, 0x94, 0)
            .interface(1, 0, 9, 1_700_000_000)
            .block(1, |b| b.u16(1).u16(0).u32(0)) // no options: microseconds
            .enhanced(0, 1_500_000, b"a", 1)
            .enhanced(1, 1_500_000_000, b"a", 1)
            .enhanced(2, 1_500, b"a", 1)
            .enhanced(3, 3 << 9, b"a", 1)
            .enhanced(4, 3 << 19, b"a", 1)
            .enhanced(5, 1_500_000_000, b"a", 1)
            .enhanced(6, 1_500_000, b"a", 1);
        let times: Vec<_> = read_well(pcapng.1.as_slice()).iter().map(|packet| (packet.0, packet.1)).collect();
        let expected = [0, 1, 2, 3, 4, 5, 6]
            .map(|index| (index, if index == 5 { 1_700_000_001_500_000_000 } else { 1_500_000_000 }));
        assert_eq!(times, expected, "{order:?}");
    }
}

#[test]
fn a_new_section_may_change_the_byte_order_and_declares_its_own_interfaces() {
    let pcapng = file(Little)
        .section(Little)
        .interface(1, 0, 9, 0)
        .interface(1, 0, 9, 0)
        .enhanced(1, 5, b"one", 3)
        .section(Big)
        .interface(1, 0, 6, 0)
        .obsolete(0, 5, b"two", 3)
        .section(Little)
        .enhanced(0, 0, b"lost", 4);
    let (packets, error) = read(pcapng.1.as_slice());
    assert_eq!(packets, [(1, 5, 3, b"one".to_vec()), (0, 5_000, 3, b"two".to_vec())]);
    let error = error.unwrap();
    assert!(error.ends_with(
        "packet 3: packet of interface 0: expected one of the 0 that the section declares; the file is damaged there: copy it \
         again, or capture again"
    ));
}

#[test]
fn a_simple_packet_gets_the_time_of_the_one_before_and_the_snap_length() {
    for order in [Little, Big] {
        let pcapng = file(order)
            .section(order)
            .interface(1, 6, 9, 0)
            .simple(b"abc", 3)
            .enhanced(0, 77, b"abcdefgh", 8)
            .simple(b"sixsix", 1_500);
        let expected =
            [(0, 0, 3, b"abc".to_vec()), (0, 77, 8, b"abcdefgh".to_vec()), (0, 77, 1_500, b"sixsix".to_vec())];
        assert_eq!(read_well(pcapng.1.as_slice()), expected);
    }
}

#[test]
fn blocks_that_are_not_packets_are_skipped_at_any_size() {
    let long = vec![0xab; 3 << 20];
    let pcapng = file(Little).section(Little).interface(1, 0, 9, 0);
    let pcapng = [4, 5, 9, 10, 0xbad, 0x4000_0bad, 0x8000_0001, 77]
        .into_iter()
        .fold(pcapng, |pcapng, kind| pcapng.block(kind, |b| b.raw(&long)))
        .enhanced(0, 1, b"abc", 3);
    assert_eq!(read_well(pcapng.1.as_slice()), [(0, 1, 3, b"abc".to_vec())]);
}

#[test]
fn packets_longer_than_the_buffer_are_read_up_to_the_limit() {
    let long = vec![0xcd; MAX_CAPTURED as usize];
    let pcap = file(Little).pcap_header(MICROSECONDS, 0, 1).record(0, 0, &long, MAX_CAPTURED).record(0, 0, b"a", 1);
    let pcapng = file(Big).section(Big).interface(1, 0, 9, 0).enhanced(0, 0, &long, MAX_CAPTURED).simple(b"a", 1);
    for sample in [pcap.1, pcapng.1] {
        let packets = read_well(sample.as_slice());
        assert_eq!(packets.len(), 2);
        assert!(packets[0].3 == long && packets[1].3 == b"a");
    }
}

#[test]
fn a_fault_is_one_line_with_the_file_the_place_and_what_was_expected() {
    let pcap = || file(Little).pcap_header(MICROSECONDS, 96, 1).record(0, 0, b"abcd", 4);
    let pcapng = || file(Little).section(Little).interface(1, 96, 9, 0).enhanced(0, 0, b"abcd", 4);
    // The good pcap is 44 bytes long, the good pcapng 28 + 52 + 36 = 116.
    let cases: Vec<(Vec<u8>, usize, &str)> = vec![
        (vec![], 0, "x: empty file: expected a pcap or pcapng capture"),
        (
            b"Hello, world".to_vec(),
            0,
            "x: byte 0: not a capture: expected the magic of pcap or pcapng, found 48 65 6c 6c",
        ),
        (b"Hi".to_vec(), 0, "x: byte 0: file cut off: expected 4 bytes of file header, found 2"),
        (pcap().1[..23].to_vec(), 0, "x: byte 0: file cut off: expected 24 bytes of file header, found 23"),
        (
            file(Big).u32(MICROSECONDS).u16(3).u16(7).raw(&[0; 16]).1,
            0,
            "x: byte 0: unknown version 3.7: expected pcap 2.4",
        ),
        (pcap().raw(&[0; 15]).1, 1, "x: byte 44, packet 2: file cut off: expected 16 bytes of packet header, found 15"),
        (
            pcap().u64(0).u32(60).u32(60).raw(&[0; 9]).1,
            1,
            "x: byte 44, packet 2: file cut off: expected 60 bytes of packet data, found 9",
        ),
        (
            pcap().u64(0).u32(u32::MAX).u32(60).1,
            1,
            "x: byte 44, packet 2: captured length 4294967295: expected at most 262144",
        ),
        (
            file(Big).pcap_header(NANOSECONDS, u32::MAX, 1).u64(0).u32(MAX_CAPTURED + 1).u32(0).1,
            0,
            "x: byte 24, packet 1: captured length 16777217: expected at most 16777216",
        ),
        (
            file(Little).pcap_header(MICROSECONDS, 96, 113).record(0, 0, b"abcd", 4).1,
            0,
            "x: byte 24, packet 1: unsupported link type 113 (Linux cooked): expected 1 (Ethernet)",
        ),
        (
            file(Little).pcap_header(MICROSECONDS, 96, 0x0001_0001).record(0, 0, b"abcd", 4).1,
            0,
            "x: byte 24, packet 1: unsupported link type 65537: expected 1 (Ethernet)",
        ),
        (pcapng().raw(&[6, 0, 0]).1, 1, "x: byte 116: file cut off: expected 8 bytes of block header, found 3"),
        (
            pcapng().u32(6).u32(64).raw(&[0; 20]).1,
            1,
            "x: byte 116, packet 2: file cut off: expected 56 bytes of block, found 20",
        ),
        (
            pcapng().u32(5).u32(0xffff_fffc).raw(&[0; 20]).1,
            1,
            "x: byte 116, block type 0x5: file cut off: expected 4294967280 bytes of block, found 20",
        ),
        (
            pcapng().u32(6).u32(0xffff_fffc).raw(&[0; 20]).1,
            1,
            "x: byte 116, packet 2: block length 4294967292: expected a multiple of 4 from 32 to 16842752",
        ),
        (
            pcapng().u32(6).u32(33).raw(&[0; 99]).1,
            1,
            "x: byte 116, packet 2: block length 33: expected a multiple of 4 from 32 to 16842752",
        ),
        (
            pcapng().u32(4).u32(8).raw(&[0; 99]).1,
            1,
            "x: byte 116, block type 0x4: block length 8: expected a multiple of 4 from 12 to 4294967292",
        ),
        (
            pcapng().u32(6).u32(32).raw(&[0; 20]).u32(36).1,
            1,
            "x: byte 116, packet 2: block length 32 at its head, 36 at its end: expected them equal",
        ),
        (
            pcapng().u32(5).u32(16).u32(0).u32(20).1,
            1,
            "x: byte 116, block type 0x5: block length 16 at its head, 20 at its end: expected them equal",
        ),
        (
            pcapng().enhanced(1, 0, b"", 0).1,
            1,
            "x: byte 116, packet 2: packet of interface 1: expected one of the 1 that the section declares",
        ),
        (
            file(Big).section(Big).simple(b"", 0).1,
            0,
            "x: byte 28, packet 1: packet of interface 0: expected one of the 0 that the section declares",
        ),
        (
            pcapng().block(6, |b| b.raw(&[0; 12]).u32(262_145).u32(0)).1,
            1,
            "x: byte 116, packet 2: captured length 262145: expected at most 262144",
        ),
        (
            pcapng().block(6, |b| b.raw(&[0; 12]).u32(5).u32(5).u32(0)).1,
            1,
            "x: byte 116, packet 2: captured length 5: expected at most the 4 bytes of its block",
        ),
        (
            pcapng().block(3, |b| b.u32(5).u32(0)).1,
            1,
            "x: byte 116, packet 2: captured length 5: expected at most the 4 bytes of its block",
        ),
        (
            pcapng().interface(276, 0, 9, 0).enhanced(0, 0, b"a", 1).enhanced(1, 0, b"a", 1).1,
            2,
            "x: byte 204, packet 3: unsupported link type 276 (Linux cooked v2): expected 1 (Ethernet)",
        ),
        (
            pcapng().interface(1, 0, 0xff, 0).1,
            1,
            "x: byte 116, block type 0x1: clock resolution if_tsresol 0xff: \
             expected 10^0 to 10^-19 (0 to 0x13) or 2^0 to 2^-63 (0x80 to 0xbf) seconds",
        ),
        (
            pcapng().interface(1, 0, 9, -1).enhanced(1, 999_999_999, b"", 0).1,
            1,
            "x: byte 168, packet 2: time stamp out of range: expected 1970 to 2554",
        ),
        (
            pcapng().block(1, |b| b.u32(1).u32(0).u16(9).u16(2).u32(0)).1,
            1,
            "x: byte 116, block type 0x1: option 9 of length 2: expected 1 (if_tsresol)",
        ),
        (
            pcapng().block(1, |b| b.u32(1).u32(0).u16(14).u16(4).u32(0)).1,
            1,
            "x: byte 116, block type 0x1: option 14 of length 4: expected 8 (if_tsoffset)",
        ),
        (
            pcapng().block(1, |b| b.u32(1).u32(0).u16(2).u16(5).u32(0)).1,
            1,
            "x: byte 116, block type 0x1: option 2 of length 5: expected at most what its block holds",
        ),
        (
            pcapng().u32(0x0a0d_0d0a).u32(28).u32(0x4d3c_2b1b).1,
            1,
            "x: byte 116: section header: expected byte-order magic 1a 2b 3c 4d either way round, found 1b 2b 3c 4d",
        ),
        (
            pcapng().block(0x0a0d_0d0a, |b| b.u32(0x1a2b_3c4d).u16(2).u16(0).u64(0)).1,
            1,
            "x: byte 116, block type 0xa0d0d0a: unknown version 2.0: expected pcapng 1.0",
        ),
    ];
    for (bytes, before, expected) in cases {
        let (packets, error) = read(bytes.as_slice());
        let error = error.unwrap();
        // What to do next, unless the fault says it.
        let (fault, advice) = error.split_once("; ").unwrap_or((&error, ""));
        assert_eq!(fault, expected);
        let says_it = ["file cut off", "empty file", "not a capture"].iter().any(|fault| expected.contains(fault));
        let expected_advice = match expected {
            _ if says_it => "",
            _ if expected.contains("Linux cooked") => "capture on the Ethernet interface by its name",
            _ if expected.contains("link type") => "capture on the Ethernet interface of the NIC",
            _ if expected.contains("unknown version") => "convert it, editcap",
            _ => "the file is damaged there: copy it again",
        };
        assert!(advice.starts_with(expected_advice) && advice.is_empty() == says_it, "{error}");
        assert_eq!(packets.len(), before, "packets before: {expected}");
    }
}

#[test]
fn link_types_of_common_roce_captures_are_named() {
    for (number, name) in [(113, "Linux cooked"), (276, "Linux cooked v2"), (197, "ERF"), (101, "raw IP")] {
        let pcapng = file(Big).section(Big).interface(number, 0, 9, 0).enhanced(0, 0, b"a", 1);
        let advice =
            if name.starts_with("Linux cooked") { "by its name, not on `any`: tcpdump -i NAME" } else { "of the NIC" };
        let expected = format!(
            "x: byte 80, packet 1: unsupported link type {number} ({name}): expected 1 (Ethernet); capture on the Ethernet \
             interface {advice}"
        );
        assert_eq!(read(pcapng.1.as_slice()), (vec![], Some(expected)));
    }
}

#[test]
fn an_interface_of_another_link_type_is_accepted_if_it_has_no_packets() {
    let pcapng = file(Big).section(Big).interface(113, 0, 9, 0).interface(1, 0, 9, 0).enhanced(1, 3, b"a", 1);
    assert_eq!(read_well(pcapng.1.as_slice()), [(1, 3, 1, b"a".to_vec())]);
    assert_eq!(read_well(file(Big).pcap_header(MICROSECONDS, 96, 113).1.as_slice()), []);
}

#[test]
fn more_than_65_536_interfaces_are_refused() {
    let interface = file(Little).block(1, |b| b.u32(1).u32(0)).1;
    let many = file(Little).section(Little).raw(&interface.repeat(1 << 16));
    assert_eq!(read(many.1.as_slice()), (vec![], None));
    let (_, error) = read(many.raw(&interface).1.as_slice());
    assert!(error.unwrap().ends_with(
        "too many interfaces: expected at most 65536 in one section; the file is damaged there: copy it again, or capture again"
    ));
}

#[test]
fn a_huge_length_is_refused_before_its_data_is_read() {
    let endless = |head: Bytes| {
        let length = head.1.len() as u64;
        let mut reader = Reader::new(io::Cursor::new(head.1).chain(io::repeat(0)), "x").unwrap();
        assert!(matches!(
            reader.next().unwrap_err().fault,
            Fault::CapturedLength { length: u32::MAX, .. } | Fault::BlockLength { .. }
        ));
        assert_eq!(reader.position(), length);
    };
    endless(file(Little).pcap_header(MICROSECONDS, 96, 1).u64(0).u32(u32::MAX).u32(u32::MAX));
    endless(file(Little).section(Little).u32(6).u32(u32::MAX - 3));
}

#[test]
fn packets_before_a_read_failure_are_returned_and_the_failing_source_is_named() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let pcap = file(Little).pcap_header(MICROSECONDS, 96, 1).record(0, 0, b"abcd", 4).1;
    let (packets, error) = read(pcap.chain(Fails));
    assert_eq!(packets.len(), 1);
    assert_eq!(error.as_deref(), Some("x: byte 44, packet 2: cannot read: the disk is gone"));
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing.pcap"), folder.path().to_owned()] {
        let error = Reader::open(&path).err().unwrap().to_string();
        assert!(error.starts_with(&format!("{}: cannot ", path.display())), "{error}");
    }
}

#[test]
fn a_file_cut_anywhere_yields_its_whole_packets_then_a_clean_end_or_the_cut() {
    for sample in samples() {
        let whole = read_well(sample.as_slice());
        let mut clean_ends = 0;
        for end in 0..sample.len() {
            let (packets, error) = read(&sample[..end]);
            assert_eq!(packets, whole[..packets.len()], "cut at {end}");
            match error {
                None => clean_ends += 1,
                Some(error) => assert!(error.contains(if end == 0 { "empty" } else { "cut off" }), "{error}"),
            }
        }
        // A file that is cut between two packets or blocks looks like a whole one.
        assert!((whole.len()..=whole.len() * 3).contains(&clean_ends), "{clean_ends} clean ends");
    }
}

#[test]
fn packets_are_the_same_for_any_sizes_of_reads() {
    for sample in samples() {
        assert_eq!(read(Dribble(&sample, false)), read(sample.as_slice()));
    }
}

#[test]
fn the_position_ends_at_the_size_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for sample in samples() {
        let path = folder.path().join("capture");
        fs::write(&path, &sample).unwrap();
        let mut source = Source::open(&path).unwrap();
        assert_eq!(source.size(), Some(sample.len() as u64));
        let mut reader = source.reader().unwrap();
        let mut last = reader.position();
        while reader.next().unwrap().is_some() {
            assert!(reader.position() > last);
            last = reader.position();
        }
        assert_eq!(reader.position(), sample.len() as u64);
        drop(reader);
        // Reads it again from the start.
        assert!(source.reader().unwrap().next().unwrap().is_some());
    }
}

#[test]
fn directions_speeds_and_losses_are_read_from_the_options() {
    for order in [Little, Big] {
        let flags = |flags: u32, lost: u64| {
            move |b: Bytes| {
                let b = b.u32(0).u32(0).u32(7).u32(4).u32(4).raw(b"data");
                b.u16(2).u16(4).u32(flags).u16(4).u16(8).u64(lost).u16(0).u16(0)
            }
        };
        let speed = |b: Bytes| b.u16(1).u16(0).u32(0).u16(8).u16(8).u64(25_000_000_000).u16(0).u16(0);
        let statistics = |b: Bytes| {
            let b = b.u32(0).u32(0).u32(0).u16(5).u16(8).u64(5).u16(7).u16(8).u64(90);
            b.u16(4).u16(8).u64(u64::MAX).u16(0).u16(0)
        };
        let file = file(order)
            .section(order)
            .block(1, speed)
            .block(6, flags(1, 3))
            .block(6, flags(2, 4))
            .block(6, flags(0, 0));
        let file = file.obsolete(0, 9, b"old", 3).block(5, statistics).block(5, |b| b.u32(9).u64(0));
        let mut reader = Reader::new(file.1.as_slice(), "x").unwrap();
        let mut ways = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            assert!(record.is_timed && record.speed == 25_000_000_000);
            ways.push(record.direction);
        }
        use Direction::{Inbound, Outbound, Unknown};
        assert_eq!(ways, [Inbound, Outbound, Unknown, Unknown]);
        // 65,535 drops before an obsolete packet mean that the number is not known.
        assert_eq!(reader.dropped(), Dropped { interface: 5, system: 90, between: 7 });
        assert_eq!(reader.dropped().total(), 95);
    }
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let bytes = prop_oneof![
        20 => prop::collection::vec(any::<u8>(), 0..200),
        5 => Just(vec![7; 1_064]),
        1 => Just(vec![1; 262_144]),
    ];
    let packet = (0..3u32, any::<u64>(), bytes, 0..9_000u32);
    let packet = packet.prop_map(|(interface, time, bytes, cut)| (interface, time, bytes.len() as u32 + cut, bytes));
    prop::collection::vec(packet, 0..20)
}

fn write(packets: &[Packet]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &["sender", "", "switch port 1"]).unwrap();
    for (interface, time, original, bytes) in packets {
        writer.write(*interface, *time, bytes, *original).unwrap();
    }
    writer.into_sink().unwrap()
}

/// Reads with the crate `pcap-parser`, which shares no code with ours: interface names and packets.
fn read_with_pcap_parser(bytes: &[u8]) -> (Vec<String>, Vec<Packet>) {
    use pcap_parser::traits::PcapNGPacketBlock;
    use pcap_parser::{Block, parse_block_le};
    let (mut rest, mut names, mut packets) = (bytes, Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (after, block) = parse_block_le(rest).unwrap();
        match block {
            Block::InterfaceDescription(interface) => {
                assert_eq!((interface.linktype.0, interface.if_tsresol), (1, 9));
                names.push(interface.if_name().unwrap().unwrap().to_owned());
            }
            Block::EnhancedPacket(packet) => {
                let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                packets.push((packet.if_id, time, packet.orig_len(), packet.packet_data().to_vec()));
            }
            _ => {}
        }
        rest = after;
    }
    (names, packets)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_captures_are_read_by_this_reader_and_by_pcap_parser(packets in packets()) {
        let file = write(&packets);
        prop_assert_eq!(&read_well(file.as_slice()), &packets);
        let (names, theirs) = read_with_pcap_parser(&file);
        prop_assert_eq!(names, ["sender", "", "switch port 1"]);
        prop_assert_eq!(theirs, packets);
    }

    #[test]
    fn damaged_files_never_panic(
        sample in prop::sample::select(samples()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = sample;
        for (index, value) in damage {
            *index.get_mut(&mut bytes) = value;
        }
        let (_, error) = read(bytes.as_slice());
        prop_assert!(error.is_none_or(|error| error.starts_with("x: ") && !error.contains('\n')));
    }

    #[test]
    fn noise_after_a_header_never_panics(
        sample in prop::sample::select(samples()),
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        // 28 bytes are the section header of pcapng; in pcap they end 4 bytes inside a record.
        read(sample[..28].chain(noise.as_slice()));
    }
}

#[test]
fn the_writer_refuses_packets_that_cannot_be_read_back() {
    let mut writer = Writer::new(Vec::new(), &["eth0"]).unwrap();
    let refusal = |result: io::Result<()>| result.unwrap_err().to_string();
    assert_eq!(refusal(writer.write(1, 0, b"", 0)), "interface 1: expected one of the 1 declared");
    assert_eq!(refusal(writer.write(0, 0, b"abc", 2)), "packet of 3 bytes: expected at most 2");
    assert_eq!(
        refusal(writer.write(0, 0, &vec![0; 262_145], u32::MAX)),
        "packet of 262145 bytes: expected at most 262144"
    );
    writer.write(0, 5, b"abc", 3).unwrap();
    assert_eq!(read_well(writer.into_sink().unwrap().as_slice()), [(0, 5, 3, b"abc".to_vec())]);
    assert!(Writer::new(Vec::new(), &[&"n".repeat(65_536)]).is_err());
}

fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_file_appears_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    fs::write(&path, "precious").unwrap();
    let private = PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, private).unwrap();

    let mut writer = Writer::create(&path, &["eth0"]).unwrap();
    writer.write(0, 1, b"abc", 3).unwrap();
    assert_eq!(names_in(folder.path()).len(), 2, "the temporary is in the same folder");
    drop(writer);
    assert_eq!(names_in(folder.path()), ["out.pcapng"]);
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    let mut writer = Writer::create(&path, &["eth0"]).unwrap();
    writer.write(0, 1, b"abc", 3).unwrap();
    writer.finish().unwrap();
    assert_eq!(names_in(folder.path()), ["out.pcapng"]);
    assert_eq!(read_well(fs::File::open(&path).unwrap()), [(0, 1, 3, b"abc".to_vec())]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "those of the file before");
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("none").join("out.pcapng")] {
        let error = Writer::create(&path, &["eth0"]).err().unwrap().to_string();
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
    }
}

/// The path of a real capture beside the workspace; `None` in a fresh clone, which has none.
fn shared_trace(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !folder.is_dir() {
        let _ = writeln!(std::io::stderr(), "skipped: no folder {}", folder.display());
        return None;
    }
    Some(folder.join(name))
}

#[test]
fn real_captures_have_as_many_packets_as_tshark_counts() {
    for (name, count) in [
        ("rocev2-rc-send-ect0-sport69-72.pcap", 123),
        ("lldp-dcbx-pfc.pcap", 5),
        ("lldp-dcbx-ets.pcap", 67),
        ("lldp-dcbx-qcn.pcap", 19),
        ("vlan-pcp-dei.pcapng", 9),
        ("qinq-tcp.pcap", 14),
        ("mpls-in-vlan.pcap", 3),
        ("pcapng-multi-interface.pcapng", 6),
        ("trunc-ip4.pcap", 1),
        ("trunc-ip6-ext.pcap", 1),
        ("nsec-le.pcap", 2),
        ("nsec-be.pcap", 10),
        ("pcapng-le-two-idb-all-options.pcapng", 4),
        ("pcapng-be-spb-epb-nrb.pcapng", 4),
    ] {
        let Some(path) = shared_trace(name) else { return };
        assert_eq!(read_well(fs::File::open(path).unwrap()).len(), count, "{name}");
    }
}

#[test]
fn real_captures_have_the_times_and_lengths_that_tshark_shows() {
    let read_shared = |name| shared_trace(name).map(|path| read_well(fs::File::open(path).unwrap()));
    let Some(packets) = read_shared("nsec-le.pcap") else { return };
    assert_eq!([packets[0].1, packets[1].1], [1_000_002_000, 1_000_001_234]);
    let Some(packets) = read_shared("nsec-be.pcap") else { return };
    assert_eq!([packets[0].1, packets[1].1], [1_766_361_926_167_647_291, 1_766_361_926_167_658_091]);
    let Some(packets) = read_shared("rocev2-rc-send-ect0-sport69-72.pcap") else { return };
    assert_eq!(packets[0].1, 1_650_970_174_376_937_000);
    let Some(packets) = read_shared("pcapng-le-two-idb-all-options.pcapng") else { return };
    assert_eq!(packets[0].1, 1_340_954_905_298_858);
    let lengths: Vec<_> = packets.iter().map(|packet| (packet.0, packet.2, packet.3.len())).collect();
    assert_eq!(lengths, [(0, 314, 96), (1, 342, 128), (0, 314, 96), (1, 342, 128)]);
}

#[test]
fn native_infiniband_is_an_unsupported_link_type() {
    let Some(path) = shared_trace("infiniband-native-erf-nsec.pcap") else { return };
    let (packets, error) = read(fs::File::open(path).unwrap());
    assert_eq!(packets, []);
    let expected = "x: byte 24, packet 1: unsupported link type 197 (ERF): expected 1 (Ethernet); capture on the \
                    Ethernet interface of the NIC";
    assert_eq!(error.as_deref(), Some(expected));
}
