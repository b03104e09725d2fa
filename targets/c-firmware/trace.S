/* The trace, included from the file that -DTRACE names. */
    .section .rodata.trace, "a"
    .balign 8
    .global trace
trace:
    .incbin TRACE
