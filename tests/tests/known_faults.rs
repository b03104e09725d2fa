//! Faults that other implementations of congestion control shipped, by number: A DCQCN, B telemetry and power, C delay and
//! windows, D probes and parameters, F tables and sequence numbers. Each number has a test that is named after it, here
//! or beside the code, or a line below that says why it cannot apply, or that its test is still to be written.
//!
//! Beside the code:
//! - A1, A4, A6, A10, D4: cc-rp/tests/dcqcn.rs; A4, D4 of DCQCN+ in cc-rp/src/dcqcn_plus/tests.rs
//! - A3: cc-cp/src/red.rs; A19 (a TOS byte is refused as DSCP): cc-np/src/dcqcn.rs
//! - A8: cc-np/src/dcqcn.rs, cc-np/src/dcqcn_plus/tests.rs, cc-np/src/engine/tests.rs
//! - A14, A16, F5 of the receiver: cc-np/src/engine/tests.rs
//! - B1: cc-core/src/hops.rs; B2, B5, B8, B14, F2: cc-rp/src/hpcc/tests.rs
//! - B7: cc-core/src/wire/tests/shim.rs (sizes), cc-rp/src/engine/tests.rs (telemetry for nobody)
//! - B11, B12, B19, C8, C10, C14: cc-rp/src/powertcp/tests.rs
//! - C1, D1: cc-rp/src/engine/tests.rs; C2, C6, C12, C17: cc-rp/src/timely/tests.rs
//! - C22, F1: cc-rp/src/swift/tests.rs
//! - F12: cc-core/src/table/{slot,ring,peer}.rs and fuzz/src/tables.rs, against maps of the standard library
//!
//! Cannot apply:
//! - C23: no traffic matrix is read.
//! - D2: no probes are sent, so none backs off; round trips come from acknowledgements.
//!
//! Still to be written: A21, A23, A24, B18 (needs the simulator), C18, C26, C27, D7, D8.

use cc_core::table::SlotTable;
use cc_core::{Bytes, CnpHint, Instant, Nanos, Port, Qpn, Rate};
use cc_rp::{Cx, Event, RateLimiter, ReactionPoint, RpEngine, registry};

const ROWS: &str = "A1 A3 A4 A6 A8 A10 A14 A16 A19 A21 A23 A24 B1 B2 B5 B7 B8 B11 B12 B14 B18 B19 C1 C2 C6 C8 C10 C12 C14 \
    C17 C18 C22 C23 C26 C27 D1 D2 D4 D7 D8 F1 F2 F5 F7 F12";

#[test]
fn every_number_is_accounted_for() {
    let text = include_str!("known_faults.rs");
    let listed = text.lines().filter(|line| line.starts_with("//!")).collect::<String>();
    let words: Vec<_> = listed.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    for row in ROWS.split_whitespace() {
        let here = text.contains(&format!("\nfn {}_", row.to_lowercase()));
        assert!(here || words.contains(&row), "{row}");
    }
}

struct Deaf;

impl RateLimiter for Deaf {
    fn set(&mut self, _: u16, _: Rate, _: Bytes, _: Nanos) {}
}

struct Reuse;

impl registry::Visitor for Reuse {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        let port = Port { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_500), base_rtt: Nanos::new(10_000) };
        let params = || A::check(&A::PRESETS[0].values, &port).unwrap();
        let now = Instant::from_nanos(1_000_000);
        let mut engine = RpEngine::<A, 1, 2>::new(now, port, params());
        let old = engine.open(now, 3, &mut Deaf).unwrap();
        engine.bind(old, Qpn::new(5)).unwrap();
        for _ in 0..3 {
            engine.cnp(now, Qpn::new(5), CnpHint::Plain, &mut Deaf);
        }
        assert!(engine.close(old));
        let new = engine.open(now, 3, &mut Deaf).unwrap();
        assert!(engine.cnp(now, Qpn::new(5), CnpHint::Plain, &mut Deaf).is_none(), "{}", A::NAME);
        let params = params();
        let cx = Cx { now, port: &port, params: &params, pause: Nanos::ZERO, unpaused: now.stamp() };
        let mut fresh = A::open(&cx);
        fresh.on(&cx, &Event::Wake);
        assert_eq!(engine.state(new), Some(&fresh), "{}", A::NAME);
    }
}

#[test]
fn f5_a_flow_in_a_used_slot_begins_as_new_under_every_algorithm() {
    for entry in registry::ALL {
        registry::with(entry.name, Reuse).unwrap();
    }
}

#[test]
fn f7_a_full_table_refuses_one_more_a_million_times_and_takes_it_when_one_has_left() {
    let mut table = SlotTable::<u32, 128, 256>::new();
    let mut handles: Vec<_> = (0..128).map(|value| table.open(value).unwrap()).collect();
    for turn in 0..1_000_000_u32 {
        assert_eq!(table.open(turn), Err(turn));
        let at = turn as usize % 128;
        assert!(table.close(handles[at]).is_some() && table.get(handles[at]).is_none());
        handles[at] = table.open(turn).unwrap();
        assert_eq!((table.len(), table.get(handles[at])), (128, Some(&turn)));
    }
}
