//! Runs firmware in C that uses the C library: a cross compiler builds it with a trace of events inside, and it runs on a core
//! or on QEMU. Its decisions and counters are compared with those of the library's machines called from Rust.

use anyhow::{Context, Result, bail, ensure};
use cc_core::clock::LocalClock;
use cc_core::params::Settings as _;
use cc_core::{
    Bytes, CnpBody, CnpBodyKind, CnpKind, Delay, Grant, Hop, Instant, IntLayout, IntStack, IntStackBuilder, Link, Mark,
    Nanos, Psn, Rate, Stamp,
};
use cc_rp::registry::{self, Visitor};
use cc_rp::{Ack, CnpIgnored, Cx, Event, ReactionPoint, gate_event};
use hil_cores::board::{DEVICES, RAM};
use hil_cores::core::{Core, Design, Stop};
use hil_cores::firmware::{self, fault};
use hil_cores::processor::Processor;
use hil_cores::qemu;
use hil_cores::random::SplitMix;
use hil_cores::tree;
use object::{Object, ObjectSection, SectionKind};
use programs::layout::{DEVICE_BASE, register};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of flows in a trace.
const FLOWS: u32 = 16;
/// Most settings that a trace can change at the start.
const SETTINGS: usize = 8;
/// The link of all traces.
const LINK: Link = Link { line_rate: Rate::from_gbps(100), mtu: Bytes::new(1_086), base_rtt: Nanos::new(8_000) };
/// The words of a decision: rate, window, hold and wake.
pub type Words = [u32; 4];

/// One item of a flow's trace: its opening, or an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceItem {
    /// The flow is opened.
    Open,
    /// An event, without its telemetry and its CNP's body.
    Event(Event<'static>),
}

/// One line of a trace.
#[derive(Clone, Debug)]
pub struct Record {
    /// The flow.
    pub flow: u32,
    /// The caller's clock, in nanoseconds.
    pub now: u64,
    /// Remaining time of a PFC pause, and the sum of all pauses so far, in nanoseconds.
    pub pause: u32,
    /// See `pause`.
    pub paused: u32,
    /// The opening of the flow, or the event.
    pub what: TraceItem,
    /// The telemetry records that came with the event, in the wide layout.
    pub hops: Vec<Hop>,
    /// Number of the path on which the records were written.
    pub path: u16,
}

/// Events for one algorithm, and the settings of its port.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The algorithm.
    pub algorithm: &'static str,
    /// Its preset.
    pub preset: u32,
    /// Settings changed before the first event: numbers and values.
    pub settings: Vec<(u32, u32)>,
    /// The events.
    pub records: Vec<Record>,
}

/// The decisions and counters that an implementation returned for a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// A decision for each record.
    pub decisions: Vec<Words>,
    /// The counters at the end, by number.
    pub counters: Vec<u32>,
    /// Cycles of each record's call, its arguments included, if [`Program::timed`] is set; 0 for the opening of a flow.
    pub cycles: Vec<u32>,
}

impl Trace {
    /// A random trace of sixteen flows: events close together and far apart, a clock that jumps forward and back, pauses, and
    /// CNPs without a body, with a body, repeated, and of unsupported kinds.
    pub fn random<A: ReactionPoint>(seed: u64, records: usize) -> Self {
        Self::of(A::NAME, A::PRESETS.len() as u32, seed, records)
    }

    fn of(algorithm: &'static str, presets: u32, seed: u64, records: usize) -> Self {
        let mut chance = SplitMix::new(seed);
        let preset = chance.below(presets);
        let mut making = Making {
            chance,
            now: 5_000_000_000,
            local: 0,
            seen: [0; FLOWS as usize],
            seq: 0,
            psn: Psn::new(0xff_ff00),
            paused: 0,
            sent: 0,
        };
        let mut lines: Vec<Record> = (0..FLOWS).map(|flow| making.record(flow, TraceItem::Open)).collect();
        while lines.len() < records {
            lines.push(making.next());
        }
        Self { algorithm, preset, settings: Vec::new(), records: lines }
    }

