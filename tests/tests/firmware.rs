//! The firmware image on the core model takes the library's decisions, to the bit, on the sample and on random traffic.

use cc_core::wire::{Addresses, Aeth, Bth, Extensions, Frame, Mac, Nak, Pfc, Shims, Syndrome, Tags, opcode, pfc};
use cc_core::{Bytes, Ecn, Instant, Nanos, Qpn, Rate};
use cc_np::NotificationPoint;
use cc_rp::{RateLimiter, ReactionPoint, Signals};
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_algorithms::{NicSize, algorithm};
use hil_capture::crc::HostCrc;
use hil_capture::{Reader, Source, Writer};
use hil_cores::board::{Action, DEVICES, Pace, RAM, board, board_with};
use hil_cores::core::{Core, Ibex, Timing};
use hil_cores::firmware;
use hil_cores::probe::Span;
use hil_devices::boot;
use hil_devices::lockstep::Lockstep;
use hil_devices::native::Native;
use hil_measure::random_traffic::RandomTraffic;
use hil_replay::replayer::{NicFilter, Replayer};
use hil_replay::{OnCore, Options, Report, replay};
use programs::descriptor::{Descriptor, DescriptorKind};
use programs::layout::TX_FRAME_BYTES;
use programs::{Full, Hardware, LogKind, NicProgram, RxCounters, TransmitRing};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tests::sample;

fn on_ibex(preset: &str, pace: Pace) -> Options {
    Options {
        algorithm: "dcqcn".into(),
        request: Request { preset: Some(preset.into()), ..Request::default() },
        core: Some(OnCore { name: "ibex".into(), pace, firmware: None, interrupts: false }),
        ..Options::default()
    }
}

fn play(options: &Options, capture: &[u8]) -> Report {
    replay(options, &mut Source::memory(capture, "random"), |_| {}).unwrap()
}

#[test]
fn image_and_library_take_equal_decisions_and_send_the_captured_cnps() {
    let run = || {
        let mut capture = Source::open(&sample()).unwrap();
        replay(&on_ibex("paper", Pace::Lockstep), &mut capture, |_| {}).unwrap()
    };
    let report = run();
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{:?}", core.difference);
    assert!(core.events > report.frames.total);
    assert_eq!(report.icrc.valid, report.frames.total);
    let comparison = &report.cnps.comparison;
    assert!(report.cnps.sent > 50);
    assert_eq!((comparison.captured, comparison.equal), (report.cnps.sent, report.cnps.sent));
    assert_eq!(report.rp["rp_cnp_handled"], report.cnps.sent);
    assert_eq!(serde_json::to_string(&report).unwrap(), serde_json::to_string(&run()).unwrap());
}

#[test]
fn a_timer_interrupt_at_any_moment_acts_as_a_wake_before_or_after_the_event() {
    let mut options = on_ibex("paper", Pace::Lockstep);
    options.only = vec!["10.0.0.1".parse().unwrap(), "10.0.0.9".parse().unwrap()];
    options.core.as_mut().unwrap().interrupts = true;
    let report = replay(&options, &mut Source::open(&sample()).unwrap(), |_| {}).unwrap();
    let interrupts = report.core.unwrap().interrupts.unwrap();
    assert_eq!((interrupts.inconsistent, &interrupts.first_inconsistent), (0, &None));
    assert!(interrupts.moments > 10_000, "{} moments", interrupts.moments);
    for kind in ["data", "sent", "cnp", "ack", "open", "bind"] {
        assert!(interrupts.longest_wait.contains_key(kind), "no {kind} was interrupted");
    }
}

#[test]
fn random_traffic_has_events_of_every_kind() {
    let random = RandomTraffic { seed: 1, frames: 3_000, signals: Signals::CNP }.capture();
    let report = play(&on_ibex("paper", Pace::Lockstep), &random);
    for kind in ["sent", "data", "cnp", "ack", "wake", "pause"] {
        assert!(report.core.as_ref().unwrap().cycles.contains_key(kind), "no {kind}");
    }
    // DCQCN uses neither ACKs nor NACKs, and its image has one function for both; the image of HPCC has two.
    let hpcc = Options { algorithm: "hpcc".into(), ..on_ibex("draft", Pace::Lockstep) };
    let random = RandomTraffic { seed: 1, frames: 1_000, signals: Signals::INT }.capture();
    for kind in ["ack", "nack"] {
        assert!(play(&hpcc, &random).core.as_ref().unwrap().cycles.contains_key(kind), "no {kind} with telemetry");
    }
    assert!(report.frames.truncated > 100 && report.icrc.invalid > 10, "{:?}", report.icrc);
}

