//! Replays a capture to the NICs that it shows: natively, and on a core that runs the firmware.
#![forbid(unsafe_code)]

pub mod cnps;
pub mod decode;
pub mod distribution;
mod fast;
mod findings;
pub mod flows;
pub mod losses;
pub mod pauses;
pub mod qp_pairs;
pub mod replayer;
pub mod report;
pub mod series;
pub mod survey;
mod text;
pub mod timeline;

pub use distribution::{Distribution, Summary};
pub use report::{Ending, Report};
pub use text::Text;

use anyhow::{Context, Result, bail, ensure};
use cc_core::Rate;
use cc_core::table::Handle;
use cc_core::wire::shim;
use decode::{Buffers, decode};
use flows::{Address, Slot};
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{Algorithm, NicCounters, NicSize, algorithm};
use hil_capture::{NewFile, Source, interrupt};
use hil_cores::board::{Board, BootSettings, DEVICES, Pace, RAM, board_with};
use hil_cores::core::Core;
use hil_cores::elf::Image;
use hil_cores::interrupts::Interrupts;
use hil_cores::log::{self, Line, Texts};
use hil_cores::observed_core::ObservedCore;
use hil_cores::processor::Processor;
use hil_cores::qemu::Machine;
use hil_cores::wave::{Recorder, SLOTS};
use hil_cores::{firmware, wave};
use hil_devices::boot;
use hil_devices::device::Device;
use hil_devices::emulated::Emulated;
use hil_devices::lockstep::Lockstep;
use hil_devices::native::Native;
use hil_devices::paced::Paced;
use hil_sorted::SortedMap;
use replayer::{NicFilter, Outcome, Replayer};
use report::{Size, Sizes};
use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use survey::{Reading, Survey, Surveyor};

/// Most NICs in a replay.
const MAX_NICS: usize = 1_024;
/// Most NICs on an emulated machine, each of which is a process.
const MAX_EMULATED: usize = 16;

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// The algorithm, by name.
    pub algorithm: String,
    /// Its settings.
    pub request: Request,
    /// The addresses to be replayed; all if empty.
    pub only: Vec<IpAddr>,
    /// The UDP port on which shims come.
    pub shim_port: u16,
    /// How the capture is to be read.
    pub reading: Reading,
    /// The core that runs the firmware beside the library; `None` to replay on the host alone.
    pub core: Option<OnCore>,
    /// The file for the core's wave; `None` for no wave.
    pub wave: Option<Wave>,
    /// The receiver of log lines; `None` for no log. With it the image is one that logs, which takes more cycles than the image
    /// that ships.
    pub log: Option<Log>,
}

/// The receiver of log lines of a replay on a core; it is called with the NIC's address and the line.
#[derive(Clone)]
pub struct Log(pub Rc<dyn Fn(IpAddr, Line)>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").finish_non_exhaustive()
    }
}

/// A wave of a replay on a core, see [`hil_cores::wave`].
#[derive(Clone, Debug)]
pub struct Wave {
    /// The file; `-` for standard output.
    pub path: PathBuf,
    /// Files that it must not replace.
    pub inputs: Vec<PathBuf>,
    /// Cycles per second on the wave's time axis: in real time, the core's clock frequency.
    pub hz: u64,
}

impl Default for Options {
    /// DCQCN with its first preset, every address, on the host alone.
    fn default() -> Self {
        let algorithm = "dcqcn".to_owned();
        Self {
            algorithm,
            request: Request::default(),
            only: Vec::new(),
            shim_port: shim::PORT,
            reading: Reading::default(),
            core: None,
            wave: None,
            log: None,
        }
    }
}

/// A replay on a core.
#[derive(Clone, Debug)]
pub struct OnCore {
    /// The core, by name.
    pub name: String,
    /// The pace of its clock: lockstep, or real time.
    pub pace: Pace,
    /// The images; built from this tree if not given.
    pub firmware: Option<Images>,
    /// Whether, in lockstep, events are interrupted after every instruction, see [`hil_cores::interrupts`].
    pub interrupts: bool,
}

