//! In-band shims: headers for congestion control between UDP and BTH, on a UDP port of their own, so that devices that do not
//! implement them do not take these packets for plain RoCEv2.
//!
//! RoCEv2 leaves no room for telemetry. A chain of shims, each a whole number of 32-bit words, begins with a head:
//!
//! | byte | field |
//! | --- | --- |
//! | 0 | upper half: type, lower half: version |
//! | 1 | length in words, this head included |
//! | 2-3 | the type's own |
//!
//! Type 0, of one word, ends the chain, and the BTH follows. All big endian:
//!
//! | type | version | length | bytes 2-3 | behind the head |
//! | --- | --- | --- | --- | --- |
//! | 1 time | 1 | 4 | hops; level of the receiver's buffers (5 bits) | sent, echo, held: nanoseconds, 32 bits each |
//! | 2 INT | 1 wide, 2 compact | 1 + area | hops written (4 bits), path (12) | area: whole records, see [`IntLayout`] |
//! | 3 RCC | 1 | 4 | zero | window in bytes (32), flows (16), utilisation in 2^-16 (16), echo in nanoseconds (32) |
//! | 4 MLCC, data | 1 | 2 | credit (16) | bytes queued (32) |
//! | 5 MLCC, acknowledgement | 1 | 4 | credit (16) | queue pair of the data (24 of 32), R_credit, R_DQM (2^-24 B/ns, 32) |
//! | 6 echo | 1 | 1 | zero; mark (2 bits): 0 none, 1 undetermined, 2 congested | nothing |
//!
//! Types and versions that are not in the table are skipped by their length. Where a type occurs twice, the first counts.
//!
//! Switches rewrite the INT area, and none of them computes an ICRC. So the ICRC is that of the packet as it would be
//! without the chain: with its IP and UDP lengths, and to RoCE's own port. Nothing protects the chain itself.

use super::cursor::{Input, Output, two};
use super::{EmitError, Malformed, Parsed, parse_on};
use crate::{Bytes, Grant, Hop, IntLayout, IntStack, IntStackBuilder, Mark, Nanos, Qpn, Rate, Stamp};
use bitfield::bitfield;

/// The UDP destination port of packets with shims, unless another is configured.
pub const PORT: u16 = 4792;

/// Bytes of the longest chain, its end included: 64 words.
pub const LONGEST: usize = 256;

const END: u8 = 0;
const TIME: u8 = 1;
const INT: u8 = 2;
const RCC: u8 = 3;
const MLCC_DATA: u8 = 4;
const MLCC_ACK: u8 = 5;
const ECHO: u8 = 6;

const HEAD_LEN: usize = 4;
const TIME_LEN: usize = 16;
const RCC_LEN: usize = 16;
const MLCC_DATA_LEN: usize = 8;
const MLCC_ACK_LEN: usize = 16;

/// The most records that an area has: the next count, 15, means overflow.
const MOST_RECORDS: usize = IntStack::MOST as usize;

const _: () = {
    assert!(IntLayout::Wide.record_len() == 16);
    assert!(IntLayout::Compact.record_len() == 8);
    assert!(HEAD_LEN + IntShim::ROOM as usize * IntLayout::Wide.record_len() == 100);
    assert!(HEAD_LEN + MOST_RECORDS * IntLayout::Wide.record_len() + TIME_LEN + HEAD_LEN <= LONGEST);
    assert!(MOST_RECORDS + 1 == IntStack::OVERFLOW as usize);
};

bitfield! {
    struct TypeVersion(u8);
    u8, kind, set_kind: 7, 4;
    u8, version, set_version: 3, 0;
}

bitfield! {
    struct HopsPath(u16);
    u8, hops, set_hops: 15, 12;
    u16, path, set_path: 11, 0;
}

