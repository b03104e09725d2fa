//! The survey: finds what only the whole capture shows.
//!
//! That is: connected queue pairs, hosts of equal addresses in several networks, clocks that disagree, time stamps out of
//! order, copies, and wrong ICRCs. A second reading, which replays the frames to the NICs, has these results from its first
//! frame on. Many captures need none of them; such a capture is replayed while it is surveyed, see [`Surveyor::is_plain`]. The
//! survey's memory grows with hosts, connections and faults, and by a few bits for each frame.

mod bits;
mod connections;
mod copies;
mod order;

pub use bits::Bits;
pub use connections::End;
pub use copies::Dedup;
pub use order::WrongStamp;

use crate::decode::{Content, Frame};
use crate::fast::FastMap;
use crate::qp_pairs::QpPairs;
use cc_core::wire::cm::{self, Message};
use cc_core::wire::opcode::Transport;
use cc_core::wire::{Addresses, Icrc, Roce};
use connections::Connections;
use copies::CopyFinder;
use hil_capture::crc::HostCrc;
use hil_capture::{Direction, Dropped, Record};
use hil_sorted::{SortedMap, SortedSet};
use order::{OutOfOrder, StampOrder};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// Most hosts that are surveyed; packets of further ones are replayed without results of the survey.
const HOSTS: usize = 65_535;
/// Most networks that are distinguished.
const NETWORKS: usize = 255;
/// Most clocks that are distinguished: one for each interface and direction.
const CLOCKS: usize = 64;
/// Most requests for a connection that wait for their reply.
const REQUESTS: usize = 4_096;
/// Jitter of the clocks in nanoseconds: bounds of an offset that contradict each other by no more than this still give an
/// offset.
const JITTER: i128 = 1_000_000;
/// Number of time stamps that must contradict the order of the frames before two clocks count as different.
const CONTRADICTIONS: u64 = 3;

/// The user's options for reading a capture.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Queue pairs that the user says are connected.
    pub pairs: QpPairs,
    /// Whether copies are left out.
    pub dedup: Dedup,
    /// Whether frames with a wrong ICRC are replayed.
    pub ignores_icrc: bool,
}

/// A host: an address, in one of several networks if there are several hosts of this address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Host {
    /// The address.
    pub address: IpAddr,
    /// Its network, see [`Frame::network`]; 0 if only one host has the address.
    pub network: u32,
}

/// Results of the survey.
#[derive(Debug, Default)]
pub struct Survey {
    /// Frames of the capture.
    pub frames: u64,
    /// Frames with a wrong ICRC.
    pub wrong_icrc: Bits,
    /// Frames that are copies of others and left out.
    pub copies: Bits,
    /// Frames whose time stamps are out of order.
    pub disordered: Bits,
    /// The first frame after each time that a clock was set.
    pub set: Bits,
    /// The number of time stamps that are out of order by more than 1 ms, and the first of them.
    pub disorder: (u64, Option<WrongStamp>),
    /// The offset to add to the stamps of each clock, in nanoseconds, so that all clocks agree.
    pub offsets: HashMap<(u32, Direction), i128>,
    /// Responses that fit several streams of requests, of streams that were joined with none.
    pub ambiguous: u64,
    /// The hosts at each interface: the senders of its outbound frames; if it has none, the receivers of its inbound frames.
    pub local: SortedMap<u32, BTreeSet<Host>>,
    /// The speed of each interface as the file gives it, in bits per second.
    pub speeds: SortedMap<u32, u64>,
    /// Packets that were lost before they reached the file.
    pub dropped: Dropped,
    /// The user gave connections, none of which is between hosts of the capture.
    pub pairs_are_of_others: bool,
    /// The sending queue pair, by sender, receiver and receiving queue pair.
    connected: HashMap<(Host, Host, u32), u32>,
    /// Addresses that several hosts have.
    shared: BTreeSet<IpAddr>,
}

impl Survey {
    /// The host that has this address in this network.
    #[inline]
    pub fn host(&self, address: IpAddr, network: u32) -> Host {
        let is_shared = !self.shared.is_empty() && self.shared.contains(&address);
        Host { address, network: if is_shared { network } else { 0 } }
    }

    /// The queue pair of `from` that sends to queue pair `qpn` of `to`, if it is known.
    pub fn sender(&self, from: Host, to: Host, qpn: u32) -> Option<u32> {
        self.connected.get(&(from, to, qpn)).copied()
    }

