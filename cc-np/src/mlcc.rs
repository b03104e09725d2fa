//! MLCC's notification point: it measures the path from its datacentre's interconnect switch to itself, and sends two rates in
//! every acknowledgement: R_credit, at which the switch drains the flow's queue, and R_DQM, at which the sender fills that
//! queue.
//!
//! "Efficient Cross-Datacenter Congestion Control with Fast Control Loops", ICPP 2025, sections 3.2.2 and 3.3, whose names are
//! used here. Into every data packet the switch writes C_D, the credit that it last read in an acknowledgement, the length of
//! the flow's queue, and new telemetry.
//!
//! ```text
//! C_D = C_R: a local round trip is over (Algorithm 1):
//!     C_R += 1; R_credit from the telemetry of this round trip
//!     R_pre  = the mean of the n latest R_DQM, n = RTT_C / RTT_D            (1) (2)
//!     Q_pre  = (R_pre - R_credit) RTT_C + Q_c                               (3)
//!     D_pre  = m Q_pre / (the sum of the m latest R_credit)                 (4)
//!     R_raw  = R_credit (1 - (D_pre - D_t) / theta)                         (5)
//!     R_DQM  = R_credit + dw MTU / RTT_C                                    (9)
//! each data packet:
//!     token += min(alpha R_raw / R_DQM, 1)                                  (7), preset `stable`
//!     token += min(alpha R_raw / R_credit, 1)                               (7), preset `paper`
//!     token >= 1: dw += 1, token -= 1; otherwise dw -= 1                    (6) (8)
//! ```
//!
//! The divisor of (7) is the one deviation from the paper, the setting `token_divisor`. The paper divides by R_credit, whatever
//! the sender's present rate. Let P be the queue a round trip ahead, which (3) predicts, and e = R_DQM - R_credit. Then P' = e,
//! and with the paper's divisor e' = -(P - R_credit D_t) / (RTT_C theta): an oscillator without damping for any theta. With R_DQM
//! itself as divisor dw rises while R_DQM is below R_raw and falls while it is above, so that e' has the additional term
//! -e / RTT_C, and the damping ratio is sqrt(theta / RTT_C) / 2: 0.5, 0.87 and 1.1 at the 6, 18 and 30 ms of the paper's Fig. 9.
//! In the paper's Fig. 9 (four flows from the other datacentre and four from inside to four servers of 25 Gb/s, theta 18 ms) both
//! presets reach the paper's peak of 40 MB. From 100 to 300 ms the two queues of one port then have 1.49 MB a flow, with a standard
//! deviation of 4 % under `stable`, and of 25 to 55 % under `paper`, which does not meet the claim that the queue settles.
//!
//! Choices where the paper is silent, or where its text cannot be right as it is:
//! - R_credit follows from telemetry by HPCC's law: T is RTT_D, a round trip is a round of credit, and the rate is W / T.
//!   R_credit and R_DQM begin with the port's speed, at which sender and switch begin too, and so do the rates of (2) and (4);
//! - a round in which nothing could be measured, because packets are too far apart, raises R_credit by a step of the law;
//! - (2) averages the rates that were sent to the sender, those of (9), because data will arrive at these rates. Its sum has n
//!   terms, and that of (4) has m, not m + 1. Until there are n, those that exist are averaged; the first is the speed with
//!   which a sender begins;
//! - a token of exactly one raises dw, as a larger one does. With R_raw = R_credit the token then alternates between a half and
//!   one, and dw does not drift; with R_raw of twice R_credit or more, dw rises with each packet;
//! - alpha = 1/2 is not a setting: on average a packet changes dw by 2 alpha R_raw / R_credit - 1, or 2 alpha R_raw / R_DQM - 1,
//!   so that dw stops where R_raw is equal to the divisor with this value only;
//! - R_raw itself is not bounded: (7) limits its effect to that of twice the divisor, and an R_raw below zero counts as zero.
//!   R_credit / R_DQM counts as 256 where it is more. D_pre is limited to the range from -RTT_C to theta + D_t, and dw so that
//!   R_DQM is between the lowest rate and the port's speed;
//! - every acknowledgement carries C_R and both rates, not only the first after a round, so that the loop goes on when one is
//!   lost;
//! - when C_D has not been equal to C_R for eight RTT_D, because the switch has removed the flow's record, C_R is set to C_D + 1,
//!   as at the end of a round;
//! - packets without a credit (C_D = 0) are of a flow that has no queue: its sender is in the same datacentre, or the switch has
//!   no room for it. There is no queue to control, and R_DQM is R_credit: HPCC's law with the receiver in the place of the sender.
//!   The end of a round cannot be seen; it lasts U RTT_D, and RTT_D if U is below one: that is how long a change takes to arrive
//!   behind the bytes that wait at the busiest port. With RTT_D alone a flow inside yields up to nine tenths of its rate to one
//!   that comes from across, because it counts the same bytes several times;
//! - MTU counts bytes on the wire, as the rates do.
//!
//! The history of (2) is kept as at most `BUCKETS` sums of n / `BUCKETS` values each, rounded up; firmware has 16. The oldest
//! sum is dropped when the newest is begun, so that at most one sum of the n values is missing from the mean. With n buckets or
//! more, no value is missing.
//!
//! A round takes HPCC's division and three more, which use a table of reciprocals: by the sum in (4), by the number of values
//! in (2), and by R_DQM in (7).
//!
//! After an eviction: the flow restarts with both rates at the port's speed, and with a new first credit.

