//! RCC's control law: the window W, how much one flow may have in flight.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III, Algorithm 1 and Eq. 1 to 5. It runs at the receiver (RCC) or at the sender (RCC-sender,
//! III-G), and is written once, here.
//!
//! ```text
//! the flow is under PID control          W by (4) and (5), until its message ends
//! B_R >= eta C RTT                       W = C RTT / N: the last hop is the bottleneck, or there is none
//! n samples in a row above (1)           PID control begins
//! otherwise                              W = C RTT / N
//!
//! RTT > RTT_base (1 + delta)                                          (1)
//! E  = RTT - RTT_base (1 + delta / 2)                                  (2), (3), in nanoseconds
//! U += K_p E + K_d (E - E_prev)                                        (4)
//! W  = W (1 - tanh U), at most C RTT / N                               (5)
//! ```
//!
//! The gains are per second of error. With one of the paper's two sets, 1e4 and 1e5, an error of 1 us changes U by 0.01, and a
//! change of the error by 1 us changes it by 0.1.
//!
//! Choices where the paper is silent or contradicts itself:
//! - (4) is evaluated once a round-trip time, as Table I's timer and the fluid model have it, and the fair share for every
//!   packet;
//! - E uses the queueing delay: a packet's delay less the minimum of the last two seconds (of two windows of 1.07 s). A
//!   constant difference of the two clocks cancels. A delay more than 1 ms below the minimum, or more than 100 ms above it,
//!   means that a clock jumped: the minimum is discarded, and the next packet sets a new one;
//! - (1) is not evaluated until B_R of a whole round in which the flow has sent is known. At the start of an incast B_R of the
//!   last round is still low, which would read as congestion inside the network;
//! - for the paper's comparisons, (5) can have 1 - sigmoid U or 2 - 2 sigmoid U in place of 1 - tanh U ([`RESPONSES`]), and the
//!   law can be the fair share alone or PID control alone ([`CONTROLS`]). Alone, PID control begins with a message, from what
//!   the link carries in a round trip, which also limits it;
//! - U is clipped to -4 to 4, beyond which tanh is nearly constant. While the fair share limits W, U is not below 0
//!   (anti-windup, which can be switched off). For the first error the derivative term is 0.

use crate::math::{div_bitwise, one_minus_tanh};
use crate::snapshot::{State, flags};
use crate::units::{Bytes, Instant, Nanos, Stamp};
use fixed::types::{I4F28, U1F31, U32F0};

crate::zeroed! {
    /// K_p and K_d, per nanosecond in units of 2^-40.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Gains {
        proportional: u32,
        derivative: u32,
    }
}

impl Gains {
    /// K_p and K_d in units of 1/s, each at most 1 000 000.
    pub const fn per_second(proportional: u32, derivative: u32) -> Self {
        Self { proportional: per_nano(proportional), derivative: per_nano(derivative) }
    }
}

/// 2^40 / 10^9 for each 1/s, to nearest, cut to 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "cut before")]
const fn per_nano(gain: u32) -> u32 {
    // 2^40 / 10^9 = 1099.511627776, here with 20 fraction bits.
    let scaled = (gain as u64).saturating_mul(1_152_921_505).saturating_add(1 << 19) >> 20;
    if scaled > u32::MAX as u64 { u32::MAX } else { scaled as u32 }
}

crate::zeroed! {
    /// The PID controller of one flow.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    struct Pid {
        /// U, with 28 fraction bits.
        control: i32,
        /// E of the last update in nanoseconds; [`NONE`] before the first.
        previous: i32,
    }
}

/// [`Pid::previous`] before the first error. Every error is greater.
const NONE: i32 = i32::MIN;
/// Upper bound of |U|: 4, with 28 fraction bits.
const MOST: i64 = 4 << 28;

impl Pid {
    /// A controller that has seen no error.
    const NEW: Self = Self { control: 0, previous: NONE };

