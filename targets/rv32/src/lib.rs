//! Bare-metal firmware for RV32IMC cores: runs the NIC program, or stages of a switch, on the descriptors in a ring in RAM. The
//! core has machine mode (feature `machine`), or is a PicoRV32 (`picorv32`) or a VexRiscv (`vexriscv`).
//!
//! The main loop handles one descriptor after the other; the timer interrupt handles what is due. The two access the shared
//! program in critical sections. Decisions are stored to the device's registers, frames to the transmit ring.
//!
//! This crate contains everything except the algorithm. Each file of `src/bin` is the image of one algorithm, which it names by
//! type, see [`image!`] and [`stage!`].
#![no_std]

#[expect(unsafe_code, reason = "registers, rings and interrupts")]
mod board;
#[cfg(not(feature = "picorv32"))]
#[expect(unsafe_code, reason = "interrupts")]
#[path = "machine.rs"]
mod interrupts;
#[cfg(feature = "picorv32")]
#[expect(unsafe_code, reason = "interrupts")]
#[path = "picorv32.rs"]
mod interrupts;
#[cfg(feature = "log")]
#[expect(unsafe_code, reason = "the ring that the harness reads")]
mod logging;
#[cfg(feature = "outlined_on")]
mod outlined_on;
#[cfg(feature = "vexriscv")]
#[expect(unsafe_code, reason = "reset and traps")]
mod vexriscv;

use board::{BUSY, CriticalCell, RxRing, Settings, TIMER, TxRing, store};
use cc_core::wire::TableCrc;
use cc_core::{Bytes, Instant, Link, Nanos, Rate, Zeroed};
use cc_cp::{OnQueues, Queue, Stage, Switch};
use cc_np::NotificationPoint;
use cc_rp::{RateLimiter, ReactionPoint};
use embedded_hal::digital::OutputPin;
use programs::descriptor::Descriptor;
use programs::layout::{ImageInfo, register};
use programs::switch_ring::{self, Queues, StageAction, SwitchHardware, SwitchProgram};
use programs::{Full, LogKind, NicProgram, TransmitRing, from_words};

#[doc(hidden)]
pub use {critical_section::CriticalSection, programs};

/// The reaction point in an image: the type itself, or, with the feature `outlined_on`, its wrapper whose `on` is not inlined.
#[cfg(not(feature = "outlined_on"))]
pub type Machine<A> = A;
/// The reaction point in an image: the type itself, or, with the feature `outlined_on`, its wrapper whose `on` is not inlined.
#[cfg(feature = "outlined_on")]
pub type Machine<A> = outlined_on::OutlinedOn<A>;

/// Makes a file of `src/bin` the firmware image of these two machines. The file must be named after the reaction point.
#[macro_export]
macro_rules! image {
    ($reaction_point:ty, $notification_point:ty) => {
        $crate::entries!(
            $crate::programs::NicProgram<$crate::Machine<$reaction_point>, $notification_point, $crate::programs::Full>
        );

        const _: () = $crate::programs::assert_pair::<$reaction_point, $notification_point>(env!("CARGO_BIN_NAME"));
    };
}

/// Makes a file of `src/bin` the firmware image of this stage of a switch. The file must be named after the stage.
#[macro_export]
macro_rules! stage {
    ($stage:ty) => {
        $crate::entries!($crate::StageProgram<$stage>);

        const _: () = $crate::assert_name(env!("CARGO_BIN_NAME"), $crate::name_of::<$stage>());
    };
    ($name:ident: $stage:ty) => {
        $crate::entries!($crate::StageProgram<$stage>);

        const _: () = $crate::assert_name(env!("CARGO_BIN_NAME"), stringify!($name));
    };
}

/// The program of an image with a stage, or a chain of stages.
pub type StageProgram<S> = SwitchProgram<<S as OnQueues>::Stage<Queues>, Queues>;

/// An image of this program, and its two entries: after reset, and at the timer interrupt.
#[doc(hidden)]
#[macro_export]
macro_rules! entries {
    ($program:ty) => {
        static IMAGE: $crate::Image<$program> = $crate::Image::new();

        /// Called by the reset code when there is a stack.
        #[expect(unsafe_code, reason = "the reset code calls it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn start() -> ! {
            // SAFETY: a core comes out of reset with interrupts off, and there is one hart.
            IMAGE.run(unsafe { $crate::CriticalSection::new() })
        }

        /// The machine timer interrupt.
        #[expect(unsafe_code, reason = "the vectors call it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn timer() {
            // SAFETY: a trap turns interrupts off until its handler returns, and there is one hart.
            IMAGE.tick(unsafe { $crate::CriticalSection::new() });
        }
    };
}

