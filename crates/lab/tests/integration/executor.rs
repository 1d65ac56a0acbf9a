// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The executor: order, time, deadlocks and limits, all without a device.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crosslane_host::{Bus, BusError, DmaMemory, HostWork, PageSize};
use crosslane_lab::WhyStuck;
use crosslane_pcie::units::Picoseconds;

use crate::scenes::{minimal, ns};

/// Returns the output of the first of two futures to end; the other one is dropped.
async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(move |context| match one.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(value),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await
}

#[test]
fn tasks_go_on_in_the_order_of_time_and_then_of_becoming_ready() {
    let (simulation, bus) = minimal();
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    for (name, steps) in [("a", [30, 50]), ("b", [10, 50]), ("c", [30, 40])] {
        let (bus, order) = (bus.clone(), order.clone());
        tasks.push(simulation.spawn(name, async move {
            for step in steps {
                bus.sleep_until(ns(step)).await;
                order.borrow_mut().push((bus.now(), name));
            }
            bus.now()
        }));
    }
    let ends = simulation.run("all", async {
        let mut ends = Vec::new();
        for task in tasks {
            ends.push(task.await);
        }
        ends
    });
    assert_eq!(ends.unwrap(), [ns(50), ns(50), ns(40)]);
    let expected =
        [(10, "b"), (30, "a"), (30, "c"), (40, "c"), (50, "b"), (50, "a")].map(|(t, n)| (ns(t), n));
    // b asked for 50 ns at 10 ns, a at 30 ns.
    assert_eq!(*order.borrow(), expected);
    simulation.finish().unwrap();
    assert_eq!(simulation.now(), ns(50));
}

#[test]
fn a_run_may_borrow_and_spawn() {
    let (simulation, bus) = minimal();
    let mut counts = vec![0];
    let inner = simulation.run("outer", async {
        bus.sleep_until(ns(5)).await;
        counts.push(1);
        let bus = bus.clone();
        simulation.spawn("inner", async move { bus.sleep_until(ns(9)).await }).await;
        simulation.now()
    });
    assert_eq!((inner.unwrap(), counts), (ns(9), vec![0, 1]));
}

#[test]
fn tasks_that_are_not_waited_for_go_on_in_the_next_run() {
    let (simulation, bus) = minimal();
    let sleeper = bus.clone();
    let task = simulation.spawn("late", async move { sleeper.sleep_until(ns(100)).await });
    simulation.run("short", bus.sleep_until(ns(10))).unwrap();
    assert_eq!((simulation.now(), task.has_ended()), (ns(10), false));
    drop(task);
    simulation.finish().unwrap();
    assert_eq!(simulation.now(), ns(100));
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    memory.write(8, &7_u32.to_le_bytes()).unwrap();
    let polling = (bus.clone(), memory.clone());
    simulation.spawn("idle", async { pending::<()>().await });
    let driver = simulation.spawn("driver", async move {
        let (bus, memory) = polling;
        bus.sleep_until(ns(50)).await;
        bus.wait_memory(&memory, 8, 7, Picoseconds::NEVER).await
    });
    let stuck = simulation.run("main", driver).unwrap_err();
    assert_eq!((stuck.time, stuck.why), (ns(50), WhyStuck::NothingLeft));
    assert_eq!(stuck.waiting.len(), 3);
    assert_eq!(stuck.waiting[0], "idle: waits for nothing of the lab");
    let line = &stuck.waiting[1];
    assert!(line.starts_with("driver: waits for 4 B at 0x"), "{line}");
    assert!(line.ends_with(" of host0's memory to change from 7"), "{line}");
    assert_eq!(stuck.waiting[2], "main: waits for task driver to end");
    let sentence = stuck.to_string();
    assert!(
        sentence.starts_with("the simulation stopped at 50 ns with unfinished work; idle: "),
        "{sentence}"
    );
    // The same with a time limit, however distant; the simulation remains usable.
    simulation.set_time_limit(Some(Picoseconds::from_ns(1_000_000)));
    let again = simulation.run("main", pending::<()>()).unwrap_err();
    assert_eq!((again.time, again.why), (ns(50), WhyStuck::NothingLeft));
    memory.write(8, &8_u32.to_le_bytes()).unwrap();
    assert_eq!(simulation.finish().unwrap_err().waiting.len(), 1);
}

