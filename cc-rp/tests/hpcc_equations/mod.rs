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
    /// The longest dt that is measured, 2 T, and the longest gap between acknowledgements, 4 T; both are at most what a
    /// record's clock can show.
    pub longest: f64,
    #[allow(dead_code, reason = "read only by tests with long gaps")]
    pub silence: f64,
    /// Bytes that a record's counter can count.
    pub counts: f64,
    /// Bytes for each unit of that counter: the difference of two records may be up to one unit more than the link carried.
    pub unit: f64,
}

/// A sender's variables.
#[derive(Clone, Copy)]
pub struct Sender {
    pub w: f64,
    pub wc: f64,
    pub u: f64,
    pub inc_stage: u32,
}

/// Lines 1 to 12; `None` when no hop can be measured.
pub fn inflight(c: &Constants, u_before: f64, last: &[Record], ack: &[Record]) -> Option<f64> {
    let mut most: Option<(f64, f64)> = None;
    for (l, a) in last.iter().zip(ack) {
        let dt = a.ts - l.ts;
        let tx = (a.tx_bytes - l.tx_bytes) / dt;
        let known = a.b > 0.0 && (16.0..=c.longest).contains(&dt) && a.tx_bytes - l.tx_bytes - c.unit <= 1.1 * a.b * dt;
        // What the link could have carried must fit the counter.
        let known = known && 1.1 * a.b * dt <= c.counts;
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

/// Not in the paper: an additive step, as in line 22, for round trips in which nothing could be measured.
#[allow(dead_code, reason = "only for MLCC")]
pub fn rise(c: &Constants, sender: Sender) -> Sender {
    let w = (sender.wc + c.w_ai).clamp(c.w_min, c.w_init);
    Sender { w, wc: w, ..sender }
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
