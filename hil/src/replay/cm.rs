//! What connection managers tell each other about queue pairs (IBTA 1.4 volume 1, sections 12.6, 13.4 and 13.6).
//!
//! A REQ carries the QPN of the side that connects, a REP that of the side that accepts; together they name the pair.

/// QPN of the general services interface, where management datagrams arrive.
pub const GSI_QPN: u32 = 1;

const CLASS_COMMUNICATION_MANAGEMENT: u8 = 0x07;
const ATTRIBUTE_REQ: u16 = 0x0010;
const ATTRIBUTE_REP: u16 = 0x0013;

/// A management datagram that says something about a QPN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A request for a connection.
    Req {
        /// The sender's name for the connection.
        local_id: u32,
        /// The sender's QPN.
        local_qpn: u32,
    },
    /// A reply that accepts one.
    Rep {
        /// The receiver's name for the connection: the `local_id` of its REQ.
        remote_id: u32,
        /// The sender's QPN.
        local_qpn: u32,
    },
}

/// Reads a management datagram, the payload of a UD packet to [`GSI_QPN`]. Anything but REQ and REP is `None`.
pub fn parse(mad: &[u8]) -> Option<Message> {
    let header = mad.get(..24)?;
    if header[1] != CLASS_COMMUNICATION_MANAGEMENT {
        return None;
    }
    let body = &mad[24..];
    match u16::from_be_bytes([header[16], header[17]]) {
        ATTRIBUTE_REQ => Some(Message::Req { local_id: word(body, 0)?, local_qpn: word(body, 32)? >> 8 }),
        ATTRIBUTE_REP => Some(Message::Rep { remote_id: word(body, 4)?, local_qpn: word(body, 12)? >> 8 }),
        _ => None,
    }
}

fn word(body: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_be_bytes(body.get(offset..offset + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mad(class: u8, attribute: u16, fields: &[(usize, u32)]) -> Vec<u8> {
        let mut mad = vec![0; 256];
        mad[..4].copy_from_slice(&[1, class, 2, 3]);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        for &(offset, value) in fields {
            mad[24 + offset..28 + offset].copy_from_slice(&value.to_be_bytes());
        }
        mad
    }

    #[test]
    fn requests_and_replies_name_their_qpn() {
        let req = mad(7, 0x10, &[(0, 0x1122_3344), (32, 0x00ab_cd10)]);
        assert_eq!(parse(&req), Some(Message::Req { local_id: 0x1122_3344, local_qpn: 0xabcd }));
        let rep = mad(7, 0x13, &[(0, 9), (4, 0x1122_3344), (12, 0x0001_23ff)]);
        assert_eq!(parse(&rep), Some(Message::Rep { remote_id: 0x1122_3344, local_qpn: 0x123 }));
    }

    #[test]
    fn other_datagrams_say_nothing() {
        assert_eq!(parse(&mad(7, 0x14, &[])), None);
        assert_eq!(parse(&mad(3, 0x10, &[])), None);
        let req = mad(7, 0x10, &[(0, 1), (32, 2)]);
        for length in 0..24 + 36 {
            assert_eq!(parse(&req[..length]), None);
        }
    }
}
