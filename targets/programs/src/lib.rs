//! The programs of NIC and switch without the hardware, which firmware and host both run: the NIC's at the top of this crate,
//! the switch's in [`switch_ring`]. Also the memory layout that they share with the harness.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod descriptor;
mod header_cache;
pub mod layout;
pub mod lockstep;
mod nic;
mod nic_ring;
mod remote_flows;
mod sizes;
pub mod switch_ring;

pub use header_cache::{CnpHeaders, HeaderCache};
pub use nic::{Nic, Outputs, Received, RxFields, RxInfo};
pub use nic_ring::{FrameOut, Hardware, HeaderCacheOf, LogKind, NO_FLOW, NicProgram, RxCounters, TransmitRing};
#[cfg(feature = "std")]
pub use sizes::OnHeap;
pub use sizes::{Full, Sizes, Small};

use cc_core::params::Settings;
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;

/// The hash of the sources that this crate is built from, in hexadecimal digits: see `sources.rs` beside its manifest. The
/// harness contains it, and each image has it in a separate section. The harness refuses an image whose hash differs from its
/// own.
pub const SOURCES: [u8; 16] = match env!("RNIC_CC_SOURCES").as_bytes().first_chunk() {
    Some(digits) => *digits,
    None => panic!("build.rs gives 16 digits"),
};

/// The name of the section of an image that holds [`SOURCES`].
pub const SOURCES_SECTION: &str = ".rnic_cc.sources";

/// The name of the notification point that a NIC with this reaction point has: [`ReactionPoint::RECEIVER`], or by default
/// `echo`, which reflects marks, times and telemetry in acknowledgements and sends nothing else.
pub const fn receiver_name<A: ReactionPoint>() -> &'static str {
    match A::RECEIVER {
        Some(name) => name,
        None => "echo",
    }
}

/// Whether these two machines belong together in one NIC.
pub const fn is_pair<A: ReactionPoint, N: NotificationPoint>() -> bool {
    str_eq(receiver_name::<A>(), N::NAME)
}

/// Stops the build of an image that is not named after its reaction point, or whose machines do not belong together.
///
/// # Panics
/// In that case, while compiling.
pub const fn assert_pair<A: ReactionPoint, N: NotificationPoint>(name: &str) {
    assert!(str_eq(name, A::NAME), "the file is not named after the reaction point");
    assert!(is_pair::<A, N>(), "this notification point does not belong to this reaction point");
}

/// Sets the fields of `settings` from words in their order. Fields without a word keep their values; words without a field are
/// ignored.
pub fn from_words<S: Settings>(mut settings: S, words: &[u32]) -> S {
    for (index, &word) in words.iter().enumerate().take(S::FIELDS.len()) {
        settings.put(index, word);
    }
    settings
}

/// Whether two names are equal, at compile time.
pub const fn str_eq(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    loop {
        match (one, other) {
            ([], []) => return true,
            ([a, rest_of_one @ ..], [b, rest_of_other @ ..]) if *a == *b => (one, other) = (rest_of_one, rest_of_other),
            _ => return false,
        }
    }
}
