//! Several stages on the queues of one switch, in any order, and on those of two switches that send feedback to each other.

mod frames;

use cc_core::params::Settings;
use cc_core::table::{Fixed, Heap, Storage};
use cc_core::wire::{Bth, Roce, opcode};
use cc_core::{Bytes, Ecn, Instant, Link, Mark, Nanos, Qpn, Rate};
use cc_cp::RelayMessage;
use cc_cp::list::{StageList, StageListError};
use cc_cp::lscc::rate_calculation::RateCalculation;
use cc_cp::lscc::rate_limiting::RateLimiting;
use cc_cp::mmu::{Mmu, MmuSettings};
use cc_cp::recorder::Recorder;
use cc_cp::red::{Red, RedSettings};
use cc_cp::swing::{Relays, SwingSettings};
use cc_cp::{Chain, Event, OnQueues, Packet, PeerMessage, Queue, QueueStage, Stage, Switch, Verdict};
use frames::frame;
use std::collections::VecDeque;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_000), base_rtt: Nanos::new(1_000_000) };
const QUEUE: Queue = Queue { port: 0, class: 3 };

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn switch<S: OnQueues>(settings: &<S::Stage<Fixed<8>> as Stage>::Settings) -> Switch<S::Stage<Fixed<8>>, Fixed<8>> {
    let mut switch = Switch::new(at(0));
    switch.configure(at(0), QUEUE, &LINK, settings, 1).unwrap();
    switch
}

fn list(stages: &[(&str, &[u32])]) -> Switch<StageList, Heap> {
    let mut switch = Switch::<StageList, Heap>::new(at(0));
    switch.make_room(8);
    for (name, settings) in stages {
        switch.stages_mut().add(name, settings).unwrap();
    }
    switch.configure(at(0), QUEUE, &LINK, &(), 1).unwrap();
    switch
}

/// An event that begins or ends a pause by one of the two stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    BufferFills,
    BufferEmpties,
    RelayPauses,
    RelayResumes,
}

/// Runs the steps. Returns the states that were sent to the neighbour, paused or not, each with the number of PFC frames that
/// were sent for it.
fn levels<G: Stage, Q: Storage>(switch: &mut Switch<G, Q>, steps: &[Step]) -> Vec<(bool, usize)> {
    let mut levels: Vec<(bool, usize)> = Vec::new();
    let (mut seq, mut now) = (0, 1_000);
    for step in steps {
        let event = match step {
            Step::BufferFills => Event::Arrival { packet: Packet::of(Bytes::new(2_000)), queued: Bytes::ZERO },
            Step::BufferEmpties => Event::Release { bytes: Bytes::new(2_000), queued: Bytes::new(2_000) },
            Step::RelayPauses | Step::RelayResumes => {
                seq += 1;
                Event::Peer(PeerMessage::Relay(RelayMessage { paused: *step == Step::RelayPauses, seq }))
            }
        };
        let mut sent = Recorder::default();
        switch.on(at(now), QUEUE, &event, &mut sent);
        // 200 us: long enough for one renewal, and shorter than the timeout of the relay.
        let until = now + 200_000;
        while switch.next_wake() <= at(until) {
            switch.wake(switch.next_wake(), &mut sent);
        }
        now = until;
        for (queue, quanta) in sent.pfcs {
            assert_eq!(queue, QUEUE);
            match levels.last_mut() {
                Some((level, times)) if *level == (quanta > 0) => *times += 1,
                _ => levels.push((quanta > 0, 1)),
            }
        }
    }
    levels
}

