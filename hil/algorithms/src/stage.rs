//! The settings of a switch stage that is chosen at run time.

use crate::registry::UnknownName;
use crate::settings_table::{SettingsTable, preset};
use anyhow::{Result, bail};
use cc_core::table::Heap;
use cc_cp::registry::{self, NAMES};
use cc_cp::{OnQueues, Stage};

/// The name of the stage that is so called in upper or lower case, and its preset of the name `preset`, or the first.
///
/// # Errors
/// No stage, or no preset of it, has this name.
pub fn stage(name: &str, preset: Option<&str>) -> Result<(&'static str, SettingsTable)> {
    registry::with(name, Preset(preset))
        .unwrap_or_else(|| bail!(UnknownName::new("stage", name, NAMES.iter().copied())))
}

struct Preset<'a>(Option<&'a str>);

impl registry::Visitor for Preset<'_> {
    type Output = Result<(&'static str, SettingsTable)>;

    fn visit<S: OnQueues>(self) -> Self::Output {
        let name = S::Stage::<Heap>::NAME;
        let preset = preset(name, S::Stage::<Heap>::PRESETS, self.0)?;
        Ok((name, SettingsTable::of(&preset.values)))
    }
}