    /// The trace in the format that the C firmware reads.
    fn to_bytes(&self) -> Vec<u8> {
        let mut words = vec![self.records.len() as u32, self.preset];
        words.extend([LINK.line_rate.to_bits(), LINK.mtu.get(), LINK.base_rtt.get(), self.settings.len() as u32]);
        let unused = std::iter::repeat(&(0, 0));
        words.extend(self.settings.iter().chain(unused).take(SETTINGS).flat_map(|&(id, value)| [id, value]));
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.records.iter().for_each(|record| record.append(&mut bytes));
        bytes
    }

    /// The decisions of the machine in Rust, called as an engine calls it.
    ///
    /// # Errors
    /// The trace's settings are not the algorithm's.
    pub fn native<A: ReactionPoint>(&self) -> Result<Outcome> {
        let preset = A::PRESETS.get(self.preset as usize).context("the trace's preset does not exist")?;
        let mut settings = preset.values;
        for &(id, value) in &self.settings {
            settings.set(id as usize, value)?;
        }
        let params = A::check(&settings, &LINK)?;
        let start = self.records.first().map_or(0, |record| record.now);
        let mut clock = LocalClock::new(Instant::from_nanos(start));
        let mut flows: Vec<Option<A>> = vec![None; FLOWS as usize];
        let (mut handled, mut stale, mut unsupported) = (0, 0, 0);
        let mut decisions = Vec::new();
        for record in &self.records {
            let now = clock.advance(Instant::from_nanos(record.now));
            let clock_without_pauses = Stamp::from_bits(now.stamp().to_bits().wrapping_sub(record.paused));
            let cx = Cx { now, link: &LINK, params: &params, pause: Nanos::new(record.pause), clock_without_pauses };
            let telemetry = record.telemetry();
            let event = record.event(&telemetry);
            if matches!(record.what, TraceItem::Open) {
                flows[record.flow as usize] = Some(A::open(&cx));
            }
            let flow = flows[record.flow as usize].as_mut().context("an event of a flow that was not opened")?;
            let is_cnp = matches!(event, Event::Cnp { .. } | Event::SwitchInt { .. });
            let event = match gate_event(flow, event) {
                Ok(event) => {
                    handled += u32::from(is_cnp);
                    event
                }
                Err(why) => {
                    *if why == CnpIgnored::Stale { &mut stale } else { &mut unsupported } += 1;
                    Event::Wake
                }
            };
            let decision = flow.on(&cx, &event);
            let hold = decision.hold.max(cx.pause);
            decisions.push([decision.rate.to_bits(), decision.window.get(), hold.get(), decision.wake_in.get()]);
        }
        let counters =
            vec![handled, stale + unsupported, stale, unsupported, clock.forward_jumps(), clock.backward_jumps()];
        Ok(Outcome { decisions, counters, cycles: Vec::new() })
    }
}

impl Record {
    /// The event, with its telemetry; that of opening a flow is a wake.
    fn event<'a>(&self, telemetry: &'a IntStackBuilder) -> Event<'a> {
        match self.what {
            TraceItem::Open => Event::Wake,
            TraceItem::Event(Event::Ack(ack)) => Event::Ack(Ack { int: telemetry.stack(), ..ack }),
            TraceItem::Event(Event::SwitchInt { .. }) => Event::SwitchInt { int: telemetry.stack() },
            TraceItem::Event(event) => event,
        }
    }

    fn telemetry(&self) -> IntStackBuilder {
        IntStackBuilder::new(IntLayout::Wide, self.path)
            .with_room(self.hops.len() as u8)
            .with(self.hops.iter().copied())
    }

    /// The 168 bytes of `struct record` in `targets/c-firmware/main.c`.
    fn append(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + 168;
        let (mut kind, mut psn, mut size, mut ack, mut body) = (0, Psn::default(), Bytes::ZERO, Ack::default(), None);
        if let TraceItem::Event(event) = self.what {
            kind = match event {
                Event::Sent { psn: last, bytes } => {
                    (psn, size) = (last, bytes);
                    1
                }
                Event::Ack(acked) => {
                    (psn, size, ack) = (acked.psn, acked.acked, acked);
                    2
                }
                Event::Nack { psn: expected } => {
                    psn = expected;
                    3
                }
                Event::Cnp { body_kind } => {
                    body = Some(body_kind.to_bytes()).filter(|_| body_kind != CnpBodyKind::Standard);
                    4
                }
                Event::Wake => 5,
                Event::SwitchInt { .. } => 6,
            };
        }
        let delay = ack.delay.unwrap_or_default();
        let (mut rcc, mut mlcc) = ((0, 0, 0), (0, 0, 0));
        match ack.grant {
            Grant::None => {}
            Grant::Rcc { window, flows, utilisation } => rcc = (window.get(), flows, utilisation),
            Grant::Mlcc { credit, release, advised_rate } => mlcc = (credit, release.to_bits(), advised_rate.to_bits()),
        }
        let ((window, flows, utilisation), (credit, release, advised_rate)) = (rcc, mlcc);
        let (low, high) = (self.now as u32, (self.now >> 32) as u32);
        let words = [self.flow, kind, low, high, self.pause, self.paused, psn.get(), size.get()];
        let delays = [delay.rtt.get(), delay.receiver_hold.get(), window, advised_rate, release];
        bytes.extend(words.into_iter().chain(delays).flat_map(u32::to_le_bytes));
        bytes.extend([credit, flows, utilisation, self.path].into_iter().flat_map(u16::to_le_bytes));
        let mark = ack.mark as u8;
        bytes.extend([self.hops.len() as u8, 0, mark, delay.hops, delay.rx_buffer_level, body.is_some().into()]);
        bytes.extend(body.unwrap_or_default());
        bytes.extend(self.telemetry().area());
        bytes.resize(end, 0);
    }
}

