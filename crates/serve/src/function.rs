// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One served device in the lab: its configuration space as the client sees it, its BARs and its
//! interrupts. Runs on the lab's thread.
//!
//! Configuration space is the lab's, except for settings of the client that the lab must not adopt
//! directly: the BARs and the memory enable, from which [`Board`](crate::board::Board) computes the
//! routes, and MSI-X, which the server sets up for the interrupts that clients request through
//! vfio-user.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use crosslane_host::{Bus, BusError, FunctionInfo, Mapping, RegisterAddress, Stores, Topology};
use crosslane_lab::{LabBus, Simulation};
use crosslane_pcie::config::{
    Bar, CONFIG_SPACE_BYTES, MSIX_ENTRY_BYTES, find_capability, registers as reg,
};
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Widest client access made as one access in the lab, bytes.
const WIDEST_BYTES: u32 = 8;
/// Time for which a device's link is down in a reset, simulated: longer than anything in flight
/// then takes.
const RESET_TIME: Picoseconds = Picoseconds::from_us(10);
/// Byte enables of the lower half of a double word; a 1 clears bits in the upper half.
const LOW_HALF: u8 = 0b0011;

/// Position of a function's MSI-X.
#[derive(Clone, Copy, Debug)]
struct Msix {
    /// Offset of the capability.
    capability: u16,
    table_bar: u8,
    table_offset: u64,
    vectors: u16,
}

/// The client's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    /// The six base address registers, without their flags.
    bars: [u32; 6],
    memory_enabled: bool,
    /// Enable and mask bits of MSI-X.
    msix_control: u32,
    /// The MSI-X table.
    table: Vec<u8>,
}

/// An interrupt of a function.
#[derive(Debug, Default)]
struct Vector {
    eventfd: Option<OwnedFd>,
    is_masked: bool,
    /// Number of times that it arrived while it was masked.
    kept: u64,
}

impl Vector {
    /// Signals that it has arrived.
    fn arrive(&mut self, count: u64) {
        match &self.eventfd {
            _ if self.is_masked => self.kept += count,
            Some(eventfd) => signal(eventfd, count),
            None => {}
        }
    }
}

/// A served device.
pub(crate) struct ServedFunction {
    pub name: String,
    pub id: RoutingId,
    pub host: HostId,
    bus: LabBus,
    /// Kinds and sizes of the BARs.
    bars: Vec<Bar>,
    msix: Option<Msix>,
    /// Registers set by firmware, restored after a reset.
    firmware: Vec<(u16, u32)>,
    written: RefCell<Written>,
    /// Sequence number of enabling memory, among all devices.
    pub enabled_at: Cell<u64>,
    interrupts: Rc<RefCell<Vec<Vector>>>,
    /// Whether the client wants interrupts, and whether the device sends them: it cannot be told to
    /// before it decodes the BAR with its table.
    vectors_wanted: Cell<bool>,
    vectors_on: Cell<bool>,
    /// Number of times that the device was made to send no interrupts.
    vectors_ended: Cell<u64>,
    are_spawned: Cell<bool>,
}

impl ServedFunction {
    pub fn new(bus: LabBus, info: &FunctionInfo) -> Self {
        let (id, host) = (info.id, bus.host());
        let read = |offset| bus.config_read(id, offset).unwrap_or(u32::MAX);
        let capability =
            |wanted| find_capability(wanted, |at| bus.config_read(id, at)).ok().flatten();
        let msix = capability(reg::CAPABILITY_MSIX).map(|capability| {
            let place = read(capability + reg::MSIX_TABLE);
            let control = read(capability);
            let vectors = (control >> reg::MSIX_TABLE_SIZE_SHIFT & reg::MSIX_TABLE_SIZE) as u16;
            Msix {
                capability,
                table_bar: (place & reg::MSIX_BAR) as u8,
                table_offset: (place & !reg::MSIX_BAR).into(),
                vectors: vectors + 1,
            }
        });
        let express = capability(reg::CAPABILITY_PCI_EXPRESS);
        let controls = [reg::DEVICE_CONTROL, reg::LINK_CONTROL, reg::DEVICE_CONTROL_2];
        let firmware = express
            .map(|express| controls.map(|offset| (express + offset, read(express + offset))))
            .into_iter()
            .flatten()
            .collect();
        let vectors = msix.map_or(0, |msix| usize::from(msix.vectors));
        let function = Self {
            name: info.name.clone(),
            id,
            host,
            bus,
            bars: info.bars.clone(),
            msix,
            firmware,
            written: RefCell::default(),
            enabled_at: Cell::new(0),
            interrupts: Rc::new(RefCell::new((0..vectors).map(|_| Vector::default()).collect())),
            vectors_wanted: Cell::new(false),
            vectors_on: Cell::new(false),
            vectors_ended: Cell::new(0),
            are_spawned: Cell::new(false),
        };
        function.forget();
        function
    }