/// Time stamps, of which the sender writes one and the receiver returns it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Time {
    /// When this packet was sent, by its sender's clock; zero for none.
    pub sent: Stamp,
    /// [`Time::sent`] of the packet that this one acknowledges; zero for none.
    pub echo: Stamp,
    /// From when that packet arrived to when this one left.
    pub receiver_hold: Nanos,
    /// Switches on that packet's path, computed from its time to live.
    pub hops: u8,
    /// How full the receiver's buffers were, 0 to 31; higher bits are not sent.
    pub rx_buffer_level: u8,
}

/// What the receiver of RCC or RCC-sender returns with an acknowledgement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rcc {
    /// The window that the receiver assigns.
    pub window: Bytes,
    /// Flows that send to the receiver's port.
    pub flows: u16,
    /// Utilisation of the port in the last round: bytes received over what its link carries, in 2^-16.
    pub utilisation: u16,
    /// [`Time::sent`] of the packet acknowledged; zero for none.
    pub echo: Stamp,
}

impl Rcc {
    /// What the receiver grants.
    #[inline]
    pub const fn grant(&self) -> Grant {
        Grant::Rcc { window: self.window, flows: self.flows, utilisation: self.utilisation }
    }
}

/// What the interconnect switch at the receiver's end writes into a data packet of MLCC, for which the sender leaves room.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MlccData {
    /// C_D: the credit that the switch has last read in an acknowledgement of the flow; 0 if it has read none, or if the flow
    /// has no queue of its own.
    pub credit: u16,
    /// Bytes in the flow's own queue behind this packet.
    pub queue: Bytes,
}

/// What MLCC's receiver returns with an acknowledgement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MlccAck {
    /// C_R: the credit that the switch is to write from now on; never zero.
    pub credit: u16,
    /// The receiver's queue pair, by which the switch identifies the flow: the destination queue pair of an acknowledgement is
    /// the sender's.
    pub data_qpn: Qpn,
    /// R_credit: how fast the switch is to release the flow's queue.
    pub release: Rate,
    /// R_DQM: the rate to which the sender limits itself to control the length of that queue.
    pub advised_rate: Rate,
}

impl MlccAck {
    /// What the receiver grants.
    #[inline]
    pub const fn grant(&self) -> Grant {
        Grant::Mlcc { credit: self.credit, release: self.release, advised_rate: self.advised_rate }
    }
}

/// In-band telemetry: records, and the room that the sender reserved for more. Switches fill it and never make it larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IntShim<'a> {
    layout: IntLayout,
    path: u16,
    hops: u8,
    area: &'a [u8],
}

impl<'a> IntShim<'a> {
    /// The number of records that a sender reserves room for by default: five switches and one pseudo queue.
    pub const ROOM: u8 = 6;

    /// Bytes of the longest INT shim, its head included.
    pub const LONGEST: usize = HEAD_LEN + MOST_RECORDS * IntLayout::Wide.record_len();

    /// An area in which `hops` switches have written records ([`IntStack::OVERFLOW`] if there were more than fit), on path
    /// `path`, whose low 12 bits are used. `None` if the area is not whole records, has room for more than 14, or for fewer
    /// than `hops`.
    #[inline]
    pub const fn new(layout: IntLayout, path: u16, hops: u8, area: &'a [u8]) -> Option<Self> {
        // A shift, because the lengths are powers of two.
        let (room, whole) = match layout {
            IntLayout::Wide => (area.len() >> 4, area.len() & 15 == 0),
            IntLayout::Compact => (area.len() >> 3, area.len() & 7 == 0),
        };
        let fits = hops as usize <= room || hops == IntStack::OVERFLOW;
        if whole && fits && room <= MOST_RECORDS {
            Some(Self { layout, path: path & 0x0fff, hops, area })
        } else {
            None
        }
    }

    /// The records in `stack`, with its unused room.
    #[inline]
    pub fn of(stack: &'a IntStackBuilder) -> Self {
        Self { layout: stack.layout(), path: stack.path(), hops: stack.hops(), area: stack.area() }
    }

