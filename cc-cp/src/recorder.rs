//! A recorder of the frames and messages that the stages of a switch send, for programs and tests on a host.

use crate::{Emit, PeerMessage, Queue, SendPfc};
use cc_core::wire::{FlowKey, Roce};
use cc_core::{Bytes, CnpBody, Hop};
use std::collections::BTreeMap;
use std::vec::Vec;

/// Records what the stages of a switch send, and holds the queue lengths that they read.
#[derive(Clone, Default, Debug)]
pub struct Recorder {
    /// The CNPs: the flow of the packet that caused each, its body, and the telemetry record that is added to it.
    pub cnps: Vec<(FlowKey, CnpBody, Option<Hop>)>,
    /// The messages to the other ends of long links.
    pub peers: Vec<(Queue, PeerMessage)>,
    /// The PFC frames: the queue and the quanta; zero resumes.
    pub pfcs: Vec<(Queue, u16)>,
    /// Bytes in each queue; a queue that is not listed is empty.
    pub queued: BTreeMap<Queue, Bytes>,
}

impl Emit for Recorder {
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>) {
        self.cnps.push((FlowKey::of_data(about), body, hop));
    }

    fn peer(&mut self, at: Queue, message: PeerMessage) {
        self.peers.push((at, message));
    }

    fn queued(&self, at: Queue) -> Bytes {
        self.queued.get(&at).copied().unwrap_or(Bytes::ZERO)
    }
}

impl SendPfc for Recorder {
    fn pfc(&mut self, at: Queue, quanta: u16) {
        self.pfcs.push((at, quanta));
    }
}
