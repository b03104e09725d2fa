//! The stages of a switch: firmware beside library, on traffic made by chance, and what they cost on a core.

pub mod traffic;

use traffic::{Happening, Occasion, Place, Traffic};

use anyhow::{Context, Result, anyhow};
use cc_core::params::Preset;
use cc_core::{Bytes, Ecn, Instant, Link, Nanos, Rate};
use cc_cp::Packet;
use cc_cp::mmu::Admission;
use cc_cp::swing::RelayMessage;
use hil_algorithms::registry::UnknownName;
use hil_algorithms::settings::words;
use hil_capture::crc::HostCrc;
use hil_cores::board::{Action, Board, BootSettings, DEVICES, LogRecord, Pace, RAM, board_with};
use hil_cores::core::{Core, Design};
use hil_cores::firmware;
use hil_cores::processor::Processor;
use hil_replay::Summary;
use hil_replay::report::{KindCycles, cycles};
use programs::TransmitRing;
use programs::descriptor::Descriptor;
use programs::layout::{ImageInfo, TX_FRAME_BYTES};
use programs::switch::registry::{self, Visitor};
use programs::switch::{Event, Hardware, Kind, PORTS, PRIORITIES, Program, Queue, StageAction, Switch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The link by which every port of the measured switch is connected.
pub const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(4_200), base_rtt: Nanos::new(12_000) };

/// Events with each preset.
const EVENTS: u32 = 20_000;

/// Events and wakes that a simulated core is given with each preset at most. Swing's relays, which wake every few microseconds
/// while the link rests, would have 700 000, and take an hour.
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
    /// Flows that a queue can hold apart.
    pub flows: u32,
    /// Events and wakes compared.
    pub events: u64,
    /// How often the library answered, and how many frames of its own it sent.
    pub answers: u64,
    /// Frames of its own that it sent.
    pub frames: u64,
    /// Where library and image parted first.
    pub difference: Option<String>,
    /// Cycles per event by kind.
    pub cycles: BTreeMap<&'static str, KindCycles>,
}

/// The names of all stages.
pub const NAMES: &[&str] = registry::NAMES;

/// As [`measure_on`], on Ibex small.
///
/// # Errors
/// As for [`measure_on`].
pub fn measure(stage: &str) -> Result<Vec<Run>> {
    measure_on(Design::Ibex.into(), stage)
}

/// Sends traffic through a stage with each of its presets, on a core and beside the library.
///
/// # Errors
/// There is no such stage, no image of it, or an image that misbehaves.
pub fn measure_on(core: Processor, stage: &str) -> Result<Vec<Run>> {
    registry::with(stage, Measure(core))
        .unwrap_or_else(|| Err(UnknownName::new("stage", stage, NAMES.iter().copied()).into()))
}

struct Measure(Processor);

impl Visitor for Measure {
    type Output = Result<Vec<Run>>;

    fn visit<P: Program>(self) -> Self::Output {
        let image = firmware::build(P::NAME, firmware::Kind::Inlining, self.0.dialect())?;
        let image = firmware::read(&image)?;
        let run = |(seed, preset): (u64, &Preset<P::Settings>)| {
            let context = || format!("{}, preset {}", P::NAME, preset.name);
            let boot = BootSettings { rp_settings: words(&preset.values), np_settings: Vec::new(), link: LINK };
            let core = self.0.start(&RAM, DEVICES, 0, image.entry)?;
            let board = board_with(core, &image, &boot, Pace::Lockstep).with_context(context)?;
            let mut pair = Pair::<P, _>::new(&preset.values, board).with_context(context)?;
            let most = if matches!(self.0, Processor::Model(_)) { u64::MAX } else { SIMULATED };
            pair.carry(&mut traffic::<P>(seed), most).with_context(context)?;
            pair.finish(preset.name)
        };
        (1..).zip(P::PRESETS).map(run).collect()
    }
}

