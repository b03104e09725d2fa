//! See `fuzz::rp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::rp(data));
