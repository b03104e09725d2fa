//! A scenario with an algorithm that is known by its name: the one place where code is made for each of them.

use super::incast::{Incast, Summary};
use super::marking::stress_scenario;
use anyhow::Result;
use cc_cp::red::RedSettings;
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil_algorithms::registry;
use hil_algorithms::settings::presets;

/// Runs a scenario, see [`Incast::run`], with a preset of an algorithm, its first without one, and what brings out the signals
/// that the algorithm lives on, see [`stress`]: RED with these settings, or TCD and pauses in place of the scenario's.
///
/// # Errors
/// Unknown names, settings that do not fit the port or each other, and whatever the tap says.
pub fn run(
    scenario: &Incast,
    algorithm: &str,
    preset: Option<&str>,
    red: RedSettings,
    tap: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Summary> {
    registry::with(algorithm, Named { scenario, preset, red, tap })?
}

struct Named<'a> {
    scenario: &'a Incast,
    preset: Option<&'a str>,
    red: RedSettings,
    tap: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
}

impl registry::Visitor for Named<'_> {
    type Output = Result<Summary>;

    fn visit<A: ReactionPoint, N: NotificationPoint>(self) -> Self::Output {
        let (rp, np) = presets::<A, N>(self.preset)?;
        let (pauses, marks) = stress_scenario(A::SIGNALS, self.red);
        Incast { pauses, ..*self.scenario }.run::<A, N>(&rp.values, &np.values, &marks, self.tap)
    }
}
