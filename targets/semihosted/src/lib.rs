//! Bare-metal firmware for cores that an emulator or a debug probe runs: the NIC program on events that a host sends by
//! semihosting. The host runs the same program in lockstep, see [`programs::lockstep`]. For Cortex-M and for 64-bit RISC-V.
//!
//! The main loop handles one descriptor after the other; the timer interrupt handles what is due at the descriptor's time. The
//! loop raises that interrupt itself, because the time comes from the host. The two access the shared program in critical
//! sections.
//!
//! This crate contains everything except the algorithm. Each file of `src/bin` is the image of one algorithm, which it names by
//! type, see [`image!`].
#![no_std]

#[expect(unsafe_code, reason = "reset, interrupts, registers and semihosting")]
#[cfg_attr(target_arch = "arm", path = "cortex_m.rs")]
#[cfg_attr(target_arch = "riscv64", path = "rv64.rs")]
mod board;
#[expect(unsafe_code, reason = "semihosting")]
mod host;

use board::{BUSY, TIMER, clear_timer, enable_interrupts, pend_timer};
use cc_core::wire::TableCrc;
use cc_core::{Bytes, Instant, Link, Nanos, Rate, Zeroed};
use cc_np::NotificationPoint;
use cc_rp::{RateLimiter, ReactionPoint};
use core::cell::RefCell;
use critical_section::Mutex;
use embedded_hal::digital::OutputPin;
use host::{Host, exit};
use programs::descriptor::Descriptor;
use programs::layout::{ImageInfo, SETTINGS, TX_FRAME_BYTES};
use programs::lockstep::{self, Exit};
use programs::{LogKind, NicProgram, TransmitRing, from_words};

#[cfg(not(small))]
use programs::{Full as Room, layout::RX_FRAME_BYTES as FRAME_BYTES};
#[cfg(small)]
use programs::{Small as Room, lockstep::SMALL_FRAME_BYTES as FRAME_BYTES};

#[doc(hidden)]
pub use programs;

/// Makes a file of `src/bin` the firmware image of these two machines. The file must be named after the reaction point.
#[macro_export]
macro_rules! image {
    ($reaction_point:ty, $notification_point:ty) => {
        static IMAGE: $crate::Image<$reaction_point, $notification_point> = $crate::Image::new();

        /// Called by the reset code when there is a stack.
        #[expect(unsafe_code, reason = "the reset code calls it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn start() -> ! {
            IMAGE.run()
        }

        /// The timer interrupt.
        #[expect(unsafe_code, reason = "the vectors call it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn timer() {
            IMAGE.tick();
        }

        const _: () = $crate::programs::assert_pair::<$reaction_point, $notification_point>(env!("CARGO_BIN_NAME"));
    };
}

/// The device of a NIC, which sends every action to the host.
struct Device {
    host: Host,
    frame: [u8; TX_FRAME_BYTES],
}

impl RateLimiter for Device {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.host.write_words([lockstep::PACE, index.into(), rate.to_bits(), window.get(), hold.get()]);
    }
}

impl TransmitRing for Device {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.frame
    }

    fn transmit(&mut self, length: usize) {
        let frame = self.frame.get(..length).unwrap_or_default();
        self.host.write_words([lockstep::FRAME, frame.len() as u32]);
        self.host.write(frame);
    }
}

impl programs::Hardware for Device {
    type Crc = TableCrc;

    fn log(&mut self, kind: LogKind, now: Instant, index: u32) {
        let now = now.nanos();
        self.host.write_words([lockstep::LOG, kind as u32, now as u32, (now >> 32) as u32, index]);
    }
}

/// The state that the main loop and the timer interrupt share.
struct Firmware<A: ReactionPoint, N: NotificationPoint> {
    device: Device,
    /// The time of the last descriptor: the clock while it is handled.
    now: Instant,
    nic: NicProgram<A, N, Room>,
}

/// An image: the NIC of these two machines, its device and its clock.
pub struct Image<A: ReactionPoint, N: NotificationPoint>(Mutex<RefCell<Firmware<A, N>>>);

