//! The traits of a congestion point: a stage on all queues of a switch, and a stage of one queue.

use crate::{Event, Kinds, PeerMessage, Queue, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::Words;
use cc_core::table::Storage;
use cc_core::wire::Roce;
use cc_core::{Bytes, CnpBody, Hop, Instant, Link, Nanos, State, Zeroed};
use core::fmt;

/// What a stage can call while it handles an event: to send frames of its own, and to read the switch's queues.
pub trait Emit {
    /// Sends a CNP with this body to the sender of the packet `about`. The kinds of CNP that bring telemetry
    /// (`SwitchInt`, `DirectInt`) bring the records that this packet carries, and `hop` as one more; no CNP is sent where
    /// the packet has no telemetry, or no room for that record.
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>);

    /// Sends a message to the other end of the long link at this queue.
    fn peer(&mut self, at: Queue, message: PeerMessage);

    /// Bytes that the queue holds now.
    fn queued(&self, at: Queue) -> Bytes;
}

/// A stage on all queues of a switch: what marks, measures, drops, pauses or rewrites the packets that pass them.
///
/// Stages of a [`Chain`](crate::Chain) see the same events, and their verdicts are joined, so that their order makes no
/// difference.
pub trait Stage: Zeroed {
    /// What the user sets.
    type Settings: Settings;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first. A chain has none: its stages have.
    const PRESETS: &'static [Preset<Self::Settings>];
    /// The settings by default: the first preset.
    const DEFAULT: Self::Settings = first(Self::PRESETS);
    /// The kinds of events that it is given. Others change nothing and have the verdict [`Verdict::PASS`]. Pauses are also
    /// counted where a stage takes them, and so those take them that mark or measure the packets of a queue.
    const TAKES: Kinds;
    /// It reads the headers of packets.
    const READS_HEADERS: bool = false;
    /// It rewrites packets, and so sees the marks of all other stages. At most one stage of a chain does: two would undo
    /// each other.
    const REWRITES: bool = false;
    /// It decides whether there is room for a packet that arrives. It handles the event first, and a packet that it drops does
    /// not reach the other stages. At most one stage of a chain does this: when a second one drops a packet, the first has
    /// already counted it as taken.
    const ADMITS: bool = false;
    /// It pauses the neighbours: see [`Stage::pausing`].
    const PAUSES: bool = false;
    /// It has deadlines: see [`Stage::next_wake`].
    const TIMED: bool = false;
    /// Its sizes in bytes.
    const SIZES: StageSizes;

    /// The kinds of events that it is given: [`Stage::TAKES`], or for a list made at run time, those of its stages.
    #[inline(always)]
    fn takes(&self) -> Kinds {
        Self::TAKES
    }

    /// Whether it reads the headers of packets: [`Stage::READS_HEADERS`], or for a list made at run time, what its stages do.
    #[inline(always)]
    fn reads_headers(&self) -> bool {
        Self::READS_HEADERS
    }

    /// Makes room for this number of queues, where they are kept on the heap; all of them are zeroed.
    fn make_room(&mut self, queues: usize);

    /// Sets up one queue, or changes its settings and keeps its state. Nothing happens at a queue that is not configured.
    /// Equal seeds make equal verdicts; the queues of one seed draw different random numbers.
    ///
    /// # Errors
    /// A setting out of range or wrong on this link, or no such queue.
    fn configure(
        &mut self,
        now: Instant,
        at: Queue,
        link: &Link,
        settings: &Self::Settings,
        seed: u64,
    ) -> Result<(), ConfigureError>;

    /// Takes an event.
    fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl Emit) -> Verdict;

    /// Lets time pass at a queue: called for each queue when the time of [`Stage::next_wake`] has come, and at least every
    /// [`REST`]. Calls in between change nothing. Returns the next wake, so that the queue is looked up once.
    #[inline]
    fn wake(&mut self, now: Instant, at: Queue, out: &mut impl Emit) -> Option<Nanos> {
        let _ = (now, at, out);
        None
    }

    /// How long after `now` the queue is to be woken next; `None` where it can wait for [`REST`].
    #[inline]
    fn next_wake(&self, now: Instant, at: Queue) -> Option<Nanos> {
        let _ = (now, at);
        None
    }

    /// The pause that this stage wants the neighbour at this port and class to be in, in quanta; zero for none. This is a
    /// level, not an event: the switch reads it after each event, joins the stages' by the longest, and sends PFC frames.
    #[inline]
    fn pausing(&self, at: Queue) -> u16 {
        let _ = at;
        0
    }
}

