//! Runs the stages of a switch on random traffic, in firmware in lockstep with the library, and measures cycles per event on a
//! core.

pub mod traffic;

use traffic::{Happening, Occasion, Place, Traffic};

use anyhow::{Context, Result};
use cc_core::table::{Fixed, Heap};
use cc_core::{Bytes, Ecn, Instant, Link, Nanos, Rate};
use cc_cp::RelayMessage;
use cc_cp::list::StageList;
use cc_cp::registry::{self, Visitor};
use cc_cp::{Kind, Kinds, OnQueues, Queue, Stage, Verdict};
use hil_algorithms::registry::UnknownName;
use hil_algorithms::settings::words;
use hil_cores::board::{Action, Board, DEVICES, Pace, RAM, board_with};
use hil_cores::core::{Core, Design};
use hil_cores::firmware;
use hil_cores::processor::Processor;
pub use hil_devices::native_switch::names;
use hil_devices::native_switch::{self, CHAINS, Recorder, words_of};
use hil_replay::Summary;
use hil_replay::report::{KindCycles, cycles};
use hil_sorted::SortedMap;
use programs::descriptor::Descriptor;
use programs::layout::ImageInfo;
use programs::switch_ring::{ARRIVED, StageAction, SwitchEvent, SwitchProgram};
use serde::Serialize;
use std::fmt;

/// The link by which every port of the measured switch is connected.
pub const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(4_200), base_rtt: Nanos::new(12_000) };

/// The seed of the traffic, the same for each preset, so that presets differ by what they are and not by their traffic.
const SEED: u64 = 1;
/// Seed of the random numbers of the stages.
const STAGE_SEED: u64 = 1;
/// Events with each preset.
const EVENTS: u32 = 40_000;

/// Most events and wakes with each preset on a core in RTL simulation. Without this bound Swing's relays, which wake every few
/// microseconds while the link is idle, would have 700,000, and take an hour.
const SIMULATED: u64 = 50_000;

/// Traffic through one stage with one preset.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The stage.
    pub stage: &'static str,
    /// The preset.
    pub preset: &'static str,
    /// Bytes of the stage's state for one queue.
    pub state_bytes: u32,
    /// Bytes that each further queue adds, flows not counted.
    pub queue_bytes: u32,
    /// Bytes that each further flow adds.
    pub flow_bytes: u32,
    /// Flows for which a queue has state.
    pub flows: u32,
    /// Events and wakes compared.
    pub events: u64,
    /// Actions at queues.
    pub actions: u64,
    /// Frames that the stage itself sent.
    pub frames: u64,
    /// The first difference between library and image, or `None`.
    pub difference: Option<String>,
    /// Cycles per event by kind.
    pub cycles: SortedMap<&'static str, KindCycles>,
}

/// As [`measure_on`], on Ibex small.
///
/// # Errors
/// As for [`measure_on`].
pub fn measure(stage: &str) -> Result<Vec<Run>> {
    measure_on(Design::Ibex.into(), stage)
}

/// Runs random traffic through a stage, or a chain of stages, with each of its presets, on a core and natively.
///
/// # Errors
/// There is no such stage, no image of it, or an image that misbehaves.
pub fn measure_on(core: Processor, stage: &str) -> Result<Vec<Run>> {
    let unknown = || UnknownName::new("stage", stage, names());
    let name = names().find(|name| name.eq_ignore_ascii_case(stage)).ok_or_else(unknown)?;
    let alone = [name];
    let stages = CHAINS.iter().find(|&&(chain, _)| chain == name).map_or(&alone[..], |&(_, stages)| stages);
    let image = firmware::build(name, firmware::Kind::Inlining, core.dialect())?;
    let image = firmware::read(&image)?;
    let run = |(preset, settings): (&'static str, Vec<Vec<u32>>)| {
        let context = || format!("{name}, preset {preset}");
        let boot = native_switch::boot(&settings, &LINK, STAGE_SEED);
        let board = core.start(&RAM, DEVICES, 0, image.entry)?;
        let board = board_with(board, &image, &boot, Pace::Lockstep).with_context(context)?;
        let mut pair = Pair::new(name, stages, &settings, board).with_context(context)?;
        let most = if matches!(core, Processor::Model(_)) { u64::MAX } else { SIMULATED };
        pair.carry(SEED, EVENTS, most).with_context(context)?;
        pair.finish(preset)
    };
    presets(stages).into_iter().map(run).collect()
}

