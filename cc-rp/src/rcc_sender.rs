//! RCC's sender variant (RCC-sender): the control law runs at the sender.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III-G. Acknowledgements carry N and B_R, and their time stamps give the round-trip time; the
//! law of [`cc_core::rcc`] computes the window from them.
//!
//! Choices where the paper is silent:
//! - a flow begins with what the port carries in a base round-trip time, at line rate;
//! - the sender does not see where messages end. A message counts as ended, and PID control with it, when nothing is in flight
//!   and no acknowledgement has arrived for 16 base round-trip times; the receiver's timeout is at least as long. The next
//!   packet begins another message;
//! - (1) is not evaluated in the first three base round-trip times of a message. Its first packet takes half of one to the
//!   receiver, the first whole round begins at most one later and takes one, and the B_R of that round takes half of one to the
//!   sender;
//! - acknowledgements that are older than the last, or ahead of what was sent, are not used;
//! - the time that the receiver held the packet is subtracted from the round-trip time. The delay of the path back is included,
//!   so acknowledgements should have a priority of their own.
//!
//! Late wakes change no decision: a wake only keeps the law's stamp unambiguous. One `divu` for each acknowledgement, for C RTT
//! / N.

use crate::rcc::{self, ProgressSnapshot, PsnProgress};
use crate::{Ack, Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::math::div_bitwise;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::rcc::{CONTROLS, Gains, Law, LawParams, LawSnapshot, PRESET_SOURCES, RESPONSES};
use cc_core::{Bytes, Delay, Grant, Link, Nanos, Stamp, State};

cc_core::settings! {
    /// Settings of RCC's sender variant.
    pub struct RccSenderSettings {
        /// K_p, in 1/s.
        k_p: Count, 0..=1_000_000, ["Kp"];
        /// K_d, in 1/s.
        k_d: Count, 0..=1_000_000, ["Kd"];
        /// delta of (1) and (2).
        delta: Ppm, 1_000..=10_000_000, [];
        /// eta: utilisation of the last hop from which it counts as the bottleneck.
        eta: Ppm, 1_000..=1_000_000, [];
        /// n: samples in a row that begin PID control.
        samples: Count, 1..=15, ["n"];
        /// Part of C RTT that is divided among the flows.
        share: Ppm, 10_000..=1_000_000, [];
        /// RTT_base; 0 is the port's.
        base_rtt: Nanos, 0..=10_000_000, [];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, [];
        /// 1: anti-windup, U does not fall below 0 while the fair share limits the window; 0: as in the paper.
        unwind: Count, 0..=1, [];
        /// Function of U in (5): 1 - tanh U, 1 - sigmoid U (S1), or 2 - 2 sigmoid U (S2).
        response: Choice(RESPONSES), 0..=2, [];
        /// Parts of the law: fair share and PID control, PID control alone, or the fair share alone (EWA).
        control: Choice(CONTROLS), 0..=2, [];
    }
}

/// The gains that the paper found in use (section IV-D), with anti-windup.
pub const STABLE: RccSenderSettings = RccSenderSettings {
    k_p: 16,
    k_d: 7_000,
    delta: 200_000,
    eta: 950_000,
    samples: 3,
    share: 1_000_000,
    base_rtt: 0,
    min_rate: 10,
    unwind: 1,
    response: 0,
    control: 0,
};

/// The paper's equations, with the gains of its evaluation.
pub const PAPER: RccSenderSettings = RccSenderSettings { k_p: 10_000, k_d: 100_000, unwind: 0, ..STABLE };

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        window: rcc::Params,
        law: LawParams,
        /// The part of C RTT that is divided among the flows, in bytes.
        shared: u32,
        /// A message ends when nothing is in flight and no acknowledgement has arrived for this long.
        timeout: Nanos,
    }
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RccSender {
    law: Law,
    progress: PsnProgress,
    /// When the last acknowledgement arrived.
    last_ack_at: Stamp,
    has_sent: bool,
    has_acked: bool,
}

cc_core::snapshot! {
    /// A flow of RCC's sender variant.
    pub struct RccSenderSnapshot {
        /// RCC's law.
        pub law: LawSnapshot,
        /// The last packets sent and acknowledged.
        pub progress: ProgressSnapshot,
        /// When the last acknowledgement arrived.
        pub last_ack_at: Stamp,
    }
}

impl State for RccSender {
    type Snapshot = RccSenderSnapshot;

    fn snapshot(&self) -> RccSenderSnapshot {
        RccSenderSnapshot {
            law: self.law.snapshot(),
            progress: self.progress.snapshot(self.has_sent, self.has_acked),
            last_ack_at: self.last_ack_at,
        }
    }

    fn from_snapshot(s: RccSenderSnapshot) -> Self {
        Self {
            law: Law::from_snapshot(s.law),
            progress: PsnProgress::from_snapshot(s.progress),
            last_ack_at: s.last_ack_at,
            has_sent: s.progress.has_sent,
            has_acked: s.progress.has_acked,
        }
    }
}

