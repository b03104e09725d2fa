//! The parts of a switch other than its stages: configuration, clock, pauses received and sent, counters.

use cc_core::table::Fixed;
use cc_core::{Bytes, Ecn, Instant, Link, Mark, Nanos, Rate};
use cc_cp::mmu::{Mmu, MmuSettings};
use cc_cp::recorder::Recorder;
use cc_cp::red::{Red, RedSettings};
use cc_cp::tcd::Tcd;
use cc_cp::{Event, OnQueues, Packet, Queue, QueueStage, Stage, Switch, Verdict};

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };
const HALF: RedSettings = RedSettings { kmin: 0, kmax: 200_000, pmax: 1_000_000, reference_rate: 0 };

/// A switch of four ports.
struct Bench<S: OnQueues> {
    switch: Switch<S::Stage<Fixed<32>>, Fixed<32>>,
    sent: Recorder,
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn queue(port: u16, class: u8) -> Queue {
    Queue { port, class }
}

impl<S: OnQueues> Bench<S> {
    fn new(
        start: u64,
        queues: &[(u16, u8)],
        link: &Link,
        settings: &<S::Stage<Fixed<32>> as Stage>::Settings,
        seed: u64,
    ) -> Self {
        let mut switch = Switch::new(at(start));
        for &(port, class) in queues {
            switch.configure(at(start), queue(port, class), link, settings, seed).unwrap();
        }
        Self { switch, sent: Recorder::default() }
    }

    fn departs(&mut self, now: u64, of: (u16, u8), queued: u32, ecn: Ecn) -> Verdict {
        let (packet, queued) = (Packet::of(Bytes::new(1_064)), Bytes::new(queued));
        let event = Event::Departure { packet, ecn, queued, port_queued: queued };
        self.switch.on(at(now), queue(of.0, of.1), &event, &mut self.sent)
    }

    fn mark(&mut self, now: u64, of: (u16, u8), queued: u32) -> Mark {
        self.departs(now, of, queued, Ecn::Ect0).mark
    }

    fn pauses(&mut self, now: u64, of: (u16, u8), time: u32) {
        let event = Event::Pause { time: Nanos::new(time), queued: Bytes::new(300_000) };
        assert_eq!(self.switch.on(at(now), queue(of.0, of.1), &event, &mut self.sent), Verdict::PASS);
    }

