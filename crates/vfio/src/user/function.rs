// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function that a server provides on a socket.

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane_host::lock;
use crosslane_pcie::config::{BarKind, registers as reg};
use crosslane_pcie::units::RoutingId;
use rustix::fs::fstat;

use super::client::Client;
use super::protocol::{
    Area, CONFIG_REGION, Command, DeviceInfo, DmaMap, DmaUnmap, InterruptAction, InterruptData,
    InterruptInfo, MSI, MSIX, ProtocolError, RegionAccess, RegionInfo, SetInterrupts,
};
use crate::flat;
use crate::function::{
    Doing, DomainId, Function, FunctionError, Part, Region, Result, check_bar, check_config,
    duplicate,
};
use crate::memory::{Mapped, Pages, SMALL_PAGE_BYTES};

/// First and largest size of a reply about a region, bytes.
const REGION_INFO_ROOM: [u32; 2] = [4096, 64 << 10];
/// Registers that a reset may change, in the order in which they are restored.
const KEPT_REGISTERS: [u16; 7] = [
    reg::BAR0,
    reg::BAR0 + 4,
    reg::BAR0 + 8,
    reg::BAR0 + 12,
    reg::BAR0 + 16,
    reg::BAR0 + 20,
    reg::COMMAND,
];
/// I/O virtual addresses: a PC's memory below its devices, and addresses above 4 GiB. They never
/// belong to a BAR below 4 GiB or to an interrupt, even of a function on another socket of the same
/// server.
const ADDRESSES: [RangeInclusive<u64>; 2] = [0x10_0000..=0x7fff_ffff, 1 << 32..=(1 << 47) - 1];

/// A PCI function that a server provides on a Unix socket.
#[derive(Debug)]
pub struct UserFunction {
    client: Client,
    id: RoutingId,
    domain: DomainId,
    regions: [Option<Region>; 6],
    config_bytes: u64,
    /// Kind and number of its interrupts.
    interrupts: (u32, u16),
    /// Eventfds that its interrupts signal.
    eventfds: Mutex<Vec<OwnedFd>>,
    /// Whether memory is mapped with its file.
    gives_files: AtomicBool,
}

impl UserFunction {
    /// Connects to a server and asks for a description of its function. The caller chooses `id`;
    /// every request may take up to `deadline`.
    ///
    /// # Errors
    /// No answer, or a device that is not a PCI function.
    pub fn open(path: &Path, id: RoutingId, deadline: Duration) -> Result<Self> {
        let client = Client::connect(path, deadline)?;
        let what = "what kind of device it is";
        let question = DeviceInfo::default().encode();
        let reply = client.request(Command::DeviceInfo, &question, &[], what)?;
        let info = understood(&client, what, DeviceInfo::decode(&reply.payload))?;
        if !info.is_pci || info.regions <= CONFIG_REGION {
            let why = format!("{} regions, and it is not a PCI device", info.regions);
            return Err(client.malformed(what, why));
        }
        let mut function = Self {
            client,
            id,
            domain: DomainId::next(),
            regions: Default::default(),
            config_bytes: 0,
            interrupts: (MSIX, 0),
            eventfds: Mutex::default(),
            gives_files: AtomicBool::new(true),
        };
        function.config_bytes = function.region_info(CONFIG_REGION)?.0.bytes;
        let mut number = 0;
        while number < 6 {
            function.regions[number] = function.find_region(number as u8)?;
            let kind = function.regions[number].as_ref().map(|region| region.kind);
            number += if kind.is_some_and(BarKind::is_64_bit) { 2 } else { 1 };
        }
        for kind in [MSIX, MSI].into_iter().filter(|kind| *kind < info.interrupt_kinds) {
            let count = function.count_interrupts(kind)?;
            if count > 0 {
                function.interrupts = (kind, count);
                break;
            }
        }
        Ok(function)
    }

    /// Maps memory without its file from now on, so that the server cannot map it itself: each
    /// access of the function becomes a message and an answer.
    pub fn keep_files(&self) {
        self.gives_files.store(false, Ordering::Relaxed);
    }

    fn count_interrupts(&self, kind: u32) -> Result<u16> {
        let what = "how many interrupts it has";
        let question = InterruptInfo { index: kind, ..InterruptInfo::default() };
        let command = Command::InterruptInfo;
        let reply = self.client.request(command, &question.encode(), &[], what)?;
        let info = understood(&self.client, what, InterruptInfo::decode(&reply.payload))?;
        Ok(if info.eventfd { info.count.min(u16::MAX.into()) as u16 } else { 0 })
    }

    /// Asks the server for a region's description, which may come with a file.
    fn region_info(&self, index: u32) -> Result<(RegionInfo, Option<OwnedFd>)> {
        let what = format!("what its region {index} is");
        let [first, most] = REGION_INFO_ROOM;
        let mut room = first;
        loop {
            let question = RegionInfo::question(index, room);
            let mut reply = self.client.request(Command::RegionInfo, &question, &[], &what)?;
            let info = understood(&self.client, &what, RegionInfo::decode(&reply.payload))?;
            if info.index != index {
                let why = format!("it answers for region {}", info.index);
                return Err(self.client.malformed(&what, why));
            }
            if info.room_bytes > room && info.room_bytes <= most {
                room = info.room_bytes;
                continue;
            }
            return Ok((info, reply.descriptors.pop()));
        }
    }