    /// Returns the sizes of the BARs; 0 for one that does not exist.
    pub fn bar_bytes(&self) -> [u64; 6] {
        let mut sizes = [0; 6];
        for bar in &self.bars {
            sizes[bar.index] = bar.size_bytes;
        }
        sizes
    }

    /// Returns the number of its interrupts.
    pub fn vectors(&self) -> u16 {
        self.msix.map_or(0, |msix| msix.vectors)
    }

    /// Resets the client's settings.
    fn forget(&self) {
        let table = vec![0; usize::from(self.vectors()) * MSIX_ENTRY_BYTES as usize];
        self.written.replace(Written { table, ..Written::default() });
    }

    /// Whether the client has enabled memory accesses.
    pub fn is_enabled(&self) -> bool {
        self.written.borrow().memory_enabled
    }

    /// Returns the BARs at the addresses that the client wrote.
    pub fn wanted_bars(&self) -> Vec<Bar> {
        let written = self.written.borrow();
        let at_its_place = |bar: &Bar| {
            let mut base = u64::from(written.bars[bar.index]);
            if bar.kind.is_64_bit() {
                base |= u64::from(written.bars[bar.index + 1]) << 32;
            }
            let mut bar = *bar;
            bar.base.0 = base;
            bar
        };
        self.bars.iter().map(at_its_place).collect()
    }

    /// Makes the function decode its BARs at these addresses in the lab; with `None`, nothing.
    pub fn decode(&self, base: Option<impl Fn(usize) -> Option<u64>>) {
        let command = self.get(reg::COMMAND);
        self.set(reg::COMMAND, command & !reg::COMMAND_MEMORY_SPACE, LOW_HALF);
        let Some(base) = base else { return };
        for bar in &self.bars {
            let Some(base) = base(bar.index) else { continue };
            let register = reg::BAR0 + 4 * bar.index as u16;
            self.set(register, base as u32, 0xf);
            if bar.kind.is_64_bit() {
                self.set(register + 4, (base >> 32) as u32, 0xf);
            }
        }
        self.set(reg::COMMAND, command | reg::COMMAND_MEMORY_SPACE, LOW_HALF);
    }

    // --- Configuration space -------------------------------------------------------------

    /// Reads a register in the lab, where the function exists for as long as the lab does.
    fn get(&self, offset: u16) -> u32 {
        self.bus.config_read(self.id, offset).unwrap_or(0)
    }

    /// Writes a register in the lab.
    fn set(&self, offset: u16, value: u32, enables: u8) {
        let _ = self.bus.config_write(self.id, offset, value, enables);
    }

    /// Returns the BAR of a register, and which half of it the register is.
    fn bar_register(&self, offset: u16) -> Option<(&Bar, usize)> {
        let number = usize::from(offset.checked_sub(reg::BAR0)? / 4);
        let is_its =
            |bar: &&Bar| number == bar.index || (bar.kind.is_64_bit() && number == bar.index + 1);
        let bar = self.bars.iter().find(is_its)?;
        Some((bar, number - bar.index))
    }

    fn config_word(&self, offset: u16) -> Result<u32, Errno> {
        let word = self.bus.config_read(self.id, offset).map_err(|_| Errno::INVAL)?;
        let written = self.written.borrow();
        Ok(match offset {
            reg::COMMAND => {
                let enabled = if written.memory_enabled { reg::COMMAND_MEMORY_SPACE } else { 0 };
                word & !reg::COMMAND_MEMORY_SPACE | enabled
            }
            _ if self.msix.is_some_and(|msix| msix.capability == offset) => {
                word & !(reg::MSIX_ENABLE | reg::MSIX_FUNCTION_MASK) | written.msix_control
            }
            _ => match self.bar_register(offset) {
                Some((bar, half)) => {
                    let flags = if half == 0 { word & reg::BAR_FLAGS } else { 0 };
                    written.bars[bar.index + half] | flags
                }
                None => word,
            },
        })
    }

