// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Engines that read and write the memory of other cards.

use crosslane_driver::{
    Addressing, CARD_MEMORY_BAR, ChannelKind, ChannelOptions, CompletionLevel, Device, Target,
};
use crosslane_host::Topology;

use crate::lab::plans::redirect;
use crate::lab::setup::*;

const LAB: &str = "rosta:memory";

/// Writes the pattern into a card's memory from `card` on, by its own engine.
async fn fill(device: &Device, card: u64, bytes: u64, seed: u32) {
    let options = ChannelOptions::default().with_card_memory(true);
    let mut channel = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
    let buffer = filled(device, bytes, seed).await;
    channel.transfer(to(Target::Card(buffer, 0..bytes, card), VISIBLE)).await.unwrap();
    channel.close().await.unwrap();
}

/// Data of any place and length; the reader's checker compares them.
#[test]
fn a_card_reads_the_memory_of_another() {
    run_on(LAB, ["fpga1", "fpga5"], async |[reader, source]| {
        fill(&source, 12_340, 9 * PAGE, 5).await;
        let memory = reader.peer_memory(source.function().id, CARD_MEMORY_BAR).await.unwrap();
        assert_eq!(memory.size_bytes(), 256 << 20);
        let mut channel = channel(&reader, ChannelKind::H2c).await;
        reader.user().check_h2c(5).await.unwrap();
        for part in [12_340..12_344, 12_344..12_340 + PAGE, 12_340 + PAGE..12_340 + 9 * PAGE] {
            channel.transfer(to(memory.target(part), VISIBLE)).await.unwrap();
        }
        let check = reader.user().h2c_check_result().await.unwrap();
        assert_eq!((check.errors, channel.counters().await.unwrap().bytes), (0, 9 * PAGE));
        // The path is that of the data.
        let plan = memory.plan();
        let ends = [plan.path.first(), plan.path.last()].map(|end| end.unwrap().name.as_str());
        assert_eq!((ends, plan.through_root_complex), (["fpga5", "fpga1"], false));
        // Completions have headers of 3 DW; the memory lies above 4 GiB.
        let expected = 2.0e9 * (1.0 - 4.0 / 1538.0) * 128.0 / 148.0;
        assert!((plan.expected_bytes_per_second - expected).abs() < 1.0, "{plan:?}");
        channel.close().await.unwrap();
        memory.close().await.unwrap();
    });
}

/// Bytes of any place and length, from memory to memory.
#[test]
fn a_card_reads_a_peers_memory_into_its_own() {
    run_on(LAB, ["fpga1", "fpga5"], async |[reader, source]| {
        let (seed, bytes) = (9, 9 * PAGE);
        fill(&source, 0, bytes, seed).await;
        let memory = reader.peer_memory(source.function().id, CARD_MEMORY_BAR).await.unwrap();
        let options = ChannelOptions::default().with_card_memory(true);
        let mut h2c = reader.channel(ChannelKind::H2c, 0, options).await.unwrap();
        let mut c2h = reader.channel(ChannelKind::C2h, 0, options).await.unwrap();
        for (from, to, length) in [(0, 0, 4), (4096, 77, 4097), (13, 1 << 20, 5 * PAGE + 3)] {
            let into = memory.target_in_card(from..from + length, to);
            h2c.transfer(self::to(into, VISIBLE)).await.unwrap();
            let back = empty(&reader, length).await;
            let target = Target::Card(back.clone(), 0..length, to);
            c2h.transfer(self::to(target, VISIBLE)).await.unwrap();
            let expected = &pattern(seed, 0, bytes)[from as usize..(from + length) as usize];
            assert!(contents(&back) == expected, "{length} B from {from} to {to}");
        }
        h2c.close().await.unwrap();
        c2h.close().await.unwrap();
        memory.close().await.unwrap();
    });
}

/// Bytes of any place and length, from memory to memory: what was sent is there for the writer's
/// next read, and for the card that has the memory.
#[test]
fn a_card_writes_the_memory_of_another() {
    run_on(LAB, ["fpga1", "fpga5"], async |[writer, target]| {
        let (seed, bytes) = (11, 9 * PAGE);
        fill(&writer, 0, bytes, seed).await;
        let memory = writer.peer_memory(target.function().id, CARD_MEMORY_BAR).await.unwrap();
        let options = ChannelOptions::default().with_card_memory(true);
        let mut c2h = writer.channel(ChannelKind::C2h, 0, options).await.unwrap();
        let mut h2c = writer.channel(ChannelKind::H2c, 0, options).await.unwrap();
        let mut of_target = target.channel(ChannelKind::C2h, 0, options).await.unwrap();
        for (from, to, length) in [(0, 0, 4), (77, 4093, 4097), (13, 1 << 20, 5 * PAGE + 3)] {
            let written = memory.target_in_card(to..to + length, from);
            c2h.transfer(self::to(written, CompletionLevel::Sent)).await.unwrap();
            let again = 1 << 24;
            let read = memory.target_in_card(to..to + length, again);
            h2c.transfer(self::to(read, VISIBLE)).await.unwrap();
            let expected = &pattern(seed, 0, bytes)[from as usize..(from + length) as usize];
            for (device, channel, at) in [(&writer, &mut c2h, again), (&target, &mut of_target, to)]
            {
                let back = empty(device, length).await;
                let target = Target::Card(back.clone(), 0..length, at);
                channel.transfer(self::to(target, VISIBLE)).await.unwrap();
                assert!(contents(&back) == expected, "{length} B from {from} to {to}");
            }
        }
        // The path is that of the data, and writes above 4 GiB have headers of 4 DW.
        let plan = memory.write_plan();
        let ends = [plan.path.first(), plan.path.last()].map(|end| end.unwrap().name.as_str());
        assert_eq!((ends, plan.through_root_complex), (["fpga1", "fpga5"], false));
        let expected = 2.0e9 * (1.0 - 4.0 / 1538.0) * 128.0 / 152.0;
        assert!((plan.expected_bytes_per_second - expected).abs() < 1.0, "{plan:?}");
        for channel in [c2h, h2c, of_target] {
            channel.close().await.unwrap();
        }
        memory.close().await.unwrap();
    });
}

