//! Where a control segment ends: the one place that may rewrite packets and send its own.
//!
//! Stages only ever raise marks, so that any number of them may follow each other in any order. An interconnect switch that
//! answers its own datacentre does more: it takes marks off, because it has dealt with them, and notifies senders itself.
//! Two such ends on one queue would undo each other, so a [`Segment`] is no [`Stage`], and nothing can be chained to it as
//! other stages can:
//!
//! ```
//! use cc_cp::{red::Red, Chain, Stage};
//! fn a_queue<S: Stage>() {}
//! a_queue::<Chain<Red, Red>>();
//! ```
//!
//! ```compile_fail,E0277
//! use cc_cp::lscc::rate_limiting::RateLimiting;
//! use cc_cp::{red::Red, Chain, Segment, Stage};
//! fn a_queue<S: Stage>() {}
//! a_queue::<Chain<Red, Segment<Red, RateLimiting<64, 4>>>>();
//! ```

use crate::{Cx, Event, Stage, Verdict};
use cc_core::wire::{Addresses, Roce};
use cc_core::{Bytes, CnpBody, Ecn, Instant, Port, Qpn};

/// Which flow a packet belongs to, as far as a switch can see: the addresses, folded into 32 bits, and the queue pair at the
/// receiver of the data. It serves IPv4 and IPv6 alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FlowKey {
    /// Source and destination.
    pub peers: u32,
    /// The data's destination queue pair.
    pub data_qpn: Qpn,
}

impl FlowKey {
    /// The flow of a data packet.
    pub fn of(roce: &Roce<'_>) -> Self {
        Self { peers: fold(&roce.addresses()), data_qpn: roce.bth.dest_qp }
    }

    /// The flow that a CNP from the receiver is about, where it names the receiver's queue pair in its body.
    pub fn answered_by(cnp: &Roce<'_>, data_qpn: Qpn) -> Self {
        Self { peers: fold(&cnp.addresses().reversed()), data_qpn }
    }

    /// The key as a table takes it: all of it, mixed into 24 bits.
    pub(crate) const fn place(self) -> Qpn {
        Qpn::new(mix(self.peers, self.data_qpn.get()) >> 8)
    }

    /// 32 bits that tell apart what shares a place.
    pub(crate) const fn check(self) -> u32 {
        mix(self.data_qpn.get(), self.peers)
    }
}

/// Both addresses in 32 bits.
fn fold(addresses: &Addresses) -> u32 {
    let wide = |hash, address: [u8; 16]| {
        let (words, _) = address.as_chunks();
        words.iter().fold(hash, |hash, &word| mix(hash, u32::from_be_bytes(word)))
    };
    match addresses {
        Addresses::V4 { source, destination } => mix(mix(1, source.to_bits()), destination.to_bits()),
        Addresses::V6 { source, destination } | Addresses::Gid { source, destination } => {
            wide(wide(1, source.octets()), destination.octets())
        }
    }
}

/// Mixes a word into a hash: the body and the end of MurmurHash3's 32-bit form (A. Appleby).
const fn mix(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let hash = (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash ^ (hash >> 13)
}

/// A packet of the local datacentre that passes the end of its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Transit {
    /// Its flow.
    pub flow: FlowKey,
    /// It carries data.
    pub data: bool,
    /// Bytes on the wire.
    pub bytes: Bytes,
    /// Its ECN bits.
    pub ecn: Ecn,
}

/// What is to be done to a packet, beside what the verdict says.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rewrite {
    /// Send it on with these ECN bits.
    pub ecn: Ecn,
    /// Send its sender a CNP that says this.
    pub notify: Option<CnpBody>,
}

/// The end of a control segment.
pub trait Endpoint {
    /// What the machine computes with.
    type Params;

    /// A packet passes, with these ECN bits once the verdict is applied.
    fn forward(&mut self, params: &Self::Params, now: Instant, packet: &Transit) -> Rewrite;
}

/// Stages, and behind them the end of their segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<C, E> {
    /// The stages.
    pub stages: C,
    /// The end.
    pub end: E,
}

impl<C: Stage, E: Endpoint> Segment<C, E> {
    /// A packet leaves the queue: what the stages say of it, and what the end does to it.
    #[inline]
    pub fn dequeue(
        &mut self,
        now: Instant,
        port: &Port,
        params: (&C::Params, &E::Params),
        queued: &crate::Packet,
        mut packet: Transit,
    ) -> (Verdict, Rewrite) {
        let verdict = self.stages.on(&Cx { now, port, params: params.0 }, &Event::Dequeue(*queued));
        packet.ecn = verdict.apply(packet.ecn);
        (verdict, self.end.forward(params.1, now, &packet))
    }
}
