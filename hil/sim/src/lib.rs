//! Simulated networks: hosts, links and switches, driven by one event queue. The NICs and the congestion points of the switches
//! are the library's own engines; only links, queues, transport and applications are simulated.
//!
//! [`fabric`] simulates any topology and workload, for `hil sim`. Time is integer picoseconds, and events of one time are ordered
//! by what they mean and where they happen.
//!
//! [`incast`] is the scenario of `hil synth`, from which the sample capture of the project is made. It has an event loop of its
//! own, in which events of one picosecond are handled in the order in which they were scheduled. It is to become a scenario of
//! [`fabric`]; that reorders simultaneous events, and so changes the sample and every golden file that rests on it.
#![forbid(unsafe_code)]

mod event_queue;
pub mod fabric;
mod host;
pub mod incast;
pub mod marking;
pub mod named;
mod network;
pub mod ns3;
mod packet;
mod run;
mod slab;
mod source;
pub mod summary;
mod switch;

use cc_core::wire::pfc::Quantum;
use cc_core::{Instant, Rate};

/// Picoseconds since the start of the run; 213 days fit.
pub type Picos = u64;

/// The time that is passed to the engines, in whole nanoseconds, rounded down.
fn instant(now: Picos) -> Instant {
    Instant::from_nanos(now / 1_000)
}

/// A full-duplex cable.
#[derive(Clone, Copy, Debug)]
struct Cable {
    /// Speed in Gb/s.
    gbps: u32,
    /// Propagation delay, one way.
    delay: Picos,
}

impl Cable {
    /// Bytes of line time that a frame takes in addition to its own: preamble 8, check sequence 4, inter-frame gap 12.
    const OVERHEAD: u32 = 24;

    /// The time for which a frame of this many bytes occupies the cable, rounded down to a picosecond.
    fn serialisation(self, frame_bytes: u32) -> Picos {
        Picos::from(frame_bytes + Self::OVERHEAD) * 8_000 / Picos::from(self.gbps)
    }

    /// The unit of time of PFC frames at this speed.
    fn quantum(self) -> Quantum {
        Quantum::at(Rate::from_gbps(self.gbps))
    }
}
