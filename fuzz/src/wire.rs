//! Any bytes as a frame.

use cc_core::wire::{
    Addresses, Bth, CnpMarking, EmitError, Extensions, Frame, Icrc, Mac, Malformed, Packet, Pfc, Roce, TableCrc, Tag,
    cm, opcode, parse, pfc,
};
use cc_core::{CnpHint, Ecn, Psn, Qpn};
use hil::crc::HostCrc;

/// The headers that a cut is tried within; behind them it only shortens the payload.
const HEADERS: usize = 192;
/// Room for the longest frame that length fields allow, with as many tags as an input may bring.
const SPARE: usize = 256;

/// Parses the bytes as a whole frame and as one cut by a capture, and sends what was understood back through
/// emission.
///
/// # Panics
/// - A whole frame is called truncated.
/// - A cut frame is anything but truncated or what the whole frame is.
/// - Lengths don't add up; two CRC engines disagree.
/// - What was parsed, emitted and parsed again differs, or its ICRC is wrong.
pub fn wire(data: &[u8]) {
    let whole = parse(data, data.len());
    assert_ne!(whole.err(), Some(Malformed::Truncated), "nothing was cut");
    for kept in 0..data.len().min(HEADERS) {
        cut(&whole, &data[..kept], data.len());
    }
    match whole {
        Ok(Packet::Roce(roce)) => {
            lengths(&roce, data.len());
            re_emit(&roce);
            answer(&roce);
            management(&roce);
        }
        Ok(Packet::Pfc(pfc)) => priority_flow_control(pfc),
        Ok(Packet::Other(_)) | Err(_) => {}
    }
}

/// A capture that kept the first bytes of a frame shows the frame, or says that it can't.
fn cut(whole: &Result<Packet<'_>, Malformed>, kept: &[u8], wire_len: usize) {
    match (parse(kept, wire_len), whole) {
        (Err(Malformed::Truncated), _) => {}
        (Err(cut), Err(whole)) => assert_eq!(cut, *whole),
        (Ok(Packet::Other(cut)), Ok(Packet::Other(whole))) => assert_eq!(cut, *whole),
        (Ok(Packet::Pfc(cut)), Ok(Packet::Pfc(whole))) => assert_eq!(cut, *whole),
        (Ok(Packet::Roce(cut)), Ok(Packet::Roce(whole))) => {
            assert_eq!(Seen::of(&cut), Seen::of(whole));
            assert_eq!((cut.payload_len, cut.pad, cut.wire_len), (whole.payload_len, whole.pad, whole.wire_len));
            assert!(whole.payload().starts_with(cut.payload()));
            match cut.is_truncated() {
                true => assert_eq!(cut.icrc::<TableCrc>(), Icrc::Unchecked),
                false => assert_eq!(cut.icrc::<TableCrc>(), whole.icrc::<TableCrc>()),
            }
        }
        (cut, whole) => panic!("cut: {cut:?}, whole: {whole:?}"),
    }
}

fn lengths(roce: &Roce<'_>, frame_len: usize) {
    assert!(!roce.is_truncated());
    assert_eq!(roce.wire_len.get() as usize, frame_len);
    assert_eq!(roce.payload().len(), roce.payload_len);
    assert!(roce.pad < 4 && roce.dscp() < 64);
    let least = 12 + roce.info.header_len() + roce.payload_len + usize::from(roce.pad) + 4;
    assert!(least < frame_len);
    assert_eq!(roce.icrc::<TableCrc>(), roce.icrc::<HostCrc>());
    assert_ne!(roce.icrc::<TableCrc>(), Icrc::Unchecked);
    assert_eq!(roce.vlan(), roce.tags().iter().next());
}

/// What a receiver reads in a packet, and a frame can say again.
#[derive(PartialEq, Debug)]
struct Seen {
    addresses: Addresses,
    macs: [Mac; 2],
    tags: Vec<Tag>,
    dscp: u8,
    ecn: Ecn,
    udp_source: Option<u16>,
    bth: Bth,
    extensions: Extensions,
}

impl Seen {
    fn of(roce: &Roce<'_>) -> Self {
        let info = roce.info;
        assert_eq!(info, opcode::info(roce.bth.opcode));
        assert_eq!(roce.aeth().is_some(), info.has(opcode::Header::Ack));
        assert_eq!(roce.deth().is_some(), info.has(opcode::Header::Datagram));
        assert_eq!(roce.reth().is_some(), info.has(opcode::Header::Rdma));
        assert_eq!(roce.cnp().is_some(), info.has(opcode::Header::Cnp));
        Self {
            addresses: roce.addresses(),
            macs: [roce.destination_mac(), roce.source_mac()],
            tags: roce.tags().iter().collect(),
            dscp: roce.dscp(),
            ecn: roce.ecn,
            udp_source: roce.udp_source(),
            bth: roce.bth,
            extensions: Extensions {
                deth: roce.deth().unwrap_or_default(),
                reth: roce.reth().unwrap_or_default(),
                aeth: roce.aeth().unwrap_or_default(),
                immediate: roce.immediate().unwrap_or_default(),
                invalidate: roce.invalidate().unwrap_or_default(),
                cnp: roce.cnp().unwrap_or_default(),
            },
        }
    }
}