mod history;
#[cfg(test)]
mod tests;

pub use history::HistorySnapshot;
use history::{History, Span};

use crate::{Arrival, CnpPolicy, Cx, Event, NotificationPoint, Reply};
use cc_core::fixed::types::U8F24;
use cc_core::hpcc::{IntOutcome, Law, LawParams, LawSettings, LawSnapshot};
use cc_core::math::{Reciprocal, div_bitwise};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::{SetAssocTable, SetAssocTableIn, Storage};
use cc_core::wire::CnpMarking;
use cc_core::wire::shim::MlccData;
use cc_core::{Bytes, Ecn, Grant, Link, Mark, Nanos, Qpn, Rate, Stamp, State, Zeroed};
use core::num::NonZeroU32;

cc_core::settings! {
    /// Settings of MLCC at the receiver.
    pub struct MlccSettings {
        /// HPCC's eta: the target utilisation.
        eta: Ppm, 500_000..=1_000_000, [];
        /// HPCC's maxStage: additive steps in a row, after which the next step is multiplicative.
        max_stage: Count, 0..=255, [];
        /// RTT_D: the round-trip time between the interconnect switch and the receiver; 0 is the port's.
        local_rtt: Nanos, 0..=16_000_000, ["RTT_D"];
        /// RTT_C: the round-trip time between sender and receiver, of the empty network.
        far_rtt: Nanos, 10_000..=100_000_000, ["RTT_C"];
        /// Additive increase of R_credit in one local round trip.
        rate_ai: Mbps, 1..=1_600_000, [];
        /// The lowest rate; 0 is a thousandth of the port's speed.
        min_rate: Mbps, 0..=1_600_000, [];
        /// theta: the time in which the queue's delay is to reach its target. It should be more than RTT_C.
        theta: Nanos, 1_000_000..=500_000_000, ["theta"];
        /// D_t: the target of the queue's delay.
        target_delay: Nanos, 0..=100_000_000, ["D_t"];
        /// By what a packet's share of a token is divided: R_credit, as in the paper, or R_DQM, which damps the queue.
        token_divisor: Choice(&["r_credit", "r_dqm"]), 0..=1, [];
        /// Multiplier of the units of compact telemetry, the same as in the switches: a power of two.
        int_multi: Count, 1..=64, [];
        /// DSCP of an acknowledgement; the whole TOS byte is four times this.
        ack_dscp: Count, 0..=63, [];
        /// 802.1p priority of an acknowledgement, used where the data packet had a VLAN tag.
        ack_802p_prio: Count, 0..=7, [];
    }
}