    fn find_region(&self, number: u8) -> Result<Option<Region>> {
        let (info, file) = self.region_info(number.into())?;
        if info.bytes == 0 {
            return Ok(None);
        }
        let register = flat::config_dw(self, reg::BAR0 + 4 * u16::from(number))?;
        let Some(kind) = BarKind::of_register(register) else { return Ok(None) };
        let mut region = Region::trapped(info.bytes, kind);
        if let Some(file) = file.filter(|_| info.mappable) {
            region.parts = self.map_parts(&info, &file, kind.is_prefetchable())?;
            region.not_combined = "it is not prefetchable".to_owned();
        }
        Ok(Some(region))
    }

    /// Maps the mappable parts of a region, twice if stores may be combined: both mappings are of
    /// this machine's memory, where combining changes nothing.
    fn map_parts(&self, info: &RegionInfo, file: &OwnedFd, combines: bool) -> Result<Vec<Part>> {
        let what = format!("which parts of its region {} can be mapped", info.index);
        let malformed = |why: String| self.client.malformed(&what, why);
        let mut areas = info.areas.clone();
        if areas.is_empty() {
            areas.push(Area { offset: 0, bytes: info.bytes });
        }
        areas.retain(|area| area.bytes > 0);
        areas.sort_by_key(|area| area.offset);
        let mapping = format!("mapping region {}", info.index);
        // Pages beyond the end of the file cannot be accessed.
        let file_bytes =
            u64::try_from(fstat(file).doing(&mapping, self.name())?.st_size).unwrap_or(0);
        let (mut parts, mut end) = (Vec::new(), 0);
        for area in areas {
            let Area { offset, bytes } = area;
            let is_page = |number: u64| number.is_multiple_of(SMALL_PAGE_BYTES);
            let last = offset.checked_add(bytes).filter(|last| *last <= info.bytes);
            let in_file = info.file_offset.checked_add(offset);
            let file_end = in_file.and_then(|first| first.checked_add(bytes));
            let (Some(last), Some(first)) = (last, in_file) else {
                return Err(malformed(format!("{bytes} B at {offset:#x} are beyond its end")));
            };
            if offset < end || !is_page(offset) || !is_page(bytes) || !is_page(first) {
                return Err(malformed(format!("{bytes} B at {offset:#x} are not whole pages")));
            }
            if file_end.is_none_or(|file_end| file_end > file_bytes) {
                return Err(malformed(format!("its file has {file_bytes} B")));
            }
            let map = || Mapped::of(file.as_fd(), first, bytes).doing(&mapping, self.name());
            let combined = if combines { Some(map()?) } else { None };
            parts.push(Part { offset, uncached: map()?, combined });
            end = last;
        }
        Ok(parts)
    }