/// The name of a stage.
#[doc(hidden)]
pub const fn name_of<S: OnQueues>() -> &'static str {
    <S::Stage<Queues> as Stage>::NAME
}

/// Stops the build of an image whose file is not named after its stage.
///
/// # Panics
/// In that case, while compiling.
pub const fn assert_name(file: &str, stage: &str) {
    assert!(programs::str_eq(file, stage), "the file is not named after the stage");
}

/// The pacer, the registers of queues, the transmit ring and the event log of the board.
pub struct Device {
    tx: TxRing,
}

impl RateLimiter for Device {
    #[inline(always)]
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        #[cfg(feature = "log")]
        logging::paced(index, rate, window, hold);
        store(register::PACER_RATE, rate.to_bits());
        store(register::PACER_WINDOW, window.get());
        store(register::PACER_HOLD, hold.get());
        store(register::PACER_INDEX, u32::from(index));
    }
}

impl TransmitRing for Device {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        self.tx.room()
    }

    fn transmit(&mut self, length: usize) {
        self.tx.commit(length);
    }
}

impl programs::Hardware for Device {
    type Crc = TableCrc;

    #[inline(always)]
    fn log(&mut self, kind: LogKind, now: Instant, index: u32) {
        #[cfg(feature = "log")]
        logging::happened(kind, index);
        self::log(kind as u32, now, index);
    }
}

impl SwitchHardware for Device {
    type Crc = TableCrc;

    fn queued(&self, queue: Queue) -> Bytes {
        board::queued(queue.index() as u32)
    }

    fn arrived(&self, queue: Queue) -> Bytes {
        board::queued((switch_ring::ARRIVED + queue.index()) as u32)
    }

    #[inline(always)]
    fn act(&mut self, queue: Queue, action: &StageAction) {
        let command = action.encode(queue, |word| store(register::ACTION_OPERAND, word));
        store(register::ACTION, command);
    }

    #[inline(always)]
    fn log(&mut self, kind: u8, now: Instant, index: u32) {
        log(kind.into(), now, index);
    }
}

#[inline(always)]
fn log(kind: u32, now: Instant, index: u32) {
    let now = now.nanos();
    store(register::LOG_KIND, kind);
    store(register::LOG_NOW_LO, now as u32);
    store(register::LOG_NOW_HI, (now >> 32) as u32);
    store(register::LOG_INDEX, index);
}

/// The program cannot run with these settings on this port.
#[derive(Clone, Copy, Debug)]
pub struct Unfit;

/// The program of an image: a NIC, or a switch.
pub trait Program: Zeroed {
    /// Its start-up report.
    const INFO: ImageInfo;

    /// Sets up the zeroed program in place, with the settings that the driver left in RAM.
    ///
    /// # Errors
    /// A setting out of range, or wrong on this port.
    fn begin(&mut self, start: Instant, link: Link, settings: &Settings) -> Result<(), Unfit>;

    /// Handles one descriptor and the frame that came with it.
    fn handle(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], device: &mut Device);

    /// Handles what is due.
    fn timer(&mut self, now: Instant, device: &mut Device);

    /// The time at which [`Program::timer`] is to be called next.
    fn next_wake(&self) -> Instant;
}

impl<A: ReactionPoint, N: NotificationPoint> Program for NicProgram<A, N, Full> {
    const INFO: ImageInfo = Self::INFO;

    #[inline(always)]
    fn begin(&mut self, start: Instant, link: Link, settings: &Settings) -> Result<(), Unfit> {
        let rp = from_words(const { A::PRESETS[0].values }, settings.first);
        let np = from_words(const { N::PRESETS[0].values }, settings.second);
        self.begin(start, link, &rp, &np).map_err(|_| Unfit)
    }

    #[inline(always)]
    fn handle(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], device: &mut Device) {
        self.handle(now, descriptor, frame, device);
    }

    #[inline(always)]
    fn timer(&mut self, now: Instant, device: &mut Device) {
        self.timer(now, device);
    }

    #[inline(always)]
    fn next_wake(&self) -> Instant {
        self.next_wake()
    }
}

impl<G: Stage> Program for SwitchProgram<G, Queues> {
    const INFO: ImageInfo = ImageInfo {
        qps: switch_ring::QUEUES as u32,
        state_bytes: G::SIZES.state as u32,
        qp_bytes: (G::SIZES.queue + Switch::<G, Queues>::QUEUE_BYTES) as u32,
        peers: G::SIZES.flows as u32,
        peer_bytes: G::SIZES.flow as u32,
    };

