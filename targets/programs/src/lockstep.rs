//! The protocol between a host and an image that are connected by one byte stream in each direction.
//!
//! All values are little-endian words of 32 bits, except frames, whose bytes follow a word with their number.
//!
//! The host sends the settings of the reaction point, then those of the notification point, [`SETTINGS`] words each, and the
//! port in three words, all as in [`Shared`](crate::layout::Shared). The image sends the words of its
//! [`ImageInfo`](crate::layout::ImageInfo) and the time of its next wake, low half first.
//!
//! From then on the host sends a descriptor for each event, followed by [`captured`](crate::descriptor::Descriptor::captured)
//! bytes of a frame. The clock shows the descriptor's time while the image works. The image handles the descriptor, and then
//! its timer until nothing is due; for a descriptor of kind [`WAKE`], only its timer. It sends all its actions, each as a word
//! with the number of the action and the action's words, and then [`DONE`].
//!
//! [`SETTINGS`]: crate::layout::SETTINGS

/// The kind of a descriptor that only advances the time. No [`DescriptorKind`](crate::descriptor::DescriptorKind) has this
/// number.
pub const WAKE: u8 = 0;

/// End of the actions. Two words follow: the time of the image's next wake, low half first.
pub const DONE: u32 = 0;
/// A store to the pacer. Words: slot, rate, window and hold.
pub const PACE: u32 = 1;
/// A record of the event log. Words: the kind of event, the time in two words, and the slot.
pub const LOG: u32 = 2;
/// A frame that the image sends: a word with its number of bytes, and the bytes.
pub const FRAME: u32 = 3;

/// Bytes of a frame that the image of a [`Small`](crate::Small) NIC reads: all headers, and short frames completely. The rest
/// is payload, which congestion control does not use.
pub const SMALL_FRAME_BYTES: usize = 512;

/// Exit code of an image. Code 1 is not used, because emulators end with it when they fail themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Exit {
    /// The host's stream has ended.
    Finished = 0,
    /// The settings are out of range, or wrong on this port.
    Settings = 2,
    /// A frame is longer than there is room for.
    Frame = 3,
    /// The streams cannot be opened, or written.
    Streams = 4,
    /// There was an exception or an interrupt.
    Unexpected = 100,
}

impl Exit {
    /// The meaning of a code, in words that follow "the image".
    pub const fn meaning(code: u32) -> &'static str {
        const SETTINGS: u32 = Exit::Settings as u32;
        const FRAME: u32 = Exit::Frame as u32;
        const STREAMS: u32 = Exit::Streams as u32;
        const UNEXPECTED: u32 = Exit::Unexpected as u32;
        match code {
            SETTINGS => "refuses the settings",
            FRAME => "has no room for the frame",
            STREAMS => "cannot reach its host",
            UNEXPECTED => "met with an exception",
            _ => "has ended",
        }
    }
}
