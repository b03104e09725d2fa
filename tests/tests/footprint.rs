//! The memory footprint of every algorithm and table equals the golden file.

use hil_cores::firmware::TARGETS;
use hil_measure::footprint;

#[test]
fn footprints_are_as_written_down() {
    for target in TARGETS {
        let text = footprint::GOLDEN_HEAD.to_owned() + &footprint::text(&footprint::measure(target, &[]).unwrap());
        let golden = footprint::golden(target).unwrap();
        let kept = std::fs::read_to_string(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        let stale = text.lines().zip(kept.lines()).find(|(now, then)| now != then);
        assert!(
            text == kept,
            "{}: {stale:?}: run hil footprint --write, and look at what it changes",
            golden.display()
        );
    }
}
