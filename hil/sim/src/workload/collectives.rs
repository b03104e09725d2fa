//! Collective operations, as flows that wait for each other. Each message of a host to another is a flow.

use super::{HostFlow, HostFlows};
use crate::Picos;
use crate::dependencies::{Milestone, Wait};
use hil_sorted::SortedMap;

/// The bytes of a part of so many equal ones, of which the last ones have a byte more where they cannot be equal.
fn part(bytes: u64, number: u64, parts: u64) -> u64 {
    let up_to = |number: u64| (u128::from(bytes) * u128::from(number) / u128::from(parts)) as u64;
    up_to(number + 1) - up_to(number)
}

/// An all-reduce of `bytes` at each host in a ring, in 2 (n - 1) steps (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
/// for clusters of workstations", JPDC 69, 2009). In each step a host sends one of n parts to the next: the one that it has received
/// in the step before, `compute` after it has the whole part and has sent the one before. The first steps begin at `start`.
pub fn ring_all_reduce(hosts: &[u32], bytes: u64, start: Picos, compute: Picos) -> HostFlows {
    let count = hosts.len();
    let mut all = HostFlows::default();
    for step in 0..2 * count.saturating_sub(1) {
        for host in 0..count {
            let sent = (host + 2 * count - step) % count;
            all.flows.push(HostFlow {
                source: hosts[host],
                destination: hosts[(host + 1) % count],
                bytes: part(bytes, sent as u64, count as u64),
                start: if step == 0 { start } else { compute },
            });
            if step > 0 {
                let before = |host: usize| ((step - 1) * count + host) as u32;
                let received = (before((host + count - 1) % count), Milestone::Received);
                let on = vec![received, (before(host), Milestone::Sent)];
                all.waits.push(Wait::all((step * count + host) as u32, on));
            }
        }
    }
    all
}

/// An all-reduce of `bytes` at each host in a binary tree, whose root is the first host: the parents of host n are n / 2 rounded down
/// of those counted from one. Sums go up to the root, and the result down again. The bytes pass in `chunks`, one after the other: a
/// host sends a chunk up `compute` after it has received it from all children, and down when it has received it from its parent;
/// and it sends a chunk to a host when the one before to the same host has left. The leaves begin at `start`.
pub fn tree_all_reduce(hosts: &[u32], bytes: u64, chunks: u32, start: Picos, compute: Picos) -> HostFlows {
    let count = hosts.len() as u32;
    let edges = count.saturating_sub(1);
    // Edge n leads from host n + 1 to its parent, n / 2. Of each chunk come first the flows up, edge by edge, and then those down.
    let up = |chunk: u32, edge: u32| (chunk * 2 * edges) + edge;
    let down = |chunk: u32, edge: u32| up(chunk, edge) + edges;
    let children = |host: u32| (2 * host..2 * host + 2).filter(move |&edge| edge < edges);
    let mut all = HostFlows::default();
    for chunk in 0..chunks {
        let bytes = part(bytes, chunk.into(), chunks.into());
        for (is_down, edge) in (0..2 * edges).map(|number| (number >= edges, number % edges)) {
            let (child, parent) = (edge + 1, edge / 2);
            let received = |flow| (flow, Milestone::Received);
            let (from, to, number) =
                if is_down { (parent, child, down(chunk, edge)) } else { (child, parent, up(chunk, edge)) };
            let mut on: Vec<_> = if is_down && parent > 0 {
                vec![received(down(chunk, parent - 1))]
            } else {
                children(from).map(|edge| received(up(chunk, edge))).collect()
            };
            let reduces = !on.is_empty() && (!is_down || parent == 0);
            on.extend(chunk.checked_sub(1).map(|_| (number - 2 * edges, Milestone::Sent)));
            all.flows.push(HostFlow {
                source: hosts[from as usize],
                destination: hosts[to as usize],
                bytes,
                start: match (on.is_empty(), reduces) {
                    (true, _) => start,
                    (false, true) => compute,
                    (false, false) => 0,
                },
            });
            if !on.is_empty() {
                all.waits.push(Wait::all(number, on));
            }
        }
    }
    all
}

