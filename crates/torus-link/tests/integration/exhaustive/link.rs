// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ends, their hosts and the wires between them as one state, and every step that it can take.

use super::Setup;
use super::ends::{CHANNELS, Ends, Input, Output, SETS};
use crosslane_torus_link::LinkEnd;

/// Time of a frame on the wire.
const FRAME: u8 = 1;
/// Longest time for which an end that could come up stays down.
const LONGEST_DOWN: u8 = 2;
/// Most items on the wire of a direction.
const ITEMS: usize = 6;

/// One direction of the cable.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Way {
    /// Time until the next frame can be sent.
    busy: u8,
    length: u8,
    /// Time until each item is there; 0 behind the last one.
    after: [u8; ITEMS],
    items: [u16; ITEMS],
}

impl Way {
    fn send(&mut self, item: u16, latency: u8) {
        let at = usize::from(self.length);
        (self.items[at], self.after[at]) = (item, self.busy + latency);
        self.length += 1;
    }

    fn arrived(&self) -> Option<u16> {
        (self.length > 0 && self.after[0] == 0).then_some(self.items[0])
    }

    fn take(&mut self) {
        self.length -= 1;
        self.items.copy_within(1.., 0);
        self.after.copy_within(1.., 0);
        (self.items[ITEMS - 1], self.after[ITEMS - 1]) = (0, 0);
    }

    fn tick(&mut self) {
        self.busy = self.busy.saturating_sub(1);
        self.after.iter_mut().for_each(|after| *after = after.saturating_sub(1));
    }
}

/// Stage of a loss at one end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Loss {
    None,
    /// Down, and the other end's training sets have not come yet.
    Down,
    /// Down, and for so long able to come up.
    Trained(u8),
    /// Up again; the other end is not.
    UpAgain,
}

/// One end with its host, and the wire from it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Side {
    end: u32,
    way: Way,
    loss: Loss,
    /// Datagrams of each channel that the host has submitted, taken and freed.
    submitted: [u8; CHANNELS],
    taken: [u8; CHANNELS],
    freed: [u8; CHANNELS],
}

/// A state of the whole link, and the faults and losses that are still to come.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    sides: [Side; 2],
    faults: u8,
    skip_sets: u8,
    losses: u8,
}

/// A step of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The end is asked for a frame, which goes on the wire.
    Sends,
    /// A skip set goes before that frame.
    HoldsUp,
    /// The item that is there first comes as it was sent.
    Takes,
    /// It comes damaged.
    Damages,
    /// It does not come: the receiver sees idle columns.
    Misses,
    /// An idle column is damaged.
    Noise,
    Submits(u8),
    Frees(u8),
    GoesDown,
    ComesUp,
}

/// A step of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Side(u8, Act),
    Tick,
}

impl Step {
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::Side(_, Act::Damages | Act::Misses | Act::Noise | Act::GoesDown))
    }

    pub const fn is_of_host(self) -> bool {
        matches!(self, Self::Side(_, Act::Submits(_) | Act::Frees(_)))
    }
}

type Steps = Vec<(Step, State)>;

/// The rules by which states follow each other.
pub struct Link<'a> {
    setup: &'a Setup,
    ends: Ends,
}

impl<'a> Link<'a> {
    /// Creates the link with two ends that are up, and its first state.
    pub fn new(setup: &'a Setup, ends: [(LinkEnd, u64); 2]) -> (Self, State) {
        let mut link = Self { setup, ends: Ends::new() };
        let sides = ends.map(|(end, now_ps)| Side {
            end: link.ends.number(end, now_ps),
            way: Way::default(),
            loss: Loss::None,
            submitted: [0; CHANNELS],
            taken: [0; CHANNELS],
            freed: [0; CHANNELS],
        });
        let Setup { faults, skip_sets, losses, .. } = *setup;
        (link, State { sides, faults, skip_sets, losses })
    }

    /// Returns every step that the state can take.
    ///
    /// # Errors
    /// A rule of the link that the state, or one of the steps, breaks.
    pub fn steps(&mut self, state: &State) -> Result<Steps, String> {
        self.check(state)?;
        let mut steps = Steps::new();
        for at in 0..2 {
            self.arrival(state, at, &mut steps)?;
            self.frame(state, at, &mut steps)?;
        }
        if steps.is_empty() {
            self.time(state, &mut steps)?;
        }
        for at in 0..2 {
            self.training(state, at, &mut steps)?;
            self.host(state, at, &mut steps)?;
            self.faults(state, at, &mut steps)?;
        }
        Ok(steps)
    }

