//! Cortex-M: reset, faults, and the instruction that asks the host.

use core::arch::{asm, global_asm};

// The entries of handlers are marked as functions, from which the linker learns to set their Thumb bits.
global_asm!(
    ".section .vectors, \"a\"",
    ".word __stack_top",
    ".word _start",
    ".rept 14",
    ".word fault",
    ".endr",
    ".section .text.reset, \"ax\"",
    ".global _start",
    ".type _start, %function",
    ".thumb_func",
    "_start:",
    "bl start",
    ".type fault, %function",
    ".thumb_func",
    "fault:",
    "bl unexpected",
);

/// Asks the host for `operation` (Arm, "Semihosting for AArch32 and AArch64", section 3), and answers what it answers.
///
/// # Safety
/// The block holds what the operation expects, and what it points to is there to be read or written.
pub(crate) unsafe fn ask<const N: usize>(operation: usize, block: &[usize; N]) -> usize {
    let answer;
    // SAFETY: the host reads the block, and no more than the caller answers for.
    unsafe {
        asm!("bkpt 0xab", inlateout("r0") operation => answer, in("r1") block.as_ptr(), options(nostack));
    }
    answer
}
