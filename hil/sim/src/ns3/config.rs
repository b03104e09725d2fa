//! `config.txt`: a list of keys with values.

use super::{flow, topology, units};
use crate::fabric::{
    Action, Buffer, Effects, Fault, Headroom, Kind, Limits, LineHeaders, Link, PathChoice, QueueMonitor, Threshold,
    Topology, Transport, classes,
};
use crate::input::{Input, Tags, paths};
use crate::source::{EMPTY_HASH, Source, Word, Words};
use crate::{Picos, marking::Stages};
use anyhow::{Context, Result, bail};
use cc_core::{IntLayout, Nanos};
use hil_algorithms::algorithm;
use hil_algorithms::settings::{Request, ResolvedSettings};
use hil_sorted::SortedMap;
use std::path::{Path, PathBuf};

/// The values of the keys that are used.
#[derive(Clone, Debug)]
struct Keys {
    enable_qcn: bool,
    payload: u32,
    topology_file: Option<PathBuf>,
    flow_file: Option<PathBuf>,
    fct_file: String,
    pfc_file: String,
    stop_time: Picos,
    cc_mode: u32,
    alpha_resume_interval: f64,
    rate_decrease_interval: f64,
    clamp_target_rate: bool,
    rp_timer: f64,
    ewma_gain: f64,
    fast_recovery_times: u32,
    rate_ai: u64,
    rate_hai: u64,
    min_rate: u64,
    dctcp_rate_ai: u64,
    has_win: bool,
    var_win: bool,
    u_target: f64,
    mi_thresh: u32,
    int_multi: u32,
    /// Of links that have no error rate of their own.
    loss: u32,
    /// Microseconds after 2 s, and the nodes at the ends of the link that fails then; zero microseconds for none.
    link_down: (u64, [u32; 2]),
    buffer_size: u32,
    pause_time: Nanos,
    qlen_file: Option<String>,
    qlen: QueueMonitor,
    kmax: Vec<(u64, f64)>,
    kmin: Vec<(u64, f64)>,
    pmax: Vec<(u64, f64)>,
}

impl Keys {
    /// The values of the original driver for keys that are absent.
    fn absent() -> Self {
        Self {
            enable_qcn: true,
            payload: 1_000,
            topology_file: None,
            flow_file: None,
            fct_file: "fct.txt".to_owned(),
            pfc_file: "pfc.txt".to_owned(),
            stop_time: 3_010_000_000_000,
            cc_mode: 1,
            alpha_resume_interval: 55.0,
            rate_decrease_interval: 4.0,
            clamp_target_rate: false,
            rp_timer: 0.0,
            ewma_gain: 0.0,
            fast_recovery_times: 5,
            rate_ai: 0,
            rate_hai: 0,
            min_rate: 100_000_000,
            dctcp_rate_ai: 1_000_000_000,
            has_win: true,
            var_win: false,
            u_target: 0.95,
            mi_thresh: 5,
            int_multi: 1,
            loss: 0,
            link_down: (0, [0, 0]),
            buffer_size: 16,
            pause_time: Nanos::new(5_000),
            qlen_file: None,
            qlen: QueueMonitor {
                start: 2_000_000_000_000,
                end: 2_100_000_000_000,
                interval: 100_000,
                record_every: 100_000_000_000,
            },
            kmax: Vec::new(),
            kmin: Vec::new(),
            pmax: Vec::new(),
        }
    }
}

fn flag(words: &mut Words<'_>) -> Result<bool> {
    words.read("0 or 1", |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })
}

fn rate(words: &mut Words<'_>) -> Result<u64> {
    words.read("a rate such as 40Mb/s", units::rate)
}

fn nanoseconds(words: &mut Words<'_>) -> Result<Picos> {
    words.read("a time in nanoseconds, below 10^15", |text| {
        text.parse().ok().filter(|&nanos: &u64| nanos < 1_000_000_000_000_000).map(|nanos| nanos * 1_000)
    })
}

