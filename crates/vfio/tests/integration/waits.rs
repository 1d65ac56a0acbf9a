// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits over the bus: for time, for memory that a device writes, for interrupts; and their end
//! when the device is lost.

use crate::fails::fails;
use crate::fake;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crosslane_host::{Bus, BusError, DmaMemory, PageSize, RegisterAddress, Waiting};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_vfio::{BusOptions, Function, UserMonitor, VfioBus, block_on};
use futures_util::future::join_all;

use fake::{Fake, VECTORS, bus, bus_of, pinned};

/// Longer than any operation here.
const PATIENCE: Duration = Duration::from_secs(20);

fn with_vectors(count: u16) -> (VfioBus, Arc<Fake>, RoutingId) {
    let (bus, fake) = bus();
    let id = fake.id();
    block_on(bus.enable_interrupts(id, count)).unwrap();
    (bus, fake, id)
}

fn patience(bus: &VfioBus) -> Picoseconds {
    bus.after(PATIENCE)
}

/// Does something after some milliseconds, in a thread.
fn later(ms: u64, action: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(ms));
        action();
    })
}

/// Counts its wakes.
#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn time_passes_and_sleepers_wake_in_time() {
    let (bus, _) = bus();
    let start = Instant::now();
    let before = Bus::now(&bus);
    for time in [Duration::from_micros(50), Duration::from_millis(20)] {
        let until = bus.after(time);
        block_on(Bus::sleep_until(&bus, until));
        assert!(Bus::now(&bus) >= until);
    }
    let passed = Bus::now(&bus) - before;
    assert!(
        passed.0 >= 20_050_000_000 && u128::from(passed.0) <= start.elapsed().as_nanos() * 1000
    );
    // A past moment ends a wait at once, and one that never comes does not.
    block_on(Bus::sleep_until(&bus, before));
    let waker = Waker::from(Arc::new(Counter::default()));
    let mut never = pin!(Bus::sleep_until(&bus, Picoseconds::NEVER));
    assert!(never.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // Processor time is counted, and differs from the time that passes.
    let used = bus.processor_time().unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    assert!(bus.processor_time().unwrap() > used);
}

#[test]
fn many_sleepers_of_one_thread_wake_in_their_order() {
    let (bus, _) = bus();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let start = Bus::now(&bus);
    let sleeper = |ms: u64| {
        let (bus, order) = (bus.clone(), Arc::clone(&order));
        async move {
            Bus::sleep_until(&bus, start + Picoseconds::from_ns(ms * 1_000_000)).await;
            order.lock().unwrap().push(ms);
        }
    };
    block_on(join_all([60, 20, 40, 1].map(sleeper)));
    assert_eq!(*order.lock().unwrap(), [1, 20, 40, 60]);
}

#[test]
fn memory_that_a_device_writes_is_seen() {
    let (bus, fake) = bus();
    let (memory, address) = pinned(&bus, &fake, 4096);
    let ways: &[Waiting] = match UserMonitor::find() {
        Ok(_) => &[Waiting::Polling, Waiting::Monitor],
        Err(_) => &[Waiting::Polling],
    };
    for (round, waiting) in (1_u32..).zip(ways) {
        let device = later(10, {
            let fake = Arc::clone(&fake);
            // The data first, then the word.
            move || {
                assert!(fake.dma_write(address, &[round as u8; 64]));
                assert!(fake.dma_write(address + 2048, &round.to_le_bytes()));
            }
        });
        let waited = bus.wait_memory_by(*waiting, &memory, 2048, round - 1, patience(&bus));
        assert_eq!(block_on(waited), Ok(round));
        let mut data = [0; 64];
        memory.read(0, &mut data).unwrap();
        assert_eq!(data, [round as u8; 64]);
        device.join().unwrap();
    }
    // An earlier change is seen at once, even after the deadline.
    assert_eq!(
        block_on(bus.wait_memory(&memory, 2048, 77, Picoseconds::ZERO)),
        Ok(ways.len() as u32)
    );
    let soon = bus.after(Duration::from_millis(5));
    let error = block_on(bus.wait_memory(&memory, 0, 0x0101_0101 * ways.len() as u32, soon));
    assert!(
        matches!(error, Err(BusError::Deadline { deadline, .. }) if deadline == soon),
        "{error:?}"
    );
    assert!(Bus::now(&bus) >= soon);
    let beyond = block_on(bus.wait_memory(&memory, 4096, 0, soon)).unwrap_err();
    assert!(matches!(beyond, BusError::BeyondMemory { .. }), "{beyond}");
    let kernel = bus.check_waiting(Waiting::KernelPolling).unwrap_err();
    assert!(matches!(kernel, BusError::CannotWait { .. }), "{kernel}");
    assert_eq!(bus.check_waiting(Waiting::Monitor).is_ok(), UserMonitor::find().is_ok());
}

