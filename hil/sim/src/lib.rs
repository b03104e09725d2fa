//! Simulated networks: hosts, links and switches, driven by one event queue. The NICs and the congestion points of the switches
//! are the library's own engines; only links, queues, transport and applications are simulated.
//!
//! [`fabric`] simulates any topology and workload. Time is integer picoseconds, and events of one time are ordered by what they
//! mean and where they happen. [`incast`] is the scenario of `hil synth`, from which the sample capture of the project is made.
#![forbid(unsafe_code)]

pub mod fabric;
pub mod incast;
pub mod input;
pub mod marking;
pub mod named;
pub mod ns3;
mod packet;
mod slab;
mod source;
pub mod summary;
pub mod topologies;

use cc_core::Instant;

/// Picoseconds since the start of the run; 213 days fit.
pub type Picos = u64;

/// The time that is passed to the engines, in whole nanoseconds, rounded down.
fn instant(now: Picos) -> Instant {
    Instant::from_nanos(now / 1_000)
}