    fn wakes(&mut self, now: u64) {
        self.switch.wake(at(now), &mut self.sent);
    }
}

#[test]
fn the_end_of_a_pause_s_time_is_a_resume() {
    let link = Link { line_rate: Rate::from_gbps(40), ..LINK };
    let mut bench = Bench::<Tcd>::new(0, &[(0, 3), (0, 4), (1, 3)], &link, &Tcd::PRESETS[0].values, 1);
    let at = |micros: u64| micros * 1_000;
    bench.pauses(at(10), (0, 3), 50_000);
    bench.pauses(at(40), (0, 3), 60_000); // renewed: until 100 us
    let mut mark = |micros, of| bench.mark(at(micros), of, 300_000);
    assert_eq!(mark(150, (0, 3)), Mark::Undetermined, "50 us after the pause ran out");
    assert_eq!(mark(197, (0, 3)), Mark::Undetermined, "97 us after");
    assert_eq!(mark(198, (0, 3)), Mark::Congested);
    // A resume of a queue that is not paused is ignored, and other classes and ports are not affected.
    bench.pauses(at(210), (0, 3), 0);
    for of in [(0, 3), (0, 4), (1, 3)] {
        assert_eq!(bench.mark(at(211), of, 300_000), Mark::Congested);
    }
    bench.pauses(at(300), (1, 3), 50_000);
    bench.pauses(at(310), (1, 3), 0);
    assert_eq!(bench.mark(at(407), (1, 3), 300_000), Mark::Undetermined);
    assert_eq!(bench.mark(at(408), (1, 3), 300_000), Mark::Congested);
    bench.pauses(at(500), (1, 3), 50_000);
    for second in 0..5 {
        bench.wakes(at(900_000 + 1_000_000 * second));
    }
    assert_eq!(bench.mark(at(5_000_000), (1, 3), 300_000), Mark::Congested, "long ago");
}

#[test]
fn a_clock_that_jumps_ends_no_pause_and_counts_no_storm() {
    for jump in [-9_000_000_000_i64, -1, 1_000_000_001, 3_000_000_000, i64::MAX >> 1] {
        let before = 1 << 40_u64;
        let mut bench = Bench::<Tcd>::new(before, &[(0, 0)], &LINK, &Tcd::PRESETS[0].values, 1);
        bench.pauses(before, (0, 0), 1_000);
        bench.pauses(before + 10, (0, 0), 0);
        bench.pauses(before + 20, (0, 0), 1_000);
        // The queue is still paused, and undetermined since the resume, whatever the time of the clock.
        let after = before.wrapping_add_signed(jump + 20);
        for _ in 0..2 {
            assert_eq!(bench.mark(after, (0, 0), 1_000_000), Mark::Undetermined, "{jump}");
        }
        let counters = *bench.switch.counters(queue(0, 0)).unwrap();
        assert_eq!((counters.pfc_pauses, counters.pfc_paused_ns, counters.pfc_storms), (2, 10, 0));
        // The next wake moves with the clock.
        assert_eq!(bench.switch.next_wake(), at(before.wrapping_add_signed(jump) + 500_000_000), "{jump}");
        bench.wakes(after + 2_000);
        assert_eq!(bench.switch.counters(queue(0, 0)).unwrap().pfc_paused_ns, 1_010, "{jump}");
        assert_eq!(bench.switch.clock_steps(), (u32::from(jump > 0), u32::from(jump < 0)));
    }
}

/// E3, E5, E10: only a pause that lasts is a storm, a resume ends it, other ports are not affected, and the time paused is
/// counted.
#[test]
fn a_storm_of_pauses_ends_with_a_resume_and_stays_on_its_port_e3_e5_e10() {
    let mut bench = Bench::<Red>::new(0, &[(0, 3), (1, 3)], &LINK, &HALF, 1);
    let at = |millis: u64| millis * 1_000_000;
    let shown = |bench: &Bench<Red>, port| {
        let counters = *bench.switch.counters(queue(port, 3)).unwrap();
        (counters.pfc_pauses, counters.pfc_paused_ns / 1_000_000, counters.pfc_storms)
    };
    let quantum = 3_000_000;
    for millis in 0..60 {
        bench.pauses(at(2 * millis), (1, 3), quantum);
        bench.pauses(at(2 * millis), (0, 3), 0); // resumes are no pauses
    }
    assert_eq!(shown(&bench, 1), (1, 0, 1));
    bench.pauses(at(119), (1, 3), 0);
    assert_eq!(shown(&bench, 1), (1, 119, 1));
    for millis in 0..20 {
        bench.pauses(at(200 + 2 * millis), (1, 3), 0);
    }
    bench.pauses(at(300), (1, 3), quantum);
    bench.wakes(at(900));
    assert_eq!(shown(&bench, 1), (2, 122, 1), "the time of the second pause ended after 3 ms");
    assert_eq!(shown(&bench, 0), (0, 0, 0));
}

/// Configuring port N of N ports (0 to N - 1) is an error, and events of such a port have no effect.
#[test]
fn a_port_beyond_the_last_is_refused_and_changes_nothing_e8() {
    let mut bench = Bench::<Red>::new(0, &[(3, 7)], &LINK, &HALF, 1);
    let error = bench.switch.configure(at(0), queue(4, 0), &LINK, &HALF, 1).unwrap_err();
    assert_eq!(error.to_string(), "no queue for port 4, class 0: ports are below 4, classes below 8");
    assert!(bench.switch.configure(at(0), queue(u16::MAX, 7), &LINK, &HALF, 1).is_err());
    assert_eq!(bench.departs(0, (4, 0), u32::MAX, Ecn::Ect0), Verdict::PASS);
    bench.pauses(0, (4, 0), 1_000);
    assert!((0..6).all(|port| {
        (0..8).all(|class| (bench.switch.counters(queue(port, class)).is_some()) == ((port, class) == (3, 7)))
    }));
}

#[test]
fn a_queue_that_is_not_configured_marks_nothing() {
    let mut bench = Bench::<Red>::new(0, &[(0, 3)], &LINK, &HALF, 1);
    for of in [(0, 0), (1, 3), (4, 3)] {
        assert_eq!(bench.departs(0, of, u32::MAX, Ecn::Ect0), Verdict::PASS);
    }
    assert_eq!(bench.mark(0, (0, 3), u32::MAX), Mark::Congested);
}

#[test]
fn marked_packets_and_packets_that_could_not_be_marked_are_counted_separately() {
    let mut bench = Bench::<Red>::new(0, &[(0, 0)], &LINK, &HALF, 1);
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        bench.departs(0, (0, 0), 200_001, ecn);
        bench.departs(0, (0, 0), 0, ecn);
    }
    assert_eq!(
        bench.switch.counters(queue(0, 0)).unwrap().named(),
        [
            ("packets", 8),
            ("ecn_marked", 2),
            ("not_ect_above_kmax", 1),
            ("pfc_pauses", 0),
            ("pfc_paused_ns", 0),
            ("pfc_storms", 0),
        ]
    );
}

