//! Property tests of every algorithm: no sequence of operations breaks an invariant.
//!
//! [`fuzz::rp_of`], [`fuzz::np_of`] and [`fuzz::cp_of`] pass random operations to two or three engines of an algorithm, and
//! document what must hold after each of them. The operations include sequence numbers and clocks that wrap, packets and
//! acknowledgements of zero bytes, feedback that is repeated, reordered, late or missing, telemetry that is stale or of a port
//! that is down, changes of path, clocks that jump either way, tables that overflow, slots and queue pair numbers used again,
//! go-back-N, pause storms, and new settings under traffic.

/// Runs an algorithm on random bytes, once for each seed from 0 up to `seeds`. Returns the number of operations in the bytes.
fn operations(name: &str, seeds: u64, run: impl Fn(&str, &[u8]) -> usize) -> usize {
    let mut operations = 0;
    for seed in 0..seeds {
        println!("{name}, seed {seed}");
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
        operations += run(name, &bytes);
    }
    println!("{name}: {operations} operations");
    operations
}

#[test]
fn no_sequence_of_events_breaks_an_invariant_of_any_reaction_point() {
    for entry in cc_rp::registry::ALL {
        let operations = operations(entry.name, 20_000, fuzz::rp_of);
        assert!(operations >= 300_000, "{}: {operations} operations only", entry.name);
    }
}

#[test]
fn no_sequence_of_packets_breaks_an_invariant_of_any_notification_point() {
    for entry in cc_np::registry::ALL {
        let operations = operations(entry.name, 10_000, fuzz::np_of);
        assert!(operations >= 300_000, "{}: {operations} operations only", entry.name);
    }
}

#[test]
fn no_sequence_of_events_breaks_an_invariant_of_any_stage_of_a_switch() {
    for entry in cc_cp::registry::ALL {
        let operations = operations(entry.name, 5_000, fuzz::cp_of);
        assert!(operations >= 100_000, "{}: {operations} operations only", entry.name);
    }
}
