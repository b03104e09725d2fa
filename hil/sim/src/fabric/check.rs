//! Holds the bytes of a packet of the fabric, which templates and changes in place have made, to a full parse and a full emission.

use super::packets::Kind;
use crate::packet::{self, DATA_DSCP, Flow, ZEROS};
use anyhow::{Context, Result, anyhow, ensure};
use cc_core::wire::{Bth, Extensions, Frame, NoCrc, Roce, Tags, cm, opcode};
use cc_core::{CnpBodyKind, Ecn, Psn, Qpn};

/// What a full parse reads, as a frame, with the length of the payload, which a slot may not hold.
fn frame_of<'a>(roce: &Roce<'a>) -> (Frame<'a>, usize) {
    let frame = Frame {
        destination: roce.destination_mac(),
        source: roce.source_mac(),
        tags: roce.tags(),
        addresses: roce.addresses(),
        dscp: roce.dscp(),
        ecn: roce.ecn,
        hop_limit: roce.hop_limit(),
        udp_source: roce.udp_source().unwrap_or(0),
        shims: roce.shims(),
        bth: roce.bth,
        extensions: Extensions {
            aeth: roce.aeth().unwrap_or_default(),
            deth: roce.deth().unwrap_or_default(),
            reth: roce.reth().unwrap_or_default(),
            cnp: roce.cnp().unwrap_or(CnpBodyKind::Standard),
            ..Extensions::default()
        },
        payload: roce.payload(),
    };
    (frame, roce.payload_len)
}

