//! The firmware image of HPCC*'s direct INT.
#![no_std]
#![no_main]

rv32::stage!(cc_cp::lscc::direct_int::DirectInt);
