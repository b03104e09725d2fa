//! A group of NICs that run one algorithm, as a trait object.
//!
//! A replay and a simulation have many NICs that run the same algorithm. They use [`NicGroup`]: one virtual call for each event
//! of a NIC, and only the NIC itself is compiled once per algorithm.

use anyhow::Result;
use cc_core::params::ParamError;
use cc_core::table::{BindError, Handle, Heap};
use cc_core::wire::{AckFields, CnpMarking, FlowKey, Pfc, Response, Roce};
use cc_core::{Bytes, CnpBodyKind, Instant, Link, Nanos, Psn, Qpn, Rate, Zeroed};
use cc_np::{NotSent, NotificationPoint, NpCounters, Transmit};
use cc_rp::{RateLimiter, ReactionPoint, RpCounters, TraceValue};
use programs::{HeaderCacheOf, Nic, OnHeap, Received, RxFields};

/// Receives the decisions and the frames of a NIC.
pub trait NicOutput {
    /// Called with each decision: the flow in this slot may send at `rate`, with at most `window` bytes in flight, and not
    /// before `hold` has passed.
    fn set(&mut self, slot: u16, rate: Rate, window: Bytes, hold: Nanos);

    /// Called when the NIC sends a CNP or an acknowledgement. The frame is not written yet: the implementation emits it, or
    /// reads the fields that it needs.
    ///
    /// # Errors
    /// It cannot be sent.
    fn send(&mut self, frame: &Response<'_>) -> Result<(), NotSent>;

    /// As [`NicOutput::send`], for a NIC that has written the frame itself: all its bytes, ICRC included.
    ///
    /// # Errors
    /// It cannot be sent.
    fn forward(&mut self, frame: &[u8]) -> Result<(), NotSent>;
}

/// The counters of a NIC.
#[derive(Clone, Debug, Default)]
pub struct NicCounters {
    /// Counters of the reaction point, by name.
    pub rp: Vec<(&'static str, u64)>,
    /// Counters of the notification point, by name.
    pub np: Vec<(&'static str, u64)>,
    /// How often each row of the machines' transition tables was met, the reaction point's and the notification point's;
    /// empty unless [`NicGroup::count_transitions`] was called.
    pub transitions: [Vec<u64>; 2],
}

/// Events that a core lost because its queue was full, by kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Lost {
    /// CNPs.
    pub cnps: u64,
    /// Acknowledgements, negative ones included.
    pub acks: u64,
    /// Data packets that arrived.
    pub data: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// PFC frames.
    pub pauses: u64,
    /// Events at the queues of a switch.
    pub at_queues: u64,
}

impl Lost {
    /// All of them.
    pub const fn all(&self) -> u64 {
        let Self { cnps, acks, data, sent, pauses, at_queues } = *self;
        cnps + acks + data + sent + pauses + at_queues
    }
}

/// What the core did that runs the program of a NIC or switch.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CoreUse {
    /// What runs on it: `nic`, one of `rp` and `np`, or `stages`.
    pub part: &'static str,
    /// Frames, sent packets and events at queues that it handled; merged ones count as one.
    pub events: u64,
    /// Commands of the driver that it handled.
    pub commands: u64,
    /// Timer interrupts.
    pub timers: u64,
    /// Those that were lost.
    pub lost: Lost,
    /// CNPs that were merged with one that waited.
    pub joined_cnps: u64,
    /// Acknowledgements that were merged with one that waited.
    pub joined_acks: u64,
    /// Events in the queue now, the one in service included.
    pub waiting: usize,
    /// The longest queue that a frame or a sent packet made.
    pub longest: usize,
    /// From the arrival of a frame or a sent packet until the core had handled it, summed over all, in nanoseconds.
    pub delay_ns: u64,
    /// The longest of these times.
    pub longest_delay_ns: u64,
    /// Cycles in which the core did not sleep.
    pub active_cycles: u64,
    /// All its cycles; 0 for a core that is infinitely fast.
    pub cycles: u64,
}

/// The sizes of a NIC's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicSize {
    /// As the image for most boards has them: see [`programs::Full`].
    Full,
    /// As the image for the smallest boards has them: see [`programs::Small`].
    Small,
}

