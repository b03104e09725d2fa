//! The stages of the simulated switches, and the PFC pauses of the receiver.

use cc_core::Nanos;
use cc_cp::lscc::direct_int::DirectInt;
use cc_cp::mlcc::near_source::NearSource;
use cc_cp::red::{Red, RedSettings};
use cc_cp::tcd::Tcd;
use cc_cp::{QueueStage, int};
use cc_rp::Signals;
use hil_algorithms::settings::words;

/// The stages of a switch's data queues: names, and settings in the order of their fields.
pub type Stages = Vec<(&'static str, Vec<u32>)>;

/// Periodic PFC pauses by a receiver that cannot keep up with its port.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// From the start of one pause to that of the next.
    pub every: Nanos,
    /// How long a pause lasts: less than `every`.
    pub length: Nanos,
}

/// The pauses, and the stages of each switch on the way from the senders to the receiver, that produce the signals to which an
/// algorithm reacts.
///
/// For an algorithm that reacts to TCD's marks: TCD, and a receiver that pauses its port for 30 us every 150 us. For every
/// other: RED with these settings, and no pauses. For all: a stage that pushes INT. One switch has these stages. For an
/// algorithm that reacts to telemetry returned by a switch there are three: the first and the last have these stages, and the
/// one between them is the interconnect switch of the senders' datacentre. It returns the telemetry of the first one by LSCC's
/// direct INT, or, if the algorithm uses MLCC's advised rate, by MLCC's stage.
pub fn stress_scenario(signals: Signals, red: RedSettings) -> (Option<Pauses>, Vec<Stages>) {
    let undetermined = signals.contains(Signals::UNDETERMINED);
    let pauses = Pauses { every: Nanos::new(150_000), length: Nanos::new(30_000) };
    let marks = if undetermined { preset::<Tcd>() } else { (Red::NAME, words(&red)) };
    let congested = vec![marks, preset::<int::IntPush>()];
    let switches = if signals.contains(Signals::SWITCH_INT) {
        let returns =
            if signals.contains(Signals::ADVISED_RATE) { preset::<NearSource>() } else { preset::<DirectInt>() };
        vec![congested.clone(), vec![returns], congested]
    } else {
        vec![congested]
    };
    (undetermined.then_some(pauses), switches)
}

/// A stage with the first of its presets.
fn preset<S: QueueStage>() -> (&'static str, Vec<u32>) {
    (S::NAME, S::PRESETS.first().map(|preset| words(&preset.values)).unwrap_or_default())
}
