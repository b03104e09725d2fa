//! The interface of a replayed NIC, which runs natively, on a core, or on both.

use super::event::NicEvent;
use anyhow::Result;
use cc_core::table::Handle;
use hil_algorithms::NicCounters;
use hil_cores::board::PacerStore;
use std::any::Any;
use std::fmt;
use std::net::IpAddr;

/// What a NIC does for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It sets rate, window and hold of a flow.
    Pace(PacerStore),
    /// It sends a CNP.
    Cnp {
        /// The address that the CNP goes to.
        to: IpAddr,
        /// The queue pair that the CNP goes to.
        qpn: u32,
    },
}

/// The decisions of a NIC, each with its time in nanoseconds.
pub type Decisions = Vec<(u64, Decision)>;

/// A NIC under replay.
pub trait Device: Any {
    /// The time of its next wake, in nanoseconds; `u64::MAX` for never.
    fn next_wake(&self) -> u64;

    /// Wakes it at [`Device::next_wake`].
    ///
    /// # Errors
    /// The firmware misbehaved.
    fn wake(&mut self, decisions: &mut Decisions) -> Result<()>;

    /// Handles an event at `now`, in nanoseconds. Returns the flow that it opened, if it opened one.
    ///
    /// # Errors
    /// The firmware misbehaved.
    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>>;

    /// Called at the end of the capture, with its time: handles the events that are still under way.
    ///
    /// # Errors
    /// The firmware misbehaved.
    fn finish(&mut self, now: u64, decisions: &mut Decisions) -> Result<()> {
        let _ = (now, decisions);
        Ok(())
    }

    /// The first difference between the decisions of the library and those of the image, once.
    fn difference(&mut self) -> Option<Difference> {
        None
    }

    /// Its counters, by name.
    fn counters(&self) -> NicCounters;
}

impl Device for Box<dyn Device> {
    #[inline]
    fn next_wake(&self) -> u64 {
        (**self).next_wake()
    }

    #[inline]
    fn wake(&mut self, decisions: &mut Decisions) -> Result<()> {
        (**self).wake(decisions)
    }

    #[inline]
    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        (**self).deliver(now, event, decisions)
    }

    #[inline]
    fn finish(&mut self, now: u64, decisions: &mut Decisions) -> Result<()> {
        (**self).finish(now, decisions)
    }

    #[inline]
    fn difference(&mut self) -> Option<Difference> {
        (**self).difference()
    }

    #[inline]
    fn counters(&self) -> NicCounters {
        (**self).counters()
    }
}

/// The first difference between library and image.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Which event of this NIC, from 1.
    pub event: u64,
    /// Its time in nanoseconds.
    pub now: u64,
    /// What happened.
    pub kind: &'static str,
    /// The slot of the event, if it has one.
    pub slot: Option<u16>,
    /// What the library did.
    pub native: String,
    /// What the image did.
    pub core: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, now, kind, native, core, .. } = self;
        write!(f, "event {event} at {now} ns, {kind}: the library {native}, but the image on the core {core}")
    }
}
