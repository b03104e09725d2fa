//! Any words are a valid state of every stage: no event causes a panic, and a snapshot restores the state unchanged.

mod frames;

use cc_core::snapshot::Words;
use cc_core::table::Fixed;
use cc_core::wire::RateMessage;
use cc_core::wire::{Bth, Roce, opcode};
use cc_core::{Bytes, Ecn, Instant, Link, Nanos, Qpn, Rate, Zeroed};
use cc_cp::recorder::Recorder;
use cc_cp::registry::{self, Visitor};
use cc_cp::{Event, Inspect, OnQueues, Packet, PeerMessage, Queue, RelayMessage, Stage};
use proptest::prelude::*;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_064), base_rtt: Nanos::new(10_000) };
const AT: Queue = Queue { port: 0, class: 3 };
/// Words of the largest state: 64 flows of MLCC's per-flow queues.
const WORDS: usize = 1_024;

/// An event: its kind, nanoseconds since the one before, and numbers for its fields.
type Operation = (u8, u32, [u32; 4]);

fn operation() -> impl Strategy<Value = Operation> {
    // Waits are at most half a second, and short ones are as frequent as long ones.
    (0..9_u8, (0..1_u32 << 29, 0..30).prop_map(|(wait, by)| wait >> by), any::<[u32; 4]>())
}

fn frame(opcode: u8, qpn: u32) -> Vec<u8> {
    frames::frame(0, Bth { opcode, dest_qp: Qpn::new(qpn), ..Bth::default() }, &[0; 64])
}

fn event<'a>(kind: u8, [a, b, c, d]: [u32; 4], roce: &'a Roce<'a>) -> Event<'a> {
    let packet = if a & 1 == 0 { Packet::roce(roce) } else { Packet::of(Bytes::new(b >> (c % 32))) };
    let (queued, port_queued) = (Bytes::new(c >> (d % 32)), Bytes::new(c));
    match kind {
        0 => Event::Arrival { packet, queued },
        1 => Event::Release { bytes: Bytes::new(b >> (d % 32)), queued },
        2 => Event::Pause { time: Nanos::new(b >> (a % 32)), queued },
        3 => Event::Peer(PeerMessage::Relay(RelayMessage { paused: a & 2 == 0, seq: b as u16 })),
        4 => Event::Peer(PeerMessage::Rate(RateMessage {
            seq: a as u16,
            units: b >> (c % 32),
            ..RateMessage::default()
        })),
        5 => Event::Enqueue { bytes: Bytes::new(b >> (d % 32)) },
        _ => {
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][(d % 4) as usize];
            Event::Departure { packet, ecn, queued, port_queued }
        }
    }
}

struct Run<'a> {
    words: &'a [u32],
    operations: &'a [Operation],
}

impl Visitor for Run<'_> {
    type Output = ();

    fn visit<S: OnQueues>(self) {
        for preset in On::<S>::PRESETS {
            self.with_settings::<S>(&preset.values);
        }
    }
}

type On<S> = <S as OnQueues>::Stage<Fixed<8>>;

const START: Instant = Instant::from_nanos(1 << 40);

/// A stage with this one queue, after an event of each kind.
fn begun<S: OnQueues>(settings: &<On<S> as Stage>::Settings, roce: &Roce<'_>) -> On<S> {
    let mut stage = <On<S> as Zeroed>::ZEROED;
    stage.configure(START, AT, &LINK, settings, 1).unwrap();
    assert_eq!(stage.snapshot(Queue { port: 9, class: 0 }), None, "there is no such queue");
    for kind in 0..7 {
        stage.on(START, AT, &event(kind, [0; 4], roce), &mut Recorder::default());
    }
    stage
}

impl Run<'_> {
    fn with_settings<S: OnQueues>(&self, settings: &<On<S> as Stage>::Settings) {
        let name = On::<S>::NAME;
        let frames: Vec<_> = (0..4).map(|qpn| frame(opcode::SEND_MIDDLE, qpn)).collect();
        let roces: Vec<_> = frames.iter().map(|frame| Roce::of(frame).unwrap()).collect();
        let (mut stage, mut now) = (begun::<S>(settings, &roces[0]), START);
        let mut words = self.words.iter().copied();
        let any = <On<S> as Inspect>::Snapshot::read(&mut || words.next().unwrap_or(0));
        assert!(<On<S> as Inspect>::Snapshot::COUNT <= WORDS, "{name}");
        assert!(stage.inject(AT, any), "{name}");
        for (kind, wait, numbers) in self.operations {
            let snapshot = stage.snapshot(AT).unwrap();
            assert!(stage.inject(AT, snapshot));
            assert_eq!(stage.snapshot(AT), Some(snapshot), "{name}");
            now = now.after(Nanos::new(*wait));
            if *kind == 7 {
                stage.wake(now, AT, &mut Recorder::default());
            } else {
                let event = event(*kind, *numbers, &roces[numbers[3] as usize % 4]);
                let mut restored = begun::<S>(settings, &roces[0]);
                assert!(restored.inject(AT, snapshot));
                let verdict = stage.on(now, AT, &event, &mut Recorder::default());
                let same = restored.on(now, AT, &event, &mut Recorder::default());
                assert_eq!(same, verdict, "{name}: {event:?}");
                assert_eq!(restored.snapshot(AT), stage.snapshot(AT), "{name}: {event:?}");
            }
            stage.next_wake(now, AT);
            stage.pausing(AT);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn any_words_are_a_state_that_is_restored_unchanged(
        words in prop::collection::vec(any::<u32>(), WORDS),
        operations in prop::collection::vec(operation(), 1..24),
    ) {
        for entry in registry::ALL {
            registry::with(entry.name, Run { words: &words, operations: &operations }).unwrap();
        }
    }
}
