// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The faults, and their diary: an error is right only if the diary explains it.

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

/// A kind of fault.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr, VariantArray,
)]
pub enum Fault {
    /// A link with bit errors, for the whole seed.
    #[strum(to_string = "bit errors")]
    BitErrors,
    /// A link that is down for a moment.
    #[strum(to_string = "link down")]
    LinkDown,
    /// A link that goes down and never comes up again.
    #[strum(to_string = "surprise removal")]
    Removal,
    /// Bus Master Enable off for a while.
    #[strum(to_string = "bus master off")]
    BusMasterOff,
    /// A switch that believes for a while that host memory is behind one of its ports.
    #[strum(to_string = "requests astray")]
    Astray,
    /// Memory whose data are poisoned.
    #[strum(to_string = "poisoned data")]
    Poisoned,
    /// Memory that answers with Completer Abort.
    #[strum(to_string = "Completer Abort")]
    CompleterAbort,
    /// Memory that answers with Unsupported Request.
    #[strum(to_string = "Unsupported Request")]
    Refused,
    /// Memory that never answers.
    #[strum(to_string = "lost completion")]
    NoAnswer,
    /// Memory that answers after the completion time-out.
    #[strum(to_string = "late completion")]
    Late,
    /// A completion that is poisoned on its way to an engine.
    #[strum(to_string = "poisoned completion")]
    PoisonedTlp,
    /// A write that is poisoned on its way to an engine or to memory.
    #[strum(to_string = "poisoned write")]
    PoisonedWrite,
    /// A read of an engine, or its completion, lost on its way.
    #[strum(to_string = "lost read")]
    LostRead,
    /// A write lost on its way.
    #[strum(to_string = "lost write")]
    LostWrite,
    /// A completion that arrives twice.
    #[strum(to_string = "doubled completion")]
    Doubled,
    /// The root complex, or an engine, that accepts nothing for a while.
    #[strum(to_string = "stall")]
    Stall,
    /// A channel that is cancelled.
    #[strum(to_string = "cancel")]
    Cancel,
    /// A future or a channel dropped in the middle.
    #[strum(to_string = "drop")]
    Dropped,
    /// A deadline that passes.
    #[strum(to_string = "deadline")]
    Deadline,
}

impl Fault {
    /// All kinds, in order.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns its name.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether it may lose posted writes unnoticed.
    pub const fn loses_writes(self) -> bool {
        self.refuses() || self.swallows_unseen()
    }

    /// Whether it may lose single writes unnoticed, but not those behind them.
    pub const fn swallows_unseen(self) -> bool {
        matches!(self, Self::Astray | Self::LostWrite | Self::PoisonedWrite)
    }

    /// Whether it may cause requests to be refused or left unanswered.
    pub const fn refuses(self) -> bool {
        matches!(self, Self::LinkDown | Self::Removal | Self::Astray)
    }

    /// Whether it may leave reads of an engine unanswered.
    pub const fn starves(self) -> bool {
        self.refuses() || matches!(self, Self::LostRead)
    }

    /// Whether it may lose register accesses or leave them unanswered.
    pub const fn cuts_off(self) -> bool {
        self.loses_writes()
    }
}

/// Number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCounts([u64; Fault::ALL.len()]);

impl FaultCounts {
    /// Counts a fault.
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Returns the number of faults of this kind.
    pub const fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Returns the number of all faults.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// A set of engines, one bit each, by their numbers in the lab.
pub type Engines = u64;

/// An entry of the diary.
#[derive(Clone, Copy, Debug)]
struct Entry {
    fault: Fault,
    engines: Engines,
    begin: Picoseconds,
    /// `None` while it lasts.
    end: Option<Picoseconds>,
}

/// The faults of a seed, with their engines and times.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    entries: Vec<Entry>,
    pub counts: FaultCounts,
}

impl Diary {
    /// Notes the start of a fault. Returns its number, for [`end`](Self::end).
    pub fn begin(&mut self, fault: Fault, engines: Engines, now: Picoseconds) -> usize {
        self.counts.count(fault);
        self.entries.push(Entry { fault, engines, begin: now, end: None });
        self.entries.len() - 1
    }

    /// Notes the end of a fault.
    pub fn end(&mut self, number: usize, now: Picoseconds) {
        self.entries[number].end = Some(now);
    }

    /// Whether one of these engines had a matching fault at or after `since`.
    pub fn has(&self, engines: Engines, since: Picoseconds, such: impl Fn(Fault) -> bool) -> bool {
        self.entries.iter().any(|entry| {
            let is_over = entry.end.is_some_and(|end| end < since);
            entry.engines & engines != 0 && !is_over && such(entry.fault)
        })
    }

    /// Whether one of these engines had a matching fault at that time.
    pub fn had(&self, engines: Engines, at: Picoseconds, such: impl Fn(Fault) -> bool) -> bool {
        self.entries.iter().any(|entry| {
            let is_in_it = entry.begin <= at && entry.end.is_none_or(|end| at <= end);
            entry.engines & engines != 0 && is_in_it && such(entry.fault)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diary_knows_whom_a_fault_has_touched_and_until_when() {
        let mut diary = Diary::default();
        let number = diary.begin(Fault::LinkDown, 0b0110, Picoseconds(50));
        let is = |fault| move |other| other == fault;
        assert!(diary.has(0b0100, Picoseconds(90), is(Fault::LinkDown)));
        assert!(!diary.has(0b1001, Picoseconds(0), is(Fault::LinkDown)));
        diary.end(number, Picoseconds(80));
        assert!(diary.has(0b0010, Picoseconds(80), Fault::loses_writes));
        assert!(!diary.has(0b0010, Picoseconds(81), Fault::loses_writes));
        assert!(!diary.has(0b0010, Picoseconds(0), is(Fault::Poisoned)));
        let had = |at| diary.had(0b0110, Picoseconds(at), is(Fault::LinkDown));
        assert_eq!([49, 50, 80, 81].map(had), [false, true, true, false]);
        assert!(!diary.had(0b1001, Picoseconds(60), is(Fault::LinkDown)));
        assert_eq!((diary.counts.of(Fault::LinkDown), diary.counts.sum()), (1, 1));
    }
}
