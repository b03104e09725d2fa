//! Every stage of a switch as an image on the core model decides as the library does, under every preset; its cycles are those
//! of the golden file.

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
            fn image_and_library_act_alike() {
                super::assert_identical(runs());
            }

            #[test]
            fn cycles_are_those_written_down() {
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
    assert_eq!(differs, None, "found and written down: hil cycles --write, if that is meant");
    assert_eq!(found.len(), golden.len(), "lines written down: hil cycles --write, if that is meant");
}

#[test]
fn an_unknown_stage_is_told_by_name() {
    let error = stage_cycles::measure("rad").unwrap_err().to_string();
    assert!(error.starts_with("unknown stage rad"), "{error}");
}
