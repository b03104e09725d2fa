//! Comparisons that are too close for double precision to settle.

/// Outcomes of such comparisons, each of which may go either way.
#[derive(Debug)]
pub struct Branches {
    answers: u32,
    asked: u32,
}

impl Branches {
    /// Whether the value exceeds the bound; in doubt where they are no farther apart than `band`.
    pub fn exceeds(&mut self, value: f64, bound: f64, band: f64) -> bool {
        if (value - bound).abs() > band {
            return value > bound;
        }
        self.asked += 1;
        self.answers >> (self.asked - 1) & 1 == 1
    }
}

/// The outcome for each combination of doubtful comparisons; of more than six, the rest go one way.
pub fn outcomes<T>(mut run: impl FnMut(&mut Branches) -> T) -> Vec<T> {
    let (mut outcomes, mut asked) = (Vec::new(), 0);
    while outcomes.len() < 1 << asked {
        let mut branches = Branches { answers: outcomes.len() as u32, asked: 0 };
        outcomes.push(run(&mut branches));
        asked = asked.max(branches.asked).min(6);
    }
    outcomes
}
