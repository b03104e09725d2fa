//! Flows that wait for others: the steps of collectives, responses, requests that follow a response, triggers of htsim.
//!
//! Each is the same: a flow begins when so many of the milestones that it waits for are reached, and its delay is over.

use anyhow::{Result, ensure};

/// What a flow can wait for another to reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Milestone {
    /// The last bit has left the sender for the first time: messages of one queue pair follow each other so.
    Sent,
    /// The receiver has all bytes: what its application waits for, and htsim's `recv_done_trigger`.
    Received,
    /// The sender has the acknowledgement of all bytes: the completion of a SEND or WRITE, and htsim's `send_done_trigger`.
    Acknowledged,
}

/// What a flow waits for. Its start is then the time from the last milestone that it needs to its first byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The flow that waits, by its number.
    pub flow: u32,
    /// How many of the milestones it needs, at least one: the first so many that are reached.
    pub needed: u32,
    /// The milestones of other flows.
    pub on: Vec<(u32, Milestone)>,
}

impl Wait {
    /// A flow that needs all of these milestones.
    pub fn all(flow: u32, on: Vec<(u32, Milestone)>) -> Self {
        Self { flow, needed: on.len() as u32, on }
    }

    /// The same, with other numbers for the flows.
    pub(crate) fn renumbered(self, number: impl Fn(u32) -> u32) -> Self {
        let on = self.on.into_iter().map(|(flow, milestone)| (number(flow), milestone)).collect();
        Self { flow: number(self.flow), needed: self.needed, on }
    }
}

/// The flows that wait, by those that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Dependents {
    /// Where those that wait for each flow begin in `of`; one more entry ends the last. Empty if no flow waits.
    first: Vec<u32>,
    of: Vec<(u32, Milestone)>,
    /// Milestones that each flow still needs.
    needed: Vec<u32>,
    /// The milestones that flows wait for, a bit each.
    awaited: u8,
}

impl Dependents {
    /// Those of so many flows, of which each begins.
    ///
    /// # Errors
    /// Those of [`Dependents::unchecked`], or a flow never begins because it waits for itself, directly or by others.
    pub(crate) fn new(flows: usize, waits: &[Wait]) -> Result<Self> {
        let dependents = Self::unchecked(flows, waits)?;
        let never = dependents.never_begins();
        ensure!(never.is_none(), "flow {} never begins: what it waits for waits for it", never.unwrap_or_default());
        Ok(dependents)
    }

    /// Those of so many flows.
    ///
    /// # Errors
    /// Flows that do not exist, or a flow that waits twice, or for less than one or more milestones than it names.
    pub(crate) fn unchecked(flows: usize, waits: &[Wait]) -> Result<Self> {
        if waits.is_empty() {
            return Ok(Self::default());
        }
        let mut dependents = Self { first: vec![0; flows + 1], of: Vec::new(), needed: vec![0; flows], awaited: 0 };
        for Wait { flow, needed, on } in waits {
            let exist = on.iter().map(|(other, _)| other).chain([flow]).all(|&flow| (flow as usize) < flows);
            ensure!(exist, "flow {flow} waits, but it or what it waits for is not among the {flows} flows");
            ensure!(
                (1..=on.len()).contains(&(*needed as usize)),
                "flow {flow} waits for {needed} of {} milestones: expected at least one, and at most all",
                on.len()
            );
            ensure!(dependents.needed[*flow as usize] == 0, "flow {flow} waits twice: expected one list of milestones");
            dependents.needed[*flow as usize] = *needed;
            for &(other, milestone) in on {
                dependents.first[other as usize + 1] += 1;
                dependents.awaited |= 1 << milestone as u8;
            }
        }
        for flow in 0..flows {
            dependents.first[flow + 1] += dependents.first[flow];
        }
        let mut next = dependents.first.clone();
        dependents.of = vec![(0, Milestone::Sent); next[flows] as usize];
        for (flow, (other, milestone)) in waits.iter().flat_map(|wait| wait.on.iter().map(|&on| (wait.flow, on))) {
            dependents.of[next[other as usize] as usize] = (flow, milestone);
            next[other as usize] += 1;
        }
        Ok(dependents)
    }