#[test]
fn queues_draw_different_marks_and_runs_repeat() {
    let run = |seed| -> [Vec<bool>; 2] {
        let mut bench = Bench::<Red>::new(0, &[(0, 0), (1, 0)], &LINK, &HALF, seed);
        [0, 1].map(|port| (0..256).map(|_| bench.mark(0, (port, 0), 100_000) > Mark::None).collect())
    };
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
    assert_ne!(first[0], first[1]);
}

#[test]
fn new_thresholds_keep_counters_and_the_random_sequence() {
    let [mut changed, mut left] = [(); 2].map(|()| Bench::<Red>::new(0, &[(0, 0)], &LINK, &HALF, 9));
    for bench in [&mut changed, &mut left] {
        bench.mark(0, (0, 0), 100_000);
    }
    let other = RedSettings { kmin: 150_000, ..HALF };
    changed.switch.configure(at(0), queue(0, 0), &LINK, &other, 9).unwrap();
    assert_eq!(changed.mark(0, (0, 0), 150_000), Mark::None);
    changed.switch.configure(at(0), queue(0, 0), &LINK, &HALF, 9).unwrap();
    for _ in 0..64 {
        assert_eq!(changed.mark(0, (0, 0), 100_000), left.mark(0, (0, 0), 100_000));
    }
    assert_eq!(changed.switch.counters(queue(0, 0)).unwrap().packets, 66);
}

/// A buffer that pauses its neighbour from two packets on, and resumes it when the buffer is empty.
fn buffer(start: u64) -> Bench<Mmu> {
    let settings = MmuSettings { xoff: 2_000, xon: 0, reserve: 0, ..MmuSettings::HPCC };
    Bench::new(start, &[(2, 5)], &LINK, &settings, 0)
}

impl Bench<Mmu> {
    fn arrives(&mut self, now: u64) -> Vec<(Queue, u16)> {
        let event = Event::Arrival { packet: Packet::of(Bytes::new(1_000)), queued: Bytes::ZERO };
        assert_eq!(self.switch.on(at(now), queue(2, 5), &event, &mut self.sent), Verdict::PASS);
        std::mem::take(&mut self.sent.pfcs)
    }

    fn releases(&mut self, now: u64) -> Vec<(Queue, u16)> {
        let event = Event::Release { bytes: Bytes::new(1_000), queued: Bytes::ZERO };
        self.switch.on(at(now), queue(2, 5), &event, &mut self.sent);
        std::mem::take(&mut self.sent.pfcs)
    }

    fn renews(&mut self, now: u64) -> Vec<(Queue, u16)> {
        self.wakes(now);
        std::mem::take(&mut self.sent.pfcs)
    }
}

#[test]
fn pauses_are_renewed_after_half_of_their_time_and_only_while_they_last() {
    let mut bench = buffer(0);
    assert_eq!(bench.arrives(0), []);
    assert_eq!(bench.arrives(100), [(queue(2, 5), 65_535)]);
    // 65 535 quanta of 5.12 ns are 335.5 us.
    assert_eq!(bench.switch.next_wake(), at(100 + 167_770));
    assert_eq!(bench.renews(100 + 167_769), []);
    assert_eq!(bench.renews(100 + 167_770), [(queue(2, 5), 65_535)]);
    assert_eq!(bench.renews(100 + 167_771), []);
    assert_eq!(bench.releases(200_000), []);
    assert_eq!(bench.releases(200_000), [(queue(2, 5), 0)]);
    assert_eq!(bench.renews(100 + 2 * 167_770), []);
    assert_eq!(bench.switch.next_wake(), at(100 + 2 * 167_770 + 500_000_000));
}

#[test]
fn a_clock_that_jumps_delays_no_renewal() {
    for jump in [-5_000_000_000_i64, -1, 1_000_000_001, 3_000_000_000] {
        let start = 1_u64 << 40;
        let mut bench = buffer(start);
        bench.arrives(start);
        assert_eq!(bench.arrives(start).len(), 1);
        let after = start.wrapping_add_signed(jump);
        // A jump counts as no time: all of the 167 770 ns to the renewal are left.
        assert_eq!(bench.renews(after), [], "{jump}");
        assert_eq!(bench.switch.next_wake(), at(after + 167_770), "{jump}");
        assert_eq!(bench.renews(after + 167_770).len(), 1, "{jump}");
        assert_eq!(bench.switch.next_wake(), at(after + 2 * 167_770), "{jump}");
    }
}
