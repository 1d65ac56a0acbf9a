// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives QEMU's `edu` device (documentation: `docs/specs/edu.rst`), an independent device, through
//! the bus: registers, DMA in both directions, interrupts, an IOMMU fault, reset. Ends with an
//! error at the first deviation. Functions must be bound to vfio-pci.
//!
//! * `edu ADDRESS [group|iommufd]`: all of these.
//! * `edu peer ADDRESS ADDRESS`: the first writes a register of the second through the IOMMU.
//! * `edu lose ADDRESS`: waits until the kernel wants the function back (it is unbound, or
//!   removed), checks that every wait and access ends with an error, and releases it.
//! * `edu window ADDRESS BAR`: stores into a BAR that is plain memory (QEMU's `ivshmem-plain` has
//!   one) through both mappings, in every width.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use crosslane_host::{
    Bus, BusError, DmaMemory, Mapping, PageSize, RegisterAddress, Stores, Topology,
};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_vfio::kernel::{self, Interface};
use crosslane_vfio::sysfs::{Address, ConfigurationWrites, Machine, Segment};
use crosslane_vfio::{BusOptions, Function, VfioBus, VfioMemory, block_on};

/// Vendor and device number.
const EDU: u32 = 0x11e8_1234;
/// Address bits of its DMA engine.
const ADDRESS_BITS: u32 = 28;
/// Address of its buffer, inside the device.
const BUFFER: u64 = 0x4_0000;
/// Longest transfer, bytes: half of the buffer.
const PIECE_BYTES: u64 = 2048;
/// Size of a memory whose ends are transferred, bytes.
const LARGE_BYTES: u64 = 16 << 20;
/// Longest time for an operation; a transfer takes 100 ms.
const PATIENCE: Picoseconds = Picoseconds(10_000_000_000_000);

const ID: u64 = 0x00;
const LIVENESS: u64 = 0x04;
const FACTORIAL: u64 = 0x08;
const STATUS: u64 = 0x20;
const INTERRUPT_STATUS: u64 = 0x24;
const RAISE: u64 = 0x60;
const ACKNOWLEDGE: u64 = 0x64;
const SOURCE: u64 = 0x80;
const TARGET: u64 = 0x88;
const COUNT: u64 = 0x90;
const COMMAND: u64 = 0x98;

