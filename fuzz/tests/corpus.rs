//! Runs every fuzz target on its committed corpus, on random bytes, and on changed seeds of the corpus.

use std::fs;
use std::path::{Path, PathBuf};

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// A seed with up to seven bytes changed; one in four is shortened first.
    fn mutated(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        if self.below(4) == 0 {
            bytes.truncate(self.below(bytes.len() + 1));
        }
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = if self.below(2) == 0 { self.next() as u8 } else { *byte ^ 1 << self.below(8) };
            }
        }
        bytes
    }
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a folder entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a seed"))).collect()
}

#[test]
fn the_committed_corpora_break_no_invariant() {
    for (target, body) in fuzz::TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for (path, bytes) in seeds {
            println!("{}", path.display());
            body(&bytes);
        }
    }
}

#[test]
fn random_bytes_break_no_invariant() {
    for (target, body) in fuzz::TARGETS {
        for seed in 0..1_000 {
            println!("{target}, seed {seed}");
            let mut random = Random(seed);
            let count = random.below(600);
            body(&random.bytes(count));
        }
    }
}

#[test]
fn mutated_seeds_break_no_invariant() {
    for (target, body) in fuzz::TARGETS {
        let seeds = seeds(target);
        for seed in 0..2_000 {
            let mut random = Random(seed);
            let (path, bytes) = &seeds[random.below(seeds.len())];
            println!("{}, seed {seed}", path.display());
            body(&random.mutated(bytes));
        }
    }
}