/// A number of pairs, and each pair: a link's rate in bits per second, and a value.
fn map(words: &mut Words<'_>) -> Result<Vec<(u64, f64)>> {
    let count: usize = words.number("how many link rates follow")?;
    (0..count).map(|_| Ok((words.number("a link rate in bits per second")?, words.number("a number")?))).collect()
}

/// Keys that change nothing here, with how many values they have and, if it is worth a warning, the values that have no effect
/// there either.
const WITHOUT_EFFECT: [(&str, usize); 15] = [
    ("TRACE_FILE", 1),
    ("TRACE_OUTPUT_FILE", 1),
    ("L2_CHUNK_SIZE", 1),
    ("L2_ACK_INTERVAL", 1),
    ("L2_BACK_TO_ZERO", 1),
    ("GLOBAL_T", 1),
    ("FAST_REACT", 1),
    ("MULTI_RATE", 1),
    ("SAMPLE_FEEDBACK", 1),
    ("PINT_LOG_BASE", 1),
    ("PINT_PROB", 1),
    ("RATE_BOUND", 1),
    ("ACK_HIGH_PRIO", 1),
    ("ENABLE_TRACE", 1),
    ("DATA_RATE", 1),
];

/// Reads a configuration and the files that it names, by paths relative to its own folder. The seed is 1 if there is none.
///
/// # Errors
/// A file that cannot be read, a value that is not what its key expects (with file, line and place), and what cannot be simulated.
pub fn read(path: &Path, seed: Option<u64>) -> Result<Input> {
    let source = Source::read(path)?;
    let (mut keys, mut warnings) = (Keys::absent(), Vec::new());
    let mut words = source.words();
    let mut mode: Option<Word<'_>> = None;
    let mut link_down: Option<Word<'_>> = None;
    while let Some(key) = words.next() {
        let w = &mut words;
        match key.text {
            "ENABLE_QCN" => keys.enable_qcn = flag(w)?,
            "PACKET_PAYLOAD_SIZE" => {
                keys.payload =
                    w.read("bytes, 1 to 4096", |text| text.parse().ok().filter(|size| (1..=4_096).contains(size)))?;
            }
            "TOPOLOGY_FILE" => keys.topology_file = Some(source.beside(w.expect("a file name")?.text)),
            "FLOW_FILE" => keys.flow_file = Some(source.beside(w.expect("a file name")?.text)),
            "SIMULATOR_STOP_TIME" => keys.stop_time = w.read("a time in seconds, below 1000000", units::time)?,
            "CC_MODE" => {
                let word = w.expect("a number")?;
                keys.cc_mode = word.text.parse().map_err(|_| source.error(&word.at, "expected 1, 3, 7 or 8"))?;
                mode = Some(word);
            }
            "ALPHA_RESUME_INTERVAL" => keys.alpha_resume_interval = w.number("microseconds")?,
            "RATE_DECREASE_INTERVAL" => keys.rate_decrease_interval = w.number("microseconds")?,
            "CLAMP_TARGET_RATE" => keys.clamp_target_rate = flag(w)?,
            "RP_TIMER" => keys.rp_timer = w.number("microseconds")?,
            "EWMA_GAIN" => keys.ewma_gain = w.number("a number")?,
            "FAST_RECOVERY_TIMES" => keys.fast_recovery_times = w.number("a number")?,
            "RATE_AI" => keys.rate_ai = rate(w)?,
            "RATE_HAI" => keys.rate_hai = rate(w)?,
            "MIN_RATE" => keys.min_rate = rate(w)?,
            "DCTCP_RATE_AI" => keys.dctcp_rate_ai = rate(w)?,
            "HAS_WIN" => keys.has_win = flag(w)?,
            "VAR_WIN" => keys.var_win = flag(w)?,
            "U_TARGET" => keys.u_target = w.number("a number")?,
            "MI_THRESH" => keys.mi_thresh = w.number("a number")?,
            "INT_MULTI" => keys.int_multi = w.number("a number")?,
            "ERROR_RATE_PER_LINK" => keys.loss = w.read("a probability from 0 to 1", units::probability)?,
            "LINK_DOWN" => {
                let after = w.read("microseconds, below 10^12", |text| text.parse().ok().filter(|&us| us < 1 << 40))?;
                keys.link_down = (after, [w.number("a node")?, w.number("a node")?]);
                link_down = Some(key);
            }
            "QLEN_MON_FILE" => keys.qlen_file = Some(w.expect("a file name")?.text.to_owned()),
            "QLEN_MON_START" => keys.qlen.start = nanoseconds(w)?,
            "QLEN_MON_END" => keys.qlen.end = nanoseconds(w)?,
            "BUFFER_SIZE" => {
                let is_size = |size: &u32| (1..=1 << 16).contains(size);
                keys.buffer_size = w.read("MB, 1 to 65536", |text| text.parse().ok().filter(is_size))?;
            }
            "PAUSE_TIME" => {
                keys.pause_time = w.read("microseconds, 0.001 to 1000000", |text| {
                    let micros = text.parse().ok().filter(|micros: &f64| (0.001..=1e6).contains(micros))?;
                    Some(Nanos::new((micros * 1e3) as u32))
                })?;
            }
            "USE_DYNAMIC_PFC_THRESHOLD" => {
                let is_dynamic = flag(w)?;
                if !is_dynamic {
                    let message = "USE_DYNAMIC_PFC_THRESHOLD 0 has no effect: that simulator's switches have dynamic thresholds only";
                    warnings.push(source.note(&key.at, message));
                }
            }
            "KMAX_MAP" => keys.kmax = map(w)?,
            "KMIN_MAP" => keys.kmin = map(w)?,
            "PMAX_MAP" => keys.pmax = map(w)?,
            "FCT_OUTPUT_FILE" => keys.fct_file = w.expect("a file name")?.text.to_owned(),
            "PFC_OUTPUT_FILE" => keys.pfc_file = w.expect("a file name")?.text.to_owned(),
            other => match WITHOUT_EFFECT.iter().find(|&&(name, _)| name == other) {
                Some(&(_, values)) => (0..values).try_for_each(|_| w.expect("a value").map(drop))?,
                None if other.starts_with(|letter: char| letter.is_ascii_alphabetic()) => {
                    warnings.push(source.note(&key.at, &format!("unknown key `{other}`: it has no effect")));
                }
                None => {}
            },
        }
    }
    let Some(topology_file) = keys.topology_file.clone() else { bail!("{}: no TOPOLOGY_FILE", path.display()) };
    let Some(flow_file) = keys.flow_file.clone() else { bail!("{}: no FLOW_FILE", path.display()) };
    let topology_source = Source::read(&topology_file)?;
    let (mut topology, is_fork) = topology::read(&topology_source)?;
    topology.links.iter_mut().filter(|link| link.loss == 0).for_each(|link| link.loss = keys.loss);
    let flow_source = Source::read(&flow_file)?;
    let flows = flow::read(&flow_source)?;
    let hosts = |node: u32| topology.nodes.get(node as usize) == Some(&Kind::Host);
    for (number, spec) in flows.iter().enumerate() {
        if !hosts(spec.source) || !hosts(spec.destination) || spec.source == spec.destination {
            bail!("{}: flow {number}: expected two different hosts", flow_file.display());
        }
    }
    let (after, ends) = keys.link_down;
    let mut faults = Vec::new();
    if after > 0 {
        let joins = |link: &Link| link.ends == ends || link.ends == [ends[1], ends[0]];
        let Some(link) = topology.links.iter().position(joins) else {
            let at = link_down.map_or(0..0, |key| key.at);
            return Err(source.error(&at, &format!("no link joins nodes {} and {}", ends[0], ends[1])));
        };
        let from = 2_000_000_000_000 + after * 1_000_000;
        let down = Fault::of(Action::Down { reroute: Some(0) });
        faults.push(Fault { links: vec![link as u32], from, ..down });
    }
    let (name, preset, data_header, ack, sets) = match keys.cc_mode {
        1 => ("dcqcn", "hpcc_sim", 48, 60, dcqcn(&keys)),
        3 => ("hpcc", "hpcc_sim", 90, 88, hpcc(&keys)),
        7 => ("timely", "paper", 56, 60, timely(&keys)),
        8 => ("dctcp", "hpcc_sim", 48, 60, dctcp(&keys)),
        _ => {
            let message = "expected CC_MODE 1 (DCQCN), 3 (HPCC), 7 (TIMELY) or 8 (DCTCP)";
            return Err(mode.map_or_else(|| anyhow::anyhow!("{message}"), |word| source.error(&word.at, message)));
        }
    };
    let effects = Effects {
        whole_nanoseconds: true,
        no_framing: true,
        line_headers: Some(LineHeaders { data: data_header, ack }),
        payload_windows: true,
        echo: keys.cc_mode == 1,
        retiming: keys.cc_mode == 3,
        delay_once_a_round_trip: keys.cc_mode == 7,
        acks_with_data: true,
        marks_behind: true,
        marks_arrivals: false,
        descending_paths: true,
        pauses_until_resumed: true,
        headroom_until_empty: is_fork,
    };
    let algorithm = algorithm(name)?;
    let request = Request { preset: Some(preset.into()), sets, ..Request::default() };
    let settings = ResolvedSettings::by(&*algorithm, &request)?;
    let (base_rtt, paths) = paths(&topology, &flows, keys.payload)?;
    let output = |file: &str, default: &str| {
        Path::new(file).file_name().map_or(default.into(), |name| name.to_string_lossy().into_owned())
    };
    Ok(Input {
        hash: [&source, &topology_source, &flow_source].iter().fold(EMPTY_HASH, |hash, source| source.hash(hash)),
        files: vec![path.to_owned(), topology_file, flow_file],
        outputs: [
            (Some(&keys.fct_file), "fct.txt"),
            (Some(&keys.pfc_file), "pfc.txt"),
            (keys.qlen_file.as_ref(), "qlen.txt"),
        ]
        .into_iter()
        .filter_map(|(file, default)| Some(output(file?, default)))
        .collect(),
        buffer: Some(Buffer { lossless: classes(&flows), ..buffer(&keys, &topology, is_fork) }),
        watchdog: None,
        queue_monitor: keys.qlen_file.is_some().then_some(keys.qlen),
        transport: Transport::default(),
        topology,
        flows,
        waits: Vec::new(),
        offers: Vec::new(),
        reads: Vec::new(),
        stops: Vec::new(),
        measure: None,
        tags: Tags::default(),
        algorithm,
        settings,
        int_layout: IntLayout::Compact,
        payload: keys.payload,
        base_rtt,
        end: keys.stop_time,
        stall: None,
        seed: seed.unwrap_or(1),
        effects,
        faults,
        cores: Vec::new(),
        warnings,
        paths,
        overhead: 48,
        buffers: SortedMap::new(),
        base_rtts: SortedMap::new(),
        path_choice: PathChoice::Hash,
        queues: Box::new(|_| Default::default()),
        stages: Box::new(move |port| keys.stages(port.bits_per_second)),
    })
}

