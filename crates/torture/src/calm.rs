// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calm at the end of a seed: every channel must work, shown by a last transfer along each
//! chain.

use std::rc::Rc;

use crosslane_driver::{
    ChannelKind, CompletionLevel, DriverError, Target, Transfer, TransferError, TransferFault,
};
use crosslane_host::{Bus, PageSize, RegisterAddress};
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::engine::{self, ChannelState, channel};

use crate::check::{Check, check};
use crate::line::{Far, Line, NOWHERE};
use crate::scene::{World, us};
use crate::stream::{self, Word};
use crate::workload::Chain;

/// Length of the last transfer of every channel, bytes.
const LAST_BYTES: u64 = 4096;
/// Time allowed for it: longer than two completion time-outs.
const LAST_SPAN: Picoseconds = us(500_000);
/// Attempts at it if completion time-outs are short.
const SLOW_TRIES: u32 = 10;

/// Lets a chain come to rest, has it make its last transfer, and releases its channels.
pub(crate) async fn calm(world: &Rc<World>, chain: &mut Chain) {
    // The engines' reports of the last fault may still be in flight.
    world.sleep(us(100)).await;
    for line in &mut chain.lines {
        line.settle().await;
    }
    if chain.lines.iter().any(Line::is_over) {
        for line in &mut chain.lines {
            line.farewell().await;
            line.far = None;
        }
        return;
    }
    // An engine with a short completion time-out may give up reads that were merely slow.
    for n in 0.. {
        match last_transfer(world, chain, n >= SLOW_TRIES).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => Check::RightError.fail(format!("all is well again, and yet: {error}")),
        }
    }
    for line in &mut chain.lines {
        line.close().await;
    }
    for line in &mut chain.lines {
        if let Some(peer) = line.far.as_mut().and_then(|far| far.peer.take())
            && let Err(error) = peer.close().await
        {
            Check::RightError.fail(format!("nothing is in flight, and yet: {error}"));
        }
    }
}

/// Makes the last transfer; false if it was too slow.
async fn last_transfer(
    world: &Rc<World>,
    chain: &mut Chain,
    is_last_try: bool,
) -> Result<bool, DriverError> {
    // A line that feeds another one may have sent more than that one took.
    if chain.lines.len() > 1 || world.has(u64::MAX, Picoseconds::ZERO, |_| true) {
        // A channel that was stopped while idle learns that only with its next transfer. FIFO and
        // receive queue must be empty: start with the last line, which empties them.
        for line in chain.lines.iter_mut().rev() {
            line.channel().cancel().await?;
        }
        for line in &mut chain.lines {
            line.channel().cancel().await?;
        }
    }
    let may_be_slow = chain.lines.iter().any(Line::has_short_timeout);
    let mut tickets = Vec::new();
    let mut back = None;
    let drops = chain.drops;
    // It may receive less than was sent.
    let gets_all = |line: &&mut Line| !drops || line.key.0 != ChannelKind::C2h;
    for line in chain.lines.iter_mut().rev().filter(gets_all) {
        let level = match line.key.0 {
            ChannelKind::Peer => CompletionLevel::Sent,
            _ => CompletionLevel::Visible,
        };
        let buffer = line.device.buffer(LAST_BYTES, PageSize::Small).await?;
        let fill = match line.key.0 {
            ChannelKind::H2c => stream::words(line.seed, line.position, LAST_BYTES),
            _ => stream::guard(line.seed, LAST_BYTES),
        };
        buffer.write(0, &fill)?;
        let target = match (line.key.0, &line.far) {
            (ChannelKind::Peer, Some(Far { peer: Some(peer), .. })) => peer.target(LAST_BYTES),
            (ChannelKind::Peer, _) => Target::Bus(NOWHERE, LAST_BYTES),
            _ => Target::Buffer(buffer.clone(), 0..LAST_BYTES),
        };
        let deadline = world.bus.now() + LAST_SPAN;
        let transfer = Transfer { target, level, deadline };
        line.device.reset_counters().await?;
        tickets.push(line.channel().post(&[transfer]).await?[0]);
        if line.key.0 == ChannelKind::C2h {
            back = Some((buffer, line.seed));
        }
    }
    for (line, ticket) in chain.lines.iter_mut().rev().filter(gets_all).zip(tickets) {
        let completed = line.channel().wait(ticket).await;
        if completed.as_ref().is_err_and(is_slow) && may_be_slow {
            for line in &mut chain.lines {
                line.give_up_last();
                line.channel().cancel().await?;
            }
            // On some paths, reads with all of an engine's tags take longer than its time-out.
            return Ok(is_last_try);
        }
        let bytes = completed.map(|completed| completed.bytes).map_err(|e| e.to_string());
        check!(Check::Whole, bytes == Ok(LAST_BYTES), "the last of {}: {bytes:?}", line.name());
        line.note_last(LAST_BYTES);
        if line.checked && line.exact {
            line.wait_for_checker().await;
            let found = line.device.user().h2c_check_result().await?;
            check!(Check::Data, found.errors == 0, "the last of {}: {found:?}", line.name());
        }
    }
    for line in chain.lines.iter_mut().filter(gets_all) {
        check_registers(line).await?;
    }
    let Some((buffer, seed)) = back else { return Ok(true) };
    let mut bytes = vec![0; LAST_BYTES as usize];
    buffer.read(0, &mut bytes)?;
    let words: Vec<Word> = stream::places(seed, &bytes).collect();
    let Some(Word::At(first)) = words.first().copied() else {
        Check::Whole.fail("nothing was written by the last transfer".to_owned())
    };
    let expected: Vec<Word> = (first..first + words.len() as u32).map(Word::At).collect();
    check!(Check::Data, words == expected, "the last words: {}", stream::runs(&words));
    Ok(true)
}