    /// (4) and (5): the window after this error, at most twice the old one.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "cut before; a window of 32 bits by less than two, cut to 32 bits"
    )]
    fn update(&mut self, gains: &Gains, response: Response, error: i32, window: Bytes) -> Bytes {
        let error = error.max(NONE.wrapping_add(1));
        let change = if self.previous == NONE { 0 } else { i64::from(error).wrapping_sub(i64::from(self.previous)) };
        self.previous = error;
        let proportional = i64::from(error).wrapping_mul(i64::from(gains.proportional));
        // Clipped to 2.1 s, so that the product fits 64 bits with any gain. Delays of packets change by at most 100 ms.
        let derivative = change.clamp(-(1 << 31), 1 << 31).wrapping_mul(i64::from(gains.derivative) >> 1);
        let moved = (proportional >> 12).saturating_add(derivative >> 11);
        self.control = i64::from(self.control).saturating_add(moved).clamp(-MOST, MOST) as i32; // (4)
        let left = U32F0::from_bits(window.get()).wide_mul(response.of(self.control)); // (5)
        Bytes::new(left.saturating_to_num())
    }

    /// Anti-windup: while another bound limits the window, U does not fall below zero.
    #[inline]
    const fn unwind(&mut self) {
        if self.control < 0 {
            self.control = 0;
        }
    }
}

/// The functions of U that (5) can multiply the window by: 1 - tanh U, or S1 and S2 of section V.
pub const RESPONSES: &[&str] = &["tanh", "sigmoid", "double_sigmoid"];

crate::zeroed! {
    /// One of [`RESPONSES`], all of which follow from tanh: 1 - sigmoid U = (1 - tanh (U / 2)) / 2.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Response {
        /// The binary logarithms of what U and the function of it are divided by.
        argument: u8,
        value: u8,
    }
}

impl Response {
    /// The one of this number in [`RESPONSES`].
    pub const fn new(number: u32) -> Self {
        Self { argument: (number != 0) as u8, value: (number == 1) as u8 }
    }

    /// The function of U.
    #[inline]
    fn of(self, control: i32) -> U1F31 {
        let value = one_minus_tanh(I4F28::from_bits(control >> (self.argument & 1)));
        U1F31::from_bits(value.to_bits() >> (self.value & 1))
    }
}

/// Where the values of the presets `stable` and `paper` are from, which the receiver and RCC-sender share.
pub const PRESET_SOURCES: [&str; 2] = [
    "RCC IV-D: K_p in 1 to 16, K_d in 1e3 to 7e3 \"in actual use\"; delta, eta, n: III-F; the rest, and anti-windup, ours",
    "RCC V-A: K_p = 1e4, K_d = 1e5; no anti-windup; the rest as in `stable`",
];

/// What the law consists of: both parts, PID control, or equal windows (EWA), the fair share.
pub const CONTROLS: &[&str] = &["both", "pid", "ewa"];

crate::zeroed! {
    /// Parameters of the law.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct LawParams {
        /// K_p and K_d.
        pub gains: Gains,
        /// RTT_base.
        pub round: Nanos,
        /// delta RTT_base: the queueing delay that (1) tolerates.
        pub tolerated: Nanos,
        /// Time after the start of a flow's message in which (1) is not evaluated.
        pub youth: Nanos,
        /// n: samples in a row, at least one; with equal windows alone, more than are counted.
        pub samples: u8,
        /// eta in 2^-16: the share of what the link carries in a round from which the last hop counts as the bottleneck.
        pub busy: u16,
        /// Lower bound of the window.
        pub least: Bytes,
        /// Anti-windup: U does not fall below 0 while the fair share limits W.
        pub unwinds: bool,
        /// The function of U in (5).
        pub response: Response,
        /// With PID control alone, W at the start of a message and its bound; otherwise zero.
        pub alone: Bytes,
    }
}

impl LawParams {
    /// `delta` and `eta` are in millionths, `eta` at most 1 000 000. [`youth`](Self::youth) is set to two rounds, for a law at
    /// the receiver, where the rounds are counted: a flow's first packet may arrive anywhere in a round, and B_R of the next
    /// whole round is needed.
    #[expect(clippy::cast_possible_truncation, reason = "a share of 16 bits")]
    pub const fn new(
        round: Nanos,
        gains: Gains,
        delta: u32,
        eta: u32,
        samples: u8,
        least: Bytes,
        unwinds: bool,
    ) -> Self {
        Self {
            gains,
            round,
            tolerated: Nanos::new(millionths(round.get(), delta)),
            youth: Nanos::new(round.get().saturating_mul(2)),
            samples: if samples == 0 { 1 } else { samples },
            busy: millionths(u16::MAX as u32, eta) as u16,
            least,
            unwinds,
            response: Response::new(0),
            alone: Bytes::ZERO,
        }
    }