/// The buffer of each switch: that of ns3-datacenter (`switch-mmu.cc`, with the defaults of its constructor) if the topology is in
/// its form, or else that of HPCC's ns-3 (`switch-mmu.cc` and `third.cc`), whose alpha of 1/8 doubles with each doubling of a
/// link's rate over that of the first host, up to 1. A MB is 2^20 bytes.
fn buffer(keys: &Keys, topology: &Topology, is_fork: bool) -> Buffer {
    let limits = Limits { headroom: Headroom::Delays(3), ..Limits::default() };
    let buffer =
        Buffer { pool: u64::from(keys.buffer_size) << 20, pause: keys.pause_time, limits, ..Buffer::default() };
    if is_fork {
        let limits = Limits { reserve: 0, resume_offset: 2_496, resume_below: 1_248, ..limits };
        return Buffer { headroom_apart: true, limits, ..buffer };
    }
    let first = topology.hosts().next();
    let of_first = topology.links.iter().find(|link| link.ends.iter().any(|end| first == Some(*end)));
    let nic_rate = of_first.map_or(u64::MAX, |link| link.bits_per_second);
    let faster = (0u32..).zip(&topology.links).filter(|(_, link)| link.bits_per_second > nic_rate);
    let links = faster.map(|(number, link)| {
        let doublings = (0..3).take_while(|&doublings| link.bits_per_second >> doublings > nic_rate).count();
        let threshold = Threshold::Dynamic(0.125 * f64::from(1 << doublings));
        (number, Limits { threshold, ..limits })
    });
    Buffer { links: links.collect(), ..buffer }
}

