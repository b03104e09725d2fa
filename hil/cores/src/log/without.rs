//! Replaces `texts.rs` if the harness is built without the feature `log`: reading a log is then an error.

use super::Line;
use anyhow::{Result, bail};
use std::path::Path;

const UNSUPPORTED: &str = "this hil does not decode logs: build it by cargo build --release -p hil --features log";

/// The texts of an image's log lines: no value, since this build does not decode logs.
#[derive(Debug)]
pub enum Texts {}

impl Texts {
    /// Whether this build decodes logs: it does not.
    ///
    /// # Errors
    /// Always; says how to build a harness that does.
    pub fn supported() -> Result<()> {
        bail!(UNSUPPORTED)
    }

    /// Refused: this build does not decode logs.
    ///
    /// # Errors
    /// As for [`Texts::supported`].
    pub fn read(_: &Path) -> Result<Self> {
        bail!(UNSUPPORTED)
    }

    /// Never called, since there is no value.
    pub(super) fn decode(&self, _: u64, _: &[u8], _: &dyn Fn(Line)) {
        match *self {}
    }
}
