//! Parses what a user typed into checked settings of both machines.

use crate::algorithm::{Algorithm, Pair};
use crate::registry::UnknownName;
pub use crate::settings_table::{SettingValue, SettingsTable, preset, table, words};
use crate::vendor::{self, Meaning};
use anyhow::{Context, Result, anyhow, bail, ensure};
use cc_core::{Bytes, Link, Nanos, Rate};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil_sorted::SortedMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Settings as the user gave them, not yet checked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of a preset; `None` for the algorithm's first.
    pub preset: Option<String>,
    /// A TOML file of `name = value` lines, applied over the preset.
    pub params: Option<PathBuf>,
    /// `name=value`, applied last, in order.
    pub sets: Vec<String>,
    /// Line rate in Gb/s, 1 to 2,047.
    pub line_rate: u32,
    /// Largest packet on the wire in bytes.
    pub mtu: u32,
    /// Round-trip time of the idle network in microseconds.
    pub base_rtt: u32,
}

impl Default for Request {
    /// The first preset on a port of 100 Gb/s with a path MTU of 4,096 bytes and a round-trip time of 12 us.
    fn default() -> Self {
        Self { preset: None, params: None, sets: Vec::new(), line_rate: 100, mtu: 4_200, base_rtt: 12 }
    }
}

/// Settings of both machines, each in its range, and the port.
#[derive(Clone, Debug)]
pub struct ResolvedSettings {
    /// The preset of the reaction point.
    pub rp_preset: &'static str,
    /// The preset of the notification point, see [`Algorithm::presets`].
    pub np_preset: &'static str,
    /// The reaction point's settings.
    pub rp: SettingsTable,
    /// The notification point's settings.
    pub np: SettingsTable,
    /// The link.
    pub link: Link,
}

impl ResolvedSettings {
    /// As [`ResolvedSettings::by`] does, for these two machines.
    ///
    /// # Errors
    /// As for [`ResolvedSettings::by`].
    pub fn of<A: ReactionPoint, N: NotificationPoint>(request: &Request) -> Result<Self> {
        Self::by(&Pair::<A, N>::new(), request)
    }

    /// Resolves the settings of an algorithm. An error is one line: what is wrong and what was expected.
    ///
    /// # Errors
    /// An unknown preset or name, a value out of range or of the wrong kind, a file that cannot be read, settings that
    /// contradict each other or the link.
    pub fn by(algorithm: &dyn Algorithm, request: &Request) -> Result<Self> {
        let [(rp_preset, rp), (np_preset, np)] = algorithm.presets(request.preset.as_deref())?;
        let mut chosen = Self { rp_preset, np_preset, rp, np, link: link(request)? };
        if let Some(path) = &request.params {
            chosen.read(path)?;
        }
        for set in &request.sets {
            let (name, value) =
                set.split_once('=').with_context(|| format!("--set {set}: expected name=value, as rpg_ai_rate=5"))?;
            chosen.set(name.trim(), value.trim()).with_context(|| format!("--set {set}"))?;
        }
        algorithm.check(&chosen.link, [&chosen.rp, &chosen.np]).map_err(|error| anyhow!("{error}"))?;
        Ok(chosen)
    }

    /// Applies a file of settings.
    fn read(&mut self, path: &Path) -> Result<()> {
        let file = path.display();
        let mut text = String::new();
        let read = File::open(path).and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_string(&mut text));
        let length = read.with_context(|| format!("{file}"))?;
        ensure!(length as u64 <= LONGEST_FILE, "{file}: expected lines of name = value, at most {LONGEST_FILE} bytes");
        let line = |start: usize| text.get(..start).map_or(1, |before| before.matches('\n').count() + 1);
        let table = DeTable::parse(&text).map_err(|error| {
            let at = error.span().map_or(1, |span| line(span.start));
            anyhow!("{file}, line {at}: {}; expected lines of name = value", error.message().trim())
        })?;
        let mut seen = SortedMap::new();
        for (name, value) in table.get_ref() {
            let at = line(name.span().start);
            if let Some(first) = seen.insert(self.place(name.get_ref()), at) {
                bail!(
                    "{file}, line {}, {}: the same parameter stands in line {}",
                    at.max(first),
                    name.get_ref(),
                    at.min(first)
                );
            }
            let value = typed(value.get_ref());
            self.set(name.get_ref(), &value).with_context(|| format!("{file}, line {at}, {}", name.get_ref()))?;
        }
        Ok(())
    }

    /// Writes one setting to the machine that has it. If both have it, the prefix `rp.` or `np.` selects one.
    ///
    /// # Errors
    /// There is no such setting, or the value is out of its range or of the wrong kind.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let (role, bare) = match name.split_once('.') {
            Some((role @ ("rp" | "np"), bare)) => (Some(role), bare),
            _ => (None, name),
        };
        let (rp, np) = (self.rp.index_of(bare), self.np.index_of(bare));
        match (rp.filter(|_| role != Some("np")), np.filter(|_| role != Some("rp"))) {
            (Some(_), Some(_)) => bail!("both machines have a parameter {bare}: expected rp.{bare} or np.{bare}"),
            (Some(index), None) => self.rp.assign(index, value),
            (None, Some(index)) => self.np.assign(index, value),
            (None, None) if let Some((whose, meaning)) = vendor::meaning(bare) => match meaning {
                Meaning::Field { name: field, unit } if self.place(field) != (None, None) => {
                    let role = role.map_or(String::new(), |role| format!("{role}."));
                    let has_unit = value.ends_with(|letter: char| letter.is_alphabetic() || letter == '%');
                    let value = if has_unit { value.to_owned() } else { format!("{value}{unit}") };
                    self.set(&format!("{role}{field}"), &value)
                }
                Meaning::Field { name: field, .. } => {
                    bail!("{name} is {whose}'s name for {field}, which this algorithm does not have: see hil list")
                }
                Meaning::Hint(hint) => bail!("{name} is a parameter of {whose}; {hint}"),
            },
            (None, None) => {
                bail!(UnknownName::new("parameter", name, self.rp.names().chain(self.np.names())))
            }
        }
    }

    /// The index of the parameter with this name or alias in each machine, reaction point first.
    fn place(&self, name: &str) -> (Option<usize>, Option<usize>) {
        let bare = name.split_once('.').map_or(name, |(_, bare)| bare);
        (self.rp.index_of(bare), self.np.index_of(bare))
    }
}

/// A value of a TOML file as a user types it after `--set name=`.
pub fn typed(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(word) => word.to_string(),
        DeValue::Boolean(on) => u8::from(*on).to_string(),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(decimal) => decimal.to_string(),
            Err(_) => number.to_string(),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) => format!("{number:?}"),
            Err(_) => number.to_string(),
        },
        other => format!("a {}", other.type_str()),
    }
}

fn link(request: &Request) -> Result<Link> {
    ensure!((1..2_048).contains(&request.line_rate), "--line-rate {}: expected 1 to 2047 Gb/s", request.line_rate);
    ensure!((64..=65_535).contains(&request.mtu), "--mtu {}: expected 64 to 65535 bytes", request.mtu);
    let base_rtt = Nanos::from_micros(request.base_rtt)
        .filter(|&time| time > Nanos::ZERO && request.base_rtt <= 1_000_000)
        .with_context(|| format!("--base-rtt {}: expected 1 to 1000000 us", request.base_rtt))?;
    Ok(Link { line_rate: Rate::from_gbps(request.line_rate), mtu: Bytes::new(request.mtu), base_rtt })
}

/// Largest file of settings that is read, in bytes.
const LONGEST_FILE: u64 = 1 << 20;
