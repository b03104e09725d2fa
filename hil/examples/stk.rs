//! x
#![allow(missing_docs)]
fn main() { for p in std::env::args().skip(1) { let f = std::fs::read(&p).unwrap(); match hil::stack::Stack::of(&f).and_then(|s| s.bound()) { Ok(b)=>println!("{p} {b}"), Err(e)=>println!("{p} {e:#}") } } }
