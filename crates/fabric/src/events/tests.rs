// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of events beside a plain list.

use super::*;
use proptest::prelude::*;

/// The queue beside a plain list of time, rank and number, which is searched for the first. The
/// rank of a cable's event is below 0.
struct Both {
    events: Events,
    model: Vec<(u64, i64, u32)>,
    next: u32,
}

impl Both {
    fn add(&mut self, delay: u64) {
        let time = self.events.now_ps() + delay;
        self.events.schedule(time, EventKind::Arrive, self.next % 3, self.next);
        self.model.push((time, 0, self.next));
        self.next += 1;
    }

    /// Adds an event of a cable.
    fn add_cable(&mut self, delay: u64) {
        let time = self.events.now_ps() + delay;
        let target = self.next * 3 % 7;
        self.events.schedule_cable(time, target, self.next);
        self.model.push((time, i64::from(target) - 7, self.next));
        self.next += 1;
    }

    fn pop(&mut self, limit_ps: u64) -> Option<u64> {
        let first = self.model.iter().min().copied();
        assert_eq!(self.events.next_ps(), first.map(|(time, ..)| time));
        let number = |(time, _, data): (u64, i64, u32)| (time, data);
        // Looking ahead turns the wheels on, so it is not always done.
        if self.model.len().is_multiple_of(3) {
            let event = self.events.peek().map(|event| (event.time_ps, event.data));
            assert_eq!(event, first.map(number));
        }
        let event = self.events.pop(limit_ps);
        let first = first.filter(|(time, ..)| *time <= limit_ps);
        assert_eq!(event.map(|event| (self.events.now_ps(), event.data)), first.map(number));
        self.model.retain(|entry| Some(*entry) != first);
        assert_eq!(self.events.is_empty(), self.model.is_empty());
        assert_eq!(self.events.work(), self.model.len() as u64);
        event.map(|event| event.time_ps)
    }
}

#[test]
fn cables_come_first_at_the_very_beginning_too() {
    let mut both = Both { events: Events::new(), model: Vec::new(), next: 0 };
    both.add(0);
    both.add_cable(0);
    both.add_cable(1);
    both.add(1);
    for limit_ps in [0, 0, 0, 1, 1, 1] {
        both.pop(limit_ps);
    }
    assert!(both.events.is_empty());
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..3, 0u64..5_000, 0u64..20_000_000, 0u64..1 << 34, 0u64..1 << 45]
}

proptest! {
    /// Same order as a sorted list, even when events schedule events, when the clock is moved
    /// without an event, when arrivals are taken out, and with events of cables before others.
    #[test]
    fn comes_out_in_order_of_time_then_of_scheduling(
        delays in prop::collection::vec((delay(), 0u8..8), 1..200)
    ) {
        let mut both = Both { events: Events::new(), model: Vec::new(), next: 0 };
        let mut delays = delays.into_iter();
        for (delay, _) in delays.by_ref().take(20) {
            both.add(delay);
        }
        loop {
            let Some((delay, what)) = delays.next() else {
                match both.pop(u64::MAX) {
                    Some(_) => continue,
                    None => break,
                }
            };
            match what {
                0 => {
                    // Many events in the current slot, at only a few times.
                    for number in 0..60 {
                        both.add(delay % 7 * 50 + number % 3);
                    }
                }
                1 => {
                    let limit_ps = both.events.now_ps() + delay;
                    while both.pop(limit_ps).is_some() {}
                    both.events.advance_to(limit_ps);
                    prop_assert_eq!(both.events.now_ps(), limit_ps);
                }
                2 if delay.is_multiple_of(16) => {
                    let target = (delay % 3) as u32;
                    let is_even = |data: u32| data.is_multiple_of(2);
                    let lost = both.events.remove_arrivals(target, is_even);
                    let goes = |(_, rank, data): &(u64, i64, u32)| {
                        *rank == 0 && data % 3 == target && is_even(*data)
                    };
                    let mut gone = both.model.clone();
                    gone.retain(goes);
                    gone.sort_unstable();
                    let gone: Vec<u32> = gone.into_iter().map(|(.., data)| data).collect();
                    prop_assert_eq!(lost, gone);
                    both.model.retain(|entry| !goes(entry));
                }
                3 => {
                    // Some at the time of others, out of order.
                    for number in 0..9 {
                        both.add_cable(delay + number % 2 * 50);
                        both.add(delay);
                    }
                }
                _ => {}
            }
            both.pop(u64::MAX);
            both.add(delay);
            both.add(delay);
        }
        prop_assert!(both.model.is_empty());
        prop_assert_eq!(both.events.work(), 0);
    }
}
