// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behaviour that a lab's engine does not show by itself: every error code, lost and needless
//! interrupts, an engine that does not answer.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, Device, Notification, StreamSource, Target,
    Transfer, TransferFault,
};
use crosslane_host::PageSize;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use crosslane_regs::engine::{ChannelError, ChannelState, channel};
use crosslane_regs::status_block as block;

use crate::lab::proxy::Proxy;
use crate::lab::setup::{PAGE, VISIBLE, pattern, post, simulation, us};

fn run<T, F: Future<Output = T>>(code: impl FnOnce(Proxy, Device) -> F) -> T {
    let simulation = simulation("rosta");
    let bus = Proxy::new(simulation.bus(HostId(0)));
    simulation
        .run("test", async {
            let device = Device::open_by_name(bus.clone(), "fpga1").await.unwrap();
            code(bus, device).await
        })
        .unwrap()
}

fn whole(buffer: &Buffer, deadline: Picoseconds) -> Transfer {
    let target = Target::Buffer(buffer.clone(), 0..buffer.size_bytes());
    Transfer { target, level: VISIBLE, deadline }
}

async fn c2h(device: &Device, notification: Notification) -> Channel {
    let options = ChannelOptions::default().with_notification(notification);
    device.channel(ChannelKind::C2h, 0, options).await.unwrap()
}

/// A buffer, and a channel whose stream has no data: only the test writes the status block.
async fn silent(device: &Device, bytes: u64) -> (Buffer, Channel) {
    device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
    let buffer = device.buffer(bytes, PageSize::Small).await.unwrap();
    (buffer, c2h(device, Notification::Poll).await)
}

#[test]
fn every_error_code_reaches_the_caller_as_that_error() {
    run(async |bus, device| {
        let (buffer, mut channel) = silent(&device, 16 * PAGE).await;
        let codes = [
            (ChannelError::UnsupportedRequest, "Unsupported Request"),
            (ChannelError::CompleterAbort, "Completer Abort"),
            (ChannelError::Poisoned, "poisoned data"),
            (ChannelError::CompletionTimeout, "a read got no answer in time"),
            (ChannelError::BadDescriptor, "the engine refused the descriptor"),
            (ChannelError::NotBusMaster, "Bus Master Enable is clear"),
            (ChannelError::MalformedCompletion, "an answer that does not fit its read"),
        ];
        for (error, words) in codes {
            let ticket = post(&mut channel, whole(&buffer, Picoseconds::NEVER)).await;
            let status = channel::status::STATE.put(ChannelState::Stopped.bits())
                | channel::status::ERROR.put(error.bits());
            bus.forge(&[
                (block::COMPLETED, 3),
                (block::STATUS, status),
                (block::STOPPED_AT, 1000),
                (block::ERROR_LOW, 0x4000_3000),
                (block::ERROR_HIGH, 0x12),
                (block::SEQUENCE, 1),
            ]);
            let failed = channel.wait(ticket).await.unwrap_err();
            let three: u64 = buffer.segments()[..3].iter().map(|segment| segment.bytes).sum();
            assert_eq!(failed.moved_bytes, three + 1000);
            assert_eq!(failed.address, Some(BusAddress(0x12_4000_3000)));
            assert_eq!(
                failed.to_string(),
                format!(
                    "fpga1 C2H 0: {words} at 0x1240003000: {} of 65536 B were moved",
                    three + 1000
                )
            );
            channel.restart().await.unwrap();
        }
        // A code that the register map does not define.
        let ticket = post(&mut channel, whole(&buffer, Picoseconds::NEVER)).await;
        let status = channel::status::STATE.put(ChannelState::Stopped.bits())
            | channel::status::ERROR.put(15);
        bus.forge(&[(block::STATUS, status), (block::SEQUENCE, 1)]);
        let failed = channel.wait(ticket).await.unwrap_err();
        assert_eq!(failed.fault, TransferFault::UnknownError { code: 15 });
    });
}

