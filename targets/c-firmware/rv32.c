/* The board of the core model: 512 KiB of RAM, and a device page with registers for words and for the end of the run
   (programs::layout). */
#include "board.h"

#define REPORT (*(volatile uint32_t *)0x40000030)
#define EXIT (*(volatile uint32_t *)0x40000024)

int main(void);
extern uint32_t __bss_start[], __bss_end[];

void board_put(uint32_t word)
{
    REPORT = word;
}

void start(void)
{
    for (uint32_t *word = __bss_start; word < __bss_end; word++)
        *(volatile uint32_t *)word = 0;
    EXIT = (uint32_t)main();
    for (;;)
        ;
}

__asm__(".section .init, \"ax\"\n"
        ".global _start\n"
        "_start:\n"
        "    .option push\n"
        "    .option norelax\n"
        "    la gp, __global_pointer$\n"
        "    .option pop\n"
        "    la sp, __stack_top\n"
        "    j start\n");
