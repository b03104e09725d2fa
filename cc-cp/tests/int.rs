//! Telemetry records compared with computation in 128-bit numbers, which do not wrap.

#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
mod one_queue;
#[allow(dead_code, unreachable_pub, reason = "a module that several tests share")]
#[path = "../../cc-rp/tests/tolerance/mod.rs"]
mod tolerance;

use cc_core::{Bytes, Ecn, Link, Nanos, Rate};
use cc_cp::int::{IntPush, IntSettings};
use cc_cp::{QueueStage, Verdict};
use one_queue::OneQueue;
use tolerance::SplitMix;

/// HPCC (SIGCOMM 2019), 4.2 and Fig. 7: B, TS, txBytes (bytes sent before this packet) and qLen (bytes queued behind it). Units
/// of the compact layout by the public simulator's int-header.h: 128 bytes and 80 bytes, times the multiplier.
mod oracle {
    pub(super) struct Egress {
        pub(super) wide: bool,
        pub(super) multi: u128,
        pub(super) sent: u128,
    }

    impl Egress {
        /// A packet leaves at `now` ns. Returns (TS, txBytes, qLen), modulo the size of the record's fields.
        pub(super) fn record(&mut self, now: u128, bytes: u32, queued: u32) -> (u128, u128, u128) {
            let behind = u128::from(queued.saturating_sub(bytes));
            let (sent, queue) = match self.wide {
                true => (self.sent / 64, behind),
                false => (self.sent / (128 * self.multi), behind / (80 * self.multi)),
            };
            self.sent += u128::from(bytes);
            (now % (1 << 32), sent % (1 << 32), queue)
        }
    }
}

#[test]
fn each_record_has_the_bytes_sent_and_the_bytes_queued() {
    let mut random = SplitMix::new(2);
    for _ in 0..60 {
        let wide = random.within(0..=1) == 0;
        let multi = 1 << random.within(0..=6);
        let gbps = [25, 40, 50, 100, 200, 400][random.within(0..=5) as usize];
        let link = Link { line_rate: Rate::from_gbps(gbps), mtu: Bytes::new(1_064), base_rtt: Nanos::new(12_000) };
        let settings = IntSettings { int_layout: u32::from(!wide), int_multi: multi };
        let params = IntPush::check(&settings, &link).unwrap();
        let mut now = random.draw() >> 2;
        let mut machine = OneQueue::<IntPush>::new(params, now, 0);
        let mut oracle = oracle::Egress { wide, multi: multi.into(), sent: 0 };
        for _ in 0..2_000 {
            now += u64::from(random.within(0..=u32::MAX) >> random.within(0..=31));
            // Any number of bytes, so that the counters wrap; a queue length with the packet, or less than the packet.
            let bytes = random.within(0..=u32::MAX) >> random.within(0..=31);
            let queued = random.within(0..=u32::MAX) >> random.within(0..=31);
            match random.within(0..=30) {
                0 => machine.wakes(now),
                kind @ 1..=2 => machine.pauses(now, kind - 1, queued),
                _ => {}
            }
            let ecn = Ecn::from_bits(random.within(0..=3) as u8);
            let verdict = machine.departs(now, bytes, [random.within(0..=u32::MAX), queued], ecn);
            let hop = verdict.hop.unwrap();
            assert_eq!(verdict, Verdict { hop: Some(hop), ..Verdict::PASS });
            let (clock, sent, queue) = oracle.record(now.into(), bytes, queued);
            let got = (u128::from(hop.clock), u128::from(hop.sent), u128::from(hop.queue));
            assert_eq!(
                (got, hop.mbps, hop.flags),
                ((clock, sent, queue), gbps * 1_000, 0),
                "{settings:?}: {bytes} of {queued}"
            );
        }
    }
}
