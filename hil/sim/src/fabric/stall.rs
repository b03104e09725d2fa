//! The stall detector: it ends a run in which flows are open and nothing progresses, and says of each flow what blocks it.

use super::packets::Kind;
use super::port::CLASSES;
use super::transport::NEVER;
use super::{Network, Place};
use crate::Picos;
use cc_core::Psn;
use cc_core::wire;
use std::collections::BTreeMap;
use std::fmt;

/// A run that has ended because nothing progressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Since when no flow began, no byte arrived in order and none was acknowledged; in picoseconds, not before the last look at
    /// which the detector saw progress.
    pub since: Picos,
    /// The flows that have begun and are not complete.
    pub flows: Vec<StalledFlow>,
}

/// A flow that does not progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StalledFlow {
    /// Its number among the flows of the scenario.
    pub flow: u32,
    /// Its first packet that is not acknowledged.
    pub psn: Psn,
    /// What blocks it.
    pub obstacle: Obstacle,
}

/// What blocks a flow. A port is that of a node, counted from one in the order of its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The handshake of its connection is not complete.
    Handshake,
    /// The packet waits at a port that is paused.
    Pause {
        /// The node where it waits.
        node: u32,
        /// The port.
        port: u32,
        /// The class that is paused.
        class: u8,
        /// The node that has asked for the pause.
        by: u32,
        /// When the pause ends; without a time, when that node resumes the class.
        until: Option<Picos>,
    },
    /// The link of the host is down.
    LinkDown {
        /// The host.
        node: u32,
        /// The rule of faults.
        fault: usize,
    },
    /// No path leads to the receiver and back: links are down.
    Unreachable,
    /// The packet waits at a port for another reason: packets before it, other classes, or an order of a stage.
    Queue {
        /// The node.
        node: u32,
        /// The port.
        port: u32,
    },
    /// The packet is on a link.
    OnLink {
        /// The node that it has left.
        node: u32,
        /// The port.
        port: u32,
    },
    /// The packet or its acknowledgement was lost or, of a READ, the request for it.
    Lost {
        /// When the packet is sent or requested again, if that is to happen.
        again: Option<Picos>,
        /// Where the last frame of the flow was lost on a link, if one was.
        last: Option<Loss>,
    },
    /// The window has no room for the packet.
    Window {
        /// Bytes of the window.
        window: u32,
        /// Bytes in flight, as the window counts them.
        in_flight: u64,
    },
    /// The application has not offered all of the packet's payload yet.
    Application {
        /// When it does.
        offered: Picos,
    },
    /// The rate is so low that the packet has not left yet.
    Rate {
        /// The rate in bits per second.
        bits_per_second: u64,
        /// When the packet may leave, if ever.
        due: Option<Picos>,
    },
}

/// A frame that a fault has lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// When.
    pub at: Picos,
    /// The ends of the link, in the direction of the frame.
    pub link: [u32; 2],
    /// The number of the rule.
    pub fault: usize,
}

/// A time for its reader.
struct Shown(Picos);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} us", self.0 as f64 / 1e6)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Handshake => write!(f, "the handshake of its connection is not complete"),
            Self::Pause { node, port, class, by, until } => {
                write!(f, "it waits at port {port} of node {node}, whose class {class} node {by} has paused ")?;
                match until {
                    Some(until) => write!(f, "until {}", Shown(until)),
                    None => write!(f, "and not resumed"),
                }
            }
            Self::LinkDown { node, fault } => write!(f, "the link of node {node} is down by fault {fault}"),
            Self::Unreachable => write!(f, "no path leads to its receiver and back, because links are down"),
            Self::Queue { node, port } => write!(f, "it waits at port {port} of node {node}"),
            Self::OnLink { node, port } => write!(f, "it is on the link at port {port} of node {node}"),
            Self::Lost { again, last } => {
                write!(f, "it is not in the network: it, its acknowledgement or the READ request for it was lost")?;
                if let Some(Loss { at, link: [from, to], fault }) = last {
                    write!(
                        f,
                        "; fault {fault} lost a frame of the flow from node {from} to node {to} at {}",
                        Shown(at)
                    )?;
                }
                match again {
                    Some(again) => write!(f, "; the next attempt is at {}", Shown(again)),
                    None => write!(f, "; there is no other attempt"),
                }
            }
            Self::Window { window, in_flight } => {
                write!(f, "the window of {window} bytes is full: {in_flight} bytes are in flight")
            }
            Self::Application { offered } => write!(f, "its application offers it at {}", Shown(offered)),
            Self::Rate { bits_per_second, due } => {
                write!(f, "the rate is {bits_per_second} bit/s")?;
                match due {
                    Some(due) => write!(f, ", at which it leaves at {}", Shown(due)),
                    None => write!(f, ", at which it never leaves"),
                }
            }
        }
    }
}

