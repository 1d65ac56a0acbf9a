// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that end with an error; and many at once.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crosslane_driver::DriverError;
use crosslane_driver::network_processor::*;
use crosslane_host::{Bus, ErrorKind, Mapping};

use crate::network_processor::stand::*;

fn pair(modes: Modes) -> Stand {
    Stand::new(&[2], modes)
}

#[test]
fn more_messages_than_places_go_through() {
    let stand = pair(Modes::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let bytes = 3000;
    stand.run(async {
        // At most 32 credits and 16 gets can be in flight.
        let mut credits = Vec::new();
        for number in 0..32_u8 {
            let room = to.buffer(bytes).await.unwrap();
            let credit = message(to, key(1, number % 8, number), &room, bytes);
            credits.push((to.credit(credit).await.unwrap(), room));
        }
        let mut gets = Vec::new();
        for number in 0..32_u8 {
            let buffer = filled(from, &pattern(number.into(), bytes)).await;
            let get = message(from, key(0, number % 8, number), &buffer, bytes);
            gets.push(from.nget(get).await.unwrap());
        }
        for get in &gets {
            assert_eq!(from.wait(get, late(from)).await.unwrap().bytes, bytes);
            assert_eq!(from.poll(get).unwrap().unwrap().bytes, bytes, "asked twice");
        }
        for (number, (credit, room)) in credits.iter().enumerate() {
            assert_eq!(to.wait(credit, late(to)).await.unwrap().bytes, bytes);
            assert!(contents(room, bytes) == pattern(number as u64, bytes), "{number}");
        }
    });
}

#[test]
fn a_place_is_waited_for_until_the_deadline() {
    let stand = pair(Modes::default());
    let [from, _] = &stand.nodes[..] else { panic!("two nodes") };
    stand.run(async {
        let buffer = from.buffer(64 * 1024).await.unwrap();
        let mut credits = Vec::new();
        for number in 0..32 {
            let credit = Message {
                part: 1024 * number..1024 * (number + 1),
                ..message(from, key(0, 0, number as u8), &buffer, 0)
            };
            credits.push(from.credit(credit).await.unwrap());
        }
        let begun = from.bus().now();
        let credit = Message {
            part: 1024 * 32..1024 * 33,
            deadline: begun + ns(30_000),
            ..message(from, key(0, 0, 32), &buffer, 0)
        };
        let error = from.credit(credit.clone()).await.map(drop).unwrap_err();
        assert_eq!(error.fault, NetworkFault::Deadline { deadline: credit.deadline });
        assert_eq!(from.bus().now(), begun + ns(30_000));
        // Dropping one makes room.
        credits.pop();
        let credit = Message { deadline: late(from), ..credit };
        from.credit(credit).await.unwrap();
    });
}

#[test]
fn what_cannot_be_is_refused_before_it_is_written() {
    let stand = pair(Modes::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    stand.run(async {
        let buffer = from.buffer(2 << 20).await.unwrap();
        let others = to.buffer(4096).await.unwrap();
        let refusal = async |message| {
            let error = from.nget(message).await.map(drop).unwrap_err();
            assert!(matches!(error.fault, NetworkFault::Refused(_)));
            error.to_string()
        };
        let good = message(from, key(0, 0, 0), &buffer, 64);
        for (message, sentence) in [
            (
                Message { part: 0..(1 << 20) + 1, ..good.clone() },
                "fpga1 link 0 channel 0 tag 0: a message of 1048577 B; it has 1048576 B at most",
            ),
            (
                Message { part: 0..1 << 20, ..good.clone() },
                "fpga1 link 0 channel 0 tag 0: its memory lies in 256 pieces, and there are 16 \
                 places for requests: copied or mapped buffers are contiguous",
            ),
            (
                Message { part: 100..5000, ..good.clone() },
                "fpga1 link 0 channel 0 tag 0: its memory goes on elsewhere after 3996 B, which \
                 is no multiple of the 128 B of a datagram: copied or mapped buffers are \
                 contiguous",
            ),
            (
                Message { part: 0..(2 << 20) + 1, ..good.clone() },
                "fpga1 link 0 channel 0 tag 0: a message of 2097153 B; it has 1048576 B at most",
            ),
            (
                Message { part: (2 << 20) - 1..(2 << 20) + 1, ..good.clone() },
                "a buffer of fpga1: bytes 2097151 to 2097153 are not in its 2097152 B",
            ),
            (
                Message { key: key(4, 0, 0), ..good.clone() },
                "fpga1 link 4 channel 0 tag 0: it has 4 links, from 0 on",
            ),
        ] {
            assert_eq!(refusal(message).await, sentence);
        }
        // Two with one key.
        let get = from.credit(good.clone()).await.unwrap();
        let again = Message { part: 4096..4160, ..good.clone() };
        let error = from.credit(again).await.map(drop).unwrap_err();
        assert_eq!(
            error.to_string(),
            "fpga1 link 0 channel 0 tag 0: another message has it and has not ended"
        );
        // And two in one piece of memory.
        let error = from.credit(Message { key: key(0, 0, 1), ..good.clone() }).await;
        assert_eq!(
            error.map(drop).unwrap_err().to_string(),
            "a buffer of fpga1: bytes 0 to 64 are wanted while a transfer of bytes 0 to 64 is in \
             flight"
        );
        drop(get);
        let counters = from.counters().await.unwrap();
        assert_eq!((counters.gets, counters.refused), (0, 0));
        drop(others);
    });
}

#[test]
fn a_channel_that_waits_blocks_no_other() {
    let stand = pair(Modes::default().with_buffers(Buffers::Mapped));
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let bytes = 256 * 1024;
    stand.run(async {
        // Without a credit it fills the other end's buffer and its own staging memory.
        let source = filled(from, &pattern(1, bytes)).await;
        let held = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
        for channel in 1..8 {
            carry(&stand.nodes, (channel, 0), &pattern(channel.into(), 5000)).await;
        }
        assert_eq!(from.poll(&held).unwrap(), None);
        let target = to.buffer(bytes).await.unwrap();
        let credit = to.credit(message(to, key(1, 0, 0), &target, bytes)).await.unwrap();
        from.wait(&held, late(from)).await.unwrap();
        to.wait(&credit, late(to)).await.unwrap();
        assert!(contents(&target, bytes) == pattern(1, bytes));
    });
}

#[test]
fn a_deadline_gives_the_memory_back() {
    for requests in [
        Requests::SystemCall,
        Requests::Stores(Mapping::Uncached),
        Requests::Stores(Mapping::WriteCombined),
    ] {
        let stand = pair(Modes::default().with_requests(requests));
        let to = &stand.nodes[1];
        stand.run(async {
            let target = to.buffer(4096).await.unwrap();
            let credit = to.credit(message(to, key(1, 0, 0), &target, 4096)).await.unwrap();
            assert!(target.read(0, &mut [0]).is_err(), "it is the device's");
            let deadline = to.bus().now() + ns(20_000);
            let error = to.wait(&credit, deadline).await.unwrap_err();
            assert_eq!(error.fault, NetworkFault::Deadline { deadline });
            assert_eq!(
                error.to_string(),
                format!(
                    "fpga2 link 1 channel 0 tag 0: not ended at the deadline, {deadline}: 0 of \
                     4096 B were moved"
                )
            );
            assert!(to.bus().now() < deadline + ns(5_000), "the cancel takes no longer");
            target.read(0, &mut [0]).unwrap();
        });
        // New data are for the next credit, not for that one.
        stand.run(carry(&stand.nodes, (0, 0), &pattern(5, 4096)));
    }
}

#[test]
fn a_get_that_is_cancelled_ends_the_message_at_the_other_end() {
    let stand = pair(Modes::default().with_buffers(Buffers::Mapped));
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let bytes = 512 * 1024;
    stand.run(async {
        let source = filled(from, &pattern(1, bytes)).await;
        let target = to.buffer(bytes).await.unwrap();
        let credit = to.credit(message(to, key(1, 0, 0), &target, bytes)).await.unwrap();
        let get = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
        from.bus().sleep_until(from.bus().now() + ns(20_000)).await;
        from.cancel(&get).await.unwrap();
        let error = from.wait(&get, late(from)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::Cancelled);
        assert!(error.moved_bytes > 0 && error.moved_bytes < bytes, "{error}");
        let error = to.wait(&credit, late(to)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::FarEnd);
        source.write(0, &[1]).unwrap();
        target.write(0, &[1]).unwrap();
        // Cancels after the end do nothing.
        from.cancel(&get).await.unwrap();
        to.cancel(&credit).await.unwrap();
    });
    stand.run(carry(&stand.nodes, (0, 0), &pattern(2, 5000)));
}

#[test]
fn a_message_that_is_too_long_fills_its_room_and_no_more() {
    for buffers in [Buffers::User, Buffers::Copied, Buffers::Mapped] {
        let stand = pair(Modes::default().with_buffers(buffers));
        let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
        stand.run(async {
            let data = pattern(1, 4096);
            let source = filled(from, &data).await;
            let target = filled(to, &[0xee; 4096]).await;
            let credit = to.credit(message(to, key(1, 0, 0), &target, 1000)).await.unwrap();
            let get = from.nget(message(from, key(0, 0, 0), &source, 4096)).await.unwrap();
            from.wait(&get, late(from)).await.unwrap();
            let error = to.wait(&credit, late(to)).await.unwrap_err();
            assert_eq!((error.fault, error.moved_bytes), (NetworkFault::TooLong, 1000));
            let seen = contents(&target, 4096);
            assert!(seen[..1000] == data[..1000]);
            assert!(seen[1000..].iter().all(|&byte| byte == 0xee), "beyond the room");
        });
        stand.run(carry(&stand.nodes, (0, 0), &pattern(2, 5000)));
    }
}

#[test]
fn a_link_that_is_taken_down_ends_its_messages_and_no_others() {
    let stand = pair(Modes::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    stand.run(async {
        let target = to.buffer(8192).await.unwrap();
        let on = |link, part| Message { part, ..message(to, key(link, 0, 0), &target, 0) };
        let first = to.credit(on(1, 0..4096)).await.unwrap();
        let second = to.credit(on(0, 4096..8192)).await.unwrap();
        to.disable_link(1).await.unwrap();
        let error = to.wait(&first, late(to)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::LinkDown);
        // Later messages fail too.
        let third = to.credit(on(1, 0..4096)).await.unwrap();
        let error = to.wait(&third, late(to)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::LinkDown);
        let data = pattern(3, 4096);
        let source = filled(from, &data).await;
        let get = from.nget(message(from, key(1, 0, 0), &source, 4096)).await.unwrap();
        from.wait(&get, late(from)).await.unwrap();
        to.wait(&second, late(to)).await.unwrap();
        let mut seen = vec![0; 4096];
        target.read(4096, &mut seen).unwrap();
        assert!(seen == data);
        // Both ends restart.
        from.disable_link(0).await.unwrap();
        to.enable_link(1).await.unwrap();
        from.enable_link(0).await.unwrap();
        to.wait_link_up(1, late(to)).await.unwrap();
        from.wait_link_up(0, late(from)).await.unwrap();
        let error = from.wait_link_up(2, from.bus().now()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "fpga1 link 2: it is not up but absent: not enabled, or nothing is connected"
        );
    });
    stand.run(carry(&stand.nodes, (0, 0), &pattern(2, 5000)));
}

#[test]
fn a_reset_ends_everything_and_leaves_it_usable() {
    let stand = pair(Modes::default().with_buffers(Buffers::Mapped));
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let bytes = 512 * 1024;
    stand.run(async {
        let source = filled(from, &pattern(1, bytes)).await;
        let room = from.buffer(4096).await.unwrap();
        let get = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
        let credit = from.credit(message(from, key(0, 0, 0), &room, 4096)).await.unwrap();
        from.bus().sleep_until(from.bus().now() + ns(10_000)).await;
        from.reset().await.unwrap();
        let error = from.wait(&get, late(from)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::Reset);
        let error = from.wait(&credit, late(from)).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::Reset);
        source.write(0, &[0]).unwrap();
        room.write(0, &[0]).unwrap();
        assert_eq!(from.link_state(0).await.unwrap(), LinkState::Absent);
        to.reset().await.unwrap();
        for node in [from, to] {
            for link in 0..2 {
                node.enable_link(link).await.unwrap();
            }
        }
        for node in [from, to] {
            for link in 0..2 {
                node.wait_link_up(link, late(node)).await.unwrap();
            }
        }
    });
    stand.run(carry(&stand.nodes, (0, 0), &pattern(2, 5000)));
}

/// Polls a future at most `polls` times, then drops it.
async fn drop_after<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[test]
fn futures_may_be_dropped_at_any_step() {
    for requests in [
        Requests::SystemCall,
        Requests::Stores(Mapping::Uncached),
        Requests::Stores(Mapping::WriteCombined),
    ] {
        for buffers in [Buffers::User, Buffers::Copied] {
            for polls in 0..12 {
                let stand = pair(Modes::default().with_buffers(buffers).with_requests(requests));
                let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
                stand.run(async {
                    // Four pages, so four requests in mode `User`.
                    let target = filled(to, &[0xee; 16_384]).await;
                    let credit = message(to, key(1, 0, 0), &target, 16_384);
                    let receive = async {
                        let credit = to.credit(credit).await.unwrap();
                        to.wait(&credit, late(to)).await
                    };
                    if let Some(ended) = drop_after(polls, receive).await {
                        let fault = ended.unwrap_err().fault;
                        assert!(matches!(fault, NetworkFault::Deadline { .. }), "{fault:?}");
                    }
                    let source = filled(from, &[0x11; 16_384]).await;
                    let get = message(from, key(0, 1, 0), &source, 16_384);
                    let send = async {
                        let get = from.nget(get).await.unwrap();
                        from.wait(&get, late(from)).await
                    };
                    drop(drop_after(polls, send).await);
                    // The next call takes back dropped messages; then their key is free, too.
                    to.bus().sleep_until(to.bus().now() + ns(50_000)).await;
                    to.put_drained(0, 0, late(to)).await.unwrap();
                    to.bus().sleep_until(to.bus().now() + ns(50_000)).await;
                    carry(&stand.nodes, (0, 0), &pattern(3, 16_384)).await;
                    assert!(contents(&target, 16_384).iter().all(|&byte| byte == 0xee));
                    from.put_drained(0, 0, late(from)).await.unwrap();
                    from.bus().sleep_until(from.bus().now() + ns(50_000)).await;
                    // A partly sent message ends here, or never begins.
                    let room = to.buffer(16_384).await.unwrap();
                    let credit = to.credit(message(to, key(1, 1, 0), &room, 16_384)).await.unwrap();
                    let deadline = to.bus().now() + ns(100_000);
                    match to.wait(&credit, deadline).await {
                        Ok(_) => assert!(contents(&room, 16_384) == [0x11; 16_384]),
                        Err(error) => assert!(
                            matches!(
                                error.fault,
                                NetworkFault::FarEnd | NetworkFault::Deadline { .. }
                            ),
                            "{error}"
                        ),
                    }
                    source.write(0, &[0; 16_384]).unwrap();
                });
                stand.run(carry(&stand.nodes, (1, 0), &pattern(4, 16_384)));
            }
        }
    }
}

#[test]
fn what_is_released_gives_its_memory_back() {
    let stand = pair(Modes::default());
    let processor = stand.nodes[0].clone();
    let host = crosslane_pcie::units::HostId(0);
    let opened = stand.simulation.memory_in_use(host);
    stand.run(async {
        let buffer = processor.buffer(4096).await.unwrap();
        let credit = processor.credit(message(&processor, key(0, 0, 0), &buffer, 4096)).await;
        let _credit = credit.unwrap();
        drop(buffer);
        processor.release().await.unwrap();
    });
    let Stand { simulation, nodes } = stand;
    drop(nodes);
    let released = simulation.memory_in_use(host);
    assert_eq!((opened.pinned_for.len(), released.pinned_for.len()), (2, 0));
    assert_eq!(released.bytes, 0);
}

#[test]
fn what_is_no_network_processor_is_not_opened() {
    let stand = pair(Modes::default());
    let bus = stand.nodes[0].bus().clone();
    let opened = stand.run(NetworkProcessor::init(bus, "fpga7", Modes::default()));
    let DriverError::Refused { place, kind, problem } = opened.unwrap_err() else {
        panic!("refused")
    };
    assert_eq!(
        (place.as_str(), kind, problem.as_str()),
        ("fpga7", ErrorKind::NotFound, "there is no such endpoint; endpoints are fpga1")
    );
    let lab = crosslane_lab::open("minimal").unwrap();
    let simulation = crosslane_lab::Simulation::new(lab.build_engines(1).unwrap());
    let bus = simulation.bus(crosslane_pcie::units::HostId(0));
    let opened = NetworkProcessor::init(bus, "card0", Modes::default());
    assert_eq!(
        simulation.run("init", opened).unwrap().unwrap_err().to_string(),
        "card0: it is no network processor: BAR2 has 0 B and needs 32768 B"
    );
}

#[test]
fn futures_may_go_to_other_threads() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let stand = pair(Modes::default());
    let from = &stand.nodes[0];
    let buffer = stand.run(from.buffer(64)).unwrap();
    let message = message(from, key(0, 0, 0), &buffer, 64);
    drop(sendable(from.nget(message.clone())));
    drop(sendable(from.put(key(0, 0, 0), &[1], late(from))));
    drop(sendable(from.reset()));
    let get = stand.run(from.nget(message)).unwrap();
    drop(sendable(from.wait(&get, late(from))));
}
