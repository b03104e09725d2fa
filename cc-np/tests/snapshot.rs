//! Any words are a valid state of every notification point, both of a flow and shared: no event causes a panic, and a state
//! that is restored from its snapshot is unchanged.

use cc_core::snapshot::Words;
use cc_core::wire::shim::MlccData;
use cc_core::{Bytes, Ecn, Instant, IntLayout, IntStack, Link, Mark, Nanos, Psn, Qpn, Rate, Stamp, State};
use cc_np::registry::{self, Visitor};
use cc_np::{Arrival, Cx, NotificationPoint};
use proptest::prelude::*;

const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(4_096), base_rtt: Nanos::new(12_000) };

/// Words of the state of a flow, and of the shared state.
const WORDS: usize = 128;

/// An event: its kind, nanoseconds since the one before, and numbers for its fields.
type Operation = (u8, u32, [u32; 5], [u8; 16 * 15]);

fn operation() -> impl Strategy<Value = Operation> {
    // Waits are at most half a second, and short ones are as frequent as long ones.
    let wait = (0..1_u32 << 29, 0..30).prop_map(|(wait, by)| wait >> by);
    (0..8_u8, wait, any::<[u32; 5]>(), prop::array::uniform(any::<u8>()))
}

fn arrival<'a>(now: Stamp, [a, b, c, d, e]: [u32; 5], area: &'a [u8]) -> Arrival<'a> {
    let layout = if c & 1 == 0 { IntLayout::Wide } else { IntLayout::Compact };
    Arrival {
        local: Qpn::new(a),
        psn: Psn::new(b),
        bytes: Bytes::new(c >> (d % 32)),
        payload: Bytes::new(c >> (d % 32) >> 1),
        ecn: if d & 32 == 0 { Ecn::Ect0 } else { Ecn::Ce },
        mark: [Mark::None, Mark::Congested, Mark::Undetermined][d as usize % 3],
        first: d & 64 == 0,
        last: d & 128 == 0,
        sent: (d & 256 == 0).then_some(Stamp::from_bits(now.to_bits().wrapping_sub(e >> (a % 32)))),
        arrived: now,
        int: IntStack::new(layout, (e & 0xfff) as u16, (d >> 9) as u8 % 6, area).unwrap(),
        mlcc: (e & 1 == 0).then_some(MlccData { credit: (b >> 8) as u16, queue: Bytes::new(a >> (b % 32)) }),
    }
}

struct Run<'a> {
    words: &'a [u32],
    operations: &'a [Operation],
}

impl Visitor for Run<'_> {
    type Output = ();

    fn visit<N: NotificationPoint>(self) {
        for preset in N::PRESETS {
            let params = N::check(&preset.values, &LINK).unwrap();
            let at = |now| Cx { now: Instant::from_nanos(now), link: &LINK, params: &params };
            let (flow, common) = self.words.split_at(WORDS);
            let mut opened = N::SHARED;
            let start = N::open(&at(0), &mut opened, Some(Qpn::new(7)));
            for (mut shared, mut state) in [(opened, start), (N::Shared::from_words(common), N::from_words(flow))] {
                let mut now = 0;
                for (kind, wait, numbers, area) in self.operations {
                    assert_restored(&state, N::NAME);
                    assert_restored(&shared, N::NAME);
                    now += u64::from(*wait);
                    let cx = at(now);
                    match kind {
                        0 => {
                            state.slot(&cx, &mut shared);
                        }
                        1 => state.on_cnp_sent(&cx, &mut shared),
                        2 => state.on_ack_sent(&cx, &mut shared),
                        3 => state.on_evicted(&cx, &mut shared),
                        _ => {
                            let arrival = arrival(cx.now.stamp(), *numbers, area);
                            let mut other = (N::from_snapshot(state.snapshot()), shared);
                            let reply = state.on(&cx, &mut shared, &arrival);
                            assert_eq!(other.0.on(&cx, &mut other.1, &arrival), reply, "{} {}", N::NAME, preset.name);
                        }
                    }
                }
                assert_restored(&state, N::NAME);
                assert_restored(&shared, N::NAME);
            }
        }
    }
}

/// A state restored from its snapshot equals the original, as fields and as words.
fn assert_restored<S: State + Copy + PartialEq + std::fmt::Debug>(state: &S, name: &str) {
    assert_eq!(S::from_snapshot(state.snapshot()), *state, "{name}");
    let mut words = [0; WORDS];
    assert_eq!(state.to_words(&mut words), S::Snapshot::COUNT);
    assert!(S::Snapshot::COUNT <= words.len(), "{name}: {} words", S::Snapshot::COUNT);
    assert_eq!(S::from_words(&words), *state, "{name}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]
    #[test]
    fn any_words_are_a_state_that_is_restored_unchanged(
        words in prop::collection::vec(any::<u32>(), 2 * WORDS),
        operations in prop::collection::vec(operation(), 1..24),
    ) {
        for entry in registry::ALL {
            registry::with(entry.name, Run { words: &words, operations: &operations }).unwrap();
        }
    }
}
