//! Sweeps: many simulations of one scenario with other values, over all cores and over machines.
//!
//! A grid, a TOML file, says what is varied. [`Plan::make`] checks all points and writes the plan into a folder. [`run`] runs a
//! shard of it, on any machine that has the folder; it may be killed at any time and run again, also twice at once. [`Results`] is how
//! far the sweep is, and its table: the same bytes in whatever order and on how many machines it ran.
#![forbid(unsafe_code)]

mod grid;
mod plan;
mod run;
pub mod slurm;
mod table;
mod values;

pub use plan::Plan;
pub use run::{Done, Shard, run};
pub use table::Results;
