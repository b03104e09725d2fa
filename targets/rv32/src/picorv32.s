# Reset, and the interrupt vector 16 bytes after it. Only the timer's line is ever unmasked; a fault stops the core.

.section .init, "ax"
# Symbols have types and sizes for tools that read the image.
.global _start
.type _start, @function
_start:
    j reset
.size _start, . - _start
.balign 16
.type timer_entry, @function
timer_entry:
    call_timer
    .insn r 0x0b, 0, 2, x0, x0, x0      # retirq
.size timer_entry, . - timer_entry
.type reset, @function
reset:
    set_up
    call start
    li a0, 0x100
    call halt
.size reset, . - reset
