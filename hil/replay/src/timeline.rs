//! Counts of packets over time, in at most 16 equal spans whatever the length of the capture.

/// Most spans. Except for captures shorter than 8 us there are more than half as many.
const SPANS: usize = 16;
/// The initial width of a span in nanoseconds; it is doubled whenever the spans do not suffice.
const NARROWEST: u64 = 1_000;

/// Counts of one span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Data packets.
    pub data: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Those with CE.
    pub marked: u64,
    /// CNPs captured.
    pub cnps: u64,
}

/// Spans from the beginning of the capture on.
#[derive(Clone, Debug)]
pub struct Timeline {
    spans: Vec<Span>,
    width: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { spans: Vec::new(), width: NARROWEST }
    }
}

impl Timeline {
    /// The span of this time. Doubles the width of all spans until there are enough of them.
    #[inline]
    pub fn at(&mut self, now: u64) -> &mut Span {
        while now / self.width >= SPANS as u64 {
            self.widen();
        }
        let place = (now / self.width) as usize;
        if self.spans.len() <= place {
            self.spans.resize(place + 1, Span::default());
        }
        &mut self.spans[place]
    }

    #[cold]
    fn widen(&mut self) {
        let pairs = self.spans.chunks(2).map(|pair| {
            pair.iter().fold(Span::default(), |sum, span| Span {
                data: sum.data + span.data,
                bytes: sum.bytes + span.bytes,
                marked: sum.marked + span.marked,
                cnps: sum.cnps + span.cnps,
            })
        });
        self.spans = pairs.collect();
        self.width *= 2;
    }

    /// The spans with their beginnings in nanoseconds, and how wide each is.
    pub fn spans(&self) -> (impl Iterator<Item = (u64, Span)> + '_, u64) {
        ((0..).map(|place| place * self.width).zip(self.spans.iter().copied()), self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_grow_with_the_capture_and_lose_nothing() {
        let mut timeline = Timeline::default();
        for now in 0..100_000_u64 {
            timeline.at(now * 777).data += 1;
        }
        let (spans, width) = timeline.spans();
        let spans: Vec<_> = spans.collect();
        assert!(spans.len() > SPANS / 2 && spans.len() <= SPANS);
        assert_eq!(spans.iter().map(|(_, span)| span.data).sum::<u64>(), 100_000);
        assert!(spans.windows(2).all(|pair| pair[1].0 - pair[0].0 == width));
        assert!(spans[..spans.len() - 1].iter().all(|(_, span)| span.data.abs_diff(width / 777) <= 1));
    }
}
