//! Faults of links: an ordered list of rules. The first rule that takes effect on a frame decides what happens to it; most often none
//! does. Each rule has a random stream for each direction of each link, so that no rule changes what another draws.
//!
//! Rules are applied when the last bit of a frame arrives at the other end of a link. A corrupted frame fails the check sequence of
//! its Ethernet frame (FCS) there and is dropped, as a switch that stores and forwards and a NIC do; a frame that is changed inside a
//! switch, which only the ICRC would show, is not modelled.

use super::packets::PacketId;
use super::port::Port;
use super::stall::Loss;
use super::switch::Notice;
use super::topology::{Link, Topology};
use crate::Picos;
use crate::workload::stream;
use anyhow::{Result, ensure};
use hil_cores::random::SplitMix;
use hil_sorted::{SortedMap, SortedSet};
use std::collections::BTreeMap;

/// A set of kinds of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameSet(u16);

impl FrameSet {
    /// Every frame.
    pub const ALL: Self = Self(u16::MAX);
    /// Data of a flow.
    pub const DATA: Self = Self(1 << 0);
    /// Acknowledgements.
    pub const ACK: Self = Self(1 << 1);
    /// Negative acknowledgements.
    pub const NAK: Self = Self(1 << 2);
    /// Congestion notifications, by a receiver or a switch.
    pub const CNP: Self = Self(1 << 3);
    /// PFC frames.
    pub const PFC: Self = Self(1 << 4);
    /// Acknowledgements with a grant of the receiver: a window of RCC, or a credit of MLCC.
    pub const GRANT: Self = Self(1 << 5);
    /// Acknowledgements that return telemetry, and CNPs in which a switch returns it.
    pub const TELEMETRY: Self = Self(1 << 6);
    /// Messages of the connection manager.
    pub const HANDSHAKE: Self = Self(1 << 7);
    /// Messages from switch to switch: rates of LSCC, relayed pauses of Swing.
    pub const MESSAGE: Self = Self(1 << 8);
    /// Requests of READs, whose responses are data.
    pub const READ_REQUEST: Self = Self(1 << 9);

    /// The kinds, with their names.
    pub const NAMED: [(&'static str, Self); 10] = [
        ("data", Self::DATA),
        ("ack", Self::ACK),
        ("nak", Self::NAK),
        ("cnp", Self::CNP),
        ("pfc", Self::PFC),
        ("grant", Self::GRANT),
        ("telemetry", Self::TELEMETRY),
        ("handshake", Self::HANDSHAKE),
        ("message", Self::MESSAGE),
        ("read_request", Self::READ_REQUEST),
    ];

    /// The kinds of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of the kinds of this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMED.into_iter().filter(move |&(_, kind)| self.meets(kind)).map(|(name, _)| name)
    }

    /// The kinds of this set, if the condition holds; otherwise none.
    pub(super) const fn only_if(self, condition: bool) -> Self {
        if condition { self } else { Self(0) }
    }

    /// Whether a kind is in both sets.
    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Which of the frames that a rule selects it takes effect on. The frames of each flow are counted by themselves, and frames of no
/// flow together; a frame counts on every selected link that it passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nth {
    /// The one with this number, counted from 1.
    Number(u64),
    /// The first data packet with the last sequence number of its flow, or the first acknowledgement of it.
    Last,
}

/// What a rule does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// The frame is lost.
    Loss,
    /// The frame fails its check sequence and is dropped. With a bit error rate the probability follows from the frame's length.
    Corruption {
        /// The probability that a bit is wrong.
        bit_error_rate: Option<f64>,
    },
    /// The frame arrives later, and those behind it do not overtake it.
    Delay(Lag),
    /// The frame arrives later, and those behind it overtake it.
    Reordering(Lag),
    /// The frame arrives twice.
    Duplication,
    /// The links are down: what is on them and what waits at their ports is lost, and so is what a switch would send over them. Hosts
    /// wait.
    Down {
        /// So long after they go down, routes lead around them, and so long after they come back, over them again. With `None` routes
        /// stay as they are.
        reroute: Option<Picos>,
    },
    /// A NIC sends no CNP.
    CnpLoss,
    /// A NIC sends a CNP later than it decides to.
    CnpDelay(Lag),
    /// The clock that a NIC is given differs from that of the simulation.
    Clock {
        /// By so many picoseconds, ahead or behind.
        offset: i64,
        /// Each reading is ahead by a time more that is drawn uniformly from zero to this; so is each measurement of a delay longer or
        /// shorter by the difference of two such times.
        jitter: Picos,
        /// A reading may be earlier than the one before. Otherwise it is the same then.
        backward: bool,
    },
}

