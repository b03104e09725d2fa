//! What a host and an image say to each other where a stream of bytes each way is all that is between them.
//!
//! Everything is words of 32 bits, little-endian, but the bytes of frames, which follow a word that counts them.
//!
//! The host sends the settings of the reaction point, then those of the notification point, [`SETTINGS`] words each, and the
//! port in three words, all as in [`Shared`](crate::layout::Shared). The image answers with the words of its
//! [`Report`](crate::layout::Report) and with when it wants to be woken, low half first.
//!
//! From then on the host sends a descriptor for each event, and as many bytes of a frame as the descriptor has
//! [`captured`](crate::descriptor::Descriptor::captured). The clock shows the descriptor's time while the image works. The
//! image handles it, and is then woken until nothing is due; for a descriptor of kind [`WAKE`] it is woken only. It answers
//! with all its acts, each a word that says which it is and that act's own, and ends with [`DONE`].
//!
//! [`SETTINGS`]: crate::layout::SETTINGS

/// The kind of a descriptor that says that time has passed, and no more. No [`Kind`](crate::descriptor::Kind) has this number.
pub const WAKE: u8 = 0;

/// Nothing more, and in two words when the image wants to be woken, low half first.
pub const DONE: u32 = 0;
/// The pacer is written: slot, rate, window and hold.
pub const PACE: u32 = 1;
/// An event is logged: its kind, the time in two words, and the slot.
pub const LOG: u32 = 2;
/// A frame is sent: how many bytes it has, and these.
pub const FRAME: u32 = 3;

/// Bytes that the image of a [`SmallNic`](crate::SmallNic) takes of a frame: all headers, and the bodies of short ones. What
/// is left of a packet is payload, which tells a NIC nothing.
pub const SMALL_FRAME_BYTES: usize = 512;