/// Settings of DCQCN, over the preset `hpcc_sim`.
fn dcqcn(keys: &Keys) -> Vec<String> {
    let retained = 1_024.0 * (1.0 - keys.ewma_gain);
    vec![
        format!("RP_TIMER={}us", keys.rp_timer),
        format!("ALPHA_RESUME_INTERVAL={}us", keys.alpha_resume_interval),
        format!("RATE_DECREASE_INTERVAL={}us", keys.rate_decrease_interval),
        format!("CLAMP_TARGET_RATE={}", u8::from(keys.clamp_target_rate)),
        format!("FAST_RECOVERY_TIMES={}", keys.fast_recovery_times),
        format!("dce_tcp_g={}", retained.round()),
        format!("RATE_AI={}b/s", keys.rate_ai),
        format!("RATE_HAI={}b/s", keys.rate_hai),
        format!("MIN_RATE={}b/s", keys.min_rate),
    ]
}

/// Settings of HPCC, over the preset `hpcc_sim`.
fn hpcc(keys: &Keys) -> Vec<String> {
    vec![
        format!("U_TARGET={}", (keys.u_target * 1e6).round()),
        format!("MI_THRESH={}", keys.mi_thresh),
        "base_rtt=0".to_owned(),
        format!("RATE_AI={}b/s", keys.rate_ai),
        format!("MIN_RATE={}b/s", keys.min_rate),
        format!("INT_MULTI={}", keys.int_multi),
    ]
}