/// The names of the first stage's presets, each with the settings of all stages. The other stages take the preset of the same
/// name, or their first.
pub fn presets(stages: &[&str]) -> Vec<(&'static str, Vec<Vec<u32>>)> {
    let of = |stage: &&str| registry::with(stage, Presets).unwrap_or_default();
    let all: Vec<Vec<(&'static str, Vec<u32>)>> = stages.iter().map(of).collect();
    let named = |name, presets: &Vec<(&'static str, Vec<u32>)>| {
        let found = presets.iter().find(|preset| preset.0 == name).or(presets.first());
        found.map(|(_, settings)| settings.clone()).unwrap_or_default()
    };
    let first = all.first().into_iter().flatten();
    first.map(|&(name, _)| (name, all.iter().map(|presets| named(name, presets)).collect())).collect()
}

/// The presets of a stage: names, and settings in the order of its fields.
struct Presets;

impl Visitor for Presets {
    type Output = Vec<(&'static str, Vec<u32>)>;

    fn visit<S: OnQueues>(self) -> Self::Output {
        <S::Stage<Fixed<8>> as Stage>::PRESETS.iter().map(|preset| (preset.name, words(&preset.values))).collect()
    }
}

/// Traffic with many events of the kinds that these stages handle. Relay messages are frequent for stages that handle messages
/// from the remote end and read no headers; stages that read headers get the rates of the remote end in frames.
pub fn traffic(seed: u64, stages: &StageList) -> Traffic {
    let takes = stages.takes();
    Traffic::new(seed, takes.contains(Kind::Pause), takes.contains(Kind::Peer) && !stages.reads_headers())
}

/// Converts an event of the traffic to events of a switch whose stages handle the kinds `takes`. The ingress and egress port of a
/// packet are the same here: one that arrives also joins the queue, and one that leaves is a departure, a release, or both.
pub fn events(at: Place, what: Happening, takes: Kinds) -> (Queue, Vec<SwitchEvent>) {
    let events = match what {
        Happening::Arrival { bytes, queued } => {
            let [bytes, queued] = [bytes, queued].map(Bytes::new);
            let joins = takes.contains(Kind::Enqueue).then_some(SwitchEvent::Enqueue { bytes });
            std::iter::once(SwitchEvent::Arrival { bytes, queued }).chain(joins).collect()
        }
        Happening::Departure { bytes, queued, port_queued, ecn } => {
            let [bytes, queued, port_queued] = [bytes, queued, port_queued].map(Bytes::new);
            let departure = SwitchEvent::Departure { bytes, ecn: Ecn::from_bits(ecn), queued, port_queued };
            let release = SwitchEvent::Release { bytes, queued };
            match (takes.contains(Kind::Departure), takes.contains(Kind::Release)) {
                (true, true) => vec![departure, release],
                (false, true) => vec![release],
                _ => vec![departure],
            }
        }
        Happening::Pause { nanos, queued } => {
            vec![SwitchEvent::Pause { time: Nanos::new(nanos), queued: Bytes::new(queued) }]
        }
        Happening::Relay { paused, seq } => vec![SwitchEvent::Relay(RelayMessage { paused, seq })],
    };
    (Queue { port: at.port.into(), class: at.class }, events)
}

/// A switch with these stages and their settings, on ports like [`LINK`].
///
/// # Errors
/// The stages cannot be combined, or a setting is wrong on the link.
pub fn switch(stages: &[&str], settings: &[Vec<u32>]) -> Result<SwitchProgram<StageList, Heap>> {
    native_switch::switch(stages, settings, &LINK, STAGE_SEED)
}

/// Stages that run twice: natively and on the core.
struct Pair<C> {
    name: &'static str,
    native: SwitchProgram<StageList, Heap>,
    recorder: Recorder,
    board: Board<C>,
    events: u64,
    actions: u64,
    frames: u64,
    difference: Option<String>,
}

impl<C: Core> Pair<C> {
    /// A switch with empty queues, and a board whose image waits for the first event.
    ///
    /// # Errors
    /// Settings that are wrong on the link.
    fn new(name: &'static str, stages: &[&str], settings: &[Vec<u32>], board: Board<C>) -> Result<Self> {
        let native = switch(stages, settings)?;
        Ok(Self { name, native, recorder: Recorder::new(), board, events: 0, actions: 0, frames: 0, difference: None })
    }

    /// Runs the traffic of a seed through both, for at most `steps` steps and `most` events and wakes.
    fn carry(&mut self, seed: u64, steps: u32, most: u64) -> Result<()> {
        let mut traffic = traffic(seed, self.native.switch().stages());
        let takes = self.native.switch().stages().takes();
        for _ in 0..steps {
            let Occasion { now, at, what, frame } = traffic.draw();
            let (queue, events) = events(at, what, takes);
            for event in events {
                self.wake(now, most)?;
                if self.events >= most {
                    return Ok(());
                }
                let actions = self.deliver(now, queue, &event, &frame)?;
                let dropped = StageAction::Verdict(Verdict { drop: true, ..Verdict::PASS });
                if let SwitchEvent::Arrival { bytes, .. } = event
                    && !actions.contains(&Action::Stage(words_of(queue, &dropped)))
                {
                    traffic.admit(at, bytes.get());
                }
            }
        }
        Ok(())
    }

    /// Runs the timers of both until this time, or until they have handled `most` events and wakes.
    ///
    /// # Errors
    /// The image misbehaved.
    fn wake(&mut self, until: u64, most: u64) -> Result<()> {
        while self.native.next_wake().nanos() <= until && self.events < most {
            let due = self.native.next_wake().nanos();
            self.settle(due);
            let theirs = self.board.wake()?;
            self.compare(due, theirs);
        }
        Ok(())
    }

    /// Passes an event to both, after their timers have run up to its time. Returns the library's actions.
    ///
    /// # Errors
    /// The image misbehaved.
    fn deliver(&mut self, now: u64, queue: Queue, event: &SwitchEvent, frame: &[u8]) -> Result<Vec<Action>> {
        match *event {
            SwitchEvent::Departure { bytes, queued, .. } | SwitchEvent::Release { bytes, queued } => {
                self.set_queued(queue, queued.saturating_sub(bytes));
            }
            SwitchEvent::Arrival { bytes, queued } => self.set_queued(queue, queued.saturating_add(bytes)),
            _ => {}
        }
        let wire_frame = &frame[..frame.len().min(HEAD)];
        let descriptor = Descriptor { captured: wire_frame.len() as u16, ..event.at(now, queue) };
        self.native.handle(Instant::from_nanos(now), &descriptor, wire_frame, &mut self.recorder);
        self.settle(now);
        let theirs = self.board.deliver(&descriptor, wire_frame)?;
        Ok(self.compare(now, theirs))
    }

    /// Wakes the library until nothing is due at `now`, as on the core, where the timer line stays high until then.
    fn settle(&mut self, now: u64) {
        while self.native.next_wake().nanos() <= now {
            self.native.timer(Instant::from_nanos(now), &mut self.recorder);
        }
    }

    fn set_queued(&mut self, queue: Queue, bytes: Bytes) {
        for number in [queue.index(), ARRIVED + queue.index()] {
            if let Some(queued) = self.recorder.queued.get_mut(number) {
                *queued = bytes.get();
                self.board.set_queued(number as u32, bytes.get());
            }
        }
    }

    /// Compares the actions of both, records the first difference, and returns the library's actions.
    fn compare(&mut self, now: u64, theirs: Vec<(u64, Action)>) -> Vec<Action> {
        let ours = self.recorder.take_actions();
        let theirs: Vec<Action> = theirs.into_iter().map(|(_, action)| action).collect();
        self.events += 1;
        self.actions += ours.iter().filter(|action| matches!(action, Action::Stage(_))).count() as u64;
        self.frames += ours.iter().filter(|action| matches!(action, Action::Frame(_))).count() as u64;
        let wakes = (self.native.next_wake().nanos(), self.board.next_wake());
        if self.difference.is_none() && (ours != theirs || wakes.0 != wakes.1) {
            let (ours, theirs) = ((&ours, wakes.0), (&theirs, wakes.1));
            self.difference = Some(format!("event {} at {now} ns: library {ours:x?}, image {theirs:x?}", self.events));
        }
        ours
    }

    fn finish(self, preset: &'static str) -> Result<Run> {
        let ImageInfo { state_bytes, qp_bytes: queue_bytes, peers: flows, peer_bytes: flow_bytes, .. } =
            self.board.report()?;
        let Self { name: stage, events, actions, frames, difference, .. } = self;
        // Events that a stage ignores are left out: the linker may have merged their function with another.
        let mut cycles = cycles(self.board.cycles().iter());
        let takes = self.native.switch().stages().takes();
        cycles.retain(|&kind, _| kind == "wake" || Kind::ALL.iter().any(|&of| of.name() == kind && takes.contains(of)));
        Ok(Run {
            stage,
            preset,
            state_bytes,
            queue_bytes,
            flow_bytes,
            flows,
            events,
            actions,
            frames,
            difference,
            cycles,
        })
    }
}

/// Bytes at the beginning of a frame that are passed to a stage.
pub const HEAD: usize = 256;

impl Run {
    /// The rows of a Markdown table, see [`MARKDOWN`].
    pub fn markdown(&self) -> String {
        let Self { stage, preset, state_bytes, queue_bytes, flow_bytes, .. } = self;
        let row = |(kind, spans): (&&str, &KindCycles)| {
            let [step, frame] = [spans.step, spans.frame].map(|span| span.map(slashed).unwrap_or_default());
            format!(
                "| {stage} | {preset} | {state_bytes} | {queue_bytes} | {flow_bytes} | {kind} | {step} | {frame} |\n"
            )
        };
        self.cycles.iter().map(row).collect()
    }
}

fn slashed(Summary { min, median, p99, max }: Summary) -> String {
    format!("{min}/{median}/{p99}/{max}")
}

/// The head of the Markdown table of runs.
pub const MARKDOWN: &str = "\
| stage | preset | bytes: state | per queue | per flow | event | cycles: min / median / p99 / max | with descriptor |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The lines of the golden file.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, preset, state_bytes, queue_bytes, flow_bytes, flows, .. } = self;
        writeln!(
            f,
            "{stage:<21} {preset:<8} bytes    state {state_bytes}  queue {queue_bytes}  flow {flow_bytes} ({flows})"
        )?;
        for (kind, spans) in &self.cycles {
            write!(f, "{stage:<21} {preset:<8} {kind:<9}")?;
            for (name, span) in [("step", spans.step), ("frame", spans.frame)] {
                if let Some(span) = span {
                    write!(f, "  {name} {}", slashed(span))?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_marks_differently_from_the_image_is_detected() {
        let image = firmware::image(None, "red").unwrap();
        let (_, ours) = presets(&["red"]).remove(0);
        let mut theirs = ours.concat();
        // Doubles Kmax in the image's settings.
        theirs[1] *= 2;
        for (settings, differs) in [(ours.concat(), false), (theirs, true)] {
            let boot = native_switch::boot(&[settings], &LINK, STAGE_SEED);
            let core = Design::Ibex.model(&RAM, DEVICES, 0, image.entry);
            let board = board_with(core, &image, &boot, Pace::Lockstep).unwrap();
            let mut pair = Pair::new("red", &["red"], &ours, board).unwrap();
            pair.carry(1, 5_000, u64::MAX).unwrap();
            assert_eq!(pair.difference.is_some(), differs, "{:?}", pair.difference);
        }
    }

    #[test]
    fn a_chain_has_the_presets_of_its_first_stage() {
        let names = |stages: &[&str]| presets(stages).iter().map(|&(name, _)| name).collect::<Vec<_>>();
        let [first, others @ ..] = CHAINS[0].1 else { panic!("a chain has stages") };
        assert_eq!(names(CHAINS[0].1), names(&[first]));
        assert_ne!(names(&[first]), names(others));
    }
}
