//! Interrupts of cores with machine mode: vectors (VexRiscv has other ones), mstatus and mie, `wfi`.

use critical_section::CriticalSection;
use riscv::register::{mie, mstatus};

/// Enables the timer interrupt.
pub(crate) fn enable_interrupts() {
    // SAFETY: the vectors are in place and every handler saves what it changes.
    unsafe {
        mie::set_mtimer();
        mstatus::set_mie();
    }
}

/// Sleeps until a frame arrives or the timer is due, unless `busy`. Called with interrupts disabled, so that no event is missed
/// between the caller's check and the sleep: a pending line ends `wfi` even if interrupts are disabled.
pub(crate) fn sleep_unless(_: CriticalSection<'_>, busy: bool) {
    if busy {
        return;
    }
    // SAFETY: with interrupts off globally, enabling the external line lets it wake the core but never trap.
    unsafe { mie::set_mext() };
    riscv::asm::wfi();
    // SAFETY: disables the line again before interrupts are enabled globally.
    unsafe { mie::clear_mext() };
}

#[cfg(not(feature = "vexriscv"))]
core::arch::global_asm!(include_str!("start.s"), include_str!("machine.s"));
