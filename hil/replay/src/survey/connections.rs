//! Finds out which queue pairs are connected with each other, from the whole capture.
//!
//! A packet names its destination queue pair and not its source queue pair, so the packets of one direction do not show the
//! queue pair number of the other. The two directions (streams) of a connection are joined by evidence, in this order:
//!
//! 1. the pairs that the user gives;
//! 2. connection management: REQ and REP carry both numbers (IBTA volume 1, 12.6);
//! 3. responses: an acknowledgement, positive or negative, names a PSN of its request, and the first response to a READ has
//!    the PSN of the READ (9.7.5.1.1). Each response counts for every stream of requests that it fits; two streams are joined
//!    when each has more of the other's responses than of any other stream that is not joined yet. So a few wrong responses
//!    cannot mislead;
//! 4. CNPs: if between two hosts one stream of marked data and one queue pair that receives CNPs are left, they are one
//!    connection.
//!
//! If two streams fit two others equally well, none of them is joined. A queue pair number may serve two connections if the
//! first had ended before the second began.

use crate::fast::FastMap;
use cc_core::wire::opcode::{Class, Transport};
use cc_core::wire::{Roce, Syndrome};
use cc_core::{Ecn, Psn};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Most streams that are tracked.
const STREAMS: usize = 131_072;
/// A response fits a stream only if its PSN is less than this far behind the stream's newest.
const BEHIND: u32 = 1 << 16;
/// Most READ requests of a stream that wait for their response.
const READS: usize = 64;
/// Most streams of requests that are counted for one stream of responses.
const CANDIDATES: usize = 64;
/// Responses that are needed to conclude that a queue pair number served another connection earlier or later.
const REUSED: u64 = 4;
/// After this many responses that fit only one stream, further responses are compared with that stream only.
const SURE: u32 = 16;

/// One direction of a connection: packets from one host to a queue pair of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct End {
    /// The host that sends.
    pub from: u16,
    /// The host that receives.
    pub to: u16,
    /// Its queue pair.
    pub qpn: u32,
    /// The index of the network that the packets are tagged with.
    pub network: u8,
}

impl End {
    fn key(self) -> u64 {
        u64::from(self.from) << 48 | u64::from(self.to) << 32 | u64::from(self.network) << 24 | u64::from(self.qpn)
    }
}

#[derive(Debug)]
struct Stream {
    end: End,
    /// The numbers of its first and last frames.
    life: (u64, u64),
    /// First and newest PSN of its requests.
    requests: Option<(Psn, Psn)>,
    /// PSNs of the last READs, which may wait for their response.
    reads: Vec<u32>,
    /// Whether it carries data.
    has_data: bool,
    /// Whether any of its data is marked.
    is_marked: bool,
    /// CNPs in this stream.
    cnps: u64,
    /// Responses in this stream.
    responses: u64,
    /// Of these, those that fit more than one stream of requests.
    ambiguous: u64,
    /// Streams of requests in the other direction, each with the number of responses that fit it.
    fits: Vec<(u32, u32)>,
}

/// The connections that the evidence shows.
#[derive(Debug, Default)]
pub(super) struct Connections {
    streams: Vec<Stream>,
    by_end: FastMap<u32>,
    /// Streams from one host to another.
    by_hosts: FastMap<Vec<u32>>,
    /// Connections that connection management or the user names.
    named: Vec<(End, End)>,
}

/// Results of the survey of connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Joined {
    /// For each end, the other end of its connection.
    pub other: HashMap<End, End>,
    /// Responses that fit several streams of requests, of streams that are not joined.
    pub ambiguous: u64,
}

impl Connections {
    fn stream(&mut self, end: End) -> Option<usize> {
        if let Some(&stream) = self.by_end.get(&end.key()) {
            return Some(stream as usize);
        }
        if self.streams.len() >= STREAMS {
            return None;
        }
        let number = self.streams.len();
        self.by_end.insert(end.key(), number as u32);
        self.by_hosts.entry(hosts(end.from, end.to)).or_default().push(number as u32);
        self.streams.push(Stream {
            end,
            life: (u64::MAX, 0),
            requests: None,
            reads: Vec::new(),
            has_data: false,
            is_marked: false,
            cnps: 0,
            responses: 0,
            ambiguous: 0,
            fits: Vec::new(),
        });
        Some(number)
    }

