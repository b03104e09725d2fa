# Reset, and the one trap handler, because mtvec has no vectors here. Only the timer's interrupt is ever enabled; every
# exception ends the run.
# Symbols have types and sizes for tools that read the image.

.section .init, "ax"
.global _start
.type _start, @function
_start:
    set_up
    la t0, trap_entry
    csrw mtvec, t0
    csrwi 0xbc0, 1                      # Line 0 of the interrupt array is the external interrupt
    call start
    j unexpected
.size _start, . - _start

.section .text.trap_entry, "ax"
.balign 4
.type trap_entry, @function
trap_entry:
    csrw mscratch, t0
    csrr t0, mcause
    bgez t0, unexpected                 # An exception: interrupts have the top bit set
    csrr t0, mscratch
    call_timer
    mret
.size trap_entry, . - trap_entry

.global unexpected
.type unexpected, @function
unexpected:
    end_by_cause
.size unexpected, . - unexpected
