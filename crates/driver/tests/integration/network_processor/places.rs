// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Too few slots for all requests: who waits for whom.

use std::cell::RefCell;
use std::rc::Rc;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::*;
use crosslane_host::Bus;
use crosslane_lab::LabBus;

use crate::network_processor::stand::*;

/// Number of credit slots.
const PLACES: u8 = 32;
/// Datagrams that a channel's receive buffer holds.
const CHANNEL_DATAGRAMS: u64 = 64;

/// Credits for a page each that take all slots, with tags from 0.
async fn take_all_places(node: &Processor, room: &Buffer<LabBus>) -> Vec<InFlight<LabBus>> {
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
    let stand = Stand::new(&[2], Modes::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    let order = Rc::new(RefCell::new(Vec::new()));
    stand.run(async {
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
            to.bus().sleep_until(to.bus().now() + ns(3_000)).await;
        }
        let mut begun = Vec::new();
        for tag in 0..5 {
            to.bus().sleep_until(to.bus().now() + ns(30_000)).await;
            let source = filled(from, &[tag; 128]).await;
            let get = message(from, key(0, u8::from(tag > 0), tag), &source, 128);
            let get = from.nget(get).await.unwrap();
            from.wait(&get, late(from)).await.unwrap();
            to.wait(&credits[usize::from(tag)], late(to)).await.unwrap();
            to.bus().sleep_until(to.bus().now() + ns(30_000)).await;
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
    let stand = Stand::new(&[2], Modes::default());
    let [from, to] = &stand.nodes[..] else { panic!("two nodes") };
    stand.run(async {
        let room = to.buffer(4096).await.unwrap();
        let mut credits = take_all_places(to, &room).await;
        // A message fills the receive buffer of channel 0, and its credit finds no slot.
        let bytes = 128 * CHANNEL_DATAGRAMS;
        let first = filled(from, &pattern(1, bytes)).await;
        let first = from.nget(message(from, key(0, 0, 40), &first, bytes)).await.unwrap();
        from.wait(&first, late(from)).await.unwrap();
        let target = to.buffer(bytes).await.unwrap();
        let deadline = to.bus().now() + ns(100_000);
        let credit = Message { deadline, ..message(to, key(1, 0, 40), &target, bytes) };
        let error = to.credit(credit.clone()).await.map(drop).unwrap_err();
        assert_eq!(error.fault, NetworkFault::Deadline { deadline });
        // The next message has a credit, but cannot arrive.
        let second = filled(from, &pattern(2, 128)).await;
        let second = from.nget(message(from, key(0, 0, 0), &second, 128)).await.unwrap();
        from.wait(&second, late(from)).await.unwrap();
        to.bus().sleep_until(to.bus().now() + ns(100_000)).await;
        assert_eq!(to.poll(&credits[0]).unwrap(), None);
        // With slots for the first one's credit both arrive.
        credits.truncate(16);
        let credit = Message { deadline: late(to), ..credit };
        let credit = to.credit(credit).await.unwrap();
        to.wait(&credit, late(to)).await.unwrap();
        assert!(contents(&target, bytes) == pattern(1, bytes));
        to.wait(&credits[0], late(to)).await.unwrap();
        assert!(contents(&room, 128) == pattern(2, 128));
    });
}
