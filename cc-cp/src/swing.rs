//! Swing: priority flow control (PFC) across a long link, by a pair of relays.
//!
//! This is a reconstruction. The text of Y. Chen et al., "Swing: Providing Long-Range Lossless RDMA via PFC-Relay" (TPDS 2023),
//! was not available; this follows its abstract and LSCC (sections III-B and IV-C). A relay at each end of the long link, next
//! to the interconnect switch, passes PFC on to the other end, so that the sender's side pauses and resumes as the receiver's
//! side did, one delay later. The relay at the receiver's end has a buffer of about one bandwidth-delay product. Nothing else
//! in the datacentres changes.
//!
//! ```text
//! far relay (receiver's side)   paused = its own switch pauses it, or its buffer rose above B_hi and is not below B_lo yet
//!                               B_hi = buffer - 2 D C, so that the packets in flight still fit; B_lo = D C
//!                               sends a message when `paused` changes, and each keepalive interval
//! near relay (sender's side)    pauses its own switch while the last message has `paused`; after a gap in the sequence
//!                               numbers, or four intervals without a message, it pauses until the next message
//! ```

use crate::stage::earlier;
use crate::{Cx, Emit, Event, Kind, Kinds, PeerMessage, QueueStage, RelayMessage, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Link, Nanos, Stamp, State};

cc_core::settings! {
    /// Settings of Swing, the same at both ends.
    pub struct SwingSettings {
        /// The far relay's buffer.
        buffer: Bytes, 1..=0xffff_ffff, [];
        /// D: the one-way delay of the long link.
        delay: Nanos, 0..=100_000_000, ["D"];
        /// The far relay sends a message at least this often.
        keepalive: Nanos, 1_000..=100_000_000, [];
        /// Pause time in the near relay's pause frames, in quanta of 512 bit times. The pause is renewed after half of it.
        pause_quanta: Count, 2..=65_535, [];
    }
}

cc_core::zeroed! {
    /// Checked parameters of the relays.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        high: u32,
        low: u32,
        keepalive: Nanos,
        silence: Nanos,
        quanta: u16,
    }
}

impl Params {
    /// Converts settings into parameters, for a long link of the port's speed.
    ///
    /// # Errors
    /// A setting out of range; a buffer that does not hold more than the link carries in a round trip.
    pub fn new(settings: &SwingSettings, link: &Link) -> Result<Self, ParamError> {
        settings.in_range()?;
        let one_way = link.line_rate.bytes_in(Nanos::new(settings.delay));
        let round_trip = one_way.saturating_add(one_way);
        if settings.buffer <= round_trip.get() {
            return Err(ParamError::Conflict {
                field: "buffer",
                expected: "must hold more than the link carries in a round trip",
            });
        }
        let high = settings.buffer.wrapping_sub(round_trip.get());
        Ok(Self {
            high,
            low: one_way.get().min(high),
            keepalive: Nanos::new(settings.keepalive),
            silence: Nanos::new(settings.keepalive.saturating_mul(4)),
            quanta: u16::try_from(settings.pause_quanta).unwrap_or(u16::MAX),
        })
    }
}

cc_core::zeroed! {
    /// The far relay, at the receiver's end, for one priority.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct ReceiverRelay {
        /// Bytes in its buffer.
        queued: u32,
        /// When it sends its next keepalive message.
        keepalive_at: Stamp,
        seq: u16,
        /// Its own switch pauses it.
        held: bool,
        /// Its buffer is above the high threshold, and has not fallen below the low one since.
        full: bool,
    }
}

const _: () = assert!(size_of::<ReceiverRelay>() == 12, "a relay has outgrown its 12 bytes");

