// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Learning of completions: from the status block, from interrupts, and by a check of registers and
//! links if neither arrives. Results of ended transfers are kept until their caller fetches them.

use std::collections::VecDeque;

use crosslane_host::ErrorKind::InvalidArgument;
use crosslane_host::{Bus, BusError};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::{ChannelError, ChannelState, channel};

use super::descriptors::{Report, StatusBlock, pieces};
use super::options::{ChannelKind, Completed, CompletionLevel, Notification, Statistics, Ticket};
use super::recovery::Cause;
use super::{Channel, Pending, State};
use crate::error::{DriverError, PortErrors, Result, TransferError, TransferFault};

/// Time without news before a wait first checks for faults; doubled each time. Long compared with
/// any transfer that moves, short compared with a person's patience.
const FIRST_LOOK: Picoseconds = Picoseconds::from_ms(10);
/// Longest time between two checks.
const LONGEST_LOOK: Picoseconds = Picoseconds::from_secs(1);
/// Most checks of one wait. A fault not found by then will not be found by checking: the deadline
/// decides.
const LOOKS: u32 = 64;

/// Count of the checks for faults that one wait has made.
#[derive(Debug, Default)]
pub(super) struct Watch {
    looks: u32,
}

impl Watch {
    /// Returns the time of the next check.
    fn next(&self, now: Picoseconds) -> Picoseconds {
        if self.looks >= LOOKS {
            return Picoseconds::NEVER;
        }
        // Seven doublings reach the longest span.
        let span_ps = (FIRST_LOOK.0 << self.looks.min(7)).min(LONGEST_LOOK.0);
        Picoseconds(now.0.saturating_add(span_ps))
    }
}

/// Most results kept: twice the entries of the largest ring. The oldest is dropped first.
pub(super) const KEPT_RESULTS: usize = 1 << 17;

pub(super) type Outcome = Result<Completed, TransferError>;

/// Knowledge about a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The ticket's operation has ended with this result.
    Ended(Box<Outcome>),
    /// The ticket's result was given out already, or is forgotten.
    Gone,
    /// The ticket's operation has not ended.
    NotYet,
}

/// Results in the order of their tickets.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// Ticket of the first entry.
    first: u64,
    kept: VecDeque<Option<Outcome>>,
}

impl Results {
    /// Adds the result of the next ticket; `None` if it has been given out already.
    pub fn push(&mut self, outcome: Option<Outcome>) {
        self.kept.push_back(outcome);
        if self.kept.len() > KEPT_RESULTS {
            self.kept.pop_front();
            self.first += 1;
        }
        self.drop_given();
        let kept = self.kept.len();
        assert!(kept <= KEPT_RESULTS, "{kept} results are kept, of {KEPT_RESULTS} at most");
    }

    /// Returns the first ticket without a result.
    pub fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Takes the result of a ticket; it is given out once.
    pub fn take(&mut self, Ticket(ticket): Ticket) -> Known {
        let Some(index) = ticket.checked_sub(self.first) else { return Known::Gone };
        let Some(slot) = self.kept.get_mut(index as usize) else { return Known::NotYet };
        let taken = slot.take();
        self.drop_given();
        taken.map_or(Known::Gone, |outcome| Known::Ended(Box::new(outcome)))
    }

    /// Whether a ticket has ended with an error that has not been given out.
    pub fn has_failed(&self, Ticket(ticket): Ticket) -> bool {
        let index = ticket.checked_sub(self.first);
        let slot = index.and_then(|index| self.kept.get(index as usize));
        matches!(slot, Some(Some(Err(_))))
    }

    fn drop_given(&mut self) {
        while let Some(None) = self.kept.front() {
            self.kept.pop_front();
            self.first += 1;
        }
    }
}

impl Channel {
    /// Waits until a transfer is complete, has failed, or its deadline has passed. A missed
    /// deadline, even of an earlier transfer, cancels everything posted to the channel, which is
    /// then stopped, restarted and ready for new transfers.
    ///
    /// # Errors
    /// The fault, with how much was moved.
    pub async fn wait(&mut self, ticket: Ticket) -> Result<Completed, TransferError> {
        let mut watch = Watch::default();
        loop {
            self.finish_what_was_begun().await;
            self.reap_unasked();
            if let Some(known) = self.known(ticket) {
                return known;
            }
            // Posted and not ended, so it is in `pending`.
            let behind = (self.next_ticket - ticket.0) as usize;
            let index = self.pending.len().saturating_sub(behind);
            self.advance(index, &mut watch, Picoseconds::NEVER).await;
        }
    }

