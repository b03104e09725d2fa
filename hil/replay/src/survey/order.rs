//! Finds time stamps that are out of order, and decides which frames around a step back have the wrong ones.
//!
//! The stamps of one clock should never go back. Where they do, either the frames before the step were stamped too late, or the
//! frames after it too early, or the clock was set. The smaller group is assumed to be wrong: if one stamp among a thousand is
//! a year ahead, one stamp is wrong and not 999. A frame with a wrong stamp is replayed at the time of the frame before it.

use super::bits::Bits;
use std::collections::VecDeque;

/// Stamps that are compared on each side of a step. If more than this many agree on both sides, the clock was set.
const WINDOW: usize = 64;
/// A stamp that is out of order by more than this many nanoseconds (1 ms) is reported as a finding. A NIC whose receive queues
/// are read one after the other reorders by less.
const REPORTED: u64 = 1_000_000;
/// A gap of this many nanoseconds (one day) or more between two frames counts as a clock that was set forward.
const LONGEST_IDLE: u64 = 86_400_000_000_000;

/// A stamp out of order that is reported as a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongStamp {
    /// Its frame.
    pub frame: u64,
    /// How far it is ahead of the stamps around it, or behind them if negative, in nanoseconds.
    pub by: i128,
}

/// The stamps of one clock.
#[derive(Debug, Default)]
pub(super) struct StampOrder {
    /// The last stamps that are in order, as pairs of frame and stamp.
    recent: VecDeque<(u64, u64)>,
    /// Whether `recent` has dropped older stamps.
    is_longer: bool,
    step: Option<Step>,
}

/// A step back in the stamps of a clock, while it is not yet known which side of it is wrong.
#[derive(Debug)]
struct Step {
    /// Frames before the step whose stamps are later than the first one after it.
    before: Vec<(u64, u64)>,
    /// Whether all stamps in the window before the step are later, and there were more before the window.
    is_all: bool,
    /// Frames after the step.
    behind: Vec<(u64, u64)>,
}

/// The stamps of all clocks that are out of order.
#[derive(Debug, Default)]
pub(super) struct OutOfOrder {
    /// Frames whose stamps are wrong.
    pub wrong: Bits,
    /// The first frame after each time that a clock was set.
    pub set: Bits,
    /// Number of stamps that are reported as a finding.
    pub reported: u64,
    /// The first of these.
    pub first: Option<WrongStamp>,
}

impl OutOfOrder {
    /// Whether no stamp has been wrong and no clock set.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.wrong.count() + self.set.count() == 0
    }

    fn wrong(&mut self, (frame, stamp): (u64, u64), around: u64) {
        self.wrong.insert(frame);
        if self.set.has(frame) {
            // Reported when it came, as a stamp that is a day or more ahead.
            return;
        }
        self.report(frame, i128::from(stamp) - i128::from(around));
    }

    fn report(&mut self, frame: u64, by: i128) {
        if by.unsigned_abs() > u128::from(REPORTED) {
            self.reported += 1;
            self.first.get_or_insert(WrongStamp { frame, by });
        }
    }
}

impl StampOrder {
    /// Whether there has been a step back, and it is not yet known which side of it is wrong.
    #[inline]
    pub(super) fn is_undecided(&self) -> bool {
        self.step.is_some()
    }

    /// Checks the stamp of the next frame of this clock.
    #[inline]
    pub(super) fn add(&mut self, frame: u64, stamp: u64, out_of_order: &mut OutOfOrder) {
        if self.step.is_none()
            && self.recent.back().is_none_or(|&(_, last)| last <= stamp && stamp - last < LONGEST_IDLE)
        {
            self.keep((frame, stamp));
        } else {
            self.out_of_order((frame, stamp), out_of_order);
        }
    }

