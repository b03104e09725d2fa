//! LSCC's rate messages: their bytes, and frames that are rejected.

use super::*;
use crate::wire::rate_message::RateMessageError;

const MESSAGE: RateMessage = RateMessage {
    seq: 0x0102,
    units: 0x0003_0d40,
    keepalive: true,
    at_minimum: false,
    at_maximum: true,
    stamp: Stamp::from_bits(0x1122_3344),
    port: 0x0506,
    priority: 3,
};

fn rate_frame(addresses: Addresses) -> RateFrame<'static> {
    RateFrame {
        destination: Mac::new([2, 0, 0, 0, 0, 2]),
        source: Mac::new([2, 0, 0, 0, 0, 1]),
        tags: Tags::NONE,
        addresses,
        dscp: 48,
        message: MESSAGE,
    }
}

fn bytes(frame: &RateFrame<'_>) -> Vec<u8> {
    let mut buffer = vec![0xee; 128];
    let length = frame.emit(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

fn read(frame: &[u8]) -> Result<RateMessage, RateMessageError> {
    RateMessage::parse(frame, frame.len())
}

/// The one's complement of the one's complement sum, as RFC 1071 words it, of bytes that include the checksum.
fn residue(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

#[test]
fn a_message_is_icmp_of_an_experimental_type_with_a_right_checksum() {
    let frame = bytes(&rate_frame(V4));
    let body = hex("4c53 0102 030d40 05 11223344 0506 03 00");
    assert_eq!(frame[..14], hex("020000000002 020000000001 0800"));
    assert_eq!(frame[14..34][8..10], [255, 1]);
    assert_eq!((&frame[34..36], &frame[38..]), (&[253, 0][..], &body[..]));
    assert_eq!((residue(&frame[14..34]), residue(&frame[34..])), (0, 0));

    let frame = bytes(&rate_frame(V6));
    assert_eq!(frame[12..22], hex("86dd 6c000000 0014 3a ff"));
    assert_eq!((&frame[54..56], &frame[58..]), (&[200, 0][..], &body[..]));
    let with_pseudo_header = [&frame[22..54], &[0, 0, 0, 20, 0, 0, 0, 58], &frame[54..]].concat();
    assert_eq!(residue(&with_pseudo_header), 0);
}

#[test]
fn a_frame_that_is_no_rate_message_is_rejected_with_the_reason() {
    for addresses in [V4, V6] {
        let good = bytes(&rate_frame(addresses));
        assert_eq!(read(&good), Ok(MESSAGE));
        assert_eq!(read(&[&good[..], &[0; 20]].concat()), Ok(MESSAGE), "padded by a port");
        let network = if addresses == V4 { 20 } else { 40 };
        let at = 14 + network;
        let changed = |offset: usize, byte: u8| {
            let mut frame = good.clone();
            frame[offset] = byte;
            read(&frame)
        };
        for (offset, byte) in good.iter().enumerate().skip(at + 2) {
            let expected = if (at + 4..at + 6).contains(&offset) {
                RateMessageError::NotRateMessage
            } else {
                RateMessageError::Checksum
            };
            assert_eq!(changed(offset, !byte), Err(expected), "{offset}");
        }
        assert_eq!(changed(at, 8), Err(RateMessageError::NotRateMessage), "an echo request");
        assert_eq!(changed(at + 1, 1), Err(RateMessageError::NotRateMessage));
        let hop_limit = if addresses == V4 { 14 + 8 } else { 14 + 7 };
        for hops in 0..255 {
            assert_eq!(changed(hop_limit, hops), Err(RateMessageError::HopLimit), "{hops}");
        }
        for length in 0..good.len() {
            assert!(
                matches!(read(&good[..length]), Err(RateMessageError::Malformed(_) | RateMessageError::NotRateMessage)),
                "{length}"
            );
            let cut = RateMessage::parse(&good[..length], good.len());
            assert!(
                matches!(
                    cut,
                    Err(RateMessageError::Malformed(Malformed::Truncated) | RateMessageError::NotRateMessage)
                ),
                "{length}"
            );
        }
        for more in [1, 4] {
            let mut long = [&good[..], &vec![0; more]].concat();
            long[if addresses == V4 { 17 } else { 19 }] += more as u8;
            assert_eq!(read(&long), Err(RateMessageError::Length));
            let mut short = good.clone();
            short[if addresses == V4 { 17 } else { 19 }] -= more as u8;
            assert_eq!(read(&short), Err(RateMessageError::Length));
        }
    }
    for frame in built() {
        assert_eq!(read(&frame), Err(RateMessageError::NotRateMessage));
    }
    assert_eq!(RateMessageError::Malformed(Malformed::Ihl).name(), "ihl");
}

#[test]
fn a_buffer_one_byte_too_short_is_refused() {
    for (addresses, length) in [(V4, 54), (V6, RateFrame::LONGEST)] {
        let frame = rate_frame(addresses);
        assert_eq!(frame.emit(&mut [0; RateFrame::LONGEST]), Ok(length));
        assert_eq!(frame.emit(&mut vec![0; length - 1]), Err(EmitError::BufferTooSmall));
    }
}

proptest! {
    #[test]
    fn a_message_is_read_back(
        addresses in any_addresses(),
        tags in any_tags(),
        (seq, units, stamp, port) in (any::<u16>(), any::<u32>(), any::<u32>(), any::<u16>()),
        (flags, priority, dscp) in (any::<[bool; 3]>(), 0..8_u8, 0..64_u8),
    ) {
        let [keepalive, at_minimum, at_maximum] = flags;
        let stamp = Stamp::from_bits(stamp);
        let message = RateMessage { seq, units, keepalive, at_minimum, at_maximum, stamp, port, priority };
        let frame = RateFrame { tags: Tags::new(&tags).unwrap(), dscp, message, ..rate_frame(addresses) };
        let expected = RateMessage { units: units.min(0x00ff_ffff), ..message };
        prop_assert_eq!(read(&bytes(&frame)), Ok(expected));
    }

    #[test]
    fn random_bytes_are_rejected(frame in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(read(&frame).is_err());
    }
}