/// To what a rule applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// Frames that arrive.
    Frames,
    /// Links.
    Links,
    /// CNPs that NICs send.
    Cnps,
    /// Clocks of NICs.
    Clocks,
}

/// How much later something happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lag {
    /// At least this.
    pub least: Picos,
    /// In addition a time that is drawn uniformly from zero to this.
    pub jitter: Picos,
    /// In addition a time that is drawn uniformly from zero to this once for each flow.
    pub per_flow: Picos,
}

impl Lag {
    /// A time for a frame. `of_flow` is the random number of its flow.
    fn draw(self, random: &mut SplitMix, of_flow: u64) -> Picos {
        let jitter = if self.jitter == 0 { 0 } else { random.draw() % (self.jitter + 1) };
        self.least + jitter + of_flow % (self.per_flow + 1)
    }
}

impl Action {
    /// Its name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Corruption { .. } => "corruption",
            Self::Delay(_) => "delay",
            Self::Reordering(_) => "reordering",
            Self::Duplication => "duplication",
            Self::Down { .. } => "down",
            Self::CnpLoss => "cnp_loss",
            Self::CnpDelay(_) => "cnp_delay",
            Self::Clock { .. } => "clock",
        }
    }

    const fn target(self) -> Target {
        match self {
            Self::Loss | Self::Corruption { .. } | Self::Delay(_) | Self::Reordering(_) | Self::Duplication => {
                Target::Frames
            }
            Self::Down { .. } => Target::Links,
            Self::CnpLoss | Self::CnpDelay(_) => Target::Cnps,
            Self::Clock { .. } => Target::Clocks,
        }
    }
}

/// A rule: what happens, to which frames, where and when. A list that is empty selects everything.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// What happens.
    pub action: Action,
    /// Only on these links, by their numbers in the topology, in both directions.
    pub links: Vec<u32>,
    /// Only to frames that leave these nodes, or only to these hosts.
    pub leaving: Vec<u32>,
    /// Only to frames that enter these nodes.
    pub entering: Vec<u32>,
    /// From this time on.
    pub from: Picos,
    /// Before this time.
    pub until: Picos,
    /// The time from `from` to `until` comes again after each such time.
    pub every: Option<Picos>,
    /// Only to frames of these kinds.
    pub frames: FrameSet,
    /// Only to frames of this flow.
    pub flow: Option<u32>,
    /// Only to some of them.
    pub nth: Option<Nth>,
    /// The probability with which it takes effect on a frame, in units of 2^-32; the largest number is certainty.
    pub probability: u32,
}

impl Fault {
    /// A rule for all frames on all links at all times, with certainty.
    pub const fn of(action: Action) -> Self {
        Self {
            action,
            links: Vec::new(),
            leaving: Vec::new(),
            entering: Vec::new(),
            from: 0,
            until: Picos::MAX,
            every: None,
            frames: FrameSet::ALL,
            flow: None,
            nth: None,
            probability: u32::MAX,
        }
    }

    /// The rules for links that lose frames by themselves: one for each probability, see [`Link::loss`](super::Link::loss).
    pub(crate) fn of_links(topology: &Topology) -> impl Iterator<Item = Self> {
        let mut links: SortedMap<u32, Vec<u32>> = SortedMap::new();
        for (number, link) in (0..).zip(&topology.links).filter(|(_, link)| link.loss > 0) {
            links.or_default(link.loss).push(number);
        }
        links.into_iter().map(|(probability, links)| Self { links, probability, ..Self::of(Action::Loss) })
    }

