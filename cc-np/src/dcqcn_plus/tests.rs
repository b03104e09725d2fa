use super::*;
use crate::frames::Ring;
use crate::{ArrivalOutcome, CnpOutcome, NpEngine, RxMeta};
use cc_core::table::RoundRobinTable;
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Icrc, Mac, Roce, Shims, TableCrc, Tags, opcode};
use cc_core::{Bytes, Instant, Psn, Rate};
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

const LINK: Link = Link { line_rate: Rate::from_gbps(10), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };

/// A CNP that was sent: time, destination queue pair, sequence number and period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    now: u64,
    to: u32,
    seq: u16,
    period: u32,
}

/// A port on which flow n has the local queue pair n and the remote queue pair n + 0x80_0000; time is advanced by the test.
struct Bench<const SETS: usize, const WAYS: usize> {
    engine: Box<NpEngine<DcqcnPlus, SETS, WAYS>>,
    ring: Ring,
    now: u64,
    /// When the engine was last called.
    last_call: u64,
}

fn frame(local: u32, ecn: Ecn, opcode: u8) -> Vec<u8> {
    let frame = Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) },
        dscp: 26,
        ecn,
        hop_limit: 64,
        udp_source: 0xc000,
        shims: Shims::NONE,
        bth: Bth { opcode, partition: 0xffff, dest_qp: Qpn::new(local), psn: Psn::new(7), ..Bth::default() },
        extensions: Extensions::default(),
        payload: &[0xa5; 64],
    };
    frame.to_vec::<TableCrc>().unwrap()
}

const fn remote(local: u32) -> Qpn {
    Qpn::new(local | 0x80_0000)
}

impl<const SETS: usize, const WAYS: usize> Bench<SETS, WAYS> {
    fn new(settings: &DcqcnPlusSettings, now: u64) -> Self {
        let params = DcqcnPlus::check(settings, &LINK).unwrap();
        Self {
            engine: Box::new(NpEngine::new(Instant::from_nanos(now), LINK, params)),
            ring: Ring::new(128),
            now,
            last_call: now,
        }
    }

    /// A packet of a flow arrives. The remote queue pair is known, except for datagrams.
    fn arrive(&mut self, local: u32, ecn: Ecn) -> ArrivalOutcome {
        let now = Instant::from_nanos(self.now);
        let data = frame(local, ecn, opcode::SEND_MIDDLE);
        self.ring.paths.insert(local, (data.clone(), remote(local)));
        let rx = RxMeta::new(now.stamp(), Some(remote(local)));
        self.last_call = self.now;
        self.engine.arrival(now, &Roce::of(&data).unwrap(), rx, &mut self.ring)
    }

    fn wake(&mut self) -> CnpOutcome {
        self.last_call = self.now;
        self.engine.wake(Instant::from_nanos(self.now), &mut self.ring)
    }

    /// Lets time pass until `end`, with a wake at every `next_wake`. Returns the CNPs that were sent.
    fn run(&mut self, end: u64) -> Vec<Sent> {
        let mut sent = Vec::new();
        loop {
            let next = self.next_wake();
            if next > end {
                self.now = end;
                return sent;
            }
            self.now = next;
            self.wake();
            sent.extend(self.take());
        }
    }

    fn next_wake(&self) -> u64 {
        self.last_call + u64::from(self.engine.next_wake().get())
    }

    /// The CNPs sent since the last call.
    fn take(&mut self) -> Vec<Sent> {
        let now = self.now;
        std::mem::take(&mut self.ring.sent)
            .iter()
            .map(|frame| {
                let cnp = Roce::of(frame).unwrap();
                assert_eq!((cnp.bth.opcode, cnp.icrc::<TableCrc>()), (opcode::CNP, Icrc::Valid));
                let Some(CnpBodyKind::Extended(body)) = cnp.cnp() else { panic!("a plain CNP") };
                assert!(body.kind == CnpKind::Period && body.ce && !body.ue);
                Sent { now, to: cnp.bth.dest_qp.get() & 0x7f_ffff, seq: body.seq, period: body.period.get() }
            })
            .collect()
    }
}

fn paper<const SETS: usize, const WAYS: usize>() -> Bench<SETS, WAYS> {
    Bench::new(&PAPER.values, 1_000_000_000)
}