/// The paper's evaluation.
pub const PAPER: MlccSettings = MlccSettings {
    eta: 950_000,
    max_stage: 5,
    local_rtt: 0,
    far_rtt: 6_000_000,
    rate_ai: 50,
    min_rate: 0,
    theta: 18_000_000,
    target_delay: 1_000_000,
    token_divisor: 0,
    int_multi: 1,
    ack_dscp: 48,
    ack_802p_prio: 6,
};

/// The paper's evaluation with the correction of (7).
pub const STABLE: MlccSettings = MlccSettings { token_divisor: 1, ..PAPER };

/// The presets, the default first.
const PRESETS: &[Preset<MlccSettings>] = &[
    Preset {
        name: "stable",
        source: "as `paper`, and (7) with R_DQM for R_credit: ours, because the paper's queue oscillates without damping",
        values: STABLE,
    },
    Preset {
        name: "paper",
        source: "MLCC 4.1: RTT_C 6 ms, theta 18 ms, D_t 1 ms (m 5, alpha 0.5); the law of R_credit: HPCC's draft; \
                 the lowest rate: ours",
        values: PAPER,
    },
];

/// m: values of R_credit that (4) averages.
pub const LATEST: usize = 5;
/// Fraction bits of tokens.
const FINE: u32 = 24;
const ONE: u32 = 1 << FINE;
/// Local round trips without C_D = C_R after which C_R is set to C_D + 1.
const TIMEOUT_RTTS: u32 = 8;

cc_core::zeroed! {
    /// The checked parameters, converted to the units of the computation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        law: LawParams,
        least: Rate,
        line: Rate,
        far_rtt: u32,
        span: Span,
        theta: u32,
        target: u32,
        /// alpha / theta in 2^-56, rounded up.
        per_theta: u64,
        /// (7) divides by R_DQM.
        by_advised: bool,
        /// MTU / RTT_C in 2^-32 bytes per nanosecond.
        step: u32,
        /// RTT_C / MTU in 2^-8.
        per_step: u32,
        timeout: Nanos,
        cnp_policy: CnpPolicy,
    }
}

