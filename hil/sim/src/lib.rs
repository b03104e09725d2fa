//! The simulated fabric: hosts, cables and switches, driven by one event queue. The NICs and the congestion points of the
//! switches are the library's own engines; only cables, buffers and applications are simulated.
//!
//! Time is integer picoseconds. Events of the same picosecond are handled in the order in which they were scheduled, so runs
//! with equal seeds are equal to the byte.
#![forbid(unsafe_code)]

mod event_queue;
mod host;
pub mod incast;
pub mod marking;
pub mod named;
mod network;
mod packet;
mod run;
mod slab;
mod switch;

use cc_core::wire::pfc::Quantum;
use cc_core::{Instant, Rate};

/// Picoseconds since the start of the run; 213 days fit.
type Picos = u64;

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