/// Bits of the command register.
const START: u64 = 1;
const TO_MEMORY: u64 = 2;
const INTERRUPT: u64 = 4;
/// Interrupt status after a transfer.
const TRANSFER_DONE: u32 = 0x100;
/// Status bit: a factorial is being computed.
const COMPUTING: u32 = 1;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Edu {
    bus: VfioBus,
    function: RoutingId,
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Outcome<()> {
    if holds { Ok(()) } else { Err(what().into()) }
}

impl Edu {
    fn at(&self, offset_bytes: u64) -> RegisterAddress {
        RegisterAddress { function: self.function, bar: 0, offset_bytes }
    }

    async fn read(&self, register: u64) -> Outcome<u32> {
        Ok(self.bus.read_register(self.at(register)).await?)
    }

    async fn write(&self, register: u64, value: u32) -> Outcome<()> {
        Ok(self.bus.write_register(self.at(register), value).await?)
    }

    /// Makes one store of 8 B: the registers of the DMA engine take all or half of it.
    async fn write_long(&self, register: u64, value: u64) -> Outcome<()> {
        let stores = Stores::uncached(8);
        Ok(self.bus.store(self.at(register), &value.to_le_bytes(), stores).await?)
    }

    fn deadline(&self) -> Picoseconds {
        Bus::now(&self.bus) + PATIENCE
    }

    async fn registers(&self) -> Outcome<()> {
        let id = self.read(ID).await?;
        check(id & 0xff == 0xed, || format!("the first register is {id:#x}"))?;
        for value in [0, 1, 0x1234_5678, u32::MAX] {
            self.write(LIVENESS, value).await?;
            let read = self.read(LIVENESS).await?;
            check(read == !value, || format!("{value:#x} inverted is {read:#x}"))?;
        }
        self.write(FACTORIAL, 10).await?;
        let until = self.deadline();
        while self.read(STATUS).await? & COMPUTING != 0 {
            check(Bus::now(&self.bus) < until, || "the factorial is never done".to_owned())?;
        }
        let factorial = self.read(FACTORIAL).await?;
        check(factorial == 3_628_800, || format!("10! is {factorial}"))?;
        let rounds = 1000;
        let start = Instant::now();
        for _ in 0..rounds {
            self.read(ID).await?;
        }
        let each = start.elapsed() / rounds;
        println!("registers: identity {id:#x}, liveness, 10! = {factorial}; a read {each:?}");
        Ok(())
    }

    async fn interrupts(&self) -> Outcome<()> {
        self.bus.enable_interrupts(self.function, 1).await?;
        for value in [1, 0x8000, 0x55] {
            let start = Instant::now();
            self.write(RAISE, value).await?;
            let count = self.bus.wait_interrupt(self.function, 0, self.deadline()).await?;
            let latency = start.elapsed();
            let status = self.read(INTERRUPT_STATUS).await?;
            check((count, status) == (1, value), || format!("{count} came, status {status:#x}"))?;
            self.write(ACKNOWLEDGE, status).await?;
            let left = self.read(INTERRUPT_STATUS).await?;
            check(left == 0, || format!("{left:#x} is left after acknowledging"))?;
            println!("interrupt: raised with {value:#x}, waited {latency:?}");
        }
        // No task waits while they arrive.
        self.write(RAISE, 1).await?;
        self.write(RAISE, 2).await?;
        let mut count = 0;
        while count < 2 {
            count += self.bus.wait_interrupt(self.function, 0, self.deadline()).await?;
        }
        self.write(ACKNOWLEDGE, u32::MAX).await?;
        let soon = Bus::now(&self.bus) + Picoseconds::from_ms(20);
        let none = self.bus.wait_interrupt(self.function, 0, soon).await;
        check(count == 2 && matches!(none, Err(BusError::Deadline { .. })), || {
            format!("{count} interrupts came of 2, and then {none:?}")
        })?;
        println!("interrupts: two counted while nobody waited, then the deadline");
        Ok(())
    }

    /// Makes one transfer, and waits for its interrupt.
    async fn transfer(&self, source: u64, target: u64, bytes: u64, command: u64) -> Outcome<()> {
        self.write_long(SOURCE, source).await?;
        self.write_long(TARGET, target).await?;
        self.write_long(COUNT, bytes).await?;
        self.write_long(COMMAND, command | START | INTERRUPT).await?;
        self.bus.wait_interrupt(self.function, 0, self.deadline()).await?;
        let status = self.read(INTERRUPT_STATUS).await?;
        check(status == TRANSFER_DONE, || format!("interrupt status {status:#x}"))?;
        self.write(ACKNOWLEDGE, status).await?;
        let command = self.read(COMMAND).await?;
        check(u64::from(command) & START == 0, || "the transfer still runs".to_owned())
    }

    async fn to_device(&self, address: u64, bytes: u64) -> Outcome<()> {
        self.transfer(address, BUFFER, bytes, 0).await
    }

    async fn to_memory(&self, address: u64, bytes: u64) -> Outcome<()> {
        self.transfer(BUFFER, address, bytes, TO_MEMORY).await
    }

    async fn pinned(&self, bytes: u64, pages: PageSize) -> Outcome<(VfioMemory, u64)> {
        let memory = self.bus.allocate(bytes, pages)?;
        let segments = self.bus.pin(self.function, &memory).await?;
        check(segments.len() == 1 && segments[0].bytes == bytes, || format!("{segments:x?}"))?;
        Ok((memory, segments[0].address.0))
    }

    async fn dma(&self) -> Outcome<()> {
        for (bytes, pages) in [(2 * PIECE_BYTES, PageSize::Small), (LARGE_BYTES, PageSize::Huge)] {
            let start = Instant::now();
            let (memory, address) = self.pinned(bytes, pages).await?;
            let pinned = start.elapsed();
            let (from, to) = (bytes - PIECE_BYTES, 0);
            for length in [PIECE_BYTES, 4, 1000] {
                let sent = pattern(length, bytes ^ length);
                memory.write(from, &sent)?;
                memory.write(to, &pattern(PIECE_BYTES, 99))?;
                self.to_device(address + from, length).await?;
                self.to_memory(address + to, length).await?;
                let mut came = vec![0; PIECE_BYTES as usize];
                memory.read(to, &mut came)?;
                check(came[..length as usize] == sent, || {
                    format!("{length} B came back from the device changed")
                })?;
                let behind = &pattern(PIECE_BYTES, 99)[length as usize..];
                check(came[length as usize..] == *behind, || {
                    format!("more than {length} B were written")
                })?;
            }
            self.bus.unpin(self.function, &memory).await?;
            let page_bytes = memory.pages().page_bytes();
            println!(
                "DMA: out of and into a memory of {bytes} B in pages of {page_bytes} B at \
                 {address:#x} (pinned in {pinned:?}); data are right"
            );
        }
        Ok(())
    }

    /// Checks that the device neither reads nor writes memory that is no longer pinned.
    async fn fault(&self) -> Outcome<()> {
        let (kept, known) = self.pinned(PIECE_BYTES, PageSize::Small).await?;
        let (memory, address) = self.pinned(PIECE_BYTES, PageSize::Small).await?;
        kept.write(0, &pattern(PIECE_BYTES, 1))?;
        memory.write(0, &pattern(PIECE_BYTES, 2))?;
        self.to_device(known, PIECE_BYTES).await?;
        self.bus.unpin(self.function, &memory).await?;
        self.to_memory(address, PIECE_BYTES).await?;
        let mut after = vec![0; PIECE_BYTES as usize];
        memory.read(0, &mut after)?;
        check(after == pattern(PIECE_BYTES, 2), || {
            "the device wrote memory that is not pinned".to_owned()
        })?;
        self.to_device(address, PIECE_BYTES).await?;
        self.to_memory(known, PIECE_BYTES).await?;
        kept.read(0, &mut after)?;
        check(after != pattern(PIECE_BYTES, 2), || {
            "the device read memory that is not pinned".to_owned()
        })?;
        // Pinned memory still works.
        kept.write(0, &pattern(PIECE_BYTES, 3))?;
        self.to_device(known, PIECE_BYTES).await?;
        kept.write(0, &pattern(PIECE_BYTES, 4))?;
        self.to_memory(known, PIECE_BYTES).await?;
        kept.read(0, &mut after)?;
        check(after == pattern(PIECE_BYTES, 3), || "no DMA after the faults".to_owned())?;
        self.bus.unpin(self.function, &kept).await?;
        println!("IOMMU: reads and writes at {address:#x}, which is not mapped, moved nothing");
        Ok(())
    }

    async fn reset(&self) -> Outcome<()> {
        match self.bus.reset(self.function) {
            Ok(()) => println!("reset: done"),
            Err(error) => {
                println!("reset: not supported: {error}");
                return Ok(());
            }
        }
        self.registers().await?;
        self.interrupts().await
    }
}

/// Bytes that differ by seed.
fn pattern(bytes: u64, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Makes one device write a register of another.
async fn write_peer(edu: &Edu, peer: &Edu) -> Outcome<()> {
    edu.bus.enable_interrupts(edu.function, 1).await?;
    let (memory, address) = edu.pinned(PIECE_BYTES, PageSize::Small).await?;
    let bar = edu.bus.pin_bar(edu.function, peer.function, 0).await?;
    for value in [1_u32, 0x00ff_1234, 0xdead_beef] {
        memory.write(0, &value.to_le_bytes())?;
        edu.to_device(address, 4).await?;
        edu.to_memory(bar.0 + LIVENESS, 4).await?;
        let inverted = peer.read(LIVENESS).await?;
        check(inverted == !value, || {
            format!("{value:#x} was written to the peer, and it shows {inverted:#x}")
        })?;
    }
    let before = peer.read(LIVENESS).await?;
    edu.bus.unpin_bar(edu.function, peer.function, 0).await?;
    edu.to_memory(bar.0 + LIVENESS, 4).await?;
    let after = peer.read(LIVENESS).await?;
    check(after == before, || "the peer was written when it was not mapped".to_owned())?;
    println!(
        "peer: {} writes a register of {} at {bar}, and no longer once that is unmapped",
        edu.function, peer.function
    );
    Ok(())
}

/// Waits until the function is lost.
async fn lose(edu: &Edu) -> Outcome<()> {
    edu.bus.enable_interrupts(edu.function, 1).await?;
    let (memory, _) = edu.pinned(PIECE_BYTES, PageSize::Small).await?;
    println!("waiting for the loss of {}", edu.function);
    let until = Bus::now(&edu.bus) + Picoseconds(6 * PATIENCE.0);
    let waited = edu.bus.wait_interrupt(edu.function, 0, until).await;
    let is_lost = |what: &str, error: Option<BusError>| match error {
        Some(error @ BusError::Lost { .. }) => {
            println!("{what}: {error}");
            Ok(())
        }
        other => Err(format!("{what} ended with {other:?}, not with the loss")),
    };
    is_lost("waiting for an interrupt", waited.err())?;
    let waited = edu.bus.wait_memory(&memory, 0, 0, until).await;
    is_lost("waiting for memory", waited.err())?;
    is_lost("reading a register", edu.bus.read_register(edu.at(ID)).await.err())?;
    is_lost("writing a register", edu.bus.write_register(edu.at(LIVENESS), 0).await.err())?;
    Ok(())
}

/// Stores into a BAR that is plain memory.
async fn window(bus: &VfioBus, function: RoutingId, bar: u8) -> Outcome<()> {
    /// Not a multiple of any store width, and at an unaligned offset.
    const BYTES: u64 = 5003;
    const OFFSET: u64 = 13;
    let at = RegisterAddress { function, bar, offset_bytes: OFFSET };
    for mapping in [Mapping::Uncached, Mapping::WriteCombined] {
        bus.check_mapping(function, bar, mapping)?;
        let mut width_bytes = 1;
        while width_bytes <= bus.widest_store_bytes() {
            let stored = pattern(BYTES, u64::from(width_bytes) + 100 * mapping as u64);
            let start = Instant::now();
            bus.store(at, &stored, Stores { width_bytes, mapping }).await?;
            bus.fence().await?;
            let took = start.elapsed();
            let mut loaded = vec![0; stored.len()];
            bus.load(at, &mut loaded, Mapping::Uncached).await?;
            check(loaded == stored, || format!("{mapping:?} stores of {width_bytes} B are wrong"))?;
            println!("window: {BYTES} B by {mapping:?} stores of {width_bytes} B in {took:?}");
            width_bytes *= 2;
        }
    }
    Ok(())
}

fn interface(word: Option<&str>) -> Outcome<Option<Interface>> {
    match word {
        None => Ok(None),
        Some("group") => Ok(Some(Interface::Group)),
        Some("iommufd") => Ok(Some(Interface::Iommufd)),
        Some(other) => Err(format!("`{other}` is neither group nor iommufd").into()),
    }
}

/// Opens functions on one bus.
fn open_bus(addresses: &[Address], interface: Option<Interface>) -> Outcome<VfioBus> {
    let mut functions: Vec<Arc<dyn Function>> = Vec::new();
    for function in kernel::open(addresses, interface)? {
        println!("{}: opened by {}", function.name(), function.interface());
        functions.push(Arc::new(function));
    }
    // Unpinned memory must not stay mapped: `Edu::fault` checks that.
    let options =
        BusOptions::default().with_kept_bytes(0).with_highest_address((1 << ADDRESS_BITS) - 1);
    let segment = Segment::new(&Machine::this().tree()?, 0, ConfigurationWrites::Forbidden);
    Ok(VfioBus::with_options(functions, Some(Arc::new(segment)), options)?)
}

/// Opens the devices on one bus.
fn open(addresses: &[&str], interface: Option<Interface>) -> Outcome<Vec<Edu>> {
    let addresses: Vec<Address> =
        addresses.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
    let bus = open_bus(&addresses, interface)?;
    let mut devices = Vec::new();
    for function in addresses.iter().map(|address| address.id) {
        let ids = bus.config_read(function, 0)?;
        check(ids == EDU, || format!("vendor and device number are {ids:#010x}, not {EDU:#010x}"))?;
        devices.push(Edu { bus: bus.clone(), function });
    }
    Ok(devices)
}

fn run(arguments: &[&str]) -> Outcome<bool> {
    match arguments {
        ["peer", address, peer] => {
            let devices = open(&[address, peer], None)?;
            block_on(write_peer(&devices[0], &devices[1]))?;
        }
        ["lose", address] => block_on(lose(&open(&[address], None)?[0]))?,
        ["window", address, bar] => {
            let address: Address = address.parse()?;
            let bus = open_bus(&[address], None)?;
            block_on(window(&bus, address.id, bar.parse()?))?;
        }
        [address, wish @ ..] if wish.len() < 2 => {
            let devices = open(&[address], interface(wish.first().copied())?)?;
            let edu = &devices[0];
            block_on(async {
                edu.registers().await?;
                edu.interrupts().await?;
                edu.dma().await?;
                edu.fault().await?;
                edu.reset().await
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(true) => {
            println!("edu: all is well");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            eprintln!(
                "usage: edu test ADDRESS [group|iommufd] | peer ADDRESS ADDRESS | lose ADDRESS"
            );
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("edu: {error}");
            ExitCode::FAILURE
        }
    }
}