    /// Records two ends that are known to be those of one connection.
    pub(super) fn connect(&mut self, one: End, other: End) {
        if self.named.len() < STREAMS {
            self.named.push((one, other));
        }
    }

    /// As [`Connections::connect`], for a pair that takes precedence over all others.
    pub(super) fn connect_first(&mut self, one: End, other: End) {
        self.named.insert(0, (one, other));
    }

    /// Counts the next packet of a connected transport.
    #[inline]
    pub(super) fn add(&mut self, frame: u64, end: End, roce: &Roce<'_>) {
        let class = roce.info.class();
        let Some(number) = self.stream(end) else { return };
        let Some(stream) = self.streams.get_mut(number) else { return };
        stream.life = (stream.life.0.min(frame), frame);
        if class.carries_data() {
            stream.has_data = true;
            stream.is_marked |= roce.ecn == Ecn::Ce;
        }
        let psn = roce.bth.psn;
        match class {
            Class::Send | Class::Write | Class::ReadRequest | Class::Atomic | Class::Unknown => {
                let reliable = matches!(Transport::of(roce.bth.opcode), Transport::Rc | Transport::Xrc);
                if !reliable {
                    return;
                }
                stream.requests = Some(match stream.requests {
                    Some((first, newest)) => (first, if psn.is_after(newest) { psn } else { newest }),
                    None => (psn, psn),
                });
                if class == Class::ReadRequest {
                    if stream.reads.len() >= READS {
                        stream.reads.remove(0);
                    }
                    stream.reads.push(psn.get());
                }
            }
            Class::Ack | Class::AtomicAck => {
                stream.responses += 1;
                // A response to nothing in particular would fit whatever was sent.
                if !matches!(roce.aeth().map(|aeth| aeth.syndrome), Some(Syndrome::Reserved(_))) {
                    self.response(number, psn, false);
                }
            }
            Class::ReadResponse => {
                stream.responses += 1;
                if roce.info.first() {
                    self.response(number, psn, true);
                }
            }
            Class::Cnp => stream.cnps += 1,
            Class::Resync => {}
        }
    }

    /// Counts a response of this stream for every stream of requests that it fits.
    fn response(&mut self, number: usize, psn: Psn, to_read: bool) {
        let Some(stream) = self.streams.get(number) else { return };
        let end = stream.end;
        let fits = |request: u32| {
            self.streams.get(request as usize).is_some_and(|stream| match (to_read, stream.requests) {
                (true, _) => stream.reads.contains(&psn.get()),
                (false, Some((first, newest))) => {
                    !psn.is_after(newest)
                        && !first.is_after(psn)
                        && newest.get().wrapping_sub(psn.get()) & 0x00ff_ffff < BEHIND
                }
                (false, None) => false,
            })
        };
        // A stream that has fitted only one other for long is compared with that one only.
        if let &[(request, count)] = stream.fits.as_slice()
            && count >= SURE
            && fits(request)
        {
            if let Some(stream) = self.streams.get_mut(number) {
                stream.fits.clear();
                stream.fits.push((request, count + 1));
            }
            return;
        }
        let Some(requests) = self.by_hosts.get(&hosts(end.to, end.from)) else { return };
        let all: Vec<u32> = requests.iter().copied().filter(|&request| fits(request)).take(CANDIDATES).collect();
        // Streams with the same tag are preferred; a mirror port may keep the tags of one direction only.
        let tagged = |request: &&u32| {
            self.streams.get(**request as usize).is_some_and(|stream| stream.end.network == end.network)
        };
        let same: Vec<u32> = all.iter().filter(tagged).copied().collect();
        let fitting = if same.is_empty() { all } else { same };
        let Some(stream) = self.streams.get_mut(number) else { return };
        stream.ambiguous += u64::from(fitting.len() > 1);
        for request in fitting {
            match stream.fits.iter().position(|&(other, _)| other == request) {
                Some(place) => stream.fits[place].1 += 1,
                None if stream.fits.len() < CANDIDATES => stream.fits.push((request, 1)),
                None => {}
            }
        }
    }

