//! Swing's relays compared with their rules on clocks and counters that do not wrap, event by event.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Link, Nanos, Rate, Stamp};
use cc_cp::RelayMessage;
use cc_cp::swing::{Params, ReceiverRelay, SenderRelay, SwingSettings};
use tolerance::SplitMix;

/// The rules of the relays, by LSCC (III-B, IV-C) and the abstract of Swing (TPDS 2023): pauses are passed on, and a buffer in
/// which the data of a round trip no longer fits pauses too. A missed message and a timeout count as pauses.
mod oracle {
    /// Bytes and nanoseconds.
    #[derive(Clone, Copy)]
    pub(super) struct Link {
        pub(super) buffer: i64,
        /// Bytes that the link carries in its one-way delay.
        pub(super) one_way: i64,
        pub(super) keepalive: i64,
        /// The duration of the quanta of a pause frame.
        pub(super) pause: i64,
    }

    pub(super) struct Far {
        pub(super) queued: i64,
        pub(super) held: bool,
        full: bool,
        last_sent_at: i64,
        pub(super) messages: i64,
    }

    impl Far {
        pub(super) fn new(now: i64) -> Self {
            Self { queued: 0, held: false, full: false, last_sent_at: now, messages: 0 }
        }

        /// After an event, before which the relay was pausing or not (`was`): returns the message, if one is sent, as pause or
        /// resume, and its number.
        pub(super) fn next_message(&mut self, link: &Link, now: i64, was: bool) -> Option<(bool, i64)> {
            let high = link.buffer - 2 * link.one_way;
            self.full = if self.full { self.queued >= link.one_way.min(high) } else { self.queued > high };
            let changed = self.is_pausing() != was;
            (changed || now - self.last_sent_at >= link.keepalive).then(|| {
                (self.last_sent_at, self.messages) = (now, self.messages + 1);
                (self.is_pausing(), self.messages)
            })
        }

        pub(super) fn is_pausing(&self) -> bool {
            self.held || self.full
        }
    }

    pub(super) struct Near {
        /// When it last received a new message, or last paused because of the timeout.
        pub(super) last_new_at: i64,
        /// The last message's number.
        last: Option<i64>,
        pub(super) pauses: bool,
    }

    impl Near {
        pub(super) fn new(now: i64) -> Self {
            Self { last_new_at: now, last: None, pauses: false }
        }

        /// Processes a message, in any order of the numbers, or with `None` the passing of time.
        pub(super) fn process(&mut self, link: &Link, now: i64, message: Option<(bool, i64)>) {
            match message.filter(|&(_, number)| self.last.is_none_or(|last| number > last)) {
                Some((pause, number)) => {
                    let missed = self.last.is_some_and(|last| number > last + 1);
                    (self.last_new_at, self.last, self.pauses) = (now, Some(number), pause || missed);
                }
                None if now - self.last_new_at >= 4 * link.keepalive => (self.last_new_at, self.pauses) = (now, true),
                None => {}
            }
        }
    }
}

fn link(random: &mut SplitMix) -> (Params, oracle::Link) {
    let gbps = [10, 40, 100, 200, 400, 800][random.within(0..=5) as usize];
    let delay = random.within(0..=2_000_000);
    let one_way = delay * gbps / 8;
    let settings = SwingSettings {
        buffer: 2 * one_way + random.within(1..=one_way * 2 + 100_000),
        delay,
        keepalive: random.within(1_000..=1_000_000),
        pause_quanta: random.within(2..=65_535),
    };
    let port = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_000), base_rtt: Nanos::new(2_000_000) };
    let oracle = oracle::Link {
        buffer: settings.buffer.into(),
        one_way: one_way.into(),
        keepalive: settings.keepalive.into(),
        pause: (i64::from(settings.pause_quanta) * 512 + i64::from(gbps) - 1) / i64::from(gbps),
    };
    (Params::new(&settings, &port).unwrap(), oracle)
}

/// A random time of less than 1 s, because a relay has to be called at least once a second.
fn later(random: &mut SplitMix, link: &oracle::Link) -> i64 {
    let keepalive = link.keepalive as u32;
    i64::from(match random.within(0..=99) {
        0 => random.within(0..=999_999_999),
        1..=4 => (4 * keepalive).saturating_sub(random.within(0..=2)),
        5..=9 => keepalive.saturating_sub(random.within(0..=2)),
        10..=14 => (link.pause as u32 / 2).saturating_sub(random.within(0..=1)),
        _ => random.within(0..=keepalive / 4),
    })
}