    /// Checks without waiting whether a transfer is complete; handles a missed deadline as
    /// [`wait`](Self::wait) does.
    ///
    /// # Errors
    /// See [`wait`](Self::wait).
    pub async fn poll(&mut self, ticket: Ticket) -> Result<Option<Completed>, TransferError> {
        self.finish_what_was_begun().await;
        self.reap();
        if let Some(known) = self.known(ticket) {
            return known.map(Some);
        }
        let behind = (self.next_ticket - ticket.0) as usize;
        let index = self.pending.len().saturating_sub(behind);
        let now = self.device.bus().now();
        if self.earliest_deadline(index) > now {
            return Ok(None);
        }
        self.recover(Cause::Deadline(now)).await;
        self.known(ticket).transpose()
    }

    /// Returns the result of a ticket if it has one already.
    fn known(&mut self, ticket: Ticket) -> Option<Result<Completed, TransferError>> {
        if ticket.0 >= self.next_ticket {
            let problem = format!("transfer {} has not been posted", ticket.0);
            return Some(Err(self.refusal(self.refused(InvalidArgument, problem), 0)));
        }
        match self.results.take(ticket) {
            Known::Ended(outcome) => return Some(*outcome),
            Known::Gone => return Some(Err(self.given(ticket))),
            Known::NotYet => {}
        }
        let behind = (self.next_ticket - ticket.0) as usize;
        let index = self.pending.len().checked_sub(behind)?;
        let pending = &mut self.pending[index];
        if pending.level != CompletionLevel::Accepted {
            return None;
        }
        if std::mem::replace(&mut pending.is_given, true) {
            return Some(Err(self.given(ticket)));
        }
        let (bytes, posted) = (pending.total_bytes, pending.posted);
        Some(Ok(Completed { bytes, posted, completed: posted }))
    }

    /// Error of a result that is asked for again.
    fn given(&self, Ticket(ticket): Ticket) -> TransferError {
        self.refusal(DriverError::Given { channel: self.place(), ticket }, 0)
    }

    /// Takes one step towards the end of a transfer: sleeps until news, a deadline, the next check
    /// or `until`.
    pub(super) async fn advance(&mut self, last: usize, watch: &mut Watch, until: Picoseconds) {
        let now = self.device.bus().now();
        let deadline = self.earliest_deadline(last);
        if deadline <= now {
            self.recover(Cause::Deadline(now)).await;
            return;
        }
        let look = watch.next(now);
        match self.sleep(look.min(deadline).min(until)).await {
            Ok(()) => {}
            Err(BusError::Deadline { .. }) if look <= deadline.min(until) => {
                watch.looks += 1;
                self.look_closer().await;
            }
            Err(BusError::Deadline { .. }) => {}
            Err(error) => {
                let error = self.slot.shared.bus_error(error);
                self.recover(Cause::NoAnswer(error)).await;
            }
        }
        self.reap();
    }

    /// Sleeps until the engine reports something.
    async fn sleep(&self, until: Picoseconds) -> Result<(), BusError> {
        let bus = self.device.bus();
        match (self.options.notification, self.slot.vector) {
            (Notification::Interrupt | Notification::InterruptOnly, Some(vector)) => {
                let function = self.device.function().id;
                bus.wait_interrupt(function, vector, until).await?;
            }
            _ if self.receives_packets() => {
                let (memory, offset_bytes) = self.next_record();
                bus.wait_memory(memory, offset_bytes, 0, until).await?;
            }
            _ => {
                let memory = self.status.memory.memory();
                bus.wait_memory(memory, StatusBlock::SEQUENCE, self.seen, until).await?;
            }
        }
        Ok(())
    }

    /// Reads the status block and takes in any news.
    pub(super) fn reap(&mut self) {
        if !matches!(self.state, State::Running) {
            return;
        }
        self.reap_records();
        // The memory was allocated for the status block, so this cannot fail.
        let Ok(mut report) = self.status.read() else { return };
        if report.sequence == self.seen {
            return;
        }
        if is_stopped(report.status) {
            // The engine writes nothing after that: a second read sees the whole block.
            report = self.status.read().unwrap_or(report);
        }
        self.seen = report.sequence;
        self.take_in(report);
    }

    /// Reads the status block unasked, unless the channel waits for interrupts only.
    pub(super) fn reap_unasked(&mut self) {
        if self.options.notification != Notification::InterruptOnly {
            self.reap();
        }
    }

