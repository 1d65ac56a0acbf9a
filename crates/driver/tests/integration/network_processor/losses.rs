// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory that does not answer, and missing notifications.

use crosslane_driver::network_processor::*;
use crosslane_fabric::MemoryFault;
use crosslane_host::Bus;
use crosslane_pcie::units::HostId;

use crate::lab::setup::set_bus_master;
use crate::network_processor::stand::*;

#[test]
fn a_read_that_fails_ends_its_message_at_both_ends() {
    for fault in [MemoryFault::CompleterAbort, MemoryFault::Poisoned, MemoryFault::NoAnswer] {
        on_pair(mapped(), async |stand, [from, to]| {
            let bytes = 60_000;
            let source = filled(from, &pattern(1, bytes)).await;
            let at = source.segments()[0].address.0 + 20_000;
            let set = |fault| {
                stand.simulation.with_fabric(|fabric| {
                    assert!(fabric.set_memory_fault(HostId(0), at..at + 64, fault));
                });
            };
            set(Some(fault));
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
            set(None);
            // Again, now that it answers.
            let credit = to.credit(message(to, key(1, 0, 0), &target, bytes)).await.unwrap();
            let get = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
            ended(from, &get).await;
            arrives(to, &(target, credit), &pattern(1, bytes)).await;
        });
    }
}

#[test]
fn memory_is_kept_while_no_notification_comes() {
    on_pair(mapped(), async |_, [from, to]| {
        let target = filled(to, &[0xee; 4096]).await;
        let credit = to.credit(message(to, key(1, 0, 0), &target, 4096)).await.unwrap();
        // The device cannot write, so it cannot confirm that it has taken the credit back.
        set_bus_master(to.bus(), "fpga2", false);
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
        set_bus_master(to.bus(), "fpga2", true);
        assert_eq!(failed(to, &credit).await.fault, NetworkFault::Cancelled);
        target.write(0, &[0]).unwrap();
        carry([from, to], (0, 0), &pattern(1, 5000)).await;
    });
}

#[test]
fn a_reset_gives_memory_back_whose_notification_does_not_come() {
    on_pair(mapped(), async |_, [_, to]| {
        let (target, credit) = receive(to, key(1, 0, 0), 4096).await;
        set_bus_master(to.bus(), "fpga2", false);
        let error = to.wait(&credit, to.bus().now() + ns(1_000)).await.unwrap_err();
        assert!(matches!(error.fault, NetworkFault::NoNotification { .. }), "{error}");
        drop(credit);
        assert!(target.write(0, &[0]).is_err(), "nobody asks for it, and it is the device's yet");
        set_bus_master(to.bus(), "fpga2", true);
        to.reset().await.unwrap();
        target.write(0, &[0]).unwrap();
    });
}
