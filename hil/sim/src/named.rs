//! Runs a scenario with an algorithm that is named at run time.

use super::incast::{Incast, Summary};
use super::marking::stress_scenario;
use anyhow::Result;
use cc_cp::red::RedSettings;
use hil_algorithms::algorithm;

/// Runs a scenario (see [`Incast::run`]) with an algorithm and one of its presets, the first if `preset` is `None`. The
/// switches and the pauses are those of [`stress_scenario`]; they replace the pauses of the scenario.
///
/// # Errors
/// Unknown names, settings that do not fit the port or each other, and errors of the tap.
pub fn run(
    scenario: &Incast,
    name: &str,
    preset: Option<&str>,
    red: RedSettings,
    tap: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Summary> {
    let algorithm = algorithm(name)?;
    let [(_, rp), (_, np)] = algorithm.presets(preset)?;
    let (pauses, switches) = stress_scenario(algorithm.signals(), red);
    Incast { pauses, ..*scenario }.run(&*algorithm, [&rp, &np], &switches, tap)
}
