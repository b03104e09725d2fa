/* The interface of a board. The board calls main once, and ends the run with the value that main returns. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* Reports a word to the harness that watches the board. */
void board_put(uint32_t word);

/* The low half of the cycle counter; 0 if the board has none. */
static inline uint32_t board_cycles(void)
{
#ifdef __riscv
    uint32_t cycles;
    __asm__ volatile(".option push\n.option arch, +zicsr\ncsrr %0, mcycle\n.option pop" : "=r"(cycles) : : "memory");
    return cycles;
#else
    return 0;
#endif
}

#endif
