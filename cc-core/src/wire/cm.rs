//! Communication management (IBTA volume 1, chapter 12): the datagrams by which the two ends of a connection exchange
//! their queue pair numbers.

use super::cursor::Output;
use super::opcode::UD_SEND_ONLY;
use super::{Bth, Deth, Extensions, Roce};
use crate::{Psn, Qpn};

/// The queue pair that management datagrams go to and come from.
pub const QP: Qpn = Qpn::new(1);
/// Its queue key.
pub const QUEUE_KEY: u32 = 0x8001_0000;
/// Bytes of a management datagram.
pub const DATAGRAM_LEN: usize = 256;

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 0x07;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 0x03;
const REQUEST: u16 = 0x0010;
const REPLY: u16 = 0x0013;
const READY_TO_USE: u16 = 0x0014;
const DISCONNECT: u16 = 0x0015;
const DISCONNECT_REPLY: u16 = 0x0016;

/// A step of the three-way handshake that opens a connection, or of the two that end it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Message {
    /// REQ (12.6.5): the active side requests a connection.
    Request {
        /// The active side's identifier of the connection.
        local_id: u32,
        /// The active side's queue pair.
        local_qpn: Qpn,
        /// First PSN that the active side will send.
        starting_psn: Psn,
    },
    /// REP (12.6.8): the passive side accepts the connection.
    Reply {
        /// The passive side's identifier of the connection.
        local_id: u32,
        /// The active side's.
        remote_id: u32,
        /// The passive side's queue pair.
        local_qpn: Qpn,
        /// First PSN that the passive side will send.
        starting_psn: Psn,
    },
    /// RTU (12.6.9): the active side confirms that it is ready.
    ReadyToUse {
        /// The active side's identifier of the connection.
        local_id: u32,
        /// The passive side's.
        remote_id: u32,
    },
    /// DREQ (12.6.10): either side ends the connection.
    Disconnect {
        /// The sender's identifier of the connection.
        local_id: u32,
        /// The receiver's.
        remote_id: u32,
        /// The receiver's queue pair.
        remote_qpn: Qpn,
    },
    /// DREP (12.6.11): the other side confirms the end.
    DisconnectReply {
        /// The sender's identifier of the connection.
        local_id: u32,
        /// The receiver's.
        remote_id: u32,
    },
}

impl Message {
    /// The message in this packet; `None` if it is none of the five, or if the capture cut it.
    #[inline]
    pub fn parse(roce: &Roce<'_>) -> Option<Self> {
        if roce.bth.opcode != UD_SEND_ONLY || roce.bth.dest_qp != QP {
            return None;
        }
        let (head, data) = roce.payload().split_first_chunk::<24>()?;
        let &[_, class, _, _, _, _, _, _, _, _, _, _, _, _, _, _, attribute0, attribute1, ..] = head;
        if class != CLASS {
            return None;
        }
        let words = data.as_chunks::<4>().0;
        let word = |at: usize| words.get(at).map(|&word| u32::from_be_bytes(word));
        match u16::from_be_bytes([attribute0, attribute1]) {
            REQUEST => Some(Self::Request {
                local_id: word(0)?,
                local_qpn: Qpn::new(word(8)? >> 8),
                starting_psn: Psn::new(word(11)? >> 8),
            }),
            REPLY => Some(Self::Reply {
                local_id: word(0)?,
                remote_id: word(1)?,
                local_qpn: Qpn::new(word(3)? >> 8),
                starting_psn: Psn::new(word(5)? >> 8),
            }),
            READY_TO_USE => Some(Self::ReadyToUse { local_id: word(0)?, remote_id: word(1)? }),
            DISCONNECT => {
                Some(Self::Disconnect { local_id: word(0)?, remote_id: word(1)?, remote_qpn: Qpn::new(word(2)? >> 8) })
            }
            DISCONNECT_REPLY => Some(Self::DisconnectReply { local_id: word(0)?, remote_id: word(1)? }),
            _ => None,
        }
    }

    /// The management datagram, to be sent as payload with [`headers`]; fields not named here are zero.
    pub fn emit(&self) -> [u8; DATAGRAM_LEN] {
        let (attribute, transaction) = match *self {
            Self::Request { local_id, .. } => (REQUEST, local_id),
            Self::Reply { remote_id, .. } => (REPLY, remote_id),
            Self::ReadyToUse { local_id, .. } => (READY_TO_USE, local_id),
            Self::Disconnect { local_id, .. } => (DISCONNECT, local_id),
            Self::DisconnectReply { remote_id, .. } => (DISCONNECT_REPLY, remote_id),
        };
        let mut datagram = [0; DATAGRAM_LEN];
        let mut output = Output::new(&mut datagram);
        output.put(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
        output.word(0);
        // The active side's identifier of the connection identifies the handshake.
        output.put(&u64::from(transaction).to_be_bytes());
        output.put(&attribute.to_be_bytes());
        output.put(&[0; 6]);
        match *self {
            Self::Request { local_id, local_qpn, starting_psn } => {
                output.word(local_id);
                output.put(&[0; 28]);
                output.word(local_qpn.get() << 8);
                output.put(&[0; 8]);
                output.word(starting_psn.get() << 8);
            }
            Self::Reply { local_id, remote_id, local_qpn, starting_psn } => {
                output.word(local_id);
                output.word(remote_id);
                output.word(0);
                output.word(local_qpn.get() << 8);
                output.word(0);
                output.word(starting_psn.get() << 8);
            }
            Self::ReadyToUse { local_id, remote_id } | Self::DisconnectReply { local_id, remote_id } => {
                output.word(local_id);
                output.word(remote_id);
            }
            Self::Disconnect { local_id, remote_id, remote_qpn } => {
                output.word(local_id);
                output.word(remote_id);
                output.word(remote_qpn.get() << 8);
            }
        }
        datagram
    }
}

/// The transport headers of a management datagram with this sequence number.
pub fn headers(psn: Psn) -> (Bth, Extensions) {
    let bth = Bth { opcode: UD_SEND_ONLY, partition: 0xffff, dest_qp: QP, psn, ..Bth::default() };
    let deth = Deth { queue_key: QUEUE_KEY, source_qp: QP };
    (bth, Extensions { deth, ..Extensions::default() })
}
