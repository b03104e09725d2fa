//! Rates and times as ns-3 writes them.

use crate::Picos;

/// Bits per second: a number with a unit (`100Gbps`, `40Mb/s`, `5MB/s`), or without one. A small k, M or G is decimal, and one
/// with an i binary; a small b stands for bits, a large one for bytes.
pub(super) fn rate(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let unit = unit.strip_suffix("ps").or_else(|| unit.strip_suffix("/s")).unwrap_or(unit);
    let (prefix, bits) = match unit {
        "" => ("", 1.0),
        unit => match unit.strip_suffix('b') {
            Some(prefix) => (prefix, 1.0),
            None => (unit.strip_suffix('B')?, 8.0),
        },
    };
    let factor = match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1_024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        _ => return None,
    };
    let rate = (number * factor * bits).round();
    (0.0..1e15).contains(&rate).then_some(rate as u64)
}

/// Picoseconds: a number with a unit, or of seconds; below a million seconds, so that sums of a few times fit 64 bits.
pub(super) fn time(text: &str) -> Option<Picos> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "s" => 1e12,
        "ms" => 1e9,
        "us" => 1e6,
        "ns" => 1e3,
        "ps" => 1.0,
        _ => return None,
    };
    let picos = (number * factor).round();
    (0.0..1e18).contains(&picos).then_some(picos as Picos)
}

fn split(text: &str) -> Option<(f64, &str)> {
    // A letter e may belong to the number.
    let end = (1..=text.len())
        .rev()
        .filter(|&end| text.is_char_boundary(end))
        .find(|&end| text[..end].parse::<f64>().is_ok())?;
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// A probability in units of 2^-32, at most 1 - 2^-32; one above zero is at least a unit.
pub(crate) fn probability(text: &str) -> Option<u32> {
    let probability: f64 = text.parse().ok().filter(|probability| (0.0..=1.0).contains(probability))?;
    let units = (probability * f64::from(u32::MAX)).round() as u32;
    Some(if probability > 0.0 { units.max(1) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_as_their_files_have_them() {
        for (text, bits) in [
            ("100Gbps", 100_000_000_000),
            ("40Mb/s", 40_000_000),
            ("25000000000.0", 25_000_000_000),
            ("1e9bps", 1_000_000_000),
            ("5MB/s", 40_000_000),
            ("1Kibps", 1_024),
        ] {
            assert_eq!(rate(text), Some(bits), "{text}");
        }
        for (text, picos) in
            [("1us", 1_000_000), ("1000ns", 1_000_000), ("0.001ms", 1_000_000), ("2.5", 2_500_000_000_000)]
        {
            assert_eq!(time(text), Some(picos), "{text}");
        }
        for text in ["", "fast", "10Gbit", "-1Gbps", "NaN", "inf", "1 Gbps"] {
            assert_eq!(rate(text), None, "{text}");
        }
        for text in ["-1us", "1e18ps", "1000000", "1e300"] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(time("999999s"), Some(999_999_000_000_000_000));
    }
}
