//! A list of stages that is made at run time, for programs on a host.

use crate::stage::earlier;
use crate::{ConfigureError, Emit, Event, Kind, Kinds, OnQueues, Queue, Stage, StageSizes, Verdict};
use cc_core::params::{Preset, Settings};
use cc_core::table::Heap;
use cc_core::{Bytes, Instant, Link, Nanos, Rate, Zeroed};
use core::fmt;
use std::string::{String, ToString};
use std::vec::Vec;

/// Why a list of stages cannot be made. Displayed as one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StageListError {
    /// No stage has this name.
    Unknown(String),
    /// Two stages of one list rewrite packets, and would undo each other's changes.
    TwoRewrite(&'static str, &'static str),
    /// Two stages of one list admit packets: when the second drops a packet, the first has already counted it as admitted.
    TwoAdmit(&'static str, &'static str),
    /// A setting of a stage is out of range.
    Setting(&'static str, String),
}

impl fmt::Display for StageListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "unknown stage {name}: expected one of {}", crate::registry::NAMES.join(", "))
            }
            Self::TwoRewrite(one, other) => {
                write!(f, "{one} and {other} both rewrite packets: expected at most one such stage in a switch")
            }
            Self::TwoAdmit(one, other) => {
                write!(f, "{one} and {other} both admit packets: expected at most one such stage in a switch")
            }
            Self::Setting(stage, error) => write!(f, "{stage}: {error}"),
        }
    }
}

impl core::error::Error for StageListError {}

/// A list of stages: a [`Stage`] that is made at run time, with its queues on the heap. The list keeps the settings with which
/// each stage was added; [`Stage::configure`] configures a queue for all stages.
#[expect(missing_debug_implementations, reason = "thousands of records")]
pub struct StageList {
    stages: Vec<AnyStage>,
    queues: usize,
    /// Index of the stage that rewrites packets.
    rewrites: Option<usize>,
    /// Index of the stage that admits packets.
    admits: Option<usize>,
    takes: Kinds,
    /// A stage pauses neighbours.
    pauses: bool,
    /// A stage has timers.
    timed: bool,
}

/// One stage, with its queues on the heap, and its settings.
struct One<S: OnQueues> {
    stage: S::Stage<Heap>,
    settings: <S::Stage<Heap> as Stage>::Settings,
}

impl<S: OnQueues> One<S> {
    /// The stage with the settings of its first preset, of which `words` replaces the first ones.
    fn new(queues: usize, words: &[u32]) -> Result<Self, StageListError> {
        let mut one = Self { stage: Zeroed::ZEROED, settings: <S::Stage<Heap> as Stage>::DEFAULT };
        one.set(words)?;
        one.stage.make_room(queues);
        Ok(one)
    }

    /// Replaces the first settings by `words`; the others stay as they are.
    fn set(&mut self, words: &[u32]) -> Result<(), StageListError> {
        for (index, &word) in words.iter().enumerate() {
            let outcome = self.settings.set(index, word);
            outcome.map_err(|error| StageListError::Setting(<S::Stage<Heap> as Stage>::NAME, error.to_string()))?;
        }
        Ok(())
    }
}

/// The properties of a stage that a list checks.
struct Traits {
    number: u8,
    name: &'static str,
    takes: Kinds,
    reads_headers: bool,
    rewrites: bool,
    admits: bool,
    pauses: bool,
    timed: bool,
}

impl Traits {
    const fn of<S: Stage>(number: u8) -> Self {
        let (reads_headers, rewrites, admits) = (S::READS_HEADERS, S::REWRITES, S::ADMITS);
        let (pauses, timed) = (S::PAUSES, S::TIMED);
        Self { number, name: S::NAME, takes: S::TAKES, reads_headers, rewrites, admits, pauses, timed }
    }
}

