// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads answered wrongly, late or never; invalid descriptors; a function that may not send. Each
//! stops one channel, which reports the error, its address and its progress, and restarts without a
//! reset.

use crate::support;

use crosslane_device::Engine;
use crosslane_fabric::*;
use crosslane_pcie::config::registers;
use crosslane_pcie::tlp::CompletionStatus;
use crosslane_regs::engine::{
    ChannelError, ChannelState, DescriptorSource, StreamSource, channel, user as user_regs,
};
use crosslane_regs::status_block;
use support::script::{Answer, Script, WINDOW, byte_at};
use support::*;

/// Creates an engine (0) and a completer (1) with scripted answers.
fn stand(parameters: EngineParameters, answers: &[Answer]) -> Bench {
    let mut settings = settings();
    // The completer does not split at Max_Payload_Size.
    settings.max_read_request = 128;
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Engine::new(parameters)), Box::new(Script::new(answers))];
    bench_of(&settings, devices)
}

/// Reads 4 KiB of host memory, 512 B of the bad range, and 4 KiB more, all closed on C2H. Returns
/// the address of the bad range.
fn post_three(bench: &mut Bench) -> u64 {
    bench.route(0, StreamSource::H2c, StreamSource::Generator, 0);
    let bad = bench.bars[1][1];
    bench.poke_pattern(DATA, 3, 0, 8192);
    for (number, (address, bytes)) in
        [(DATA, 4096), (bad + 0x100, 512), (DATA + 4096, 4096)].into_iter().enumerate()
    {
        bench.put_ring(h2c(0), number as u32, address, bytes, STATUS_WRITE | INTERRUPT);
    }
    bench.put_ring(c2h(0), 0, DATA + 0x10_0000, 4096, STATUS_WRITE);
    bench.put_ring(c2h(0), 1, DATA + 0x10_1000, 64, STATUS_WRITE);
    bench.unmask(0, 1);
    bench.write(h2c(0), channel::VECTOR, 1);
    bench.start_ring(c2h(0), 16);
    bench.start_ring(h2c(0), 16);
    bench.write(c2h(0), channel::DOORBELL, 2);
    bench.write(h2c(0), channel::DOORBELL, 3);
    bad + 0x100
}

#[test]
fn a_bad_answer_stops_its_channel_and_says_so() {
    use ChannelError::*;
    // Answer, channel error, good bytes.
    let cases = [
        (Answer::Refuse(CompletionStatus::UnsupportedRequest), UnsupportedRequest, 0),
        (Answer::Refuse(CompletionStatus::CompleterAbort), CompleterAbort, 0),
        (Answer::Refuse(CompletionStatus::ConfigurationRetry), MalformedCompletion, 0),
        (Answer::Poison, Poisoned, 64),
        (Answer::Never, CompletionTimeout, 0),
        (Answer::WrongCount, MalformedCompletion, 64),
        (Answer::WrongAddress, MalformedCompletion, 64),
        (Answer::OddCut, MalformedCompletion, 0),
        (Answer::TooMuch, MalformedCompletion, 0),
        (Answer::Empty, MalformedCompletion, 0),
    ];
    for (answer, error, good) in cases {
        let mut bench = stand(own(), &[answer]);
        let bad = post_three(&mut bench);
        let at = h2c(0);
        bench.wait_stopped(at);
        bench.run(Some(ns(2_000)));
        // The first descriptor is complete and its data went on; the others have not moved.
        let block = bench.status_block(at);
        let word = |offset: u32| block[offset as usize / 4];
        assert_eq!(word(status_block::COMPLETED), 1, "{answer:?}");
        assert_eq!(word(status_block::STOPPED_AT), good, "{answer:?}");
        assert_eq!(u64::from(word(status_block::ERROR_LOW)), bad + u64::from(good));
        assert_eq!(bench.state(at), (ChannelState::Stopped, error), "{answer:?}");
        assert_eq!(bench.read(at, channel::COMPLETED), 1);
        assert_eq!(bench.read(at, channel::STOPPED_AT), good);
        assert_eq!(bench.read_wide(at, channel::BYTES_LOW), 4096 + u64::from(good));
        assert_eq!(bench.peek(DATA + 0x10_0000, 4096), pattern(3, 0, 4096));
        if good == 64 {
            let right: Vec<u8> = (bad..bad + 64).map(byte_at).collect();
            assert_eq!(bench.peek(DATA + 0x10_1000, 64), right);
        }
        // The channel sends nothing more, and the other one continues.
        assert_eq!(bench.state(c2h(0)), (ChannelState::Running, ChannelError::None));
        bench.write(at, channel::DOORBELL, 4);
        let tlps = bench.read(at, channel::TLPS);
        assert_eq!(bench.run(Some(ns(200_000))), RunEnd::Quiet);
        assert_eq!(bench.read(at, channel::TLPS), tlps);
        assert!(bench.fabric.error_count() > 0);
        again(&mut bench, good == 64);
    }
}

