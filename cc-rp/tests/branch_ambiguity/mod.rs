//! Comparisons whose operands are too close for double precision to decide them.

/// Chosen results of such comparisons: a test runs its model with every combination of them.
#[derive(Debug)]
pub struct Branches {
    /// One bit for each doubtful comparison: its result.
    choices: u32,
    /// Number of doubtful comparisons so far.
    doubtful: u32,
}

impl Branches {
    /// Whether the value exceeds the bound. If they differ by at most `band`, the comparison is doubtful, and the chosen result
    /// is returned.
    pub fn exceeds(&mut self, value: f64, bound: f64, band: f64) -> bool {
        if (value - bound).abs() > band {
            return value > bound;
        }
        self.doubtful += 1;
        self.choices >> (self.doubtful - 1) & 1 == 1
    }
}

/// The results of `run` for every combination of doubtful comparisons. Only the first six are varied; the others are `false`.
pub fn outcomes<T>(mut run: impl FnMut(&mut Branches) -> T) -> Vec<T> {
    let (mut outcomes, mut doubtful) = (Vec::new(), 0);
    while outcomes.len() < 1 << doubtful {
        let mut branches = Branches { choices: outcomes.len() as u32, doubtful: 0 };
        outcomes.push(run(&mut branches));
        doubtful = doubtful.max(branches.doubtful).min(6);
    }
    outcomes
}
