// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of how transfers end: by their deadlines, and only with errors that the diary explains.

use std::rc::Rc;

use crosslane_driver::{
    ChannelKind, Completed, CompletionLevel, DriverError, Ticket, Transfer, TransferError,
    TransferFault,
};
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::check::{Check, check};
use crate::fault::Fault;
use crate::line::{BadWord, Line, TRIES};
use crate::scene::us;

/// The end of a transfer, as far as the line knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Whole,
    /// This many bytes and no more.
    Moved(u64),
    Unknown,
}

/// Longest completion time-out that congestion alone can reach.
const SHORT_TIMEOUT: Picoseconds = us(1_000);
/// Time by which a wait may outlast its deadline: stopping a channel takes register reads, each up
/// to 50 ms if a link is down.
const BEYOND_DEADLINE: Picoseconds = us(1_000_000);

impl Line {
    /// Waits for the transfers of a batch, each by a random kind of wait and in any order.
    pub async fn resolve(&mut self, transfers: &[Transfer], outcomes: &mut [Outcome]) {
        let first = self.tickets - transfers.len() as u64;
        let mut order: Vec<usize> = (0..transfers.len()).collect();
        self.rng.shuffle(&mut order);
        let mut unknown = transfers.len();
        let mut errors = Vec::new();
        for index in order {
            let ticket = Ticket(first + index as u64);
            let begun = self.world.bus.now();
            let result = self.wait(ticket).await;
            let transfer = &transfers[index];
            self.check_end(begun, transfer.deadline);
            outcomes[index] = match result {
                Ok(completed) => self.completed(transfer, index, completed),
                Err(error) => {
                    self.note(|| format!("transfer {index}: {error}"));
                    let outcome = self.outcome_of(&error, transfer, index, &mut unknown);
                    errors.push(error.fault);
                    outcome
                }
            };
            if self.rng.u8(..4) == 0 {
                let again = self.channel().wait(ticket).await;
                let is_given = |fault: &TransferFault| match fault {
                    TransferFault::Refused(error) => matches!(**error, DriverError::Given { .. }),
                    _ => false,
                };
                let is_refused = again.as_ref().is_err_and(|error| is_given(&error.fault));
                let again = again.map_err(|error| error.to_string());
                check!(Check::Whole, is_refused, "{}: given twice: {again:?}", self.name());
            }
        }
        self.check_cancelled(&errors, transfers);
        // If the end of one is unknown, so are those behind it.
        outcomes.iter_mut().skip(unknown).for_each(|outcome| {
            if *outcome != Outcome::Whole {
                *outcome = Outcome::Unknown;
            }
        });
    }

    /// Checks that a wait that began at `begun` ends in time.
    fn check_end(&self, begun: Picoseconds, deadline: Picoseconds) {
        let latest = deadline.max(begun).0.saturating_add(BEYOND_DEADLINE.0);
        let now = self.world.bus.now();
        check!(
            Check::NoHang,
            now.0 <= latest,
            "{}: a wait for what was due at {deadline} ended at {now} only",
            self.name()
        );
    }

    fn completed(&mut self, transfer: &Transfer, index: usize, completed: Completed) -> Outcome {
        let total = transfer.target.bytes();
        let bytes = completed.bytes;
        check!(Check::Whole, bytes == total, "{}: {bytes} of {total} B complete", self.name());
        if transfer.level == CompletionLevel::Accepted {
            self.all_known = false;
            return Outcome::Unknown;
        }
        if let Some(bad) = self.bad.filter(|bad| bad.index == index) {
            let BadWord { fault, address, .. } = bad;
            Check::RightError.fail(format!(
                "{}: transfer {index} is complete, and yet there was {fault} at {address:#x}",
                self.name()
            ));
        }
        self.proven = self.proven.max(completed.posted);
        self.whole_bytes += total;
        Outcome::Whole
    }

    /// Whether a matching fault explains an error now.
    fn explains(&self, such: impl Fn(Fault) -> bool) -> bool {
        self.world.has(self.touches, self.proven, such)
    }