/// Checks the bytes of a packet of a flow, which is `wire_len` bytes long on the wire:
///
/// - read by the layout of `example`, if it is laid out like it, it is what a full parse returns;
/// - a full emission writes the same bytes. Emitted are the constants of the flow and, of what the parse returns, only what differs
///   between its packets: opcode, pad, sequence number, the bit that requests an acknowledgement, ECN, shims, the acknowledgement's
///   fields, the range of a READ, the body of a CNP and the message of a handshake.
///
/// # Errors
/// They differ: a fault of the simulation.
pub(super) fn check(bytes: &[u8], wire_len: u16, kind: Kind, flow: &Flow, example: &Roce<'_>) -> Result<()> {
    let roce = packet::parse(bytes, wire_len.into())?;
    let (seen, payload_len) = frame_of(&roce);
    if let Some(like) = example.like(bytes) {
        ensure!(
            frame_of(&like) == (seen, payload_len) && (like.info, like.pad) == (roce.info, roce.pad),
            "read by the layout of another packet it is {like:?}, by a full parse {roce:?}"
        );
    }
    let to = if matches!(kind, Kind::Data | Kind::Request) { flow.receiver } else { flow.sender };
    let head = packet::headers(flow, to);
    let Bth { opcode, psn, ack_request, fecn, becn, dest_qp, .. } = seen.bth;
    let replied = Frame { ecn: Ecn::Ect0, shims: seen.shims, extensions: seen.extensions, ..head };
    let datagram;
    let expected = match kind {
        Kind::Data => {
            let bth = Bth { opcode, psn, ack_request, ..head.bth };
            let payload = ZEROS.get(..payload_len).context("a payload longer than the largest MTU")?;
            Frame { dscp: DATA_DSCP, ecn: seen.ecn, bth, payload, ..replied }
        }
        Kind::Ack => Frame { bth: Bth { opcode: opcode::ACKNOWLEDGE, psn, fecn, becn, ..head.bth }, ..replied },
        Kind::Cnp => {
            // A switch does not know the sender's queue pair.
            let dest_qp = if dest_qp == Qpn::new(0) { dest_qp } else { flow.sender_qpn };
            let bth = Bth { opcode: opcode::CNP, becn: true, dest_qp, ..head.bth };
            Frame { bth, udp_source: 0, payload: seen.payload, ..replied }
        }
        Kind::ReadRequest => {
            Frame { dscp: DATA_DSCP, bth: Bth { opcode: opcode::READ_REQUEST, psn, ..head.bth }, ..replied }
        }
        Kind::Request | Kind::Reply => {
            let (bth, extensions) = cm::headers(Psn::new(0));
            datagram = cm::Message::parse(&roce).context("a message of the connection manager cannot be read")?.emit();
            Frame { bth, extensions, payload: &datagram, ..head }
        }
    };
    let mut buffer = [0; ZEROS.len() + 512];
    let expected = Frame { tags: Tags::default(), ..expected };
    let len = expected.emit::<NoCrc>(&mut buffer).map_err(|error| anyhow!("cannot be emitted: {error:?}"))?;
    ensure!(len == usize::from(wire_len), "{wire_len} bytes on the wire, where a full emission has {len}");
    let differs = bytes.iter().zip(&buffer).position(|(byte, fresh)| byte != fresh);
    differs.map_or(Ok(()), |at| {
        Err(anyhow!("byte {at} is {:#04x}, where a full emission has {:#04x}", bytes[at], buffer[at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketFormat;
    use cc_core::wire;
    use cc_core::{IntLayout, Stamp};
    use cc_rp::Signals;

    const FLOW: Flow = Flow {
        sender: 3,
        receiver: 5,
        sender_qpn: Qpn::new(0x101),
        receiver_qpn: Qpn::new(0x207),
        first_psn: Psn::new(9),
    };

    /// The bits of a packet whose change is not noticed, by byte.
    fn unnoticed(bytes: &[u8], wire_len: u16, kind: Kind, example: &Roce<'_>) -> Vec<(usize, u8)> {
        check(bytes, wire_len, kind, &FLOW, example).unwrap();
        let mut unnoticed = Vec::new();
        for at in 0..bytes.len() {
            let passes = |bit: &u8| {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                check(&flipped, wire_len, kind, &FLOW, example).is_ok()
            };
            let bits = (0..8).filter(passes).fold(0, |bits, bit| bits | 1 << bit);
            unnoticed.extend((bits != 0).then_some((at, bits)));
        }
        unnoticed
    }

    /// Of a data packet's headers, every flip of a bit is noticed, except where packets of a flow differ: in the opcode (other SENDs
    /// without an extension header, or other transports), the pad count (997 to 1,000 bytes are equally long on the wire), the
    /// request for an acknowledgement, the sequence number, and the contents of shims.
    #[test]
    fn a_flip_of_any_bit_that_does_not_differ_between_packets_is_noticed() {
        for signals in [Signals::CNP, Signals::DELAY, Signals::INT, Signals::INT.with(Signals::ADVISED_RATE)] {
            let format = PacketFormat::of(signals, 1_000).with_int(IntLayout::Compact);
            let (mut header, layout) = format.template(&FLOW).unwrap();
            let template = header.clone();
            let example = packet::parse(&template, layout.wire_len.into()).unwrap();
            layout.fill(&mut header, &FLOW, opcode::SEND_FIRST, Psn::new(77), true, Stamp::from_bits(5));
            wire::set_ecn(&mut header, Ecn::Ce);
            let shims_at = 14 + 20 + 8;
            for (at, bits) in unnoticed(&header, layout.wire_len, Kind::Data, &example) {
                let allowed = match at.checked_sub(layout.bth_at) {
                    None if at >= shims_at => 0xff,
                    Some(0 | 9..12) => 0xff,
                    Some(1) => 0x30,
                    Some(8) => 0x80,
                    _ => 0,
                };
                assert_eq!(bits & !allowed, 0, "byte {at} of {header:02x?}: bits {bits:08b}");
            }
        }
    }

    /// Of an acknowledgement: opcode, marks, sequence number and AETH may differ, and nothing else; the four bytes of the ICRC are
    /// zeros until a tap fills them in.
    #[test]
    fn a_flip_in_an_acknowledgement_is_noticed() {
        let ack = packet::Control::Ack { psn: Psn::new(12), messages: 3, marked: true };
        let bytes = packet::control(&FLOW, FLOW.sender, ack).unwrap();
        let example = packet::parse(&bytes, bytes.len()).unwrap();
        let bth_at = example.bth_at();
        let at_bth = unnoticed(&bytes, bytes.len() as u16, Kind::Ack, &example);
        let allowed = |at: usize| match at.checked_sub(bth_at) {
            Some(4) => 0xc0,
            Some(9..16) => 0xff,
            _ => 0,
        };
        assert!(at_bth.iter().all(|&(at, bits)| bits & !allowed(at) == 0), "{at_bth:?}");
    }

    /// Templates of another flow, and one whose length is wrong.
    #[test]
    fn a_wrong_template_is_noticed() {
        let format = PacketFormat::of(Signals::INT, 1_000);
        let (header, layout) = format.template(&FLOW).unwrap();
        let example = packet::parse(&header, layout.wire_len.into()).unwrap();
        let error =
            |flow: &Flow, wire_len| check(&header, wire_len, Kind::Data, flow, &example).unwrap_err().to_string();
        let other = Flow { receiver_qpn: Qpn::new(0x208), ..FLOW };
        let at = layout.bth_at + 7;
        assert_eq!(error(&other, layout.wire_len), format!("byte {at} is 0x07, where a full emission has 0x08"));
        assert!(error(&Flow { sender: 4, ..FLOW }, layout.wire_len).starts_with("byte 11 is 0x03"));
        assert!(!error(&FLOW, layout.wire_len + 4).is_empty());
    }
}
