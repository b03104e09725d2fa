//! Swing: priority flow control across a long link, by a pair of relays.
//!
//! A reconstruction. The text of Y. Chen et al., "Swing: Providing Long-Range Lossless RDMA via PFC-Relay" (TPDS 2023), was
//! not available; this follows what its abstract and LSCC (sections III-B and IV-C) say: a relay at each end of the long
//! link, next to the interconnect switch, passes on PFC, so that the sender's side drains in the pattern of the receiver's a
//! delay later, with a buffer of about one bandwidth-delay product, and nothing else in the datacentres changes.
//!
//! ```text
//! far relay (receiver's side)   paused = its own switch pauses it, or its buffer is above B_hi and was not below B_lo since
//!                               B_hi = buffer - 2 D C, so that what is under way still fits; B_lo = D C
//!                               sends a message when that changes, and each keepalive interval
//! near relay (sender's side)    pauses its own switch while the far relay says so;
//!                               a gap in the numbers or four intervals without a message count as a pause, until the next
//! ```

use crate::stage::earlier;
use crate::{Cx, Emit, Event, Kind, Kinds, PeerMessage, QueueStage, RelayMessage, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Link, Nanos, Stamp, State};

cc_core::settings! {
    /// What the user sets, the same at both ends.
    pub struct SwingSettings {
        /// The far relay's buffer.
        buffer: Bytes, 1..=0xffff_ffff, [];
        /// D: how long the long link takes one way.
        delay: Nanos, 0..=100_000_000, ["D"];
        /// The far relay says how things stand at least this often.
        keepalive: Nanos, 1_000..=100_000_000, [];
        /// What the near relay's pause frames ask for. They are renewed in half that time.
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
    /// Turns settings into parameters for a long link of the port's speed.
    ///
    /// # Errors
    /// A setting out of range; a buffer that does not hold what is under way in a round trip.
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
    /// The relay at the receiver's end, for one priority.
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
    /// A relay that holds nothing.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        Self { queued: 0, keepalive_at: now.after(p.keepalive), seq: 0, held: false, full: false }
    }

    /// Bytes in its buffer.
    pub const fn queued(&self) -> Bytes {
        Bytes::new(self.queued)
    }

    /// Whether it may send on what it holds.
    pub const fn is_draining(&self) -> bool {
        !self.held
    }

    /// A packet comes in by the long link.
    pub fn arrived(&mut self, p: &Params, now: Stamp, bytes: Bytes) -> Option<RelayMessage> {
        self.change(p, now, |relay| relay.queued = relay.queued.saturating_add(bytes.get()))
    }

    /// A packet leaves to the switch.
    pub fn left(&mut self, p: &Params, now: Stamp, bytes: Bytes) -> Option<RelayMessage> {
        self.change(p, now, |relay| relay.queued = relay.queued.saturating_sub(bytes.get()))
    }

    /// The switch pauses or resumes it; a pause that runs out is a resume.
    pub fn paused(&mut self, p: &Params, now: Stamp, paused: bool) -> Option<RelayMessage> {
        self.change(p, now, |relay| relay.held = paused)
    }

    /// Time passes. Returns the keepalive message if it is due.
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
    /// The relay at the sender's end, for one priority.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct SenderRelay {
        /// When the keepalive timeout expires: four intervals after the last message.
        timeout_at: Stamp,
        /// Number of the last message.
        seq: u16,
        /// At least one message was received.
        heard: bool,
        paused: bool,
    }
}

const _: () = assert!(size_of::<SenderRelay>() == 8, "a relay has outgrown its 8 bytes");

impl SenderRelay {
    /// A relay that has received no message. It sends no pause until the keepalive timeout.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        Self { timeout_at: now.after(p.silence), seq: 0, heard: false, paused: false }
    }

    /// Whether it pauses its switch.
    pub const fn is_pausing(&self) -> bool {
        self.paused
    }

    /// A message of the receiver's relay. An old or repeated message is ignored. A gap in the sequence numbers means that a
    /// message was lost, and the relay pauses until the next message.
    pub fn on_message(&mut self, p: &Params, now: Stamp, message: RelayMessage) {
        let ahead = message.seq.wrapping_sub(self.seq);
        if self.heard && (ahead == 0 || ahead >= 1 << 15) {
            return self.wake(p, now);
        }
        let gap = self.heard && ahead > 1;
        (self.seq, self.heard, self.timeout_at) = (message.seq, true, now.after(p.silence));
        self.paused = message.paused || gap;
    }

    /// Time passes: after four keepalive intervals without a message the relay pauses.
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
    /// The relays of one end of a long link: each port and priority has one for the packets that come by it, and one for
    /// those that go.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Relays {
        /// For what comes.
        receiver: ReceiverRelay,
        /// For what goes.
        sender: SenderRelay,
        /// When the pause of the receiver's relay runs out, while there is one.
        until: Stamp,
    }
}

impl Relays {
    /// The relay for what comes by the long link.
    pub const fn receiver(&self) -> &ReceiverRelay {
        &self.receiver
    }

    /// The relay for what goes by it.
    pub const fn sender(&self) -> &SenderRelay {
        &self.sender
    }
}