/// An exchange of `bytes` between each two hosts, both ways, in n - 1 rounds: in round k each host sends to the k-th after it
/// (Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19, 2005, section 5).
/// A host has the messages of `at_once` rounds, at least one, under way: it begins with another when the oldest of them is
/// acknowledged and it has received the message of that round. The first rounds begin at `start`.
pub fn all_to_all(hosts: &[u32], bytes: u64, at_once: u32, start: Picos) -> HostFlows {
    let (count, at_once) = (hosts.len(), at_once.max(1) as usize);
    let mut all = HostFlows::default();
    for round in 1..count {
        for host in 0..count {
            let is_first = round <= at_once;
            all.flows.push(HostFlow {
                source: hosts[host],
                destination: hosts[(host + round) % count],
                bytes,
                start: if is_first { start } else { 0 },
            });
            if !is_first {
                let before = round - at_once;
                let flow = |host: usize| ((before - 1) * count + host) as u32;
                let on = vec![
                    (flow(host), Milestone::Acknowledged),
                    (flow((host + count - before) % count), Milestone::Received),
                ];
                all.waits.push(Wait::all(((round - 1) * count + host) as u32, on));
            }
        }
    }
    all
}

/// A collective `repeat` times. A host begins the next one `gap` after its part of the one before is over: it has received all that is
/// for it, and what it has sent is acknowledged.
///
/// # Errors
/// How many milestones flows would wait for between collectives, if these are more than `most`.
pub fn repeated(once: HostFlows, repeat: u32, gap: Picos, most: u64) -> Result<HostFlows, u64> {
    let mut is_first = vec![true; once.flows.len()];
    let mut is_last = is_first.clone();
    for wait in &once.waits {
        is_first[wait.flow as usize] = false;
        // A flow that another one waits for until it has left may arrive after it.
        let over = wait.on.iter().filter(|(_, milestone)| *milestone != Milestone::Sent);
        over.for_each(|&(flow, _)| is_last[flow as usize] = false);
    }
    let mut ends: SortedMap<u32, Vec<(u32, Milestone)>> = SortedMap::new();
    for (flow, HostFlow { source, destination, .. }) in
        (0u32..).zip(&once.flows).filter(|&(flow, _)| is_last[flow as usize])
    {
        ends.or_default(*source).push((flow, Milestone::Acknowledged));
        ends.or_default(*destination).push((flow, Milestone::Received));
    }
    let firsts = || (0u32..).zip(&once.flows).filter(|&(flow, _)| is_first[flow as usize]);
    let of_host = |host: u32| ends.get(&host).map_or(&[][..], Vec::as_slice);
    let between: u64 = firsts().map(|(_, flow)| of_host(flow.source).len() as u64).sum();
    let waits = between * u64::from(repeat.saturating_sub(1));
    if waits > most {
        return Err(waits);
    }
    let count = once.flows.len() as u32;
    let mut all = once.clone();
    for (first, before) in (1..repeat).map(|round| (round * count, (round - 1) * count)) {
        all.flows.extend(&once.flows);
        all.waits.extend(once.waits.iter().map(|wait| wait.clone().renumbered(|flow| first + flow)));
        for (flow, HostFlow { source, .. }) in firsts() {
            let on = of_host(*source).iter().map(|&(flow, milestone)| (before + flow, milestone)).collect();
            all.flows[(first + flow) as usize].start = gap;
            all.waits.push(Wait::all(first + flow, on));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependencies::Dependents;
    use std::collections::BTreeSet;

    /// Plays a collective without a network: each flow is received and acknowledged as soon as it begins, and `carry`
    /// changes what hosts have.
    fn play<T>(all: &HostFlows, mut has: Vec<T>, carry: impl Fn(u32, &mut Vec<T>)) -> Vec<T> {
        let mut dependents = Dependents::new(all.flows.len(), &all.waits).unwrap();
        let mut begun: Vec<u32> = (0..all.flows.len() as u32).filter(|&flow| !dependents.waits(flow)).collect();
        let mut played = 0;
        while let Some(flow) = begun.pop() {
            carry(flow, &mut has);
            played += 1;
            for milestone in [Milestone::Sent, Milestone::Received, Milestone::Acknowledged] {
                dependents.reach(flow, milestone, |next| begun.push(next));
            }
        }
        assert_eq!(played, all.flows.len());
        has
    }

    /// After a ring, each host has each part of each host, whatever order the dependencies leave open, and each has sent
    /// 2 (n - 1) / n of the bytes, the least that is possible (Patarasuk and Yuan, theorem 1).
    #[test]
    fn a_ring_sums_all_parts_at_all_hosts() {
        for count in [2usize, 3, 5, 8] {
            let hosts: Vec<u32> = (0..count as u32).collect();
            let bytes = 1_003;
            let all = ring_all_reduce(&hosts, bytes, 0, 0);
            // For each host and part, the hosts whose contributions it has summed.
            let own = |host| vec![BTreeSet::from([host]); count];
            let has = play(&all, (0..count).map(own).collect(), |flow, has: &mut Vec<Vec<BTreeSet<usize>>>| {
                let (step, host) = (flow as usize / count, flow as usize % count);
                let sent = (host + 2 * count - step) % count;
                let (to, carried) = ((host + 1) % count, has[host][sent].clone());
                assert!(step >= count - 1 || carried.len() == step + 1);
                has[to][sent].extend(carried);
            });
            assert!(has.iter().flatten().all(|sum| sum.len() == count));
            let sent = all.flows.iter().map(|flow| flow.bytes).sum::<u64>();
            assert_eq!(sent, 2 * (count as u64 - 1) * bytes);
        }
    }

    #[test]
    fn a_tree_sums_all_chunks_at_all_hosts() {
        for (count, chunks) in [(2u32, 1), (3, 4), (6, 3), (15, 2), (16, 1)] {
            let hosts: Vec<u32> = (0..count).collect();
            let all = tree_all_reduce(&hosts, 1_003, chunks, 0, 0);
            let own = |host| vec![BTreeSet::from([host]); chunks as usize];
            let has = play(&all, (0..count).map(own).collect(), |flow, has: &mut Vec<Vec<BTreeSet<u32>>>| {
                let HostFlow { source, destination, .. } = all.flows[flow as usize];
                let chunk = (flow / (2 * (count - 1))) as usize;
                let carried = has[source as usize][chunk].clone();
                has[destination as usize][chunk].extend(carried);
            });
            assert!(has.iter().flatten().all(|sum| sum.len() == count as usize));
            assert_eq!(all.flows.iter().map(|flow| flow.bytes).sum::<u64>(), 2 * u64::from(count - 1) * 1_003);
        }
    }

    #[test]
    fn an_all_to_all_has_each_pair_once_and_so_many_rounds_at_once() {
        for at_once in [1, 3, 100] {
            let all = all_to_all(&[10, 11, 12, 13, 14, 15, 16], 5, at_once, 9);
            let pairs: BTreeSet<_> = all.flows.iter().map(|flow| (flow.source, flow.destination)).collect();
            assert_eq!((all.flows.len(), pairs.len()), (42, 42));
            assert_eq!(all.flows.iter().filter(|flow| flow.start == 9).count() as u32, 7 * at_once.min(6));
            play(&all, Vec::new(), |_, _: &mut Vec<()>| ());
            for Wait { flow, on, .. } in &all.waits {
                let HostFlow { source, .. } = all.flows[*flow as usize];
                let [(sent, _), (received, _)] = on[..] else { panic!("{on:?}") };
                assert_eq!(
                    (all.flows[sent as usize].source, all.flows[received as usize].destination),
                    (source, source)
                );
            }
        }
    }
}