    fn check(&self, topology: &Topology) -> Result<()> {
        let nodes = topology.nodes.len() as u32;
        let wrong = self.leaving.iter().chain(&self.entering).find(|&&node| node >= nodes);
        ensure!(wrong.is_none(), "there is no node {}", wrong.copied().unwrap_or(0));
        let wrong = self.links.iter().find(|&&link| link as usize >= topology.links.len());
        ensure!(wrong.is_none(), "there is no link {}", wrong.copied().unwrap_or(0));
        ensure!(self.from < self.until, "it ends before it begins");
        ensure!(self.every.is_none_or(|every| self.until - self.from <= every), "it lasts longer than its period");
        Ok(())
    }

    /// Whether a time is one of its times.
    fn is_active(&self, now: Picos) -> bool {
        let Some(since) = now.checked_sub(self.from) else { return false };
        self.every.map_or(since, |every| since % every) < self.until - self.from
    }

    /// The first time after this one at which it begins or ends, if there is one.
    fn next_change(&self, now: Picos) -> Option<Picos> {
        let Some(since) = now.checked_sub(self.from) else { return Some(self.from) };
        let lasts = self.until - self.from;
        let period = self.every.map_or(0, |every| since / every * every);
        let end = self.from.saturating_add(period).saturating_add(lasts);
        let next = if now < end { Some(end) } else { self.every.map(|every| self.from + period + every) };
        next.filter(|&next| next != Picos::MAX)
    }

    /// Whether it is for frames that go over a link from one node to another, or for the port at the first of them.
    fn covers(&self, link: u32, [from, to]: [u32; 2]) -> bool {
        let selects = |list: &[u32], number| list.is_empty() || list.contains(&number);
        selects(&self.links, link) && selects(&self.leaving, from) && selects(&self.entering, to)
    }

    /// Whether it is for a link of a topology, in one direction at least.
    pub(crate) fn covers_any(&self, topology: &Topology) -> bool {
        let mut links = (0u32..).zip(&topology.links);
        links.any(|(link, &Link { ends: [one, other], .. })| {
            self.covers(link, [one, other]) || self.covers(link, [other, one])
        })
    }

    /// Whether it takes effect on a frame, of which nothing is known if it reads no frames. `seen` has how many frames of each flow it
    /// has selected.
    fn takes_effect(
        &self,
        frame: Option<FrameInfo>,
        seen: &mut BTreeMap<Option<u32>, u64>,
        random: &mut SplitMix,
    ) -> bool {
        let mut probability = self.probability;
        if let Some(FrameInfo { flow, kinds, is_last, bytes }) = frame {
            if !self.frames.meets(kinds) || self.flow.is_some() && self.flow != flow {
                return false;
            }
            if let Some(nth) = self.nth {
                let seen = seen.entry(flow).or_default();
                *seen += u64::from(nth != Nth::Last || is_last);
                let is_chosen = match nth {
                    Nth::Number(nth) => *seen == nth,
                    Nth::Last => is_last && *seen == 1,
                };
                if !is_chosen {
                    return false;
                }
            }
            if let Action::Corruption { bit_error_rate: Some(rate) } = self.action {
                probability = of_bits(rate, 8 * u32::from(bytes));
            }
        }
        probability == u32::MAX || random.draw() >> 32 < u64::from(probability)
    }

    /// Whether it has to know anything of a frame.
    const fn reads_frames(&self) -> bool {
        let reads_length = matches!(self.action, Action::Corruption { bit_error_rate: Some(_) });
        let reads_flow = match self.action {
            Action::Delay(lag) | Action::Reordering(lag) | Action::CnpDelay(lag) => lag.per_flow > 0,
            _ => false,
        };
        self.frames.0 != FrameSet::ALL.0 || self.flow.is_some() || self.nth.is_some() || reads_length || reads_flow
    }
}

