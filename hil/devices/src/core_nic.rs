//! A NIC whose program runs on a core, with the driver that gives its commands.

use super::core_queue::{CoreQueue, QueueRule};
use super::device::Decisions;
use super::event::NicEvent;
use super::follower::Waiting;
use super::native::{self, Native};
use anyhow::Result;
use cc_core::wire::opcode::Class;
use hil_cores::board::{Board, Pace};
use hil_cores::core::Core;
use programs::LogKind;

/// A NIC that runs on a core.
pub struct CoreNic<C> {
    core: CoreQueue<Native, C>,
    /// Handles the driver's commands at once, so that handles are known before the image has handled the commands.
    driver: Native,
}

impl<C: Core> CoreNic<C> {
    /// Takes two NICs that have handled nothing, and a board whose image waits for its first event. Starts the clock at zero.
    pub fn new(native: Native, driver: Native, board: Board<C>, pace: Pace, rule: QueueRule) -> Self {
        Self { core: CoreQueue::new(native.recorded(), board, pace, rule), driver }
    }

    /// The core and its queue.
    pub fn core(&self) -> &CoreQueue<Native, C> {
        &self.core
    }

    /// The same, to take what it does.
    pub fn core_mut(&mut self) -> &mut CoreQueue<Native, C> {
        &mut self.core
    }

    /// Brings an event at `now`, in nanoseconds. Of a command of the driver, returns kind and index of the log record that the image
    /// will make.
    ///
    /// # Errors
    /// The image misbehaved, or its decisions differ from the library's.
    pub fn deliver(&mut self, now: u64, event: &NicEvent<'_>) -> Result<Option<(LogKind, u32)>> {
        let logged = event.is_command().then(|| self.driver.handle(now, event, &mut Decisions::new()));
        let opened = logged.and_then(native::opened);
        let waiting =
            Waiting { descriptor: event.descriptor(now), frame: event.frame().to_vec(), joins: event.joins(), opened };
        self.core.deliver(now, waiting, |lost| {
            *match event {
                NicEvent::Packet { roce, .. } => match roce.info.class() {
                    Class::Cnp => &mut lost.cnps,
                    Class::Ack => &mut lost.acks,
                    _ => &mut lost.data,
                },
                NicEvent::Pause { .. } => &mut lost.pauses,
                _ => &mut lost.sent,
            } += 1;
        })?;
        Ok(logged)
    }
}