/// The buffer, and the relay at the sender's end of a long link, both pause one neighbour. It is paused while at least one of
/// them pauses it, whichever of them begins or ends first.
#[test]
fn a_neighbour_is_paused_while_one_of_two_stages_pauses_it_in_every_order() {
    use Step::{BufferEmpties, BufferFills, RelayPauses, RelayResumes};
    let orders: [(&[Step], usize); 6] = [
        (&[BufferFills, BufferEmpties, RelayPauses, RelayResumes], 2),
        (&[BufferFills, RelayPauses, BufferEmpties, RelayResumes], 1),
        (&[BufferFills, RelayPauses, RelayResumes, BufferEmpties], 1),
        (&[RelayPauses, BufferFills, BufferEmpties, RelayResumes], 1),
        (&[RelayPauses, BufferFills, RelayResumes, BufferEmpties], 1),
        (&[RelayPauses, RelayResumes, BufferFills, BufferEmpties], 2),
    ];
    let buffer = MmuSettings { xoff: 2_000, xon: 0, reserve: 0, ..MmuSettings::HPCC };
    let relay = SwingSettings { keepalive: 1_000_000, ..Relays::PRESETS[0].values };
    let mmu: Vec<u32> = (0..MmuSettings::FIELDS.len()).map(|index| buffer.get(index)).collect();
    let swing: Vec<u32> = (0..SwingSettings::FIELDS.len()).map(|index| relay.get(index)).collect();
    for (steps, pauses) in orders {
        let one = levels(&mut switch::<Chain<Mmu, Relays>>(&(buffer, relay)), steps);
        let other = levels(&mut switch::<Chain<Relays, Mmu>>(&(relay, buffer)), steps);
        let listed = levels(&mut list(&[("swing", &swing), ("mmu", &mmu)]), steps);
        assert_eq!(one, other, "{steps:?}");
        assert_eq!(one, listed, "{steps:?}");
        let expected: Vec<bool> = [true, false].repeat(pauses);
        assert_eq!(one.iter().map(|&(level, _)| level).collect::<Vec<_>>(), expected, "{steps:?}: {one:?}");
        // A pause is renewed once in each step of 200 us, 167.8 us after the last frame; a resume is sent once.
        for &(level, times) in &one {
            assert_eq!(times > 1, level, "{steps:?}: {one:?}");
        }
    }
}

/// A packet that the buffer drops is not passed to any other stage.
#[test]
fn a_packet_that_is_dropped_is_not_passed_to_other_stages() {
    let full = MmuSettings {
        buffer: 2_000_000,
        headroom: 1_000,
        lossless_queues: 1,
        xoff: 1_000,
        xon: 0,
        reserve: 0,
        ..MmuSettings::HPCC
    };
    let relay = Relays::PRESETS[0].values;
    let [mut one, mut other] = [(); 2].map(|()| (0, Recorder::default()));
    let mut switches = (switch::<Chain<Mmu, Relays>>(&(full, relay)), switch::<Chain<Relays, Mmu>>(&(relay, full)));
    for _ in 0..10 {
        let event = Event::Arrival { packet: Packet::of(Bytes::new(1_000)), queued: Bytes::ZERO };
        one.0 += u32::from(switches.0.on(at(0), QUEUE, &event, &mut one.1).drop);
        other.0 += u32::from(switches.1.on(at(0), QUEUE, &event, &mut other.1).drop);
    }
    assert_eq!((one.0, other.0), (8, 8), "two packets are admitted: one in the shared part, one in the headroom");
    let held = |relays: Option<&Relays>| relays.unwrap().receiver().queued().get();
    assert_eq!(held(switches.0.stages().second.state(QUEUE)), 2_000);
    assert_eq!(held(switches.1.stages().first.state(QUEUE)), 2_000);
}

/// A data frame from the datacentre `site` to the other.
fn data(site: u8, qpn: u32) -> Vec<u8> {
    frame(site, Bth { opcode: opcode::SEND_MIDDLE, dest_qp: Qpn::new(qpn), ..Bth::default() }, &[0; 938])
}

#[test]
fn only_the_stage_that_rewrites_gets_packets_with_the_marks_of_the_others() {
    // RED marks every packet; LSCC's rate limiting processes the mark and removes it.
    let red = RedSettings { kmin: 0, kmax: 0, pmax: 1_000_000, reference_rate: 0 };
    let limiting = cc_cp::lscc::rate_limiting::STABLE;
    let frame = data(0, 17);
    let roce = Roce::of(&frame).unwrap();
    let queued = Bytes::new(1_000);
    let event = Event::Departure { packet: Packet::roce(&roce), ecn: Ecn::Ect0, queued, port_queued: queued };
    let mut sent = Recorder::default();
    let verdicts = [
        switch::<Chain<Red, RateLimiting>>(&(red, limiting)).on(at(0), QUEUE, &event, &mut sent),
        switch::<Chain<RateLimiting, Red>>(&(limiting, red)).on(at(0), QUEUE, &event, &mut sent),
        list(&[("lscc_rate_limiting", &[]), ("red", &[0, 0, 1_000_000, 0])]).on(at(0), QUEUE, &event, &mut sent),
    ];
    for verdict in verdicts {
        assert_eq!((verdict.mark, verdict.rewrite.unwrap().ecn), (Mark::Congested, Ecn::Ect0));
        assert_eq!(verdict.leaves_with(Ecn::Ect0), Ecn::Ect0);
    }
    // Without RED there is no mark, and the packet leaves with its own ECN bits.
    let alone = switch::<RateLimiting>(&limiting).on(at(0), QUEUE, &event, &mut sent);
    assert_eq!((alone.mark, alone.rewrite.unwrap().ecn), (Mark::None, Ecn::Ect0));
}

