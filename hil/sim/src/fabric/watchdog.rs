//! The watchdog of switch ports for PFC storms, as the operating systems of switches have it (SONiC's PFC watchdog).
//!
//! A queue that has been paused without a break for the time of the watchdog is in a storm. The watchdog may then drop what waits in
//! the queue and what arrives for it, or send it in spite of the pauses, until the neighbour has wanted no pause for a time.

use super::calendar::{Class, Event};
use super::deadlock::QueuePlace;
use super::packets::PacketId;
use super::port::CLASSES;
use super::{Network, Picos, Place};
use anyhow::Result;
use cc_core::Nanos;

/// A watchdog of all ports of switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watchdog {
    /// A pause that lasts so long is a storm.
    pub time: Picos,
    /// A storm is over when the neighbour has wanted no pause for so long.
    pub restore: Picos,
    /// What is done about a storm.
    pub action: StormAction,
}

/// What a watchdog does about a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StormAction {
    /// Nothing: the storm is recorded.
    Report,
    /// The packets of the queue are dropped, and those that arrive for it.
    Drop,
    /// The queue sends in spite of the pauses.
    Forward,
}

/// A storm: a queue of a switch that was paused without a break for the time of the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storm {
    /// The queue.
    pub queue: QueuePlace,
    /// When the pause began.
    pub since: Picos,
    /// When the watchdog found it.
    pub found: Picos,
    /// When the watchdog ended its action; `None` if it lasts until the end of the run, or if there is none.
    pub restored: Option<Picos>,
    /// Packets that the watchdog dropped.
    pub dropped: u64,
}

/// A queue whose pauses the watchdog ignores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ignored {
    port: u32,
    class: u8,
    /// When the pause ends that the neighbour wants, or ended.
    quiet_from: Picos,
    /// The storm's place in [`Totals::storms`](super::Totals::storms).
    storm: usize,
}

impl Network<'_> {
    /// A PFC frame has paused a queue of a switch, or renewed its pause.
    #[cold]
    pub(super) fn watch_pause(&mut self, now: Picos, port: u32, class: u8) {
        if let Some(watchdog) = self.watchdog
            && self.ports[port as usize].paused_from[usize::from(class)] == now
        {
            self.calendar.add(Event::new(now + watchdog.time, Class::Watchdog, port));
        }
        self.suspect_deadlock(now);
    }

    /// A PFC frame has arrived for a queue whose pauses are ignored: without it, the neighbour would have paused the queue until
    /// this time.
    #[cold]
    pub(super) fn ignore_pause(&mut self, port: u32, class: u8, until: Picos) {
        let found = self.ignored.iter_mut().find(|ignored| (ignored.port, ignored.class) == (port, class));
        if let (Some(ignored), Some(watchdog)) = (found, self.watchdog) {
            ignored.quiet_from = until;
            if let Some(at) = until.checked_add(watchdog.restore) {
                self.calendar.add(Event::new(at, Class::Watchdog, port));
            }
        }
    }

    /// The watchdog looks at a port of a switch: the pause of a queue may have lasted for its time, and a storm may be over.
    #[cold]
    pub(super) fn watch(&mut self, now: Picos, port: u32) -> Result<()> {
        let (Some(watchdog), Place::Switch(switch)) =
            (self.watchdog, self.places[self.ports[port as usize].node as usize])
        else {
            return Ok(());
        };
        let is_over = |ignored: &Ignored| {
            ignored.port == port && ignored.quiet_from.checked_add(watchdog.restore).is_some_and(|over| over <= now)
        };
        for over in self.ignored.extract_if(.., |ignored| is_over(ignored)) {
            self.ports[port as usize].ignored &= !(1 << over.class);
            self.totals.storms[over.storm].restored = Some(now);
        }
        self.drops_in_storms &= !self.ignored.is_empty();
        for class in 0..CLASSES as u8 {
            let at = &self.ports[port as usize];
            let (since, until) = (at.paused_from[usize::from(class)], at.paused_until[usize::from(class)]);
            if since + watchdog.time == now && until > now {
                self.begin_storm(now, switch, (port, class), (since, until))?;
            }
        }
        Ok(())
    }

    fn begin_storm(
        &mut self,
        now: Picos,
        switch: u32,
        (port, class): (u32, u8),
        (since, until): (Picos, Picos),
    ) -> Result<()> {
        // A deadlock is found before the watchdog ends it.
        self.find_deadlocks(now);
        let queue = self.queue_place((port, class));
        // The frame that began the pause may have arrived twice.
        if self.totals.storms.iter().rev().take_while(|storm| storm.found == now).any(|storm| storm.queue == queue) {
            return Ok(());
        }
        self.totals.storms.push(Storm { queue, since, found: now, restored: None, dropped: 0 });
        let action = self.watchdog.map(|watchdog| watchdog.action);
        if action == Some(StormAction::Report) {
            return Ok(());
        }
        let at = &mut self.ports[port as usize];
        at.pause(class, now, Some(Nanos::ZERO));
        at.ignored |= 1 << class;
        self.ignored.push(Ignored { port, class, quiet_from: until, storm: self.totals.storms.len() - 1 });
        self.ignore_pause(port, class, until);
        if action == Some(StormAction::Drop) {
            self.drops_in_storms = true;
            self.empty_queue(now, switch, port, class)?;
        }
        self.find_deadlocks(now);
        self.start_sending(now, switch, port)
    }

    /// Drops a packet of a queue in a storm.
    #[cold]
    pub(super) fn drop_in_storm(&mut self, port: u32, class: u8, packet: PacketId) {
        let found = self.ignored.iter().find(|ignored| (ignored.port, ignored.class) == (port, class));
        if let Some(ignored) = found {
            self.totals.storms[ignored.storm].dropped += 1;
        }
        self.drop_packet(packet);
    }
}
