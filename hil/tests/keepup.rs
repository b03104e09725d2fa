//! The tables of `hil keepup`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What the command prints without arguments.
fn printed() -> &'static str {
    static PRINTED: OnceLock<String> = OnceLock::new();
    PRINTED.get_or_init(|| {
        let output = Command::new(env!("CARGO_BIN_EXE_hil")).arg("keepup").current_dir(tree()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    })
}

/// The three tables, each from its head on.
fn tables() -> Vec<String> {
    let blocks = printed().split("\n\n").filter(|block| block.starts_with('|'));
    let tables: Vec<String> = blocks.map(|block| block.trim_end().to_owned()).collect();
    assert_eq!(tables.len(), 3, "{}", printed());
    tables
}

/// The cells of the rows of a table.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect());
    rows.collect()
}

/// The number at the beginning of a cell, or behind `after`.
fn number(cell: &str, after: &str) -> f64 {
    let text = cell.split_once(after).map_or(cell, |(_, behind)| behind);
    text.split([' ', ')']).next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{cell}"))
}

#[test]
fn the_tables_of_the_readme_are_those_of_the_command() {
    let readme = fs::read_to_string(tree().join("README.md")).unwrap();
    for table in tables() {
        assert!(readme.contains(&table), "README.md has another table than hil keepup, which prints\n{table}");
    }
}

/// A core takes the same cycles at any clock, so that four times the clock keeps up with four times the events. Events that come one for
/// each packet take their cycles one after the other: by the rates of each kind alone, the reaction point keeps up with a flow whose
/// packets bring all of them in the sum of the times.
#[test]
fn rates_are_in_proportion_to_the_clock_and_add_up() {
    let tables = tables();
    let rows = rows(&tables[0]);
    assert_eq!(rows.len(), 6);
    for pair in rows.chunks(2) {
        assert_eq!((pair[0][1], pair[1][1]), ("`ibex@250MHz`", "`ibex@1000MHz`"));
        for column in [2, 3, 5, 7].into_iter().filter(|&column| pair[0][column] != "-") {
            let [slow, fast] = [0, 1].map(|at| number(pair[at][column], "\0"));
            assert!((3.9..4.4).contains(&(fast / slow)), "{pair:?}");
        }
    }
    for row in rows {
        let micros: f64 = [2, 3].into_iter().filter(|&at| row[at] != "-").map(|at| 1.0 / number(row[at], "\0")).sum();
        // 1,058 bytes on the line and 24 around them; HPCC has 42 bytes of telemetry.
        let bytes = if row[0] == "hpcc" { 1_124.0 } else { 1_082.0 };
        let ratio = number(row[7], "\0") / (8.0 * bytes / micros / 1e3);
        assert!((0.9..1.1).contains(&ratio), "{row:?}: {ratio}");
    }
}

/// No queue is longer than its bound of 16. Cores that have time to spare lose next to nothing, where the traffic comes evenly, and with
/// twice the packets that they have time for they lose some. HPCC's notification point acknowledges, and a slow one holds the flows
/// back in place of losing events: with twice the packets that it has time for they take twice as long.
#[test]
fn a_core_without_time_to_spare_loses_events_or_slows_flows_down() {
    let tables = tables();
    let rows = rows(&tables[2]);
    assert_eq!(rows.len(), 12);
    for row in &rows {
        assert!(number(row[8], "\0") <= 16.0, "{row:?}");
        let [spare, twice] = [3, 7].map(|at| number(row[at], "\0"));
        match (row[0], row[1]) {
            ("hpcc", "notification point") => {
                let ratio = number(row[7], "%, ") / number(row[7], "(");
                assert!(spare == 0.0 && twice == 0.0 && (1.8..2.3).contains(&ratio), "{row:?}: {ratio}");
            }
            (_, "notification point") | ("hpcc", _) => assert!(spare < 3.0 && twice > 12.0, "{row:?}"),
            _ => assert!(twice > 2.0 * spare || twice > 80.0, "{row:?}"),
        }
    }
}