cc_core::snapshot! {
    /// The relay at the receiver's end.
    pub struct ReceiverRelaySnapshot {
        /// Bytes in its buffer.
        pub queued: Bytes,
        /// When it sends its next message at the latest, the keepalive.
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
    /// The relay at the sender's end.
    pub struct SenderRelaySnapshot {
        /// When the keepalive timeout expires, after which it pauses.
        pub timeout_at: Stamp,
        /// Number of the last message.
        pub seq: u16,
        /// At least one message was received.
        pub has_message: bool,
        /// It pauses its switch.
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
        /// When the pause of the receiver's relay runs out, while there is one.
        pub until: Stamp,
    }
}

impl State for Relays {
    type Snapshot = RelaysSnapshot;

    fn snapshot(&self) -> RelaysSnapshot {
        let ReceiverRelay { queued, keepalive_at, seq, held, full } = self.receiver;
        let queued = Bytes::new(queued);
        let receiver = ReceiverRelaySnapshot { queued, keepalive_at, seq, is_held: held, is_full: full };
        let SenderRelay { timeout_at, seq, heard, paused } = self.sender;
        let sender = SenderRelaySnapshot { timeout_at, seq, has_message: heard, is_pausing: paused };
        RelaysSnapshot { receiver, sender, until: self.until }
    }

    fn from_snapshot(s: RelaysSnapshot) -> Self {
        let ReceiverRelaySnapshot { queued, keepalive_at, seq, is_held, is_full } = s.receiver;
        let receiver = ReceiverRelay { queued: queued.get(), keepalive_at, seq, held: is_held, full: is_full };
        let SenderRelaySnapshot { timeout_at, seq, has_message, is_pausing } = s.sender;
        let sender = SenderRelay { timeout_at, seq, heard: has_message, paused: is_pausing };
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
        let said = match *event {
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
        say(cx, said, out);
        Verdict::PASS
    }

    fn wake(&mut self, cx: &Cx<'_, Params>, out: &mut impl Emit) {
        let (p, now) = (cx.params, cx.now.stamp());
        say(cx, self.receiver.wake(p, now), out);
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

fn say(cx: &Cx<'_, Params>, said: Option<RelayMessage>, out: &mut impl Emit) {
    if let Some(message) = said {
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
    fn the_far_relay_passes_pauses_on_and_repeats_itself() {
        let p = params();
        let mut relay = ReceiverRelay::open(&p, at(0));
        assert_eq!(relay.paused(&p, at(10), true), Some(RelayMessage { paused: true, seq: 1 }));
        assert_eq!((relay.is_draining(), relay.paused(&p, at(20), true)), (false, None));
        assert_eq!(relay.wake(&p, at(100_009)), None);
        assert_eq!(relay.wake(&p, at(100_010)), Some(RelayMessage { paused: true, seq: 2 }));
        assert_eq!(relay.paused(&p, at(100_020), false), Some(RelayMessage { paused: false, seq: 3 }));
    }

    #[test]
    fn a_buffer_that_fills_pauses_before_what_is_under_way_would_overflow_it() {
        // 2 D C = 50 MB of 75: from 25 MB on, and until it is below D C = 25 MB again.
        let p = params();
        let mut relay = ReceiverRelay::open(&p, at(0));
        assert_eq!(relay.arrived(&p, at(1), Bytes::new(25_000_000)), None);
        assert_eq!(relay.arrived(&p, at(2), Bytes::new(1)), Some(RelayMessage { paused: true, seq: 1 }));
        assert!(relay.is_draining(), "it is full, not held");
        assert_eq!(relay.left(&p, at(3), Bytes::new(1)), None);
        assert_eq!(relay.left(&p, at(4), Bytes::new(1)), Some(RelayMessage { paused: false, seq: 2 }));
    }

    #[test]
    fn the_senders_relay_takes_gaps_and_silence_for_pauses() {
        let p = params();
        let mut relay = SenderRelay::open(&p, at(0));
        let mut says = |now, paused, seq| {
            relay.on_message(&p, at(now), RelayMessage { paused, seq });
            relay.is_pausing()
        };
        assert!(!says(10, false, 7));
        assert!(says(20, true, 8));
        assert!(says(30, true, 9));
        assert!(!says(85_000, false, 10));
        assert!(!says(86_000, false, 10), "repeated");
        assert!(!says(86_000, true, 9), "old");
        assert!(says(87_000, false, 12), "11 was lost, and might have said pause");
        assert!(!says(88_000, false, 13));
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

    /// The pair is lossless: a source at line rate, a sink that stops and goes, each microsecond a step.
    #[test]
    fn nothing_overflows_and_the_long_link_stays_in_use() {
        let p = params();
        let (mut far, mut near) = (ReceiverRelay::open(&p, at(0)), SenderRelay::open(&p, at(0)));
        let mut wire: VecDeque<u32> = VecDeque::from([0; 1_000]);
        let mut back: VecDeque<Option<RelayMessage>> = VecDeque::from([None; 1_000]);
        let (mut most, mut carried) = (0, 0_u64);
        for step in 0..200_000_u32 {
            let now = at(step * 1_000);
            let sent = if near.is_pausing() { 0 } else { 25_000 };
            wire.push_back(sent);
            let mut said = None;
            if let Some(bytes) = wire.pop_front()
                && bytes > 0
            {
                said = said.or(far.arrived(&p, now, Bytes::new(bytes)));
            }
            // The sink takes 100 Gb/s for 5 ms of every 6.
            said = far.paused(&p, now, step % 6_000 >= 5_000).or(said);
            if far.is_draining() && far.queued() > Bytes::ZERO {
                let bytes = far.queued().get().min(12_500);
                carried += u64::from(bytes);
                said = far.left(&p, now, Bytes::new(bytes)).or(said);
            }
            most = most.max(far.queued().get());
            back.push_back(said.or(far.wake(&p, now)));
            match back.pop_front().flatten() {
                Some(message) => near.on_message(&p, now, message),
                None => near.wake(&p, now),
            }
        }
        assert!(most <= Relays::PRESETS[0].values.buffer, "{most} bytes");
        // What the sink could take in 200 ms, less the first delay.
        let possible = 12_500 * 5 * 200_000 / 6;
        assert!(carried > possible * 9 / 10, "{carried} of {possible}");
    }
}
