//! MLCC at the sender.
//!
//! "Efficient Cross-Datacenter Congestion Control with Fast Control Loops", ICPP 2025, sections 3.2.1 and 3.3.2. The sender's
//! interconnect switch returns at once the telemetry that the ports on the path to it have written into a data packet
//! (Switch-INT). Each acknowledgement carries the rate that the receiver advises to control the queue at its own interconnect
//! switch:
//!
//! ```text
//! R = min(R_NS, R_DQM)                                                       (10)
//! ```
//!
//! Choices where the paper is silent:
//! - R_NS follows from Switch-INT by HPCC's law, with RTT_D for T, and W / T for the rate. Sequence numbers do not show
//!   when a round trip to the switch is over, so a clock is used: W becomes the new Wc when RTT_D has passed. A round trip in
//!   which nothing could be measured, because packets are too far apart, raises R_NS by a step of the law. After `no_int_rtts`
//!   in a row in which Switch-INT was [broken](Unmeasured::BROKEN), R_NS is halved, as W by [`hpcc`](crate::hpcc), down to the
//!   least rate. Where none arrives, R_NS stays;
//! - R_DQM stays in force until the next one arrives, however long that takes: late acknowledgements must not raise the rate.
//!   Its first value is the port's speed;
//! - the rate in an acknowledgement that is older than the last, or ahead of what was sent, is not used;
//! - no window: the bytes in flight are those of far more than a local round trip, and R_DQM limits the queue that they can
//!   form.
//!
//! Telemetry in acknowledgements is that of the remote datacentre, and is not used.
//!
//! Late wakes change no decision: there are no timers, and a wake only discards telemetry that is too old to compare with.

#[cfg(test)]
mod tests;

use crate::hpcc::NO_INT_RTTS;
use crate::rcc::{ProgressSnapshot, PsnProgress};
use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::hops::Unmeasured;
use cc_core::hpcc::{IntOutcome, Law, LawParams, LawSettings, LawSnapshot};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Grant, IntStack, Link, Nanos, Rate, Stamp, State};

cc_core::settings! {
    /// Settings of MLCC at the sender.
    pub struct MlccSettings {
        /// Target utilisation (HPCC's eta).
        eta: Ppm, 500_000..=1_000_000, [];
        /// Additive steps before a multiplicative one must follow (HPCC's maxStage).
        max_stage: Count, 0..=255, [];
        /// RTT_D: the round-trip time between the sender and its interconnect switch; 0 is the port's.
        local_rtt: Nanos, 0..=16_000_000, ["RTT_D"];
        /// Additive increase of R_NS in a local round trip.
        rate_ai: Mbps, 1..=1_600_000, [];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, [];
        /// Multiplier of the units of compact telemetry, as set in the switches: a power of two.
        int_multi: Count, 1..=64, [];
        /// Local round trips with nothing but broken Switch-INT, after which R_NS is halved; 0: never.
        no_int_rtts: Count, 0..=255, [];
    }
}

/// The law of HPCC's draft, for the servers of the paper.
pub const PAPER: MlccSettings = MlccSettings {
    eta: 950_000,
    max_stage: 5,
    local_rtt: 0,
    rate_ai: 50,
    min_rate: 25,
    int_multi: 1,
    no_int_rtts: NO_INT_RTTS,
};

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        law: LawParams,
        floor: Rate,
        line: Rate,
    }
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mlcc {
    /// The law of R_NS.
    law: Law<5>,
    /// R_NS, which is W / T.
    near: Rate,
    /// R_DQM.
    advised_rate: Rate,
    /// When W became Wc.
    updated: Stamp,
    progress: PsnProgress,
    has_sent: bool,
    has_acked: bool,
}

cc_core::snapshot! {
    /// A flow of MLCC.
    pub struct MlccSnapshot {
        /// The law of R_NS.
        pub law: LawSnapshot<5>,
        /// R_NS, which is W / T.
        pub near: Rate,
        /// R_DQM.
        pub advised_rate: Rate,
        /// When W became Wc.
        pub updated: Stamp,
        /// The last packets sent and acknowledged.
        pub progress: ProgressSnapshot,
    }
}

impl State for Mlcc {
    type Snapshot = MlccSnapshot;

    fn snapshot(&self) -> MlccSnapshot {
        MlccSnapshot {
            law: self.law.snapshot(),
            near: self.near,
            advised_rate: self.advised_rate,
            updated: self.updated,
            progress: self.progress.snapshot(self.has_sent, self.has_acked),
        }
    }

    fn from_snapshot(s: MlccSnapshot) -> Self {
        Self {
            law: Law::from_snapshot(s.law),
            near: s.near,
            advised_rate: s.advised_rate,
            updated: s.updated,
            progress: PsnProgress::from_snapshot(s.progress),
            has_sent: s.progress.has_sent,
            has_acked: s.progress.has_acked,
        }
    }
}

impl ReactionPoint for Mlcc {
    type Settings = MlccSettings;
    type Params = Params;

