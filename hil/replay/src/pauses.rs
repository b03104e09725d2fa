//! The pauses of a NIC by priority: how long they kept it from sending, and the packets that it sent in spite of them.

use cc_core::Rate;
use cc_core::wire::pfc::{Pfc, Quantum};

/// Time in nanoseconds that a NIC may take to stop, beyond the end of the packet that it is sending. IEEE 802.1Qbb allows less
/// than 1,000 ns at 100 Gb/s.
const RESPONSE: u64 = 1_500;

/// The pauses of one NIC's eight priorities.
#[derive(Clone, Copy, Default, Debug)]
pub struct Pauses([Priority; 8]);

/// Times in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
struct Priority {
    /// Sum of the pauses before the last.
    before: u64,
    /// The beginning and the end of the last pause. A renewal moves the end later, a resume frame (zero quanta) earlier.
    last: (u64, u64),
    /// PFC frames with a pause. Resume frames, of zero quanta, are not counted.
    frames: u64,
    /// Packets sent while it was paused.
    ignored: u64,
}

impl Priority {
    fn set(&mut self, now: u64, time: u64) {
        let (began, until) = self.last;
        self.last = if until >= now {
            (began, now + time)
        } else {
            self.before += until - began;
            (now, now + time)
        };
    }
}

impl Pauses {
    /// Handles a PFC frame that the NIC receives. Quanta are 512 bit times at `line_rate`.
    pub fn obey(&mut self, now: u64, pfc: &Pfc, line_rate: Rate) {
        for (number, priority) in (0..).zip(&mut self.0) {
            if let Some(quanta) = pfc.time(number) {
                priority.set(now, Quantum::at(line_rate).pause(quanta).get().into());
                priority.frames += u64::from(quanta > 0);
            }
        }
    }

    /// Records that a packet of this priority was sent, whose transmission takes `takes` nanoseconds.
    #[inline]
    pub fn sent(&mut self, now: u64, priority: u8, takes: u64) {
        let Some(priority) = self.0.get_mut(usize::from(priority)) else { return };
        let (began, until) = priority.last;
        priority.ignored += u64::from(now < until && now > began + RESPONSE + takes);
    }

    /// Nanoseconds that each priority was paused, until `end`.
    pub fn totals(&self, end: u64) -> [u64; 8] {
        self.0.map(|Priority { before, last: (began, until), .. }| before + until.min(end).saturating_sub(began))
    }

    /// PFC frames with a pause, for each priority.
    pub fn frames(&self) -> [u64; 8] {
        self.0.map(|priority| priority.frames)
    }

    /// Packets that each priority sent while it was paused.
    pub fn ignored(&self) -> [u64; 8] {
        self.0.map(|priority| priority.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_sent_well_after_a_pause_began_and_before_it_ends_ignores_the_pause() {
        let mut pauses = Pauses::default();
        let mut times = [0; 8];
        times[3] = 10_000;
        pauses.obey(10_000, &Pfc::new(1 << 3, times), Rate::from_gbps(100));
        for now in [9_000, 10_300, 11_700, 61_200, 70_000] {
            pauses.sent(now, 3, 340);
        }
        assert_eq!(pauses.ignored()[3], 0, "within the time to stop, or after the end");
        pauses.sent(12_000, 3, 340);
        pauses.sent(12_000, 4, 340);
        assert_eq!((pauses.ignored()[3], pauses.ignored()[4], pauses.frames()[3]), (1, 0, 1));
    }

    #[test]
    fn renewals_overlap_resumes_cut_short_and_the_end_of_the_run_ends_all_e10() {
        let mut pauses = Pauses::default();
        let line_rate = Rate::from_gbps(100);
        // 5.12 ns each: 100 quanta are 512 ns.
        let mut frame = |now: u64, priority: u8, quanta: u16| {
            let mut times = [9; 8];
            times[usize::from(priority)] = quanta;
            pauses.obey(now, &Pfc::new(1 << priority, times), line_rate);
            pauses.totals(100_000)
        };
        assert_eq!(frame(1_000, 3, 100), [0, 0, 0, 512, 0, 0, 0, 0]);
        assert_eq!(frame(1_500, 3, 100)[3], 1_012, "renewed before it ran out");
        assert_eq!(frame(1_600, 3, 0)[3], 600, "resumed");
        assert_eq!(frame(1_700, 3, 0)[3], 600, "resumed again");
        assert_eq!(frame(5_000, 3, 100)[3], 1_112);
        assert_eq!(frame(9_000, 0, 65_535), [91_000, 0, 0, 1_112, 0, 0, 0, 0], "the run ends at 100 us");
    }
}
