//! The losses that a capture shows, flow by flow: negative acknowledgements by kind, packets sent again, and gaps.
//!
//! A gap in the PSNs of a flow is a packet that the network lost before the place of capture, or one that the capture itself
//! lost. The receiver's acknowledgements distinguish the two: a packet that is acknowledged has arrived (IBTA volume 1, 9.7.5).

use cc_core::Psn;
use cc_core::wire::{Nak, Syndrome};
use serde::Serialize;

/// Most open gaps of a flow that are kept; for a further one the oldest is dropped.
const GAPS: usize = 64;
/// Smallest jump of the PSN that does not count as a loss: the queue pair serves another connection.
const WIDEST: u32 = 1 << 16;
/// The smallest path MTU in bytes. A READ has at most as many responses as its length holds of these.
const LEAST_MTU: u32 = 256;

/// Losses counted by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Losses {
    /// Negative acknowledgements of a PSN out of sequence: a packet was lost on the way.
    pub nak_sequence: u64,
    /// Negative acknowledgements of an invalid request.
    pub nak_invalid: u64,
    /// Negative acknowledgements of an access that is not allowed.
    pub nak_access: u64,
    /// Negative acknowledgements because of a failure at the responder.
    pub nak_operational: u64,
    /// Negative acknowledgements of other kinds.
    pub nak_other: u64,
    /// Negative acknowledgements because the receiver was not ready (RNR).
    pub rnr_nak: u64,
    /// Packets whose PSN, or a later one, had been sent before.
    pub retransmitted: u64,
    /// Of these, packets whose PSN is not in the capture before: their first transmission was lost before the place of capture.
    pub lost_before: u64,
    /// Packets that the receiver acknowledged and that the capture lacks.
    pub not_captured: u64,
}

impl Losses {
    /// Counts a negative acknowledgement.
    pub fn refused(&mut self, syndrome: Syndrome) {
        match syndrome {
            Syndrome::RnrNak { .. } => self.rnr_nak += 1,
            Syndrome::Nak(Nak::PsnSequence) => self.nak_sequence += 1,
            Syndrome::Nak(Nak::InvalidRequest) => self.nak_invalid += 1,
            Syndrome::Nak(Nak::RemoteAccess) => self.nak_access += 1,
            Syndrome::Nak(Nak::RemoteOperational) => self.nak_operational += 1,
            Syndrome::Nak(_) => self.nak_other += 1,
            Syndrome::Ack { .. } | Syndrome::Reserved(_) => {}
        }
    }

    /// The sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            nak_sequence: self.nak_sequence + other.nak_sequence,
            nak_invalid: self.nak_invalid + other.nak_invalid,
            nak_access: self.nak_access + other.nak_access,
            nak_operational: self.nak_operational + other.nak_operational,
            nak_other: self.nak_other + other.nak_other,
            rnr_nak: self.rnr_nak + other.rnr_nak,
            retransmitted: self.retransmitted + other.retransmitted,
            lost_before: self.lost_before + other.lost_before,
            not_captured: self.not_captured + other.not_captured,
        }
    }

    /// Negative acknowledgements of all kinds.
    pub fn naks(&self) -> u64 {
        let Self { nak_sequence, nak_invalid, nak_access, nak_operational, nak_other, rnr_nak, .. } = self;
        nak_sequence + nak_invalid + nak_access + nak_operational + nak_other + rnr_nak
    }
}

/// The sequence of one flow's packets.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The lowest and the highest PSN that the next request can have. They differ after a READ, whose number of responses is
    /// not known.
    next: Option<(Psn, Psn)>,
    /// The PSN of the newest response to a READ.
    response: Option<Psn>,
    /// Gaps: first PSN, and number of PSNs.
    gaps: Vec<(Psn, u32)>,
    losses: Losses,
}

impl Sequence {
    /// The losses so far.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Called when the queue pair begins to serve another connection, which has another first PSN.
    pub fn restart(&mut self) {
        *self = Self { losses: self.losses, ..Self::default() };
    }

    /// Counts a negative acknowledgement.
    pub fn refused(&mut self, syndrome: Syndrome) {
        self.losses.refused(syndrome);
    }