impl NicSize {
    /// Flows sent and flows received that there is room for.
    pub const fn room(self) -> [usize; 2] {
        match self {
            Self::Full => [1_024, 512],
            Self::Small => [32, 32],
        }
    }
}

/// NICs with one port each that run one algorithm with the same settings. A NIC is named by its number in the group.
///
/// A NIC decides and sends in the call of an event, or later, in a call of [`NicGroup::timer`]: a core takes time. Where a function
/// takes a packet and a frame, the frame is the packet's bytes from the Ethernet header on, as far as there are any.
///
/// # Panics
/// All functions that take the number of a NIC panic if the group has no such NIC.
pub trait NicGroup {
    /// Adds a NIC without flows, with room for `flows` flows sent and `peers` flows received. Returns its number.
    fn add(&mut self, start: Instant, flows: usize, peers: usize) -> usize;

    /// From now on counts the rows of the transition tables that a NIC's events meet.
    fn count_transitions(&mut self, nic: usize);

    /// Whether the notification points acknowledge data.
    fn acknowledges(&self) -> bool;

    /// Opens a flow of PFC priority `priority`; `None` if there is no room.
    fn open(&mut self, nic: usize, now: Instant, priority: u8, out: &mut dyn NicOutput) -> Option<Handle>;

    /// Binds a flow to its local queue pair number.
    ///
    /// # Errors
    /// The number belongs to another flow, or the flow has one already.
    fn bind(&mut self, nic: usize, now: Instant, flow: Handle, local: Qpn) -> Result<(), BindError>;

