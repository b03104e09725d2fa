//! The board under the firmware: device registers, and rings in RAM. `unsafe` blocks are only here, in the layer of the core
//! (its interrupts), and in an image's two entries.

use cc_core::Bytes;
use core::cell::{Cell, UnsafeCell};
use core::convert::Infallible;
use core::mem::{MaybeUninit, offset_of};
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};
use critical_section::CriticalSection;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, OutputPin, PinState};
use programs::descriptor::Descriptor;
use programs::layout::{
    DEVICE_BASE, DEVICE_SIZE, RX_FRAME_BYTES, RX_SLOTS, RxSlot, SETTINGS, Shared, TX_FRAME_BYTES, TX_SLOTS, TxSlot,
    register,
};

/// The hash of the image's sources. The harness reads it, and refuses an image whose hash differs from its own. The section is
/// not loaded, see `link.x`.
#[used]
#[unsafe(link_section = ".rnic_cc.sources")]
static SOURCES: [u8; 16] = programs::SOURCES;

/// The memory that the image shares with the device.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".shared")]
static SHARED: SharedCell = SharedCell(UnsafeCell::new(MaybeUninit::uninit()));

#[repr(transparent)]
struct SharedCell(UnsafeCell<MaybeUninit<Shared>>);

// SAFETY: the image runs on one hart, and each field has one writer: the device or the main loop.
unsafe impl Sync for SharedCell {}

/// The bit of an address that bypasses the data cache, on a core that has one: see `vexriscv.rs`.
const UNCACHED: usize = if cfg!(feature = "vexriscv") { 1 << 31 } else { 0 };

fn shared() -> *mut Shared {
    let shared = SHARED.0.get().cast::<Shared>();
    if UNCACHED == 0 { shared } else { ptr::with_exposed_provenance_mut(shared.expose_provenance() | UNCACHED) }
}

/// The address of a device register.
const fn word(offset: u32) -> usize {
    (DEVICE_BASE + (offset & (DEVICE_SIZE - 4))) as usize | UNCACHED
}

/// Stores to a device register.
#[inline(always)]
pub(crate) fn store(offset: u32, value: u32) {
    // SAFETY: the address is a word of the device page whatever the offset, and a store there has no effect on RAM.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(word(offset)).write_volatile(value) }
}

/// Loads from a device register.
#[inline(always)]
fn load(offset: u32) -> u32 {
    // SAFETY: the address is a word of the device page whatever the offset.
    unsafe { ptr::with_exposed_provenance::<u32>(word(offset)).read_volatile() }
}

/// The device's clock in nanoseconds.
pub(crate) fn now() -> u64 {
    loop {
        let (high, low) = (load(register::MTIME_HI), load(register::MTIME_LO));
        if load(register::MTIME_HI) == high {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

/// Raises the timer interrupt when the clock reaches `time`.
pub(crate) fn set_timer(time: u64) {
    // The high half is set to its largest value first, so that no value in between is in the past.
    store(register::MTIMECMP_HI, u32::MAX);
    store(register::MTIMECMP_LO, time as u32);
    store(register::MTIMECMP_HI, (time >> 32) as u32);
    if cfg!(feature = "vexriscv") {
        // The core continues before its stores arrive at the device. The load waits for them, so that the timer line is low
        // when interrupts are enabled again.
        load(register::MTIME_LO);
    }
}

/// One of the board's marker pins, by its register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin(u32);

/// High while the main loop works on a descriptor.
pub(crate) const BUSY: Pin = Pin(register::BUSY_PIN);
/// High inside the timer interrupt.
pub(crate) const TIMER: Pin = Pin(register::TIMER_PIN);

impl ErrorType for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        store(self.0, 0);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        store(self.0, 1);
        Ok(())
    }
}

/// Bytes in a queue of the switch, by its index, or that arrived by it: see `programs::switch_ring::ARRIVED`.
pub(crate) fn queued(index: u32) -> Bytes {
    store(register::QUEUE_SELECT, index);
    Bytes::new(load(register::QUEUE_BYTES))
}

/// The settings that the driver wrote before the image started, in the order of their fields.
#[derive(Debug)]
pub struct Settings {
    /// Settings of the reaction point, or of the stages.
    pub first: &'static [u32; SETTINGS],
    /// Settings of the notification point, or the two words of the seed of a switch, the low one first.
    pub second: &'static [u32; SETTINGS],
    /// The link of the port, see [`Shared::link`].
    pub link: [u32; 3],
}

/// The settings in `SHARED`.
pub(crate) fn settings() -> Settings {
    let shared = shared();
    // SAFETY: words of `SHARED` that the device writes only before the image starts.
    unsafe { Settings { first: &(*shared).rp_settings, second: &(*shared).np_settings, link: (*shared).link } }
}

/// The receive ring's consuming end.
#[derive(Debug)]
pub(crate) struct RxRing {
    tail: u32,
}

impl RxRing {
    /// The ring, empty.
    pub(crate) const fn new() -> Self {
        Self { tail: 0 }
    }

    /// Whether no descriptor waits.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: a word of `SHARED`; volatile, since the device writes it.
        let head = unsafe { ptr::read_volatile(&raw const (*shared()).rx_head) };
        // The slots are read after the head that covers them.
        compiler_fence(Ordering::Acquire);
        head == self.tail
    }

    /// The oldest descriptor and its frame, which stay in the ring until [`RxRing::release`].
    #[inline(always)]
    pub(crate) fn oldest(&self) -> (&Descriptor, &[u8]) {
        let slot = self.tail as usize & (RX_SLOTS - 1);
        // SAFETY: `slot` is below RX_SLOTS; the device writes a slot only before it moves the head past it, and not
        // again before the tail has passed it, so the slot is constant while borrowed. All bit patterns are valid.
        let slot: &RxSlot = unsafe { &*(&raw const (*shared()).rx).cast::<RxSlot>().add(slot) };
        let captured = (slot.descriptor.captured as usize).min(RX_FRAME_BYTES);
        (&slot.descriptor, slot.frame.get(..captured).unwrap_or(&[]))
    }

    /// Returns the oldest slot to the device.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        self.tail = self.tail.wrapping_add(1);
        // The slot has been read before the device may write it again.
        compiler_fence(Ordering::Release);
        store(register::RX_TAIL, self.tail);
    }
}

