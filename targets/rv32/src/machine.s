# Reset and vectors. Only interrupt 7, the timer's, is ever enabled, so it is the last that has a vector. Exceptions use the
# first vector, and end the run.
# Symbols have types and sizes for tools that read the image.

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

# The targets of the vectors, in the room between reset and vectors.
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