    /// With one of [`RESPONSES`] and one of [`CONTROLS`], by their numbers. `carried` is what the link carries in a round trip.
    #[must_use]
    pub const fn compared(self, response: u32, control: u32, carried: Bytes) -> Self {
        let response = Response::new(response);
        match control {
            1 => Self { response, alone: carried, ..self },
            2 => Self { response, samples: COUNT + 1, ..self },
            _ => Self { response, ..self },
        }
    }
}

/// This many millionths of a value, rounded down, saturating.
#[expect(clippy::cast_possible_truncation, reason = "cut before")]
const fn millionths(value: u32, share: u32) -> u32 {
    let part = div_bitwise((value as u64).saturating_mul(share as u64), 1_000_000);
    if part > u32::MAX as u64 { u32::MAX } else { part as u32 }
}

crate::zeroed! {
    /// The state of one flow.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Law {
        pid: Pid,
        /// W.
        window: Bytes,
        /// Under PID control, when (4) is evaluated next; before, when (1) is evaluated for the first time.
        due: Stamp,
        /// Minimum of the delays before the present window of time, modulo 2^32 ns.
        least: u32,
        /// By how many nanoseconds the minimum of the present window exceeds that: [`UNSEEN`] before the window's first delay,
        /// [`FAR`] for 65 534 or more.
        exceeds: u16,
        /// Number of the present window of 2^30 ns, modulo 256.
        age: u8,
        /// Samples in a row above (1), in the low bits, and flags.
        state: u8,
    }
}

crate::snapshot! {
    /// [`Law`].
    pub struct LawSnapshot {
        /// U, clipped to -4 to 4.
        pub control: I4F28,
        /// E of the last evaluation of (4) in nanoseconds, at least -2^31 + 1.
        pub previous_error: Option<i32>,
        /// W.
        pub window: Bytes,
        /// Under PID control, when (4) is evaluated next; before, when (1) is evaluated for the first time.
        pub due: Stamp,
        /// A delay was measured, so that the minimum is known.
        pub is_measured: bool,
        /// Minimum of the delays before the present window of 1.07 s, modulo 2^32 ns.
        pub least: Nanos,
        /// By how many nanoseconds the minimum of the present window exceeds that: 65 534 for that or more, 65 535 before the
        /// window's first delay.
        pub exceeds: u16,
        /// Number of the present window, modulo 256.
        pub age: u8,
        /// Samples in a row above (1), at most 15.
        pub samples: u8,
        /// A message is being sent.
        pub is_active: bool,
        /// The flow is under PID control.
        pub is_controlled: bool,
        /// B_R may still be that of a round in which the flow did not send.
        pub is_young: bool,
    }
}

impl State for Law {
    type Snapshot = LawSnapshot;

    fn snapshot(&self) -> LawSnapshot {
        LawSnapshot {
            control: I4F28::from_bits(self.pid.control),
            previous_error: self.previous_error(),
            window: self.window,
            due: self.due,
            is_measured: self.has(MEASURED),
            least: Nanos::new(self.least),
            exceeds: self.exceeds,
            age: self.age,
            samples: self.samples(),
            is_active: self.has(ACTIVE),
            is_controlled: self.has(CONTROLLED),
            is_young: self.has(YOUNG),
        }
    }

    fn from_snapshot(s: LawSnapshot) -> Self {
        let most = I4F28::const_from_int(4);
        let control = s.control.clamp(most.saturating_neg(), most).to_bits();
        let previous = s.previous_error.map_or(NONE, |error| error.max(NONE.wrapping_add(1)));
        Self {
            pid: Pid { control, previous },
            window: s.window,
            due: s.due,
            least: s.least.get(),
            exceeds: s.exceeds,
            age: s.age,
            state: flags([
                (s.is_measured, MEASURED),
                (s.is_active, ACTIVE),
                (s.is_controlled, CONTROLLED),
                (s.is_young, YOUNG),
            ]) | s.samples.min(COUNT),
        }
    }
}