#[test]
fn of_540_flows_each_is_notified_every_540_us_with_a_tau_of_540_us() {
    let mut bench = paper::<256, 4>();
    let start = bench.now;
    for round in 0..4 {
        for flow in 0..540 {
            assert_eq!(bench.arrive(0x1000 + flow, Ecn::Ce).cnp, CnpOutcome::None);
        }
        assert_eq!(bench.engine.shared().l(), 540);
        let sent = bench.run(start + (round + 1) * 540_000 - 1);
        assert_eq!(sent.len(), 540);
        assert!(sent.iter().all(|cnp| cnp.period == 540_000), "tau = l * delta");
        for (slot, cnp) in (0..).zip(&sent) {
            assert_eq!(cnp.now, start + round * 540_000 + slot * 1_000, "one CNP in delta");
        }
        let flows: BTreeSet<_> = sent.iter().map(|cnp| cnp.to).collect();
        assert_eq!(flows.len(), 540);
    }
    assert_eq!(bench.engine.counters().np_flows_untracked, 0);
}

#[test]
fn ten_thousand_flows_fit_in_8_bytes_each_plus_one_bit_per_record() {
    // VI-D: 1 KB for each 125 flows.
    type Full = RoundRobinTable<DcqcnPlus, 2048, 8>;
    assert!(size_of::<Full>() <= 16_384 * 8 + 2_048 + 32);
    let mut bench = paper::<2048, 8>();
    for flow in 0..10_000 {
        bench.arrive(flow * 7, Ecn::Ce);
    }
    assert_eq!((bench.engine.shared().l(), bench.engine.counters().np_flows_untracked), (10_000, 0));
    let now = bench.now;
    assert_eq!(bench.run(now).first().map(|cnp| cnp.period), Some(10_000_000));
}

#[test]
fn a_single_flow_is_notified_at_once_and_then_no_more_than_every_45_us() {
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    let mut sent = Vec::new();
    for packet in 1..=400 {
        bench.arrive(7, Ecn::Ce);
        sent.extend(bench.run(start + packet * 500));
    }
    assert_eq!(sent[0], Sent { now: start, to: 7, seq: sent[0].seq, period: 1_000 });
    for pair in sent.windows(2) {
        let gap = pair[1].now - pair[0].now;
        assert!((45_000..=48_000).contains(&gap), "{gap} ns");
        assert_eq!(pair[1].seq, pair[0].seq.wrapping_add(1));
    }
    assert!(sent.len() >= 4);
}

#[test]
fn a_flow_is_removed_when_it_was_unmarked_in_three_slots_and_its_last_cnp_is_100_us_old() {
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    bench.arrive(7, Ecn::Ce);
    assert_eq!(bench.run(start + 100_000).len(), 1);
    assert_eq!(bench.engine.live_flows(), 1);
    bench.run(start + 103_000);
    assert_eq!((bench.engine.live_flows(), bench.engine.shared().listed()), (0, 0));
    assert_eq!(bench.engine.next_wake(), Nanos::new(400_000_000), "no flow is on the list");
    // With forty flows a round takes 40 us: a flow is removed in its third slot.
    let start = bench.now + 1_000;
    bench.now = start;
    for flow in 0..40 {
        bench.arrive(flow, Ecn::Ce);
    }
    assert_eq!(bench.run(start + 158_000).len(), 40);
    assert_eq!(bench.engine.live_flows(), 1);
    bench.run(start + 159_000);
    assert_eq!(bench.engine.live_flows(), 0);
}

/// Ages are kept in units of 1,024 ns to 537 ms, and of up to 32.8 us to 10 s: a flow is removed in the slot after `idle_time`
/// and at most two units, and its CNPs are 45 us apart and at most two units more.
#[test]
fn a_flow_stays_on_the_list_for_the_whole_idle_time_of_up_to_10_s() {
    for (idle_time, unit) in
        [(100_000, 1_024), (300_000, 1_024), (536_000, 1_024), (537_000, 2_048), (10_000_000, 32_768)]
    {
        let settings = DcqcnPlusSettings { idle_time, ..STABLE.values };
        let mut bench = Bench::<16, 4>::new(&settings, 1_000_000_000);
        bench.arrive(7, Ecn::Ce);
        let start = bench.now;
        assert_eq!(bench.run(start).len(), 1);
        bench.arrive(7, Ecn::Ce);
        let cnps = bench.run(start + 45_000 + 2 * unit + 1_000);
        let [Sent { now: last, .. }] = cnps[..] else { panic!("{cnps:?}") };
        assert!(last >= start + 45_000);
        // A late wake skips slots in which nothing happens.
        let idle = u64::from(idle_time) * 1_000;
        while bench.now < last + idle - 200_000 {
            bench.now += 200_000.min(last + idle - bench.now);
            bench.wake();
        }
        bench.run(last + idle - 1);
        assert_eq!(bench.engine.live_flows(), 1, "{idle_time}");
        bench.run(last + idle + 2 * unit + 1_000);
        assert_eq!(bench.engine.live_flows(), 0, "{idle_time}");
    }
}

