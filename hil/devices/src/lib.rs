//! NICs that take one event after the other: natively, on a core that runs the firmware, or on both with a comparison of every
//! decision. A replay and a simulation use them.
#![forbid(unsafe_code)]

pub mod core_log;
pub mod core_nic;
pub mod core_queue;
pub mod device;
pub mod emulated;
pub mod event;
pub mod follower;
pub mod lockstep;
pub mod native;
pub mod native_switch;
pub mod paced;
pub mod reference;

use hil_algorithms::settings::ResolvedSettings;
use hil_cores::board::BootSettings;

/// The chosen settings as the words that an image reads when it starts.
pub fn boot(chosen: &ResolvedSettings) -> BootSettings {
    let ResolvedSettings { rp, np, link, .. } = chosen;
    BootSettings { rp_settings: rp.words().to_vec(), np_settings: np.words().to_vec(), link: *link }
}