/// Files of images of one algorithm.
#[derive(Clone, Debug)]
pub struct Images {
    /// The image to be replayed.
    pub image: PathBuf,
    /// An image that does not inline the machine's `on`, to measure the cycles of `on`. In lockstep it is replayed beside the
    /// other, and its decisions are compared too. `None` to leave this out.
    pub outlined_on: Option<PathBuf>,
}

/// Replays a capture. The capture is surveyed for what only the whole of it shows, such as connected queue pairs. Without a core it is
/// replayed in the same reading; if a frame's replay needs the survey, or with a core, it is read again and replayed. `progress` is called every 16,384 frames with the position in the file.
///
/// If the capture is cut off, or a signal is to end the program, the replay ends there; the report says so.
///
/// # Errors
/// Unknown names, settings out of range, a capture that cannot be read on, an image that cannot be built or misbehaves,
/// too many NICs for cores.
pub fn replay(options: &Options, capture: &mut Source, mut progress: impl FnMut(u64)) -> Result<Report> {
    replayed(options, capture, &mut progress)
}

fn replayed(options: &Options, capture: &mut Source, progress: &mut dyn FnMut(u64)) -> Result<Report> {
    let algorithm = &*algorithm(&options.algorithm)?;
    let chosen = ResolvedSettings::by(algorithm, &options.request)?;
    let boot = boot(&chosen);
    let machine = match &options.core {
        Some(on_core) => Machine::named(&on_core.name)?.map(|machine| (on_core, machine)),
        None => None,
    };
    let nic_size = if machine.is_some_and(|(_, machine)| machine.small) { NicSize::Small } else { NicSize::Full };
    let make = || Native::new(algorithm, &chosen, nic_size);
    let playing = Playing {
        nic_filter: NicFilter { only: options.only.clone(), limit: MAX_NICS, strict: false },
        survey: Rc::default(),
        line_rate: chosen.link.line_rate,
        shim_port: options.shim_port,
        ignores_icrc: options.reading.ignores_icrc,
        rest: 2 * chosen.rp.longest_time().max(chosen.np.longest_time()),
    };
    let mut make_native = |_| Ok(Box::new(make()?) as Box<dyn Device>);
    let early = options.core.is_none().then(|| playing.replayer(&mut make_native));
    let (survey, early, ending) = survey(options, capture, early, progress)?;
    let playing = Playing { survey: Rc::new(survey), ..playing };
    // Counters of an unused NIC, so that every report has every counter, even if the capture shows no NIC.
    let unused = make()?.counters();
    let mut findings = Vec::new();
    let (outcome, core, image) = match (early, machine) {
        (Some(replayer), _) => {
            let (played, outcome, _) = end(replayer.with_survey(playing.survey), Ok(None), &options.only);
            ((outcome, played?), None, None)
        }
        (None, Some((on_core, machine))) => {
            emulate(options, on_core, &machine, &make, &boot, playing, capture, progress)?
        }
        (None, None) => run(options, algorithm.name(), &make, &boot, playing, capture, progress, &mut findings)?,
    };
    let native = size(algorithm.info(nic_size));
    let ending = match (ending, outcome.1) {
        (Ending::Whole, Some(signal)) => Ending::Interrupted(signal),
        (ending, _) => ending,
    };
    let mut report = report(algorithm, options, &chosen, &outcome.0, Sizes { native, image }, core, ending, &unused);
    report.findings.append(&mut findings);
    Ok(report)
}

/// The first reading: returns what only the whole capture shows, and how the reading ended. `early` replays the frames as well,
/// as long as their replay needs nothing of this; it is returned if it has replayed all of them.
fn survey<'a>(
    options: &Options,
    capture: &mut Source,
    mut early: Option<AnyReplayer<'a>>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Survey, Option<AnyReplayer<'a>>, Ending)> {
    let mut reader = capture.reader()?;
    let mut surveyor = Surveyor::new(options.reading.clone());
    let mut buffers = Buffers::default();
    let ending = loop {
        match reader.next() {
            Ok(Some(record)) => {
                let number = record.number;
                decode(record, options.shim_port, &mut buffers, |frame| {
                    surveyor.add(&record, frame);
                    // An error of the replay comes again in the second reading, which reports it.
                    early.take_if(|replayer| {
                        !surveyor.is_plain()
                            || replayer.decoded(&record, frame, surveyor.has_wrong_icrc(number)).is_err()
                            || replayer.needs_survey()
                    });
                });
                if number % PROGRESS == 0 && early.is_some() {
                    progress(reader.position());
                }
                if number % LOOK == 0
                    && let Some(signal) = interrupt::requested()
                {
                    break Ending::Interrupted(signal);
                }
            }
            Ok(None) => break interrupt::requested().map_or(Ending::Whole, Ending::Interrupted),
            Err(cut) if cut.is_cut() => break Ending::Cut(cut.to_string()),
            Err(error) => return Err(error.into()),
        }
    };
    Ok((surveyor.finish(reader.dropped()), early, ending))
}

