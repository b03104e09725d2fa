//! RCC (ToN 2023) in double precision: Algorithm 1 and equations 1 to 5, with this library's additions. Times in nanoseconds,
//! windows in bytes, utilisation as a fraction of the link.

/// K_p and K_d in 1/s, delta, eta, n, RTT_base, the least window, the time after the start of a message in which (1) is not
/// evaluated, and whether U is at least zero while the fair share limits W.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub k_p: f64,
    pub k_d: f64,
    pub delta: f64,
    pub eta: f64,
    pub n: u32,
    pub round: f64,
    pub least: f64,
    pub youth: f64,
    pub unwinds: bool,
}

/// One flow between two packets.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub window: f64,
    pub u: f64,
    pub error: Option<f64>,
    pub over: u32,
    pub controlled: bool,
    /// When its message began, and when (4) is due.
    pub began: f64,
    pub due: f64,
}

impl Flow {
    /// Begins a message at `now`.
    pub fn begins(&mut self, now: f64) {
        *self = Self { u: 0.0, error: None, over: 0, controlled: false, began: now, due: 0.0, ..*self };
    }

    /// Algorithm 1 for a packet with this queueing delay. Returns every outcome that rounding allows.
    pub fn receives(&self, c: &Constants, now: f64, waited: Option<f64>, in_use: f64, fair: f64) -> Vec<Self> {
        if self.controlled {
            return match waited {
                Some(waited) if now >= self.due => self.controls(c, now, waited, fair),
                _ => vec![Self { window: self.window.min(fair).max(c.least), ..*self }],
            };
        }
        let outcomes = |busy: bool| {
            let flow = Self { window: fair.max(c.least), ..*self };
            match waited {
                _ if busy || now < self.began + c.youth => vec![Self { over: 0, ..flow }],
                Some(waited) if waited > c.delta * c.round && self.over + 1 >= c.n => {
                    Self { over: self.over + 1, controlled: true, ..flow }.controls(c, now, waited, fair) // (1)
                }
                Some(waited) if waited > c.delta * c.round => vec![Self { over: self.over + 1, ..flow }],
                Some(_) => vec![Self { over: 0, ..flow }],
                None => vec![flow],
            }
        };
        // Utilisation is sent in units of 2^-16.
        if (in_use - c.eta).abs() < 3.0 / 65_536.0 {
            return [outcomes(true), outcomes(false)].concat();
        }
        outcomes(in_use > c.eta)
    }

    fn controls(&self, c: &Constants, now: f64, waited: f64, fair: f64) -> Vec<Self> {
        let error = waited - c.delta / 2.0 * c.round; // (2), (3)
        let change = error - self.error.unwrap_or(error);
        let u = (self.u + 1e-9 * (c.k_p * error + c.k_d * change)).clamp(-4.0, 4.0); // (4)
        let free = self.window * (1.0 - u.tanh()); // (5)
        let due = now + c.round + waited;
        let flow = Self { window: free.min(fair).max(c.least), u, error: Some(error), due, ..*self };
        if !c.unwinds || u >= 0.0 {
            return vec![flow];
        }
        // Rounding may decide whether the fair share limits a window that is close to it.
        let near = (free - fair).abs() <= fair * 1e-3 + 2.0 && (self.window - fair).abs() > 1.0;
        match (near, free >= fair) {
            (true, _) => vec![flow, Self { u: 0.0, ..flow }],
            (false, true) => vec![Self { u: 0.0, ..flow }],
            (false, false) => vec![flow],
        }
    }
}

/// The reference for queueing delays: the minimum of the present and of the last window of 2^30 ns in which a delay was
/// measured.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Each window of time, with its least delay.
    windows: Vec<(u64, f64)>,
}

impl Delays {
    /// The queueing delay of a packet; `None` where a clock has jumped.
    pub fn waited(&mut self, now: f64, delay: f64) -> Option<f64> {
        let window = (now / 1_073_741_824.0) as u64;
        if let Some(least) = self.least()
            && !(-1e6..=1e8).contains(&(delay - least))
        {
            self.windows.clear();
            return None;
        }
        match self.windows.last_mut() {
            Some((last, least)) if *last == window => *least = least.min(delay),
            _ => {
                // All delays of the last window were so far above those before it that the path is another one.
                if let [.., (_, before), (_, last)] = self.windows[..]
                    && last - before >= 65_534.0
                {
                    self.windows.clear();
                }
                self.windows.push((window, delay));
            }
        }
        let surplus = self.windows.len().saturating_sub(2);
        self.windows.drain(..surplus);
        self.least().map(|least| delay - least)
    }

    /// The least delay.
    pub fn least(&self) -> Option<f64> {
        self.windows.iter().map(|&(_, least)| least).reduce(f64::min)
    }
}

/// The resolution of the machine's U after an update by these errors: its last bit, and those of the gains.
pub fn bit_of_u(error: Option<f64>, before: Option<f64>) -> f64 {
    let error = error.unwrap_or(0.0);
    let change = error - before.unwrap_or(error);
    2_f64.powi(-28) + error.abs() * 2_f64.powi(-40) + change.abs() * 2_f64.powi(-39)
}
