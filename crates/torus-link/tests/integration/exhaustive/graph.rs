// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The graph of all states: breadth first from the first one, then its longest ways.

use super::link::{Link, State, Step};
use std::collections::{HashMap, VecDeque};

/// Most states: about 6 GiB.
const MOST_STATES: usize = 30_000_000;

/// Figures of an exploration.
pub struct Explored {
    pub states: usize,
    /// Longest time from any state until nothing happens any more, without further faults and
    /// losses, and with hosts that do at once all that they will do.
    pub longest: u32,
}

struct Graph<'a> {
    link: Link<'a>,
    first: State,
    /// State and step from which each state was reached first.
    from: Vec<(u32, Step)>,
    /// Steps of all states, one state behind the other.
    steps: Vec<(Step, u32)>,
    /// Index of each state's first step.
    begins: Vec<usize>,
}

/// Explores all states.
///
/// # Panics
/// With the steps that lead there, if a state breaks a rule or comes again.
pub fn explore((link, first): (Link<'_>, State)) -> Explored {
    let mut graph = Graph {
        link,
        first: first.clone(),
        from: vec![(0, Step::Tick)],
        steps: Vec::new(),
        begins: Vec::new(),
    };
    graph.search(first);
    Explored { states: graph.from.len(), longest: graph.longest() }
}

impl Graph<'_> {
    fn search(&mut self, first: State) {
        let mut numbers = HashMap::from([(first.clone(), 0)]);
        let mut queue = VecDeque::from([first]);
        while let Some(state) = queue.pop_front() {
            let number = self.begins.len() as u32;
            self.begins.push(self.steps.len());
            let steps = match self.link.steps(&state) {
                Ok(steps) => steps,
                Err(error) => panic!("{error}\n{}", self.way_to(number)),
            };
            for (step, next) in steps {
                let known = self.from.len() as u32;
                let to = *numbers.entry(next).or_insert_with_key(|next| {
                    queue.push_back(next.clone());
                    self.from.push((number, step));
                    known
                });
                self.steps.push((step, to));
            }
            assert!(self.from.len() < MOST_STATES, "states without end");
        }
        self.begins.push(self.steps.len());
    }

    fn steps_of(&self, state: usize) -> &[(Step, u32)] {
        &self.steps[self.begins[state]..self.begins[state + 1]]
    }

    /// Returns the longest time to settle, from any state.
    fn longest(&mut self) -> u32 {
        let states = self.from.len();
        let mut comes_from = vec![0_u32; states];
        self.steps.iter().for_each(|(_, to)| comes_from[*to as usize] += 1);
        // Each state behind all those that lead to it.
        let mut order = vec![0_u32];
        let mut at = 0;
        while at < order.len() {
            for (_, to) in self.steps_of(order[at] as usize) {
                comes_from[*to as usize] -= 1;
                if comes_from[*to as usize] == 0 {
                    order.push(*to);
                }
            }
            at += 1;
        }
        if order.len() < states {
            panic!("livelock: {}", self.circle(&comes_from));
        }
        let mut times = vec![0_u32; states];
        for &state in order.iter().rev() {
            let steps = self.steps_of(state as usize);
            let host_has_work = steps.iter().any(|(step, _)| step.is_of_host());
            let time = |&(step, to): &(Step, u32)| match step {
                Step::Tick if host_has_work => 0,
                Step::Tick => times[to as usize] + 1,
                step if step.is_fault() => 0,
                _ => times[to as usize],
            };
            times[state as usize] = steps.iter().map(time).max().unwrap_or(0);
        }
        times.into_iter().max().unwrap_or(0)
    }

    /// The steps to a state that comes again, and back to it.
    fn circle(&mut self, comes_from: &[u32]) -> String {
        let is_left = |state: u32| comes_from[state as usize] > 0;
        let mut before = HashMap::new();
        for state in (0..self.from.len() as u32).filter(|state| is_left(*state)) {
            for (step, to) in self.steps_of(state as usize) {
                before.entry(*to).or_insert((state, *step));
            }
        }
        let first = (0..self.from.len() as u32).find(|state| is_left(*state)).expect("one is left");
        let (mut seen, mut state) = (vec![first], first);
        loop {
            state = before[&state].0;
            if seen.contains(&state) {
                break;
            }
            seen.push(state);
        }
        let (last, mut steps) = (state, Vec::new());
        loop {
            let (earlier, step) = before[&state];
            steps.push(format!("{step:?}"));
            state = earlier;
            if state == last {
                break;
            }
        }
        steps.reverse();
        format!("{}\nand round:\n{}", self.way_to(last), steps.join("\n"))
    }

    /// The steps from the first state to this one, a line each.
    fn way_to(&mut self, mut state: u32) -> String {
        let mut steps = Vec::new();
        while state > 0 {
            let (earlier, step) = self.from[state as usize];
            steps.push(step);
            state = earlier;
        }
        let mut state = self.first.clone();
        let mut text = String::new();
        for step in steps.into_iter().rev() {
            text += &self.link.describe(&state, step);
            text.push('\n');
            let all = self.link.steps(&state).unwrap_or_default();
            state = all.into_iter().find(|(other, _)| *other == step).expect("it was taken").1;
        }
        text
    }
}