/// Makes the NIC of an address.
type Make<'a> = &'a mut dyn FnMut(IpAddr) -> Result<Box<dyn Device>>;

/// A replayer to NICs of any kind: compiled once.
type AnyReplayer<'a> = Replayer<Box<dyn Device>, Make<'a>>;

/// Arguments for playing a capture.
struct Playing {
    nic_filter: NicFilter,
    survey: Rc<Survey>,
    line_rate: Rate,
    shim_port: u16,
    ignores_icrc: bool,
    /// See [`Replayer::with_rest`].
    rest: u64,
}

impl Playing {
    fn replayer<'a>(&self, make: Make<'a>) -> AnyReplayer<'a> {
        Replayer::new(self.nic_filter.clone(), self.line_rate, make)
            .with_shim_port(self.shim_port)
            .with_survey(Rc::clone(&self.survey))
            .ignoring_icrc(self.ignores_icrc)
            .with_rest(self.rest)
    }
}

/// Replays a capture to the NICs that `make` makes, and to the firmware beside them if [`Options::core`] is set. Adds a finding
/// for what the wave leaves out.
#[expect(clippy::too_many_arguments, reason = "what a replay needs, each a thing of its own")]
fn run(
    options: &Options,
    algorithm: &str,
    make: &dyn Fn() -> Result<Native>,
    boot: &BootSettings,
    playing: Playing,
    capture: &mut Source,
    progress: &mut dyn FnMut(u64),
    findings: &mut Vec<String>,
) -> Result<(Ended, Option<report::Core>, Option<Size>)> {
    let Some(on_core) = &options.core else {
        let (played, outcome, _) = play(playing, |_| make(), capture, progress);
        return Ok(((outcome, played?), None, None));
    };

    // Checked first, because it may fail and the replay takes long.
    options.log.as_ref().map_or(Ok(()), |_| Texts::supported()).context("--log")?;
    let new = |wave: &Wave| {
        let inputs: Vec<&Path> = wave.inputs.iter().map(PathBuf::as_path).collect();
        NewFile::create(&wave.path, &inputs)
    };
    let wave = options.wave.as_ref().map(new).transpose()?;
    let processor = Processor::named(&on_core.name)?;
    let name = processor.name();
    let lockstep = on_core.pace == Pace::Lockstep;
    let (image, outlined_on) = match &on_core.firmware {
        Some(Images { image, outlined_on }) => (image.clone(), outlined_on.clone()),
        None => {
            let build = |kind| firmware::build(algorithm, kind, processor.dialect());
            // An image that logs takes more cycles, so `on` is not measured beside it.
            let outlined_on =
                (lockstep && options.log.is_none()).then(|| build(firmware::Kind::OutlinedOn)).transpose()?;
            let kind = if options.log.is_some() { firmware::Kind::Logging } else { firmware::Kind::Inlining };
            (build(kind)?, outlined_on)
        }
    };
    let log =
        options.log.as_ref().map(|log| Ok::<_, anyhow::Error>((log, Rc::new(Texts::read(&image)?)))).transpose()?;
    if log.is_some() {
        findings
            .push("the cycles are those of an image that logs, which takes more than the one that ships".to_owned());
    }
    let image = firmware::read(&image)?;
    let outlined_on = outlined_on.as_deref().map(firmware::read).transpose()?;
    let playing = Playing { nic_filter: NicFilter { limit: MAX_NICS, strict: true, ..playing.nic_filter }, ..playing };
    let board = |image: &Image| {
        let core = ObservedCore::from(processor.start(&RAM, DEVICES, 0, image.entry)?);
        board_with(core, image, boot, on_core.pace)
    };
    let observed = |address: IpAddr| -> Result<Board<ObservedCore>> {
        let mut board = board(&image)?;
        if let Some(Wave { path, hz, .. }) = &options.wave {
            let recorder = Recorder::new(wave::folder(path), *hz, board.core().cycles());
            board.core_mut().record(recorder.with_context(|| format!("cannot record {}", path.display()))?);
        }
        if let Some((Log(sink), table)) = &log {
            let sink = Rc::clone(sink);
            let reader = log::Reader::new(Rc::clone(table), &image, Box::new(move |line| sink(address, line)))?;
            board.core_mut().read_log(reader);
        }
        Ok(board)
    };
    match on_core.pace {
        Pace::Lockstep => {
            let make = |address| {
                let outlined_on = outlined_on.as_ref().map(board).transpose()?;
                let nic = Lockstep::new(make()?, observed(address)?, outlined_on);
                Ok(if on_core.interrupts { nic.interrupted() } else { nic })
            };
            let (played, outcome, mut nics) = play(playing, make, capture, progress);
            let written = write_wave(options, wave, &outcome, nics.iter_mut().map(Lockstep::board_mut), findings);
            let interrupted = played.and_then(|signal| written.map(|()| signal))?;
            let core = report::Core {
                name,
                pace: "lockstep",
                clock_hz: None,
                identical: nics.iter().all(Lockstep::is_identical) && nics.iter().any(|nic| nic.events() > 0),
                events: nics.iter().map(Lockstep::events).sum(),
                difference: report::difference(&outcome),
                memory: memory(nics.iter().map(Lockstep::board)),
                cycles: report::cycles(nics.iter().flat_map(Lockstep::cycles)),
                ring_overflows: 0,
                cnps_lost: 0,
                cnps_coalesced: 0,
                interrupts: nics.iter().filter_map(Lockstep::interrupts).fold(None, |sum: Option<Interrupts>, one| {
                    let mut sum = sum.unwrap_or_default();
                    sum.add(one);
                    Some(sum)
                }),
            };
            let size = nics.first().map(|nic| image_size(nic.board())).transpose()?;
            Ok(((outcome, interrupted), Some(core), size))
        }
        Pace::Real { hz } => {
            let make = |address| Ok(Paced::new(make()?, make()?, observed(address)?));
            let (played, outcome, mut nics) = play(playing, make, capture, progress);
            let written = write_wave(options, wave, &outcome, nics.iter_mut().map(Paced::board_mut), findings);
            let interrupted = played.and_then(|signal| written.map(|()| signal))?;
            let core = report::Core {
                name,
                pace: "real time",
                clock_hz: Some(hz),
                identical: nics.iter().all(Paced::is_identical) && nics.iter().any(|nic| nic.events() > 0),
                events: nics.iter().map(Paced::events).sum(),
                difference: report::difference(&outcome),
                memory: memory(nics.iter().map(Paced::board)),
                cycles: report::cycles(nics.iter().flat_map(|nic| nic.board().cycles())),
                ring_overflows: nics.iter().map(Paced::overflows).sum(),
                cnps_lost: nics.iter().map(Paced::lost_cnps).sum(),
                cnps_coalesced: nics.iter().map(Paced::coalesced).sum(),
                interrupts: None,
            };
            let size = nics.first().map(|nic| image_size(nic.board())).transpose()?;
            Ok(((outcome, interrupted), Some(core), size))
        }
    }
}

