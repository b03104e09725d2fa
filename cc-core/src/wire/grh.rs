//! The global route header of RoCEv1 (IBTA volume 1, section 8.3; EtherType 0x8915 by annex A16), which is laid out as an
//! IPv6 header.

use super::Malformed;

/// Next header value that announces a base transport header.
pub(super) const NEXT_IS_BTH: u8 = 0x1b;

/// The errors for a frame that ends inside the header, for a wrong version or next header, and for a length beyond the frame.
pub(super) const ERRORS: [Malformed; 3] = [Malformed::GrhShort, Malformed::Grh, Malformed::GrhLength];