impl Params {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "in range: below 64, 8 and 256; quotients by the checks before them"
    )]
    fn new(settings: &MlccSettings, link: &Link, buckets: usize) -> Result<Self, ParamError> {
        settings.in_range()?;
        let conflict = |field, expected| Err(ParamError::Conflict { field, expected });
        if !settings.int_multi.is_power_of_two() {
            return conflict("int_multi", "must be a power of two");
        }
        let line = link.line_rate;
        let least = match settings.min_rate {
            0 => Rate::from_bits(div_bitwise(u64::from(line.to_bits()), 1_000).max(1) as u32),
            mbps => Rate::from_mbps(mbps),
        };
        if least > line {
            return conflict("min_rate", "must be at most the speed of the port");
        }
        let local = if settings.local_rtt == 0 { link.base_rtt } else { Nanos::new(settings.local_rtt) };
        let law_settings = LawSettings {
            eta: settings.eta,
            max_stage: settings.max_stage as u8,
            rate_ai: Rate::from_mbps(settings.rate_ai),
            least,
            line,
            no_int_rtts: 0,
        };
        let law = LawParams::new("local_rtt", local, settings.int_multi, &law_settings)?;
        let far = settings.far_rtt;
        let rounds = u16::try_from(div_bitwise(u64::from(far), local.get())).unwrap_or(0);
        if rounds == 0 {
            return conflict("far_rtt", "must be from one local round-trip time to 65 535 of them");
        }
        let mtu = link.mtu.get();
        if !(64..=far).contains(&mtu) {
            return conflict(
                "far_rtt",
                "must be a nanosecond or more for each byte of the largest packet, of 64 or more",
            );
        }
        let marking =
            CnpMarking { dscp: settings.ack_dscp as u8, priority: settings.ack_802p_prio as u8, ecn: Ecn::Ect0 };
        Ok(Self {
            law,
            least,
            line,
            far_rtt: far,
            span: Span::new(rounds, buckets),
            theta: settings.theta,
            target: settings.target_delay,
            per_theta: div_bitwise(1 << 55, settings.theta).wrapping_add(1),
            by_advised: settings.token_divisor != 0,
            step: u32::try_from(div_bitwise(u64::from(mtu) << 32, far)).unwrap_or(u32::MAX),
            per_step: div_bitwise(u64::from(far) << 8, mtu) as u32,
            timeout: Nanos::new(local.get().wrapping_mul(TIMEOUT_RTTS)),
            cnp_policy: CnpPolicy::new(marking, Nanos::ZERO, 1),
        })
    }

    /// alpha R_raw / R_credit, or alpha R_raw / R_DQM, at most one and at least zero, with [`FINE`] fraction bits: (5) and (7).
    #[expect(clippy::cast_possible_truncation, reason = "at most ONE")]
    fn gain(&self, delay: i64, release: Rate, advised: Rate) -> u32 {
        let whole = u64::from(self.theta).wrapping_add(u64::from(self.target)).cast_signed();
        let left = whole.wrapping_sub(delay).max(0).cast_unsigned();
        // R_raw is at most 202 times R_credit, with theta 1 ms and D_t and RTT_C 100 ms: the product has 63 bits, `gain` 31.
        let mut gain = left.wrapping_mul(self.per_theta) >> 32;
        if self.by_advised {
            let by = Reciprocal::of(NonZeroU32::new(advised.to_bits()).unwrap_or(NonZeroU32::MIN));
            // R_credit / R_DQM with 32 fraction bits, and then with 24.
            let quotient = u64::from(release.to_bits()).wrapping_mul(by.mantissa().into()) >> by.exponent();
            gain = gain.wrapping_mul(quotient.min(1 << 40) >> 8) >> 24;
        }
        gain.min(u64::from(ONE)) as u32
    }

    /// The least and largest dw, in packets, for which (9) is between the lowest rate and the port's speed.
    #[inline]
    fn bounds(&self, release: Rate) -> (i32, i32) {
        // A product of 32-bit rates and at most 29 bits, shifted right by 32.
        let packets = |rate: Rate| (u64::from(rate.to_bits()).wrapping_mul(self.per_step.into()) >> 32) as i32;
        (packets(release.saturating_sub(self.least)).wrapping_neg(), packets(self.line.saturating_sub(release)))
    }

    /// (9).
    fn advised_rate(&self, release: Rate, dw: i32) -> Rate {
        let more = i64::from(dw).wrapping_mul(self.step.into()) >> 8;
        let rate = more.wrapping_add(release.to_bits().into());
        Rate::from_bits(u32::try_from(rate.max(0)).unwrap_or(u32::MAX)).max(self.least).min(self.line)
    }
}

/// The record of one flow, with `BUCKETS` sums of rates for (2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mlcc<const BUCKETS: usize> {
    history: History<BUCKETS>,
    law: Law<5>,
    /// The m latest R_credit, the newest first.
    releases: [Rate; LATEST],
    /// R_DQM, as of the last round.
    advised_rate: Rate,
    /// When the last round began.
    began: Stamp,
    /// dw, in packets.
    dw: i32,
    token: u32,
    /// What (7) adds to the token for each packet of this round.
    gain: u32,
    /// C_R, never zero.
    credit: u16,
}

/// MLCC with sixteen sums of rates, as in firmware.
pub type Mlcc16 = Mlcc<16>;

