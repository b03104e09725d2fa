//! Tests of faults that other implementations of congestion control shipped. `tests/faults.md` numbers and describes the faults
//! and names a test for each. Most of these tests are beside the code; those that need several crates are here.

use cc_core::params::{ParamError, Settings};
use cc_core::table::{Fixed, Handle, SlotTable};
use cc_core::wire::shim::{IntShim, Rcc, Time};
use cc_core::wire::{Addresses, Aeth, Bth, Extensions, Frame, Mac, Roce, Shims, TableCrc, Tags, opcode};
use cc_core::{
    Bytes, CnpBody, CnpBodyKind, CnpKind, Delay, Ecn, Grant, Hop, Instant, IntLayout, IntStackBuilder, Link, Mark,
    Nanos, Psn, Qpn, Rate, Stamp, Zeroed,
};
use cc_np::{NotificationPoint, NpEngine, RxMeta};
use cc_rp::{Ack, AckProgress, Cx, Event, FlowDecision, RateLimiter, ReactionPoint, RpEngine, registry};
use hil_capture::Source;
use hil_replay::{Options, replay};
use programs::{FrameOut, HeaderCache, TransmitRing};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tests::sample;

/// The fault numbers with which a test's name ends: `C10` and `C14` of `cuts_end_c10_c14`.
fn numbers(name: &str) -> Vec<String> {
    let mut numbers: Vec<_> = name.rsplit('_').take_while(|word| is_number(word)).map(str::to_uppercase).collect();
    numbers.reverse();
    numbers
}

/// Whether a word is a fault number: a letter from a to f and digits.
fn is_number(word: &str) -> bool {
    let mut letters = word.chars();
    let number = letters.next().filter(|letter| ('a'..='f').contains(letter)).map(|_| letters.as_str());
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit()))
}

/// Adds the names of the tests in the folder's Rust files that end with fault numbers.
fn numbered_tests(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            numbered_tests(&path, tests);
        } else if name.ends_with(".rs") {
            let source = fs::read_to_string(&path).unwrap();
            let functions = source.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            let names = functions.filter_map(|function| function.split('(').next());
            tests.extend(names.filter(|name| !numbers(name).is_empty()).map(str::to_owned));
        }
    }
}

#[test]
fn every_fault_is_explained_and_has_a_test_or_a_reason_for_none() {
    let mut tests = BTreeSet::new();
    numbered_tests(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), &mut tests);
    let mut lines = BTreeMap::new();
    for line in include_str!("../faults.md").lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, fault, test] = cells[..] else { panic!("expected number, fault and test: {line}") };
        assert!(is_number(&number.to_lowercase()) && fault.ends_with('.'), "{line}");
        assert_eq!(lines.insert(number.to_owned(), test), None, "{number} comes twice");
    }
    let named: BTreeSet<String> = tests.iter().flat_map(|test| numbers(test)).collect();
    for (number, test) in &lines {
        match test.strip_prefix('`').and_then(|test| test.strip_suffix('`')) {
            Some(test) => assert!(tests.contains(test) && numbers(test).contains(number), "{number}: no test {test}"),
            None => {
                let reason = test.starts_with("cannot apply: ") || test.starts_with("missing: ");
                assert!(reason && !named.contains(number), "{number}: a test, or a reason why there is none: {test}");
            }
        }
    }
    let unexplained: Vec<&String> = named.iter().filter(|number| !lines.contains_key(*number)).collect();
    assert!(unexplained.is_empty(), "tests/faults.md lacks {unexplained:?}");
}

#[test]
fn fault_numbers_are_read_from_the_names_of_tests() {
    assert_eq!(numbers("cuts_end_c10_c14"), ["C10", "C14"]);
    assert_eq!(numbers("order_a1"), ["A1"]);
    assert_eq!(numbers("a_2_b"), [""; 0]);
    assert_eq!(numbers("b2_names"), [""; 0]);
    assert_eq!(numbers("reads_u32"), [""; 0]);
}

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_500), base_rtt: Nanos::new(10_000) };

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(1_000_000 + nanos)
}

/// The progress of an acknowledgement of a few packets.
const PROGRESS: AckProgress = AckProgress { acked: Bytes::new(20_000), rtt: None };

