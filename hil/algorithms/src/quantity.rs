//! Values with units, as users type them: `150000B`, `2MB`, `40Mb/s`, `55us`.

use anyhow::{Context, Result, anyhow, bail};
use cc_core::params::{Field, Unit};

/// The range of a field, in its own unit, for error messages.
pub(crate) fn range(field: &Field) -> String {
    let Field { name, min, max, unit, .. } = field;
    format!("{name} must be a whole number from {min} to {max} {}", unit.symbol()).trim_end().to_owned()
}

/// Parses a value: a whole number in the field's unit, or a number with a unit that can be converted, rounded to the nearest.
///
/// # Errors
/// It is neither, or beyond 32 bits.
pub(crate) fn parse(field: &Field, typed: &str) -> Result<u32> {
    if let Unit::Choice(words) = field.unit {
        let index = words.iter().position(|word| word.eq_ignore_ascii_case(typed));
        let index =
            index.with_context(|| format!("{} must be one of {}, not {typed}", field.name, words.join(", ")))?;
        return Ok(index as u32);
    }
    if let Ok(number) = typed.parse() {
        return Ok(number);
    }
    let (number, suffix) = split(typed).ok_or_else(|| anyhow!("{}, not {typed}", range(field)))?;
    let Some(factor) = (if suffix.is_empty() { None } else { factor(field.unit, suffix) }) else {
        bail!("{}{}, not {typed}", range(field), units(field.unit))
    };
    let value = (number * factor).round();
    // A value above zero must not be rounded to zero.
    if value == 0.0 && number > 0.0 || value > f64::from(u32::MAX) {
        bail!("{}, not {typed}", range(field));
    }
    Ok(value as u32)
}

/// A number and its unit, which is empty if there is none.
fn split(typed: &str) -> Option<(f64, &str)> {
    let digits = typed.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(typed.len());
    let (number, suffix) = typed.split_at(digits);
    Some((number.parse().ok()?, suffix.trim()))
}

/// A rate with its unit (`100Gb/s`), in bits per second; `None` if it is none.
pub fn bits_per_second(typed: &str) -> Option<f64> {
    let (number, suffix) = split(typed)?;
    Some(number * rate(suffix)?)
}

/// A time with its unit (`1.5us`), in nanoseconds; `None` if it is none.
pub fn nanoseconds(typed: &str) -> Option<f64> {
    let (number, suffix) = split(typed)?;
    Some(number * time(suffix)?)
}

/// A size with its unit (`400kB`), in bytes; `None` if it is none.
pub fn size_in_bytes(typed: &str) -> Option<f64> {
    let (number, suffix) = split(typed)?;
    Some(number * bytes(suffix)?)
}

/// The factor from the unit with this suffix to the field's unit.
fn factor(unit: Unit, suffix: &str) -> Option<f64> {
    match unit {
        Unit::Micros => time(suffix).map(|nanos| nanos / 1e3),
        Unit::Nanos => time(suffix),
        Unit::Mbps => rate(suffix).map(|bits| bits / 1e6),
        Unit::Bytes => bytes(suffix),
        Unit::Blocks64 => bytes(suffix).map(|bytes| bytes / 64.0),
        Unit::Percent if suffix == "%" => Some(1.0),
        Unit::Ppm if suffix == "%" => Some(1e4),
        Unit::Ppm if suffix == "ppm" => Some(1.0),
        Unit::Per1024 if suffix == "%" => Some(10.24),
        Unit::Percent | Unit::Ppm | Unit::Per1024 | Unit::Log2 | Unit::Count | Unit::Choice(_) => None,
    }
}

/// The units that a field accepts in addition to its own, for error messages.
fn units(unit: Unit) -> &'static str {
    match unit {
        Unit::Micros | Unit::Nanos => ", or have a unit: ns, us, ms, s",
        Unit::Mbps => ", or have a unit: kb/s, Mb/s, Gb/s, MB/s, GB/s",
        Unit::Bytes | Unit::Blocks64 => ", or have a unit: B, kB, MB, KiB, MiB",
        Unit::Percent | Unit::Ppm | Unit::Per1024 => ", or be per cent: %",
        Unit::Log2 | Unit::Count | Unit::Choice(_) => "",
    }
}

