//! Packets that a capture holds twice: a mirror port that copies what comes in and what goes out, or a tap on both sides of a
//! switch. A NIC saw them once.
//!
//! Two frames are copies if they are equal but for what a switch or router may change: Ethernet header, time to live, ECN, DSCP
//! and IPv4 checksum. A packet that was sent again is equal too. Copies and retransmissions differ in the time between the
//! two frames, since a sender needs a round trip to detect a loss, and in their number, since a mirror copies every packet.

use super::bits::Bits;
use crate::decode::ip_at;
use crate::fast::FastMap;
use cc_core::Ecn;
use cc_core::wire::Roce;
use cc_core::wire::opcode::Class;
use std::collections::VecDeque;

/// Frames among which a copy is looked for, and the longest time between the two in nanoseconds.
const WINDOW: usize = 4_096;
const LONGEST: u64 = 1_000_000;
/// Two equal packets so close to each other are copies: no round trip is so short, nanoseconds.
const SURE: u64 = 2_000;
/// So close they are copies if there are many, nanoseconds.
const LIKELY: u64 = 4_000;
/// Pairs that are recorded at most. Later copies are not left out.
const PAIRS: usize = 1 << 22;

/// Whether copies are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dedup {
    /// If it is clear that the capture has them.
    #[default]
    Auto,
    /// All that may be copies.
    On,
    /// None.
    Off,
}

/// In place of a network, for the last frame that had one.
const TAGGED: u32 = u32::MAX;

/// A frame that may have a copy.
#[derive(Clone, Copy, Debug)]
struct Seen {
    frame: u64,
    time: u64,
    is_marked: bool,
}

/// Two frames that may be copies.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Nanoseconds between them.
    apart: u32,
    /// The one that goes: the second, or the first if only the second is marked.
    goes: u64,
    /// CNPs to one queue pair are all equal bytes, so they are no evidence that the capture has copies.
    is_cnp: bool,
}

/// Looks for copies.
#[derive(Debug, Default)]
pub(super) struct CopyFinder {
    seen: FastMap<Seen>,
    recent: VecDeque<(u64, u64)>,
    pairs: Vec<Pair>,
    /// Packets but for CNPs and copies.
    distinct: u64,
}

impl CopyFinder {
    /// The next frame, at this time, of a network, see [`Frame::network`](crate::decode::Frame::network). A bridge may take a
    /// tag off, but two networks may have the same packets.
    #[inline]
    pub(super) fn add(&mut self, frame: u64, time: u64, network: u32, bytes: &[u8], roce: &Roce<'_>) {
        let identity = identity(bytes, roce);
        let seen = Seen { frame, time, is_marked: roce.ecn == Ecn::Ce };
        let is_cnp = roce.info.class() == Class::Cnp;
        let of = |network: u32| identity ^ u64::from(network).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let other = self.seen.get(&of(if network == 0 { TAGGED } else { 0 })).copied();
        if network != 0 {
            self.store(of(TAGGED), seen);
        }
        let former = self.store(of(network), seen).or(other).filter(|former| time.abs_diff(former.time) <= LONGEST);
        match former {
            Some(former) if self.pairs.len() < PAIRS => {
                let goes = if seen.is_marked && !former.is_marked { former.frame } else { frame };
                self.pairs.push(Pair { apart: time.abs_diff(former.time) as u32, goes, is_cnp });
            }
            Some(_) => {}
            None => self.distinct += u64::from(!is_cnp),
        }
    }

    #[inline]
    fn store(&mut self, key: u64, seen: Seen) -> Option<Seen> {
        let former = self.seen.insert(key, seen);
        self.recent.push_back((key, seen.frame));
        if self.recent.len() > WINDOW
            && let Some((oldest, frame)) = self.recent.pop_front()
            && self.seen.get(&oldest).is_some_and(|seen| seen.frame == frame)
        {
            self.seen.remove(&oldest);
        }
        former
    }

    /// The frames that are copies of others.
    pub(super) fn finish(self, dedup: Dedup) -> Bits {
        let mut copies = Bits::default();
        if dedup == Dedup::Off {
            return copies;
        }
        let mut apart: Vec<u32> = self.pairs.iter().filter(|pair| !pair.is_cnp).map(|pair| pair.apart).collect();
        apart.sort_unstable();
        let (all, close) = (apart.len() as u64, apart.partition_point(|&apart| u64::from(apart) <= LIKELY) as u64);
        let median = apart.get(apart.len() / 2).map_or(0, |&apart| u64::from(apart));
        // Nearly all packets are there twice, or all that are there twice are too close for a retransmission.
        let is_mirrored = all >= 3 && (4 * all >= 3 * self.distinct || 10 * close >= 9 * all);
        let within = match (dedup, is_mirrored) {
            (_, true) => LIKELY.max(4 * median),
            (Dedup::On, false) if all > 0 => LIKELY,
            _ => SURE,
        };
        // CNPs alone are no evidence: all those to one queue pair are equal.
        let with_cnps = all > 0 || dedup == Dedup::On;
        for Pair { apart, goes, is_cnp } in self.pairs {
            if u64::from(apart) <= within && (with_cnps || !is_cnp) {
                copies.insert(goes);
            }
        }
        copies
    }
}

/// A hash that is equal for copies, and different for almost all other frames.
fn identity(frame: &[u8], roce: &Roce<'_>) -> u64 {
    /// What is hashed of the front of a packet: all headers, shims but for telemetry, and the first bytes of the payload.
    const FRONT: usize = 96;
    let packet = ip_at(frame).and_then(|at| frame.get(at..)).unwrap_or(frame);
    let mut front = [0; FRONT];
    let length = packet.len().min(FRONT);
    if let (Some(to), Some(from)) = (front.get_mut(..length), packet.get(..length)) {
        to.copy_from_slice(from);
    }
    // Type of service, time to live and checksum of IPv4; traffic class and hop limit of IPv6.
    let changeable: &[usize] = if front[0] >> 4 == 4 { &[1, 8, 10, 11] } else { &[0, 1, 7] };
    changeable.iter().for_each(|&at| front[at] = 0);
    let back = packet.last_chunk::<8>().map_or(0, |&bytes| u64::from_le_bytes(bytes));
    let (words, _) = front.as_chunks::<8>();
    let seed = packet.len() as u64 ^ u64::from(roce.wire_len.get()) << 32;
    words.iter().map(|&word| u64::from_le_bytes(word)).chain([back]).fold(seed, |hash, word| {
        let product = u128::from(hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834);
        product as u64 ^ (product >> 64) as u64
    })
}
