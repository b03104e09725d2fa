//! Suggestions for unknown names on the command line.

use anyhow::Error;
use hil_algorithms::registry::UnknownName;
use hil_cores::processor::{Processor, UnknownCore};

/// An error in one line. For an unknown name it suggests the nearest known one.
pub(crate) fn explained(error: &Error) -> String {
    let unknown = match (error.downcast_ref::<UnknownName>(), error.downcast_ref::<UnknownCore>()) {
        (Some(UnknownName { typed, known, .. }), _) | (_, Some(UnknownCore { typed, known })) => (typed, known),
        (None, None) => return format!("{error:#}"),
    };
    let (typed, known) = unknown;
    format!("{error:#}: {}", expected(typed, known.iter().copied()))
}

/// Parses the name of a core, for clap.
///
/// # Errors
/// No core has this name.
pub(crate) fn core(name: &str) -> Result<Processor, String> {
    Processor::named(name).map_err(|error| explained(&error))
}

/// "did you mean x?" if a known name is near the typed one; otherwise "expected one of x, y, z", or a reference to `hil list`
/// if there are more than 12 names. Near is an edit distance of at most 1 plus a quarter of the typed letters.
pub(crate) fn expected<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let distance = |name: &str| strsim::levenshtein(&typed.to_lowercase(), &name.to_lowercase());
    let near = names.iter().map(|name| (distance(name), name)).min();
    match near {
        Some((steps, name)) if steps <= 1 + typed.len() / 4 && names.len() > 1 => format!("did you mean {name}?"),
        _ if names.len() <= 12 => format!("expected one of {}", names.join(", ")),
        _ => "hil list shows them all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered() {
        let names = ["rpg_ai_rate", "rpg_hai_rate", "cnp_dscp"];
        assert_eq!(expected("RPG_ai_rat", names.into_iter()), "did you mean rpg_ai_rate?");
        assert_eq!(expected("zzz", names.into_iter()), "expected one of rpg_ai_rate, rpg_hai_rate, cnp_dscp");
        let error = Error::new(UnknownName::new("parameter", "zzz", names.into_iter())).context("--set zzz=1");
        let line = "--set zzz=1: unknown parameter zzz: expected one of rpg_ai_rate, rpg_hai_rate, cnp_dscp";
        assert_eq!(explained(&error), line);
    }
}