impl ReceiverRelay {
    /// A relay with an empty buffer.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        Self { queued: 0, keepalive_at: now.after(p.keepalive), seq: 0, held: false, full: false }
    }

    /// Bytes in its buffer.
    pub const fn queued(&self) -> Bytes {
        Bytes::new(self.queued)
    }

    /// Whether it may send the packets of its buffer to its switch.
    pub const fn is_draining(&self) -> bool {
        !self.held
    }

    /// A packet arrives by the long link. Returns the message to be sent, if any.
    pub fn arrived(&mut self, p: &Params, now: Stamp, bytes: Bytes) -> Option<RelayMessage> {
        self.change(p, now, |relay| relay.queued = relay.queued.saturating_add(bytes.get()))
    }

    /// A packet leaves to the switch. Returns the message to be sent, if any.
    pub fn left(&mut self, p: &Params, now: Stamp, bytes: Bytes) -> Option<RelayMessage> {
        self.change(p, now, |relay| relay.queued = relay.queued.saturating_sub(bytes.get()))
    }

    /// The switch pauses or resumes it; the end of a pause's time is a resume. Returns the message to be sent, if any.
    pub fn paused(&mut self, p: &Params, now: Stamp, paused: bool) -> Option<RelayMessage> {
        self.change(p, now, |relay| relay.held = paused)
    }

    /// Processes the passing of time. Returns the keepalive message if it is due.
    pub fn wake(&mut self, p: &Params, now: Stamp) -> Option<RelayMessage> {
        if self.keepalive_at.is_due(now) { Some(self.message(p, now)) } else { None }
    }

    /// How long after `now` [`ReceiverRelay::wake`] is to be called next, for the keepalive message.
    pub fn next_wake(&self, now: Stamp) -> Nanos {
        wait(now, self.keepalive_at)
    }

    fn change(&mut self, p: &Params, now: Stamp, change: impl FnOnce(&mut Self)) -> Option<RelayMessage> {
        let before = self.held || self.full;
        change(self);
        self.full = self.queued > p.high || (self.full && self.queued >= p.low);
        if before == (self.held || self.full) { self.wake(p, now) } else { Some(self.message(p, now)) }
    }

    fn message(&mut self, p: &Params, now: Stamp) -> RelayMessage {
        self.keepalive_at = now.after(p.keepalive);
        self.seq = self.seq.wrapping_add(1);
        RelayMessage { paused: self.held || self.full, seq: self.seq }
    }
}

cc_core::zeroed! {
    /// The near relay, at the sender's end, for one priority.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct SenderRelay {
        /// When the keepalive timeout expires: four intervals after the last message.
        timeout_at: Stamp,
        /// Number of the last message.
        seq: u16,
        /// At least one message was received.
        has_message: bool,
        paused: bool,
    }
}

const _: () = assert!(size_of::<SenderRelay>() == 8, "a relay has outgrown its 8 bytes");

impl SenderRelay {
    /// A relay that has received no message. It sends no pause until the keepalive timeout.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        Self { timeout_at: now.after(p.silence), seq: 0, has_message: false, paused: false }
    }

    /// Whether it pauses its own switch.
    pub const fn is_pausing(&self) -> bool {
        self.paused
    }

    /// Processes a message of the far relay. An old or repeated message is ignored. A gap in the sequence numbers means that a
    /// message was lost, and the relay pauses until the next message.
    pub fn on_message(&mut self, p: &Params, now: Stamp, message: RelayMessage) {
        let ahead = message.seq.wrapping_sub(self.seq);
        if self.has_message && (ahead == 0 || ahead >= 1 << 15) {
            return self.wake(p, now);
        }
        let gap = self.has_message && ahead > 1;
        (self.seq, self.has_message, self.timeout_at) = (message.seq, true, now.after(p.silence));
        self.paused = message.paused || gap;
    }

    /// Processes the passing of time: after four keepalive intervals without a message the relay pauses.
    pub fn wake(&mut self, p: &Params, now: Stamp) {
        if self.timeout_at.is_due(now) {
            self.timeout_at = now.after(p.silence);
            self.paused = true;
        }
    }

    /// How long after `now` [`SenderRelay::wake`] is to be called next.
    pub fn next_wake(&self, now: Stamp) -> Nanos {
        wait(now, self.timeout_at)
    }
}

cc_core::zeroed! {
    /// The relays at one end of a long link: each port and priority has one for the packets that arrive by the link, and one
    /// for those that leave by it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Relays {
        /// The far relay of the packets that arrive by the long link.
        receiver: ReceiverRelay,
        /// The near relay of the packets that leave by the long link.
        sender: SenderRelay,
        /// When the pause of the receiver's relay by its switch ends, while there is one.
        until: Stamp,
    }
}

impl Relays {
    /// The relay for packets that arrive by the long link.
    pub const fn receiver(&self) -> &ReceiverRelay {
        &self.receiver
    }

    /// The relay for packets that leave by the long link.
    pub const fn sender(&self) -> &SenderRelay {
        &self.sender
    }
}

cc_core::snapshot! {
    /// The far relay, at the receiver's end.
    pub struct ReceiverRelaySnapshot {
        /// Bytes in its buffer.
        pub queued: Bytes,
        /// When it sends its next keepalive message.
        pub keepalive_at: Stamp,
        /// Number of its last message.
        pub seq: u16,
        /// Its own switch pauses it.
        pub is_held: bool,
        /// Its buffer is above the high threshold, and has not fallen below the low one since.
        pub is_full: bool,
    }
}

cc_core::snapshot! {
    /// The near relay, at the sender's end.
    pub struct SenderRelaySnapshot {
        /// When the keepalive timeout expires, and it pauses.
        pub timeout_at: Stamp,
        /// Number of the last message.
        pub seq: u16,
        /// At least one message was received.
        pub has_message: bool,
        /// It pauses its own switch.
        pub is_pausing: bool,
    }
}

