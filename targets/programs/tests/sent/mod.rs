//! The CNPs that the stages of a switch send, as frames.

use cc_core::wire::{CnpMarking, Roce, TableCrc};
use cc_core::{Bytes, CnpBody, Hop};
use cc_cp::{Emit, PeerMessage, Queue, SendPfc};
use programs::switch_ring::{self, Room};

/// The CNPs that have been sent. The queues of the switch are empty; a message to another switch, or a PFC frame, fails the test.
#[derive(Default)]
pub(crate) struct Sent(pub(crate) Vec<Vec<u8>>);

impl Emit for Sent {
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>) {
        let mut room: Room = [0; _];
        let cnp = switch_ring::cnp(about, body, hop, CnpMarking::default(), &mut room);
        self.0.extend(cnp.map(|cnp| cnp.to_vec::<TableCrc>().unwrap()));
    }

    fn peer(&mut self, at: Queue, message: PeerMessage) {
        panic!("{at:?}: {message:?}");
    }

    fn queued(&self, _at: Queue) -> Bytes {
        Bytes::ZERO
    }
}

impl SendPfc for Sent {
    fn pfc(&mut self, at: Queue, quanta: u16) {
        panic!("{at:?}: {quanta} quanta");
    }
}
