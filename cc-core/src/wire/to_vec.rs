//! Frames on the heap, for programs of the host and for tests.

extern crate std;

use super::{Crc32, EmitError, Frame, Response};
use std::vec;
use std::vec::Vec;

impl Frame<'_> {
    /// The whole frame, as [`Frame::emit`] writes it.
    ///
    /// # Errors
    /// [`EmitError::TooLong`].
    pub fn to_vec<E: Crc32>(&self) -> Result<Vec<u8>, EmitError> {
        to_vec(|buffer| self.emit::<E>(buffer))
    }
}

impl Response<'_> {
    /// The whole frame, as [`Response::emit`] writes it.
    ///
    /// # Errors
    /// [`EmitError::TooLong`].
    pub fn to_vec<E: Crc32>(&self) -> Result<Vec<u8>, EmitError> {
        to_vec(|buffer| self.emit::<E>(buffer))
    }
}

/// What `emit` writes. Doubles the buffer until it is long enough.
fn to_vec(emit: impl Fn(&mut [u8]) -> Result<usize, EmitError>) -> Result<Vec<u8>, EmitError> {
    let mut buffer = vec![0; 256];
    loop {
        match emit(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(EmitError::BufferTooSmall) => buffer.resize(buffer.len().saturating_mul(2), 0),
            Err(error) => return Err(error),
        }
    }
}