/// A rate limiter that keeps the last values of each slot.
#[derive(Default)]
struct Pacer(BTreeMap<u16, (Rate, Bytes, Nanos)>);

impl RateLimiter for Pacer {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.0.insert(index, (rate, window, hold));
    }
}

fn params<A: ReactionPoint>() -> A::Params {
    A::check(&A::PRESETS[0].values, &LINK).unwrap()
}

fn flow<A: ReactionPoint>(engine: &mut RpEngine<A, 4, 8>, now: Instant, qpn: Option<u32>, pacer: &mut Pacer) -> Handle {
    let handle = engine.open(now, 3, pacer).unwrap();
    if let Some(qpn) = qpn {
        engine.bind(handle, Qpn::new(qpn)).unwrap();
    }
    handle
}

/// A standard CNP arrives for a local queue pair.
fn cnp<A: ReactionPoint>(
    engine: &mut RpEngine<A, 4, 8>,
    now: Instant,
    qpn: u32,
    pacer: &mut Pacer,
) -> Option<FlowDecision> {
    let flow = engine.find(Qpn::new(qpn))?;
    engine.step(now, flow, &Event::Cnp { body_kind: CnpBodyKind::Standard }, pacer)
}

/// The algorithm is a type parameter of the engine: a driver with two algorithms keeps two engines.
#[test]
fn queue_pairs_keep_their_algorithm_beside_datagram_queue_pairs_a21() {
    let (mut one, mut other, mut quiet) = (Pacer::default(), Pacer::default(), Pacer::default());
    let mut dcqcn = RpEngine::<cc_rp::dcqcn::Dcqcn, 4, 8>::new(at(0), LINK, params::<cc_rp::dcqcn::Dcqcn>());
    let hpcc = || RpEngine::<cc_rp::hpcc::Hpcc5, 4, 8>::new(at(0), LINK, params::<cc_rp::hpcc::Hpcc5>());
    let (mut hpcc, mut alone) = (hpcc(), hpcc());
    let five = flow(&mut dcqcn, at(0), Some(5), &mut one);
    let six = flow(&mut hpcc, at(0), Some(6), &mut other);
    let same = flow(&mut alone, at(0), Some(6), &mut quiet);
    cnp(&mut dcqcn, at(100), 5, &mut one).unwrap();
    let halved = one.0[&five.index()];
    assert_eq!(halved.0, Rate::from_gbps(50));

    // Each engine also has a datagram flow; that of DCQCN gets a CNP.
    let ud = [flow(&mut dcqcn, at(200), Some(7), &mut one), flow(&mut hpcc, at(200), None, &mut other)];
    cnp(&mut dcqcn, at(300), 7, &mut one).unwrap();
    hpcc.sent(at(300), ud[1], Psn::new(9), Bytes::new(1_500), &mut other);
    assert_eq!(one.0[&ud[0].index()].0, Rate::from_gbps(50));
    assert_eq!(one.0[&five.index()], halved);

    // HPCC ignores the CNP for QP 6, which is paced as the only flow of another engine.
    assert!(cnp(&mut hpcc, at(400), 6, &mut other).is_none());
    for nth in 1..5 {
        let (elapsed, psn) = (10_000 * nth, 10 + nth);
        let frame = acknowledgement(psn, 6, elapsed, 100_000 * nth);
        for (engine, handle, pacer) in [(&mut hpcc, six, &mut other), (&mut alone, same, &mut quiet)] {
            engine.sent(at(elapsed.into()), handle, Psn::new(psn + 1), Bytes::new(1_500), pacer);
            engine.ack(at(elapsed.into()), &Roce::of(&frame).unwrap(), PROGRESS, pacer).unwrap();
        }
        assert_eq!(hpcc.state(six), alone.state(same));
        assert_eq!(other.0[&six.index()], quiet.0[&same.index()]);
    }
    assert!(other.0[&six.index()].0 < LINK.line_rate);
    assert_eq!(one.0[&five.index()], halved);
}

