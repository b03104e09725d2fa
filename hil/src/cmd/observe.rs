//! What `hil sim` writes while a simulation runs.

use anyhow::{Context, Result};
use hil_algorithms::quantity;
use hil_capture::{NewFile, Writer};
use hil_sim::Picos;
use hil_sim::fabric::{Network, Quantity, Sample};
use hil_sim::plot::{self, States};
use std::io::{self, Write};
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
    /// Plots the distribution of slowdowns, and the queues and rates that reach the largest values, in the folder of --output:
    /// slowdown.svg, queues.svg and rates.svg.
    #[arg(long, requires = "output")]
    svg: bool,
}

/// A port, by its node and its number there, and the file for its frames.
#[derive(Clone, Debug)]
struct Capture {
    node: u32,
    port: u32,
    path: PathBuf,
}

impl Options {
    /// Whether one of the files is standard output.
    pub(crate) fn is_standard_output_taken(&self) -> bool {
        self.files(None).iter().any(|path| path.as_os_str() == "-")
    }

    /// The files that are to be written; plots go to the folder `output`.
    pub(crate) fn files(&self, output: Option<&Path>) -> Vec<PathBuf> {
        let plots = output.filter(|_| self.svg).into_iter().flat_map(|folder| PLOTS.map(|name| folder.join(name)));
        self.series.iter().chain(self.pcap.iter().map(|capture| &capture.path)).cloned().chain(plots).collect()
    }
}

/// The files of --svg.
const PLOTS: [&str; 3] = ["slowdown.svg", "queues.svg", "rates.svg"];

fn capture(text: &str) -> Result<Capture, String> {
    let parts = text.split_once('=').and_then(|(at, path)| Some((at.split_once(':')?, path)));
    let capture = parts.and_then(|((node, port), path)| {
        Some(Capture { node: node.parse().ok()?, port: port.parse().ok()?, path: path.into() })
    });
    capture.ok_or_else(|| "expected a node, a port and a file, such as 9:1=port.pcapng".to_owned())
}

pub(super) fn interval(text: &str) -> Result<Picos, String> {
    let is_whole = |nanoseconds: &f64| (1.0..1e15).contains(nanoseconds) && nanoseconds.fract() == 0.0;
    let interval = quantity::nanoseconds(text).filter(is_whole);
    let expected = "expected whole nanoseconds, at least one and below 1000000 s, with a unit, such as 10us";
    interval.map(|nanoseconds| nanoseconds as Picos * 1_000).ok_or_else(|| expected.to_owned())
}

/// The files that are written while a simulation runs. They appear when [`Observers::finish`] succeeds.
pub(crate) struct Observers {
    interval: Picos,
    check_frames: bool,
    series: Option<NewFile>,
    captures: Vec<(Capture, Writer<NewFile>)>,
    plots: Option<Plots>,
}

/// The files of the plots, and what is collected for them.
struct Plots {
    slowdown: NewFile,
    states: [(Quantity, States, NewFile); 2],
}

impl Plots {
    fn create(folder: &Path, inputs: &[&Path]) -> Result<Self> {
        let create = |name: &str| NewFile::create(&folder.join(name), inputs);
        let states = |quantity, name| Ok::<_, io::Error>((quantity, States::default(), create(name)?));
        let [slowdown, queues, rates] = PLOTS;
        let states = [states(Quantity::Queue, queues)?, states(Quantity::Rate, rates)?];
        Ok(Self { slowdown: create(slowdown)?, states })
    }

    fn take(&mut self, sample: &Sample) {
        let of_quantity = |(quantity, ..): &&mut (Quantity, States, NewFile)| *quantity == sample.quantity;
        self.states.iter_mut().filter(of_quantity).for_each(|(_, states, _)| states.take(sample));
    }

    fn finish(self, slowdowns: &[(u64, f64)]) -> Result<()> {
        let states = self.states.into_iter().map(|(quantity, states, file)| (states.svg(quantity), file));
        for (svg, mut file) in states.chain([(plot::slowdowns(slowdowns), self.slowdown)]) {
            file.write_all(svg.as_bytes())?;
            file.finish()?;
        }
        Ok(())
    }
}

impl Observers {
    /// Creates the files, none of which may replace an input. Plots go to the folder `output`.
    pub(crate) fn create(options: &Options, output: Option<&Path>, inputs: &[&Path]) -> Result<Self> {
        let create = |path: &Path| NewFile::create(path, inputs);
        let mut series = options.series.as_deref().map(create).transpose()?;
        if let Some(file) = &mut series {
            writeln!(file, "{}", Sample::CSV_HEADER)?;
        }
        let captures = options.pcap.iter().map(|capture| {
            let name = format!("node {} port {}", capture.node, capture.port);
            Ok((capture.clone(), Writer::new(create(&capture.path)?, &[&name])?))
        });
        let captures = captures.collect::<Result<_>>()?;
        let plots = output.filter(|_| options.svg).map(|folder| Plots::create(folder, inputs)).transpose()?;
        Ok(Self { interval: options.interval, check_frames: options.check_frames, series, captures, plots })
    }

    /// Lets them see what a network does.
    ///
    /// # Errors
    /// A port that the network does not have.
    pub(crate) fn attach<'a>(&'a mut self, network: &mut Network<'a>) -> Result<()> {
        if self.check_frames {
            network.check_frames();
        }
        let Self { series, plots, .. } = self;
        if series.is_some() || plots.is_some() {
            network.sample(self.interval, move |sample| {
                if let Some(plots) = plots {
                    plots.take(sample);
                }
                series.as_mut().map_or(Ok(()), |file| writeln!(file, "{sample}")).context("cannot write the series")
            });
        }
        for (Capture { node, port, path }, file) in &mut self.captures {
            let tap = |time: Picos, _, frame: &[u8]| {
                file.write(0, time / 1_000, frame, frame.len() as u32).with_context(|| path.display().to_string())
            };
            network.tap_port(*node, *port, tap).context("--pcap")?;
        }
        Ok(())
    }

    /// Draws the plots, and gives the files their names. `slowdowns` are those of [`hil_sim::summary::slowdowns`].
    pub(crate) fn finish(self, slowdowns: &[(u64, f64)]) -> Result<()> {
        self.plots.map_or(Ok(()), |plots| plots.finish(slowdowns))?;
        self.series.map_or(Ok(()), NewFile::finish)?;
        Ok(self.captures.into_iter().try_for_each(|(_, file)| file.finish())?)
    }
}
