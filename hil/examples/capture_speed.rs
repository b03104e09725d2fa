//! How fast captures are read: writes one of frames of 1,064 bytes, reads it five times, and prints the best.
//!
//! `cargo run --release -p hil --example capture_speed -- [FRAMES] [FOLDER]`, by default a million frames (1.1 GB) in
//! the folder for temporary files.

use std::path::PathBuf;
use std::time::Instant;

use hil::capture::{Reader, Writer};

const FRAME: [u8; 1_064] = [0x5a; 1_064];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let frames: u64 = arguments.next().as_deref().unwrap_or("1000000").parse()?;
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(parent)?;
    let path = folder.path().join("speed.pcapng");

    let start = Instant::now();
    let mut writer = Writer::create(&path, &["port"])?;
    for number in 0..frames {
        writer.write(0, number * 85, &FRAME, FRAME.len() as u32)?;
    }
    writer.finish()?;
    println!("written: {:.2} M frames/s", frames as f64 / start.elapsed().as_secs_f64() / 1e6);

    let mut best = 0.0_f64;
    for _ in 0..5 {
        let start = Instant::now();
        let mut reader = Reader::open(&path)?;
        let mut sum = 0_u64;
        while let Some(record) = reader.next()? {
            // One byte of each frame, so that the frame is looked at and the copy into the cache is not in vain.
            sum += record.bytes.last().map_or(0, |byte| u64::from(*byte));
        }
        anyhow::ensure!(sum == frames * 0x5a, "read something else than was written");
        best = best.max(frames as f64 / start.elapsed().as_secs_f64());
    }
    println!("read: {:.2} M frames/s, {:.2} GB/s", best / 1e6, best * FRAME.len() as f64 / 1e9);
    Ok(())
}
