//! The memory map of the board: device registers, rings, and the settings and start-up report that firmware and device
//! exchange.
//!
//! Registers are 32 bits wide and lie in one device page. Settings and rings lie in RAM, in one [`Shared`] block
//! that both sides find by its symbol, `SHARED`.

use crate::descriptor::Descriptor;

/// First byte of RAM.
pub const RAM_BASE: u32 = 0x0010_0000;
/// Bytes of RAM: code, data, rings and stack.
pub const RAM_SIZE: u32 = 0x0008_0000;
/// First byte of the device page.
pub const DEVICE_BASE: u32 = 0x4000_0000;
/// Bytes of the device page.
pub const DEVICE_SIZE: u32 = 0x1000;

/// Offsets of the registers in the device page.
pub mod register {
    /// The clock in nanoseconds, low half. Read the high half before and after.
    pub const MTIME_LO: u32 = 0x00;
    /// The clock in nanoseconds, high half.
    pub const MTIME_HI: u32 = 0x04;
    /// The timer compare register, low half. The timer line is high while the clock is at or past this time.
    pub const MTIMECMP_LO: u32 = 0x08;
    /// The timer compare register, high half.
    pub const MTIMECMP_HI: u32 = 0x0c;
    /// The pacer: rate of the slot that the next store to [`PACER_INDEX`] names, in 2^-24 bytes per nanosecond.
    pub const PACER_RATE: u32 = 0x10;
    /// The pacer: window of this slot in bytes.
    pub const PACER_WINDOW: u32 = 0x14;
    /// The pacer: hold of this slot in nanoseconds.
    pub const PACER_HOLD: u32 = 0x18;
    /// The pacer: the slot. This store makes rate, window and hold take effect.
    pub const PACER_INDEX: u32 = 0x1c;
    /// A marker pin, high while the main loop works on a descriptor.
    pub const BUSY_PIN: u32 = 0x20;
    /// A store ends the run, with the stored value as its code.
    pub const EXIT: u32 = 0x24;
    /// Receive descriptors that the firmware has finished with, modulo 2^32.
    pub const RX_TAIL: u32 = 0x28;
    /// Frames that the firmware has put into the transmit ring, modulo 2^32.
    pub const TX_TAIL: u32 = 0x2c;
    /// A marker pin, high inside the timer interrupt.
    pub const TIMER_PIN: u32 = 0x34;
    /// One store for each word of the start-up report, see [`ImageInfo`](super::ImageInfo); the last makes the image ready.
    pub const IMAGE_INFO: u32 = 0x30;
    /// Of a switch: the number of the queue whose bytes [`QUEUE_BYTES`] holds.
    pub const QUEUE_SELECT: u32 = 0x50;
    /// Of a switch: bytes in that queue.
    pub const QUEUE_BYTES: u32 = 0x54;
    /// Of a switch: operands of an action, one store for each word.
    pub const ACTION_OPERAND: u32 = 0x58;
    /// Of a switch: an action of a stage. This store makes it take effect.
    pub const ACTION: u32 = 0x5c;
    /// Event log: the kind of the event, a [`LogKind`](crate::LogKind).
    pub const LOG_KIND: u32 = 0x40;
    /// Event log: the time that was passed to the engines, low half.
    pub const LOG_NOW_LO: u32 = 0x44;
    /// Event log: the time, high half.
    pub const LOG_NOW_HI: u32 = 0x48;
    /// Event log: the slot of the event; this store completes the record.
    pub const LOG_INDEX: u32 = 0x4c;
}

/// Slots in the receive ring, a power of two.
pub const RX_SLOTS: usize = 16;
/// Bytes of a frame that fit in a slot of the receive ring: the longest RoCE frame (path MTU 4,096, IPv6, GRH-sized headers).
pub const RX_FRAME_BYTES: usize = 4_350;
/// Slots in the transmit ring, a power of two.
pub const TX_SLOTS: usize = 16;
/// Bytes of a frame that fit in a slot of the transmit ring: an acknowledgement with four VLAN tags over IPv6 and the longest
/// chain of shims.
pub const TX_FRAME_BYTES: usize = 354;
/// Most settings of one machine.
pub const SETTINGS: usize = 32;

/// One slot of the receive ring. Frames start at 2 modulo 4, so that the headers after the 14 bytes of Ethernet are
/// word-aligned.
#[derive(Debug)]
#[repr(C, align(4))]
pub struct RxSlot {
    /// The descriptor of the event.
    pub descriptor: Descriptor,
    /// Unused; it puts the frame at 2 modulo 4.
    pub pad: [u8; 2],
    /// The frame's first bytes.
    pub frame: [u8; RX_FRAME_BYTES],
}

/// One slot of the transmit ring.
#[derive(Debug)]
#[repr(C, align(4))]
pub struct TxSlot {
    /// Bytes of the frame.
    pub length: u32,
    /// Unused; it puts the frame at 2 modulo 4.
    pub pad: [u8; 2],
    /// The frame.
    pub frame: [u8; TX_FRAME_BYTES],
}

/// The memory that firmware and device share.
#[derive(Debug)]
#[repr(C, align(4))]
pub struct Shared {
    /// Settings of the reaction point, or of a switch's stage, in user units, written before the image starts.
    pub rp_settings: [u32; SETTINGS],
    /// Settings of the notification point, likewise; of a switch, the seed of its random numbers in two words, the low one first.
    pub np_settings: [u32; SETTINGS],
    /// Line rate in 2^-24 bytes per nanosecond, MTU in bytes, round-trip time of the idle network in nanoseconds; likewise.
    pub link: [u32; 3],
    /// Receive descriptors that the device has filled, modulo 2^32.
    pub rx_head: u32,
    /// Transmit slots that the device has emptied, modulo 2^32.
    pub tx_head: u32,
    /// The receive ring.
    pub rx: [RxSlot; RX_SLOTS],
    /// The transmit ring.
    pub tx: [TxSlot; TX_SLOTS],
}

/// Bytes of the ring for log frames, a power of two.
pub const LOG_BYTES: usize = 4_096;

/// The ring for log frames of defmt, which are in it completely or not at all. Both sides find it by its symbol, `DEFMT_RING`.
#[derive(Debug)]
#[repr(C)]
pub struct LogRing {
    /// Bytes that the firmware has written, modulo 2^32.
    pub written: u32,
    /// Bytes that the harness has read, modulo 2^32.
    pub read: u32,
    /// Bytes of frames that were dropped because the ring was full.
    pub lost: u32,
    /// The bytes.
    pub bytes: [u8; LOG_BYTES],
}

/// The start-up report of an image, one word for each field. A switch reports its queues in place of QPs, and the flows of one
/// queue in place of notification-point records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct ImageInfo {
    /// QPs that the reaction point can hold.
    pub qps: u32,
    /// Bytes of one reaction-point state.
    pub state_bytes: u32,
    /// Bytes that each further QP adds: state, pacer, timer wheel link, handle, QPN map.
    pub qp_bytes: u32,
    /// Records that the notification point can hold.
    pub peers: u32,
    /// Bytes of one notification-point record, key included.
    pub peer_bytes: u32,
}