    /// Joins the streams that belong together, after the last packet. `numbers` are connected queue pairs from the user without
    /// both hosts: such a pair is used if only one stream has these numbers.
    pub(super) fn finish(mut self, numbers: &[(Option<u16>, u32, u32)]) -> Joined {
        for &(host, local, remote) in numbers {
            let is_forth =
                |stream: &&Stream| stream.end.qpn == remote && host.is_none_or(|host| stream.end.from == host);
            let back = |forth: &Stream| End { from: forth.end.to, to: forth.end.from, qpn: local, ..forth.end };
            let forth: Vec<_> = self.streams.iter().filter(is_forth).collect();
            let two_way: Vec<_> =
                forth.iter().copied().filter(|stream| self.by_end.contains_key(&back(stream).key())).collect();
            if let [one] = if two_way.is_empty() { forth } else { two_way }[..] {
                let pair = (one.end, back(one));
                self.named.insert(0, pair);
            }
        }
        let mut joined = Joined::default();
        for &(one, other) in &self.named {
            for (here, there) in [(one, other), (other, one)] {
                joined.other.entry(here).or_insert(there);
            }
        }
        // The weight of two streams: the responses of either that fit the other. Each pair of hosts is treated separately.
        let mut weights: BTreeMap<(u16, u16), BTreeMap<(u32, u32), u64>> = BTreeMap::new();
        for (number, stream) in (0..).zip(&self.streams) {
            for &(request, count) in &stream.fits {
                let hosts = (stream.end.from.min(stream.end.to), stream.end.from.max(stream.end.to));
                let pair = if stream.end.from <= stream.end.to { (number, request) } else { (request, number) };
                *weights.entry(hosts).or_default().entry(pair).or_default() += u64::from(count);
            }
        }
        for weights in weights.into_values() {
            self.join(weights, &mut joined);
        }
        self.join_by_cnps(&mut joined);
        let is_free = |stream: &&Stream| !joined.other.contains_key(&stream.end);
        joined.ambiguous = self.streams.iter().filter(is_free).map(|stream| stream.ambiguous).sum();
        joined
    }

    fn end(&self, stream: u32) -> Option<End> {
        self.streams.get(stream as usize).map(|stream| stream.end)
    }

    /// Joins the streams of two hosts by their responses.
    fn join(&self, weights: BTreeMap<(u32, u32), u64>, joined: &mut Joined) {
        let is_free = |joined: &Joined, stream| self.end(stream).is_some_and(|end| !joined.other.contains_key(&end));
        let mut left: Vec<_> = weights.iter().map(|(&(one, other), &weight)| (one, other, weight)).collect();
        loop {
            left.retain(|&(one, other, _)| is_free(joined, one) && is_free(joined, other));
            let table = Table::of(&left);
            let mut decided: Vec<_> = left.iter().copied().filter(|&pair| table.is_decided(pair)).collect();
            if decided.is_empty() {
                break;
            }
            decided.sort_by_key(|&(one, other, weight)| (Reverse(weight), one, other));
            for (one, other, _) in decided {
                if let (Some(here), Some(there)) = (self.end(one), self.end(other))
                    && is_free(joined, one)
                    && is_free(joined, other)
                {
                    joined.other.insert(here, there);
                    joined.other.insert(there, here);
                }
            }
        }
        // A stream that is left may belong to a queue pair that is joined already, if its two connections do not overlap in
        // time.
        for ((one, other), weight) in weights {
            for (here, there) in [(one, other), (other, one)] {
                let taken =
                    self.end(there).and_then(|end| joined.other.get(&end)).and_then(|end| self.by_end.get(&end.key()));
                if let (Some(here), Some(there), Some(&rival)) = (self.end(here), self.end(there), taken)
                    && weight >= REUSED
                    && !joined.other.contains_key(&here)
                    && self.are_apart(self.by_end.get(&here.key()).copied().unwrap_or(rival), rival)
                {
                    joined.other.insert(here, there);
                }
            }
        }
    }

