//! VexRiscv, as LiteX builds it with caches: reset, and the one trap handler. All else is machine mode's.
//!
//! The data cache is written through, and does not watch the bus: what the image stores is soon in RAM, but of what the
//! device stores there the image could go on seeing an old copy. The core caches nothing in the upper half of the address
//! space, where the bus shows RAM and devices a second time. So the board reaches its registers and `SHARED` there, and
//! nowhere else, and no copy of either is ever made. The other way is to flush the cache (the instruction `0x500f`) before
//! every look at the ring: that walks through all lines for each descriptor, throws out the program's own state, and has to
//! be right at every place where the device may have written, counts in waiting descriptors among them.

core::arch::global_asm!(include_str!("start.s"), include_str!("vexriscv.s"));
