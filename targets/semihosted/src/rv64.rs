//! RISC-V: reset, faults, and the instructions that ask the host.

use core::arch::{asm, global_asm};

global_asm!(
    ".section .init, \"ax\"",
    ".global _start",
    "_start:",
    "la sp, __stack_top",
    "la t0, fault",
    "csrw mtvec, t0",
    "call start",
    ".balign 4",
    "fault:",
    "call unexpected",
);

/// Asks the host for `operation` (RISC-V International, "RISC-V Semihosting", section 2: operations are Arm's), and answers
/// what it answers.
///
/// # Safety
/// The block holds what the operation expects, and what it points to is there to be read or written.
pub(crate) unsafe fn ask<const N: usize>(operation: usize, block: &[usize; N]) -> usize {
    let answer;
    // The three are to be of full length, and in one page.
    // SAFETY: the host reads the block, and no more than the caller answers for.
    unsafe {
        asm!(
            ".option push",
            ".option norvc",
            ".balign 16",
            "slli zero, zero, 0x1f",
            "ebreak",
            "srai zero, zero, 7",
            ".option pop",
            inlateout("a0") operation => answer,
            in("a1") block.as_ptr(),
            options(nostack),
        );
    }
    answer
}
