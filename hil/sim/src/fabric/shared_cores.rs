//! Cores that share the queue pairs of a NIC.
//!
//! A host's flows are dealt to the cores in the order in which they are opened, and what it receives by the number of its queue pair,
//! modulo the number of cores. Each core runs an image of its own, with tables, a queue and a clock of its own.

use anyhow::Result;
use cc_core::table::{BindError, Handle};
use cc_core::wire::opcode::Class;
use cc_core::wire::{Pfc, Response, Roce};
use cc_core::{Bytes, Instant, Nanos, Psn, Qpn, Rate};
use cc_np::NotSent;
use cc_rp::TraceValue;
use hil_algorithms::{CoreUse, NicCounters, NicGroup, NicOutput, Received, RxFields};
use hil_sorted::SortedMap;
use std::ops::Range;

/// NICs of several cores each.
pub(super) struct SharedCores {
    /// A NIC for each core: those of a NIC follow one another.
    cores: Box<dyn NicGroup>,
    /// Cores of a NIC.
    count: usize,
    nics: Vec<Shared>,
}

/// Which core of a NIC has which flow.
#[derive(Default)]
struct Shared {
    /// Flows opened so far.
    opened: usize,
    /// By the local queue pairs of flows that are sent.
    core_of: SortedMap<u32, usize>,
}

impl SharedCores {
    pub(super) const fn new(cores: Box<dyn NicGroup>, count: usize) -> Self {
        Self { cores, count, nics: Vec::new() }
    }

    const fn all(&self, nic: usize) -> Range<usize> {
        nic * self.count..(nic + 1) * self.count
    }

    /// The core of a flow, and the flow as that core knows it.
    fn local(&self, nic: usize, flow: Handle) -> (usize, Handle) {
        let slot = usize::from(flow.index());
        (nic * self.count + slot % self.count, in_slot(flow, slot / self.count))
    }

    /// A flow as the NIC knows it.
    fn global(&self, core: usize, flow: Handle) -> Handle {
        in_slot(flow, usize::from(flow.index()) * self.count + core % self.count)
    }

    /// The core that what is received by this local queue pair belongs to.
    const fn receiving(&self, nic: usize, local: Qpn) -> usize {
        nic * self.count + local.get() as usize % self.count
    }
}

/// A flow under the number of another slot, below 2^16.
const fn in_slot(flow: Handle, slot: usize) -> Handle {
    Handle::from_bits((slot as u32) << 16 | (flow.to_bits() & 0xffff))
}

/// The output of a NIC, for one of its cores: its slots are every `count`-th of the NIC.
struct Renumbered<'a> {
    out: &'a mut dyn NicOutput,
    count: usize,
    core: usize,
}

impl NicOutput for Renumbered<'_> {
    fn set(&mut self, slot: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.out.set((usize::from(slot) * self.count + self.core) as u16, rate, window, hold);
    }

    fn send(&mut self, frame: &Response<'_>) -> Result<(), NotSent> {
        self.out.send(frame)
    }

    fn forward(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        self.out.forward(frame)
    }
}

impl NicGroup for SharedCores {
    fn add(&mut self, start: Instant, flows: usize, peers: usize) -> usize {
        for _ in 0..self.count {
            self.cores.add(start, flows, peers);
        }
        self.nics.push(Shared::default());
        self.nics.len() - 1
    }

    fn count_transitions(&mut self, nic: usize) {
        self.all(nic).for_each(|core| self.cores.count_transitions(core));
    }

    fn acknowledges(&self) -> bool {
        self.cores.acknowledges()
    }

    fn open(&mut self, nic: usize, now: Instant, priority: u8, out: &mut dyn NicOutput) -> Option<Handle> {
        let count = self.count;
        let number = self.nics[nic].opened % count;
        let core = nic * count + number;
        let flow = self.cores.open(core, now, priority, &mut Renumbered { out, count, core: number })?;
        self.nics[nic].opened += 1;
        Some(self.global(core, flow))
    }

    fn bind(&mut self, nic: usize, now: Instant, flow: Handle, local: Qpn) -> Result<(), BindError> {
        let (core, flow) = self.local(nic, flow);
        self.nics[nic].core_of.insert(local.get(), core);
        self.cores.bind(core, now, flow, local)
    }

