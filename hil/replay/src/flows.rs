//! The flows that a capture shows, and what it tells of their queue pairs.
//!
//! A data packet names the QP that it goes to and not the one that it comes from. A NIC knows its connections from
//! the driver; here they are learnt, from connection management and from acknowledgements.

use super::fast::FastMap;
use super::series::Series;
use cc_core::wire::cm::Message;
use cc_core::{Bytes, Psn};
use std::collections::VecDeque;
use std::mem;

/// Flows followed at most; data of further ones is counted.
pub const MAX_FLOWS: usize = 65_536;
/// Packets awaiting their acknowledgement, of one flow and of all: beyond that, the oldest is given up.
const MAX_OUTSTANDING: usize = 1_024;
const MAX_OUTSTANDING_OF_ALL: usize = 1 << 20;
/// Requests for a connection that may await their reply; further ones are not learnt from.
const MAX_REQUESTS: usize = 4_096;

/// An address, as a small number.
pub type Address = u16;

/// One flow: data from one address to one QP of another, or from one datagram QP to anybody.
#[derive(Debug)]
pub struct Flow {
    /// Where the data comes from.
    pub source: Address,
    /// Where it goes; `None` for the datagrams of one QP.
    pub target: Option<Address>,
    /// The QP it goes to; for datagrams the QP it comes from.
    pub qpn: u32,
    /// The QP it comes from, once learnt.
    pub local: Option<u32>,
    /// Its slot in the source's engine.
    pub slot: Slot,
    /// The QP that its receiver's driver has been told it comes from.
    pub connected: Option<u32>,
    /// Messages that have arrived whole.
    pub messages: u32,
    /// Packets that arrived with CE.
    pub marked: u64,
    /// Its sender was told a lower rate than the port's, or a smaller window than before.
    pub slowed: bool,
    /// Its rates; `None` while it is not open, or when enough other flows have theirs.
    pub series: Option<Series>,
    outstanding: VecDeque<Outstanding>,
    newest: Option<Psn>,
    sent: u64,
    acked: u64,
}

/// A flow's place in the engine of its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Not asked for yet.
    Unopened,
    /// It has one.
    Open {
        /// The engine's handle.
        handle: u32,
        /// Window of the last decision in bytes.
        window: u32,
    },
    /// The engine is full.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    psn: Psn,
    again: bool,
    sent_at: u64,
    sent: u64,
}

/// What an acknowledgement newly covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    /// Bytes on the wire.
    pub bytes: u64,
    /// How long ago, in nanoseconds, the newest packet among them was sent, if it was sent once.
    pub rtt: Option<u64>,
}

/// What has become known about a flow: the driver's next orders to the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverCommand {
    /// Its local QPN is now known.
    Bind(usize),
    /// Its QP now serves another connection: this handle is to be closed.
    Close {
        /// The flow.
        flow: usize,
        /// Its handle until now.
        handle: u32,
    },
    /// A QP has another far end than before: it was destroyed, and its number is in use again.
    Disconnect {
        /// The NIC that has the QP.
        at: Address,
        /// Its number.
        qpn: u32,
    },
}

/// All flows of a capture.
#[derive(Debug, Default)]
pub struct Flows {
    flows: Vec<Flow>,
    by_target: FastMap<usize>,
    by_local: FastMap<usize>,
    /// Flows with data to acknowledge whose local QPN is not known, by their two addresses.
    unbound: FastMap<Vec<usize>>,
    /// The QP at the other end, for every QP whose connection is known.
    pairs: FastMap<(Address, u32)>,
    requests: FastMap<u32>,
    driver_commands: VecDeque<DriverCommand>,
    outstanding: usize,
    /// Data packets of flows beyond [`MAX_FLOWS`].
    pub unfollowed: u64,
    /// Acknowledgements that more than one flow could have caused.
    pub ambiguous: u64,
}

fn endpoint(address: Address, qpn: u32) -> u64 {
    u64::from(address) << 24 | u64::from(qpn)
}

fn both(source: Address, target: Address) -> u64 {
    u64::from(source) << 16 | u64::from(target)
}

fn target_key(source: Address, target: Option<Address>, qpn: u32) -> u64 {
    // Bit 56 tells datagram QPs apart.
    match target {
        Some(target) => both(source, target) << 24 | u64::from(qpn),
        None => 1 << 56 | endpoint(source, qpn),
    }
}

