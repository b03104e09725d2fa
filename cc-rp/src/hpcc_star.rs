//! HPCC* at the sender: HPCC from end to end, and a second loop to the interconnect switch.
//!
//! M. Long et al., "LSCC: Link-Segmented Congestion Control for RDMA in Cross-Datacenter Networks", section III-D.
//! Acknowledgements carry the telemetry of the remote datacentre only. The interconnect switch of the sender returns at once
//! the telemetry of the path to it, with its pseudo queue as one more hop (direct INT):
//!
//! ```text
//! W   by HPCC, on acknowledgements, with T
//! W*  by HPCC, on direct INT, with T*; W* becomes the new Wc* N times a round trip, N = T / T*:
//!     when an acknowledgement passes snd_una + k (snd_nxt - snd_una) / N, k = 1 .. N,
//!     both as they were when the last acknowledgement passed snd_nxt
//! W   is used where it is less than W*, and W* where that is less
//! ```
//!
//! Direct INT carries no sequence number, so acknowledgements measure the round trip. Without them, W* still follows U*.
//!
//! Choices where the paper is silent:
//! - the windows are of paths of different lengths, so they are compared by their rates W / T and W* / T*. Where W* / T* is
//!   less, the flow may have in flight what this rate sends in T;
//! - N is rounded, and 255 at most;
//! - an acknowledgement that passes several marks counts once;
//! - W* is at least a packet in T*, so that direct INT arrives often enough to be compared;
//! - the pseudo queue's hop counts as one of at least 8 Gb/s, as every hop does, see [`hops`](cc_core::hops): where the remote
//!   end grants less, a few kilobytes stay in the pseudo queue. One direct INT in which R falls by more than a tenth is stored
//!   and not measured, because the bytes that had left by then would be more than R allows;
//! - direct INT that is [broken](Unmeasured::BROKEN) past `no_int_rtts` marks in a row halves W* and Wc*, as [`hpcc`] does with
//!   W and Wc. Where none arrives, W* stays;
//! - otherwise as in [`hpcc`].
//!
//! `HOPS` is the number of hops of the longer path: to the pseudo queue inclusive, or from the remote interconnect switch on.
//!
//! Divisions: those of HPCC, and one more on an acknowledgement that passes a mark.
//!
//! Late wakes change no decision: there are no timers, and a wake only discards telemetry that is too old to compare with.

#[cfg(test)]
mod tests;

use crate::hpcc::{self, Hpcc, HpccSettings, HpccSnapshot, NO_INT_RTTS};
use crate::{Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::hops::Unmeasured;
use cc_core::hpcc::{IntOutcome, Law, LawParams, LawSettings, LawSnapshot};
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::flags;
use cc_core::{Bytes, IntStack, Link, Nanos, Psn, Rate, Stamp, State};

cc_core::settings! {
    /// HPCC*, by the names of HPCC's paper and LSCC's.
    pub struct HpccStarSettings {
        /// Target utilisation (eta) of both loops.
        eta: Ppm, 500_000..=1_000_000, ["U_TARGET"];
        /// Additive steps before a multiplicative one must follow (maxStage).
        max_stage: Count, 0..=255, ["MI_THRESH"];
        /// T, the base round-trip time from end to end; 0 is the port's.
        base_rtt: Nanos, 0..=16_000_000, ["T"];
        /// T*, the round-trip time to the interconnect switch; 0 is 10 us, or T if that is less.
        near_rtt: Nanos, 0..=16_000_000, ["T*"];
        /// Additive increase of a round trip as a rate: W_AI / T.
        rate_ai: Mbps, 1..=1_600_000, ["RATE_AI"];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, ["MIN_RATE"];
        /// Multiplier of the units of compact telemetry, as set in the switches.
        int_multi: Count, 1..=64, ["INT_MULTI"];
        /// Round trips without telemetry that can be measured, after which W and Wc, or W* and Wc*, are halved; 0: never.
        no_int_rtts: Count, 0..=255, [];
    }
}

/// LSCC's evaluation.
pub const PAPER: HpccStarSettings = HpccStarSettings {
    eta: 950_000,
    max_stage: 5,
    base_rtt: 0,
    near_rtt: 0,
    rate_ai: 500,
    min_rate: 100,
    int_multi: 1,
    no_int_rtts: NO_INT_RTTS,
};

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        end_to_end: hpcc::Params,
        near_loop: LawParams,
        time: Nanos,
        /// N.
        marks: u8,
    }
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HpccStar<const HOPS: usize> {
    end_to_end: Hpcc<HOPS>,
    near_loop: Law<HOPS>,
    /// snd_una and snd_nxt when the last acknowledgement passed snd_nxt.
    from: Psn,
    to: Psn,
    /// k of the last mark that was passed.
    mark: u8,
    flags: u8,
}

