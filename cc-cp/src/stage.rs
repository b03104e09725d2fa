//! The traits of a congestion point: [`Stage`], on all queues of a switch, and [`QueueStage`], on one queue.

use crate::{Event, Kinds, PeerMessage, Queue, Verdict};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::snapshot::Words;
use cc_core::table::Storage;
use cc_core::wire::Roce;
use cc_core::{Bytes, CnpBody, Hop, Instant, Link, Nanos, Rate, State, Zeroed};
use core::fmt;

/// The functions that a stage calls while it processes an event: to send frames of its own, and to read the length of the
/// switch's queues.
pub trait Emit {
    /// Sends a CNP with this body to the sender of the packet `about`. A CNP of a kind with telemetry (`SwitchInt`,
    /// `DirectInt`) carries the records of this packet, and `hop` as one more; no such CNP is sent if the packet has no
    /// telemetry, or no room for that record.
    fn cnp(&mut self, about: &Roce<'_>, body: CnpBody, hop: Option<Hop>);

    /// Sends a message to the other end of the long link at this queue.
    fn peer(&mut self, at: Queue, message: PeerMessage);

    /// Bytes in the queue now.
    fn queued(&self, at: Queue) -> Bytes;

    /// Bytes in the switch that came in by this queue. A device that counts one number of bytes for each queue counts those
    /// for a queue whose stages take arrivals.
    #[inline(always)]
    fn arrived(&self, at: Queue) -> Bytes {
        self.queued(at)
    }
}

/// A stage on all queues of a switch: an algorithm that marks, measures, drops or rewrites packets, or pauses the neighbours
/// that send them.
///
/// The stages of a [`Chain`](crate::Chain) process the same events, and their verdicts are joined, so that their order makes no
/// difference.
pub trait Stage: Zeroed {
    /// The settings of the user.
    type Settings: Settings;

    /// The name on the command line.
    const NAME: &'static str;
    /// Its presets, the default first. A chain has none of its own.
    const PRESETS: &'static [Preset<Self::Settings>];
    /// The default settings: the first preset.
    const DEFAULT: Self::Settings = first(Self::PRESETS);
    /// The kinds of events that are passed to it. Other events change nothing and have the verdict [`Verdict::PASS`]. The
    /// switch counts the pauses of its queues only if a stage takes [`Kind::Pause`](crate::Kind::Pause); so each stage that
    /// marks or measures the packets of a queue takes it.
    const TAKES: Kinds;
    /// It reads the headers of packets.
    const READS_HEADERS: bool = false;
    /// It rewrites packets, after all other stages have marked them. At most one stage of a chain does this: two would undo
    /// each other's changes.
    const REWRITES: bool = false;
    /// It decides whether there is room for a packet that arrives. It processes the arrival first, and a packet that it drops
    /// is not passed to the other stages. At most one stage of a chain does this: when a second one drops a packet, the first
    /// has already counted it as admitted.
    const ADMITS: bool = false;
    /// It pauses the neighbours: see [`Stage::pausing`].
    const PAUSES: bool = false;
    /// It has deadlines: see [`Stage::next_wake`].
    const TIMED: bool = false;
    /// Its sizes in bytes.
    const SIZES: StageSizes;

    /// The kinds of events that are passed to it: [`Stage::TAKES`], or for a list made at run time, those of its stages.
    #[inline(always)]
    fn takes(&self) -> Kinds {
        Self::TAKES
    }

    /// Whether it reads the headers of packets: [`Stage::READS_HEADERS`], or for a list made at run time, whether one of its
    /// stages does.
    #[inline(always)]
    fn reads_headers(&self) -> bool {
        Self::READS_HEADERS
    }

    /// Allocates this number of queues, if they are on the heap; all of them are zeroed.
    fn make_room(&mut self, queues: usize);

    /// Configures one queue, or changes its settings and keeps its state. Events of a queue that is not configured have no
    /// effect. Equal seeds give equal verdicts; the queues of one seed draw different random numbers.
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

    /// Processes an event, and returns the verdict on its packet.
    fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl Emit) -> Verdict;

    /// Processes the passing of time at a queue. Called for each queue when the time of [`Stage::next_wake`] has come, and at
    /// least every [`REST`]; additional calls change nothing. Returns what [`Stage::next_wake`] would, so that the queue is
    /// looked up once only.
    #[inline]
    fn wake(&mut self, now: Instant, at: Queue, out: &mut impl Emit) -> Option<Nanos> {
        let _ = (now, at, out);
        None
    }

