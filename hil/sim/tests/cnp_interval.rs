//! The receiver's table has room for every flow of the scenario, so the minimum interval between two CNPs of a flow is kept
//! with any number of senders.

use cc_core::Nanos;
use cc_core::wire::opcode::Class;
use cc_core::wire::{self, Parsed};
use cc_cp::QueueStage;
use cc_cp::red::Red;
use hil_sim::incast::Incast;
use hil_sim::named;
use std::collections::BTreeMap;

/// `min_time_between_cnps` of the preset `paper`.
const INTERVAL: u64 = 50_000;

/// With 64 records in sets of four, 56 flows and more would evict each other, and an evicted flow's next packet would start a
/// new interval.
#[test]
fn two_cnps_of_a_flow_are_an_interval_apart_with_any_number_of_senders() {
    for senders in [8, 56, 57, 58, 59, 60, 61, 62, 63, 64, 150] {
        let scenario = Incast { senders, duration: Nanos::new(600_000), ..Incast::SAMPLE };
        let (mut last, mut cnps) = (BTreeMap::new(), 0);
        let mut tap = |now: u64, frame: &[u8]| {
            if let Ok(Parsed::Roce(roce)) = wire::parse(frame, frame.len())
                && roce.info.class() == Class::Cnp
            {
                cnps += 1;
                let before = last.insert(roce.bth.dest_qp.get(), now);
                let gap = before.map_or(u64::MAX, |before| now - before);
                assert!(gap >= INTERVAL, "{senders} senders: {gap} ns between CNPs to {:#x}", roce.bth.dest_qp.get());
            }
            Ok(())
        };
        named::run(&scenario, "dcqcn", Some("paper"), Red::PRESETS[0].values, &mut tap).unwrap();
        assert!(
            last.len() > senders / 2 && cnps > last.len(),
            "{senders} senders: {cnps} CNPs to {} flows",
            last.len()
        );
    }
}
