// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The test of cards: the acceptance steps, then a reset of each card while it writes to memory.

use std::convert::Infallible;
use std::slice;
use std::time::Duration;

use crosslane_driver::{ChannelKind, ChannelOptions, Device, DriverError, StreamSource, Transfer};
use crosslane_experiment::{AcceptanceOptions, accept};
use crosslane_host::{AnyBus, Bus, BusError, DmaMemory, PageSize, Topology, kinds, setters};
use crosslane_lab::{RunError, Stuck};
use crosslane_open::{Card, CardError, DeviceName, OpenError, Session, SessionOptions};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;
use crosslane_results::machine::{DeviceTest, TestStep, TestedCard, TestedEngine};
use crosslane_vfio::BusOptions;
use crosslane_vfio::sysfs::Configuration;
use smart_default::SmartDefault;
use thiserror::Error;

use super::describe::{board, serial_number};

/// Bytes of the write that a reset interrupts: more than the card can write until then.
const BYTES: u64 = 1 << 20;
/// Time that the card writes before it is reset.
const BEFORE: Duration = Duration::from_micros(20);
/// Time that memory is checked for writes afterwards.
const AFTER: Duration = Duration::from_millis(5);
/// Deadline of the interrupted transfer.
const PATIENCE: Duration = Duration::from_millis(100);
/// Bytes of a PCI Express function's configuration space.
const CONFIGURATION_BYTES: u16 = 4096;
/// A byte that no card writes; it fills the memory after the reset.
const MARK: u8 = 0xa5;
/// Longest transfer of the steps after a reset, bytes.
const LARGEST_BYTES: u64 = 64 << 10;

/// Options of a test of cards.
#[derive(Clone, Copy, Debug, SmartDefault)]
#[non_exhaustive]
pub struct TestOptions {
    /// The longest transfer, bytes; a multiple of 4.
    #[default(64 << 20)]
    pub largest_bytes: u64,
    /// Time after which a transfer has failed.
    #[default(Duration::from_secs(30))]
    pub timeout: Duration,
    /// Seed of the data.
    #[default(1)]
    pub seed: u64,
}

setters!(TestOptions {
    with_largest(largest_bytes: u64),
    with_timeout(timeout: Duration),
    with_seed(seed: u64),
});

