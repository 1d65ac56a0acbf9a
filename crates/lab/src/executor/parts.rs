// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulation that is one part of a lab: it runs window by window, and exchanges signals on cut
//! cables with the other parts in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use crosslane_device::network_processor::{CableMessage, NetworkProcessor};
use crosslane_fabric::{DevicePort, Fabric, RunEnd};
use crosslane_pcie::units::Picoseconds;

use super::Simulation;
use super::shared::{Progress, State};
use super::stuck::{Stuck, WhyStuck};
use crate::parts::exchange::{Exchange, Next, PartState, Said};
use crate::wiring::Border;

/// A part's connection with the others.
pub(crate) struct Joint {
    border: Border,
    exchange: Box<dyn Exchange>,
    /// Whether the run has to end before its time.
    stop: Arc<AtomicBool>,
    /// Messages for each part, and those from all.
    sent: Vec<Vec<CableMessage>>,
    came: Vec<CableMessage>,
    /// End of the window: nothing from other parts can arrive before it.
    until: Picoseconds,
    /// How all parts have ended, once they have.
    end: Option<Next>,
}

impl Joint {
    fn new(border: Border, exchange: Box<dyn Exchange>, stop: Arc<AtomicBool>) -> Self {
        let sent = vec![Vec::new(); border.parts()];
        let (came, until, end) = (Vec::new(), border.lookahead, None);
        Self { border, exchange, stop, sent, came, until, end }
    }

    /// Exchanges what has been sent in the window, and begins the next one, unless the run ends.
    fn next(&mut self, fabric: &mut Fabric, state: PartState, limit: Option<Picoseconds>) -> Next {
        if let Some(end) = self.end {
            return end;
        }
        let mut arrives = Picoseconds::NEVER;
        let Self { border, sent, .. } = self;
        border.outbox.empty(|message| {
            arrives = arrives.min(Picoseconds(message.arrives_ps));
            sent[border.part_of(message.to.node)].push(message);
        });
        let state = match self.stop.load(Ordering::Relaxed) {
            true => PartState::Stopped,
            false => state,
        };
        let said = Said { next: fabric.next_event(), arrives, state };
        let next = match self.exchange.exchange(said, &mut self.sent, &mut self.came) {
            Ok(said) => Next::after(&said, self.border.lookahead, limit),
            Err(_) => Next::Ended,
        };
        for CableMessage { to, arrives_ps, signal } in self.came.drain(..) {
            let node = self.border.node(to.node);
            fabric.command(node, |nwp: &mut NetworkProcessor, port: &mut DevicePort<'_>| {
                nwp.carry(to.link, arrives_ps, signal, port);
            });
        }
        match next {
            Next::Window(until) => self.until = until,
            _ => self.end = Some(next),
        }
        next
    }
}

impl State {
    /// Runs the fabric of a part until something happens for host code.
    pub fn advance_part(
        &mut self,
        limit: Option<Picoseconds>,
        joint: &mut Joint,
    ) -> (Progress, Vec<Waker>) {
        loop {
            if self.fabric.run_window_for_host(joint.until) {
                return (Progress::Happened, self.take_events());
            }
            let progress = match joint.next(&mut self.fabric, PartState::Running, limit) {
                Next::Window(_) => continue,
                Next::AllQuiet | Next::NothingLeft => Progress::NothingLeft(self.last_event),
                Next::Limit => Progress::Limit(limit.unwrap_or_default()),
                Next::Ended => Progress::Ended,
            };
            return (progress, Vec::new());
        }
    }

    /// Runs the fabric of a part whose program has ended, until all parts are quiet.
    pub fn finish_part(
        &mut self,
        limit: Option<Picoseconds>,
        joint: &mut Joint,
    ) -> Result<(), Stuck> {
        loop {
            self.fabric.run_window(joint.until);
            let is_quiet = self.fabric.is_quiet();
            let state = if is_quiet { PartState::Quiet } else { PartState::Running };
            let end = match joint.next(&mut self.fabric, state, limit) {
                Next::Window(_) => continue,
                Next::Ended => {
                    let (time, waiting) = (self.fabric.now(), Vec::new());
                    return Err(Stuck { time, why: WhyStuck::Ended, waiting });
                }
                _ if is_quiet => return Ok(()),
                Next::Limit => RunEnd::Limit,
                Next::AllQuiet | Next::NothingLeft => self.fabric.run(None),
            };
            return Stuck::unless_quiet(end, self.fabric.now());
        }
    }
}

impl Simulation {
    /// Joins this part of a lab with the others.
    ///
    /// # Panics
    /// If the lab is not a part.
    pub(crate) fn join(&self, exchange: Box<dyn Exchange>, stop: Arc<AtomicBool>) {
        let border = self.shared.lock().border.take().expect("the lab is a part");
        *self.joint.borrow_mut() = Some(Joint::new(border, exchange, stop));
    }
}
