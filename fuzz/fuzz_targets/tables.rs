//! See `fuzz::tables`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tables(data));