/// The first of a stage's presets.
#[expect(clippy::panic, reason = "evaluated by the compiler only: a stage without presets does not build")]
const fn first<S: Copy>(presets: &[Preset<S>]) -> S {
    match presets {
        [first, ..] => first.values,
        [] => panic!("a stage has at least one preset"),
    }
}

/// The longest time between two calls of [`Stage::wake`], 0.5 s: 32-bit stamps in nanoseconds wrap after 4.3 s.
pub const REST: Nanos = Nanos::new(500_000_000);

/// Sizes of a stage, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StageSizes {
    /// State of one queue, flows not counted.
    pub state: usize,
    /// What each further queue adds: state and parameters, flows not counted.
    pub queue: usize,
    /// What each further flow of a queue adds; zero where flows make no difference.
    pub flow: usize,
    /// Flows of one queue that can have a record; zero where there are none.
    pub flows: usize,
}

/// Why a queue cannot be configured.
#[derive(Clone, Copy, Debug)]
pub enum ConfigureError {
    /// A setting is out of range, or wrong on this link.
    Param(ParamError),
    /// The switch has no such queue.
    NoSuchQueue {
        /// The queue of the call.
        at: Queue,
        /// How many ports there are.
        ports: usize,
    },
}

impl From<ParamError> for ConfigureError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl fmt::Display for ConfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param(error) => error.fmt(f),
            Self::NoSuchQueue { at: Queue { port, class }, ports } => {
                write!(f, "no queue for port {port}, class {class}: ports are below {ports}, classes below 8")
            }
        }
    }
}

impl core::error::Error for ConfigureError {}

/// The context of an event of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a, P> {
    /// The time of the event. Never runs backwards.
    pub now: Instant,
    /// The queue.
    pub at: Queue,
    /// Checked parameters of the queue.
    pub params: &'a P,
}

/// A stage whose queues have nothing in common. The value is the state of one queue.
///
/// [`PerQueue`](crate::PerQueue) makes a [`Stage`] of it; see there for what each item means.
#[expect(missing_docs, reason = "as in Stage")]
pub trait QueueStage: State + Zeroed {
    /// Checked parameters, made from the settings.
    type Params: Zeroed + Copy;
    type Settings: Settings;

    const NAME: &'static str;
    const PRESETS: &'static [Preset<Self::Settings>];
    const TAKES: Kinds;
    const READS_HEADERS: bool = false;
    const REWRITES: bool = false;
    const PAUSES: bool = false;
    const TIMED: bool = false;
    /// Bytes that each further flow adds to the state.
    const FLOW_BYTES: usize = 0;
    /// Flows that the state can have a record of.
    const FLOWS: usize = 0;

    /// Turns settings into parameters.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this link.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// Turns the zeroed state into that of a queue that has carried nothing. Called at the first event of the queue.
    fn begin(&mut self, cx: &Cx<'_, Self::Params>, seed: u64);

    /// Takes one event of the queue.
    fn on(&mut self, cx: &Cx<'_, Self::Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict;

    /// Lets time pass.
    #[inline]
    fn wake(&mut self, cx: &Cx<'_, Self::Params>, out: &mut impl Emit) {
        let _ = (cx, out);
    }

    #[inline]
    fn next_wake(&self, cx: &Cx<'_, Self::Params>) -> Option<Nanos> {
        let _ = cx;
        None
    }

    /// See [`Stage::pausing`].
    #[inline]
    fn pausing(&self, params: &Self::Params) -> u16 {
        let _ = params;
        0
    }
}

/// A stage whose state can be read and replaced, queue by queue. For harnesses: no image calls it.
pub trait Inspect: Stage {
    /// The quantities of a queue's state by name.
    type Snapshot: Words + Copy + PartialEq + fmt::Debug;

    /// The state of a queue; `None` if the queue is not configured or has seen no event.
    fn snapshot(&self, at: Queue) -> Option<Self::Snapshot>;

    /// Replaces the state of a queue. Returns false, and changes nothing, where [`Inspect::snapshot`] returns `None`.
    fn inject(&mut self, at: Queue, snapshot: Self::Snapshot) -> bool;
}

/// A line of the registry: a family of stages by the storage of their queues.
pub trait OnQueues {
    /// The stage, with a table of its queues in this storage.
    type Stage<Q: Storage>: Stage + Inspect;
}

/// The shorter of two waits, where there is one.
#[inline]
pub(crate) fn earlier(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}