impl ReactionPoint for RccSender {
    type Settings = RccSenderSettings;
    type Params = Params;

    const NAME: &'static str = "rcc_sender";
    const PRESETS: &'static [Preset<RccSenderSettings>] = &[
        Preset { name: "stable", source: PRESET_SOURCES[0], values: STABLE },
        Preset { name: "paper", source: PRESET_SOURCES[1], values: PAPER },
    ];
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::GRANT.with(Signals::DELAY);
    const RECEIVER: Option<&'static str> = Some("rcc_sender");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without N, old, or of what was not sent: nothing",
        "first round trips or a port in use, ACK: W is the fair share",
        "a port not in use, ACK in time or without a delay: W is the fair share",
        "a port not in use, late ACK, fewer than n in a row: W is the fair share",
        "a port not in use, late ACK for the n-th time: PID control begins",
        "PID control within a round trip, ACK: W stays, at most the fair share",
        "PID control a round trip later, ACK: W by (4) and (5)",
        "any, NACK: what is sent again is no longer in flight",
        "any, wake: nothing",
    ];

    #[expect(clippy::cast_possible_truncation, reason = "in range: below 16; a share of 32 bits")]
    fn check(settings: &RccSenderSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let window = rcc::Params::new(settings.base_rtt, settings.min_rate, link)?;
        let round = Nanos::new(window.base.time);
        let gains = Gains::per_second(settings.k_p, settings.k_d);
        let (samples, unwinds) = (settings.samples as u8, settings.unwind == 1);
        let law = LawParams {
            youth: Nanos::new(round.get().saturating_mul(3)),
            ..LawParams::new(round, gains, settings.delta, settings.eta, samples, window.least, unwinds)
        };
        let shared = div_bitwise(u64::from(window.most.get()).wrapping_mul(settings.share.into()), 1_000_000) as u32;
        let law = law.compared(settings.response, settings.control, Bytes::new(shared));
        Ok(Params { window, law, shared, timeout: Nanos::new(round.get().saturating_mul(16)) })
    }

    fn limits(params: &Params, link: &Link) -> Limits {
        Limits { rate: params.window.floor, window: link.mtu, hold: Nanos::ZERO }
    }

    fn transition(&self, cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        match event {
            Event::Sent { .. } => 0,
            Event::Ack(ack) => {
                let mut flow = *self;
                flow.restart_if_idle(cx);
                let Some(in_use) = flow.acknowledged(cx, ack) else { return 1 };
                let measured = ack.delay.is_some();
                if self.law.is_controlled() {
                    return if flow.law.has_moved(&self.law, cx.now) { 7 } else { 6 };
                }
                match flow.law.samples() {
                    _ if flow.law.is_controlled() => 5,
                    _ if flow.law.is_young() || in_use >= cx.params.law.busy => 2,
                    samples if samples > 0 && measured => 4,
                    _ => 3,
                }
            }
            Event::Nack { .. } => 8,
            _ => 9,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        let law = Law::new(cx.params.window.most);
        Self { law, progress: PsnProgress::NONE, last_ack_at: cx.now.stamp(), has_sent: false, has_acked: false }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        self.restart_if_idle(cx);
        match event {
            Event::Sent { psn, .. } => {
                self.law.begin(&cx.params.law, cx.now);
                self.progress.sent(*psn);
                self.has_sent = true;
            }
            Event::Ack(ack) => {
                self.acknowledged(cx, ack);
            }
            Event::Nack { psn } if self.has_sent => self.progress.rewind(*psn),
            Event::Wake => self.law.age(cx.now),
            _ => {}
        }
        cx.params.window.decision(self.law.window())
    }
}

impl RccSender {
    /// The state of the law.
    pub const fn law(&self) -> &Law {
        &self.law
    }

    /// Ends the message if its timeout has passed.
    #[inline(always)]
    fn restart_if_idle(&mut self, cx: &Cx<'_, Params>) {
        if self.has_acked && self.progress.is_done() && cx.now.stamp().since(self.last_ack_at) >= cx.params.timeout {
            self.law.end();
        }
    }

