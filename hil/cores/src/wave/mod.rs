//! Waves of what a core did, for viewers such as GTKWave: value change dumps (IEEE 1364-2005, section 18).
//!
//! One scope for each core, with
//! - `pc`, the address of the instruction that executes (only of models); `cycle`, the cycle count when work on an event began;
//! - `interrupt`, high from the entry of an interrupt or exception to the return (only of models); the interrupt lines and the
//!   marker pins;
//! - `store` with `store_address` and `store_data`, for each store to a device;
//! - `clock_ns`, the clock as the image read it for its last event, and `events`, one variable for each kind of event;
//! - a scope for each QP's slot: `rate_bps`, `window_bytes` and `hold_ns` of the pacer, if they limit anything, and the state
//!   variables of the algorithm behind them, see [`Explain`], as they were after the last event.
//!
//! The time axis is in picoseconds. In real time it is the board's clock. In lockstep the board's clock stands still while the
//! image works: there the handling of an event begins at the time of the event, or at the end of the previous handling if that
//! is later, and lasts for its cycles.
//!
//! Each core records tracks to files while it runs, and they are merged into one file at the end, when all variables are known.
//! Memory use does not grow with the length of the run.

mod recorder;
mod track;

pub use recorder::{Explain, Recorder, SLOTS};
pub use track::{Change, Changes, Kind, Track, Variable};

use hil_capture::NewFile;
use hil_sorted::SortedSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use vcd::{IdCode, SimulationCommand, TimescaleUnit, Value, VarType};

/// The folder of a file that is to be created.
pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// The scope of a NIC: a simple identifier, different for every address.
pub fn scope(address: IpAddr) -> String {
    format!("nic_{address}").replace(['.', ':'], "_")
}

/// Merges what was recorded in each scope into a file. Comments go into its head.
///
/// # Errors
/// A track is not complete, or the file cannot be written.
pub fn write(mut file: NewFile, recorded: Vec<(String, Recorder)>, comments: &[String]) -> io::Result<()> {
    merge(&mut file, recorded, comments)?;
    file.finish()
}

/// A track being merged.
struct Source {
    variables: Vec<Variable>,
    codes: Vec<IdCode>,
    changes: Changes,
}

fn merge(sink: impl Write, recorded: Vec<(String, Recorder)>, comments: &[String]) -> io::Result<()> {
    let mut writer = vcd::Writer::new(sink);
    writer.version(concat!("rnic-cc hil ", env!("CARGO_PKG_VERSION")))?;
    for comment in comments {
        writer.comment(comment)?;
    }
    writer.timescale(1, TimescaleUnit::PS)?;
    let mut sources = Vec::new();
    for (scope, recorder) in recorded {
        let mut tracks = Vec::new();
        for track in recorder.into_tracks() {
            let (variables, changes) = track.finish()?;
            tracks.push(Source { codes: vec![IdCode::FIRST; variables.len()], variables, changes });
        }
        declare(&mut writer, &scope, &mut tracks)?;
        sources.append(&mut tracks);
    }
    writer.enddefinitions()?;

    writer.begin(SimulationCommand::Dumpvars)?;
    for (variable, &code) in sources.iter().flat_map(|source| source.variables.iter().zip(&source.codes)) {
        match variable.kind {
            Kind::Bits(1) => writer.change_scalar(code, Value::X)?,
            Kind::Bits(_) => writer.change_vector(code, [Value::X])?,
            // A VCD file has no unknown value for reals and events.
            Kind::Real | Kind::Event => {}
        }
    }
    writer.end()?;

    // The next change of each source, and their order.
    let mut pending = Vec::new();
    let mut order = BinaryHeap::new();
    for (index, source) in sources.iter_mut().enumerate() {
        let next = source.changes.read()?;
        order.extend(next.map(|change| Reverse((change.time, index))));
        pending.push(next);
    }
    let mut now = None;
    while let Some(Reverse((time, index))) = order.pop() {
        let (Some(source), Some(pending)) = (sources.get_mut(index), pending.get_mut(index)) else { break };
        if now != Some(time) {
            writer.timestamp(time)?;
            now = Some(time);
        }
        while let Some(change) = pending.filter(|change| change.time == time) {
            let variable = source.variables.get(change.variable).zip(source.codes.get(change.variable));
            if let Some((variable, &code)) = variable {
                put(&mut writer, variable.kind, code, change.value)?;
            }
            *pending = source.changes.read()?;
        }
        order.extend(pending.map(|change| Reverse((change.time, index))));
    }
    Ok(())
}

/// Declares the variables of some tracks, in a scope and the scopes within it, and assigns a VCD code to each.
fn declare(writer: &mut vcd::Writer<impl Write>, scope: &str, tracks: &mut [Source]) -> io::Result<()> {
    writer.add_module(scope)?;
    let inner: SortedSet<Option<String>> =
        tracks.iter().flat_map(|track| &track.variables).map(|variable| variable.scope.clone()).collect();
    for inner in inner {
        if let Some(inner) = &inner {
            writer.add_module(inner)?;
        }
        for Source { variables, codes, .. } in &mut *tracks {
            for (variable, code) in variables.iter().zip(codes).filter(|(variable, _)| variable.scope == inner) {
                *code = var(writer, variable)?;
            }
        }
        if inner.is_some() {
            writer.upscope()?;
        }
    }
    writer.upscope()
}

