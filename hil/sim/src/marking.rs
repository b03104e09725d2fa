//! What the fabric's switches do to the data that leaves them.

use cc_core::Nanos;
use cc_cp::red::{Red, RedSettings};
use cc_cp::tcd::Tcd;
use cc_cp::{QueueStage, int};
use cc_rp::Signals;
use hil_algorithms::settings::words;

/// The stages of a switch's data queues: names, and settings in the order of their fields.
pub type Stages = Vec<(&'static str, Vec<u32>)>;

/// A receiver that cannot keep up: it pauses its port again and again.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// From the start of one pause to that of the next.
    pub every: Nanos,
    /// How long a pause lasts, shorter than that.
    pub length: Nanos,
}

/// What brings out the signals that an algorithm lives on: the stages of the switches, which mark by RED with these settings
/// unless it is TCD's marks that are wanted, and then pauses of the receiver's port as well.
pub fn stress_scenario(signals: Signals, red: RedSettings) -> (Option<Pauses>, Stages) {
    let undetermined = signals.contains(Signals::UNDETERMINED);
    let pauses = Pauses { every: Nanos::new(150_000), length: Nanos::new(30_000) };
    let marks = if undetermined { preset::<Tcd>() } else { (Red::NAME, words(&red)) };
    (undetermined.then_some(pauses), vec![marks, preset::<int::IntPush>()])
}

/// A stage with the first of its presets.
fn preset<S: QueueStage>() -> (&'static str, Vec<u32>) {
    (S::NAME, S::PRESETS.first().map(|preset| words(&preset.values)).unwrap_or_default())
}