    /// Lets side `at` take an input.
    fn apply(&mut self, state: &mut State, at: usize, input: Input) -> Result<(), String> {
        let side = &mut state.sides[at];
        let (end, output) =
            self.ends.step(side.end, input).map_err(|e| format!("side {at}: {e}"))?;
        side.end = end;
        match output {
            Output::Nothing => {}
            Output::Sends(item) => {
                side.way.busy = FRAME;
                side.way.send(item, self.setup.latency);
            }
            Output::Delivers { channel, number } => {
                let taken = &mut side.taken[usize::from(channel)];
                if number != *taken {
                    return Err(format!("side {at} takes datagram {number} in place of {taken}"));
                }
                *taken += 1;
            }
        }
        Ok(())
    }

    /// Side `at` takes an item that has come before any time goes by.
    fn arrival(&mut self, state: &State, at: usize, steps: &mut Steps) -> Result<(), String> {
        let Some(item) = state.sides[1 - at].way.arrived() else { return Ok(()) };
        let mut taken = state.clone();
        taken.sides[1 - at].way.take();
        let is_up = self.ends.view(state.sides[at].end).is_up;
        if item != SETS && is_up && state.faults > 0 {
            let mut damaged = taken.clone();
            damaged.faults -= 1;
            steps.push((Step::Side(at as u8, Act::Misses), damaged.clone()));
            self.apply(&mut damaged, at, Input::Damaged)?;
            steps.push((Step::Side(at as u8, Act::Damages), damaged));
        }
        if item != SETS {
            if is_up {
                self.apply(&mut taken, at, Input::Comes(item))?;
            }
        } else {
            if is_up {
                self.go_down(&mut taken, at)?;
            }
            taken.sides[at].loss = Loss::Trained(0);
        }
        steps.push((Step::Side(at as u8, Act::Takes), taken));
        Ok(())
    }

    /// Frames on the way from the end arrive; those on the way to it find it down.
    fn go_down(&mut self, state: &mut State, at: usize) -> Result<(), String> {
        self.apply(state, at, Input::Down)?;
        let way = &mut state.sides[at].way;
        way.send(SETS, FRAME + self.setup.latency);
        state.sides[at].loss = Loss::Down;
        Ok(())
    }

    /// A free wire asks for a frame before any time goes by; a skip set may come first.
    fn frame(&mut self, state: &State, at: usize, steps: &mut Steps) -> Result<(), String> {
        let side = &state.sides[at];
        if side.way.busy > 0 || !self.ends.view(side.end).is_up {
            return Ok(());
        }
        let mut next = state.clone();
        self.apply(&mut next, at, Input::Poll)?;
        if next == *state {
            return Ok(());
        }
        if state.skip_sets > 0 && next.sides[at].way.busy > 0 {
            let mut held = state.clone();
            held.skip_sets -= 1;
            held.sides[at].way.busy = FRAME;
            steps.push((Step::Side(at as u8, Act::HoldsUp), held));
        }
        steps.push((Step::Side(at as u8, Act::Sends), next));
        Ok(())
    }

    /// An end comes up some time after it has seen the other end's training sets.
    fn training(&mut self, state: &State, at: usize, steps: &mut Steps) -> Result<(), String> {
        if let Loss::Trained(_) = state.sides[at].loss {
            let mut next = state.clone();
            self.apply(&mut next, at, Input::Up)?;
            next.sides[at].loss = Loss::UpAgain;
            if next.sides[1 - at].loss == Loss::UpAgain {
                next.sides.iter_mut().for_each(|side| side.loss = Loss::None);
            }
            steps.push((Step::Side(at as u8, Act::ComesUp), next));
        }
        Ok(())
    }

    /// The host submits and frees whenever it can.
    fn host(&mut self, state: &State, at: usize, steps: &mut Steps) -> Result<(), String> {
        let side = &state.sides[at];
        for channel in 0..CHANNELS {
            let queued = self.ends.view(side.end).queued[channel];
            let number = side.submitted[channel];
            if number < self.setup.datagrams[at][channel]
                && queued < self.setup.parameters.queue_datagrams
            {
                let mut next = state.clone();
                next.sides[at].submitted[channel] += 1;
                let channel = channel as u8;
                self.apply(&mut next, at, Input::Submit { channel, number })?;
                steps.push((Step::Side(at as u8, Act::Submits(channel)), next));
            }
            if side.freed[channel] < side.taken[channel] {
                let mut next = state.clone();
                next.sides[at].freed[channel] += 1;
                self.apply(&mut next, at, Input::Free(channel as u8))?;
                steps.push((Step::Side(at as u8, Act::Frees(channel as u8)), next));
            }
        }
        Ok(())
    }

