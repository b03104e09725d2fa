//! What a value is in a run.

use anyhow::{Context, Result, anyhow, bail};
use hil_sim::fabric::{Kind, Levels, MeasuredFlowQueue, MeasuredPort, Totals};
use hil_sim::input::Input;
use hil_sim::scenario::{Table, Value, count, number, text};
use hil_sim::source::Source;
use hil_sim::summary;
use toml::de::DeValue;

/// What is measured in a run. Links, queues and rates are those of the scenario's `[measure]`.
#[derive(Clone, Debug)]
pub(crate) enum Measure {
    /// A number of the summary that `hil sim --format json` prints, by its JSON pointer; of a list its length.
    Summary(String),
    /// A link, one way.
    Link {
        /// The node that it leaves.
        from: String,
        /// The node that it enters.
        to: String,
        /// Which figure.
        figure: LinkFigure,
    },
    /// The share of time in which PFC paused the links of the hosts that send, the mean over them.
    SendersPaused {},
    /// The data queue of a switch port, in bytes.
    Queue {
        /// The switch.
        at: String,
        /// The node at the other end of its link.
        to: String,
        /// Which figure.
        figure: Level,
    },
    /// The data queues of all ports of a switch together, in bytes.
    Buffer {
        /// The switch.
        at: String,
        /// Which figure.
        figure: Level,
    },
    /// The bytes in a switch that came in by a port.
    Ingress {
        /// The switch.
        at: String,
        /// The node at the other end of the port's link.
        from: String,
        /// Which figure.
        figure: Level,
    },
    /// LSCC's pseudo queue at a port, in bytes.
    PseudoQueue {
        /// The switch.
        at: String,
        /// The node at the other end of its link.
        to: String,
        /// Which figure.
        figure: Level,
    },
    /// The mean rate of the flows with a tag over that of the flows with another.
    RateRatio {
        /// The tag of the numerator.
        of: String,
        /// The tag of the denominator.
        to: String,
    },
    /// The queues of flows at a switch whose stages hold flows.
    FlowQueues {
        /// The switch.
        at: String,
        /// What of each queue.
        of: FlowLevel,
        /// Of these numbers.
        figure: Statistic,
    },
    /// The standard deviation of the bytes of the queues of flows at a switch, all of them at all times.
    FlowQueuesDeviation {
        /// The switch.
        at: String,
    },
    /// The bytes of all queues of flows at a switch together, the means of the windows of the interval.
    FlowQueuesTogether {
        /// The switch.
        at: String,
        /// Of the windows' means.
        figure: Statistic,
    },
    /// The payload that the receivers of flows got in order, in Gb/s.
    Rates {
        /// The flows: those with this tag, without it all.
        tag: Option<String>,
        /// Of their rates.
        figure: Statistic,
    },
    /// The times of completion of flows, in microseconds.
    Fct(Completed),
    /// As `fct`, but the time of a flow over its time in an empty network.
    Slowdown(Completed),
    /// From the beginning of the measured interval to the end of the last window in which Jain's index of the rates of the open flows
    /// is below this one, in milliseconds; 0 without such a window.
    UnfairUntil {
        /// Jain's index.
        jain: f64,
    },
}

/// A figure of completed flows.
#[derive(Clone, Debug)]
pub(crate) struct Completed {
    /// The flows: those with this tag, without it all.
    tag: Option<String>,
    /// Those of at least so many bytes.
    from: u64,
    /// Those of fewer bytes.
    below: Option<u64>,
    /// Of their numbers.
    figure: Statistic,
}

/// A figure of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkFigure {
    /// The share of time in which it carries frames, preamble and gap included.
    Utilisation,
    /// That share of its speed.
    Gbps,
    /// The share of time in which PFC paused its data.
    Paused,
    /// Data packets that its port marked with CE.
    Marks,
    /// Data packets that its port marked as undetermined (TCD).
    Undetermined,
}

/// A figure of what changes over time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// The mean over time.
    Mean,
    /// The most.
    Max,
    /// What is not exceeded for this share of time.
    Quantile(f64),
    /// The share of time in which it is in this range, with both ends.
    Share(u64, u64),
}

