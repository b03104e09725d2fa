//! Bare-metal firmware for RV32IMC cores: the NIC program on what arrives in a ring in RAM.
//!
//! The main loop takes one descriptor after the other; the timer interrupt lets the engines do what has fallen due. The
//! two take turns inside critical sections. Decisions go to the pacer's registers, frames into the transmit ring. The
//! algorithm is chosen by type: [`Rp`] and [`Np`].
#![no_std]
#![no_main]

#[expect(unsafe_code, reason = "registers, rings and interrupts")]
mod board;

use board::{BUSY, Owned, RxRing, TIMER, TxRing, store};
use cc_core::params::{ParamError, Settings};
use cc_core::wire::TableCrc;
use cc_core::{Bytes, Instant, Nanos, Port, Rate};
use cc_np::{NotificationPoint, Transmit};
use cc_rp::{RateLimiter, ReactionPoint};
use core::mem::size_of;
use embedded_hal::digital::OutputPin;
use nic::layout::register;
use nic::{EventKind, FullNic, Hardware, PEER_SETS, PEER_WAYS, QPS};

type Rp = cc_rp::dcqcn::Dcqcn;
type Np = cc_np::dcqcn::Dcqcn;
type Program = FullNic<Rp, Np>;

/// The pacer, the transmit ring and the event log of the board.
struct Device {
    tx: TxRing,
}

impl RateLimiter for Device {
    #[inline(always)]
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        store(register::PACER_RATE, rate.to_bits());
        store(register::PACER_WINDOW, window.get());
        store(register::PACER_HOLD, hold.get());
        store(register::PACER_INDEX, u32::from(index));
    }
}

impl Transmit for Device {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        self.tx.room()
    }

    fn transmit(&mut self, length: usize) {
        self.tx.commit(length);
    }
}

impl Hardware for Device {
    type Crc = TableCrc;

    #[inline(always)]
    fn log(&mut self, kind: EventKind, now: Instant, index: u32) {
        let now = now.nanos();
        store(register::LOG_KIND, kind as u32);
        store(register::LOG_NOW_LO, now as u32);
        store(register::LOG_NOW_HI, (now >> 32) as u32);
        store(register::LOG_INDEX, index);
    }
}

/// What the main loop and the timer interrupt share.
struct Firmware {
    program: Program,
    device: Device,
    /// What the timer is set to.
    timer: u64,
}

static FIRMWARE: Owned<Option<Firmware>> = Owned::new(None);

impl Firmware {
    /// The program with the settings that the driver left in RAM.
    fn new() -> Result<Self, ParamError> {
        let (rp, np, [line_rate, mtu, base_rtt]) = board::settings();
        let port = Port { line_rate: Rate::from_bits(line_rate), mtu: Bytes::new(mtu), base_rtt: Nanos::new(base_rtt) };
        let rp = from_words(Rp::PRESETS[0].values, &rp);
        let np = from_words(Np::PRESETS[0].values, &np);
        let program = Program::new(Instant::from_nanos(board::now()), port, &rp, &np)?;
        Ok(Self { program, device: Device { tx: TxRing::new() }, timer: u64::MAX })
    }

    /// Sets the timer to when the engines want to be called next.
    #[inline(always)]
    fn set_timer(&mut self) {
        let next = self.program.next_wake().nanos();
        if next != self.timer {
            self.timer = next;
            board::set_timer(next);
        }
    }
}

/// Settings from words in the order of their fields.
fn from_words<S: Settings>(mut settings: S, words: &[u32]) -> S {
    for (index, &word) in words.iter().enumerate().take(S::FIELDS.len()) {
        settings.put(index, word);
    }
    settings
}

/// Sizes of the tables, for whoever watches: see `nic::layout::Report`.
fn report() {
    let peers = PEER_SETS * PEER_WAYS;
    let peer_bytes = size_of::<Np>() + 8;
    for word in [QPS, size_of::<Rp>(), Program::QP_BYTES, peers, peer_bytes] {
        store(register::REPORT, word as u32);
    }
}

/// The main loop.
fn run() -> ! {
    let Ok(firmware) = Firmware::new() else { board::halt(1) };
    critical_section::with(|cs| {
        FIRMWARE.with(cs, |slot| {
            *slot = Some(firmware);
            slot.as_mut().map(Firmware::set_timer)
        })
    });
    report();
    board::enable_interrupts();
    let mut ring = RxRing::new();
    let mut busy = BUSY;
    loop {
        while !ring.is_empty() {
            let Ok(()) = busy.set_high();
            let (descriptor, frame) = ring.oldest();
            let now = Instant::from_nanos(board::now());
            with_firmware(|firmware| firmware.program.handle(now, descriptor, frame, &mut firmware.device));
            let Ok(()) = busy.set_low();
            ring.release();
        }
        critical_section::with(|cs| board::sleep_unless(cs, !ring.is_empty()));
    }
}

/// The timer interrupt.
fn tick() {
    let mut pin = TIMER;
    let Ok(()) = pin.set_high();
    let now = Instant::from_nanos(board::now());
    with_firmware(|firmware| firmware.program.timer(now, &mut firmware.device));
    let Ok(()) = pin.set_low();
}

/// One turn at the engines, and the timer set by what they then want.
fn with_firmware(work: impl FnOnce(&mut Firmware)) {
    critical_section::with(|cs| {
        FIRMWARE.with(cs, |slot| {
            if let Some(firmware) = slot {
                work(firmware);
                firmware.set_timer();
            }
        });
    });
}
