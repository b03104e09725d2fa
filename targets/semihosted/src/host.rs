//! The host at the other end of two streams: its standard input and output.

use crate::board::{BUSY, Delay, call_host};
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{OutputPin, PinState};
use programs::lockstep::Exit;

/// The hash of the image's sources. The harness reads it, and refuses an image whose hash differs from its own. The section is
/// not loaded, see `sections.x`.
#[used]
#[unsafe(link_section = ".rnic_cc.sources")]
static SOURCES: [u8; 16] = programs::SOURCES;

/// Operations, see [`call_host`].
const SYS_OPEN: usize = 0x01;
const SYS_WRITE: usize = 0x05;
const SYS_READ: usize = 0x06;
const SYS_EXIT_EXTENDED: usize = 0x20;

/// The reason of an exit: the application has ended.
const APPLICATION_EXIT: usize = 0x2_0026;

/// The streams from and to the host.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    input: usize,
    output: usize,
}

impl Host {
    /// Neither stream.
    pub(crate) const CLOSED: Self = Self { input: 0, output: 0 };

    /// Opens both.
    pub(crate) fn open() -> Self {
        // Modes of fopen, "rb" and "wb".
        Self { input: open(1), output: open(5) }
    }

    /// Fills the buffer. If the stream ends, the run ends.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) {
        let mut rest = buffer;
        while !rest.is_empty() {
            let block = [self.input, rest.as_mut_ptr() as usize, rest.len()];
            // SAFETY: the host writes to the slice, which is borrowed for it.
            let missing = unsafe { call_host(SYS_READ, &block) };
            let read = rest.len().saturating_sub(missing);
            rest = match rest.get_mut(read..) {
                Some(rest) if read > 0 => rest,
                _ => exit(Exit::Finished),
            };
        }
    }

    /// Reads `N` words.
    pub(crate) fn words<const N: usize>(&mut self) -> [u32; N] {
        [(); N].map(|()| {
            let mut word = [0; 4];
            self.read(&mut word);
            u32::from_le_bytes(word)
        })
    }

    /// Sends all of these bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let block = [self.output, bytes.as_ptr() as usize, bytes.len()];
        // SAFETY: the host reads the slice.
        if unsafe { call_host(SYS_WRITE, &block) } != 0 {
            exit(Exit::Streams);
        }
    }

    /// Sends all of these words.
    pub(crate) fn write_words<const N: usize>(&mut self, words: [u32; N]) {
        self.write(words.map(u32::to_le_bytes).as_flattened());
    }
}

/// Opens the console, for reading or for writing.
fn open(mode: usize) -> usize {
    let name = c":tt";
    // SAFETY: the host reads the name.
    let stream = unsafe { call_host(SYS_OPEN, &[name.as_ptr() as usize, mode, name.count_bytes()]) };
    if stream == usize::MAX { exit(Exit::Streams) } else { stream }
}

/// Ends the run. While the host does not accept the request, as with some debuggers, the busy pin blinks.
pub(crate) fn exit(code: Exit) -> ! {
    let (mut pin, mut level) = (BUSY, PinState::Low);
    loop {
        // SAFETY: the block is what the operation expects.
        unsafe { call_host(SYS_EXIT_EXTENDED, &[APPLICATION_EXIT, code as usize]) };
        level = !level;
        let Ok(()) = pin.set_state(level);
        Delay.delay_ms(200);
    }
}

/// Handler of exceptions, and of interrupts other than the timer's: ends the run.
#[unsafe(no_mangle)]
extern "C" fn unexpected() -> ! {
    exit(Exit::Unexpected)
}

unsafe extern "C" {
    /// Not defined anywhere, so that an image that contains a panic does not link.
    fn this_image_can_panic() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never runs; see above.
    unsafe { this_image_can_panic() }
}