#[test]
fn counts_that_cannot_be_are_not_believed() {
    run(async |bus, device| {
        let (buffer, mut channel) = silent(&device, PAGE).await;
        let ticket = post(&mut channel, whole(&buffer, us(1_000))).await;
        for completed in [2, 1000, u32::MAX] {
            bus.forge(&[(block::COMPLETED, completed), (block::SEQUENCE, completed)]);
            assert_eq!(channel.poll(ticket).await.unwrap(), None);
            assert!(buffer.read(0, &mut [0]).is_err());
        }
        let late = channel.wait(ticket).await.unwrap_err();
        assert!(matches!(late.fault, TransferFault::Deadline { .. }), "{late}");
    });
}

#[test]
fn interrupts_may_get_lost_or_come_for_nothing() {
    run(async |bus, device| {
        device.user().seed(1).await.unwrap();
        let buffer = device.buffer(64 * PAGE, PageSize::Small).await.unwrap();
        let mut channel = c2h(&device, Notification::Interrupt).await;
        let mut bytes = vec![0; 64 * PAGE as usize];
        for (n, lie) in [&bus.lies.loses_interrupts, &bus.lies.interrupts_for_nothing]
            .into_iter()
            .cycle()
            .take(6)
            .enumerate()
        {
            lie.store(true, Relaxed);
            channel.transfer(whole(&buffer, Picoseconds::NEVER)).await.unwrap();
            lie.store(false, Relaxed);
            buffer.read(0, &mut bytes).unwrap();
            let words = 16 * PAGE as u32;
            assert!(bytes == pattern(1, n as u32 * words, 64 * PAGE), "transfer {n}");
        }
        // Needless interrupts disturb nothing.
        for _ in 0..8 {
            channel.transfer(whole(&buffer, Picoseconds::NEVER)).await.unwrap();
        }
    });
}

#[test]
fn an_engine_that_does_not_answer_keeps_its_buffers_until_it_does() {
    run(async |bus, device| {
        let (buffer, mut channel) = silent(&device, PAGE).await;
        let ticket = post(&mut channel, whole(&buffer, Picoseconds::NEVER)).await;
        bus.lies.does_not_answer.store(true, Relaxed);
        // No deadline, and still no hang: the wait checks for faults.
        let error = channel.wait(ticket).await.unwrap_err();
        let sentence = error.to_string();
        assert!(
            sentence.starts_with("fpga1 C2H 0: the engine does not answer (fpga1: cannot read")
        );
        assert!(sentence.ends_with(": 0 of 4096 B were moved"), "{sentence}");
        // It may come back and write: the memory must not be reused.
        assert!(buffer.read(0, &mut [0]).is_err());
        assert!(channel.restart().await.is_err());
        assert!(channel.close().await.is_err());
        assert!(buffer.read(0, &mut [0]).is_err());
        let again = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await;
        assert!(again.is_err());
        bus.lies.does_not_answer.store(false, Relaxed);
        let again = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await;
        again.unwrap();
        buffer.read(0, &mut [0]).unwrap();
        buffer.unregister().await.unwrap();
    });
}

#[test]
fn a_bus_that_forgets_a_place_is_an_error() {
    run(async |bus, device| {
        let mut channel = c2h(&device, Notification::Poll).await;
        bus.lies.forgets_a_place.store(true, Relaxed);
        let buffer = device.buffer(16 * PAGE, PageSize::Small).await.unwrap();
        let refused = channel.post(&[whole(&buffer, Picoseconds::NEVER)]).await.unwrap_err();
        assert!(refused.to_string().contains("the bus has named"), "{refused}");
        assert!(refused.to_string().ends_with("where 65536 B were pinned"), "{refused}");
        // A refused transfer claims nothing.
        buffer.write(0, &[1]).unwrap();
        assert_eq!(channel.statistics().posted, 0);
    });
}

/// Memory that an engine may still write is kept exactly as long as the simulation.
#[test]
fn memory_of_a_dropped_channel_ends_with_its_simulation() {
    let lies = run(async |bus, device| {
        let buffer = device.buffer(16 * PAGE, PageSize::Small).await.unwrap();
        let mut channel = c2h(&device, Notification::Poll).await;
        channel.post(&[whole(&buffer, Picoseconds::NEVER)]).await.unwrap();
        drop((channel, buffer, device));
        assert!(Arc::strong_count(&bus.lies) > 1, "the buffer is kept, and it has its bus");
        Arc::downgrade(&bus.lies)
    });
    assert_eq!(lies.strong_count(), 0);
}
