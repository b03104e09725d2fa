//! DCTCP at the sender, as a law of rates.
//!
//! Mohammad Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3; RFC 8257, whose names are used here. As a law
//! of rates it is mode 8 of HPCC's public simulator (`rdma-hw.cc`). Switches mark above one length K of the queue, see
//! [`red`](../../cc_cp/red/index.html), the receiver echoes the marks with each acknowledgement, and the sender follows the
//! share of its bytes that were marked:
//!
//! ```text
//! M     = BytesMarked / BytesAcked        of a round
//! alpha = (1 - g) alpha + g M             once a round; alpha begins at 1
//! R     = R (1 - alpha / 2)               at a mark, at most once a round trip
//! R     = R + R_AI                        once a round, unless a cut is less than a round trip ago
//! W     = R T                             bytes in flight, T the base round-trip time
//! ```
//!
//! A round ends with the acknowledgement of a packet that was sent after it began; so does the round trip after a cut, counted
//! from the cut. With R_AI of a packet in T, the window grows by a packet a round, as the paper's does.
//!
//! Choices where the sources differ or are silent:
//! - shares are of bytes, as in RFC 8257. The simulator counts acknowledgements, of which each is of one packet there. An
//!   acknowledgement of several packets carries the strongest mark among them, which counts for all their bytes;
//! - a flow starts at line rate, as in the simulator, where TCP has slow start;
//! - R never exceeds line rate, as in the simulator, so that a flow has at most what line rate carries in T in flight. TCP's window
//!   has no such bound. n flows to one port queue at most n - 1 times as much: where that is less than K, none is ever marked, and
//!   all send at line rate by their windows;
//! - a loss changes nothing, as in the simulator: the network is meant to be lossless. A NAK sets the next packet back, and
//!   a round goes on until the last packet that had been sent before it is acknowledged;
//! - an acknowledgement of nothing new, or ahead of what was sent, changes nothing: its mark is not one of the round;
//! - a round, or a cut, more than 2^22 packets ahead of the acknowledgement can no longer be compared with it, and is over;
//! - alpha and what a cut takes off round down.
//!
//! Late wakes change no decision: there are no timers.

mod parameters;
#[cfg(test)]
mod tests;

pub use parameters::{DctcpSettings, HPCC_SIM, Params, SCALED};

use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, RpEngine, Signals, TraceValue};
use cc_core::math::{mul_high, ratio};
use cc_core::params::{ParamError, Preset};
use cc_core::snapshot::flags;
use cc_core::{Bytes, Frac, Link, Mark, Nanos, Psn, Rate, State};

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dctcp {
    /// R.
    rate: Rate,
    alpha: Frac,
    /// BytesAcked and BytesMarked of this round; saturating.
    acked: Bytes,
    marked: Bytes,
    /// The last packet sent in the low 24 bits, flags above.
    sent: u32,
    /// The last packet sent when the round began, if [`ROUND`] is set.
    round: Psn,
    /// The last packet sent at the last cut, if [`REDUCED`] is set.
    cut: Psn,
}

const _: () = assert!(RpEngine::<Dctcp, 1024, 2048>::QP_BYTES <= 68, "a flow has outgrown 68 bytes");

/// A packet was sent.
const SENT: u32 = 1 << 24;
/// A round has begun.
const ROUND: u32 = 1 << 25;
/// No packet sent after the last cut has been acknowledged.
const REDUCED: u32 = 1 << 26;

cc_core::snapshot! {
    /// A flow of DCTCP.
    pub struct DctcpSnapshot {
        /// R.
        pub rate: Rate,
        /// alpha.
        pub alpha: Frac,
        /// Bytes acknowledged in this round; saturating.
        pub acked: Bytes,
        /// Bytes among them whose acknowledgement carried a mark; saturating.
        pub marked: Bytes,
        /// The last packet sent, if `has_sent`.
        pub sent: Psn,
        /// The last packet sent when the round began, if `has_round`.
        pub round: Psn,
        /// The last packet sent at the last cut, while `is_reduced`.
        pub cut: Psn,
        /// A packet was sent.
        pub has_sent: bool,
        /// A round has begun.
        pub has_round: bool,
        /// No packet sent after the last cut has been acknowledged.
        pub is_reduced: bool,
    }
}

impl State for Dctcp {
    type Snapshot = DctcpSnapshot;

    fn snapshot(&self) -> DctcpSnapshot {
        DctcpSnapshot {
            rate: self.rate,
            alpha: self.alpha,
            acked: self.acked,
            marked: self.marked,
            sent: Psn::new(self.sent),
            round: self.round,
            cut: self.cut,
            has_sent: self.has(SENT),
            has_round: self.has(ROUND),
            is_reduced: self.has(REDUCED),
        }
    }

    fn from_snapshot(s: DctcpSnapshot) -> Self {
        Self {
            rate: s.rate,
            alpha: s.alpha,
            acked: s.acked,
            marked: s.marked,
            sent: s.sent.get() | flags([(s.has_sent, SENT), (s.has_round, ROUND), (s.is_reduced, REDUCED)]),
            round: s.round,
            cut: s.cut,
        }
    }
}

