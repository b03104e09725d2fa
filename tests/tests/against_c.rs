//! The library beside the same DCQCN in fixed-point C: the same decisions, to the bit, at a cost that is not far off.

use hil::against::{measure, ratios};
use hil::c_firmware::Place;

#[test]
fn the_c_opponent_decides_alike_and_is_not_much_cheaper() {
    if let Some(program) = Place::Ibex.missing() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let contestants = measure().unwrap();
    assert!(contestants.iter().take(3).all(|contestant| contestant.identical));
    contestants.iter().for_each(|contestant| print!("{contestant}"));
    let (cycles, bytes) = ratios(&contestants).unwrap();
    assert_eq!(cycles.len(), 5);
    for (preset, ratio) in cycles {
        assert!(ratio <= 1.10, "{preset}: {ratio:.3} times the cycles");
    }
    // Copies of the rate step and of a fading alpha, one for each place that comes to them, buy those cycles.
    assert!(bytes <= 2.0, "{bytes:.3} times the bytes");
}
