//! theta-PowerTCP at the sender: PowerTCP without telemetry, from delays alone.
//!
//! Vamsi Addanki, Oliver Michel, Stefan Schmid: "PowerTCP: Pushing the Performance Limits of Datacenter Networks", NSDI
//! 2022, Algorithm 2 (theta-PowerTCP). Without telemetry, the round-trip time theta stands for the voltage, and its
//! slope plus one for the current:
//!
//! ```text
//! once a round trip:  dt = now - t_prev;  G = ((theta - prev) / dt + 1) theta / tau, not below zero
//! ```
//!
//! Power, window and `cwnd_old` are those of [`powertcp`](crate::powertcp).
//!
//! Choices where the paper is silent:
//! - a round trip is over when the last packet sent at its beginning is acknowledged; the first acknowledgement with a delay
//!   begins one;
//! - theta does not include the time that the receiver held the packet, and is clipped to 16 tau;
//! - dt is clipped to 67 ms, from which on the past has no weight;
//! - tau is a setting, or the port's. It is not learnt as the least delay, which would take a longer path for congestion for
//!   ever.
//!
//! Late wakes change no decision: there are no timers, and a wake only keeps the time of the last update unambiguous.

#[cfg(test)]
mod tests;

use crate::powertcp::{PRESETS, Params, PowerTcpSettings, Window, WindowSnapshot};
use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::hops::FINE;
use cc_core::params::{ParamError, Preset};
use cc_core::{Bytes, Link, Nanos, Stamp, State};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ThetaPowerTcp {
    window: Window,
    /// The last round-trip time used, never zero; zero before the first.
    previous: Nanos,
    /// When it was used. A wake replaces a time longer ago than [`LONGEST`] by [`LONGEST`] ago.
    updated: Stamp,
    has_sent: bool,
}

/// Upper bound of dt in nanoseconds: 67 ms.
const LONGEST: u32 = 1 << 26;

cc_core::snapshot! {
    /// A flow of theta-PowerTCP.
    pub struct ThetaPowerTcpSnapshot {
        /// Its window.
        pub window: WindowSnapshot,
        /// The last round-trip time used; zero before the first.
        pub previous: Nanos,
        /// When it was used.
        pub updated: Stamp,
        /// A packet was sent.
        pub has_sent: bool,
    }
}

impl State for ThetaPowerTcp {
    type Snapshot = ThetaPowerTcpSnapshot;

    fn snapshot(&self) -> ThetaPowerTcpSnapshot {
        ThetaPowerTcpSnapshot {
            window: self.window.snapshot(),
            previous: self.previous,
            updated: self.updated,
            has_sent: self.has_sent,
        }
    }

    fn from_snapshot(s: ThetaPowerTcpSnapshot) -> Self {
        Self { window: Window::from_snapshot(s.window), previous: s.previous, updated: s.updated, has_sent: s.has_sent }
    }
}

impl ReactionPoint for ThetaPowerTcp {
    type Settings = PowerTcpSettings;
    type Params = Params;

    const NAME: &'static str = "theta_powertcp";
    const PRESETS: &'static [Preset<PowerTcpSettings>] = PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::DELAY;
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without a delay, or of what was not sent: nothing",
        "no delay yet, ACK: its delay is stored",
        "before a round trip is over, ACK: nothing",
        "a round trip over, ACK: the window follows the power, and cwnd becomes cwnd_old",
        "any, NACK: what is sent again is no longer in flight",
        "any, wake: nothing",
    ];

    fn check(settings: &PowerTcpSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::new(params.mtu), hold: Nanos::ZERO }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        match event {
            Event::Sent { .. } => 0,
            Event::Ack(ack) => match self.delay(cx.params, ack) {
                None => 1,
                Some(_) if self.previous == Nanos::ZERO => 2,
                Some(_) if !self.window.is_over(ack.psn) => 3,
                Some(_) => 4,
            },
            Event::Nack { .. } => 5,
            _ => 6,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let window = Window::open(cx.params);
        Self { window, previous: Nanos::ZERO, updated: cx.now.stamp(), has_sent: false }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        match event {
            Event::Sent { psn, .. } => {
                self.window.sent(*psn);
                if !self.has_sent {
                    self.has_sent = true;
                    self.window.begin_trip();
                }
            }
            Event::Ack(ack) => {
                if let Some(delay) = self.delay(cx.params, ack) {
                    self.acknowledged(cx, ack, delay);
                }
            }
            Event::Nack { psn } if self.has_sent => self.window.rewind(*psn),
            Event::Nack { .. } => {}
            _ => self.refresh(cx.now.stamp()),
        }
        self.window.decision(cx.params)
    }
}

impl ThetaPowerTcp {
    /// Window and power.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// The last round-trip time used, if there was one.
    pub fn previous(&self) -> Option<Nanos> {
        (self.previous != Nanos::ZERO).then_some(self.previous)
    }

    /// When it was used; if longer than 67 ms ago, possibly 67 ms ago.
    pub const fn updated(&self) -> Stamp {
        self.updated
    }

    /// Theta.
    #[inline(always)]
    fn delay(&self, p: &Params, ack: &Ack<'_>) -> Option<Nanos> {
        if !self.has_sent || self.window.is_ahead(ack.psn) {
            return None;
        }
        let network = ack.delay?.network();
        (network != Nanos::ZERO).then(|| network.min(Nanos::new(p.base.time.saturating_mul(16))))
    }

    #[inline(always)]
    fn acknowledged(&mut self, cx: &Cx<'_, Params>, ack: &Ack<'_>, delay: Nanos) {
        let now = cx.now.stamp();
        if self.previous == Nanos::ZERO {
            (self.previous, self.updated) = (delay, now);
            self.window.begin_trip();
            return;
        }
        if !self.window.is_over(ack.psn) {
            return;
        }
        let elapsed = now.since(self.updated).get().min(LONGEST);
        if elapsed > 0 {
            let grown = delay.get().wrapping_add(elapsed).saturating_sub(self.previous.get());
            let power =
                u64::from(ratio(grown, elapsed)).wrapping_mul(u64::from(cx.params.base.rate_of(delay.get()))) >> FINE;
            self.window.update(cx.params, u32::try_from(power).unwrap_or(u32::MAX), elapsed);
            (self.previous, self.updated) = (delay, now);
        }
        self.window.update_old();
    }

    /// Keeps the 32-bit time of the last update unambiguous: one longer ago than [`LONGEST`] becomes [`LONGEST`] ago.
    #[inline(always)]
    fn refresh(&mut self, now: Stamp) {
        if now.since(self.updated).get() > LONGEST {
            self.updated = Stamp::from_bits(now.to_bits().wrapping_sub(LONGEST));
        }
    }
}

/// `part / whole`, cut at 16, with 24 fraction bits; right to 2^-12 of it and 2^-15. One `divu`. Both are below 2^31.
#[inline(always)]
fn ratio(part: u32, whole: u32) -> u32 {
    const MOST: u32 = 16 << FINE;
    if part >> 4 >= whole {
        return MOST;
    }
    // Shortened until the larger has at most 17 bits.
    let (mut part, mut whole) = (part, whole);
    while (part | whole) >> 17 > 0 {
        part >>= 2;
        whole >>= 2;
    }
    part.wrapping_shl(15).checked_div(whole).map_or(MOST, |ratio| ratio.min(MOST >> 9) << 9)
}
