// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that a card has to pass before anything else is asked of it: registers, transfers of many
//! sizes with every byte compared, interrupts, its memory, an address that it must not read, and
//! writes between two cards.
//!
//! The same steps run on a board, through a server's socket, in a virtual machine and in a lab.

use std::fmt::Display;
use std::future::Future;

use crosslane_driver::{
    Buffer, CARD_MEMORY_BAR, ChannelKind, ChannelOptions, CompletionLevel, Contents,
    DescriptorSource, Device, Notification, Target, Transfer, TransferFault, Window, WindowOptions,
};
use crosslane_host::{Bus, PageSize, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::machine::TestStep;
use smart_default::SmartDefault;

use crate::card_transfer::{CardDirection, card_transfer};
use crate::chain::{Loopback, loopback};
use crate::error::Result;
use crate::latency::latency;
use crate::measured::{DataErrors, Measured};
use crate::options::Options;
use crate::pattern::{compare, compare_slice, fill, pattern_bytes};
use crate::peer_memory::shows_memory;
use crate::transfer::{peer_memory_write, peer_read, peer_write, read, write};

/// Bytes of the transfers: a word, less than a TLP, a page and what crosses its end, and longer
/// ones that end within a TLP.
const SIZES: [u64; 6] = [4, 60, 4096, 4100, 65_536, (1 << 20) + 12];
/// Bytes of a transfer where the size is not the point.
const SOME_BYTES: u64 = 64 << 10;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;
/// Descriptors that a ring has at least, and at most (docs/engine.md).
const LEAST_RING_ENTRIES: u64 = 1024;
const MOST_RING_ENTRIES: u64 = 1 << 16;
/// Part of a card's memory that is stored into and loaded from by a core: from the second word of a
/// page on.
const STORED_AT: u64 = PAGE_BYTES + 4;
const STORED_BYTES: u64 = 1000;
/// Transfers that each end in an interrupt.
const INTERRUPTS: u64 = 16;
/// Round trips between two cards.
const ROUND_TRIPS: u64 = 20;

/// Options of the acceptance of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SmartDefault)]
#[non_exhaustive]
pub struct AcceptanceOptions {
    /// The longest transfer, bytes; a multiple of 4.
    #[default(64 << 20)]
    pub largest_bytes: u64,
    /// A transfer that takes longer than this has failed.
    #[default(Picoseconds::from_ms(30_000))]
    pub timeout: Picoseconds,
    /// Seed of the data.
    #[default(1)]
    pub seed: u32,
    /// Whether memory that is no longer pinned cannot be reached any more: behind an IOMMU, where
    /// the bus keeps no mappings.
    pub guarded: bool,
}

setters!(AcceptanceOptions {
    with_largest_bytes(largest_bytes: u64),
    with_timeout(timeout: impl Into<Picoseconds>),
    with_seed(seed: u32),
    with_guarded(guarded: bool),
});

/// Makes all steps on each card, and between each and the next; a step that fails does not keep
/// others from being made. `made` is told of each as it ends.
///
/// Returns how many failed.
pub async fn accept(
    devices: &[Device],
    options: &AcceptanceOptions,
    mut made: impl FnMut(TestStep),
) -> usize {
    let mut failed = 0;
    let mut note = |step: TestStep| {
        failed += usize::from(step.error.is_some());
        made(step);
    };
    for device in devices {
        let one = One { device, options };
        note(one.step("registers", one.registers()).await);
        let largest = (options.largest_bytes > SIZES[5]).then_some(options.largest_bytes);
        for bytes in SIZES.into_iter().chain(largest) {
            let run = Options {
                size_bytes: bytes,
                pages: PageSize::Small,
                descriptors: ring_for(bytes),
                ..one.run()
            };
            note(one.step(&format!("write of {bytes} B"), one.write(run)).await);
            note(one.step(&format!("read of {bytes} B"), one.read(run)).await);
        }
        let run = one.run();
        let both = one.checked(loopback(device, Loopback::AtOnce, &run));
        note(one.step(&format!("{SOME_BYTES} B to the card and back"), both).await);
        if device.description().table_entries > 0 {
            let run = Options { descriptors: DescriptorSource::Table, ..one.run() };
            note(one.step("write by the table of descriptors", one.write(run)).await);
            note(one.step("read by the table of descriptors", one.read(run)).await);
        }
        let run = Options {
            notification: Notification::InterruptOnly,
            iterations: INTERRUPTS,
            size_bytes: SIZES[2],
            ..one.run()
        };
        note(one.step(&format!("{INTERRUPTS} writes by interrupts"), one.write(run)).await);
        note(one.step(&format!("{INTERRUPTS} reads by interrupts"), one.read(run)).await);
        if device.description().card_memory {
            for direction in CardDirection::ALL {
                let what = format!("{SOME_BYTES} B of memory, {}", direction.words());
                note(one.step(&what, one.card(direction)).await);
            }
        }
        if shows_memory(device) {
            let what = format!("{STORED_BYTES} B of memory through BAR{CARD_MEMORY_BAR}");
            note(one.step(&what, one.window()).await);
        }
        if options.guarded {
            note(one.step("memory that is not mapped", one.unmapped()).await);
        }
    }
    for pair in devices.windows(2) {
        for (from, to) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
            let one = One { device: from, options };
            let run = one.run();
            let step = one.step("peer write", one.checked(peer_write(from, to, &run)));
            let place = format!("{} -> {}", from.function().name, to.function().name);
            note(TestStep { place: place.clone(), ..step.await });
            if shows_memory(from) {
                let step = one.step("peer read", one.checked(peer_read(from, to, &run)));
                note(TestStep { place: place.clone(), ..step.await });
            }
            if shows_memory(to) {
                let work = one.checked(peer_memory_write(from, to, &run));
                let step = one.step("peer write into its memory", work);
                note(TestStep { place: place.clone(), ..step.await });
            }
            let trips = one.step(&format!("{ROUND_TRIPS} round trips"), one.round_trips(to)).await;
            note(TestStep { place, ..trips });
        }
    }
    failed
}