    /// Whether the clocks of the interfaces or directions disagree.
    pub fn clocks_disagree(&self) -> bool {
        self.offsets.values().any(|&offset| offset != 0)
    }
}

/// The survey while it reads the capture.
#[derive(Debug)]
pub struct Surveyor {
    reading: Reading,
    frames: u64,
    wrong_icrc: Bits,
    copies: CopyFinder,
    out_of_order: OutOfOrder,
    clocks: Clocks,
    connections: Connections,
    /// The path of the last packet: most packets have the same as the one before.
    last: Option<(Path, Ends)>,
    numbers: FastMap<u16, u128>,
    hosts: Vec<Known>,
    networks: Vec<u32>,
    requests: HashMap<(u16, u16, u32), u32>,
    /// For each interface, the senders of its outbound frames and the receivers of its inbound frames.
    local: SortedMap<u32, [SortedSet<(u16, u32)>; 2]>,
    speeds: SortedMap<u32, u64>,
}

/// The addresses of a packet, and the network that they belong to.
type Path = (Addresses, u32);

/// The hosts at both ends of a path, and its network, as numbers of the survey.
#[derive(Clone, Copy, Debug)]
struct Ends {
    from: u16,
    to: u16,
    network: u8,
}

/// An address of the capture.
#[derive(Debug)]
struct Known {
    address: IpAddr,
    /// The networks of its packets, each with whether it has sent and whether it has received there.
    networks: Vec<(u8, bool, bool)>,
}

impl Surveyor {
    /// A survey before the first frame.
    pub fn new(reading: Reading) -> Self {
        Self {
            reading,
            frames: 0,
            wrong_icrc: Bits::default(),
            copies: CopyFinder::default(),
            out_of_order: OutOfOrder::default(),
            clocks: Clocks::default(),
            connections: Connections::default(),
            last: None,
            numbers: FastMap::default(),
            hosts: Vec::new(),
            networks: vec![0],
            requests: HashMap::new(),
            local: SortedMap::new(),
            speeds: SortedMap::new(),
        }
    }

    /// Surveys the next frame: its record, and what was decoded.
    pub fn add(&mut self, record: &Record<'_>, frame: &Frame<'_>) {
        self.frames = record.number;
        if record.is_timed {
            self.clocks.add(record, &mut self.out_of_order);
        }
        if record.speed > 0 {
            self.speeds.or_insert(record.interface, record.speed);
        }
        if let Content::Packet(roce, None) = frame.content {
            self.packet(frame, roce);
        }
    }