    /// Stores the key by which switches name a flow in their CNPs, from a packet of the flow. Returns whether the flow is open
    /// and there was room.
    fn learn_remote(&mut self, nic: usize, now: Instant, flow: Handle, packet: &Roce<'_>, frame: &[u8]) -> bool;

    /// Learns the headers of CNPs for a local queue pair from a packet that arrived on it from queue pair `remote`. Returns
    /// whether CNPs can be sent in reply to such packets.
    fn learn_sender(&mut self, nic: usize, now: Instant, packet: &Roce<'_>, frame: &[u8], remote: Qpn) -> bool;

    /// Closes a flow, and returns whether it was open.
    fn close(&mut self, nic: usize, now: Instant, flow: Handle) -> bool;

    /// Removes the flow received by a local queue pair.
    fn forget(&mut self, nic: usize, now: Instant, local: Qpn);

    /// Called when data of a flow was sent; `psn` is that of the last packet.
    fn sent(&mut self, nic: usize, now: Instant, flow: Handle, psn: Psn, bytes: Bytes, out: &mut dyn NicOutput);

    /// Called when a RoCE packet has arrived, whose ICRC has been checked. Returns what it was; `None` if it is handled later.
    fn received(
        &mut self,
        nic: usize,
        now: Instant,
        packet: &Roce<'_>,
        frame: &[u8],
        meta: &RxFields,
        out: &mut dyn NicOutput,
    ) -> Option<Received>;

    /// Called when a PFC frame has arrived.
    fn pause(&mut self, nic: usize, now: Instant, pfc: &Pfc);

    /// Handles what is due for one flow, and returns its slot. Call it again as long as [`NicGroup::next_wake`] is not after
    /// `now`.
    ///
    /// # Errors
    /// The firmware misbehaved, in this call or an earlier one of any function.
    fn timer(&mut self, nic: usize, now: Instant, out: &mut dyn NicOutput) -> Result<Option<u16>>;

    /// The time at which [`NicGroup::timer`] is to be called next.
    fn next_wake(&self, nic: usize) -> Instant;

    /// The time at which [`NicGroup::timer`] is to be called at the latest, by a caller that is exactly on time: a NIC without
    /// deadlines needs a call each second. Not earlier than [`NicGroup::next_wake`].
    fn latest_wake(&self, nic: usize) -> Instant {
        self.next_wake(nic)
    }

    /// Called when a packet of a flow is sent. Returns the time for which the flow's next packet has to wait; `None` if the
    /// flow is not open.
    fn departure(&mut self, nic: usize, now: Instant, flow: Handle, bytes: Bytes) -> Option<Nanos>;

    /// The NIC's counters.
    fn counters(&self, nic: usize) -> NicCounters;

    /// What the NIC's cores did; none if its program does not run on a core.
    fn cores(&self, nic: usize) -> Vec<CoreUse> {
        let _ = nic;
        Vec::new()
    }

    /// Passes names and values of the state variables of the flow in a slot to `show`, see [`ReactionPoint::trace_values`].
    fn explain(&self, nic: usize, slot: u16, show: &mut dyn FnMut(TraceValue));
}

fn named(rp: &RpCounters, np: &NpCounters, transitions: &[Vec<u64>; 2]) -> NicCounters {
    NicCounters { rp: rp.named().to_vec(), np: np.named().to_vec(), transitions: transitions.clone() }
}

/// NICs of these machines on the host.
pub(crate) struct Natives<A: ReactionPoint, N: NotificationPoint> {
    link: Link,
    rp: A::Settings,
    np: N::Settings,
    nics: Vec<Native<A, N>>,
}

struct Native<A: ReactionPoint, N: NotificationPoint> {
    nic: Nic<A, N, OnHeap>,
    /// Headers for CNPs that are sent from a timer slot, with no received packet to copy them from.
    headers: HeaderCacheOf<N, Heap>,
    /// Events by row of the transition tables; empty if they are not counted.
    transitions: [Vec<u64>; 2],
}

impl<A: ReactionPoint, N: NotificationPoint> Native<A, N> {
    /// The NIC, and the output for what it decides and sends.
    fn with<'a>(&'a mut self, to: &'a mut dyn NicOutput) -> (&'a mut Nic<A, N, OnHeap>, Out<'a, N>) {
        let Self { nic, headers, transitions } = self;
        (nic, Out { to, headers, transitions })
    }
}

impl<A: ReactionPoint, N: NotificationPoint> Natives<A, N> {
    /// An empty group of NICs with these settings.
    ///
    /// # Errors
    /// Settings that contradict each other or the link.
    pub(crate) fn new(link: Link, rp: A::Settings, np: N::Settings) -> Result<Self, ParamError> {
        A::check(&rp, &link)?;
        N::check(&np, &link)?;
        Ok(Self { link, rp, np, nics: Vec::new() })
    }
}

/// Builds the frames that a NIC sends, and passes them to a [`NicOutput`].
struct Out<'a, N: NotificationPoint> {
    to: &'a mut dyn NicOutput,
    headers: &'a HeaderCacheOf<N, Heap>,
    transitions: &'a mut [Vec<u64>; 2],
}

impl<N: NotificationPoint> RateLimiter for Out<'_, N> {
    fn set(&mut self, slot: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.to.set(slot, rate, window, hold);
    }

    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        count(&mut self.transitions[0], transition);
    }
}

/// Counts an event, unless the rows are not counted.
fn count(rows: &mut [u64], transition: impl FnOnce() -> usize) {
    if !rows.is_empty()
        && let Some(count) = rows.get_mut(transition())
    {
        *count += 1;
    }
}

impl<N: NotificationPoint> Transmit for Out<'_, N> {
    fn cnp(&mut self, cause: &Roce<'_>, to: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent> {
        self.to.send(&Response::cnp(cause, to, body_kind, marking))
    }

    fn slot_cnp(&mut self, local: Qpn, body_kind: CnpBodyKind, marking: CnpMarking) -> Result<(), NotSent> {
        let headers = self.headers.find(local).ok_or(NotSent::Unaddressed)?;
        self.to.send(&headers.cnp(body_kind, marking))
    }

    fn ack(&mut self, cause: &Roce<'_>, to: Qpn, fields: &AckFields) -> Result<(), NotSent> {
        self.to.send(&Response::ack(cause, to, fields))
    }

    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        count(&mut self.transitions[1], transition);
    }
}

