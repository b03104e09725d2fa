//! CNPs that are removed from a simulated capture, added to it or moved in it are reported as just that.
//!
//! There are 40 trials for each algorithm, or as many as the environment variable `CNP_TRIALS` says: `.ci/cnps` makes 10,000.

use cc_core::wire::{Roce, opcode};
use cc_cp::red::RedSettings;
use hil_capture::{Source, Writer};
use hil_cores::random::SplitMix;
use hil_replay::cnps::Comparison;
use hil_replay::{Options, replay};
use hil_sim::incast::Incast;
use hil_sim::named;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The time at which the simulation begins, in nanoseconds since 1970.
const START: u64 = 1_800_000_000_000_000_000;

/// Time in nanoseconds, and frame.
type Record = (u64, Vec<u8>);

/// Eight hosts that congest a port of 40 Gb/s for 0.8 ms: the frames to and from the receiver.
fn incast(algorithm: &str) -> Vec<Record> {
    let scenario = Incast { gbps: 40, ..Incast::SAMPLE };
    let red = RedSettings { kmin: 5_000, kmax: 200_000, pmax: 10_000, reference_rate: 0 };
    let mut frames = Vec::new();
    named::run(&scenario, algorithm, None, red, &mut |time, frame| {
        frames.push((START + time, frame.to_vec()));
        Ok(())
    })
    .unwrap();
    frames
}

fn comparison(algorithm: &str, frames: &[Record]) -> Comparison {
    let mut file = Writer::new(Vec::new(), &["receiver"]).unwrap();
    for (time, frame) in frames {
        file.write(0, *time, frame, frame.len() as u32).unwrap();
    }
    let options = Options { algorithm: algorithm.into(), ..Options::default() };
    let mut capture = Source::memory(file.into_sink().unwrap(), "trial");
    replay(&options, &mut capture, |_| {}).unwrap().cnps.comparison
}

/// The destination of a CNP; `None` for any other frame.
fn notified(frame: &[u8]) -> Option<(IpAddr, u32)> {
    let roce = Roce::of(frame)?;
    (roce.bth.opcode == opcode::CNP).then(|| (roce.addresses().destination(), roce.bth.dest_qp.get()))
}

/// Removes, adds and shifts CNPs at random. A shift is below half of the smallest gap between two CNPs of the flow, and an
/// added CNP is at least that half from all others of its flow.
fn disturbed(frames: &[Record], random: &mut SplitMix) -> (Vec<Record>, Comparison) {
    let mut flows: BTreeMap<(IpAddr, u32), Vec<u64>> = BTreeMap::new();
    for (time, frame) in frames {
        if let Some(flow) = notified(frame) {
            flows.entry(flow).or_default().push(*time);
        }
    }
    let (mut records, mut expected) = (Vec::new(), Comparison::default());
    for (time, frame) in frames {
        let Some(times) = notified(frame).map(|flow| &flows[&flow]) else {
            records.push((*time, frame.clone()));
            continue;
        };
        let least = times.windows(2).map(|pair| pair[1] - pair[0]).min();
        // The only CNP of a flow stays: it has no gap to compare a shift with.
        let (half, change) = least.map_or((0, 3), |least| (least.div_ceil(2), random.below(15)));
        match change {
            0 => expected.only_ours += 1,
            1 => {
                let by = 1 + random.draw() % (half - 1);
                records.push((if random.below(2) == 0 { time + by } else { time - by }, frame.clone()));
                expected.shifted += 1;
            }
            _ => {
                records.push((*time, frame.clone()));
                expected.equal += 1;
                let next = times.iter().find(|&other| other > time);
                let room = next.and_then(|next| (next - time).checked_sub(2 * half));
                if let (2, Some(room)) = (change, room) {
                    records.push((time + half + random.draw() % (room + 1), frame.clone()));
                    expected.only_captured += 1;
                }
            }
        }
    }
    expected.captured = expected.equal + expected.shifted + expected.only_captured;
    records.sort_by_key(|&(time, _)| time);
    (records, expected)
}

fn trials(algorithm: &str) {
    let count = std::env::var("CNP_TRIALS").map_or(40, |count| count.parse().expect("a number of trials"));
    let frames = incast(algorithm);
    let undisturbed = comparison(algorithm, &frames);
    let all = undisturbed.captured;
    assert!(all > 40, "{all} CNPs");
    assert_eq!(undisturbed, Comparison { captured: all, equal: all, ..Comparison::default() });
    for seed in 0..count {
        let (records, expected) = disturbed(&frames, &mut SplitMix::new(seed));
        assert_eq!(comparison(algorithm, &records), expected, "{algorithm}, seed {seed}");
    }
}

#[test]
fn changed_cnps_of_dcqcn_are_counted_as_what_they_are() {
    trials("dcqcn");
}

#[test]
fn changed_cnps_of_dcqcn_plus_are_counted_as_what_they_are() {
    trials("dcqcn_plus");
}
