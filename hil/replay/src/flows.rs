//! The flows that a capture shows, with the queue pairs at both ends as far as they are known.
//!
//! A data packet names its destination QP and not its source QP. A real NIC gets its connections from the driver. In a replay
//! they come from the first reading of the capture, see [`survey`](mod@super::survey), and from connection management messages,
//! which open and close connections in the course of the capture.

use super::fast::FastMap;
use super::losses::Sequence;
use super::series::Series;
use cc_core::wire::cm::Message;
use cc_core::{Bytes, Psn};
use std::collections::VecDeque;
use std::mem;

/// Most flows that are tracked; data packets of further ones are only counted.
pub const MAX_FLOWS: usize = 65_536;
/// Most packets of one flow that wait for their acknowledgement; for a further one the oldest is forgotten.
const MAX_OUTSTANDING: usize = 1_024;
/// Most packets of all flows that wait for their acknowledgement.
const MAX_OUTSTANDING_OF_ALL: usize = 1 << 20;
/// Most requests for a connection that wait for their reply; further ones are ignored.
const MAX_REQUESTS: usize = 4_096;

/// An address, as a small number.
pub type Address = u16;

/// One flow: data from one address to one QP of another, or from one datagram QP to any address.
#[derive(Debug)]
pub struct Flow {
    /// The sender.
    pub source: Address,
    /// The receiver; `None` for the datagrams of one QP.
    pub target: Option<Address>,
    /// The receiving QP; for datagrams the sending QP.
    pub qpn: u32,
    /// The sending QP, once known.
    pub local: Option<u32>,
    /// Its slot in the sender's engine.
    pub slot: Slot,
    /// The sending QP that the receiver's NIC was given in a Connect descriptor.
    pub connected: Option<u32>,
    /// Messages that have arrived completely.
    pub messages: u32,
    /// Packets that arrived with CE.
    pub marked: u64,
    /// Data packets by ECN field: Not-ECT, ECT(1), ECT(0), CE.
    pub ecn: [u64; 4],
    /// CNPs that the capture shows for it.
    pub notified: u64,
    /// The losses that its packet sequence numbers show.
    pub sequence: Sequence,
    /// Whether its machine has decided a rate below the line rate, or a smaller window than before.
    pub slowed: bool,
    /// Its rates over time; `None` until it is opened, or if the rates of enough other flows are kept.
    pub series: Option<Series>,
    outstanding: VecDeque<Outstanding>,
    newest: Option<Psn>,
    sent: u64,
    acked: u64,
}

/// The state of a flow in the sender's engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// No slot has been requested yet.
    Unopened,
    /// It has a slot.
    Open {
        /// The engine's handle.
        handle: u32,
        /// Window of the last decision in bytes.
        window: u32,
    },
    /// The engine had no free slot.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    psn: Psn,
    again: bool,
    sent_at: u64,
    sent: u64,
}

/// The packets that an acknowledgement newly covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Round-trip time: nanoseconds since the newest of them was sent. `None` if it was sent more than once.
    pub rtt: Option<u64>,
}

/// A command of the driver to the NIC. It is issued when the queue pairs of a flow become known or change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverCommand {
    /// Binds this flow to its sending QP, which is now known.
    Bind(usize),
    /// Closes a handle, because the QP now serves another connection.
    Close {
        /// The flow.
        flow: usize,
        /// Its handle until now.
        handle: u32,
    },
    /// Disconnects a QP: it was destroyed, or a new QP with its number is connected to another remote QP.
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
    /// For every QP that appears in connection management messages, its connection.
    connections: FastMap<Connection>,
    requests: FastMap<(u32, Psn)>,
    driver_commands: VecDeque<DriverCommand>,
    outstanding: usize,
    /// Data packets of flows beyond [`MAX_FLOWS`].
    pub unfollowed: u64,
}

/// The connection of a QP, from connection management messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Connection {
    /// Address and QP of the other end.
    far: (Address, u32),
    /// Connection identifiers and first PSNs of both ends. A repeated message has the same ones, a new connection has others.
    names: [u32; 4],
}

fn endpoint(address: Address, qpn: u32) -> u64 {
    u64::from(address) << 24 | u64::from(qpn)
}

fn both(source: Address, target: Address) -> u64 {
    u64::from(source) << 16 | u64::from(target)
}

