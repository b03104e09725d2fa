//! Switches of the fabric with other stages than those of `synth`: packets are dropped, neighbours are paused, and messages
//! cross a long link.

use anyhow::Result;
use cc_core::wire::{self, Parsed};
use cc_core::{Hop, Nanos};
use cc_cp::lscc::direct_int::{self, DirectInt, DirectIntSettings};
use cc_cp::lscc::rate_calculation::{self, RateCalculation, RateCalculationSettings};
use cc_cp::mmu::MmuSettings;
use cc_cp::red::Red;
use cc_cp::{QueueStage, int::IntPush};
use hil_algorithms::algorithm;
use hil_algorithms::settings::words;
use hil_sim::incast::{Incast, Summary};
use hil_sim::marking::Stages;

fn run(name: &str, scenario: &Incast, switches: &[Stages], tap: &mut dyn FnMut(&[u8])) -> Result<Summary> {
    let algorithm = algorithm(name)?;
    let [(_, rp), (_, np)] = algorithm.presets(None)?;
    scenario.run(&*algorithm, [&rp, &np], switches, &mut |_, frame| {
        tap(frame);
        Ok(())
    })
}

fn mmu(settings: MmuSettings) -> Stages {
    vec![("mmu", words(&settings))]
}

/// Eight senders at line rate, without congestion control. The switch pauses each when it holds 300 KB of its data. Until the
/// pause takes effect, more arrives: what the cable carries in 2 us (1 us each way) at 12.5 bytes a nanosecond, and one packet
/// or PFC frame that is being sent at either end. The receiver's cable is always busy.
#[test]
fn a_buffer_pauses_the_senders_at_its_threshold_and_loses_nothing() {
    let scenario = Incast { duration: Nanos::new(600_000), ..Incast::SAMPLE };
    let free = run("pfc", &scenario, &[Vec::new()], &mut |_| {}).unwrap();
    let paused = run("pfc", &scenario, &[mmu(MmuSettings::LSCC)], &mut |_| {}).unwrap();
    let most = 8 * (300_000 + 25_000 + 3 * 1_100);
    assert!(free.longest_queue > 2 * most, "{free:?}");
    assert!((8 * 300_000..most).contains(&paused.longest_queue), "{paused:?}");
    assert_eq!((paused.data, paused.dropped), (free.data, 0));
}

/// The same with a headroom of 300 bytes for each sender, where 28 KB arrive after the pause.
#[test]
fn a_buffer_without_headroom_drops_what_comes_after_its_pause() {
    let scenario = Incast { duration: Nanos::new(600_000), ..Incast::SAMPLE };
    let tight = MmuSettings { headroom: 300, ..MmuSettings::LSCC };
    let summary = run("pfc", &scenario, &[mmu(tight)], &mut |_| {}).unwrap();
    assert!(summary.dropped > 8, "{summary:?}");
}

/// LSCC: every 10 us the switch of the receiver's datacentre sends a rate over the long link, from its minimum of 500 Mb/s on,
/// a 200th of the port's speed. The pseudo queue of the senders' switch adopts it, and its direct INT has it as a hop's speed.
/// The rate rises by at most 1 Gb/s in a period: to 30 Gb/s in 300 us.
#[test]
fn a_rate_goes_over_the_long_link_to_the_pseudo_queue() {
    let calculation = RateCalculationSettings { period: 10_000, delay: 10_000, ..rate_calculation::PRESETS[0].values };
    let returns = DirectIntSettings { period: 10_000, ..direct_int::PRESETS[0].values };
    let int = (IntPush::NAME, words(&IntPush::PRESETS[0].values));
    let near = vec![(<DirectInt as QueueStage>::NAME, words(&returns))];
    let far = vec![(<RateCalculation as QueueStage>::NAME, words(&calculation))];
    let rates = |far: Stages| {
        let mut rates = Vec::new();
        let scenario = Incast { duration: Nanos::new(300_000), ..Incast::SAMPLE };
        run("hpcc_star", &scenario, &[vec![int.clone()], near.clone(), far], &mut |frame| {
            if let Ok(Parsed::Roce(roce)) = wire::parse(frame, frame.len())
                && let Some(int) = roce.switch_int()
            {
                rates.extend(int.stack().iter().filter(|hop| hop.flags & Hop::VIRTUAL != 0).map(|hop| hop.mbps));
            }
        })
        .unwrap();
        rates
    };
    let alone = rates(Vec::new());
    assert!(alone.len() > 100 && alone.iter().all(|&mbps| mbps == 100_000), "{alone:?}");
    let advised = rates(far);
    assert_eq!(advised.first(), Some(&100_000), "no message has come yet");
    let least = advised.iter().min();
    assert!(least.is_some_and(|least| (500..=2_000).contains(least)), "{least:?}");
    assert!(advised.last().is_some_and(|last| (10_000..=31_000).contains(last)), "{:?}", advised.last());
}

/// Sixteen records for forty flows.
#[test]
fn a_table_too_small_evicts_and_counts_it() {
    let scenario = Incast { senders: 40, duration: Nanos::new(200_000), records: Some(16), ..Incast::SAMPLE };
    let red = (Red::NAME, words(&Red::PRESETS[0].values));
    let summary = run("dcqcn", &scenario, &[vec![red]], &mut |_| {}).unwrap();
    assert!(summary.evicted > 24, "{summary:?}");
}

/// More ports than the 64 of a real switch.
#[test]
fn two_hundred_senders_complete_their_handshakes_and_send() {
    let scenario = Incast { senders: 200, duration: Nanos::new(1_000_000), ..Incast::SAMPLE };
    let mut senders = std::collections::BTreeSet::new();
    run("pfc", &scenario, &[Vec::new()], &mut |frame| {
        if let Ok(Parsed::Roce(roce)) = wire::parse(frame, frame.len())
            && roce.info.class().carries_data()
            && roce.bth.dest_qp.get() != 1
        {
            senders.insert(roce.bth.dest_qp.get());
        }
    })
    .unwrap();
    assert_eq!(senders.len(), 200);
}