/// Traffic with many events of the kinds that a stage takes.
pub fn traffic<P: Program>(seed: u64) -> Traffic {
    Traffic::new(seed, P::TAKES.contains(&Kind::Paused), P::TAKES.contains(&Kind::Told))
}

/// An event of the traffic, as the switch's program takes it.
pub fn event(at: Place, what: Happening) -> (Queue, Event) {
    let event = match what {
        Happening::Arrival { bytes, queued } => Event::Arrived { bytes: Bytes::new(bytes), queued: Bytes::new(queued) },
        Happening::Departure { bytes, queued, port_queued, ecn } => Event::Left(Packet {
            bytes: Bytes::new(bytes),
            queued: Bytes::new(queued),
            port_queued: Bytes::new(port_queued),
            ecn: Ecn::from_bits(ecn),
        }),
        Happening::Pause { nanos, queued } => Event::Paused { time: Nanos::new(nanos), queued: Bytes::new(queued) },
        Happening::Relay { paused, seq } => Event::Told(RelayMessage { paused, seq }),
    };
    (Queue { port: at.port, priority: at.class }, event)
}

/// A stage that runs twice: natively and on the core.
struct Pair<P, C> {
    native: Switch<P>,
    recorder: Recorder,
    board: Board<C>,
    events: u64,
    answers: u64,
    frames: u64,
    difference: Option<String>,
}

impl<P: Program, C: Core> Pair<P, C> {
    /// A switch whose queues are empty, and a board whose image waits for the first event.
    ///
    /// # Errors
    /// Settings that are wrong on the link.
    fn new(settings: &P::Settings, board: Board<C>) -> Result<Self> {
        let native = Switch::new(Instant::from_nanos(0), &LINK, settings).map_err(|error| anyhow!("{error}"))?;
        let recorder = Recorder { queued: [0; PORTS * PRIORITIES], actions: Vec::new(), transmit: [0; TX_FRAME_BYTES] };
        Ok(Self { native, recorder, board, events: 0, answers: 0, frames: 0, difference: None })
    }

    /// Lets both carry the traffic, for at most so many events and wakes.
    fn carry(&mut self, traffic: &mut Traffic, most: u64) -> Result<()> {
        for _ in 0..EVENTS {
            let Occasion { now, at, what, frame } = traffic.draw();
            let (queue, event) = event(at, what);
            self.wake(now, most)?;
            if self.events >= most {
                break;
            }
            let actions = self.deliver(now, queue, &event, &frame)?;
            let (Event::Arrived { bytes, .. }, refused) = (event, StageAction::Admission(Admission::Dropped)) else {
                continue;
            };
            if !actions.contains(&Action::Stage(answer(queue, &refused))) {
                traffic.admit(at, bytes.get());
            }
        }
        Ok(())
    }

    /// Wakes both until this time, or until they have had so many events and wakes.
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

    /// Hands both an event at a time up to which they were woken: what the library did at that.
    ///
    /// # Errors
    /// The image misbehaved.
    fn deliver(&mut self, now: u64, queue: Queue, event: &Event, frame: &[u8]) -> Result<Vec<Action>> {
        if let Event::Left(packet) = event {
            self.set_queued(queue, packet.queued.saturating_sub(packet.bytes));
        } else if let Event::Arrived { queued, bytes } = event {
            self.set_queued(queue, queued.saturating_add(*bytes));
        }
        let wire_frame = &frame[..frame.len().min(HEAD)];
        let descriptor = Descriptor { captured: wire_frame.len() as u16, ..event.at(now, queue) };
        self.native.handle(Instant::from_nanos(now), &descriptor, wire_frame, &mut self.recorder);
        self.settle(now);
        let theirs = self.board.deliver(&descriptor, wire_frame)?;
        Ok(self.compare(now, theirs))
    }