/// Restarts the channel and moves data.
fn again(bench: &mut Bench, second_is_done: bool) {
    let at = h2c(0);
    let errors = bench.fabric.error_count();
    bench.restart(at);
    assert_eq!(bench.state(at), (ChannelState::Idle, ChannelError::None));
    assert_eq!(bench.read(at, channel::COMPLETED), 0);
    assert_eq!(bench.read(at, channel::DOORBELL), 0);
    let left = if second_is_done { 0 } else { 64 };
    bench.put_ring(at, 0, DATA, 4096 + left, STATUS_WRITE);
    bench.put_ring(c2h(0), 2, DATA + 0x20_0000, 4096, STATUS_WRITE);
    bench.write(c2h(0), channel::DOORBELL, 3);
    bench.post_ring(at, 16, 1);
    bench.run(None);
    let block = bench.status_block(at);
    assert_eq!((block[0], block[1]), (1, 1), "sequence and count from the start");
    assert_eq!(bench.read(c2h(0), channel::COMPLETED), 3);
    let from = u64::from(left) / 4;
    assert_eq!(bench.peek(DATA + 0x20_0000, 4096), pattern(3, from, 4096));
    assert_eq!(bench.fabric.error_count(), errors, "late answers are no error");
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
}

/// A channel is restarted with answers in flight: they are dropped, their tags return, and none of
/// their bytes enter the new stream.
#[test]
fn old_answers_do_not_get_into_a_new_stream() {
    // The last answer comes after the time-out.
    for late_ps in [1_000_000, 20_000_000, 70_000_000] {
        let parameters = EngineParameters { tags: 4, ..own() };
        let mut bench = stand(parameters, &[Answer::Late(late_ps), Answer::Never]);
        let (at, bad) = (h2c(0), bench.bars[1][1]);
        bench.check_h2c(8);
        bench.put_ring(at, 0, bad, 1024, 0);
        bench.post_ring(at, 16, 1);
        bench.run(Some(ns(1_000)));
        let in_flight = channel::status::IN_FLIGHT.get(bench.read(at, channel::STATUS));
        assert_eq!(in_flight, 4, "128 B each");
        bench.restart(at);
        assert_eq!(bench.state(at).0, ChannelState::Idle);
        bench.check_h2c(8);
        bench.poke_pattern(DATA, 8, 0, 65536);
        bench.put_ring(at, 0, DATA, 65536, STATUS_WRITE);
        bench.post_ring(at, 16, 1);
        bench.wait_completed(at, 1);
        assert_eq!(bench.checker_errors(), 0);
        assert_eq!(bench.state(at), (ChannelState::Running, ChannelError::None));
        assert_eq!(bench.fabric.errors(), &[], "{late_ps} ps late");
        // All four tags are free in the end.
        let until = bench.fabric.now() + ns(150_000);
        while bench.fabric.now() < until {
            bench.read(at, channel::STATUS);
        }
        bench.put_ring(at, 1, bad + WINDOW, 4096, 0);
        bench.write(at, channel::DOORBELL, 2);
        bench.run(Some(ns(2_000)));
        let in_flight = channel::status::IN_FLIGHT.get(bench.read(at, channel::STATUS));
        assert_eq!(in_flight, 4, "{late_ps} ps late");
    }
}

/// A channel that an error stops gives up its other reads, and counts them until their answers have
/// come or their time is up: they still reach memory, which no driver may give back before.
#[test]
fn a_stopped_channel_counts_reads_on_their_way() {
    let refuse = Answer::Refuse(CompletionStatus::UnsupportedRequest);
    let mut bench = stand(own(), &[refuse, Answer::Late(10_000_000), Answer::Never]);
    let (at, bad) = (h2c(0), bench.bars[1][1]);
    for (number, place) in [0, WINDOW, 2 * WINDOW].into_iter().enumerate() {
        bench.put_ring(at, number as u32, bad + place, 128, STATUS_WRITE);
    }
    bench.post_ring(at, 16, 3);
    bench.wait_stopped(at);
    let in_flight =
        |bench: &mut Bench| channel::status::IN_FLIGHT.get(bench.read(at, channel::STATUS));
    assert_eq!(in_flight(&mut bench), 2, "late, and never");
    bench.wait_until(ns(20_000));
    assert_eq!(in_flight(&mut bench), 1, "never");
    bench.wait_until(ns(60_000));
    assert_eq!(in_flight(&mut bench), 0);
    assert_eq!(bench.state(at), (ChannelState::Stopped, ChannelError::UnsupportedRequest));
    // A restart leaves them to themselves.
    bench.restart(at);
    bench.put_ring(at, 0, bad + 2 * WINDOW, 128, 0);
    bench.put_ring(at, 1, bad, 128, 0);
    bench.post_ring(at, 16, 2);
    bench.run(Some(ns(2_000)));
    assert_eq!(in_flight(&mut bench), 1, "the second is answered, and waits for the first");
    bench.restart(at);
    assert_eq!((bench.state(at).0, in_flight(&mut bench)), (ChannelState::Idle, 0));
}

