// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checked runs: each way to go wrong is found, and the first one is named.

use std::convert::Infallible;
use std::future::pending;

use crosslane_fabric::{Flow, FlowKind};
use crosslane_host::{Bus, BusError, ErrorKind, Reason, RegisterAddress, Topology};
use crosslane_lab::{
    CheckedFlows, CheckedRun, RunError, RunningLab, Simulation, TIME_LIMIT, WhyStuck, open,
};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

use crate::scenes::{function, ns, write};

fn checked() -> CheckedRun {
    CheckedRun::new(&open("minimal").unwrap(), 1).unwrap()
}

/// Loads from a card that does not decode its BARs.
async fn load_astray(simulation: &Simulation) -> Result<(), BusError> {
    let bus = simulation.bus(HostId(0));
    let card = function(&bus, "card0");
    let at = RegisterAddress { function: card.id, bar: 0, offset_bytes: 0 };
    bus.config_write(card.id, reg::COMMAND, 0, 0b0011).unwrap();
    bus.read_register(at).await.unwrap_err();
    Ok(())
}

#[test]
fn the_end_is_the_programs_not_that_of_its_tasks() {
    let run = checked();
    let bus = run.simulation().bus(HostId(0));
    let ended = run.run("main", async {
        let sleeper = bus.clone();
        run.simulation().spawn("late", async move { sleeper.sleep_until(ns(100)).await });
        bus.sleep_until(ns(10)).await;
        Ok::<_, Infallible>(7)
    });
    let ended = ended.unwrap();
    assert_eq!((ended.value, ended.ended, run.simulation().now()), (7, ns(10), ns(100)));
}

#[test]
fn a_failed_program_is_not_drained() {
    let run = checked();
    let result = run.run("main", async {
        run.simulation().spawn("idle", pending::<()>());
        Err::<(), _>("no luck")
    });
    assert_eq!(result.unwrap_err(), RunError::Program("no luck"));
}

#[test]
fn a_program_without_end_meets_the_limit() {
    for (run, limit) in [(checked(), TIME_LIMIT), (checked().with_limit(ns(70)), ns(70))] {
        let bus = run.simulation().bus(HostId(0));
        let late = async {
            bus.sleep_until(limit + ns(1)).await;
            Ok::<_, Infallible>(())
        };
        let RunError::Stuck(stuck) = run.run("late", late).unwrap_err() else {
            panic!("it is stuck")
        };
        assert_eq!((stuck.why, stuck.time), (WhyStuck::TimeLimit, limit));
    }
}

#[test]
fn a_task_left_behind_for_ever_is_an_error() {
    let run = checked();
    let result = run.run("main", async {
        run.simulation().spawn("idle", pending::<()>());
        Ok::<_, Infallible>(())
    });
    let error = result.map(|_| ()).unwrap_err();
    let sentence = error.to_string();
    assert!(matches!(error, RunError::Left(_)), "{sentence}");
    assert!(sentence.starts_with("after the end of the program: "), "{sentence}");
    assert!(sentence.ends_with("idle: waits for nothing of the lab"), "{sentence}");
}

#[test]
fn errors_of_ports_are_errors_of_the_run() {
    let run = checked();
    let result = run.run("main", async {
        load_astray(run.simulation()).await?;
        load_astray(run.simulation()).await
    });
    let error = result.unwrap_err();
    let sentence = error.to_string();
    assert!(matches!(error, RunError::Fabric { count: 2, .. }), "{sentence}");
    assert!(sentence.starts_with("card0 at "), "{sentence}");
    assert!(sentence.ends_with(" (the first of 2 errors)"), "{sentence}");
    // As the cause of another error it says the same.
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(Reason::from(error).to_string(), sentence);
    let run = checked();
    let ending = run.run_to_errors("main", load_astray(run.simulation()));
    assert!(matches!(ending.program, Ok(Ok(()))));
    assert_eq!((ending.errors.len(), ending.error_count), (1, 1));
}

/// The lab with a flow of two operations at this address.
fn with_flow(kind: FlowKind, target: impl FnOnce(&RunningLab) -> u64) -> RunningLab {
    let mut lab = open("minimal").unwrap().build(1).unwrap();
    let flow = write(lab.find("card0").unwrap(), BusAddress(target(&lab)), 4096);
    lab.fabric.start_flow(Flow { kind, operations: 2, ..flow }).unwrap();
    lab
}

#[test]
fn flows_have_a_limit_and_errors_of_ports() {
    let memory = |lab: &RunningLab| lab.hosts[0].buffers.start;
    let mut whole = with_flow(FlowKind::Write, memory);
    let ended = CheckedFlows::new(&mut whole.fabric).run().unwrap().ended;
    assert_eq!(ended, whole.fabric.now());
    let mut late = with_flow(FlowKind::Write, memory);
    let limit = Picoseconds(ended.0 / 2);
    let error = CheckedFlows::new(&mut late.fabric).with_limit(limit).run().unwrap_err();
    let RunError::Stuck(stuck) = error else { panic!("it is stuck: {error}") };
    assert_eq!((stuck.why, stuck.time), (WhyStuck::TimeLimit, limit));
    // No memory, no BAR.
    let mut astray = with_flow(FlowKind::Read, |_| 1 << 50);
    let error = CheckedFlows::new(&mut astray.fabric).run().unwrap_err();
    assert!(matches!(error, RunError::Fabric { .. }), "{error}");
}
