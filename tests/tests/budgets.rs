//! Budgets in cycles for an event on Ibex small: from the engine's first instruction to the store that paces the flow (`step`),
//! and to the engine's return (`step_total`).

use cc_np::NotificationPoint;
use cc_rp::{ReactionPoint, Signals};
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_capture::Source;
use hil_cores::board::{Action, Board, Pace, board};
use hil_cores::core::Ibex;
use hil_cores::firmware;
use hil_cores::probe::Span;
use hil_devices::boot;
use hil_measure::cycles::LATE;
use hil_measure::random_traffic::{RandomTraffic, plain_cnp, sender_qpn};
use hil_replay::{OnCore, Options, Report, replay};
use programs::descriptor::{Descriptor, DescriptorKind};
use tests::sample;

fn request(preset: &str) -> Request {
    Request { preset: Some(preset.into()), ..Request::default() }
}

fn play(preset: &str, mut capture: Source) -> Report {
    let core = Some(OnCore { name: "ibex".into(), pace: Pace::Lockstep, firmware: None, interrupts: false });
    let options = Options { algorithm: "dcqcn".into(), request: request(preset), core, ..Options::default() };
    replay(&options, &mut capture, |_| {}).unwrap()
}

/// The worst `step` and `step_total` of a kind.
fn worst(report: &Report, kind: &str) -> (u64, u64) {
    let cycles = &report.core.as_ref().unwrap().cycles[kind];
    (cycles.step.as_ref().unwrap().max, cycles.step_total.as_ref().unwrap().max)
}

#[test]
fn the_sample_stays_within_its_budget() {
    for (preset, cnp, wake) in [("paper", 250, 320), ("vendor", 260, 320)] {
        let report = play(preset, Source::open(&sample()).unwrap());
        let (step, total) = worst(&report, "cnp");
        assert!(step <= cnp && total <= 450, "{preset}: a CNP takes {step} cycles, {total} in all");
        let (step, total) = worst(&report, "wake");
        assert!(step <= wake && total <= 450, "{preset}: a wake takes {step} cycles, {total} in all");
        for kind in ["sent", "cnp", "wake"] {
            let cycles = &report.core.as_ref().unwrap().cycles[kind];
            let (on, step) = (cycles.on.as_ref().unwrap(), cycles.step.as_ref().unwrap());
            // An `on` that is not inlined saves and restores up to twelve registers, 2 cycles for each save and each restore.
            // Its call and its return take 2 cycles each.
            let call = 12 * (2 + 2) + 2 + 2;
            assert!(on.min >= 40 && on.median < step.median + call, "{preset}, {kind}: on {on}, step {step}");
        }
    }
}

#[test]
fn an_event_with_an_overdue_rate_cut_stays_within_its_budget() {
    // Under the vendor's preset a rate cut may be overdue by less than one tick of the timer wheel. A wake that makes up for it
    // may first have to increase the rate by one step (61 cycles) and to let alpha decay up to five times (24 cycles each).
    for (seed, preset, cnp, wake) in [(21, "paper", 320, 320), (22, "vendor", 408, 420)] {
        let report = play(
            preset,
            Source::memory(RandomTraffic { seed, frames: 4_000, signals: Signals::CNP }.capture(), "random"),
        );
        for (kind, budget) in [("cnp", cnp), ("wake", wake)] {
            let (step, total) = worst(&report, kind);
            println!("{preset}: a {kind} takes at most {step} cycles, {total} in all");
            assert!(step <= budget, "{preset}: a {kind} takes {step} cycles");
        }
    }
}

/// A board with one flow, which has received one CNP at this time.
fn notified<R: ReactionPoint, N: NotificationPoint>(request: &Request, now: u64) -> Board<Ibex> {
    let chosen = ResolvedSettings::of::<R, N>(request).unwrap();
    let mut board = board(&firmware::image(None, R::NAME).unwrap(), &boot(&chosen), Pace::Lockstep).unwrap();
    let opened = board.deliver(&Descriptor { handle: 3, ..Descriptor::at(DescriptorKind::Open, now) }, &[]).unwrap();
    let handle = opened
        .iter()
        .rev()
        .find_map(|(_, action)| if let Action::Log(record) = action { Some(record.index) } else { None })
        .unwrap();
    let bind = Descriptor { handle, qpn: sender_qpn(0).get(), ..Descriptor::at(DescriptorKind::Bind, now) };
    board.deliver(&bind, &[]).unwrap();
    notify(&mut board, now);
    board
}

/// Delivers a CNP for the flow.
fn notify(board: &mut Board<Ibex>, now: u64) {
    let cnp = plain_cnp(0);
    let flags = Descriptor::ICRC_CHECKED;
    let arrival = Descriptor { flags, wire_bytes: cnp.len() as u32, ..Descriptor::at(DescriptorKind::Frame, now) };
    board.deliver(&arrival, &cnp).unwrap();
}

#[test]
fn a_wake_that_comes_most_of_a_second_late_takes_at_most_3000_cycles() {
    for preset in ["paper", "vendor", "cx4", "hpcc_sim", "ns3_rdma", "sigcomm15"] {
        for line_rate in [10, 100, 800] {
            let start = 1_000_000_000_000;
            let request = Request { line_rate, ..request(preset) };
            let mut board = notified::<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn>(&request, start);
            for cnp in 1..8 {
                notify(&mut board, start + cnp * 5_000);
            }
            // The timer interrupt was not served for 0.9 s.
            notify(&mut board, start + 900_000_000);
            let worst = worst_step(&board);
            assert!((500..=late("dcqcn")).contains(&worst), "{preset} at {line_rate} Gb/s: {worst} cycles");
        }
    }
}

/// The budget in cycles of a late wake of the machine.
fn late(algorithm: &str) -> u64 {
    LATE.iter().find(|(name, _)| *name == algorithm).unwrap().1
}

/// The longest `step` of a board's events so far.
fn worst_step(board: &Board<Ibex>) -> u64 {
    let steps = board.cycles().iter().filter(|((_, span), _)| *span == Span::Step);
    steps.flat_map(|(_, all)| all).copied().max().unwrap().into()
}

/// The overdue steps of DCQCN+ have different lengths and are therefore caught up one by one. Their number is largest from the
/// minimum rate and with a small hyper step. It is smallest after one CNP at 10 Gb/s with periods of 110 us, 2,384 cycles.
#[test]
fn a_wake_of_dcqcn_plus_that_comes_most_of_a_second_late_takes_at_most_12000_cycles() {
    for (preset, sets) in [("stable", &[][..]), ("paper", &[]), ("stable", &["hyper_step=1000".to_owned()])] {
        for (line_rate, cnps) in [10, 100, 800].into_iter().flat_map(|rate| [1, 8, 60].map(|cnps| (rate, cnps))) {
            let start = 1_000_000_000_000;
            let request = Request { line_rate, sets: sets.to_vec(), ..request(preset) };
            let mut board = notified::<cc_rp::dcqcn_plus::DcqcnPlus, cc_np::dcqcn_plus::DcqcnPlus>(&request, start);
            for cnp in 1..cnps {
                notify(&mut board, start + cnp * 5_000);
            }
            notify(&mut board, start + 900_000_000);
            let worst = worst_step(&board);
            assert!((2_000..=late("dcqcn_plus")).contains(&worst), "{request:?}, {cnps} CNPs: {worst} cycles");
        }
    }
}
