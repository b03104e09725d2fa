//! The library's DCQCN and the same algorithm in fixed-point C take equal decisions, to the bit; the library takes at most a
//! tenth more cycles and bytes.

use cc_rp::dcqcn::Dcqcn;
use hil_measure::c_comparison::{measure, ratios};
use hil_measure::c_firmware::{Decider, Place, Program, Trace};
use std::path::Path;

#[test]
fn the_library_decides_as_fixed_point_c_and_costs_at_most_a_tenth_more() {
    if let Some(program) = Place::IBEX.missing() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let implementations = measure().unwrap();
    // Those after the third compute with doubles, and need not take equal decisions.
    assert!(implementations.iter().take(3).all(|implementation| implementation.identical));
    implementations.iter().for_each(|implementation| print!("{implementation}"));
    let (cycles, bytes) = ratios(&implementations).unwrap();
    assert_eq!(cycles.len(), 6);
    for (preset, ratio) in cycles {
        assert!(ratio <= 1.1, "{preset}: {ratio:.3} times the cycles");
    }
    assert!(bytes <= 1.1, "{bytes:.3} times the bytes");
}

/// Presets with changed settings, both by number. Together they reach every branch of the algorithm.
const VARIANTS: [(u32, &[(u32, u32)]); 12] = [
    (0, &[(15, 4)]),
    (0, &[(9, 10), (10, 70)]),
    (0, &[(17, 1), (9, 10)]),
    (0, &[(0, 0), (3, 1), (4, 1)]),
    (0, &[(7, 50_000), (11, 20_000), (2, 5)]),
    (0, &[(12, 0), (13, 1)]),
    (1, &[(0, 0), (1, 0), (3, 40), (6, 32_000)]),
    (1, &[(12, 100), (13, 2), (15, 100), (10, 100)]),
    (3, &[(20, 0), (22, 0), (2, 10), (24, 10)]),
    (4, &[(16, 1), (15, 7), (14, 1_023), (3, 100)]),
    (1, &[(24, 16)]),
    (2, &[(24, 11), (12, 900), (9, 10)]),
];

#[test]
fn the_library_decides_as_fixed_point_c_with_other_settings() {
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
