//! The key by which switches identify flows.

use super::Roce;
use super::route::halves;
use crate::Qpn;

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
    pub fn of_data(roce: &Roce<'_>) -> Self {
        // Addresses are whole words: folding source and destination at once is the same as folding one after the other.
        Self { peers: fold(1, roce.route().addresses), data_qpn: roce.bth.dest_qp }
    }

    /// The flow that a CNP from the receiver is about, where it names the receiver's queue pair in its body.
    pub fn of_reply(cnp: &Roce<'_>, data_qpn: Qpn) -> Self {
        let (source, destination) = halves(cnp.route().addresses);
        Self { peers: fold(fold(1, destination), source), data_qpn }
    }

    /// A 24-bit hash of the whole key, which a table takes in place of a queue pair number.
    pub const fn set_hash(self) -> Qpn {
        Qpn::new(mix(self.peers, self.data_qpn.get()) >> 8)
    }

    /// A 32-bit tag that distinguishes flows in the same set: independent of [`FlowKey::set_hash`].
    pub const fn tag_hash(self) -> u32 {
        mix(self.data_qpn.get(), self.peers)
    }
}

/// Mixes an address into a hash.
#[inline(never)]
fn fold(hash: u32, address: &[u8]) -> u32 {
    let (words, _) = address.as_chunks();
    words.iter().fold(hash, |hash, &word| mix(hash, u32::from_be_bytes(word)))
}

/// Mixes a word into a hash: the body and the end of MurmurHash3's 32-bit form (A. Appleby).
#[inline(never)]
const fn mix(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let hash = (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash ^ (hash >> 13)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn flows_that_differ_in_one_field_have_different_keys() {
        let peers = |source: &[u8], destination: &[u8]| fold(fold(1, source), destination);
        let v4 = |source: u32, destination: u32| peers(&source.to_be_bytes(), &destination.to_be_bytes());
        let v6 = |source: u128, destination: u128| peers(&source.to_be_bytes(), &destination.to_be_bytes());
        let prefix = 0x2001_0db8_u128 << 96;
        let mut folded: Vec<u32> = (0..64).flat_map(|n| [v4(n, 7), v4(7, 1 << 16 | n)]).collect();
        folded.extend((0..64).flat_map(|n| [v6(prefix | n << 48, 7), v6(7, prefix | n)]));
        folded.push(v4(7, 0));
        let peers: BTreeSet<u32> = folded.iter().copied().collect();
        assert_eq!(peers.len(), folded.len());
        let keys = peers.iter().flat_map(|&peers| (0..64).map(move |qpn| FlowKey { peers, data_qpn: Qpn::new(qpn) }));
        let hashes: BTreeSet<_> = keys.map(|key| (key.set_hash().get(), key.tag_hash())).collect();
        assert_eq!(hashes.len(), peers.len() * 64);
    }
}
