// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab beside threads that know nothing of simulated time.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use crosslane_host::{Bus, DmaMemory, HostWork, PageSize};
use crosslane_pcie::units::{HostId, Picoseconds};

use super::{LabBus, Simulation};
use crate::lab::open;

fn minimal() -> (Simulation, LabBus) {
    let simulation = Simulation::new(open("minimal").unwrap().build(1).unwrap());
    let bus = simulation.bus(HostId(0));
    (simulation, bus)
}

/// Returns what another thread has put in.
#[derive(Clone, Default)]
struct Slot {
    inner: Arc<Mutex<(Option<u64>, Option<Waker>)>>,
}

impl Slot {
    fn put(&self, value: u64) {
        let waker = {
            let mut inner = self.inner.lock().unwrap();
            inner.0 = Some(value);
            inner.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn get(&self) -> u64 {
        poll_fn(|context| {
            let mut inner = self.inner.lock().unwrap();
            match inner.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    inner.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A thread that answers each number with the next one.
fn answering() -> (Sender<u64>, Slot, thread::JoinHandle<()>) {
    let (ask, asked): (Sender<u64>, Receiver<u64>) = channel();
    let slot = Slot::default();
    let answers = slot.clone();
    let thread = thread::spawn(move || {
        for number in asked {
            answers.put(number + 1);
        }
    });
    (ask, slot, thread)
}

#[test]
fn another_thread_wakes_who_waits_for_it() {
    let (simulation, bus) = minimal();
    let (ask, slot, thread) = answering();
    let sum = simulation.run_free("asks", async {
        let mut number = 0;
        while number < 1000 {
            ask.send(number).unwrap();
            number = slot.get().await;
            bus.work(HostWork::Copy(64)).await;
        }
        number
    });
    assert_eq!(sum, 1000);
    // Simulated time is that of its work, however long the thread took.
    let copies = bus.now();
    let (simulation, bus) = minimal();
    let run = async {
        for _ in 0..1000 {
            bus.work(HostWork::Copy(64)).await;
        }
    };
    simulation.run("copies", run).unwrap();
    assert_eq!(copies, bus.now());
    drop(ask);
    thread.join().unwrap();
}

#[test]
fn tasks_go_on_while_the_lab_is_busy() {
    let (simulation, bus) = minimal();
    let (ask, slot, thread) = answering();
    let ends = Rc::new(Cell::new(false));
    // Never quiet: simulated time keeps advancing.
    let (busy, ended) = (bus.clone(), ends.clone());
    simulation.spawn("busy", async move {
        while !ended.get() {
            busy.sleep_until(busy.now() + Picoseconds::from_ns(10)).await;
        }
    });
    // One that is always ready.
    let ended = ends.clone();
    simulation.spawn("restless", async move {
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if ended.get() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    let answer = simulation.run_free("asks", async {
        let mut number = 0;
        for _ in 0..100 {
            ask.send(number).unwrap();
            number = slot.get().await;
        }
        ends.set(true);
        number
    });
    assert_eq!(answer, 100);
    simulation.finish().unwrap();
    drop(ask);
    thread.join().unwrap();
}

#[test]
fn another_thread_uses_the_lab_s_memory() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    let (slot, of_thread) = (Slot::default(), memory.clone());
    let answers = slot.clone();
    let thread = thread::spawn(move || {
        of_thread.write(8, &[7; 8]).unwrap();
        answers.put(1);
    });
    let word = simulation.run_free("waits", async {
        let word = bus.wait_memory(&memory, 8, 0, Picoseconds::NEVER).await.unwrap();
        slot.get().await;
        word
    });
    assert_eq!(word, 0x0707_0707);
    thread.join().unwrap();
    simulation.finish().unwrap();
}
