// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The faults, and their diary: an error is right only if the diary explains it.

use std::fmt;

use crosslane_pcie::units::Picoseconds;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A link with bit errors, for the whole seed.
    BitErrors,
    /// A link that is down for a moment.
    LinkDown,
    /// A link that goes down and never comes up again.
    Removal,
    /// Bus Master Enable off for a while.
    BusMasterOff,
    /// A switch that believes for a while that host memory is behind one of its ports.
    Astray,
    /// Memory whose data are poisoned.
    Poisoned,
    /// Memory that answers with Completer Abort.
    CompleterAbort,
    /// Memory that answers with Unsupported Request.
    Refused,
    /// Memory that never answers.
    NoAnswer,
    /// Memory that answers after the completion time-out.
    Late,
    /// A completion that is poisoned on its way to an engine.
    PoisonedTlp,
    /// A write that is poisoned on its way to an engine or to memory.
    PoisonedWrite,
    /// A read of an engine, or its completion, lost on its way.
    LostRead,
    /// A write lost on its way.
    LostWrite,
    /// A completion that arrives twice.
    Doubled,
    /// The root complex, or an engine, that accepts nothing for a while.
    Stall,
    /// A channel that is cancelled.
    Cancel,
    /// A future or a channel dropped in the middle.
    Dropped,
    /// A deadline that passes.
    Deadline,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 19] = [
        Self::BitErrors,
        Self::LinkDown,
        Self::Removal,
        Self::BusMasterOff,
        Self::Astray,
        Self::Poisoned,
        Self::CompleterAbort,
        Self::Refused,
        Self::NoAnswer,
        Self::Late,
        Self::PoisonedTlp,
        Self::PoisonedWrite,
        Self::LostRead,
        Self::LostWrite,
        Self::Doubled,
        Self::Stall,
        Self::Cancel,
        Self::Dropped,
        Self::Deadline,
    ];

    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::BitErrors => "bit errors",
            Self::LinkDown => "link down",
            Self::Removal => "surprise removal",
            Self::BusMasterOff => "bus master off",
            Self::Astray => "requests astray",
            Self::Poisoned => "poisoned data",
            Self::CompleterAbort => "Completer Abort",
            Self::Refused => "Unsupported Request",
            Self::NoAnswer => "lost completion",
            Self::Late => "late completion",
            Self::PoisonedTlp => "poisoned completion",
            Self::PoisonedWrite => "poisoned write",
            Self::LostRead => "lost read",
            Self::LostWrite => "lost write",
            Self::Doubled => "doubled completion",
            Self::Stall => "stall",
            Self::Cancel => "cancel",
            Self::Dropped => "drop",
            Self::Deadline => "deadline",
        }
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    fn faults_are_numbered_in_their_order() {
        for (number, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, number, "{fault}");
        }
    }

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