#[test]
fn a_list_accepts_at_most_one_stage_that_rewrites_and_one_that_admits() {
    let mut stages = StageList::new(8);
    for name in ["red", "lscc_rate_limiting", "INT", "mmu", "swing", "lscc_rate_calculation", "red"] {
        stages.add(name, &[]).unwrap();
    }
    let second = stages.add("mlcc_near_source", &[]).unwrap_err();
    assert_eq!(second, StageListError::TwoRewrite("lscc_rate_limiting", "mlcc_near_source"));
    let line =
        "lscc_rate_limiting and mlcc_near_source both rewrite packets: expected at most one such stage in a switch";
    assert_eq!(second.to_string(), line);
    assert_eq!(stages.add("mmu", &[]).unwrap_err(), StageListError::TwoAdmit("mmu", "mmu"));
    assert!(stages.add("read", &[]).unwrap_err().to_string().starts_with("unknown stage read: expected one of red, "));
    let setting = stages.add("red", &[0, 0, 1_000_001]).unwrap_err().to_string();
    assert_eq!(setting, "red: pmax must be from 0 to 1000000 ppm");
}

/// LSCC between two datacentres, with data in both directions.
mod feedback {
    use super::*;

    /// One-way delay of the long link, in microseconds.
    const DELAY: usize = 500;
    /// The speed of the hosts of a datacentre as senders and as receivers, in bytes per microsecond: 100 and 40 Gb/s.
    const LINE: f64 = 12_500.0;
    const TAKES: f64 = 5_000.0;
    const PACKET: u32 = 1_000;
    /// While at least this many bytes are queued, the hosts of this datacentre send a CNP each 50 us to those of the other.
    const MARKS: u32 = 100_000;

    /// What is sent to the other site in a microsecond.
    #[derive(Clone, Default)]
    struct Leaving {
        packets: u32,
        messages: Vec<PeerMessage>,
        cnp: bool,
    }

    /// A datacentre: its interconnect switch, the data that its hosts send, and the data queued for them.
    struct Site {
        switch: Switch<<Chain<RateCalculation, RateLimiting> as OnQueues>::Stage<Fixed<8>>, Fixed<8>>,
        sent: Recorder,
        frame: Vec<u8>,
        /// A standard CNP from the other site's hosts to those of this site.
        cnp: Vec<u8>,
        /// The sending rate of the hosts, in bytes per microsecond.
        rate: f64,
        /// Bytes that may be sent, and bytes that may leave to hosts, less whole packets.
        credit: [f64; 2],
        queued: u32,
        /// Packets and messages in flight to this site, by microsecond.
        link: VecDeque<Leaving>,
    }

    impl Site {
        fn new(site: u8) -> Self {
            let calculation = cc_cp::lscc::rate_calculation::TESTBED;
            let limiting = cc_cp::lscc::rate_limiting::TESTBED;
            Self {
                switch: switch::<Chain<RateCalculation, RateLimiting>>(&(calculation, limiting)),
                sent: Recorder::default(),
                frame: data(site, 17),
                cnp: frame(1 - site, Bth { opcode: opcode::CNP, becn: true, ..Bth::default() }, &[]),
                rate: LINE,
                credit: [0.0; 2],
                queued: 0,
                link: VecDeque::from(vec![Leaving::default(); DELAY]),
            }
        }

