//! The layers of the project. Cargo refuses crates that import each other in a circle; these tests refuse it of the top-level
//! modules of a crate too, and bound the number of the harness's dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most third-party crates in a build of `hil` without features.
const MOST_CRATES: usize = 65;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The folders of all packages of the workspace.
fn packages() -> Vec<PathBuf> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    members.split('"').skip(1).step_by(2).map(|member| root().join(member)).collect()
}

/// The Rust files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// A file's code without comments and unit tests. Unit tests come last in a file.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that a list of imports names: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn paths(import: &str, prefix: &str, found: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, letter) in import.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&import[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&import[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('{') {
            Some((before, rest)) => {
                paths(rest.trim_end_matches('}'), &format!("{prefix}{}", before.trim()), found);
            }
            None => found.push(format!("{prefix}{}", part.split(" as ").next().unwrap_or(part).trim())),
        }
    }
}

/// A module's imports: for each, whether it is re-exported, and its path.
fn imports(code: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        if !(line.is_empty() || line.starts_with("pub")) {
            continue;
        }
        let Some((import, _)) = code[at + 4..].split_once(';') else { continue };
        let mut all = Vec::new();
        paths(import, "", &mut all);
        found.extend(all.into_iter().map(|path| (!line.is_empty(), path)));
    }
    found
}

/// The imports between the top-level modules of a package.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut sources = Vec::new();
    files(source, &mut sources);
    let name = |path: &Path| -> Vec<String> {
        let path = path.strip_prefix(source).unwrap().with_extension("");
        let parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        parts.filter(|part| part != "mod").collect()
    };
    let all: BTreeSet<String> = sources.iter().map(|path| name(path)[0].clone()).collect();
    // The re-exports of the crate's root, by name, and the module of each.
    let root = fs::read_to_string(source.join("lib.rs")).map_or(String::new(), |_| code(&source.join("lib.rs")));
    let mut re_exports = BTreeMap::new();
    for (public, path) in imports(&root) {
        let path = path.trim_start_matches("crate::").trim_start_matches("self::").to_owned();
        let (first, last) = (path.split("::").next().unwrap_or_default(), path.rsplit("::").next().unwrap_or_default());
        if public && all.contains(first) {
            re_exports.insert(last.to_owned(), first.to_owned());
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &sources {
        let place = name(path);
        let own = place[0].clone();
        if ["lib", "main", "bin"].contains(&own.as_str()) || place.iter().any(|part| part == "tests") {
            continue;
        }
        // `super` of a top-level module is the crate; a module below needs one `super` more for each level.
        let up = "super::".repeat(place.len());
        for (_, import) in imports(&code(path)) {
            let inner = import.strip_prefix("crate::").or_else(|| import.strip_prefix(&up));
            let Some(first) = inner.and_then(|inner| inner.split("::").next()) else { continue };
            let module = if all.contains(first) { Some(first.to_owned()) } else { re_exports.get(first).cloned() };
            let imported = graph.entry(own.clone()).or_default();
            imported.extend(module.filter(|module| *module != own));
        }
    }
    graph
}

/// A circle of modules that import each other, or `None` if there is none.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn from<'a>(
        module: &'a str,
        graph: &'a BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(at) = way.iter().position(|other| *other == module) {
            return Some(way[at..].iter().chain([&module]).map(|&module| module.to_owned()).collect());
        }
        if !done.insert(module) {
            return None;
        }
        way.push(module);
        let found = graph.get(module).into_iter().flatten().find_map(|next| from(next, graph, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| from(module, graph, &mut Vec::new(), &mut done))
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let mut found = 0;
    for package in packages() {
        let graph = modules(&package.join("src"));
        found += graph.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(circle(&graph), None, "{}", package.display());
    }
    assert!(found > 100, "only {found} imports were read");
}

#[test]
fn circular_imports_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Gate;\n");
    write("a.rs", "use crate::{b::{self, Thing}, other};\n");
    write("b.rs", "use std::fmt;\n// use crate::a;\n    use super::Gate;\n");
    write("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n");
    assert_eq!(circle(&modules(folder.path())), None);
    write("c.rs", "pub(crate) use crate::a::Word as Gate;\n");
    let found = circle(&modules(folder.path())).unwrap();
    assert_eq!(found, ["a", "b", "c", "a"]);
}

#[test]
fn the_default_build_of_the_harness_has_few_third_party_crates() {
    let arguments = ["tree", "--package", "hil", "--edges", "normal,build", "--prefix", "none", "--offline"];
    let tree = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).unwrap();
    let names = text.lines().map(|line| line.split(" (").next().unwrap_or(line));
    // Cargo lists the project's own packages with their folder.
    let own: BTreeSet<&str> =
        text.lines().filter(|line| line.contains(" (/")).filter_map(|line| line.split(" (").next()).collect();
    let others: BTreeSet<&str> = names.filter(|name| !own.contains(name)).collect();
    assert!((20..=MOST_CRATES).contains(&others.len()), "{} third-party crates: {others:?}", others.len());
}