    fn outcome_of(
        &self,
        error: &TransferError,
        transfer: &Transfer,
        index: usize,
        unknown: &mut usize,
    ) -> Outcome {
        let total = transfer.target.bytes();
        let is_possible = error.total_bytes == total && error.moved_bytes <= total;
        check!(Check::Whole, is_possible, "{error}, which has {total} B");
        let is_bad = self.bad.filter(|bad| bad.index == index);
        let is_right = match &error.fault {
            TransferFault::Deadline { deadline, .. } => {
                self.world.count(Fault::Deadline);
                *deadline == transfer.deadline && *deadline <= self.world.bus.now()
            }
            // Checked against the others of the batch.
            TransferFault::Cancelled => true,
            TransferFault::NotBusMaster => self.explains(|fault| fault == Fault::BusMasterOff),
            TransferFault::UnsupportedRequest => {
                is_bad.is_some_and(|bad| bad.fault == Fault::Refused)
                    || self.explains(Fault::refuses)
            }
            TransferFault::Poisoned => {
                is_bad.is_some_and(|bad| bad.fault == Fault::Poisoned)
                    || self.explains(|fault| fault == Fault::PoisonedTlp)
            }
            // One too many, one of several missing, or one that arrived after its tag was reused.
            TransferFault::MalformedCompletion => {
                self.explains(|fault| matches!(fault, Fault::Doubled | Fault::LostRead))
                    || self.has_short_timeout()
            }
            TransferFault::CompleterAbort => {
                is_bad.is_some_and(|bad| bad.fault == Fault::CompleterAbort)
            }
            TransferFault::CompletionTimeout => {
                is_bad.is_some_and(|bad| matches!(bad.fault, Fault::NoAnswer | Fault::Late))
                    || self.explains(Fault::starves)
                    || self.has_short_timeout()
            }
            // The store of its descriptor into the engine's table was lost.
            TransferFault::BadDescriptor => self.has_table && self.explains(Fault::loses_writes),
            TransferFault::LinkDown { .. } | TransferFault::LinkLost => {
                self.explains(|fault| matches!(fault, Fault::LinkDown | Fault::Removal))
            }
            TransferFault::NoAnswer(_) | TransferFault::Refused(_) => {
                self.explains(Fault::cuts_off)
            }
            _ => false,
        };
        check!(Check::RightError, is_right, "nothing was done to it, and yet: {error}");
        if let Some(bad) = is_bad {
            self.check_place(error, bad);
        }
        match error.fault {
            TransferFault::LinkDown { .. }
            | TransferFault::LinkLost
            | TransferFault::NoAnswer(_)
            | TransferFault::Refused(_) => {
                *unknown = index.min(*unknown);
                Outcome::Unknown
            }
            _ => Outcome::Moved(error.moved_bytes),
        }
    }

    /// Whether its engine gives up reads that were merely slow.
    pub fn has_short_timeout(&self) -> bool {
        let number = self.own.trailing_zeros() as usize;
        self.world.engines[number].timeout <= SHORT_TIMEOUT
    }

    /// Checks the position of an error: memory with a fault stops the transfer at the read that
    /// meets it, no later than the faulty byte.
    fn check_place(&self, error: &TransferError, bad: BadWord) {
        let moved = error.moved_bytes;
        check!(
            Check::RightError,
            moved <= bad.offset,
            "{error}, though there is {} at byte {}",
            bad.fault,
            bad.offset
        );
        let read_bytes = u64::from(self.device.description().max_read_bytes);
        let is_its_own = match error.fault {
            TransferFault::Poisoned => !self.explains(|fault| fault == Fault::PoisonedTlp),
            TransferFault::CompleterAbort => true,
            _ => false,
        };
        if !is_its_own {
            return;
        }
        let is_near = moved + read_bytes > bad.offset;
        let is_there = error.address.is_some_and(|address| {
            address.0 <= bad.address && bad.address < address.0 + read_bytes
        });
        check!(
            Check::RightError,
            is_near && is_there,
            "{error}, though there is {} at byte {}, {:#x}",
            bad.fault,
            bad.offset,
            bad.address
        );
    }

