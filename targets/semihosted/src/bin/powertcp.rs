//! The firmware image of PowerTCP.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::powertcp::PowerTcp5, cc_np::echo::Echo);
