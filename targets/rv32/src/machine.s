# Reset and vectors. Interrupts are vectored; every one but the machine timer, and every exception, ends the run.
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

.section .vectors, "ax"
.balign 256
.option push
.option norvc
vectors:
    .rept 7
    j unexpected
    .endr
    j timer_entry
    .rept 24
    j unexpected
    .endr
.option pop

.section .text.timer_entry, "ax"
.type timer_entry, @function
timer_entry:
    call_timer
    mret
.size timer_entry, . - timer_entry

# mcause tells the harness what happened: exit codes from 0x100 are causes.
.section .text.unexpected, "ax"
.global unexpected
.type unexpected, @function
unexpected:
    csrr a0, mcause
    ori a0, a0, 0x100
    call halt
    j unexpected
.size unexpected, . - unexpected