/// The writer's generator makes the data.
#[test]
fn a_card_sends_its_stream_into_the_memory_of_another() {
    run_on(LAB, ["fpga2", "fpga3"], async |[writer, target]| {
        let (seed, bytes) = (6, 3 * PAGE + 12);
        let memory = writer.peer_memory(target.function().id, CARD_MEMORY_BAR).await.unwrap();
        let mut c2h = channel(&writer, ChannelKind::C2h).await;
        writer.user().seed(seed).await.unwrap();
        let written = memory.target(64..64 + bytes);
        c2h.transfer(to(written, CompletionLevel::Sent)).await.unwrap();
        c2h.close().await.unwrap();
        sleep(&writer, us(5)).await;
        let options = ChannelOptions::default().with_card_memory(true);
        let mut of_target = target.channel(ChannelKind::C2h, 0, options).await.unwrap();
        let back = empty(&target, bytes).await;
        of_target.transfer(to(Target::Card(back.clone(), 0..bytes, 64), VISIBLE)).await.unwrap();
        assert!(contents(&back) == pattern(seed, 0, bytes));
        of_target.close().await.unwrap();
        memory.close().await.unwrap();
    });
}

/// With redirection and an IOMMU the BAR is mapped for the reader, as long as it is open.
#[test]
fn a_peers_bar_is_mapped_behind_an_iommu() {
    run_on("rosta:iommu", ["fpga1", "fpga5"], async |[reader, source]| {
        for port in ["rc47a.down0", "rha25.down0"] {
            redirect(reader.bus(), port);
        }
        let id = source.function().id;
        let memory = reader.peer_memory(id, 1).await.unwrap();
        assert_eq!(memory.plan().addressing, Addressing::Mapped);
        let mut channel = channel(&reader, ChannelKind::H2c).await;
        channel.transfer(to(memory.target(0..PAGE), VISIBLE)).await.unwrap();
        fails(
            memory.clone().close().await,
            "BAR1 of fpga5: a transfer of it is in flight, or \
             another handle on it is open",
        );
        channel.close().await.unwrap();
        memory.close().await.unwrap();
        reader.peer_memory(id, 1).await.unwrap().close().await.unwrap();
    });
}

#[test]
fn transfers_of_peers_that_cannot_be_are_refused() {
    run_on(LAB, ["fpga1", "fpga5"], async |[reader, source]| {
        let id = source.function().id;
        let mut said = Vec::new();
        let nobody = reader.bus().functions().unwrap().len() as u16 | 0x7000;
        let nobody = crosslane_pcie::units::RoutingId(nobody);
        for (function, bar) in [(id, 5), (reader.function().id, 2), (nobody, 2)] {
            said.push(failure(reader.peer_memory(function, bar).await));
        }
        let memory = reader.peer_memory(id, CARD_MEMORY_BAR).await.unwrap();
        let mut h2c = channel(&reader, ChannelKind::H2c).await;
        let end = memory.size_bytes();
        for part in [64..64, end - 64..end + 4] {
            said.push(failure(h2c.transfer(to(memory.target(part), VISIBLE)).await));
        }
        h2c.close().await.unwrap();
        let mut c2h = channel(&reader, ChannelKind::C2h).await;
        said.push(failure(c2h.transfer(to(memory.target(0..64), VISIBLE)).await));
        let mut peer = channel(&reader, ChannelKind::Peer).await;
        said.push(failure(peer.transfer(to(memory.target(0..64), CompletionLevel::Sent)).await));
        let mut other = channel(&source, ChannelKind::H2c).await;
        said.push(failure(other.transfer(to(memory.target(0..64), VISIBLE)).await));
        said.push(failure(other.transfer(to(memory.target_in_card(0..64, 0), VISIBLE)).await));
        other.close().await.unwrap();
        let options = ChannelOptions::default().with_card_memory(true);
        let mut own = reader.channel(ChannelKind::H2c, 0, options).await.unwrap();
        said.push(failure(own.transfer(to(memory.target(0..64), VISIBLE)).await));
        insta::assert_snapshot!(said.join("\n"));
    });
}
