//! What an experiment has come to: for people, for programs, and for the documents.

use crate::cases::CaseRuns;
use crate::experiment::{Experiment, Over, Ratio, STABLE, Value};
use crate::figure::over_axis;
use anyhow::Result;
use hil_sorted::SortedMap;
use serde::Serialize;
use std::fmt::{self, Write};

/// What an experiment has come to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its id.
    pub id: String,
    /// Paper and section.
    pub source: String,
    /// What the paper says.
    pub claim: String,
    /// The preset of the scenarios.
    pub preset: String,
    /// How many seeds each case was run with.
    pub seeds: u64,
    /// All criteria hold; absent if the experiment has none in the cases that were run.
    pub criterion_holds: Option<bool>,
    /// The paper's claim is met; absent if no value has a claim.
    pub paper_claim_met: Option<bool>,
    /// The values of all cases.
    pub values: Vec<Judged>,
    /// Parameters, with whose values they are.
    pub parameters: SortedMap<String, String>,
    /// What is known where a criterion does not hold or the claim is not met, of the preset `stable`; empty with others.
    pub explanation: String,
    /// Figures: names, and SVG.
    #[serde(skip)]
    pub figures: Vec<(String, String)>,
}

/// A value in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The points of the case.
    pub case: String,
    /// The value's name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The least of the seeds; absent, as the other two, if it is not a number.
    pub least: Option<f64>,
    /// Their median.
    pub median: Option<f64>,
    /// The most.
    pub most: Option<f64>,
    /// The paper's value.
    pub paper: String,
    /// The criterion in words; empty if the value is only shown.
    pub criterion: String,
    /// Whether it holds; absent if the value is only shown.
    pub holds: Option<bool>,
    /// Whether the paper's claim is met; absent if there is none.
    pub claim_met: Option<bool>,
}

impl Outcome {
    pub(crate) fn of(experiment: &Experiment, preset: &str, mut cases: Vec<CaseRuns<'_>>) -> Result<Self> {
        for value in &experiment.values {
            if let Some(ratio) = &value.ratio {
                divide(value, ratio, &mut cases);
            }
        }
        let of_case = |of_case: &CaseRuns<'_>| {
            let judged = experiment.values.iter().filter_map(|value| Judged::of(value, of_case));
            judged.collect::<Vec<_>>()
        };
        let values: Vec<Judged> = cases.iter().flat_map(of_case).collect();
        let all = |verdicts: Vec<bool>| (!verdicts.is_empty()).then(|| verdicts.into_iter().all(|verdict| verdict));
        let over_axes = experiment
            .figures
            .iter()
            .filter_map(|figure| Some((figure.name.clone(), over_axis(experiment, figure, &cases)?)));
        let mut figures: Vec<_> = over_axes.collect();
        figures.extend(cases.iter_mut().flat_map(|of_case| &mut of_case.runs).flat_map(|run| run.series.drain(..)));
        Ok(Self {
            id: experiment.id.clone(),
            source: experiment.source.clone(),
            claim: experiment.claim.clone(),
            preset: preset.to_owned(),
            seeds: cases.first().map_or(0, |of_case| of_case.runs.len() as u64),
            criterion_holds: all(values.iter().filter_map(|value| value.holds).collect()),
            paper_claim_met: all(values.iter().filter_map(|value| value.claim_met).collect()),
            values,
            parameters: experiment.parameters.clone(),
            explanation: if preset == STABLE { experiment.explanation.trim().to_owned() } else { String::new() },
            figures,
        })
    }
}

/// Adds the quotients of a value to the runs of the denominators' cases.
fn divide(value: &Value, ratio: &Ratio, cases: &mut [CaseRuns<'_>]) {
    for denominator in 0..cases.len() {
        let case = &cases[denominator].case;
        let is_numerator = |other: &CaseRuns<'_>| {
            let pairs = case.points.iter().zip(&other.case.points);
            case.has(&ratio.to)
                && other.case.has(&ratio.of)
                && pairs.clone().all(|(to, of)| to.name == of.name || (to.name == ratio.to && of.name == ratio.of))
        };
        let is_measured = case.has_value(value);
        let Some(numerator) = cases.iter().position(is_numerator).filter(|_| is_measured) else { continue };
        for seed in 0..cases[denominator].runs.len() {
            let [of, to] =
                [numerator, denominator].map(|case| cases[case].runs[seed].values.get(&ratio.value).copied());
            if let Some((of, to)) = of.zip(to) {
                cases[denominator].runs[seed].values.insert(value.name.clone(), of / to / value.per);
            }
        }
    }
}

