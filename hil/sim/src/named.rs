//! A scenario with an algorithm that is known by its name.

use super::incast::{Incast, Summary};
use super::marking::stress_scenario;
use anyhow::Result;
use cc_cp::red::RedSettings;
use hil_algorithms::algorithm;

/// Runs a scenario, see [`Incast::run`], with a preset of an algorithm, its first without one, and what brings out the signals
/// that the algorithm lives on, see [`stress_scenario`]: RED with these settings, or TCD and pauses in place of the scenario's.
///
/// # Errors
/// Unknown names, settings that do not fit the port or each other, and whatever the tap says.
pub fn run(
    scenario: &Incast,
    name: &str,
    preset: Option<&str>,
    red: RedSettings,
    tap: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Summary> {
    let algorithm = algorithm(name)?;
    let [(_, rp), (_, np)] = algorithm.presets(preset)?;
    let (pauses, stages) = stress_scenario(algorithm.signals(), red);
    Incast { pauses, ..*scenario }.run(&*algorithm, [&rp, &np], &stages, tap)
}
