// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for memory: the cost of each kind, and the error if the lab lacks the constant.

use crosslane_host::{Bus, BusError, PageSize, Waiting};
use crosslane_lab::{Lab, LabBus, LabMemory, Simulation};
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::scenes::{changed, function, minimal, write};

/// Of the lab `minimal`, in and out.
const SYSTEM_CALL: Picoseconds = Picoseconds::from_ns(200);
const HALF: Picoseconds = Picoseconds::from_ns(100);
const TICK: Picoseconds = Picoseconds::from_ns(700);
const WAKE: Picoseconds = Picoseconds::from_ns(300);
const SOON: Picoseconds = Picoseconds::from_ns(100_000);

/// Returns the lab `minimal` with the constants, and memory that card0 can access.
fn stand() -> (Simulation, LabBus, LabMemory) {
    let constants = "[part.host.cpu]\n\
         kernel_poll_ns = { value = 700, source = \"assumption: any\" }\n\
         monitor_wake_ns = { value = 300, source = \"assumption: any\" }\n";
    let text = changed("minimal", "[part.host.cpu]\n", constants);
    let simulation = Simulation::new(Lab::from_text("m.toml", &text).unwrap().build(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    (simulation, bus, memory)
}

/// Pins the memory and has card0 write it; returns start, end and result of the wait.
fn waited(
    waiting: Waiting,
    pause: Picoseconds,
    patience: Picoseconds,
) -> (Picoseconds, Picoseconds, Result<u32, BusError>) {
    let (simulation, bus, memory) = stand();
    let card = function(&bus, "card0").id;
    let segments = simulation.run("pin", bus.pin(card, &memory)).unwrap().unwrap();
    let flow = write(simulation.find("card0").unwrap(), segments[0].address, 64);
    simulation.with_fabric(|fabric| fabric.start_flow(flow)).unwrap();
    let run = async {
        bus.sleep_until(bus.now() + pause).await;
        let begun = bus.now();
        let deadline = begun + patience;
        let word = bus.wait_memory_by(waiting, &memory, 0, 0, deadline).await;
        (begun, bus.now(), word)
    };
    simulation.run("wait", run).unwrap()
}

#[test]
fn a_change_is_seen_at_the_next_tick_or_after_waking() {
    let (begun, seen, word) = waited(Waiting::Polling, Picoseconds::ZERO, SOON);
    assert_ne!(word, Ok(0));
    assert!(begun + HALF < seen, "the change comes while the others wait");
    let (kernel_begun, kernel_seen, kernel_word) =
        waited(Waiting::KernelPolling, Picoseconds::ZERO, SOON);
    assert_eq!((kernel_begun, &kernel_word), (begun, &word));
    let ticks = (seen.0 - (begun + HALF).0).div_ceil(TICK.0);
    assert_eq!(kernel_seen, begun + HALF + Picoseconds(TICK.0 * ticks) + HALF);
    assert!(ticks >= 1 && kernel_seen > seen + HALF, "not at a tick by chance");
    let (_, monitor_seen, monitor_word) = waited(Waiting::Monitor, Picoseconds::ZERO, SOON);
    assert_eq!((monitor_seen, monitor_word), (seen + WAKE + HALF, word));
}

#[test]
fn what_is_there_already_costs_the_call_alone() {
    for (waiting, cost) in [
        (Waiting::Polling, Picoseconds::ZERO),
        (Waiting::KernelPolling, SYSTEM_CALL),
        (Waiting::Monitor, SYSTEM_CALL),
    ] {
        let (begun, seen, word) = waited(waiting, SOON, SOON);
        assert!(word.is_ok(), "{waiting}: {word:?}");
        assert_eq!(seen, begun + cost, "{waiting}");
    }
}

#[test]
fn a_deadline_ends_each() {
    let patience = Picoseconds::from_ns(150);
    for (waiting, cost) in [
        (Waiting::Polling, Picoseconds::ZERO),
        (Waiting::KernelPolling, HALF),
        (Waiting::Monitor, WAKE + HALF),
    ] {
        let (begun, seen, word) = waited(waiting, Picoseconds::ZERO, patience);
        assert!(matches!(word, Err(BusError::Deadline { .. })), "{waiting}: {word:?}");
        assert_eq!(seen, begun + patience + cost, "{waiting}");
    }
}

#[test]
fn a_lab_without_the_constants_polls_and_says_why_not_otherwise() {
    let (simulation, bus) = minimal();
    let memory = bus.allocate(4096, PageSize::Small).unwrap();
    assert_eq!(bus.check_waiting(Waiting::Polling), Ok(()));
    for (waiting, sentence) in [
        (
            Waiting::KernelPolling,
            "waiting by polling in the kernel is not supported: the processor of host0 has no \
             kernel_poll_ns",
        ),
        (
            Waiting::Monitor,
            "waiting by monitor and wait is not supported: the processor of host0 has no \
             monitor_wake_ns",
        ),
    ] {
        assert_eq!(bus.check_waiting(waiting).unwrap_err().to_string(), sentence);
        let wait = bus.wait_memory_by(waiting, &memory, 0, 0, SOON);
        assert_eq!(simulation.run("wait", wait).unwrap().unwrap_err().to_string(), sentence);
        assert_eq!(simulation.now(), Picoseconds::ZERO);
    }
}

#[test]
fn an_interval_of_nothing_is_refused() {
    let text = changed(
        "minimal",
        "[part.host.cpu]\n",
        "[part.host.cpu]\nkernel_poll_ns = { value = 0, source = \"assumption: any\" }\n",
    );
    let error = Lab::from_text("m.toml", &text).and_then(|lab| lab.build(1)).map(|_| ());
    assert!(format!("{error:?}").contains("an interval of 0"), "{error:?}");
}
