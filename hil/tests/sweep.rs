//! `hil sweep` as a program: plans, killed and failing runs, and tables that are the same to the byte.

use hil_cores::random::SplitMix;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const SCENARIO: &str = "duration = \"20ms\"\n\n[topology]\nkind = \"star\"\nhosts = 5\nrate = \"100Gb/s\"\ndelay = \"1us\"\n\n\
                        [algorithm]\nname = \"dcqcn\"\n\n[[stages]]\nname = \"red\"\n\n\
                        [[workload]]\nkind = \"incast\"\nbytes = \"200kB\"\nspread = \"10us\"\n";

/// 5 x 4 x 3 points.
const GRID: &str = "scenario = \"star.toml\"\nseeds = 3\nvalues = [\"queue.max_bytes\", \"slowdown.p99\", \"feedback.nic_cnps\"]\n\n\
                    [grid]\nworkload.0.bytes = [\"100kB\", \"200kB\", \"400kB\", \"600kB\", \"800kB\"]\n\n\
                    [[points]]\nstages.0.kmin = \"5kB\"\nstages.0.kmax = \"50kB\"\n\
                    [[points]]\nstages.0.kmin = \"100kB\"\nstages.0.kmax = \"400kB\"\n\
                    [[points]]\nalgorithm.rpg_ai_rate = 100\n[[points]]\n";

fn folder(scenario: &str, grid: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("star.toml"), scenario).unwrap();
    fs::write(folder.path().join("grid.toml"), grid).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hil"));
    command.arg("sweep").args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

fn sweep(folder: &TempDir, arguments: &[&str]) -> Output {
    command(folder.path(), arguments).output().unwrap()
}

