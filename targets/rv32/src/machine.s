# Reset and vectors. Only the timer's interrupt is ever let in, the seventh, and so the last that has a vector; every
# exception, at the first, ends the run.
# Types and sizes are there for whoever reads the image's symbols.

.section .init, "ax"
.global _start
.type _start, @function
_start:
    set_up
    la t0, vectors
    ori t0, t0, 1
    csrw mtvec, t0
    call start
    j unexpected
.size _start, . - _start

# Between reset and vectors, where there is room for what these jump to.
.balign 4
.type timer_entry, @function
timer_entry:
    call_timer
    mret
.size timer_entry, . - timer_entry

.balign 4
.global unexpected
.type unexpected, @function
unexpected:
    end_by_cause
.size unexpected, . - unexpected

.section .vectors, "ax"
.global vectors
.balign 256
.option push
.option norvc
vectors:
    .rept 7
    j unexpected
    .endr
    j timer_entry
.option pop
