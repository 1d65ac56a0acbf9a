// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exchange between parts that are threads of this process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crosslane_device::network_processor::CableMessage;
use crosslane_host::lock;
use crosslane_pcie::units::Picoseconds;

use super::exchange::{Exchange, Lost, PartState, Said};
use super::report::PartTimes;

/// Looks at the others before a thread that waits goes to sleep: some ten microseconds, which is
/// less than a thread takes to wake up.
const LOOKS: u32 = 10_000;

/// Reads a clock of the machine, for how long the parts compute and wait.
pub(crate) type WallClock = fn() -> Duration;

/// A part's contribution to an exchange.
struct HandedIn {
    said: Said,
    sent: Vec<Vec<CableMessage>>,
}

/// Place where all parts meet.
struct Meeting {
    /// By turn, even or odd, what each part has handed in: nobody hands in anything for the turn
    /// after the next one before all have left this one.
    handed_in: [Vec<Mutex<HandedIn>>; 2],
    /// Parts that have come to this turn.
    come: AtomicUsize,
    turn: AtomicUsize,
    /// By turn, even or odd, the part that came last.
    last: [AtomicUsize; 2],
    is_lost: AtomicBool,
    /// Whether sleeping threads have to look again.
    sleeping: Mutex<()>,
    awake: Condvar,
    /// Looks of a thread before it sleeps; none where threads share a core.
    looks: u32,
}

/// A part's access to the others.
pub(crate) struct ThreadExchange {
    meeting: Arc<Meeting>,
    part: usize,
    clock: WallClock,
    times: Arc<Mutex<PartTimes>>,
}

impl Meeting {
    fn new(parts: usize) -> Self {
        let nothing = Said {
            next: Picoseconds::NEVER,
            arrives: Picoseconds::NEVER,
            state: PartState::Running,
        };
        let handed_in = || {
            let sent = || vec![Vec::new(); parts];
            (0..parts).map(|_| Mutex::new(HandedIn { said: nothing, sent: sent() })).collect()
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            handed_in: [handed_in(), handed_in()],
            come: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            last: [AtomicUsize::new(0), AtomicUsize::new(0)],
            is_lost: AtomicBool::new(false),
            sleeping: Mutex::new(()),
            awake: Condvar::new(),
            looks: if parts <= cores { LOOKS } else { 0 },
        }
    }

    /// Waits until all parts have come to this turn. Returns the one that came last.
    fn wait(&self, part: usize, turn: usize) -> Result<usize, Lost> {
        let last = &self.last[turn % 2];
        if self.come.fetch_add(1, Ordering::AcqRel) + 1 == self.handed_in[0].len() {
            self.come.store(0, Ordering::Relaxed);
            last.store(part, Ordering::Relaxed);
            let sleeping = lock(&self.sleeping);
            self.turn.store(turn.wrapping_add(1), Ordering::Release);
            drop(sleeping);
            self.awake.notify_all();
            return Ok(part);
        }
        let is_waiting = || {
            let is_same = self.turn.load(Ordering::Acquire) == turn;
            is_same && !self.is_lost.load(Ordering::Acquire)
        };
        let mut looks = 0;
        while is_waiting() && looks < self.looks {
            std::hint::spin_loop();
            looks += 1;
        }
        if is_waiting() {
            let sleeping = lock(&self.sleeping);
            let waited = self.awake.wait_while(sleeping, |()| is_waiting());
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        match self.turn.load(Ordering::Acquire) == turn {
            true => Err(Lost),
            false => Ok(last.load(Ordering::Relaxed)),
        }
    }

    /// Lets nobody wait any more.
    fn lose(&self) {
        let sleeping = lock(&self.sleeping);
        self.is_lost.store(true, Ordering::Release);
        drop(sleeping);
        self.awake.notify_all();
    }
}

impl ThreadExchange {
    /// Makes the exchanges of threads, one for each of `times`.
    pub fn all(times: &[Arc<Mutex<PartTimes>>], clock: WallClock) -> Vec<Self> {
        let meeting = Arc::new(Meeting::new(times.len()));
        let of_part = |(part, times): (usize, &Arc<Mutex<PartTimes>>)| Self {
            meeting: meeting.clone(),
            part,
            clock,
            times: times.clone(),
        };
        times.iter().enumerate().map(of_part).collect()
    }
}

impl Exchange for ThreadExchange {
    fn exchange(
        &mut self,
        said: Said,
        sent: &mut [Vec<CableMessage>],
        came: &mut Vec<CableMessage>,
    ) -> Result<Vec<Said>, Lost> {
        let turn = self.meeting.turn.load(Ordering::Acquire);
        let all = &self.meeting.handed_in[turn % 2];
        let mut mine = lock(&all[self.part]);
        mine.said = said;
        let signals = sent.iter().map(Vec::len).sum::<usize>() as u64;
        mine.sent.iter_mut().zip(sent).for_each(|(place, messages)| place.append(messages));
        drop(mine);
        let begin = (self.clock)();
        let last = self.meeting.wait(self.part, turn)?;
        lock(&self.times).waited(last, (self.clock)().saturating_sub(begin), signals);
        let said = all.iter().map(|one| {
            let mut one = lock(one);
            came.append(&mut one.sent[self.part]);
            one.said
        });
        Ok(said.collect())
    }
}

impl Drop for ThreadExchange {
    /// The others do not wait for a part that is gone.
    fn drop(&mut self) {
        self.meeting.lose();
    }
}
