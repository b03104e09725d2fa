//! The RTL of a design as a core: simulated by Verilator in a separate process, driven through a pipe.
//!
//! Ibex's two memory buses grant at once and respond in the next cycle, or later by the given wait cycles. Cycle 0 is the first
//! cycle of the image's first instruction in the execute stage. PicoRV32's one bus is ready at once, or later by the wait
//! cycles; cycle 0 is the cycle in which the first instruction is launched.

use std::cell::RefCell;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

use crate::core::{Core, Ibex, PicoTiming, Picorv32, Ram, Stop, Timing};

pub mod phase;
pub mod play;
pub mod program;
pub mod record;
pub mod simulator;

/// A core that can be reset, to run another image.
pub trait Reset: Core {
    /// The core's timing parameter: the cycle rules of a model, or the wait states of RTL.
    type Timing: Copy;

    /// Puts the core in the state after construction: zeroed RAM, no watches, about to execute at `entry`.
    ///
    /// # Errors
    /// The simulator process of the core has ended.
    fn reset(&mut self, ram: &[Ram], devices: Range<u32>, timing: Self::Timing, entry: u32) -> Result<()>;
}

impl Reset for Ibex {
    type Timing = Timing;

    fn reset(&mut self, ram: &[Ram], devices: Range<u32>, timing: Timing, entry: u32) -> Result<()> {
        *self = Self::new(ram, devices, timing, entry);
        Ok(())
    }
}

impl Reset for Picorv32 {
    type Timing = PicoTiming;

    fn reset(&mut self, ram: &[Ram], devices: Range<u32>, timing: PicoTiming, entry: u32) -> Result<()> {
        *self = Self::new(ram, devices, timing, entry);
        Ok(())
    }
}

/// The simulator's numbers of stops: `enum Stop` in `hdl/harness.h`.
const CYCLE: u32 = 0;
const WATCH: u32 = 1;
const LOAD: u32 = 2;
const STORE: u32 = 3;
const IDLE: u32 = 4;
const BAD_FETCH: u32 = 5;
const BAD_INSTRUCTION: u32 = 6;
const BAD_ACCESS: u32 = 7;
const MISALIGNED: u32 = 8;

/// The RTL in its process.
///
/// If that process ends, every further run returns a [`Stop::Fault`].
#[derive(Debug)]
pub struct Rtl {
    process: Child,
    pipe: RefCell<Pipe>,
    cycles: u64,
    instructions: u64,
}

#[derive(Debug)]
struct Pipe {
    requests: BufWriter<ChildStdin>,
    responses: BufReader<ChildStdout>,
}

impl Pipe {
    fn request(&mut self, operation: u8, a: u32, b: u32, payload: &[u8]) -> io::Result<()> {
        self.requests.write_all(&[operation])?;
        self.requests.write_all(&a.to_le_bytes())?;
        self.requests.write_all(&b.to_le_bytes())?;
        self.requests.write_all(payload)
    }

    fn response(&mut self, response: &mut [u8]) -> io::Result<()> {
        self.requests.flush()?;
        self.responses.read_exact(response)
    }

