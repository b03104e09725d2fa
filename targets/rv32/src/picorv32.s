# Reset, and the vector 16 bytes behind it. Only the timer's line is ever let in; what else goes wrong stops the core.

.section .init, "ax"
# Types and sizes are there for whoever reads the image's symbols.
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
