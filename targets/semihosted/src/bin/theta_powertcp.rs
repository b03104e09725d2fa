//! The firmware image of theta-PowerTCP.
#![no_std]
#![no_main]

semihosted::image!(cc_rp::theta_powertcp::ThetaPowerTcp, cc_np::echo::Echo);