/// In [`Law::exceeds`]: no delay was measured in the present window.
const UNSEEN: u16 = u16::MAX;
/// In [`Law::exceeds`]: every delay of the present window exceeds the minimum by this many nanoseconds or more.
const FAR: u16 = u16::MAX - 1;
/// In [`Law::state`]: samples in a row above (1).
const COUNT: u8 = 0x0f;
/// A message is being sent.
const ACTIVE: u8 = 1 << 7;
/// In [`Law::state`]: the flow is under PID control.
const CONTROLLED: u8 = 1 << 6;
/// In [`Law::state`]: a delay was measured, so that the minimum is known.
const MEASURED: u8 = 1 << 5;
/// B_R may still be that of a round in which the flow did not send.
const YOUNG: u8 = 1 << 4;
/// Nanoseconds, 1 ms: a delay further below the minimum means that a clock jumped.
const BELOW: i32 = -1_000_000;
/// Nanoseconds, 100 ms: a delay further above the minimum means that a clock jumped.
const ABOVE: i32 = 100_000_000;

impl Law {
    /// A flow with this window that is sending no message.
    pub const fn new(window: Bytes) -> Self {
        let due = Stamp::from_bits(0);
        Self { pid: Pid::NEW, window, due, least: 0, exceeds: UNSEEN, age: 0, state: 0 }
    }

    /// W as it was last assigned.
    #[inline]
    pub const fn window(&self) -> Bytes {
        self.window
    }

    /// U, with 28 fraction bits, within 4 and -4.
    #[inline]
    pub const fn control(&self) -> i32 {
        self.pid.control
    }

    /// E of the last evaluation of (4) in nanoseconds.
    #[inline]
    pub fn previous_error(&self) -> Option<i32> {
        (self.pid.previous != NONE).then_some(self.pid.previous)
    }

    /// Whether the flow is under PID control.
    #[inline]
    pub const fn is_controlled(&self) -> bool {
        self.has(CONTROLLED)
    }

    /// Whether a message is being sent.
    #[inline]
    pub const fn is_active(&self) -> bool {
        self.has(ACTIVE)
    }

    /// Whether the message was too young at the last call for (1) to be evaluated.
    #[inline]
    pub const fn is_young(&self) -> bool {
        self.has(YOUNG)
    }

    /// Samples in a row above (1), 0 to 15.
    #[inline]
    pub const fn samples(&self) -> u8 {
        self.state & COUNT
    }

    /// When (4) is evaluated next, while the flow is under PID control.
    #[inline]
    pub const fn due(&self) -> Stamp {
        self.due
    }

    /// Whether the call at `now` that changed `before` to this evaluated (4).
    #[inline]
    pub fn has_moved(&self, before: &Self, now: Instant) -> bool {
        before.due.is_due(now.stamp()) && !self.due.is_due(now.stamp())
    }

    /// The minimum of the delays, modulo 2^32 ns, if one was measured.
    #[inline]
    pub fn least_delay(&self) -> Option<u32> {
        self.has(MEASURED).then_some(self.least)
    }

    #[inline]
    const fn has(&self, flag: u8) -> bool {
        self.state & flag != 0
    }

    /// Begins a message unless one is being sent, and returns whether it did.
    #[inline]
    pub const fn begin(&mut self, p: &LawParams, now: Instant) -> bool {
        if self.has(ACTIVE) {
            return false;
        }
        self.state = (self.state & MEASURED) | ACTIVE | YOUNG;
        self.due = now.stamp().after(p.youth);
        if p.alone.get() != 0 {
            self.state |= CONTROLLED;
            self.window = p.alone;
        }
        true
    }

    /// Ends the message, and PID control with it.
    #[inline]
    pub const fn end(&mut self) {
        self.state &= MEASURED;
        self.pid = Pid::NEW;
    }

    /// Keeps the 32-bit stamp unambiguous: a time that has passed is set to `now`, so that it stays due.
    #[inline]
    pub fn age(&mut self, now: Instant) {
        if self.due.is_due(now.stamp()) {
            self.state &= !YOUNG;
            self.due = now.stamp();
        }
    }

    /// Algorithm 1 for one packet. Returns W. `delay` is the packet's delay modulo 2^32 ns, up to the constant difference of
    /// two clocks; `in_use` is B_R, the port's utilisation in the last round, in 2^-16; `fair` is C RTT / N.
    #[inline]
    pub fn assign(&mut self, p: &LawParams, now: Instant, delay: Option<Nanos>, in_use: u16, fair: Bytes) -> Bytes {
        let waited = delay.and_then(|delay| self.waited(now, delay.get()));
        let fair = if p.alone == Bytes::ZERO { fair } else { p.alone };
        self.age(now);
        if self.has(CONTROLLED) {
            if let Some(waited) = waited
                && self.due.is_due(now.stamp())
            {
                self.control_by(p, now, waited, fair);
            }
            self.window = self.window.min(fair).max(p.least);
        } else {
            self.window = fair.max(p.least);
            match waited {
                _ if in_use >= p.busy || self.has(YOUNG) => self.state &= !COUNT,
                Some(waited) if waited > p.tolerated => {
                    self.state = self.state.wrapping_add(u8::from(self.samples() < COUNT)); // (1)
                    if self.samples() >= p.samples {
                        self.state |= CONTROLLED;
                        self.control_by(p, now, waited, fair);
                    }
                }
                Some(_) => self.state &= !COUNT,
                None => {}
            }
        }
        self.window
    }

