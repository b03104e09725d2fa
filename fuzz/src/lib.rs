//! The fuzz targets. Each is a function that takes any bytes and panics if an invariant does not hold.
//!
//! They are ordinary functions, so that the committed corpora run under `cargo test` on the stable toolchain; `fuzz_targets`
//! has the entry points for libFuzzer. A target of a parser parses the bytes as they are. A target of code with state decodes
//! them ([`Arbitrary`]) into a list of operations, calls the code as its contract demands, and compares the results with those
//! of a model or of a second instance.
#![forbid(unsafe_code)]

mod capture;
mod isa;
mod np;
mod receiver;
mod rp;
mod switch;
mod tables;
mod wire;

pub use capture::capture;
pub use isa::isa;
pub use np::np;
pub use receiver::np_of;
pub use rp::{rp, rp_of};
pub use switch::{cp, cp_of};
pub use tables::tables;
pub use wire::wire;

use arbitrary::{Arbitrary, Unstructured};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::table::Fixed;
use programs::Sizes;

/// The body of a fuzz target.
pub type Body = fn(&[u8]);

/// Every target by its name, which is also that of its folder in `corpus`.
pub const TARGETS: [(&str, Body); 7] =
    [("wire", wire), ("capture", capture), ("tables", tables), ("rp", rp), ("np", np), ("cp", cp), ("isa", isa)];

/// The sizes of a NIC with room for four flows sent and `PEERS` sets of four flows received.
struct FewFlows<const PEERS: usize>;

impl<const PEERS: usize> Sizes for FewFlows<PEERS> {
    type Flows = Fixed<4>;
    type QpnMap = Fixed<8>;
    type Peers = Fixed<PEERS>;
    type Remotes = Fixed<2>;
}

/// Decodes the operations in the rest of the bytes.
fn operations<'a, T: Arbitrary<'a>>(source: &mut Unstructured<'a>) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || if source.is_empty() { None } else { T::arbitrary(source).ok() })
}

/// A preset with up to seven settings changed within their ranges; `None` if they contradict each other or the port.
fn settings<S: Settings, P>(
    source: &mut Unstructured<'_>,
    presets: &[Preset<S>],
    check: impl FnOnce(&S) -> Result<P, ParamError>,
) -> Option<S> {
    let (preset, changes) = source.arbitrary::<(u8, u8)>().ok()?;
    let mut settings = presets[usize::from(preset) % presets.len()].values;
    for _ in 0..(changes % 8).min(S::FIELDS.len() as u8) {
        let (index, value, shift) = source.arbitrary::<(u8, u32, u8)>().ok()?;
        let index = usize::from(index) % S::FIELDS.len();
        let field = &S::FIELDS[index];
        let span = u64::from(field.max - field.min) + 1;
        // Small values are as frequent as large ones.
        let value = field.min + (u64::from(value >> (shift % 32)) % span) as u32;
        settings.set(index, value).expect("in range");
    }
    match check(&settings) {
        Ok(_) => Some(settings),
        Err(ParamError::Conflict { field, expected }) => {
            assert!(S::index_of(field).is_some() && !expected.is_empty(), "{field}: {expected}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