    /// Corrects the report of a channel stopped by a lost link: it knows only that writes were
    /// handed to the link. Whatever a status block had confirmed before has arrived.
    pub(super) fn distrust(&self, report: &mut Report) {
        let error = channel::status::ERROR.get(report.status);
        let is_lost = is_stopped(report.status) && error == ChannelError::LinkDown.bits();
        if is_lost && self.key().0 != ChannelKind::H2c {
            report.completed = self.completed as u32;
            report.stopped_at_bytes = 0;
        }
    }

    fn take_in(&mut self, mut report: Report) {
        self.distrust(&mut report);
        self.complete_up_to(report.completed);
        if is_stopped(report.status) {
            let fault = self.fault_of(report.status);
            self.fail_all(&fault, Some(&report), None);
            // A stopped channel sends nothing more, and its report came after its last data.
            self.quarantine.clear();
            self.state = State::Stopped(fault);
        }
    }

    /// Takes in the engine's count of completed descriptors.
    pub(super) fn complete_up_to(&mut self, completed: u32) {
        self.reap_records();
        self.note_lost_records(completed);
        self.end_up_to(completed);
    }

    /// Ends the transfers whose descriptors are complete.
    pub(super) fn end_up_to(&mut self, completed: u32) {
        let further = u64::from(completed.wrapping_sub(self.completed as u32));
        // A count that cannot be right is ignored; the driver's own account must hold.
        let (posted, before) = (self.posted, self.completed);
        assert!(before <= posted, "{before} descriptors are complete, and {posted} were posted");
        if further <= posted - before {
            self.completed += further;
        }
        let is_complete = |pending: &Pending| pending.end <= self.completed;
        if !self.pending.front().is_some_and(is_complete) {
            return;
        }
        // A port may refuse payloads while the status write after them gets through.
        let refused = if self.options.oversize { self.detected() } else { Vec::new() };
        let now = self.device.bus().now();
        while let Some(pending) = self.pending.front() {
            if pending.end > self.completed {
                break;
            }
            let (bytes, posted) = (pending.total_bytes, pending.posted);
            let outcome = if refused.is_empty() {
                self.statistics.completed += 1;
                self.statistics.bytes += bytes;
                Ok(Completed { bytes, posted, completed: now })
            } else {
                self.statistics.failed += 1;
                Err(TransferError {
                    channel: self.place(),
                    fault: TransferFault::Detected { ports: refused.clone() },
                    moved_bytes: 0,
                    total_bytes: bytes,
                    address: None,
                })
            };
            let is_given = pending.is_given;
            self.pending.pop_front();
            self.results.push((!is_given).then_some(outcome));
        }
        self.assert_agrees();
    }

    /// Asserts that each posted transfer is in flight, or has ended once with a result.
    pub(super) fn assert_agrees(&self) {
        let Statistics { posted, completed, failed, .. } = self.statistics;
        let on_their_way = self.pending.len() as u64;
        assert!(
            posted == completed + failed + on_their_way,
            "of {posted} transfers {completed} are complete, {failed} have failed and \
             {on_their_way} are on their way"
        );
        let (tickets, results) = (self.next_ticket, self.results.end());
        assert!(
            tickets == results + on_their_way,
            "{tickets} tickets, {results} results and {on_their_way} transfers on their way"
        );
    }

    /// Ends every transfer in flight: the first with `fault`, the later ones as cancelled. With
    /// `expired`, those past their deadline get that as their fault.
    pub(super) fn fail_all(
        &mut self,
        fault: &TransferFault,
        report: Option<&Report>,
        expired: Option<(Picoseconds, &[PortErrors])>,
    ) {
        self.unwritten.clear();
        let handed = self.pending.iter().map(|pending| self.handed_bytes(pending, report));
        let missing = report.map_or(0, |report| u64::from(report.missing_bytes));
        let mut arrived = handed.sum::<u64>().saturating_sub(missing);
        let mut is_first = true;
        while let Some(mut pending) = self.pending.pop_front() {
            // Missing bytes belong to the last ones sent.
            let moved_bytes = self.handed_bytes(&pending, report).min(arrived);
            let total = pending.total_bytes;
            assert!(
                moved_bytes <= total && moved_bytes <= arrived,
                "{moved_bytes} B of a transfer of {total} B were moved, of {arrived} B in all"
            );
            arrived -= moved_bytes;
            let own = match expired {
                Some((now, detected)) if pending.deadline <= now => TransferFault::Deadline {
                    deadline: pending.deadline,
                    detected: detected.to_vec(),
                },
                _ if is_first => fault.clone(),
                _ => TransferFault::Cancelled,
            };
            let named = is_first && own == *fault && names_address(fault);
            let address = report.filter(|_| named).map(|report| report.error);
            let error = TransferError {
                channel: self.place(),
                fault: own,
                moved_bytes,
                total_bytes: pending.total_bytes,
                address: address.filter(|&address| address != BusAddress(0)),
            };
            is_first = false;
            self.statistics.failed += 1;
            self.quarantine.extend(pending.claim.take());
            self.results.push((!pending.is_given).then_some(Err(error)));
        }
        self.assert_agrees();
    }