/// A ring that holds a transfer of which every page is a descriptor.
fn ring_for(bytes: u64) -> DescriptorSource {
    // The first page may begin in its middle.
    let pages = bytes.div_ceil(PAGE_BYTES) + 1;
    let entries = pages.next_power_of_two().clamp(LEAST_RING_ENTRIES, MOST_RING_ENTRIES);
    DescriptorSource::Ring { entries: entries as u32 }
}

/// One card.
struct One<'a> {
    device: &'a Device,
    options: &'a AcceptanceOptions,
}

/// The sentence of an error.
fn words(error: impl Display) -> String {
    error.to_string()
}

/// Turns data errors into an error sentence.
fn compared(errors: DataErrors) -> Result<(), String> {
    match errors.words {
        0 => Ok(()),
        words => Err(format!(
            "{words} words of 4 B are not what was sent, the first of them number {}",
            errors.first_word.unwrap_or(0)
        )),
    }
}

impl One<'_> {
    fn run(&self) -> Options {
        Options {
            size_bytes: SOME_BYTES,
            timeout: self.options.timeout,
            seed: self.options.seed,
            ..Options::default()
        }
    }

    async fn step(&self, what: &str, made: impl Future<Output = Result<(), String>>) -> TestStep {
        let begun = self.device.bus().now();
        let error = made.await.err();
        let took_ps = self.device.bus().now().since(begun).0;
        let place = self.device.function().name.clone();
        TestStep { place, what: what.to_owned(), error, took_ps }
    }

    async fn checked(&self, run: impl Future<Output = Result<Measured>>) -> Result<(), String> {
        compared(run.await.map_err(words)?.data_errors)
    }

    async fn write(&self, run: Options) -> Result<(), String> {
        self.checked(write(self.device, &run)).await
    }

    async fn read(&self, run: Options) -> Result<(), String> {
        self.checked(read(self.device, &run)).await
    }

    async fn card(&self, direction: CardDirection) -> Result<(), String> {
        let run = Options {
            timeout: self.options.timeout,
            ..Options::by_registers(SOME_BYTES, self.options.seed)
        };
        let measured = card_transfer(self.device, direction, &run).await.map_err(words)?;
        compared(measured.data_errors)
    }

    /// The engine reads in the card's memory what a core has stored there, and the other way round.
    async fn window(&self) -> Result<(), String> {
        let (device, seed) = (self.device, self.options.seed);
        let place = STORED_AT..STORED_AT + STORED_BYTES;
        let options = WindowOptions::new(CARD_MEMORY_BAR, place).with_contents(Contents::Memory);
        let window = Window::open(device.bus().clone(), device.function().id, options);
        let window = window.map_err(words)?;
        let buffer = device.buffer(STORED_BYTES, PageSize::Small).await.map_err(words)?;
        let (mut errors, mut loaded) = (DataErrors::default(), vec![0; STORED_BYTES as usize]);

        window.write(0, &pattern_bytes(seed, STORED_BYTES)).await.map_err(words)?;
        // Behind this they are in the memory.
        window.read(0, &mut loaded).await.map_err(words)?;
        compare_slice(&loaded, seed, 0, &mut errors);
        self.move_card(ChannelKind::C2h, &buffer).await?;
        compare(&buffer, 0, STORED_BYTES, seed, 0, &mut errors).map_err(words)?;

        fill(&buffer, 0, STORED_BYTES, !seed, 0).map_err(words)?;
        self.move_card(ChannelKind::H2c, &buffer).await?;
        window.read(0, &mut loaded).await.map_err(words)?;
        compare_slice(&loaded, !seed, 0, &mut errors);
        buffer.unregister().await.map_err(words)?;
        compared(errors)
    }

    /// A transfer between a buffer and the part of the card's memory that is stored into.
    async fn move_card(&self, kind: ChannelKind, buffer: &Buffer) -> Result<(), String> {
        let device = self.device;
        let options = ChannelOptions::default().with_card_memory(true);
        let mut channel = device.channel(kind, 0, options).await.map_err(words)?;
        let target = Target::Card(buffer.clone(), 0..STORED_BYTES, STORED_AT);
        let transfer = Transfer::new(target, self.run().deadline(device.bus()));
        channel.transfer(transfer).await.map_err(words)?;
        channel.close().await.map_err(words)
    }

    /// Checks that the card answers and that its clock runs.
    async fn registers(&self) -> Result<(), String> {
        let device = self.device;
        let first = device.time_clocks().await.map_err(words)?;
        let second = device.time_clocks().await.map_err(words)?;
        if second <= first {
            return Err(format!("its time was {first} clocks, and then {second}"));
        }
        Ok(())
    }

    async fn round_trips(&self, to: &Device) -> Result<(), String> {
        let run = Options {
            iterations: ROUND_TRIPS,
            seed: self.options.seed,
            timeout: self.options.timeout,
            ..Options::ping_pong()
        };
        let made = latency(self.device, to, &run).await.map_err(words)?;
        compared(made.data_errors)
    }

    /// A read of memory that was taken from the card is refused, and the channel works afterwards.
    async fn unmapped(&self) -> Result<(), String> {
        let (device, bus) = (self.device, self.device.bus());
        let function = device.function().id;
        let memory = bus.allocate(SOME_BYTES, PageSize::Small).map_err(words)?;
        let buffer = device.register(memory.clone()).await.map_err(words)?;
        let options = ChannelOptions::default();
        let mut channel = device.channel(ChannelKind::H2c, 0, options).await.map_err(words)?;
        // Behind the driver's back: as if another program had given the memory back.
        bus.unpin(function, &memory).await.map_err(words)?;
        let transfer = Transfer {
            target: Target::Buffer(buffer.clone(), 0..SOME_BYTES),
            level: CompletionLevel::Visible,
            deadline: self.run().deadline(bus),
        };
        let read = channel.transfer(transfer).await;
        bus.pin(function, &memory).await.map_err(words)?;
        channel.close().await.map_err(words)?;
        drop(buffer);
        match read {
            Ok(_) => return Err("it was read all the same".to_owned()),
            Err(error) => match error.fault {
                TransferFault::UnsupportedRequest | TransferFault::CompleterAbort => {}
                _ => return Err(format!("the read was not refused, but: {error}")),
            },
        }
        self.read(self.run()).await.map_err(|error| format!("afterwards: {error}"))
    }
}