/// An acknowledgement with the signals of every algorithm, `elapsed` nanoseconds after [`at`] zero, of a packet that was sent
/// 50 us before.
fn acknowledgement(psn: u32, qpn: u32, elapsed: u32, queue: u32) -> Vec<u8> {
    let int = IntStackBuilder::new(IntLayout::Wide, 1).with_room(IntShim::ROOM).with([hop(elapsed, queue)]);
    let echo = Stamp::from_bits(at(elapsed.into()).stamp().to_bits() - 50_000);
    let shims = Shims {
        time: Some(Time { echo, hops: 3, ..Time::default() }),
        int: Some(IntShim::of(&int)),
        rcc: Some(Rcc { window: Bytes::new(20_000), flows: 4, utilisation: 0x2000, echo }),
        echo: Some(Mark::Congested),
        ..Shims::NONE
    };
    let extensions = Extensions { aeth: Aeth::default(), ..Extensions::default() };
    frame(shims, opcode::ACKNOWLEDGE, Psn::new(psn), Qpn::new(qpn), Ecn::Ect0, extensions)
}

fn frame(shims: Shims<'_>, opcode: u8, psn: Psn, dest_qp: Qpn, ecn: Ecn, extensions: Extensions) -> Vec<u8> {
    let frame = Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: [10, 0, 0, 2].into(), destination: [10, 0, 0, 1].into() },
        dscp: 48,
        ecn,
        hop_limit: 64,
        udp_source: 0xc000,
        shims,
        bth: Bth { opcode, psn, dest_qp, ..Bth::default() },
        extensions,
        payload: &[],
    };
    frame.to_vec::<TableCrc>().unwrap()
}

/// The telemetry of a port of 100 Gb/s that has sent without a gap for `elapsed` nanoseconds.
fn hop(elapsed: u32, queue: u32) -> Hop {
    Hop { mbps: 100_000, flags: 0, clock: elapsed, sent: elapsed / 64 * 12, queue }
}

/// A transmit ring with room for one frame. It drops every frame.
struct Ring(Vec<u8>);

impl TransmitRing for Ring {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn transmit(&mut self, _: usize) {}
}

struct Neighbour;

impl registry::Visitor for Neighbour {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        let last = || A::check(&A::PRESETS.last().unwrap().values, &LINK).unwrap();
        let run = |disturbed: bool| {
            let mut pacer = Pacer::default();
            let mut configured = RpEngine::<A, 4, 8>::new(at(0), LINK, last());
            let handle = flow(&mut configured, at(0), Some(5), &mut pacer);
            for nth in 1..6 {
                if disturbed {
                    // Another port comes up, each time with the first preset.
                    assert!(RpEngine::<A, 4, 8>::new(at(0), LINK, params::<A>()).is_empty());
                }
                let elapsed = 10_000 * nth;
                cnp(&mut configured, at(elapsed.into()), 5, &mut pacer);
                configured.sent(at(elapsed.into()), handle, Psn::new(11 + nth), Bytes::new(1_500), &mut pacer);
                let frame = acknowledgement(10 + nth, 5, elapsed, 100_000 * nth);
                configured.ack(at(elapsed.into()), &Roce::of(&frame).unwrap(), PROGRESS, &mut pacer);
            }
            (pacer.0, *configured.state(handle).unwrap())
        };
        assert_eq!(run(true), run(false), "{}", A::NAME);
    }
}

/// An engine owns its settings and shares nothing with another, so that starting one cannot reset the settings of another.
#[test]
fn starting_an_engine_leaves_the_settings_of_another_unchanged_a23() {
    for entry in registry::ALL {
        registry::with(entry.name, Neighbour).unwrap();
    }
    type Dcqcn = cc_np::dcqcn::Dcqcn;
    let checked = |interval| {
        let mut settings = Dcqcn::PRESETS[0].values;
        settings.min_time_between_cnps = interval;
        Dcqcn::check(&settings, &LINK).unwrap()
    };
    let mut port = NpEngine::<Dcqcn, 2, 2>::new(at(0), LINK, checked(50));
    port.set_params(checked(0));
    assert!(NpEngine::<Dcqcn, 2, 2>::new(at(0), LINK, checked(50)).is_enabled());
    let marked = frame(Shims::NONE, opcode::SEND_ONLY, Psn::new(1), Qpn::new(9), Ecn::Ce, Extensions::default());
    for nanos in [0, 1, 2] {
        let rx = RxMeta::new(at(nanos).stamp(), Some(Qpn::new(8)));
        let (mut ring, headers) = (Ring(vec![0; 256]), HeaderCache::<Fixed<0>, 4>::ZEROED);
        let mut out = FrameOut::<_, _, TableCrc>::new(&mut ring, &headers);
        let arrived = port.arrival(at(nanos), &Roce::of(&marked).unwrap(), rx, &mut out);
        assert_eq!(arrived.cnp, cc_np::CnpOutcome::Sent, "the interval between CNPs was set to 0");
    }
}

