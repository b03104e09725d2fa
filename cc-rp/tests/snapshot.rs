//! Any words are a valid state of every reaction point: no event makes it panic, and a snapshot restores the same state.

use cc_core::snapshot::Words;
use cc_core::{
    Bytes, CnpBody, CnpBodyKind, CnpKind, Delay, Grant, Instant, IntLayout, IntStack, Link, Mark, Nanos, Psn, Rate,
};
use cc_rp::registry::{self, Visitor};
use cc_rp::{Ack, Cx, Event, EventSet, RateLimiter, ReactionPoint, RpEngine};
use proptest::prelude::*;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(4_096), base_rtt: Nanos::new(12_000) };

/// An event: its kind, nanoseconds since the one before, and numbers from which its fields are made.
type Operation = (u8, u32, [u32; 6], [u8; 16 * 15]);

fn operation() -> impl Strategy<Value = Operation> {
    // Waits are at most half a second, and short ones are as frequent as long ones.
    let wait = (0..1_u32 << 29, 0..30).prop_map(|(wait, by)| wait >> by);
    (0..8_u8, wait, any::<[u32; 6]>(), prop::array::uniform(any::<u8>()))
}

fn event<'a>((kind, _, [a, b, c, d, e, f], area): &'a Operation) -> (EventSet, Event<'a>) {
    let layout = if d & 1 == 0 { IntLayout::Wide } else { IntLayout::Compact };
    let int = IntStack::new(layout, (e & 0xfff) as u16, (d >> 1) as u8 % 6, area).unwrap();
    match kind {
        0 | 1 => (EventSet::SENT, Event::Sent { psn: Psn::new(*a), bytes: Bytes::new(b >> (c % 32)) }),
        2 => (EventSet::NACK, Event::Nack { psn: Psn::new(*a) }),
        3 => {
            let kinds = [CnpKind::Standard, CnpKind::Period, CnpKind::Direct, CnpKind::Undetermined];
            let body = CnpBody { kind: kinds[*a as usize % 4], seq: *b as u16, ..CnpBody::default() };
            let body_kind = if c & 1 == 0 { CnpBodyKind::Standard } else { CnpBodyKind::Extended(body) };
            (EventSet::CNP, Event::Cnp { body_kind })
        }
        4 => (EventSet::WAKE, Event::Wake),
        5 => (EventSet::SWITCH_INT, Event::SwitchInt { int }),
        _ => {
            let delay = Delay {
                rtt: Nanos::new(b >> (d % 32)),
                receiver_hold: Nanos::new(c & 0xffff),
                hops: *e as u8,
                rx_buffer_level: (*f % 32) as u8,
            };
            let grant = match f % 3 {
                0 => Grant::None,
                1 => Grant::Rcc { window: Bytes::new(*c), flows: *d as u16, utilisation: *e as u16 },
                _ => Grant::Mlcc { credit: *c as u16, release: Rate::from_bits(*d), advised_rate: Rate::from_bits(*e) },
            };
            let ack = Ack {
                psn: Psn::new(*a),
                acked: Bytes::new(c >> (e % 32)),
                mark: [Mark::None, Mark::Congested, Mark::Undetermined][*e as usize % 3],
                delay: (f & 8 == 0).then_some(delay),
                int: if f & 16 == 0 { int } else { IntStack::NONE },
                grant,
            };
            (EventSet::ACK, Event::Ack(ack))
        }
    }
}

struct Run<'a> {
    words: &'a [u32],
    operations: &'a [Operation],
}