/// With room for five hops on either path.
pub type HpccStar5 = HpccStar<5>;

const _: () = assert!(size_of::<HpccStar5>() <= 192, "a flow has outgrown 192 bytes");

/// `from` and `to` are known.
const COUNTING: u8 = 1;
/// A mark was passed since the last update of Wc*.
const PASSED: u8 = 1 << 1;

cc_core::snapshot! {
    /// A flow of HPCC*.
    pub struct HpccStarSnapshot<const HOPS: usize> {
        /// The loop from end to end.
        pub end_to_end: HpccSnapshot<HOPS>,
        /// The loop to the interconnect switch and back.
        pub near_loop: LawSnapshot<HOPS>,
        /// snd_una when the last acknowledgement passed snd_nxt.
        pub from: Psn,
        /// snd_nxt then.
        pub to: Psn,
        /// k of the last mark that was passed.
        pub mark: u8,
        /// A round trip is being counted.
        pub is_counting: bool,
        /// A mark was passed.
        pub has_passed: bool,
    }
}

impl<const HOPS: usize> State for HpccStar<HOPS> {
    type Snapshot = HpccStarSnapshot<HOPS>;

    fn snapshot(&self) -> HpccStarSnapshot<HOPS> {
        HpccStarSnapshot {
            end_to_end: self.end_to_end.snapshot(),
            near_loop: self.near_loop.snapshot(),
            from: self.from,
            to: self.to,
            mark: self.mark,
            is_counting: self.flags & COUNTING != 0,
            has_passed: self.flags & PASSED != 0,
        }
    }

    fn from_snapshot(s: HpccStarSnapshot<HOPS>) -> Self {
        Self {
            end_to_end: Hpcc::from_snapshot(s.end_to_end),
            near_loop: Law::from_snapshot(s.near_loop),
            from: s.from,
            to: s.to,
            mark: s.mark,
            flags: flags([(s.is_counting, COUNTING), (s.has_passed, PASSED)]),
        }
    }
}

impl<const HOPS: usize> ReactionPoint for HpccStar<HOPS> {
    type Settings = HpccStarSettings;
    type Params = Params;

