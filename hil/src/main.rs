//! `hil`, the harness of rnic-cc.
fn main() {}
