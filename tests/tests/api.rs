//! The public items of the library equal the golden files, see [`tests::api`].

use std::collections::BTreeSet;
use std::fs;
use tests::api::{self, CRATES, Error};

#[test]
fn public_items_equal_the_golden_files() {
    let mut differences = Vec::new();
    for (name, features) in CRATES {
        let items = match api::text(name, features) {
            Ok(text) => text,
            Err(Error::Format) => {
                eprintln!("skipped: the public items are compared with the pinned toolchain only");
                return;
            }
            Err(Error::Failed(error)) => panic!("{name}: {error}"),
        };
        let golden = fs::read_to_string(api::path(name)).unwrap_or_default();
        let (here, kept): (BTreeSet<&str>, BTreeSet<&str>) = (items.lines().collect(), golden.lines().collect());
        differences.extend(kept.difference(&here).map(|item| format!("{name} lost    {item}")));
        differences.extend(here.difference(&kept).map(|item| format!("{name} gained  {item}")));
    }
    let advice = "if the change is intended, run cargo run -p tests --example api, and commit what it writes";
    assert!(differences.is_empty(), "{}\n{advice}", differences.join("\n"));
}
