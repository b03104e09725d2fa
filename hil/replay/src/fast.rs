//! A hash map for the integer keys that come from captures: addresses, QPNs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with integer keys, of 64 bits by default.
pub(super) type FastMap<V, K = u64> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// The hash function: one multiplication per key, whose 128-bit product is folded to 64 bits so that all of its bits count.
///
/// Keys can be chosen so that they collide. The maps here are bounded, so such a capture only makes the replay slow.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        // 2^64 divided by the golden ratio.
        let product = u128::from(self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.write_u64((value >> 64) as u64);
        self.write_u64(value as u64);
    }
}
