//! A processor core with its memory, as the harness sees it: run until a stop, inspect, and continue.
//!
//! The instruction-set model and the RTL both implement [`Core`]. Devices are in the board, outside the core, which reaches
//! them only by [`Stop::Load`] and [`Stop::Store`].

mod arithmetic;
pub mod assemble;
mod csr;
mod decode;
mod design;
mod execute;
mod ibex;
mod load;
mod memory;
mod picorv32;
mod prefetch;
#[cfg(test)]
mod tests;
mod timing;
mod watch;
mod worst;

pub use design::{Design, Dialect};
pub use ibex::Ibex;
pub use picorv32::{PicoTiming, Picorv32};
pub use timing::Timing;
pub use worst::worst;

/// A region of RAM, for instructions and data. Base and size are multiples of four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ram {
    /// Its first address.
    pub base: u32,
    /// Bytes.
    pub size: u32,
}

impl Ram {
    /// Whether all of the `length` bytes at `address` lie in it.
    #[must_use]
    pub fn contains(&self, address: u32, length: u32) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.size && length <= self.size - offset
    }
}

/// Why a core stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The cycle given to [`Core::run`] has been reached.
    Cycle,
    /// The next instruction to execute is a watched one; it has not been executed yet.
    Watch {
        /// Its address.
        pc: u32,
    },
    /// A load from the device region waits for its value: see [`Core::answer`].
    Load {
        /// The address, as the instruction gave it.
        address: u32,
        /// Width in bytes: 1, 2 or 4.
        width: u8,
    },
    /// A store to the device region has been accepted by the bus.
    Store {
        /// The address, as the instruction gave it.
        address: u32,
        /// Width in bytes: 1, 2 or 4.
        width: u8,
        /// The value, in the low bits.
        value: u32,
    },
    /// `wfi`, or PicoRV32's `waitirq`, with no interrupt pending: no instruction executes until an interrupt line rises.
    Idle,
    /// An access outside RAM and the device region, or an instruction that the core does not have.
    Fault {
        /// Address of the instruction.
        pc: u32,
        /// The address of the access, or of the instruction if it is illegal itself.
        address: u32,
        /// What went wrong.
        reason: &'static str,
    },
}

/// A core that executes a program in its own RAM.
pub trait Core {
    /// Cycles since reset. At a [`Stop::Store`], the cycle in which the bus accepted the store.
    fn cycles(&self) -> u64;
    /// Instructions retired since reset.
    fn instructions(&self) -> u64;
    /// Runs up to the cycle `until`, or to an earlier stop.
    fn run(&mut self, until: u64) -> Stop;
    /// Gives the value that a [`Stop::Load`] waits for. Call it once after each such stop, before running on.
    fn answer(&mut self, value: u32);
    /// Sets the machine timer interrupt line, from the present cycle on: that cycle itself sees it.
    fn set_timer_line(&mut self, high: bool);
    /// Sets the machine external interrupt line, in the same way. It has priority over the timer's.
    fn set_external_line(&mut self, high: bool);
    /// Lets time pass without instructions up to `cycle`: only while [`Stop::Idle`].
    fn sleep_until(&mut self, cycle: u64);
    /// Reads RAM.
    fn peek(&self, address: u32, bytes: &mut [u8]);
    /// Writes RAM, visible from the present cycle on.
    fn poke(&mut self, address: u32, bytes: &[u8]);
    /// Reads an integer register, x0 to x31.
    fn register(&self, index: usize) -> u32;
    /// Stops before the instruction at `pc`, from now on.
    fn watch(&mut self, pc: u32);
    /// Removes the stop before the instruction at `pc`.
    fn unwatch(&mut self, pc: u32);
    /// The cycle in which the next instruction begins unless an interrupt comes before it, and its address. The cycle is
    /// [`u64::MAX`] while the core sleeps. `None` for RTL, which does not show it.
    fn upcoming(&self) -> Option<(u64, u32)> {
        None
    }
    /// A copy of the core in the same state; `None` for RTL, whose simulator cannot be copied.
    fn fork(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}