    /// Whether a replay of the frames so far is the same with these results and without: no frame may be a copy of another, one
    /// clock stamped all of them in order, and no two hosts can share an address, for which they would need two tagged networks.
    /// The connected queue pairs, the hosts and speeds of interfaces, and the wrong ICRCs are left to the caller.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.copies.is_plain(self.reading.dedup)
            && self.clocks.is_plain()
            && self.out_of_order.is_empty()
            && self.networks.len() <= 2
    }

    /// Whether this frame has a wrong ICRC.
    #[inline]
    pub fn has_wrong_icrc(&self, frame: u64) -> bool {
        self.wrong_icrc.has(frame)
    }

    fn packet(&mut self, frame: &Frame<'_>, roce: &Roce<'_>) {
        let Record { number, timestamp_ns, is_timed, bytes, .. } = frame.record;
        if roce.icrc::<HostCrc>() == Icrc::Invalid {
            self.wrong_icrc.insert(number);
            if !self.reading.ignores_icrc {
                return;
            }
        }
        if is_timed && self.reading.dedup != Dedup::Off {
            self.copies.add(number, timestamp_ns, frame.network, bytes, roce);
        }
        self.roce(frame, roce);
    }

    fn roce(&mut self, frame: &Frame<'_>, roce: &Roce<'_>) {
        let path = (roce.addresses(), frame.network);
        let Ends { from, to, network } = match self.last {
            Some((last, ends)) if last == path => ends,
            _ => {
                let Some(ends) = self.ends(path) else { return };
                self.last = Some((path, ends));
                ends
            }
        };
        let side = match frame.record.direction {
            Direction::Outbound => Some((0, from)),
            Direction::Inbound => Some((1, to)),
            Direction::Unknown => None,
        };
        if let Some((side, host)) = side {
            self.local.or_default(frame.record.interface)[side].insert((host, frame.network));
        }
        let qpn = roce.bth.dest_qp.get();
        if roce.bth.dest_qp == cm::QP {
            self.management(roce, from, to, network);
        } else if matches!(
            Transport::of(roce.bth.opcode),
            Transport::Rc | Transport::Uc | Transport::Xrc | Transport::Cnp
        ) {
            self.connections.add(frame.record.number, End { from, to, qpn, network }, roce);
        }
    }

    /// The ends of a path, which are recorded if they are new. `None` if there are too many hosts or networks.
    #[inline(never)]
    fn ends(&mut self, (addresses, network): Path) -> Option<Ends> {
        let network = self.network(network)?;
        let (from, to) = (self.host(addresses.source())?, self.host(addresses.destination())?);
        for (host, sends) in [(from, true), (to, false)] {
            let Some(known) = self.hosts.get_mut(usize::from(host)) else { continue };
            let place = match known.networks.iter().position(|&(other, ..)| other == network) {
                Some(place) => place,
                None => {
                    known.networks.push((network, false, false));
                    known.networks.len() - 1
                }
            };
            if let Some((_, has_sent, has_received)) = known.networks.get_mut(place) {
                *if sends { has_sent } else { has_received } = true;
            }
        }
        Some(Ends { from, to, network })
    }

    fn management(&mut self, roce: &Roce<'_>, from: u16, to: u16, network: u8) {
        match Message::parse(roce) {
            Some(Message::Request { local_id, local_qpn, .. }) if self.requests.len() < REQUESTS => {
                self.requests.insert((from, to, local_id), local_qpn.get());
            }
            Some(Message::Reply { remote_id, local_qpn, .. }) => {
                if let Some(requester) = self.requests.remove(&(to, from, remote_id)) {
                    let forth = End { from: to, to: from, qpn: local_qpn.get(), network };
                    self.connections.connect(forth, End { from, to, qpn: requester, network });
                }
            }
            _ => {}
        }
    }

    fn host(&mut self, address: IpAddr) -> Option<u16> {
        let address = address.to_canonical();
        let key = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        if self.hosts.len() >= HOSTS {
            return None;
        }
        let number = self.hosts.len() as u16;
        self.hosts.push(Known { address, networks: Vec::new() });
        self.numbers.insert(key, number);
        Some(number)
    }

    fn network(&mut self, network: u32) -> Option<u8> {
        let found = self.networks.iter().position(|&other| other == network);
        let place = match found {
            Some(place) => place,
            None if self.networks.len() < NETWORKS => {
                self.networks.push(network);
                self.networks.len() - 1
            }
            None => return None,
        };
        Some(place as u8)
    }

    /// Returns the results, after the last frame.
    pub fn finish(mut self, dropped: Dropped) -> Survey {
        self.clocks.finish(&mut self.out_of_order);
        let copies = self.copies.finish(self.reading.dedup);
        // Two hosts share an address if the address both sends and receives in two networks. One that only sends in one of them
        // is a single host: a mirror port may keep the VLAN tags of one direction only.
        let mut shared = BTreeSet::new();
        for Known { address, networks } in &self.hosts {
            let whole = networks.iter().filter(|&&(network, sent, received)| network > 0 && sent && received);
            if whole.count() > 1 {
                shared.insert(*address);
            }
        }
        let numbers: HashMap<IpAddr, u16> =
            (0..).zip(&self.hosts).map(|(number, known)| (known.address, number)).collect();
        let networks = 0..self.networks.len() as u8;
        let (named, by_number) = (self.reading.pairs.resolved(&numbers), self.reading.pairs.by_number(&numbers));
        let pairs_are_of_others = self.reading.pairs != QpPairs::default() && named.is_empty() && by_number.is_empty();
        for (one, other) in named {
            for network in networks.clone() {
                let forth = End { from: one.0, to: other.0, qpn: other.1, network };
                self.connections.connect_first(forth, End { from: other.0, to: one.0, qpn: one.1, network });
            }
        }
        let joined = self.connections.finish(&by_number);
        let host = |number: u16, network: u8| {
            let address = self.hosts.get(usize::from(number))?.address;
            let network = self.networks.get(usize::from(network)).copied().unwrap_or(0);
            Some(Host { address, network: if shared.contains(&address) { network } else { 0 } })
        };
        let mut connected = HashMap::new();
        for (end, other) in &joined.other {
            if let (Some(from), Some(to)) = (host(end.from, end.network), host(end.to, end.network)) {
                connected.insert((from, to, end.qpn), other.qpn);
            }
        }
        let local = self.local.into_iter().map(|(interface, [sends, receives])| {
            // Senders are preferred: in promiscuous mode, inbound frames include those for other hosts.
            let hosts = if sends.is_empty() { receives } else { sends };
            let hosts = hosts.into_iter().filter_map(|(number, network)| {
                let address = self.hosts.get(usize::from(number))?.address;
                Some(Host { address, network: if shared.contains(&address) { network } else { 0 } })
            });
            (interface, hosts.collect())
        });
        let local = local.collect();
        Survey {
            frames: self.frames,
            pairs_are_of_others,
            wrong_icrc: self.wrong_icrc,
            copies,
            disordered: self.out_of_order.wrong,
            set: self.out_of_order.set,
            disorder: (self.out_of_order.reported, self.out_of_order.first),
            offsets: self.clocks.offsets(),
            ambiguous: joined.ambiguous,
            local,
            speeds: self.speeds,
            dropped,
            connected,
            shared,
        }
    }
}

