# Macros for the start code and traps of all cores, and the compiler's memory functions.

# Sets up the global pointer and the stack, and clears variables.
.macro set_up
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack_top
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:
.endm

# Calls the timer's handler. Saves only the registers that a function may change.
.macro call_timer
    addi sp, sp, -64
    sw ra, 0(sp)
    sw t0, 4(sp)
    sw t1, 8(sp)
    sw t2, 12(sp)
    sw t3, 16(sp)
    sw t4, 20(sp)
    sw t5, 24(sp)
    sw t6, 28(sp)
    sw a0, 32(sp)
    sw a1, 36(sp)
    sw a2, 40(sp)
    sw a3, 44(sp)
    sw a4, 48(sp)
    sw a5, 52(sp)
    sw a6, 56(sp)
    sw a7, 60(sp)
    call timer
    lw ra, 0(sp)
    lw t0, 4(sp)
    lw t1, 8(sp)
    lw t2, 12(sp)
    lw t3, 16(sp)
    lw t4, 20(sp)
    lw t5, 24(sp)
    lw t6, 28(sp)
    lw a0, 32(sp)
    lw a1, 36(sp)
    lw a2, 40(sp)
    lw a3, 44(sp)
    lw a4, 48(sp)
    lw a5, 52(sp)
    lw a6, 56(sp)
    lw a7, 60(sp)
    addi sp, sp, 64
.endm

# Ends the run with exit code 0x100 plus mcause, the cause of the exception.
.macro end_by_cause
1:  csrr a0, mcause
    ori a0, a0, 0x100
    call halt
    j 1b
.endm

# memcpy, which the compiler calls: by words if both addresses are multiples of 4, by halfwords if both are even, as those of
# headers after an Ethernet header are.
.section .text.memcpy, "ax"
.global memcpy
.type memcpy, @function
memcpy:
    add a3, a0, a2
    mv a4, a0
    or a5, a0, a1
    andi a2, a5, 1
    bnez a2, 5f
    andi a5, a5, 2
    bnez a5, 3f
    addi a2, a3, -3
    j 2f
1:  lw a5, 0(a1)
    addi a4, a4, 4
    addi a1, a1, 4
    sw a5, -4(a4)
2:  bltu a4, a2, 1b
3:  addi a2, a3, -1
    bgeu a4, a2, 5f
4:  lhu a5, 0(a1)
    addi a4, a4, 2
    addi a1, a1, 2
    sh a5, -2(a4)
    bltu a4, a2, 4b
    j 5f
6:  lbu a5, 0(a1)
    addi a4, a4, 1
    addi a1, a1, 1
    sb a5, -1(a4)
5:  bltu a4, a3, 6b
    ret
.size memcpy, . - memcpy

# memset, which the compiler calls.
.section .text.memset, "ax"
.global memset
.type memset, @function
memset:
    add a3, a0, a2
    mv a4, a0
    andi a1, a1, 0xff
    slli a5, a1, 8
    or a1, a1, a5
    slli a5, a1, 16
    or a1, a1, a5
    andi a2, a3, -4
    j 2f
1:  sb a1, 0(a4)
    addi a4, a4, 1
2:  andi a5, a4, 3
    bnez a5, 5f
    j 4f
3:  sw a1, 0(a4)
    addi a4, a4, 4
4:  bltu a4, a2, 3b
5:  bltu a4, a3, 1b
    ret
.size memset, . - memset
