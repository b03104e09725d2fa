//! RED's rule in double precision, and the random numbers for it.

/// PCG-XSH-RR 64/32 of O'Neill's report (HMC-CS-2014-0905, 6.3), with stream 54.
struct Pcg(u64);

impl Pcg {
    fn new(seed: u64) -> Self {
        let mut pcg = Self(0);
        pcg.draw();
        pcg.0 = pcg.0.wrapping_add(seed);
        pcg.draw();
        pcg
    }

    fn draw(&mut self) -> u32 {
        let state = self.0;
        self.0 = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(109);
        let shifted = (((state >> 18) ^ state) >> 27) as u32;
        shifted.rotate_right((state >> 59) as u32)
    }
}

/// The outcome for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Unmarked,
    Marked,
    /// It had to be marked, but is without ECT.
    Unmarkable,
    /// The random number is within 4 of the probability, in units of 2^-32, so that rounding decides.
    NearTheLine,
}

/// "DCQCN+" (ICNP 2018), II-B.1 and Fig. 1: no mark up to Kmin, then a probability that rises linearly to Pmax at Kmax, and a
/// mark always above Kmax.
pub struct Rule {
    pub kmin: u32,
    pub kmax: u32,
    /// Pmax in millionths.
    pub ppm: u32,
    random: Pcg,
}

impl Rule {
    pub fn new(kmin: u32, kmax: u32, ppm: u32, seed: u64) -> Self {
        Self { kmin, kmax, ppm, random: Pcg::new(seed) }
    }

    /// The outcome for a packet with these ECN bits that leaves a queue of `queued` bytes.
    pub fn judge(&mut self, queued: u32, ecn: u8) -> Fate {
        match ecn {
            0b00 if queued > self.kmax => Fate::Unmarkable,
            0b00 | 0b11 => Fate::Unmarked,
            _ if queued > self.kmax => Fate::Marked,
            _ if queued <= self.kmin => Fate::Unmarked,
            _ => {
                let share = f64::from(queued - self.kmin) / f64::from(self.kmax - self.kmin);
                let line = f64::from(self.ppm) / 1e6 * share * 2_f64.powi(32);
                let drawn = f64::from(self.random.draw());
                if (drawn - line).abs() <= 4.0 && line > 0.0 {
                    Fate::NearTheLine
                } else if drawn < line {
                    Fate::Marked
                } else {
                    Fate::Unmarked
                }
            }
        }
    }
}
