// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks in ports: credits, their return, payloads, replay buffers.

use std::sync::Arc;

use crosslane_experiment::Workload;
use crosslane_pcie::credits::Credits;
use crosslane_results::LimitKind::{
    CompletionCredits, CreditReturn, Dllps, MaxPayload, MaxReadRequest, NonPostedCredits,
    PostedCredits, ReplayBuffer,
};

use crate::planted::runs::{
    Engines, base, base_with, edited, peers, reads, through_driver, transfers, writes,
};
use crate::planted::{PEERS, Planted, READS, WRITES, explained};

/// More credits for headers and data than any of these runs uses at once: the most of a port
/// without scaled flow control.
const MANY: [f64; 2] = [127.0, 2047.0];

#[test]
fn posted_credits() {
    let run = |headers, data| {
        writes(base_with(&[
            ("part.host.port.posted_headers", headers),
            ("part.host.port.posted_data", data),
        ]))
    };
    let without = run(MANY[0], MANY[1]);
    let planted = Planted { case: run(2.0, 32.0), without, base: &WRITES };
    let words = "the posted credits of host0.port1 (2 headers, 32 x 16 B of data)";
    planted.is_named(PostedCredits, "host0.port1", words);
}

/// Slow ports make the round trip of a credit long.
#[test]
fn non_posted_credits() {
    let run = |header, data| {
        let lab = base_with(&[("part.host.port.receive_latency_ns", 400.0)]);
        reads(edited(&lab, |file| {
            let port = &mut Arc::make_mut(&mut file.hosts[0].part).port;
            port.receive_credits[1] = Credits { header, data };
        }))
    };
    let planted = Planted { case: run(1, 64), without: run(u32::MAX, u32::MAX), base: &READS };
    let words = "the non-posted credits of host0.port1 (1 header, 64 x 16 B of data)";
    planted.is_named(NonPostedCredits, "host0.port1", words);
}

#[test]
fn completion_credits() {
    let run = |headers, data| {
        let lab = base_with(&[
            ("part.sw.upstream_port.completion_headers", headers),
            ("part.sw.upstream_port.completion_data", data),
        ]);
        through_driver(lab, Workload::Read(transfers(1 << 16, 8)), &[&["card1"]])
    };
    let base = explained(&run(256.0, 4096.0));
    let without = run(MANY[0], MANY[1]);
    let planted = Planted { case: run(1.0, 32.0), without, base: &base };
    let words = "the completion credits of sw.up (1 header, 32 x 16 B of data)";
    planted.is_named(CompletionCredits, "sw.up", words);
}

/// Thirty metres of cable: there would be enough credits if they were returned in time.
#[test]
fn late_update_fc() {
    let run = |tlps| {
        writes(base_with(&[
            ("part.slot.flight_ns", 150.0),
            ("part.host.port.posted_headers", 10.0),
            ("part.host.port.update_fc_tlps", tlps),
            ("part.host.port.update_fc_within_ns", 20_000.0),
        ]))
    };
    let planted = Planted { case: run(64.0), without: run(1.0), base: &WRITES };
    let words = "how late credits of host0.port1 come back (after 64 TLPs or 20 us)";
    planted.is_named(CreditReturn, "host0.port1", words);
}

#[test]
fn max_payload_size() {
    let run =
        |bytes| writes(edited(&base(), |file| file.hosts[0].max_payload_limit_bytes = Some(bytes)));
    let planted = Planted { case: run(128), without: run(256), base: &WRITES };
    let words = "Max_Payload_Size of 128 B on the way (256 B are possible)";
    planted.is_named(MaxPayload, "host0", words);
}

/// The card could build longer writes, and the ports would accept them.
#[test]
fn short_writes_by_design() {
    let run = |bytes| writes(base_with(&[("part.card.requester.max_write_bytes", bytes)]));
    let planted = Planted { case: run(128.0), without: run(256.0), base: &WRITES };
    let words = "writes of 128 B, the longest that card5 can build";
    planted.is_named(MaxPayload, "card5", words);
}

#[test]
fn payloads_as_they_were_asked_for() {
    let run = |payload_bytes| {
        let options = transfers(1 << 16, 8).with_payload_bytes(payload_bytes);
        through_driver(base(), Workload::Write(options), &[&["card5"]])
    };
    let planted = Planted { case: run(Some(64)), without: run(None), base: &WRITES };
    planted.is_named(MaxPayload, "card5", "payloads of 64 B of card5, as they were asked for");
}

/// All tags are in use, each for a short read of a distant memory.
#[test]
fn max_read_request_size() {
    let run = |bytes| {
        let lab = base_with(&[
            ("part.card.requester.tags", 256.0),
            ("part.host.memory.read_latency_ns", 12_000.0),
            ("part.host.memory.read_slots", 512.0),
        ]);
        reads(edited(&lab, |file| file.hosts[0].max_read_request_bytes = bytes))
    };
    let planted = Planted { case: run(128), without: run(512), base: &READS };
    let words = "Max_Read_Request_Size of 128 B of card5 (512 B are possible)";
    planted.is_named(MaxReadRequest, "card5", words);
}

#[test]
fn replay_buffer() {
    let run = |bytes| writes(base_with(&[("part.card.port.replay_buffer_bytes", bytes)]));
    let planted = Planted { case: run(800.0), without: run(1e6), base: &WRITES };
    planted.is_named(ReplayBuffer, "card5", "the replay buffer of card5, 800 B");
}

/// Both cards send, and each TLP is answered by two DLLPs in the opposite direction.
#[test]
fn dllps() {
    let run = |tlps| {
        let lab = base_with(&[
            ("part.card.port.ack_tlps", tlps),
            ("part.card.port.update_fc_tlps", tlps),
            ("part.host.port.ack_tlps", tlps),
            ("part.host.port.update_fc_tlps", tlps),
        ]);
        let flows: [&[&str]; 2] = [&["card5", "card6"], &["card6", "card5"]];
        through_driver(lab, Workload::Peer(transfers(1 << 16, 8)), &flows)
    };
    let without = Engines { dllps_free: true, ..run(1.0) };
    let planted = Planted { case: run(1.0), without, base: &PEERS };
    let place = "the 4 directions that data cross";
    planted.is_named(Dllps, place, "Acks and UpdateFCs beside the data");
    let alone = peers(base_with(&[("part.card.port.ack_tlps", 1.0)]));
    assert_ne!(explained(&alone).steps[0].limits[0].kind, Dllps, "one way they cost nothing");
}
