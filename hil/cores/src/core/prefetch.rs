//! Ibex's prefetch buffer, cycle by cycle. It is modelled only if the instruction memory has wait states.
//!
//! If memory responds in the next cycle, the buffer always keeps up with straight-line code, and redirects cost what
//! [`Timing`](super::timing::Timing) says. With later responses the delay of an instruction depends on the requests before it.
//! These are the rules of ibex_prefetch_buffer and ibex_fetch_fifo: three words in the queue, two requests under way, and a
//! redirect that discards both without freeing their places before the responses come.

use std::ops::Range;

/// Most requests that may be under way.
const REQUESTS: usize = 2;

/// The buffer's state at the beginning of a cycle. Only counts matter: memory never refuses an address.
#[derive(Clone, Debug)]
pub(super) struct Prefetch {
    /// Cycles from a request to the response.
    latency: u64,
    /// The cycle to be evaluated next.
    cycle: u64,
    /// Words in the queue.
    words: usize,
    /// Requests under way, oldest first.
    requests: [Option<Request>; REQUESTS],
    /// Whether a redirect comes in the cycle to be evaluated next.
    redirect: bool,
    /// Cycles in which the core requests no instructions, because it sleeps.
    paused: Range<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    response_cycle: u64,
    discarded: bool,
}

/// What the instruction at the head of the queue needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Whether it begins in the upper half of a word.
    pub(super) upper: bool,
    /// Whether it is a 16-bit instruction.
    pub(super) compressed: bool,
}

impl Prefetch {
    /// A buffer that has handed over the instruction that enters decode in cycle 0 after a redirect; `wait` is the
    /// number of extra cycles of a fetch.
    pub(super) fn new(wait: u64, first: Head) -> Self {
        let mut buffer =
            Self { latency: 1 + wait, cycle: 0, words: 0, requests: [None; REQUESTS], redirect: true, paused: 0..0 };
        while !buffer.step(Some(first)) {}
        let origin = buffer.cycle;
        for request in buffer.requests.iter_mut().flatten() {
            request.response_cycle = request.response_cycle.saturating_sub(origin);
        }
        buffer.cycle = 0;
        buffer
    }

    /// Redirects the buffer: in `cycle` the queue is discarded and the target requested. Decode takes nothing until then.
    pub(super) fn redirect(&mut self, cycle: u64) {
        self.advance(cycle);
        self.redirect = true;
    }

    /// Stops requests in these cycles.
    pub(super) fn pause(&mut self, cycles: Range<u64>) {
        self.paused = cycles;
    }

    /// Lets time pass up to the beginning of `cycle`, while decode takes nothing.
    fn advance(&mut self, cycle: u64) {
        while self.cycle < cycle {
            self.step(None);
        }
    }

    /// The cycle of the last response to the requests under way at the beginning of `cycle`, if there are any.
    pub(super) fn last_response(&mut self, cycle: u64) -> Option<u64> {
        self.advance(cycle);
        self.requests.iter().flatten().map(|request| request.response_cycle).max()
    }

    /// Evaluates `cycle`, in which decode is ready for the instruction `head`. Returns whether the buffer hands it over.
    pub(super) fn hand_over(&mut self, cycle: u64, head: Head) -> bool {
        self.advance(cycle);
        self.cycle == cycle && self.step(Some(head))
    }

    /// Evaluates one cycle. `requested` is the instruction that decode is ready for. A response can be used in the cycle in
    /// which it comes.
    fn step(&mut self, requested: Option<Head>) -> bool {
        let [oldest, newest] = self.requests;
        let full = (self.words >= 2 || newest.is_some()) && (self.words >= 3 || oldest.is_some());
        let response = oldest.filter(|request| request.response_cycle == self.cycle);
        if response.is_some() {
            self.requests = [newest, None];
        }

        let redirected = std::mem::take(&mut self.redirect);
        let mut handed_over = false;
        if redirected {
            self.words = 0;
            for request in self.requests.iter_mut().flatten() {
                request.discarded = true;
            }
        } else {
            self.words += usize::from(response.is_some_and(|request| !request.discarded));
            if let Some(head) = requested {
                let needs = if head.upper && !head.compressed { 2 } else { 1 };
                handed_over = self.words >= needs;
                self.words -= usize::from(handed_over && (head.upper || !head.compressed));
            }
        }

        let requests = newest.is_none() && (redirected || !full) && !self.paused.contains(&self.cycle);
        if requests {
            let request = Some(Request { response_cycle: self.cycle + self.latency, discarded: false });
            self.requests = match self.requests {
                [None, _] => [request, None],
                [oldest, _] => [oldest, request],
            };
        }
        self.cycle += 1;
        handed_over
    }
}
