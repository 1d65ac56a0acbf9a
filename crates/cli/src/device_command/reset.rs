// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last step of `crosslane device test`: each card is reset while it writes to memory.

use std::slice;

use crosslane_bench::{AcceptanceOptions, Step, accept};
use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, Device, DriverError, StreamSource, Target,
    Transfer,
};
use crosslane_host::{Bus, BusError, DmaMemory, PageSize};
use crosslane_open::{Card, DeviceName, Session, SessionOptions};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::{Picoseconds, RoutingId};

use crate::error::CommandError;
use crate::workload::{refused, run_on};

/// Bytes that the card writes when it is reset: more than it can have written by then.
const BYTES: u64 = 1 << 20;
/// How long it writes before it is reset.
const BEFORE: Picoseconds = Picoseconds::from_ns(20_000);
/// How long memory is looked at afterwards.
const AFTER: Picoseconds = Picoseconds::from_ns(5_000_000);
/// When the transfer that the reset cut off has ended at the latest.
const PATIENCE: Picoseconds = Picoseconds::from_ns(100_000_000);
/// What no card writes there: the memory is filled with it after the reset.
const MARK: u8 = 0xa5;
/// Longest transfer of the steps that follow, bytes.
const LARGEST_BYTES: u64 = 64 << 10;

/// Opens the cards that a name stands for and makes the step with each; `made` is told of it.
///
/// # Errors
/// A card that cannot be opened.
pub fn reset_each(
    name: &DeviceName,
    opening: SessionOptions,
    options: &AcceptanceOptions,
    mut made: impl FnMut(&Step),
) -> Result<(), CommandError> {
    let options = AcceptanceOptions {
        largest_bytes: options.largest_bytes.min(LARGEST_BYTES),
        guarded: false,
        ..*options
    };
    let session = Session::open_all(slice::from_ref(name), opening).map_err(refused)?;
    for card in session.cards() {
        let reset = async || session.reset(card.function).await;
        let step = step(session.bus(), card, &options, reset);
        made(&run_on(&session, async { Ok(step.await) })?);
    }
    Ok(())
}

fn later<B: Bus>(bus: &B, time: Picoseconds) -> Picoseconds {
    Picoseconds(bus.now().0.saturating_add(time.0))
}

/// What whoever resets a function keeps of its configuration: BARs and the lower half of Command.
fn kept<B: Bus>(bus: &B, function: RoutingId) -> Result<Vec<(u16, u32)>, String> {
    let read = |offset| bus.config_read(function, offset).map_err(|error| error.to_string());
    let mut values = vec![(reg::COMMAND, read(reg::COMMAND)? & 0xffff)];
    for bar in 0..6 {
        let register = reg::BAR0 + 4 * bar;
        values.push((register, read(register)?));
    }
    Ok(values)
}

async fn step<B: Bus>(
    bus: &B,
    card: &Card,
    options: &AcceptanceOptions,
    reset: impl AsyncFnOnce() -> Result<(), BusError>,
) -> Step {
    let begun = bus.now();
    let (place, outcome) = match Device::open(bus.clone(), card.function).await {
        Ok(device) => {
            let made = reset_while_it_writes(&device, options, reset).await;
            (device.function().name.clone(), made)
        }
        Err(error) => (card.name.clone(), Err(error.to_string())),
    };
    let took = bus.now().since(begun);
    Step { place, what: "reset while it writes".to_owned(), outcome, took }
}

async fn reset_while_it_writes<B: Bus>(
    device: &Device<B>,
    options: &AcceptanceOptions,
    reset: impl AsyncFnOnce() -> Result<(), BusError>,
) -> Result<(), String> {
    let (bus, function) = (device.bus(), device.function().id);
    let before = kept(bus, function)?;
    let memory = bus.allocate(BYTES, PageSize::Small).map_err(words)?;
    let buffer = device.register(memory.clone()).await.map_err(answer)?;
    device.user().route(StreamSource::Generator, StreamSource::Generator).await.map_err(answer)?;
    device.user().seed(options.seed).await.map_err(answer)?;
    let channel = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await;
    let mut channel = channel.map_err(answer)?;
    let transfer = Transfer {
        target: Target::Buffer(buffer.clone(), 0..BYTES),
        level: CompletionLevel::Visible,
        deadline: later(bus, PATIENCE),
    };
    let posted = channel.post(slice::from_ref(&transfer)).await.map_err(answer)?;
    bus.sleep_until(later(bus, BEFORE)).await;
    reset().await.map_err(words)?;
    // Nothing of it comes any more.
    let marks = vec![MARK; BYTES as usize];
    memory.write(0, &marks).map_err(words)?;
    bus.sleep_until(later(bus, AFTER)).await;
    let mut found = vec![0; BYTES as usize];
    memory.read(0, &mut found).map_err(words)?;
    if let Some(at) = found.iter().position(|byte| *byte != MARK) {
        return Err(format!("byte {at:#x} of memory was written after the reset"));
    }
    // A fast card was done before; else the transfer ends with an error. Both are as they should
    // be: what counts is that it ends.
    for ticket in posted {
        let _ = channel.wait(ticket).await;
    }
    channel.close().await.map_err(answer)?;
    drop((buffer, transfer));
    let after = kept(bus, function)?;
    if let Some(((register, was), (_, is))) = before.iter().zip(&after).find(|(a, b)| a != b) {
        return Err(format!("configuration {register:#x} was {was:#x} and is {is:#x}"));
    }
    // With the interrupts that were on before, and without opening it anew.
    let mut failed = None;
    accept(slice::from_ref(device), options, |step| {
        if let (Err(sentence), None) = (&step.outcome, &failed) {
            failed = Some(format!("afterwards, {}: {sentence}", step.what));
        }
    })
    .await;
    failed.map_or(Ok(()), Err)
}

fn answer(error: DriverError) -> String {
    error.to_string()
}

fn words(error: BusError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcome of the step for a card, with or without a reset.
    fn outcome(lab: &str, resets: bool) -> Result<(), String> {
        let session = Session::open(lab).unwrap();
        let card = &session.cards()[0];
        let reset = async || match resets {
            true => session.reset(card.function).await,
            false => Ok(()),
        };
        let options = AcceptanceOptions {
            largest_bytes: 4 << 10,
            timeout: PATIENCE,
            seed: 1,
            guarded: false,
        };
        session.block_on(step(session.bus(), card, &options, reset)).unwrap().outcome
    }

    #[test]
    fn a_card_that_goes_on_writing_is_found() {
        assert_eq!(outcome("lab:minimal/card0", true), Ok(()));
        let sentence = outcome("lab:minimal/card0", false).unwrap_err();
        assert!(sentence.ends_with(" of memory was written after the reset"), "{sentence}");
    }
}
