// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refusals, cancels, lost links and hosts that do not answer: every message ends exactly once, and
//! nothing else is affected.

use crosslane_fabric::{LinkId, MemoryFault};
use crosslane_pcie::units::HostId;
use crosslane_regs::network_notification::NetworkStatus as Status;
use crosslane_regs::network_processor::{self as map, LinkState, torus_link};

use crate::network_processor::stand::*;
use crate::support::fabric_support::ns;

fn state(stand: &mut Stand, end: usize, link: u32) -> u32 {
    torus_link::status::STATE.get(stand.link_register(end, link, torus_link::STATUS))
}

#[test]
fn what_cannot_be_is_refused() {
    let mut stand = Stand::up(&[2]);
    let good = Ask::get(0, 0, 0, DATA, 64);
    let refused = [
        Ask { link: 5, ..good },
        Ask { channel: 6, ..good },
        Ask { bytes: (1 << 20) + 1, ..good },
        Ask { address: u64::MAX - 10, ..good },
        good.to(0),
        good.to(2),
    ];
    for (number, ask) in refused.into_iter().enumerate() {
        for window in [REQUESTS, CREDITS] {
            let asked = stand.ask(0, Ask { window, ..ask });
            stand.run();
            assert_eq!(stand.ended(&asked), Some((Status::Refused, 0)), "{number}");
        }
    }
    // A link with nothing connected.
    let asked = stand.ask(0, Ask { link: 3, ..good });
    stand.run();
    assert_eq!(stand.ended(&asked), Some((Status::LinkDown, 0)));
    // A second request with the same key.
    let first = stand.ask(0, Ask::credit(0, 1, 1, DATA, 64));
    let second = stand.ask(0, Ask::credit(0, 1, 1, DATA, 64));
    stand.run();
    assert_eq!((stand.ended(&first), stand.ended(&second)), (None, Some((Status::Taken, 0))));
    // A run that does not continue where the previous one ended.
    let asked = stand.notification(0, good);
    stand.ask_run(&asked, Ask { bytes: 256, ..good }, (0, false));
    stand.ask_run(&asked, good, (3, true));
    stand.run();
    assert_eq!(stand.ended(&asked), Some((Status::Refused, 0)));
    // A run that is not the last and no whole number of payloads.
    let asked = stand.notification(0, good);
    stand.ask_run(&asked, Ask { bytes: 100, ..good }, (0, false));
    stand.run();
    assert_eq!(stand.ended(&asked), Some((Status::Refused, 0)));
    assert_eq!(stand.read(0, map::REFUSED), 12 + 4);
    // More requests than slots.
    let credits: Vec<Asked> =
        (0..64).map(|tag| stand.ask(0, Ask::credit(1, 2, tag, DATA, 4))).collect();
    stand.run();
    let ended: Vec<_> = credits.iter().filter_map(|credit| stand.ended(credit)).collect();
    assert_eq!(ended, [(Status::Refused, 0)]);
    stand.cancel(&first);
    stand.run();
    assert_eq!(stand.ended(&first), Some((Status::Cancelled, 0)));
}

#[test]
fn a_message_that_is_longer_than_its_credit() {
    let mut stand = Stand::up(&[2]);
    let data = bytes(4, 5000);
    stand.poke(0, DATA, &data);
    stand.poke(1, DATA, &[0x55; 5000]);
    let credit = stand.ask(1, Ask::credit(1, 0, 0, DATA, 3000));
    let get = stand.ask(0, Ask::get(0, 0, 0, DATA, 5000));
    stand.run();
    assert_eq!(stand.ended(&get), Some((Status::Done, 5000)));
    assert_eq!(stand.ended(&credit), Some((Status::TooLong, 3000)));
    let found = stand.peek(1, DATA, 5000);
    assert!(found[..3000] == data[..3000] && found[3000..].iter().all(|byte| *byte == 0x55));
    // The next message is not disturbed and may be shorter.
    let credit = stand.ask(1, Ask::credit(1, 0, 0, DATA, 3000));
    stand.ask(0, Ask::get(0, 0, 0, DATA, 700));
    stand.run();
    assert_eq!(stand.ended(&credit), Some((Status::Done, 700)));
    stand.assert_quiet();
}

