//! Loads a program into a core's RAM.

use super::{Core, Ram};
use crate::elf::{Error, Image};

impl Image {
    /// Writes the segments into a core's RAM, which is zero where the file gives no bytes.
    ///
    /// # Errors
    /// [`Error::OutsideRam`] for the first segment that does not lie in one region; the core's RAM is then unchanged.
    pub fn load(&self, core: &mut dyn Core, ram: &[Ram]) -> Result<(), Error> {
        for segment in &self.segments {
            let given = segment.bytes.len() as u32;
            for (address, size) in [(segment.load_address, given), (segment.address, segment.size)] {
                if !ram.iter().any(|region| region.contains(address, size)) {
                    return Err(Error::OutsideRam { address, size });
                }
            }
        }
        for segment in &self.segments {
            core.poke(segment.load_address, &segment.bytes);
        }
        Ok(())
    }
}
