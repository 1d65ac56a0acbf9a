// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that simulate one lab together, each one part of it, and what carries bytes between
//! them.

use std::fmt;

use crosslane_host::kinds;
use thiserror::Error;

/// A process that takes no further part: it was killed, left, or sent what makes no sense.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{who} {why}")]
pub struct Gone {
    /// The process and its machine: `rank 1 on node7`.
    pub who: String,
    /// The rest of the sentence.
    pub why: String,
}

kinds!(Gone {
    Self { .. } => LinkDown,
});

/// Messages of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The message of each process, by rank; that of this one is empty.
    pub messages: Vec<Vec<u8>>,
    /// The process whose message came last.
    pub last: usize,
}

/// Transport between the processes that simulate a lab together.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the names of all processes, by rank: `rank 1 on node7`.
    fn names(&self) -> &[String];

    /// Sends a message to each process, in the order of their ranks, and waits for one of each.
    /// Every process calls it as often as the others. The message to this one is ignored.
    ///
    /// # Errors
    /// A process that is gone.
    fn swap(&self, messages: Vec<Vec<u8>>) -> Result<Arrived, Gone>;
}

/// The difference between two processes that were to simulate one lab.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Disagreement {
    /// They were started with different things.
    #[error("{who} has another {what}: {theirs}, not {ours} as {than}")]
    Different {
        /// The process.
        who: String,
        /// The first process, with which all are compared.
        than: String,
        /// The fact in which they differ.
        what: String,
        /// Its value there.
        theirs: String,
        /// Its value in the first process.
        ours: String,
    },
    /// A process is gone.
    #[error(transparent)]
    Gone(#[from] Gone),
}

kinds!(Disagreement {
    Self::Different { .. } => InvalidArgument,
    Self::Gone(gone) => gone.kind(),
});

/// Compares facts that have to be the same in all processes: name and value of each.
///
/// # Errors
/// The first fact that differs, the same error in all processes; or a process that is gone.
pub fn agree(carrier: &dyn Carrier, facts: &[(&str, String)]) -> Result<(), Disagreement> {
    let lines = facts.iter().map(|(what, value)| format!("{what}\0{value}"));
    let mine = lines.collect::<Vec<_>>().join("\n").into_bytes();
    let mut all = carrier.swap(vec![mine.clone(); carrier.names().len()])?.messages;
    all[carrier.rank()] = mine;
    let facts = |message: &[u8]| {
        let text = String::from_utf8_lossy(message);
        let facts = text.split('\n').map(|line| {
            let (what, value) = line.split_once('\0').unwrap_or((line, ""));
            (what.to_owned(), value.to_owned())
        });
        facts.collect::<Vec<_>>()
    };
    let first = facts(&all[0]);
    for (who, message) in carrier.names().iter().zip(&all) {
        let other = facts(message);
        let pairs = first.iter().zip(&other);
        let different = pairs.into_iter().find(|(one, other)| one != other);
        if different.is_none() && first.len() == other.len() {
            continue;
        }
        let ((what, ours), (_, theirs)) = different.map_or_else(
            || (("program".into(), "its facts".into()), (String::new(), "other facts".into())),
            |(one, other)| (one.clone(), other.clone()),
        );
        let (who, than) = (who.clone(), carrier.names()[0].clone());
        return Err(Disagreement::Different { who, than, what, theirs, ours });
    }
    Ok(())
}
