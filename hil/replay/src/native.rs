//! A NIC that runs the library natively on the host, with the same NIC program as the firmware.

use super::device::{Actions, Arrival, Counters, Device, Rows};
use anyhow::{Result, anyhow};
use cc_core::params::ParamError;
use cc_core::wire::Parsed;
use cc_core::{Bytes, Instant, Link, Nanos, Rate};
use cc_np::NotificationPoint;
use cc_rp::{RateLimiter, ReactionPoint, TraceValue};
use hil_algorithms::settings::SettingsTable;
use hil_capture::crc::HostCrc;
use hil_cores::board::{Action, LogRecord, PacerStore};
use programs::descriptor::Descriptor;
use programs::layout::TX_FRAME_BYTES;
use programs::{Full, Hardware, LogKind, NicProgram, Sizes, Small, TransmitRing};

/// A NIC of any algorithm that runs natively.
pub trait Native: Device {
    /// Handles one wake at this time.
    fn wake_at(&mut self, now: u64, actions: &mut Actions);

    /// Passes names and values of the state variables of the flow in a slot to `show`, see [`ReactionPoint::trace_values`].
    fn explain(&self, slot: u16, show: &mut dyn FnMut(&'static str, f64));

    /// Handles one descriptor at this time, without the wakes that become due by it.
    fn handle(&mut self, now: u64, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, actions: &mut Actions);
}

/// A NIC of these machines that has handled nothing, at time zero.
///
/// # Errors
/// The settings contradict each other or the port.
pub fn native<A: ReactionPoint, N: NotificationPoint>(
    link: Link,
    rp: &SettingsTable,
    np: &SettingsTable,
) -> Result<Box<dyn Native>> {
    let (rp, np) = typed::<A, N>(rp, np);
    boxed(NicProgram::<A, N, Full>::new(Instant::from_nanos(0), link, &rp, &np))
}

/// As [`native`], with the table sizes of images for the smallest boards.
///
/// # Errors
/// As for [`native`].
pub fn small<A: ReactionPoint, N: NotificationPoint>(
    link: Link,
    rp: &SettingsTable,
    np: &SettingsTable,
) -> Result<Box<dyn Native>> {
    let (rp, np) = typed::<A, N>(rp, np);
    boxed(NicProgram::<A, N, Small>::new(Instant::from_nanos(0), link, &rp, &np))
}

fn typed<A: ReactionPoint, N: NotificationPoint>(rp: &SettingsTable, np: &SettingsTable) -> (A::Settings, N::Settings) {
    (rp.typed(const { A::PRESETS[0].values }), np.typed(const { N::PRESETS[0].values }))
}

fn boxed<P: Program + 'static>(nic: Result<P, ParamError>) -> Result<Box<dyn Native>> {
    let nic = nic.map_err(|error| anyhow!("{error}"))?;
    let (rp, np) = P::ROWS;
    let rows = Rows { rp: vec![0; rp], np: vec![0; np] };
    Ok(Box::new(OfMachines { nic, rows, transmit: [0; TX_FRAME_BYTES] }))
}

/// A NIC program of any algorithm and size.
trait Program {
    /// Numbers of rows in the transition tables of reaction point and notification point.
    const ROWS: (usize, usize);

