//! Firmware in C that is linked with the C library takes the decisions of the machines in Rust: on Ibex, and on QEMU's
//! Cortex-M. Without the cross compilers or QEMU the tests are skipped, with a message.

use cc_rp::registry;
use hil_measure::c_firmware::{Place, Play, RunResult};
use hil_measure::library;

/// The number of records in a trace: as many as fit into a microbit's flash.
const RECORDS: usize = 1_000;

fn all_algorithms(place: Place) {
    if let Some(program) = place.missing() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let library = library::build(place.target()).unwrap().path;
    for (seed, entry) in (1..).zip(registry::ALL) {
        let settings = if entry.name == "dcqcn" { vec![(2, 120), (8, 40)] } else { Vec::new() };
        let play = Play { place, library: &library, settings, seed, records: RECORDS };
        let played: RunResult = play.run(entry.name).unwrap();
        assert_eq!(played.difference(), None, "{}, {place:?}", entry.name);
        assert_eq!(played.found.decisions.len(), RECORDS);
        let changes = played.native.decisions.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes > 10 || entry.name == "pfc");
    }
}

#[test]
fn on_ibex_all_algorithms_decide_as_in_rust() {
    all_algorithms(Place::IBEX);
}

#[test]
fn on_cortex_m_all_algorithms_decide_as_in_rust() {
    Place::CORTEX_M.into_iter().for_each(all_algorithms);
}
