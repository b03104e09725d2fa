//! A sampled alpha on its way down.

/// The largest sampled alpha: ten bits, 1024 being one.
pub(super) const ONES: u32 = 1_023;

/// What a tick does to an alpha of ten bits, and what many ticks do.
#[derive(Clone, Copy, Debug)]
pub(super) struct AlphaDecay {
    /// g in 1/1024.
    gain: u32,
    /// After so many ticks nothing is left of any alpha.
    horizon: u32,
    /// Where a tick takes one from alpha, where two, and so on.
    bands: [Band; 7],
}

/// The values of alpha from which one tick takes the same loss.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// The smallest alpha of the band, less the loss.
    below: u32,
    /// 2^16 over the loss, rounded up.
    reciprocal: u32,
}

impl AlphaDecay {
    /// By this g in 1/1024, from 1 to 1024.
    pub(super) const fn new(gain: u32) -> Self {
        let (mut alpha, mut horizon) = (ONES, 0u32);
        while alpha > 0 && horizon <= ONES {
            alpha = alpha.wrapping_sub(lost(alpha, gain));
            horizon = horizon.wrapping_add(1);
        }
        let bands = [
            Band::new(1, gain),
            Band::new(2, gain),
            Band::new(3, gain),
            Band::new(4, gain),
            Band::new(5, gain),
            Band::new(6, gain),
            Band::new(7, gain),
        ];
        Self { gain, horizon, bands }
    }

    /// g in 1/1024.
    #[cfg(test)]
    pub(super) const fn gain(&self) -> u32 {
        self.gain
    }

    /// What alpha is after `raised` ticks of which the last follows a notification, (10) so many times and (4), none for no
    /// notification, and `ticks` more without one, (10) so many times.
    #[inline(always)]
    pub(super) fn after(&self, mut alpha: u32, mut raised: u32, ticks: u32) -> u32 {
        let mut span = if raised != 0 { raised } else { ticks };
        loop {
            alpha = self.faded(alpha, span);
            if raised == 0 {
                return alpha;
            }
            let sum = alpha.wrapping_add(self.gain);
            alpha = if sum < ONES { sum } else { ONES };
            (raised, span) = (0, ticks);
        }
    }

    /// What is left of alpha after so many ticks without a notification.
    ///
    /// While the loss per tick stays the same, ticks are passed at once. Losses above seven, which last only a few ticks
    /// each, are taken one by one. At most 60 rounds.
    #[inline(always)]
    fn faded(&self, mut alpha: u32, mut ticks: u32) -> u32 {
        if ticks >= self.horizon {
            return 0;
        }
        let mut loss = lost(alpha, self.gain);
        while loss >> 3 != 0 {
            if ticks == 0 {
                return alpha;
            }
            alpha = alpha.wrapping_sub(loss);
            ticks = ticks.wrapping_sub(1);
            loss = lost(alpha, self.gain);
        }
        // With gains above an eighth a tick may miss a band, which then lets no tick pass.
        for band in self.bands.get(..loss as usize).unwrap_or(&[]).iter().rev() {
            let (all, depth) = (loss.wrapping_mul(ticks), alpha.wrapping_sub(band.below));
            if all <= depth {
                return alpha.wrapping_sub(all);
            }
            let run = depth.wrapping_mul(band.reciprocal) >> 16;
            alpha = alpha.wrapping_sub(loss.wrapping_mul(run));
            ticks = ticks.wrapping_sub(run);
            loss = loss.wrapping_sub(1);
        }
        alpha
    }
}

impl Band {
    /// Its loss is at least one, and at most seven.
    #[expect(
        clippy::integer_division,
        clippy::arithmetic_side_effects,
        reason = "configuration; neither divisor is zero"
    )]
    const fn new(loss: u32, gain: u32) -> Self {
        let gain = if gain == 0 { 1 } else { gain };
        Self { below: (1024 * (loss - 1) / gain + 1).wrapping_sub(loss), reciprocal: 65_536u32.div_ceil(loss) }
    }
}

/// What one tick without a notification takes from alpha: the floor of alpha (1 - g) is alpha less this.
#[inline]
const fn lost(alpha: u32, gain: u32) -> u32 {
    alpha.wrapping_mul(gain).wrapping_add(ONES) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_fade_exactly_as_single_ticks() {
        for retained in 0..1024 {
            let alpha_decay = AlphaDecay::new(1024 - retained);
            let step = if retained % 17 == 0 || retained > 1015 { 1 } else { 31 };
            for start in (0..1024).step_by(step) {
                let (mut alpha, mut ticks) = (start, 0);
                while alpha > 0 {
                    assert_eq!(alpha_decay.after(start, 0, ticks), alpha, "G {retained}, {start}, {ticks} ticks");
                    alpha = alpha * retained / 1024;
                    ticks += 1;
                }
                for later in [0, 1, 2_000_000] {
                    assert_eq!(alpha_decay.after(start, 0, ticks + later), 0, "G {retained}, {start}, {ticks} ticks");
                }
            }
        }
    }
}