    /// Reads a head of one of the two versions, and the area after it.
    #[inline]
    fn read(&[first, _, own0, own1]: &[u8; HEAD_LEN], area: &'a [u8]) -> Option<Self> {
        let layout = if TypeVersion(first).version() == 2 { IntLayout::Compact } else { IntLayout::Wide };
        let own = HopsPath(two([own0, own1]));
        Self::new(layout, own.path(), own.hops(), area)
    }

    /// A shim with room for `room` records, at most 14, and none written yet.
    pub fn empty(layout: IntLayout, path: u16, room: u8) -> Self {
        static ZEROS: [u8; MOST_RECORDS * IntLayout::Wide.record_len()] = [0; _];
        let room = usize::from(room).min(MOST_RECORDS);
        let area = ZEROS.get(..room.wrapping_mul(layout.record_len())).unwrap_or(&[]);
        Self { layout, path: path & 0x0fff, hops: 0, area }
    }

    /// How records are laid out.
    #[inline]
    pub const fn layout(&self) -> IntLayout {
        self.layout
    }

    /// Identifier of the packet's path, 12 bits: another path has another number.
    #[inline]
    pub const fn path(&self) -> u16 {
        self.path
    }

    /// Records written, or [`IntStack::OVERFLOW`].
    #[inline]
    pub const fn hops(&self) -> u8 {
        self.hops
    }

    /// The whole area, including the part that is not written yet.
    #[inline]
    pub const fn area(&self) -> &'a [u8] {
        self.area
    }

    /// The records written.
    #[inline]
    pub fn stack(&self) -> IntStack<'a> {
        // Never `None`: `hops` fits the area.
        IntStack::new(self.layout, self.path, self.hops, self.area).unwrap_or(IntStack::NONE)
    }

    /// Reads bytes that are one INT shim and nothing else.
    pub(super) fn alone(bytes: &'a [u8]) -> Option<Self> {
        let (head @ &[first, words, ..], area) = bytes.split_first_chunk::<HEAD_LEN>()?;
        if is_int(first) && usize::from(words) << 2 == bytes.len() { Self::read(head, area) } else { None }
    }

    /// Writes the shim alone, without an end, for a CNP that a switch sends, in which it follows the reserved bytes. Returns
    /// the bytes written: the payload of that CNP.
    ///
    /// # Errors
    /// [`EmitError::BufferTooSmall`]; [`IntShim::LONGEST`] bytes are always enough.
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], EmitError> {
        let buffer = buffer.get_mut(..self.len()).ok_or(EmitError::BufferTooSmall)?;
        self.emit(&mut Output::new(buffer));
        Ok(buffer)
    }

    #[inline]
    fn emit(&self, output: &mut Output<'_>) {
        let mut own = HopsPath(0);
        own.set_hops(self.hops);
        own.set_path(self.path);
        output.word(head(INT, Self::version(self.layout), self.len(), own.0));
        output.put(self.area);
    }

    const fn version(layout: IntLayout) -> u8 {
        match layout {
            IntLayout::Wide => 1,
            IntLayout::Compact => 2,
        }
    }

    const fn len(&self) -> usize {
        self.area.len().wrapping_add(HEAD_LEN)
    }
}

/// The shims of a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shims<'a> {
    /// Time stamps.
    pub time: Option<Time>,
    /// In-band telemetry.
    pub int: Option<IntShim<'a>>,
    /// What RCC's receiver returns.
    pub rcc: Option<Rcc>,
    /// The fields that MLCC's switch writes for the receiver.
    pub mlcc_data: Option<MlccData>,
    /// What MLCC's receiver returns.
    pub mlcc_ack: Option<MlccAck>,
    /// The mark that an acknowledgement returns where the BTH's bits are not to be used.
    pub echo: Option<Mark>,
}

impl<'a> Shims<'a> {
    /// No shim.
    pub const NONE: Self = Self { time: None, int: None, rcc: None, mlcc_data: None, mlcc_ack: None, echo: None };