/// What rules ask about a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameInfo {
    /// Its flow, if it has one.
    pub(super) flow: Option<u32>,
    /// What it is.
    pub(super) kinds: FrameSet,
    /// It is a data packet with the last sequence number of its flow, or acknowledges it.
    pub(super) is_last: bool,
    /// Its bytes.
    pub(super) bytes: u16,
}

/// What happens to a frame that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It arrives.
    Arrives,
    /// It does not: the rule with this number.
    Lost(usize),
    /// It arrives at this time.
    Held(Picos),
    /// It arrives twice.
    Twice,
}

impl Outcome {
    fn held(now: Picos, until: Picos) -> Self {
        if now < until { Self::Held(until) } else { Self::Arrives }
    }
}

/// A frame that is held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    /// A packet.
    Packet(PacketId),
    /// A frame that waits in no queue.
    Notice(Notice),
    /// A CNP that the NIC at the port sends later.
    Cnp(PacketId),
}

/// The rules of a network, and what they have done.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Vec<Fault>,
    /// How often each rule has taken effect.
    counts: Vec<u64>,
    /// What each rule's random numbers of flows come from.
    flow_seeds: Vec<u64>,
    /// Frames of each flow that a rule with a number has seen.
    seen: Vec<BTreeMap<Option<u32>, u64>>,
    /// By the port by which frames leave: the rules for them.
    at_ports: Vec<AtPort>,
    /// By the port of a host: the rules for CNPs that it sends, and for its clock.
    at_nics: Vec<AtPort>,
    at_clocks: Vec<AtPort>,
    /// By the port of a host: the rule by which its clock was last read, and what it was.
    readings: Vec<(Option<usize>, Picos)>,
    /// So far all clocks are ahead, so that none that is behind begins before zero.
    clock_zero: Picos,
    /// Frames that arrive later: by port at which they arrive, time, and the order in which they came.
    held: BTreeMap<(u32, Picos, u64), Held>,
    /// Frames that were held until now.
    holds: u64,
    /// For each flow, when, at which port and by which rule a frame of it was last lost.
    losses: BTreeMap<u32, (Picos, u32, usize)>,
    /// The links that are down, with the rule by which they are, and those around which routes lead.
    down: SortedMap<u32, usize>,
    avoided: SortedSet<u32>,
    /// Links fail at some time.
    pub(super) has_failures: bool,
    /// Some rule is for CNPs that NICs send, and for clocks.
    pub(super) has_nic_rules: bool,
    pub(super) has_clocks: bool,
}

/// The rules for the frames that leave by a port.
#[derive(Clone, Default, Debug)]
struct AtPort {
    /// Their numbers, each with its random stream.
    rules: Vec<(usize, SplitMix)>,
    /// One of them has to know something of a frame.
    reads_frames: bool,
    /// No frame arrives before this time: another one is delayed until then.
    not_before: Picos,
}

impl AtPort {
    /// The first rule that takes effect on a frame, the frame's flow if a rule asks, and the rule's random stream.
    fn decide(
        &mut self,
        now: Picos,
        rules: &[Fault],
        seen: &mut [BTreeMap<Option<u32>, u64>],
        describe: impl FnOnce() -> FrameInfo,
    ) -> Option<(usize, Option<u32>, &mut SplitMix)> {
        let frame = if self.reads_frames && !self.rules.is_empty() { Some(describe()) } else { None };
        self.rules.iter_mut().map(|(number, random)| (*number, random)).find_map(|(number, random)| {
            let rule = &rules[number];
            let takes_effect = rule.is_active(now) && rule.takes_effect(frame, &mut seen[number], random);
            takes_effect.then_some((number, frame.and_then(|frame| frame.flow), random))
        })
    }
}

/// A rule's random number of a flow; frames of no flow have one together.
fn of_flow(seed: u64, flow: Option<u32>) -> u64 {
    SplitMix::new(seed ^ flow.map_or(u64::MAX, u64::from)).draw()
}

