//! RCC at the sender: it applies the window that the receiver assigns.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III-B and Table I. The receiver assigns the window in its acknowledgements; the sender paces
//! it over a round-trip time, so that a window below one packet is enforced as a rate.
//!
//! Choices where the paper is silent:
//! - a flow begins with what the port carries in a base round-trip time, at line rate, or with `first_window`. N flows that begin
//!   at once with the former queue N times that, which takes N round trips to drain: 13 MB and 1 ms of 90 flows at 100 Gb/s and
//!   12 us. With a packet each they queue N packets, and a flow that has the link alone loses a round trip;
//! - the window in an acknowledgement that is older than the last, or ahead of what was sent, is not used;
//! - no window is above the initial one, or so small that its rate is below the least.
//!
//! Late wakes change no decision: there are no timers.

use crate::{Cx, Decision, Event, EventSet, Limits, ReactionPoint, Signals};
use cc_core::hops::BaseRtt;
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::{Bytes, Grant, Link, Nanos, Psn, Rate, State};

cc_core::settings! {
    /// Settings of RCC at the sender.
    pub struct RccSettings {
        /// RTT_base; 0 is the port's.
        base_rtt: Nanos, 0..=10_000_000, [];
        /// Lowest rate.
        min_rate: Mbps, 1..=1_600_000, [];
        /// Window of a flow before its first acknowledgement; 0 is what the port carries in RTT_base.
        first_window: Bytes, 0..=1_000_000_000, [];
    }
}

/// The paper's sender.
pub const PAPER: RccSettings = RccSettings { base_rtt: 0, min_rate: 10, first_window: 0 };

cc_core::zeroed! {
    /// Checked parameters, computed once for a port and shared by its flows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Params {
        pub(crate) base: BaseRtt,
        /// What the port carries in a base round trip, in bytes.
        pub(crate) most: Bytes,
        /// The window of a flow before its first acknowledgement.
        first: Bytes,
        pub(crate) least: Bytes,
        pub(crate) floor: Rate,
        line: Rate,
        mtu: Bytes,
    }
}

impl Params {
    pub(crate) fn new(base_rtt: u32, min_rate: u32, link: &Link) -> Result<Self, ParamError> {
        let time = if base_rtt == 0 { link.base_rtt } else { Nanos::new(base_rtt) };
        let carried = link.line_rate.bytes_in(time).get();
        let base = BaseRtt::new(time, 1).filter(|_| (1 << 10..=1 << 30).contains(&carried));
        let Some(base) = base else {
            return Err(ParamError::Conflict {
                field: "base_rtt",
                expected: "must be from 1 us to 10 ms, and the port must carry 1 KiB to 1 GiB in it",
            });
        };
        let (line, floor) = (link.line_rate, Rate::from_mbps(min_rate));
        if floor > line {
            return Err(ParamError::Conflict { field: "min_rate", expected: "must be at most the speed of the port" });
        }
        let least = floor.bytes_in(time).saturating_add(Bytes::new(1));
        let most = Bytes::new(carried);
        Ok(Self { base, most, first: most, least, floor, line, mtu: link.mtu })
    }

    /// A window, and the rate that sends it in a base round-trip time.
    #[inline(always)]
    pub(crate) fn decision(&self, window: Bytes) -> Decision {
        let rate = if window >= self.most { self.line } else { Rate::from_bits(self.base.rate_of(window.get())) };
        let rate = rate.max(self.floor).min(self.line);
        Decision { rate, window: window.max(self.mtu), hold: Nanos::ZERO, wake_in: Nanos::MAX }
    }
}

/// The last packets sent and acknowledged, by which stale and invalid acknowledgements are rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct PsnProgress {
    sent: Psn,
    acked: Psn,
}

/// The state of a flow: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rcc {
    window: Bytes,
    progress: PsnProgress,
    has_sent: bool,
    has_acked: bool,
}

impl PsnProgress {
    pub(crate) const NONE: Self = Self { sent: Psn::new(0), acked: Psn::new(0) };

    #[inline(always)]
    pub(crate) const fn sent(&mut self, psn: Psn) {
        self.sent = psn;
    }

    /// Accepts an acknowledgement that is not older than the last and not ahead of what was sent: stores it as the last and
    /// returns `true`.
    #[inline(always)]
    pub(crate) fn takes(&mut self, psn: Psn, has_acked: bool) -> bool {
        let ahead = psn.is_after(self.sent);
        let old = has_acked && self.acked.is_after(psn);
        let counts = !(ahead || old);
        if counts {
            self.acked = psn;
        }
        counts
    }

