//! The target of the frame parser and builder: the bytes are a frame.

use cc_core::wire::shim::{self, IntShim, Rcc, Time};
use cc_core::wire::{
    AckFields, Addresses, Bth, Class, CnpMarking, EmitError, Extensions, Frame, Icrc, Mac, Malformed, Nak, Parsed, Pfc,
    RateFrame, RateMessage, Response, Roce, Shims, Syndrome, TableCrc, Tag, Tags, cm, opcode, parse, pfc,
};
use cc_core::{Bytes, CnpBodyKind, Ecn, Grant, Hop, Instant, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp};
use cc_np::NotificationPoint;
use cc_rp::{RateLimiter, ReactionPoint};
use hil_capture::crc::HostCrc;
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::{Hardware, LogKind, NicProgram, Small, TransmitRing};

/// Frames are cut at each of their first bytes up to this number, which the longest headers do not exceed. A later cut only
/// shortens the payload.
const HEADERS: usize = 192 + shim::LONGEST;
/// The buffer's bytes besides payload and tags: enough for the longest headers.
const SPARE: usize = 256 + shim::LONGEST;

/// Parses the bytes as a whole frame, and as one of which a capture kept only the first bytes. Emits the parsed frame again,
/// builds responses to it, and adds telemetry to it as a switch does.
///
/// # Panics
/// - A whole frame is parsed as truncated.
/// - A cut frame is parsed neither as truncated nor as the whole frame is.
/// - Lengths do not add up; the results of two CRC engines differ.
/// - A frame differs after it was emitted and parsed again, or its ICRC is wrong.
/// - A switch's record changes more than the telemetry.
/// - The NIC's program counts the frame otherwise than once, under the reason or the class that the parser finds.
pub fn wire(data: &[u8]) {
    let whole = parse(data, data.len());
    assert_ne!(whole.err(), Some(Malformed::Truncated), "nothing was cut");
    counted_once(&whole, data);
    for kept in 0..data.len().min(HEADERS) {
        cut(&whole, &data[..kept], data.len());
    }
    match whole {
        Ok(Parsed::Roce(roce)) => {
            lengths(&roce, data.len());
            re_emit(&roce);
            notify(&roce);
            acknowledge(&roce);
            forward(data, &roce);
            management(&roce);
            switch_int(&roce);
        }
        Ok(Parsed::Pfc(pfc)) => priority_flow_control(pfc),
        Ok(Parsed::NotRoce(_)) => rate_message(data),
        Err(_) => {}
    }
}

/// The device below a NIC's program, which has room for one frame and ignores decisions.
struct Device([u8; 512]);

impl RateLimiter for Device {
    fn set(&mut self, _: u16, _: Rate, _: Bytes, _: Nanos) {}
}

impl TransmitRing for Device {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn transmit(&mut self, _: usize) {}
}

impl Hardware for Device {
    type Crc = HostCrc;

    fn log(&mut self, _: LogKind, _: Instant, _: u32) {}
}

/// Each arrival of the frame, with its ICRC checked by the device or not, raises exactly one counter of the NIC's program.
fn counted_once(whole: &Result<Parsed<'_>, Malformed>, data: &[u8]) {
    let link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(4_200), base_rtt: Nanos::new(12_000) };
    let (rp, np) = (cc_rp::dcqcn::Dcqcn::PRESETS[0].values, cc_np::dcqcn::Dcqcn::PRESETS[0].values);
    let start = Instant::from_nanos(0);
    let program = NicProgram::<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn, Small>::new(start, link, &rp, &np);
    let mut program = program.expect("a preset's settings");
    for flags in [0, Descriptor::ICRC_CHECKED] {
        let expected = match whole {
            Err(_) => "rx_malformed",
            Ok(Parsed::NotRoce(_)) => "rx_not_roce",
            Ok(Parsed::Pfc(_)) => "rx_pause",
            Ok(Parsed::Roce(roce)) if flags == 0 && roce.icrc::<TableCrc>() == Icrc::Invalid => "rx_icrc_invalid",
            Ok(Parsed::Roce(roce)) => match (roce.info.class(), roce.aeth().map(|aeth| aeth.syndrome)) {
                (Class::Cnp, _) => "rx_cnp",
                (Class::Ack, Some(Syndrome::Ack { .. })) => "rx_ack",
                (Class::Ack, Some(Syndrome::Nak(Nak::PsnSequence))) => "rx_nack",
                (Class::Ack, _) => "rx_nak_other",
                (Class::Unknown, _) => "rx_unknown_opcode",
                _ => "rx_data",
            },
        };
        let before = program.rx_counters().named();
        let wire_bytes = data.len() as u32;
        let descriptor = Descriptor { flags, wire_bytes, ..Descriptor::at(DescriptorKind::Frame, 1_000) };
        program.handle(Instant::from_nanos(1_000), &descriptor, data, &mut Device([0; 512]));
        for ((name, before), (_, after)) in before.into_iter().zip(program.rx_counters().named()) {
            assert_eq!(after - before, u64::from(name == expected), "{name}, where {expected} is to be counted");
        }
    }
}