impl Faults {
    /// The rules of a scenario, and behind them those for links that lose frames by themselves. Sets [`Port::has_faults`].
    ///
    /// # Errors
    /// A rule names a node or a link that does not exist, or has impossible times.
    pub(super) fn new(scenario: &[Fault], topology: &Topology, ports: &mut [Port], seed: u64) -> Result<Self> {
        let rules: Vec<Fault> = scenario.iter().cloned().chain(Fault::of_links(topology)).collect();
        for (number, rule) in rules.iter().enumerate() {
            rule.check(topology).map_err(|error| error.context(format!("fault {number} ({})", rule.action.name())))?;
        }
        let of_target = |target: Target| -> Vec<AtPort> {
            if !rules.iter().any(|rule| rule.action.target() == target) {
                return Vec::new();
            }
            let at_port = |(number, port): (u32, &Port)| {
                let covers = |rule: &Fault| {
                    let ends = [port.node, ports[port.peer as usize].node];
                    rule.action.target() == target && rule.covers(port.link, ends)
                };
                let of_port = rules.iter().enumerate().filter(|(_, rule)| covers(rule));
                let reads_frames = of_port.clone().any(|(_, rule)| rule.reads_frames());
                let random = |rule| stream(seed, &format!("fault {rule} at port {number}"));
                AtPort { rules: of_port.map(|(rule, _)| (rule, random(rule))).collect(), reads_frames, not_before: 0 }
            };
            (0u32..).zip(&*ports).map(at_port).collect()
        };
        let [at_ports, at_nics, at_clocks] = [Target::Frames, Target::Cnps, Target::Clocks].map(of_target);
        let offsets = rules.iter().map(|rule| match rule.action {
            Action::Clock { offset, .. } => offset,
            _ => 0,
        });
        let clock_zero = offsets.min().unwrap_or(0).min(0).unsigned_abs();
        let readings = vec![(None, 0); at_clocks.len()];
        for (port, at) in ports.iter_mut().zip(&at_ports) {
            port.has_faults = !at.rules.is_empty();
        }
        Ok(Self {
            counts: vec![0; rules.len()],
            flow_seeds: (0..rules.len()).map(|rule| stream(seed, &format!("fault {rule} of flows")).draw()).collect(),
            seen: vec![BTreeMap::new(); rules.len()],
            has_failures: rules.iter().any(|rule| rule.action.target() == Target::Links),
            has_nic_rules: !at_nics.is_empty(),
            has_clocks: !at_clocks.is_empty(),
            rules,
            at_ports,
            at_nics,
            at_clocks,
            readings,
            clock_zero,
            held: BTreeMap::new(),
            holds: 0,
            losses: BTreeMap::new(),
            down: SortedMap::new(),
            avoided: SortedSet::new(),
        })
    }

    /// What happens to a frame that has left by this port and now arrives at its peer. `describe` is called if a rule asks.
    pub(super) fn on_arrival(&mut self, now: Picos, port: u32, describe: impl FnOnce() -> FrameInfo) -> Outcome {
        let at = &mut self.at_ports[port as usize];
        let Some((rule, flow, random)) = at.decide(now, &self.rules, &mut self.seen, describe) else {
            return Outcome::held(now, at.not_before);
        };
        self.counts[rule] += 1;
        let mut lagged = |lag: Lag| now + lag.draw(random, of_flow(self.flow_seeds[rule], flow));
        match self.rules[rule].action {
            Action::Loss | Action::Corruption { .. } => Outcome::Lost(rule),
            Action::Delay(lag) => {
                at.not_before = lagged(lag).max(at.not_before);
                Outcome::held(now, at.not_before)
            }
            Action::Reordering(lag) => Outcome::held(now, lagged(lag)),
            Action::Duplication => Outcome::Twice,
            _ => Outcome::Arrives,
        }
    }

