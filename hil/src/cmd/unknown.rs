//! Suggestions for unknown names on the command line.

use anyhow::Error;
use hil_algorithms::registry;
use hil_cores::processor::{Processor, UnknownCore};

/// An error in one line. For an unknown name it suggests the nearest known one.
pub(crate) fn explained(error: &Error) -> String {
    match error.downcast_ref::<UnknownCore>() {
        Some(UnknownCore { typed, known }) => {
            format!("{error:#}: {}", registry::expected(typed, known.iter().copied()))
        }
        None => registry::explained(error),
    }
}

/// Parses the name of a core, for clap.
///
/// # Errors
/// No core has this name.
pub(crate) fn core(name: &str) -> Result<Processor, String> {
    Processor::named(name).map_err(|error| explained(&error))
}
