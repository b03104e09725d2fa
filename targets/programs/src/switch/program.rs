//! The program of a switch around one stage.

use crate::TransmitRing;
use crate::descriptor::Descriptor;
use crate::switch::{Event, Kind, Queue, StageAction};
use cc_core::params::{ParamError, Preset, Settings};
use cc_core::wire::Crc32;
use cc_core::{Bytes, Instant, Link, Nanos, Zeroed};
use cc_cp::Packet;
use cc_cp::swing::RelayMessage;

/// What the program drives: the queues' registers, the transmit ring, the event log.
pub trait Hardware: TransmitRing {
    /// The CRC engine for the ICRC of frames sent.
    type Crc: Crc32;

    /// Bytes that a queue holds now.
    fn queued(&mut self, queue: Queue) -> Bytes;

    /// Something is to be done at a queue.
    fn act(&mut self, queue: Queue, action: &StageAction);

    /// One record for each descriptor and each wake: what it was, the time that the stage was given, and the number of the
    /// queue.
    fn log(&mut self, kind: Kind, now: Instant, index: u32);
}

/// A stage on the queues of a switch.
pub trait Program: Zeroed {
    /// What the user sets.
    type Settings: Settings;

    /// The name on the command line.
    const NAME: &'static str;
    /// The named sets of settings, the default first.
    const PRESETS: &'static [Preset<Self::Settings>];
    /// The kinds of events that it takes; others make no difference.
    const TAKES: &'static [Kind];
    /// Bytes of the stage's state for one queue, flows not counted.
    const STATE_BYTES: usize;
    /// Bytes that each further queue adds: state, counters, parameters where it has its own, flows not counted.
    const QUEUE_BYTES: usize;
    /// Bytes that each further flow of a queue adds; zero where flows make no difference.
    const FLOW_BYTES: usize = 0;
    /// Flows that a queue can hold apart.
    const FLOWS: usize = 0;

    /// Becomes a switch whose queues are empty, of what is blank.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    fn begin(&mut self, start: Instant, link: &Link, settings: &Self::Settings) -> Result<(), ParamError>;

    /// Takes an event of a queue; `frame` holds the first bytes of the packet, if it is one.
    fn on<H: Hardware>(&mut self, now: Instant, queue: Queue, event: &Event, frame: &[u8], hw: &mut H);

    /// Does what has fallen due.
    fn wake<H: Hardware>(&mut self, now: Instant, hw: &mut H);

    /// When [`Program::wake`] is to be called next.
    fn next_wake(&self) -> Instant;
}

/// A switch that runs this stage.
#[derive(Debug)]
pub struct Switch<P>(P);

impl<P: Zeroed> Zeroed for Switch<P> {
    const ZEROED: Self = Self(P::ZEROED);
}

impl<P: Program> Switch<P> {
    /// A switch whose queues are empty.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    pub fn new(start: Instant, link: &Link, settings: &P::Settings) -> Result<Self, ParamError> {
        let mut switch = Self::ZEROED;
        switch.begin(start, link, settings)?;
        Ok(switch)
    }

    /// Becomes what [`Switch::new`] makes, of what is blank, where that is.
    ///
    /// # Errors
    /// As for [`Switch::new`].
    pub fn begin(&mut self, start: Instant, link: &Link, settings: &P::Settings) -> Result<(), ParamError> {
        self.0.begin(start, link, settings)
    }

    /// Handles one descriptor at `now`; `frame` holds the bytes that came with it.
    #[inline(never)]
    pub fn handle<H: Hardware>(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], hw: &mut H) {
        let Some((queue, event)) = Event::of(descriptor) else {
            hw.log(Kind::Nothing, now, descriptor.handle);
            return;
        };
        match event {
            Event::Arrived { bytes, queued } => self.arrived(now, queue, (bytes, queued), frame, hw),
            Event::Left(packet) => self.left(now, queue, &packet, frame, hw),
            Event::Paused { time, queued } => self.paused(now, queue, (time, queued), hw),
            Event::Told(message) => self.told(now, queue, message, hw),
        }
        hw.log(event.kind(), now, queue.index());
    }

    // Functions of their own, so that a harness can tell how long each kind of event takes.

    #[inline(never)]
    fn arrived<H: Hardware>(
        &mut self,
        now: Instant,
        queue: Queue,
        (bytes, queued): (Bytes, Bytes),
        frame: &[u8],
        hw: &mut H,
    ) {
        self.0.on(now, queue, &Event::Arrived { bytes, queued }, frame, hw);
    }

    #[inline(never)]
    fn left<H: Hardware>(&mut self, now: Instant, queue: Queue, packet: &Packet, frame: &[u8], hw: &mut H) {
        self.0.on(now, queue, &Event::Left(*packet), frame, hw);
    }

    #[inline(never)]
    fn paused<H: Hardware>(&mut self, now: Instant, queue: Queue, (time, queued): (Nanos, Bytes), hw: &mut H) {
        self.0.on(now, queue, &Event::Paused { time, queued }, &[], hw);
    }

    #[inline(never)]
    fn told<H: Hardware>(&mut self, now: Instant, queue: Queue, message: RelayMessage, hw: &mut H) {
        self.0.on(now, queue, &Event::Told(message), &[], hw);
    }

    #[inline(never)]
    fn wake<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.0.wake(now, hw);
    }

    /// Does what has fallen due. To be called again as long as [`Switch::next_wake`] is not after `now`.
    #[inline(never)]
    pub fn timer<H: Hardware>(&mut self, now: Instant, hw: &mut H) {
        self.wake(now, hw);
        hw.log(Kind::Wake, now, 0);
    }

    /// When [`Switch::timer`] is to be called next.
    pub fn next_wake(&self) -> Instant {
        self.0.next_wake()
    }
}