impl fmt::Display for StalledFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {}, PSN {}: {}", self.flow, self.psn.get(), self.obstacle)
    }
}

impl Network<'_> {
    /// What has progressed until now: a number that differs from that before if a flow has begun or anything has arrived in order or
    /// was acknowledged.
    pub(super) fn progress_mark(&self) -> u64 {
        let marks = self.senders.iter().map(|sender| {
            let marks = sender.acked_bytes() + u64::from(sender.receiving.expected.get());
            marks + u64::from(sender.has_begun())
        });
        marks.fold(0, u64::wrapping_add)
    }

    /// What blocks each flow that has begun and is not complete, if there is one. `since` is when anything last progressed.
    #[cold]
    pub(super) fn stall(&self, since: Picos) -> Option<Stall> {
        let places = self.data_places();
        let open =
            (0u32..).zip(&self.senders).filter(|(_, sender)| sender.has_begun() && !sender.sending.is_complete());
        let flows: Vec<StalledFlow> = open
            .map(|(flow, sender)| {
                let psn = sender.sending.oldest();
                StalledFlow { flow, psn, obstacle: self.obstacle(flow, places.get(&(flow, psn.get())).copied()) }
            })
            .collect();
        (!flows.is_empty()).then_some(Stall { since, flows })
    }

    /// Where each data packet is: the port, and whether it waits there.
    fn data_places(&self) -> BTreeMap<(u32, u32), (u32, bool)> {
        let mut places = BTreeMap::new();
        for (number, port) in (0u32..).zip(&self.ports) {
            for (packet, waits) in port.packets(&self.slab) {
                let meta = self.slab.meta(packet);
                if meta.kind == Kind::Data
                    && let Some(bth) = wire::bth(self.slab.header(packet), self.data.1.bth_at)
                {
                    places.insert((meta.flow, bth.psn.get()), (number, waits));
                }
            }
        }
        places
    }

    fn obstacle(&self, flow: u32, place: Option<(u32, bool)>) -> Obstacle {
        let sender = &self.senders[flow as usize];
        let spec = &self.specs[flow as usize];
        let at = |port: u32| {
            let node = self.ports[port as usize].node;
            (node, port - self.routes.first_port(node) + 1)
        };
        let paused = |port: u32| {
            let (number, class) = (port, usize::from(spec.class).min(CLASSES - 1));
            let port = &self.ports[port as usize];
            let until = port.paused_until[class];
            let ((node, number), by) = (at(number), self.ports[port.peer as usize].node);
            let until = (until > self.now).then_some((until != NEVER).then_some(until))?;
            Some(Obstacle::Pause { node, port: number, class: spec.class, by, until })
        };
        match place {
            Some((port, true)) => {
                let (node, number) = at(port);
                return paused(port).unwrap_or(Obstacle::Queue { node, port: number });
            }
            Some((port, false)) => {
                let (node, port) = at(port);
                return Obstacle::OnLink { node, port };
            }
            None => {}
        }
        let Place::Host(host) = self.places[spec.source as usize] else { return Obstacle::Handshake };
        let own_port = self.hosts[host as usize].port();
        if let Some(fault) = self.faults.down_by(self.ports[own_port as usize].link) {
            return Obstacle::LinkDown { node: spec.source, fault };
        }
        if !sender.has_path() {
            return Obstacle::Unreachable;
        }
        if !sender.is_open() {
            return Obstacle::Handshake;
        }
        let again = Some(sender.sending.deadline).filter(|&deadline| deadline != NEVER);
        let is_not_requested = sender.sending.is_read() && !sender.sending.has_new();
        if is_not_requested || sender.sending.in_flight().1 > 0 && !sender.sending.has_lost() {
            return Obstacle::Lost { again, last: self.faults.last_loss(flow, &self.ports) };
        }
        let (window, in_flight) = (sender.window(), self.counting.of(sender.sending.in_flight()));
        if let Some(pause) = paused(own_port) {
            pause
        } else if !sender.sending.has_lost() && in_flight >= u64::from(window) {
            Obstacle::Window { window, in_flight }
        } else if let Some(offered) = sender.offered_at(spec.start).filter(|&offered| offered > self.now) {
            Obstacle::Application { offered }
        } else {
            let due = sender.due();
            if due <= self.now {
                let (node, port) = at(own_port);
                return Obstacle::Queue { node, port };
            }
            Obstacle::Rate { bits_per_second: sender.allowed().0, due: (due != NEVER).then_some(due) }
        }
    }
}