    /// Whether all that was sent is acknowledged.
    #[inline(always)]
    pub(crate) fn is_done(&self) -> bool {
        self.acked == self.sent
    }

    /// Go-back-N: packets from `psn` on are sent again.
    #[cold]
    pub(crate) fn rewind(&mut self, psn: Psn) {
        let before = psn.plus(0x00ff_ffff);
        if self.sent.is_after(before) {
            self.sent = before;
        }
    }
}

cc_core::snapshot! {
    /// The last packets sent and acknowledged of a flow.
    pub struct ProgressSnapshot {
        /// The last packet sent, if `has_sent`.
        pub sent: Psn,
        /// The last packet acknowledged, if `has_acked`.
        pub acked: Psn,
        /// A packet was sent.
        pub has_sent: bool,
        /// A packet was acknowledged.
        pub has_acked: bool,
    }
}

impl PsnProgress {
    pub(crate) const fn snapshot(self, has_sent: bool, has_acked: bool) -> ProgressSnapshot {
        ProgressSnapshot { sent: self.sent, acked: self.acked, has_sent, has_acked }
    }

    pub(crate) const fn from_snapshot(s: ProgressSnapshot) -> Self {
        Self { sent: s.sent, acked: s.acked }
    }
}

cc_core::snapshot! {
    /// A flow of RCC at the sender.
    pub struct RccSnapshot {
        /// The window that the receiver last granted.
        pub window: Bytes,
        /// The last packets sent and acknowledged.
        pub progress: ProgressSnapshot,
    }
}

impl State for Rcc {
    type Snapshot = RccSnapshot;

    fn snapshot(&self) -> RccSnapshot {
        RccSnapshot { window: self.window, progress: self.progress.snapshot(self.has_sent, self.has_acked) }
    }

    fn from_snapshot(s: RccSnapshot) -> Self {
        Self {
            window: s.window,
            progress: PsnProgress::from_snapshot(s.progress),
            has_sent: s.progress.has_sent,
            has_acked: s.progress.has_acked,
        }
    }
}

impl ReactionPoint for Rcc {
    type Settings = RccSettings;
    type Params = Params;

    const NAME: &'static str = "rcc";
    const PRESETS: &'static [Preset<RccSettings>] = &[
        Preset { name: "stable", source: "as paper: the receiver's preset of this name differs", values: PAPER },
        Preset { name: "paper", source: "RCC III-B and V-A; the least rate is ours", values: PAPER },
    ];
    const EVENTS: EventSet = EventSet::SENT.with(EventSet::ACK).with(EventSet::NACK).with(EventSet::WAKE);
    const SIGNALS: Signals = Signals::GRANT;
    const RECEIVER: Option<&'static str> = Some("rcc");
    #[rustfmt::skip]
    const TRANSITIONS: &'static [&'static str] = &[
        "any, sent: the packet counts as in flight",
        "any, ACK without a window, old, or of what was not sent: nothing",
        "any, ACK with a window: it is the flow's",
        "any, NACK: what is sent again is no longer in flight",
        "any, wake: nothing",
    ];

    fn check(settings: &RccSettings, link: &Link) -> Result<Params, ParamError> {
        settings.in_range()?;
        let p = Params::new(settings.base_rtt, settings.min_rate, link)?;
        let first = if settings.first_window == 0 { p.most } else { Bytes::new(settings.first_window) };
        Ok(Params { first: first.max(p.least).min(p.most), ..p })
    }

    fn limits(params: &Params, _link: &Link) -> Limits {
        Limits { rate: params.floor, window: params.mtu, hold: Nanos::ZERO }
    }

    fn transition(&self, _cx: &Cx<'_, Params>, event: &Event<'_>) -> usize {
        match event {
            Event::Sent { .. } => 0,
            Event::Ack(ack) => {
                let mut progress = self.progress;
                let counts = self.has_sent && progress.takes(ack.psn, self.has_acked);
                if counts && ack.grant != Grant::None { 2 } else { 1 }
            }
            Event::Nack { .. } => 3,
            _ => 4,
        }
    }

    fn open(cx: &Cx<'_, Params>) -> Self {
        Self { window: cx.params.first, progress: PsnProgress::NONE, has_sent: false, has_acked: false }
    }

    #[inline(always)]
    fn on(&mut self, cx: &Cx<'_, Params>, event: &Event<'_>) -> Decision {
        let p = cx.params;
        match event {
            Event::Sent { psn, .. } => {
                self.progress.sent(*psn);
                self.has_sent = true;
            }
            Event::Ack(ack) => {
                if let Grant::Rcc { window, .. } = ack.grant
                    && self.has_sent
                    && self.progress.takes(ack.psn, self.has_acked)
                {
                    self.has_acked = true;
                    self.window = window.max(p.least).min(p.most);
                }
            }
            Event::Nack { psn } if self.has_sent => self.progress.rewind(*psn),
            _ => {}
        }
        p.decision(self.window)
    }
}