/// A random trace under construction.
struct Making {
    chance: SplitMix,
    now: u64,
    /// The flows' own time, without the jumps of the caller's clock.
    local: u64,
    /// The time of each flow's last event.
    seen: [u64; FLOWS as usize],
    seq: u16,
    psn: Psn,
    paused: u32,
    sent: u32,
}

impl Making {
    fn record(&mut self, flow: u32, what: TraceItem) -> Record {
        self.seen[flow as usize] = self.local;
        let Self { now, paused, .. } = *self;
        Record { flow, now, pause: 0, paused, what, hops: Vec::new(), path: 0 }
    }

    fn next(&mut self) -> Record {
        let longest = match self.chance.below(1_000) {
            0..700 => 2_000,
            700..955 => 60_000,
            955..993 => 2_000_000,
            _ => 400_000_000,
        };
        let gap = u64::from(self.chance.below(longest));
        self.local += gap;
        self.now += gap;
        match self.chance.below(500) {
            0 => self.now += 3_000_000_000,
            1 => self.now -= 2_000_000,
            _ => {}
        }
        // Every flow has an event at least once a second: a wake after 0.5 s without one.
        let idle = (0..FLOWS).find(|&flow| self.local - self.seen[flow as usize] > 500_000_000);
        if let Some(flow) = idle {
            return self.record(flow, TraceItem::Event(Event::Wake));
        }
        let flow = self.chance.below(FLOWS).min(self.chance.below(FLOWS));
        self.psn = self.psn.plus(1);
        let psn = self.psn;
        let event = match self.chance.below(20) {
            0..6 => {
                let most = self.chance.pick(&[9_000, 9_000, 9_000, 9_000, 3_000_000]);
                let bytes = Bytes::new(1 + self.chance.below(most));
                Event::Sent { psn, bytes }
            }
            6..10 => Event::Ack(self.acknowledgement(psn)),
            10 => Event::Nack { psn },
            11..16 => Event::Cnp { body_kind: self.body_kind() },
            16 => Event::SwitchInt { int: IntStack::NONE },
            _ => Event::Wake,
        };
        let (pause, path) = (self.chance.below(40).saturating_sub(38) * 3_000, 1 + self.chance.below(8) as u16 / 7);
        self.paused = self.paused.wrapping_add(pause / 2);
        let mut record = self.record(flow, TraceItem::Event(event));
        (record.pause, record.path) = (pause, path);
        if matches!(event, Event::Ack(_) | Event::SwitchInt { .. }) && self.chance.below(4) != 0 {
            self.sent = self.sent.wrapping_add(self.chance.below(600));
            let (clock, sent) = (self.now as u32, self.sent);
            let count = if flow == 0 { 5 } else { 1 + flow % 5 };
            record.hops = (0..count)
                .map(|_| Hop { mbps: 100_000, flags: 0, clock, sent, queue: self.chance.below(200_000) })
                .collect();
        }
        record
    }