impl ReactionPoint for Dctcp {
    type Settings = DctcpSettings;
    type Params = Params;

    const NAME: &'static str = "dctcp";
    const PRESETS: &'static [Preset<DctcpSettings>] = parameters::PRESETS;
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::MARK;
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: its number is kept",
        "any, ACK of nothing new or of what was not sent: nothing",
        "not reduced, ACK without CE within a round: its bytes count",
        "not reduced, ACK with CE within a round: its bytes count, the rate is cut",
        "reduced, ACK within a round: its bytes count",
        "not reduced, ACK without CE that ends a round: alpha follows the marked share, the rate gains R_AI",
        "not reduced, ACK with CE that ends a round: alpha follows the marked share, the rate is cut",
        "reduced, ACK that ends a round: alpha follows the marked share",
        "any, wake: nothing",
    ];

    fn check(settings: &DctcpSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link)
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: params.least_window, hold: Nanos::ZERO }
    }

    fn transition(&self, _: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let Event::Ack(ack) = event else { return if matches!(event, Event::Sent { .. }) { 0 } else { 8 } };
        if !self.counts(ack) {
            return 1;
        }
        let row: usize = match (self.has(REDUCED) && !ack.psn.has_passed(self.cut), ack.mark) {
            (true, _) => 4,
            (false, Mark::Congested) => 3,
            (false, _) => 2,
        };
        if self.ends_round(ack.psn) { row.wrapping_add(3) } else { row }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self {
            rate: cx.params.line,
            alpha: Frac::ONE,
            acked: Bytes::ZERO,
            marked: Bytes::ZERO,
            sent: 0,
            round: Psn::new(0),
            cut: Psn::new(0),
        }
    }

    fn trace_values(&self, _: &Params, show: &mut dyn FnMut(TraceValue)) {
        show(TraceValue { name: "alpha", bits: self.alpha.to_bits(), fraction_bits: 31 });
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        match event {
            Event::Sent { psn, .. } => self.sent = (self.sent & (ROUND | REDUCED)) | SENT | psn.get(),
            Event::Ack(ack) if self.counts(ack) => self.acknowledged(cx.params, ack),
            _ => {}
        }
        let window = self.rate.bytes_in(cx.params.base_rtt).max(cx.params.least_window);
        Decision { rate: self.rate, window, hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }
}

impl Dctcp {
    /// R.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// alpha, the moving average of the marked share.
    pub const fn alpha(&self) -> Frac {
        self.alpha
    }

    /// Whether no packet sent after the last cut has been acknowledged yet.
    pub const fn is_reduced(&self) -> bool {
        self.has(REDUCED)
    }

    #[inline(always)]
    const fn has(&self, flag: u32) -> bool {
        self.sent & flag != 0
    }

    /// Whether this acknowledges something new, and nothing that was not sent.
    #[inline(always)]
    fn counts(&self, ack: &Ack<'_>) -> bool {
        ack.acked != Bytes::ZERO && self.has(SENT) && !ack.psn.is_after(Psn::new(self.sent))
    }

    /// Whether the acknowledgement of this packet ends the round, or is the first.
    #[inline(always)]
    fn ends_round(&self, psn: Psn) -> bool {
        !self.has(ROUND) || psn.has_passed(self.round)
    }

    #[inline(always)]
    fn acknowledged(&mut self, p: &Params, ack: &Ack<'_>) {
        let (newest, is_marked) = (Psn::new(self.sent), ack.mark == Mark::Congested);
        self.acked = self.acked.saturating_add(ack.acked);
        if is_marked {
            self.marked = self.marked.saturating_add(ack.acked);
        }
        let ends_round = self.ends_round(ack.psn);
        if ends_round {
            // The first round begins with the flow: it has the first acknowledgement too.
            if self.has(ROUND) {
                self.average(p);
            }
            self.round = newest;
            self.sent |= ROUND;
        }
        if self.has(REDUCED) && ack.psn.has_passed(self.cut) {
            self.sent &= !REDUCED;
        }
        if self.has(REDUCED) {
            return;
        }
        if is_marked {
            // alpha, in units of 2^-31, is half of itself in units of 2^-32.
            let gone = mul_high(self.rate.to_bits(), self.alpha.to_bits());
            self.rate = Rate::from_bits(self.rate.to_bits().wrapping_sub(gone)).max(p.floor);
            self.cut = newest;
            self.sent |= REDUCED;
        } else if ends_round {
            self.rate = self.rate.saturating_add(p.step).min(p.line);
        }
    }

    /// Moves alpha toward the marked share of the round, and clears the round's counts.
    #[inline(always)]
    fn average(&mut self, p: &Params) {
        let share = if self.marked < self.acked {
            ratio(self.marked.get(), self.acked.get()) >> 1
        } else {
            Frac::ONE.to_bits()
        };
        let kept = mul_high(self.alpha.to_bits(), p.kept);
        self.alpha = Frac::from_bits(kept.wrapping_add(mul_high(share, p.gain)));
        (self.acked, self.marked) = (Bytes::ZERO, Bytes::ZERO);
    }
}
