//! Reading and writing bytes in order, without an index and without a panic.

use super::Malformed;

/// What is still to be read of a frame: the bytes captured, and how many more were on the wire.
///
/// There are more when the capture was cut by a snap length. Each read names the error for when the wire
/// itself is too short; when only the capture is, the frame is [`Malformed::Truncated`].
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    cut: usize,
}

impl<'a> Input<'a> {
    /// A whole frame. A wire length below the captured one is a mistake of the capture's writer, and is ignored.
    #[inline]
    pub(super) fn new(frame: &'a [u8], wire_len: usize) -> Self {
        Self { bytes: frame, cut: wire_len.max(frame.len()).wrapping_sub(frame.len()) }
    }

    /// Bytes captured and not yet read.
    #[inline]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes that were on the wire and were not captured.
    #[inline]
    pub(super) fn cut(&self) -> usize {
        self.cut
    }

    /// Bytes that were on the wire and are not yet read.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.bytes.len().wrapping_add(self.cut)
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub(super) fn take<const N: usize>(&mut self, short: Malformed) -> Result<&'a [u8; N], Malformed> {
        let Some((head, rest)) = self.bytes.split_first_chunk() else { return Err(self.lacks(N, short)) };
        self.bytes = rest;
        Ok(head)
    }

    /// The next `len` bytes.
    #[inline(always)]
    pub(super) fn take_slice(&mut self, len: usize, short: Malformed) -> Result<&'a [u8], Malformed> {
        let Some((head, rest)) = self.bytes.split_at_checked(len) else { return Err(self.lacks(len, short)) };
        self.bytes = rest;
        Ok(head)
    }

    /// What was captured of the next `len` bytes, all of which were on the wire.
    #[inline(always)]
    pub(super) fn take_captured(&mut self, len: usize, short: Malformed) -> Result<&'a [u8], Malformed> {
        let (head, rest) = match self.bytes.split_at_checked(len) {
            Some(parts) => parts,
            None => {
                let missing = len.wrapping_sub(self.bytes.len());
                self.cut = self.cut.checked_sub(missing).ok_or(short)?;
                // Still cut: what follows these bytes was not captured either.
                (self.bytes, &[][..])
            }
        };
        self.bytes = rest;
        Ok(head)
    }

    /// The error for a read of `len` bytes that were not captured: `short` if they were not on the wire either.
    #[inline]
    fn lacks(&self, len: usize, short: Malformed) -> Malformed {
        if len > self.left() { short } else { Malformed::Truncated }
    }

    /// Drops what lies behind the next `len` bytes: an Ethernet trailer, padding, a frame check sequence.
    #[inline(always)]
    pub(super) fn limit(&mut self, len: usize, beyond: Malformed) -> Result<(), Malformed> {
        if len > self.left() {
            return Err(beyond);
        }
        self.bytes = self.bytes.get(..len).unwrap_or(self.bytes);
        self.cut = len.wrapping_sub(self.bytes.len());
        Ok(())
    }
}

/// A big-endian number of two bytes. On cores without an instruction that reverses bytes, [`u16::from_be_bytes`] takes seven
/// instructions and this three.
#[inline(always)]
pub(super) const fn two([high, low]: [u8; 2]) -> u16 {
    (high as u16) << 8 | low as u16
}

/// The part of a buffer that is still to be written. The caller checks beforehand that there is room; bytes that do not fit are
/// not written.
pub(super) struct Output<'a>(&'a mut [u8]);

impl<'a> Output<'a> {
    #[inline]
    pub(super) fn new(buffer: &'a mut [u8]) -> Self {
        Self(buffer)
    }

    /// Appends bytes.
    // Not inlined on bare metal, as `words` is not: a frame is many short pieces, and inlining them would take code. A host has
    // room for it, and emits a CNP in half the time.
    #[cfg_attr(target_os = "none", inline(never))]
    #[cfg_attr(not(target_os = "none"), inline)]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        if let Some((head, rest)) = core::mem::take(&mut self.0).split_at_mut_checked(bytes.len()) {
            head.copy_from_slice(bytes);
            self.0 = rest;
        }
    }

    /// Appends four bytes of each word, the highest first.
    #[cfg_attr(target_os = "none", inline(never))]
    #[cfg_attr(not(target_os = "none"), inline)]
    pub(super) fn words(&mut self, words: &[u32]) {
        let room = core::mem::take(&mut self.0).split_at_mut_checked(size_of_val(words));
        if let Some((head, rest)) = room {
            let (head, _) = head.as_chunks_mut();
            head.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
            self.0 = rest;
        }
    }

    /// Appends one word.
    #[inline]
    pub(super) fn word(&mut self, word: u32) {
        self.words(&[word]);
    }

    /// Fills what is left with zeros.
    #[inline]
    pub(super) fn zero_rest(self) {
        self.0.fill(0);
    }
}
