//! RoCE frames between two datacentres.

use cc_core::Ecn;
use cc_core::wire::{Addresses, Bth, Extensions, Frame, Mac, Shims, TableCrc, Tags};
use std::net::Ipv4Addr;

/// A frame from the datacentre `site`, 0 or 1, to the other.
pub(crate) fn frame(site: u8, bth: Bth, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = [site, 1 - site].map(|site| Ipv4Addr::new(10, site, 0, 1));
    let frame = Frame {
        destination: Mac::new([2; 6]),
        source: Mac::new([4; 6]),
        tags: Tags::NONE,
        addresses: Addresses::V4 { source, destination },
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 0xc000,
        shims: Shims::NONE,
        bth,
        extensions: Extensions::default(),
        payload,
    };
    frame.to_vec::<TableCrc>().unwrap()
}