fn var(writer: &mut vcd::Writer<impl Write>, variable: &Variable) -> io::Result<IdCode> {
    let (kind, bits) = match variable.kind {
        Kind::Bits(bits) => (VarType::Wire, bits),
        Kind::Real => (VarType::Real, 64),
        Kind::Event => (VarType::Event, 1),
    };
    writer.add_var(kind, bits, &variable.name, None)
}

fn put(writer: &mut vcd::Writer<impl Write>, kind: Kind, code: IdCode, value: u64) -> io::Result<()> {
    match kind {
        Kind::Event => writer.change_scalar(code, Value::V1),
        Kind::Bits(1) => writer.change_scalar(code, value != 0),
        Kind::Real => writer.change_real(code, f64::from_bits(value)),
        // Leading zeros may be left out (IEEE 1364-2005, 18.2.1).
        Kind::Bits(_) => {
            let digits = (u64::BITS - value.leading_zeros()).max(1);
            writer.change_vector(code, (0..digits).rev().map(|bit| Value::from(value >> bit & 1 != 0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Action, LogRecord, PacerStore};
    use programs::LogKind;

    fn recorder(hz: u64) -> Recorder {
        Recorder::new(Path::new("."), hz, 100).unwrap()
    }

    fn merged(recorded: Vec<(String, Recorder)>) -> String {
        let mut text = Vec::new();
        merge(&mut text, recorded, &["how it was made".into()]).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The changes of this time, in the order of the file.
    fn at(text: &str, time: u64) -> Vec<&str> {
        let stamp = format!("#{time}");
        text.lines().skip_while(|line| *line != stamp).skip(1).take_while(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn two_cores_have_one_time_axis_and_unknown_values_are_x() {
        let (mut one, mut other) = (recorder(250_000_000), recorder(333_000_000));
        one.event(2_000, 500);
        one.timer_line(510, true);
        other.timer_line(100, false);
        other.timer_line(103, true);
        other.event(2_000, 103);
        let text = merged(vec![("one".into(), one), ("other".into(), other)]);
        assert!(text.starts_with("$version\n    rnic-cc hil "), "{text}");
        let head = "$comment\n    how it was made\n$end\n$timescale 1 ps $end\n$scope module one $end\n\
                    $var wire 64 ! cycle $end\n";
        assert!(text.contains(head), "{text}");
        let start = text.split_once("$dumpvars\n").unwrap().1.split_once("$end\n").unwrap().0;
        assert!(start.starts_with("bx !\nbx \"\nx#\n"), "{start}");
        // Three cycles of 1/333 of a microsecond, in whole picoseconds; the work of cycle 500 begins at its event.
        assert_eq!(at(&text, 9_009), ["1/"]);
        assert_eq!(at(&text, 2_000_000), ["b111110100 !", "b1100111 ,"]);
        assert_eq!(at(&text, 2_040_000), ["1$"]);
    }

    #[test]
    fn work_on_an_event_begins_after_the_previous_work_has_ended() {
        let mut recorder = recorder(1_000_000_000);
        recorder.event(1_000, 100);
        recorder.event(1_010, 400);
        recorder.timer_line(401, true);
        assert_eq!(at(&merged(vec![("core".into(), recorder)]), 1_301_000), ["1$"]);
    }

    #[test]
    fn a_nic_that_paces_too_many_qps_reports_how_many_are_left_out() {
        let mut recorder = recorder(1_000_000_000);
        for index in (0..70).chain(0..70) {
            let store = PacerStore { index, rate: 1 << 24, window: u32::MAX, hold: 0 };
            let record = LogRecord { kind: LogKind::Sent as u32, now: 5, index };
            recorder.decided(&[(200, Action::Pace(store)), (200, Action::Log(record))], &|_, show| show("alpha", 0.5));
        }
        assert_eq!(recorder.left_out(), 70 - SLOTS);
        let text = merged(vec![("nic".into(), recorder)]);
        assert_eq!(text.matches(" rate_bps $end").count(), SLOTS);
        // A byte each nanosecond is 8 Gb/s.
        assert_eq!(
            at(&text, 100_000).iter().filter(|line| line.starts_with(&format!("b{:b} ", 8_000_000_000_u64))).count(),
            SLOTS
        );
        assert_eq!(text.matches(" alpha $end").count(), SLOTS);
        assert!(!text.contains("window_bytes") && !text.contains("hold_ns"), "nothing but rates limits these");
    }

    #[test]
    fn addresses_have_different_simple_identifiers() {
        let scopes =
            ["10.0.0.1", "::1", "fe80::1:2", "fe80:1::2", "::ffff:a00:1"].map(|text| scope(text.parse().unwrap()));
        for (index, scope) in scopes.iter().enumerate() {
            assert!(scope.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{scope}");
            assert!(!scopes[..index].contains(scope), "{scope}");
        }
    }
}