#[test]
fn a_task_that_never_ends_is_cut_off() {
    let (simulation, bus) = minimal();
    simulation.set_time_limit(Some(ns(1000)));
    let forever = async {
        loop {
            bus.sleep_until(bus.now() + ns(7)).await;
        }
    };
    let stuck = simulation.run::<_>("forever", forever).map(|(): ()| ()).unwrap_err();
    assert_eq!((stuck.time, stuck.why), (ns(1000), WhyStuck::TimeLimit));
    assert_eq!(stuck.waiting, ["forever: waits for the time to be 1.001 us"]);
    assert!(stuck.to_string().starts_with("the time limit, 1 us, was reached; forever: "));
    // With a higher limit the simulation continues.
    simulation.set_time_limit(Some(ns(2000)));
    simulation.run("sleep", bus.sleep_until(ns(1500))).unwrap();
    let stuck = simulation.run("sleep", bus.sleep_until(ns(2500))).unwrap_err();
    assert_eq!(stuck.time, ns(2000));
}

#[test]
fn tasks_that_keep_time_from_going_on_are_cut_off() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4, PageSize::Small).unwrap();
    let sleeps = async {
        loop {
            bus.sleep_until(bus.now()).await;
        }
    };
    let stuck = simulation.run("sleeps", sleeps).map(|(): ()| ()).unwrap_err();
    assert_eq!((stuck.time, stuck.why), (Picoseconds::ZERO, WhyStuck::NoProgress));
    let looks = async {
        loop {
            bus.wait_memory(&memory, 0, 1, Picoseconds::NEVER).await.unwrap();
        }
    };
    let stuck = simulation.run("looks", looks).map(|(): ()| ()).unwrap_err();
    assert_eq!(stuck.why, WhyStuck::NoProgress);
}

#[test]
fn a_dropped_future_does_not_keep_time_going() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    simulation
        .run("race", async {
            first(bus.sleep_until(ns(10)), bus.sleep_until(ns(1_000_000))).await;
            let long = async {
                bus.wait_memory(&memory, 0, 0, ns(500_000)).await.unwrap();
            };
            first(bus.sleep_until(ns(20)), long).await;
        })
        .unwrap();
    let stuck = simulation.run("main", pending::<()>()).unwrap_err();
    assert_eq!((stuck.time, simulation.now()), (ns(20), ns(20)));
    simulation.finish().unwrap();
}

#[test]
fn a_deadline_and_what_it_waits_for() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    let wait = |deadline| bus.wait_memory(&memory, 4, 0, deadline);
    let (writer, other) = (bus.clone(), memory.clone());
    simulation.spawn("writer", async move {
        for (time, value) in [(100, 5_u32), (200, 0), (300, 6)] {
            writer.sleep_until(ns(time)).await;
            other.write(4, &value.to_le_bytes()).unwrap();
        }
    });
    let run = async {
        let error = wait(ns(99)).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, BusError::Deadline { deadline, .. } if deadline == ns(99)));
        assert!(text.contains("99 ns") && text.contains("to change from 0"), "{text}");
        assert_eq!(bus.now(), ns(99));
        assert_eq!((wait(ns(150)).await, bus.now()), (Ok(5), ns(100)));
        // At once, and even after the deadline.
        assert_eq!((wait(ns(1)).await, bus.now()), (Ok(5), ns(100)));
        bus.sleep_until(ns(250)).await;
        // The writer asked for 300 ns first: the value arrives before the deadline.
        assert_eq!((wait(ns(300)).await, bus.now()), (Ok(6), ns(300)));
    };
    simulation.run("reader", run).unwrap();
    let error = simulation.run("late", wait_after(&bus, &memory)).unwrap();
    assert!(matches!(error, Err(BusError::Deadline { .. })));
    assert_eq!(simulation.now(), ns(300));
}

