//! Cortex-M: reset, faults, the critical section, the timer interrupt, marker pins, delays, and the instruction of a
//! semihosting call.

use core::arch::{asm, global_asm};
use core::convert::Infallible;
use core::ptr;
use critical_section::{Impl, RawRestoreState};
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, OutputPin};

// The entries of handlers are marked as functions, so that the linker sets their Thumb bits.
global_asm!(
    ".section .vectors, \"a\"",
    ".word __stack_top",
    ".word _start",
    ".rept 12",
    ".word fault",
    ".endr",
    ".word timer", // PendSV
    ".word fault",
    ".section .text.reset, \"ax\"",
    ".global _start",
    ".type _start, %function",
    ".thumb_func",
    "_start:",
    "ldr r0, =__bss_start",
    "ldr r1, =__bss_end",
    "movs r2, #0",
    "b 2f",
    "1: str r2, [r0]",
    "adds r0, r0, #4",
    "2: cmp r0, r1",
    "blo 1b",
    "bl start",
    ".type fault, %function",
    ".thumb_func",
    "fault:",
    "bl unexpected",
    ".pool",
);

/// Makes the semihosting call `operation` (Arm, "Semihosting for AArch32 and AArch64", section 3), and returns its result.
///
/// # Safety
/// The block holds the arguments that the operation expects, and the memory that it points to may be read or written.
pub(crate) unsafe fn call_host<const N: usize>(operation: usize, block: &[usize; N]) -> usize {
    let result;
    // SAFETY: the host reads the block, and no more than the caller guarantees.
    unsafe {
        asm!("bkpt 0xab", inlateout("r0") operation => result, in("r1") block.as_ptr(), options(nostack));
    }
    result
}

struct PriMask;

critical_section::set_impl!(PriMask);

// SAFETY: there is one core, and while PRIMASK is set no interrupt or PendSV is taken.
unsafe impl Impl for PriMask {
    unsafe fn acquire() -> RawRestoreState {
        let mask: u32;
        // SAFETY: sets PRIMASK only. Memory may change on either side of it, so it is not marked `nomem`.
        unsafe { asm!("mrs {}, PRIMASK", "cpsid i", out(reg) mask, options(nostack)) }
        mask & 1 == 0
    }

    unsafe fn release(open: RawRestoreState) {
        if open {
            // SAFETY: PRIMASK was clear before. After the barrier a pending interrupt has been taken.
            unsafe { asm!("cpsie i", "isb", options(nostack)) }
        }
    }
}

/// Does nothing: interrupts are enabled from reset, and only [`pend_timer`] raises one.
pub(crate) fn enable_interrupts() {}

/// Raises the timer interrupt. On this board it is PendSV, because the time comes from the host and not from a timer of the
/// board.
pub(crate) fn pend_timer() {
    /// Interrupt Control and State Register (Arm v6-M Architecture Reference Manual, B3.2.4), and its bit PENDSVSET.
    const ICSR: usize = 0xe000_ed04;
    // SAFETY: the register pends PendSV, whose handler is in place.
    unsafe { store(ICSR, 1 << 28) }
}

/// Does nothing: taking PendSV has already lowered the timer interrupt.
pub(crate) fn clear_timer() {}

/// Stores to a device register.
///
/// # Safety
/// The address is that of a device register, in which this value does no harm.
unsafe fn store(address: usize, value: u32) {
    // SAFETY: the caller guarantees it.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(address).write_volatile(value) }
}

/// A marker pin, by its bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin(u32);

#[cfg(small)]
mod port {
    //! micro:bit: pads 0 and 1 of the edge connector, pins 3 and 2 of the nRF51's port ("nRF51 Series Reference Manual",
    //! section 14.2).
    use super::{Pin, store};

    pub(crate) const BUSY: Pin = Pin(1 << 3);
    pub(crate) const TIMER: Pin = Pin(1 << 2);
    pub(super) const MHZ: u32 = 16;

    const GPIO: usize = 0x5000_0000;
    const OUTSET: usize = GPIO + 0x508;
    const OUTCLR: usize = GPIO + 0x50c;
    const DIRSET: usize = GPIO + 0x518;

    pub(super) fn write(pin: Pin, high: bool) {
        // SAFETY: registers that set or clear the bits given, of pins with nothing else on them.
        unsafe {
            store(DIRSET, pin.0);
            store(if high { OUTSET } else { OUTCLR }, pin.0);
        }
    }
}

#[cfg(not(small))]
mod port {
    //! MPS2: the user LEDs 0 and 1, bits of the FPGA system control's first register (Arm DAI 0385, section 4.3).
    use super::{Pin, store};
    use core::ptr;

    pub(crate) const BUSY: Pin = Pin(1 << 0);
    pub(crate) const TIMER: Pin = Pin(1 << 1);
    pub(super) const MHZ: u32 = 25;

    const LEDS: usize = 0x4002_8000;

    pub(super) fn write(pin: Pin, high: bool) {
        // SAFETY: the register of the LEDs. The interrupt, which may come between load and store, leaves it as it was.
        unsafe {
            let leds = ptr::with_exposed_provenance::<u32>(LEDS).read_volatile();
            store(LEDS, if high { leds | pin.0 } else { leds & !pin.0 });
        }
    }
}

pub(crate) use port::{BUSY, TIMER};

impl ErrorType for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        port::write(*self, false);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        port::write(*self, true);
        Ok(())
    }
}

/// Delays by counting: for at least the given time, and up to a third longer.
pub(crate) struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, nanos: u32) {
        // 1/1000 is approximated by 1/1024 + 1/32768, 0.7 % too much. A round takes three cycles or more.
        let micros = (nanos >> 10) + (nanos >> 15) + 1;
        let rounds = micros * port::MHZ.div_ceil(3);
        // SAFETY: counts a register down.
        unsafe { asm!("1: subs {0}, {0}, #1", "bne 1b", inout(reg) rounds => _, options(nomem, nostack)) }
    }
}