    /// Reads configuration space.
    pub fn config_read(&self, offset: u16, bytes: usize) -> Result<Vec<u8>, Errno> {
        let end = usize::from(offset) + bytes;
        if end > usize::from(CONFIG_SPACE_BYTES) {
            return Err(Errno::INVAL);
        }
        let mut all = Vec::with_capacity(bytes + 8);
        for word in (offset & !3..end as u16).step_by(4) {
            all.extend(self.config_word(word)?.to_le_bytes());
        }
        let skip = usize::from(offset % 4);
        Ok(all[skip..skip + bytes].to_vec())
    }

    /// Writes one double word; returns whether the routes may have to change.
    fn config_write_word(&self, offset: u16, value: u32, enables: u8) -> Result<bool, Errno> {
        let mask = (0..4).fold(0, |mask, byte| match enables >> byte & 1 {
            1 => mask | 0xff << (8 * byte),
            _ => mask,
        });
        let pass_on = |value| {
            let written = self.bus.config_write(self.id, offset, value, enables);
            written.map_err(|_| Errno::INVAL)
        };
        if offset == reg::COMMAND {
            let memory = reg::COMMAND_MEMORY_SPACE;
            let in_lab = self.get(offset);
            pass_on(value & !memory | in_lab & memory)?;
            let enabled = self.is_enabled();
            let enable = if mask & memory != 0 { value & memory != 0 } else { enabled };
            self.written.borrow_mut().memory_enabled = enable;
            return Ok(enable != enabled);
        }
        if let Some((bar, half)) = self.bar_register(offset) {
            let address_bits = (!(bar.size_bytes - 1) >> (32 * half)) as u32;
            let place = &mut self.written.borrow_mut().bars[bar.index + half];
            let before = *place;
            *place = (before & !mask | value & mask) & address_bits;
            return Ok(*place != before);
        }
        if self.msix.is_some_and(|msix| msix.capability == offset) {
            let mask = mask & (reg::MSIX_ENABLE | reg::MSIX_FUNCTION_MASK);
            let control = &mut self.written.borrow_mut().msix_control;
            *control = *control & !mask | value & mask;
            return Ok(false);
        }
        pass_on(value)?;
        Ok(false)
    }

    /// Writes configuration space; returns whether the routes must be recomputed.
    pub fn config_write(&self, offset: u16, data: &[u8]) -> Result<bool, Errno> {
        let end = usize::from(offset) + data.len();
        if end > usize::from(CONFIG_SPACE_BYTES) {
            return Err(Errno::INVAL);
        }
        let mut is_changed = false;
        for word in (offset & !3..end as u16).step_by(4) {
            let (mut value, mut enables) = ([0; 4], 0);
            for (byte, place) in value.iter_mut().enumerate() {
                let at = (usize::from(word) + byte).checked_sub(usize::from(offset));
                if let Some(given) = at.and_then(|at| data.get(at)) {
                    *place = *given;
                    enables |= 1 << byte;
                }
            }
            is_changed |= self.config_write_word(word, u32::from_le_bytes(value), enables)?;
        }
        Ok(is_changed)
    }

    // --- BARs ----------------------------------------------------------------------------

    /// Cuts an access where the MSI-X table begins and ends; returns its parts, with the offset in
    /// the table of those that lie in it.
    fn parts(&self, bar: u8, offset: u64, bytes: usize) -> Vec<(Range<usize>, Option<usize>)> {
        let table = self.msix.filter(|msix| msix.table_bar == bar).map_or(0..0, |msix| {
            let bytes = u64::from(msix.vectors) * u64::from(MSIX_ENTRY_BYTES);
            msix.table_offset..msix.table_offset + bytes
        });
        let within = |at: u64| (at.max(offset) - offset).min(bytes as u64) as usize;
        let (first, last) = (within(table.start), within(table.end));
        let in_table = (offset + first as u64).saturating_sub(table.start) as usize;
        let parts = [(0..first, None), (first..last, Some(in_table)), (last..bytes, None)];
        let parts = parts.into_iter().filter(|(part, _)| !part.is_empty());
        match table.is_empty() || first >= last {
            _ if bytes == 0 => Vec::new(),
            true => vec![(0..bytes, None)],
            false => parts.collect(),
        }
    }

