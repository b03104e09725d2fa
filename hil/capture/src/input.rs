//! Reads the bytes of a capture from any source into one buffer, and lends them out.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::{CaptureError, Fault, Place};

/// Bytes of the buffer. It is small enough to stay in a second-level cache between `read` and the use of the packet, and large
/// enough that system calls, and moving a packet that spans two reads, cost little.
const BUFFER: usize = 256 << 10;

pub(super) struct Input<R> {
    source: R,
    name: String,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that have been read from the source and not yet taken.
    unread: Range<usize>,
    /// Place of the buffer's first byte in the file.
    offset: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R, name: &str) -> Self {
        Self { source, name: name.to_owned(), buffer: vec![0; BUFFER], unread: 0..0, offset: 0 }
    }

    /// The name of the file in errors.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Offset in the file of the next byte to take.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.unread.start as u64
    }

    /// A fault of the file. It is boxed, as faults are, because an error of the size of a pointer makes the reading of each
    /// packet faster.
    #[cold]
    pub(super) fn error(&self, place: Place, fault: Fault) -> Box<CaptureError> {
        Box::new(CaptureError { file: self.name.clone(), place, fault })
    }

    /// Whether the source has no further byte.
    pub(super) fn at_end(&mut self) -> Result<bool, Box<Fault>> {
        Ok(self.unread.is_empty() && !self.fill(1)?)
    }

    /// The first four bytes of the file. They are not taken.
    pub(super) fn peek_magic(&mut self) -> Result<[u8; 4], Box<Fault>> {
        let magic = self.take(4, "file header")?;
        self.unread.start = magic.start;
        Ok(self.bytes(magic).as_chunks().0[0])
    }

    /// Takes the next `count` bytes: [`Input::bytes`] returns them until the next call that takes or skips.
    #[inline]
    pub(super) fn take(&mut self, count: usize, what: &'static str) -> Result<Range<usize>, Box<Fault>> {
        if self.unread.len() < count && !self.fill(count)? {
            return Err(self.cut(what, count));
        }
        let start = self.unread.start;
        self.unread.start += count;
        Ok(start..self.unread.start)
    }

    #[cold]
    fn cut(&self, what: &'static str, expected: usize) -> Box<Fault> {
        Box::new(Fault::Cut { what, expected: expected as u64, found: self.unread.len() as u64 })
    }

    #[inline]
    pub(super) fn bytes(&self, taken: Range<usize>) -> &[u8] {
        &self.buffer[taken]
    }

    /// Skips the next `count` bytes, of which at most a buffer is held at a time.
    pub(super) fn skip(&mut self, count: u64, what: &'static str) -> Result<(), Box<Fault>> {
        let mut left = count;
        while left > 0 {
            if self.at_end()? {
                return Err(Fault::Cut { what, expected: count, found: count - left }.into());
            }
            let step = left.min(self.unread.len() as u64);
            self.unread.start += step as usize;
            left -= step;
        }
        Ok(())
    }

    /// Reads until `count` bytes are in the buffer and not yet taken. Returns `false` if the source ends before.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<bool, Box<Fault>> {
        self.offset += self.unread.start as u64;
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if count > self.buffer.len() {
            self.buffer.resize(count, 0);
        }
        while self.unread.end < count {
            match self.source.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.unread.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Read(error).into()),
            }
        }
        Ok(true)
    }
}