    fn acknowledgement(&mut self, psn: Psn) -> Ack<'static> {
        let chance = &mut self.chance;
        let rtt = Nanos::new(8_000 + chance.below(1 + 80_000));
        let delay = Delay {
            rtt,
            receiver_hold: Nanos::new(chance.below(500)),
            hops: 3,
            rx_buffer_level: chance.below(8) as u8,
        };
        let grant = Grant::Rcc {
            window: Bytes::new(chance.below(200_000)),
            flows: 1 + chance.below(20) as u16,
            utilisation: chance.draw() as u16,
        };
        let mlcc = Grant::Mlcc {
            credit: 1 + chance.below(1_000) as u16,
            release: Rate::from_mbps(chance.below(100_000)),
            advised_rate: Rate::from_mbps(chance.below(100_000)),
        };
        Ack {
            psn,
            acked: Bytes::new(chance.below(10_000)),
            mark: chance.pick(&[Mark::None, Mark::None, Mark::Undetermined, Mark::Congested]),
            delay: (chance.below(8) != 0).then_some(delay),
            int: IntStack::NONE,
            grant: chance.pick(&[grant, grant, mlcc, Grant::None]),
        }
    }

    fn body_kind(&mut self) -> CnpBodyKind {
        if self.chance.below(3) != 0 {
            return CnpBodyKind::Standard;
        }
        let kinds = [CnpKind::Standard, CnpKind::Period, CnpKind::Undetermined, CnpKind::SwitchInt];
        self.seq = self.seq.wrapping_add(self.chance.below(3) as u16);
        let period = Nanos::new(50_000 + self.chance.below(500_000));
        CnpBodyKind::Extended(CnpBody {
            kind: self.chance.pick(&kinds),
            ce: true,
            seq: self.seq,
            period,
            ..CnpBody::default()
        })
    }
}

/// The place where a firmware in C runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On a 32-bit RISC-V core: a model, RTL, or both.
    Riscv(Processor),
    /// On one of QEMU's boards: its name, the core, and the target of the library.
    Qemu {
        /// QEMU's name of the board.
        machine: &'static str,
        /// The C compiler's name of the core.
        cpu: &'static str,
        /// The `rustc` target of the library.
        target: &'static str,
    },
}

impl Place {
    /// The model of Ibex small.
    pub const IBEX: Self = Self::Riscv(Processor::Model(Design::Ibex));
    /// The Cortex-M boards.
    pub const CORTEX_M: [Self; 3] = [
        Self::Qemu { machine: "microbit", cpu: "cortex-m0", target: "thumbv6m-none-eabi" },
        Self::Qemu { machine: "mps2-an385", cpu: "cortex-m3", target: "thumbv7m-none-eabi" },
        Self::Qemu { machine: "mps2-an386", cpu: "cortex-m4", target: "thumbv7em-none-eabi" },
    ];

    /// The target of the library.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Riscv(_) => "riscv32imc-unknown-none-elf",
            Self::Qemu { target, .. } => target,
        }
    }

    /// The C compiler.
    pub const fn compiler(self) -> &'static str {
        match self {
            Self::Riscv(_) => "riscv64-unknown-elf-gcc",
            Self::Qemu { .. } => "arm-none-eabi-gcc",
        }
    }

    /// The first program that is needed for this place and is not installed, if any.
    pub fn missing(self) -> Option<&'static str> {
        let needed = match self {
            Self::Riscv(_) => &[self.compiler()][..],
            Self::Qemu { .. } => &[self.compiler(), "qemu-system-arm"],
        };
        needed.iter().copied().find(|program| Command::new(program).arg("--version").output().is_err())
    }
}

/// A firmware in C.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The place where it is to run.
    pub place: Place,
    /// The implementation that decides: a static library, or C sources with a header of the same interface.
    pub by: Decider<'a>,
    /// The compiler's optimisation flag.
    pub optimise: &'a str,
    /// Whether it reports cycles.
    pub timed: bool,
}