/// Writes the waves that the boards recorded, if they did. Called also after an image misbehaved, so that its wave shows why.
fn write_wave<'a>(
    options: &Options,
    file: Option<NewFile>,
    outcome: &Outcome,
    boards: impl Iterator<Item = &'a mut Board<ObservedCore>>,
    findings: &mut Vec<String>,
) -> Result<()> {
    let Some((Wave { path, hz, .. }, file)) = options.wave.as_ref().zip(file) else { return Ok(()) };
    let (mut recorded, mut comments) = (Vec::new(), vec![format!("a cycle is 1/{hz} s")]);
    for (&(number, _), board) in outcome.nics.iter().zip(boards) {
        let Some(&address) = outcome.addresses.get(usize::from(number)) else { continue };
        let Some(recorder) = board.core_mut().take_recorder() else { continue };
        if recorder.left_out() > 0 {
            let qps = recorder.left_out();
            let finding = format!("the wave leaves out {qps} QPs of {address}, which were paced after {SLOTS} others");
            comments.push(finding.clone());
            findings.push(finding);
        }
        comments.extend(slots(outcome, number));
        recorded.push((wave::scope(address), recorder));
    }
    wave::write(file, recorded, &comments).with_context(|| format!("cannot write the wave to {}", path.display()))
}

