//! Every algorithm's image on the core model decides as the library does, under every preset; the runs exercise every row of
//! both machines' transition tables; the cycles are those of the golden file.

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
            fn image_and_library_decide_alike() {
                super::assert_identical(runs());
            }

            #[test]
            fn every_row_is_met_on_the_core() {
                super::assert_covered(runs());
            }

            #[test]
            fn the_image_is_as_small_as_promised_and_its_stack_never_deeper_than_its_bound() {
                super::assert_size(stringify!($module), runs());
            }

            #[test]
            fn on_never_takes_more_than_its_bound() {
                super::assert_bound(stringify!($module), runs());
            }

            #[test]
            fn cycles_are_those_written_down() {
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

/// For a notification point that serves several algorithms, the runs of all of them count.
#[test]
fn every_row_of_every_notification_point_is_met_on_the_core() {
    let met = cycles::coverage(&all());
    for entry in cc_np::registry::ALL {
        let met = met.iter().find(|met| (met.role, met.name) == ("notification point", entry.name));
        let met = met.unwrap_or_else(|| panic!("{} serves no algorithm", entry.name));
        assert!(met.missing.is_empty(), "{met}");
    }
}

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
    assert_eq!(differs, None, "found and written down: hil cycles --write, if that is meant");
    assert_eq!(found.len(), golden.len(), "lines written down: hil cycles --write, if that is meant");
}

/// Checks the size of the image's code, and its stack: the bytes used, measured by painting, against the bound from its code.
fn assert_size(algorithm: &str, runs: &[Run]) {
    let ImageSize { text, stack: bound } = hil_measure::footprint::of_image(algorithm).unwrap();
    let seen = runs.iter().filter_map(|run| Some(run.report.core.as_ref()?.memory?.stack_bytes)).max().unwrap();
    println!("{algorithm}: {text} bytes of code, {seen} bytes of stack seen, {bound} at most");
    assert!(0 < seen && u64::from(seen) <= bound, "{algorithm}: {seen} bytes of stack, bound {bound}");
    // The limits in the README, for the whole image. Its stack is that of set-up, an event, and the timer interrupt.
    assert!((text < 16_384 && bound < 1_024) || algorithm != "dcqcn", "{algorithm}: {text} of code, {bound} of stack");
}

/// Checks the cycles of `on` against the longest path through its code, where it has no loop.
fn assert_bound(algorithm: &str, runs: &[Run]) {
    let bound = cycles::on_bound(algorithm).unwrap();
    let seen = runs.iter().flat_map(|run| run.cycles.values()).filter_map(|spans| Some(spans.on?.max)).max();
    // The compiler removes the `on` of a machine without state.
    let seen = seen.unwrap_or(0);
    println!("{algorithm}: on took {seen} cycles, at most {bound:?}");
    assert!(bound.is_none_or(|bound| seen <= bound), "{algorithm}: on took {seen} cycles, at most {bound:?}");
    assert!(bound.is_some() || !BOUNDED.contains(&algorithm), "the on of {algorithm} has come by a loop");
}

/// Machines whose `on` has no loop.
const BOUNDED: [&str; 5] = ["timely", "timely_tcd", "swift", "rcc", "rcc_sender"];
