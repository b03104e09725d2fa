//! The NIC program on the cores that QEMU emulates takes the library's decisions, to the bit, on random traffic. Without QEMU
//! the tests are skipped, with a message.

use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{NicSize, algorithm, registry};
use hil_capture::{Reader, Source};
use hil_cores::board::Pace;
use hil_cores::firmware;
use hil_cores::qemu::Machine;
use hil_devices::boot;
use hil_devices::emulated::Emulated;
use hil_devices::native::Native;
use hil_measure::cycles;
use hil_measure::random_traffic::RandomTraffic;
use hil_replay::replayer::{NicFilter, Replayer};
use hil_replay::{Images, OnCore, Options, Report, replay, report};
use std::path::Path;
use tests::sample;

/// The machine of this name, or `None` if its emulator is not installed.
fn machine(name: &str) -> Option<Machine> {
    let machine = Machine::named(name).unwrap().unwrap();
    match machine.installed() {
        Ok(()) => Some(machine),
        Err(missing) => {
            eprintln!("skipped: {missing}");
            None
        }
    }
}

fn options(machine: Machine, algorithm: &str, firmware: Option<Images>) -> Options {
    let core = OnCore { name: machine.name.into(), pace: Pace::Lockstep, firmware, interrupts: false };
    Options { algorithm: algorithm.into(), core: Some(core), ..Options::default() }
}

fn assert_identical(report: &Report, what: &str) {
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{what}: {:?}", core.difference);
    assert!(core.events > report.frames.total, "{what}: {} events", core.events);
    assert_eq!(report.sizes.image.map(|image| image.qps), Some(report.sizes.native.qps), "{what}");
}

/// Replays random traffic with the signals that an algorithm uses.
struct OnRandomTraffic(Machine);

impl registry::Visitor for OnRandomTraffic {
    type Output = ();

    fn visit<A: ReactionPoint, N: NotificationPoint>(self) {
        let random = RandomTraffic { seed: 1, frames: 1_500, signals: A::SIGNALS }.capture();
        let report = replay(&options(self.0, A::NAME, None), &mut Source::memory(&random[..], "random"), |_| {});
        let report = report.unwrap();
        assert_identical(&report, A::NAME);
        let met = report.coverage.rp.rows - report.coverage.rp.missing.len();
        assert!(2 * met > report.coverage.rp.rows, "{}: {met} rows met", A::NAME);
    }
}

fn sample_and_random_traffic(name: &str) {
    let Some(machine) = machine(name) else { return };
    let report = replay(&options(machine, "dcqcn", None), &mut Source::open(&sample()).unwrap(), |_| {}).unwrap();
    assert_identical(&report, "sample");
    assert!(report.cnps.sent > 50);
    for algorithm in cycles::algorithms().unwrap() {
        registry::with(algorithm, OnRandomTraffic(machine)).unwrap();
    }
}

#[test]
fn on_v6m_all_algorithms_decide_as_the_library() {
    sample_and_random_traffic("qemu:microbit");
}

#[test]
fn on_v7m_all_algorithms_decide_as_the_library() {
    sample_and_random_traffic("qemu:mps2-an385");
}

#[test]
fn on_v7em_all_algorithms_decide_as_the_library() {
    sample_and_random_traffic("qemu:mps2-an386");
}

#[test]
fn on_rv64_all_algorithms_decide_as_the_library() {
    sample_and_random_traffic("qemu:riscv64-virt");
}

/// The library runs with one preset and the image with another, so that their decisions differ from the first CNP on.
#[test]
fn the_report_shows_the_first_difference() {
    let Some(machine) = machine("qemu:mps2-an385") else { return };
    let image = firmware::build_semihosted("dcqcn", machine.target).unwrap();
    let chosen = |preset: &str| {
        ResolvedSettings::by(
            &*algorithm("dcqcn").unwrap(),
            &Request { preset: Some(preset.into()), ..Request::default() },
        )
    };
    let (ours, theirs) = (chosen("paper").unwrap(), chosen("vendor").unwrap());
    let boot = boot(&theirs);
    let make = |_| Emulated::new(Native::new(&*algorithm("dcqcn")?, &ours, NicSize::Full)?, &machine, &image, &boot);
    let nic_filter = NicFilter { only: vec!["10.0.0.1".parse().unwrap()], limit: 16, strict: true };
    let mut replayer = Replayer::new(nic_filter, ours.link.line_rate, make);
    let mut capture = Reader::open(&sample()).unwrap();
    while let Some(record) = capture.next().unwrap() {
        replayer.frame(&record).unwrap();
    }
    replayer.finish().unwrap();
    let (outcome, nics) = replayer.into_outcome();
    assert!(nics.iter().any(|nic| !nic.is_identical()));
    let difference = report::difference(&outcome).unwrap();
    assert_eq!((difference.kind, difference.slot), ("cnp", Some(0)), "{difference:?}");
    assert!(
        difference.native.starts_with("paces slot 0 at rate ") && difference.core.starts_with("paces slot 0 at rate ")
    );
}

#[test]
fn an_image_for_another_algorithm_or_core_is_refused() {
    let refused = |machine: Machine, algorithm: &str, image: &Path| {
        let options = options(machine, algorithm, Some(Images { image: image.into(), outlined_on: None }));
        format!("{:#}", replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap_err())
    };
    let (Some(arm), Some(riscv)) = (machine("qemu:mps2-an385"), machine("qemu:riscv64-virt")) else { return };
    let image = firmware::build_semihosted("pfc", arm.target).unwrap();
    let error = refused(arm, "dcqcn", &image);
    assert!(error.ends_with("qemu:mps2-an385: the image refuses the settings, code 2"), "{error}");
    let error = refused(riscv, "pfc", &image);
    assert!(error.ends_with("pfc: an image for Arm, qemu:riscv64-virt is Riscv64"), "{error}");
}