impl Flows {
    /// All flows, in the order of their first packets.
    pub fn all(&self) -> &[Flow] {
        &self.flows
    }

    /// One flow.
    #[inline]
    pub fn get_mut(&mut self, flow: usize) -> Option<&mut Flow> {
        self.flows.get_mut(flow)
    }

    /// One flow.
    #[inline]
    pub fn get(&self, flow: usize) -> Option<&Flow> {
        self.flows.get(flow)
    }

    /// The next order to a NIC that what was learnt calls for, oldest first.
    #[inline]
    pub fn next_driver_command(&mut self) -> Option<DriverCommand> {
        self.driver_commands.pop_front()
    }

    /// The flow that a data packet belongs to, new if need be; `None` beyond [`MAX_FLOWS`].
    #[inline]
    pub fn of_data(&mut self, source: Address, target: Option<Address>, qpn: u32) -> Option<usize> {
        let key = target_key(source, target, qpn);
        if let Some(&flow) = self.by_target.get(&key) {
            return Some(flow);
        }
        self.begin(key, source, target, qpn)
    }

    #[cold]
    fn begin(&mut self, key: u64, source: Address, target: Option<Address>, qpn: u32) -> Option<usize> {
        if self.flows.len() >= MAX_FLOWS {
            self.unfollowed += 1;
            return None;
        }
        let flow = self.flows.len();
        let local = match target {
            None => Some(qpn),
            Some(target) => {
                let end = self.pairs.get(&endpoint(target, qpn));
                end.filter(|end| end.0 == source).map(|end| end.1)
            }
        };
        self.flows.push(Flow {
            source,
            target,
            qpn,
            local,
            slot: Slot::Unopened,
            connected: None,
            messages: 0,
            marked: 0,
            slowed: false,
            series: None,
            outstanding: VecDeque::new(),
            newest: None,
            sent: 0,
            acked: 0,
        });
        self.by_target.insert(key, flow);
        match (local, target) {
            (Some(local), _) => self.take_over(flow, source, local),
            (None, Some(target)) => self.unbound.entry(both(source, target)).or_default().push(flow),
            (None, None) => {}
        }
        Some(flow)
    }

    /// A packet that will be acknowledged left.
    #[inline]
    pub fn sent(&mut self, flow: usize, psn: Psn, bytes: Bytes, now: u64) {
        let Some(flow) = self.flows.get_mut(flow) else { return };
        let again = flow.newest.is_some_and(|newest| !psn.is_after(newest));
        if again {
            // Sent anew from here on; the acknowledgement may be for either.
            while flow.outstanding.back().is_some_and(|last| !psn.is_after(last.psn)) {
                flow.outstanding.pop_back();
                self.outstanding -= 1;
            }
            flow.sent = flow.outstanding.back().map_or(flow.acked, |last| last.sent);
        } else {
            flow.newest = Some(psn);
        }
        flow.sent += u64::from(bytes.get());
        if flow.outstanding.len() >= MAX_OUTSTANDING || self.outstanding >= MAX_OUTSTANDING_OF_ALL {
            if flow.outstanding.pop_front().is_none() {
                return;
            }
            self.outstanding -= 1;
        }
        flow.outstanding.push_back(Outstanding { psn, again, sent_at: now, sent: flow.sent });
        self.outstanding += 1;
    }

    /// Bytes of a flow that have been sent and not been acknowledged.
    #[inline]
    pub fn in_flight(&self, flow: usize) -> u64 {
        self.flows.get(flow).map_or(0, |flow| flow.sent.saturating_sub(flow.acked))
    }

    /// The flow that an acknowledgement to `qpn` at `target` is about. It binds a flow when exactly one fits.
    pub fn of_ack(&mut self, source: Address, target: Address, qpn: u32, psn: Psn) -> Option<usize> {
        if let Some(&flow) = self.by_local.get(&endpoint(target, qpn)) {
            return self.flows.get(flow).filter(|flow| flow.target == Some(source)).map(|_| flow);
        }
        let flows = &self.flows;
        let candidates = self.unbound.get(&both(target, source))?;
        let mut fitting = candidates.iter().filter(|&&flow| flows.get(flow).is_some_and(|flow| flow.covers(psn)));
        let flow = *fitting.next()?;
        if fitting.next().is_some() {
            self.ambiguous += 1;
            return None;
        }
        let target_qpn = self.flows.get(flow)?.qpn;
        self.pair((target, qpn), (source, target_qpn));
        Some(flow)
    }

