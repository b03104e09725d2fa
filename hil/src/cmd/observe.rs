//! What `hil sim` writes while a simulation runs.

use anyhow::{Context, Result, ensure};
use hil_capture::NewFile;
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
    /// The time from one sample of the series to the next, with a unit: ns, us, ms, or s.
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = interval)]
    interval: Picos,
}

fn interval(text: &str) -> Result<Picos, String> {
    let interval = ns3::time(text).filter(|&picos| picos >= 1_000 && picos % 1_000 == 0);
    interval.ok_or_else(|| "expected whole nanoseconds, at least one, such as 10us".to_owned())
}

/// The files that are written while a simulation runs. They appear when [`Observers::finish`] succeeds.
pub(crate) struct Observers {
    interval: Picos,
    series: Option<NewFile>,
}

impl Observers {
    /// Creates the files, none of which may replace an input.
    pub(crate) fn create(options: &Options, inputs: &[&Path]) -> Result<Self> {
        let create = |path: &PathBuf| {
            ensure!(path.as_os_str() != "-", "--series: expected the name of a file, not standard output");
            let mut file = NewFile::create(path, inputs)?;
            writeln!(file, "{}", Sample::CSV_HEADER)?;
            Ok(file)
        };
        Ok(Self { interval: options.interval, series: options.series.as_ref().map(create).transpose()? })
    }

    /// Lets them see what a network does.
    pub(crate) fn attach<'a>(&'a mut self, network: &mut Network<'a>) {
        if let Some(file) = &mut self.series {
            network.sample(self.interval, |sample| writeln!(file, "{sample}").context("cannot write the series"));
        }
    }

    /// Gives the files their names.
    pub(crate) fn finish(self) -> Result<()> {
        self.series.map_or(Ok(()), NewFile::finish)?;
        Ok(())
    }
}