    /// Returns the bytes that the engine has moved of an incomplete transfer.
    fn handed_bytes(&self, pending: &Pending, report: Option<&Report>) -> u64 {
        let Some(whole) = self.completed.checked_sub(pending.first) else { return 0 };
        let pieces = pieces(&pending.target, pending.connection.as_deref());
        let bytes = pieces.iter().map(|&(_, bytes)| u64::from(bytes));
        let done: u64 = bytes.clone().take(whole as usize).sum();
        let begun = bytes.clone().nth(whole as usize).unwrap_or(0);
        let part = report.map_or(0, |report| u64::from(report.stopped_at_bytes));
        done + part.min(begun)
    }

    /// Looks for the reason of a silence: a link that is down, a lost status write, or a channel
    /// that could not send one.
    async fn look_closer(&mut self) {
        if let Some(fault) = self.link_down() {
            self.recover(Cause::Fault(fault)).await;
            return;
        }
        let looked = match self.report_of_registers().await {
            Ok(report) => {
                self.take_in(report);
                self.check_doorbell().await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = looked {
            self.recover(Cause::NoAnswer(error)).await;
        }
    }

    /// Rings again a doorbell that a link has lost. Its value is absolute, so a repeat does no
    /// harm.
    async fn check_doorbell(&mut self) -> Result<()> {
        let is_running = matches!(self.state, State::Running);
        if is_running && self.read(channel::DOORBELL).await? != self.posted as u32 {
            self.doorbell_due = true;
            self.ring_doorbell().await?;
        }
        Ok(())
    }

    /// Reads from the registers what the status block should hold.
    pub(super) async fn report_of_registers(&self) -> Result<Report> {
        // Status first: values read after it are at least as new.
        let status = self.read(channel::STATUS).await?;
        let completed = self.read(channel::COMPLETED).await?;
        let base = self.slot.registers();
        let pair = [base + channel::ERROR_LOW, base + channel::ERROR_HIGH];
        let error = if is_stopped(status) {
            BusAddress(self.device.read_pair(pair[0], pair[1]).await?)
        } else {
            BusAddress(0)
        };
        let stopped_at_bytes = self.read(channel::STOPPED_AT).await?;
        Ok(Report {
            sequence: self.seen,
            completed,
            status,
            stopped_at_bytes,
            error,
            missing_bytes: 0,
        })
    }
}

/// Returns whether a fault concerns an address.
const fn names_address(fault: &TransferFault) -> bool {
    matches!(
        fault,
        TransferFault::UnsupportedRequest
            | TransferFault::CompleterAbort
            | TransferFault::Poisoned
            | TransferFault::CompletionTimeout
            | TransferFault::MalformedCompletion
            | TransferFault::BadDescriptor
            | TransferFault::NotBusMaster
            | TransferFault::CardMemory
    )
}

/// Returns whether a status register says that the channel has stopped.
pub(super) const fn is_stopped(status: u32) -> bool {
    channel::status::STATE.get(status) == ChannelState::Stopped.bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(bytes: u64) -> Outcome {
        Ok(Completed { bytes, posted: Picoseconds::ZERO, completed: Picoseconds(1) })
    }

    #[test]
    fn each_result_is_given_once_in_any_order() {
        let mut results = Results::default();
        for bytes in 0..3 {
            results.push(Some(outcome(bytes)));
        }
        for ticket in [2, 0, 1] {
            assert_eq!(results.take(Ticket(ticket)), Known::Ended(Box::new(outcome(ticket))));
            assert_eq!(results.take(Ticket(ticket)), Known::Gone);
        }
        assert_eq!(results.take(Ticket(3)), Known::NotYet);
        results.push(None);
        assert_eq!(results.take(Ticket(3)), Known::Gone);
    }

    #[test]
    fn the_oldest_results_are_forgotten() {
        let mut results = Results::default();
        for bytes in 0..KEPT_RESULTS as u64 + 2 {
            results.push(Some(outcome(bytes)));
        }
        assert_eq!(results.take(Ticket(1)), Known::Gone);
        assert_eq!(results.take(Ticket(2)), Known::Ended(Box::new(outcome(2))));
    }
}