#[test]
fn interrupts_are_counted_whoever_waits() {
    let (bus, fake, id) = with_vectors(2);
    // Before any task waits.
    for _ in 0..3 {
        assert!(fake.interrupt(1));
    }
    thread::sleep(Duration::from_millis(5));
    assert_eq!(block_on(bus.wait_interrupt(id, 1, patience(&bus))), Ok(3));
    // While a task waits, for its vector and for another one.
    let device = later(10, {
        let fake = Arc::clone(&fake);
        move || {
            assert!(fake.interrupt(0));
            thread::sleep(Duration::from_millis(10));
            assert!(fake.interrupt(1));
        }
    });
    assert_eq!(block_on(bus.wait_interrupt(id, 1, patience(&bus))), Ok(1));
    assert_eq!(block_on(bus.wait_interrupt(id, 0, patience(&bus))), Ok(1));
    device.join().unwrap();
    // A deadline, and a past deadline with an interrupt pending.
    let soon = bus.after(Duration::from_millis(5));
    let error = block_on(bus.wait_interrupt(id, 0, soon)).unwrap_err();
    assert_eq!(
        error,
        BusError::Deadline { what: "interrupt 0 of fake0".to_owned(), deadline: soon }
    );
    assert!(Bus::now(&bus) >= soon);
    assert!(fake.interrupt(0));
    assert_eq!(block_on(bus.wait_interrupt(id, 0, Picoseconds::ZERO)), Ok(1));
}

/// Polls a wait until it sleeps and no longer asks for its next turn.
fn put_to_sleep<F: Future>(mut wait: Pin<&mut F>, counter: &Arc<Counter>) {
    let waker = Waker::from(Arc::clone(counter));
    loop {
        let woken = counter.0.load(Ordering::SeqCst);
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        if counter.0.load(Ordering::SeqCst) == woken {
            return;
        }
    }
}

#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    let (bus, fake, id) = with_vectors(1);
    let counter = Arc::new(Counter::default());
    {
        let mut wait = pin!(bus.wait_interrupt(id, 0, patience(&bus)));
        put_to_sleep(wait.as_mut(), &counter);
        let before = counter.0.load(Ordering::SeqCst);
        assert!(fake.interrupt(0));
        let until = Instant::now() + Duration::from_secs(10);
        while counter.0.load(Ordering::SeqCst) == before {
            assert!(Instant::now() < until, "nobody was woken");
            thread::yield_now();
        }
    }
    assert_eq!(block_on(bus.wait_interrupt(id, 0, patience(&bus))), Ok(1));
    // A dropped wait is not woken, neither by an interrupt nor at its deadline.
    let soon = bus.after(Duration::from_millis(20));
    {
        let mut wait = pin!(bus.wait_interrupt(id, 0, soon));
        put_to_sleep(wait.as_mut(), &counter);
        let mut sleep = pin!(Bus::sleep_until(&bus, soon));
        put_to_sleep(sleep.as_mut(), &counter);
    }
    let woken = counter.0.load(Ordering::SeqCst);
    assert!(fake.interrupt(0));
    assert_eq!(block_on(bus.wait_interrupt(id, 0, patience(&bus))), Ok(1));
    block_on(Bus::sleep_until(&bus, soon + Picoseconds::from_ns(5_000_000)));
    assert_eq!(counter.0.load(Ordering::SeqCst), woken);
}