#[test]
fn only_ce_lists_a_flow_a8() {
    let mut bench = paper::<16, 4>();
    for packet in 0..10_000 {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            assert_eq!(bench.arrive(packet, ecn), ArrivalOutcome::default());
        }
    }
    let end = bench.now + 1_000_000;
    assert!(bench.run(end).is_empty());
    assert_eq!(bench.engine.live_flows(), 0);
}

#[test]
fn at_most_one_cnp_is_sent_in_a_slot_however_many_packets_are_marked() {
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    let mut sent = 0;
    for packet in 0..10_000 {
        bench.arrive(packet % 32, Ecn::Ce);
        sent += bench.run(start + u64::from(packet) * 10).len();
    }
    assert!(sent as u64 <= 1 + 100_000 / 1_000, "{sent} CNPs in 100 us");
}

#[test]
fn flows_beyond_the_list_share_a_cnp_in_50_us_and_count_in_l() {
    // The list has room for eight of the twenty flows.
    let mut bench = paper::<2, 4>();
    let start = bench.now;
    let mut direct = Vec::new();
    let mut listed = Vec::new();
    for step in 0..1_000_u32 {
        for packet in 0..3 {
            bench.arrive((3 * step + packet) % 20, Ecn::Ce);
        }
        direct.extend(bench.take());
        listed.extend(bench.run(start + u64::from(step) * 1_000));
    }
    assert_eq!(bench.engine.live_flows(), 8);
    let counters = bench.engine.counters();
    assert!(counters.np_flows_untracked >= 1_780, "{counters:?}");
    assert!((18..=20).contains(&direct.len()), "{} unlisted CNPs in 1 ms", direct.len());
    for pair in direct.windows(2) {
        assert!(pair[1].now - pair[0].now >= 50_000);
    }
    // l is the number of all twenty flows, less those that have the same one of the 64 residues as another.
    for cnp in listed.iter().skip(60) {
        assert!((16_000..=20_000).contains(&cnp.period), "{cnp:?}");
    }
    let on_list: BTreeSet<_> = listed.iter().map(|cnp| cnp.to).collect();
    assert!(direct.iter().all(|cnp| !on_list.contains(&cnp.to)));
}

#[test]
fn l_no_longer_counts_flows_beyond_the_list_after_a_round_without_them() {
    let mut bench = paper::<1, 4>();
    let start = bench.now;
    for flow in 0..7 {
        bench.arrive(flow, Ecn::Ce);
    }
    assert!(bench.engine.shared().l() > 4);
    bench.run(start + 20_000);
    assert_eq!(bench.engine.shared().l(), 4);
}

#[test]
fn a_full_list_refuses_a_flow_without_side_effect_and_takes_it_when_another_was_removed_f7() {
    let mut bench = paper::<1, 8>();
    let mut random = 7_u32;
    let mut on_list: Vec<u32> = (0..8).collect();
    for &flow in &on_list {
        bench.arrive(flow, Ecn::Ce);
    }
    for round in 8..100_000_u32 {
        bench.arrive(round, Ecn::Ce);
        assert_eq!((bench.engine.live_flows(), bench.engine.shared().listed()), (8, 8));
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let removed = on_list[(random >> 29) as usize];
        bench.engine.forget(Qpn::new(removed));
        assert_eq!((bench.engine.live_flows(), bench.engine.shared().listed()), (7, 7));
        bench.arrive(round, Ecn::Ce);
        assert_eq!(bench.engine.live_flows(), 8);
        on_list[(random >> 29) as usize] = round;
    }
    bench.take();
    let end = bench.now + 7_999;
    let sent: BTreeSet<_> = bench.run(end).iter().map(|cnp| cnp.to).collect();
    assert_eq!(sent, on_list.into_iter().collect());
}