    /// Whether there is no shim.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.time.is_none()
            && self.int.is_none()
            && self.rcc.is_none()
            && self.mlcc_data.is_none()
            && self.mlcc_ack.is_none()
            && self.echo.is_none()
    }

    /// Bytes on the wire; zero for none.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let time = if self.time.is_some() { TIME_LEN } else { 0 };
        let int = match &self.int {
            Some(int) => int.len(),
            None => 0,
        };
        let rcc = if self.rcc.is_some() { RCC_LEN } else { 0 };
        let data = if self.mlcc_data.is_some() { MLCC_DATA_LEN } else { 0 };
        let ack = if self.mlcc_ack.is_some() { MLCC_ACK_LEN } else { 0 };
        let echo = if self.echo.is_some() { HEAD_LEN } else { 0 };
        HEAD_LEN
            .wrapping_add(time)
            .wrapping_add(int)
            .wrapping_add(rcc)
            .wrapping_add(data)
            .wrapping_add(ack)
            .wrapping_add(echo)
    }

    /// Writes the chain, of [`Shims::len`] bytes, which is not empty, in the order of the types.
    // A function of its own, so that packets without shims do not pay for it.
    #[inline(never)]
    pub(super) fn emit(&self, output: &mut Output<'_>) {
        if let Some(time) = &self.time {
            output.word(head(TIME, 1, TIME_LEN, u16::from_be_bytes([time.hops, time.rx_buffer_level & 0x1f])));
            output.word(time.sent.to_bits());
            output.word(time.echo.to_bits());
            output.word(time.receiver_hold.get());
        }
        if let Some(int) = &self.int {
            int.emit(output);
        }
        if let Some(rcc) = &self.rcc {
            output.word(head(RCC, 1, RCC_LEN, 0));
            output.word(rcc.window.get());
            output.word(u32::from(rcc.flows) << 16 | u32::from(rcc.utilisation));
            output.word(rcc.echo.to_bits());
        }
        if let Some(data) = &self.mlcc_data {
            output.word(head(MLCC_DATA, 1, MLCC_DATA_LEN, data.credit));
            output.word(data.queue.get());
        }
        if let Some(ack) = &self.mlcc_ack {
            output.word(head(MLCC_ACK, 1, MLCC_ACK_LEN, ack.credit));
            output.word(ack.data_qpn.get());
            output.word(ack.release.to_bits());
            output.word(ack.advised_rate.to_bits());
        }
        if let Some(mark) = self.echo {
            let mark = match mark {
                Mark::None => 0,
                Mark::Undetermined => 1,
                Mark::Congested => 2,
            };
            output.word(head(ECHO, 1, HEAD_LEN, mark));
        }
        output.word(head(END, 0, HEAD_LEN, 0));
    }
}

/// A head; `len` is in bytes.
#[inline]
fn head(kind: u8, version: u8, len: usize, own: u16) -> u32 {
    let mut first = TypeVersion(0);
    first.set_kind(kind);
    first.set_version(version);
    let [words, ..] = (len >> 2).to_le_bytes();
    u32::from_be_bytes([first.0, words, 0, 0]) | u32::from(own)
}

/// Positions of the shims of a datagram, found when it was parsed: one or two shims are read from each acknowledgement,
/// and searching the chain for each would cost too many cycles.
#[derive(Clone, Copy, Default, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct ShimOffsets {
    /// Bytes of the chain, its end included; zero for none.
    len: u16,
    /// For the first shim of each type, from [`TIME`] on, the word of the chain after its head; zero if there is no such shim.
    words: [u8; ECHO as usize],
}

/// Words of the shims of each type, from [`TIME`] on; zero for a type of variable length.
const LENS: [usize; ECHO as usize] =
    [TIME_LEN >> 2, 0, RCC_LEN >> 2, MLCC_DATA_LEN >> 2, MLCC_ACK_LEN >> 2, HEAD_LEN >> 2];

impl ShimOffsets {
    /// No chain.
    pub(super) const NONE: Self = Self { len: 0, words: [0; _] };