    const NAME: &'static str = "mlcc";
    /// Both have the same values: what differs is at the receiver, whose preset has the same name.
    const PRESETS: &'static [Preset<MlccSettings>] = &[
        Preset { name: "stable", source: "as `paper`; the receiver's differs", values: PAPER },
        Preset {
            name: "paper",
            source: "MLCC 4.1 names no parameter of R_NS: the law is that of HPCC's draft, the least rate a thousandth of \
                     the 25 Gb/s of its servers; no_int_rtts: RFC 5348 4.3, ours for MLCC",
            values: PAPER,
        },
    ];
    const EVENTS: EventSet =
        EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::SWITCH_INT).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::ADVISED_RATE.with(Signals::SWITCH_INT);
    const RECEIVER: Option<&'static str> = Some("mlcc");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without a rate, old, or of what was not sent: nothing",
        "any, ACK with a rate: it is R_DQM",
        "any, NACK: what is sent again is no longer in flight",
        "any, Switch-INT that cannot be compared: it is stored, and R_NS rises by a step if a local round trip is over",
        "before a local round trip is over, Switch-INT: R_NS follows U",
        "a local round trip over, Switch-INT, U below eta and stages left: R_NS rises by a step",
        "a local round trip over, Switch-INT, U at eta or no stage left: R_NS by eta / U",
        "any, wake: telemetry too old to compare with is discarded",
        "a local round trip over, Switch-INT that is broken: nothing",
        "the last of no_int_rtts local round trips over, Switch-INT that is broken: R_NS is halved",
    ];

    fn check(settings: &MlccSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let conflict = |field, expected| Err(ParamError::Conflict { field, expected });
        if !settings.int_multi.is_power_of_two() {
            return conflict("int_multi", "must be a power of two");
        }
        let (line, floor) = (link.line_rate, Rate::from_mbps(settings.min_rate));
        if floor > line {
            return conflict("min_rate", "must be at most the speed of the port");
        }
        let local = if settings.local_rtt == 0 { link.base_rtt } else { Nanos::new(settings.local_rtt) };
        let law_settings = LawSettings {
            eta: settings.eta,
            max_stage: u8::try_from(settings.max_stage).unwrap_or(u8::MAX),
            rate_ai: Rate::from_mbps(settings.rate_ai),
            least: floor,
            line,
            no_int_rtts: u8::try_from(settings.no_int_rtts).unwrap_or(u8::MAX),
        };
        Ok(Params { law: LawParams::new("local_rtt", local, settings.int_multi, &law_settings)?, floor, line })
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: Bytes::MAX, hold: Nanos::ZERO }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let mut flow = *self;
        match event {
            Event::Sent { .. } => 0,
            Event::Ack(ack) => {
                if flow.takes(ack).is_some() {
                    2
                } else {
                    1
                }
            }
            Event::Nack { .. } => 3,
            Event::SwitchInt { int } => match flow.on_int(cx.params, cx.now.stamp(), int) {
                IntOutcome::NotMeasured | IntOutcome::Stored => 4,
                IntOutcome::WindowAdjusted => 5,
                IntOutcome::Increased => 6,
                IntOutcome::Decreased => 7,
                IntOutcome::Blind => 9,
                IntOutcome::Halved => 10,
            },
            _ => 8,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let (p, now) = (cx.params, cx.now.stamp());
        Self {
            law: Law::open(&p.law, now),
            near: p.line,
            advised_rate: p.line,
            updated: now,
            progress: PsnProgress::NONE,
            has_sent: false,
            has_acked: false,
        }
    }

    #[inline(always)]
    fn unmeasured(&self, kind: EventSet) -> Unmeasured {
        if kind == EventSet::SWITCH_INT { self.law.unmeasured() } else { Unmeasured::NONE }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let (p, now) = (cx.params, cx.now.stamp());
        match event {
            Event::Sent { psn, .. } => {
                self.progress.sent(*psn);
                self.has_sent = true;
            }
            Event::Ack(ack) => {
                if let Some(advised_rate) = self.takes(ack) {
                    self.advised_rate = advised_rate;
                }
            }
            Event::Nack { psn } if self.has_sent => self.progress.rewind(*psn),
            Event::SwitchInt { int } => {
                self.on_int(p, now, int);
            }
            Event::Wake => self.age(p, now),
            _ => {}
        }
        // (10)
        let rate = self.near.min(self.advised_rate).max(p.floor);
        Decision { rate, window: Bytes::MAX, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }
}

impl Mlcc {
    /// The law of R_NS.
    pub const fn law(&self) -> &Law<5> {
        &self.law
    }

    /// R_DQM.
    pub const fn advised_rate(&self) -> Rate {
        self.advised_rate
    }

    /// The R_DQM of an acknowledgement, if it is to be used.
    #[inline(always)]
    fn takes(&mut self, ack: &Ack<'_>) -> Option<Rate> {
        let Grant::Mlcc { advised_rate, .. } = ack.grant else { return None };
        let counts = self.has_sent && self.progress.takes(ack.psn, self.has_acked);
        self.has_acked |= counts;
        counts.then_some(advised_rate)
    }

    #[inline(always)]
    fn on_int(&mut self, p: &Params, now: Stamp, int: &IntStack<'_>) -> IntOutcome {
        let is_over = now.since(self.updated) >= p.law.time();
        let outcome = self.law.on_int(&p.law, now, int, is_over);
        let unmeasured = matches!(outcome, IntOutcome::NotMeasured | IntOutcome::Stored) && !int.is_empty();
        if unmeasured && is_over {
            self.law.rise(&p.law);
        }
        if is_over || outcome == IntOutcome::Stored {
            self.updated = now;
        }
        self.near = p.law.rate(self.law.window());
        outcome
    }

    /// Keeps 32-bit stamps unambiguous: a time too long ago is set to one just long enough ago.
    #[cold]
    fn age(&mut self, p: &Params, now: Stamp) {
        self.law.age(&p.law, now);
        if now.since(self.updated) > p.law.time() {
            self.updated = Stamp::from_bits(now.to_bits().wrapping_sub(p.law.time().get()));
        }
    }
}
