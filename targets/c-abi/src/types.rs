//! The arguments of the interface: plain structures, laid out as in C, with the header's names without the prefix `rnic_`.

use cc_core::{Bytes, Instant, IntLayout, IntStack, Nanos, Psn, Qpn, Rate, Stamp};
use core::ffi::c_char;
use core::{ptr, slice};

/// The status of a call. If it is negative, nothing was changed, and nothing was written except the number of a wrong
/// parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A pointer is null.
    Null = -1,
    /// A pointer is not aligned as its type requires.
    Misaligned = -2,
    /// The port was not initialised by this algorithm's `init`.
    NotReady = -3,
    /// The library was built with a larger port than the caller's header has.
    TooSmall = -4,
    /// No parameter, preset or counter has this number.
    UnknownId = -5,
    /// A value is outside the parameter's bounds.
    OutOfRange = -6,
    /// Values contradict each other or this link.
    Conflict = -7,
    /// An event of unknown kind, or with an enumeration outside its values, or a number of 24 bits that has more.
    BadEvent = -8,
    /// The flow was not opened with this port, or was closed.
    NotOpen = -9,
}

/// A text in UTF-8, without a terminating zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Text {
    /// Its first byte.
    pub data: *const c_char,
    /// Its length in bytes.
    pub length: u32,
}

impl Text {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { data: text.as_ptr().cast(), length: text.len() as u32 }
    }
}

/// The link of a port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Link {
    /// Its speed, in 2^-24 bytes per nanosecond.
    pub line_rate: u32,
    /// Largest packet on the wire, in bytes.
    pub mtu: u32,
    /// Round-trip time of the idle network, in nanoseconds.
    pub base_rtt: u32,
}

impl From<Link> for cc_core::Link {
    fn from(link: Link) -> Self {
        Self {
            line_rate: Rate::from_bits(link.line_rate),
            mtu: Bytes::new(link.mtu),
            base_rtt: Nanos::new(link.base_rtt),
        }
    }
}

/// The time of an event at a sender, and the state of PFC.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Moment {
    /// Nanoseconds of the caller's clock.
    pub now: u64,
    /// Remaining time of the present pause of the flow's priority, in nanoseconds; 0 if it is not paused.
    pub pause: u32,
    /// Sum of all pauses of the priority so far, in nanoseconds modulo 2^32, the present one included.
    pub paused: u32,
}

impl Moment {
    /// The time `now` on a clock that stands still during pauses.
    pub(crate) const fn clock_without_pauses(&self, now: Instant) -> Stamp {
        Stamp::from_bits(now.stamp().to_bits().wrapping_sub(self.paused))
    }
}

/// Kinds of [`Event`].
pub mod kind {
    /// Packets were sent.
    pub const SENT: u32 = 1;
    /// An acknowledgement arrived.
    pub const ACK: u32 = 2;
    /// A negative acknowledgement arrived.
    pub const NACK: u32 = 3;
    /// A CNP arrived.
    pub const CNP: u32 = 4;
    /// The wake of the last decision is due, or the caller reads the decision between events.
    pub const WAKE: u32 = 5;
    /// A switch sent the telemetry of the ports on the way to it, by itself.
    pub const SWITCH_INT: u32 = 6;
}

/// An event of one flow at its sender.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Event {
    /// Its time.
    pub at: Moment,
    /// One of the constants in [`kind`].
    pub kind: u32,
    /// Its fields, which depend on its kind.
    pub of: Details,
}

/// The fields of an event, which depend on its kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Details {
    /// For [`kind::SENT`].
    pub sent: Sent,
    /// For [`kind::ACK`].
    pub ack: Ack,
    /// For [`kind::NACK`]: the sequence number that the receiver expects.
    pub nack_psn: u32,
    /// For [`kind::CNP`]: the sixteen bytes after the BTH, or null for a standard CNP.
    pub cnp_body: *const [u8; 16],
    /// For [`kind::SWITCH_INT`].
    pub switch_int: Telemetry,
}

/// In-band telemetry that a packet collected: `hops` records, each of 16 bytes (`layout` 0) or 8 (1).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Telemetry {
    /// The first record; null if there are none.
    pub records: *const u8,
    /// A number that changes with the path, 12 bits.
    pub path: u16,
    /// Number of records, 0 to 14; 15 if the packet passed more hops than it had room for.
    pub hops: u8,
    /// 0: sixteen bytes per hop; 1: eight.
    pub layout: u8,
}