/// A get that waits for room on the link is cancelled, before and after it has begun; so is a
/// credit.
#[test]
fn cancels() {
    let mut stand = Stand::up(&[2]);
    let data = bytes(9, 65_536);
    stand.poke(0, DATA, &data);
    let begun = stand.ask(0, Ask::get(0, 0, 1, DATA, 65_536));
    let behind = stand.ask(0, Ask::get(0, 0, 2, DATA, 65_536));
    stand.run();
    for asked in [&behind, &begun] {
        assert_eq!(stand.ended(asked), None);
        stand.cancel(asked);
        stand.run();
        let (status, _) = stand.ended(asked).unwrap();
        assert_eq!(status, Status::Cancelled);
    }
    // The other end learns that a begun message ended once it has taken the data in flight.
    let credit = stand.ask(1, Ask::credit(1, 0, 1, DATA, 65_536));
    stand.run();
    let (status, taken) = stand.ended(&credit).unwrap();
    assert_eq!(status, Status::FarEnd);
    assert!(taken > 0 && taken < 65_536, "{taken}");
    assert!(stand.peek(1, DATA, taken as usize) == data[..taken as usize]);
    // A credit met in part leaves nothing for the next one.
    let get = stand.ask(0, Ask::get(0, 3, 1, DATA, 65_536));
    let credit = stand.ask(1, Ask::credit(1, 3, 1, DATA, 65_536));
    stand.run_for(ns(4_000));
    stand.cancel(&credit);
    stand.run();
    assert_eq!(stand.ended(&credit).unwrap().0, Status::Cancelled);
    assert_eq!(stand.ended(&get), Some((Status::Done, 65_536)));
    let credit = stand.ask(1, Ask::credit(1, 3, 1, DATA, 65_536));
    stand.ask(0, Ask::get(0, 3, 1, DATA + 5, 100));
    stand.run();
    assert_eq!(stand.ended(&credit), Some((Status::Done, 100)));
    assert!(stand.peek(1, DATA, 100) == data[5..105]);
    // A request that has ended cannot be cancelled.
    stand.cancel(&credit);
    stand.assert_quiet();
}

#[test]
fn host_memory_that_does_not_answer() {
    for fault in [MemoryFault::CompleterAbort, MemoryFault::Poisoned, MemoryFault::NoAnswer] {
        let mut stand = Stand::up(&[2]);
        let range = DATA + 20_000..DATA + 20_064;
        assert!(stand.fabric.set_memory_fault(HostId(0), range, Some(fault)));
        let credit = stand.ask(1, Ask::credit(1, 0, 1, DATA, 60_000));
        let other = stand.ask(1, Ask::credit(1, 0, 2, DATA + 0x10_0000, 60_000));
        let get = stand.ask(0, Ask::get(0, 0, 1, DATA, 60_000));
        let behind = stand.ask(0, Ask::get(0, 0, 2, DATA + 0x10_0000, 60_000));
        let (status, _, _) = stand.wait(&get);
        assert_eq!(status, Status::HostMemory, "{fault:?}");
        stand.wait(&credit);
        stand.wait(&other);
        assert_eq!(stand.ended(&credit).unwrap().0, Status::FarEnd, "{fault:?}");
        stand.assert_done(&[behind, other], 60_000);
        stand.run();
        assert_eq!(stand.read(0, map::STATUS), 1);
    }
}

/// A cable cut and mended again and again in the middle of messages loses nothing.
#[test]
fn a_cable_that_is_cut_and_mended() {
    let mut stand = Stand::up(&[2]);
    let data = bytes(7, 300_000);
    stand.poke(0, DATA, &data);
    let credit = stand.ask(1, Ask::credit(1, 0, 1, DATA, 300_000));
    let get = stand.ask(0, Ask::get(0, 0, 1, DATA, 300_000));
    for _ in 0..8 {
        stand.run_for(ns(9_000));
        stand.command(0, |nwp, port| nwp.cut(0, port));
        assert_eq!(state(&mut stand, 1, 1), LinkState::Training as u32);
        stand.run_for(ns(1_000));
        stand.command(0, |nwp, port| nwp.mend(0, port));
    }
    stand.run();
    stand.assert_done(&[get, credit], 300_000);
    assert!(stand.peek(1, DATA, 300_000) == data);
    assert_eq!(stand.link_register(0, 0, torus_link::TRAININGS), 9);
    assert!(stand.link_register(0, 0, torus_link::REPEATED) > 0);
    stand.assert_quiet();
}

/// An end that is reset comes back by itself; the other one forgets as well.
#[test]
fn a_link_that_one_end_has_forgotten() {
    let mut stand = Stand::up(&[2]);
    let credit = stand.ask(1, Ask::credit(1, 1, 1, DATA, 64));
    let get = stand.ask(0, Ask::get(0, 0, 1, DATA, 400_000));
    stand.run();
    stand.control(0, 0, 0);
    stand.run();
    assert_eq!(stand.ended(&get).unwrap().0, Status::LinkDown);
    assert_eq!(stand.ended(&credit), None);
    stand.control(0, 0, torus_link::control::ENABLE.mask());
    stand.run();
    assert_eq!(stand.ended(&credit).unwrap().0, Status::LinkDown);
    assert_eq!(state(&mut stand, 0, 0), LinkState::Up as u32);
    assert_eq!(state(&mut stand, 1, 1), LinkState::Up as u32);
    stand.assert_carries(64);
    stand.assert_quiet();
}