/// Nanoseconds.
fn time(suffix: &str) -> Option<f64> {
    Some(match suffix {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

/// Bits per second. A small b stands for bits, a large one for bytes.
fn rate(suffix: &str) -> Option<f64> {
    let (amount, bits) = suffix
        .strip_suffix("bit/s")
        .or_else(|| suffix.strip_suffix("b/s"))
        .or_else(|| suffix.strip_suffix("bps"))
        .map(|amount| (amount, 1.0))
        .or_else(|| suffix.strip_suffix("B/s").or_else(|| suffix.strip_suffix("Bps")).map(|amount| (amount, 8.0)))?;
    Some(bits * decimal(amount)?)
}

fn bytes(suffix: &str) -> Option<f64> {
    let amount = suffix.strip_suffix('B')?;
    Some(match amount {
        "Ki" => 1_024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        amount => decimal(amount)?,
    })
}

fn decimal(prefix: &str) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    })
}

/// The size in bytes of a value that is counted in blocks; `None` for other units.
pub(crate) fn in_bytes(unit: Unit, value: u32) -> Option<String> {
    let bytes = (unit == Unit::Blocks64).then_some(u64::from(value) * 64)?;
    Some(match bytes {
        0..1_000_000 => format!("{bytes} B"),
        _ => format!("{bytes} B ({:.1} MB)", bytes as f64 / 1e6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(unit: Unit) -> Field {
        Field { name: "x", unit, min: 0, max: 1_000_000, aliases: &[], doc: "" }
    }

    #[test]
    fn convertible_units_are_converted_and_others_are_refused_with_a_list() {
        for (unit, typed, value) in [
            (Unit::Blocks64, "150000", 150_000),
            (Unit::Blocks64, "150000B", 2_344),
            (Unit::Blocks64, "2MB", 31_250),
            (Unit::Blocks64, "2 MiB", 32_768),
            (Unit::Bytes, "1.5kB", 1_500),
            (Unit::Mbps, "40Mb/s", 40),
            (Unit::Mbps, "0.04Gb/s", 40),
            (Unit::Mbps, "40Mbps", 40),
            (Unit::Mbps, "5MB/s", 40),
            (Unit::Mbps, "5000kbit/s", 5),
            (Unit::Micros, "55us", 55),
            (Unit::Micros, "1.5ms", 1_500),
            (Unit::Nanos, "4us", 4_000),
            (Unit::Ppm, "1%", 10_000),
            (Unit::Percent, "50%", 50),
            (Unit::Count, "7", 7),
        ] {
            assert_eq!(parse(&field(unit), typed).unwrap(), value, "{typed}");
        }
        for (unit, typed, expected) in [
            (Unit::Micros, "55MB", "ns, us, ms, s"),
            (Unit::Mbps, "40us", "Mb/s"),
            (Unit::Mbps, "0.1kb/s", "0 to 1000000 Mb/s"),
            (Unit::Blocks64, "1.5", "B, kB, MB"),
            (Unit::Count, "7B", "whole number"),
            (Unit::Count, "-1", "whole number"),
            (Unit::Bytes, "99999999GB", "whole number"),
        ] {
            let error = parse(&field(unit), typed).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(typed), "{error}");
        }
    }

    #[test]
    fn values_of_any_size_have_a_unit() {
        assert_eq!(bits_per_second("400Gb/s"), Some(4e11));
        assert_eq!(nanoseconds("1.5 us"), Some(1_500.0));
        assert_eq!(size_in_bytes("10GB"), Some(1e10));
        assert_eq!((bits_per_second("400"), nanoseconds("1GB"), size_in_bytes("-1B")), (None, None, None));
    }

    #[test]
    fn blocks_are_converted_to_bytes() {
        assert_eq!(in_bytes(Unit::Blocks64, 150_000).as_deref(), Some("9600000 B (9.6 MB)"));
        assert_eq!(in_bytes(Unit::Blocks64, 2_344).as_deref(), Some("150016 B"));
        assert_eq!(in_bytes(Unit::Bytes, 1), None);
    }
}