impl Rcc {
    /// W.
    pub const fn window(&self) -> Bytes {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ack;
    use cc_core::Instant;

    const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };

    struct Bench {
        params: Params,
        flow: Rcc,
    }

    impl Bench {
        fn new() -> Self {
            let params = Rcc::check(&PAPER, &LINK).unwrap();
            let flow = Rcc::open(&Self::cx(&params));
            Self { params, flow }
        }

        fn cx(params: &Params) -> Cx<'_, Params> {
            let now = Instant::from_nanos(0);
            Cx { now, link: &LINK, params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
        }

        fn on(&mut self, event: &Event<'_>) -> Decision {
            self.flow.on(&Self::cx(&self.params), event)
        }

        fn sent(&mut self, psn: u32) -> Decision {
            self.on(&Event::Sent { psn: Psn::new(psn), bytes: LINK.mtu })
        }

        fn ack(&mut self, psn: u32, window: u32) -> Decision {
            let grant = Grant::Rcc { window: Bytes::new(window), flows: 1, utilisation: 0 };
            self.on(&Event::Ack(Ack { psn: Psn::new(psn), grant, ..Ack::default() }))
        }
    }

    #[test]
    fn a_flow_begins_at_line_rate_and_obeys_the_window_from_the_first_acknowledgement() {
        let mut bench = Bench::new();
        let first = bench.sent(100);
        assert_eq!((first.rate, first.window.get()), (LINK.line_rate, 150_000));
        let next = bench.ack(1, 75_000);
        assert_eq!(next.window.get(), 75_000);
        assert!(next.rate.to_bits().abs_diff(LINK.line_rate.to_bits() / 2) <= 1);
        // Below one packet, the rate enforces the window.
        let small = bench.ack(2, 150);
        assert_eq!(small.window, LINK.mtu);
        assert!((f64::from(small.rate.to_bits()) / f64::from(1 << 24) - 150.0 / 12_000.0).abs() < 1e-4);
        assert_eq!(bench.ack(3, u32::MAX).window.get(), 150_000);
        assert!(bench.ack(4, 0).rate >= Rate::from_mbps(10));
    }

    /// In a round trip it sends that much, however fast the port.
    #[test]
    fn a_first_window_limits_what_a_flow_sends_before_its_first_acknowledgement() {
        for (first_window, window, gbps) in
            [(1_064, 1_064, 1_064.0 / 1_500.0), (15_000, 15_000, 10.0), (1_000_000, 150_000, 100.0)]
        {
            let params = Rcc::check(&RccSettings { first_window, ..PAPER }, &LINK).unwrap();
            let flow = Rcc::open(&Bench::cx(&params));
            let mut bench = Bench { params, flow };
            let first = bench.sent(100);
            assert_eq!(first.window.get(), window);
            assert!((f64::from(first.rate.to_bits()) / f64::from(1 << 21) - gbps).abs() < 0.01, "{first:?}");
            assert_eq!(bench.ack(1, 75_000).window.get(), 75_000);
        }
    }

    #[test]
    fn windows_of_old_and_of_impossible_acknowledgements_are_not_used() {
        let mut bench = Bench::new();
        assert_eq!(bench.ack(5, 1_000).window.get(), 150_000, "nothing was sent");
        bench.sent(0x00ff_fff0);
        bench.ack(0x00ff_ffe0, 60_000);
        assert_eq!(bench.ack(0x00ff_ffdf, 1_000).window.get(), 60_000, "old");
        assert_eq!(bench.ack(0x00ff_fff1, 1_000).window.get(), 60_000, "not sent");
        bench.sent(0x10);
        assert_eq!(bench.ack(0x2, 30_000).window.get(), 30_000, "through the wrap");
        bench.on(&Event::Nack { psn: Psn::new(0x5) });
        assert_eq!(bench.ack(0x8, 1_000).window.get(), 30_000, "to be sent again");
    }
}