fn at(now: i64) -> Stamp {
    Stamp::from_bits(now as u32)
}

#[test]
fn the_far_relay_reports_pauses_of_its_switch_and_a_full_buffer() {
    let mut random = SplitMix::new(6);
    let (mut full, mut messages) = (0, 0);
    for _ in 0..60 {
        let (p, link) = link(&mut random);
        let mut now = i64::from(random.within(0..=u32::MAX));
        let (mut machine, mut oracle) = (ReceiverRelay::open(&p, at(now)), oracle::Far::new(now));
        for event in 0..4_000 {
            now += later(&mut random, &link);
            // The buffer fills and drains in turn, often to a threshold or a byte beyond it.
            let fills = event / 60 % 2 == 0;
            let high = link.buffer - 2 * link.one_way;
            let left = if fills { high - oracle.queued } else { oracle.queued - link.one_way.min(high) };
            let left = left.max(0) as u32;
            let bytes = match random.within(0..=9) {
                0..=1 => left + random.within(0..=1),
                _ => random.within(0..=(link.buffer / 20) as u32),
            };
            let was = oracle.is_pausing();
            let message = match random.within(0..=9) {
                0 => machine.wake(&p, at(now)),
                1..=2 => {
                    oracle.held = random.within(0..=1) == 0;
                    machine.paused(&p, at(now), oracle.held)
                }
                kind if (kind < 9) == fills => {
                    let bytes = i64::from(bytes).min(link.buffer - oracle.queued);
                    oracle.queued += bytes;
                    machine.arrived(&p, at(now), Bytes::new(bytes as u32))
                }
                _ => {
                    let bytes = i64::from(bytes).min(oracle.queued);
                    oracle.queued -= bytes;
                    machine.left(&p, at(now), Bytes::new(bytes as u32))
                }
            };
            let expected = oracle.next_message(&link, now, was);
            let expected = expected.map(|(paused, number)| RelayMessage { paused, seq: number as u16 });
            assert_eq!(message, expected);
            assert_eq!((i64::from(machine.queued().get()), machine.is_draining()), (oracle.queued, !oracle.held));
            full += u32::from(oracle.is_pausing() && !oracle.held);
        }
        messages += oracle.messages;
    }
    assert!(full > 10_000 && messages > 10_000, "{full}, {messages}");
}

#[test]
fn the_near_relay_follows_new_messages_and_pauses_after_gaps_and_timeouts() {
    let mut random = SplitMix::new(7);
    let (mut pauses, mut resumes) = (0, 0);
    for _ in 0..60 {
        let (p, link) = link(&mut random);
        let mut now = i64::from(random.within(0..=u32::MAX));
        let (mut machine, mut oracle) = (SenderRelay::open(&p, at(now)), oracle::Near::new(now));
        let mut sent = i64::from(random.within(0..=u32::MAX));
        for _ in 0..4_000 {
            now += later(&mut random, &link);
            let message = match random.within(0..=9) {
                0..=2 => None,
                // A repeated or overtaken message, within half of the range of the sequence numbers.
                3 => Some(sent - i64::from(random.within(0..=32_768) >> random.within(0..=15))),
                kind => {
                    sent += if kind == 9 { i64::from(random.within(1..=20_000) >> random.within(0..=14)) } else { 1 };
                    Some(sent)
                }
            };
            let message = message.map(|number| (random.within(0..=2) == 0, number));
            let was = machine.is_pausing();
            match message {
                Some((paused, number)) => machine.on_message(&p, at(now), RelayMessage { paused, seq: number as u16 }),
                None => machine.wake(&p, at(now)),
            }
            oracle.process(&link, now, message);
            assert_eq!(machine.is_pausing(), oracle.pauses, "{message:?}");
            pauses += u32::from(!was && machine.is_pausing());
            resumes += u32::from(was && !machine.is_pausing());
        }
    }
    assert!(pauses > 10_000 && resumes > 10_000, "{pauses}, {resumes}");
}
