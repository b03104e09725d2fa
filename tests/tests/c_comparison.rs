//! The library and the same DCQCN in fixed-point C: bit-identical decisions, and a similar number of cycles.

use cc_rp::dcqcn::Dcqcn;
use hil_measure::c_comparison::{measure, ratios};
use hil_measure::c_firmware::{Decider, Place, Program, Trace};
use std::path::Path;

#[test]
fn the_c_opponent_decides_alike_and_is_not_much_cheaper() {
    if let Some(program) = Place::IBEX.missing() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let contestants = measure().unwrap();
    assert!(contestants.iter().take(3).all(|contestant| contestant.identical));
    contestants.iter().for_each(|contestant| print!("{contestant}"));
    let (cycles, bytes) = ratios(&contestants).unwrap();
    assert_eq!(cycles.len(), 5);
    for (preset, ratio) in cycles {
        assert!(ratio <= 1.1, "{preset}: {ratio:.3} times the cycles");
    }
    assert!(bytes <= 1.1, "{bytes:.3} times the bytes");
}

/// Settings by number, on top of a preset, that between them reach every branch of the algorithm.
const VARIANTS: [(u32, &[(u32, u32)]); 10] = [
    (0, &[(15, 4)]),
    (0, &[(9, 10), (10, 70)]),
    (0, &[(17, 1), (9, 10)]),
    (0, &[(0, 0), (3, 1), (4, 1)]),
    (0, &[(7, 50_000), (11, 20_000), (2, 5)]),
    (0, &[(12, 0), (13, 1)]),
    (1, &[(0, 0), (1, 0), (3, 40), (6, 32_000)]),
    (1, &[(12, 100), (13, 2), (15, 100), (10, 100)]),
    (3, &[(20, 0), (22, 0), (2, 10)]),
    (4, &[(16, 1), (15, 7), (14, 1_023), (3, 100)]),
];

#[test]
fn with_other_settings_both_decide_alike_too() {
    if let Some(program) = Place::IBEX.missing() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets/c-baseline/vendor.c");
    let program = Program { place: Place::IBEX, by: Decider::Source(&source), optimise: "-O2", timed: false };
    for ((preset, settings), seed) in VARIANTS.into_iter().zip(100..) {
        let trace = Trace { preset, settings: settings.to_vec(), ..Trace::random::<Dcqcn>(seed, 1_500) };
        let found = program.run(&program.build(&trace, folder.path()).unwrap(), 1_500).unwrap();
        let native = trace.native::<Dcqcn>().unwrap();
        for (nth, (is, should)) in found.decisions.iter().zip(&native.decisions).enumerate() {
            assert_eq!(is, should, "{preset} {settings:?}: record {nth}, {:?}", trace.records[nth]);
        }
        assert_eq!(found.counters, native.counters, "{preset} {settings:?}");
    }
}