/// A tag that timed out is not reused until another time-out has passed.
#[test]
fn a_tag_that_timed_out_rests() {
    let parameters = EngineParameters { tags: 1, ..own() };
    let mut bench = stand(parameters, &[Answer::Never]);
    let (at, bad) = (h2c(0), bench.bars[1][1]);
    bench.put_ring(at, 0, bad, 64, 0);
    bench.post_ring(at, 16, 1);
    bench.wait_stopped(at);
    let failed = bench.fabric.now();
    bench.restart(at);
    bench.put_ring(at, 0, DATA, 64, STATUS_WRITE);
    bench.post_ring(at, 16, 1);
    bench.wait_completed(at, 1);
    let rested = bench.fabric.now() - failed;
    assert!(rested > ns(49_000) && rested < ns(52_000), "{rested}");
    assert!(bench.read(at, channel::IDLE_NO_TAG) > 48_000 / 4);
    bench.run(None);
}

/// Invalid descriptors and invalid rings.
#[test]
fn a_bad_descriptor_stops_the_channel_behind_the_good_ones() {
    for address in [DATA, DATA + 3] {
        for at in [h2c(0), c2h(0), peer(0)] {
            let mut bench = bench(&settings(), &[own()]);
            bench.put_ring(at, 0, DATA, 4096, 0);
            bench.put_ring(at, 1, DATA, 4096, 0);
            bench.put_ring(at, 2, address, 0, 0);
            bench.put_ring(at, 3, DATA, 4096, 0);
            bench.post_ring(at, 16, 4);
            assert_eq!(bench.run(None), RunEnd::Quiet);
            bench.assert_stopped(at, ChannelError::BadDescriptor);
            assert_eq!(bench.progress(at), (2, 0, address));
            assert_eq!(bench.status_block(at)[1], 2);
            bench.assert_quiet();
        }
    }
    // A ring of 17, more posted than fits, a table for a channel without one.
    for (at, entries, doorbell) in [(c2h(0), 17, 1), (c2h(0), 16, 17), (h2c(0), 16, u32::MAX)] {
        let mut bench = bench(&settings(), &[own()]);
        bench.post_ring(at, entries, doorbell);
        assert_eq!(bench.run(None), RunEnd::Quiet);
        bench.assert_stopped(at, ChannelError::BadDescriptor);
        assert_eq!(bench.read(at, channel::FETCHED), 0);
    }
    let mut bench = bench(&settings(), &[own()]);
    bench.post_table(peer(0), 1);
    bench.assert_stopped(peer(0), ChannelError::BadDescriptor);
    bench.assert_quiet();
}

/// The ring cannot be fetched: descriptors fetched earlier are completed.
#[test]
fn a_refused_fetch_stops_the_channel() {
    let answers = [Answer::Refuse(CompletionStatus::UnsupportedRequest)];
    let mut bench = stand(own(), &answers);
    let (at, bad) = (c2h(0), bench.bars[1][1]);
    bench.write(at, channel::RING_LOW, bad as u32);
    bench.write(at, channel::RING_ENTRIES, 64);
    bench.start(at, DescriptorSource::Ring);
    bench.write(at, channel::DOORBELL, 40);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    bench.assert_stopped(at, ChannelError::UnsupportedRequest);
    assert_eq!(bench.read_wide(at, channel::ERROR_LOW), bad);
    assert_eq!(bench.read(at, channel::COMPLETED), 0);
    assert_eq!(bench.status_block(at)[0], 1);
    assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
}