/// The clocks of a capture, one for each interface and direction.
#[derive(Debug, Default)]
struct Clocks {
    clocks: Vec<((u32, Direction), StampOrder, Bounds)>,
    /// The last time stamp of each clock.
    last: Vec<u64>,
}

/// Bounds of the offset of a clock, in nanoseconds: with it added, the clock's stamps are in order with those of the first
/// clock.
#[derive(Debug)]
struct Bounds {
    least: i128,
    most: i128,
    contradictions: u64,
}

impl Clocks {
    #[inline]
    fn add(&mut self, record: &Record<'_>, out_of_order: &mut OutOfOrder) {
        let key = (record.interface, record.direction);
        let place = match self.clocks.iter().position(|(other, ..)| *other == key) {
            Some(place) => place,
            None if self.clocks.len() < CLOCKS => {
                self.clocks.push((
                    key,
                    StampOrder::default(),
                    Bounds { least: i128::MIN, most: i128::MAX, contradictions: 0 },
                ));
                self.last.push(record.timestamp_ns);
                self.clocks.len() - 1
            }
            None => return,
        };
        if let Some((_, order, _)) = self.clocks.get_mut(place) {
            order.add(record.number, record.timestamp_ns, out_of_order);
        }
        if self.clocks.len() > 1 {
            self.compare(place, record.timestamp_ns);
        }
        if let Some(last) = self.last.get_mut(place) {
            *last = record.timestamp_ns;
        }
    }

    /// Narrows the bounds of the offsets by the stamp of the next frame. Frames of a file are in the order in which they were
    /// captured, so a stamp that contradicts this order shows that two clocks disagree.
    fn compare(&mut self, place: usize, stamp: u64) {
        let Some(&first) = self.last.first() else { return };
        if place > 0 {
            // This frame came after the last frame of the first clock.
            let (least, is_against) = (i128::from(first) - i128::from(stamp), first > stamp);
            if let Some((_, _, bounds)) = self.clocks.get_mut(place) {
                bounds.least = bounds.least.max(least);
                bounds.contradictions += u64::from(is_against);
            }
            return;
        }
        for ((_, _, bounds), &last) in self.clocks.iter_mut().zip(&self.last).skip(1) {
            bounds.most = bounds.most.min(i128::from(stamp) - i128::from(last));
            bounds.contradictions += u64::from(last > stamp);
        }
    }

    /// Whether there is one clock at most, with no step back that is still to be decided about.
    #[inline]
    fn is_plain(&self) -> bool {
        self.clocks.len() <= 1 && self.clocks.iter().all(|(_, order, _)| !order.is_undecided())
    }

    fn finish(&mut self, out_of_order: &mut OutOfOrder) {
        self.clocks.iter_mut().for_each(|(_, order, _)| order.finish(out_of_order));
    }

    fn offsets(&self) -> HashMap<(u32, Direction), i128> {
        let offset = |Bounds { least, most, contradictions }: &Bounds| {
            let agrees = *least <= 0 && 0 <= *most;
            let is_known = *least > i128::MIN && *most < i128::MAX && *least <= *most + JITTER;
            if agrees || !is_known || *contradictions < CONTRADICTIONS { 0 } else { least.midpoint(*most) }
        };
        let each = self.clocks.iter().map(|(key, _, bounds)| (*key, offset(bounds)));
        each.filter(|&(_, offset)| offset != 0).collect()
    }
}
