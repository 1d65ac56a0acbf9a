// SPDX-License-Identifier: Apache-2.0 OR MIT
//! States of one link end with numbers, and their steps, each computed once.

use crosslane_torus_link::*;
use std::collections::HashMap;

/// Most channels of a setup.
pub const CHANNELS: usize = 2;
/// Number of the item that stands for the training sets of an end that is down.
pub const SETS: u16 = 0;

/// A channel of the link; not the first ones, so that turns go round.
pub fn channel(at: u8) -> Channel {
    [Channel::ALL[6], Channel::ALL[1]][usize::from(at)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The wire is free.
    Poll,
    /// An item of this number comes.
    Comes(u16),
    Damaged,
    Submit {
        channel: u8,
        number: u8,
    },
    Free(u8),
    Down,
    Up,
    /// A unit of time goes by.
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Nothing,
    Sends(u16),
    Delivers { channel: u8, number: u8 },
}

/// State of an end as its owner sees it.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub is_up: bool,
    pub is_settled: bool,
    pub wakes: bool,
    pub unacknowledged: u8,
    pub timeouts_in_a_row: u32,
    pub queued: [u8; CHANNELS],
    pub credit: [u8; CHANNELS],
}

struct Known {
    end: LinkEnd,
    now_ps: u64,
    view: View,
}

/// All states of an end that have been seen, and what lies on the wire.
pub struct Ends {
    numbers: HashMap<String, u32>,
    known: Vec<Known>,
    steps: HashMap<(u32, Input), (u32, Output)>,
    items: Vec<Option<Frame>>,
}

impl Ends {
    pub fn new() -> Self {
        let (numbers, steps) = (HashMap::new(), HashMap::new());
        Self { numbers, known: Vec::new(), steps, items: vec![None] }
    }

    pub fn view(&self, end: u32) -> &View {
        &self.known[end as usize].view
    }

    pub fn item(&self, item: u16) -> String {
        match &self.items[usize::from(item)] {
            None => "training sets".into(),
            Some(Frame::Command(command)) => format!("{command:?}"),
            Some(Frame::Datagram(datagram)) => format!("{:?}", datagram.header),
        }
    }

    pub fn number(&mut self, end: LinkEnd, now_ps: u64) -> u32 {
        let next = self.known.len() as u32;
        let number = *self.numbers.entry(key(&end, now_ps)).or_insert(next);
        if number == next {
            let queue = usize::from(end.parameters().queue_datagrams);
            let view = View {
                is_up: end.is_up(),
                is_settled: end.is_settled(),
                wakes: end.wakes_at_ps().is_some(),
                unacknowledged: end.unacknowledged() as u8,
                timeouts_in_a_row: end.timeouts_in_a_row(),
                queued: [0, 1].map(|at| (queue - end.room(channel(at))) as u8),
                credit: [0, 1].map(|at| end.credit(channel(at)) as u8),
            };
            self.known.push(Known { end, now_ps, view });
        }
        number
    }

    /// Returns the state behind `input` and what the end does.
    ///
    /// # Errors
    /// A rule that the end breaks by itself.
    pub fn step(&mut self, from: u32, input: Input) -> Result<(u32, Output), String> {
        if let Some(done) = self.steps.get(&(from, input)) {
            return Ok(*done);
        }
        let Known { end, now_ps, .. } = &self.known[from as usize];
        let (mut end, mut now_ps) = (end.clone(), *now_ps);
        let mut output = Output::Nothing;
        match input {
            Input::Poll => {
                if let Some(frame) = end.next_frame(now_ps) {
                    output = Output::Sends(self.item_number(frame));
                } else if end.wakes_at_ps().is_some_and(|at_ps| at_ps <= now_ps) {
                    return Err("it wants to be woken at once".into());
                }
            }
            Input::Comes(item) => {
                let frame = self.items[usize::from(item)].clone().expect("a frame");
                output = delivery(end.receive(Ok(frame), now_ps));
            }
            Input::Damaged => output = delivery(end.receive(Err(Damaged::Crc), now_ps)),
            Input::Submit { channel: at, number } => {
                let payload = Payload::from([number]);
                end.submit(channel(at), Kind::Last, 0, u16::from(number), payload);
            }
            Input::Free(at) => end.free(channel(at)),
            Input::Down => end.down(),
            Input::Up => end.up(end.parameters().channel_datagrams, now_ps),
            Input::Tick => {
                let is_quiet = self.step(from, Input::Poll)? == (from, Output::Nothing);
                now_ps += 1;
                let sleeps = end.wakes_at_ps().is_none_or(|at_ps| at_ps > now_ps);
                if is_quiet && sleeps && end.clone().next_frame(now_ps).is_some() {
                    return Err("it has a frame before it wakes".into());
                }
            }
        }
        let counters = end.counters();
        if counters.stale + counters.overruns > 0 {
            return Err("a number or count that cannot be, or a datagram without room".into());
        }
        if end.unacknowledged() > usize::from(end.parameters().retry_datagrams) {
            return Err("more is unacknowledged than the retry buffer holds".into());
        }
        let done = (self.number(end, now_ps), output);
        self.steps.insert((from, input), done);
        Ok(done)
    }

    fn item_number(&mut self, frame: Frame) -> u16 {
        let frame = Some(frame);
        let at = self.items.iter().position(|item| *item == frame).unwrap_or_else(|| {
            self.items.push(frame);
            self.items.len() - 1
        });
        at as u16
    }
}

fn delivery(datagram: Option<Datagram>) -> Output {
    datagram.map_or(Output::Nothing, |datagram| Output::Delivers {
        channel: u8::from(datagram.header.channel == channel(1)),
        number: datagram.payload[0],
    })
}

/// All of an end but its parameters and counters, with times counted from `now_ps`. Ends with the
/// same key behave the same: they only look whether a time has passed.
fn key(end: &LinkEnd, now_ps: u64) -> String {
    const BETWEEN: [char; 4] = [' ', ',', '[', ']'];
    let text = format!("{end:?}");
    let (_, state) = text.split_once("is_up").expect("parameters come first");
    let (state, _) = state.split_once(", counters: ").expect("counters come last");
    let mut key = String::new();
    let mut is_time = false;
    for token in state.split_inclusive(BETWEEN) {
        let word = token.trim_end_matches(BETWEEN);
        match word.parse::<u64>() {
            Ok(at_ps) if is_time && at_ps != u64::MAX => {
                key += &at_ps.saturating_sub(now_ps).to_string();
                key += &token[word.len()..];
            }
            _ => key += token,
        }
        if word.ends_with(':') {
            is_time = word.ends_with("_ps:");
        }
    }
    key
}