    /// Checks that a cancelled transfer stood behind a failed one, or was cancelled on purpose.
    fn check_cancelled(&self, errors: &[TransferFault], transfers: &[Transfer]) {
        let is_cancelled = |fault: &TransferFault| *fault == TransferFault::Cancelled;
        let now = self.world.bus.now();
        let is_explained = self.cancelled
            || !errors.iter().any(is_cancelled)
            || !errors.iter().all(is_cancelled)
            // The end of such a transfer is not reported.
            || transfers.iter().any(|transfer| transfer.level == CompletionLevel::Accepted)
            || transfers.iter().any(|transfer| transfer.deadline <= now);
        check!(Check::RightError, is_explained, "{}: cancelled, and nobody did", self.name());
    }

    async fn wait(&mut self, ticket: Ticket) -> Result<Completed, TransferError> {
        let world = Rc::clone(&self.world);
        let span = Picoseconds(self.rng.u64(..200_000_000));
        let style = self.rng.u8(..16);
        let channel = self.channel();
        match style {
            0..=2 => {
                for _ in 0..8 {
                    if let Some(completed) = channel.poll(ticket).await? {
                        return Ok(completed);
                    }
                    world.sleep(span).await;
                }
            }
            3..=5 => {
                if let Some(result) = world.within(span, channel.wait(ticket)).await {
                    return result;
                }
                world.count(Fault::Dropped);
            }
            6 => {
                world.sleep(span).await;
                let is_whole = world.within(span, channel.cancel()).await.is_some();
                world.count(Fault::Cancel);
                (self.cancelled, self.upsets) = (true, self.upsets + 1);
                self.note(|| format!("cancelled: {is_whole}"));
            }
            _ => {}
        }
        self.channel().wait(ticket).await
    }

    /// Lets the channel come to rest, running and idle; or ends if an engine of its stream is gone.
    pub async fn settle(&mut self) {
        let world = Rc::clone(&self.world);
        for n in 0..TRIES {
            if self.is_over() || self.channel.is_none() {
                return;
            }
            let begun = world.bus.now();
            let channel = self.channel();
            match channel.post(&[]).await {
                Ok(_) => {
                    let statistics = channel.statistics();
                    if statistics.completed + statistics.failed == statistics.posted {
                        return;
                    }
                    if n % 8 == 7 {
                        self.upsets += 1;
                        if self.channel().cancel().await.is_ok() {
                            self.proven = begun;
                        }
                    } else {
                        world.sleep(us(50)).await;
                    }
                }
                Err(error) => {
                    self.expect(&error);
                    self.upsets += 1;
                    match self.channel().restart().await {
                        Ok(()) => self.proven = begun,
                        Err(error) => {
                            self.expect(&error);
                            world.sleep(us(300)).await;
                        }
                    }
                }
            }
        }
        Check::NoHang.fail(format!("{}: it does not come to rest", self.name()));
    }

    /// Closes the channel.
    pub async fn close(&mut self) {
        let statistics = self.channel().statistics();
        let is_right = statistics.completed + statistics.failed == statistics.posted
            && statistics.posted == self.tickets
            && statistics.bytes >= self.whole_bytes
            && (!self.all_known || statistics.bytes == self.whole_bytes);
        check!(
            Check::Registers,
            is_right,
            "{}: {statistics:?}, and {} tickets, {} B complete",
            self.name(),
            self.tickets,
            self.whole_bytes
        );
        let channel = self.channel.take().expect("the line is open");
        self.upsets += 1;
        if let Err(error) = channel.close().await {
            self.expect(&error);
        }
    }

    /// Notes that the last transfer of its chain failed: the ends of posted transfers are unknown.
    pub fn give_up_last(&mut self) {
        self.tickets = self.channel().statistics().posted;
        (self.all_known, self.exact) = (false, false);
    }

    /// Counts a transfer made at the end.
    pub fn note_last(&mut self, bytes: u64) {
        self.tickets += 1;
        self.whole_bytes += bytes;
        if self.key.0 == ChannelKind::H2c {
            self.position += (bytes / 4) as u32;
        }
    }
}
