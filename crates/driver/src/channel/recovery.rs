// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stopping a channel, finding out how much was moved, and restarting it without a reset.

use std::sync::Arc;

use crosslane_host::{Bus, Call, FunctionInfo};
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::engine::{ChannelState, channel};

use super::completion::is_stopped;
use super::descriptors::Report;
use super::options::{ChannelKind, Target};
use super::{Channel, State};
use crate::connection;
use crate::device::Device;
use crate::error::{DriverError, PortErrors, Result, TransferFault};
use crate::plan::{self, PathEnd};
use crate::ports::{Port, detected_by};

/// Time that a stopped channel may show no progress while it finishes its TLPs and waits for
/// completions. After that it is restarted anyway: its link is stuck.
const SETTLING: Picoseconds = Picoseconds::from_ms(1);

/// Stops a channel by `control`, with `run` clear, and waits until it has nothing in flight, or has
/// shown no progress for [`SETTLING`].
pub(super) async fn stop_and_wait(device: &Device, registers: u32, control: u32) -> Result<()> {
    // The last status and the time of its read: a stalled host may get an answer late.
    let mut last: Option<(u32, Picoseconds)> = None;
    loop {
        let asked = device.bus().now();
        // Written before each read: if a link lost it, the channel would keep moving data.
        device.write(registers + channel::CONTROL, control).await?;
        let status = device.read(registers + channel::STATUS).await?;
        let is_running = channel::status::STATE.get(status) == ChannelState::Running.bits();
        let is_quiet = !is_running && channel::status::IN_FLIGHT.get(status) == 0;
        if is_quiet {
            return Ok(());
        }
        match last {
            Some((shown, since)) if shown == status => {
                if asked.since(since) >= SETTLING {
                    return Ok(());
                }
            }
            _ => last = Some((status, device.bus().now())),
        }
    }
}

/// Reason for which the host stops a channel.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// A request to cancel.
    Cancelled,
    /// A deadline missed at this time.
    Deadline(Picoseconds),
    /// Another fault.
    Fault(TransferFault),
    /// A device that does not answer.
    NoAnswer(DriverError),
}

impl Channel {
    /// Stops the channel, ends every transfer in flight, and restarts it.
    pub(super) async fn recover(&mut self, cause: Cause) {
        self.state = State::Recovering(cause);
        self.finish_what_was_begun().await;
    }

    /// Finishes a recovery or posting whose future was dropped half-way.
    pub(super) async fn finish_what_was_begun(&mut self) {
        if let State::Recovering(cause) = &self.state {
            let cause = cause.clone();
            self.state = match self.stop_and_restart(cause).await {
                Ok(()) => State::Running,
                Err(error @ DriverError::Bus { .. }) => State::Stopped(self.unanswered(error)),
                Err(error) => State::Stopped(TransferFault::Refused(Box::new(error))),
            };
        } else if self.doorbell_due
            && let Err(error) = self.ring_doorbell().await
        {
            self.stop_unanswered(error);
        }
    }

    /// Ends everything in flight: the device knows of some of it, but no longer answers.
    pub(super) fn stop_unanswered(&mut self, error: DriverError) {
        let fault = self.unanswered(error);
        self.fail_all(&fault, None, None);
        self.state = State::Stopped(fault);
    }

    /// Returns the error of a failed recovery.
    pub(super) fn check_recovered(&self) -> Result<()> {
        match &self.state {
            State::Stopped(TransferFault::NoAnswer(error) | TransferFault::Refused(error)) => {
                Err((**error).clone())
            }
            State::Stopped(fault) => Err(self.refused(fault.kind(), fault.to_string())),
            State::Running | State::Recovering(_) => Ok(()),
        }
    }

