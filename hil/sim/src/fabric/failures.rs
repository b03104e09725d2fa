//! Links that fail and come back, and the routes around them.

use super::calendar::{Class, Event};
use super::faults::Held;
use super::packets::{Kind, PacketId};
use super::port::CLASSES;
use super::spray::Spray;
use super::switch::Notice;
use super::{Network, Place};
use crate::Picos;
use anyhow::Result;
use cc_core::Nanos;

/// A packet that has passed so many nodes goes no further: the hop limit in the headers of all packets.
const HOP_LIMIT: u8 = 64;

impl Network<'_> {
    /// A link fails or comes back, or routes are computed because one did, if the rules want that now.
    #[cold]
    pub(super) fn change_links(&mut self, now: Picos) -> Result<()> {
        for (link, down) in self.faults.changed_links(now) {
            match down {
                Some(fault) => self.take_down(now, link, fault)?,
                None => self.bring_up(now, link)?,
            }
        }
        if self.faults.changes_routes(now) {
            self.reroute()?;
        }
        if let Some(next) = self.faults.next_change(now) {
            self.calendar.add(Event::new(next, Class::Failure, 0));
        }
        Ok(())
    }

    fn ports_of(&self, link: u32) -> Vec<u32> {
        (0u32..).zip(&self.ports).filter(|(_, port)| port.link == link).map(|(number, _)| number).collect()
    }

    /// A link fails: what is on it and what waits at its ports is lost, and pauses of the ports are over. A host keeps its flows.
    fn take_down(&mut self, now: Picos, link: u32, fault: usize) -> Result<()> {
        self.faults.set_down(link, Some(fault));
        let ports = self.ports_of(link);
        ports.iter().for_each(|&port| self.ports[port as usize].take_down());
        for &port in &ports {
            while let Some((packet, _)) = self.ports[port as usize].arrive(Picos::MAX, &self.slab) {
                self.lose(now, port, packet, fault);
            }
            while let Some(held) = self.faults.take_held(Picos::MAX, self.ports[port as usize].peer) {
                match held {
                    Held::Packet(packet) | Held::Cnp(packet) => self.lose(now, port, packet, fault),
                    Held::Notice(_) => self.faults.count(fault, 1),
                }
            }
            let notices = std::mem::take(&mut self.ports[port as usize].notices);
            self.faults.count(fault, notices.len() as u64);
            for class in 0..CLASSES as u8 {
                if now < self.ports[port as usize].paused_until[usize::from(class)] {
                    self.accept_notice(now, port, Notice::Pfc(class, 0))?;
                }
            }
            match self.places[self.ports[port as usize].node as usize] {
                Place::Host(host) => {
                    for packet in self.hosts[host as usize].take_control() {
                        self.lose(now, port, packet, fault);
                    }
                }
                Place::Switch(switch) => {
                    if let Some(packet) = self.switches[switch as usize].take_held(port) {
                        let flow = self.slab.meta(packet).flow;
                        let at = &mut self.ports[port as usize];
                        at.free_scheduled = Picos::MAX;
                        at.hold(flow, now, Nanos::ZERO, &mut self.slab);
                        if self.slab.meta(packet).counted {
                            self.release(now, switch, packet);
                        }
                        self.lose(now, port, packet, fault);
                    }
                    while let Some(packet) = self.ports[port as usize].take_any(now, &mut self.slab) {
                        self.queue_changed(now, port, packet, false);
                        if self.slab.meta(packet).counted {
                            self.release(now, switch, packet);
                        }
                        self.lose(now, port, packet, fault);
                    }
                    self.send_emitted(now, switch)?;
                }
            }
        }
        Ok(())
    }

    /// A link comes back. A switch at its end asks again for the pauses that it wants.
    fn bring_up(&mut self, now: Picos, link: u32) -> Result<()> {
        self.faults.set_down(link, None);
        let ports = self.ports_of(link);
        ports.iter().for_each(|&port| self.ports[port as usize].bring_up(now));
        for port in ports {
            match self.places[self.ports[port as usize].node as usize] {
                Place::Host(host) => self.transmit(now, host)?,
                Place::Switch(switch) => {
                    let number = (port - self.routes.first_port(self.ports[port as usize].node)) as usize;
                    for class in 0..CLASSES as u8 {
                        if self.ports[port as usize].arrived[usize::from(class)] > 0 {
                            self.change_pause(now, switch, number, class);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Routes lead around the links that are down, from now on: those of flows that have begun too.
    fn reroute(&mut self) -> Result<()> {
        let peers = self.ports.iter().map(|port| {
            let leads = !self.faults.is_avoided(port.link);
            if leads { self.ports[port.peer as usize].node } else { port.node }
        });
        self.routes.compute(peers.collect())?;
        self.spray.iter_mut().for_each(Spray::forget);
        for flow in 0..self.senders.len() as u32 {
            if self.senders[flow as usize].has_begun() {
                let paths = self.paths(flow).unwrap_or_default();
                self.senders[flow as usize].set_paths(paths);
            }
        }
        Ok(())
    }

    /// A packet is lost because the link of a port is down.
    pub(super) fn lose(&mut self, now: Picos, port: u32, packet: PacketId, fault: usize) {
        self.faults.count(fault, 1);
        self.lose_counted(now, port, packet, fault);
    }

    /// A packet that has left by a port is lost by a rule that has counted it.
    pub(super) fn lose_counted(&mut self, now: Picos, port: u32, packet: PacketId, fault: usize) {
        self.faults.lose(now, port, fault, self.slab.meta(packet).flow);
        self.totals.lost += 1;
        self.drop_packet(packet);
    }

    /// The port by which a packet leaves a switch of a network whose links fail. Without one, or without its link, the packet is lost.
    #[cold]
    pub(super) fn egress_around(&mut self, now: Picos, switch: u32, packet: PacketId) -> Option<u32> {
        let meta = *self.slab.meta(packet);
        let node = self.switches[switch as usize].node();
        let spec = &self.specs[meta.flow as usize];
        let (to, tuple) = match meta.kind {
            Kind::Data | Kind::Request => (spec.destination, spec.tuple),
            Kind::Ack | Kind::Cnp | Kind::Reply | Kind::ReadRequest => (spec.source, spec.tuple.reversed()),
        };
        // On the path of its flow, unless that was another one when it left.
        let on_path = self.senders[meta.flow as usize].egress_at(meta.kind, meta.hops.into());
        let on_path = on_path.filter(|&port| meta.kind != Kind::Cnp && self.ports[port as usize].node == node);
        let next = on_path.or_else(|| match &mut self.spray {
            Some(spray) if to == spec.destination => spray.next(&self.routes, node, to),
            _ => self.routes.next(node, to, tuple),
        });
        let Some(egress) = next.filter(|_| meta.hops < HOP_LIMIT) else {
            match self.faults.cause_of_no_route() {
                Some((fault, link)) => self.lose(now, self.ports_of(link)[0], packet, fault),
                None => self.drop_packet(packet),
            }
            return None;
        };
        if let Some(fault) = self.faults.down_by(self.ports[egress as usize].link) {
            self.lose(now, egress, packet, fault);
            return None;
        }
        Some(egress)
    }
}