#[test]
fn every_interrupt_is_counted_once_whoever_sends_and_waits() {
    const EACH: u64 = 3000;
    let (bus, fake, id) = with_vectors(2);
    let counted = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let all_sent = Arc::new(AtomicBool::new(false));
    let waiters: Vec<_> = (0..4_u16)
        .map(|number| {
            let (bus, counted) = (bus.clone(), Arc::clone(&counted));
            let all_sent = Arc::clone(&all_sent);
            thread::spawn(move || {
                let vector = number % 2;
                loop {
                    let is_last = all_sent.load(Ordering::Acquire);
                    let soon = bus.after(Duration::from_micros(300));
                    match block_on(bus.wait_interrupt(id, vector, soon)) {
                        Ok(count) => {
                            let count = count as u32;
                            counted[usize::from(vector)].fetch_add(count, Ordering::Relaxed);
                        }
                        // Everything up to the last interrupt was received.
                        Err(BusError::Deadline { .. }) if is_last => return,
                        Err(BusError::Deadline { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    let senders: Vec<_> = (0..4_usize)
        .map(|number| {
            let fake = Arc::clone(&fake);
            thread::spawn(move || {
                for round in 0..EACH {
                    assert!(fake.interrupt(number % 2));
                    if round % 64 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    all_sent.store(true, Ordering::Release);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    for count in &*counted {
        assert_eq!(u64::from(count.load(Ordering::Relaxed)), 2 * EACH);
    }
}

#[test]
fn vectors_that_are_not_there_and_vectors_enabled_anew() {
    let (bus, fake) = bus();
    let id = fake.id();
    let none = block_on(bus.wait_interrupt(id, 0, Picoseconds::ZERO)).unwrap_err();
    assert_eq!(none, BusError::NoSuchVector { function: id, vector: 0, have: 0 });
    let many = block_on(bus.enable_interrupts(id, VECTORS + 1)).unwrap_err();
    assert_eq!(many, BusError::NoSuchVector { function: id, vector: VECTORS, have: VECTORS });
    block_on(bus.enable_interrupts(id, VECTORS)).unwrap();
    assert!(fake.interrupt(3));
    block_on(bus.enable_interrupts(id, 2)).unwrap();
    assert!(!fake.interrupt(3));
    let gone = block_on(bus.wait_interrupt(id, 3, patience(&bus))).unwrap_err();
    assert_eq!(gone, BusError::NoSuchVector { function: id, vector: 3, have: 2 });
}

#[test]
fn every_wait_ends_when_the_function_is_lost() {
    let (bus, fake, id) = with_vectors(1);
    let (memory, _) = pinned(&bus, &fake, 4096);
    let lost = "01:00.0 can no longer be used: fake0 is gone: its server ended";
    let waits: Vec<_> = (0..3)
        .map(|kind| {
            let (bus, memory) = (bus.clone(), memory.clone());
            thread::spawn(move || {
                let until = patience(&bus);
                match kind {
                    0 => block_on(bus.wait_interrupt(id, 0, until)).map(|_| ()),
                    1 => block_on(bus.wait_interrupt(id, 0, Picoseconds::NEVER)).map(|_| ()),
                    _ => block_on(bus.wait_memory(&memory, 0, 0, until)).map(|_| ()),
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(20));
    assert!(waits.iter().all(|wait| !wait.is_finished()));
    let start = Instant::now();
    fake.lose("its server ended");
    for wait in waits {
        fails(wait.join().unwrap(), lost);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "not only at the deadline");
    let at = RegisterAddress { function: id, bar: 0, offset_bytes: 0 };
    fails(block_on(bus.read_register(at)), lost);
    fails(block_on(bus.pin(id, &bus.allocate(1, PageSize::Small).unwrap())), lost);
    fails(block_on(bus.enable_interrupts(id, 1)), lost);
    fails(block_on(bus.wait_interrupt(id, 0, Picoseconds::NEVER)), lost);
}

#[test]
fn a_bus_of_two_goes_on_when_one_is_lost() {
    let (bus, fakes) = bus_of(2, BusOptions::default());
    let left = &fakes[1];
    let (_memory, address) = pinned(&bus, left, 4096);
    block_on(bus.enable_interrupts(left.id(), 1)).unwrap();
    fakes[0].lose("removed");
    let device = later(10, {
        let fake = Arc::clone(left);
        move || {
            assert!(fake.dma_read(address, 1).is_some() || fake.interrupt(0));
            assert!(fake.interrupt(0));
        }
    });
    assert!(block_on(bus.wait_interrupt(left.id(), 0, patience(&bus))).is_ok());
    device.join().unwrap();
    // A function that is still there makes the domain's mappings.
    let _other = pinned(&bus, left, 4096);
    assert!(left.mapping_count() >= 1);
}