/// The implementation that decides in a firmware.
#[derive(Clone, Copy, Debug)]
pub enum Decider<'a> {
    /// The C library.
    Library(&'a Path),
    /// A C source. A header of the same name is beside it, and the names of its functions begin with that name.
    Source(&'a Path),
}

impl Program<'_> {
    /// Builds it in a folder, with a trace inside.
    ///
    /// # Errors
    /// The compiler is missing or fails.
    pub fn build(&self, trace: &Trace, folder: &Path) -> Result<PathBuf> {
        let targets = tree::here()?.root().join("targets");
        let sources = targets.join("c-firmware");
        let (data, elf) = (folder.join("trace.bin"), folder.join("firmware.elf"));
        fs::write(&data, trace.to_bytes()).with_context(|| data.display().to_string())?;
        let mut gcc = Command::new(self.place.compiler());
        let board = match self.place {
            Place::Riscv(_) => {
                gcc.args(["-march=rv32imc", "-mabi=ilp32"]);
                "rv32"
            }
            Place::Qemu { cpu, .. } => {
                gcc.args([&format!("-mcpu={cpu}"), "-mthumb"]);
                "cortex-m"
            }
        };
        gcc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib", "-ffunction-sections"])
            .args(["-fdata-sections", "-Wl,--gc-sections", self.optimise])
            .arg(format!("-I{}", targets.join("c-abi/include").display()))
            .arg(format!("-DNAME={}", trace.algorithm))
            .arg(format!("-DTRACE=\"{}\"", data.display()))
            .arg("-T")
            .arg(sources.join(board).with_extension("ld"))
            .args(["main.c", "trace.S", &format!("{board}.c")].map(|name| sources.join(name)));
        if self.timed {
            gcc.arg("-DTIMED");
        }
        match self.by {
            Decider::Library(path) => gcc.arg(path),
            Decider::Source(path) => {
                let prefix = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                gcc.arg(format!("-DPREFIX={prefix}"));
                gcc.arg(format!("-DHEADER=\"{}\"", path.with_extension("h").display()));
                gcc.arg(path)
            }
        };
        let built = gcc.args(["-lgcc", "-o"]).arg(&elf).output();
        let built = built.with_context(|| format!("cannot run {}: install it", self.place.compiler()))?;
        ensure!(built.status.success(), "{} failed: {}", self.place.compiler(), fault(&built));
        Ok(elf)
    }

    /// Bytes of code and constants of these functions and all that they call.
    ///
    /// # Errors
    /// The compiler is missing or fails.
    pub fn bytes(&self, folder: &Path, functions: &[String]) -> Result<u64> {
        let elf = folder.join("functions.elf");
        let targets = tree::here()?.root().join("targets");
        let mut gcc = Command::new(self.place.compiler());
        gcc.args(["-march=rv32imc", "-mabi=ilp32", "-std=c11", "-ffreestanding", "-nostdlib", "-ffunction-sections"])
            .args(["-fdata-sections", "-Wl,--gc-sections", "-Wl,-e0", self.optimise])
            .arg(format!("-I{}", targets.join("c-abi/include").display()))
            .args(functions.iter().map(|name| format!("-Wl,--undefined={name}")));
        match self.by {
            Decider::Library(path) | Decider::Source(path) => gcc.arg(path),
        };
        let built = gcc.args(["-lgcc", "-o"]).arg(&elf).output();
        let built = built.with_context(|| format!("cannot run {}: install it", self.place.compiler()))?;
        ensure!(built.status.success(), "{} failed: {}", self.place.compiler(), fault(&built));
        let file = fs::read(&elf).with_context(|| elf.display().to_string())?;
        let sections = object::File::parse(&*file)?;
        let loaded = [SectionKind::Text, SectionKind::ReadOnlyData, SectionKind::ReadOnlyString];
        Ok(sections.sections().filter(|one| loaded.contains(&one.kind())).map(|section| section.size()).sum())
    }

    /// Runs the image in a file over a trace of `records` records.
    ///
    /// # Errors
    /// The firmware faults, does not end, or its output is not decisions and counters.
    pub fn run(&self, elf: &Path, records: usize) -> Result<Outcome> {
        let words = match self.place {
            Place::Riscv(core) => on_riscv(core, elf)?,
            Place::Qemu { machine, .. } => on_qemu(machine, elf)?,
        };
        let each = if self.timed { 5 } else { 4 };
        ensure!(words.len() >= each * records, "{} words reported, of {records} records", words.len());
        let (reports, counters) = words.split_at(each * records);
        let mut outcome = Outcome { counters: counters.to_vec(), ..Outcome::default() };
        for report in reports.chunks(each) {
            outcome.decisions.push([report[0], report[1], report[2], report[3]]);
            outcome.cycles.extend(report.get(4));
        }
        Ok(outcome)
    }
}

