//! Firmware in C against the C library takes the decisions of the machines in Rust: on Ibex, and on QEMU's Cortex-M.
//! Without the cross compilers, or QEMU, there is nothing to show, and the tests say so.

use cc_rp::ReactionPoint;
use cc_rp::registry::Visitor;
use hil::c_firmware::{By, Place, Program, Trace};
use hil::library;
use std::path::Path;

/// Records of a trace: as many as a microbit's flash has room for.
const RECORDS: usize = 1_000;

/// A trace and what the machine makes of it.
struct Play<'a> {
    place: Place,
    library: &'a Path,
    seed: u64,
}

impl Visitor for Play<'_> {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        let Self { place, library, seed } = self;
        let folder = tempfile::tempdir().unwrap();
        let mut trace = Trace::random::<A>(seed, RECORDS);
        if A::NAME == "dcqcn" {
            trace.settings = vec![(2, 120), (8, 40)];
        }
        let native = trace.native::<A>().unwrap();
        let program = Program { place, by: By::Library(library), optimise: "-O2", timed: false };
        let elf = program.build(&trace, folder.path()).unwrap();
        let found = program.run(&elf, RECORDS).unwrap();
        for (nth, (is, should)) in found.decisions.iter().zip(&native.decisions).enumerate() {
            assert_eq!(is, should, "{}, {place:?}: record {nth}, {:?}", A::NAME, trace.records[nth]);
        }
        assert_eq!(found.decisions.len(), native.decisions.len());
        assert_eq!(found.counters, native.counters, "{}, {place:?}", A::NAME);
        assert!(native.decisions.windows(2).filter(|two| two[0] != two[1]).count() > 10 || A::NAME == "pfc");
    }
}

fn all_algorithms(place: Place) {
    if let Some(program) = place.missing() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let library = library::build(place.target()).unwrap().path;
    for (seed, entry) in (1..).zip(cc_rp::registry::ALL) {
        cc_rp::registry::with(entry.name, Play { place, library: &library, seed }).unwrap();
    }
}

#[test]
fn on_ibex_all_algorithms_decide_as_in_rust() {
    all_algorithms(Place::Ibex);
}

#[test]
fn on_cortex_m_all_algorithms_decide_as_in_rust() {
    Place::CORTEX_M.into_iter().for_each(all_algorithms);
}
