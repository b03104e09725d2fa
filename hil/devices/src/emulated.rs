//! Runs library and image side by side in lockstep, the image in an emulator (QEMU), which receives one event at a time.

use super::device::{Decisions, Device, Difference};
use super::event::NicEvent;
use super::lockstep::first_difference;
use super::native::Native;
use anyhow::{Context, Result, bail, ensure};
use cc_core::table::Handle;
use hil_algorithms::NicCounters;
use hil_cores::board::{Action, BootSettings, LogRecord, PacerStore};
use hil_cores::qemu::Machine;
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::layout::{ImageInfo, SETTINGS, TX_FRAME_BYTES};
use programs::lockstep::{DONE, Exit, FRAME, LOG, PACE, WAKE};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Timeout for the actions of an image after one event: 60 s. An image that works takes about a millisecond.
const LIMIT: Duration = Duration::from_secs(60);

/// A NIC that runs twice: natively and in an emulator.
pub struct Emulated {
    native: Native,
    image: Emulator,
    events: u64,
    difference: Option<Difference>,
    identical: bool,
}

impl Emulated {
    /// The initial state: a NIC that has handled nothing, and an image that waits for its first event.
    ///
    /// # Errors
    /// The emulator or the image does not start.
    pub fn new(native: Native, machine: &Machine, image: &Path, boot: &BootSettings) -> Result<Self> {
        let image = Emulator::start(machine, image, boot)?;
        Ok(Self { native: native.recorded(), image, events: 0, difference: None, identical: true })
    }

    /// Events compared.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether every event compared so far was equal.
    pub fn is_identical(&self) -> bool {
        self.identical
    }

    /// The image's start-up report: the sizes of its tables.
    pub fn report(&self) -> ImageInfo {
        self.image.report
    }

    /// Passes the event that the library has handled to the image, and compares the actions of both.
    fn compare(&mut self, descriptor: &Descriptor, frame: &[u8]) -> Result<()> {
        let ours = self.native.take_record();
        self.events += 1;
        let (event, now) = (self.events, descriptor.now());
        let (theirs, wake) = self.image.event(descriptor, frame).with_context(|| format!("event {event}"))?;
        if self.identical {
            let wakes = Some((self.native.next_wake(), wake));
            self.difference = first_difference(event, now, &ours, &theirs, wakes);
            self.identical = self.difference.is_none();
        }
        Ok(())
    }
}

impl Device for Emulated {
    fn next_wake(&self) -> u64 {
        self.native.next_wake()
    }

    fn wake(&mut self, decisions: &mut Decisions) -> Result<()> {
        let descriptor = Descriptor { kind: WAKE, ..Descriptor::at(DescriptorKind::Frame, self.native.next_wake()) };
        self.native.wake(decisions)?;
        self.compare(&descriptor, &[])
    }

    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        let opened = self.native.deliver(now, event, decisions)?;
        self.compare(&event.descriptor(now), event.frame())?;
        Ok(opened)
    }

    fn difference(&mut self) -> Option<Difference> {
        self.difference.take()
    }

    fn counters(&self) -> NicCounters {
        self.native.counters()
    }
}

/// An image that runs in an emulator, see [`programs::lockstep`].
struct Emulator {
    machine: Machine,
    child: Child,
    output: ImageOutput,
    report: ImageInfo,
}

impl Emulator {
    /// An image that waits for its first event.
    fn start(machine: &Machine, image: &Path, boot: &BootSettings) -> Result<Self> {
        let mut command = machine.run(image);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{}: cannot be started", machine.name))?;
        let output = ImageOutput::of(child.stdout.take());
        let mut emulator = Self { machine: *machine, child, output, report: ImageInfo::default() };
        emulator.boot(boot).map_err(|error| emulator.explained(error))?;
        Ok(emulator)
    }

    fn boot(&mut self, boot: &BootSettings) -> Result<()> {
        let mut settings = [0; 2 * SETTINGS + 3];
        let (machines, port) = settings.split_at_mut(2 * SETTINGS);
        for (words, given) in machines.chunks_mut(SETTINGS).zip([&boot.rp_settings, &boot.np_settings]) {
            words.iter_mut().zip(given).for_each(|(word, &given)| *word = given);
        }
        port.copy_from_slice(&[boot.link.line_rate.to_bits(), boot.link.mtu.get(), boot.link.base_rtt.get()]);
        self.send(&bytes(&settings))?;
        let [qps, state_bytes, qp_bytes, peers, peer_bytes, _, _] = self.output.words()?;
        self.report = ImageInfo { qps, state_bytes, qp_bytes, peers, peer_bytes };
        Ok(())
    }

