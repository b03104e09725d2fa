//! What is fuzzed: one function per target, from any bytes to a panic if an invariant breaks.
//!
//! They are ordinary functions, so that the committed corpora run under `cargo test` on the stable toolchain;
//! `fuzz_targets` hands them to libFuzzer. Parsers take the bytes as they are. Everything that has state takes them
//! as a list of operations ([`Arbitrary`]) in an environment that keeps its side of the contract, and is compared
//! with a model.
#![forbid(unsafe_code)]

mod capture;
mod cp;
mod isa;
mod np;
mod receiver;
mod rp;
mod tables;
mod wire;

pub use capture::capture;
pub use cp::cp;
pub use isa::isa;
pub use np::np;
pub use receiver::np_of;
pub use rp::{rp, rp_of};
pub use tables::tables;
pub use wire::wire;

use arbitrary::{Arbitrary, Unstructured};

/// The body of a fuzz target.
pub type Body = fn(&[u8]);

/// Every target by its name, which is also that of its folder in `corpus`.
pub const TARGETS: [(&str, Body); 7] =
    [("wire", wire), ("capture", capture), ("tables", tables), ("rp", rp), ("np", np), ("cp", cp), ("isa", isa)];

/// The operations that are left in these bytes.
fn operations<'a, T: Arbitrary<'a>>(source: &mut Unstructured<'a>) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || if source.is_empty() { None } else { T::arbitrary(source).ok() })
}
