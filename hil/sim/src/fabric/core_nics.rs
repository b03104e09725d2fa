//! NICs whose programs run on cores: the compiled image on a model of a core, with a clock of its own.

use anyhow::{Context, Error, Result, ensure};
use cc_core::pacer::Pacer;
use cc_core::table::{BindError, Handle};
use cc_core::wire::opcode::Class;
use cc_core::wire::{Mac, Pfc, Roce, pfc};
use cc_core::{Bytes, Instant, Link, Nanos, Psn, Qpn, Rate};
use cc_rp::TraceValue;
use hil_algorithms::settings::{Request, ResolvedSettings, SettingsTable};
use hil_algorithms::{Algorithm, CoreUse, NicCounters, NicGroup, NicOutput, NicSize, Received, RxFields, algorithm};
use hil_cores::any_core::AnyCore;
use hil_cores::board::{Action, Board, DEVICES, Pace, RAM, board_with};
use hil_cores::core::Design;
use hil_cores::elf::Image;
use hil_cores::firmware;
use hil_devices::boot;
use hil_devices::core_nic::CoreNic;
use hil_devices::core_queue::{Effect, Entry, QueueRule};
use hil_devices::event::{NicEvent, RxFrame};
use hil_devices::native::{self, Native};
use programs::{LogKind, NO_FLOW};
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant as HostInstant};

/// What runs on the cores of a [`Cores`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The whole NIC.
    Nic,
    /// The reaction point: sent packets, acknowledgements, CNPs and PFC frames. The image holds the notification point too, which gets
    /// no events.
    Rp,
    /// The notification point: data. The image holds the reaction point too, which gets no events.
    Np,
    /// Stages of a switch.
    Stages,
}

impl Part {
    /// Its name in scenarios and summaries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Rp => "rp",
            Self::Np => "np",
            Self::Stages => "stages",
        }
    }
}

/// Cores that run the programs of NICs, or the stages of switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cores {
    /// The hosts whose NICs run on a core or, for [`Part::Stages`], the switches, by their node numbers. Empty for all hosts, or for
    /// all switches that have such stages.
    pub nodes: Vec<u32>,
    /// What runs on each core. The rest of the NIC or switch runs as without cores.
    pub part: Part,
    /// The design of each core. `None` runs the library in the place of the image, with tables of the image's sizes: what an
    /// infinitely fast core does, without a core.
    pub design: Option<Design>,
    /// Cycles per second; `None` for a core that is infinitely fast: it handles each event when it comes.
    pub clock: Option<u64>,
    /// Cores at each host, which share its queue pairs: flows that it sends are dealt to them in the order in which they are opened, and
    /// what it receives by the number of its queue pair, modulo this number. 1 to [`Cores::MOST`].
    pub count: usize,
    /// The queue in front of each core.
    pub queue: QueueRule,
    /// The image; built from the source tree if not given.
    pub firmware: Option<PathBuf>,
    /// Whether what the cores do is kept, for [`Network::take_core_log`](super::Network::take_core_log).
    pub keep_log: bool,
}

impl Cores {
    /// The least and the highest clock: 1 MHz and 100 GHz. With one of a few kHz an image's own timer interrupts take all the time.
    pub const CLOCKS: RangeInclusive<u64> = 1_000_000..=100_000_000_000;

    /// The most cores at a host: 64, since slots have 16-bit numbers and an image has 1,024 of them.
    pub const MOST: u32 = 64;

    /// A core at each host that runs the whole NIC, with the default queue and the image that is built from the source tree.
    pub fn new(design: Option<Design>, clock: Option<u64>) -> Self {
        let queue = QueueRule::default();
        Self { nodes: Vec::new(), part: Part::Nic, design, clock, count: 1, queue, firmware: None, keep_log: false }
    }