/// Reason for which cards cannot be tested.
#[derive(Debug, Error)]
pub enum TestError {
    /// A card cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A card has no working engine.
    #[error(transparent)]
    Card(#[from] CardError),
    /// A program in the lab can never end.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// A port of the lab has detected an error, or something that was begun can never end.
    #[error(transparent)]
    Run(#[from] RunError<Infallible>),
}

kinds!(TestError {
    Self::Open(error) => error.kind(),
    Self::Card(error) => error.kind(),
    Self::Stuck(error) => error.kind(),
    Self::Run(error) => error.kind(),
});

/// Tests cards: registers, transfers, interrupts, writes between them, and a reset of each while it
/// writes. A failed step does not end the test; `made` is called with each step as it ends.
///
/// # Errors
/// Cards that cannot be opened, together or alone.
pub fn test_cards(
    names: &[DeviceName],
    options: &TestOptions,
    mut made: impl FnMut(&TestStep),
) -> Result<DeviceTest, TestError> {
    let is_lab = matches!(names.first(), Some(DeviceName::Lab(_)));
    let acceptance = AcceptanceOptions::default()
        .with_largest_bytes(options.largest_bytes)
        .with_timeout(options.timeout)
        .with_seed(options.seed as u32)
        .with_guarded(!is_lab);
    // Unpinned memory must be inaccessible at once: no mapping is kept.
    let bus = BusOptions::default().with_kept_bytes(0);
    let opening = SessionOptions::default().with_seed(options.seed).with_bus(bus);
    let mut steps = Vec::new();
    let mut note = |step: TestStep| {
        made(&step);
        steps.push(step);
    };
    let mut cards = Vec::new();
    {
        let session = Session::open_all(names, opening)?;
        session.block_on(async {
            let devices = session.devices().await?;
            cards.extend(devices.iter().map(tested));
            accept(&devices, &acceptance, &mut note).await;
            Ok::<_, CardError>(())
        })??;
        session.finish()?;
    }
    // Each card is opened once more, separately.
    let acceptance = acceptance
        .with_largest_bytes(acceptance.largest_bytes.min(LARGEST_BYTES))
        .with_guarded(false);
    for name in names {
        let session = Session::open_all(slice::from_ref(name), opening)?;
        for card in session.cards() {
            let reset = async || session.reset(card.function).await;
            let step = reset_step(session.bus(), card, &acceptance, reset);
            note(session.block_on(step)?);
        }
    }
    Ok(DeviceTest {
        devices: names.iter().map(ToString::to_string).collect(),
        cards,
        seed: options.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        failed: steps.iter().filter(|step| step.error.is_some()).count(),
        steps,
    })
}

/// Describes a card before its test.
fn tested(device: &Device) -> TestedCard {
    let (bus, function) = (device.bus(), device.function());
    // A function without extended configuration space has less to say.
    let words = (0..CONFIGURATION_BYTES).step_by(4);
    let words = words.map_while(|offset| bus.config_read(function.id, offset).ok());
    let configuration = Configuration::new(words.flat_map(u32::to_le_bytes).collect());
    let pair = |offset| {
        let word = configuration.double_word(offset).unwrap_or(u32::MAX);
        (word as u16, (word >> 16) as u16)
    };
    let ((vendor, id), subsystem) = (pair(reg::VENDOR_DEVICE), pair(reg::SUBSYSTEM));
    let express = configuration.express();
    let has = device.description();
    TestedCard {
        name: function.name.clone(),
        identity: format!("{vendor:04x}:{id:04x}"),
        subsystem: format!("{:04x}:{:04x}", subsystem.0, subsystem.1),
        board: board(vendor, subsystem).map(str::to_owned),
        serial_number: configuration.serial_number().map(serial_number),
        link: express.map(|it| it.link.to_string()),
        link_capability: express.map(|it| it.link_capability.to_string()),
        max_payload_bytes: express.map(|it| it.max_payload_bytes),
        max_read_request_bytes: express.map(|it| it.max_read_request_bytes),
        engine: TestedEngine {
            channels: [has.h2c_channels, has.c2h_channels, has.peer_channels],
            lanes: has.lanes,
            tags: has.tags,
            max_write_bytes: has.max_write_bytes,
            max_read_bytes: has.max_read_bytes,
            clock_ps: has.clock.0,
        },
    }
}

/// Reads the registers that must be the same after a reset: BARs and the lower half of Command.
fn kept(bus: &AnyBus, function: RoutingId) -> Result<Vec<(u16, u32)>, String> {
    let read = |offset| bus.config_read(function, offset).map_err(|error| error.to_string());
    let mut values = vec![(reg::COMMAND, read(reg::COMMAND)? & 0xffff)];
    for bar in 0..6 {
        let register = reg::BAR0 + 4 * bar;
        values.push((register, read(register)?));
    }
    Ok(values)
}

async fn reset_step(
    bus: &AnyBus,
    card: &Card,
    options: &AcceptanceOptions,
    reset: impl AsyncFnOnce() -> Result<(), BusError>,
) -> TestStep {
    let begun = bus.now();
    let (place, outcome) = match Device::open(bus.clone(), card.function).await {
        Ok(device) => {
            let made = reset_while_it_writes(&device, options, reset).await;
            (device.function().name.clone(), made)
        }
        Err(error) => (card.name.clone(), Err(error.to_string())),
    };
    let took_ps = bus.now().since(begun).0;
    let error = outcome.err();
    TestStep { place, what: "reset while it writes".to_owned(), error, took_ps }
}

async fn reset_while_it_writes(
    device: &Device,
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
    let transfer = Transfer::of(&buffer, bus.after(PATIENCE));
    let posted = channel.post(slice::from_ref(&transfer)).await.map_err(answer)?;
    bus.sleep_until(bus.after(BEFORE)).await;
    reset().await.map_err(words)?;
    // No write of the interrupted transfer may arrive from now on.
    let marks = vec![MARK; BYTES as usize];
    memory.write(0, &marks).map_err(words)?;
    bus.sleep_until(bus.after(AFTER)).await;
    let mut found = vec![0; BYTES as usize];
    memory.read(0, &mut found).map_err(words)?;
    if let Some(at) = found.iter().position(|byte| *byte != MARK) {
        return Err(format!("byte {at:#x} of memory was written after the reset"));
    }
    // A fast card finished before the reset; otherwise the transfer fails. Both are fine, as long
    // as it ends.
    for ticket in posted {
        let _ = channel.wait(ticket).await;
    }
    channel.close().await.map_err(answer)?;
    drop((buffer, transfer));
    let after = kept(bus, function)?;
    if let Some(((register, was), (_, is))) = before.iter().zip(&after).find(|(a, b)| a != b) {
        return Err(format!("configuration {register:#x} was {was:#x} and is {is:#x}"));
    }
    // The card works as before, with the same interrupts and without reopening.
    let mut failed = None;
    accept(slice::from_ref(device), options, |step| {
        if let (Some(sentence), None) = (&step.error, &failed) {
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

    /// Returns the error of the step for a card, with or without a reset.
    fn outcome(lab: &str, resets: bool) -> Option<String> {
        let session = Session::open(lab).unwrap();
        let card = &session.cards()[0];
        let reset = async || match resets {
            true => session.reset(card.function).await,
            false => Ok(()),
        };
        let options =
            AcceptanceOptions::default().with_largest_bytes(4 << 10).with_timeout(PATIENCE);
        session.block_on(reset_step(session.bus(), card, &options, reset)).unwrap().error
    }

    #[test]
    fn a_report_says_which_card_was_tested() {
        let options = TestOptions::default().with_largest(4 << 10);
        let name = "lab:minimal/card0".parse().unwrap();
        let test = test_cards(&[name], &options, |_| {}).unwrap();
        let [card] = &test.cards[..] else { panic!("{:?}", test.cards) };
        assert_eq!((card.identity.as_str(), card.subsystem.as_str()), ("1234:0002", "0000:0000"));
        assert_eq!((card.board.as_deref(), card.serial_number.as_deref()), (None, None));
        assert_eq!(card.link.as_deref(), Some("Gen3 x4"));
        assert_eq!((card.max_payload_bytes, card.engine.lanes), (Some(256), 8));
        assert_eq!(card.name, test.steps[0].place);
    }

    #[test]
    fn a_card_that_goes_on_writing_is_found() {
        assert_eq!(outcome("lab:minimal/card0", true), None);
        let sentence = outcome("lab:minimal/card0", false).unwrap();
        assert!(sentence.ends_with(" of memory was written after the reset"), "{sentence}");
    }
}