fn target_key(source: Address, target: Option<Address>, qpn: u32) -> u64 {
    // Bit 56 marks datagram QPs.
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

    /// Removes and returns the oldest driver command.
    #[inline]
    pub fn next_driver_command(&mut self) -> Option<DriverCommand> {
        self.driver_commands.pop_front()
    }

    /// The flow that a data packet belongs to. It is added if it is new; `None` beyond [`MAX_FLOWS`]. `sender` returns the
    /// sending QP if it is known otherwise; it is called if connection management has not named it.
    #[inline]
    pub fn of_data(
        &mut self,
        source: Address,
        target: Option<Address>,
        qpn: u32,
        sender: impl FnOnce() -> Option<u32>,
    ) -> Option<usize> {
        let key = target_key(source, target, qpn);
        if let Some(&flow) = self.by_target.get(&key) {
            return Some(flow);
        }
        self.begin(key, source, target, qpn, sender)
    }

    /// The flow of data from `source` to a QP of `target`, if there has been any.
    #[inline]
    pub fn to(&self, source: Address, target: Address, qpn: u32) -> Option<usize> {
        self.by_target.get(&target_key(source, Some(target), qpn)).copied()
    }

    #[cold]
    fn begin(
        &mut self,
        key: u64,
        source: Address,
        target: Option<Address>,
        qpn: u32,
        sender: impl FnOnce() -> Option<u32>,
    ) -> Option<usize> {
        if self.flows.len() >= MAX_FLOWS {
            self.unfollowed += 1;
            return None;
        }
        let flow = self.flows.len();
        let local = match target {
            None => Some(qpn),
            Some(target) => {
                let far = self.connections.get(&endpoint(target, qpn)).map(|connection| connection.far);
                far.filter(|far| far.0 == source).map(|far| far.1).or_else(sender)
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
            ecn: [0; 4],
            notified: 0,
            sequence: Sequence::default(),
            slowed: false,
            series: None,
            outstanding: VecDeque::new(),
            newest: None,
            sent: 0,
            acked: 0,
        });
        self.by_target.insert(key, flow);
        if let Some(local) = local {
            self.take_over(flow, source, local);
        }
        Some(flow)
    }

    /// Records that a packet was sent which will be acknowledged.
    #[inline]
    pub fn sent(&mut self, flow: usize, psn: Psn, bytes: Bytes, now: u64) {
        let Some(flow) = self.flows.get_mut(flow) else { return };
        let again = flow.newest.is_some_and(|newest| !psn.is_after(newest));
        if again {
            // Packets from this PSN on are sent again. An acknowledgement may be for either transmission.
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

    /// The flow that QP `qpn` of `target` sends, for an acknowledgement or CNP from `source`; and whether `source` is the
    /// receiver of this flow.
    #[inline]
    pub fn of_local(&self, source: Address, target: Address, qpn: u32) -> Option<(usize, bool)> {
        let &number = self.by_local.get(&endpoint(target, qpn))?;
        let flow = self.flows.get(number)?;
        Some((number, flow.target.is_none_or(|target| target == source)))
    }

    /// Records that all packets of a flow up to `psn` have arrived.
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

    /// Handles a connection management datagram from `source` to `target`.
    pub fn learn(&mut self, source: Address, target: Address, message: Message) {
        match message {
            Message::Request { local_id, local_qpn, starting_psn } => {
                if self.requests.len() < MAX_REQUESTS {
                    let key = both(source, target) << 32 | u64::from(local_id);
                    self.requests.insert(key, (local_qpn.get(), starting_psn));
                }
            }
            Message::Reply { local_id, remote_id, local_qpn, starting_psn } => {
                let request = self.requests.remove(&(both(target, source) << 32 | u64::from(remote_id)));
                if let Some((qpn, psn)) = request {
                    let names = [remote_id, psn.get(), local_id, starting_psn.get()];
                    self.connect((target, qpn), (source, local_qpn.get()), names);
                }
            }
            Message::ReadyToUse { .. } | Message::DisconnectReply { .. } => {}
            Message::Disconnect { remote_qpn, .. } => self.disconnect(source, (target, remote_qpn.get())),
        }
    }

    /// Records the two ends of a new connection. A repeated message changes nothing.
    fn connect(&mut self, one: (Address, u32), other: (Address, u32), names: [u32; 4]) {
        if self.connections.len() >= 2 * MAX_FLOWS {
            return;
        }
        for (here, there) in [(one, other), (other, one)] {
            let connection = Connection { far: there, names };
            let former = self.connections.insert(endpoint(here.0, here.1), connection);
            if former == Some(connection) {
                continue;
            }
            if former.is_some_and(|former| former.far != there) {
                self.driver_commands.push_back(DriverCommand::Disconnect { at: here.0, qpn: here.1 });
            }
            if let Some(flow) = self.to(here.0, there.0, there.1) {
                if former.is_some() {
                    // Another connection with the same QP numbers: the state of the old one is discarded.
                    self.driver_commands.push_back(DriverCommand::Disconnect { at: here.0, qpn: here.1 });
                    self.close(flow);
                }
                self.bind(flow, here.1);
            }
        }
    }

    /// Handles the end of a connection: `source` has sent a disconnect request for its connection with the end `far`, and both
    /// queue pairs are destroyed.
    fn disconnect(&mut self, source: Address, far: (Address, u32)) {
        let connected = self.connections.get(&endpoint(far.0, far.1)).map(|connection| connection.far);
        let known = || self.to(source, far.0, far.1).and_then(|flow| self.flows.get(flow)?.local);
        let near = connected.filter(|near| near.0 == source).map(|near| near.1).or_else(known);
        let mut ends = vec![(far, near.map(|qpn| (source, qpn)))];
        ends.extend(near.map(|qpn| ((source, qpn), Some(far))));
        for (here, there) in ends {
            self.connections.remove(&endpoint(here.0, here.1));
            let from = there.map_or(source, |there| there.0);
            // The flow of data to this end.
            if let Some(flow) = self.to(from, here.0, here.1) {
                self.close(flow);
                let local = self.flows.get_mut(flow).and_then(|flow| flow.local.take());
                if let Some(local) = local {
                    self.by_local.remove(&endpoint(from, local));
                }
            }
            self.driver_commands.push_back(DriverCommand::Disconnect { at: here.0, qpn: here.1 });
        }
    }

    fn bind(&mut self, number: usize, qpn: u32) {
        let Some(flow) = self.flows.get_mut(number).filter(|flow| flow.local != Some(qpn)) else { return };
        let source = flow.source;
        if let Some(old) = flow.local.replace(qpn) {
            self.by_local.remove(&endpoint(source, old));
            self.close(number);
        }
        self.take_over(number, source, qpn);
        self.driver_commands.push_back(DriverCommand::Bind(number));
    }

    /// Assigns the local QP to this flow, and closes the flow that it served before.
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
        flow.sequence.restart();
        if let Slot::Open { handle, .. } = slot {
            self.driver_commands.push_back(DriverCommand::Close { flow: number, handle });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::Qpn;

    const A: Address = 1;
    const B: Address = 2;
    const C: Address = 3;

    fn driver_commands(flows: &mut Flows) -> Vec<DriverCommand> {
        std::iter::from_fn(|| flows.next_driver_command()).collect()
    }

    fn connect(flows: &mut Flows, id: u32, active: u32, passive: u32) {
        let starting_psn = Psn::new(0);
        flows.learn(A, B, Message::Request { local_id: id, local_qpn: Qpn::new(active), starting_psn });
        flows.learn(B, A, Message::Reply { local_id: 9, remote_id: id, local_qpn: Qpn::new(passive), starting_psn });
    }

    fn send(flows: &mut Flows, qpn: u32, psn: u32, now: u64) -> usize {
        let flow = flows.of_data(A, Some(B), qpn, || None).unwrap();
        flows.sent(flow, Psn::new(psn), Bytes::new(1_000), now);
        flow
    }

    #[test]
    fn an_ack_covers_what_was_sent_before() {
        let mut flows = Flows::default();
        let there = send(&mut flows, 0x48, 0xff_ffff, 10);
        send(&mut flows, 0x48, 0, 20);
        assert_eq!(flows.acked(there, Psn::new(0), 70), Acknowledged { bytes: 2_000, rtt: Some(50) });
        assert_eq!(flows.acked(there, Psn::new(0), 80), Acknowledged::default(), "nothing new");
        assert_eq!(flows.in_flight(there), 0);
    }

    #[test]
    fn connection_management_overrides_the_queue_pair_that_a_flow_was_bound_to() {
        let mut flows = Flows::default();
        let flow = flows.of_data(A, Some(B), 0x22, || Some(0x15)).unwrap();
        assert_eq!(flows.all()[flow].local, Some(0x15));
        assert_eq!(flows.of_local(B, A, 0x15), Some((flow, true)));
        assert_eq!(flows.of_local(C, A, 0x15), Some((flow, false)), "an unknown host");
        assert_eq!(flows.of_local(B, A, 0x16), None);
        connect(&mut flows, 3, 0x11, 0x22);
        assert_eq!(
            (flows.all()[flow].local, driver_commands(&mut flows)),
            (Some(0x11), vec![DriverCommand::Bind(flow)])
        );
        assert_eq!(flows.of_local(B, A, 0x15), None);
    }

    #[test]
    fn the_end_of_a_connection_closes_both_directions_and_the_next_one_is_bound_again() {
        let mut flows = Flows::default();
        connect(&mut flows, 1, 0x11, 0x22);
        let there = send(&mut flows, 0x22, 0, 0);
        let back = flows.of_data(B, Some(A), 0x11, || None).unwrap();
        for (flow, handle) in [(there, 7), (back, 8)] {
            flows.get_mut(flow).unwrap().slot = Slot::Open { handle, window: 0 };
        }
        connect(&mut flows, 1, 0x11, 0x22);
        assert_eq!(driver_commands(&mut flows), [], "the same messages once more");
        let ends = Message::Disconnect { local_id: 1, remote_id: 9, remote_qpn: Qpn::new(0x22) };
        flows.learn(A, B, ends);
        let commands = driver_commands(&mut flows);
        for expected in [
            DriverCommand::Close { flow: there, handle: 7 },
            DriverCommand::Close { flow: back, handle: 8 },
            DriverCommand::Disconnect { at: B, qpn: 0x22 },
            DriverCommand::Disconnect { at: A, qpn: 0x11 },
        ] {
            assert!(commands.contains(&expected), "{commands:?}");
        }
        assert_eq!(flows.of_local(B, A, 0x11), None);
        connect(&mut flows, 2, 0x11, 0x22);
        assert_eq!(driver_commands(&mut flows), [DriverCommand::Bind(there), DriverCommand::Bind(back)]);
    }

    #[test]
    fn a_connection_of_the_same_queue_pairs_with_other_identifiers_is_a_new_one() {
        let mut flows = Flows::default();
        connect(&mut flows, 1, 0x11, 0x22);
        let flow = send(&mut flows, 0x22, 0, 0);
        flows.get_mut(flow).unwrap().slot = Slot::Open { handle: 7, window: 0 };
        connect(&mut flows, 2, 0x11, 0x22);
        assert!(driver_commands(&mut flows).contains(&DriverCommand::Close { flow, handle: 7 }));
        assert_eq!((flows.all()[flow].local, flows.all()[flow].slot), (Some(0x11), Slot::Unopened));
    }

    #[test]
    fn connection_management_names_both_ends_before_the_first_packet() {
        let mut flows = Flows::default();
        connect(&mut flows, 3, 0x11, 0x22);
        let without_request =
            Message::Reply { local_id: 9, remote_id: 4, local_qpn: Qpn::new(0x21), starting_psn: Psn::new(0) };
        flows.learn(B, A, without_request);
        let flow = send(&mut flows, 0x22, 0, 0);
        assert_eq!(flows.all()[flow].local, Some(0x11));
        let other = send(&mut flows, 0x21, 0, 0);
        assert_eq!(flows.all()[other].local, None);
    }

    #[test]
    fn a_reused_qp_is_removed_from_its_former_flow() {
        let mut flows = Flows::default();
        connect(&mut flows, 1, 0x11, 0x22);
        let old = send(&mut flows, 0x22, 0, 0);
        flows.get_mut(old).unwrap().slot = Slot::Open { handle: 77, window: 0 };
        connect(&mut flows, 2, 0x11, 0x23);
        let new = send(&mut flows, 0x23, 0, 0);
        let expected = [DriverCommand::Disconnect { at: A, qpn: 0x11 }, DriverCommand::Close { flow: old, handle: 77 }];
        assert_eq!(driver_commands(&mut flows), expected);
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