    /// Everything of a flow up to `psn` has arrived.
    pub fn acked(&mut self, flow: usize, psn: Psn, now: u64) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let Some(flow) = self.flows.get_mut(flow) else { return acknowledged };
        let mut newest = None;
        while let Some(first) = flow.outstanding.front().filter(|first| !first.psn.is_after(psn)) {
            newest = Some(*first);
            flow.outstanding.pop_front();
            self.outstanding -= 1;
        }
        if let Some(Outstanding { again, sent_at, sent, .. }) = newest {
            acknowledged.bytes = sent.saturating_sub(flow.acked);
            flow.acked = flow.acked.max(sent);
            acknowledged.rtt = if again { None } else { now.checked_sub(sent_at) };
        }
        acknowledged
    }

    /// A management datagram from `source` to `target`.
    pub fn learn(&mut self, source: Address, target: Address, message: Message) {
        match message {
            Message::Request { local_id, local_qpn, .. } => {
                if self.requests.len() < MAX_REQUESTS {
                    self.requests.insert(both(source, target) << 32 | u64::from(local_id), local_qpn.get());
                }
            }
            Message::Reply { remote_id, local_qpn, .. } => {
                let request = self.requests.remove(&(both(target, source) << 32 | u64::from(remote_id)));
                if let Some(qpn) = request {
                    self.pair((target, qpn), (source, local_qpn.get()));
                }
            }
            Message::ReadyToUse { .. } => {}
        }
    }

    /// The two ends of one connection.
    fn pair(&mut self, one: (Address, u32), other: (Address, u32)) {
        if self.pairs.len() >= 2 * MAX_FLOWS {
            return;
        }
        for (here, there) in [(one, other), (other, one)] {
            if self.pairs.insert(endpoint(here.0, here.1), there).is_some_and(|former| former != there) {
                self.driver_commands.push_back(DriverCommand::Disconnect { at: here.0, qpn: here.1 });
            }
            if let Some(&flow) = self.by_target.get(&target_key(here.0, Some(there.0), there.1)) {
                self.bind(flow, here.1);
            }
        }
    }

    fn bind(&mut self, number: usize, qpn: u32) {
        let Some(flow) = self.flows.get_mut(number).filter(|flow| flow.local != Some(qpn)) else { return };
        let source = flow.source;
        match flow.local.replace(qpn) {
            None => {
                let waiting = flow.target.and_then(|target| self.unbound.get_mut(&both(source, target)));
                if let Some(waiting) = waiting {
                    waiting.retain(|&other| other != number);
                }
            }
            Some(old) => {
                self.by_local.remove(&endpoint(source, old));
                self.close(number);
            }
        }
        self.take_over(number, source, qpn);
        self.driver_commands.push_back(DriverCommand::Bind(number));
    }

    /// From now on the local QP serves this flow.
    fn take_over(&mut self, flow: usize, source: Address, qpn: u32) {
        let Some(former) = self.by_local.insert(endpoint(source, qpn), flow).filter(|&former| former != flow) else {
            return;
        };
        self.close(former);
        if let Some(former) = self.flows.get_mut(former) {
            former.local = None;
        }
    }

    fn close(&mut self, number: usize) {
        let Some(flow) = self.flows.get_mut(number) else { return };
        let slot = mem::replace(&mut flow.slot, Slot::Unopened);
        self.outstanding -= flow.outstanding.len();
        flow.outstanding.clear();
        flow.acked = flow.sent;
        flow.newest = None;
        flow.connected = None;
        if let Slot::Open { handle, .. } = slot {
            self.driver_commands.push_back(DriverCommand::Close { flow: number, handle });
        }
    }
}