cc_core::snapshot! {
    /// A queue of Swing: both relays.
    pub struct RelaysSnapshot {
        /// For packets that arrive by the long link.
        pub receiver: ReceiverRelaySnapshot,
        /// For packets that leave by the long link.
        pub sender: SenderRelaySnapshot,
        /// When the pause of the receiver's relay by its switch ends, while there is one.
        pub until: Stamp,
    }
}

impl State for Relays {
    type Snapshot = RelaysSnapshot;

    fn snapshot(&self) -> RelaysSnapshot {
        let ReceiverRelay { queued, keepalive_at, seq, held, full } = self.receiver;
        let queued = Bytes::new(queued);
        let receiver = ReceiverRelaySnapshot { queued, keepalive_at, seq, is_held: held, is_full: full };
        let SenderRelay { timeout_at, seq, has_message, paused } = self.sender;
        let sender = SenderRelaySnapshot { timeout_at, seq, has_message, is_pausing: paused };
        RelaysSnapshot { receiver, sender, until: self.until }
    }

    fn from_snapshot(s: RelaysSnapshot) -> Self {
        let ReceiverRelaySnapshot { queued, keepalive_at, seq, is_held, is_full } = s.receiver;
        let receiver = ReceiverRelay { queued: queued.get(), keepalive_at, seq, held: is_held, full: is_full };
        let SenderRelaySnapshot { timeout_at, seq, has_message, is_pausing } = s.sender;
        let sender = SenderRelay { timeout_at, seq, has_message, paused: is_pausing };
        Self { receiver, sender, until: s.until }
    }
}

impl QueueStage for Relays {
    type Params = Params;
    type Settings = SwingSettings;

    const NAME: &'static str = "swing";
    const PRESETS: &'static [Preset<SwingSettings>] = &[Preset {
        name: "lscc",
        source: "the comparison in LSCC IV: 200 Gb/s, D = 1 ms; buffer of one and a half round trips, keepalive ours",
        values: SwingSettings { buffer: 75_000_000, delay: 1_000_000, keepalive: 100_000, pause_quanta: 65_535 },
    }];
    const TAKES: Kinds = Kinds::of(&[Kind::Arrival, Kind::Release, Kind::Pause, Kind::Peer]);
    const PAUSES: bool = true;
    const TIMED: bool = true;

    fn check(settings: &SwingSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn begin(&mut self, cx: &Cx<'_, Params>, _seed: u64) {
        let (p, now) = (cx.params, cx.now.stamp());
        *self = Self { receiver: ReceiverRelay::open(p, now), sender: SenderRelay::open(p, now), until: now };
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        let (p, now) = (cx.params, cx.now.stamp());
        let message = match *event {
            Event::Arrival { packet, .. } => self.receiver.arrived(p, now, packet.bytes),
            Event::Release { bytes, .. } => self.receiver.left(p, now, bytes),
            Event::Pause { time, .. } => {
                self.until = now.after(time);
                self.receiver.paused(p, now, time > Nanos::ZERO)
            }
            Event::Peer(PeerMessage::Relay(message)) => {
                self.sender.on_message(p, now, message);
                None
            }
            _ => None,
        };
        send(cx, message, out);
        Verdict::PASS
    }

    fn wake(&mut self, cx: &Cx<'_, Params>, out: &mut impl Emit) {
        let (p, now) = (cx.params, cx.now.stamp());
        send(cx, self.receiver.wake(p, now), out);
        self.sender.wake(p, now);
    }

    #[inline]
    fn next_wake(&self, cx: &Cx<'_, Params>) -> Option<Nanos> {
        let now = cx.now.stamp();
        let resumed = (!self.receiver.is_draining()).then(|| wait(now, self.until));
        earlier(Some(self.receiver.next_wake(now).min(self.sender.next_wake(now))), resumed)
    }

    #[inline]
    fn pausing(&self, params: &Params) -> u16 {
        if self.sender.is_pausing() { params.quanta } else { 0 }
    }
}

fn send(cx: &Cx<'_, Params>, message: Option<RelayMessage>, out: &mut impl Emit) {
    if let Some(message) = message {
        out.peer(cx.at, PeerMessage::Relay(message));
    }
}