    /// What happens to a CNP that the NIC at this port sends. `describe` is called if a rule asks.
    pub(super) fn on_cnp(&mut self, now: Picos, port: u32, describe: impl FnOnce() -> FrameInfo) -> Outcome {
        let at = &mut self.at_nics[port as usize];
        let Some((rule, flow, random)) = at.decide(now, &self.rules, &mut self.seen, describe) else {
            return Outcome::Arrives;
        };
        self.counts[rule] += 1;
        match self.rules[rule].action {
            Action::CnpDelay(lag) => Outcome::held(now, now + lag.draw(random, of_flow(self.flow_seeds[rule], flow))),
            _ => Outcome::Lost(rule),
        }
    }

    /// The rule for the clock of the host at a port, with its offset, jitter, and whether the clock may run backward.
    fn clock_rule(&self, now: Picos, port: u32) -> Option<(usize, i64, Picos, bool)> {
        let rules = &self.at_clocks.get(port as usize)?.rules;
        rules.iter().find_map(|&(place, _)| match self.rules[place].action {
            Action::Clock { offset, jitter, backward } if self.rules[place].is_active(now) => {
                Some((place, offset, jitter, backward))
            }
            _ => None,
        })
    }

    /// So far the clock of the host at a port is ahead of the simulation's, jitter not counted.
    pub(super) fn clock_ahead(&self, now: Picos, port: u32) -> Picos {
        let offset = self.clock_rule(now, port).map_or(0, |(_, offset, ..)| offset);
        self.clock_zero.saturating_add_signed(offset)
    }

    /// The clock of the host at a port.
    #[cold]
    pub(super) fn clock(&mut self, now: Picos, port: u32) -> Picos {
        let rule = self.clock_rule(now, port);
        let offset = rule.map_or(0, |(_, offset, ..)| offset);
        let mut reading = now + self.clock_zero.saturating_add_signed(offset);
        let last = &mut self.readings[port as usize];
        if let Some((rule, _, jitter, backward)) = rule {
            self.counts[rule] += 1;
            let random = self.at_clocks[port as usize].rules.iter_mut().find(|(number, _)| *number == rule);
            reading += random.map_or(0, |(_, random)| random.draw() % (jitter + 1));
            if !backward && last.0 == Some(rule) {
                reading = reading.max(last.1);
            }
        }
        *last = (rule.map(|(rule, ..)| rule), reading);
        reading
    }

    /// The delay that the host at a port measures instead of this one.
    pub(super) fn measured(&mut self, now: Picos, port: u32, delay: Picos) -> Picos {
        let Some((rule, _, jitter, _)) = self.clock_rule(now, port) else { return delay };
        let random = self.at_clocks[port as usize].rules.iter_mut().find(|(number, _)| *number == rule);
        let [begin, end] = random.map_or([0; 2], |(_, random)| [0; 2].map(|_| random.draw() % (jitter + 1)));
        (delay + end).saturating_sub(begin)
    }

    /// Keeps a frame that arrives at a port at a later time.
    pub(super) fn hold(&mut self, port: u32, until: Picos, frame: Held) {
        self.held.insert((port, until, self.holds), frame);
        self.holds += 1;
    }

    /// Takes the next frame that was held and arrives at a port now.
    pub(super) fn take_held(&mut self, now: Picos, port: u32) -> Option<Held> {
        let key = *self.held.range((port, 0, 0)..=(port, now, u64::MAX)).next()?.0;
        self.held.remove(&key)
    }

    /// Packets that are held.
    pub(super) fn held_packets(&self) -> usize {
        self.held.values().filter(|held| matches!(held, Held::Packet(_) | Held::Cnp(_))).count()
    }

    /// The rules by which links fail, in their order, and the time after which routes follow.
    fn failures(&self) -> impl Iterator<Item = (usize, &Fault, Option<Picos>)> {
        self.rules.iter().enumerate().filter_map(|(number, rule)| match rule.action {
            Action::Down { reroute } => Some((number, rule, reroute)),
            _ => None,
        })
    }

