//! The firmware image of HPCC*'s direct INT.
#![no_std]
#![no_main]

rv32::stage!(rv32::programs::switch::lscc_direct_int::DirectInt);
