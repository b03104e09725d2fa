//! The global route header of RoCEv1 (IBTA volume 1, section 8.3; EtherType 0x8915): IPv6 in all but name.

use super::Malformed;

/// Next header value that announces a base transport header.
pub(super) const NEXT_IS_BTH: u8 = 0x1b;

/// The errors for a header that is short, that is another one, or that is too long.
pub(super) const ERRORS: [Malformed; 3] = [Malformed::GrhShort, Malformed::Grh, Malformed::GrhLength];