#[test]
fn in_real_time_the_library_repeats_what_the_image_logged() {
    let report = play(
        &on_ibex("vendor", Pace::Real { hz: 1_000_000_000 }),
        &RandomTraffic { seed: 7, frames: 1_500, signals: Signals::CNP }.capture(),
    );
    let core = report.core.as_ref().unwrap();
    assert!(core.identical, "{:?}", core.difference);
    assert!(core.events > 1_000, "{} events", core.events);
}

/// The image must give the same results whatever RAM contains before it starts: here zeros in one run, and 0xa5 in every byte
/// in the other. The library needs no such test, since safe Rust on the host cannot read uninitialized memory.
#[test]
fn memory_that_is_not_zero_at_the_start_changes_nothing_c17() {
    let image = firmware::image(None, "dcqcn").unwrap();
    let chosen = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let run = |fill: u8| {
        let make = |_| {
            let mut core = Ibex::new(&RAM, DEVICES, Timing::IBEX_SMALL, image.entry);
            core.poke(RAM[0].base, &vec![fill; RAM[0].size as usize]);
            let board = board_with(core, &image, &boot(&chosen), Pace::Lockstep)?;
            Ok(Lockstep::new(Native::new(&*algorithm("dcqcn")?, &chosen, NicSize::Full)?, board, None))
        };
        let nic_filter = NicFilter { only: Vec::new(), limit: 16, strict: true };
        let mut replayer = Replayer::new(nic_filter, chosen.link.line_rate, make);
        let mut capture = Reader::open(&sample()).unwrap();
        while let Some(record) = capture.next().unwrap() {
            replayer.frame(&record).unwrap();
        }
        replayer.finish().unwrap();
        let (outcome, nics) = replayer.into_outcome();
        assert!(nics.iter().all(Lockstep::is_identical), "{:?}", outcome.difference);
        let cycles: Vec<_> =
            nics.iter().map(|nic| nic.cycles().map(|(&key, all)| (key, all.clone())).collect()).collect();
        (cycles, outcome.rtt.count(), outcome.duration)
    };
    type Cycles = Vec<BTreeMap<(&'static str, Span), Vec<u32>>>;
    let (zeros, patterned): ((Cycles, _, _), _) = (run(0), run(0xa5));
    assert!(zeros == patterned, "cycles or decisions differ");
}

/// The syndrome of a positive acknowledgement.
const ACKED: Syndrome = Syndrome::Ack { credits: Syndrome::NO_CREDITS };

/// A kind of frame: its counter, how many of it arrive, and the function that makes the frame of each number.
type Arrival = (&'static str, u32, fn(u32) -> Vec<u8>);

/// The traffic of the counters' test.
const ARRIVALS: [Arrival; 10] = [
    ("rx_cnp", 2, |_| frame(opcode::CNP, ACKED)),
    ("rx_ack", 9, |_| frame(opcode::ACKNOWLEDGE, ACKED)),
    ("rx_nack", 4, |_| frame(opcode::ACKNOWLEDGE, Syndrome::Nak(Nak::PsnSequence))),
    ("rx_data", 40, |_| frame(opcode::SEND_ONLY, ACKED)),
    ("rx_pause", 6, |_| {
        let mut frame = vec![0; pfc::FRAME_LEN];
        Pfc::new(8, [100; 8]).emit(Mac::new([2; 6]), &mut frame).unwrap();
        frame
    }),
    // The UDP header is cut off, the IP header is longer than its packet, or the BTH is incomplete.
    ("rx_malformed", 3, |nth| match nth {
        0 => frame(opcode::SEND_ONLY, ACKED)[..40].to_vec(),
        1 => changed(opcode::SEND_ONLY, 16, 0xff),
        _ => changed(opcode::SEND_ONLY, 39, 14),
    }),
    ("rx_icrc_invalid", 5, |nth| changed(if nth < 3 { opcode::SEND_ONLY } else { opcode::CNP }, 60, 0x55)),
    // ARP, and UDP to another port.
    ("rx_not_roce", 7, |nth| match nth % 2 {
        0 => [&[2; 12][..], &[0x08, 0x06], &[0; 46]].concat(),
        _ => changed(opcode::SEND_ONLY, 36, 0x35),
    }),
    ("rx_nak_other", 1, |_| frame(opcode::ACKNOWLEDGE, Syndrome::Nak(Nak::InvalidRequest))),
    ("rx_unknown_opcode", 8, |_| frame(0xc0, ACKED)),
];

/// A frame with this opcode over IPv4.
fn frame(opcode: u8, syndrome: Syndrome) -> Vec<u8> {
    let addresses = Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };
    let frame = Frame {
        destination: Mac::new([2, 0, 0, 0, 0, 2]),
        source: Mac::new([2, 0, 0, 0, 0, 1]),
        tags: Tags::NONE,
        addresses,
        dscp: 26,
        ecn: Ecn::Ect0,
        hop_limit: 64,
        udp_source: 49_152,
        shims: Shims::NONE,
        bth: Bth { opcode, partition: 0xffff, dest_qp: Qpn::new(0x11), ..Bth::default() },
        extensions: Extensions { aeth: Aeth { syndrome, msn: 1 }, ..Extensions::default() },
        payload: &[0; 64][..if opcode == opcode::SEND_ONLY { 64 } else { 0 }],
    };
    let mut buffer = vec![0; 256];
    let length = frame.emit::<HostCrc>(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

/// A frame with one byte changed.
fn changed(opcode: u8, at: usize, byte: u8) -> Vec<u8> {
    let mut frame = frame(opcode, ACKED);
    assert_ne!(frame[at], byte);
    frame[at] = byte;
    frame
}

/// The device below the program on the host: it ignores decisions and frames.
struct Ignored([u8; TX_FRAME_BYTES]);

impl RateLimiter for Ignored {
    fn set(&mut self, _: u16, _: Rate, _: Bytes, _: Nanos) {}
}

impl TransmitRing for Ignored {
    fn transmit_buffer(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn transmit(&mut self, _: usize) {}
}

impl Hardware for Ignored {
    type Crc = HostCrc;

    fn log(&mut self, _: LogKind, _: Instant, _: u32) {}
}

/// The image checks each ICRC itself. Its counters are read from its RAM: 17 words, one for each kind of log record.
#[test]
fn the_counters_in_the_image_are_those_of_the_library_and_add_up_to_the_arrivals() {
    type Program = NicProgram<cc_rp::dcqcn::Dcqcn, cc_np::dcqcn::Dcqcn, Full>;
    let chosen = ResolvedSettings::by(&*algorithm("dcqcn").unwrap(), &Request::default()).unwrap();
    let mut board = board(&firmware::image(None, "dcqcn").unwrap(), &boot(&chosen), Pace::Lockstep).unwrap();
    let start = Instant::from_nanos(0);
    let (rp, np) = (cc_rp::dcqcn::Dcqcn::PRESETS[0].values, cc_np::dcqcn::Dcqcn::PRESETS[0].values);
    let mut native = Box::new(Program::new(start, chosen.link, &rp, &np).unwrap());
    let (mut now, mut kinds) = (1_000, [0_u32; LogKind::COUNT]);
    let mut writer = Writer::new(Vec::new(), &["wire"]).unwrap();
    // One of each kind after the other, as long as there are any.
    for nth in 0..40 {
        for (_, _, make) in ARRIVALS.iter().filter(|&&(_, count, _)| nth < count) {
            let frame = make(nth);
            now += 1_000;
            let wire_bytes = frame.len() as u32;
            let descriptor = Descriptor { wire_bytes, ..Descriptor::at(DescriptorKind::Frame, now) };
            let descriptor = Descriptor { captured: frame.len() as u16, ..descriptor };
            for (_, action) in board.deliver(&descriptor, &frame).unwrap() {
                if let Action::Log(record) = action {
                    kinds[record.kind as usize] += 1;
                }
            }
            native.handle(Instant::from_nanos(now), &descriptor, &frame, &mut Ignored([0; TX_FRAME_BYTES]));
            writer.write(0, now, &frame, wire_bytes).unwrap();
        }
    }
    let expected: BTreeMap<&str, u64> = ARRIVALS.iter().map(|&(name, count, _)| (name, count.into())).collect();
    let counters = native.rx_counters().named();
    let nonzero: BTreeMap<&str, u64> = counters.into_iter().filter(|&(_, count)| count > 0).collect();
    assert_eq!(nonzero, expected);
    assert_eq!(counters.iter().map(|(_, count)| count).sum::<u64>(), expected.values().sum::<u64>());

    // Where the words of the log are in RAM, so are the counters: in one place only.
    let memory = board.memory();
    let words: Vec<u32> = memory.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let found: Vec<_> = words.array_windows().filter(|&window| *window == kinds).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(RxCounters::of_kinds(found[0]), native.rx_counters());

    // A replay passes on frames that are whole and right, and counts the others under the same reasons.
    let capture = writer.into_sink().unwrap();
    let Report { frames, icrc, .. } = play(&Options::default(), &capture);
    assert_eq!((frames.unparsed, icrc.invalid, frames.other), (3, 5, 7));
}
