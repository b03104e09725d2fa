//! Measures how fast captures are read: writes a capture with frames of 1,064 bytes, reads it five times, and prints the best
//! time, together with the time of the operating system's `read` alone for the same file.
//!
//! `cargo run --release -p hil-capture --example capture_speed -- [FRAMES] [FOLDER]`, by default a million frames (1.1 GB) in
//! the folder for temporary files.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use hil_capture::{Reader, Writer};

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

    let (mut reader_s, mut read_s) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..5 {
        let start = Instant::now();
        let mut reader = Reader::open(&path)?;
        let mut sum = 0_u64;
        while let Some(record) = reader.next()? {
            // One byte of each frame, so that a frame is looked at.
            sum += record.bytes.last().map_or(0, |byte| u64::from(*byte));
        }
        reader_s = reader_s.min(start.elapsed().as_secs_f64());
        anyhow::ensure!(sum == frames * 0x5a, "read something else than was written");

        let start = Instant::now();
        let (mut file, mut buffer) = (File::open(&path)?, vec![0; 256 << 10]);
        while file.read(&mut buffer)? > 0 {}
        read_s = read_s.min(start.elapsed().as_secs_f64());
    }
    let rate = |seconds: f64| frames as f64 / seconds / 1e6;
    println!("read: {:.2} M frames/s; by the system's read alone: {:.2} M frames/s", rate(reader_s), rate(read_s));
    println!(
        "of a frame's {:.0} ns, the reader's own: {:.0} ns",
        1e3 / rate(reader_s),
        1e3 / rate(reader_s) - 1e3 / rate(read_s)
    );
    Ok(())
}