/// What it prints on standard output, which must succeed.
fn printed(folder: &TempDir, arguments: &[&str]) -> String {
    let output = sweep(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it prints on standard error, which must fail.
fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let output = sweep(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The results in a folder of a sweep, without those that are being written.
fn results(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("results")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.extension().is_none()).collect();
    all.sort();
    all
}

/// Kills a run with SIGKILL as soon as there are so many results, or lets it end.
fn kill_at(mut run: Child, folder: &Path, count: usize) {
    while run.try_wait().unwrap().is_none() && results(folder).len() < count {
        std::thread::yield_now();
    }
    let _ = run.kill();
    run.wait().unwrap();
}

/// A sweep is killed three times at numbers of results that are drawn, has two damaged results, and runs twice at once at last. Another
/// runs undisturbed, in three shards. Their tables are equal.
#[test]
fn a_sweep_that_was_killed_has_the_table_of_an_undisturbed_one() {
    let folder = folder(SCENARIO, GRID);
    assert_eq!(printed(&folder, &["plan", "grid.toml", "--output", "a"]), "a: 60 points, planned\n");
    printed(&folder, &["plan", "grid.toml", "--output", "b"]);
    for shard in ["1/3", "2/3", "3/3"] {
        let done = printed(&folder, &["run", "a", "--shard", shard]);
        assert!(done.starts_with("a: 20 points: 0 were finished, 20 ran in "), "{done}");
    }
    let table = printed(&folder, &["merge", "a"]);
    assert_eq!(table.lines().count(), 61);
    let first = "point,algorithm.rpg_ai_rate,stages.0.kmax,stages.0.kmin,workload.0.bytes,seed,queue.max_bytes,slowdown.p99,feedback.nic_cnps";
    assert_eq!(table.lines().next(), Some(first));
    assert!(table.lines().nth(9).is_some_and(|line| line.starts_with("8,100,,,100kB,3,")), "{table}");
    let different: std::collections::BTreeSet<&str> =
        table.lines().filter_map(|line| line.splitn(7, ',').nth(6)).collect();
    assert!(different.len() > 20, "the points differ: {table}");

    let (mut random, b) = (SplitMix::new(19), folder.path().join("b"));
    for kill in 0..3 {
        let count = results(&b).len() + 1 + random.below(15) as usize;
        kill_at(command(folder.path(), &["run", "b", "--jobs", "2"]).spawn().unwrap(), &b, count);
        assert!((count..60).contains(&results(&b).len()), "kill {kill} at {count}");
    }
    // Leftovers of killed runs, one of them an hour old, a result that is cut off, and one with another bit.
    let [new, old] = ["000059.Xy1.part", "000058.Xy2.part"].map(|name| b.join("results").join(name));
    fs::write(&new, "{\"point\"").unwrap();
    File::create(&old).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    let found = results(&b);
    let text = fs::read(&found[0]).unwrap();
    fs::write(&found[0], &text[..text.len() / 2]).unwrap();
    let mut text = fs::read(&found[1]).unwrap();
    text[40] ^= 1;
    fs::write(&found[1], text).unwrap();
    let status = printed(&folder, &["status", "b"]);
    let sound = found.len() - 2;
    assert!(status.starts_with(&format!("60 points: {sound} finished, 0 failed, {} missing", 60 - sound)), "{status}");
    let refusal = refused(&folder, &["merge", "b"]);
    assert!(refusal.starts_with("error: points are missing: ") && refusal.contains("failed: none"), "{refusal}");
    let partial = printed(&folder, &["merge", "b", "--partial"]);
    assert_eq!(partial.lines().count(), 1 + sound);
    assert!(partial.lines().all(|line| table.lines().any(|whole| whole == line)), "{partial}");

    let runs = [(); 2].map(|()| command(folder.path(), &["run", "b"]).stdout(Stdio::null()).spawn().unwrap());
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    assert!(
        new.exists() && !old.exists(),
        "what another run may be writing stays, what a killed run has left does not"
    );
    assert_eq!(printed(&folder, &["merge", "b"]), table);
    for (a, b) in results(&folder.path().join("a")).iter().zip(&results(&b)) {
        assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
    }
    assert!(printed(&folder, &["run", "b"]).starts_with("b: 60 points: 60 were finished, 0 ran in "));
}

/// The script of a job array does a shard for each task, wherever it starts.
#[test]
fn the_script_for_slurm_runs_a_shard_for_each_task() {
    let folder = folder(SCENARIO, &GRID.replace("seeds = 3", "seeds = [9]"));
    printed(&folder, &["plan", "grid.toml", "--output", "a b"]);
    let script = printed(&folder, &["slurm", "a b", "--shards", "3", "--time", "0:10"]);
    for line in ["#SBATCH --array=1-3", "#SBATCH --requeue", "#SBATCH --time=0:10"] {
        assert!(script.lines().any(|other| other == line), "{script}");
    }
    fs::write(folder.path().join("job.sh"), script).unwrap();
    for (task, points) in [("2", 7), ("1", 7), ("3", 6)] {
        let mut job = Command::new("sh");
        let job = job.arg(folder.path().join("job.sh")).env("SLURM_ARRAY_TASK_ID", task).current_dir("/");
        let output = job.output().unwrap();
        let done = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && done.contains(&format!(": {points} points: 0 were finished, {points} ran")),
            "{done}"
        );
    }
    assert_eq!(printed(&folder, &["merge", "a b"]).lines().count(), 21);
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_str().unwrap();
    let script = printed(&folder, &["slurm", "a b", "--shards", "3", "--tree", tree]);
    assert!(script.contains(&format!("hil' --tree '{tree}' sweep run '")), "{script}");
    let error = refused(&folder, &["slurm", "c", "--shards", "3"]);
    assert!(error.contains("c/plan.json: cannot be read: make it with hil sweep plan"), "{error}");
}

/// No file can grow, as on a full disk: the error names the file, results that are there stay, and a later run makes the others.
#[test]
fn a_result_that_cannot_be_written_ends_the_run_and_a_later_one_completes() {
    let folder = folder(SCENARIO, &GRID.replace("seeds = 3", "seeds = 1"));
    printed(&folder, &["plan", "grid.toml", "--output", "a"]);
    printed(&folder, &["run", "a", "--shard", "1/2"]);
    let before: Vec<Vec<u8>> = results(&folder.path().join("a")).iter().map(|path| fs::read(path).unwrap()).collect();
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" sweep run a", env!("CARGO_BIN_EXE_hil")]);
    let output = limited.current_dir(&folder).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: a/results/0000") && error.contains("File too large"), "{error}");
    assert_eq!(output.status.code(), Some(1));
    let after: Vec<Vec<u8>> = results(&folder.path().join("a")).iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
    assert!(printed(&folder, &["run", "a"]).starts_with("a: 20 points: 10 were finished, 10 ran"));
    assert_eq!(printed(&folder, &["merge", "a"]).lines().count(), 21);
}

