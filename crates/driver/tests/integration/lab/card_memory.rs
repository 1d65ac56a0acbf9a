// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers with addresses of the card's memory, and their refusals.

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, DescriptorSource, Device, Notification, Target,
    TransferFault,
};
use crosslane_host::PageSize;

use crate::lab::setup::*;

const CARD_BYTES: u64 = 1 << 30;

fn options() -> ChannelOptions {
    ChannelOptions::default().with_card_memory(true)
}

async fn both(device: &Device, options: ChannelOptions) -> [Channel; 2] {
    let h2c = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
    [h2c, device.channel(ChannelKind::C2h, 0, options).await.unwrap()]
}

fn at(buffer: &Buffer, card: u64) -> Target {
    Target::Card(buffer.clone(), 0..buffer.size_bytes(), card)
}

/// Buffers of many segments are contiguous in the card's memory, with every engine.
#[test]
fn buffers_go_to_the_card_and_back() {
    for lab in ["kc705", "kc705:narrow", "kc705:crosslane"] {
        run_on(lab, ["kc705"], async |[device]| {
            assert!(device.description().card_memory);
            let [mut h2c, mut c2h] = both(&device, options()).await;
            for (number, card) in [0, 12_345, CARD_BYTES - 9 * PAGE].into_iter().enumerate() {
                let sent = filled(&device, 9 * PAGE, number as u32).await;
                assert!(sent.segments().len() > 1);
                h2c.transfer(to(at(&sent, card), VISIBLE)).await.unwrap();
                let back = empty(&device, 9 * PAGE).await;
                c2h.transfer(to(at(&back, card), VISIBLE)).await.unwrap();
                assert!(contents(&back) == pattern(number as u32, 0, 9 * PAGE), "{lab} {card}");
            }
            // A part of it, from the middle.
            let part = empty(&device, PAGE).await;
            c2h.transfer(to(at(&part, 12_345 + 4 * PAGE), VISIBLE)).await.unwrap();
            assert!(contents(&part) == pattern(1, 1024 * 4, PAGE));
        });
    }
}

/// The method of the paper: parameters by registers, an interrupt at the end.
#[test]
fn a_table_moves_to_the_cards_first_address() {
    run_on("kc705", ["kc705"], async |[device]| {
        let options = options()
            .with_descriptors(DescriptorSource::Table)
            .with_notification(Notification::Interrupt);
        let [mut h2c, mut c2h] = both(&device, options).await;
        let buffer = device.buffer(4 << 20, PageSize::Huge).await.unwrap();
        buffer.write(0, &pattern(7, 0, PAGE)).unwrap();
        let target = |card| Target::Card(buffer.clone(), 0..PAGE, card);
        let done = h2c.transfer(to(target(0), VISIBLE)).await.unwrap();
        assert_eq!(done.bytes, PAGE);
        buffer.write(0, &[0; PAGE as usize]).unwrap();
        c2h.transfer(to(target(0), VISIBLE)).await.unwrap();
        assert!(contents(&buffer)[..PAGE as usize] == pattern(7, 0, PAGE));
        let pieces = empty(&device, 2 * PAGE).await;
        let mut said = Vec::new();
        for target in [target(64), at(&pieces, 0)] {
            said.push(failure(h2c.transfer(to(target, VISIBLE)).await));
        }
        insta::assert_snapshot!(said.join("\n"));
    });
}

#[test]
fn what_the_card_does_not_have_is_refused_and_told() {
    run_on("kc705:crosslane", ["kc705"], async |[device]| {
        let [mut h2c, mut c2h] = both(&device, options()).await;
        let buffer = filled(&device, PAGE, 1).await;
        let behind = CARD_BYTES - 1024;
        let error = h2c.transfer(to(at(&buffer, behind), VISIBLE)).await.unwrap_err();
        assert_eq!((&error.fault, error.moved_bytes), (&TransferFault::CardMemory, 1024));
        assert_eq!(error.address.map(|it| it.0), Some(CARD_BYTES));
        let error = c2h.transfer(to(at(&buffer, behind), VISIBLE)).await.unwrap_err();
        assert_eq!((&error.fault, error.moved_bytes), (&TransferFault::CardMemory, 1024));
        // It works again after a restart.
        h2c.restart().await.unwrap();
        h2c.transfer(to(at(&buffer, 0), VISIBLE)).await.unwrap();
        let mut said = Vec::new();
        for target in [at(&buffer, u64::MAX), Target::Buffer(buffer.clone(), 0..PAGE)] {
            said.push(failure(h2c.transfer(to(target, VISIBLE)).await));
        }
        h2c.close().await.unwrap();
        // The same channel as a stream.
        let stream = ChannelOptions::default();
        let mut h2c = device.channel(ChannelKind::H2c, 0, stream).await.unwrap();
        said.push(failure(h2c.transfer(to(at(&buffer, 0), VISIBLE)).await));
        h2c.transfer(to(Target::Buffer(buffer.clone(), 0..PAGE), VISIBLE)).await.unwrap();
        said.push(failure(device.channel(ChannelKind::Peer, 0, options()).await));
        insta::assert_snapshot!(said.join("\n"));
    });
    run_on("rosta", ["fpga1"], async |[device]| {
        fails(
            device.channel(ChannelKind::H2c, 0, options()).await,
            "fpga1 H2C 0: its engine does not reach the card's memory",
        );
    });
}

#[test]
fn bytes_are_copied_within_the_card() {
    for lab in ["kc705", "kc705:crosslane"] {
        run_on(lab, ["kc705"], async |[device]| {
            assert!(device.description().card_copy);
            let [mut h2c, mut c2h] = both(&device, options()).await;
            let sent = filled(&device, 3 * PAGE, 5).await;
            h2c.transfer(to(at(&sent, 12_345), VISIBLE)).await.unwrap();
            let copy = |from, to, bytes| Target::CardToCard { from, to, bytes };
            let there = CARD_BYTES - 3 * PAGE;
            c2h.transfer(to(copy(12_345, there, 3 * PAGE), VISIBLE)).await.unwrap();
            let back = empty(&device, 3 * PAGE).await;
            c2h.transfer(to(at(&back, there), VISIBLE)).await.unwrap();
            assert!(contents(&back) == pattern(5, 0, 3 * PAGE), "{lab}");

            let error = c2h.transfer(to(copy(0, there, 4 * PAGE), VISIBLE)).await.unwrap_err();
            assert_eq!((&error.fault, error.moved_bytes), (&TransferFault::CardMemory, 3 * PAGE));
            assert_eq!(error.address.map(|it| it.0), Some(CARD_BYTES));
            c2h.restart().await.unwrap();
            let mut said = Vec::new();
            for target in [copy(0, 0, 0), copy(0, 4095, PAGE), copy(0, u64::MAX, PAGE)] {
                said.push(failure(c2h.transfer(to(target, VISIBLE)).await));
            }
            said.push(failure(h2c.transfer(to(copy(0, PAGE, PAGE), VISIBLE)).await));
            c2h.close().await.unwrap();
            let table = options().with_descriptors(DescriptorSource::Table);
            for options in [table, ChannelOptions::default()] {
                let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
                said.push(failure(c2h.transfer(to(copy(0, PAGE, PAGE), VISIBLE)).await));
                c2h.close().await.unwrap();
            }
            insta::assert_snapshot!("copies_that_cannot_be", said.join("\n"));
        });
    }
}