/// Runs a random trace on firmware in C with the C library, and on the machine in Rust.
#[derive(Clone, Debug)]
pub struct Play<'a> {
    /// Where the firmware runs.
    pub place: Place,
    /// The C library.
    pub library: &'a Path,
    /// Settings changed before the first event: numbers and values.
    pub settings: Vec<(u32, u32)>,
    /// Seed of the trace.
    pub seed: u64,
    /// Number of records in the trace.
    pub records: usize,
}

/// The result of a [`Play`].
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The trace.
    pub trace: Trace,
    /// The firmware's decisions and counters.
    pub found: Outcome,
    /// The decisions and counters of the machine in Rust.
    pub native: Outcome,
}

impl Play<'_> {
    /// Runs the trace of the algorithm of this name.
    ///
    /// # Errors
    /// There is no such algorithm, the trace's settings are not its own, or the firmware cannot be built or run.
    pub fn run(self, algorithm: &str) -> Result<RunResult> {
        let Self { place, library, settings, seed, records } = self;
        let on_host = registry::with(algorithm, OnHost { settings, seed, records });
        let (trace, native) = on_host.with_context(|| format!("no algorithm {algorithm}"))??;
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let program = Program { place, by: Decider::Library(library), optimise: "-O2", timed: false };
        let found = program.run(&program.build(&trace, folder.path())?, records)?;
        Ok(RunResult { trace, found, native })
    }
}

/// The part of a [`Play`] that is compiled for each algorithm: its trace, and the decisions of the machine in Rust.
struct OnHost {
    settings: Vec<(u32, u32)>,
    seed: u64,
    records: usize,
}

impl Visitor for OnHost {
    type Output = Result<(Trace, Outcome)>;

    fn visit<A: ReactionPoint>(self) -> Self::Output {
        let trace = Trace { settings: self.settings, ..Trace::random::<A>(self.seed, self.records) };
        let native = trace.native::<A>()?;
        Ok((trace, native))
    }
}

impl RunResult {
    /// The first difference between the two, or `None`.
    pub fn difference(&self) -> Option<String> {
        let Self { trace, found, native } = self;
        let pairs = found.decisions.iter().zip(&native.decisions).zip(&trace.records);
        let differing = pairs.enumerate().find(|(_, ((is, should), _))| is != should);
        if let Some((nth, ((is, should), record))) = differing {
            return Some(format!("record {nth}, {record:?}: decided {is:x?}, the library {should:x?}"));
        }
        (found != native).then(|| {
            let summary =
                |outcome: &Outcome| format!("{} decisions, counters {:?}", outcome.decisions.len(), outcome.counters);
            format!("{}, the library {}", summary(found), summary(native))
        })
    }
}

/// The words that an image reports on a core.
fn on_riscv(core: Processor, elf: &Path) -> Result<Vec<u32>> {
    let image = firmware::read_any(elf)?;
    let mut core = core.start(&RAM, DEVICES, 0, image.entry)?;
    image.load(&mut core, &RAM)?;
    let mut words = Vec::new();
    loop {
        match core.run(4_000_000_000) {
            Stop::Store { address, value, .. } if address == DEVICE_BASE + register::IMAGE_INFO => words.push(value),
            Stop::Store { address, value: 0, .. } if address == DEVICE_BASE + register::EXIT => return Ok(words),
            Stop::Store { address, value, .. } if address == DEVICE_BASE + register::EXIT => {
                bail!("the firmware ended with {value} after {} words", words.len())
            }
            stop => bail!("the firmware stopped after {} words: {stop:?}", words.len()),
        }
    }
}

/// The words that an image reports on one of QEMU's boards, within a minute.
fn on_qemu(machine: &str, elf: &Path) -> Result<Vec<u32>> {
    let run = Command::new("timeout")
        .args(["60", "qemu-system-arm"])
        .args(qemu::arguments(machine))
        .arg(elf)
        .output()
        .context("cannot run qemu-system-arm: install it")?;
    ensure!(run.status.success(), "QEMU's {machine} ended with {}: {}", run.status, fault(&run));
    // Semihosting prints to standard error, in some versions of QEMU to standard output.
    let text = [run.stdout, run.stderr].concat();
    let lines = String::from_utf8_lossy(&text).into_owned();
    lines.lines().map(|line| u32::from_str_radix(line, 16).with_context(|| format!("QEMU said {line:?}"))).collect()
}