    /// Reads a core and its clock: `ibex@250MHz`, `ibex@infinite`, or `library`.
    ///
    /// # Errors
    /// There is no such core, or the clock is not one of [`Cores::CLOCKS`].
    pub fn parse(text: &str) -> Result<Self> {
        if text == LIBRARY {
            return Ok(Self::new(None, None));
        }
        let (core, clock) = text.split_once('@').unwrap_or((text, ""));
        let designs = || Design::ALL.map(Design::name).join(", ");
        let design = Design::named(core)
            .with_context(|| format!("{core}: expected a core that has a model ({}), or {LIBRARY}", designs()))?;
        Ok(Self::new(Some(design), parse_clock(clock)?))
    }

    /// Its core and clock, as [`Cores::parse`] reads them.
    pub fn name(&self) -> String {
        match (self.design, self.clock) {
            (None, _) => LIBRARY.to_owned(),
            (Some(design), None) => format!("{}@infinite", design.name()),
            (Some(design), Some(hz)) => format!("{}@{}MHz", design.name(), hz as f64 / 1e6),
        }
    }

    /// Whether they are at this host or switch and run this part of it.
    pub(super) fn run(&self, node: u32, part: Part) -> bool {
        let runs = self.part == part || (self.part == Part::Nic && part != Part::Stages);
        runs && (self.nodes.is_empty() || self.nodes.contains(&node))
    }

    /// The image of this name, and its pace.
    pub(super) fn image(&self, name: &str, design: Design) -> Result<(Image, Pace)> {
        let image = match &self.firmware {
            Some(path) => firmware::read(path)?,
            None => firmware::read(&firmware::build(name, firmware::Kind::Inlining, design.dialect())?)?,
        };
        Ok((image, self.clock.map_or(Pace::Lockstep, |hz| Pace::Real { hz })))
    }

    /// Adds to an error of an image which one was expected, if it was given and not built.
    pub(super) fn expecting<T>(&self, name: &str, result: Result<T>) -> Result<T> {
        match &self.firmware {
            Some(path) => result.with_context(|| format!("{}: expected an image of {name}", path.display())),
            None => result,
        }
    }

    /// Whether each event takes time.
    pub(super) const fn is_clocked(&self) -> bool {
        self.clock.is_some()
    }
}

/// The name of the library in the place of a core.
const LIBRARY: &str = "library";