    fn timer(&mut self, now: Instant, hardware: &mut Recorder<'_>);

    fn handle(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        packet: Option<&Parsed<'_>>,
        hardware: &mut Recorder<'_>,
    );

    fn next_wake(&self) -> Instant;

    fn trace_values(&self, slot: u16, show: &mut dyn FnMut(TraceValue));

    fn counters(&self, rows: &Rows) -> Counters;
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Program for NicProgram<A, N, S> {
    const ROWS: (usize, usize) = (A::TRANSITIONS.len(), N::TRANSITIONS.len());

    fn timer(&mut self, now: Instant, hardware: &mut Recorder<'_>) {
        self.timer(now, hardware);
    }

    fn handle(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        packet: Option<&Parsed<'_>>,
        hardware: &mut Recorder<'_>,
    ) {
        match packet {
            Some(packet) => self.arrival(now, descriptor, packet, hardware),
            None => self.handle(now, descriptor, &[], hardware),
        }
    }

    fn next_wake(&self) -> Instant {
        self.next_wake()
    }

    fn trace_values(&self, slot: u16, show: &mut dyn FnMut(TraceValue)) {
        self.nic().rp().trace_values(slot, show);
    }

    fn counters(&self, rows: &Rows) -> Counters {
        Counters {
            rp: self.nic().rp().counters().named().to_vec(),
            np: self.nic().np().counters().named().to_vec(),
            rows: rows.clone(),
        }
    }
}

struct OfMachines<P> {
    nic: P,
    rows: Rows,
    transmit: [u8; TX_FRAME_BYTES],
}

impl<P: Program> Native for OfMachines<P> {
    fn wake_at(&mut self, now: u64, actions: &mut Actions) {
        let mut hardware = Recorder { now, actions, rows: &mut self.rows, transmit: &mut self.transmit };
        self.nic.timer(Instant::from_nanos(now), &mut hardware);
    }

    fn explain(&self, slot: u16, show: &mut dyn FnMut(&'static str, f64)) {
        self.nic.trace_values(slot, &mut |TraceValue { name, bits, fraction_bits }| {
            show(name, f64::from(bits) / 2_f64.powi(fraction_bits as i32));
        });
    }

    fn handle(&mut self, now: u64, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, actions: &mut Actions) {
        let mut hardware = Recorder { now, actions, rows: &mut self.rows, transmit: &mut self.transmit };
        let packet = arrival.map(|arrival| arrival.packet);
        self.nic.handle(Instant::from_nanos(now), descriptor, packet, &mut hardware);
    }
}

impl<P: Program> OfMachines<P> {
    /// Wakes the program until nothing is due at `now`, as on the board, where the timer interrupt stays pending until then.
    fn settle(&mut self, now: u64, actions: &mut Actions) {
        while self.next_wake() <= now {
            self.wake_at(now, actions);
        }
    }
}

impl<P: Program> Device for OfMachines<P> {
    fn next_wake(&self) -> u64 {
        self.nic.next_wake().nanos()
    }

    fn wake(&mut self, actions: &mut Actions) -> Result<()> {
        self.settle(self.next_wake(), actions);
        Ok(())
    }

    fn deliver(&mut self, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, actions: &mut Actions) -> Result<()> {
        self.handle(descriptor.now(), descriptor, arrival, actions);
        self.settle(descriptor.now(), actions);
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.nic.counters(&self.rows)
    }
}

/// Hardware that records the calls of the NIC as actions.
struct Recorder<'a> {
    now: u64,
    actions: &'a mut Actions,
    rows: &'a mut Rows,
    transmit: &'a mut [u8],
}

impl RateLimiter for Recorder<'_> {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        let store = PacerStore { index: index.into(), rate: rate.to_bits(), window: window.get(), hold: hold.get() };
        self.actions.push((self.now, Action::Pace(store)));
    }

    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        count(&mut self.rows.rp, transition());
    }
}

impl TransmitRing for Recorder<'_> {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        self.transmit
    }

    fn transmit(&mut self, length: usize) {
        let frame = self.transmit.get(..length).unwrap_or_default().to_vec();
        self.actions.push((self.now, Action::Frame(frame)));
    }

    fn on_transition(&mut self, transition: impl FnOnce() -> usize) {
        count(&mut self.rows.np, transition());
    }
}

/// Counts an event in this row of a transition table.
fn count(rows: &mut [u64], row: usize) {
    if let Some(count) = rows.get_mut(row) {
        *count += 1;
    }
}

impl Hardware for Recorder<'_> {
    type Crc = HostCrc;

    fn log(&mut self, kind: LogKind, now: Instant, index: u32) {
        let record = LogRecord { kind: kind as u32, now: now.nanos(), index };
        self.actions.push((self.now, Action::Log(record)));
    }
}
