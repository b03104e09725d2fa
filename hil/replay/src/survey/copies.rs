//! Finds packets that a capture contains twice, while the NIC received them once. Reasons are a mirror port that copies both
//! inbound and outbound frames, and taps on both sides of a switch.
//!
//! Two frames may be copies if they are equal except for what a switch or router may change: Ethernet header, time to live,
//! ECN, DSCP and IPv4 checksum. A retransmission is equal too. Copies differ from retransmissions in the time between the two
//! frames (a sender needs a round trip to detect a loss) and in their number (a mirror copies every packet).

use super::bits::Bits;
use crate::decode::ip_at;
use cc_core::Ecn;
use cc_core::wire::Roce;
use cc_core::wire::opcode::Class;
use std::mem;

/// Number of preceding frames among which a copy is searched.
const WINDOW: usize = 4_096;
/// Longest time between two copies, in nanoseconds.
const LONGEST: u64 = 1_000_000;
/// Two equal packets at most this many nanoseconds apart are copies: no round trip is so short.
const SURE: u64 = 2_000;
/// Two equal packets at most this many nanoseconds apart are copies if the capture has many such pairs.
const LIKELY: u64 = 4_000;
/// Most pairs that are recorded. Later copies are not left out.
const PAIRS: usize = 1 << 22;

/// Whether copies are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dedup {
    /// Left out if the capture clearly has copies.
    #[default]
    Auto,
    /// Everything that may be a copy is left out.
    On,
    /// No frame is left out.
    Off,
}

/// The network number under which the last tagged frame of any network is stored.
const TAGGED: u32 = u32::MAX;

/// A recent frame, of which a later one may be a copy.
#[derive(Clone, Copy, Default, Debug)]
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
    /// The frame that is left out: the second, or the first if only the second is marked.
    goes: u64,
    /// Whether they are CNPs. All CNPs to one queue pair are equal, so they are no evidence that the capture has copies.
    is_cnp: bool,
}

/// The last [`WINDOW`] frames, found by a hash.
#[derive(Debug)]
struct Recent {
    /// The frames, each with its hash, and the count of the frame before it whose hash has the same low bits. The place of a
    /// frame is its count modulo `WINDOW`.
    frames: Vec<(u64, Seen, u64)>,
    /// For each value of a hash's low bits, the count of the newest frame that has it; 0 if there is none.
    newest: Vec<u64>,
    /// Frames so far.
    count: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Self { frames: vec![(0, Seen::default(), 0); WINDOW], newest: vec![0; WINDOW], count: 0 }
    }
}

impl Recent {
    /// The newest frame with this hash.
    #[inline]
    fn find(&self, hash: u64) -> Option<Seen> {
        let mut count = self.newest[place(hash)];
        while count > 0 && count + WINDOW as u64 > self.count {
            let (other, seen, before) = self.frames[place(count)];
            if other == hash {
                return Some(seen);
            }
            count = before;
        }
        None
    }

    /// Adds a frame, and returns the newest one before it with the same hash.
    #[inline]
    fn add(&mut self, hash: u64, seen: Seen) -> Option<Seen> {
        let former = self.find(hash);
        self.count += 1;
        let before = mem::replace(&mut self.newest[place(hash)], self.count);
        self.frames[place(self.count)] = (hash, seen, before);
        former
    }
}

/// The place of a hash or a count in a table of [`WINDOW`] entries.
#[inline]
fn place(number: u64) -> usize {
    number as usize % WINDOW
}

/// Finds copies.
#[derive(Debug, Default)]
pub(super) struct CopyFinder {
    recent: Recent,
    pairs: Vec<Pair>,
    /// Whether a pair is not of CNPs.
    has_evidence: bool,
    /// Packets without CNPs and copies.
    distinct: u64,
}

impl CopyFinder {
    /// Whether no frame so far may be left out as a copy. Pairs of CNPs alone are no evidence.
    #[inline]
    pub(super) fn is_plain(&self, dedup: Dedup) -> bool {
        self.pairs.is_empty() || (!self.has_evidence && dedup == Dedup::Auto)
    }

    /// Compares the next frame with the recent ones. `network`: see [`Frame::network`](crate::decode::Frame::network). A tagged
    /// frame may be a copy of an untagged one, because a bridge may remove a tag; frames of two different networks are no
    /// copies.
    #[inline]
    pub(super) fn add(&mut self, frame: u64, time: u64, network: u32, bytes: &[u8], roce: &Roce<'_>) {
        let identity = identity(bytes, roce);
        let seen = Seen { frame, time, is_marked: roce.ecn == Ecn::Ce };
        let is_cnp = roce.info.class() == Class::Cnp;
        let of = |network: u32| identity ^ u64::from(network).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let other = self.recent.find(of(if network == 0 { TAGGED } else { 0 }));
        if network != 0 {
            self.recent.add(of(TAGGED), seen);
        }
        let former =
            self.recent.add(of(network), seen).or(other).filter(|former| time.abs_diff(former.time) <= LONGEST);
        match former {
            Some(former) if self.pairs.len() < PAIRS => {
                let goes = if seen.is_marked && !former.is_marked { former.frame } else { frame };
                self.has_evidence |= !is_cnp;
                self.pairs.push(Pair { apart: time.abs_diff(former.time) as u32, goes, is_cnp });
            }
            Some(_) => {}
            None => self.distinct += u64::from(!is_cnp),
        }
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
        // Three quarters of all packets have a copy, or 90 % of all pairs are too close for a retransmission.
        let is_mirrored = all >= 3 && (4 * all >= 3 * self.distinct || 10 * close >= 9 * all);
        let within = match (dedup, is_mirrored) {
            (_, true) => LIKELY.max(4 * median),
            (Dedup::On, false) if all > 0 => LIKELY,
            _ => SURE,
        };
        // Pairs of CNPs alone are no evidence, because all CNPs to one queue pair are equal.
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
    /// Bytes at the front of a packet that are hashed: all headers, shims except long telemetry, and the first bytes of
    /// payload.
    const FRONT: usize = 96;
    let packet = ip_at(frame).and_then(|at| frame.get(at..)).unwrap_or(frame);
    let padded;
    let front = match packet.first_chunk::<FRONT>() {
        Some(front) => front,
        None => {
            padded = std::array::from_fn(|at| packet.get(at).copied().unwrap_or(0));
            &padded
        }
    };
    let (chunks, _) = front.as_chunks::<8>();
    let mut words: [u64; FRONT / 8] = std::array::from_fn(|at| u64::from_le_bytes(chunks[at]));
    // Left out are type of service, time to live and checksum of IPv4; traffic class and hop limit of IPv6.
    let kept = if front[0] >> 4 == 4 { [!0xff00, !0xffff_00ff] } else { [!0xff00_0000_0000_ffff, !0] };
    words.iter_mut().zip(kept).for_each(|(word, kept)| *word &= kept);
    let back = packet.last_chunk::<8>().map_or(0, |&bytes| u64::from_le_bytes(bytes));
    let seed = packet.len() as u64 ^ u64::from(roce.wire_len.get()) << 32;
    words.into_iter().chain([back]).fold(seed, |hash, word| {
        let product = u128::from(hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product as u64 ^ (product >> 64) as u64
    })
}
