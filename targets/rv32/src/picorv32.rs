//! Interrupts of PicoRV32: a mask, a wait, and one vector. Line 7 is the timer's, line 11 the external one.

use core::arch::asm;
use critical_section::{CriticalSection, Impl, RawRestoreState};

/// The timer's line in the mask. Set bits of the mask are disabled interrupts.
const TIMER: u32 = 1 << 7;

/// Sets the mask, and returns its previous value.
#[inline(always)]
fn mask(mask: u32) -> u32 {
    let before;
    // SAFETY: `maskirq` changes only the mask. It is not marked `nomem`, so that memory accesses are not moved across it.
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

/// Enables the timer interrupt.
pub(crate) fn enable_interrupts() {
    mask(!TIMER);
}

/// Sleeps until a frame arrives or the timer is due, unless `busy`. Called with interrupts masked, so that no event is missed
/// between the caller's check and the sleep: a pending line ends `waitirq` even if it is masked.
pub(crate) fn sleep_unless(_: CriticalSection<'_>, busy: bool) {
    if !busy {
        // SAFETY: `waitirq` waits, and changes only its register.
        unsafe { asm!(".insn r 0x0b, 4, 4, {}, x0, x0", out(reg) _) }
    }
}

core::arch::global_asm!(include_str!("start.s"), include_str!("picorv32.s"));