    const NAME: &'static str = "hpcc_star";
    const PRESETS: &'static [Preset<HpccStarSettings>] = &[Preset {
        name: "paper",
        source: "LSCC IV-C: eta 95 %, W_AI = 500 MBps, read as a rate of 500 Mb/s; T* = 10 us, some round trips of its \
                 datacentre's links of 1 us, and the rest of HPCC's draft",
        values: PAPER,
    }];
    const EVENTS: EventSet =
        EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::SWITCH_INT).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::INT.with(Signals::SWITCH_INT);
    const RECEIVER: Option<&'static str> = Some("echo");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without telemetry, overflowed, old, or of what was not sent: the window stays",
        "any, ACK whose telemetry has nothing to be compared with: it is stored",
        "before a round trip is over, ACK: W follows U from Wc",
        "a round trip over, ACK, U below eta and stages left: W = Wc + W_AI, which is the new Wc",
        "a round trip over, ACK, U at eta or no stage left: W = Wc eta / U + W_AI, which is the new Wc",
        "any, NACK: what is sent again is no longer in flight",
        "any, wake: telemetry too old to compare with is discarded",
        "the last of no_int_rtts round trips over, ACK without telemetry to measure: W and Wc are halved",
        "any, direct INT without a hop that can be measured: nothing",
        "any, direct INT with nothing to be compared with: it is stored",
        "between marks, direct INT: W* follows U* from Wc*",
        "past a mark, direct INT, U* below eta and stages left: W* = Wc* + W_AI*, which is the new Wc*",
        "past a mark, direct INT, U* at eta or no stage left: W* = Wc* eta / U* + W_AI*, which is the new Wc*",
        "past the last of no_int_rtts marks, direct INT that is broken: W* and Wc* are halved",
    ];

    fn check(settings: &HpccStarSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let &HpccStarSettings { eta, max_stage, base_rtt, near_rtt, rate_ai, min_rate, int_multi, no_int_rtts } =
            settings;
        let end_to_end =
            HpccSettings { eta, max_stage, base_rtt, rate_ai, min_rate, int_multi, no_int_rtts, initial_u: 0 };
        let end_to_end = hpcc::Params::new(&end_to_end, link)?;
        let time = if base_rtt == 0 { link.base_rtt } else { Nanos::new(base_rtt) };
        let near_rtt = if near_rtt == 0 { time.get().min(10_000) } else { near_rtt };
        let one_packet = div_bitwise(u64::from(link.mtu.get()) << 24, near_rtt).saturating_add(1);
        let one_packet = Rate::from_bits(u32::try_from(one_packet).unwrap_or(u32::MAX));
        let law_settings = LawSettings {
            eta,
            max_stage: u8::try_from(max_stage).unwrap_or(u8::MAX),
            rate_ai: Rate::from_mbps(rate_ai),
            least: Rate::from_mbps(min_rate).max(one_packet).min(link.line_rate),
            line: link.line_rate,
            no_int_rtts: u8::try_from(no_int_rtts).unwrap_or(u8::MAX),
        };
        let near_loop = LawParams::new("near_rtt", Nanos::new(near_rtt), int_multi, &law_settings)?;
        let marks = div_bitwise(u64::from(time.get()).wrapping_add(u64::from(near_rtt >> 1)), near_rtt);
        if marks == 0 {
            return Err(ParamError::Conflict { field: "near_rtt", expected: "must be at most base_rtt" });
        }
        Ok(Params { end_to_end, near_loop, time, marks: u8::try_from(marks).unwrap_or(u8::MAX) })
    }

    fn limits(params: &Params, link: &Link) -> Limits {
        Hpcc::<HOPS>::limits(&params.end_to_end, link)
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        let Event::SwitchInt { int } = event else { return self.end_to_end.transition(&end_to_end_cx(cx), event) };
        match { *self }.on_switch_int(cx.params, cx.now.stamp(), int) {
            IntOutcome::NotMeasured | IntOutcome::Blind => 9,
            IntOutcome::Stored => 10,
            IntOutcome::WindowAdjusted => 11,
            IntOutcome::Increased => 12,
            IntOutcome::Decreased => 13,
            IntOutcome::Halved => 14,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self {
            end_to_end: Hpcc::open(&end_to_end_cx(cx)),
            near_loop: Law::open(&cx.params.near_loop, cx.now.stamp()),
            from: Psn::new(0),
            to: Psn::new(0),
            mark: 0,
            flags: 0,
        }
    }

    #[inline(always)]
    fn unmeasured(&self, kind: EventSet) -> Unmeasured {
        if kind == EventSet::SWITCH_INT { self.near_loop.unmeasured() } else { self.end_to_end.unmeasured(kind) }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let p = cx.params;
        let end_to_end = match event {
            Event::SwitchInt { int } => {
                self.on_switch_int(p, cx.now.stamp(), int);
                self.end_to_end.decision(&p.end_to_end)
            }
            _ => {
                match event {
                    Event::Ack(ack) => self.acknowledged(p, ack.psn),
                    Event::Nack { psn } => self.rewind(*psn),
                    Event::Wake => self.near_loop.age(&p.near_loop, cx.now.stamp()),
                    _ => {}
                }
                self.end_to_end.on(&end_to_end_cx(cx), event)
            }
        };
        let near_rate = p.near_loop.rate(self.near_loop.window());
        if near_rate >= end_to_end.rate {
            return end_to_end;
        }
        let window = near_rate.bytes_in(p.time).max(Bytes::new(p.end_to_end.mtu)).min(end_to_end.window);
        Decision { rate: near_rate, window, ..end_to_end }
    }
}

