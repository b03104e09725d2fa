//! The image of every switch stage on the core model takes the library's actions under every preset, and its cycles equal the
//! golden file.

use hil_measure::cycles;
use hil_measure::stage_cycles::{self, Run};
use std::fs;

macro_rules! tests {
    ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => {
        tests!($($name)+ lscc);

        #[test]
        fn every_image_of_a_stage_is_tested() {
            assert!(stage_cycles::names().eq([$(stringify!($name),)+ "lscc"]));
        }
    };
    ($($name:ident)+) => {
        $(mod $name {
            use hil_measure::stage_cycles::{self, Run};
            use std::sync::OnceLock;

            fn runs() -> &'static [Run] {
                static RUNS: OnceLock<Vec<Run>> = OnceLock::new();
                RUNS.get_or_init(|| stage_cycles::measure(stringify!($name)).unwrap())
            }

            #[test]
            fn the_image_acts_as_the_library() {
                super::assert_identical(runs());
            }

            #[test]
            fn cycles_equal_the_golden_file() {
                super::assert_cycles(stringify!($name), runs());
            }
        })+
    };
}

cc_cp::for_each_cp!(tests);

fn assert_identical(runs: &[Run]) {
    for Run { stage, preset, events, actions, frames, difference, .. } in runs {
        assert_eq!(*difference, None, "{stage}, {preset}");
        assert!(*events >= 10_000, "{stage}, {preset}: {events} events");
        let least = if stage.starts_with("lscc") { 100 } else { 0 };
        assert!(actions + frames >= 100 && *frames >= least, "{stage}, {preset}: {actions} actions, {frames} frames");
    }
}

fn assert_cycles(stage: &str, runs: &[Run]) {
    let golden = fs::read_to_string(cycles::golden().unwrap()).unwrap();
    let golden: Vec<&str> = golden.lines().filter(|line| line.split(' ').next() == Some(stage)).collect();
    let found: String = runs.iter().map(Run::to_string).collect();
    let found: Vec<&str> = found.lines().collect();
    let differs = found.iter().zip(&golden).find(|(found, golden)| found != golden);
    assert_eq!(differs, None, "found, and in the golden file: if the change is intended, run hil cycles --write");
    assert_eq!(
        found.len(),
        golden.len(),
        "lines in the golden file: if the change is intended, run hil cycles --write"
    );
}

#[test]
fn the_error_names_an_unknown_stage() {
    let error = stage_cycles::measure("rad").unwrap_err().to_string();
    assert!(error.starts_with("unknown stage rad"), "{error}");
}