    fn stop_and_restart(&mut self, cause: Cause) -> Call<'_, Result<()>> {
        Box::pin(async move {
            if let Err(error) = self.stop(&cause).await {
                let fault = self.unanswered(error.clone());
                self.give_up(&cause, &fault, None);
                return Err(error);
            }
            let connection = self.connection();
            connection::restart(&self.device, self.key(), connection.as_deref()).await?;
            // From here on the device neither reads nor writes anything posted earlier.
            self.quarantine.clear();
            self.applied = connection.as_ref().map(Arc::downgrade);
            self.status.clear().map_err(|error| self.slot.shared.bus_error(error))?;
            // Numbers restart at 0: an older transfer would be mistaken for a new one.
            let left = self.pending.len();
            assert!(left == 0, "{left} transfers are on their way through a restart");
            (self.posted, self.completed, self.seen, self.doorbell_due) = (0, 0, 0, false);
            self.unwritten.clear();
            self.line_due = None;
            self.has_unposted = false;
            self.let_run(connection.as_deref()).await?;
            self.statistics.restarts += 1;
            Ok(())
        })
    }

    /// Stops the channel and ends the transfers in flight.
    async fn stop(&mut self, cause: &Cause) -> Result<()> {
        let control = self.running() & !channel::control::RUN.mask();
        stop_and_wait(&self.device, self.slot.registers(), control).await?;
        let mut report = self.report_of_registers().await?;
        if let Some(connection) = self.connection() {
            // A peer that does not answer cannot tell; the restart finds that out.
            report.missing_bytes = connection.settle().await.unwrap_or(0);
        }
        self.distrust(&mut report);
        self.complete_up_to(report.completed);
        let fault = match cause {
            // Meanwhile the engine found a fault itself.
            _ if is_stopped(report.status) => self.fault_of(report.status),
            Cause::Fault(fault) => fault.clone(),
            Cause::NoAnswer(error) => self.unanswered(error.clone()),
            Cause::Cancelled | Cause::Deadline(_) => TransferFault::Cancelled,
        };
        self.give_up(cause, &fault, Some(&report));
        Ok(())
    }

    /// Ends the transfers in flight with a known fault.
    fn give_up(&mut self, cause: &Cause, fault: &TransferFault, report: Option<&Report>) {
        match cause {
            Cause::Deadline(now) if *fault == TransferFault::Cancelled => {
                let detected = self.detected();
                self.fail_all(fault, report, Some((*now, &detected)));
            }
            _ => self.fail_all(fault, report, None),
        }
    }

    /// Stops the channel for good.
    pub(super) async fn shut(&mut self) -> Result<()> {
        self.state = State::Recovering(Cause::Cancelled);
        self.stop(&Cause::Cancelled).await?;
        if let Some(connection) = self.connection() {
            connection.settle().await?;
        }
        // The receive queue keeps its counts until a channel is opened to it again.
        connection::restart(&self.device, self.key(), None).await?;
        self.quarantine.clear();
        self.state = State::Stopped(TransferFault::Cancelled);
        self.is_closed = true;
        Ok(())
    }

    /// Finds why the device does not answer.
    fn unanswered(&self, error: DriverError) -> TransferFault {
        self.link_down().unwrap_or_else(|| TransferFault::NoAnswer(Box::new(error)))
    }

    /// Decodes the fault of a status register. If a read got no answer or Unsupported Request, a
    /// link of the path that is down explains more.
    pub(super) fn fault_of(&self, status: u32) -> TransferFault {
        let fault = TransferFault::from_code(channel::status::ERROR.get(status));
        match fault {
            TransferFault::CompletionTimeout | TransferFault::UnsupportedRequest => {
                self.link_down().unwrap_or(fault)
            }
            _ => fault,
        }
    }

    /// Returns every port between this device and the far end of its first transfer, as the tree
    /// was when the device was opened.
    fn path(&self) -> Vec<FunctionInfo> {
        let functions = &self.slot.shared.functions;
        let far_end = match self.pending.front().map(|pending| &pending.target) {
            Some(Target::Peer(memory, _) | Target::PeerCard(memory, ..)) => {
                Some(PathEnd::Function(memory.function()))
            }
            Some(Target::Bus(address, _)) => {
                let holds = |info: &&FunctionInfo| info.bars.iter().any(|b| b.contains(*address));
                functions.iter().find(holds).map(|info| PathEnd::Function(info.id))
            }
            _ => None,
        };
        let here = PathEnd::Function(self.device.function().id);
        let far_end = far_end.unwrap_or(PathEnd::HostMemory);
        let (from, to) = match self.key().0 {
            ChannelKind::H2c => (far_end, here),
            ChannelKind::C2h | ChannelKind::Peer => (here, far_end),
        };
        plan::path_as_it_was(self.device.bus(), functions, from, to)
    }

    /// Finds a link of the path that is down.
    pub(super) fn link_down(&self) -> Option<TransferFault> {
        let port = plan::link_down(self.device.bus(), &self.path())?;
        Some(TransferFault::LinkDown { port })
    }

    /// Lists the ports of the path that have detected errors since the channel was opened. Clears
    /// their bits, so that they show the next error.
    pub(super) fn detected(&self) -> Vec<PortErrors> {
        let mut detected = Vec::new();
        for info in self.path() {
            let Ok(port) = Port::new(self.device.bus(), &info) else { continue };
            let before = self.baseline.iter().find(|(id, _)| *id == info.id);
            let Ok(bits) = port.detected_errors() else { continue };
            let new = bits & !before.map_or(0, |(_, bits)| *bits);
            if new != 0 {
                detected.push(detected_by(&info.name, new));
                // A bit that cannot be cleared is reported again.
                let _ = port.clear_errors(new);
            }
        }
        detected
    }
}