/// A clock in Hz, from `250MHz`, `1GHz` or `1500kHz`; `None` for `infinite`.
fn parse_clock(text: &str) -> Result<Option<u64>> {
    if text == "infinite" {
        return Ok(None);
    }
    let units = [("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)];
    let number = units.iter().find_map(|(unit, hz)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * hz));
    let hz = number.map(|hz| hz.round() as u64).filter(|hz| Cores::CLOCKS.contains(hz));
    let hz = hz.with_context(|| {
        format!("clock {text:?}: expected one from 1MHz to 100GHz, as ibex@250MHz or ibex@1GHz, or ibex@infinite")
    })?;
    Ok(Some(hz))
}

/// What runs on a core.
#[derive(Clone, Copy, Debug)]
pub(super) enum Runs {
    /// A NIC, with the numbers of its group and of itself.
    Nic(usize, usize),
    /// The stages of the switch at this node.
    Switch(u32),
}

/// What a core did with an event, and the part that it runs.
type Record = (Runs, &'static str, Entry);

/// What NICs and stages on cores have done, for the network.
#[derive(Default)]
pub(super) struct Records {
    /// What they did with events.
    pub(super) log: RefCell<Vec<Record>>,
    /// The time that the models of the cores took on this machine.
    pub(super) worked: Cell<Duration>,
}

impl Records {
    /// Calls a function in which a core works, and counts the time.
    pub(super) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = HostInstant::now();
        let done = work();
        self.worked.update(|worked| worked + begun.elapsed());
        done
    }

    /// Keeps what the core with this number has done.
    pub(super) fn keep(&self, runs: Runs, part: Part, core: usize, log: Vec<Entry>) {
        let records = log.into_iter().map(|entry| (runs, part.name(), Entry { core, ..entry }));
        self.log.borrow_mut().extend(records);
    }
}

/// What NICs on cores that are alike are made from.
pub(super) struct Prototype {
    algorithm: Box<dyn Algorithm>,
    settings: ResolvedSettings,
    /// A board whose image waits for its first event.
    board: Board<AnyCore>,
    pace: Pace,
    rule: QueueRule,
}

impl Prototype {
    /// Reads the image of these cores, and starts it with these settings.
    ///
    /// # Errors
    /// The image cannot be built, read or started, or it reports other tables than the library has.
    pub(super) fn new(
        cores: &Cores,
        design: Design,
        (name, link, [rp, np]): (&str, Link, [&SettingsTable; 2]),
    ) -> Result<Self> {
        let algorithm = algorithm(name)?;
        let mut settings = ResolvedSettings::by(&*algorithm, &Request::default())?;
        (settings.rp, settings.np, settings.link) = (rp.clone(), np.clone(), link);
        let (image, pace) = cores.image(name, design)?;
        let core = design.model(&RAM, DEVICES, 0, image.entry);
        let board = cores.expecting(name, board_with(core, &image, &boot(&settings), pace))?;
        let (image, library) = (board.report()?, algorithm.info(NicSize::Full));
        ensure!(image == library, "the image reports {image:?}, the library {library:?}: expected an image of {name}");
        Ok(Self { algorithm, settings, board, pace, rule: cores.queue })
    }

    /// Bytes of a full data packet on the line, without preamble, check sequence and gap.
    pub(super) const fn line_bytes(&self) -> u32 {
        self.settings.link.mtu.get()
    }

    /// A NIC of the library, with tables of the image's sizes.
    fn native(&self) -> Result<Native> {
        Native::new(&*self.algorithm, &self.settings, NicSize::Full)
    }

    /// A NIC that has handled nothing.
    ///
    /// # Errors
    /// The model of the core cannot be copied.
    pub(super) fn nic(&self) -> Result<CoreNic<AnyCore>> {
        Ok(CoreNic::new(self.native()?, self.native()?, self.board.fork()?, self.pace, self.rule))
    }
}

/// NICs on cores.
pub(super) struct CoreNics {
    prototype: Prototype,
    nics: Vec<Nic>,
    /// The first error.
    fault: Option<Error>,
    /// The notification points acknowledge data.
    acknowledges: bool,
    keeps_log: bool,
    /// NICs of this group, a core each, that make up a NIC of a host.
    per_host: usize,
    part: Part,
    group: usize,
    records: Rc<Records>,
}

/// The pacer of a flow, with the flow and the time of its last departure.
type FlowPacer = (Handle, Instant, Pacer);

struct Nic {
    core: CoreNic<AnyCore>,
    /// Of the flow in each slot.
    pacers: Vec<Option<FlowPacer>>,
}

impl CoreNics {
    /// A group without NICs, with its number.
    ///
    /// # Errors
    /// The notification point cannot be made with the settings.
    pub(super) fn new(cores: &Cores, prototype: Prototype, group: usize, records: Rc<Records>) -> Result<Self> {
        Ok(Self {
            acknowledges: prototype.native()?.group().acknowledges(),
            prototype,
            nics: Vec::new(),
            fault: None,
            keeps_log: cores.keep_log,
            per_host: cores.count,
            part: cores.part,
            group,
            records,
        })
    }

    /// Calls a function of a NIC's core. The first error is kept for [`NicGroup::timer`].
    fn with<T>(&mut self, nic: usize, call: impl FnOnce(&mut CoreNic<AnyCore>) -> Result<T>) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        let core = &mut self.nics[nic].core;
        let done = self.records.timed(|| call(core));
        if self.keeps_log {
            let (runs, log) = (Runs::Nic(self.group, nic / self.per_host), core.core_mut().take_log());
            self.records.keep(runs, self.part, nic % self.per_host, log);
        }
        done.map_err(|error| self.fault = Some(error)).ok()
    }

    /// Brings an event, and passes on what the core does at once. Of a command, returns kind and index of its log record.
    fn deliver(
        &mut self,
        nic: usize,
        now: Instant,
        event: &NicEvent<'_>,
        out: Option<&mut dyn NicOutput>,
    ) -> Option<(LogKind, u32)> {
        let logged = self.with(nic, |core| core.deliver(now.nanos(), event))?;
        if let Some(flow) = logged.and_then(native::opened) {
            let pacer = Pacer::new(now.stamp(), self.prototype.settings.link.line_rate, Bytes::MAX);
            let pacers = &mut self.nics[nic].pacers;
            let slot = usize::from(flow.index());
            pacers.resize(pacers.len().max(slot + 1), None);
            pacers[slot] = Some((flow, now, pacer));
        }
        if let Some(out) = out.filter(|_| self.prototype.pace == Pace::Lockstep) {
            let Nic { core, pacers } = &mut self.nics[nic];
            while let Some(Effect { action, .. }) = core.core_mut().take_ready() {
                act(pacers, action.as_ref(), out);
            }
        }
        logged
    }
}