/// The series of decisions for one flow, during congestion that every signal reports.
struct Congestion;

impl registry::Visitor for Congestion {
    type Output = Vec<(Rate, Bytes, Nanos)>;

    fn visit<A: ReactionPoint>(self) -> Self::Output {
        let mut pacer = Pacer::default();
        let mut engine = RpEngine::<A, 4, 8>::new(at(0), LINK, params::<A>());
        let handle = flow(&mut engine, at(0), None, &mut pacer);
        let mut series = vec![pacer.0[&handle.index()]];
        for nth in 1..400_u32 {
            let (elapsed, psn) = (5_000 * nth, Psn::new(nth));
            let now = at(elapsed.into());
            while engine.next_wake() == Nanos::ZERO {
                engine.wake(now, &mut pacer);
            }
            engine.wake(now, &mut pacer);
            engine.step(now, handle, &Event::Sent { psn: psn.plus(10), bytes: Bytes::new(60_000) }, &mut pacer);
            let congested = nth % 100 < 60;
            if congested && nth % 10 == 0 {
                let body = CnpBody { kind: CnpKind::Undetermined, ue: true, ..CnpBody::default() };
                let body_kind = if nth % 20 == 0 { CnpBodyKind::Extended(body) } else { CnpBodyKind::Standard };
                engine.step(now, handle, &Event::Cnp { body_kind }, &mut pacer);
            }
            let int = hop(elapsed, if congested { 4_000 * (nth % 100) } else { 0 });
            let int = IntStackBuilder::new(IntLayout::Wide, 1).with([int]);
            let rtt = Nanos::new(if congested { 20_000 + 2_000 * (nth % 100) } else { 10_000 });
            let ack = Ack {
                psn,
                acked: Bytes::new(60_000),
                mark: [Mark::None, Mark::Congested, Mark::Undetermined][if congested { nth as usize % 3 } else { 0 }],
                delay: Some(Delay { rtt, hops: 3, ..Delay::default() }),
                int: int.stack(),
                grant: if nth % 2 == 0 {
                    let window = Bytes::new(if congested { 30_000 } else { 120_000 });
                    Grant::Rcc { window, flows: 4, utilisation: 0x2000 }
                } else {
                    let rate = Rate::from_gbps(if congested { 20 } else { 90 });
                    Grant::Mlcc { credit: 1, release: rate, advised_rate: rate }
                },
            };
            engine.step(now, handle, &Event::Ack(ack), &mut pacer);
            series.push(pacer.0[&handle.index()]);
        }
        series
    }
}

#[test]
fn each_algorithm_decides_differently_in_the_same_congestion_and_is_named_in_the_report_c26() {
    let mut seen = BTreeMap::new();
    for entry in registry::ALL {
        let series = registry::with(entry.name, Congestion).unwrap();
        let other = seen.insert(series.clone(), entry.name);
        assert_eq!(other, None, "{} decides as this other algorithm", entry.name);
        assert_eq!(series.iter().any(|&decision| decision != series[0]), entry.name != "pfc", "{}", entry.name);

        let options = Options { algorithm: entry.name.into(), ..Options::default() };
        let report = replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap();
        assert_eq!(report.algorithm.name, entry.name);
        assert!(report.to_string().contains(&format!("\nalgorithm    {}, preset ", entry.name)));
    }
}

struct Table;

impl registry::Visitor for Table {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        for preset in A::PRESETS {
            let mut settings = preset.values;
            let fields = A::Settings::FIELDS;
            for beyond in [fields.len(), fields.len() + 5, usize::MAX] {
                assert!(matches!(settings.set(beyond, 1), Err(ParamError::Unknown)), "{}", A::NAME);
            }
            for (index, field) in fields.iter().enumerate() {
                let outside = [field.max.checked_add(1), field.min.checked_sub(1)];
                for value in outside.into_iter().flatten() {
                    assert!(settings.set(index, value).is_err(), "{}: {}", A::NAME, field.name);
                }
            }
            assert_eq!(settings, preset.values, "{}: a refused value changed the settings", A::NAME);
        }
    }
}