    #[inline]
    fn keep(&mut self, one: (u64, u64)) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
            self.is_longer = true;
        }
        self.recent.push_back(one);
    }

    #[cold]
    fn out_of_order(&mut self, one: (u64, u64), out_of_order: &mut OutOfOrder) {
        let Some(step) = &mut self.step else {
            let last = self.recent.back().map_or(0, |&(_, last)| last);
            if last <= one.1 {
                // A day without a frame. If this one stamp is wrong, the next stamp goes back; otherwise the clock was set.
                out_of_order.set.insert(one.0);
                out_of_order.report(one.0, i128::from(one.1) - i128::from(last));
                self.keep(one);
                return;
            }
            let at = self.recent.partition_point(|&(_, stamp)| stamp <= one.1);
            let before: Vec<_> = self.recent.drain(at..).collect();
            let is_all = at == 0 && self.is_longer;
            self.step = Some(Step { before, is_all, behind: vec![one] });
            return;
        };
        let high = step.before.last().map_or(0, |&(_, stamp)| stamp);
        let low = step.behind.last().map_or(0, |&(_, stamp)| stamp);
        if one.1 < low {
            // A step back among the frames after a step.
            out_of_order.wrong(one, low);
            return;
        }
        if one.1 >= high && one.1 - high < LONGEST_IDLE {
            self.resolve(out_of_order);
            self.add(one.0, one.1, out_of_order);
            return;
        }
        step.behind.push(one);
        if step.behind.len() > step.before.len() {
            self.resolve(out_of_order);
        }
    }

    /// Decides which side of the step is wrong: the frames before it, those behind it, or neither (the clock was set).
    fn resolve(&mut self, out_of_order: &mut OutOfOrder) {
        let Some(Step { before, is_all, behind }) = self.step.take() else { return };
        let (first, last) = (behind.first().copied().unwrap_or_default(), before.last().copied().unwrap_or_default());
        if is_all && behind.len() > before.len() {
            out_of_order.set.insert(first.0);
            out_of_order.report(first.0, i128::from(first.1) - i128::from(last.1));
            behind.into_iter().for_each(|one| self.keep(one));
        } else if behind.len() > before.len() {
            before.into_iter().for_each(|one| out_of_order.wrong(one, first.1));
            behind.into_iter().for_each(|one| self.keep(one));
        } else {
            before.into_iter().for_each(|one| self.keep(one));
            behind.into_iter().for_each(|one| out_of_order.wrong(one, last.1));
        }
    }

    /// Decides about a step that is still open after the last frame.
    pub(super) fn finish(&mut self, out_of_order: &mut OutOfOrder) {
        if let Some(Step { before, behind, .. }) = &mut self.step
            && before.len() == behind.len()
            && before.last().zip(behind.first()).is_some_and(|(late, early)| late.1 - early.1 > REPORTED)
        {
            // Equally many frames on both sides, more than 1 ms apart: those before the step are wrong.
            before.drain(..).for_each(|one| out_of_order.wrong(one, behind.first().map_or(0, |early| early.1)));
        }
        self.resolve(out_of_order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out_of_order(stamps: &[u64]) -> (Vec<usize>, Vec<usize>, Option<WrongStamp>) {
        let (mut order, mut out_of_order) = (StampOrder::default(), OutOfOrder::default());
        for (frame, &stamp) in (1..).zip(stamps) {
            order.add(frame, stamp, &mut out_of_order);
        }
        order.finish(&mut out_of_order);
        let of = |bits: &Bits| (1..=stamps.len()).filter(|&frame| bits.has(frame as u64)).collect();
        (of(&out_of_order.wrong), of(&out_of_order.set), out_of_order.first)
    }

    const SECOND: u64 = 1_000_000_000;
    const YEAR: u64 = 365 * 86_400 * SECOND;

    #[test]
    fn one_wrong_stamp_is_found_at_any_place() {
        let clean: Vec<u64> = (0..200).map(|frame| 50 * YEAR + frame * 10_000).collect();
        assert_eq!(out_of_order(&clean), (vec![], vec![], None));
        for place in [0, 1, 5, 100, 197, 198] {
            for stamp in [0, 51 * YEAR, 50 * YEAR + 5 * SECOND, 49 * YEAR] {
                let mut stamps = clean.clone();
                stamps[place] = stamp;
                let (wrong, set, first) = out_of_order(&stamps);
                if place == 0 && stamp < 50 * YEAR {
                    // No stamp goes back: it reads as a clock that was set before the second frame.
                    assert_eq!((wrong, set), (vec![], vec![2]), "{stamp}");
                    continue;
                }
                // A stamp a day or more ahead reads as a set clock until the next stamp goes back.
                assert_eq!(wrong, [place + 1], "{place}, {stamp}");
                assert_eq!(first.unwrap().frame, place as u64 + 1);
            }
        }
    }

    #[test]
    fn a_few_wrong_stamps_in_a_row_are_found_and_a_clock_set_back_is_accepted() {
        let mut stamps: Vec<u64> = (0..200).map(|frame| YEAR + frame * 10_000).collect();
        stamps[50..53].fill(2 * YEAR);
        assert_eq!(out_of_order(&stamps).0, [51, 52, 53]);
        let mut stamps: Vec<u64> = (0..400).map(|frame| YEAR + frame * 10_000).collect();
        stamps[200..].iter_mut().for_each(|stamp| *stamp -= SECOND);
        let (wrong, set, first) = out_of_order(&stamps);
        assert_eq!((wrong, set), (vec![], vec![201]));
        assert_eq!(first.unwrap().by, i128::from(10_000_u32) - i128::from(SECOND));
    }

    #[test]
    fn the_small_disorder_of_queues_read_in_turn_is_no_finding() {
        let stamps = [10, 20, 15, 30, 25, 40];
        let (wrong, set, first) = out_of_order(&stamps);
        assert_eq!((wrong, set, first), (vec![3, 5], vec![], None));
    }
}