    /// Reads a part of a region, in pieces that the server accepts.
    fn region_read(&self, region: u32, offset: u64, into: &mut [u8], what: &str) -> Result<()> {
        let most = (self.client.server.max_data_bytes as usize).clamp(1, RegionAccess::MOST_BYTES);
        let mut at = offset;
        for piece in into.chunks_mut(most) {
            let access = RegionAccess { offset: at, region, bytes: piece.len() as u32 };
            let command = Command::RegionRead;
            let reply = self.client.request(command, &access.encode(&[]), &[], what)?;
            let answer = RegionAccess::decode_with_data(&reply.payload);
            let (answered, data) = understood(&self.client, what, answer)?;
            if answered != access {
                let why = format!("{} B at {:#x} came", answered.bytes, answered.offset);
                return Err(self.client.malformed(what, why));
            }
            piece.copy_from_slice(data);
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn region_write(&self, region: u32, offset: u64, from: &[u8], what: &str) -> Result<()> {
        let access = RegionAccess { offset, region, bytes: from.len() as u32 };
        let command = Command::RegionWrite;
        let reply = self.client.request(command, &access.encode(from), &[], what)?;
        let (answered, _) = understood(&self.client, what, RegionAccess::decode(&reply.payload))?;
        if answered.bytes != access.bytes {
            let why = format!("{} of {} B were written", answered.bytes, access.bytes);
            return Err(self.client.malformed(what, why));
        }
        Ok(())
    }

    /// Tells the server which eventfds interrupts signal.
    fn send_eventfds(&self, eventfds: &[BorrowedFd<'_>]) -> Result<()> {
        let (index, action) = (self.interrupts.0, InterruptAction::Trigger);
        let what = "that interrupts signal nothing";
        let off = SetInterrupts { data: InterruptData::None, action, index, start: 0, count: 0 };
        self.client.request(Command::SetInterrupts, &off.encode(), &[], what)?;
        let at_once = (self.client.server.max_descriptors as usize)
            .clamp(1, super::protocol::MAX_DESCRIPTORS);
        let mut start = 0;
        for some in eventfds.chunks(at_once) {
            let count = some.len() as u32;
            let data = InterruptData::Eventfds;
            let set = SetInterrupts { data, action, index, start, count };
            let what = "that interrupts signal eventfds";
            self.client.request(Command::SetInterrupts, &set.encode(), some, what)?;
            start += count;
        }
        Ok(())
    }
}

/// Converts a decoding error to the function's.
fn understood<T>(client: &Client, what: &str, decoded: Result<T, ProtocolError>) -> Result<T> {
    decoded.map_err(|error| client.malformed(what, error.to_string()))
}

impl Function for UserFunction {
    fn id(&self) -> RoutingId {
        self.id
    }

    fn name(&self) -> &str {
        self.client.name()
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<()> {
        check_config(self, self.config_bytes, offset, into.len())?;
        self.region_read(CONFIG_REGION, offset.into(), into, "a read of configuration space")
    }

    fn config_write(&self, offset: u16, from: &[u8]) -> Result<()> {
        check_config(self, self.config_bytes, offset, from.len())?;
        self.region_write(CONFIG_REGION, offset.into(), from, "a write of configuration space")
    }

    fn region(&self, bar: u8) -> Option<&Region> {
        self.regions.get(usize::from(bar))?.as_ref()
    }

    fn read(&self, bar: u8, offset: u64, into: &mut [u8]) -> Result<()> {
        check_bar(self, bar, offset, into.len())?;
        let what = format!("a read of BAR{bar} at {offset:#x}");
        self.region_read(bar.into(), offset, into, &what)
    }

    fn write(&self, bar: u8, offset: u64, from: &[u8]) -> Result<()> {
        check_bar(self, bar, offset, from.len())?;
        let what = format!("a write of BAR{bar} at {offset:#x}");
        self.region_write(bar.into(), offset, from, &what)
    }

    fn map_dma(&self, iova: u64, memory: &Arc<Pages>, offset: u64, bytes: u64) -> Result<()> {
        let (readable, writable, address) = (true, true, iova);
        let map = DmaMap { readable, writable, offset, address, bytes, ..DmaMap::default() };
        let what = format!("a mapping of {bytes} B at {iova:#x}");
        let file = [memory.file()];
        let files = if self.gives_files.load(Ordering::Relaxed) { &file[..] } else { &[] };
        self.client.request(Command::DmaMap, &map.encode(), files, &what)?;
        self.client.reachable().add(iova, memory, offset, bytes);
        Ok(())
    }

    fn unmap_dma(&self, iova: u64, bytes: u64) -> Result<()> {
        let unmap = DmaUnmap { address: iova, bytes, ..DmaUnmap::default() };
        let what = format!("the end of a mapping of {bytes} B at {iova:#x}");
        self.client.request(Command::DmaUnmap, &unmap.encode(), &[], &what)?;
        self.client.reachable().remove(iova, bytes);
        Ok(())
    }

    fn domain(&self) -> DomainId {
        self.domain
    }

    fn usable_addresses(&self) -> &[RangeInclusive<u64>] {
        &ADDRESSES
    }

    fn most_mappings(&self) -> Option<u32> {
        Some(self.client.server.max_mappings)
    }

    fn vectors(&self) -> u16 {
        self.interrupts.1
    }

    fn set_vectors(&self, eventfds: &[BorrowedFd<'_>]) -> Result<()> {
        if eventfds.len() > usize::from(self.vectors()) {
            let (what, why) = (eventfds.len(), format!("it has {}", self.vectors()));
            return Err(FunctionError::unsupported(self.name(), format!("{what} interrupts"), why));
        }
        if self.vectors() == 0 {
            return Ok(());
        }
        let mut kept = Vec::new();
        for eventfd in eventfds {
            kept.push(duplicate(eventfd).doing("a copy of an eventfd", self.name())?);
        }
        let mut ours = lock(&self.eventfds);
        ours.clear();
        self.send_eventfds(eventfds)?;
        *ours = kept;
        Ok(())
    }

    /// Restores BARs, the Command register and interrupts: some servers do not keep them.
    fn reset(&self) -> Result<()> {
        let mut kept = [[0; 4]; KEPT_REGISTERS.len()];
        for (register, value) in KEPT_REGISTERS.into_iter().zip(&mut kept) {
            self.config_read(register, value)?;
        }
        self.client.request(Command::Reset, &[], &[], "a reset")?;
        for (register, value) in KEPT_REGISTERS.into_iter().zip(&kept) {
            // Writing 1 clears bits in the upper half of Command's DW.
            let bytes = if register == reg::COMMAND { 2 } else { 4 };
            self.config_write(register, &value[..bytes])?;
        }
        let eventfds = lock(&self.eventfds);
        if !eventfds.is_empty() {
            let eventfds: Vec<_> = eventfds.iter().map(AsFd::as_fd).collect();
            self.send_eventfds(&eventfds)?;
        }
        Ok(())
    }

    fn lost(&self) -> Option<FunctionError> {
        self.client.lost()
    }

    fn lost_event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.lost_event())
    }
}