/// Bus Master Enable is cleared while data move, and set again.
#[test]
fn a_function_that_may_not_send_does_not() {
    for at in [h2c(0), c2h(0)] {
        let mut bench = bench(&settings(), &[own()]);
        bench.put_rings(at, 16, (DATA, 4096), 4096, STATUS_WRITE);
        bench.post_ring(at, 16, 16);
        bench.run(Some(ns(8_000)));
        bench.set_function(0, 0b010);
        let up = bench.direction(0, LinkDirection::Up);
        bench.run(Some(ns(10_000)));
        bench.assert_stopped(at, ChannelError::NotBusMaster);
        let done = bench.read(at, channel::COMPLETED);
        assert!((1..16).contains(&done), "{done}");
        let payload = bench.fabric.counters(up).payload_bytes;
        bench.run(Some(ns(10_000)));
        assert_eq!(bench.fabric.counters(up).payload_bytes, payload);
        bench.set_function(0, 0b110);
        bench.restart(at);
        bench.post_ring(at, 16, 16);
        assert_eq!(bench.run(None), RunEnd::Quiet);
        assert_eq!(bench.status_block(at)[1], 16);
        assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
    }
}

/// Masked interrupts wait, and so do those of a function that is masked as a whole.
#[test]
fn a_masked_interrupt_is_kept() {
    let mut bench = bench(&settings(), &[own()]);
    let at = c2h(0);
    bench.write(at, channel::VECTOR, 2);
    bench.put_ring(at, 0, DATA, 4096, INTERRUPT);
    bench.put_ring(at, 1, DATA, 4096, INTERRUPT);
    bench.post_ring(at, 16, 1);
    bench.run(None);
    let pending = At(0, crosslane_regs::engine::MSIX_PENDING.base);
    assert_eq!((bench.interrupts.len(), bench.read(pending, 0)), (0, 1 << 2));
    bench.unmask(0, 2);
    bench.wait_interrupt();
    assert_eq!(bench.interrupts, [2]);
    assert_eq!(bench.read(pending, 0), 0);
    let port = bench.port_of(0);
    let id = bench.fabric.routing_id(port);
    let config = &bench.fabric.port(port).config;
    let offset = config.find_capability(registers::CAPABILITY_MSIX).unwrap();
    bench.fabric.config_write(HOST, id, offset, 3 << 30, 0xf);
    bench.write(at, channel::DOORBELL, 2);
    bench.run(None);
    assert_eq!((bench.interrupts.len(), bench.read(pending, 0)), (1, 1 << 2));
    bench.fabric.config_write(HOST, id, offset, 1 << 31, 0xf);
    bench.wait_interrupt();
    assert_eq!(bench.interrupts, [2, 2]);
    bench.assert_quiet();
}

/// The part of a register is refused by all devices alike: `kit.rs`.
#[test]
fn what_is_no_register_reads_as_zero() {
    let mut bench = bench(&settings(), &[own()]);
    let base = bench.bars[0][0];
    // The receive aperture reads as zero, in any size.
    assert_eq!(bench.load(bench.bars[0][1] + 64), Ok(0));
    // Unassigned registers read as zero and ignore writes.
    bench.store(base + 0x7ffc, &[1, 2, 3, 4]);
    assert_eq!(bench.load(base + 0x7ffc), Ok(0));
    bench.run(None);
    assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
}

/// The link goes down at a random time with traffic in both directions and comes up again: both
/// channels have stopped, report to the host once they can, and restart.
#[test]
fn a_link_that_goes_down_stops_the_channels() {
    for moment in 0..40 {
        let mut bench = bench(&settings(), &[own()]);
        for at in [h2c(0), c2h(0)] {
            bench.put_rings(at, 16, (DATA, 4096), 4096, STATUS_WRITE);
            bench.post_ring(at, 16, 16);
        }
        bench.run(Some(ns(100 + moment * 773)));
        let link = bench.direction(0, LinkDirection::Up).link;
        let until = bench.fabric.now() + ns(5_000);
        bench.fabric.take_link_down(link, Some(until));
        bench.wait_until(until + ns(60_000));
        for at in [h2c(0), c2h(0)] {
            bench.assert_stopped(at, ChannelError::LinkDown);
            let block = bench.status_block(at);
            let state = channel::status::STATE.get(block[status_block::STATUS as usize / 4]);
            assert_eq!(state, ChannelState::Stopped.bits(), "moment {moment}");
            let completed = bench.read(at, channel::COMPLETED);
            assert_eq!(block[status_block::COMPLETED as usize / 4], completed);
            let moved = completed * 4096 + bench.read(at, channel::STOPPED_AT);
            assert_eq!(bench.read(at, channel::BYTES_LOW), moved);
            // The address of the next TLP, or 0 if none was due.
            let address = bench.read_wide(at, channel::ERROR_LOW);
            assert!(address == 0 || address >= DATA + u64::from(moved), "{address:#x}");
            bench.restart(at);
        }
        // Tags with lost answers rest for two time-outs.
        bench.write(user(0), user_regs::GENERATOR_SEED, 4);
        for at in [h2c(0), c2h(0)] {
            bench.post_ring(at, 16, 16);
        }
        bench.wait_completed(h2c(0), 16);
        bench.run(None);
        assert_eq!(bench.read(c2h(0), channel::COMPLETED), 16);
        assert_eq!(bench.peek(DATA, 65536), pattern(4, 0, 65536), "moment {moment}");
        assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
    }
}

