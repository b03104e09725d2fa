//! A path of links that carry random loads, and the telemetry that its ports write into a packet.

use crate::hpcc::Record;
use crate::tolerance::SplitMix;
use cc_core::{Hop, IntLayout, IntStackBuilder};

/// The links, and their last records.
#[derive(Clone)]
pub struct Links {
    gbps: Vec<u32>,
    pub records: Vec<Record>,
    /// Upper bound of their random loads: 1 is a little more than a link can carry.
    pub load: f64,
}

impl Links {
    /// Links of these speeds in Gb/s, whose clocks start at random values.
    pub fn new(random: &mut SplitMix, gbps: &[u32]) -> Self {
        let record = |&gbps: &u32| Record {
            b: f64::from(gbps) / 8.0,
            ts: f64::from(random.within(0..=u32::MAX)),
            tx_bytes: 0.0,
            qlen: 0.0,
        };
        Self { records: gbps.iter().map(record).collect(), gbps: gbps.to_vec(), load: 1.0 }
    }

    /// Advances the time by `gap` nanoseconds: each link carries a random part of what it can, and has a random queue.
    pub fn pass(&mut self, random: &mut SplitMix, gap: u32) {
        for record in &mut self.records {
            // Whole units of the telemetry, so that the machine and the equations get the same numbers.
            record.ts += f64::from(gap);
            let share = f64::from(random.within(0..=1_050)) / 1e3 * self.load;
            record.tx_bytes += (share * record.b * f64::from(gap) / 64.0).floor() * 64.0;
            record.qlen = (f64::from(random.within(0..=250_000)) * self.load).floor();
        }
    }

    /// The records in a packet on this path, in the wide layout.
    pub fn telemetry(&self, path: u16) -> IntStackBuilder {
        let hop = |(record, gbps): (&Record, &u32)| Hop {
            mbps: gbps * 1_000,
            flags: 0,
            clock: (record.ts % 4_294_967_296.0) as u32,
            sent: ((record.tx_bytes / 64.0) % 4_294_967_296.0) as u32,
            queue: record.qlen as u32,
        };
        IntStackBuilder::new(IntLayout::Wide, path).with(self.records.iter().zip(&self.gbps).map(hop))
    }
}