// The entry is the record, its key, and the time of its last packet.
const _: () = assert!(SetAssocTable::<Mlcc16, 1, 1>::ENTRY_BYTES <= 288, "a flow has outgrown 288 bytes");

/// A flow whose last round began longer ago than this restarts as a new one: none of its data has arrived since.
const IDLE_TIMEOUT: Nanos = Nanos::new(1_000_000_000);

impl<const BUCKETS: usize> Zeroed for Mlcc<BUCKETS> {
    const ZEROED: Self = Self {
        history: History::EMPTY,
        law: Law::ZEROED,
        releases: [Rate::from_bits(0); LATEST],
        advised_rate: Rate::from_bits(0),
        began: Stamp::from_bits(0),
        dw: 0,
        token: 0,
        gain: 0,
        credit: 0,
    };
}

cc_core::snapshot! {
    /// A flow of MLCC at the receiver.
    pub struct MlccSnapshot<const BUCKETS: usize> {
        /// The rates that were sent to the sender.
        pub history: HistorySnapshot<BUCKETS>,
        /// The law of R_credit.
        pub law: LawSnapshot<5>,
        /// The m latest R_credit, the newest first.
        pub releases: [Rate; LATEST],
        /// R_DQM, as of the last round.
        pub advised_rate: Rate,
        /// When the last round began.
        pub began: Stamp,
        /// dw, in packets.
        pub dw: i32,
        /// The fraction of a token.
        pub token: U8F24,
        /// What (7) adds to the token for each packet of this round.
        pub gain: U8F24,
        /// C_R; zero is read as one.
        pub credit: u16,
    }
}

impl<const BUCKETS: usize> State for Mlcc<BUCKETS> {
    type Snapshot = MlccSnapshot<BUCKETS>;

    fn snapshot(&self) -> MlccSnapshot<BUCKETS> {
        MlccSnapshot {
            history: self.history.snapshot(),
            law: self.law.snapshot(),
            releases: self.releases,
            advised_rate: self.advised_rate,
            began: self.began,
            dw: self.dw,
            token: U8F24::from_bits(self.token),
            gain: U8F24::from_bits(self.gain),
            credit: self.credit,
        }
    }

    fn from_snapshot(s: MlccSnapshot<BUCKETS>) -> Self {
        Self {
            history: History::from_snapshot(s.history),
            law: Law::from_snapshot(s.law),
            releases: s.releases,
            advised_rate: s.advised_rate,
            began: s.began,
            dw: s.dw,
            token: s.token.to_bits(),
            gain: s.gain.to_bits(),
            credit: s.credit.max(1),
        }
    }
}

impl<const BUCKETS: usize> NotificationPoint for Mlcc<BUCKETS> {
    type Settings = MlccSettings;
    type Params = Params;
    type Shared = ();
    /// Two records in a set, for any `WAYS`: a record is as large as nine of RCC's.
    type Flows<SETS: Storage, const WAYS: usize> = SetAssocTableIn<Self, SETS, 2>;