/// The link goes down between the start of a channel and its first doorbell: the channel has
/// stopped, and the doorbell starts nothing. A channel that does not run is left alone.
#[test]
fn link_down_stops_a_channel_just_started() {
    let mut bench = bench(&settings(), &[own()]);
    for at in [h2c(0), c2h(0)] {
        bench.put_rings(at, 1, (DATA, 4096), 4096, STATUS_WRITE);
        bench.start_ring(at, 16);
    }
    bench.run(None);
    let link = bench.direction(0, LinkDirection::Up).link;
    let until = bench.fabric.now() + ns(5_000);
    bench.fabric.take_link_down(link, Some(until));
    bench.wait_until(until + ns(60_000));
    for at in [h2c(0), c2h(0)] {
        bench.write(at, channel::DOORBELL, 1);
        bench.assert_stopped(at, ChannelError::LinkDown);
        assert_eq!(bench.read(at, channel::FETCHED), 0);
        assert_eq!(bench.read_wide(at, channel::ERROR_LOW), 0);
    }
    assert_eq!(bench.state(peer(0)), (ChannelState::Idle, ChannelError::None));
}

/// A store lost on the link leaves no descriptor, whichever of the four words it carried.
#[test]
fn a_descriptor_of_a_table_is_used_whole() {
    use crosslane_regs::table_descriptor as entry;
    for lost in [entry::ADDRESS_LOW, entry::ADDRESS_HIGH, entry::LENGTH, entry::CONTROL] {
        let parameters = EngineParameters { table_descriptors: 1, ..own() };
        let mut bench = bench(&settings(), &[parameters]);
        let at = c2h(0);
        bench.start(at, DescriptorSource::Table);
        bench.put_table(at, 0, DATA, 64, 0);
        bench.write(at, channel::DOORBELL, 1);
        bench.run(None);
        assert_eq!(bench.read(at, channel::COMPLETED), 1);
        bench.poke(DATA, &[0xee; 8192]);
        let words = [
            (entry::ADDRESS_LOW, DATA as u32 + 4096),
            (entry::ADDRESS_HIGH, 0),
            (entry::LENGTH, 64),
            (entry::CONTROL, 0),
        ];
        let table = At(0, crosslane_regs::engine::C2H_TABLE.base);
        for (offset, value) in words.into_iter().filter(|(offset, _)| *offset != lost) {
            bench.write(table, offset, value);
        }
        bench.write(at, channel::DOORBELL, 2);
        bench.run(None);
        bench.assert_stopped(at, ChannelError::BadDescriptor);
        assert_eq!(bench.peek(DATA, 8192), [0xee; 8192], "word {lost:#x} was lost");
    }
}

/// A table's descriptor is used once, even if the stores of its successor are lost.
#[test]
fn a_descriptor_of_a_table_is_used_once() {
    for restart in [false, true] {
        let parameters = EngineParameters { table_descriptors: 2, ..own() };
        let mut bench = bench(&settings(), &[parameters]);
        let at = c2h(0);
        bench.start(at, DescriptorSource::Table);
        bench.put_table(at, 0, DATA, 64, 0);
        bench.put_table(at, 1, DATA + 4096, 64, 0);
        // All are used, or the remaining one is never taken up.
        bench.write(at, channel::DOORBELL, if restart { 1 } else { 2 });
        bench.run(None);
        if restart {
            bench.restart(at);
            bench.start(at, DescriptorSource::Table);
        }
        bench.poke(DATA, &[0xee; 8192]);
        let before = bench.read(at, channel::COMPLETED);
        assert_eq!(before, if restart { 0 } else { 2 });
        bench.write(at, channel::DOORBELL, before + 1);
        bench.run(None);
        bench.assert_stopped(at, ChannelError::BadDescriptor);
        assert_eq!(bench.peek(DATA, 8192), [0xee; 8192], "an old descriptor was used again");
    }
}
