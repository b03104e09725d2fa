/* QEMU's Cortex-M boards: words are printed as lines of hexadecimal digits by semihosting (Arm, "Semihosting for AArch32"). */
#include "board.h"

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20 };

int main(void);
extern uint32_t __bss_start[], __bss_end[], __stack_top[];

static void semihost(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void board_put(uint32_t word)
{
    char line[10];
    for (int digit = 0; digit < 8; digit++)
        line[digit] = "0123456789abcdef"[word >> (28 - 4 * digit) & 15];
    line[8] = '\n';
    line[9] = 0;
    semihost(SYS_WRITE0, line);
}

static void end(uint32_t code)
{
    const uint32_t why[2] = {0x20026 /* the application has ended */, code};
    semihost(SYS_EXIT_EXTENDED, why);
    for (;;)
        ;
}

static void start(void)
{
    for (uint32_t *word = __bss_start; word < __bss_end; word++)
        *(volatile uint32_t *)word = 0;
    end((uint32_t)main());
}

static void fault(void)
{
    end(100);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    __stack_top, start, fault, fault, fault, fault, fault, fault,
    fault,       fault, fault, fault, fault, fault, fault, fault,
};