    /// Whether any flow waits for this milestone of another.
    pub(crate) const fn is_awaited(&self, milestone: Milestone) -> bool {
        self.awaited & 1 << milestone as u8 != 0
    }

    /// Whether a flow waits for milestones that are not reached.
    pub(crate) fn waits(&self, flow: u32) -> bool {
        self.needed.get(flow as usize).is_some_and(|&needed| needed > 0)
    }

    /// A flow has reached a milestone. Calls `begin` with each flow that needs no other one.
    pub(crate) fn reach(&mut self, flow: u32, milestone: Milestone, mut begin: impl FnMut(u32)) {
        let Some(&[from, to]) = self.first.get(flow as usize..flow as usize + 2) else { return };
        for &(waiting, _) in self.of[from as usize..to as usize].iter().filter(|&&(_, until)| until == milestone) {
            let needed = &mut self.needed[waiting as usize];
            if *needed > 0 {
                *needed -= 1;
                if *needed == 0 {
                    begin(waiting);
                }
            }
        }
    }

    /// A flow that does not begin even if each flow that begins reaches all milestones.
    pub(crate) fn never_begins(&self) -> Option<u32> {
        let mut rest = Self { first: self.first.clone(), of: self.of.clone(), needed: self.needed.clone(), ..*self };
        let mut begun: Vec<u32> = (0..self.needed.len() as u32).filter(|&flow| !self.waits(flow)).collect();
        while let Some(flow) = begun.pop() {
            for milestone in [Milestone::Sent, Milestone::Received, Milestone::Acknowledged] {
                rest.reach(flow, milestone, |next| begun.push(next));
            }
        }
        (0..self.needed.len() as u32).find(|&flow| rest.waits(flow))
    }
}

#[cfg(test)]
mod tests {
    use super::Milestone::{Acknowledged, Received, Sent};
    use super::*;

    #[test]
    fn a_flow_begins_at_the_last_milestone_that_it_needs() {
        let waits = [
            Wait::all(3, vec![(0, Received), (1, Acknowledged), (1, Sent)]),
            Wait { flow: 2, needed: 2, on: vec![(0, Acknowledged), (1, Acknowledged), (3, Acknowledged)] },
        ];
        let mut dependents = Dependents::new(4, &waits).unwrap();
        let mut reach = |flow, milestone| {
            let mut begun = Vec::new();
            dependents.reach(flow, milestone, |flow| begun.push(flow));
            begun
        };
        assert!(reach(0, Received).is_empty() && reach(0, Acknowledged).is_empty() && reach(1, Received).is_empty());
        assert_eq!(reach(1, Acknowledged), [2]);
        assert_eq!(reach(1, Sent), [3]);
        assert!(reach(3, Acknowledged).is_empty(), "flow 2 needs two of three");
    }

    /// A circle of two flows, and one that is broken because a flow needs only one of two milestones.
    #[test]
    fn what_never_begins_is_refused() {
        let refused = |waits: &[Wait]| Dependents::new(3, waits).unwrap_err().to_string();
        let circle = [Wait::all(1, vec![(2, Received), (0, Received)]), Wait::all(2, vec![(1, Acknowledged)])];
        assert_eq!(refused(&circle), "flow 1 never begins: what it waits for waits for it");
        assert!(Dependents::new(3, &[Wait { needed: 1, ..circle[0].clone() }, circle[1].clone()]).is_ok());
        assert!(refused(&[Wait::all(0, vec![(0, Received)])]).starts_with("flow 0 never begins"));
        assert!(refused(&[Wait::all(0, vec![(3, Received)])]).contains("not among the 3 flows"));
        assert!(refused(&[Wait::all(0, Vec::new())]).contains("waits for 0 of 0 milestones"));
        assert!(refused(&[Wait { needed: 2, ..Wait::all(0, vec![(1, Received)]) }]).contains("2 of 1 milestones"));
        let twice = Wait::all(0, vec![(1, Received)]);
        assert_eq!(refused(&[twice.clone(), twice]), "flow 0 waits twice: expected one list of milestones");
    }
}
