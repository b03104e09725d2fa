//! The smallest board with which a role can be linked: registers at an address, and memory for one engine.

use cc_core::wire::TableCrc;
use cc_core::{Bytes, Instant, Nanos, Rate, Zeroed};
use cc_cp::Queue;
use cc_rp::RateLimiter;
use core::cell::UnsafeCell;
use core::ptr;
use programs::TransmitRing;
use programs::switch_ring::{StageAction, SwitchHardware};

/// Memory for one engine: zeros, which take no space in the image.
pub(crate) struct Memory<T>(UnsafeCell<T>);

// SAFETY: the program has one thread, and calls one function after the other.
unsafe impl<T> Sync for Memory<T> {}

impl<T: Zeroed> Memory<T> {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(T::ZEROED))
    }

    /// The engine.
    ///
    /// # Safety
    /// No other reference to it exists.
    #[expect(clippy::mut_from_ref, reason = "see Safety")]
    #[inline(always)]
    pub(crate) unsafe fn engine(&self) -> &mut T {
        // SAFETY: the caller guarantees it.
        unsafe { &mut *self.0.get() }
    }
}

/// The device's registers.
const DEVICE: usize = 0x4000_0000;

fn store(register: usize, value: u32) {
    // SAFETY: the address is that of a register, and a store there has no effect on RAM.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(DEVICE + (register & 0xfc)).write_volatile(value) }
}

fn load(register: usize) -> u32 {
    // SAFETY: the address is that of a register.
    unsafe { ptr::with_exposed_provenance::<u32>(DEVICE + (register & 0xfc)).read_volatile() }
}

/// The pacer, the queues and a transmit buffer of 256 bytes.
pub(crate) struct Device;

/// The address of the transmit buffer.
const BUFFER: usize = DEVICE + 0x1000;
const BUFFER_BYTES: usize = 256;

impl RateLimiter for Device {
    #[inline(always)]
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        for (register, word) in [rate.to_bits(), window.get(), hold.get(), index.into()].into_iter().enumerate() {
            store(4 * register, word);
        }
    }
}

impl TransmitRing for Device {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        let buffer = ptr::with_exposed_provenance_mut::<u8>(BUFFER);
        // SAFETY: the buffer is the device's memory, and lent for as long as the device is, of which each function makes one.
        unsafe { core::slice::from_raw_parts_mut(buffer, BUFFER_BYTES) }
    }

    fn transmit(&mut self, length: usize) {
        store(0x10, length as u32);
    }
}

impl SwitchHardware for Device {
    type Crc = TableCrc;

    fn queued(&self, queue: Queue) -> Bytes {
        store(0x14, queue.index() as u32);
        Bytes::new(load(0x18))
    }

    #[inline(always)]
    fn act(&mut self, queue: Queue, action: &StageAction) {
        let command = action.encode(queue, |word| store(0x1c, word));
        store(0x20, command);
    }

    #[inline(always)]
    fn log(&mut self, _kind: u8, _now: Instant, _index: u32) {}
}
