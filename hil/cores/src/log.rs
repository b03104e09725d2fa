//! The log lines of an image, merged by cycle with the events that the harness sees at its core.
//!
//! The image writes frames of defmt into a ring in RAM, see [`LogRing`]. The frames hold only numbers; the texts of the lines
//! are in the ELF file. The harness empties the ring at every store of the image to a device; each event makes several.

#[cfg_attr(not(feature = "log"), path = "log/without.rs")]
mod texts;

use crate::core::Core;
use crate::elf::Image;
use anyhow::{Context, Result};
use programs::layout::{DEVICE_BASE, LOG_BYTES, LogRing, register};
use std::fmt;
use std::mem::offset_of;
use std::rc::Rc;
pub use texts::Texts;

/// The source of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogSource {
    /// The harness: its own actions, and stores of the image to devices.
    Harness,
    /// The harness: a report of lost log lines.
    Lost,
    /// The image, at this level.
    Image(&'static str),
}

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The cycle. For a line of the image, the cycle in which the harness read it, soon after it was written.
    pub cycle: u64,
    /// Its source.
    pub source: LogSource,
    /// The image's clock when it wrote the line, in nanoseconds.
    pub clock: Option<String>,
    /// Its text.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            LogSource::Harness => "hil",
            LogSource::Lost => "lost",
            LogSource::Image(level) => level,
        };
        write!(f, "{source:<5} ")?;
        if let Some(clock) = &self.clock {
            write!(f, "at {clock} ns: ")?;
        }
        write!(f, "{}", self.text)
    }
}

/// Reads the log of a core.
pub struct Reader {
    texts: Rc<Texts>,
    ring: u32,
    read: u32,
    lost: u32,
    sink: Box<dyn Fn(Line)>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("read", &self.read).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Reader {
    /// A reader of the log of a core with this image, from the start of the image. It passes the lines to `sink`.
    ///
    /// # Errors
    /// The image has no ring.
    pub fn new(texts: Rc<Texts>, image: &Image, sink: Box<dyn Fn(Line)>) -> Result<Self> {
        let ring = image.symbols.get("DEFMT_RING").context("the image has no symbol DEFMT_RING")?;
        Ok(Self { texts, ring: *ring, read: 0, lost: 0, sink })
    }

    /// Called before each event: writes a line with the time `now` that the clock shows in this cycle.
    pub fn event(&mut self, now: u64, cycle: u64) {
        self.write(cycle, format!("the clock shows {now} ns"));
    }

    /// Called when the image has stored to a device. Lines that it logged before come first.
    pub fn stored(&mut self, core: &mut impl Core, address: u32, value: u32) {
        self.drain(core);
        let text = match address.wrapping_sub(DEVICE_BASE) {
            register::BUSY_PIN if value != 0 => "it takes a descriptor",
            register::TIMER_PIN if value != 0 => "it takes the timer interrupt",
            register::TX_TAIL => "it sends a frame",
            register::EXIT => "it ends",
            _ => return,
        };
        self.write(core.cycles(), text.to_owned());
    }

    fn write(&self, cycle: u64, text: String) {
        (self.sink)(Line { cycle, source: LogSource::Harness, clock: None, text });
    }

    /// Empties the ring.
    pub fn drain(&mut self, core: &mut impl Core) {
        let written = self.word(core, offset_of!(LogRing, written));
        let lost = self.word(core, offset_of!(LogRing, lost));
        if written == self.read && lost == self.lost {
            return;
        }
        let cycle = core.cycles();
        let bytes = self.take(core, written);
        self.texts.decode(cycle, &bytes, &*self.sink);
        if lost != self.lost {
            let text = format!("{} bytes of log found no room in the ring", lost.wrapping_sub(self.lost));
            self.lost = lost;
            (self.sink)(Line { cycle, source: LogSource::Lost, clock: None, text });
        }
    }

    fn word(&self, core: &impl Core, offset: usize) -> u32 {
        let mut word = [0; 4];
        core.peek(self.ring + offset as u32, &mut word);
        u32::from_le_bytes(word)
    }

    /// Takes the bytes of the ring up to `written`, and frees them for the image.
    fn take(&mut self, core: &mut impl Core, written: u32) -> Vec<u8> {
        let mut all = [0; LOG_BYTES];
        core.peek(self.ring + offset_of!(LogRing, bytes) as u32, &mut all);
        let (from, count) = (self.read as usize % LOG_BYTES, written.wrapping_sub(self.read) as usize);
        self.read = written;
        core.poke(self.ring + offset_of!(LogRing, read) as u32, &written.to_le_bytes());
        all.into_iter().cycle().skip(from).take(count.min(LOG_BYTES)).collect()
    }
}
