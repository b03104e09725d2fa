//! VexRiscv, as LiteX builds it with caches: reset, and its one trap handler. Everything else is as on other cores with machine
//! mode.
//!
//! The data cache is write-through and does not snoop the bus: what the image stores is soon in RAM, but after the device has
//! stored there, the image could still read an old copy from the cache. The core does not cache the upper half of the address
//! space, in which the bus maps RAM and devices a second time. So the board accesses its registers and `SHARED` only there, and
//! they are never in the cache. The alternative would be to flush the cache (instruction `0x500f`) before every read of the
//! ring. That would take time for all lines at each descriptor, evict the program's own state, and be needed at every place
//! where the device may have written, such as the counts in waiting descriptors.

core::arch::global_asm!(include_str!("start.s"), include_str!("vexriscv.s"));
