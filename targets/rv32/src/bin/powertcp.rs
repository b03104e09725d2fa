//! The firmware image of PowerTCP.
#![no_std]
#![no_main]

rv32::image!(cc_rp::powertcp::PowerTcp5, cc_np::echo::Echo);