/// Which flow each slot of a NIC served when the capture ended.
fn slots(outcome: &Outcome, nic: Address) -> impl Iterator<Item = String> {
    outcome.flows.all().iter().filter(move |flow| flow.source == nic).filter_map(|flow| {
        let Slot::Open { handle, .. } = flow.slot else { return None };
        let address = |number: Address| outcome.addresses.get(usize::from(number)).copied();
        let (slot, source) = (Handle::from_bits(handle).index(), address(flow.source)?);
        let to = match flow.target.and_then(address) {
            Some(target) => format!("to QP {:#x} of {target}", flow.qpn),
            None => format!("datagrams of QP {:#x}", flow.qpn),
        };
        Some(format!("{}.slot_{slot}: {to}", wave::scope(source)))
    })
}

/// As [`run`], beside the firmware on one of QEMU's machines.
#[expect(clippy::too_many_arguments, reason = "what a replay needs, each a thing of its own")]
fn emulate(
    options: &Options,
    on_core: &OnCore,
    machine: &Machine,
    make: &dyn Fn() -> Result<Native>,
    boot: &BootSettings,
    playing: Playing,
    capture: &mut Source,
    progress: &mut dyn FnMut(u64),
) -> Result<(Ended, Option<report::Core>, Option<Size>)> {
    let name = machine.name;
    ensure!(on_core.pace == Pace::Lockstep, "--pace real: {name} is instruction-accurate, it has no cycles to go by");
    ensure!(!on_core.interrupts, "--interrupts: the image on {name} takes none");
    ensure!(options.wave.is_none(), "--vcd: {name} is instruction-accurate, it has no cycles to show");
    ensure!(options.log.is_none(), "--log: the image on {name} has no log");
    machine.installed()?;
    let image = match &on_core.firmware {
        Some(images) => images.image.clone(),
        None => firmware::build_semihosted(&options.algorithm, machine.target)?,
    };
    machine.takes(&image)?;
    let playing =
        Playing { nic_filter: NicFilter { limit: MAX_EMULATED, strict: true, ..playing.nic_filter }, ..playing };
    let make = |_| Emulated::new(make()?, machine, &image, boot);
    let (played, outcome, nics) = play(playing, make, capture, progress);
    let interrupted = played?;
    let core = report::Core {
        name,
        pace: "lockstep, instruction-accurate",
        clock_hz: None,
        identical: nics.iter().all(Emulated::is_identical) && nics.iter().any(|nic| nic.events() > 0),
        events: nics.iter().map(Emulated::events).sum(),
        difference: report::difference(&outcome),
        memory: None,
        cycles: SortedMap::new(),
        ring_overflows: 0,
        cnps_lost: 0,
        cnps_coalesced: 0,
        interrupts: None,
    };
    let size = nics.first().map(|nic| size(nic.report()));
    Ok(((outcome, interrupted), Some(core), size))
}

fn memory<'a, C: Core + 'a>(boards: impl Iterator<Item = &'a Board<C>>) -> Option<report::Memory> {
    let each = boards.map(|board| report::Memory { static_ram_bytes: board.static_ram(), stack_bytes: board.stack() });
    each.max_by_key(|memory| memory.stack_bytes)
}

fn image_size<C: Core>(board: &Board<C>) -> Result<Size> {
    Ok(size(board.report()?))
}

fn size(report: programs::layout::ImageInfo) -> Size {
    let programs::layout::ImageInfo { qps, state_bytes, qp_bytes, peers, peer_bytes } = report;
    Size { state_bytes, qp_bytes, qps, peer_bytes, peers }
}