    /// Reads the chain of shims that the input begins with, and finds them.
    #[cold]
    #[inline(never)]
    pub(super) fn find(&mut self, from: &mut Input<'_>) -> Result<(), Malformed> {
        let mut input = *from;
        // In words.
        let mut read = 0usize;
        loop {
            let head @ &[first, words, ..] = input.take::<HEAD_LEN>(Malformed::ShimShort)?;
            let (kind, version) = (TypeVersion(first).kind(), TypeVersion(first).version());
            let words = usize::from(words);
            let rest = words.checked_sub(1).ok_or(Malformed::ShimLength)?;
            let body = input.take_slice(rest << 2, Malformed::ShimShort)?;
            let [behind, ..] = read.wrapping_add(1).to_le_bytes();
            read = read.wrapping_add(words);
            if read > LONGEST >> 2 {
                return Err(Malformed::ShimsLong);
            }
            if kind == END {
                self.len = u16::try_from(read << 2).map_err(|_| Malformed::ShimsLong)?;
                *from = input;
                return if body.is_empty() { Ok(()) } else { Err(Malformed::ShimBody) };
            }
            let at = usize::from(kind).wrapping_sub(usize::from(TIME));
            let fits = match (kind, version, LENS.get(at)) {
                (INT, 1 | 2, _) => IntShim::read(head, body).is_some(),
                (_, 1, Some(&len)) => words == len,
                _ => continue,
            };
            if !fits {
                return Err(Malformed::ShimBody);
            }
            if let Some(place) = self.words.get_mut(at)
                && *place == 0
            {
                *place = behind;
            }
        }
    }