    fn word(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.response(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn double(&mut self) -> io::Result<u64> {
        let low = self.word()?;
        Ok(u64::from(low) | u64::from(self.word()?) << 32)
    }
}

impl Rtl {
    /// Starts the simulator, which [`simulator::build`] has made, with zeroed RAM and about to execute at `entry`, as
    /// [`Design::model`](crate::core::Design::model) does; every fetch, load and store takes `wait` extra cycles.
    ///
    /// # Errors
    /// The simulator cannot be started, or ends at once.
    pub fn new(simulator: &Path, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Result<Self> {
        let mut process = Command::new(simulator)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}: cannot start the RTL simulator", simulator.display()))?;
        let requests = BufWriter::new(process.stdin.take().context("the RTL simulator has no standard input")?);
        let responses = BufReader::new(process.stdout.take().context("the RTL simulator has no standard output")?);
        let pipe = RefCell::new(Pipe { requests, responses });
        let mut rtl = Self { process, pipe, cycles: 0, instructions: 0 };
        rtl.reset(ram, devices, wait, entry)?;
        Ok(rtl)
    }

    fn go(&mut self, operation: u8, until: u64) -> io::Result<Stop> {
        let pipe = self.pipe.get_mut();
        pipe.request(operation, until as u32, (until >> 32) as u32, &[])?;
        let (kind, address, width, value) = (pipe.word()?, pipe.word()?, pipe.word()?, pipe.word()?);
        (self.cycles, self.instructions) = (pipe.double()?, pipe.double()?);
        let width = width as u8;
        Ok(match kind {
            CYCLE => Stop::Cycle,
            WATCH => Stop::Watch { pc: address },
            LOAD => Stop::Load { address, width },
            STORE => Stop::Store { address, width, value },
            IDLE => Stop::Idle,
            BAD_FETCH => Stop::Fault { pc: address, address, reason: "fetch outside RAM" },
            BAD_INSTRUCTION => Stop::Fault { pc: address, address, reason: "exception without a trap vector" },
            BAD_ACCESS => Stop::Fault { pc: address, address: value, reason: "access outside RAM and devices" },
            MISALIGNED => Stop::Fault { pc: address, address: value, reason: "misaligned access to a device" },
            _ => Stop::Fault { pc: address, address, reason: "the RTL simulator sent an unknown stop code" },
        })
    }

    fn send(&mut self, operation: u8, a: u32, b: u32, payload: &[u8]) {
        // If the process has ended, the next run reports it.
        let _ = self.pipe.get_mut().request(operation, a, b, payload);
    }
}

impl Reset for Rtl {
    /// Wait states of every fetch, load and store.
    type Timing = u64;

    fn reset(&mut self, ram: &[Ram], devices: Range<u32>, wait: u64, entry: u32) -> Result<()> {
        let size = devices.end.wrapping_sub(devices.start);
        let waits = [wait as u32; 2];
        let words = [devices.start, size].into_iter().chain(waits).chain([entry]);
        let words = words.chain(ram.iter().flat_map(|region| [region.base, region.size]));
        let payload: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let pipe = self.pipe.get_mut();
        let done = pipe.request(b'N', 2 * ram.len() as u32, 0, &payload).and_then(|()| pipe.response(&mut [0]));
        (self.cycles, self.instructions) = (0, 0);
        done.context("the RTL simulator has ended")
    }
}

impl Drop for Rtl {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Core for Rtl {
    fn cycles(&self) -> u64 {
        self.cycles
    }

    fn instructions(&self) -> u64 {
        self.instructions
    }

    fn run(&mut self, until: u64) -> Stop {
        self.go(b'R', until).unwrap_or(Stop::Fault { pc: 0, address: 0, reason: "the RTL simulator has ended" })
    }

    fn answer(&mut self, value: u32) {
        self.send(b'A', value, 0, &[]);
    }

    fn set_timer_line(&mut self, high: bool) {
        self.send(b'T', u32::from(high), 0, &[]);
    }

    fn set_external_line(&mut self, high: bool) {
        self.send(b'E', u32::from(high), 0, &[]);
    }

    fn sleep_until(&mut self, cycle: u64) {
        // The result is ignored: it cannot stop before `cycle`, and if the process has ended, the next run reports it.
        let _ = self.go(b'S', cycle);
    }

    fn peek(&self, address: u32, bytes: &mut [u8]) {
        let mut pipe = self.pipe.borrow_mut();
        let length = bytes.len() as u32;
        if pipe.request(b'p', address, length, &[]).and_then(|()| pipe.response(bytes)).is_err() {
            bytes.fill(0);
        }
    }

    fn poke(&mut self, address: u32, bytes: &[u8]) {
        self.send(b'P', address, bytes.len() as u32, bytes);
    }

    fn register(&self, index: usize) -> u32 {
        let mut pipe = self.pipe.borrow_mut();
        pipe.request(b'G', index as u32, 0, &[]).and_then(|()| pipe.word()).unwrap_or(0)
    }

    fn watch(&mut self, pc: u32) {
        self.send(b'W', pc, 1, &[]);
    }

    fn unwatch(&mut self, pc: u32) {
        self.send(b'W', pc, 0, &[]);
    }
}
