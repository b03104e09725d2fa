//! Values of a summary by their names in its JSON, such as `slowdown.p99`.

use hil_sim::summary::{COSTS, Percentiles};
use serde_json::Value;

/// Refuses a name whose value differs from run to run.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if COSTS.iter().any(|cost| name.rsplit('.').next() == Some(cost)) {
        return Err(format!(
            "`{name}` differs from run to run: expected a value that the scenario and the seed decide"
        ));
    }
    Ok(())
}

/// The value of this name, as a cell of a table: a number, a text or a truth value, empty where the summary has null.
///
/// # Errors
/// There is none: what was expected.
pub(crate) fn value(summary: &Value, name: &str) -> Result<String, String> {
    let (mut value, mut before) = (summary, "the summary".to_owned());
    let mut parts = name.split('.');
    while let Some(part) = parts.next() {
        let inner = match value {
            // Null stands for percentiles, or for a list of numbers.
            Value::Null => {
                let known = serde_json::to_value(Percentiles::of([0.0])).unwrap_or_default();
                let is_last = parts.next().is_none();
                return match is_last && (known.get(part).is_some() || part.parse::<usize>().is_ok()) {
                    true => Ok(String::new()),
                    false => Err(unknown(name, part, &before, &known)),
                };
            }
            Value::Array(elements) => part.parse::<usize>().ok().and_then(|number| elements.get(number)),
            other => other.get(part),
        };
        value = inner.ok_or_else(|| unknown(name, part, &before, value))?;
        before = format!("`{part}`");
    }
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Object(_) => Err(format!("`{name}` is not one value: expected {}", keys(value))),
        plain => Ok(plain.to_string()),
    }
}

fn unknown(name: &str, part: &str, of: &str, value: &Value) -> String {
    format!("`{name}`: {of} has no `{part}`: expected {}", keys(value))
}

/// What there is in a value, in words.
fn keys(value: &Value) -> String {
    match value {
        Value::Object(table) => format!("one of {}", table.keys().cloned().collect::<Vec<_>>().join(", ")),
        Value::Array(elements) => format!("the number of an element, below {}", elements.len()),
        _ => "no more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_found_by_its_name() {
        let summary = json!({ "a": { "b": [1, 2.5] }, "none": null, "word": "x", "yes": true });
        let found = ["a.b.1", "none", "none.p99", "none.0", "word", "yes"].map(|name| value(&summary, name).unwrap());
        assert_eq!(found, ["2.5", "", "", "", "x", "true"]);
        for (name, expected) in [
            ("a.c", "`a` has no `c`: expected one of b"),
            ("a.b", "is not one value: expected the number of an element, below 2"),
            ("a.b.2", "`b` has no `2`: expected the number of an element, below 2"),
            ("none.p98", "expected one of mean, p50, p95, p99, p999"),
            ("none.p99.x", "`none` has no `p99`"),
            ("word.x", "`word` has no `x`: expected no more"),
        ] {
            let error = value(&summary, name).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn what_differs_from_run_to_run_is_refused() {
        assert!(check_name("cores.0.host_ns_per_cycle").is_err() && check_name("cpu_seconds").is_err());
        assert!(check_name("cores.0.cycles").is_ok());
    }
}