    fn are_apart(&self, one: u32, other: u32) -> bool {
        let life = |stream: u32| self.streams.get(stream as usize).map(|stream| stream.life);
        life(one).zip(life(other)).is_some_and(|(one, other)| one.1 < other.0 || other.1 < one.0)
    }

    /// Joins by CNPs: if between two hosts one stream of data and one queue pair that receives CNPs are left, they are one
    /// connection.
    fn join_by_cnps(&self, joined: &mut Joined) {
        let mut found = Vec::new();
        for (&key, streams) in &self.by_hosts {
            let (from, to) = ((key >> 16) as u16, key as u16);
            let of =
                |numbers: &[u32]| numbers.iter().filter_map(|&one| self.streams.get(one as usize)).collect::<Vec<_>>();
            let forth = of(streams);
            let back = of(self.by_hosts.get(&hosts(to, from)).map_or(&[][..], Vec::as_slice));
            let are_marked = forth.iter().any(|stream| stream.is_marked);
            let is_free = |stream: &&&Stream| !joined.other.contains_key(&stream.end);
            let data = |stream: &&&Stream| stream.has_data && (stream.is_marked || !are_marked);
            let notified = |stream: &&&Stream| stream.cnps > 0 && (stream.responses == 0 || !stream.fits.is_empty());
            let mut data = forth.iter().filter(is_free).filter(data);
            let mut notified = back.iter().filter(is_free).filter(notified);
            if let (Some(one), None, Some(other), None) = (data.next(), data.next(), notified.next(), notified.next()) {
                found.push((one.end, other.end));
            }
        }
        found.sort_unstable();
        for (one, other) in found {
            if !joined.other.contains_key(&one) && !joined.other.contains_key(&other) {
                joined.other.insert(one, other);
                joined.other.insert(other, one);
            }
        }
    }
}

/// Pairs of streams with their weights, by either end.
struct Table<'a> {
    first: BTreeMap<u32, Vec<&'a (u32, u32, u64)>>,
    second: BTreeMap<u32, Vec<&'a (u32, u32, u64)>>,
}

impl<'a> Table<'a> {
    fn of(pairs: &'a [(u32, u32, u64)]) -> Self {
        let mut table = Self { first: BTreeMap::new(), second: BTreeMap::new() };
        for pair in pairs {
            table.first.entry(pair.0).or_default().push(pair);
            table.second.entry(pair.1).or_default().push(pair);
        }
        table
    }

    /// Whether this pair of streams is to be joined. It must outweigh every other pair of one of its streams; and each other
    /// pair of its other stream must weigh less, or that pair's partner must have another pair of at least the same weight.
    fn is_decided(&self, (one, other, weight): (u32, u32, u64)) -> bool {
        let none: &[&(u32, u32, u64)] = &[];
        let of_first = |end| self.first.get(&end).map_or(none, Vec::as_slice);
        let of_second = |end| self.second.get(&end).map_or(none, Vec::as_slice);
        let rivals_of_one = || of_first(one).iter().filter(|rival| rival.1 != other);
        let rivals_of_other = || of_second(other).iter().filter(|rival| rival.0 != one);
        let first_leads = rivals_of_one().all(|rival| rival.2 < weight);
        let second_leads = rivals_of_other().all(|rival| rival.2 < weight);
        let first_yields = || {
            rivals_of_one().all(|rival| {
                rival.2 < weight || of_second(rival.1).iter().any(|better| better.0 != one && better.2 >= rival.2)
            })
        };
        let second_yields = || {
            rivals_of_other().all(|rival| {
                rival.2 < weight || of_first(rival.0).iter().any(|better| better.1 != other && better.2 >= rival.2)
            })
        };
        (first_leads && second_yields()) || (second_leads && first_yields())
    }
}

fn hosts(from: u16, to: u16) -> u64 {
    u64::from(from) << 16 | u64::from(to)
}
