//! Writes the golden files of the library's public items, see [`tests::api`].

use std::fs;
use std::process::ExitCode;
use tests::api::{self, CRATES, Error};

fn main() -> ExitCode {
    for (name, features) in CRATES {
        let path = api::path(name);
        let text = match api::text(name, features) {
            Ok(text) => text,
            Err(Error::Format) => {
                eprintln!(
                    "{name}: this compiler writes another format of JSON: use the toolchain of rust-toolchain.toml"
                );
                return ExitCode::FAILURE;
            }
            Err(Error::Failed(error)) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        };
        if let Err(error) = fs::write(&path, text) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