    /// The head of the shim of this type and the bytes after it, if the chain at the start of this datagram has one.
    #[inline(always)]
    fn shim<'a>(&self, kind: u8, datagram: &'a [u8]) -> Option<(&'a [u8; HEAD_LEN], &'a [u8])> {
        datagram.get(self.at(kind)?..)?.split_first_chunk()
    }

    /// Bytes of the chain in front of the shim of this type.
    #[inline(always)]
    fn at(&self, kind: u8) -> Option<usize> {
        let word = self.words.get(usize::from(kind.wrapping_sub(TIME)))?;
        Some(usize::from(word.checked_sub(1)?) << 2)
    }

    /// Bytes of the chain, its end included; zero for none.
    #[inline]
    pub(super) const fn len(&self) -> u16 {
        self.len
    }

    /// The time stamps in this datagram, for which the offsets were found.
    #[inline]
    pub(super) fn time(&self, datagram: &[u8]) -> Option<Time> {
        let (&[_, _, hops, rx_buffer_level], body) = self.shim(TIME, datagram)?;
        let &[s0, s1, s2, s3, e0, e1, e2, e3, h0, h1, h2, h3] = body.first_chunk()?;
        Some(Time {
            sent: Stamp::from_bits(u32::from_be_bytes([s0, s1, s2, s3])),
            echo: Stamp::from_bits(u32::from_be_bytes([e0, e1, e2, e3])),
            receiver_hold: Nanos::new(u32::from_be_bytes([h0, h1, h2, h3])),
            hops,
            rx_buffer_level: rx_buffer_level & 0x1f,
        })
    }

    /// Bytes of the chain in front of the time stamps.
    #[inline]
    pub(super) fn time_at(&self) -> Option<usize> {
        self.at(TIME)
    }

    /// The telemetry in this datagram.
    #[inline]
    pub(super) fn int<'a>(&self, datagram: &'a [u8]) -> Option<IntShim<'a>> {
        let (head @ &[_, words, ..], body) = self.shim(INT, datagram)?;
        IntShim::read(head, body.get(..(usize::from(words) << 2).checked_sub(HEAD_LEN)?)?)
    }

    /// Bytes of the chain in front of the telemetry.
    #[inline]
    pub(super) fn int_at(&self) -> Option<usize> {
        self.at(INT)
    }

    /// What RCC's receiver returns in this datagram.
    #[inline]
    pub(super) fn rcc(&self, datagram: &[u8]) -> Option<Rcc> {
        let (_, body) = self.shim(RCC, datagram)?;
        let &[w0, w1, w2, w3, f0, f1, u0, u1, e0, e1, e2, e3] = body.first_chunk()?;
        Some(Rcc {
            window: Bytes::new(u32::from_be_bytes([w0, w1, w2, w3])),
            flows: two([f0, f1]),
            utilisation: two([u0, u1]),
            echo: Stamp::from_bits(u32::from_be_bytes([e0, e1, e2, e3])),
        })
    }

    /// The fields that MLCC's switch wrote for the receiver into this datagram.
    #[inline]
    pub(super) fn mlcc_data(&self, datagram: &[u8]) -> Option<MlccData> {
        let (&[_, _, c0, c1], body) = self.shim(MLCC_DATA, datagram)?;
        let &queue = body.first_chunk()?;
        Some(MlccData { credit: two([c0, c1]), queue: Bytes::new(u32::from_be_bytes(queue)) })
    }

    /// Bytes of the chain in front of MLCC's shim of data packets.
    #[inline]
    pub(super) fn mlcc_data_at(&self) -> Option<usize> {
        self.at(MLCC_DATA)
    }

    /// What MLCC's receiver returns in this datagram.
    #[inline]
    pub(super) fn mlcc_ack(&self, datagram: &[u8]) -> Option<MlccAck> {
        let (&[_, _, c0, c1], body) = self.shim(MLCC_ACK, datagram)?;
        let &[_, q0, q1, q2, r0, r1, r2, r3, a0, a1, a2, a3] = body.first_chunk()?;
        Some(MlccAck {
            credit: two([c0, c1]),
            data_qpn: Qpn::new(u32::from_be_bytes([0, q0, q1, q2])),
            release: Rate::from_bits(u32::from_be_bytes([r0, r1, r2, r3])),
            advised_rate: Rate::from_bits(u32::from_be_bytes([a0, a1, a2, a3])),
        })
    }

    /// The mark that this datagram returns in a shim.
    #[inline]
    pub(super) fn echo(&self, datagram: &[u8]) -> Option<Mark> {
        let (&[.., mark], _) = self.shim(ECHO, datagram)?;
        Some(match mark & 3 {
            0 => Mark::None,
            1 => Mark::Undetermined,
            // 3 is never sent; it reads as the stronger mark.
            _ => Mark::Congested,
        })
    }
}

/// Whether a chain of shims has the types and lengths of `template`, which has been parsed and is as long as it.
pub(super) fn alike(mut template: &[u8], mut chain: &[u8]) -> bool {
    while let Some((&[first, words, ..], _)) = template.split_first_chunk::<HEAD_LEN>() {
        let len = usize::from(words) << 2;
        let (Some((_, template_rest)), Some((shim, rest))) =
            (template.split_at_checked(len), chain.split_at_checked(len))
        else {
            return false;
        };
        let Some((head @ &[new_first, new_words, ..], body)) = shim.split_first_chunk::<HEAD_LEN>() else {
            return false;
        };
        let head_alike = (first, words) == (new_first, new_words);
        if !head_alike || (is_int(first) && IntShim::read(head, body).is_none()) {
            return false;
        }
        (template, chain) = (template_rest, rest);
    }
    chain.is_empty()
}

/// Removes the records from the INT shim of a frame, and leaves their room to the switches that follow. Returns whether the
/// frame has an INT shim. Neither the frame's length nor its ICRC changes.
///
/// `wire_len` and `shim_port` are those of [`parse_on`].
pub fn clear_int(frame: &mut [u8], wire_len: usize, shim_port: u16) -> bool {
    let Ok(Parsed::Roce(roce)) = parse_on(frame, wire_len, shim_port) else { return false };
    let Some(at) = roce.int_at() else { return false };
    clear_int_at(frame, at)
}

