//! Bare-metal firmware for RV32IMC cores: the NIC program on what arrives in a ring in RAM.
//!
//! The main loop takes one descriptor after the other; the timer interrupt lets the engines do what has fallen due. The
//! two take turns inside critical sections. Decisions go to the pacer's registers, frames into the transmit ring.
//!
//! This is all of it but the algorithm. Each file of `src/bin` is the image of one, which it names by its types, see
//! [`image!`].
#![no_std]

#[expect(unsafe_code, reason = "registers, rings and interrupts")]
mod board;
#[cfg(feature = "calling")]
mod calling;

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

/// The reaction point as it is in an image: itself, or with the feature `calling` behind a function call.
#[cfg(not(feature = "calling"))]
pub type Machine<A> = A;
/// The reaction point as it is in an image: itself, or with the feature `calling` behind a function call.
#[cfg(feature = "calling")]
pub type Machine<A> = calling::Calling<A>;

/// Makes a file of `src/bin`, which is named after its reaction point, the firmware image of these two machines.
#[macro_export]
macro_rules! image {
    ($reaction_point:ty, $notification_point:ty) => {
        static IMAGE: $crate::Image<$crate::Machine<$reaction_point>, $notification_point> = $crate::Image::new();

        const _: () = $crate::Image::<$reaction_point, $notification_point>::assert_named(env!("CARGO_BIN_NAME"));

        /// Where the reset code goes once there is a stack.
        #[expect(unsafe_code, reason = "the reset code knows it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn start() -> ! {
            IMAGE.run()
        }

        /// The machine timer interrupt.
        #[expect(unsafe_code, reason = "the vectors know it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn timer() {
            IMAGE.tick();
        }
    };
}

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

/// The program and its device.
// The program comes first, where short offsets reach into it.
#[repr(C)]
struct Firmware<A: ReactionPoint, N: NotificationPoint> {
    program: FullNic<A, N>,
    device: Device,
    /// What the timer is set to.
    timer: u64,
}

impl<A: ReactionPoint, N: NotificationPoint> Firmware<A, N> {
    /// The program with the settings that the driver left in RAM.
    fn new() -> Result<Self, ParamError> {
        let (rp, np, [line_rate, mtu, base_rtt]) = board::settings();
        let port = Port { line_rate: Rate::from_bits(line_rate), mtu: Bytes::new(mtu), base_rtt: Nanos::new(base_rtt) };
        let rp = from_words(const { A::PRESETS[0].values }, &rp);
        let np = from_words(const { N::PRESETS[0].values }, &np);
        let program = FullNic::new(Instant::from_nanos(board::now()), port, &rp, &np)?;
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

/// An image: what its main loop and its timer interrupt share, and these two.
pub struct Image<A: ReactionPoint, N: NotificationPoint>(Owned<Option<Firmware<A, N>>>);

impl<A: ReactionPoint, N: NotificationPoint> Image<A, N> {
    /// An image that has not started.
    #[expect(clippy::new_without_default, reason = "there is one, in a static")]
    pub const fn new() -> Self {
        Self(Owned::new(None))
    }

    /// Stops the build of an image that is not named after its reaction point, or whose machines do not belong together.
    ///
    /// # Panics
    /// In that case, while compiling.
    pub const fn assert_named(name: &str) {
        assert!(nic::same_name(name, A::NAME), "the file is not named after the reaction point");
        assert!(nic::is_pair::<A, N>(), "this notification point does not answer this reaction point");
    }

    /// The main loop.
    pub fn run(&self) -> ! {
        let Ok(firmware) = Firmware::new() else { board::halt(1) };
        critical_section::with(|cs| {
            self.0.with(cs, |slot| {
                *slot = Some(firmware);
                slot.as_mut().map(Firmware::set_timer)
            })
        });
        Self::report();
        board::enable_interrupts();
        let mut ring = RxRing::new();
        let mut busy = BUSY;
        loop {
            while !ring.is_empty() {
                let Ok(()) = busy.set_high();
                let (descriptor, frame) = ring.oldest();
                let now = Instant::from_nanos(board::now());
                self.with(|firmware| firmware.program.handle(now, descriptor, frame, &mut firmware.device));
                let Ok(()) = busy.set_low();
                ring.release();
            }
            critical_section::with(|cs| board::sleep_unless(cs, !ring.is_empty()));
        }
    }

    /// The timer interrupt.
    pub fn tick(&self) {
        let mut pin = TIMER;
        let Ok(()) = pin.set_high();
        let now = Instant::from_nanos(board::now());
        self.with(|firmware| firmware.program.timer(now, &mut firmware.device));
        let Ok(()) = pin.set_low();
    }

    /// One turn at the engines, and the timer set by what they then want.
    fn with(&self, work: impl FnOnce(&mut Firmware<A, N>)) {
        critical_section::with(|cs| {
            self.0.with(cs, |slot| {
                if let Some(firmware) = slot {
                    work(firmware);
                    firmware.set_timer();
                }
            });
        });
    }

    /// Sizes of the tables, for whoever watches: see `nic::layout::Report`.
    fn report() {
        let peers = PEER_SETS * PEER_WAYS;
        for word in [QPS, size_of::<A>(), FullNic::<A, N>::QP_BYTES, peers, FullNic::<A, N>::PEER_BYTES] {
            store(register::REPORT, word as u32);
        }
    }
}
