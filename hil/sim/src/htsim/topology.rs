//! `.topo`: a fat-tree of two or three tiers: how many hosts, tiers and hosts of a pod, and for each tier its links downwards, and
//! how many links its switches have.

use crate::Picos;
use crate::fabric::Topology;
use crate::source::{Source, Word};
use crate::topologies::{LinkSpec, Pods};
use anyhow::Result;

/// A tier: what its switches have.
#[derive(Clone, Copy, Debug)]
struct Tier {
    gbps: u64,
    latency: u64,
    down: u32,
    up: u32,
    /// How many times more capacity its switches have below than above.
    oversubscribed: u32,
}

/// The topology of a file, of at most `most` nodes.
pub(crate) fn read(source: &Source, most: u32) -> Result<Topology> {
    let mut words = source.words_without_comments();
    let (mut nodes, mut count, mut pod_size) = (0, 0, 0);
    let mut tiers: Vec<Tier> = Vec::new();
    let positive = |text: &str| text.parse().ok().filter(|&number: &u32| (1..=1 << 20).contains(&number));
    while let Some(Word { text, at }) = words.next() {
        let key = text.to_lowercase();
        if key == "tier" {
            let number = tiers.len();
            words.read(&format!("tier {number}, of at most 3"), |text| {
                text.parse().ok().filter(|&tier: &usize| tier == number && tier < 3)
            })?;
            tiers.push(Tier { gbps: 0, latency: 0, down: 0, up: 0, oversubscribed: 1 });
            continue;
        }
        let value = words.clone().next();
        let mut number = || words.read("a number, at least 1", positive);
        match (key.as_str(), tiers.last_mut()) {
            ("nodes", None) => nodes = number()?,
            ("tiers", None) => count = number()?,
            ("podsize", None) => pod_size = number()?,
            ("downlink_speed_gbps", Some(tier)) => tier.gbps = number()?.into(),
            ("downlink_latency_ns", Some(tier)) => tier.latency = number()?.into(),
            ("radix_down", Some(tier)) => tier.down = number()?,
            ("radix_up", Some(tier)) => tier.up = number()?,
            ("oversubscribed", Some(tier)) => tier.oversubscribed = number()?,
            ("bundle" | "switch_latency_ns", Some(_)) => {
                let expected = if key == "bundle" { "1" } else { "0" };
                if words.expect(expected)?.text != expected {
                    let at = value.map_or(at, |value| value.at);
                    return Err(source.error(&at, &format!("expected {expected}: {text} is not simulated")));
                }
            }
            ("queue_up" | "queue_down", Some(_)) => {
                number()?;
            }
            _ => return Err(source.error(&at, &format!("unknown key `{text}` at this place"))),
        }
    }
    let end = |message: &str| {
        let first = source.words().next().map_or(0..0, |word| word.at);
        source.error(&first, message)
    };
    let [hosts, pod] = [u128::from(nodes), u128::from(pod_size)];
    let complete = tiers.iter().all(|tier| tier.gbps > 0 && tier.latency > 0 && tier.down > 0);
    if !(2..=3).contains(&tiers.len()) || tiers.len() != count as usize || !complete || nodes == 0 || pod_size == 0 {
        return Err(end(
            "expected Nodes, Tiers (2 or 3), Podsize, and each Tier with Downlink_speed_Gbps, Downlink_latency_ns and Radix_down",
        ));
    }
    // Links from one tier to the next, for this many links below it.
    let links = |below: u128, tier: usize| {
        let (down, up) = (tiers[tier], tiers[tier + 1]);
        exact(below * u128::from(down.gbps), u128::from(up.gbps) * u128::from(down.oversubscribed))
    };
    let shape = || {
        let pods = exact(hosts, pod)?;
        let leaves = exact(pod, tiers[0].down.into())?;
        let uplinks = links(pod, 0)?;
        let aggregations = exact(uplinks, tiers[1].down.into())?;
        let (cores, core_links) = match tiers.get(2) {
            Some(core) => {
                let cores = exact(links(pods * uplinks, 1)?, core.down.into())?;
                (cores, exact(cores, aggregations)?)
            }
            None => (0, 0),
        };
        let has_links = |tier: usize, links: u128| [0, links].contains(&tiers[tier].up.into());
        let fits = u128::from(tiers[1].down) == leaves
            && (tiers.len() == 3 || pods == 1)
            && has_links(0, aggregations)
            && has_links(1, core_links)
            && hosts + pods * (leaves + aggregations) + cores <= u128::from(most);
        fits.then_some(())?;
        let number = |count: u128| u32::try_from(count).ok();
        Some(Pods {
            pods: number(pods)?,
            leaves: number(leaves)?,
            hosts: tiers[0].down,
            aggregations: number(aggregations)?,
            cores: number(cores)?,
            core_links: number(core_links)?,
        })
    };
    let Some(pods) = shape() else {
        return Err(end(&format!(
            "Nodes, Podsize, radixes and speeds do not fit each other: expected whole numbers of pods, of switches in each tier \
             and of links, one link between a leaf and an aggregation switch, one pod in two tiers, and at most {most} nodes"
        )));
    };
    let link = |tier: usize| {
        let Tier { gbps, latency, .. } = tiers[tier.min(tiers.len() - 1)];
        LinkSpec { bits_per_second: gbps * 1_000_000_000, delay: Picos::from(latency) * 1_000 }
    };
    Ok(pods.topology([link(0), link(1), link(2)]))
}

/// The quotient, if it is a whole number above zero.
fn exact(dividend: u128, divisor: u128) -> Option<u128> {
    (divisor > 0 && dividend > 0 && dividend.is_multiple_of(divisor)).then(|| dividend / divisor)
}
