// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory that does not answer, and missing notifications.

use crosslane_driver::network_processor::*;
use crosslane_fabric::MemoryFault;
use crosslane_host::{Bus, Topology};
use crosslane_lab::LabBus;
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::HostId;

use crate::network_processor::stand::*;

fn mapped() -> Modes {
    Modes::default().with_buffers(Buffers::Mapped)
}

#[test]
fn a_read_that_fails_ends_its_message_at_both_ends() {
    for fault in [MemoryFault::CompleterAbort, MemoryFault::Poisoned, MemoryFault::NoAnswer] {
        let stand = Stand::new(&[2], mapped());
        let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
        let bytes = 60_000;
        stand.run(async {
            let source = filled(from, &pattern(1, bytes)).await;
            let at = source.segments()[0].address.0 + 20_000;
            stand.simulation.with_fabric(|fabric| {
                assert!(fabric.set_memory_fault(HostId(0), at..at + 64, Some(fault)));
            });
            let late = |node: &Processor| node.bus().now() + ns(100_000_000);
            let target = to.buffer(bytes).await.unwrap();
            let room = Message { deadline: late(to), ..message(to, key(1, 0, 0), &target, bytes) };
            let credit = to.credit(room).await.unwrap();
            let get = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
            let error = from.wait(&get, late(from)).await.unwrap_err();
            assert_eq!(error.fault, NetworkFault::HostMemory, "{fault:?}");
            assert!(error.moved_bytes < bytes, "{error}");
            let error = to.wait(&credit, late(to)).await.unwrap_err();
            assert_eq!(error.fault, NetworkFault::FarEnd, "{fault:?}");
            stand.simulation.with_fabric(|fabric| {
                assert!(fabric.set_memory_fault(HostId(0), at..at + 64, None));
            });
            // Again, now that it answers.
            let credit = to.credit(message(to, key(1, 0, 0), &target, bytes)).await.unwrap();
            let get = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
            from.wait(&get, late(from)).await.unwrap();
            to.wait(&credit, late(to)).await.unwrap();
            assert!(contents(&target, bytes) == pattern(1, bytes));
        });
    }
}

/// Sets or clears Bus Master Enable of the card below.
fn set_bus_master(bus: &LabBus, is_set: bool) {
    let functions = bus.functions().unwrap();
    let card = functions.iter().find(|function| function.name == "fpga2").unwrap().id;
    let command = bus.config_read(card, reg::COMMAND).unwrap();
    let master = reg::COMMAND_BUS_MASTER;
    let command = if is_set { command | master } else { command & !master };
    bus.config_write(card, reg::COMMAND, command, 0b0011).unwrap();
}

#[test]
fn memory_is_kept_while_no_notification_comes() {
    let stand = Stand::new(&[2], mapped());
    let to = &stand.nodes[1];
    stand.run(async {
        let target = filled(to, &[0xee; 4096]).await;
        let credit = to.credit(message(to, key(1, 0, 0), &target, 4096)).await.unwrap();
        // The device cannot write, so it cannot confirm that it has taken the credit back.
        set_bus_master(to.bus(), false);
        let deadline = to.bus().now() + ns(10_000);
        let error = to.wait(&credit, deadline).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::NoNotification { deadline });
        assert_eq!(
            error.to_string(),
            format!(
                "fpga2 link 1 channel 0 tag 0: not ended at the deadline, {deadline}, and not \
                 taken back: its memory is kept until a reset: 0 of 4096 B were moved"
            )
        );
        assert!(to.bus().now() >= deadline + ns(200_000_000), "it has been patient");
        assert!(target.write(0, &[0]).is_err(), "it is the device's");
        // The notification comes after all.
        set_bus_master(to.bus(), true);
        let error = to.wait(&credit, late(to)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::Cancelled);
        target.write(0, &[0]).unwrap();
    });
    stand.run(carry(&stand.nodes, (0, 0), &pattern(1, 5000)));
}

#[test]
fn a_reset_gives_memory_back_whose_notification_does_not_come() {
    let stand = Stand::new(&[2], mapped());
    let to = &stand.nodes[1];
    stand.run(async {
        let target = to.buffer(4096).await.unwrap();
        let credit = to.credit(message(to, key(1, 0, 0), &target, 4096)).await.unwrap();
        set_bus_master(to.bus(), false);
        let error = to.wait(&credit, to.bus().now() + ns(1_000)).await.unwrap_err();
        assert!(matches!(error.fault, NetworkFault::NoNotification { .. }), "{error}");
        drop(credit);
        assert!(target.write(0, &[0]).is_err(), "nobody asks for it, and it is the device's yet");
        set_bus_master(to.bus(), true);
        to.reset().await.unwrap();
        target.write(0, &[0]).unwrap();
    });
}
