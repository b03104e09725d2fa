//! Swing: priority flow control across a long link, by a pair of relays.
//!
//! A reconstruction. The text of Y. Chen et al., "Swing: Providing Long-Range Lossless RDMA via PFC-Relay" (TPDS 2023), was
//! not to be had; this follows what its abstract and LSCC (sections III-B and IV-C) say: a relay at each end of the long
//! link, next to the interconnect switch, passes on PFC, so that the sender's side drains in the pattern of the receiver's a
//! delay later, with a buffer of about one bandwidth-delay product, and nothing else in the datacentres changes.
//!
//! ```text
//! far relay (receiver's side)   paused = its own switch pauses it, or its buffer is above B_hi and was not below B_lo since
//!                               B_hi = buffer - 2 D C, so that what is under way still fits; B_lo = D C
//!                               says so when that changes, and each keepalive interval
//! near relay (sender's side)    pauses its own switch while the far relay says so, and renews that in half the pause time;
//!                               a gap in the numbers or four intervals of silence count as a pause, until it hears again
//! ```

use cc_core::params::{ParamError, Preset, Settings};
use cc_core::wire::pfc::Quantum;
use cc_core::{Bytes, Link, Nanos, Stamp};

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

/// The presets, the default first.
pub const PRESETS: &[Preset<SwingSettings>] = &[Preset {
    name: "lscc",
    source: "the comparison in LSCC IV: 200 Gb/s, D = 1 ms; buffer of one and a half round trips, keepalive ours",
    values: SwingSettings { buffer: 75_000_000, delay: 1_000_000, keepalive: 100_000, pause_quanta: 65_535 },
}];

cc_core::zeroed! {
    /// What the relays compute with.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        high: u32,
        low: u32,
        keepalive: Nanos,
        silence: Nanos,
        quanta: u16,
        refresh: Nanos,
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
        let quanta = u16::try_from(settings.pause_quanta).unwrap_or(u16::MAX);
        let high = settings.buffer.wrapping_sub(round_trip.get());
        Ok(Self {
            high,
            low: one_way.get().min(high),
            keepalive: Nanos::new(settings.keepalive),
            silence: Nanos::new(settings.keepalive.saturating_mul(4)),
            quanta,
            refresh: Nanos::new(Quantum::at(link.line_rate).pause(quanta).get() >> 1),
        })
    }
}

/// What the far relay tells the near one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RelayMessage {
    /// Pause, or go on.
    pub paused: bool,
    /// Counts the messages.
    pub seq: u16,
}

cc_core::zeroed! {
    /// The relay at the receiver's end, for one priority.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct ReceiverRelay {
        /// Bytes in its buffer.
        queued: u32,
        /// When it speaks next at the latest.
        keepalive_at: Stamp,
        seq: u16,
        /// Its own switch pauses it.
        held: bool,
        /// Its buffer is too full.
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

    /// Time passes: what to say, if it is time.
    pub fn wake(&mut self, p: &Params, now: Stamp) -> Option<RelayMessage> {
        if self.keepalive_at.is_due(now) { Some(self.message(p, now)) } else { None }
    }

    /// How long after `now` it speaks next at the latest.
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
        /// When silence has lasted too long.
        timeout_at: Stamp,
        /// When the pause is to be renewed, while there is one.
        renew_at: Stamp,
        /// Number of the last message.
        seq: u16,
        /// A message was heard at all.
        heard: bool,
        paused: bool,
    }
}

const _: () = assert!(size_of::<SenderRelay>() == 12, "a relay has outgrown its 12 bytes");

impl SenderRelay {
    /// A relay that has heard nothing yet, and pauses nobody until it is deaf.
    pub const fn open(p: &Params, now: Stamp) -> Self {
        Self { timeout_at: now.after(p.silence), renew_at: now, seq: 0, heard: false, paused: false }
    }

    /// Whether it pauses its switch.
    pub const fn is_pausing(&self) -> bool {
        self.paused
    }

    /// A message of the far relay: the quanta of a frame to be sent to the switch, if any; zero resumes. An old or repeated
    /// message says nothing. One behind a gap says that something was missed, and pauses until the next.
    pub fn on_message(&mut self, p: &Params, now: Stamp, message: RelayMessage) -> Option<u16> {
        let ahead = message.seq.wrapping_sub(self.seq);
        if self.heard && (ahead == 0 || ahead >= 1 << 15) {
            return self.wake(p, now);
        }
        let gap = self.heard && ahead > 1;
        (self.seq, self.heard, self.timeout_at) = (message.seq, true, now.after(p.silence));
        self.apply(p, now, message.paused || gap)
    }

    /// Time passes: the quanta of a frame to be sent to the switch, if it is time to renew a pause or to fear the worst.
    pub fn wake(&mut self, p: &Params, now: Stamp) -> Option<u16> {
        if self.timeout_at.is_due(now) {
            self.timeout_at = now.after(p.silence);
            return self.apply(p, now, true);
        }
        self.apply(p, now, self.paused)
    }

    /// How long after `now` [`SenderRelay::wake`] is to be called next.
    pub fn next_wake(&self, now: Stamp) -> Nanos {
        let deaf = wait(now, self.timeout_at);
        if self.paused { deaf.min(wait(now, self.renew_at)) } else { deaf }
    }

    fn apply(&mut self, p: &Params, now: Stamp, pause: bool) -> Option<u16> {
        let was = core::mem::replace(&mut self.paused, pause);
        match (was, pause) {
            (false, false) => None,
            (true, false) => Some(0),
            (true, true) if !self.renew_at.is_due(now) => None,
            (_, true) => {
                self.renew_at = now.after(p.refresh);
                Some(p.quanta)
            }
        }
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
        Params::new(&PRESETS[0].values, &LINK).unwrap()
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
    fn the_near_relay_renews_its_pause_and_fears_the_worst_of_gaps_and_silence() {
        let p = params();
        let mut relay = SenderRelay::open(&p, at(0));
        let mut say = |now, paused, seq| relay.on_message(&p, at(now), RelayMessage { paused, seq });
        assert_eq!(say(10, false, 7), None);
        assert_eq!(say(20, true, 8), Some(65_535));
        assert_eq!(say(30, true, 9), None);
        // 65 535 quanta at 200 Gb/s are 167.8 us.
        assert_eq!(say(84_000, true, 10), Some(65_535), "renewed");
        assert_eq!(say(85_000, false, 11), Some(0));
        assert_eq!(say(86_000, false, 11), None, "repeated");
        assert_eq!(say(86_000, true, 10), None, "old");
        assert_eq!(say(87_000, false, 13), Some(65_535), "12 was lost, and might have said pause");
        assert_eq!(say(88_000, false, 14), Some(0));
        assert_eq!(relay.wake(&p, at(487_999)), None);
        assert_eq!(relay.wake(&p, at(488_000)), Some(65_535), "deaf");
        assert!(relay.is_pausing());
        assert_eq!(relay.on_message(&p, at(490_000), RelayMessage { paused: false, seq: 15 }), Some(0));
    }

    #[test]
    fn a_buffer_below_a_round_trip_is_refused() {
        let small = SwingSettings { buffer: 50_000_000, ..PRESETS[0].values };
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
            };
        }
        assert!(most <= PRESETS[0].values.buffer, "{most} bytes");
        // What the sink could take in 200 ms, less the first delay.
        let possible = 12_500 * 5 * 200_000 / 6;
        assert!(carried > possible * 9 / 10, "{carried} of {possible}");
    }
}