async fn wait_after<B: Bus>(bus: &B, memory: &B::Memory) -> Result<u32, BusError> {
    bus.wait_memory(memory, 4, 6, Picoseconds::ZERO).await
}

#[test]
fn work_keeps_a_core_busy_and_others_not() {
    let (simulation, bus) = minimal();
    // 200 ns a call; 10 GB/s.
    let ends = simulation.run("work", async {
        let calls = async {
            bus.work(HostWork::SystemCall).await;
            bus.work(HostWork::Copy(1000)).await;
            bus.now()
        };
        let other = bus.on_core(5);
        assert_eq!((bus.cores(), other.core()), (4, 1));
        let task = simulation.spawn("other", async move {
            other.work(HostWork::SystemCall).await;
            other.now()
        });
        let same = bus.on_core(4);
        let queued = simulation.spawn("queued", async move {
            same.work(HostWork::SystemCall).await;
            same.now()
        });
        [calls.await, task.await, queued.await]
    });
    // The system call of the task on the same core comes before the copy.
    assert_eq!(ends.unwrap(), [ns(500), ns(200), ns(400)]);
}

#[test]
fn ten_thousand_tasks() {
    let (simulation, bus) = minimal();
    let done = Arc::new(AtomicU32::new(0));
    for number in 0..10_000_u64 {
        let (bus, done) = (bus.clone(), done.clone());
        simulation.spawn(&format!("task{number}"), async move {
            for round in 1..=10 {
                bus.sleep_until(ns(round * 1000 + number * 7919 % 1000)).await;
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    simulation.finish().unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 10_000);
    assert_eq!(simulation.now(), ns(10_999));
}

/// A waker that counts.
#[derive(Default)]
struct Counting(AtomicU32);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn futures_can_be_polled_by_anybody_at_any_time() {
    let (simulation, bus) = minimal();
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(counting.clone());
    let mut context = Context::from_waker(&waker);
    let mut sleep = Box::pin(bus.sleep_until(ns(30)));
    for _ in 0..3 {
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    // A future of another executor, also polled spuriously by a task.
    let mut polls = 0;
    let both = poll_fn(|context| {
        polls += 1;
        let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending() || simulation.now() == ns(30));
        match polled {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => Pin::new(&mut sleep).poll(context),
        }
    });
    simulation.run("both", both).unwrap();
    assert_eq!((simulation.now(), polls), (ns(30), 2));
    assert_eq!(counting.0.load(Ordering::Relaxed), 0, "the last waker counts");
    let mut sleep = Box::pin(bus.sleep_until(ns(60)));
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    let stuck = simulation.run("main", bus.sleep_until(ns(50)));
    stuck.unwrap();
    simulation.run("main", bus.sleep_until(ns(70))).unwrap();
    assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    assert!(sleep.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_wait_outside_of_the_tasks_is_reported_too() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4, PageSize::Small).unwrap();
    let mut wait = Box::pin(bus.wait_memory(&memory, 0, 0, Picoseconds::NEVER));
    assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let stuck = simulation.run("main", pending::<()>()).unwrap_err();
    assert!(stuck.waiting[1].starts_with("outside of the tasks: waits for 4 B at"), "{stuck}");
}

#[test]
fn futures_of_the_bus_can_be_sent() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let (simulation, bus) = minimal();
    let bus = sendable(bus);
    let memory = sendable(bus.allocate(4, PageSize::Small).unwrap());
    drop(sendable(bus.wait_memory(&memory, 0, 0, ns(1))));
    drop(sendable(bus.work(HostWork::SystemCall)));
    let function = simulation.hosts()[0].tree.find("card0").unwrap().routing_id;
    drop(sendable(bus.pin(function, &memory)));
    drop(sendable(bus.enable_interrupts(function, 1)));
    drop(sendable(bus.wait_interrupt(function, 0, ns(1))));
}