    /// Wakes the library until nothing is due at `now`: the timer line stays high as long.
    fn settle(&mut self, now: u64) {
        while self.native.next_wake().nanos() <= now {
            self.native.timer(Instant::from_nanos(now), &mut self.recorder);
        }
    }

    fn set_queued(&mut self, queue: Queue, bytes: Bytes) {
        if let Some(queued) = self.recorder.queued.get_mut(queue.index() as usize) {
            *queued = bytes.get();
            self.board.set_queued(queue.index(), bytes.get());
        }
    }

    /// Notes where the two part, and takes what the library did.
    fn compare(&mut self, now: u64, theirs: Vec<(u64, Action)>) -> Vec<Action> {
        let ours = std::mem::take(&mut self.recorder.actions);
        let theirs: Vec<Action> = theirs.into_iter().map(|(_, action)| action).collect();
        self.events += 1;
        self.answers += ours.iter().filter(|action| matches!(action, Action::Stage(_))).count() as u64;
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
        let Self { events, answers, frames, difference, .. } = self;
        // What a stage does not take costs nothing, and may share its code with something else.
        let mut cycles = cycles(self.board.cycles().iter());
        cycles.retain(|&kind, _| kind == "wake" || P::TAKES.iter().any(|takes| takes.name() == kind));
        let stage = P::NAME;
        Ok(Run {
            stage,
            preset,
            state_bytes,
            queue_bytes,
            flow_bytes,
            flows,
            events,
            answers,
            frames,
            difference,
            cycles,
        })
    }
}

/// Bytes of a frame that the pipeline shows a stage.
const HEAD: usize = 256;

/// The words of an answer, as the board sees them.
fn answer(queue: Queue, answer: &StageAction) -> Vec<u32> {
    let mut words = Vec::new();
    let command = answer.encode(queue, |word| words.push(word));
    words.push(command);
    words
}

/// Hardware that writes down what it is told.
struct Recorder {
    queued: [u32; PORTS * PRIORITIES],
    actions: Vec<Action>,
    transmit: [u8; TX_FRAME_BYTES],
}

impl TransmitRing for Recorder {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.transmit
    }

    fn transmit(&mut self, length: usize) {
        self.actions.push(Action::Frame(self.transmit.get(..length).unwrap_or_default().to_vec()));
    }
}

impl Hardware for Recorder {
    type Crc = HostCrc;

    fn queued(&mut self, queue: Queue) -> Bytes {
        Bytes::new(self.queued.get(queue.index() as usize).copied().unwrap_or(0))
    }

    fn act(&mut self, queue: Queue, action: &StageAction) {
        self.actions.push(Action::Stage(self::answer(queue, action)));
    }

    fn log(&mut self, kind: Kind, now: Instant, index: u32) {
        self.actions.push(Action::Log(LogRecord { kind: kind as u32, now: now.nanos(), index }));
    }
}

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
            write!(f, "{stage:<21} {preset:<8} {kind:<7}")?;
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
    use cc_core::params::Settings;
    use programs::switch::marking::Red;

    #[test]
    fn a_library_that_marks_otherwise_than_the_image_is_noticed() {
        let image = firmware::image(None, "red").unwrap();
        let ours = Red::PRESETS[0].values;
        let mut theirs = ours;
        // Kmax, as the image has it.
        theirs.put(1, 2 * ours.get(1));
        for (settings, differs) in [(ours, false), (theirs, true)] {
            let boot = BootSettings { rp_settings: words(&settings), np_settings: Vec::new(), link: LINK };
            let core = Design::Ibex.model(&RAM, DEVICES, 0, image.entry);
            let board = board_with(core, &image, &boot, Pace::Lockstep).unwrap();
            let mut pair = Pair::<Red, _>::new(&ours, board).unwrap();
            pair.carry(&mut traffic::<Red>(1), 5_000).unwrap();
            assert_eq!(pair.difference.is_some(), differs, "{:?}", pair.difference);
        }
    }
}
