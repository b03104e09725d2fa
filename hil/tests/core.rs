//! The firmware on the core model in lockstep with the library: their decisions are equal, and a corrupted bit of the image's
//! state is reported as a difference.

use anyhow::Result;
use cc_core::table::Handle;
use cc_core::wire::opcode::CNP;
use cc_core::wire::{Mac, Pfc};
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{NicCounters, NicSize, algorithm};
use hil_capture::{Reader, Writer};
use hil_cores::board::{Pace, board};
use hil_cores::core::{Core, Ibex};
use hil_cores::firmware;
use hil_devices::boot;
use hil_devices::device::{Decisions, Device, Difference};
use hil_devices::event::NicEvent;
use hil_devices::lockstep::Lockstep;
use hil_devices::native::Native;
use hil_replay::replayer::{NicFilter, Replayer};
use programs::layout::{RAM_BASE, RAM_SIZE};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

fn synth(folder: &Path) -> PathBuf {
    let path = folder.join("incast.pcapng");
    let made = Command::new(env!("CARGO_BIN_EXE_hil")).arg("synth").arg(&path).args(["--duration", "150"]).output();
    assert!(made.unwrap().status.success());
    path
}

fn replay(trace: &Path, arguments: &[&str]) -> Value {
    replay_on("ibex", trace, arguments)
}