    fn check_access(&self, bar: u8, offset: u64, bytes: usize) -> Result<(), Errno> {
        let size = self.bar_bytes().get(usize::from(bar)).copied().unwrap_or(0);
        if offset.checked_add(bytes as u64).is_none_or(|end| end > size) {
            return Err(Errno::INVAL);
        }
        // Like a bus on which nobody answers; nothing needs no answer.
        if self.is_enabled() || bytes == 0 { Ok(()) } else { Err(Errno::IO) }
    }

    const fn at(&self, bar: u8, offset_bytes: u64) -> RegisterAddress {
        RegisterAddress { function: self.id, bar, offset_bytes }
    }

    pub async fn read(&self, bar: u8, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        self.check_access(bar, offset, bytes)?;
        let mut data = vec![0; bytes];
        for (part, in_table) in self.parts(bar, offset, bytes) {
            match in_table {
                Some(at) => {
                    let table = &self.written.borrow().table[at..at + part.len()];
                    data[part].copy_from_slice(table);
                }
                None => {
                    let at = self.at(bar, offset + part.start as u64);
                    self.bus.load(at, &mut data[part], Mapping::Uncached).await.map_err(errno)?;
                }
            }
        }
        Ok(data)
    }

    /// Writes a BAR.
    pub async fn write(&self, bar: u8, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.check_access(bar, offset, data.len())?;
        for (part, in_table) in self.parts(bar, offset, data.len()) {
            match in_table {
                Some(at) => {
                    let table = &mut self.written.borrow_mut().table[at..at + part.len()];
                    table.copy_from_slice(&data[part]);
                }
                None => {
                    let at = self.at(bar, offset + part.start as u64);
                    let stores = Stores::uncached(WIDEST_BYTES);
                    self.bus.store(at, &data[part], stores).await.map_err(errno)?;
                }
            }
        }
        Ok(())
    }

    // --- Interrupts ----------------------------------------------------------------------

    /// Connects interrupts from `start` with descriptors. While the device does not decode its BARs
    /// that is only noted, and [`connect_vectors`](Self::connect_vectors) does the rest.
    pub async fn set_vectors(
        &self,
        simulation: &Simulation,
        start: usize,
        eventfds: Vec<Option<OwnedFd>>,
    ) -> Result<(), Errno> {
        let end = start.checked_add(eventfds.len()).ok_or(Errno::INVAL)?;
        if end > usize::from(self.vectors()) {
            return Err(Errno::INVAL);
        }
        if !eventfds.iter().flatten().all(is_eventfd) {
            return Err(Errno::INVAL);
        }
        for (vector, eventfd) in self.interrupts.borrow_mut()[start..end].iter_mut().zip(eventfds) {
            vector.eventfd = eventfd;
        }
        self.vectors_wanted.set(true);
        self.connect_vectors(simulation).await
    }

    /// Makes the device send its interrupts to the lab's host, if the client wants them and the
    /// device can be reached.
    pub async fn connect_vectors(&self, simulation: &Simulation) -> Result<(), Errno> {
        let decodes = self.get(reg::COMMAND) & reg::COMMAND_MEMORY_SPACE != 0;
        if !self.vectors_wanted.get() || self.vectors_on.get() || !decodes {
            return Ok(());
        }
        let ended = self.vectors_ended.get();
        self.bus.enable_interrupts(self.id, self.vectors()).await.map_err(errno)?;
        // The client of another device may have caused this, and this one's a reset meanwhile.
        self.vectors_on.set(self.vectors_ended.get() == ended);
        if !self.are_spawned.replace(true) {
            for vector in 0..self.vectors() {
                let (bus, id, all) = (self.bus.clone(), self.id, Rc::clone(&self.interrupts));
                simulation.spawn(&format!("{} vector {vector}", self.name), async move {
                    while let Ok(count) = bus.wait_interrupt(id, vector, Picoseconds::NEVER).await {
                        all.borrow_mut()[usize::from(vector)].arrive(count);
                    }
                });
            }
        }
        Ok(())
    }

