// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exchange between the parts of a lab, whatever carries it, and the window that follows.

use std::fmt;

use crosslane_device::network_processor::CableMessage;
use crosslane_pcie::units::Picoseconds;

/// State of a part at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// Its program is running.
    Running,
    /// Its program has ended well, and nothing is left to do unless another part sends something.
    Quiet,
    /// The run has to end before its time.
    Stopped,
}

/// A part's word to all others at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Time of its next event; [`Picoseconds::NEVER`] if it has none.
    pub next: Picoseconds,
    /// Time of the first arrival of what it sends now; [`Picoseconds::NEVER`] if it sends nothing.
    pub arrives: Picoseconds,
    /// Its state.
    pub state: PartState,
}

/// A part takes no further part: its program has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another part of the lab has failed")
    }
}

impl std::error::Error for Lost {}

/// A part's exchange with all parts. Every part calls it as often as the others: it gathers what
/// each says, and carries each message to the part that it is for. Both are plain data. A part that
/// drops its exchange ends the others, which would wait for it.
pub trait Exchange {
    /// Tells the other parts something, and sends them messages, each of which stands in the list
    /// for its part; the lists are empty afterwards. Waits for all parts. Returns what each has
    /// said, and appends the messages for this one to `came`, those of a part in its order.
    ///
    /// # Errors
    /// A part that is lost.
    fn exchange(
        &mut self,
        said: Said,
        sent: &mut [Vec<CableMessage>],
        came: &mut Vec<CableMessage>,
    ) -> Result<Vec<Said>, Lost>;
}

/// The step that follows an exchange: the same for every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The events before this time are handled: nothing from another part can arrive before it.
    Window(Picoseconds),
    /// Every part is quiet.
    AllQuiet,
    /// No part has an event left, and some have not ended.
    NothingLeft,
    /// The next event lies beyond the time limit.
    Limit,
    /// The run has to end before its time.
    Ended,
}

impl Next {
    /// Decides from what all parts have said. What is sent at a time arrives `lookahead` later at
    /// the earliest.
    pub fn after(said: &[Said], lookahead: Picoseconds, limit: Option<Picoseconds>) -> Self {
        let first = said.iter().map(|said| said.next.min(said.arrives)).min();
        let first = first.unwrap_or(Picoseconds::NEVER);
        let is_quiet =
            |said: &Said| said.state == PartState::Quiet && said.arrives == Picoseconds::NEVER;
        if said.iter().any(|said| said.state == PartState::Stopped) {
            Self::Ended
        } else if said.iter().all(is_quiet) {
            Self::AllQuiet
        } else if first == Picoseconds::NEVER {
            Self::NothingLeft
        } else if limit.is_some_and(|limit| first > limit) {
            Self::Limit
        } else {
            let beyond = limit.map_or(u64::MAX, |limit| limit.0.saturating_add(1));
            Self::Window(Picoseconds(first.0.saturating_add(lookahead.0).min(beyond)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_an_exchange() {
        let never = Picoseconds::NEVER;
        let said = |state, next, arrives| Said { next, arrives, state };
        let at = Picoseconds;
        let next = |said: &[Said], limit| Next::after(said, at(10), limit);
        let running = said(PartState::Running, at(7), never);
        let idle = said(PartState::Running, never, never);
        let quiet = said(PartState::Quiet, at(3), never);
        let sending = said(PartState::Quiet, never, at(5));
        assert_eq!(next(&[running, idle], None), Next::Window(at(17)));
        // Time-outs of a quiet part come as long as another one is not.
        assert_eq!(next(&[running, quiet], None), Next::Window(at(13)));
        assert_eq!(next(&[quiet, quiet], None), Next::AllQuiet);
        assert_eq!(next(&[sending, quiet], None), Next::Window(at(13)));
        assert_eq!(next(&[sending, idle], None), Next::Window(at(15)));
        assert_eq!(next(&[idle, idle], None), Next::NothingLeft);
        assert_eq!(next(&[running, idle], Some(at(7))), Next::Window(at(8)));
        assert_eq!(next(&[running, idle], Some(at(6))), Next::Limit);
        assert_eq!(next(&[quiet, said(PartState::Stopped, never, never)], None), Next::Ended);
    }
}
