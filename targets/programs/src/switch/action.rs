//! What a stage answers, and how the device is told.

use crate::switch::Queue;
use cc_core::wire::FlowKey;
use cc_core::wire::shim::MlccData;
use cc_core::{Ecn, Nanos};
use cc_cp::mmu::Admission;
use cc_cp::segment::Rewrite;
use cc_cp::swing::RelayMessage;
use cc_cp::verdict::{Upstream, Verdict};

/// What is to be done at a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageAction {
    /// What the stages say of the packet that leaves.
    Verdict(Verdict),
    /// Whether there is room for the packet that comes in.
    Admission(Admission),
    /// Send the packet on with these ECN bits.
    Rewrite {
        /// The ECN bits.
        ecn: Ecn,
        /// Take its telemetry off.
        clear_int: bool,
        /// Write this into the room that it has for it.
        mlcc: Option<MlccData>,
    },
    /// Keep the next packet of the flow for so long.
    Hold(FlowKey, Nanos),
    /// Send a PFC frame by the port, for the priority: the quanta, where zero resumes.
    Pause(u16),
    /// Tell the relay at the other end of the long link.
    Relay(RelayMessage),
}

impl StageAction {
    /// What is to be done to a packet's bytes.
    pub const fn rewrite(rewrite: &Rewrite) -> Self {
        let Rewrite { ecn, clear_int, mlcc, .. } = *rewrite;
        Self::Rewrite { ecn, clear_int, mlcc }
    }

    /// Hands the words that go with the answer to `operand`, and returns the command that completes it: the queue in bits 31
    /// to 24, the kind of answer in 23 to 16, and the rest of what it says below.
    #[inline]
    pub fn encode(&self, queue: Queue, mut operand: impl FnMut(u32)) -> u32 {
        let (kind, says) = match *self {
            Self::Verdict(Verdict { mark, not_ect, upstream, hop }) => {
                if let Some(hop) = hop {
                    for word in [hop.mbps, u32::from(hop.flags), hop.clock, hop.sent, hop.queue] {
                        operand(word);
                    }
                }
                let upstream = match upstream {
                    Upstream::AsBefore => 0,
                    Upstream::Resume => 1,
                    Upstream::Pause => 2,
                };
                (1, mark as u32 | u32::from(not_ect) << 2 | upstream << 3 | u32::from(hop.is_some()) << 5)
            }
            Self::Admission(Admission::Dropped) => (2, 0),
            Self::Admission(Admission::Taken) => (2, 1),
            Self::Rewrite { ecn, clear_int, mlcc } => {
                if let Some(MlccData { credit, queue }) = mlcc {
                    operand(u32::from(credit));
                    operand(queue.get());
                }
                (3, u32::from(ecn.to_bits()) | u32::from(clear_int) << 2 | u32::from(mlcc.is_some()) << 3)
            }
            Self::Pause(quanta) => (4, u32::from(quanta)),
            Self::Relay(RelayMessage { paused, seq }) => {
                operand(u32::from(paused));
                (5, u32::from(seq))
            }
            Self::Hold(flow, wait) => {
                for word in [flow.peers, flow.data_qpn.get(), wait.get()] {
                    operand(word);
                }
                (6, 0)
            }
        };
        queue.index() << 24 | kind << 16 | says
    }
}
