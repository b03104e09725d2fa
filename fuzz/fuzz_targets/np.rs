//! See `fuzz::np`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::np(data));