/// Emits a frame and hands what a receiver of it sees to `check`. Nothing happens when the frame is too long, which
/// only a payload near the limit of the length fields can be: extensions that were parsed away make room otherwise.
fn sent(frame: &Frame<'_>, check: impl FnOnce(&Roce<'_>, &[u8])) {
    let mut buffer = vec![0xee; frame.payload.len() + frame.tags.iter().count() * 4 + SPARE];
    let len = match frame.emit::<HostCrc>(&mut buffer) {
        Ok(len) => len,
        Err(EmitError::TooLong) if frame.payload.len() > 0xff00 => return,
        Err(error) => panic!("{frame:?}: {error:?}"),
    };
    assert_eq!(frame.emit::<TableCrc>(&mut vec![0; len - 1]), Err(EmitError::BufferTooSmall));
    assert!(buffer[len..].iter().all(|&byte| byte == 0xee), "emission keeps to the frame's length");
    let bytes = &buffer[..len];
    match parse(bytes, len) {
        Ok(Packet::Roce(roce)) => {
            lengths(&roce, len);
            assert_eq!(roce.icrc::<TableCrc>(), Icrc::Valid);
            check(&roce, bytes);
        }
        other => panic!("{frame:?} was read as {other:?}"),
    }
}

/// The frame that says what this packet says.
fn frame_of<'a>(roce: &Roce<'a>) -> Frame<'a> {
    let Seen { addresses, macs: [destination, source], dscp, ecn, udp_source, bth, extensions, .. } = Seen::of(roce);
    let udp_source = udp_source.unwrap_or(0);
    let (tags, payload) = (roce.tags(), roce.payload());
    let (shims, hop_limit) = (roce.shims(), roce.hop_limit());
    Frame {
        destination,
        source,
        tags,
        addresses,
        dscp,
        ecn,
        hop_limit,
        udp_source,
        shims,
        bth,
        extensions,
        payload,
    }
}

fn re_emit(roce: &Roce<'_>) {
    sent(&frame_of(roce), |again, bytes| {
        assert_eq!(Seen::of(again), Seen::of(roce));
        assert_eq!(again.payload(), roce.payload());
        sent(&frame_of(again), |_, once_more| assert_eq!(bytes, once_more));
    });
}

/// The CNP that any packet could be answered with.
fn answer(roce: &Roce<'_>) {
    let to = Qpn::new(roce.bth.psn.get());
    let hint = roce.cnp().unwrap_or_default();
    sent(&Frame::cnp(roce, to, hint, CnpMarking::default()), |cnp, _| {
        assert_eq!((cnp.bth.opcode, cnp.bth.dest_qp, cnp.bth.becn), (opcode::CNP, to, true));
        assert_eq!(cnp.cnp(), Some(hint));
        assert_eq!((cnp.addresses(), cnp.version()), (roce.addresses().reversed(), roce.version()));
        assert_eq!((cnp.destination_mac(), cnp.source_mac()), (roce.source_mac(), roce.destination_mac()));
        assert!(cnp.tags().iter().all(|tag| tag.priority == CnpMarking::default().priority));
        assert!(cnp.payload().is_empty());
    });
    assert_eq!(roce.cnp().is_some(), roce.bth.opcode == opcode::CNP);
    if let Some(CnpHint::Body(body)) = roce.cnp() {
        assert!(body.remote_qpn.get() < 1 << 24);
    }
}

fn management(roce: &Roce<'_>) {
    let Some(message) = cm::Message::parse(roce) else { return };
    let datagram = message.emit().expect("a message fits its datagram");
    let (bth, extensions) = cm::headers(Psn::new(7));
    let frame = Frame { bth, extensions, payload: &datagram, ..frame_of(roce) };
    sent(&frame, |again, _| assert_eq!(cm::Message::parse(again), Some(message)));
}

fn priority_flow_control(pfc: Pfc) {
    for priority in 0..=u8::MAX {
        let enabled = priority < 8 && pfc.enabled >> priority & 1 == 1;
        assert_eq!(pfc.time(priority), enabled.then(|| pfc.quanta[usize::from(priority)]));
    }
    let mut buffer = [0; pfc::FRAME_LEN];
    assert_eq!(pfc.emit(Mac::default(), &mut buffer), Ok(buffer.len()));
    match parse(&buffer, buffer.len()) {
        Ok(Packet::Pfc(again)) => assert_eq!(again, pfc),
        other => panic!("{pfc:?} was read as {other:?}"),
    }
}