    /// (2) to (5).
    fn control_by(&mut self, p: &LawParams, now: Instant, waited: Nanos, fair: Bytes) {
        let error = waited.get().cast_signed().wrapping_sub((p.tolerated.get() >> 1).cast_signed()); // (2), (3)
        let window = self.pid.update(&p.gains, p.response, error, self.window);
        if window >= fair && p.unwinds {
            self.pid.unwind();
        }
        self.window = window.min(fair).max(p.least);
        self.due = now.stamp().after(p.round.saturating_add(waited));
    }

    /// Queueing delay of a packet: its delay less the minimum, at most 100 ms; `None` if a clock jumped.
    #[inline]
    fn waited(&mut self, now: Instant, delay: u32) -> Option<Nanos> {
        #[expect(clippy::cast_possible_truncation, reason = "which window of 1.07 s, modulo 256")]
        let age = (now.nanos() >> 30) as u8;
        let above = delay.wrapping_sub(self.least).cast_signed();
        if self.has(MEASURED) && !(BELOW..=ABOVE).contains(&above) {
            self.state &= !MEASURED;
            return None;
        }
        if !self.has(MEASURED) || (age != self.age && self.exceeds == FAR) {
            (self.least, self.exceeds, self.age) = (delay, 0, age);
            self.state |= MEASURED;
            return Some(Nanos::ZERO);
        }
        if age != self.age {
            // The minimum of the window that ended is the minimum from now on.
            if self.exceeds != UNSEEN {
                self.least = self.least.wrapping_add(u32::from(self.exceeds));
            }
            (self.exceeds, self.age) = (UNSEEN, age);
        }
        let above = delay.wrapping_sub(self.least).cast_signed();
        if above <= 0 {
            (self.least, self.exceeds) = (delay, 0);
            return Some(Nanos::ZERO);
        }
        let above = above.unsigned_abs();
        self.exceeds = self.exceeds.min(u16::try_from(above).unwrap_or(FAR).min(FAR));
        Some(Nanos::new(above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_microsecond_moves_u_by_a_hundredth_and_a_tenth_with_the_papers_gains() {
        let gains = Gains::per_second(10_000, 100_000);
        let mut pid = Pid::NEW;
        pid.update(&gains, Response::new(0), 1_000, Bytes::new(1_000));
        let one = 1 << 28;
        assert!((pid.control - one / 100).abs() < 300, "{}", pid.control);
        pid.update(&gains, Response::new(0), 2_000, Bytes::new(1_000));
        // 0.01 + 0.02 + 0.1.
        assert!((pid.control - one / 100 * 13).abs() < 1_000, "{}", pid.control);
    }

    #[test]
    fn a_zero_error_keeps_the_window_and_no_error_more_than_doubles_it() {
        let gains = Gains::per_second(16, 7_000);
        let mut new = Pid::NEW;
        assert_eq!(new.update(&gains, Response::new(0), 0, Bytes::new(150_000)), Bytes::new(150_000));
        for error in [i32::MIN, i32::MAX] {
            let mut pid = Pid::NEW;
            for _ in 0..10 {
                let gains = Gains::per_second(1_000_000, 1_000_000);
                let left = pid.update(&gains, Response::new(0), error, Bytes::new(1_000));
                assert!(left.get() <= 2_000 && pid.control.unsigned_abs() <= 4 << 28);
            }
        }
        let mut pid = Pid::NEW;
        pid.update(&gains, Response::new(0), -1_000_000, Bytes::new(1));
        assert!(pid.control < 0);
        pid.unwind();
        assert_eq!((pid.control, pid.previous), (0, -1_000_000));
    }

    const PARAMS: LawParams = LawParams {
        gains: Gains::per_second(16, 7_000),
        round: Nanos::new(12_000),
        tolerated: Nanos::new(2_400),
        youth: Nanos::new(24_000),
        samples: 3,
        busy: 62_259,
        least: Bytes::new(128),
        unwinds: true,
        response: Response::new(0),
        alone: Bytes::ZERO,
    };
    const FAIR: Bytes = Bytes::new(75_000);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn three_late_packets_on_an_idle_port_begin_pid_control_and_the_end_of_the_message_ends_it() {
        let mut law = Law::new(Bytes::new(150_000));
        assert!(law.begin(&PARAMS, at(0)) && !law.begin(&PARAMS, at(1)));
        let assign =
            |law: &mut Law, now, delay, in_use| law.assign(&PARAMS, at(now), Some(Nanos::new(delay)), in_use, FAIR);
        assert_eq!(assign(&mut law, 100, 5_000, 0), FAIR);
        for now in [200, 300, 400, 23_999] {
            assign(&mut law, now, 9_000, 0);
            assert!(!law.is_controlled(), "too young");
        }
        assign(&mut law, 24_000, 7_401, 0);
        assign(&mut law, 24_100, 7_401, 0);
        assign(&mut law, 24_200, 7_400, 0); // at the bound: not above
        for (now, controlled) in [(24_300, false), (24_400, false), (24_500, true)] {
            assign(&mut law, now, 7_401, 0);
            assert_eq!(law.is_controlled(), controlled);
        }
        // Evaluated again after RTT_base and the queueing delay.
        let window = law.window();
        assert_eq!(assign(&mut law, 38_900, 90_000, 0), window);
        assert!(assign(&mut law, 38_901, 90_000, 0) < window);
        // Under PID control to the end of the message, however busy the port.
        assert!(assign(&mut law, 39_000, 5_000, u16::MAX) < FAIR);
        law.end();
        assert!(!law.is_controlled() && !law.is_active());
        assert!(law.begin(&PARAMS, at(50_000)));
        assert_eq!(assign(&mut law, 50_100, 5_000, 0), FAIR);
    }

    #[test]
    fn a_busy_last_hop_is_no_congestion_inside_the_network() {
        let mut law = Law::new(FAIR);
        law.begin(&PARAMS, at(0));
        law.assign(&PARAMS, at(20_000), Some(Nanos::new(1_000)), 0, FAIR);
        for packet in 0..100 {
            let window = law.assign(&PARAMS, at(20_100 + packet), Some(Nanos::new(50_000)), PARAMS.busy, FAIR);
            assert!(window == FAIR && !law.is_controlled());
        }
    }

    #[test]
    fn pid_control_alone_begins_with_the_message_and_is_limited_by_what_the_link_carries() {
        let p = PARAMS.compared(0, 1, Bytes::new(150_000));
        let mut law = Law::new(Bytes::ZERO);
        law.begin(&p, at(0));
        assert_eq!(law.assign(&p, at(100), Some(Nanos::new(5_000)), 0, FAIR), Bytes::new(150_000));
        for round in 1..100 {
            law.assign(&p, at(round * 100_000), Some(Nanos::new(25_000)), u16::MAX, FAIR);
        }
        let queued = law.window();
        assert!(queued < Bytes::new(100_000), "{queued:?}: a busy last hop does not matter");
        for round in 100..4_000 {
            law.assign(&p, at(round * 100_000), Some(Nanos::new(5_000)), 0, FAIR);
        }
        assert_eq!(law.window(), Bytes::new(150_000));
    }

    #[test]
    fn equal_windows_alone_never_begin_pid_control() {
        let p = PARAMS.compared(0, 2, Bytes::new(150_000));
        let mut law = Law::new(Bytes::ZERO);
        law.begin(&p, at(0));
        law.assign(&p, at(30_000), Some(Nanos::new(1_000)), 0, FAIR);
        for packet in 1..1_000 {
            let window = law.assign(&p, at(30_000 + packet * 1_000), Some(Nanos::new(50_000)), 0, FAIR);
            assert!(window == FAIR && !law.is_controlled());
        }
    }

    /// C12: a longer path is not taken for congestion for ever, a shorter one is noticed at once, and a clock that jumps is
    /// taken for neither.
    #[test]
    fn the_least_delay_follows_the_path_up_and_down_and_a_clock_that_jumps_c12() {
        let mut law = Law::new(FAIR);
        law.begin(&PARAMS, at(0));
        let least_after = |law: &mut Law, from: u64, delay: u32| {
            for step in 0..30 {
                law.assign(&PARAMS, at((from + step) * 100_000_000), Some(Nanos::new(delay)), 0, FAIR);
            }
            law.least_delay().unwrap()
        };
        assert_eq!(least_after(&mut law, 0, 20_000), 20_000);
        assert_eq!(least_after(&mut law, 30, 50_000), 50_000);
        assert_eq!(least_after(&mut law, 60, 20_000), 20_000);
        // Beyond the range of [`Law::exceeds`].
        assert_eq!(least_after(&mut law, 90, 520_000), 520_000);
        assert_eq!(least_after(&mut law, 120, 20_000), 20_000);
        assert_eq!(least_after(&mut law, 150, 20_000_u32.wrapping_sub(2_000_000)), 20_000_u32.wrapping_sub(2_000_000));
        assert_eq!(least_after(&mut law, 180, 3_000_000_000), 3_000_000_000);
    }

    #[test]
    fn one_delay_by_a_clock_that_jumped_does_not_become_the_minimum() {
        let mut law = Law::new(FAIR);
        law.begin(&PARAMS, at(0));
        for packet in 0..1_000_u32 {
            // 5 ms below, once.
            let delay = if packet == 100 { 5_000_u32.wrapping_sub(5_000_000) } else { 5_000 };
            let window = law.assign(&PARAMS, at(u64::from(packet) * 1_000), Some(Nanos::new(delay)), 0, FAIR);
            assert!(window == FAIR && !law.is_controlled());
        }
    }

    /// C14.
    #[test]
    fn no_window_is_below_the_least_c14() {
        let mut law = Law::new(FAIR);
        law.begin(&PARAMS, at(0));
        law.assign(&PARAMS, at(30_000), Some(Nanos::new(1_000)), 0, FAIR);
        for packet in 1..400 {
            let window = law.assign(&PARAMS, at(30_000 + packet * 1_000), Some(Nanos::new(50_000)), 0, Bytes::new(75));
            assert_eq!(window, PARAMS.least);
        }
        assert!(law.is_controlled());
    }

    #[test]
    fn u_does_not_wind_up_while_the_fair_share_limits_the_window() {
        for unwinds in [true, false] {
            let p = LawParams { unwinds, ..PARAMS };
            let mut law = Law::new(FAIR);
            law.begin(&p, at(0));
            law.assign(&p, at(30_000), Some(Nanos::new(1_000)), 0, FAIR);
            for packet in 1..4 {
                law.assign(&p, at(30_000 + packet), Some(Nanos::new(9_000)), 0, FAIR);
            }
            for round in 0..400 {
                law.assign(&p, at(100_000 + round * 20_000), Some(Nanos::new(1_000)), 0, FAIR);
            }
            assert_eq!(law.control() < 0, !unwinds);
            assert_eq!(law.window(), FAIR);
        }
    }

    proptest! {
        #[test]
        #[allow(clippy::float_arithmetic, reason = "the reference")]
        fn updates_are_those_of_equations_4_and_5(
            kp in 1..100_000_u32,
            kd in 1..200_000_u32,
            errors in prop::collection::vec(-200_000..200_000_i32, 1..40),
            response in 0..3_u32,
        ) {
            let gains = Gains::per_second(kp, kd);
            let (mut pid, mut previous) = (Pid::NEW, None);
            for error in errors {
                let before = f64::from(pid.control) / f64::from(1 << 28);
                let change = error - previous.unwrap_or(error);
                let moved = 1e-9 * (f64::from(kp) * f64::from(error) + f64::from(kd) * f64::from(change));
                let u = (before + moved).clamp(-4.0, 4.0);
                let left = pid.update(&gains, Response::new(response), error, Bytes::new(1_000_000));
                previous = Some(error);
                let control = f64::from(pid.control) / f64::from(1 << 28);
                prop_assert!((control - u).abs() <= (u - before).abs() * 1e-3 + 1e-7, "{control} for {u}");
                let sigmoid = 1.0 / (1.0 + (-control).exp());
                let exact = 1e6 * [1.0 - control.tanh(), 1.0 - sigmoid, 2.0 - 2.0 * sigmoid][response as usize];
                prop_assert!((f64::from(left.get()) - exact).abs() <= exact * 1e-3 + 1.0, "{left:?} for {exact}");
            }
        }
    }
}