fn replay_on(core: &str, trace: &Path, arguments: &[&str]) -> Value {
    let replay = Command::new(env!("CARGO_BIN_EXE_hil"))
        .arg("replay")
        .arg(trace)
        .args(["--core", core, "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stderr));
    serde_json::from_slice(&replay.stdout).unwrap()
}

#[test]
fn the_image_decides_as_the_library_does_in_lockstep_and_in_real_time() {
    let folder = tempfile::tempdir().unwrap();
    let trace = synth(folder.path());
    for preset in ["paper", "vendor"] {
        let report = replay(&trace, &["--preset", preset]);
        let core = &report["core"];
        assert_eq!(core["difference"], Value::Null, "{preset}");
        assert_eq!(core["identical"], true);
        // Every frame, except connection management, is an event at the sender and one at the receiver.
        assert!(core["events"].as_u64().unwrap() > report["frames"]["total"].as_u64().unwrap());
        for kind in ["sent", "data", "cnp", "ack"] {
            assert!(core["cycles"][kind]["median"].as_u64().unwrap() > 0, "{kind}");
        }
        assert_eq!(core["cycles"]["nack"], Value::Null, "none occurred");
        assert_eq!(report["sizes"]["image"], report["sizes"]["native"]);
        assert!(report["rp"]["rp_cnp_handled"].as_u64().unwrap() > 8);
    }
    // One packet every 88 ns is too much for one small core at any clock. A replay may end while the image handles an event.
    for clock in ["1000000000", "391000000", "90000000", "48000000"] {
        let report = replay(&trace, &["--pace", "real", "--clock", clock]);
        assert_eq!(report["core"]["difference"], Value::Null, "{clock} Hz");
        assert_eq!(report["core"]["identical"], true, "{clock} Hz");
        assert!(report["core"]["ring_overflows"].as_u64().unwrap() > 0, "{clock} Hz");
    }
}

/// On every core the decisions are the library's. Only the cycles differ, in the order of the speed of the designs.
#[test]
fn every_core_makes_the_same_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let trace = synth(folder.path());
    let medians = ["ibex-maxperf", "ibex", "picorv32", "picorv32-min"].map(|core| {
        let report = replay_on(core, &trace, &[]);
        let found = &report["core"];
        assert_eq!((&found["name"], &found["identical"]), (&Value::from(core), &Value::from(true)), "{core}");
        found["cycles"]["cnp"]["median"].as_u64().unwrap()
    });
    assert!(medians.is_sorted() && medians[0] > 0, "{medians:?}");
    let report = replay_on("picorv32", &trace, &["--pace", "real", "--clock", "1000000000"]);
    assert_eq!(report["core"]["identical"], true);
}

/// A copy of the capture with every frame cut to `snap` bytes, and with the frames `extra` after the first `after` frames.
fn edited(trace: &Path, snap: usize, after: u64, extra: &[&[u8]]) -> PathBuf {
    let path = trace.with_file_name("edited.pcapng");
    let mut writer = Writer::create(&path, &["tap"]).unwrap();
    let mut reader = Reader::open(trace).unwrap();
    while let Some(record) = reader.next().unwrap() {
        let kept = &record.bytes[..record.bytes.len().min(snap)];
        writer.write(0, record.timestamp_ns, kept, record.original_len).unwrap();
        for frame in extra.iter().filter(|_| record.number == after) {
            writer.write(0, record.timestamp_ns, frame, frame.len() as u32).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

#[test]
fn a_snap_length_that_keeps_the_headers_changes_no_decision() {
    let folder = tempfile::tempdir().unwrap();
    let trace = synth(folder.path());
    let whole = replay(&trace, &[]);
    // 134 bytes are enough for a connection request up to its starting PSN.
    let cut = replay(&edited(&trace, 134, 0, &[]), &[]);
    assert_eq!(cut["frames"]["dropped"], whole["frames"]["dropped"]);
    assert!(cut["icrc"]["unchecked"].as_u64().unwrap() > 1_000);
    assert_eq!(cut["icrc"]["unchecked"], cut["frames"]["truncated"]);
    for key in ["np", "rp", "cnps", "flows", "rates"] {
        assert_eq!(cut[key], whole[key], "{key}");
    }
    assert_eq!(cut["core"]["identical"], true);
}

#[test]
fn a_pfc_frame_pauses_the_nic_that_sends_to_its_port() {
    let folder = tempfile::tempdir().unwrap();
    let trace = synth(folder.path());
    let mut pfc = [0; 60];
    let port = {
        let mut reader = Reader::open(&trace).unwrap();
        let mut record = reader.next().unwrap().unwrap();
        while record.bytes.len() < 1_000 {
            record = reader.next().unwrap().unwrap();
        }
        Mac::new(record.bytes[..6].try_into().unwrap())
    };
    Pfc::new(0xff, [u16::MAX; 8]).emit(port, &mut pfc).unwrap();
    let paused = edited(&trace, usize::MAX, 100, &[&pfc]);

    // Eight hosts send to that port: the frame does not say which of them sent it.
    let all = replay(&paused, &[]);
    assert_eq!((&all["frames"]["pfc"], &all["frames"]["pfc_unattributed"]), (&1.into(), &1.into()));
    assert_eq!(all["core"]["cycles"]["pause"], Value::Null);
    let one = replay(&paused, &["--nic", "10.0.0.1"]);
    assert_eq!((&one["frames"]["pfc"], &one["frames"]["pfc_unattributed"]), (&1.into(), &0.into()));
    assert!(one["core"]["cycles"]["pause"]["max"].as_u64().unwrap() > 0);
    assert_eq!(one["core"]["identical"], true);
}

#[test]
fn a_cnp_is_coalesced_with_one_for_the_same_qp_that_waits_in_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let trace = synth(folder.path());
    let (number, cnp) = {
        let mut reader = Reader::open(&trace).unwrap();
        loop {
            let record = reader.next().unwrap().unwrap();
            if record.bytes[42] == CNP {
                break (record.number, record.bytes.to_vec());
            }
        }
    };
    let to = Ipv4Addr::from_octets(cnp[30..34].try_into().unwrap()).to_string();
    let real = ["--nic", &to, "--pace", "real"];
    let single = replay(&trace, &real);
    let repeated = replay(&edited(&trace, usize::MAX, number, &[&cnp, &cnp]), &real);
    // The first CNP waits behind descriptors of packets that the NIC has sent, and the others are coalesced with it.
    assert_eq!((&single["core"]["cnps_coalesced"], &repeated["core"]["cnps_coalesced"]), (&0.into(), &2.into()));
    let handled = |report: &Value| report["rp"]["rp_cnp_handled"].as_u64().unwrap();
    assert_eq!(handled(&repeated), handled(&single) + 2);
    assert_eq!(repeated["core"]["identical"], true);
}

/// A NIC in lockstep. Before a flow's second CNP, the top bit of its alpha is flipped in the memory of the image.
struct Disturbed {
    nic: Lockstep<Ibex>,
    cnps: u32,
}

impl Disturbed {
    /// Finds the flow's state in memory, by the two words that it has after the first CNP at 100 Gb/s: a rate of 50 Gb/s and an
    /// alpha of 1. Flips the top bit of alpha.
    fn flip_alpha(&mut self) {
        let core = self.nic.board_mut().core_mut();
        let mut ram = vec![0; RAM_SIZE as usize];
        core.peek(RAM_BASE, &mut ram);
        let words: Vec<u32> = ram.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let rates: Vec<usize> = (0..words.len()).filter(|&at| words[at] == 50 << 21).collect();
        let near = |at: usize| rates.iter().any(|&rate| rate.abs_diff(at) < 8);
        let alphas: Vec<usize> = (0..words.len()).filter(|&at| words[at] == 1 << 31 && near(at)).collect();
        assert_eq!(alphas.len(), 1, "one flow of this NIC was notified once");
        core.poke(RAM_BASE + 4 * alphas[0] as u32, &0_u32.to_le_bytes());
    }
}

impl Device for Disturbed {
    fn next_wake(&self) -> u64 {
        self.nic.next_wake()
    }

    fn wake(&mut self, decisions: &mut Decisions) -> Result<()> {
        self.nic.wake(decisions)
    }

    fn deliver(&mut self, now: u64, event: &NicEvent<'_>, decisions: &mut Decisions) -> Result<Option<Handle>> {
        if event.frame().len() == 74 {
            self.cnps += 1;
            if self.cnps == 2 {
                self.flip_alpha();
            }
        }
        self.nic.deliver(now, event, decisions)
    }

    fn difference(&mut self) -> Option<Difference> {
        self.nic.difference()
    }

    fn counters(&self) -> NicCounters {
        self.nic.counters()
    }
}

#[test]
fn a_flipped_bit_of_alpha_is_a_difference_at_the_next_cnp() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let image = firmware::image(None, "dcqcn").unwrap();
    let nic_filter = NicFilter { only: vec!["10.0.0.1".parse().unwrap()], limit: 1, strict: true };
    let make = |_| {
        let native = Native::new(&*algorithm("dcqcn")?, &chosen, NicSize::Full)?;
        Ok(Disturbed { nic: Lockstep::new(native, board(&image, &boot(&chosen), Pace::Lockstep)?, None), cnps: 0 })
    };
    let mut replayer = Replayer::new(nic_filter, chosen.link.line_rate, make);
    let mut capture = Reader::open(&synth(folder.path())).unwrap();
    while let Some(record) = capture.next().unwrap() {
        replayer.frame(&record).unwrap();
    }
    replayer.finish().unwrap();
    let (outcome, nics) = replayer.into_outcome();
    assert!(nics[0].cnps >= 2);
    assert!(!nics[0].nic.is_identical());
    let (difference, _, flow) = outcome.difference.unwrap();
    assert_eq!(difference.kind, "cnp");
    let local = flow.and_then(|flow| outcome.flows.get(flow)).and_then(|flow| flow.local);
    assert_eq!(local, Some(0x100), "the queue pair of 10.0.0.1");
    assert!(difference.native.contains("paces") && difference.core != difference.native, "{difference:?}");
}
