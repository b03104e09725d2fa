//! A capture played to the NICs that it shows: natively, and on a core with the firmware.

pub mod cnps;
pub mod device;
pub mod distribution;
mod fast;
pub mod flows;
pub mod native;
pub mod player;
pub mod report;
pub mod series;
pub mod settings;

pub use distribution::{Distribution, Summary};
pub use report::Report;

use crate::capture::Reader;
use anyhow::{Result, bail};
use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use device::Device;
use native::Native;
use nic::{FullNic, PEER_SETS, PEER_WAYS, QPS};
use player::{Choice, Outcome, Player};
use report::{Algorithm, Size, Sizes};
use settings::{Chosen, Request, expected};
use std::io::Read;
use std::net::IpAddr;

/// NICs that are replayed natively at most.
const MAX_NATIVE: usize = 1_024;
/// NICs that are replayed on cores at most.
const MAX_CORES: usize = 16;

/// What is to be replayed, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The algorithm, by name.
    pub algorithm: String,
    /// Its settings.
    pub request: Request,
    /// The addresses to be replayed; all if empty.
    pub only: Vec<IpAddr>,
}

/// The algorithms that can be replayed: those with a reaction point and a notification point.
pub const ALGORITHMS: [&str; 1] = [<cc_rp::dcqcn::Dcqcn as ReactionPoint>::NAME];

/// Replays a capture. `progress` is told the position in the file from time to time.
///
/// # Errors
/// Unknown names, settings out of range, a capture that cannot be read on, too many NICs for cores.
pub fn replay<R: Read>(options: &Options, capture: &mut Reader<R>, progress: impl FnMut(u64)) -> Result<Report> {
    match options.algorithm.as_str() {
        "dcqcn" => run::<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn, R>(options, capture, progress),
        unknown => bail!("unknown algorithm {unknown}: {}", expected(unknown, ALGORITHMS.into_iter())),
    }
}

fn run<A, N, R>(options: &Options, capture: &mut Reader<R>, progress: impl FnMut(u64)) -> Result<Report>
where
    A: ReactionPoint,
    N: NotificationPoint,
    R: Read,
{
    let chosen = Chosen::of::<A, N>(&options.request)?;
    let choice = Choice { only: options.only.clone(), limit: MAX_NATIVE, strict: false };
    let make = |_| Native::<A, N>::new(chosen.port, &chosen.rp, &chosen.np);
    let mut player = Player::new(choice, chosen.port.line_rate, make);
    play(&mut player, capture, progress)?;
    let (outcome, _) = player.into_outcome();
    Ok(report::<A, N>(options, &chosen, &outcome, None, None))
}

/// Frames between two calls of the progress function.
const PROGRESS: u64 = 1 << 14;

fn play<D, F, R>(player: &mut Player<D, F>, capture: &mut Reader<R>, mut progress: impl FnMut(u64)) -> Result<()>
where
    D: Device,
    F: FnMut(IpAddr) -> Result<D>,
    R: Read,
{
    while let Some(record) = capture.next()? {
        let number = record.number;
        player.frame(&record)?;
        if number % PROGRESS == 0 {
            progress(capture.position());
        }
    }
    player.finish()
}

fn report<A: ReactionPoint, N: NotificationPoint>(
    options: &Options,
    chosen: &Chosen<A::Settings, N::Settings>,
    outcome: &Outcome,
    image: Option<Size>,
    core: Option<report::Core>,
) -> Report {
    let algorithm = Algorithm {
        name: A::NAME,
        preset: chosen.rp_preset,
        np_preset: chosen.np_preset,
        rp: settings::table(&chosen.rp),
        np: settings::table(&chosen.np),
    };
    let Request { line_rate, mtu, base_rtt, .. } = options.request;
    let port = report::Port { line_rate_gbps: line_rate, mtu_bytes: mtu, base_rtt_us: base_rtt };
    let native = Size {
        state_bytes: size_of::<A>() as u32,
        qp_bytes: FullNic::<A, N>::QP_BYTES as u32,
        qps: QPS as u32,
        peer_bytes: size_of::<N>() as u32 + 8,
        peers: (PEER_SETS * PEER_WAYS) as u32,
    };
    Report::new(outcome, algorithm, port, Sizes { native, image }, core)
}
