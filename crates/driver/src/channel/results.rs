// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of ended transfers that no caller has fetched yet.

use std::collections::VecDeque;

use super::options::{Completed, Ticket};
use crate::error::TransferError;

/// Most results kept: twice the entries of the largest ring. The oldest is dropped first.
pub(super) const KEPT_RESULTS: usize = 1 << 17;

pub(super) type Outcome = Result<Completed, TransferError>;

/// Knowledge about a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It has ended with this result.
    Ended(Box<Outcome>),
    /// Its result was given out already, or is forgotten.
    Gone,
    /// It has not ended.
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

    fn drop_given(&mut self) {
        while let Some(None) = self.kept.front() {
            self.kept.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use crosslane_pcie::units::Picoseconds;

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
