//! The memory footprint of every algorithm and table equals the golden files, one for each target.

use hil_cores::firmware::TARGETS;
use hil_measure::footprint;

#[test]
fn footprints_equal_the_golden_files() {
    for target in TARGETS {
        let text = footprint::GOLDEN_HEAD.to_owned() + &footprint::text(&footprint::measure(target, &[]).unwrap());
        let golden = footprint::golden(target).unwrap();
        let kept = std::fs::read_to_string(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        let stale = text.lines().zip(kept.lines()).find(|(now, then)| now != then);
        assert!(text == kept, "{}: {stale:?}: if the change is intended, run hil footprint --write", golden.display());
    }
}