/// The context of the end-to-end loop.
#[inline(always)]
const fn end_to_end_cx<'a>(cx: &Cx<'a, Params>) -> Cx<'a, hpcc::Params> {
    Cx {
        now: cx.now,
        link: cx.link,
        params: &cx.params.end_to_end,
        pause: cx.pause,
        clock_without_pauses: cx.clock_without_pauses,
    }
}

impl<const HOPS: usize> HpccStar<HOPS> {
    /// The loop from end to end: W, Wc, U and incStage.
    pub const fn end_to_end(&self) -> &Hpcc<HOPS> {
        &self.end_to_end
    }

    /// The loop to the interconnect switch: W*, Wc*, U* and its incStage.
    pub const fn near_loop(&self) -> &Law<HOPS> {
        &self.near_loop
    }

    #[inline(always)]
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Handles direct INT.
    #[inline(always)]
    fn on_switch_int(&mut self, p: &Params, now: Stamp, int: &IntStack<'_>) -> IntOutcome {
        let outcome = self.near_loop.on_int(&p.near_loop, now, int, self.has(PASSED));
        if !matches!(outcome, IntOutcome::NotMeasured | IntOutcome::Stored | IntOutcome::WindowAdjusted) {
            self.flags &= !PASSED;
        }
        outcome
    }

    /// Updates, at an acknowledgement, how much of the round trip has passed.
    #[inline(always)]
    fn acknowledged(&mut self, p: &Params, psn: Psn) {
        let Some(sent) = self.end_to_end.sent() else { return };
        if psn.is_after(sent) {
            return;
        }
        if !self.has(COUNTING) {
            return self.count_from(psn, sent);
        }
        if self.from.is_after(psn) {
            if self.from.since(psn) > Psn::FAR {
                self.count_from(psn, sent);
            }
            return;
        }
        let (passed_packets, whole) = (psn.since(self.from), self.to.since(self.from));
        if passed_packets >= whole {
            self.count_from(psn, sent);
            self.flags |= PASSED;
            return;
        }
        // Both are at most 2^22, see `count_from`, and N is below 2^8, so that the products fit 32 bits.
        let next = u32::from(self.mark).wrapping_add(1);
        if passed_packets.wrapping_mul(p.marks.into()) >= whole.wrapping_mul(next) {
            let passed = passed_packets.wrapping_mul(p.marks.into()).checked_div(whole).unwrap_or(next);
            self.mark = u8::try_from(passed).unwrap_or(u8::MAX);
            self.flags |= PASSED;
        }
    }

    /// Begins a round trip with snd_una = `psn` and snd_nxt = `sent`.
    fn count_from(&mut self, psn: Psn, sent: Psn) {
        let whole = sent.since(psn).min(Psn::FAR);
        (self.from, self.to, self.mark) = (psn, psn.plus(whole), 0);
        self.flags |= COUNTING;
    }

    /// Go-back-N: packets from `psn` on are sent again, and acknowledged again.
    #[cold]
    fn rewind(&mut self, psn: Psn) {
        let before = psn.plus(0x00ff_ffff);
        if self.has(COUNTING) && self.to.is_after(before) {
            self.to = if self.from.is_after(before) { self.from } else { before };
        }
    }
}
