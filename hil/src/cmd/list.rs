//! `hil list`: the algorithms with their parameters and presets, and the cores.

use super::Format;
use anyhow::{Context, Result};
use cc_core::params::{Field, Preset, Settings, Unit};
use cc_core::table::Heap;
use cc_cp::{OnQueues, Stage};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil_algorithms::settings::{SettingValue, SettingsTable};
use hil_cores::processor::Processor;
use hil_cores::qemu::Machine;
use hil_sorted::SortedMap;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{Write, stdout};

/// Arguments of `hil list`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What to print on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the algorithms and the cores.
pub(crate) fn run(args: &Args) -> Result<()> {
    let list = List::new();
    let mut output = stdout().lock();
    match args.format {
        Format::Text => write!(output, "{list}"),
        Format::Json => writeln!(output, "{}", serde_json::to_string_pretty(&list)?),
    }
    .context("cannot write to standard output")
}

#[derive(Serialize)]
struct List {
    schema: u32,
    algorithms: Vec<Algorithm>,
    cores: Vec<Core>,
}

/// The state machine or switch stage of one algorithm in one role.
#[derive(Serialize)]
struct Algorithm {
    name: &'static str,
    role: &'static str,
    state_bytes: usize,
    parameters: Vec<Parameter>,
    presets: Vec<Values>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    unit: &'static str,
    min: u32,
    max: u32,
    words: &'static [&'static str],
    aliases: &'static [&'static str],
    doc: &'static str,
}

#[derive(Serialize)]
struct Values {
    name: &'static str,
    source: &'static str,
    values: SortedMap<&'static str, SettingValue>,
}

#[derive(Serialize)]
struct Core {
    name: &'static str,
    doc: &'static str,
}

impl List {
    fn new() -> Self {
        let mut algorithms = Vec::new();
        macro_rules! rp {
            ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
                $(algorithms.push(Algorithm::rp::<cc_rp::$module::$machine>());)+
            };
        }
        macro_rules! np {
            ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
                $(algorithms.push(Algorithm::np::<cc_np::$module::$machine>());)+
            };
        }
        macro_rules! cp {
            ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => {
                $(algorithms.push(Algorithm::cp::<cc_cp::$first $(:: $rest)+>($bytes));)+
            };
        }
        cc_rp::for_each_rp!(rp);
        cc_np::for_each_np!(np);
        cc_cp::for_each_cp!(cp);
        let mut cores: Vec<_> =
            Processor::all().map(|core| Core { name: core.name(), doc: core.description() }).collect();
        cores.extend(Machine::ALL.map(|machine| Core { name: machine.name, doc: machine.description }));
        Self { schema: 2, algorithms, cores }
    }
}

impl Algorithm {
    fn rp<A: ReactionPoint>() -> Self {
        Self::new("reaction point", A::NAME, size_of::<A>(), A::PRESETS)
    }

    fn np<A: NotificationPoint>() -> Self {
        Self::new("notification point", A::NAME, size_of::<A>(), A::PRESETS)
    }

    fn cp<S: OnQueues>(state_bytes: usize) -> Self {
        let (name, presets) = (S::Stage::<Heap>::NAME, S::Stage::<Heap>::PRESETS);
        Self::new("congestion point", name, state_bytes, presets)
    }

    fn new<S: Settings>(role: &'static str, name: &'static str, state_bytes: usize, presets: &[Preset<S>]) -> Self {
        // A loop, which compiles to a quarter of what iterators do, for more than thirty types.
        let mut values = Vec::with_capacity(presets.len());
        for preset in presets {
            values.push((preset.name, preset.source, SettingsTable::of(&preset.values)));
        }
        Self::of(role, name, state_bytes, S::FIELDS, values)
    }

    fn of(
        role: &'static str,
        name: &'static str,
        state_bytes: usize,
        fields: &'static [Field],
        presets: Vec<(&'static str, &'static str, SettingsTable)>,
    ) -> Self {
        let parameter = |field: &'static Field| Parameter {
            name: field.name,
            unit: field.unit.symbol(),
            min: field.min,
            max: field.max,
            words: if let Unit::Choice(words) = field.unit { words } else { &[] },
            aliases: field.aliases,
            doc: field.doc.trim(),
        };
        let values = |(name, source, values): (_, _, SettingsTable)| Values { name, source, values: values.shown() };
        Self {
            name,
            role,
            state_bytes,
            parameters: fields.iter().map(parameter).collect(),
            presets: presets.into_iter().map(values).collect(),
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for algorithm in &self.algorithms {
            writeln!(f, "{algorithm}")?;
        }
        writeln!(f, "A DSCP is the upper six bits of a TOS byte: DSCP 26 is TOS 104, and 106 with ECT(0).")?;
        writeln!(f)?;
        writeln!(f, "cores")?;
        for Core { name, doc } in &self.cores {
            writeln!(f, "  {name}  {doc}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}, {} B of state)", self.name, self.role, self.state_bytes)?;
        writeln!(f, "  presets")?;
        for Values { name, source, .. } in &self.presets {
            writeln!(f, "    {name:<10} {source}")?;
        }
        let names: Vec<_> = self.presets.iter().map(|preset| preset.name).collect();
        writeln!(f, "  parameters: range and unit; {}", names.join(", "))?;
        for parameter in &self.parameters {
            let mut range = String::new();
            match parameter.words {
                [] => write!(range, "{} to {} {}", parameter.min, parameter.max, parameter.unit)?,
                words => range.push_str(&words.join(" or ")),
            }
            let values: Vec<_> = self.presets.iter().filter_map(|preset| preset.values.get(parameter.name)).collect();
            let values: Vec<_> = values.into_iter().map(SettingValue::to_string).collect();
            writeln!(f, "    {}: {}; {}", parameter.name, range.trim(), values.join(", "))?;
            writeln!(f, "      {}", parameter.doc)?;
            if !parameter.aliases.is_empty() {
                writeln!(f, "      also {}", parameter.aliases.join(", "))?;
            }
        }
        Ok(())
    }
}