macro_rules! any_stage {
    ($($number:literal, $bytes:literal, $name:ident => $first:ident $(:: $rest:ident)+;)+) => {
        /// A stage of the registry.
        #[allow(non_camel_case_types, reason = "the names of the registry")]
        enum AnyStage {
            $($name(One<crate::$first $(:: $rest)+>),)+
        }

        impl AnyStage {
            fn new(name: &str, queues: usize, words: &[u32]) -> Result<Self, StageListError> {
                $(
                    if name.eq_ignore_ascii_case(stringify!($name)) {
                        return Ok(Self::$name(One::new(queues, words)?));
                    }
                )+
                Err(StageListError::Unknown(name.to_string()))
            }

            const fn traits(&self) -> Traits {
                match self {
                    $(Self::$name(_) => Traits::of::<<crate::$first $(:: $rest)+ as OnQueues>::Stage<Heap>>($number),)+
                }
            }

            fn set(&mut self, words: &[u32]) -> Result<(), StageListError> {
                match self {
                    $(Self::$name(one) => one.set(words),)+
                }
            }

            fn make_room(&mut self, queues: usize) {
                match self {
                    $(Self::$name(one) => one.stage.make_room(queues),)+
                }
            }

            fn configure(&mut self, now: Instant, at: Queue, link: &Link, seed: u64) -> Result<(), ConfigureError> {
                match self {
                    $(Self::$name(one) => one.stage.configure(now, at, link, &one.settings, seed),)+
                }
            }

            fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
                match self {
                    $(Self::$name(one) => one.stage.on(now, at, event, out),)+
                }
            }

            fn wake(&mut self, now: Instant, at: Queue, out: &mut impl Emit) -> Option<Nanos> {
                match self {
                    $(Self::$name(one) => one.stage.wake(now, at, out),)+
                }
            }

            fn next_wake(&self, now: Instant, at: Queue) -> Option<Nanos> {
                match self {
                    $(Self::$name(one) => one.stage.next_wake(now, at),)+
                }
            }

            fn pseudo_queue(&self, at: Queue) -> Option<(Bytes, Rate)> {
                match self {
                    $(Self::$name(one) => one.stage.pseudo_queue(at),)+
                }
            }

            fn pausing(&self, at: Queue) -> u16 {
                match self {
                    $(Self::$name(one) => one.stage.pausing(at),)+
                }
            }
        }
    };
}

for_each_cp!(any_stage);

impl StageList {
    /// A list without stages, for this number of queues.
    pub const fn new(queues: usize) -> Self {
        Self {
            stages: Vec::new(),
            queues,
            rewrites: None,
            admits: None,
            takes: Kinds::NONE,
            pauses: false,
            timed: false,
        }
    }

    /// Adds the stage of this name with these settings, in the order of its fields; settings that are missing are those of its
    /// first preset. The order in which stages are added makes no difference.
    ///
    /// # Errors
    /// There is no such stage, a setting is out of range, or both this stage and one of the list rewrite packets or admit
    /// packets.
    pub fn add(&mut self, name: &str, settings: &[u32]) -> Result<(), StageListError> {
        let stage = AnyStage::new(name, self.queues, settings)?;
        let Traits { name, takes, rewrites, admits, pauses, timed, .. } = stage.traits();
        let place = self.stages.len();
        let other = |place: usize| self.stages.get(place).map_or("", |stage| stage.traits().name);
        match (self.rewrites, self.admits) {
            (Some(place), _) if rewrites => return Err(StageListError::TwoRewrite(other(place), name)),
            (_, Some(place)) if admits => return Err(StageListError::TwoAdmit(other(place), name)),
            _ => {}
        }
        self.rewrites = self.rewrites.or(rewrites.then_some(place));
        self.admits = self.admits.or(admits.then_some(place));
        self.takes = self.takes.with(takes);
        self.pauses |= pauses;
        self.timed |= timed;
        self.stages.push(stage);
        Ok(())
    }

    /// The seed of a stage. It depends on the stage's rank among those of the list, by their numbers in the registry, so that
    /// the order in which they were added makes no difference. The first two have the seeds that they have in a
    /// [`Chain`](crate::Chain); those of further stages are as far apart.
    fn seed_of(&self, place: usize, seed: u64) -> u64 {
        let key = |place: usize| self.stages.get(place).map_or((0, 0), |stage| (stage.traits().number, place));
        let rank = (0..self.stages.len()).filter(|&other| key(other) < key(place)).count() as u64;
        seed.rotate_left(if rank & 1 == 0 { 0 } else { 32 })
            .wrapping_add((rank >> 1).wrapping_mul(0x9e37_79b9_0000_0000))
    }

