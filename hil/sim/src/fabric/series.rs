//! Series: what queues, links and flows did, sampled at a fixed interval while a run goes.

use super::host::Sender;
use super::port::{CLASSES, Port};
use crate::Picos;
use anyhow::Result;
use std::fmt;

/// A quantity that is sampled: the state at the sample, or the amount in the interval that ends there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Bytes of data that wait in a queue of a switch port.
    Queue,
    /// Bytes of control packets that wait at a switch port: acknowledgements and CNPs that do not wait with data.
    Control,
    /// Bytes of frames that began to leave by a port, without preamble, check sequence and gap: an amount.
    Sent,
    /// Data packets that the stages of a switch port marked with CE: an amount.
    Marks,
    /// Nanoseconds for which PFC paused a class of a port, one or several: an amount.
    Paused,
    /// The rate that a flow's NIC allows it, in bits per second; 0 before it begins and when it is complete.
    Rate,
    /// The window that a flow's NIC allows it, in bytes; 0 if there is none.
    Window,
    /// Bytes of a flow's payload that were acknowledged: an amount.
    Acked,
    /// Congestion notifications that a flow's NIC was given: CNPs, and marks that acknowledgements returned in place of CNPs: an
    /// amount.
    Cnps,
    /// Events in front of the cores of a host or switch, those in service included; of its first port.
    CoreQueue,
}

impl Quantity {
    /// Every quantity.
    pub const ALL: [Self; 10] = [
        Self::Queue,
        Self::Control,
        Self::Sent,
        Self::Marks,
        Self::Paused,
        Self::Rate,
        Self::Window,
        Self::Acked,
        Self::Cnps,
        Self::CoreQueue,
    ];
    const OF_PORT: [Self; 4] = [Self::Control, Self::Sent, Self::Marks, Self::Paused];
    const OF_FLOW: [Self; 4] = [Self::Rate, Self::Window, Self::Acked, Self::Cnps];

    /// Its name in CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue_bytes",
            Self::Control => "control_bytes",
            Self::Sent => "sent_bytes",
            Self::Marks => "marks",
            Self::Paused => "paused_ns",
            Self::Rate => "rate_bps",
            Self::Window => "window_bytes",
            Self::Acked => "acked_bytes",
            Self::Cnps => "cnps",
            Self::CoreQueue => "core_queue_events",
        }
    }

    const fn is_amount(self) -> bool {
        matches!(self, Self::Sent | Self::Marks | Self::Paused | Self::Acked | Self::Cnps)
    }
}

/// What a series is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// A queue: node, port counted from one in the order of the node's links, and class.
    Queue(u32, u32, u8),
    /// A port: node, and port counted from one.
    Port(u32, u32),
    /// A flow, by its number among the flows of the scenario.
    Flow(u32),
}

/// A value of a series. There is one for each state that differs from the state an interval before, which at the beginning is 0,
/// and one for each amount above 0, so that the amounts of a series sum to its total. Displayed as a line of CSV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When it was sampled: a multiple of the interval. A sample at the time of an event sees what was before it.
    pub at: Picos,
    /// What is sampled.
    pub quantity: Quantity,
    /// What it is of.
    pub subject: Subject,
    /// The value.
    pub value: u64,
}

impl Sample {
    /// The first line of CSV.
    pub const CSV_HEADER: &'static str = "time_ns,quantity,node,port,class,flow,value";
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},", self.at / 1_000, self.quantity.name())?;
        match self.subject {
            Subject::Queue(node, port, class) => write!(f, "{node},{port},{class},")?,
            Subject::Port(node, port) => write!(f, "{node},{port},,")?,
            Subject::Flow(flow) => write!(f, ",,,{flow}")?,
        }
        write!(f, ",{}", self.value)
    }
}

/// Receives samples.
pub(super) type Sink<'a> = Box<dyn FnMut(&Sample) -> Result<()> + 'a>;

/// What samples a network.
pub(super) struct Sampler<'a> {
    interval: Picos,
    sink: Sink<'a>,
    /// For each port, its node and number, whether it is a switch's, and what its series last were: the states, or the totals of
    /// amounts. They are those of its classes, and [`Quantity::OF_PORT`].
    ports: Vec<((u32, u32), bool, [u64; CLASSES + 4])>,
    /// The same for each flow: [`Quantity::OF_FLOW`].
    flows: Vec<[u64; 4]>,
    /// The queue of the cores of each host or switch that has any.
    cores: Vec<u64>,
}

impl<'a> Sampler<'a> {
    /// For these ports, which are node and number there, and whether the node is a switch, and so many flows.
    pub(super) fn new(
        interval: Picos,
        ports: impl Iterator<Item = (u32, u32, bool)>,
        flows: usize,
        sink: Sink<'a>,
    ) -> Self {
        let ports = ports.map(|(node, port, is_switch)| ((node, port), is_switch, Default::default())).collect();
        Self { interval, sink, ports, flows: vec![Default::default(); flows], cores: Vec::new() }
    }

    /// Samples the times from `at` up to `now`, between which nothing happened. `cores` are the nodes that have cores, each with the
    /// length of their queue. Returns the next time.
    pub(super) fn sample(
        &mut self,
        mut at: Picos,
        now: Picos,
        (ports, senders): (&[Port], &[Sender]),
        cores: &[(u32, usize)],
    ) -> Result<Picos> {
        while at <= now {
            self.sample_once(at, (ports, senders), cores)?;
            // No further sample has a value, unless a pause is under way.
            let pauses = ports.iter().any(|port| port.paused_until.iter().any(|&until| until > at));
            at += if pauses { 1 } else { (now - at) / self.interval + 1 } * self.interval;
        }
        Ok(at)
    }

    fn sample_once(&mut self, at: Picos, (ports, senders): (&[Port], &[Sender]), cores: &[(u32, usize)]) -> Result<()> {
        let sink = &mut self.sink;
        let mut take = |last: &mut u64, quantity: Quantity, subject, now| {
            let before = std::mem::replace(last, now);
            let value = if quantity.is_amount() { now - before } else { now };
            if now == before { Ok(()) } else { sink(&Sample { at, quantity, subject, value }) }
        };
        for (port, ((node, number), is_switch, last)) in ports.iter().zip(&mut self.ports) {
            let (queues, others) = last.split_at_mut(CLASSES);
            if *is_switch {
                for (class, last) in (0..).zip(queues) {
                    let bytes = port.class_bytes(class);
                    take(last, Quantity::Queue, Subject::Queue(*node, *number, class), bytes.into())?;
                }
            }
            let values = [port.control.bytes.into(), port.sent_bytes, port.marks, port.paused(at) / 1_000];
            for ((quantity, value), last) in Quantity::OF_PORT.into_iter().zip(values).zip(others) {
                take(last, quantity, Subject::Port(*node, *number), value)?;
            }
        }
        self.cores.resize(cores.len(), 0);
        for (&(node, waiting), last) in cores.iter().zip(&mut self.cores) {
            take(last, Quantity::CoreQueue, Subject::Port(node, 1), waiting as u64)?;
        }
        for ((flow, sender), last) in (0..).zip(senders).zip(&mut self.flows) {
            let (rate, window) = sender.allowed();
            let values = [rate, window, sender.acked_bytes(), sender.cnps];
            for ((quantity, value), last) in Quantity::OF_FLOW.into_iter().zip(values).zip(last) {
                take(last, quantity, Subject::Flow(flow), value)?;
            }
        }
        Ok(())
    }
}