/// Where all acknowledgements are lost, a point stalls: it fails, and the others do not.
#[test]
fn a_point_that_fails_is_named_and_ends_no_other() {
    let scenario = format!("{SCENARIO}\n[[faults]]\nkind = \"loss\"\npackets = \"cnp\"\n");
    let grid = "scenario = \"star.toml\"\nvalues = [\"flows.completed\"]\n[grid]\nduration = [\"1s\"]\nfaults.0.packets = [\"cnp\", \"ack\"]\n\
                stages.0.kmin = [\"5kB\", \"6kB\"]\n";
    let folder = folder(&scenario, grid);
    printed(&folder, &["plan", "grid.toml", "--output", "a"]);
    // Those that failed run again.
    for ran in [4, 2] {
        let error = refused(&folder, &["run", "a"]);
        assert_eq!(error, format!("error: 2 of {ran} points failed: see hil sweep status a\n"));
    }
    let status = printed(&folder, &["status", "a"]);
    let failed = "point 2 (duration = 1s, faults.0.packets = ack, stages.0.kmin = 5kB, seed = 1): it stalled: ";
    assert!(status.starts_with("4 points: 2 finished, 2 failed, 0 missing\n") && status.contains(failed), "{status}");
    let refusal = refused(&folder, &["merge", "a", "--output", "table.csv"]);
    assert!(refusal.starts_with("error: points are missing: none; and have failed: 2-3: "), "{refusal}");
    assert!(!folder.path().join("table.csv").exists());
    printed(&folder, &["merge", "a", "--output", "table.csv", "--partial"]);
    let table = fs::read_to_string(folder.path().join("table.csv")).unwrap();
    assert_eq!(table.lines().collect::<Vec<_>>()[1..], ["0,1s,cnp,5kB,1,4", "1,1s,cnp,6kB,1,4"]);
}

/// What is wrong in a grid, or in its scenario at some point, is shown at its place before anything runs.
#[test]
fn a_plan_shows_what_is_wrong_at_its_place() {
    let cases = [
        (
            "kmin = \"100kB\"",
            "kmim = \"100kB\"",
            "point 3 (",
            "unknown parameter kmim: did you mean kmin?",
            "grid.toml:12:10",
            "kmim",
        ),
        ("\"400kB\", \"600kB\"", "\"4kX\", \"600kB\"", "point 24 (", "expected a size", "grid.toml:6:39", "\"4kX\""),
        (
            "stages.0.kmax = \"400kB\"",
            "stages.1.kmax = 1",
            "point 3 (",
            "`stages` has no element 1",
            "grid.toml:13:10",
            "kmax",
        ),
        (
            "slowdown.p99",
            "slowdown.p98",
            "",
            "expected one of mean, p50, p95, p99, p999",
            "grid.toml:3:30",
            "\"slowdown.p98\"",
        ),
        (
            "\"feedback.nic_cnps\"",
            "\"cpu_seconds\"",
            "",
            "differs from run to run",
            "grid.toml:3:46",
            "\"cpu_seconds\"",
        ),
        ("seeds = 3", "seeds = [1, 1]", "", "a list of different seeds", "grid.toml:2:9", "[1, 1]"),
        ("star.toml", "ring.toml", "", "ring.toml: cannot be read", "grid.toml:1:12", "\"ring.toml\""),
        ("algorithm.rpg", "seed = 4\nalgorithm.rpg", "", "expected the seeds in `seeds`", "grid.toml:15:1", "seed"),
        ("[grid]\n", "[grid]\nstages.0.kmin = [1]\n", "", "is varied in [grid] too", "grid.toml:10:10", "kmin"),
        ("[grid]", "[gird]", "", "unknown key `gird`: did you mean grid?", "grid.toml:5:2", "gird"),
        (
            "[[points]]\n",
            "[[points]]\ntopology.kind = \"ring\"\n",
            "point 0 (",
            "no `switches`",
            "star.toml:3:1",
            "[topology]",
        ),
        ("[grid]", "[grid]\nduration = \"1s\"", "", "expected a list of values", "grid.toml:6:12", "\"1s\""),
    ];
    for (from, to, point, message, place, marked) in cases {
        let folder = folder(SCENARIO, &GRID.replacen(from, to, 1));
        let error = refused(&folder, &["plan", "grid.toml", "--output", "a"]);
        let mark = "^".repeat(marked.len());
        assert!(
            error.contains(message) && error.contains(place) && error.starts_with(&format!("error: {point}")),
            "{to}: {error}"
        );
        assert!(error.contains(&format!("{mark}\n")) && !error.contains(&format!("^{mark}")), "{to}: {error}");
        assert!(!folder.path().join("a/plan.json").exists());
    }
}

