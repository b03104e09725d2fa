//! The interface of a replayed NIC, which runs natively, on a core, or on both.

use anyhow::Result;
use cc_core::wire::Parsed;
use hil_cores::board::Action;
use programs::descriptor::Descriptor;

/// Actions of a NIC, each with its time in nanoseconds.
pub type Actions = Vec<(u64, Action)>;

/// A NIC under replay.
pub trait Device {
    /// The time of its next wake, in nanoseconds; `u64::MAX` for never.
    fn next_wake(&self) -> u64;

    /// Wakes it at [`Device::next_wake`].
    ///
    /// # Errors
    /// The firmware misbehaved.
    fn wake(&mut self, actions: &mut Actions) -> Result<()>;

    /// Handles one descriptor; for an arrival, with the frame and its parsed packet.
    ///
    /// # Errors
    /// The firmware misbehaved.
    fn deliver(&mut self, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, actions: &mut Actions) -> Result<()>;

    /// Called at the end of the capture, with its time: handles the events that are still under way.
    ///
    /// # Errors
    /// The firmware misbehaved.
    fn finish(&mut self, now: u64, actions: &mut Actions) -> Result<()> {
        let _ = (now, actions);
        Ok(())
    }

    /// The first difference between the decisions of the library and those of the image, once.
    fn difference(&mut self) -> Option<Difference> {
        None
    }

    /// Its counters, by name.
    fn counters(&self) -> Counters;
}

impl<T: Device + ?Sized> Device for Box<T> {
    fn next_wake(&self) -> u64 {
        (**self).next_wake()
    }

    fn wake(&mut self, actions: &mut Actions) -> Result<()> {
        (**self).wake(actions)
    }

    fn deliver(&mut self, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, actions: &mut Actions) -> Result<()> {
        (**self).deliver(descriptor, arrival, actions)
    }

    fn finish(&mut self, now: u64, actions: &mut Actions) -> Result<()> {
        (**self).finish(now, actions)
    }

    fn difference(&mut self) -> Option<Difference> {
        (**self).difference()
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }
}

/// An arrived frame.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its bytes, as far as captured.
    pub bytes: &'a [u8],
    /// The parsed packet.
    pub packet: &'a Parsed<'a>,
}

/// Counters of a NIC's two machines.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The reaction point's.
    pub rp: Vec<(&'static str, u64)>,
    /// The notification point's.
    pub np: Vec<(&'static str, u64)>,
    /// The number of events for each row of their transition tables.
    pub rows: Rows,
}

/// The number of events for each row of a machine's transition table.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The reaction point's.
    pub rp: Vec<u64>,
    /// The notification point's.
    pub np: Vec<u64>,
}

/// The first difference between library and image.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The number of the NIC's event, from 1.
    pub event: u64,
    /// Its time in nanoseconds.
    pub now: u64,
    /// The kind of event.
    pub kind: &'static str,
    /// The slot of the event, if it has one.
    pub slot: Option<u16>,
    /// What the library did.
    pub native: String,
    /// What the image did.
    pub core: String,
}
