//! The library on the host, run as the firmware runs it.

use super::device::{Acts, Arrival, Counters, Device, Rows};
use anyhow::{Result, anyhow};
use cc_core::params::ParamError;
use cc_core::wire::Packet;
use cc_core::{Bytes, Instant, Nanos, Port, Rate};
use cc_np::{NotificationPoint, Transmit};
use cc_rp::{Plot, RateLimiter, ReactionPoint};
use hil_capture::crc::HostCrc;
use hil_cores::board::{Act, LogRecord, PacerStore};
use programs::descriptor::Descriptor;
use programs::layout::TX_FRAME_BYTES;
use programs::{EventKind, Full, Hardware, Nic, Sizes, Small};

/// A NIC that runs natively, whatever its machines.
pub trait Native: Device {
    /// One wake, at this time.
    fn wake_at(&mut self, now: u64, acts: &mut Acts);

    /// Names and values of what explains the decisions about the flow in a slot, see [`ReactionPoint::plot`].
    fn explain(&self, slot: u16, show: &mut dyn FnMut(&'static str, f64));

    /// One descriptor, handled at this time, without the wakes that it makes due.
    fn handle(&mut self, now: u64, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, acts: &mut Acts);
}

/// A NIC of these machines, whose clock shows zero.
///
/// # Errors
/// Settings that do not go together on this port.
pub fn native<A: ReactionPoint, N: NotificationPoint>(
    port: Port,
    rp: &A::Settings,
    np: &N::Settings,
) -> Result<Box<dyn Native>> {
    boxed(Nic::<A, N, Full>::new(Instant::from_nanos(0), port, rp, np))
}

/// As [`native`], of the size that an image has on the smallest boards.
///
/// # Errors
/// As for [`native`].
pub fn small<A: ReactionPoint, N: NotificationPoint>(
    port: Port,
    rp: &A::Settings,
    np: &N::Settings,
) -> Result<Box<dyn Native>> {
    boxed(Nic::<A, N, Small>::new(Instant::from_nanos(0), port, rp, np))
}

fn boxed<P: Program + 'static>(nic: Result<P, ParamError>) -> Result<Box<dyn Native>> {
    let nic = nic.map_err(|error| anyhow!("{error}"))?;
    let (rp, np) = P::ROWS;
    let rows = Rows { rp: vec![0; rp], np: vec![0; np] };
    Ok(Box::new(OfMachines { nic, rows, transmit: [0; TX_FRAME_BYTES] }))
}

/// A NIC's program, of whatever machines and size.
trait Program {
    /// Rows of the machines' tables of states and events.
    const ROWS: (usize, usize);

    fn timer(&mut self, now: Instant, hardware: &mut Recorder<'_>);

    fn handle(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        packet: Option<&Packet<'_>>,
        hardware: &mut Recorder<'_>,
    );

    fn next_wake(&self) -> Instant;

    fn plot(&self, slot: u16, show: &mut dyn FnMut(Plot));

    fn counters(&self, rows: &Rows) -> Counters;
}

impl<A: ReactionPoint, N: NotificationPoint, S: Sizes> Program for Nic<A, N, S> {
    const ROWS: (usize, usize) = (A::TABLE.len(), N::TABLE.len());

    fn timer(&mut self, now: Instant, hardware: &mut Recorder<'_>) {
        self.timer(now, hardware);
    }

    fn handle(
        &mut self,
        now: Instant,
        descriptor: &Descriptor,
        packet: Option<&Packet<'_>>,
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

    fn plot(&self, slot: u16, show: &mut dyn FnMut(Plot)) {
        self.rp().plot(slot, show);
    }

    fn counters(&self, rows: &Rows) -> Counters {
        Counters {
            rp: self.rp().counters().named().to_vec(),
            np: self.np().counters().named().to_vec(),
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
    fn wake_at(&mut self, now: u64, acts: &mut Acts) {
        let mut hardware = Recorder { now, acts, rows: &mut self.rows, transmit: &mut self.transmit };
        self.nic.timer(Instant::from_nanos(now), &mut hardware);
    }

    fn explain(&self, slot: u16, show: &mut dyn FnMut(&'static str, f64)) {
        self.nic.plot(slot, &mut |Plot { name, bits, fraction_bits }| {
            show(name, f64::from(bits) / 2_f64.powi(fraction_bits as i32));
        });
    }

    fn handle(&mut self, now: u64, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, acts: &mut Acts) {
        let mut hardware = Recorder { now, acts, rows: &mut self.rows, transmit: &mut self.transmit };
        let packet = arrival.map(|arrival| arrival.packet);
        self.nic.handle(Instant::from_nanos(now), descriptor, packet, &mut hardware);
    }
}

impl<P: Program> OfMachines<P> {
    /// Wakes it until nothing is due at `now`: the firmware's timer line stays high as long.
    fn settle(&mut self, now: u64, acts: &mut Acts) {
        while self.next_wake() <= now {
            self.wake_at(now, acts);
        }
    }
}

impl<P: Program> Device for OfMachines<P> {
    fn next_wake(&self) -> u64 {
        self.nic.next_wake().nanos()
    }

    fn wake(&mut self, acts: &mut Acts) -> Result<()> {
        self.settle(self.next_wake(), acts);
        Ok(())
    }

    fn deliver(&mut self, descriptor: &Descriptor, arrival: Option<Arrival<'_>>, acts: &mut Acts) -> Result<()> {
        self.handle(descriptor.now(), descriptor, arrival, acts);
        self.settle(descriptor.now(), acts);
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.nic.counters(&self.rows)
    }
}

/// Hardware that writes down what it is told.
struct Recorder<'a> {
    now: u64,
    acts: &'a mut Acts,
    rows: &'a mut Rows,
    transmit: &'a mut [u8],
}

impl RateLimiter for Recorder<'_> {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        let store = PacerStore { index: index.into(), rate: rate.to_bits(), window: window.get(), hold: hold.get() };
        self.acts.push((self.now, Act::Pace(store)));
    }

    fn observe(&mut self, row: impl FnOnce() -> usize) {
        count(&mut self.rows.rp, row());
    }
}

impl Transmit for Recorder<'_> {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        self.transmit
    }

    fn transmit(&mut self, length: usize) {
        let frame = self.transmit.get(..length).unwrap_or_default().to_vec();
        self.acts.push((self.now, Act::Frame(frame)));
    }

    fn observe(&mut self, row: impl FnOnce() -> usize) {
        count(&mut self.rows.np, row());
    }
}

/// One more event met this row.
fn count(rows: &mut [u64], row: usize) {
    if let Some(count) = rows.get_mut(row) {
        *count += 1;
    }
}

impl Hardware for Recorder<'_> {
    type Crc = HostCrc;

    fn log(&mut self, kind: EventKind, now: Instant, index: u32) {
        let record = LogRecord { kind: kind as u32, now: now.nanos(), index };
        self.acts.push((self.now, Act::Log(record)));
    }
}
