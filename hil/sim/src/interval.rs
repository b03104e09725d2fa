//! What a run came to in an interval: the figures of its links, queues and flows.

use crate::fabric::{Kind, Levels, Measure, Measured, MeasuredFlowQueue, MeasuredPort, Window};
use crate::input::Input;
use hil_sorted::SortedMap;
use serde::Serialize;
use std::fmt;

/// The figures of an interval.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// Its beginning, in microseconds.
    pub from_us: f64,
    /// Its end.
    pub until_us: f64,
    /// What hosts sent, on the line: frames of data, acknowledgements and CNPs, without preamble, check sequence and gap.
    pub senders: Rates,
    /// What hosts received of payload, in order.
    pub receivers: Rates,
    /// The links that carried anything, each way by itself.
    pub links: Vec<LinkFigures>,
    /// The data queues of switch ports that were not empty all the time.
    pub queues: Vec<QueueFigures>,
    /// The data queues of all ports of a switch together, of switches where they were not empty all the time.
    pub buffers: Vec<QueueFigures>,
    /// The bytes in switches by the ports by which they came in, where there were any.
    pub ingress: Vec<QueueFigures>,
    /// LSCC's pseudo queues, in bytes.
    pub pseudo_queues: Vec<QueueFigures>,
    /// The rates at which they drain, those of the last feedback, in Mb/s.
    pub pseudo_queue_mbps: Vec<QueueFigures>,
    /// The queues of flows at ports whose stages hold flows.
    pub flow_queues: Vec<FlowQueueFigures>,
    /// How equal the rates of flows were.
    pub fairness: Fairness,
}

/// Rates of hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Of all hosts together, in Gb/s.
    pub gbps: f64,
    /// Of each host that has any, by its node number.
    pub by_host: SortedMap<u32, f64>,
}

/// A link, one way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkFigures {
    /// The node that it leaves.
    pub node: u32,
    /// The port there, counted from one.
    pub port: u32,
    /// The node that it enters.
    pub to: u32,
    /// The share of the time in which it carried frames: preamble, check sequence and gap are part of them.
    pub utilisation: f64,
    /// That share of its speed.
    pub gbps: f64,
    /// The share of the time in which PFC paused a class of its data, one or several.
    pub paused: f64,
    /// Data packets that its port marked with CE.
    pub marks: u64,
    /// Data packets that its port marked as undetermined, with ECT(1): see TCD.
    pub undetermined: u64,
}

/// Bytes that wait, by the time for which they do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct QueueFigures {
    /// The switch.
    pub node: u32,
    /// The port, counted from one; absent for a whole switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// The mean over time, in bytes.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The least.
    pub least: u32,
    /// Not exceeded for half of the time.
    pub p50: u64,
    /// Not exceeded for 99 % of the time.
    pub p99: u64,
    /// Not exceeded for 99.9 % of the time.
    pub p999: u64,
    /// The most.
    pub max: u32,
    /// The share of the time in which nothing waits.
    pub empty: f64,
}

/// The queue of a flow: the bytes of the flow that wait at a port.
#[derive(Clone, Debug, Serialize)]
pub struct FlowQueueFigures {
    /// The flow.
    pub flow: u32,
    /// Its bytes.
    #[serde(flatten)]
    pub queue: QueueFigures,
    /// How long a packet waits, in microseconds, by the mean bytes and the rate at which they left; absent if nothing left.
    pub delay_us: Option<f64>,
    /// The means of the windows, in bytes.
    pub windows: Vec<f64>,
}

/// How equal the rates of flows were, in windows: of the flows that were open all through a window, by the payload received.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fairness {
    /// The length of a window, in microseconds.
    pub window_us: f64,
    /// Windows in which flows were open and received anything.
    pub windows: u64,
    /// Jain's index, the mean over windows; absent if there is no window.
    pub jain_mean: Option<f64>,
    /// The least of a window.
    pub jain_least: Option<f64>,
    /// The share of the mean within which rates count as settled.
    pub within: f64,
    /// The time from the beginning of the interval to that of the first window from which on the rate of each flow is within this
    /// share of the mean of the window, in microseconds; absent if there is none in which flows were open and received anything.
    pub settled_us: Option<f64>,
}

