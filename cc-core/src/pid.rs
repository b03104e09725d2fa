//! RCC's controller: from how late packets come to what is left of a window.
//!
//! Jiao Zhang et al., "RCC: Enabling Receiver-Driven RDMA Congestion Control With Congestion Divide-and-Conquer in Datacenter
//! Networks", ToN 2023, section III-D, Eq. 3 to 5. It runs at the receiver (RCC) or at the sender (RCC-sender), and is
//! written once, here.
//!
//! ```text
//! E  = RTT - RTT_target                                        (3), in nanoseconds
//! U += K_p E + K_d (E - E_prev)                                (4)
//! W  = W (1 - tanh U)                                          (5)
//! ```
//!
//! The gains are per second: of the paper's two sets, 1e4 and 1e5 then change U by 0.01 and 0.1 for a microsecond.
//!
//! Choices: U is kept within 4 and -4, beyond which tanh says nothing more; the first error of a flow has no change.

use crate::math::one_less_tanh;
use crate::units::Bytes;

/// K_p and K_d, per nanosecond in units of 2^-40.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gains {
    proportional: u32,
    derivative: u32,
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

/// The controller of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pid {
    /// U, with 28 fraction bits.
    control: i32,
    /// E of the last update in nanoseconds; [`NONE`] before the first.
    previous: i32,
}

/// No error yet. Errors are kept above.
const NONE: i32 = i32::MIN;
/// Where U ends.
const MOST: i64 = 4 << 28;

impl Pid {
    /// A controller that has seen no error.
    pub const NEW: Self = Self { control: 0, previous: NONE };

    /// U, with 28 fraction bits, within 4 and -4.
    #[inline]
    pub const fn control(&self) -> i32 {
        self.control
    }

    /// E of the last update in nanoseconds.
    #[inline]
    pub const fn previous(&self) -> Option<i32> {
        if self.previous == NONE { None } else { Some(self.previous) }
    }

    /// (4) and (5): what this error leaves of the window; at most twice it.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "cut before; a window of 32 bits by less than two, cut to 32 bits"
    )]
    pub fn update(&mut self, gains: &Gains, error: i32, window: Bytes) -> Bytes {
        let error = error.max(NONE.wrapping_add(1));
        let change = if self.previous == NONE { 0 } else { i64::from(error).wrapping_sub(i64::from(self.previous)) };
        self.previous = error;
        let proportional = i64::from(error).wrapping_mul(i64::from(gains.proportional));
        // Beyond this no gain leaves U anything to say.
        let derivative = change.clamp(-(1 << 31), 1 << 31).wrapping_mul(i64::from(gains.derivative) >> 1);
        let moved = (proportional >> 12).saturating_add(derivative >> 11);
        self.control = i64::from(self.control).saturating_add(moved).clamp(-MOST, MOST) as i32; // (4)
        let left = u64::from(window.get()).wrapping_mul(u64::from(one_less_tanh(self.control))) >> 31; // (5)
        Bytes::new(if left > u64::from(u32::MAX) { u32::MAX } else { left as u32 })
    }

    /// While something else holds the window down, U does not wind up below zero.
    #[inline]
    pub const fn unwind(&mut self) {
        if self.control < 0 {
            self.control = 0;
        }
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
        pid.update(&gains, 1_000, Bytes::new(1_000));
        let one = 1 << 28;
        assert!((pid.control() - one / 100).abs() < 300, "{}", pid.control());
        pid.update(&gains, 2_000, Bytes::new(1_000));
        // 0.01 + 0.02 + 0.1.
        assert!((pid.control() - one / 100 * 13).abs() < 1_000, "{}", pid.control());
    }

    #[test]
    fn no_error_leaves_the_window_and_none_grows_it_more_than_twice() {
        let gains = Gains::per_second(16, 7_000);
        let mut new = Pid::NEW;
        assert_eq!(new.update(&gains, 0, Bytes::new(150_000)), Bytes::new(150_000));
        for error in [i32::MIN, i32::MAX] {
            let mut pid = Pid::NEW;
            for _ in 0..10 {
                let left = pid.update(&Gains::per_second(1_000_000, 1_000_000), error, Bytes::new(1_000));
                assert!(left.get() <= 2_000 && pid.control().unsigned_abs() <= 4 << 28);
            }
        }
        let mut pid = Pid::NEW;
        pid.update(&gains, -1_000_000, Bytes::new(1));
        assert!(pid.control() < 0);
        pid.unwind();
        assert_eq!((pid.control(), pid.previous()), (0, Some(-1_000_000)));
    }

    proptest! {
        #[test]
        #[allow(clippy::float_arithmetic, reason = "the reference")]
        fn updates_are_those_of_equations_4_and_5(
            kp in 1..100_000_u32,
            kd in 1..200_000_u32,
            errors in prop::collection::vec(-200_000..200_000_i32, 1..40),
        ) {
            let gains = Gains::per_second(kp, kd);
            let (mut pid, mut previous) = (Pid::NEW, None);
            for error in errors {
                let before = f64::from(pid.control()) / f64::from(1 << 28);
                let change = error - previous.unwrap_or(error);
                let u = (before + 1e-9 * (f64::from(kp) * f64::from(error) + f64::from(kd) * f64::from(change))).clamp(-4.0, 4.0);
                let left = pid.update(&gains, error, Bytes::new(1_000_000));
                previous = Some(error);
                let control = f64::from(pid.control()) / f64::from(1 << 28);
                prop_assert!((control - u).abs() <= (u - before).abs() * 1e-3 + 1e-7, "{control} for {u}");
                let exact = 1e6 * (1.0 - control.tanh());
                prop_assert!((f64::from(left.get()) - exact).abs() <= exact * 1e-3 + 1.0, "{left:?} for {exact}");
            }
        }
    }
}
