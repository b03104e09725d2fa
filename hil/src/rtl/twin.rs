//! The firmware image on the model and on the RTL, side by side: what it does, and on which cycle.

use crate::board::Board;
use crate::core::{Core, Model};
use crate::replay::device::{Acts, Arrival, Counters, Device};
use crate::rtl::Rtl;
use anyhow::{Result, ensure};
use nic::descriptor::Descriptor;

/// A NIC that runs twice: on the model and on the RTL.
pub struct Twin {
    model: Board<Model>,
    rtl: Board<Rtl>,
    compared: u64,
}

impl Twin {
    /// Both with their image waiting for its first event.
    ///
    /// # Errors
    /// They took different times to start.
    pub fn new(model: Board<Model>, rtl: Board<Rtl>) -> Result<Self> {
        let mut twin = Self { model, rtl, compared: 0 };
        twin.compare(&Vec::new(), &Vec::new())?;
        Ok(twin)
    }

    /// Acts compared, each with its cycle.
    pub fn compared(&self) -> u64 {
        self.compared
    }

    /// Cycles since reset, sleep not included.
    pub fn cycles(&self) -> u64 {
        self.model.core().cycles()
    }

    /// Instructions since reset.
    pub fn instructions(&self) -> u64 {
        self.model.core().instructions()
    }

    fn compare(&mut self, model: &Acts, rtl: &Acts) -> Result<()> {
        for (index, ours) in model.iter().enumerate() {
            let theirs = rtl.get(index);
            ensure!(theirs == Some(ours), "act {}: model {ours:?}, RTL {theirs:?}", self.compared);
            self.compared += 1;
        }
        ensure!(model.len() == rtl.len(), "after act {}: only the RTL does {:?}", self.compared, rtl.get(model.len()));
        let count = |core: &dyn Core| (core.cycles(), core.instructions());
        let (ours, theirs) = (count(self.model.core()), count(self.rtl.core()));
        ensure!(
            ours == theirs,
            "after act {}: cycles and instructions {ours:?} on the model, {theirs:?} on the RTL",
            self.compared
        );
        ensure!(self.model.cycles() == self.rtl.cycles(), "after act {}: cycles per event differ", self.compared);
        Ok(())
    }
}

impl Device for Twin {
    fn next_wake(&self) -> u64 {
        self.model.next_wake()
    }

    fn wake(&mut self, acts: &mut Acts) -> Result<()> {
        let (model, rtl) = (self.model.wake()?, self.rtl.wake()?);
        self.compare(&model, &rtl)?;
        acts.extend(model);
        Ok(())
    }

    fn deliver(&mut self, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, acts: &mut Acts) -> Result<()> {
        let frame = arrival.map_or(&[][..], |arrival| arrival.bytes);
        let (model, rtl) = (self.model.deliver(descriptor, frame)?, self.rtl.deliver(descriptor, frame)?);
        self.compare(&model, &rtl)?;
        acts.extend(model);
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
