//! How closely a machine must agree with the equations of its paper, and the random numbers of these tests.

/// Compares a machine's outcomes with those that equations in double precision allow.
///
/// If an event is so close to a branch that the machine's rounding decides it, both outcomes are allowed. Such events must be
/// rare.
#[derive(Debug, Default)]
pub struct Tolerance {
    events: u64,
    near_a_branch: u64,
}

/// One number of an outcome: its name, its value, and the value of the last bit of the machine's format.
pub type Value = (&'static str, f64, f64);

impl Tolerance {
    /// Asserts that the outcome of one event is one of those allowed: each value within a thousandth and four last bits.
    ///
    /// # Panics
    /// If the outcome is not among those allowed.
    pub fn assert(&mut self, event: &dyn std::fmt::Debug, outcome: &[Value], allowed: &[Vec<f64>]) {
        self.events += 1;
        self.near_a_branch += u64::from(allowed.len() > 1);
        let agrees = |values: &Vec<f64>| {
            assert_eq!(values.len(), outcome.len(), "an outcome with another number of values");
            outcome
                .iter()
                .zip(values)
                .all(|(&(_, got, bit), &expected)| (got - expected).abs() <= expected.abs() * 1e-3 + 4.0 * bit)
        };
        assert!(allowed.iter().any(agrees), "{event:?}: the machine has {outcome:?}, the equations {allowed:?}");
    }

    /// Asserts that at least this many events were compared, and less than one in a hundred was near a branch.
    ///
    /// # Panics
    /// If fewer events were compared, or more were near a branch.
    pub fn finish(&self, at_least: u64) {
        assert!(self.events >= at_least, "{} events, expected {at_least}", self.events);
        assert!(self.near_a_branch * 100 < self.events, "{} of {} near a branch", self.near_a_branch, self.events);
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same random numbers on every host.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in the range, both ends included.
    pub fn within(&mut self, range: std::ops::RangeInclusive<u32>) -> u32 {
        let span = u64::from(range.end() - range.start()) + 1;
        range.start() + (self.draw() % span) as u32
    }
}