impl Visitor for Run<'_> {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        for preset in A::PRESETS {
            let params = A::check(&preset.values, &LINK).unwrap();
            let at = |now| {
                let now = Instant::from_nanos(now);
                Cx { now, link: &LINK, params: &params, pause: Nanos::ZERO, clock_without_pauses: now.stamp() }
            };
            for mut state in [A::open(&at(0)), A::from_words(self.words)] {
                let mut now = 0;
                assert_restored(&state);
                for operation in self.operations {
                    now += u64::from(operation.1);
                    let (kind, event) = event(operation);
                    if A::EVENTS.contains(kind) {
                        let mut restored = A::from_snapshot(state.snapshot());
                        let decision = state.on(&at(now), &event);
                        assert_eq!(restored.on(&at(now), &event), decision, "{} {}: {event:?}", A::NAME, preset.name);
                        assert_restored(&state);
                    }
                }
            }
        }
    }
}

/// A state restored from its snapshot, as fields and as words, is the same.
fn assert_restored<A: ReactionPoint>(state: &A) {
    let snapshot = state.snapshot();
    assert_eq!(A::from_snapshot(snapshot), *state, "{}", A::NAME);
    let mut words = [0; 64];
    assert_eq!(state.to_words(&mut words), A::Snapshot::COUNT);
    assert!(A::Snapshot::COUNT <= words.len());
    assert_eq!(A::from_words(&words), *state, "{}", A::NAME);
}

/// The last call of the rate limiter.
#[derive(PartialEq, Debug, Default)]
struct Limiter(Option<(u16, Rate, Bytes, Nanos)>);

impl RateLimiter for Limiter {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.0 = Some((index, rate, window, hold));
    }
}

/// A flow of one engine, and a flow of a new engine into which the first one's state is copied halfway.
struct Moved<'a>(Run<'a>);

impl Visitor for Moved<'_> {
    type Output = ();

    fn visit<A: ReactionPoint>(self) {
        let Run { words, operations } = self.0;
        let params = || A::check(&A::PRESETS[0].values, &LINK).unwrap();
        let (mut now, mut limiter) = (Instant::from_nanos(1 << 40), Limiter::default());
        let mut first = RpEngine::<A, 4, 8>::new(now, LINK, params());
        let flow = first.open(now, 3, &mut limiter).unwrap();
        assert!(first.inject(now, flow, A::from_words(words).snapshot(), &mut limiter));
        let (before, after) = operations.split_at(operations.len() / 2);
        for operation in before {
            now = now.after(Nanos::new(operation.1));
            first.step(now, flow, &event(operation).1, &mut limiter);
        }
        let (mut second, mut others) = (RpEngine::<A, 4, 8>::new(now, LINK, params()), Limiter::default());
        let moved = second.open(now, 3, &mut others).unwrap();
        first.step(now, flow, &Event::Wake, &mut limiter);
        assert!(second.inject(now, moved, first.snapshot(flow).unwrap(), &mut others));
        assert_eq!((limiter.0, second.snapshot(moved)), (others.0, first.snapshot(flow)), "{}", A::NAME);
        for operation in after {
            now = now.after(Nanos::new(operation.1));
            let event = event(operation).1;
            assert_eq!(
                second.step(now, moved, &event, &mut others),
                first.step(now, flow, &event, &mut limiter),
                "{}: {event:?}",
                A::NAME
            );
            assert_eq!(limiter, others);
        }
        assert!(first.close(flow));
        assert_eq!(first.snapshot(flow), None);
        assert!(!first.inject(now, flow, A::from_words(words).snapshot(), &mut limiter));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn a_flow_moved_to_another_engine_makes_the_same_decisions(
        words in prop::collection::vec(any::<u32>(), 64),
        operations in prop::collection::vec(operation(), 1..24),
    ) {
        for entry in registry::ALL {
            registry::with(entry.name, Moved(Run { words: &words, operations: &operations })).unwrap();
        }
    }

    #[test]
    fn any_words_are_a_state_that_is_restored_unchanged(
        words in prop::collection::vec(any::<u32>(), 64),
        operations in prop::collection::vec(operation(), 1..24),
    ) {
        for entry in registry::ALL {
            registry::with(entry.name, Run { words: &words, operations: &operations }).unwrap();
        }
    }
}
