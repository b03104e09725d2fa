//! Generates the C header of `rnic_cc` from the registries of algorithms.

use anyhow::Result;
use cc_core::params::{Field, Settings, Unit};
use cc_np::NotificationPoint;
use cc_rp::{EventSet, ReactionPoint};
use hil_cores::tree;
use rnic_cc::np::NpPort;
use rnic_cc::rp::RpPort;
use rnic_cc::types::Flow;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The part of the header that does not depend on the algorithms.
pub(crate) const HEAD: &str = include_str!("../../../targets/c-abi/src/head.h");

const FOOT: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// The path of the header in the source tree.
///
/// # Errors
/// There is no source tree.
pub fn path() -> Result<PathBuf> {
    Ok(tree::here()?.root().join("targets/c-abi/include/rnic_cc.h"))
}

/// The header that the registries generate, to be compared with the file.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for entry in cc_rp::registry::ALL {
        text += &cc_rp::registry::with(entry.name, Describe).unwrap_or_default();
    }
    for entry in cc_np::registry::ALL {
        text += &cc_np::registry::with(entry.name, Describe).unwrap_or_default();
    }
    text + FOOT
}

struct Describe;

impl cc_rp::registry::Visitor for Describe {
    type Output = String;

    fn visit<A: ReactionPoint>(self) -> String {
        let presets = A::PRESETS.iter().map(|preset| preset.name).collect();
        let what = what_it_takes(A::NAME, A::EVENTS, A::RECEIVER);
        block(("rp", A::NAME), &what, [layout::<RpPort<A>>(), layout::<Flow<A>>()], presets, A::Settings::FIELDS)
    }
}

/// The events that a reaction point takes, and its notification point, in words.
fn what_it_takes(name: &str, events: EventSet, receiver: Option<&str>) -> String {
    let kinds = [
        ("SENT", EventSet::SENT),
        ("ACK", EventSet::ACK),
        ("NACK", EventSet::NACK),
        ("CNP", EventSet::CNP),
        ("WAKE", EventSet::WAKE),
        ("SWITCH_INT", EventSet::SWITCH_INT),
    ];
    let takes: Vec<&str> = kinds.iter().filter(|(_, kind)| events.contains(*kind)).map(|(name, _)| *name).collect();
    let partner = receiver.map_or(String::new(), |name| format!("; the receiver runs rnic_np_{name}"));
    format!("{name}: takes {}{partner}", takes.join(", "))
}

impl cc_np::registry::Visitor for Describe {
    type Output = String;

    fn visit<A: NotificationPoint>(self) -> String {
        let presets = A::PRESETS.iter().map(|preset| preset.name).collect();
        block(("np", A::NAME), A::NAME, [layout::<NpPort<A>>(), layout::<Flow<A>>()], presets, A::Settings::FIELDS)
    }
}

/// Size and alignment of a type in bytes.
const fn layout<T>() -> (usize, usize) {
    (size_of::<T>(), align_of::<T>())
}

/// The declarations of one algorithm, with the layouts of its port and its flow.
fn block(
    (role, name): (&str, &str),
    what: &str,
    [port, flow]: [(usize, usize); 2],
    presets: Vec<&str>,
    fields: &[Field],
) -> String {
    let capital = format!("RNIC_{}_{}", role.to_uppercase(), name.to_uppercase());
    let mut text = format!("\n/* {what} */\n");
    for (part, (size, align)) in [("port", port), ("flow", flow)] {
        let upper = part.to_uppercase();
        put(
            &mut text,
            format_args!("#define {capital}_{upper}_BYTES {size}u\n#define {capital}_{upper}_ALIGN {align}u\n"),
        );
        let (bits, words) = (8 * align, size / align);
        put(&mut text, format_args!("typedef struct {{ uint{bits}_t opaque[{words}]; }} rnic_{role}_{name}_{part};\n"));
    }
    for (id, preset) in presets.iter().enumerate() {
        put(&mut text, format_args!("#define {capital}_PRESET_{} {id}u\n", preset.to_uppercase()));
    }
    for (id, Field { name, unit, min, max, .. }) in fields.iter().enumerate() {
        let unit = match unit {
            Unit::Choice(words) => format!(": {}", words.join(", ")),
            unit if unit.symbol().is_empty() => String::new(),
            unit => format!(" {}", unit.symbol()),
        };
        put(&mut text, format_args!("#define {capital}_{} {id}u /* {min} to {max}{unit} */\n", name.to_uppercase()));
    }
    put(&mut text, format_args!("RNIC_{}_FUNCTIONS({name});\n", role.to_uppercase()));
    text
}

/// Appends formatted text to a string. Writing to a string does not fail.
fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}