/// Passes an action to the host.
fn act(pacers: &mut [Option<FlowPacer>], action: Option<&Action>, out: &mut dyn NicOutput) {
    match action {
        Some(Action::Pace(store)) => {
            let (rate, window) = (Rate::from_bits(store.rate), Bytes::new(store.window));
            if let Some(Some((.., pacer))) = pacers.get_mut(store.index as usize) {
                pacer.set(rate, window);
            }
            out.set(store.index as u16, rate, window, Nanos::new(store.hold));
        }
        Some(Action::Frame(frame)) => {
            // A frame to no flow of the network is not sent: nor is one of a NIC that runs natively.
            let _ = out.forward(frame);
        }
        Some(Action::Log(_) | Action::Stage(_) | Action::Read { .. }) | None => {}
    }
}

/// What the driver knows about a packet that has arrived or that is like one that will.
const fn rx_frame<'a>(packet: &Roce<'_>, bytes: &'a [u8]) -> RxFrame<'a> {
    RxFrame { bytes, wire_len: packet.wire_len.get() }
}

impl NicGroup for CoreNics {
    fn add(&mut self, _: Instant, _: usize, _: usize) -> usize {
        let made = self.prototype.nic();
        let mut core = made.expect("a model can be copied, and the settings were checked when the group was made");
        if self.keeps_log {
            core.core_mut().keep_log();
        }
        self.nics.push(Nic { core, pacers: Vec::new() });
        self.nics.len() - 1
    }

    /// They are always counted.
    fn count_transitions(&mut self, _: usize) {}

    fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    fn open(&mut self, nic: usize, now: Instant, priority: u8, out: &mut dyn NicOutput) -> Option<Handle> {
        self.deliver(nic, now, &NicEvent::Open { priority }, Some(out)).and_then(native::opened)
    }

    fn bind(&mut self, nic: usize, now: Instant, flow: Handle, local: Qpn) -> Result<(), BindError> {
        match self.deliver(nic, now, &NicEvent::Bind { flow, local }, None) {
            // Queue pair numbers are unique, and a flow is bound once.
            Some((_, NO_FLOW)) => Err(BindError::ProbeLimit),
            _ => Ok(()),
        }
    }

    fn learn_remote(&mut self, nic: usize, now: Instant, flow: Handle, packet: &Roce<'_>, frame: &[u8]) -> bool {
        let event = NicEvent::LearnRemote { roce: packet, frame: rx_frame(packet, frame), flow };
        self.deliver(nic, now, &event, None).is_none_or(|(kind, _)| kind == LogKind::Connect)
    }

