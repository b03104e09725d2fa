//! Writes, checks, dumps and compares the decisions of every algorithm and stage, see [`tests::decisions`].
//!
//! ```text
//! decisions [NAME]                 compares with the golden file, and exits with 1 where something differs
//! decisions --write                writes the golden file
//! decisions --dump FOLDER [NAME]   writes the traffic and the decisions as text, two files for each run
//! decisions --compare FOLDER [NAME]
//!                                  shows both sides around the first record that differs from a dump of another tree
//! ```
//!
//! NAME selects the runs whose names begin with it: `nic`, `"nic dcqcn"`, `"stage red hpcc"`, `"synth hpcc"`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use tests::decisions::{Run, golden, path, runs, write};

const USAGE: &str = "usage: decisions [--write | --dump FOLDER | --compare FOLDER] [NAME]";
/// How many records are shown before the first difference, and of each side from it on.
const AROUND: usize = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let differences = match arguments[..] {
        ["--write"] => {
            save(&path(), &write(&runs("", false)));
            0
        }
        ["--dump", folder] => dump(folder, ""),
        ["--dump", folder, name] => dump(folder, name),
        ["--compare", folder] => compare(folder, ""),
        ["--compare", folder, name] => compare(folder, name),
        [] => check(""),
        [name] if !name.starts_with('-') => check(name),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    ExitCode::from(u8::from(differences > 0))
}

fn load(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn save(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Prints the runs that differ from the golden file. Returns their number.
fn check(name: &str) -> usize {
    let golden = golden(&load(&path()));
    let differences: Vec<String> = runs(name, false).iter().filter_map(|run| run.difference(&golden)).collect();
    differences.iter().for_each(|difference| println!("{difference}"));
    differences.len()
}

fn dump(folder: &str, name: &str) -> usize {
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("cannot make {folder}: {error}"));
    for run in runs(name, true) {
        for (side, text) in sides(&run) {
            save(&Path::new(folder).join(side), &text);
        }
    }
    0
}

/// The names and texts of a run's two files.
fn sides(run: &Run) -> [(String, String); 2] {
    let text = |records: &[String]| records.iter().flat_map(|record| [record.as_str(), "\n"]).collect();
    [(run.file() + ".in", text(run.input.text())), (run.file() + ".out", text(run.decisions.text()))]
}

/// Compares with the files in the folder and prints the differences. Returns the number of files that differ.
fn compare(folder: &str, name: &str) -> usize {
    let mut differences = 0;
    for run in runs(name, true) {
        for (side, text) in sides(&run) {
            let theirs = load(&Path::new(folder).join(&side));
            let (theirs, ours): (Vec<&str>, Vec<&str>) = (theirs.lines().collect(), text.lines().collect());
            if theirs == ours {
                continue;
            }
            differences += 1;
            let first = theirs.iter().zip(&ours).take_while(|(one, other)| one == other).count();
            let start = first.saturating_sub(AROUND);
            println!("{side}: record {first} differs, of {} there and {} here", theirs.len(), ours.len());
            theirs[start..first].iter().for_each(|record| println!("  {record}"));
            theirs[first..].iter().take(AROUND).for_each(|record| println!("- {record}"));
            ours[first..].iter().take(AROUND).for_each(|record| println!("+ {record}"));
            // If the input differs, a comparison of the output is meaningless.
            if side.ends_with(".in") {
                break;
            }
        }
    }
    differences
}