    /// Records that a request was sent. `read` are the bytes of a READ, which takes one PSN for each of its responses.
    #[inline]
    pub fn request(&mut self, psn: Psn, read: Option<u32>) {
        let most = psn.plus(read.map_or(1, |bytes| bytes.div_ceil(LEAST_MTU).max(1)));
        let expected = self.next.is_none_or(|(least, _)| psn == least);
        if expected {
            self.next = Some((psn.plus(1), most));
        } else {
            self.unexpected(psn, most);
        }
    }

    #[cold]
    fn unexpected(&mut self, psn: Psn, most: Psn) {
        let Some((least, latest)) = self.next else { return };
        if psn.is_after(least) {
            if psn.is_after(latest) && psn.since(latest) < WIDEST {
                if self.gaps.len() >= GAPS {
                    self.gaps.remove(0);
                }
                self.gaps.push((latest, psn.since(latest)));
            }
            self.next = Some((psn.plus(1), most));
            return;
        }
        self.losses.retransmitted += 1;
        let place = self.gaps.iter().position(|&(first, length)| !first.is_after(psn) && psn.since(first) < length);
        if let Some(place) = place {
            self.losses.lost_before += 1;
            let (first, length) = self.gaps.swap_remove(place);
            let before = psn.since(first);
            let parts = [(first, before), (psn.plus(1), length - before - 1)];
            self.gaps.extend(parts.into_iter().filter(|&(_, length)| length > 0));
        }
    }

    /// Records that a response to a READ was sent.
    #[inline]
    pub fn response(&mut self, psn: Psn) {
        match self.response {
            Some(newest) if !psn.is_after(newest) => self.losses.retransmitted += 1,
            _ => self.response = Some(psn),
        }
    }

    /// Records that all packets up to `psn` have arrived: gaps up to there are packets that the capture lost.
    #[inline]
    pub fn acknowledged(&mut self, psn: Psn) {
        if self.gaps.is_empty() {
            return;
        }
        let losses = &mut self.losses;
        self.gaps.retain(|&(first, length)| {
            let has_arrived = !first.plus(length - 1).is_after(psn);
            losses.not_captured += if has_arrived { length.into() } else { 0 };
            !has_arrived
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(psns: &[u32]) -> Sequence {
        let mut sequence = Sequence::default();
        psns.iter().for_each(|&psn| sequence.request(Psn::new(psn), None));
        sequence
    }

    #[test]
    fn go_back_n_repeats_and_a_packet_lost_before_the_tap_is_seen_once() {
        let repeated = sent(&[0xff_fffe, 0xff_ffff, 0, 1, 0xff_ffff, 0, 1, 2]).losses();
        assert_eq!((repeated.retransmitted, repeated.lost_before, repeated.not_captured), (3, 0, 0));
        let mut lost = sent(&[10, 11, 14, 12, 13, 14, 15]);
        lost.acknowledged(Psn::new(15));
        let lost = lost.losses();
        assert_eq!((lost.retransmitted, lost.lost_before, lost.not_captured), (3, 2, 0));
    }

    #[test]
    fn a_packet_acknowledged_and_not_captured_was_lost_by_the_capture() {
        let mut sequence = sent(&[10, 13, 14, 20]);
        sequence.acknowledged(Psn::new(12));
        assert_eq!(sequence.losses().not_captured, 2);
        sequence.acknowledged(Psn::new(18));
        assert_eq!(sequence.losses().not_captured, 2, "19 may still be on its way");
        sequence.acknowledged(Psn::new(19));
        assert_eq!((sequence.losses().not_captured, sequence.losses().retransmitted), (7, 0));
    }

    #[test]
    fn a_read_takes_as_many_psns_as_it_has_responses() {
        let mut sequence = sent(&[100]);
        sequence.request(Psn::new(101), Some(600));
        sequence.request(Psn::new(104), None);
        sequence.request(Psn::new(105), Some(600));
        sequence.request(Psn::new(106), None);
        sequence.acknowledged(Psn::new(106));
        assert_eq!(sequence.losses(), Losses::default());
        for psn in [7, 8, 9, 8, 9] {
            sequence.response(Psn::new(psn));
        }
        assert_eq!(sequence.losses().retransmitted, 2);
    }
}