/// Checks that a Switch-INT's telemetry is equal, byte by byte, after it was parsed and written again.
fn switch_int(roce: &Roce<'_>) {
    if let Some(int) = roce.switch_int() {
        assert_eq!(int.write(&mut [0; IntShim::LONGEST]), Ok(roce.payload()));
    }
}

/// Checks that a rate message between interconnect switches is equal after it was emitted and parsed again.
fn rate_message(data: &[u8]) {
    let Ok(message) = RateMessage::parse(data, data.len()) else { return };
    let (mac, tags) = (Mac::new([2; 6]), Tags::NONE);
    let addresses = Addresses::V6 { source: 1_u128.into(), destination: 2_u128.into() };
    let again = RateFrame { destination: mac, source: mac, tags, addresses, dscp: 48, message };
    let mut frame = [0; RateFrame::LONGEST];
    let length = again.emit(&mut frame).expect("there is room for the longest");
    assert_eq!(RateMessage::parse(&frame[..length], length), Ok(message));
}

/// Checks that a frame of which a capture kept only the first bytes is parsed as the whole frame is, or as truncated.
fn cut(whole: &Result<Parsed<'_>, Malformed>, kept: &[u8], wire_len: usize) {
    match (parse(kept, wire_len), whole) {
        (Err(Malformed::Truncated), _) => {}
        (Err(cut), Err(whole)) => assert_eq!(cut, *whole),
        (Ok(Parsed::NotRoce(cut)), Ok(Parsed::NotRoce(whole))) => assert_eq!(cut, *whole),
        (Ok(Parsed::Pfc(cut)), Ok(Parsed::Pfc(whole))) => assert_eq!(cut, *whole),
        (Ok(Parsed::Roce(cut)), Ok(Parsed::Roce(whole))) => {
            let (mut seen, expected) = (Seen::of(&cut), Seen::of(whole));
            if headers(&cut) != headers(whole) {
                // The cut is within the extension headers. Those that are not complete are parsed as absent.
                assert!(cut.is_truncated() && cut.payload().is_empty());
                assert!(headers(&cut).iter().zip(headers(whole)).all(|(&cut, whole)| !cut || whole));
                seen.extensions = expected.extensions;
            }
            assert_eq!(seen, expected);
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

/// Whether the packet has each extension header: AETH, DETH, RETH, a CNP's body, immediate data, IETH.
fn headers(roce: &Roce<'_>) -> [bool; 6] {
    [
        roce.aeth().is_some(),
        roce.deth().is_some(),
        roce.reth().is_some(),
        roce.cnp().is_some(),
        roce.immediate().is_some(),
        roce.invalidate().is_some(),
    ]
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

/// The fields of a packet that must be equal in a frame that is emitted from it.
#[derive(PartialEq, Debug)]
struct Seen<'a> {
    addresses: Addresses,
    macs: [Mac; 2],
    tags: Vec<Tag>,
    dscp: u8,
    ecn: Ecn,
    udp_source: Option<u16>,
    hop_limit: u8,
    shims: Shims<'a>,
    bth: Bth,
    extensions: Extensions,
}

impl<'a> Seen<'a> {
    fn of(roce: &Roce<'a>) -> Self {
        let info = roce.info;
        assert_eq!(info, opcode::info(roce.bth.opcode));
        let named = [opcode::Header::Ack, opcode::Header::Datagram, opcode::Header::Rdma, opcode::Header::Cnp];
        for (present, header) in headers(roce).into_iter().zip(named) {
            assert!(present == info.has(header) || (roce.is_truncated() && !present), "{header:?}");
        }
        assert!(roce.is_shimmed() || roce.shims().is_empty());
        Self {
            addresses: roce.addresses(),
            macs: [roce.destination_mac(), roce.source_mac()],
            tags: roce.tags().iter().collect(),
            dscp: roce.dscp(),
            ecn: roce.ecn,
            udp_source: roce.udp_source(),
            hop_limit: roce.hop_limit(),
            shims: roce.shims(),
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

/// Emits a frame, parses it, and passes the parsed frame and its bytes to `check`. A frame that is too long is not checked;
/// only a payload near the limit of the length fields makes it so.
fn emit_frame(frame: &Frame<'_>, check: impl FnOnce(&Roce<'_>, &[u8])) {
    let (tags, payload_len) = (frame.tags.iter().count(), frame.payload.len());
    emit_and_parse(frame, tags, payload_len, |buffer| frame.emit::<HostCrc>(buffer), check);
}

/// Does the same for a response to this packet.
fn emit_response(roce: &Roce<'_>, response: &Response<'_>, check: impl FnOnce(&Roce<'_>, &[u8])) {
    emit_and_parse(response, roce.tags().iter().count(), 0, |buffer| response.emit::<HostCrc>(buffer), check);
}

fn emit_and_parse(
    what: &impl std::fmt::Debug,
    tags: usize,
    payload_len: usize,
    emit: impl Fn(&mut [u8]) -> Result<usize, EmitError>,
    check: impl FnOnce(&Roce<'_>, &[u8]),
) {
    let mut buffer = vec![0xee; payload_len + tags * 4 + SPARE];
    let len = match emit(&mut buffer) {
        Ok(len) => len,
        Err(EmitError::TooLong) if payload_len > 0xff00 => return,
        Err(error) => panic!("{what:?}: {error:?}"),
    };
    assert_eq!(emit(&mut vec![0; len - 1]), Err(EmitError::BufferTooSmall));
    assert!(buffer[len..].iter().all(|&byte| byte == 0xee), "bytes after the frame's end were written");
    let bytes = &buffer[..len];
    match parse(bytes, len) {
        Ok(Parsed::Roce(roce)) => {
            lengths(&roce, len);
            assert_eq!(roce.icrc::<TableCrc>(), Icrc::Valid);
            check(&roce, bytes);
        }
        other => panic!("{what:?} was read as {other:?}"),
    }
}

/// The frame with the fields of this packet.
fn frame_of<'a>(roce: &Roce<'a>) -> Frame<'a> {
    let seen = Seen::of(roce);
    let [destination, source] = seen.macs;
    Frame {
        destination,
        source,
        tags: roce.tags(),
        addresses: seen.addresses,
        dscp: seen.dscp,
        ecn: seen.ecn,
        hop_limit: seen.hop_limit,
        udp_source: seen.udp_source.unwrap_or(0),
        shims: seen.shims,
        bth: seen.bth,
        extensions: seen.extensions,
        payload: roce.payload(),
    }
}

fn re_emit(roce: &Roce<'_>) {
    emit_frame(&frame_of(roce), |again, bytes| {
        assert_eq!(Seen::of(again), Seen::of(roce));
        assert_eq!(again.payload(), roce.payload());
        emit_frame(&frame_of(again), |_, once_more| assert_eq!(bytes, once_more));
    });
}

/// Checks that a CNP can be built for any packet.
fn notify(roce: &Roce<'_>) {
    let to = Qpn::new(roce.bth.psn.get());
    let body_kind = roce.cnp().unwrap_or_default();
    emit_response(roce, &Response::cnp(roce, to, body_kind, CnpMarking::default()), |cnp, _| {
        assert_eq!((cnp.bth.opcode, cnp.bth.dest_qp, cnp.bth.becn), (opcode::CNP, to, true));
        assert_eq!(cnp.cnp(), Some(body_kind));
        assert_eq!((cnp.addresses(), cnp.version()), (roce.addresses().reversed(), roce.version()));
        assert_eq!((cnp.destination_mac(), cnp.source_mac()), (roce.source_mac(), roce.destination_mac()));
        assert!(cnp.tags().iter().all(|tag| tag.priority == CnpMarking::default().priority));
        assert!(cnp.payload().is_empty() && !cnp.is_shimmed());
    });
    assert_eq!(roce.cnp().is_some(), roce.bth.opcode == opcode::CNP);
    if let Some(CnpBodyKind::Extended(body)) = roce.cnp() {
        assert!(body.remote_qpn.get() < 1 << 24);
    }
}

/// Checks that an acknowledgement can be built for any packet.
fn acknowledge(roce: &Roce<'_>) {
    let (to, msn) = (Qpn::new(roce.bth.dest_qp.get() ^ 1), roce.bth.psn.get());
    let mark = [Mark::None, Mark::Undetermined, Mark::Congested][msn as usize % 3];
    let receiver_hold = Nanos::new(msn);
    let Shims { time, int, .. } = roce.shims();
    // A chain of shims has no room for a grant if the telemetry has more than 13 records of 16 bytes.
    let full = int.is_some_and(|int| int.area().len() > 13 * 16);
    let (window, flows, utilisation) = (Bytes::new(msn), 2, 3);
    let grant = if full { Grant::None } else { Grant::Rcc { window, flows, utilisation } };
    let fields = AckFields { msn, mark, receiver_hold, rx_buffer_level: 31, grant, marking: CnpMarking::default() };
    emit_response(roce, &Response::ack(roce, to, &fields), |ack, _| {
        assert_eq!((ack.bth.opcode, ack.bth.dest_qp, ack.bth.psn), (opcode::ACKNOWLEDGE, to, roce.bth.psn));
        assert_eq!((ack.echo(), ack.aeth().map(|aeth| aeth.msn)), (mark, Some(msn)));
        assert_eq!((ack.addresses(), ack.version()), (roce.addresses().reversed(), roce.version()));
        let returned = ack.shims();
        assert_eq!(returned.int, int);
        let echo = time.map_or(Stamp::default(), |time| time.sent);
        assert_eq!(
            returned.time.map(|Time { echo, receiver_hold, .. }| (echo, receiver_hold)),
            time.map(|_| (echo, receiver_hold))
        );
        let granted = !full && roce.udp_source().is_some();
        assert_eq!(returned.rcc, granted.then_some(Rcc { window, flows, utilisation, echo }));
    });
}

/// Adds a telemetry record to the frame, as a switch on its path does, and checks that nothing else changes.
fn forward(frame: &[u8], roce: &Roce<'_>) {
    let before = roce.shims();
    let hop = Hop { mbps: 400_000, flags: 0, clock: 0x00ab_cdef, sent: 0x1234, queue: 0x4321 };
    let mut forwarded = frame.to_vec();
    let pushed = shim::push_into(&mut forwarded, frame.len(), shim::PORT, &hop);
    let (Some(hops), Some(int)) = (pushed, before.int) else {
        assert_eq!((pushed, before.int), (None, None));
        return assert_eq!(forwarded, frame);
    };
    let Ok(Parsed::Roce(after)) = parse(&forwarded, forwarded.len()) else {
        panic!("not RoCE after a record was added")
    };
    assert_eq!(after.icrc::<TableCrc>(), roce.icrc::<TableCrc>());
    let now = after.shims().int.expect("the telemetry is still there");
    assert_eq!((now.layout(), now.path(), now.hops()), (int.layout(), int.path(), hops));
    assert_eq!(now.area().len(), int.area().len());
    assert_eq!(Seen { shims: Shims { int: before.int, ..after.shims() }, ..Seen::of(&after) }, Seen::of(roce));
    assert_eq!(after.payload(), roce.payload());
    if hops == IntStack::OVERFLOW {
        assert!(now.stack().overflowed() && now.area() == int.area());
    } else {
        assert!(now.stack().iter().eq(int.stack().iter().chain([hop])));
    }
}

fn management(roce: &Roce<'_>) {
    let Some(message) = cm::Message::parse(roce) else { return };
    let datagram = message.emit();
    let (bth, extensions) = cm::headers(Psn::new(7));
    let frame = Frame { bth, extensions, payload: &datagram, ..frame_of(roce) };
    emit_frame(&frame, |again, _| assert_eq!(cm::Message::parse(again), Some(message)));
}

fn priority_flow_control(pfc: Pfc) {
    let mut buffer = [0; pfc::FRAME_LEN];
    assert_eq!(pfc.emit(Mac::default(), &mut buffer), Ok(buffer.len()));
    // The times follow addresses, EtherType, opcode and class-enable vector.
    let times = buffer[18..].as_chunks::<2>().0;
    for priority in 0..=u8::MAX {
        let enabled = priority < 8 && pfc.enabled >> priority & 1 == 1;
        assert_eq!(pfc.time(priority), enabled.then(|| u16::from_be_bytes(times[usize::from(priority)])));
    }
    match parse(&buffer, buffer.len()) {
        Ok(Parsed::Pfc(again)) => assert_eq!(again, pfc),
        other => panic!("{pfc:?} was read as {other:?}"),
    }
}