/// The grids of the repository: the worked example, and that of the jobs `.ci/sweep` and `.ci/slurm`.
#[test]
fn the_grids_of_the_repository_can_be_planned() {
    let folder = tempfile::tempdir().unwrap();
    for (grid, points) in [("examples/dcqcn-websearch.toml", 384), ("tests/thousand.toml", 1_000)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sweep").join(grid);
        let planned = printed(&folder, &["plan", path.to_str().unwrap(), "--output", &points.to_string()]);
        assert_eq!(planned, format!("{points}: {points} points, planned\n"));
    }
}

/// Other content is another sweep: the folder keeps its own.
#[test]
fn a_changed_scenario_is_refused_in_the_folder_of_a_plan() {
    let folder = folder(SCENARIO, GRID);
    printed(&folder, &["plan", "grid.toml", "--output", "a"]);
    let plan = || fs::read(folder.path().join("a/plan.json")).unwrap();
    let before = plan();
    assert_eq!(
        printed(&folder, &["plan", "grid.toml", "--output", "a"]),
        "a: 60 points, planned before, as they are\n"
    );
    fs::write(folder.path().join("star.toml"), SCENARIO.replace("1us", "2us")).unwrap();
    let error = refused(&folder, &["run", "a"]);
    assert!(
        error.contains("grid.toml: it, its scenario or a file that this names has changed since the plan"),
        "{error}"
    );
    let error = refused(&folder, &["plan", "grid.toml", "--output", "a"]);
    assert!(error.starts_with("error: a/plan.json: is the plan of another sweep"), "{error}");
    assert_eq!((plan(), results(&folder.path().join("a")).len()), (before, 0));
}

/// The front of two values is drawn, and its points are printed. Longer flows have longer queues here.
#[test]
fn the_pareto_front_is_drawn_and_printed() {
    let folder = folder(SCENARIO, GRID);
    printed(&folder, &["plan", "grid.toml", "--output", "a"]);
    printed(&folder, &["run", "a"]);
    let output = sweep(&folder, &["merge", "a", "--svg", "front.svg", "--output", "table.csv"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with("Pareto front, ") && text.contains(" of 20 settings: queue.max_bytes, slowdown.p99\n  1  "),
        "{text}"
    );
    let svg = fs::read_to_string(folder.path().join("front.svg")).unwrap();
    assert_eq!(svg.matches("<circle").count(), 20);
    assert_eq!(svg.matches("fill=\"#0072b2\"").count(), text.lines().count() - 1);
    let error = refused(&folder, &["merge", "a", "--svg", "b.svg", "--axes", "queue.max_bytes,flows.all"]);
    assert!(
        error.contains("`flows.all`: is not kept: expected two of queue.max_bytes, slowdown.p99, feedback.nic_cnps"),
        "{error}"
    );
}

/// A table or a plot replaces nothing that the sweep is made of, nor each other.
#[test]
fn an_output_never_replaces_a_file_of_the_sweep() {
    let folder = folder(SCENARIO, &GRID.replace("seeds = 3", "seeds = [9]"));
    printed(&folder, &["plan", "grid.toml", "--output", "a"]);
    printed(&folder, &["run", "a"]);
    for file in ["a/plan.json", "a/results/000003", "grid.toml", "star.toml"] {
        let before = fs::read(folder.path().join(file)).unwrap();
        for option in ["--output", "--svg"] {
            let error = refused(&folder, &["merge", "a", option, file]);
            assert!(error.contains(file), "{error}");
        }
        assert_eq!(fs::read(folder.path().join(file)).unwrap(), before, "{file}");
    }
    let error = refused(&folder, &["merge", "a", "--output", "one", "--svg", "one"]);
    assert!(error.contains("expected two files"), "{error}");
}
