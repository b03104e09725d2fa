//! Requests and responses, and flows that are sent again and again.

use super::{HostFlow, HostFlows};
use crate::Picos;
use crate::dependencies::{Milestone, Wait};

/// How applications use flows: a flow answers a request, or it is followed by another when it is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// Bytes of a request from the receiver of each flow, which its sender answers with the flow. With `None` there is none, and
    /// the sender begins by itself.
    pub request: Option<u64>,
    /// Each flow is an RDMA READ by its receiver. Not together with `request`.
    pub read: bool,
    /// The time from the receipt of a request to the first byte of the response.
    pub think: Picos,
    /// How often each flow is sent, one after the other; at least once.
    pub repeat: u32,
    /// The time from the end of a round to the beginning of the next: from the receipt of the response, or without requests from
    /// the acknowledgement of the flow.
    pub gap: Picos,
}

impl Default for Rounds {
    /// Each flow once, without a request.
    fn default() -> Self {
        Self { request: None, read: false, think: 0, repeat: 1, gap: 0 }
    }
}

impl Rounds {
    /// These flows in rounds. Those of a flow follow each other in the list, each request before its response.
    pub fn of(self, flows: Vec<HostFlow>) -> HostFlows {
        if self == Self::default() {
            return flows.into();
        }
        let mut all = HostFlows { has_requests: self.request.is_some(), are_reads: self.read, ..HostFlows::default() };
        let milestone = if self.request.is_some() { Milestone::Received } else { Milestone::Acknowledged };
        for flow in flows {
            for round in 0..self.repeat {
                let mut first = flow;
                if round > 0 {
                    let number = all.flows.len() as u32;
                    all.waits.push(Wait::all(number, vec![(number - 1, milestone)]));
                    first.start = self.gap;
                }
                if let Some(bytes) = self.request {
                    let number = all.flows.len() as u32;
                    let HostFlow { source, destination, start, .. } = first;
                    all.flows.push(HostFlow { source: destination, destination: source, bytes, start });
                    all.waits.push(Wait::all(number + 1, vec![(number, Milestone::Received)]));
                    first.start = self.think;
                }
                all.flows.push(first);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_precedes_each_response_and_a_gap_each_round() {
        let flow = HostFlow { source: 1, destination: 0, bytes: 9_000, start: 50 };
        let rounds = Rounds { request: Some(16), read: false, think: 7, repeat: 2, gap: 11 }.of(vec![flow]);
        let shown: Vec<_> = rounds.flows.iter().map(|flow| (flow.source, flow.bytes, flow.start)).collect();
        assert_eq!(shown, [(0, 16, 50), (1, 9_000, 7), (0, 16, 11), (1, 9_000, 7)]);
        assert_eq!([0, 1, 2, 3].map(|flow| rounds.is_request(flow)), [true, false, true, false]);
        let received = |flow| vec![(flow, Milestone::Received)];
        assert_eq!(rounds.waits, [1, 2, 3].map(|flow| Wait::all(flow, received(flow - 1))));
        let alone = Rounds { repeat: 3, gap: 4, ..Rounds::default() }.of(vec![flow]);
        assert_eq!(alone.waits, [1, 2].map(|flow| Wait::all(flow, vec![(flow - 1, Milestone::Acknowledged)])));
        assert!(!alone.is_request(0));
        assert_eq!(alone.flows.iter().map(|flow| flow.start).collect::<Vec<_>>(), [50, 4, 4]);
    }
}
