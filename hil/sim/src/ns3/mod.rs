//! The files of the ns-3 simulator of HPCC's authors (alibaba-edu/High-Precision-Congestion-Control) and of its forks:
//! configuration, topology, flows, and the records of completed flows, PFC frames and queues.

mod config;
mod fct;
pub(crate) mod flow;
pub(crate) mod topology;
pub(crate) mod units;

pub use config::read;
pub use fct::{write_fct, write_pfc, write_qlen};