impl Flow {
    fn covers(&self, psn: Psn) -> bool {
        let (Some(oldest), Some(newest)) = (self.outstanding.front(), self.newest) else { return false };
        !psn.is_after(newest) && !oldest.psn.is_after(psn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Qpn;

    const A: Address = 1;
    const B: Address = 2;

    fn driver_commands(flows: &mut Flows) -> Vec<DriverCommand> {
        std::iter::from_fn(|| flows.next_driver_command()).collect()
    }

    fn connect(flows: &mut Flows, id: u32, asker: u32, answerer: u32) {
        let starting_psn = Psn::new(0);
        flows.learn(A, B, Message::Request { local_id: id, local_qpn: Qpn::new(asker), starting_psn });
        flows.learn(B, A, Message::Reply { local_id: 9, remote_id: id, local_qpn: Qpn::new(answerer), starting_psn });
    }

    fn send(flows: &mut Flows, qpn: u32, psn: u32, now: u64) -> usize {
        let flow = flows.of_data(A, Some(B), qpn).unwrap();
        flows.sent(flow, Psn::new(psn), Bytes::new(1_000), now);
        flow
    }

    #[test]
    fn an_ack_binds_the_only_flow_that_covers_it_in_both_directions() {
        let mut flows = Flows::default();
        let there = send(&mut flows, 0x48, 0xff_ffff, 10);
        send(&mut flows, 0x48, 0, 20);
        let back = flows.of_data(B, Some(A), 0x45).unwrap();
        assert_eq!(flows.of_ack(B, A, 0x45, Psn::new(1)), None, "beyond what was sent");
        assert_eq!(flows.of_ack(B, A, 0x45, Psn::new(0)), Some(there));
        assert_eq!(driver_commands(&mut flows), [DriverCommand::Bind(there), DriverCommand::Bind(back)]);
        assert_eq!((flows.all()[there].local, flows.all()[back].local), (Some(0x45), Some(0x48)));
        assert_eq!(flows.acked(there, Psn::new(0), 70), Acknowledged { bytes: 2_000, rtt: Some(50) });
        assert_eq!(flows.acked(there, Psn::new(0), 80), Acknowledged::default(), "nothing new");
        assert_eq!(flows.in_flight(there), 0);
    }

    #[test]
    fn an_ack_that_two_flows_cover_binds_none() {
        let mut flows = Flows::default();
        send(&mut flows, 7, 100, 0);
        send(&mut flows, 8, 100, 0);
        assert_eq!(flows.of_ack(B, A, 5, Psn::new(100)), None);
        assert_eq!(flows.ambiguous, 1);
        let flow = send(&mut flows, 8, 101, 0);
        assert_eq!(flows.of_ack(B, A, 5, Psn::new(101)), Some(flow));
    }

    #[test]
    fn connection_management_names_both_ends_before_the_first_packet() {
        let mut flows = Flows::default();
        connect(&mut flows, 3, 0x11, 0x22);
        let unasked =
            Message::Reply { local_id: 9, remote_id: 4, local_qpn: Qpn::new(0x21), starting_psn: Psn::new(0) };
        flows.learn(B, A, unasked);
        let flow = send(&mut flows, 0x22, 0, 0);
        assert_eq!(flows.all()[flow].local, Some(0x11));
        let other = send(&mut flows, 0x21, 0, 0);
        assert_eq!(flows.all()[other].local, None);
    }

    #[test]
    fn a_reused_qp_leaves_its_former_flow() {
        let mut flows = Flows::default();
        connect(&mut flows, 1, 0x11, 0x22);
        let old = send(&mut flows, 0x22, 0, 0);
        flows.get_mut(old).unwrap().slot = Slot::Open { handle: 77, window: 0 };
        connect(&mut flows, 2, 0x11, 0x23);
        let new = send(&mut flows, 0x23, 0, 0);
        let told = [DriverCommand::Disconnect { at: A, qpn: 0x11 }, DriverCommand::Close { flow: old, handle: 77 }];
        assert_eq!(driver_commands(&mut flows), told);
        assert_eq!((flows.all()[old].local, flows.all()[new].local), (None, Some(0x11)));
    }

    #[test]
    fn a_packet_sent_twice_gives_no_round_trip_time() {
        let mut flows = Flows::default();
        for psn in 0..3 {
            send(&mut flows, 1, psn, 10 * u64::from(psn));
        }
        let flow = send(&mut flows, 1, 1, 50);
        assert_eq!(flows.in_flight(flow), 2_000);
        assert_eq!(flows.acked(flow, Psn::new(0), 60), Acknowledged { bytes: 1_000, rtt: Some(60) });
        assert_eq!(flows.acked(flow, Psn::new(1), 70), Acknowledged { bytes: 1_000, rtt: None });
        assert_eq!(flows.in_flight(flow), 0);
    }
}