/// As [`clear_int`] does, in a frame whose INT shim begins at byte `at`, see [`Roce::int_at`](super::Roce::int_at). Returns
/// `false` if the frame is too short.
#[inline]
pub fn clear_int_at(frame: &mut [u8], at: usize) -> bool {
    let Some([_, _, own, ..]) = frame.get_mut(at..) else { return false };
    *own &= 0x0f;
    true
}

/// Writes MLCC's fields for the receiver into the shim that the sender has reserved for them. Returns whether the frame has
/// such a shim. Neither the frame's length nor its ICRC changes.
///
/// `wire_len` and `shim_port` are those of [`parse_on`].
pub fn write_mlcc(frame: &mut [u8], wire_len: usize, shim_port: u16, data: &MlccData) -> bool {
    let Ok(Parsed::Roce(roce)) = parse_on(frame, wire_len, shim_port) else { return false };
    let Some(at) = roce.mlcc_data_at() else { return false };
    write_mlcc_at(frame, at, data)
}

/// As [`write_mlcc`] does, in a frame whose MLCC shim begins at byte `at`, see
/// [`Roce::mlcc_data_at`](super::Roce::mlcc_data_at). Returns `false` if the frame is too short.
#[inline]
pub fn write_mlcc_at(frame: &mut [u8], at: usize, data: &MlccData) -> bool {
    let Some([_, _, c0, c1, q0, q1, q2, q3, ..]) = frame.get_mut(at..) else { return false };
    [*c0, *c1] = data.credit.to_be_bytes();
    [*q0, *q1, *q2, *q3] = data.queue.get().to_be_bytes();
    true
}

/// Writes [`Time::sent`] in a frame whose time shim begins at byte `at`, see [`Roce::time_at`](super::Roce::time_at). Returns
/// `false` if the frame is too short. Neither the frame's length nor its ICRC changes.
#[inline]
pub fn set_sent_at(frame: &mut [u8], at: usize, sent: Stamp) -> bool {
    let Some([_, _, _, _, s0, s1, s2, s3, ..]) = frame.get_mut(at..) else { return false };
    [*s0, *s1, *s2, *s3] = sent.to_bits().to_be_bytes();
    true
}

/// Appends a switch's record to the INT shim of a frame as [`IntLayout::push`] does, and returns the result of that; `None`
/// when the frame carries no INT shim. Neither the frame's length nor its ICRC changes.
///
/// `wire_len` and `shim_port` are those of [`parse_on`].
pub fn push_into(frame: &mut [u8], wire_len: usize, shim_port: u16, hop: &Hop) -> Option<u8> {
    let Ok(Parsed::Roce(roce)) = parse_on(frame, wire_len, shim_port) else { return None };
    let at = roce.int_at()?;
    push_at(frame, at, hop)
}

/// As [`push_into`] does, in a frame whose INT shim begins at byte `at`, see [`Roce::int_at`](super::Roce::int_at); `None` when
/// no INT shim begins there.
#[inline]
pub fn push_at(frame: &mut [u8], at: usize, hop: &Hop) -> Option<u8> {
    let (head, behind) = frame.get_mut(at..)?.split_first_chunk_mut::<HEAD_LEN>()?;
    let &mut [first, words, ..] = head;
    let area = behind.get_mut(..(usize::from(words) << 2).checked_sub(HEAD_LEN)?)?;
    if !is_int(first) {
        return None;
    }
    let IntShim { layout, hops, .. } = IntShim::read(head, area)?;
    let hops = layout.push(hops, area, hop);
    let [_, _, own, _] = head;
    *own = *own & 0x0f | hops << 4;
    Some(hops)
}

/// Whether the first byte of a shim is that of telemetry in one of the two layouts.
#[inline]
fn is_int(first: u8) -> bool {
    let first = TypeVersion(first);
    first.kind() == INT && matches!(first.version(), 1 | 2)
}
