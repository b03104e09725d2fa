//! Work on several threads.

use anyhow::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `work` for each item, on so many threads at once, in no order but that of their beginnings. `progress` is called before the
/// first and after each, with how many are done and how many there are.
///
/// # Errors
/// The first that `work` returned; items that had not begun by then are left out.
pub fn for_each<T: Sync>(
    items: &[T],
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: &(dyn Fn(&T) -> Result<()> + Sync),
) -> Result<()> {
    let (next, done, has_failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let first: Mutex<Option<Error>> = Mutex::new(None);
    progress(0, items.len());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if has_failed.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Err(error) = work(item) {
                        has_failed.store(true, Ordering::Relaxed);
                        first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        return;
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
                }
            });
        }
    });
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