#[test]
fn a_queue_pair_of_an_old_number_starts_with_a_new_record_f5() {
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    bench.arrive(7, Ecn::Ce);
    assert_eq!(bench.run(start + 1_000).len(), 1);
    // The CNP of the old flow is 1 us old, and the flow is marked again.
    bench.arrive(7, Ecn::Ce);
    bench.engine.forget(Qpn::new(7));
    assert!(bench.run(start + 60_000).is_empty());
    bench.arrive(7, Ecn::Ce);
    bench.engine.forget(Qpn::new(7));
    let mut fresh = Bench::<16, 4>::new(&PAPER.values, bench.now);
    for bench in [&mut bench, &mut fresh] {
        bench.arrive(7, Ecn::Ce);
    }
    assert_eq!(bench.run(start + 200_000), fresh.run(start + 200_000));
}

#[test]
fn a_cnp_that_finds_the_ring_full_stays_due() {
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    bench.ring.room.truncate(0);
    bench.arrive(7, Ecn::Ce);
    assert!(bench.run(start + 10_000).is_empty());
    assert_eq!(bench.engine.counters().np_cnp_ring_full, 11);
    bench.ring.room.resize(128, 0);
    let sent = bench.run(start + 12_000);
    assert_eq!((sent.len(), sent[0].now), (1, start + 11_000));
}

#[test]
fn a_flow_whose_sender_s_address_is_not_known_is_removed_and_counted() {
    let mut bench = paper::<16, 4>();
    bench.arrive(7, Ecn::Ce);
    bench.ring.paths.remove(&7);
    assert_eq!(bench.wake(), CnpOutcome::Unaddressed);
    assert_eq!((bench.engine.live_flows(), bench.engine.shared().listed()), (0, 0));
    assert_eq!(bench.engine.counters().np_cnp_unaddressed, 1);
}

#[test]
fn slots_that_a_late_wake_misses_are_skipped_and_additional_wakes_do_nothing() {
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    for flow in 0..10 {
        bench.arrive(flow, Ecn::Ce);
    }
    assert!((0..100).filter(|_| bench.wake() == CnpOutcome::Sent).count() == 1);
    bench.now = start + 1_000_000;
    assert!((0..100).filter(|_| bench.wake() == CnpOutcome::Sent).count() == 1);
    bench.now += 999;
    assert_eq!(bench.wake(), CnpOutcome::None);
    bench.now += 1;
    assert_eq!(bench.wake(), CnpOutcome::Sent);
}

#[test]
fn ports_have_their_own_lists_and_settings_a16() {
    let mut one = paper::<16, 4>();
    let mut other = Bench::<16, 4>::new(&DcqcnPlusSettings { cnp_dscp: 10, ..PAPER.values }, one.now);
    one.arrive(7, Ecn::Ce);
    let end = one.now + 1_000;
    assert_eq!((one.run(end).len(), other.run(end).len()), (1, 0));
    other.arrive(7, Ecn::Ce);
    other.wake();
    assert_eq!(Roce::of(&other.ring.sent[0]).unwrap().dscp(), 10);
    one.now = end + 60_000;
    one.arrive(7, Ecn::Ce);
    one.wake();
    assert_eq!(Roce::of(&one.ring.sent[0]).unwrap().dscp(), 48);
}

#[test]
fn datagrams_share_one_interval_and_their_cnps_are_sent_at_once() {
    let mut bench = paper::<16, 4>();
    let mut notified = Vec::new();
    for step in 0..200_u64 {
        bench.now = 1_000_000_000 + step * 1_000;
        let data = frame(0x11, Ecn::Ce, opcode::UD_SEND_ONLY);
        let now = Instant::from_nanos(bench.now);
        let rx = RxMeta::new(now.stamp(), None);
        if bench.engine.arrival(now, &Roce::of(&data).unwrap(), rx, &mut bench.ring).cnp == CnpOutcome::Sent {
            notified.push(step);
        }
    }
    assert_eq!(notified.len(), 4, "{notified:?}");
    assert_eq!(bench.engine.live_flows(), 0);
}