impl Judged {
    fn of(value: &Value, of_case: &CaseRuns<'_>) -> Option<Self> {
        let mut numbers: Vec<f64> =
            of_case.runs.iter().filter_map(|run| run.values.get(&value.name).copied()).collect();
        if numbers.is_empty() {
            return None;
        }
        numbers.sort_by(f64::total_cmp);
        let median = numbers[numbers.len() / 2];
        let judged = match value.over {
            Over::Each => numbers.clone(),
            Over::Mean => vec![numbers.iter().sum::<f64>() / numbers.len() as f64],
            Over::Median => vec![median],
        };
        // A value that is not a number is in no range.
        let is_in = |[least, most]: [f64; 2]| judged.iter().all(|number| (least..=most).contains(number));
        let bounds = (value.at_least.is_some() || value.at_most.is_some())
            .then(|| [value.at_least.unwrap_or(f64::NEG_INFINITY), value.at_most.unwrap_or(f64::INFINITY)]);
        let claim = value.claim.or(bounds.filter(|_| !value.paper.is_empty()));
        let criterion = match (value.at_least, value.at_most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => String::new(),
        };
        let of_seeds = match value.over {
            Over::Each => "",
            Over::Mean => ", mean of seeds",
            Over::Median => ", median of seeds",
        };
        let shown = |number: f64| number.is_finite().then_some(number);
        Some(Self {
            case: of_case.case.name(),
            name: value.name.clone(),
            unit: value.unit.clone(),
            least: shown(numbers[0]),
            median: shown(median),
            most: shown(numbers[numbers.len() - 1]),
            paper: value.paper.clone(),
            criterion: if criterion.is_empty() { criterion } else { criterion + of_seeds },
            holds: bounds.map(is_in),
            claim_met: claim.map(is_in),
        })
    }

    /// The least, the median and the most of the seeds, or the one value.
    fn range(&self) -> String {
        let [least, median, most] = [self.least, self.median, self.most].map(number);
        if least == most { median } else { format!("{least} / {median} / {most}") }
    }

    fn cells(&self) -> [String; 6] {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" [{}]", self.unit) };
        [
            self.case.clone(),
            format!("{}{unit}", self.name),
            self.range(),
            self.criterion.clone(),
            verdict(self.holds).to_owned(),
            self.paper.clone() + if self.claim_met == Some(false) { " (not met)" } else { "" },
        ]
    }
}

const HEADER: [&str; 6] = ["case", "value", "seeds: least / median / most", "criterion", "holds", "paper"];

/// Four significant digits.
fn number(number: Option<f64>) -> String {
    let Some(number) = number else { return "none".to_owned() };
    let digits = if number == 0.0 { 0 } else { 3 - (number.abs().log10().floor() as i32).clamp(-6, 3) };
    let text = format!("{number:.*}", digits.max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

const fn verdict(verdict: Option<bool>) -> &'static str {
    match verdict {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.id, self.source)?;
        writeln!(f, "claim: {}", self.claim.trim())?;
        for (name, source) in &self.parameters {
            writeln!(f, "parameter: {name} ({source})")?;
        }
        writeln!(f, "preset {}, {} seeds", self.preset, self.seeds)?;
        let rows = [HEADER.map(str::to_owned)].into_iter().chain(self.values.iter().map(Judged::cells));
        let rows: Vec<[String; 6]> = rows.collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(line, "{cell:<0$}  ", width(column));
            }
            writeln!(f, "  {}", line.trim_end())?;
        }
        let shown = |verdict: Option<bool>| verdict.map_or("none", |verdict| if verdict { "true" } else { "false" });
        writeln!(f, "criterion_holds: {}", shown(self.criterion_holds))?;
        write!(f, "paper_claim_met: {}", shown(self.paper_claim_met))?;
        if !self.explanation.is_empty() {
            write!(f, "\n{}", self.explanation)?;
        }
        Ok(())
    }
}

/// One document of all outcomes: a table, and a section for each with its values, parameters and figures, which are files beside the
/// document, named by [`Outcome::file`].
pub fn markdown(outcomes: &[Outcome]) -> String {
    let preset = outcomes.first().map_or(STABLE, |outcome| &outcome.preset);
    let mut text = format!(
        "# Results of the experiments of the papers, preset `{preset}`\n\nMade by `hil paper --all --preset {preset} --output DIR`; \
         README.md of hil/papers says what the verdicts mean.\n\n| id | source | criterion holds | paper's claim met |\n\
         | --- | --- | --- | --- |\n"
    );
    for outcome in outcomes {
        let (id, anchor) = (&outcome.id, outcome.id.to_lowercase());
        let [holds, met] = [outcome.criterion_holds, outcome.paper_claim_met].map(verdict);
        let _ = writeln!(text, "| [{id}](#{anchor}) | {} | {holds} | {met} |", outcome.source);
    }
    for outcome in outcomes {
        let _ = writeln!(text, "\n## {}\n\n{}. {}\n", outcome.id, outcome.source, outcome.claim.trim());
        let _ = writeln!(text, "| {} |\n|{}", HEADER.join(" | "), " --- |".repeat(HEADER.len()));
        for value in &outcome.values {
            let _ = writeln!(text, "| {} |", value.cells().join(" | "));
        }
        if !outcome.parameters.is_empty() {
            let parameters = outcome.parameters.iter().map(|(name, source)| format!("{name} ({source})"));
            let _ = writeln!(text, "\nParameters: {}.", parameters.collect::<Vec<_>>().join("; "));
        }
        if !outcome.explanation.is_empty() {
            let _ = writeln!(text, "\n{}", outcome.explanation);
        }
        for (name, _) in &outcome.figures {
            let _ = writeln!(text, "\n![{} {name}]({})", outcome.id, outcome.file(name));
        }
    }
    text
}

impl Outcome {
    /// The name of the file of a figure.
    pub fn file(&self, figure: &str) -> String {
        format!("{}-{figure}.svg", self.id.to_lowercase()).replace(' ', "-")
    }
}