impl Telemetry {
    /// The records.
    ///
    /// # Safety
    /// The pointer is null or valid during `'a` for the number of records given.
    pub(crate) unsafe fn stack<'a>(&self) -> Result<IntStack<'a>, Status> {
        let layout = match self.layout {
            0 => IntLayout::Wide,
            1 => IntLayout::Compact,
            _ => return Err(Status::BadEvent),
        };
        if self.records.is_null() {
            return Ok(IntStack::NONE);
        }
        let hops = if self.hops == IntStack::OVERFLOW { 0 } else { usize::from(self.hops) };
        // SAFETY: not null, bytes need no alignment, and the caller guarantees that many.
        let area = unsafe { slice::from_raw_parts(self.records, hops.wrapping_mul(layout.record_len())) };
        IntStack::new(layout, self.path, self.hops, area).ok_or(Status::BadEvent)
    }
}

/// Packets that were sent.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Sent {
    /// Sequence number of the last packet.
    pub psn: u32,
    /// Bytes on the wire, of all packets.
    pub bytes: u32,
}

/// An acknowledgement that arrived.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ack {
    /// Telemetry that the newest packet acknowledged has collected.
    pub telemetry: Telemetry,
    /// All packets up to this sequence number have arrived.
    pub psn: u32,
    /// Bytes newly acknowledged, as sent on the wire.
    pub acked: u32,
    /// Nanoseconds since the newest packet acknowledged was sent; 0 if not measured.
    pub rtt: u32,
    /// The part of `rtt` for which the receiver held the packet, in nanoseconds.
    pub receiver_hold: u32,
    /// The window that the receiver grants, in bytes; read if `grant_flows` is not 0.
    pub grant_window: u32,
    /// The rate that an MLCC receiver advises, in 2^-24 bytes per nanosecond; read if `mlcc_credit` is not 0.
    pub mlcc_advised_rate: u32,
    /// The rate at which it lets the interconnect switch release the flow's queue, in the same unit.
    pub mlcc_release: u32,
    /// The credit that it expects in data packets; 0 if it is no MLCC receiver.
    pub mlcc_credit: u16,
    /// Flows that send to the receiver's port; 0 if it grants nothing.
    pub grant_flows: u16,
    /// Utilisation of that port's link, in 2^-16.
    pub grant_utilisation: u16,
    /// The strongest mark of the packets acknowledged: 0 none, 1 undetermined, 2 congested.
    pub mark: u8,
    /// Switches on the path; 0 if not known.
    pub hops: u8,
    /// Fill level of the receiver's buffers, 0 to 31.
    pub rx_buffer_level: u8,
}

/// How a flow is to be paced from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Decision {
    /// Highest rate, in 2^-24 bytes per nanosecond.
    pub rate: u32,
    /// Most bytes in flight; 2^32 - 1 for no limit.
    pub window: u32,
    /// Send nothing for this many nanoseconds.
    pub hold: u32,
    /// Give the flow a wake after this many nanoseconds; 2^32 - 1 for never.
    pub wake_in: u32,
}

/// A value for a parameter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Setting {
    /// The parameter.
    pub id: u32,
    /// The value, in the parameter's unit.
    pub value: u32,
}

/// A counter's name and meaning.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CounterInfo {
    /// Its name.
    pub name: Text,
    /// Its meaning.
    pub text: Text,
}

/// A data packet that arrived.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Arrival {
    /// Nanoseconds of the caller's clock.
    pub now: u64,
    /// The receiving queue pair, 24 bits.
    pub local_qpn: u32,
    /// Its sequence number, 24 bits.
    pub psn: u32,
    /// Bytes on the wire.
    pub bytes: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// The sender's clock when the packet was sent, in nanoseconds; read if `has_sent`.
    pub sent: u32,
    /// Bytes in the flow's own queue at MLCC's interconnect switch; read if `has_mlcc`.
    pub mlcc_queue: u32,
    /// The credit that the switch wrote; read if `has_mlcc`.
    pub mlcc_credit: u16,
    /// Whether MLCC's interconnect switch wrote into the packet: 0 or 1.
    pub has_mlcc: u8,
    /// Whether the packet carries the time at which it was sent: 0 or 1.
    pub has_sent: u8,
    /// The two ECN bits of the IP header, in the low bits.
    pub ecn: u8,
    /// Whether it begins a message: 0 or 1.
    pub first: u8,
    /// Whether it ends one: 0 or 1.
    pub last: u8,
    /// Telemetry of the packet.
    pub telemetry: Telemetry,
}

/// The reply to an arrival: fields of the acknowledgement, and a CNP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Reply {
    /// The window that the next acknowledgement grants, in bytes.
    pub grant_window: u32,
    /// The rate that MLCC's acknowledgement advises, in 2^-24 bytes per nanosecond.
    pub mlcc_advised_rate: u32,
    /// The rate at which the interconnect switch may release the flow's queue, in the same unit.
    pub mlcc_release: u32,
    /// The credit that the switch is to write; 0 if the three MLCC fields are unused.
    pub mlcc_credit: u16,
    /// Flows that send to this port; 0 for no grant.
    pub grant_flows: u16,
    /// Utilisation of this port's link, in 2^-16.
    pub grant_utilisation: u16,
    /// The mark that the next acknowledgement echoes: 0 none, 1 undetermined, 2 congested.
    pub echo: u8,
    /// 1: send a CNP with this body, and call `on_cnp_sent` when it has been sent.
    pub cnp: u8,
    /// The sixteen bytes after its BTH.
    pub cnp_body: [u8; 16],
}