    /// The time from `now` to the next wake of the queue; `None` if [`REST`] is soon enough.
    #[inline]
    fn next_wake(&self, now: Instant, at: Queue) -> Option<Nanos> {
        let _ = (now, at);
        None
    }

    /// The length of the queue's pseudo queue, and the rate at which it drains, both as of the last event, if the stage keeps one:
    /// LSCC's q* and R. For harnesses: no firmware image calls it.
    #[inline]
    fn pseudo_queue(&self, at: Queue) -> Option<(Bytes, Rate)> {
        let _ = at;
        None
    }

    /// The pause time, in quanta, that the neighbour at this port and class is to have; zero for none. This is a state and not
    /// an event: the switch reads it after each event, takes the longest of all stages, and sends PFC frames when it changes
    /// and to renew a pause.
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

/// Memory of a stage, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StageSizes {
    /// State of one queue, without its flows.
    pub state: usize,
    /// Bytes that each further queue adds: state and parameters, without its flows.
    pub queue: usize,
    /// Bytes that each further flow of a queue adds; zero if there is no state of flows.
    pub flow: usize,
    /// The largest number of flows of one queue that have a record; zero if there is no state of flows.
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
        /// Number of ports.
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
    /// The time of the event. It never runs backwards.
    pub now: Instant,
    /// The queue.
    pub at: Queue,
    /// Checked parameters of the queue.
    pub params: &'a P,
}

/// A stage of independent queues. The value is the state of one queue.
///
/// [`PerQueue`](crate::PerQueue) makes a [`Stage`] of it; see [`Stage`] for the items that are not described here.
#[expect(missing_docs, reason = "as in Stage")]
pub trait QueueStage: State + Zeroed {
    /// Checked parameters, computed from the settings.
    type Params: Zeroed + Copy;
    type Settings: Settings;

    const NAME: &'static str;
    const PRESETS: &'static [Preset<Self::Settings>];
    const TAKES: Kinds;
    const READS_HEADERS: bool = false;
    const REWRITES: bool = false;
    const PAUSES: bool = false;
    const TIMED: bool = false;
    /// Bytes that each flow adds to the state.
    const FLOW_BYTES: usize = 0;
    /// The largest number of flows that have a record in the state.
    const FLOWS: usize = 0;

    /// Converts settings into parameters.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this link.
    fn check(settings: &Self::Settings, link: &Link) -> Result<Self::Params, ParamError>;

    /// Makes the zeroed state that of a queue before its first packet. Called at the first event of the queue.
    fn begin(&mut self, cx: &Cx<'_, Self::Params>, seed: u64);

    /// Processes one event of the queue.
    fn on(&mut self, cx: &Cx<'_, Self::Params>, event: &Event<'_>, out: &mut impl Emit) -> Verdict;

    /// Processes the passing of time.
    #[inline]
    fn wake(&mut self, cx: &Cx<'_, Self::Params>, out: &mut impl Emit) {
        let _ = (cx, out);
    }

    #[inline]
    fn next_wake(&self, cx: &Cx<'_, Self::Params>) -> Option<Nanos> {
        let _ = cx;
        None
    }

    /// See [`Stage::pseudo_queue`].
    #[inline]
    fn pseudo_queue(&self) -> Option<(Bytes, Rate)> {
        None
    }

    /// See [`Stage::pausing`].
    #[inline]
    fn pausing(&self, params: &Self::Params) -> u16 {
        let _ = params;
        0
    }
}

/// A stage whose state can be read and replaced, queue by queue. For harnesses: no firmware image calls it.
pub trait Inspect: Stage {
    /// The state of a queue, with named fields.
    type Snapshot: Words + Copy + PartialEq + fmt::Debug;

    /// The state of a queue; `None` if the queue is not configured, or before its first event.
    fn snapshot(&self, at: Queue) -> Option<Self::Snapshot>;

    /// Replaces the state of a queue. Returns false, and changes nothing, where [`Inspect::snapshot`] returns `None`.
    fn inject(&mut self, at: Queue, snapshot: Self::Snapshot) -> bool;
}

/// An entry of the registry: a stage for each kind of storage of its queues.
pub trait OnQueues {
    /// The stage with its queues in this storage.
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