/// The transmit ring's producing end.
#[derive(Debug)]
pub(crate) struct TxRing {
    tail: u32,
}

impl TxRing {
    /// The ring, empty.
    pub(crate) const fn new() -> Self {
        Self { tail: 0 }
    }

    fn slot(&self) -> *mut TxSlot {
        let slot = self.tail as usize & (TX_SLOTS - 1);
        // SAFETY: `slot` is below TX_SLOTS.
        unsafe { (&raw mut (*shared()).tx).cast::<TxSlot>().add(slot) }
    }

    /// The buffer for the next frame; empty while the ring is full.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        // SAFETY: a word of `SHARED`; volatile, since the device writes it.
        let head = unsafe { ptr::read_volatile(&raw const (*shared()).tx_head) };
        if self.tail.wrapping_sub(head) as usize >= TX_SLOTS {
            return &mut [];
        }
        // SAFETY: the slot at the tail belongs to the firmware until the tail moves; bytes are valid in any pattern.
        let frame: &mut [u8; TX_FRAME_BYTES] = unsafe { &mut (*self.slot()).frame };
        frame
    }

    /// Passes the frame that was just written, `length` bytes of it, to the device.
    pub(crate) fn commit(&mut self, length: usize) {
        // SAFETY: as for `room`; the slot is not borrowed any more.
        unsafe { (&raw mut (*self.slot()).length).write(length as u32) };
        self.tail = self.tail.wrapping_add(1);
        // The frame must be in RAM before the store to TX_TAIL makes the device read it.
        compiler_fence(Ordering::Release);
        store(register::TX_TAIL, self.tail);
    }
}

/// A value that the main loop and the interrupt share, accessed in critical sections.
// The flag comes first, where a short offset reaches it.
#[repr(C)]
pub(crate) struct CriticalCell<T> {
    lent: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: `with` looks at either field only inside a critical section, and the image runs on one hart.
unsafe impl<T: Send> Sync for CriticalCell<T> {}

impl<T> CriticalCell<T> {
    /// A cell whose value is not lent.
    pub(crate) const fn new(value: T) -> Self {
        Self { lent: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Calls `work` with exclusive access to the value. A nested call ends the run.
    #[inline(always)]
    pub(crate) fn with<R>(&self, _: CriticalSection<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        if self.lent.replace(true) {
            halt(2);
        }
        // SAFETY: `lent` was false, so no outer call has the value; interrupts are off, and there is one hart.
        let outcome = work(unsafe { &mut *self.value.get() });
        self.lent.set(false);
        outcome
    }
}

/// Delays by the device's clock.
struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, nanos: u32) {
        let start = load(register::MTIME_LO);
        while load(register::MTIME_LO).wrapping_sub(start) < nanos {}
    }
}

/// Ends the run. If no device ends it, as on real hardware, the busy pin blinks.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn halt(code: u32) -> ! {
    let (mut pin, mut level) = (BUSY, PinState::Low);
    loop {
        store(register::EXIT, code);
        level = !level;
        let Ok(()) = pin.set_state(level);
        Delay.delay_ns(200_000_000);
    }
}

unsafe extern "C" {
    /// Not defined anywhere, so that an image that contains a panic does not link.
    fn this_image_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never runs; see above.
    unsafe { this_image_can_panic() }
}

const _: () = assert!(offset_of!(RxSlot, frame) % 4 == 2 && offset_of!(TxSlot, frame) % 4 == 2);