/// A figure of the queue of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlowLevel {
    /// The mean over time, in bytes.
    Mean,
    /// The standard deviation over time, in bytes.
    Deviation,
    /// The least, in bytes.
    Least,
    /// How long a packet waits, in microseconds: the mean bytes over the rate at which they leave.
    Delay,
}

/// A figure of some numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Statistic {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The least.
    Least,
    /// The most.
    Most,
    /// Jain's index.
    Jain,
    /// What this share of them does not exceed: the smallest of them for which that is so.
    Quantile(f64),
}

impl Measure {
    /// What a value of an experiment's file says is to be measured.
    ///
    /// # Errors
    /// It is not a table with one key, the name of a measure, or its keys are not those of the measure; with its place.
    pub(crate) fn of(source: &Source, value: &Value<'_>) -> Result<Self> {
        let expected = |message: &str| source.error(&value.span(), message);
        let one = value.get_ref().as_table().filter(|entries| entries.len() == 1);
        let (name, of) = one.and_then(|entries| entries.iter().next()).ok_or_else(|| {
            expected("expected a measure: a table with one key, such as { rates = { figure = \"sum\" } }")
        })?;
        if name.get_ref() == "summary" {
            let pointer = text(of.get_ref()).ok_or_else(|| expected("`summary`: expected a JSON pointer in quotes"))?;
            return Ok(Self::Summary(pointer.to_owned()));
        }
        let table = Table::of(source, of)?;
        let text = |key| table.need_text(key);
        let measure = match name.get_ref().as_ref() {
            "link" => {
                Self::Link { from: text("from")?, to: text("to")?, figure: table.need_one_of("figure", &LINK_FIGURES)? }
            }
            "senders-paused" => Self::SendersPaused {},
            "queue" => Self::Queue { at: text("at")?, to: text("to")?, figure: Level::of_table(&table)? },
            "buffer" => Self::Buffer { at: text("at")?, figure: Level::of_table(&table)? },
            "ingress" => Self::Ingress { at: text("at")?, from: text("from")?, figure: Level::of_table(&table)? },
            "pseudo-queue" => Self::PseudoQueue { at: text("at")?, to: text("to")?, figure: Level::of_table(&table)? },
            "rate-ratio" => Self::RateRatio { of: text("of")?, to: text("to")? },
            "flow-queues" => Self::FlowQueues {
                at: text("at")?,
                of: table.need_one_of("of", &FLOW_LEVELS)?,
                figure: Statistic::of_table(&table)?,
            },
            "flow-queues-deviation" => Self::FlowQueuesDeviation { at: text("at")? },
            "flow-queues-together" => {
                Self::FlowQueuesTogether { at: text("at")?, figure: Statistic::of_table(&table)? }
            }
            "rates" => Self::Rates { tag: table.text("tag")?, figure: Statistic::of_table(&table)? },
            "fct" => Self::Fct(Completed::of_table(&table)?),
            "slowdown" => Self::Slowdown(Completed::of_table(&table)?),
            "unfair-until" => Self::UnfairUntil { jain: table.need("jain", "Jain's index", number)? },
            other => {
                let message = format!("unknown measure `{other}`: expected one of {}", MEASURES.join(", "));
                return Err(source.error(&name.span(), &message));
            }
        };
        table.finish()?;
        Ok(measure)
    }
}

/// The names of the measures.
const MEASURES: [&str; 15] = [
    "summary",
    "link",
    "senders-paused",
    "queue",
    "buffer",
    "ingress",
    "pseudo-queue",
    "rate-ratio",
    "flow-queues",
    "flow-queues-deviation",
    "flow-queues-together",
    "rates",
    "fct",
    "slowdown",
    "unfair-until",
];

const LINK_FIGURES: [(&str, LinkFigure); 5] = [
    ("utilisation", LinkFigure::Utilisation),
    ("gbps", LinkFigure::Gbps),
    ("paused", LinkFigure::Paused),
    ("marks", LinkFigure::Marks),
    ("undetermined", LinkFigure::Undetermined),
];

