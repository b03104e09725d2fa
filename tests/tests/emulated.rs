//! The NIC program on the cores that QEMU has, and the library: equal to the bit, whatever arrives. Without QEMU there is
//! nothing to show, and the tests say so.

use cc_np::NotificationPoint;
use cc_rp::ReactionPoint;
use hil::board::Pace;
use hil::capture::Reader;
use hil::qemu::Machine;
use hil::replay::{Images, OnCore, Options, Report, replay};
use hil::storm::Storm;
use hil::{firmware, pairs};
use tests::sample;

/// The machine of a name, if its emulator is there.
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

/// A storm of the signals that an algorithm takes.
struct Storming(Machine);

impl pairs::Visitor for Storming {
    type Output = ();

    fn visit<A: ReactionPoint, N: NotificationPoint>(self) {
        let storm = Storm { seed: 1, frames: 1_500, signals: A::SIGNALS }.capture();
        let report = replay(&options(self.0, A::NAME, None), &mut Reader::new(&storm[..], "storm").unwrap(), |_| {});
        let report = report.unwrap();
        assert_identical(&report, A::NAME);
        let met = report.coverage.rp.rows - report.coverage.rp.missing.len();
        assert!(2 * met > report.coverage.rp.rows, "{}: {met} rows met", A::NAME);
    }
}

fn sample_and_storms(name: &str) {
    let Some(machine) = machine(name) else { return };
    let report = replay(&options(machine, "dcqcn", None), &mut Reader::open(&sample()).unwrap(), |_| {}).unwrap();
    assert_identical(&report, "sample");
    assert!(report.cnps.sent > 50);
    for algorithm in firmware::algorithms() {
        pairs::with(algorithm, Storming(machine)).unwrap();
    }
}

#[test]
fn on_v6m_all_algorithms_decide_as_the_library() {
    sample_and_storms("qemu:microbit");
}

#[test]
fn on_v7m_all_algorithms_decide_as_the_library() {
    sample_and_storms("qemu:mps2-an385");
}

#[test]
fn on_v7em_all_algorithms_decide_as_the_library() {
    sample_and_storms("qemu:mps2-an386");
}

#[test]
fn on_rv64_all_algorithms_decide_as_the_library() {
    sample_and_storms("qemu:riscv64-virt");
}

#[test]
fn an_image_of_another_algorithm_is_found_out() {
    let Some(machine) = machine("qemu:mps2-an385") else { return };
    let image = firmware::build_semihosted("pfc", machine.target).unwrap();
    let options = options(machine, "dcqcn", Some(Images { image, calling: None }));
    let report = replay(&options, &mut Reader::open(&sample()).unwrap(), |_| {}).unwrap();
    let core = report.core.unwrap();
    assert!(!core.identical);
    let difference = core.difference.unwrap();
    assert_eq!((difference.kind, difference.slot), ("cnp", Some(0)), "{difference:?}");
}

#[test]
fn an_image_for_another_core_is_refused() {
    let Some(machine) = machine("qemu:riscv64-virt") else { return };
    let image = firmware::build_semihosted("pfc", "thumbv7m-none-eabi").unwrap();
    let options = options(machine, "pfc", Some(Images { image, calling: None }));
    let error = replay(&options, &mut Reader::open(&sample()).unwrap(), |_| {}).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("qemu:riscv64-virt: the image ended with code 1: qemu-system-riscv64: "), "{error}");
}