    /// Sends an event to the image. Returns its actions, and the time of its next wake.
    fn event(&mut self, descriptor: &Descriptor, frame: &[u8]) -> Result<(Vec<(u64, Action)>, u64)> {
        let frame = frame.get(..self.machine.frame_bytes()).unwrap_or(frame);
        let descriptor = Descriptor { captured: frame.len() as u16, ..*descriptor };
        let sent = self.send(&[&bytes(&descriptor.to_words()), frame].concat());
        sent.and_then(|()| self.output.actions(descriptor.now())).map_err(|error| self.explained(error))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let input = self.child.stdin.as_mut().context("the emulator has no standard input")?;
        Ok(input.write_all(bytes)?)
    }

    /// Adds to an error how the emulator ended, and the first line of its error output. Ends the emulator.
    fn explained(&mut self, error: anyhow::Error) -> anyhow::Error {
        let mut complaint = String::new();
        let ended = match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
                let code = self.child.wait().ok().and_then(|status| status.code());
                match code {
                    None => "the emulator was killed".to_owned(),
                    Some(1) => "the emulator failed".to_owned(),
                    Some(code) => format!("the image {}, code {code}", Exit::meaning(code as u32)),
                }
            }
            _ => {
                let _ = self.child.kill();
                format!("{error:#}")
            }
        };
        if let Some(mut output) = self.child.stderr.take() {
            let _ = output.read_to_string(&mut complaint);
        }
        let complaint = complaint.lines().next().map_or(String::new(), |line| format!(": {line}"));
        anyhow::anyhow!("{}: {ended}{complaint}", self.machine.name)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Errors are ignored: it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of the image. Reading fails if nothing comes for [`LIMIT`].
struct ImageOutput {
    pieces: Receiver<Vec<u8>>,
    rest: io::Cursor<Vec<u8>>,
}

impl ImageOutput {
    /// Starts a thread that reads this stream.
    fn of(stream: Option<impl Read + Send + 'static>) -> Self {
        let (sender, pieces) = mpsc::channel();
        thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut piece = vec![0; 1 << 12];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                if sender.send(piece.get(..length).unwrap_or_default().to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { pieces, rest: io::Cursor::default() }
    }

    /// Reads the actions of the image for an event, and the time of its next wake.
    fn actions(&mut self, now: u64) -> Result<(Vec<(u64, Action)>, u64)> {
        let mut actions = Vec::new();
        loop {
            let [what] = self.words()?;
            let action = match what {
                PACE => {
                    let [index, rate, window, hold] = self.words()?;
                    Action::Pace(PacerStore { index, rate, window, hold })
                }
                LOG => {
                    let [kind, low, high, index] = self.words()?;
                    Action::Log(LogRecord { kind, now: whole(low, high), index })
                }
                FRAME => {
                    let [length] = self.words()?;
                    ensure!(
                        length as usize <= TX_FRAME_BYTES,
                        "the image sends a frame of {length} bytes: expected at most {TX_FRAME_BYTES}"
                    );
                    let mut frame = vec![0; length as usize];
                    self.read_exact(&mut frame)?;
                    Action::Frame(frame)
                }
                DONE => {
                    let [low, high] = self.words()?;
                    return Ok((actions, whole(low, high)));
                }
                what => bail!("the image sends {what:#x}, which is not the number of an action"),
            };
            actions.push((now, action));
        }
    }

    fn words<const N: usize>(&mut self) -> Result<[u32; N]> {
        let mut words = [0; N];
        for word in &mut words {
            let mut bytes = [0; 4];
            self.read_exact(&mut bytes)?;
            *word = u32::from_le_bytes(bytes);
        }
        Ok(words)
    }
}

impl Read for ImageOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.rest.read(buffer)?;
        if length > 0 {
            return Ok(length);
        }
        match self.pieces.recv_timeout(LIMIT) {
            Ok(piece) => self.rest = io::Cursor::new(piece),
            Err(RecvTimeoutError::Disconnected) => return Ok(0),
            Err(RecvTimeoutError::Timeout) => {
                let limit = LIMIT.as_secs();
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the image has sent nothing for {limit} seconds"),
                ));
            }
        }
        self.rest.read(buffer)
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn whole(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