impl<A: ReactionPoint, N: NotificationPoint> NicGroup for Natives<A, N> {
    fn add(&mut self, start: Instant, flows: usize, peers: usize) -> usize {
        let mut nic = Nic::ZEROED;
        nic.begin(start, self.link, &self.rp, &self.np).expect("checked when the group was made");
        nic.grow(flows, peers);
        let mut headers = HeaderCacheOf::<N, Heap>::ZEROED;
        headers.grow(peers.div_ceil(4));
        self.nics.push(Native { nic, headers, transitions: [Vec::new(), Vec::new()] });
        self.nics.len() - 1
    }

    fn count_transitions(&mut self, nic: usize) {
        self.nics[nic].transitions = [vec![0; A::TRANSITIONS.len()], vec![0; N::TRANSITIONS.len()]];
    }

    fn acknowledges(&self) -> bool {
        N::REPLIES
    }

    fn open(&mut self, nic: usize, now: Instant, priority: u8, out: &mut dyn NicOutput) -> Option<Handle> {
        let (nic, mut out) = self.nics[nic].with(out);
        nic.open(now, priority, &mut out)
    }

    fn bind(&mut self, nic: usize, _: Instant, flow: Handle, local: Qpn) -> Result<(), BindError> {
        self.nics[nic].nic.bind(flow, local)
    }

    fn learn_remote(&mut self, nic: usize, _: Instant, flow: Handle, packet: &Roce<'_>, _: &[u8]) -> bool {
        self.nics[nic].nic.learn_remote(flow, FlowKey::of_data(packet))
    }

    fn learn_sender(&mut self, nic: usize, now: Instant, packet: &Roce<'_>, _: &[u8], remote: Qpn) -> bool {
        self.nics[nic].headers.learn(now.stamp(), packet, remote)
    }

    fn close(&mut self, nic: usize, _: Instant, flow: Handle) -> bool {
        self.nics[nic].nic.close(flow)
    }

    fn forget(&mut self, nic: usize, _: Instant, local: Qpn) {
        let Native { nic, headers, .. } = &mut self.nics[nic];
        nic.forget(local);
        headers.remove(local);
    }

    fn sent(&mut self, nic: usize, now: Instant, flow: Handle, psn: Psn, bytes: Bytes, out: &mut dyn NicOutput) {
        let (nic, mut out) = self.nics[nic].with(out);
        nic.sent(now, flow, psn, bytes, &mut out);
    }

    fn received(
        &mut self,
        nic: usize,
        now: Instant,
        packet: &Roce<'_>,
        _: &[u8],
        meta: &RxFields,
        out: &mut dyn NicOutput,
    ) -> Option<Received> {
        let (nic, mut out) = self.nics[nic].with(out);
        Some(nic.received(now, packet, meta, &mut out))
    }

    fn pause(&mut self, nic: usize, now: Instant, pfc: &Pfc) {
        self.nics[nic].nic.pause(now, pfc);
    }

    fn timer(&mut self, nic: usize, now: Instant, out: &mut dyn NicOutput) -> Result<Option<u16>> {
        let (nic, mut out) = self.nics[nic].with(out);
        Ok(nic.timer(now, &mut out))
    }

    fn next_wake(&self, nic: usize) -> Instant {
        self.nics[nic].nic.next_wake()
    }

    fn latest_wake(&self, nic: usize) -> Instant {
        self.nics[nic].nic.latest_wake()
    }

    fn departure(&mut self, nic: usize, now: Instant, flow: Handle, bytes: Bytes) -> Option<Nanos> {
        self.nics[nic].nic.departure(now, flow, bytes)
    }

    fn counters(&self, nic: usize) -> NicCounters {
        let Native { nic, transitions, .. } = &self.nics[nic];
        named(&nic.rp().counters(), &nic.np().counters(), transitions)
    }

    fn explain(&self, nic: usize, slot: u16, show: &mut dyn FnMut(TraceValue)) {
        self.nics[nic].nic.rp().trace_values(slot, show);
    }
}