/// Microseconds of so many picoseconds.
pub(crate) fn micros(picos: u64) -> f64 {
    picos as f64 / 1e6
}

impl Interval {
    /// The figures of what was measured.
    pub(crate) fn of(input: &Input, measure: &Measure, measured: &Measured) -> Self {
        let time = (measure.until - measure.from) as f64;
        // Bytes in picoseconds.
        let gbps = |bytes: u64| bytes as f64 * 8e3 / time;
        let is_host = |node: u32| input.topology.nodes[node as usize] == Kind::Host;
        let rates = |bytes: SortedMap<u32, u64>| Rates {
            gbps: gbps(bytes.values().sum()),
            by_host: bytes
                .into_iter()
                .filter(|&(_, bytes)| bytes > 0)
                .map(|(host, bytes)| (host, gbps(bytes)))
                .collect(),
        };
        let sent = measured.ports.iter().filter(|port| is_host(port.node)).map(|port| (port.node, port.sent_bytes));
        let mut received = SortedMap::new();
        for (flow, bytes) in input.flows.iter().zip(&measured.received) {
            *received.or_insert(flow.destination, 0) += bytes;
        }
        let link = |port: &MeasuredPort| {
            let utilisation = port.busy as f64 / time;
            LinkFigures {
                node: port.node,
                port: port.port,
                to: port.peer,
                utilisation,
                gbps: utilisation * port.bits_per_second as f64 / 1e9,
                paused: port.paused as f64 / time,
                marks: port.marks,
                undetermined: port.undetermined,
            }
        };
        let used = measured.ports.iter().filter(|port| port.busy > 0 || port.paused > 0);
        let of_ports = |levels: fn(&MeasuredPort) -> Option<&Levels>| {
            let figures = |port: &MeasuredPort| QueueFigures::of(port.node, Some(port.port), levels(port)?);
            measured.ports.iter().filter_map(figures).collect()
        };
        Self {
            from_us: micros(measure.from),
            until_us: micros(measure.until),
            senders: rates(sent.collect()),
            receivers: rates(received),
            links: used.map(link).collect(),
            queues: of_ports(|port| port.queue.as_ref()),
            buffers: measured
                .buffers
                .iter()
                .filter_map(|(node, levels)| QueueFigures::of(*node, None, levels))
                .collect(),
            ingress: of_ports(|port| port.ingress.as_ref()),
            pseudo_queues: of_ports(|port| Some(&port.pseudo_queue.as_ref()?.bytes)),
            pseudo_queue_mbps: of_ports(|port| Some(&port.pseudo_queue.as_ref()?.mbps)),
            flow_queues: measured.flow_queues.iter().filter_map(|queue| FlowQueueFigures::of(measure, queue)).collect(),
            fairness: Fairness::of(measure, &measured.windows),
        }
    }
}

impl QueueFigures {
    fn of(node: u32, port: Option<u32>, levels: &Levels) -> Option<Self> {
        (levels.most() > 0).then(|| Self {
            node,
            port,
            mean: levels.mean(),
            deviation: levels.deviation(),
            least: levels.least(),
            p50: levels.quantile(0.5),
            p99: levels.quantile(0.99),
            p999: levels.quantile(0.999),
            max: levels.most(),
            empty: levels.share(0..=0),
        })
    }
}

impl FlowQueueFigures {
    fn of(measure: &Measure, queue: &MeasuredFlowQueue) -> Option<Self> {
        Some(Self {
            flow: queue.flow,
            queue: QueueFigures::of(queue.node, Some(queue.port), &queue.levels)?,
            delay_us: queue.delay().map(|picos| picos / 1e6),
            windows: queue.windows.iter().map(|&integral| integral as f64 / measure.window as f64).collect(),
        })
    }
}