        /// One microsecond passes. Returns what is sent to the other site.
        fn step(&mut self, now: u64) -> Leaving {
            let Self { switch, sent, frame, cnp, .. } = self;
            let (roce, cnp) = (Roce::of(frame).unwrap(), Roce::of(cnp).unwrap());
            let packet = Packet::roce(&roce);
            sent.queued.insert(QUEUE, Bytes::new(self.queued));
            while switch.next_wake() <= at(now) {
                switch.wake(at(now), sent);
            }
            let arrived = self.link.pop_front().unwrap_or_default();
            if arrived.cnp {
                let event = Event::Arrival { packet: Packet::roce(&cnp), queued: Bytes::new(self.queued) };
                switch.on(at(now), QUEUE, &event, sent);
            }
            for message in arrived.messages {
                switch.on(at(now), QUEUE, &Event::Peer(message), sent);
            }
            for _ in 0..arrived.packets {
                let queued = Bytes::new(self.queued);
                switch.on(at(now), QUEUE, &Event::Arrival { packet, queued }, sent);
                self.queued += PACKET;
            }
            self.credit[1] = (self.credit[1] + TAKES).min(2.0 * f64::from(PACKET) + TAKES);
            while self.queued >= PACKET && self.credit[1] >= f64::from(PACKET) {
                let queued = Bytes::new(self.queued);
                switch.on(at(now), QUEUE, &Event::Release { bytes: Bytes::new(PACKET), queued }, sent);
                (self.queued, self.credit[1]) = (self.queued - PACKET, self.credit[1] - f64::from(PACKET));
            }
            self.credit[0] += self.rate;
            let mut leaving = 0;
            while self.credit[0] >= f64::from(PACKET) {
                self.credit[0] -= f64::from(PACKET);
                leaving += 1;
                switch.on(at(now), QUEUE, &Event::Enqueue { bytes: packet.bytes }, sent);
                let event =
                    Event::Departure { packet, ecn: Ecn::Ect0, queued: packet.bytes, port_queued: packet.bytes };
                assert_ne!(switch.on(at(now), QUEUE, &event, sent), Verdict::PASS);
            }
            // The hosts reduce their rate by a quarter at a CNP, and raise it by 1 Gb/s in 50 us.
            let cnps = std::mem::take(&mut sent.cnps).len() as i32;
            self.rate = (self.rate * 0.75_f64.powi(cnps) + 2.5).clamp(125.0, LINE);
            let messages = std::mem::take(&mut sent.peers).into_iter().map(|(_, message)| message).collect();
            let cnp = self.queued >= MARKS && now.is_multiple_of(50_000);
            Leaving { packets: leaving, messages, cnp }
        }
    }

    /// Runs both sites for `micros` microseconds. Returns for each site, over the second half, the largest number of bytes
    /// queued in its switch, and the mean rate of its hosts.
    fn run(micros: u64, feedback: bool) -> [(u32, f64); 2] {
        let mut sites = [0, 1].map(Site::new);
        let mut seen = [(0, 0.0); 2];
        for micro in 1..=micros {
            let leaving = sites.each_mut().map(|site| site.step(micro * 1_000));
            let mut leaving = leaving;
            if !feedback {
                leaving.iter_mut().for_each(|leaving| leaving.messages.clear());
            }
            let [first, second] = leaving;
            sites[1].link.push_back(first);
            sites[0].link.push_back(second);
            if micro > micros / 2 {
                for (seen, site) in seen.iter_mut().zip(&sites) {
                    *seen = (seen.0.max(site.queued), seen.1 + site.rate / (micros / 2) as f64);
                }
            }
        }
        seen
    }

    #[test]
    fn two_switches_limit_each_others_sources_to_the_rate_of_the_receivers() {
        let with = run(200_000, true);
        let without = run(200_000, false);
        for (site, ((most, mean), (overrun, _))) in with.into_iter().zip(without).enumerate() {
            println!("site {site}: {most} B, {mean} B/us; without feedback {overrun} B");
            assert!((0.6..1.1).contains(&(mean / TAKES)), "site {site}: {mean} bytes in a microsecond");
            assert!(most < 20_000_000, "site {site}: {most} bytes queued");
            assert!(overrun > 100_000_000, "site {site}: {overrun} bytes without feedback");
        }
    }
}
