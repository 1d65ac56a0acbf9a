// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory behind a BAR of another function, which an engine reads and writes.
//!
//! Read first: [`Device::peer_memory`](crate::Device::peer_memory).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crosslane_host::ErrorKind::{Busy, InvalidArgument, Unsupported};
use crosslane_host::{Bus, Topology};
use crosslane_pcie::units::{BusAddress, RoutingId};

use crate::channel::Target;
use crate::device::Device;
use crate::error::{DriverError, Result};
use crate::plan::{Addressing, PathEnd, Plan};

/// The BAR as the device sees it that reads and writes it.
struct Region {
    device: Device,
    function: RoutingId,
    bar: u8,
    /// Name for messages: `BAR2 of fpga2`.
    place: String,
    /// Address of its first byte, for the device.
    base: BusAddress,
    bytes: u64,
    /// Whether it is mapped for the device.
    is_pinned: bool,
    /// Plan of reads.
    plan: Plan,
    write_plan: Plan,
}

/// Memory behind a BAR of another function below the same host, which the H2C channels of one
/// device read and its C2H channels write. Clones are the same memory.
#[derive(Clone)]
pub struct PeerMemory {
    region: Arc<Region>,
}

impl fmt::Debug for PeerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerMemory({} at {})", self.region.place, self.region.base)
    }
}

impl PeerMemory {
    /// Returns the size of the BAR in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.region.bytes
    }

    /// Returns the plan of reads: the path of the data, and the expected rate.
    pub fn plan(&self) -> &Plan {
        &self.region.plan
    }

    /// Returns the plan of writes.
    pub fn write_plan(&self) -> &Plan {
        &self.region.write_plan
    }

    /// Returns the target for a transfer of a part, in bytes, into the device's stream on an H2C
    /// channel, or out of it on a C2H channel. A write is complete when its last TLP is sent
    /// ([`CompletionLevel::Sent`](crate::CompletionLevel::Sent)): what the same device reads of the
    /// memory from then on ends behind it.
    pub fn target(&self, part: Range<u64>) -> Target {
        Target::Peer(self.clone(), part)
    }

    /// Returns the target for the same on a channel that was opened for the device's own memory:
    /// into it, or out of it, from address `card` on.
    pub fn target_in_card(&self, part: Range<u64>, card: u64) -> Target {
        Target::PeerCard(self.clone(), part, card)
    }

    /// Gives the memory back; a mapping for the device ends.
    ///
    /// # Errors
    /// A transfer of it is in flight, or the platform refuses to end the mapping.
    pub async fn close(self) -> Result<()> {
        let region = &self.region;
        if Arc::strong_count(region) > 1 {
            let problem = "a transfer of it is in flight, or another handle on it is open";
            return Err(DriverError::refused(&region.place, Busy, problem));
        }
        if !region.is_pinned {
            return Ok(());
        }
        let (device, id) = (&region.device, region.device.function().id);
        let unpinned = device.bus().unpin_bar(id, region.function, region.bar).await;
        unpinned.map_err(|error| device.shared().bus_error(error))
    }

    /// Checks that a device may read or write a part.
    pub(crate) fn check(&self, device: &Device, part: &Range<u64>) -> Result<()> {
        let region = &self.region;
        let refused = |problem| Err(DriverError::refused(&region.place, InvalidArgument, problem));
        let (own, of) = (device.function(), region.device.function());
        if own.id != of.id {
            return refused(format!("it was opened for {}, not for {}", of.name, own.name));
        }
        let (start, end) = (part.start, part.end);
        if end <= start {
            return refused(format!("0 B at byte {start}"));
        }
        if end > region.bytes {
            return refused(format!("bytes {start} to {end} of {} B", region.bytes));
        }
        Ok(())
    }

    /// Returns the function that has the memory.
    pub(crate) fn function(&self) -> RoutingId {
        self.region.function
    }

    /// Returns the bus address of a byte, for the device.
    pub(crate) fn address(&self, at: u64) -> BusAddress {
        self.region.base.offset(at)
    }
}

/// See [`Device::peer_memory`].
pub(crate) async fn open(device: &Device, function: RoutingId, bar: u8) -> Result<PeerMemory> {
    let (shared, bus, own) = (device.shared(), device.bus(), device.function());
    let functions = bus.functions().map_err(|error| shared.bus_error(error.into()))?;
    let Some(peer) = functions.iter().find(|info| info.id == function) else {
        let problem = format!("there is no {function} below the same host");
        return Err(shared.refused(Unsupported, problem));
    };
    if function == own.id {
        return Err(shared.refused(InvalidArgument, "it cannot be its own peer"));
    }
    let Some(found) = peer.bars.iter().find(|found| found.index == usize::from(bar)) else {
        let problem = format!("{} has no BAR{bar}", peer.name);
        return Err(shared.refused(Unsupported, problem));
    };
    let write_plan = Plan::new(bus, PathEnd::Function(own.id), PathEnd::Function(function))?;
    let plan = write_plan.clone().into_reads();
    let is_pinned = plan.addressing == Addressing::Mapped;
    let base = match is_pinned {
        true => bus.pin_bar(own.id, function, bar).await,
        false => Ok(found.base),
    };
    let region = Region {
        device: device.clone(),
        function,
        bar,
        place: format!("BAR{bar} of {}", peer.name),
        base: base.map_err(|error| shared.bus_error(error))?,
        bytes: found.size_bytes,
        is_pinned,
        plan,
        write_plan,
    };
    Ok(PeerMemory { region: Arc::new(region) })
}
