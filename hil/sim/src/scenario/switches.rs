//! The buffers of a scenario's switches, and the stages of their ports.

use super::table::{BUFFER_SIZE, RATE, SIZE, TIME, Table, Value, count_or_size, rate, size, text, time, truth};
use super::{array, misplaced};
use crate::fabric::{Buffer, Headroom, Kind, Limits, Threshold, Topology};
use crate::input::speeds;
use crate::marking::Stages;
use anyhow::Result;
use cc_core::params::{Field, Settings};
use cc_core::table::Heap;
use cc_core::{Instant, Link, Nanos};
use cc_cp::Queue;
use cc_cp::int::IntSettings;
use cc_cp::list::StageList;
use hil_algorithms::settings::{ResolvedSettings, SettingsTable, typed};
use hil_algorithms::stage;

/// The longest time of a PFC frame that [`Nanos`] holds, 4.3 s; a port's longest is shorter.
const MOST_NANOS: u64 = u32::MAX as u64;

/// The packet buffer of each switch.
pub(super) fn buffer(table: &Table<'_>) -> Result<Buffer> {
    let Buffer { pool, headroom_apart, lossless, pause, limits, links } = Buffer::default();
    let bytes = |key| table.get(key, BUFFER_SIZE, count_or_size);
    let threshold = |alpha: &'static str, fixed: &'static str, default| {
        let dynamic = table.get(alpha, "a number above 0 and at most 64", |value| {
            let number = typed(value).parse().ok();
            number.filter(|alpha: &f64| *alpha > 0.0 && *alpha <= 64.0)
        })?;
        match (dynamic, bytes(fixed)?) {
            (None, None) => Ok(default),
            (Some(alpha), None) => Ok(Threshold::Dynamic(alpha)),
            (None, Some(bytes)) => Ok(Threshold::Static(bytes)),
            (Some(_), Some(_)) => Err(table.error(&format!("expected either `{alpha}` or `{fixed}`"))),
        }
    };
    let has_pfc = table.get("pfc", "true or false", truth)?.unwrap_or(true);
    let headroom = bytes("headroom")?.map_or(limits.headroom, Headroom::Bytes);
    let buffer = Buffer {
        pool: table.get("pool", SIZE, size)?.unwrap_or(pool),
        headroom_apart: table.get("headroom_apart", "true or false", truth)?.unwrap_or(headroom_apart),
        lossless: if has_pfc { lossless } else { 0 },
        pause: table.get("pause", TIME, time)?.map_or(pause, |time| Nanos::new((time / 1_000).min(MOST_NANOS) as u32)),
        limits: Limits {
            reserve: bytes("reserve")?.unwrap_or(limits.reserve),
            headroom,
            threshold: threshold("alpha", "threshold", limits.threshold)?,
            resume_offset: bytes("resume_offset")?.unwrap_or(limits.resume_offset),
            resume_below: limits.resume_below,
            lossy_threshold: threshold("lossy_alpha", "lossy_threshold", limits.lossy_threshold)?,
        },
        links,
    };
    table.finish()?;
    Ok(buffer)
}

/// A stage of switch ports, of those to links of one speed or of all.
#[derive(Debug)]
struct PortStage {
    name: &'static str,
    bits_per_second: Option<u64>,
    settings: SettingsTable,
}

/// The stages of the switch ports, by the speed of their links.
pub(super) fn stages(table: &Table<'_>, topology: &Topology, link: impl Fn(u64) -> Link) -> Result<Vec<(u64, Stages)>> {
    let source = table.source;
    let mut all: Vec<PortStage> = Vec::new();
    let value = table.find("stages");
    for value in value.map(|value| array(source, value)).transpose()?.unwrap_or_default() {
        let table = Table::of(source, value)?;
        let name =
            table.need("name", "the name of a switch stage: see hil list", |value| text(value).map(str::to_owned))?;
        let preset = table.get("preset", "the name of a preset", |value| text(value).map(str::to_owned))?;
        let bits_per_second = table.get("link_rate", RATE, rate)?;
        let at = table.find(if preset.is_some() { "preset" } else { "name" }).map_or(0..0, Value::span);
        let found = stage(&name, preset.as_deref());
        let (name, mut settings) = found.map_err(|error| misplaced(source, &at, &at, &error))?;
        for (key, at, value) in table.others() {
            let set = settings.set(key, &typed(value.get_ref()));
            set.map_err(|error| misplaced(source, &at, &value.span(), &error))?;
        }
        if all.iter().any(|other| other.name == name && other.bits_per_second == bits_per_second) {
            return Err(table.error(&format!("stage {name} is given twice for the same links: expected one")));
        }
        all.push(PortStage { name, bits_per_second, settings });
    }
    let names = all.iter().fold(Vec::new(), |mut names, stage| {
        if !names.contains(&stage.name) {
            names.push(stage.name);
        }
        names
    });
    let speeds = speeds(topology, Kind::Switch).into_iter().map(|speed| {
        let own = names.iter().map(|&name| {
            let of_speed = |wanted| all.iter().find(|stage| stage.name == name && stage.bits_per_second == wanted);
            let stage = of_speed(Some(speed)).or(of_speed(None)).ok_or_else(|| {
                let at = value.map_or(0..0, Value::span);
                let message = format!("stage {name} has no settings for links of {} Gb/s", speed as f64 / 1e9);
                source.error(&at, &format!("{message}: expected one with this link_rate, or with none"))
            })?;
            Ok((stage.name, stage.settings.words().to_vec()))
        });
        Ok((speed, own.collect::<Result<Stages>>()?))
    });
    let by_speed: Vec<(u64, Stages)> = speeds.collect::<Result<_>>()?;
    for (speed, stages) in &by_speed {
        let at = value.map_or(0..0, Value::span);
        check_stages(stages, &link(*speed))
            .map_err(|error| source.error(&at, &format!("stages at {} Gb/s: {error}", *speed as f64 / 1e9)))?;
    }
    Ok(by_speed)
}

/// Checks that a port can have these stages.
fn check_stages(stages: &Stages, link: &Link) -> Result<()> {
    let mut switch = cc_cp::Switch::<StageList, Heap>::new(Instant::from_nanos(0));
    switch.make_room(Queue::CLASSES);
    for (name, settings) in stages {
        switch.stages_mut().add(name, settings)?;
    }
    Ok(switch.configure(Instant::from_nanos(0), Queue { port: 0, class: 0 }, link, &(), 0)?)
}

/// Checks that senders multiply the units of compact telemetry by what the stage with these settings divides them by.
pub(super) fn check_multiplier(table: &Table<'_>, settings: &ResolvedSettings, stage: &[u32]) -> Result<()> {
    let multiplier = |fields: &[Field], words: &[u32]| {
        let place = fields.iter().position(|field| field.name == "int_multi")?;
        words.get(place).copied()
    };
    let of_sender = multiplier(settings.rp.fields(), settings.rp.words());
    let of_stage = multiplier(IntSettings::FIELDS, stage);
    match (of_sender, of_stage) {
        (Some(sender), Some(stage)) if sender != stage => {
            Err(table.error(&format!("int_multi is {sender} here and {stage} of stage int: expected the same")))
        }
        _ => Ok(()),
    }
}
