//! RISC-V: reset, traps, the timer interrupt, marker pins, delays, and the instructions of a semihosting call.

use core::arch::{asm, global_asm};
use core::convert::Infallible;
use core::ptr;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, OutputPin};
use riscv::register::{mie, mstatus};

global_asm!(
    ".section .init, \"ax\"",
    ".global _start",
    "_start:",
    "la sp, __stack_top",
    "la t0, trap",
    "csrw mtvec, t0",
    "la t0, __bss_start",
    "la t1, __bss_end",
    "j 2f",
    "1: sd zero, 0(t0)",
    "addi t0, t0, 8",
    "2: bltu t0, t1, 1b",
    "call start",
    ".balign 4",
    "trap:",
    "addi sp, sp, -128",
    "sd t0, 0(sp)",
    "csrr t0, mcause",
    "bgez t0, fault", // the highest bit is set for interrupts
    "sd ra, 8(sp)",
    "sd t1, 16(sp)",
    "sd t2, 24(sp)",
    "sd t3, 32(sp)",
    "sd t4, 40(sp)",
    "sd t5, 48(sp)",
    "sd t6, 56(sp)",
    "sd a0, 64(sp)",
    "sd a1, 72(sp)",
    "sd a2, 80(sp)",
    "sd a3, 88(sp)",
    "sd a4, 96(sp)",
    "sd a5, 104(sp)",
    "sd a6, 112(sp)",
    "sd a7, 120(sp)",
    "call timer",
    "ld t0, 0(sp)",
    "ld ra, 8(sp)",
    "ld t1, 16(sp)",
    "ld t2, 24(sp)",
    "ld t3, 32(sp)",
    "ld t4, 40(sp)",
    "ld t5, 48(sp)",
    "ld t6, 56(sp)",
    "ld a0, 64(sp)",
    "ld a1, 72(sp)",
    "ld a2, 80(sp)",
    "ld a3, 88(sp)",
    "ld a4, 96(sp)",
    "ld a5, 104(sp)",
    "ld a6, 112(sp)",
    "ld a7, 120(sp)",
    "addi sp, sp, 128",
    "mret",
    "fault:",
    "call unexpected",
);

/// Makes the semihosting call `operation` (RISC-V International, "RISC-V Semihosting", section 2: operations are Arm's), and
/// returns its result.
///
/// # Safety
/// The block holds the arguments that the operation expects, and the memory that it points to may be read or written.
pub(crate) unsafe fn call_host<const N: usize>(operation: usize, block: &[usize; N]) -> usize {
    let result;
    // The three instructions must be uncompressed, and in one page.
    // SAFETY: the host reads the block, and no more than the caller guarantees.
    unsafe {
        asm!(
            ".option push",
            ".option norvc",
            ".balign 16",
            "slli zero, zero, 0x1f",
            "ebreak",
            "srai zero, zero, 7",
            ".option pop",
            inlateout("a0") operation => result,
            in("a1") block.as_ptr(),
            options(nostack),
        );
    }
    result
}

/// The register of hart 0's software interrupt in the machine's CLINT.
const MSIP: usize = 0x0200_0000;
/// The clock in the machine's CLINT.
const MTIME: usize = 0x0200_bff8;
/// Ticks of the clock per microsecond.
const MHZ: u64 = 10;

/// Enables the timer interrupt.
pub(crate) fn enable_interrupts() {
    // SAFETY: the handler is in place and saves what it changes.
    unsafe {
        mie::set_msoft();
        mstatus::set_mie();
    }
}

/// Raises the timer interrupt. On this board it is the software interrupt, because the time comes from the host and not from a
/// timer of the board.
pub(crate) fn pend_timer() {
    // SAFETY: the register of the interrupt, whose handler is in place.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(MSIP).write_volatile(1) }
}

/// Lowers the timer interrupt.
pub(crate) fn clear_timer() {
    // SAFETY: the register of the interrupt.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(MSIP).write_volatile(0) }
}

/// A marker pin: an output of the serial port's modem control register, because the machine has no other pins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin(u8);

/// OUT1: high while the main loop works on a descriptor.
pub(crate) const BUSY: Pin = Pin(1 << 2);
/// OUT2: high inside the timer interrupt.
pub(crate) const TIMER: Pin = Pin(1 << 3);

impl Pin {
    fn write(self, high: bool) {
        /// Modem control of a 16550.
        const MCR: usize = 0x1000_0004;
        let register = ptr::with_exposed_provenance_mut::<u8>(MCR);
        // SAFETY: two bits of it are these pins. The interrupt, which may come between load and store, leaves it as it was.
        unsafe {
            let bits = register.read_volatile();
            register.write_volatile(if high { bits | self.0 } else { bits & !self.0 });
        }
    }
}

impl ErrorType for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.write(false);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.write(true);
        Ok(())
    }
}

/// Delays by the machine's clock.
pub(crate) struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, nanos: u32) {
        // SAFETY: the register of the clock.
        let now = || unsafe { ptr::with_exposed_provenance::<u64>(MTIME).read_volatile() };
        let (start, ticks) = (now(), (u64::from(nanos >> 10) + u64::from(nanos >> 15) + 1) * MHZ);
        while now().wrapping_sub(start) < ticks {}
    }
}