fn wait(now: Stamp, due: Stamp) -> Nanos {
    if due.is_due(now) { Nanos::ZERO } else { due.since(now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Rate;
    use std::collections::VecDeque;
    use std::string::ToString;

    const LINK: Link =
        Link { line_rate: Rate::from_gbps(200), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };

    fn params() -> Params {
        Params::new(&Relays::PRESETS[0].values, &LINK).unwrap()
    }

    fn at(now: u32) -> Stamp {
        Stamp::from_bits(now)
    }

    #[test]
    fn the_far_relay_passes_pauses_on_and_repeats_them_as_keepalives() {
        let p = params();
        let mut relay = ReceiverRelay::open(&p, at(0));
        assert_eq!(relay.paused(&p, at(10), true), Some(RelayMessage { paused: true, seq: 1 }));
        assert_eq!((relay.is_draining(), relay.paused(&p, at(20), true)), (false, None));
        assert_eq!(relay.wake(&p, at(100_009)), None);
        assert_eq!(relay.wake(&p, at(100_010)), Some(RelayMessage { paused: true, seq: 2 }));
        assert_eq!(relay.paused(&p, at(100_020), false), Some(RelayMessage { paused: false, seq: 3 }));
    }

    #[test]
    fn a_buffer_that_fills_pauses_before_the_packets_in_flight_would_overflow_it() {
        // The buffer is 75 MB, and 2 D C = 50 MB: it pauses above 25 MB, until it is below D C = 25 MB again.
        let p = params();
        let mut relay = ReceiverRelay::open(&p, at(0));
        assert_eq!(relay.arrived(&p, at(1), Bytes::new(25_000_000)), None);
        assert_eq!(relay.arrived(&p, at(2), Bytes::new(1)), Some(RelayMessage { paused: true, seq: 1 }));
        assert!(relay.is_draining(), "it is full, not held");
        assert_eq!(relay.left(&p, at(3), Bytes::new(1)), None);
        assert_eq!(relay.left(&p, at(4), Bytes::new(1)), Some(RelayMessage { paused: false, seq: 2 }));
    }

    #[test]
    fn the_near_relay_pauses_after_a_gap_and_after_a_timeout() {
        let p = params();
        let mut relay = SenderRelay::open(&p, at(0));
        let mut pauses_after = |now, paused, seq| {
            relay.on_message(&p, at(now), RelayMessage { paused, seq });
            relay.is_pausing()
        };
        assert!(!pauses_after(10, false, 7));
        assert!(pauses_after(20, true, 8));
        assert!(pauses_after(30, true, 9));
        assert!(!pauses_after(85_000, false, 10));
        assert!(!pauses_after(86_000, false, 10), "repeated");
        assert!(!pauses_after(86_000, true, 9), "old");
        assert!(pauses_after(87_000, false, 12), "11 was lost, and could have been a pause");
        assert!(!pauses_after(88_000, false, 13));
        for (now, paused) in [(487_999, false), (488_000, true)] {
            relay.wake(&p, at(now));
            assert_eq!(relay.is_pausing(), paused, "silence");
        }
        relay.on_message(&p, at(490_000), RelayMessage { paused: false, seq: 14 });
        assert!(!relay.is_pausing());
    }

    #[test]
    fn a_buffer_below_a_round_trip_is_refused() {
        let small = SwingSettings { buffer: 50_000_000, ..Relays::PRESETS[0].values };
        let error = Params::new(&small, &LINK).unwrap_err().to_string();
        assert_eq!(error, "buffer: must hold more than the link carries in a round trip");
    }

    /// The pair is lossless, with a source at line rate and a sink that stops and goes. A step is one microsecond.
    #[test]
    fn the_buffer_does_not_overflow_and_the_long_link_stays_in_use() {
        let p = params();
        let (mut far, mut near) = (ReceiverRelay::open(&p, at(0)), SenderRelay::open(&p, at(0)));
        let mut wire: VecDeque<u32> = VecDeque::from([0; 1_000]);
        let mut back: VecDeque<Option<RelayMessage>> = VecDeque::from([None; 1_000]);
        let (mut most, mut carried) = (0, 0_u64);
        for step in 0..200_000_u32 {
            let now = at(step * 1_000);
            let sent = if near.is_pausing() { 0 } else { 25_000 };
            wire.push_back(sent);
            let mut message = None;
            if let Some(bytes) = wire.pop_front()
                && bytes > 0
            {
                message = message.or(far.arrived(&p, now, Bytes::new(bytes)));
            }
            // The sink takes 100 Gb/s for 5 ms of every 6.
            message = far.paused(&p, now, step % 6_000 >= 5_000).or(message);
            if far.is_draining() && far.queued() > Bytes::ZERO {
                let bytes = far.queued().get().min(12_500);
                carried += u64::from(bytes);
                message = far.left(&p, now, Bytes::new(bytes)).or(message);
            }
            most = most.max(far.queued().get());
            back.push_back(message.or(far.wake(&p, now)));
            match back.pop_front().flatten() {
                Some(message) => near.on_message(&p, now, message),
                None => near.wake(&p, now),
            }
        }
        assert!(most <= Relays::PRESETS[0].values.buffer, "{most} bytes");
        // What the sink could receive in 200 ms.
        let possible = 12_500 * 5 * 200_000 / 6;
        assert!(carried > possible * 9 / 10, "{carried} of {possible}");
    }
}