/// The library has no write of several settings by base and count: `check` accepts or refuses a table as a whole. A write of a
/// single setting beyond the table is refused and changes nothing.
#[test]
fn settings_beyond_the_table_or_out_of_range_are_refused_and_change_nothing_d7() {
    for entry in registry::ALL {
        registry::with(entry.name, Table).unwrap();
    }
}

struct Reuse;

impl registry::Visitor for Reuse {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        let mut pacer = Pacer::default();
        let mut engine = RpEngine::<A, 4, 8>::new(at(0), LINK, params::<A>());
        let old = flow(&mut engine, at(0), Some(5), &mut pacer);
        let initial = *engine.state(old).unwrap();
        // Every signal changes the flow's state until the flow is closed.
        let mut late = Vec::new();
        for nth in 1..8 {
            let elapsed = 10_000 * nth;
            cnp(&mut engine, at(elapsed.into()), 5, &mut pacer);
            engine.sent(at(elapsed.into()), old, Psn::new(11 + nth), Bytes::new(1_500), &mut pacer);
            late = acknowledgement(10 + nth, 5, elapsed, 50_000 * nth);
            engine.ack(at(elapsed.into()), &Roce::of(&late).unwrap(), PROGRESS, &mut pacer);
        }
        if A::NAME != "pfc" {
            assert_ne!(engine.state(old), Some(&initial), "{}: no signal changed the state", A::NAME);
        }
        assert!(engine.close(old));

        let now = at(80_000);
        let mut untouched = RpEngine::<A, 4, 8>::new(now, LINK, params::<A>());
        let fresh = flow(&mut untouched, now, Some(6), &mut Pacer::default());
        let new = flow(&mut engine, now, Some(6), &mut pacer);
        assert_eq!(new.index(), old.index(), "the same slot");
        assert_eq!(engine.state(new), untouched.state(fresh), "{}", A::NAME);
        // Late frames for the old queue pair find no flow.
        assert!(cnp(&mut engine, now, 5, &mut pacer).is_none(), "{}", A::NAME);
        assert!(engine.ack(now, &Roce::of(&late).unwrap(), PROGRESS, &mut pacer).is_none(), "{}", A::NAME);
        assert!(engine.step(now, old, &Event::Wake, &mut pacer).is_none(), "{}", A::NAME);
        assert_eq!(engine.state(new), untouched.state(fresh), "{}", A::NAME);

        // A new flow with the old queue pair number does not get the old one's state either.
        assert!(engine.close(new));
        let reopened = flow(&mut engine, now, Some(5), &mut pacer);
        assert_eq!(engine.state(reopened), untouched.state(fresh), "{}", A::NAME);
        let cx = Cx { now, link: &LINK, params: &params::<A>(), pause: Nanos::ZERO, clock_without_pauses: now.stamp() };
        let mut opened = A::open(&cx);
        opened.on(&cx, &Event::Wake);
        assert_eq!(engine.state(reopened), Some(&opened), "{}", A::NAME);
    }
}

/// The comparison covers every field of a flow's state, and an algorithm keeps no other state of a flow.
#[test]
fn a_flow_in_a_reused_slot_starts_with_new_state_under_every_algorithm_f5() {
    for entry in registry::ALL {
        registry::with(entry.name, Reuse).unwrap();
    }
}

#[test]
fn a_full_table_refuses_a_million_flows_and_takes_one_after_each_close_f7() {
    let mut table = SlotTable::<u32, 128, 256>::new();
    let mut handles: Vec<_> = (0..128).map(|value| table.open(value).unwrap()).collect();
    for round in 0..1_000_000_u32 {
        assert_eq!(table.open(round), Err(round));
        let at = round as usize % 128;
        assert!(table.close(handles[at]).is_some() && table.get(handles[at]).is_none());
        handles[at] = table.open(round).unwrap();
        assert_eq!((table.len(), table.get(handles[at])), (128, Some(&round)));
    }
}