impl Fairness {
    fn of(measure: &Measure, windows: &[Window]) -> Self {
        let indices: Vec<f64> = windows.iter().filter_map(Window::jain).collect();
        let unsettled = windows.iter().rposition(|window| !window.is_within(measure.within));
        let first = unsettled.map_or(0, |last| last + 1);
        Self {
            window_us: micros(measure.window),
            windows: indices.len() as u64,
            jain_mean: (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64),
            jain_least: indices.iter().copied().reduce(f64::min),
            within: measure.within,
            settled_us: windows[first..]
                .iter()
                .find(|window| window.jain().is_some())
                .map(|window| micros(window.from - measure.from)),
        }
    }
}

/// Rows of a table in text; JSON has all.
const ROWS: usize = 5;

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from_us, until_us, senders, receivers, fairness, .. } = self;
        writeln!(
            f,
            "measured    from {from_us:.3} to {until_us:.3} us: hosts send {:.3} Gb/s of all frames, and receive {:.3} Gb/s of payload",
            senders.gbps, receivers.gbps
        )?;
        let Fairness { window_us, windows, jain_mean, jain_least, within, settled_us } = fairness;
        if let (Some(mean), Some(least)) = (jain_mean, jain_least) {
            write!(
                f,
                "  fairness         Jain {mean:.4} mean, {least:.4} least of {windows} windows of {window_us:.3} us; "
            )?;
            let percent = within * 100.0;
            match settled_us {
                Some(settled) => writeln!(f, "within {percent:.0} % of the mean after {settled:.3} us")?,
                None => writeln!(f, "not within {percent:.0} % of the mean")?,
            }
        }
        let mut links: Vec<&LinkFigures> = self.links.iter().collect();
        links.sort_by(|one, other| other.utilisation.total_cmp(&one.utilisation));
        writeln!(f, "  busiest links    utilisation      Gb/s    paused     marks")?;
        for LinkFigures { node, port, to, utilisation, gbps, paused, marks, .. } in links.into_iter().take(ROWS) {
            let name = format!("{node}:{port} to {to}");
            writeln!(f, "  {name:<16} {utilisation:>11.4} {gbps:>9.3} {paused:>9.4} {marks:>9}")?;
        }
        let mut queues: Vec<&QueueFigures> = self.queues.iter().collect();
        queues.sort_by(|one, other| other.mean.total_cmp(&one.mean));
        if !queues.is_empty() {
            writeln!(f, "  longest queues   mean bytes       p50       p99     p99.9       max     empty")?;
        }
        for QueueFigures { node, port, mean, p50, p99, p999, max, empty, .. } in queues.into_iter().take(ROWS) {
            let name = format!("{node}:{}", port.unwrap_or_default());
            writeln!(f, "  {name:<16} {mean:>10.0} {p50:>9} {p99:>9} {p999:>9} {max:>9} {empty:>9.4}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows with 9 and 11, 5 and 15, 9 and 11, and twice 10 and 10 bytes: they are within 10 % of their mean from the third window on,
    /// and with a last window that is not, never.
    #[test]
    fn rates_settle_at_the_first_window_from_which_all_are_near_the_mean() {
        let measure = Measure { from: 7_000_000, until: 12_000_000, window: 1_000_000, within: 0.1 };
        let windows =
            [(9, 11), (5, 15), (9, 11), (10, 10), (10, 10)].iter().zip(7u64..).map(|(&(least, most), at)| Window {
                from: at * 1_000_000,
                flows: 2,
                bytes: least + most,
                squares: u128::from(least * least + most * most),
                least,
                most,
            });
        let mut windows: Vec<Window> = windows.collect();
        let fairness = Fairness::of(&measure, &windows);
        assert_eq!((fairness.settled_us, fairness.windows, fairness.jain_least), (Some(2.0), 5, Some(0.8)));
        windows.push(Window { from: 12_000_000, ..windows[1] });
        assert_eq!(Fairness::of(&measure, &windows).settled_us, None);
        let idle = Window { from: 13_000_000, flows: 0, bytes: 0, squares: 0, least: 0, most: 0 };
        windows.push(idle);
        assert_eq!(Fairness::of(&measure, &windows).settled_us, None, "without flows nothing has settled");
        assert_eq!(Fairness::of(&measure, &[idle]).settled_us, None);
    }
}