    /// Disconnects all interrupts.
    pub fn vectors_off(&self) {
        self.interrupts.borrow_mut().fill_with(Vector::default);
        self.vectors_wanted.set(false);
        self.note_no_vectors();
        if let Some(msix) = self.msix {
            self.set(msix.capability, self.get(msix.capability) & !reg::MSIX_ENABLE, 0b1100);
        }
    }

    /// Notes that the device sends no interrupts any more.
    fn note_no_vectors(&self) {
        self.vectors_on.set(false);
        self.vectors_ended.set(self.vectors_ended.get() + 1);
    }

    /// Visits interrupts from `start` that are meant.
    fn visit(
        &self,
        start: usize,
        are_meant: &[bool],
        visit: impl FnMut(&mut Vector),
    ) -> Result<(), Errno> {
        let mut all = self.interrupts.borrow_mut();
        let end = start.checked_add(are_meant.len()).ok_or(Errno::INVAL)?;
        let meant = all.get_mut(start..end).ok_or(Errno::INVAL)?;
        let meant = meant.iter_mut().zip(are_meant).filter(|(_, is_meant)| **is_meant);
        meant.map(|(vector, _)| vector).for_each(visit);
        Ok(())
    }

    /// Signals as if interrupts had arrived.
    pub fn trigger(&self, start: usize, are_meant: &[bool]) -> Result<(), Errno> {
        self.visit(start, are_meant, |vector| vector.arrive(1))
    }

    /// Keeps interrupts back, or signals those that were kept and no longer does so.
    pub fn mask(&self, start: usize, are_meant: &[bool], is_mask: bool) -> Result<(), Errno> {
        self.visit(start, are_meant, |vector| {
            vector.is_masked = is_mask;
            let kept = std::mem::take(&mut vector.kept);
            if kept > 0 {
                vector.arrive(kept);
            }
        })
    }

    // --- Reset ---------------------------------------------------------------------------

    /// Stops the device by taking its link down and up again, and restores its registers as
    /// firmware left them: no decoding, no requests, no interrupts.
    async fn stop(&self, simulation: &Simulation) {
        self.set(reg::COMMAND, 0, LOW_HALF);
        let link = simulation.with_fabric(|fabric| {
            let port = fabric.function_at(self.host, self.id)?;
            let link = fabric.port(port).link?;
            fabric.take_link_down(link, None);
            Some(link)
        });
        self.bus.sleep_until(Bus::now(&self.bus) + RESET_TIME).await;
        if let Some(link) = link {
            simulation.with_fabric(|fabric| fabric.bring_link_up(link));
        }
        if let Some(msix) = self.msix {
            self.set(msix.capability, 0, 0b1100);
        }
        self.note_no_vectors();
        for (offset, value) in &self.firmware {
            self.set(*offset, *value, LOW_HALF);
        }
    }

    /// Resets the device but keeps the client's header registers, as a kernel does.
    pub async fn reset(&self, simulation: &Simulation, place: impl Fn()) -> Result<(), Errno> {
        let command = self.get(reg::COMMAND);
        self.stop(simulation).await;
        self.set(reg::COMMAND, command & !reg::COMMAND_MEMORY_SPACE, LOW_HALF);
        place();
        self.connect_vectors(simulation).await
    }

    /// Restores the initial state after the client has disconnected.
    pub async fn end(&self, simulation: &Simulation) {
        self.vectors_off();
        self.stop(simulation).await;
        self.forget();
    }
}

/// Translates an error of the bus for a client.
fn errno(error: BusError) -> Errno {
    match error {
        BusError::NoSuchRegister { .. } | BusError::Unaligned { .. } => Errno::INVAL,
        BusError::Busy { .. } => Errno::BUSY,
        _ => Errno::IO,
    }
}

/// Adds to the count of an eventfd, one by one: only then `poll` says that a write does not wait.
/// One that cannot be written at once is broken: the lab does not wait for it.
fn signal(eventfd: &OwnedFd, count: u64) {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    for _ in 0..count {
        let mut ready = [PollFd::new(eventfd, PollFlags::OUT)];
        if !poll(&mut ready, Some(&at_once)).is_ok_and(|ready| ready == 1)
            || rustix::io::write(eventfd, &1_u64.to_ne_bytes()).is_err()
        {
            return;
        }
    }
}

/// Whether a client's descriptor is an eventfd: writes to others may wait.
fn is_eventfd(file: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}