#[test]
fn an_old_cnp_has_no_effect_after_the_20_bit_time_wraps() {
    // 2^20 units of 1,024 ns pass, and the flow has a slot in each quarter of them. It is marked, but the ring is full.
    let mut bench = paper::<16, 4>();
    let start = bench.now;
    bench.arrive(7, Ecn::Ce);
    assert_eq!(bench.run(start).len(), 1);
    bench.ring.room.truncate(0);
    bench.arrive(7, Ecn::Ce);
    for quarter in 1..=4 {
        bench.now = start + quarter * (1 << 28);
        bench.wake();
    }
    bench.ring.room.resize(128, 0);
    bench.now = start + (1 << 30) + 1_000;
    assert_eq!(bench.wake(), CnpOutcome::Sent);
}

#[test]
fn tos_bytes_and_intervals_out_of_range_are_refused_a19() {
    for settings in [
        DcqcnPlusSettings { cnp_dscp: 106, ..PAPER.values },
        DcqcnPlusSettings { cnp_generation_interval: 0, ..PAPER.values },
        DcqcnPlusSettings { idle_slots: 0, ..PAPER.values },
        DcqcnPlusSettings { unlisted_interval: 100_001, ..PAPER.values },
        DcqcnPlusSettings { idle_time: 10_000_001, ..PAPER.values },
    ] {
        assert!(matches!(DcqcnPlus::check(&settings, &LINK), Err(ParamError::OutOfRange(_))));
    }
}

#[test]
fn every_transition_is_reached() {
    let mut bench = paper::<1, 4>();
    for step in 0..3_000_u32 {
        if step % 1_000 < 200 {
            bench.arrive(step % 6, Ecn::Ce);
        }
        let end = bench.now + 500;
        bench.run(end);
    }
    assert_eq!(bench.ring.rows, (0..DcqcnPlus::TRANSITIONS.len()).collect());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Marked(u32),
    Wait(u64),
    Forget(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..24_u32).prop_map(Step::Marked),
        3 => prop_oneof![0..5_000_u64, 0..200_000_u64].prop_map(Step::Wait),
        1 => (0..24_u32).prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    /// With room for all flows and punctual wakes: a CNP is sent only for a flow that was marked since its last one, at the
    /// earliest 45 us after that one, and at the latest two rounds after both the end of the 45 us and the mark; at most one is
    /// sent in a slot; and each carries l * delta.
    #[test]
    fn the_list_does_what_the_paper_says(steps in steps(), start in prop::sample::select(&[0_u64, 0xffff_ff00, 1 << 52][..])) {
        let mut bench = Bench::<16, 4>::new(&PAPER.values, start);
        let mut marked_at: BTreeMap<u32, u64> = BTreeMap::new();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let mut last_slot = None;
        for step in steps {
            match step {
                Step::Marked(flow) => {
                    bench.arrive(flow, Ecn::Ce);
                    marked_at.entry(flow).or_insert(bench.now);
                }
                Step::Forget(flow) => {
                    bench.engine.forget(Qpn::new(flow));
                    marked_at.remove(&flow);
                    last.remove(&flow);
                }
                Step::Wait(wait) => {
                    let end = bench.now + wait;
                    while bench.now < end {
                        bench.now = bench.next_wake().min(end);
                        let l = bench.engine.shared().l();
                        bench.wake();
                        for cnp in bench.take() {
                            let since = marked_at.remove(&cnp.to);
                            prop_assert!(since.is_some(), "{cnp:?}: not marked");
                            let from = last.get(&cnp.to).map_or(0, |last| last + 48_000).max(since.unwrap());
                            prop_assert!(cnp.now <= from + 2 * 24_000, "{cnp:?}: due at {from}");
                            let before = last.insert(cnp.to, cnp.now);
                            prop_assert!(before.is_none_or(|before| cnp.now - before >= 45_000), "{cnp:?}, {before:?}");
                            prop_assert!(last_slot.is_none_or(|slot| cnp.now - slot >= 1_000));
                            last_slot = Some(cnp.now);
                            prop_assert_eq!(cnp.period, l * 1_000);
                        }
                    }
                }
            }
            let listed = bench.engine.shared().listed();
            prop_assert_eq!(listed, bench.engine.live_flows());
            prop_assert!(listed as usize >= marked_at.len());
            prop_assert_eq!(bench.engine.shared().l(), listed);
        }
    }
}