/// The link is reset while credits have taken data that the host has not.
#[test]
fn a_link_that_is_forgotten_while_the_host_is_slow() {
    let mut slow = settings();
    slow.completer.write_bytes_per_second = 1e8;
    slow.port.receive_credits[0] = crosslane_pcie::credits::Credits { header: 4, data: 64 };
    let mut stand = Stand::of(&[2], &slow, processor(), cable());
    stand.bring_up();
    let data = bytes(3, 20_000);
    stand.poke(0, DATA, &data);
    let credit = stand.ask(1, Ask::credit(1, 0, 1, DATA, 20_000));
    stand.ask(0, Ask::get(0, 0, 1, DATA, 20_000));
    stand.run_for(ns(20_000));
    stand.control(1, 1, 0);
    let (status, taken, _) = stand.wait(&credit);
    assert_eq!(status, Status::LinkDown);
    assert!(taken > 1000 && taken < 20_000, "{taken}");
    assert!(stand.peek(1, DATA, taken as usize) == data[..taken as usize]);
    stand.control(0, 0, 0);
    stand.bring_up();
    let credit = stand.ask(1, Ask::credit(1, 0, 1, DATA, 6400));
    stand.ask(0, Ask::get(0, 0, 1, DATA, 6400));
    let (status, taken, _) = stand.wait(&credit);
    assert_eq!((status, taken), (Status::Done, 6400));
    stand.assert_quiet();
}

#[test]
fn a_reset_ends_everything() {
    let mut stand = Stand::up(&[2]);
    let mut asked = vec![
        stand.ask(0, Ask::get(0, 0, 1, DATA, 400_000)),
        stand.ask(0, Ask::get(0, 0, 2, DATA, 400_000)),
        stand.ask(0, Ask::credit(0, 0, 1, DATA, 400_000)),
    ];
    let open = Ask::get(1, 2, 3, DATA, 1280);
    let notification = stand.notification(0, open);
    stand.ask_run(&notification, open, (0, false));
    asked.push(notification);
    stand.run_for(ns(2_000));
    stand.write(0, map::CONTROL, map::control::RESET.mask());
    stand.run();
    for asked in &asked {
        assert_eq!(stand.ended(asked).unwrap().0, Status::Reset);
    }
    for register in [map::GETS, map::CREDITS, map::DIMENSIONS.at(0), map::LINKS.at(0)] {
        assert_eq!(stand.read(0, register), 0);
    }
    stand.assert_quiet();
}

/// The host's link goes down and comes back: all state is discarded, and it works again.
#[test]
fn the_link_to_the_host_goes_down() {
    let mut stand = Stand::up(&[2]);
    stand.ask(0, Ask::get(0, 0, 1, DATA, 400_000));
    stand.ask(0, Ask::credit(0, 0, 1, DATA, 400_000));
    stand.run_for(ns(3_000));
    stand.fabric.take_link_down(LinkId(0), None);
    stand.run_for(ns(3_000));
    stand.fabric.bring_link_up(LinkId(0));
    stand.run_for(ns(200_000));
    assert_eq!(stand.read(0, map::GETS), 0);
    assert_eq!(stand.read(0, map::STATUS), 1);
    // The other end has kept its state, so both must start again.
    for end in 0..2 {
        for link in 0..2 {
            stand.control(end, link, 0);
        }
    }
    stand.bring_up();
    stand.assert_carries(6400);
}

/// Routed data without a next link are dropped; no data wait for ever.
#[test]
fn routed_data_that_lead_nowhere() {
    let mut stand = Stand::up(&[4]);
    // The path from 0 to 2 leads up, through 1.
    stand.control(1, 0, 0);
    stand.run();
    let credit = stand.ask(2, Ask::credit(0, 0, 1, DATA, 6400).to(0));
    let get = stand.ask(0, Ask::get(0, 0, 1, DATA, 6400).to(2));
    stand.run();
    assert_eq!(stand.ended(&get), Some((Status::Done, 6400)));
    assert_eq!(stand.ended(&credit), None);
    assert_eq!(stand.read(1, map::MISROUTED), 6400_u32.div_ceil(120));
    stand.cancel(&credit);
    stand.assert_quiet();
    assert_eq!(stand.ended(&credit), Some((Status::Cancelled, 0)));
}

/// A node that takes itself for another does not send data back to where they came from.
#[test]
fn routed_data_do_not_turn_back() {
    let mut stand = Stand::up(&[4]);
    // As node 0 of three, node 1 has the path from 0 to 2 lead down: by the link from node 0.
    stand.write(1, map::DIMENSIONS.at(0), map::torus_dimension::extent::SIZE.put(3));
    let get = stand.ask(0, Ask::get(0, 0, 1, DATA, 6400).to(2));
    stand.run();
    assert_eq!(stand.ended(&get), Some((Status::Done, 6400)));
    assert_eq!(stand.read(1, map::MISROUTED), 6400_u32.div_ceil(120));
    assert_eq!(stand.read(1, map::FORWARDED), 0);
    assert_eq!(stand.read(0, map::MISROUTED), 0);
    stand.assert_quiet();
}
