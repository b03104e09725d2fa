//! A switch's congestion points: any settings, any packets.

use crate::operations;
use arbitrary::{Arbitrary, Unstructured};
use cc_core::params::{ParamError, Settings};
use cc_core::{Bytes, Ecn, Instant, Link, Mark, Nanos, Rate};
use cc_cp::red::{Red, RedSettings};
use cc_cp::{CongestionPoint, CpCounters, CpEngine, NoSuchQueue, Packet, Verdict};

const PORTS: usize = 2;
const PRIORITIES: usize = 2;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Presets make sense, plain numbers need not.
    Preset {
        queue: u8,
        preset: u8,
        gbps: u16,
    },
    Configure {
        queue: u8,
        values: [u32; 4],
        gbps: u16,
    },
    Dequeue {
        queue: u8,
        bytes: u32,
        queued: u32,
        ecn: u8,
    },
    /// A length right at a threshold.
    AtThreshold {
        queue: u8,
        above: bool,
        upper: bool,
        ecn: u8,
    },
}

/// What a queue is expected to do.
#[derive(Clone, Copy)]
struct Queue {
    kmin: u64,
    kmax: u64,
    counters: CpCounters,
}

/// Configures the queues of a switch and takes packets from them, twice with one seed.
///
/// # Panics
/// - Settings are accepted that contradict each other, or refused though they don't.
/// - A mark outside RED's rule: below Kmin, or on a packet that can't carry one, or missing above Kmax.
/// - Counters miss or double something; the same seed gives other marks.
pub fn cp(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let Ok(seed) = source.arbitrary::<u64>() else { return };
    let mut switches: [CpEngine<Red, PORTS, PRIORITIES>; 2] = [CpEngine::new(seed), CpEngine::new(seed)];
    let mut model: [Option<Queue>; PORTS * PRIORITIES] = [None; PORTS * PRIORITIES];
    for (step, operation) in operations(&mut source).enumerate() {
        let now = Instant::from_nanos(step as u64 * 100);
        let (queue, packet) = match operation {
            Operation::Preset { queue, preset, gbps } => {
                let preset = Red::PRESETS[usize::from(preset) % Red::PRESETS.len()].values;
                configure(&mut switches, &mut model, now, queue, &preset, gbps);
                continue;
            }
            Operation::Configure { queue, values, gbps } => {
                let [kmin, kmax, pmax, reference_rate] = values;
                let settings = RedSettings { kmin, kmax, pmax, reference_rate };
                configure(&mut switches, &mut model, now, queue, &settings, gbps);
                continue;
            }
            Operation::Dequeue { queue, bytes, queued, ecn } => (queue, packet(bytes, Bytes::new(queued), ecn)),
            Operation::AtThreshold { queue, above, upper, ecn } => {
                let Some(Some(Queue { kmin, kmax, .. })) = model.get(usize::from(queue)) else { continue };
                let queued = (if upper { kmax } else { kmin }).saturating_add(u64::from(above));
                let queued = Bytes::new(u32::try_from(queued).unwrap_or(u32::MAX));
                (queue, packet(64, queued, ecn))
            }
        };
        let (port, priority) = (usize::from(queue) / PRIORITIES, usize::from(queue) % PRIORITIES);
        let [verdict, again] = switches.each_mut().map(|switch| switch.dequeue(now, port, priority, &packet));
        assert_eq!(verdict, again, "one seed, two verdicts");
        match model.get_mut(usize::from(queue)) {
            Some(Some(queue)) => {
                queue.judge(&packet, verdict);
                assert_eq!(switches[0].counters(port, priority), Some(&queue.counters));
            }
            _ => {
                assert_eq!(verdict, Verdict::PASS);
                assert_eq!(switches[0].counters(port, priority), None);
            }
        }
    }
}

fn packet(bytes: u32, queued: Bytes, ecn: u8) -> Packet {
    Packet { bytes: Bytes::new(bytes), queued, port_queued: queued, ecn: Ecn::from_bits(ecn) }
}

fn configure(
    switches: &mut [CpEngine<Red, PORTS, PRIORITIES>; 2],
    model: &mut [Option<Queue>],
    now: Instant,
    queue: u8,
    settings: &RedSettings,
    gbps: u16,
) {
    let line_rate = Rate::from_gbps(u32::from(gbps) % 1_600 + 1);
    let link = Link { line_rate, mtu: Bytes::new(1_500), base_rtt: Nanos::new(10_000) };
    let (port, priority) = (usize::from(queue) / PRIORITIES, usize::from(queue) % PRIORITIES);
    let outcome = Red::check(settings, &link).map(|params| {
        let [outcome, _] = switches.each_mut().map(|switch| switch.configure(now, port, priority, &link, params));
        outcome
    });

    let in_range = RedSettings::FIELDS
        .iter()
        .enumerate()
        .all(|(index, field)| (field.min..=field.max).contains(&settings.get(index)));
    let scale = |threshold: u32| match u128::from(Rate::from_mbps(settings.reference_rate).to_bits()) {
        0 => u128::from(threshold),
        reference => u128::from(threshold) * u128::from(line_rate.to_bits()) / reference,
    };
    let [kmin, kmax] = [settings.kmin, settings.kmax].map(|threshold| u32::try_from(scale(threshold)).ok());
    match (outcome, model.get_mut(usize::from(queue))) {
        (Ok(Ok(())), Some(slot)) => {
            let (Some(kmin), Some(kmax)) = (kmin, kmax) else { panic!("{settings:?} at {gbps}: accepted") };
            assert!(in_range && settings.kmin <= settings.kmax, "{settings:?}: accepted");
            let counters = slot.map(|queue| queue.counters).unwrap_or_default();
            *slot = Some(Queue { kmin: kmin.into(), kmax: kmax.into(), counters });
        }
        (Ok(Err(NoSuchQueue { .. })), None) => {}
        (Err(error), _) => match error {
            ParamError::OutOfRange(field) => assert!(!in_range, "{}: {settings:?}", field.name),
            ParamError::Conflict { field: "kmin", .. } => assert!(settings.kmin > settings.kmax),
            error => assert!(kmin.is_none() || kmax.is_none(), "{settings:?} at {gbps}: {error}"),
        },
        (outcome, _) => panic!("queue {queue}: {outcome:?}"),
    }
}

impl Queue {
    fn judge(&mut self, packet: &Packet, verdict: Verdict) {
        let queued = u64::from(packet.queued.get());
        let marked = verdict.mark == Mark::Congested;
        let markable = matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1);
        assert!(marked || verdict.mark == Mark::None);
        assert!(!marked || markable && queued > self.kmin, "{packet:?}: marked");
        assert!(marked || !markable || queued <= self.kmax, "{packet:?}: not marked");
        assert_eq!(verdict.not_ect, packet.ecn == Ecn::NotEct && queued > self.kmax);
        assert_eq!(verdict.apply(packet.ecn), if marked { Ecn::Ce } else { packet.ecn });
        self.counters.packets += 1;
        self.counters.ecn_marked += u64::from(marked);
        self.counters.not_ect_above_kmax += u64::from(verdict.not_ect);
    }
}
