//! Interrupts of PicoRV32: a mask, a wait, and one vector. Line 7 is the timer's, line 11 the external one.

use core::arch::asm;
use critical_section::{CriticalSection, Impl, RawRestoreState};

/// The timer's line in the mask, whose set bits are interrupts that stay out.
const TIMER: u32 = 1 << 7;

/// Sets the mask, and returns its previous value.
#[inline(always)]
fn mask(mask: u32) -> u32 {
    let before;
    // SAFETY: `maskirq` changes nothing but the mask. That memory is accessed on this side of it is what it is for.
    unsafe { asm!(".insn r 0x0b, 6, 3, {}, {}, x0", out(reg) before, in(reg) mask) }
    before
}

struct Masking;

critical_section::set_impl!(Masking);

// SAFETY: there is one hart, and an interrupt that is masked does not come.
unsafe impl Impl for Masking {
    unsafe fn acquire() -> RawRestoreState {
        mask(u32::MAX) & TIMER == 0
    }

    unsafe fn release(open: RawRestoreState) {
        if open {
            enable_interrupts();
        }
    }
}

/// Lets the timer interrupt in.
pub(crate) fn enable_interrupts() {
    mask(!TIMER);
}

/// Sleeps until a frame arrives or the timer is due, unless `busy`. Called with interrupts off, so that nothing can
/// arrive between the look and the sleep: a pending line ends `waitirq`, masked or not.
pub(crate) fn sleep_unless(_: CriticalSection<'_>, busy: bool) {
    if !busy {
        // SAFETY: `waitirq` waits, and changes nothing but its register.
        unsafe { asm!(".insn r 0x0b, 4, 4, {}, x0, x0", out(reg) _) }
    }
}

core::arch::global_asm!(include_str!("start.s"), include_str!("picorv32.s"));