    /// Changes the settings of the first stage of this name. They apply to queues that are configured from now on.
    ///
    /// # Errors
    /// The list has no such stage, or a setting is out of range.
    pub fn set(&mut self, name: &str, settings: &[u32]) -> Result<(), StageListError> {
        let stage = self.stages.iter_mut().find(|stage| stage.traits().name.eq_ignore_ascii_case(name));
        stage.ok_or_else(|| StageListError::Unknown(name.to_string()))?.set(settings)
    }
}

impl Zeroed for StageList {
    const ZEROED: Self = Self::new(0);
}

impl Stage for StageList {
    type Settings = ();

    const NAME: &'static str = "list";
    const PRESETS: &'static [Preset<()>] = &[Preset { name: "default", source: "each stage has its own", values: () }];
    const TAKES: Kinds = Kinds::of(&Kind::ALL);
    const READS_HEADERS: bool = true;
    const REWRITES: bool = true;
    const ADMITS: bool = true;
    const PAUSES: bool = true;
    const TIMED: bool = true;
    const SIZES: StageSizes = StageSizes { state: 0, queue: 0, flow: 0, flows: 0 };

    fn takes(&self) -> Kinds {
        self.takes
    }

    fn reads_headers(&self) -> bool {
        self.stages.iter().any(|stage| stage.traits().reads_headers)
    }

    fn make_room(&mut self, queues: usize) {
        self.queues = queues;
        self.stages.iter_mut().for_each(|stage| stage.make_room(queues));
    }

    /// Configures a queue for all stages. The stages draw different random numbers.
    fn configure(&mut self, now: Instant, at: Queue, link: &Link, (): &(), seed: u64) -> Result<(), ConfigureError> {
        for place in 0..self.stages.len() {
            let seed = self.seed_of(place, seed);
            self.stages.get_mut(place).map_or(Ok(()), |stage| stage.configure(now, at, link, seed))?;
        }
        Ok(())
    }

    fn on(&mut self, now: Instant, at: Queue, event: &Event<'_>, out: &mut impl Emit) -> Verdict {
        if let [stage] = &mut self.stages[..] {
            return stage.on(now, at, event, out);
        }
        // Joined from the first verdict on: most lists are short.
        let mut joined: Option<Verdict> = None;
        let admits = self.admits.filter(|_| matches!(event, Event::Arrival { .. }));
        if let Some(stage) = admits.and_then(|place| self.stages.get_mut(place)) {
            let verdict = stage.on(now, at, event, out);
            if verdict.drop {
                return verdict;
            }
            joined = Some(verdict);
        }
        let rewrites = self.rewrites.filter(|_| matches!(event, Event::Departure { .. }));
        for (place, stage) in self.stages.iter_mut().enumerate() {
            if admits != Some(place) && rewrites != Some(place) {
                let verdict = stage.on(now, at, event, out);
                joined = Some(joined.map_or(verdict, |joined| joined.join(verdict)));
            }
        }
        let verdict = joined.unwrap_or(Verdict::PASS);
        if let Some(stage) = rewrites.and_then(|place| self.stages.get_mut(place)) {
            return verdict.join(stage.on(now, at, &event.marked(verdict), out));
        }
        verdict
    }

    fn wake(&mut self, now: Instant, at: Queue, out: &mut impl Emit) -> Option<Nanos> {
        self.stages.iter_mut().map(|stage| stage.wake(now, at, out)).fold(None, earlier)
    }

    fn next_wake(&self, now: Instant, at: Queue) -> Option<Nanos> {
        if !self.timed {
            return None;
        }
        self.stages.iter().map(|stage| stage.next_wake(now, at)).fold(None, earlier)
    }

    fn pseudo_queue(&self, at: Queue) -> Option<(Bytes, Rate)> {
        self.stages.iter().find_map(|stage| stage.pseudo_queue(at))
    }

    fn pausing(&self, at: Queue) -> u16 {
        if !self.pauses {
            return 0;
        }
        self.stages.iter().map(|stage| stage.pausing(at)).max().unwrap_or(0)
    }
}