    fn learn_sender(&mut self, nic: usize, now: Instant, packet: &Roce<'_>, frame: &[u8], remote: Qpn) -> bool {
        let event = NicEvent::Connect { roce: packet, frame: rx_frame(packet, frame), remote };
        self.deliver(nic, now, &event, None).is_none_or(|(kind, _)| kind == LogKind::Connect)
    }

    fn close(&mut self, nic: usize, now: Instant, flow: Handle) -> bool {
        let pacers = &mut self.nics[nic].pacers;
        let closed =
            pacers.get_mut(usize::from(flow.index())).and_then(|pacer| pacer.take_if(|(open, ..)| *open == flow));
        self.deliver(nic, now, &NicEvent::Close { flow }, None);
        closed.is_some()
    }

    fn forget(&mut self, nic: usize, now: Instant, local: Qpn) {
        self.deliver(nic, now, &NicEvent::Disconnect { local }, None);
    }

    fn sent(&mut self, nic: usize, now: Instant, flow: Handle, psn: Psn, bytes: Bytes, out: &mut dyn NicOutput) {
        self.deliver(nic, now, &NicEvent::Sent { flow, psn, bytes }, Some(out));
    }

    fn received(
        &mut self,
        nic: usize,
        now: Instant,
        packet: &Roce<'_>,
        frame: &[u8],
        meta: &RxFields,
        out: &mut dyn NicOutput,
    ) -> Option<Received> {
        let event = NicEvent::Packet { roce: packet, frame: rx_frame(packet, frame), meta: *meta };
        self.deliver(nic, now, &event, Some(out));
        None
    }

    fn pause(&mut self, nic: usize, now: Instant, pfc: &Pfc) {
        let mut frame = [0; pfc::FRAME_LEN];
        pfc.emit(Mac::default(), &mut frame).expect("a PFC frame has this length");
        let event = NicEvent::Pause { pfc, frame: RxFrame { bytes: &frame, wire_len: frame.len() as u32 } };
        self.deliver(nic, now, &event, None);
    }

    fn timer(&mut self, nic: usize, now: Instant, out: &mut dyn NicOutput) -> Result<Option<u16>> {
        while let Some(Effect { action, .. }) = self.with(nic, |core| core.core_mut().take(now.nanos())).flatten() {
            act(&mut self.nics[nic].pacers, action.as_ref(), out);
        }
        self.fault.take().map_or(Ok(None), Err)
    }

    fn next_wake(&self, nic: usize) -> Instant {
        let time = if self.fault.is_some() { Ok(0) } else { self.nics[nic].core.core().next_time() };
        Instant::from_nanos(time.unwrap_or(0))
    }

    fn departure(&mut self, nic: usize, now: Instant, flow: Handle, bytes: Bytes) -> Option<Nanos> {
        let (open, last, pacer) = self.nics[nic].pacers.get_mut(usize::from(flow.index()))?.as_mut()?;
        if *open != flow {
            return None;
        }
        if now.nanos() - last.nanos() > u64::from(Pacer::LONGEST.get()) {
            *pacer = Pacer::new(now.stamp(), pacer.rate(), pacer.window());
        }
        *last = now;
        let next = pacer.next_departure(now.stamp(), bytes);
        Some(if next.is_due(now.stamp()) { Nanos::ZERO } else { next.since(now.stamp()) })
    }

    fn counters(&self, nic: usize) -> NicCounters {
        self.nics[nic].core.core().native().group().counters(0)
    }

    fn cores(&self, nic: usize) -> Vec<CoreUse> {
        vec![CoreUse { part: self.part.name(), ..self.nics[nic].core.core().usage() }]
    }

    fn explain(&self, nic: usize, slot: u16, show: &mut dyn FnMut(TraceValue)) {
        self.nics[nic].core.core().native().group().explain(0, slot, show);
    }
}