    /// Runs algorithm 1 on an acknowledgement. Returns B_R if the acknowledgement counted.
    #[inline(always)]
    fn acknowledged(&mut self, cx: &Cx<'_, Params>, ack: &Ack<'_>) -> Option<u16> {
        let Grant::Rcc { flows, utilisation, .. } = ack.grant else { return None };
        if !self.law.is_active() || !self.progress.takes(ack.psn, self.has_acked) {
            return None;
        }
        self.has_acked = true;
        self.last_ack_at = cx.now.stamp();
        let p = cx.params;
        let fair = Bytes::new(p.shared.checked_div(flows.into()).unwrap_or(p.shared));
        self.law.assign(&p.law, cx.now, ack.delay.as_ref().map(Delay::network), utilisation, fair);
        Some(utilisation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::{Instant, Psn, Rate};
    use proptest::prelude::*;

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };

    struct Bench {
        params: Params,
        flow: RccSender,
        now: u64,
    }

    impl Bench {
        fn new() -> Self {
            let params = RccSender::check(&PAPER, &LINK).unwrap();
            let flow = RccSender::open(&Self::cx(0, &params));
            Self { params, flow, now: 0 }
        }

        fn cx(now: u64, params: &Params) -> Cx<'_, Params> {
            let now = Instant::from_nanos(now);
            Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        }

        fn on(&mut self, event: &Event<'_>) -> Decision {
            self.flow.on(&Self::cx(self.now, &self.params), event)
        }

        fn ack(&mut self, psn: u32, rtt: u32, flows: u16, in_use: u16) -> Decision {
            self.on(&Event::Sent { psn: Psn::new(psn + 9), bytes: LINK.mtu });
            let grant = Grant::Rcc { window: Bytes::ZERO, flows, utilisation: in_use };
            let delay = Some(Delay { rtt: Nanos::new(rtt), ..Delay::default() });
            self.on(&Event::Ack(Ack { psn: Psn::new(psn), delay, grant, ..Ack::default() }))
        }
    }

    #[test]
    fn n_divides_the_window_at_once_whether_it_rises_or_falls() {
        let mut bench = Bench::new();
        assert_eq!(bench.ack(1, 12_000, 2, 0).window.get(), 75_000);
        assert_eq!(bench.ack(2, 12_000, 100, 0).window.get(), 1_500);
        assert_eq!(bench.ack(3, 12_000, 1, 0).window.get(), 150_000);
        assert_eq!(bench.ack(4, 12_000, 0, 0).window.get(), 150_000, "N is never zero");
    }

    #[test]
    fn three_late_acknowledgements_on_an_idle_port_begin_pid_control() {
        let mut bench = Bench::new();
        bench.ack(1, 12_000, 1, 0);
        bench.now = 36_000;
        for psn in 2..4 {
            bench.ack(psn, 20_000, 1, 0);
            assert!(!bench.flow.law().is_controlled());
        }
        bench.ack(4, 20_000, 1, 0);
        assert!(bench.flow.law().is_controlled());
        assert!(bench.ack(5, 20_000, 1, 0).window.get() < 150_000);
    }

    /// A queue pair carries many messages: the law keeps only the least delay from one message to the next.
    #[test]
    fn a_queue_pair_that_was_idle_begins_another_message() {
        for woken in [false, true] {
            let mut bench = Bench::new();
            bench.now = 1_000_000_000; // opened long before
            for psn in 1..10 {
                // The first round trips of an incast: B_R is still low.
                bench.ack(psn, 12_000 + psn * 3_000, 16, 0);
                assert!(!bench.flow.law().is_controlled());
            }
            bench.now += 100_000;
            for psn in 10..14 {
                bench.ack(psn, 40_000, 16, 0);
            }
            assert!(bench.flow.law().is_controlled());
            // All that was sent is acknowledged.
            let grant = Grant::Rcc { window: Bytes::ZERO, flows: 16, utilisation: 0 };
            bench.on(&Event::Ack(Ack { psn: Psn::new(13 + 9), grant, ..Ack::default() }));
            bench.now += 191_999;
            bench.on(&Event::Wake);
            assert!(bench.flow.law().is_controlled());
            bench.now += 400_000_000;
            if woken {
                bench.on(&Event::Wake);
                assert!(!bench.flow.law().is_controlled());
            }
            assert_eq!(bench.ack(30, 12_000, 1, 0).window.get(), 150_000);
            assert_eq!(bench.flow.law().least_delay(), Some(12_000));
        }
    }

    proptest! {
        #[test]
        fn wakes_change_no_decision(
            steps in prop::collection::vec((0..60_000_u64, 5_000..90_000_u32, 0..40_u16, any::<u16>(), 0..9_u8), 1..150),
        ) {
            let (mut woken, mut left) = (Bench::new(), Bench::new());
            for (psn, (gap, rtt, flows, in_use, kind)) in (1..).zip(steps) {
                let gap = if kind == 7 { gap * 10_000 } else { gap };
                for part in 1..4 {
                    woken.now = left.now + gap * part / 4;
                    woken.on(&Event::Wake);
                }
                left.now += gap;
                woken.now = left.now;
                let decisions = [&mut woken, &mut left].map(|bench| match kind {
                    0 => bench.on(&Event::Nack { psn: Psn::new(psn) }),
                    _ => bench.ack(psn, rtt, flows, in_use),
                });
                prop_assert_eq!(decisions[0], decisions[1]);
            }
        }
    }
}