    const NAME: &'static str = "mlcc";
    const PRESETS: &'static [Preset<MlccSettings>] = PRESETS;
    const SHARED: () = ();
    const REPLIES: bool = true;
    const TELEMETRY: bool = true;

    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "within a round, data, less than a token: dw falls",
        "within a round, data, a whole token: dw rises",
        "C_D = C_R, data, an additive step: R_credit rises, a round of queue management",
        "C_D = C_R, data, a multiplicative step: R_credit by U, a round of queue management",
        "C_D = C_R, telemetry not comparable: R_credit rises, or stays without telemetry, a round of queue management",
        "no round for eight RTT_D, or without credit for one, data: C_R follows C_D, a round of queue management",
    ];

    fn check(settings: &MlccSettings, link: &Link) -> Result<Params, ParamError> {
        Params::new(settings, link, BUCKETS)
    }

    fn cnp_policy(params: &Params) -> &CnpPolicy {
        &params.cnp_policy
    }

    fn idle_timeout(_params: &Params) -> Nanos {
        IDLE_TIMEOUT
    }

    #[inline]
    fn reacts_to(_mark: Mark) -> bool {
        true
    }

    fn open(cx: &Cx<'_, Params>, _shared: &mut (), _local: Option<Qpn>) -> Self {
        Self::begin(cx.params, cx.now.stamp())
    }

    fn transition(&self, cx: &Cx<'_, Params>, _shared: &(), event: &Event<'_>) -> usize {
        let Event::Arrival(arrival) = event else { return 0 };
        let (p, now, mut flow) = (cx.params, cx.now.stamp(), *self);
        let data = arrival.mlcc.unwrap_or_default();
        if !self.is_over(p, now, data.credit) {
            return usize::from(self.token.wrapping_add(self.gain) >= ONE);
        }
        if data.credit != self.credit {
            return 5;
        }
        match flow.law.on_int(&p.law, now, &arrival.int, true) {
            IntOutcome::Increased => 2,
            IntOutcome::Decreased => 3,
            _ => 4,
        }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Params>, _shared: &mut (), arrival: &Arrival<'_>) -> Reply {
        let (p, now) = (cx.params, cx.now.stamp());
        if now.since(self.began) > IDLE_TIMEOUT {
            *self = Self::begin(p, now);
        }
        let data = arrival.mlcc.unwrap_or_default();
        let is_over = self.is_over(p, now, data.credit);
        let outcome = self.law.on_int(&p.law, now, &arrival.int, is_over);
        if is_over {
            if matches!(outcome, IntOutcome::NotMeasured | IntOutcome::Stored) && !arrival.int.is_empty() {
                self.law.rise(&p.law);
            }
            self.begin_round(p, now, &data);
        }
        self.count_packet(p);
        Reply { grant: self.grant(), ..Reply::default() }
    }

    #[inline]
    fn on_cnp_sent(&mut self, _cx: &Cx<'_, Params>, _shared: &mut ()) {}
}

impl<const BUCKETS: usize> Mlcc<BUCKETS> {
    /// R_credit.
    #[inline]
    pub const fn release(&self) -> Rate {
        let [release, ..] = self.releases;
        release
    }

    /// The m latest R_credit, the newest first.
    pub const fn releases(&self) -> &[Rate; LATEST] {
        &self.releases
    }

    /// The law of R_credit.
    pub const fn law(&self) -> &Law<5> {
        &self.law
    }

    /// R_DQM, as of the last round.
    pub const fn advised_rate(&self) -> Rate {
        self.advised_rate
    }

    /// R_pre of the next round: the mean of the rates at which data will arrive in the next round trip between the datacentres.
    pub fn predicted(&self) -> Rate {
        self.history.mean()
    }

    /// dw, in packets.
    pub const fn dw(&self) -> i32 {
        self.dw
    }

    /// The fraction of a token, in units of 2^-24.
    pub const fn token(&self) -> u32 {
        self.token
    }

    /// What each packet adds to the token, in units of 2^-24.
    pub const fn gain(&self) -> u32 {
        self.gain
    }

    #[inline]
    const fn grant(&self) -> Grant {
        Grant::Mlcc { credit: self.credit, release: self.release(), advised_rate: self.advised_rate }
    }

    /// The state of a flow before its first packet.
    #[cold]
    fn begin(p: &Params, now: Stamp) -> Self {
        let mut history = History::EMPTY;
        history.push(p.span, p.line);
        Self {
            history,
            law: Law::open(&p.law, now),
            releases: [p.line; LATEST],
            advised_rate: p.line,
            began: now,
            dw: 0,
            token: 0,
            gain: ONE >> 1,
            credit: first_credit(now),
        }
    }