    /// The links that are to fail now, with the rule that wants it, or to come back.
    pub(super) fn changed_links(&self, now: Picos) -> Vec<(u32, Option<usize>)> {
        let mut wanted = SortedMap::new();
        for (number, rule, _) in self.failures().filter(|(_, rule, _)| rule.is_active(now)) {
            for &link in &rule.links {
                wanted.or_insert(link, number);
            }
        }
        let failing = wanted.iter().filter(|(link, _)| !self.down.contains_key(link));
        let failing = failing.map(|(&link, &rule)| (link, Some(rule)));
        let returning = self.down.keys().filter(|link| !wanted.contains_key(link)).map(|&link| (link, None));
        failing.chain(returning).collect()
    }

    /// A link is down by a rule, or up.
    pub(super) fn set_down(&mut self, link: u32, rule: Option<usize>) {
        match rule {
            Some(rule) => self.down.insert(link, rule),
            None => self.down.remove(&link),
        };
    }

    /// The rule by which a link is down, if it is.
    pub(super) fn down_by(&self, link: u32) -> Option<usize> {
        self.down.get(&link).copied()
    }

    /// The rule that counts a packet without a route, and a link that it has taken down: the first that has. Where no link is down any
    /// more and routes have not followed yet, the first rule by which links fail.
    pub(super) fn cause_of_no_route(&self) -> Option<(usize, u32)> {
        let down = self.down.iter().map(|(&link, &rule)| (rule, link)).min();
        down.or_else(|| self.failures().find_map(|(number, rule, _)| Some((number, *rule.links.first()?))))
    }

    /// Whether other links are to be avoided now than before.
    pub(super) fn changes_routes(&mut self, now: Picos) -> bool {
        let is_avoided = |rule: &Fault, after: Option<Picos>| {
            after.and_then(|after| now.checked_sub(after)).is_some_and(|then| rule.is_active(then))
        };
        let rules = self.failures().filter(|&(_, rule, after)| is_avoided(rule, after));
        let avoided: SortedSet<u32> = rules.flat_map(|(_, rule, _)| rule.links.iter().copied()).collect();
        let changes = avoided != self.avoided;
        self.avoided = avoided;
        changes
    }

    /// Whether routes lead around a link.
    pub(super) fn is_avoided(&self, link: u32) -> bool {
        self.avoided.contains(&link)
    }

    /// The next time after this one at which a link fails or comes back, or routes follow.
    pub(super) fn next_change(&self, now: Picos) -> Option<Picos> {
        let changes = self.failures().flat_map(|(_, rule, reroute)| {
            let routes = reroute.and_then(|after| {
                let next = now.checked_sub(after).map_or(Some(rule.from), |then| rule.next_change(then));
                Some(next?.saturating_add(after))
            });
            [rule.next_change(now), routes]
        });
        changes.flatten().min()
    }

    /// A rule has taken effect on so many frames more.
    pub(super) fn count(&mut self, rule: usize, frames: u64) {
        self.counts[rule] += frames;
    }

    /// Remembers that a rule has lost a packet of a flow that has left by a port.
    pub(super) fn lose(&mut self, now: Picos, port: u32, fault: usize, flow: u32) {
        self.losses.insert(flow, (now, port, fault));
    }

    /// Where a packet of a flow was last lost.
    pub(super) fn last_loss(&self, flow: u32, ports: &[Port]) -> Option<Loss> {
        let &(at, port, fault) = self.losses.get(&flow)?;
        let port = &ports[port as usize];
        Some(Loss { at, link: [port.node, ports[port.peer as usize].node], fault })
    }

    /// How often each rule has taken effect: those of the scenario, and those of links.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.rules.iter().map(|rule| rule.action.name()).zip(self.counts.iter().copied()).collect()
    }
}

/// The probability that one of so many bits is wrong, in units of 2^-32. Products of doubles only, which are the same on every
/// machine.
fn of_bits(bit_error_rate: f64, bits: u32) -> u32 {
    let (mut all_right, mut power, mut left) = (1.0, 1.0 - bit_error_rate, bits);
    while left > 0 {
        if left & 1 != 0 {
            all_right *= power;
        }
        power *= power;
        left >>= 1;
    }
    ((1.0 - all_right) * f64::from(u32::MAX)) as u32
}
