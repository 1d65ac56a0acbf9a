// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Too few slots for all requests: who waits for whom.

use std::cell::RefCell;
use std::rc::Rc;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::*;
use crosslane_host::Bus;

use crate::network_processor::stand::*;

/// Number of credit slots.
const PLACES: u8 = 32;
/// Datagrams that a channel's receive buffer holds.
const CHANNEL_DATAGRAMS: u64 = 64;

/// Credits for a page each that take all slots, with tags from 0.
async fn take_all_places(node: &Processor, room: &Buffer) -> Vec<InFlight> {
    let mut credits = Vec::new();
    for tag in 0..PLACES {
        let credit = message(node, key(1, u8::from(tag > 0), tag), room, 0);
        let begin = 128 * u64::from(tag);
        credits.push(node.credit(Message { part: begin..begin + 128, ..credit }).await.unwrap());
    }
    credits
}

#[test]
fn small_credits_do_not_pass_a_large_one() {
    on_pair(Modes::default(), async |stand, [from, to]| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let room = to.buffer(4096).await.unwrap();
        let credits = take_all_places(to, &room).await;
        let ask = |tag: u8, bytes: u64, patience_ns: u64| {
            let (to, order) = (to.clone(), Rc::clone(&order));
            stand.simulation.spawn("a credit", async move {
                let room = to.buffer(bytes).await.unwrap();
                let deadline = to.bus().now() + ns(patience_ns);
                let credit = Message { deadline, ..message(&to, key(1, 2, tag), &room, bytes) };
                let credit = to.credit(credit).await;
                order.borrow_mut().push((tag, credit.is_ok()));
                credit.map(|credit| (credit, room))
            })
        };
        // One that gives up, one of three pages, and small ones in line behind them.
        let mut asked = Vec::new();
        for (tag, bytes, patience_ns) in
            [(40, 5 * 4096, 30_000), (41, 3 * 4096, 900_000), (42, 64, 900_000), (43, 64, 900_000)]
        {
            asked.push(ask(tag, bytes, patience_ns));
            pause(to, 3_000).await;
        }
        let mut begun = Vec::new();
        for tag in 0..5 {
            pause(to, 30_000).await;
            let (_source, get) = send(from, key(0, u8::from(tag > 0), tag), &[tag; 128]).await;
            ended(from, &get).await;
            ended(to, &credits[usize::from(tag)]).await;
            pause(to, 30_000).await;
            begun.push(order.borrow().len());
        }
        // Two slots are too few for the large one, and the small ones follow it.
        assert_eq!(begun, [1, 1, 2, 3, 4]);
        assert_eq!(*order.borrow(), [(40, false), (41, true), (42, true), (43, true)]);
        for task in asked {
            drop(task.await);
        }
    });
}

#[test]
fn data_without_a_credit_hold_up_their_channel() {
    on_pair(Modes::default(), async |_, [from, to]| {
        let room = to.buffer(4096).await.unwrap();
        let mut credits = take_all_places(to, &room).await;
        // A message fills the receive buffer of channel 0, and its credit finds no slot.
        let bytes = 128 * CHANNEL_DATAGRAMS;
        let (_source, first) = send(from, key(0, 0, 40), &pattern(1, bytes)).await;
        ended(from, &first).await;
        let target = to.buffer(bytes).await.unwrap();
        let deadline = to.bus().now() + ns(100_000);
        let credit = Message { deadline, ..message(to, key(1, 0, 40), &target, bytes) };
        let error = to.credit(credit.clone()).await.map(drop).unwrap_err();
        assert_eq!(error.fault, NetworkFault::Deadline { deadline });
        // The next message has a credit, but cannot arrive.
        let (_source, second) = send(from, key(0, 0, 0), &pattern(2, 128)).await;
        ended(from, &second).await;
        pause(to, 100_000).await;
        assert_eq!(to.poll(&credits[0]).unwrap(), None);
        // With slots for the first one's credit both arrive.
        credits.truncate(16);
        let credit = Message { deadline: late(to), ..credit };
        let credit = to.credit(credit).await.unwrap();
        arrives(to, &(target, credit), &pattern(1, bytes)).await;
        ended(to, &credits[0]).await;
        assert!(contents(&room, 128) == pattern(2, 128));
    });
}
