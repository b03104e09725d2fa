# Reset and vectors. Interrupts are vectored; every one but the machine timer, and every exception, ends the run.

.section .init, "ax"
.global _start
_start:
    set_up
    la t0, vectors
    ori t0, t0, 1
    csrw mtvec, t0
    call start
    j unexpected

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
timer_entry:
    call_timer
    mret

# mcause tells the harness what happened: exit codes from 0x100 are causes.
.section .text.unexpected, "ax"
.global unexpected
unexpected:
    csrr a0, mcause
    ori a0, a0, 0x100
    call halt
    j unexpected
