//! Writes defmt's frames to a ring in RAM, which the harness finds by its symbol. A frame is in the ring completely or not at
//! all.

use crate::board;
use cc_core::table::Handle;
use cc_core::{Nanos, Rate};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{Ordering, compiler_fence};
use critical_section::RestoreState;
use defmt::Encoder;
use programs::layout::{LOG_BYTES, LogRing};
use programs::{LogKind, NO_FLOW};

/// Logs the new pacing of a flow.
pub(crate) fn paced(slot: u16, rate: Rate, window: cc_core::Bytes, hold: Nanos) {
    let megabits = (u64::from(rate.to_bits()) * 8_000) >> 24;
    let (window, hold) = (window.get(), hold.get());
    if window == u32::MAX {
        defmt::debug!("slot {=u16} paced at {=u64} Mb/s, hold {=u32} ns", slot, megabits, hold);
    } else {
        defmt::debug!(
            "slot {=u16} paced at {=u64} Mb/s, window {=u32} B, hold {=u32} ns",
            slot,
            megabits,
            window,
            hold
        );
    }
}

/// Logs an event; `index` is that of the event log.
pub(crate) fn happened(kind: LogKind, index: u32) {
    match (kind, index) {
        (_, NO_FLOW) => defmt::info!("{}", kind),
        (LogKind::Open, _) => defmt::info!("{} of slot {=u16}", kind, Handle::from_bits(index).index()),
        _ => defmt::info!("{} of slot {=u32}", kind, index),
    }
}

/// The ring, which the image writes and the harness reads.
#[unsafe(no_mangle)]
static DEFMT_RING: Shared<LogRing> =
    Shared(UnsafeCell::new(LogRing { written: 0, read: 0, lost: 0, bytes: [0; LOG_BYTES] }));

/// The frame being written.
static FRAME: Shared<Frame> = Shared(UnsafeCell::new(Frame {
    encoder: Encoder::new(),
    bytes: Bytes { end: 0, lost: 0 },
    interrupts: RestoreState::invalid(),
    open: false,
}));

#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: the image runs on one hart, and each access is between `acquire` and `release`, with interrupts off.
unsafe impl<T> Sync for Shared<T> {}

struct Frame {
    encoder: Encoder,
    bytes: Bytes,
    /// Whether interrupts were enabled before.
    interrupts: RestoreState,
    open: bool,
}

/// The bytes of a frame on their way into the ring.
struct Bytes {
    /// Position of the next byte, modulo 2^32.
    end: u32,
    /// Bytes for which the ring had no room.
    lost: u32,
}

impl Bytes {
    fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // SAFETY: a word of `DEFMT_RING`; volatile, since the harness writes it.
            let read = unsafe { (&raw const (*DEFMT_RING.0.get()).read).read_volatile() };
            if self.end.wrapping_sub(read) as usize >= LOG_BYTES {
                self.lost = self.lost.wrapping_add(1);
                continue;
            }
            let place = self.end as usize & (LOG_BYTES - 1);
            // SAFETY: `place` is below LOG_BYTES, and the harness does not look there before `written` has passed it.
            unsafe { (&raw mut (*DEFMT_RING.0.get()).bytes).cast::<u8>().add(place).write(byte) };
            self.end = self.end.wrapping_add(1);
        }
    }

    /// Makes the frame visible to the harness, or counts its bytes as lost.
    fn finish(&mut self) {
        let ring = DEFMT_RING.0.get();
        // SAFETY: words of `DEFMT_RING`; volatile, since the harness reads them.
        let (written, lost) = unsafe { (&raw mut (*ring).written, &raw mut (*ring).lost) };
        // SAFETY: as above.
        let begun = unsafe { written.read_volatile() };
        if self.lost == 0 {
            // The bytes must be in RAM before the new count makes the harness read them.
            compiler_fence(Ordering::Release);
            // SAFETY: as above.
            unsafe { written.write_volatile(self.end) };
        } else {
            let bytes = self.lost.wrapping_add(self.end.wrapping_sub(begun));
            // SAFETY: as above.
            unsafe { lost.write_volatile(lost.read_volatile().wrapping_add(bytes)) };
        }
    }
}

#[defmt::global_logger]
struct Logger;

// SAFETY: from `acquire` to `release` interrupts are off, and there is one hart.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        // SAFETY: `release` restores the state that this returns.
        let interrupts = unsafe { critical_section::acquire() };
        // SAFETY: interrupts are off, and no function keeps a reference to the frame after it returns. If a frame is being
        // written already, the run ends before this one is used.
        let frame = unsafe { &mut *FRAME.0.get() };
        if frame.open {
            board::halt(3);
        }
        // SAFETY: a word of `DEFMT_RING` that only this side writes.
        let end = unsafe { ptr::read(&raw const (*DEFMT_RING.0.get()).written) };
        (frame.interrupts, frame.open, frame.bytes) = (interrupts, true, Bytes { end, lost: 0 });
        frame.encoder.start_frame(|bytes| frame.bytes.put(bytes));
    }

    unsafe fn flush() {}

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: called between `acquire` and `release`.
        let frame = unsafe { &mut *FRAME.0.get() };
        frame.encoder.write(bytes, |bytes| frame.bytes.put(bytes));
    }

    unsafe fn release() {
        // SAFETY: called after `acquire`.
        let frame = unsafe { &mut *FRAME.0.get() };
        frame.encoder.end_frame(|bytes| frame.bytes.put(bytes));
        frame.bytes.finish();
        frame.open = false;
        let interrupts = frame.interrupts;
        // SAFETY: the state that `acquire` returned, which is restored once.
        unsafe { critical_section::release(interrupts) };
    }
}

defmt::timestamp!("{=u64}", board::now());
