//! The image of every algorithm on the core model takes the library's decisions under every preset. The runs exercise every row
//! of both machines' transition tables, and their cycles equal the golden file. Code size, stack and the cycles of `on` stay
//! within their bounds.

use hil_cores::firmware;
use hil_measure::cycles::{self, Run};
use hil_measure::footprint::ImageSize;
use std::fs;

macro_rules! tests {
    ($($number:literal, $bytes:literal, $module:ident :: $machine:ident;)+) => {
        $(mod $module {
            use hil_measure::cycles::Run;
            use std::sync::OnceLock;

            pub(super) fn runs() -> &'static [Run] {
                static RUNS: OnceLock<Vec<Run>> = OnceLock::new();
                RUNS.get_or_init(|| super::measure(stringify!($module)))
            }

            #[test]
            fn the_image_decides_as_the_library() {
                super::assert_identical(runs());
            }

            #[test]
            fn every_row_is_exercised_on_the_core() {
                super::assert_covered(runs());
            }

            #[test]
            fn code_and_stack_of_the_image_stay_within_their_bounds() {
                super::assert_size(stringify!($module), runs());
            }

            #[test]
            fn cycles_of_on_stay_within_their_bound() {
                super::assert_bound(stringify!($module), runs());
            }

            #[test]
            fn cycles_equal_the_golden_file() {
                super::assert_cycles(stringify!($module), runs());
            }
        })+

        /// The runs of every algorithm.
        fn all() -> Vec<Run> {
            [$($module::runs()),+].concat()
        }
    };
}

cc_rp::for_each_rp!(tests);

/// A notification point that serves several algorithms is covered by the runs of all of them.
#[test]
fn every_row_of_every_notification_point_is_exercised_on_the_core() {
    let met = cycles::coverage(&all());
    for entry in cc_np::registry::ALL {
        let met = met.iter().find(|met| (met.role, met.name) == ("notification point", entry.name));
        let met = met.unwrap_or_else(|| panic!("{} serves no algorithm", entry.name));
        assert!(met.missing.is_empty(), "{met}");
    }
}

/// The runs of an algorithm; none if the algorithm has no image.
fn measure(algorithm: &str) -> Vec<Run> {
    if firmware::has_image(algorithm).unwrap() { cycles::measure(algorithm).unwrap() } else { Vec::new() }
}

fn assert_identical(runs: &[Run]) {
    for Run { algorithm, preset, trace, report, .. } in runs {
        let core = report.core.as_ref().unwrap();
        assert!(core.identical, "{algorithm}, {preset}, {trace}: {:?}", core.difference);
        assert!(core.events > 2_000, "{algorithm}, {preset}, {trace}: {} events", core.events);
        assert_eq!(report.sizes.image.map(|size| size.peer_bytes), Some(report.sizes.native.peer_bytes));
    }
}

fn assert_covered(runs: &[Run]) {
    for met in cycles::coverage(runs).iter().filter(|met| met.role == "reaction point") {
        assert!(met.missing.is_empty(), "{met}");
    }
}

fn assert_cycles(algorithm: &str, runs: &[Run]) {
    let golden = fs::read_to_string(cycles::golden().unwrap()).unwrap();
    let golden: Vec<&str> = golden.lines().filter(|line| line.split(' ').next() == Some(algorithm)).collect();
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

/// Checks the size of the image's code, and that the stack bytes it used, which are measured by filling the stack with a
/// pattern, do not exceed the bound computed from its code.
fn assert_size(algorithm: &str, runs: &[Run]) {
    let ImageSize { text, stack: bound } = hil_measure::footprint::of_image(algorithm).unwrap();
    let seen = runs.iter().filter_map(|run| Some(run.report.core.as_ref()?.memory?.stack_bytes)).max().unwrap();
    println!("{algorithm}: {text} bytes of code, {seen} bytes of stack seen, {bound} at most");
    assert!(0 < seen && u64::from(seen) <= bound, "{algorithm}: {seen} bytes of stack, bound {bound}");
    // The limits in the README, for the whole image: its stack is the sum for set-up, an event and the timer interrupt.
    assert!((text < 16_384 && bound < 1_024) || algorithm != "dcqcn", "{algorithm}: {text} of code, {bound} of stack");
}

/// Checks that the cycles of `on` do not exceed those of the longest path through its code. An `on` with a loop has no bound.
fn assert_bound(algorithm: &str, runs: &[Run]) {
    let bound = cycles::on_bound(algorithm).unwrap();
    let seen = runs.iter().flat_map(|run| run.cycles.values()).filter_map(|spans| Some(spans.on?.max)).max();
    // The compiler removes the `on` of a machine without state.
    let seen = seen.unwrap_or(0);
    println!("{algorithm}: on took {seen} cycles, at most {bound:?}");
    assert!(bound.is_none_or(|bound| seen <= bound), "{algorithm}: on took {seen} cycles, at most {bound:?}");
    assert!(bound.is_some() || !BOUNDED.contains(&algorithm), "the on of {algorithm} has a loop, and must have none");
}

/// Machines whose `on` must have no loop.
const BOUNDED: [&str; 6] = ["timely", "timely_tcd", "swift", "rcc", "rcc_sender", "dctcp"];
