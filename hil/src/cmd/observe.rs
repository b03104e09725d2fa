//! What `hil sim` writes while a simulation runs.

use anyhow::{Context, Result, ensure};
use hil_capture::{NewFile, Writer};
use hil_sim::Picos;
use hil_sim::fabric::{Network, Sample};
use hil_sim::ns3;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `hil sim` that choose what is written while it runs.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Writes series of queues, links and flows as CSV: a line for each value that differs from the one an interval before.
    #[arg(long, value_name = "FILE.csv")]
    series: Option<PathBuf>,
    /// The time from one sample of the series to the next, with a unit: ns, us, ms or s.
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = interval)]
    interval: Picos,
    /// Writes the frames that leave and arrive by a port of a node, counted from 1 in the order of its links, as pcapng. Can be
    /// given several times.
    #[arg(long, value_name = "NODE:PORT=FILE", value_parser = capture)]
    pcap: Vec<Capture>,
    /// Holds every packet that arrives at a node to a full parse and a full emission of its headers, and fails at the first
    /// difference. Prints how many were checked.
    #[arg(long)]
    check_frames: bool,
}

/// A port, by its node and its number there, and the file for its frames.
#[derive(Clone, Debug)]
struct Capture {
    node: u32,
    port: u32,
    path: PathBuf,
}

fn capture(text: &str) -> Result<Capture, String> {
    let parts = text.split_once('=').and_then(|(at, path)| Some((at.split_once(':')?, path)));
    let capture = parts.and_then(|((node, port), path)| {
        Some(Capture { node: node.parse().ok()?, port: port.parse().ok()?, path: path.into() })
    });
    capture.ok_or_else(|| "expected a node, a port and a file, such as 9:1=port.pcapng".to_owned())
}

fn interval(text: &str) -> Result<Picos, String> {
    let interval = ns3::time(text).filter(|&picos| picos >= 1_000 && picos % 1_000 == 0);
    interval.ok_or_else(|| "expected whole nanoseconds, at least one, such as 10us".to_owned())
}

/// The files that are written while a simulation runs. They appear when [`Observers::finish`] succeeds.
pub(crate) struct Observers {
    interval: Picos,
    check_frames: bool,
    series: Option<NewFile>,
    captures: Vec<(Capture, Writer<NewFile>)>,
}

impl Observers {
    /// Creates the files, none of which may replace an input.
    pub(crate) fn create(options: &Options, inputs: &[&Path]) -> Result<Self> {
        let create = |option: &str, path: &Path| {
            ensure!(path.as_os_str() != "-", "{option}: expected the name of a file, not standard output");
            Ok(NewFile::create(path, inputs)?)
        };
        let mut series = options.series.as_ref().map(|path| create("--series", path)).transpose()?;
        if let Some(file) = &mut series {
            writeln!(file, "{}", Sample::CSV_HEADER)?;
        }
        let captures = options.pcap.iter().map(|capture| {
            let name = format!("node {} port {}", capture.node, capture.port);
            Ok((capture.clone(), Writer::new(create("--pcap", &capture.path)?, &[&name])?))
        });
        let captures = captures.collect::<Result<_>>()?;
        Ok(Self { interval: options.interval, check_frames: options.check_frames, series, captures })
    }

    /// Lets them see what a network does.
    ///
    /// # Errors
    /// A port that the network does not have.
    pub(crate) fn attach<'a>(&'a mut self, network: &mut Network<'a>) -> Result<()> {
        if self.check_frames {
            network.check_frames();
        }
        if let Some(file) = &mut self.series {
            network.sample(self.interval, |sample| writeln!(file, "{sample}").context("cannot write the series"));
        }
        for (Capture { node, port, path }, file) in &mut self.captures {
            let tap = |time: Picos, _, frame: &[u8]| {
                file.write(0, time / 1_000, frame, frame.len() as u32).with_context(|| path.display().to_string())
            };
            network.tap_port(*node, *port, tap).context("--pcap")?;
        }
        Ok(())
    }

    /// Gives the files their names.
    pub(crate) fn finish(self) -> Result<()> {
        self.series.map_or(Ok(()), NewFile::finish)?;
        Ok(self.captures.into_iter().try_for_each(|(_, file)| file.finish())?)
    }
}
