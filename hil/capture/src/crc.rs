//! The host's CRC engine for the ICRC: `crc32fast`, which uses the processor's carry-less multiplication.

use cc_core::wire::Crc32;
use crc32fast::Hasher;

/// CRC-32 by `crc32fast`.
#[derive(Clone, Debug)]
pub struct HostCrc {
    hasher: Hasher,
}

impl Crc32 for HostCrc {
    #[inline]
    fn resume(crc: u32) -> Self {
        Self { hasher: Hasher::new_with_initial(crc) }
    }

    #[inline]
    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    #[inline]
    fn finish(self) -> u32 {
        self.hasher.finalize()
    }
}