/// NICs whose reaction points and notification points run apart.
pub(super) struct SplitNics {
    pub(super) rp: Box<dyn NicGroup>,
    pub(super) np: Box<dyn NicGroup>,
}

impl NicGroup for SplitNics {
    fn add(&mut self, start: Instant, flows: usize, peers: usize) -> usize {
        self.rp.add(start, flows, peers);
        self.np.add(start, flows, peers)
    }

    fn count_transitions(&mut self, nic: usize) {
        self.rp.count_transitions(nic);
        self.np.count_transitions(nic);
    }

    fn acknowledges(&self) -> bool {
        self.np.acknowledges()
    }

    fn open(&mut self, nic: usize, now: Instant, priority: u8, out: &mut dyn NicOutput) -> Option<Handle> {
        self.rp.open(nic, now, priority, out)
    }

    fn bind(&mut self, nic: usize, now: Instant, flow: Handle, local: Qpn) -> Result<(), BindError> {
        self.rp.bind(nic, now, flow, local)
    }

    fn learn_remote(&mut self, nic: usize, now: Instant, flow: Handle, packet: &Roce<'_>, frame: &[u8]) -> bool {
        self.rp.learn_remote(nic, now, flow, packet, frame)
    }

    fn learn_sender(&mut self, nic: usize, now: Instant, packet: &Roce<'_>, frame: &[u8], remote: Qpn) -> bool {
        self.np.learn_sender(nic, now, packet, frame, remote)
    }

    fn close(&mut self, nic: usize, now: Instant, flow: Handle) -> bool {
        self.rp.close(nic, now, flow)
    }

    fn forget(&mut self, nic: usize, now: Instant, local: Qpn) {
        self.np.forget(nic, now, local);
    }

    fn sent(&mut self, nic: usize, now: Instant, flow: Handle, psn: Psn, bytes: Bytes, out: &mut dyn NicOutput) {
        self.rp.sent(nic, now, flow, psn, bytes, out);
    }

    fn received(
        &mut self,
        nic: usize,
        now: Instant,
        packet: &Roce<'_>,
        frame: &[u8],
        meta: &RxFields,
        out: &mut dyn NicOutput,
    ) -> Option<Received> {
        let to = if matches!(packet.info.class(), Class::Ack | Class::Cnp) { &mut self.rp } else { &mut self.np };
        to.received(nic, now, packet, frame, meta, out)
    }

    fn pause(&mut self, nic: usize, now: Instant, pfc: &Pfc) {
        self.rp.pause(nic, now, pfc);
    }

    fn timer(&mut self, nic: usize, now: Instant, out: &mut dyn NicOutput) -> Result<Option<u16>> {
        let due = if self.rp.next_wake(nic) <= now { self.rp.timer(nic, now, out)? } else { None };
        if self.np.next_wake(nic) <= now {
            self.np.timer(nic, now, out)?;
        }
        Ok(due)
    }

    fn next_wake(&self, nic: usize) -> Instant {
        self.rp.next_wake(nic).min(self.np.next_wake(nic))
    }

    fn departure(&mut self, nic: usize, now: Instant, flow: Handle, bytes: Bytes) -> Option<Nanos> {
        self.rp.departure(nic, now, flow, bytes)
    }

    fn counters(&self, nic: usize) -> NicCounters {
        let (NicCounters { rp, transitions: [of_rp, _], .. }, other) = (self.rp.counters(nic), self.np.counters(nic));
        let NicCounters { np, transitions: [_, of_np], .. } = other;
        NicCounters { rp, np, transitions: [of_rp, of_np] }
    }

    fn cores(&self, nic: usize) -> Vec<CoreUse> {
        let (mut cores, np) = (self.rp.cores(nic), self.np.cores(nic));
        cores.extend(np);
        cores
    }

    fn explain(&self, nic: usize, slot: u16, show: &mut dyn FnMut(TraceValue)) {
        self.rp.explain(nic, slot, show);
    }
}