const FLOW_LEVELS: [(&str, FlowLevel); 4] = [
    ("mean", FlowLevel::Mean),
    ("deviation", FlowLevel::Deviation),
    ("least", FlowLevel::Least),
    ("delay", FlowLevel::Delay),
];

/// The name of a figure and its argument: a figure is a word, or a table with one key.
fn figure<'a>(value: &'a DeValue<'_>) -> Option<(&'a str, Option<&'a DeValue<'a>>)> {
    if let Some(name) = text(value) {
        return Some((name, None));
    }
    let (name, argument) = value.as_table().filter(|entries| entries.len() == 1)?.iter().next()?;
    Some((name.get_ref(), Some(argument.get_ref())))
}

impl Level {
    fn of_table(table: &Table<'_>) -> Result<Self> {
        table.need("figure", "mean, max, { quantile = SHARE } or { share = [FROM, TO] }", |value| {
            Some(match figure(value)? {
                ("mean", None) => Self::Mean,
                ("max", None) => Self::Max,
                ("quantile", Some(share)) => Self::Quantile(number(share)?),
                ("share", Some(range)) => {
                    let [from, to] = &range.as_array()?[..] else { return None };
                    Self::Share(count(from.get_ref(), 0, u64::MAX)?, count(to.get_ref(), 0, u64::MAX)?)
                }
                _ => return None,
            })
        })
    }
}

impl Completed {
    fn of_table(table: &Table<'_>) -> Result<Self> {
        let bytes = |key| table.get(key, "a number of bytes", |value| count(value, 0, u64::MAX));
        Ok(Self {
            tag: table.text("tag")?,
            from: bytes("from")?.unwrap_or(0),
            below: bytes("below")?,
            figure: Statistic::of_table(table)?,
        })
    }
}

impl Statistic {
    fn of_table(table: &Table<'_>) -> Result<Self> {
        table.need("figure", "sum, mean, least, most, jain or { quantile = SHARE }", |value| {
            Some(match figure(value)? {
                ("sum", None) => Self::Sum,
                ("mean", None) => Self::Mean,
                ("least", None) => Self::Least,
                ("most", None) => Self::Most,
                ("jain", None) => Self::Jain,
                ("quantile", Some(share)) => Self::Quantile(number(share)?),
                _ => return None,
            })
        })
    }

    fn of(self, mut numbers: Vec<f64>) -> Result<f64> {
        if numbers.is_empty() {
            bail!("there is no flow that it could be measured of");
        }
        numbers.sort_by(f64::total_cmp);
        let count = numbers.len() as f64;
        let sum: f64 = numbers.iter().sum();
        Ok(match self {
            Self::Sum => sum,
            Self::Mean => sum / count,
            Self::Least => numbers[0],
            Self::Most => numbers[numbers.len() - 1],
            Self::Jain => sum * sum / (count * numbers.iter().map(|number| number * number).sum::<f64>()),
            Self::Quantile(share) => numbers[((share * count).ceil() as usize).clamp(1, numbers.len()) - 1],
        })
    }
}

impl FlowLevel {
    fn of(self, queue: &MeasuredFlowQueue) -> Result<f64> {
        Ok(match self {
            Self::Mean => queue.levels.mean(),
            Self::Deviation => queue.levels.deviation(),
            Self::Least => queue.levels.least().into(),
            Self::Delay => {
                queue.delay().with_context(|| format!("nothing left the queue of flow {}", queue.flow))? / 1e6
            }
        })
    }
}

impl Level {
    fn of(self, levels: &Levels) -> f64 {
        match self {
            Self::Mean => levels.mean(),
            Self::Max => levels.most().into(),
            Self::Quantile(share) => levels.quantile(share) as f64,
            Self::Share(from, to) => levels.share(from..=to),
        }
    }
}

