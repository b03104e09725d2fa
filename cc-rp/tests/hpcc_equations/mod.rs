//! Algorithm 1 of HPCC's paper, line by line, in double precision.

/// What one switch port wrote.
#[derive(Clone, Copy)]
pub struct Record {
    /// Bytes per nanosecond.
    pub b: f64,
    /// Nanoseconds.
    pub ts: f64,
    /// Bytes.
    pub tx_bytes: f64,
    /// Bytes.
    pub qlen: f64,
}

/// A sender's constants.
#[derive(Clone, Copy)]
pub struct Constants {
    pub t: f64,
    pub eta: f64,
    pub max_stage: u32,
    pub w_ai: f64,
    pub w_init: f64,
    pub w_min: f64,
    pub layout: Layout,
}

/// What a record can show.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Nanoseconds after which its clock wraps.
    pub clock: f64,
    /// Bytes after which the difference of two of its counters says nothing.
    pub counts: f64,
}

/// Sixteen bytes: 32 bits of nanoseconds, and as many of bytes between two records.
pub const WIDE: Layout = Layout { clock: 4_294_967_296.0, counts: 4_294_967_296.0 };

impl Layout {
    /// Eight bytes, as in the paper's simulator: 24 bits of nanoseconds, and 20 of units of so many bytes.
    #[allow(dead_code, reason = "not every test has them")]
    pub fn compact(unit: f64) -> Self {
        Self { clock: 16_777_216.0, counts: 1_048_576.0 * unit }
    }
}

impl Constants {
    /// After a longer silence nothing is measured: 4 T, or a quarter of what the clock can show.
    #[allow(dead_code, reason = "not every test has silences")]
    pub fn silence(&self) -> f64 {
        (4.0 * self.t).min(self.layout.clock / 4.0)
    }
}

/// A sender's variables.
#[derive(Clone, Copy)]
pub struct Sender {
    pub w: f64,
    pub wc: f64,
    pub u: f64,
    pub inc_stage: u32,
}

/// Lines 1 to 12; `None` when no hop says anything.
pub fn measure_inflight(c: &Constants, u_before: f64, last: &[Record], ack: &[Record]) -> Option<f64> {
    let mut most: Option<(f64, f64)> = None;
    for (l, a) in last.iter().zip(ack) {
        let dt = a.ts - l.ts;
        let tx = (a.tx_bytes - l.tx_bytes) / dt;
        let longest = (2.0 * c.t).min(c.layout.clock / 2.0);
        let known = a.b > 0.0 && (16.0..=longest).contains(&dt) && tx <= 1.1 * a.b;
        // What could have passed must fit the counter.
        let known = known && 1.1 * a.b * dt <= c.layout.counts;
        if !known {
            continue;
        }
        let u = a.qlen.min(l.qlen) / (a.b * c.t) + tx / a.b;
        if most.is_none_or(|(most, _)| u > most) {
            most = Some((u, dt));
        }
    }
    let (u, tau) = most?;
    let tau = tau.min(c.t);
    Some(((1.0 - tau / c.t) * u_before + tau / c.t * u.min(16.0)).max(1.0 / 256.0))
}

/// Lines 13 to 26.
pub fn compute_wind(c: &Constants, sender: Sender, cut: bool, update: bool) -> Sender {
    let w = if cut { sender.wc / (sender.u / c.eta) + c.w_ai } else { sender.wc + c.w_ai };
    let w = w.clamp(c.w_min, c.w_init);
    let inc_stage = match (update, cut) {
        (false, _) => sender.inc_stage,
        (true, true) => 0,
        (true, false) => sender.inc_stage + 1,
    };
    Sender { w, wc: if update { w } else { sender.wc }, inc_stage, ..sender }
}
