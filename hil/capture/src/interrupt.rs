//! Handling of signals that end the program: temporary files are removed, and a replay ends early with a report.
//!
//! Files that are being written have temporary names, see [`NewFile`](super::NewFile). When a signal comes, they are removed
//! and the program ends. A replay ends its reading instead, and reports what it has read; a second signal ends the program at
//! once.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Signals that end a program which does not catch them, except those that a fault of the program raises.
const ENDING: [i32; 11] =
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ];

/// The signal that requested the end, 0 for none.
static REQUESTED: AtomicI32 = AtomicI32::new(0);
/// Whether the work under way polls [`requested`].
static GRACEFUL: AtomicBool = AtomicBool::new(false);
/// Files with temporary names.
static PARTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Starts the thread that handles signals. Called by a program at its start.
///
/// # Errors
/// The operating system refuses.
pub fn watch() -> io::Result<()> {
    let ignored = ignored();
    let caught = ENDING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(caught)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let is_graceful = matches!(signal, SIGINT | SIGTERM) && GRACEFUL.load(Ordering::SeqCst);
            if is_graceful && REQUESTED.swap(signal, Ordering::SeqCst) == 0 {
                continue;
            }
            // The lock is held until the program ends, so that no file is begun or finished meanwhile.
            let parts = parts();
            parts.iter().for_each(|part| drop(fs::remove_file(part)));
            let _ = emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// Signals that were already ignored when the program started, as under nohup: one bit for each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Called before work that polls [`requested`] and ends when there is a signal.
pub fn stop_gracefully() {
    GRACEFUL.store(true, Ordering::SeqCst);
}

/// The signal that requested the end, if there was one.
pub fn requested() -> Option<i32> {
    Some(REQUESTED.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

fn parts() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a file that is removed if a signal ends the program.
pub(super) fn begin<T>(make: impl FnOnce() -> io::Result<T>, path: impl FnOnce(&T) -> &Path) -> io::Result<T> {
    let mut parts = parts();
    let made = make()?;
    parts.insert(path(&made).to_owned());
    Ok(made)
}

/// Ends the use of a file's temporary name: `finish` renames or removes the file.
pub(super) fn end<T>(part: &Path, finish: impl FnOnce() -> T) -> T {
    let mut parts = parts();
    let finished = finish();
    parts.remove(part);
    finished
}