/// Frames between two calls of the progress function.
const PROGRESS: u64 = 1 << 14;
/// Frames between two checks whether a signal has come.
const LOOK: u64 = 1 << 8;

/// The outcome of a replay, and the signal that ended it, if one did.
type Ended = (Outcome, Option<i32>);

/// Replays a capture. Returns the outcome and the NICs even if the replay fails before the end of the capture. `Ok` holds the
/// signal that ended it early, if one did.
fn play<D: Device>(
    playing: Playing,
    mut make: impl FnMut(IpAddr) -> Result<D>,
    capture: &mut Source,
    progress: &mut dyn FnMut(u64),
) -> (Result<Option<i32>>, Outcome, Vec<D>) {
    let mut make = |address| Ok(Box::new(make(address)?) as Box<dyn Device>);
    let mut replayer = playing.replayer(&mut make);
    let played = play_all(&mut replayer, capture, playing.survey.frames, progress);
    let (played, outcome, nics) = end(replayer, played, &playing.nic_filter.only);
    let nics = nics.into_iter().filter_map(|nic| (nic as Box<dyn Any>).downcast::<D>().ok());
    (played, outcome, nics.map(|nic| *nic).collect())
}

/// Ends a replay, of which all frames are `played`, unless there was an error. Returns what [`play`] returns.
fn end(
    mut replayer: AnyReplayer<'_>,
    played: Result<Option<i32>>,
    only: &[IpAddr],
) -> (Result<Option<i32>>, Outcome, Vec<Box<dyn Device>>) {
    let played = played.and_then(|signal| replayer.finish().map(|()| signal));
    let (outcome, nics) = replayer.into_outcome();
    let played = played.and_then(|signal| match only.iter().find(|address| !outcome.addresses.contains(address)) {
        Some(absent) => bail!(
            "--nic {absent}: the capture shows no RoCE frame from or to this address; without --nic the report lists all \
             addresses"
        ),
        None => Ok(signal),
    });
    (played, outcome, nics)
}

/// Replays the first `frames` frames of a capture: those that the first reading has read.
fn play_all(
    replayer: &mut AnyReplayer<'_>,
    capture: &mut Source,
    frames: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<i32>> {
    let name = capture.name().to_owned();
    // A signal that ended the first reading does not end this one.
    let before = interrupt::requested();
    let mut reader = capture.reader()?;
    let mut interrupted = None;
    let mut number = 0;
    while number < frames {
        let Some(record) = reader.next()? else { break };
        number = record.number;
        replayer.frame(&record).with_context(|| format!("{name}, frame {number}"))?;
        if number % LOOK == 0 && before.is_none() {
            interrupted = interrupt::requested();
            if interrupted.is_some() {
                break;
            }
        }
        if number % PROGRESS == 0 {
            progress(reader.position());
        }
    }
    Ok(interrupted)
}

#[expect(clippy::too_many_arguments, reason = "what a report is made of, each a thing of its own")]
fn report(
    algorithm: &dyn Algorithm,
    options: &Options,
    chosen: &ResolvedSettings,
    outcome: &Outcome,
    sizes: Sizes,
    core: Option<report::Core>,
    ending: Ending,
    unused: &NicCounters,
) -> Report {
    let description = report::Algorithm {
        name: algorithm.name(),
        preset: chosen.rp_preset,
        np_preset: chosen.np_preset,
        rp: chosen.rp.shown(),
        np: chosen.np.shown(),
        in_bytes: [chosen.rp.in_bytes(), chosen.np.in_bytes()].concat(),
    };
    let Request { line_rate, mtu, base_rtt, .. } = options.request;
    let port = report::Port { line_rate_gbps: line_rate, mtu_bytes: mtu, base_rtt_us: base_rtt };
    let mut signals = report::Signals::new(algorithm.signals(), outcome.signals);
    let frames = &outcome.frames;
    if signals.no_decisions.is_some()
        && frames.dropped.contains_key("icrc")
        && frames.icrc_valid + frames.icrc_unchecked == 0
    {
        signals.no_decisions = Some("no RoCE frame has a right ICRC".to_owned());
    }
    let tables = algorithm.transitions();
    Report::new(outcome, description, port, signals, tables, unused, sizes, core, ending)
}