impl<A: ReactionPoint, N: NotificationPoint> Image<A, N> {
    /// An image that has not started.
    #[expect(clippy::new_without_default, reason = "there is one, in a static")]
    pub const fn new() -> Self {
        let device = Device { host: Host::CLOSED, frame: [0; TX_FRAME_BYTES] };
        Self(Mutex::new(RefCell::new(Firmware { device, now: Instant::from_nanos(0), nic: NicProgram::ZEROED })))
    }

    /// The main loop: runs for as long as the host has events.
    pub fn run(&self) -> ! {
        let mut host = Host::open();
        self.with(|firmware| begin(firmware, host));
        enable_interrupts();
        let (mut buffer, mut busy) = ([0; FRAME_BYTES], BUSY);
        loop {
            let descriptor = Descriptor::from_words(host.words());
            let Some(frame) = buffer.get_mut(..descriptor.captured.into()) else { exit(Exit::Frame) };
            host.read(frame);
            let Ok(()) = busy.set_high();
            self.with(|firmware| {
                firmware.now = Instant::from_nanos(descriptor.now());
                if descriptor.kind != lockstep::WAKE {
                    firmware.nic.handle(firmware.now, &descriptor, frame, &mut firmware.device);
                }
                if firmware.is_due() {
                    pend_timer();
                }
            });
            // Waits until the timer interrupt has handled everything that is due.
            while self.with(|firmware| firmware.is_due()) {}
            self.with(|firmware| {
                let [low, high] = halves(firmware.nic.next_wake());
                host.write_words([lockstep::DONE, low, high]);
            });
            let Ok(()) = busy.set_low();
        }
    }

    /// The timer interrupt: handles what is due.
    pub fn tick(&self) {
        let mut pin = TIMER;
        let Ok(()) = pin.set_high();
        clear_timer();
        self.with(|firmware| {
            while firmware.is_due() {
                firmware.nic.timer(firmware.now, &mut firmware.device);
            }
        });
        let Ok(()) = pin.set_low();
    }

    /// Runs `work` on the shared state, in a critical section.
    fn with<R>(&self, work: impl FnOnce(&mut Firmware<A, N>) -> R) -> R {
        critical_section::with(|cs| match self.0.borrow(cs).try_borrow_mut() {
            Ok(mut firmware) => work(&mut firmware),
            // Cannot happen: sections do not nest, and no interrupt is taken inside one.
            Err(_) => exit(Exit::Unexpected),
        })
    }
}

impl<A: ReactionPoint, N: NotificationPoint> Firmware<A, N> {
    fn is_due(&self) -> bool {
        self.nic.next_wake() <= self.now
    }
}

fn halves(time: Instant) -> [u32; 2] {
    let nanos = time.nanos();
    [nanos as u32, (nanos >> 32) as u32]
}

/// Sets up the NIC with the host's settings, and sends its sizes and the time of its next wake. A function apart from the main
/// loop, so that its stack is free afterwards.
#[inline(never)]
fn begin<A: ReactionPoint, N: NotificationPoint>(firmware: &mut Firmware<A, N>, mut host: Host) {
    let rp = from_words(const { A::PRESETS[0].values }, &host.words::<SETTINGS>());
    let np = from_words(const { N::PRESETS[0].values }, &host.words::<SETTINGS>());
    let [line_rate, mtu, base_rtt] = host.words();
    let link = Link { line_rate: Rate::from_bits(line_rate), mtu: Bytes::new(mtu), base_rtt: Nanos::new(base_rtt) };
    firmware.device.host = host;
    if firmware.nic.begin(firmware.now, link, &rp, &np).is_err() {
        exit(Exit::Settings)
    }
    let ImageInfo { qps, state_bytes, qp_bytes, peers, peer_bytes } = NicProgram::<A, N, Room>::INFO;
    host.write_words([qps, state_bytes, qp_bytes, peers, peer_bytes]);
    host.write_words(halves(firmware.nic.next_wake()));
}