    /// Whether a packet with this C_D ends a round.
    #[inline]
    fn is_over(&self, p: &Params, now: Stamp, credit: u16) -> bool {
        let longest = if credit == 0 { self.unqueued_round(p) } else { p.timeout };
        credit == self.credit || now.since(self.began) > longest
    }

    /// How long a round of a flow without a queue lasts: RTT_D, and the time for which bytes wait at the busiest port. Where that
    /// port is busy, both together are U RTT_D.
    fn unqueued_round(&self, p: &Params) -> Nanos {
        let time = p.law.time();
        let share = u64::from(time.get()).wrapping_mul(self.law.utilisation().into()) >> FINE;
        Nanos::new(u32::try_from(share).unwrap_or(u32::MAX)).max(time)
    }

    /// Algorithm 1, and (2) to (5) and (9).
    fn begin_round(&mut self, p: &Params, now: Stamp, data: &MlccData) {
        let switch_credit = if data.credit == 0 { self.credit } else { data.credit };
        (self.credit, self.began) = (switch_credit.wrapping_add(1).max(1), now);

        let release = p.law.rate(self.law.window());
        let [a, b, c, d, _] = self.releases;
        self.releases = [release, a, b, c, d];

        let delay = self.delay(p, data.queue);
        let (least, most) = p.bounds(release);
        self.dw = if data.credit == 0 { 0 } else { self.dw.max(least).min(most) };
        self.advised_rate = p.advised_rate(release, self.dw);
        self.gain = p.gain(delay, release, self.advised_rate);
        self.history.push(p.span, self.advised_rate);
    }

    /// D_pre in nanoseconds: (2) to (4).
    #[expect(clippy::cast_possible_truncation, reason = "35 bits, shifted right by three")]
    fn delay(&self, p: &Params, queued: Bytes) -> i64 {
        let surplus = i64::from(self.history.mean().to_bits()).wrapping_sub(self.release().to_bits().into());
        let grown = surplus.wrapping_mul(p.far_rtt.into()) >> 24;
        let queue = grown.wrapping_add(queued.get().into()); // Q_pre, (3)

        // (4): m Q / sum. The rates have 24 fraction bits, their sum has 35 bits, and no rate is zero. Q is limited to 4 GiB.
        let sum = self.releases.iter().fold(0_u64, |sum, rate| sum.wrapping_add(rate.to_bits().into()));
        let by = Reciprocal::of(NonZeroU32::new((sum >> 3) as u32).unwrap_or(NonZeroU32::MIN));
        let bytes = queue.unsigned_abs().min(u32::MAX.into());
        let scaled = (bytes.wrapping_mul(by.mantissa().into()) >> 16).wrapping_mul(LATEST as u64) << 5;
        let delay = (scaled >> by.exponent()).cast_signed();
        let delay = if queue < 0 { delay.wrapping_neg() } else { delay };
        delay.max(i64::from(p.far_rtt).wrapping_neg()).min(i64::from(p.theta).wrapping_add(p.target.into()))
    }

    /// (6) to (8).
    #[inline]
    fn count_packet(&mut self, p: &Params) {
        let (least, most) = p.bounds(self.release());
        self.token = self.token.wrapping_add(self.gain);
        if self.token >= ONE {
            self.token = self.token.wrapping_sub(ONE);
            self.dw = self.dw.wrapping_add(1).min(most);
        } else {
            self.dw = self.dw.wrapping_sub(1).max(least);
        }
    }
}

/// The first C_R of a flow: a hash of the time, so that it is unlikely to be the credit that a switch still has from an earlier
/// flow with the same queue pair number.
const fn first_credit(now: Stamp) -> u16 {
    // A multiplication by the golden ratio (Knuth, The Art of Computer Programming, vol. 3, 6.4).
    let [_, _, low, high] = now.to_bits().wrapping_mul(0x9e37_79b1).to_le_bytes();
    let credit = u16::from_le_bytes([low, high]);
    if credit == 0 { 1 } else { credit }
}