/// The number of a node by its kind and its number among those of its kind, such as `dci:1`.
pub(crate) fn node(input: &Input, name: &str) -> Result<u32> {
    let expected = || {
        let kinds = Kind::ALL.map(Kind::name).join(", ");
        anyhow!("no node {name:?}: expected a kind and a number from 0, such as host:0; kinds are {kinds}")
    };
    let (kind, number) = name.split_once(':').with_context(expected)?;
    let number: usize = number.parse().ok().with_context(expected)?;
    let of_kind = input.topology.nodes.iter().enumerate().filter(|(_, node)| node.name() == kind);
    of_kind.map(|(node, _)| node as u32).nth(number).with_context(expected)
}

/// A finished run.
pub(crate) struct Finished<'a> {
    pub(crate) input: &'a Input,
    pub(crate) totals: &'a Totals,
    /// Its summary.
    pub(crate) summary: &'a serde_json::Value,
}

impl Finished<'_> {
    /// The value of a measure.
    pub(crate) fn value(&self, measure: &Measure) -> Result<f64> {
        match measure {
            Measure::Summary(pointer) => match self.summary.pointer(pointer) {
                Some(serde_json::Value::Array(elements)) => Ok(elements.len() as f64),
                Some(number) => number.as_f64().with_context(|| format!("the summary's {pointer} is {number}")),
                None => bail!("the summary has no {pointer}"),
            },
            Measure::Link { from, to, figure } => {
                let port = self.port(from, to)?;
                let time = self.time()?;
                let busy = port.busy as f64 / time;
                Ok(match figure {
                    LinkFigure::Utilisation => busy,
                    LinkFigure::Gbps => busy * port.bits_per_second as f64 / 1e9,
                    LinkFigure::Paused => port.paused as f64 / time,
                    LinkFigure::Marks => port.marks as f64,
                    LinkFigure::Undetermined => port.undetermined as f64,
                })
            }
            Measure::SendersPaused {} => {
                let measured = &self.measured()?.ports;
                let mut senders: Vec<_> = self.input.flows.iter().map(|flow| flow.source).collect();
                senders.sort_unstable();
                senders.dedup();
                let time = self.time()?;
                let paused = measured.iter().filter(|port| senders.binary_search(&port.node).is_ok());
                Statistic::Mean.of(paused.map(|port| port.paused as f64 / time).collect())
            }
            Measure::Queue { at, to, figure } => {
                let queue = self.port(at, to)?.queue.as_ref();
                Ok(figure.of(queue.with_context(|| format!("{at} is not a switch"))?))
            }
            Measure::Ingress { at, from, figure } => {
                let ingress = self.port(at, from)?.ingress.as_ref();
                Ok(figure.of(ingress.with_context(|| format!("{at} is not a switch"))?))
            }
            Measure::PseudoQueue { at, to, figure } => {
                let queue = self.port(at, to)?.pseudo_queue.as_ref();
                Ok(figure.of(&queue.with_context(|| format!("no stage of {at} keeps a pseudo queue to {to}"))?.bytes))
            }
            Measure::FlowQueues { at, of, figure } => {
                figure.of(self.flow_queues(at)?.map(|queue| of.of(queue)).collect::<Result<_>>()?)
            }
            Measure::FlowQueuesDeviation { at } => {
                let square = |queue: &MeasuredFlowQueue| queue.levels.deviation().powi(2) + queue.levels.mean().powi(2);
                let squares = Statistic::Mean.of(self.flow_queues(at)?.map(square).collect())?;
                let mean = Statistic::Mean.of(self.flow_queues(at)?.map(|queue| queue.levels.mean()).collect())?;
                Ok((squares - mean * mean).max(0.0).sqrt())
            }
            Measure::FlowQueuesTogether { at, figure } => {
                let window = self.input.measure.context(NOT_MEASURED)?.window as f64;
                let mut means: Vec<f64> = Vec::new();
                for queue in self.flow_queues(at)? {
                    means.resize(queue.windows.len(), 0.0);
                    means.iter_mut().zip(&queue.windows).for_each(|(sum, &bytes)| *sum += bytes as f64 / window);
                }
                figure.of(means)
            }
            Measure::Buffer { at, figure } => {
                let node = node(self.input, at)?;
                let buffer = self.measured()?.buffers.iter().find(|(switch, _)| *switch == node);
                Ok(figure.of(&buffer.with_context(|| format!("{at} is not a switch"))?.1))
            }
            Measure::Rates { tag, figure } => figure.of(self.rates(tag.as_deref())?),
            Measure::RateRatio { of, to } => {
                let mean = |tag: &String| Statistic::Mean.of(self.rates(Some(tag))?);
                Ok(mean(of)? / mean(to)?)
            }
            Measure::Fct(of) => {
                let times = self.totals.completions.iter().map(|done| done.time as f64 / 1e6);
                self.completed(of, times)
            }
            Measure::Slowdown(of) => {
                let slowdowns = summary::slowdowns(self.input, self.totals);
                self.completed(of, slowdowns.into_iter().map(|(_, slowdown)| slowdown))
            }
            Measure::UnfairUntil { jain } => {
                let measure = self.input.measure.context(NOT_MEASURED)?;
                let windows = &self.measured()?.windows;
                let unfair = windows.iter().rfind(|window| window.jain().is_some_and(|index| index < *jain));
                let end = unfair.map(|window| window.from + measure.window - measure.from);
                Ok(end.unwrap_or(0) as f64 / 1e9)
            }
        }
    }

    /// The rates of the flows with a tag, or of all, in Gb/s of payload.
    fn rates(&self, tag: Option<&str>) -> Result<Vec<f64>> {
        let has_tag = self.tagged(tag)?;
        let time = self.time()?;
        let received = self.measured()?.received.iter().zip(0u32..);
        Ok(received.filter(|&(_, flow)| has_tag(flow)).map(|(&bytes, _)| bytes as f64 * 8e3 / time).collect())
    }

    fn measured(&self) -> Result<&hil_sim::fabric::Measured> {
        self.totals.measured.as_ref().context(NOT_MEASURED)
    }

    /// The queues of flows at a switch.
    fn flow_queues(&self, at: &str) -> Result<impl Iterator<Item = &MeasuredFlowQueue>> {
        let node = node(self.input, at)?;
        Ok(self.measured()?.flow_queues.iter().filter(move |queue| queue.node == node))
    }

    /// The length of the measured interval, in picoseconds.
    fn time(&self) -> Result<f64> {
        let measure = self.input.measure.context(NOT_MEASURED)?;
        Ok((measure.until - measure.from) as f64)
    }

    fn port(&self, from: &str, to: &str) -> Result<&MeasuredPort> {
        let [node, peer] = [node(self.input, from)?, node(self.input, to)?];
        let port = self.measured()?.ports.iter().find(|port| (port.node, port.peer) == (node, peer));
        port.with_context(|| format!("no link from {from} to {to}"))
    }

    /// Whether a flow has this tag; without one every flow has.
    fn tagged(&self, tag: Option<&str>) -> Result<impl Fn(u32) -> bool> {
        let tags = &self.input.tags;
        let number = |tag| {
            let number = tags.names.iter().position(|name| name == tag);
            number.with_context(|| format!("no workload has the tag {tag:?}"))
        };
        let tag = tag.map(number).transpose()?.map(|number| number as u16);
        Ok(move |flow| tag.is_none() || tags.of(flow) == tag)
    }

    /// A figure of the numbers of completed flows, of which there is one for each.
    fn completed(&self, of: &Completed, numbers: impl Iterator<Item = f64>) -> Result<f64> {
        let has_tag = self.tagged(of.tag.as_deref())?;
        let sizes = of.from..of.below.unwrap_or(u64::MAX);
        let flows = self.totals.completions.iter().zip(numbers);
        let chosen = flows.filter(|(done, _)| has_tag(done.flow) && sizes.contains(&done.bytes));
        of.figure.of(chosen.map(|(_, number)| number).collect())
    }
}

const NOT_MEASURED: &str = "the scenario measures nothing: it has no [measure]";
