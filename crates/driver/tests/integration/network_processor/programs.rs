// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs by seed: messages of all kinds in both directions, with missed deadlines, cancels and
//! dropped futures, over a link with errors. A received message was sent with that key, and
//! everything is usable at the end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crosslane_driver::network_processor::*;
use crosslane_host::Bus;

use crate::network_processor::stand::*;

const SEEDS: u64 = 24;
const STEPS: u32 = 40;
/// Few lengths, so that many messages have the same.
const LENGTHS: [u64; 6] = [0, 8, 128, 1000, 4096, 12_345];

fn modes(random: &mut crosslane_random::Random) -> Modes {
    Modes::default()
        .with_buffers(BUFFERS[random.usize(..3)])
        .with_requests(REQUESTS[random.usize(..3)])
        .with_waiting(WAITINGS[random.usize(..3)])
}

/// The only data that a message of this key and length can have, so that a receiver can check them.
fn data(from: u8, key: Key, bytes: u64) -> Vec<u8> {
    let Key::Neighbour { link, channel, tag } = key else { panic!("neighbours only") };
    let seed =
        [from, link, channel, tag].into_iter().fold(bytes, |sum, it| sum * 67 + u64::from(it));
    pattern(seed, bytes)
}

/// Runs a future until it ends or the time has passed; then drops it.
async fn at_most<F: Future>(node: &Processor, ns_: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut sleep = pin!(node.bus().sleep_until(node.bus().now() + ns(ns_)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
    })
    .await
}

fn any_key(random: &mut crosslane_random::Random, link: u8) -> Key {
    key(link, random.u8(..3), random.u8(..4))
}

/// Asserts that an error is one allowed here.
fn expected(error: &NetworkError) {
    let is_expected = matches!(
        error.fault,
        NetworkFault::Deadline { .. }
            | NetworkFault::Cancelled
            | NetworkFault::FarEnd
            | NetworkFault::TooLong
            | NetworkFault::Refused(_)
    );
    assert!(is_expected, "{error}");
}

/// Work of the sending node.
async fn sends(node: Processor, own: u8, seed: u64) {
    let mut random = crosslane_random::Random::with_seed(seed);
    for _ in 0..STEPS {
        let key = any_key(&mut random, 0);
        let bytes = LENGTHS[random.usize(..LENGTHS.len())];
        let data = data(own, key, bytes);
        let short = node.bus().now() + ns(random.u64(100..40_000));
        if random.u8(..4) == 0 && bytes > 0 {
            // Concurrent gets and puts need separate keys.
            let Key::Neighbour { link, channel, .. } = key else { continue };
            let key = self::key(link, channel, 9);
            let put = self::data(own, key, bytes);
            let put = node.put(key, &put, short);
            if let Some(Err(error)) = at_most(&node, random.u64(100..20_000), put).await {
                expected(&error);
            }
            continue;
        }
        let buffer = filled(&node, &data).await;
        let message = message(&node, key, &buffer, bytes);
        let work = async {
            let get = match node.nget(message).await {
                Ok(get) => get,
                Err(error) => return expected(&error),
            };
            if random.u8(..5) == 0 {
                node.cancel(&get).await.unwrap();
            }
            if random.u8(..5) > 0 {
                match node.wait(&get, short).await {
                    Ok(ended) => assert_eq!(ended.bytes, bytes),
                    Err(error) => expected(&error),
                }
            }
        };
        let patience = if crosslane_random::Random::with_seed(seed ^ bytes).u8(..3) == 0 {
            300
        } else {
            90_000
        };
        at_most(&node, patience, work).await;
    }
}

/// Work of the receiving node.
async fn receives(node: Processor, from: u8, seed: u64) -> u32 {
    let mut random = crosslane_random::Random::with_seed(seed);
    let mut whole = 0;
    for step in 0..2 * STEPS {
        let is_put = random.u8(..3) == 0;
        let key = match any_key(&mut random, 1) {
            Key::Neighbour { link, channel, .. } if is_put => key(link, channel, 9),
            key => key,
        };
        let room = LENGTHS[random.usize(2..LENGTHS.len())];
        let target = filled(&node, &vec![0xee; room as usize + 64]).await;
        let deadline = node.bus().now() + ns(random.u64(100..20_000));
        let message = message(&node, key, &target, room);
        let work = async {
            let credit = match node.credit(message).await {
                Ok(credit) => credit,
                Err(error) => {
                    expected(&error);
                    return None;
                }
            };
            if random.u8(..8) == 0 {
                node.cancel(&credit).await.unwrap();
            }
            match node.wait(&credit, deadline).await {
                Ok(ended) => Some(ended.bytes),
                Err(error) => {
                    expected(&error);
                    None
                }
            }
        };
        let patience = if step % 4 == 0 { 700 } else { 90_000 };
        let ended = at_most(&node, patience, work).await;
        let mut seen = vec![0; room as usize + 64];
        if let Some(Some(bytes)) = ended {
            target.read(0, &mut seen).unwrap();
            let Key::Neighbour { channel, tag, .. } = key else { continue };
            let want = data(from, self::key(0, channel, tag), bytes);
            assert!(seen[..bytes as usize] == want, "{key}, {bytes} B");
            assert!(seen[room as usize..].iter().all(|&byte| byte == 0xee), "beyond the room");
            whole += 1;
        }
    }
    whole
}

#[test]
fn programs_end_and_receive_nothing_but_what_was_sent() {
    let mut whole = 0;
    for seed in 0..SEEDS {
        let mut random = crosslane_random::Random::with_seed(seed);
        let stand = Stand::new(&[2], modes(&mut random));
        if seed % 2 == 1 {
            stand.damage(2e-6);
        }
        let senders: Vec<_> = (0..2)
            .map(|node| {
                let work = sends(stand.nodes[node].clone(), node as u8, seed * 8 + node as u64);
                stand.simulation.spawn("sender", work)
            })
            .collect();
        let receivers: Vec<_> = (0..2)
            .map(|node| {
                let from = 1 - node as u8;
                let work = receives(stand.nodes[node].clone(), from, seed * 8 + 2 + node as u64);
                stand.simulation.spawn("receiver", work)
            })
            .collect();
        let received = stand.run(async {
            for sender in senders {
                sender.await;
            }
            let mut received = 0;
            for receiver in receivers {
                received += receiver.await;
            }
            // Both restart, whatever is left.
            for node in &stand.nodes {
                node.reset().await.unwrap();
            }
            links_up(&stand.nodes, 2).await;
            received
        });
        whole += received;
        stand.on_pair(async |pair| carry(pair, (0, 0), &pattern(seed, 5000)).await);
    }
    assert!(whole > 10 * SEEDS as u32, "{whole} messages came through");
}
