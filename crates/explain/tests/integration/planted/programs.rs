// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks chosen by the program, and runs with two limits.

use crosslane_driver::Notification as Learnt;
use crosslane_experiment::{Options, Registration, Workload};
use crosslane_lab::Lab;
use crosslane_results::LimitKind::{
    Datapath, MemoryWrite, Notification, Outstanding, ReadingDescriptors,
    Registration as Registering, SystemCall,
};

use crate::planted::runs::{
    Engines, base, base_with, one_at_a_time, small_writes, through_driver, transfers, writes,
};
use crate::planted::{ONE_AT_A_TIME, Planted, SMALL_WRITES, WRITES, explained};

fn run(lab: Lab, options: Options) -> Engines {
    through_driver(lab, Workload::Write(options), &[&["card5"]])
}

#[test]
fn one_transfer_at_a_time() {
    let planted =
        Planted { case: one_at_a_time(base()), without: small_writes(base()), base: &SMALL_WRITES };
    planted.is_named(Outstanding, "host0", "one transfer at a time, which host0 posts");
}

#[test]
fn interrupts() {
    let made = |notification| {
        let lab = base_with(&[("part.host.cpu.interrupt_ns", 30_000.0)]);
        run(lab, transfers(1 << 14, 4).with_notification(notification))
    };
    let (case, without) = (made(Learnt::Interrupt), made(Learnt::Poll));
    let words = "interrupts, by which host0 learns of completions";
    Planted { case, without, base: &WRITES }.is_named(Notification, "host0", words);
}

#[test]
fn system_calls() {
    let made = |system_call| {
        let lab = base_with(&[("part.host.cpu.system_call_ns", 5000.0)]);
        run(lab, transfers(1 << 12, 64).with_system_call(system_call))
    };
    let planted = Planted { case: made(true), without: made(false), base: &SMALL_WRITES };
    planted.is_named(SystemCall, "host0", "the system call on host0 for each transfer");
}

#[test]
fn registration_within_each_transfer() {
    let made = |registration| {
        let lab = base_with(&[("part.host.cpu.pin_page_ns", 10_000.0)]);
        run(lab, transfers(1 << 12, 1).with_registration(registration))
    };
    let planted = Planted {
        case: made(Registration::Within),
        without: made(Registration::Before),
        base: &ONE_AT_A_TIME,
    };
    let words = "memory of host0 that is registered within each transfer";
    planted.is_named(Registering, "host0", words);
}

/// Neither gains alone.
#[test]
fn two_that_hold_a_run_alike_are_named_together() {
    let made = |write_gb_per_s, datapath_bytes| {
        writes(base_with(&[
            ("part.host.memory.write_gb_per_s", write_gb_per_s),
            ("part.card.requester.datapath_bytes", datapath_bytes),
        ]))
    };
    let found = explained(&made(1.9, 8.0));
    let step = &found.steps[0];
    let mut named: Vec<_> =
        step.limits.iter().map(|limit| (limit.kind, limit.place.as_str())).collect();
    named.sort_unstable();
    assert_eq!(named, [(MemoryWrite, "host0"), (Datapath, "card5")]);
    let without = made(1e6, 16.0).figure().unwrap().value;
    assert!((step.value / without - 1.0).abs() < 0.002, "{} and {without}", step.value);
}

/// Two transfers are posted and one of them is read for: shorter waits gain, but neither alone.
#[test]
fn two_that_let_a_run_wait_come_before_what_it_waits_for() {
    let made = |count, outstanding| {
        let lab = base_with(&[("part.card.engine.reading_descriptors", count)]);
        through_driver(lab, Workload::Read(transfers(1 << 12, outstanding)), &[&["card5"]])
    };
    let found = explained(&made(1.0, 2));
    let step = &found.steps[0];
    let named: Vec<_> = step.limits.iter().map(|limit| limit.kind).collect();
    assert!(named.contains(&Outstanding) && named.contains(&ReadingDescriptors), "{found:#?}");
    assert_eq!(named.len(), 2);
    let without = made(65_535.0, 64).figure().unwrap().value;
    assert!((step.value / without - 1.0).abs() < 0.002, "{} and {without}", step.value);
}

#[test]
fn what_is_said_of_a_run_is_always_the_same() {
    let made = || explained(&small_writes(base_with(&[("part.slot.bit_error_rate", 2e-5)])));
    assert_eq!(made(), made());
}