    /// An idle column is damaged, or the link is lost: a second end may notice by itself.
    fn faults(&mut self, state: &State, at: usize, steps: &mut Steps) -> Result<(), String> {
        let is_up = self.ends.view(state.sides[at].end).is_up;
        if is_up && state.faults > 0 {
            let mut next = state.clone();
            next.faults -= 1;
            self.apply(&mut next, at, Input::Damaged)?;
            steps.push((Step::Side(at as u8, Act::Noise), next));
        }
        let is_first = state.sides[1 - at].loss == Loss::None;
        if state.sides[at].loss == Loss::None && (!is_first || state.losses > 0) {
            let mut next = state.clone();
            next.losses -= u8::from(is_first);
            self.go_down(&mut next, at)?;
            steps.push((Step::Side(at as u8, Act::GoesDown), next));
        }
        Ok(())
    }

    /// Time goes by while nothing has to be done at once.
    fn time(&mut self, state: &State, steps: &mut Steps) -> Result<(), String> {
        if state.sides.iter().any(|side| side.loss == Loss::Trained(LONGEST_DOWN)) {
            return Ok(());
        }
        let mut next = state.clone();
        for at in 0..2 {
            self.apply(&mut next, at, Input::Tick)?;
            let side = &mut next.sides[at];
            side.way.tick();
            if let Loss::Trained(since) = &mut side.loss {
                *since += 1;
            }
        }
        if next == *state {
            return self.check_quiet(state);
        }
        steps.push((Step::Tick, next));
        Ok(())
    }

    /// Checks that the ends' numbers agree with what has happened.
    fn check(&mut self, state: &State) -> Result<(), String> {
        let room = self.setup.parameters.channel_datagrams as u8;
        for (at, side) in state.sides.iter().enumerate() {
            let (view, far) = (self.ends.view(side.end), &state.sides[1 - at]);
            for channel in 0..CHANNELS {
                let sent = side.submitted[channel] - view.queued[channel];
                let held =
                    sent.checked_sub(far.freed[channel]).ok_or("freed before it was sent")?;
                if far.taken[channel] > sent {
                    return Err(format!("side {at}: taken before it was sent"));
                }
                if view.credit[channel] + held > room {
                    return Err(format!("side {at}: a credit for room that is not free"));
                }
            }
            let faults = (self.setup.faults - state.faults) + (self.setup.losses - state.losses);
            if view.timeouts_in_a_row > u32::from(faults) {
                return Err(format!("side {at}: a time-out without a fault"));
            }
        }
        Ok(())
    }

    /// Checks a state in which nothing will happen until a host does something.
    fn check_quiet(&mut self, state: &State) -> Result<(), String> {
        let room = self.setup.parameters.channel_datagrams as u8;
        for (at, side) in state.sides.iter().enumerate() {
            let (view, far) = (self.ends.view(side.end), &state.sides[1 - at]);
            let mut is_waiting = false;
            for channel in 0..CHANNELS {
                let held = far.taken[channel] - far.freed[channel];
                let sent = side.submitted[channel] - view.queued[channel];
                is_waiting |= view.queued[channel] > 0;
                if far.taken[channel] != sent
                    || view.credit[channel] + held != room
                    || (view.queued[channel] > 0 && held < room)
                {
                    return Err(format!("deadlock: side {at} waits for ever: {view:?}"));
                }
            }
            if !view.is_up || view.unacknowledged > 0 || view.wakes || view.is_settled == is_waiting
            {
                return Err(format!("deadlock: side {at} does not settle: {view:?}"));
            }
        }
        Ok(())
    }

    /// Text of a step for a person.
    pub fn describe(&mut self, state: &State, step: Step) -> String {
        let Step::Side(at, act) = step else { return "time goes by".into() };
        let at = usize::from(at);
        let item = match act {
            Act::Takes | Act::Damages | Act::Misses => state.sides[1 - at].way.arrived(),
            Act::Sends => match self.ends.step(state.sides[at].end, Input::Poll) {
                Ok((_, Output::Sends(item))) => Some(item),
                _ => None,
            },
            _ => None,
        };
        let item = item.map_or(String::new(), |item| self.ends.item(item));
        format!("side {at} {act:?} {item}")
    }
}
