//! The conditions that every reaction point must survive, as one property of all of them.
//!
//! Random operations meet two engines of each algorithm, see [`fuzz::rp_of`]: sequence numbers and clocks that wrap,
//! packets and acknowledgements of no bytes, feedback that is repeated, reordered, late or missing, telemetry that is
//! stale or of a port that is down, other paths, clocks that jump either way, tables that overflow, slots and queue pair
//! numbers used again, and go-back-N. What must hold after every operation is written there.

use cc_rp::registry;

#[test]
fn no_sequence_of_events_breaks_an_invariant_of_any_reaction_point() {
    for entry in registry::ALL {
        let mut operations = 0;
        for seed in 0..20_000_u64 {
            println!("{}, seed {seed}", entry.name);
            let mut state = seed;
            let mut draw = || {
                // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            };
            let length = draw() % 2_000;
            let bytes: Vec<u8> = (0..length).map(|_| draw() as u8).collect();
            operations += fuzz::rp_of(entry.name, &bytes);
        }
        println!("{}: {operations} operations", entry.name);
        assert!(operations >= 300_000, "{}: {operations} operations only", entry.name);
    }
}