/// Whether a transfer may merely have been slower than an engine's completion time-out.
fn is_slow(error: &TransferError) -> bool {
    use TransferFault::{Cancelled, CompletionTimeout, Deadline, MalformedCompletion};
    matches!(error.fault, CompletionTimeout | MalformedCompletion | Deadline { .. } | Cancelled)
}

/// Compares the driver's counters with the engine's registers.
async fn check_registers(line: &mut Line) -> Result<(), DriverError> {
    let name = line.name();
    let counters = line.channel().counters().await?;
    check!(
        Check::Registers,
        counters.bytes == LAST_BYTES,
        "{name}: {LAST_BYTES} B were moved, and the engine says {}",
        counters.bytes
    );
    let array = match line.key.0 {
        ChannelKind::H2c => engine::H2C,
        ChannelKind::C2h => engine::C2H,
        ChannelKind::Peer => engine::PEER,
    };
    let base = array.at(line.key.1.into());
    let (bus, function) = (line.world.bus.clone(), line.device.function().id);
    let read = async |register: u32| {
        let offset_bytes = u64::from(base + register);
        let read = bus.read_register(RegisterAddress { function, bar: 0, offset_bytes }).await;
        read.map_err(|source| DriverError::Bus { device: name.clone(), source })
    };
    let status = read(channel::STATUS).await?;
    let state = channel::status::STATE.get(status);
    let in_flight = channel::status::IN_FLIGHT.get(status);
    let (doorbell, completed) = (read(channel::DOORBELL).await?, read(channel::COMPLETED).await?);
    check!(
        Check::Registers,
        state == ChannelState::Running.bits() && in_flight == 0 && doorbell == completed,
        "{name}: state {state}, {in_flight} in flight, {completed} of {doorbell} complete"
    );
    check_queue(line, [read(channel::SENT).await?, read(channel::CREDIT).await?]).await
}

/// Checks that the receive queue is empty and its credits are back.
async fn check_queue(line: &mut Line, [sent, credit]: [u32; 2]) -> Result<(), DriverError> {
    let name = line.name();
    let Some(Far { options, peer: Some(peer), .. }) = &line.far else { return Ok(()) };
    if !options.credits {
        return Ok(());
    }
    let mut lane = peer.counters().await?;
    let mut credit = credit;
    for _ in 0..10 {
        if lane.drained_bytes == sent && credit == sent {
            return Ok(());
        }
        line.world.sleep(us(100)).await;
        lane = peer.counters().await?;
        credit = read_credit(line).await?;
    }
    let (received, drained) = (lane.received_bytes, lane.drained_bytes);
    Check::Credits.fail(format!(
        "{name}: {sent} B were sent, {received} received, {drained} drained, {credit} are credited"
    ));
}

async fn read_credit(line: &Line) -> Result<u32, DriverError> {
    let (bus, function) = (&line.world.bus, line.device.function().id);
    let offset_bytes = u64::from(engine::PEER.at(line.key.1.into()) + channel::CREDIT);
    let read = bus.read_register(RegisterAddress { function, bar: 0, offset_bytes }).await;
    read.map_err(|source| DriverError::Bus { device: line.name(), source })
}
