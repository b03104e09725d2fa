//! Two stages on one queue.

use crate::{Cx, Event, Stage, Verdict};

/// Both stages, one behind the other: each sees every event, and their verdicts are joined. Chains of chains make longer
/// ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Chain<A, B> {
    /// One stage.
    pub first: A,
    /// The other.
    pub second: B,
}

impl<A: Stage, B: Stage> Stage for Chain<A, B> {
    type Params = (A::Params, B::Params);

    fn open(cx: &Cx<'_, Self::Params>, seed: u64) -> Self {
        let (first, second) = split(cx);
        // Far from each other, so that stages draw different numbers.
        Self { first: A::open(&first, seed), second: B::open(&second, seed.rotate_left(32)) }
    }

    #[inline]
    fn on(&mut self, cx: &Cx<'_, Self::Params>, event: &Event) -> Verdict {
        let (first, second) = split(cx);
        self.first.on(&first, event).join(self.second.on(&second, event))
    }
}

#[inline]
const fn split<'a, P, Q>(cx: &Cx<'a, (P, Q)>) -> (Cx<'a, P>, Cx<'a, Q>) {
    let (first, second) = cx.params;
    (Cx { now: cx.now, link: cx.link, params: first }, Cx { now: cx.now, link: cx.link, params: second })
}
