//! Decodes frames of defmt to log lines, with the texts in the image's ELF file.

use super::{Line, LogSource};
use anyhow::{Context, Result};
use defmt_decoder::{DecodeError, Table};
use std::fs;
use std::path::Path;

/// The texts of an image's log lines.
pub struct Texts(Table);

impl Texts {
    /// Whether this build decodes logs. This one does, see `without.rs`.
    ///
    /// # Errors
    /// None.
    pub fn supported() -> Result<()> {
        Ok(())
    }

    /// Reads the texts of the image in a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no image that logs.
    pub fn read(path: &Path) -> Result<Self> {
        let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let table = Table::parse(&file).with_context(|| path.display().to_string())?;
        let what = || format!("{}: the image does not log: expected one with the feature log", path.display());
        table.map(Self).with_context(what)
    }

    /// Decodes frames that were read in this cycle, and passes their lines to `sink`.
    pub(super) fn decode(&self, cycle: u64, frames: &[u8], sink: &dyn Fn(Line)) {
        let Self(table) = self;
        let mut decoder = table.new_stream_decoder();
        decoder.received(frames);
        loop {
            match decoder.decode() {
                Ok(frame) => sink(Line {
                    cycle,
                    source: LogSource::Image(frame.level().map_or("print", |level| level.as_str())),
                    clock: frame.display_timestamp().map(|clock| clock.to_string()),
                    text: frame.display_message().to_string(),
                }),
                Err(DecodeError::Malformed) => {
                    let text = "a frame that defmt cannot decode".to_owned();
                    sink(Line { cycle, source: LogSource::Lost, clock: None, text });
                    if !table.encoding().can_recover() {
                        break;
                    }
                }
                Err(DecodeError::UnexpectedEof) => break,
            }
        }
    }
}
