// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that end with an error; and many at once.

use crosslane_driver::DriverError;
use crosslane_driver::network_processor::*;
use crosslane_host::{Bus, ErrorKind};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::HostId;

use crate::network_processor::stand::*;

#[test]
fn more_messages_than_places_go_through() {
    on_pair(Modes::default(), async |_, [from, to]| {
        let bytes = 3000;
        // At most 32 credits and 16 gets can be in flight.
        let mut credits = Vec::new();
        for number in 0..32_u8 {
            credits.push(receive(to, key(1, number % 8, number), bytes).await);
        }
        let mut gets = Vec::new();
        for number in 0..32_u8 {
            let data = pattern(number.into(), bytes);
            gets.push(send(from, key(0, number % 8, number), &data).await);
        }
        for (_, get) in &gets {
            assert_eq!(ended(from, get).await.bytes, bytes);
            assert_eq!(from.poll(get).unwrap().unwrap().bytes, bytes, "asked twice");
        }
        for (number, credit) in credits.iter().enumerate() {
            arrives(to, credit, &pattern(number as u64, bytes)).await;
        }
    });
}

#[test]
fn a_place_is_waited_for_until_the_deadline() {
    on_pair(Modes::default(), async |_, [from, _]| {
        let buffer = from.buffer(64 * 1024).await.unwrap();
        let credit = |number: u64| Message {
            part: 1024 * number..1024 * (number + 1),
            ..message(from, key(0, 0, number as u8), &buffer, 0)
        };
        let mut credits = Vec::new();
        for number in 0..32 {
            credits.push(from.credit(credit(number)).await.unwrap());
        }
        let begun = from.bus().now();
        let credit = Message { deadline: begun + ns(30_000), ..credit(32) };
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
    on_pair(Modes::default(), async |_, [from, to]| {
        let buffer = from.buffer(2 << 20).await.unwrap();
        let others = to.buffer(4096).await.unwrap();
        let refusal = async |message| {
            let error = from.nget(message).await.map(drop).unwrap_err();
            assert!(matches!(error.fault, NetworkFault::Refused(_)));
            error.to_string()
        };
        let good = message(from, key(0, 0, 0), &buffer, 64);
        let mut said = Vec::new();
        for part in [0..(1 << 20) + 1, 0..1 << 20, 0..(2 << 20) + 1, (2 << 20) - 1..(2 << 20) + 1] {
            said.push(refusal(Message { part, ..good.clone() }).await);
        }
        said.push(refusal(Message { key: key(4, 0, 0), ..good.clone() }).await);
        // Two with one key, and two in one piece of memory.
        let get = from.credit(good.clone()).await.unwrap();
        let again = Message { part: 4096..4160, ..good.clone() };
        said.push(failure(from.credit(again).await));
        said.push(failure(from.credit(Message { key: key(0, 0, 1), ..good.clone() }).await));
        insta::assert_snapshot!(said.join("\n"));
        drop(get);
        let counters = from.counters().await.unwrap();
        assert_eq!((counters.gets, counters.refused), (0, 0));
        drop(others);
    });
}

#[test]
fn a_channel_that_waits_blocks_no_other() {
    on_pair(mapped(), async |_, [from, to]| {
        let bytes = 256 * 1024;
        // Without a credit it fills the other end's buffer and its own staging memory.
        let source = filled(from, &pattern(1, bytes)).await;
        let held = from.nget(message(from, key(0, 0, 0), &source, bytes)).await.unwrap();
        for channel in 1..8 {
            carry([from, to], (channel, 0), &pattern(channel.into(), 5000)).await;
        }
        assert_eq!(from.poll(&held).unwrap(), None);
        let (target, credit) = receive(to, key(1, 0, 0), bytes).await;
        ended(from, &held).await;
        ended(to, &credit).await;
        assert!(contents(&target, bytes) == pattern(1, bytes));
    });
}

#[test]
fn a_deadline_gives_the_memory_back() {
    for requests in REQUESTS {
        on_pair(Modes::default().with_requests(requests), async |_, [from, to]| {
            let (target, credit) = receive(to, key(1, 0, 0), 4096).await;
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
            // New data are for the next credit, not for that one.
            carry([from, to], (0, 0), &pattern(5, 4096)).await;
        });
    }
}

#[test]
fn a_get_that_is_cancelled_ends_the_message_at_the_other_end() {
    on_pair(mapped(), async |_, [from, to]| {
        let bytes = 512 * 1024;
        let (target, credit) = receive(to, key(1, 0, 0), bytes).await;
        let (source, get) = send(from, key(0, 0, 0), &pattern(1, bytes)).await;
        pause(from, 20_000).await;
        from.cancel(&get).await.unwrap();
        let error = failed(from, &get).await;
        assert_eq!(error.fault, NetworkFault::Cancelled);
        assert!(error.moved_bytes > 0 && error.moved_bytes < bytes, "{error}");
        assert_eq!(failed(to, &credit).await.fault, NetworkFault::FarEnd);
        source.write(0, &[1]).unwrap();
        target.write(0, &[1]).unwrap();
        // Cancels after the end do nothing.
        from.cancel(&get).await.unwrap();
        to.cancel(&credit).await.unwrap();
        carry([from, to], (0, 0), &pattern(2, 5000)).await;
    });
}

#[test]
fn a_message_that_is_too_long_fills_its_room_and_no_more() {
    for buffers in BUFFERS {
        on_pair(Modes::default().with_buffers(buffers), async |_, [from, to]| {
            let data = pattern(1, 4096);
            let target = filled(to, &[0xee; 4096]).await;
            let credit = to.credit(message(to, key(1, 0, 0), &target, 1000)).await.unwrap();
            let (_source, get) = send(from, key(0, 0, 0), &data).await;
            ended(from, &get).await;
            let error = failed(to, &credit).await;
            assert_eq!((error.fault, error.moved_bytes), (NetworkFault::TooLong, 1000));
            let seen = contents(&target, 4096);
            assert!(seen[..1000] == data[..1000]);
            assert!(seen[1000..].iter().all(|&byte| byte == 0xee), "beyond the room");
            carry([from, to], (0, 0), &pattern(2, 5000)).await;
        });
    }
}

#[test]
fn a_link_that_is_taken_down_ends_its_messages_and_no_others() {
    on_pair(Modes::default(), async |_, [from, to]| {
        let target = to.buffer(8192).await.unwrap();
        let on = |link, part| Message { part, ..message(to, key(link, 0, 0), &target, 0) };
        let first = to.credit(on(1, 0..4096)).await.unwrap();
        let second = to.credit(on(0, 4096..8192)).await.unwrap();
        to.disable_link(1).await.unwrap();
        assert_eq!(failed(to, &first).await.fault, NetworkFault::LinkDown);
        // Later messages fail too.
        let third = to.credit(on(1, 0..4096)).await.unwrap();
        assert_eq!(failed(to, &third).await.fault, NetworkFault::LinkDown);
        let data = pattern(3, 4096);
        let (_source, get) = send(from, key(1, 0, 0), &data).await;
        ended(from, &get).await;
        ended(to, &second).await;
        assert!(contents(&target, 8192)[4096..] == data);
        // Both ends restart.
        from.disable_link(0).await.unwrap();
        to.enable_link(1).await.unwrap();
        from.enable_link(0).await.unwrap();
        to.wait_link_up(1, late(to)).await.unwrap();
        from.wait_link_up(0, late(from)).await.unwrap();
        fails(
            from.wait_link_up(2, from.bus().now()).await,
            "fpga1 link 2: it is not up but absent: not enabled, or nothing is connected",
        );
        carry([from, to], (0, 0), &pattern(2, 5000)).await;
    });
}

#[test]
fn a_reset_ends_everything_and_leaves_it_usable() {
    on_pair(mapped(), async |stand, [from, to]| {
        let bytes = 512 * 1024;
        let (source, get) = send(from, key(0, 0, 0), &pattern(1, bytes)).await;
        let (room, credit) = receive(from, key(0, 0, 0), 4096).await;
        pause(from, 10_000).await;
        from.reset().await.unwrap();
        assert_eq!(failed(from, &get).await.fault, NetworkFault::Reset);
        assert_eq!(failed(from, &credit).await.fault, NetworkFault::Reset);
        source.write(0, &[0]).unwrap();
        room.write(0, &[0]).unwrap();
        assert_eq!(from.link_state(0).await.unwrap(), LinkState::Absent);
        to.reset().await.unwrap();
        links_up(&stand.nodes, 2).await;
        carry([from, to], (0, 0), &pattern(2, 5000)).await;
    });
}

#[test]
fn futures_may_be_dropped_at_any_step() {
    for requests in REQUESTS {
        // At an offset of 1 payloads lie in two pages.
        for (buffers, begin) in [(Buffers::User, 0), (Buffers::User, 1), (Buffers::Copied, 0)] {
            for polls in 0..12 {
                let modes = Modes::default().with_buffers(buffers).with_requests(requests);
                on_pair(modes, async |_, [from, to]| {
                    // Four pages, so four requests in mode `User`, or seven.
                    let target = filled(to, &[0xee; 16_384]).await;
                    let part = begin..16_384;
                    let credit = message(to, key(1, 0, 0), &target, 0);
                    let credit = Message { part: part.clone(), ..credit };
                    let receiving = async {
                        let credit = to.credit(credit).await.unwrap();
                        to.wait(&credit, late(to)).await
                    };
                    if let Some(ended) = limited(polls, receiving).await {
                        let fault = ended.unwrap_err().fault;
                        assert!(matches!(fault, NetworkFault::Deadline { .. }), "{fault:?}");
                    }
                    let source = filled(from, &[0x11; 16_384]).await;
                    let get = Message { part, ..message(from, key(0, 1, 0), &source, 0) };
                    let sending = async {
                        let get = from.nget(get).await.unwrap();
                        from.wait(&get, late(from)).await
                    };
                    drop(limited(polls, sending).await);
                    // The next call takes back dropped messages; then their key is free, too.
                    pause(to, 50_000).await;
                    to.put_drained(0, 0, late(to)).await.unwrap();
                    pause(to, 50_000).await;
                    carry([from, to], (0, 0), &pattern(3, 16_384)).await;
                    assert!(contents(&target, 16_384).iter().all(|&byte| byte == 0xee));
                    from.put_drained(0, 0, late(from)).await.unwrap();
                    pause(from, 50_000).await;
                    // A partly sent message ends here, or never begins.
                    let (room, credit) = receive(to, key(1, 1, 0), 16_384).await;
                    let deadline = to.bus().now() + ns(100_000);
                    match to.wait(&credit, deadline).await {
                        Ok(ended) => {
                            assert_eq!(ended.bytes, 16_384 - begin);
                            let seen = contents(&room, ended.bytes);
                            assert!(seen.iter().all(|&byte| byte == 0x11));
                        }
                        Err(error) => assert!(
                            matches!(
                                error.fault,
                                NetworkFault::FarEnd | NetworkFault::Deadline { .. }
                            ),
                            "{error}"
                        ),
                    }
                    source.write(0, &[0; 16_384]).unwrap();
                    carry([from, to], (1, 0), &pattern(4, 16_384)).await;
                });
            }
        }
    }
}

#[test]
fn what_is_released_gives_its_memory_back() {
    let stand = Stand::new(&[2], Modes::default());
    let opened = stand.simulation.memory_in_use(HostId(0));
    stand.on_pair(async |[from, _]| {
        let (buffer, _credit) = receive(from, key(0, 0, 0), 4096).await;
        drop(buffer);
        from.clone().release().await.unwrap();
    });
    let Stand { simulation, nodes } = stand;
    drop(nodes);
    let released = simulation.memory_in_use(HostId(0));
    assert_eq!((opened.pinned_for.len(), released.pinned_for.len()), (2, 0));
    assert_eq!(released.bytes, 0);
}

#[test]
fn what_is_no_network_processor_is_not_opened() {
    let refusal = |lab: Lab, name: &str| {
        let simulation = Simulation::new(lab.build_engines(1).unwrap());
        let opened = NetworkProcessor::init(simulation.bus(HostId(0)), name, Modes::default());
        simulation.run("init", opened).unwrap().unwrap_err()
    };
    let error = refusal(lab(&[2]), "fpga7");
    let DriverError::Refused { place, kind, problem } = error else { panic!("{error}") };
    assert_eq!(
        (place.as_str(), kind, problem.as_str()),
        ("fpga7", ErrorKind::NotFound, "there is no such endpoint; endpoints are fpga1")
    );
    assert_eq!(
        refusal(crosslane_lab::open("minimal").unwrap(), "card0").to_string(),
        "card0: it has no network processor: BAR2 has 0 B and needs 32768 B"
    );
}

#[test]
fn futures_may_go_to_other_threads() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let stand = Stand::new(&[2], Modes::default());
    let from = &stand.nodes[0];
    let buffer = stand.run(from.buffer(64)).unwrap();
    let message = message(from, key(0, 0, 0), &buffer, 64);
    drop(sendable(from.nget(message.clone())));
    drop(sendable(from.put(key(0, 0, 0), &[1], late(from))));
    drop(sendable(from.reset()));
    let get = stand.run(from.nget(message)).unwrap();
    drop(sendable(from.wait(&get, late(from))));
}