    #[inline(always)]
    fn begin(&mut self, start: Instant, link: Link, settings: &Settings) -> Result<(), Unfit> {
        let [low, high, ..] = *settings.second;
        let seed = u64::from(high) << 32 | u64::from(low);
        self.begin(start, &link, &switch_ring::settings::<G>(settings.first), seed).map_err(|_| Unfit)
    }

    #[inline(always)]
    fn handle(&mut self, now: Instant, descriptor: &Descriptor, frame: &[u8], device: &mut Device) {
        self.handle(now, descriptor, frame, device);
    }

    #[inline(always)]
    fn timer(&mut self, now: Instant, device: &mut Device) {
        self.timer(now, device);
    }

    #[inline(always)]
    fn next_wake(&self) -> Instant {
        self.next_wake()
    }
}

/// The program and its device.
// The device comes first, because it is small: short load and store offsets then reach both.
#[repr(C)]
struct Firmware<P> {
    device: Device,
    program: P,
}

impl<P: Program> Firmware<P> {
    const ZEROED: Self = Self { program: P::ZEROED, device: Device { tx: TxRing::new() } };

    /// Sets the timer to the time at which the engines are to be called next.
    #[inline(never)]
    fn set_timer(&mut self) {
        board::set_timer(self.program.next_wake().nanos());
    }
}

/// An image: the state that its main loop and its timer interrupt share, and these two functions.
pub struct Image<P>(CriticalCell<Firmware<P>>);

impl<P: Program> Image<P> {
    /// An image that has not started.
    #[expect(clippy::new_without_default, reason = "there is one, in a static")]
    pub const fn new() -> Self {
        Self(CriticalCell::new(Firmware::ZEROED))
    }

    /// Sets up the program, with the settings that the driver left in RAM. A function apart from the main loop, so that its
    /// stack is free afterwards.
    #[cold]
    #[inline(never)]
    fn begin(&self, cs: CriticalSection<'_>) {
        let settings = board::settings();
        let [line_rate, mtu, base_rtt] = settings.link;
        let link = Link { line_rate: Rate::from_bits(line_rate), mtu: Bytes::new(mtu), base_rtt: Nanos::new(base_rtt) };
        let start = Instant::from_nanos(board::now());
        self.0.with(cs, |firmware| match firmware.program.begin(start, link, &settings) {
            Ok(()) => firmware.set_timer(),
            Err(_) => board::halt(1),
        });
    }

    /// The main loop. It enables interrupts after the program has been set up.
    pub fn run(&self, cs: CriticalSection<'_>) -> ! {
        self.begin(cs);
        Self::report();
        interrupts::enable_interrupts();
        let mut ring = RxRing::new();
        let mut busy = BUSY;
        loop {
            while !ring.is_empty() {
                let Ok(()) = busy.set_high();
                let (descriptor, frame) = ring.oldest();
                critical_section::with(|cs| {
                    self.with(cs, |now, firmware| {
                        firmware.program.handle(now, descriptor, frame, &mut firmware.device);
                    });
                });
                let Ok(()) = busy.set_low();
                ring.release();
            }
            critical_section::with(|cs| interrupts::sleep_unless(cs, !ring.is_empty()));
        }
    }

    /// The timer interrupt.
    pub fn tick(&self, cs: CriticalSection<'_>) {
        let mut pin = TIMER;
        let Ok(()) = pin.set_high();
        self.with(cs, |now, firmware| firmware.program.timer(now, &mut firmware.device));
        let Ok(()) = pin.set_low();
    }

    /// Runs `work` on the program in a critical section, and then sets the timer.
    fn with(&self, cs: CriticalSection<'_>, work: impl FnOnce(Instant, &mut Firmware<P>)) {
        self.0.with(cs, |firmware| {
            // The clock is read inside the section, so that no wake can come between the reading and the work.
            work(Instant::from_nanos(board::now()), firmware);
            firmware.set_timer();
        });
    }

    /// Stores the start-up report, the sizes of the tables, to the device: see `programs::layout::ImageInfo`.
    fn report() {
        let ImageInfo { qps, state_bytes, qp_bytes, peers, peer_bytes } = P::INFO;
        for word in [qps, state_bytes, qp_bytes, peers, peer_bytes] {
            store(register::IMAGE_INFO, word);
        }
    }
}