    fn learn_remote(&mut self, nic: usize, now: Instant, flow: Handle, packet: &Roce<'_>, frame: &[u8]) -> bool {
        let (core, flow) = self.local(nic, flow);
        self.cores.learn_remote(core, now, flow, packet, frame)
    }

    fn learn_sender(&mut self, nic: usize, now: Instant, packet: &Roce<'_>, frame: &[u8], remote: Qpn) -> bool {
        let core = self.receiving(nic, packet.bth.dest_qp);
        self.cores.learn_sender(core, now, packet, frame, remote)
    }

    fn close(&mut self, nic: usize, now: Instant, flow: Handle) -> bool {
        let (core, flow) = self.local(nic, flow);
        self.cores.close(core, now, flow)
    }

    fn forget(&mut self, nic: usize, now: Instant, local: Qpn) {
        self.cores.forget(self.receiving(nic, local), now, local);
    }

    fn sent(&mut self, nic: usize, now: Instant, flow: Handle, psn: Psn, bytes: Bytes, out: &mut dyn NicOutput) {
        let (core, flow) = self.local(nic, flow);
        let mut out = Renumbered { out, count: self.count, core: core % self.count };
        self.cores.sent(core, now, flow, psn, bytes, &mut out);
    }

    /// A CNP that names its flow by the receiver's queue pair, as those of switches do, goes to all cores of the NIC.
    fn received(
        &mut self,
        nic: usize,
        now: Instant,
        packet: &Roce<'_>,
        frame: &[u8],
        meta: &RxFields,
        out: &mut dyn NicOutput,
    ) -> Option<Received> {
        let local = packet.bth.dest_qp;
        let to = match (packet.info.class(), self.nics[nic].core_of.get(&local.get())) {
            (Class::Ack | Class::Cnp, Some(&core)) => core..core + 1,
            (Class::Ack | Class::Cnp, None) => self.all(nic),
            _ => {
                let core = self.receiving(nic, local);
                core..core + 1
            }
        };
        for core in to {
            let mut out = Renumbered { out: &mut *out, count: self.count, core: core % self.count };
            self.cores.received(core, now, packet, frame, meta, &mut out);
        }
        None
    }

    fn pause(&mut self, nic: usize, now: Instant, pfc: &Pfc) {
        self.all(nic).for_each(|core| self.cores.pause(core, now, pfc));
    }

    fn timer(&mut self, nic: usize, now: Instant, out: &mut dyn NicOutput) -> Result<Option<u16>> {
        for core in self.all(nic) {
            if self.cores.next_wake(core) <= now {
                self.cores.timer(core, now, &mut Renumbered { out, count: self.count, core: core % self.count })?;
            }
        }
        Ok(None)
    }

    fn next_wake(&self, nic: usize) -> Instant {
        let wakes = self.all(nic).map(|core| self.cores.next_wake(core));
        wakes.min().unwrap_or(Instant::from_nanos(u64::MAX))
    }

    fn departure(&mut self, nic: usize, now: Instant, flow: Handle, bytes: Bytes) -> Option<Nanos> {
        let (core, flow) = self.local(nic, flow);
        self.cores.departure(core, now, flow, bytes)
    }

    fn counters(&self, nic: usize) -> NicCounters {
        let mut sum = NicCounters::default();
        for core in self.all(nic) {
            let NicCounters { rp, np, transitions } = self.cores.counters(core);
            for (all, more) in [(&mut sum.rp, rp), (&mut sum.np, np)] {
                all.resize(more.len(), ("", 0));
                all.iter_mut().zip(more).for_each(|(all, (name, count))| *all = (name, all.1 + count));
            }
            for (all, more) in sum.transitions.iter_mut().zip(transitions) {
                all.resize(more.len(), 0);
                all.iter_mut().zip(more).for_each(|(all, count)| *all += count);
            }
        }
        sum
    }

    fn cores(&self, nic: usize) -> Vec<CoreUse> {
        self.all(nic).flat_map(|core| self.cores.cores(core)).collect()
    }

    fn explain(&self, nic: usize, slot: u16, show: &mut dyn FnMut(TraceValue)) {
        let slot = usize::from(slot);
        self.cores.explain(nic * self.count + slot % self.count, (slot / self.count) as u16, show);
    }
}
