//! Bare-metal firmware for cores that an emulator or a debug probe runs: the NIC program on events that a host sends by
//! semihosting, in lockstep with the same program there, see [`programs::lockstep`]. For Cortex-M and for RISC-V with 64 bits.
//!
//! This is all of it but the algorithm. Each file of `src/bin` is the image of one, which it names by its types, see
//! [`image!`].
#![no_std]

#[expect(unsafe_code, reason = "reset and semihosting")]
#[cfg_attr(target_arch = "arm", path = "cortex_m.rs")]
#[cfg_attr(target_arch = "riscv64", path = "rv64.rs")]
mod board;
#[expect(unsafe_code, reason = "semihosting")]
mod host;

use cc_core::wire::TableCrc;
use cc_core::{Blank, Bytes, Instant, Nanos, Port, Rate};
use cc_np::{NotificationPoint, Transmit};
use cc_rp::{RateLimiter, ReactionPoint};
use host::{Host, exit};
use programs::descriptor::Descriptor;
use programs::layout::{Report, SETTINGS, TX_FRAME_BYTES};
use programs::lockstep::{self, Exit};
use programs::{EventKind, Nic, from_words};

#[cfg(not(small))]
use programs::{Full as Room, layout::RX_FRAME_BYTES as FRAME_BYTES};
#[cfg(small)]
use programs::{Small as Room, lockstep::SMALL_FRAME_BYTES as FRAME_BYTES};

#[doc(hidden)]
pub use programs;

/// Makes a file of `src/bin`, which is named after its reaction point, the firmware image of these two machines.
#[macro_export]
macro_rules! image {
    ($reaction_point:ty, $notification_point:ty) => {
        /// Where the reset code goes once there is a stack.
        #[expect(unsafe_code, reason = "the reset code knows it by this name")]
        #[unsafe(no_mangle)]
        extern "C" fn start() -> ! {
            $crate::run::<$reaction_point, $notification_point>()
        }

        const _: () = $crate::programs::assert_pair::<$reaction_point, $notification_point>(env!("CARGO_BIN_NAME"));
    };
}

/// The device of a NIC whose every act is told to the host.
struct Device {
    host: Host,
    frame: [u8; TX_FRAME_BYTES],
}

impl RateLimiter for Device {
    fn set(&mut self, index: u16, rate: Rate, window: Bytes, hold: Nanos) {
        self.host.say([lockstep::PACE, index.into(), rate.to_bits(), window.get(), hold.get()]);
    }
}

impl Transmit for Device {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.frame
    }

    fn transmit(&mut self, length: usize) {
        let frame = self.frame.get(..length).unwrap_or_default();
        self.host.say([lockstep::FRAME, frame.len() as u32]);
        self.host.write(frame);
    }
}

impl programs::Hardware for Device {
    type Crc = TableCrc;

    fn log(&mut self, kind: EventKind, now: Instant, index: u32) {
        let now = now.nanos();
        self.host.say([lockstep::LOG, kind as u32, now as u32, (now >> 32) as u32, index]);
    }
}

/// Runs the NIC of these two machines for as long as the host has events for it.
pub fn run<A: ReactionPoint, N: NotificationPoint>() -> ! {
    let device = &mut Device { host: Host::open(), frame: [0; TX_FRAME_BYTES] };
    let mut nic = Nic::<A, N, Room>::BLANK;
    begin(&mut device.host, &mut nic);
    let Report { qps, state_bytes, qp_bytes, peers, peer_bytes } = Nic::<A, N, Room>::REPORT;
    device.host.say([qps, state_bytes, qp_bytes, peers, peer_bytes]);
    device.host.say(halves(nic.next_wake()));
    let mut buffer = [0; FRAME_BYTES];
    loop {
        let descriptor = Descriptor::from_words(device.host.words());
        let Some(frame) = buffer.get_mut(..descriptor.captured.into()) else { exit(Exit::Frame) };
        device.host.read(frame);
        let now = Instant::from_nanos(descriptor.now());
        if descriptor.kind != lockstep::WAKE {
            nic.handle(now, &descriptor, frame, device);
        }
        while nic.next_wake() <= now {
            nic.timer(now, device);
        }
        let [low, high] = halves(nic.next_wake());
        device.host.say([lockstep::DONE, low, high]);
    }
}

fn halves(time: Instant) -> [u32; 2] {
    let nanos = time.nanos();
    [nanos as u32, (nanos >> 32) as u32]
}

/// Makes the NIC that the host has set. Apart from the events, so that the stack that this takes is given back.
#[inline(never)]
fn begin<A: ReactionPoint, N: NotificationPoint>(host: &mut Host, nic: &mut Nic<A, N, Room>) {
    let rp = from_words(const { A::PRESETS[0].values }, &host.words::<SETTINGS>());
    let np = from_words(const { N::PRESETS[0].values }, &host.words::<SETTINGS>());
    let [line_rate, mtu, base_rtt] = host.words();
    let port = Port { line_rate: Rate::from_bits(line_rate), mtu: Bytes::new(mtu), base_rtt: Nanos::new(base_rtt) };
    if nic.begin(Instant::from_nanos(0), port, &rp, &np).is_err() {
        exit(Exit::Settings)
    }
}