/// Settings of TIMELY, over the preset `paper`.
fn timely(keys: &Keys) -> Vec<String> {
    vec![
        format!("RATE_AI={}b/s", keys.rate_ai),
        format!("MIN_RATE={}b/s", keys.min_rate),
        "segment=0".to_owned(),
        "hai_threshold=5".to_owned(),
        format!("hai_steps={}", (keys.rate_hai / keys.rate_ai.max(1)).clamp(1, 16)),
        "serialisation=none".to_owned(),
    ]
}

/// Settings of DCTCP, over the preset `hpcc_sim`.
fn dctcp(keys: &Keys) -> Vec<String> {
    let window = match (keys.has_win, keys.var_win) {
        (false, _) => "none",
        (true, false) => "line",
        (true, true) => "rate",
    };
    vec![
        format!("EWMA_GAIN={}", (keys.ewma_gain * 1e6).round()),
        format!("DCTCP_RATE_AI={}b/s", keys.dctcp_rate_ai),
        format!("MIN_RATE={}b/s", keys.min_rate),
        "base_rtt=0".to_owned(),
        format!("window={window}"),
    ]
}

impl Keys {
    /// The stages of a port that leads to a link of this speed.
    ///
    /// # Errors
    /// The maps of thresholds do not have the speed.
    fn stages(&self, bits_per_second: u64) -> Result<Stages> {
        let Self { kmin, kmax, pmax, .. } = self;
        let mut stages = Stages::new();
        if self.cc_mode == 3 {
            stages.push(("int", vec![1, self.int_multi]));
        }
        if self.enable_qcn {
            let find = |map: &[(u64, f64)], name: &str| {
                let found = map.iter().find(|&&(rate, _)| rate == bits_per_second).map(|&(_, value)| value);
                found.with_context(|| format!("{name} has no value for a link of {bits_per_second} bit/s"))
            };
            let (kmin, kmax, pmax) = (find(kmin, "KMIN_MAP")?, find(kmax, "KMAX_MAP")?, find(pmax, "PMAX_MAP")?);
            stages.push(("red", vec![(kmin * 1e3) as u32, (kmax * 1e3) as u32, (pmax * 1e6) as u32, 0]));
        }
        Ok(stages)
    }
}