/// The action of a flow in its round-robin slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// 0: nothing; 1: its record can be closed and reused; 2: send it a CNP.
    pub action: u32,
    /// Its local queue pair, for a CNP.
    pub local_qpn: u32,
    /// The sixteen bytes after the BTH of the CNP.
    pub cnp_body: [u8; 16],
}

/// What `pointer` points to, to be read.
///
/// # Safety
/// Unless it is null or misaligned, it points to a value that does not change during `'a`.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Status> {
    usable(pointer)?;
    // SAFETY: neither null nor misaligned, and the caller guarantees the value.
    Ok(unsafe { &*pointer })
}

/// The value that `pointer` points to, with exclusive access.
///
/// # Safety
/// Unless it is null or misaligned, it points to a value that is not accessed elsewhere during `'a`.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T) -> Result<&'a mut T, Status> {
    usable(pointer)?;
    // SAFETY: neither null nor misaligned, and the caller guarantees the value.
    Ok(unsafe { &mut *pointer })
}

/// A port that `init` has made, whose first word is then `made`.
///
/// # Safety
/// Unless null or misaligned, `port` points to as many bytes as a port has, not accessed elsewhere during `'a`. If they begin
/// with `made`, they are what `init` made of them.
#[inline(always)]
pub(crate) unsafe fn ready<'a, P>(port: *mut P, made: u32) -> Result<&'a mut P, Status> {
    usable(port)?;
    // SAFETY: the first word of memory that C has filled with bytes; any pattern is a number.
    if unsafe { port.cast::<u32>().read() } != made {
        return Err(Status::NotReady);
    }
    // SAFETY: made by `init`, and the caller guarantees exclusive access.
    unsafe { exclusive(port) }
}

/// A packet sequence number from C, which has 24 bits.
#[inline(always)]
pub(crate) fn psn(value: u32) -> Result<Psn, Status> {
    Psn::checked(value).ok_or(Status::BadEvent)
}

/// A queue pair number from C, which has 24 bits.
#[inline(always)]
pub(crate) fn qpn(value: u32) -> Result<Qpn, Status> {
    Qpn::checked(value).ok_or(Status::BadEvent)
}

/// A flow: the algorithm's state, and the port that opened it.
#[repr(C)]
pub struct Flow<A> {
    pub(crate) state: A,
    /// The [id](port_id) of the port, or 0 once the flow is closed.
    pub(crate) port: u32,
}

/// The id by which a flow knows the port that opened it: the port's address and the time at its initialisation, and its
/// algorithm. Not the address alone, so that port and flows can be moved; never 0, which memory is filled with.
pub(crate) fn port_id<P>(port: *const P, made: u32, now: u64) -> u32 {
    let time = (now as u32 ^ (now >> 32) as u32).wrapping_mul(0x9e37_79b1);
    made.wrapping_add(port.addr() as u32 >> 2).wrapping_add(time) | 1
}

/// The state of a flow that the port with this id has opened.
///
/// # Safety
/// Unless null or misaligned, `flow` points to as many bytes as a flow has, not accessed elsewhere during `'a`. If they end
/// with the port's id, they are what `open` made of them.
#[inline(always)]
pub(crate) unsafe fn opened<'a, A>(flow: *mut Flow<A>, port: u32) -> Result<&'a mut A, Status> {
    usable(flow)?;
    // SAFETY: a number in memory that C has filled with bytes; no reference to the state is made yet.
    if unsafe { (&raw const (*flow).port).read() } != port {
        return Err(Status::NotOpen);
    }
    // SAFETY: made by `open`, and the caller guarantees exclusive access.
    Ok(unsafe { &mut (*flow).state })
}

/// Writes a value to where `pointer` points.
///
/// # Safety
/// Unless it is null or misaligned, it points to room for a `T`.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T) -> Result<(), Status> {
    usable(pointer)?;
    // SAFETY: neither null nor misaligned, and the caller guarantees the room.
    unsafe { ptr::write(pointer, value) };
    Ok(())
}

/// Checks that the pointer is neither null nor misaligned.
#[inline(always)]
pub(crate) fn usable<T>(pointer: *const T) -> Result<(), Status> {
    if pointer.is_null() {
        Err(Status::Null)
    } else if !pointer.is_aligned() {
        Err(Status::Misaligned)
    } else {
        Ok(())
    }
}

/// The status of a call.
pub(crate) fn status(outcome: Result<(), Status>) -> Status {
    match outcome {
        Ok(()) => Status::Ok,
        Err(status) => status,
    }
}
