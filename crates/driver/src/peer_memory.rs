// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory behind a BAR of another function, which an engine reads.
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

/// The BAR as the reader sees it.
struct Region {
    reader: Device,
    function: RoutingId,
    bar: u8,
    /// Name for messages: `BAR2 of fpga2`.
    place: String,
    /// Address of its first byte, for the reader.
    base: BusAddress,
    bytes: u64,
    /// Whether it is mapped for the reader.
    is_pinned: bool,
}

/// Memory behind a BAR of another function below the same host, for the H2C channels of one device.
/// Clones are the same memory.
#[derive(Clone)]
pub struct PeerMemory {
    region: Arc<Region>,
    plan: Plan,
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

    /// Returns the plan: the path of the data, and the expected rate.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the target for a transfer of a part, in bytes, on an H2C channel of the reader.
    pub fn target(&self, part: Range<u64>) -> Target {
        Target::Peer(self.clone(), part)
    }

    /// Returns the target for a transfer of a part, in bytes, into the reader's own memory from
    /// address `card` on, on its H2C channel that was opened for that memory.
    pub fn target_in_card(&self, part: Range<u64>, card: u64) -> Target {
        Target::PeerToCard(self.clone(), part, card)
    }

    /// Gives the memory back; a mapping for the reader ends.
    ///
    /// # Errors
    /// A transfer from it is in flight, or the platform refuses to end the mapping.
    pub async fn close(self) -> Result<()> {
        let region = &self.region;
        if Arc::strong_count(region) > 1 {
            let problem = "a transfer from it is in flight, or another handle on it is open";
            return Err(DriverError::refused(&region.place, Busy, problem));
        }
        if !region.is_pinned {
            return Ok(());
        }
        let (reader, id) = (&region.reader, region.reader.function().id);
        let unpinned = reader.bus().unpin_bar(id, region.function, region.bar).await;
        unpinned.map_err(|error| reader.shared().bus_error(error))
    }

    /// Checks that a device may read a part.
    pub(crate) fn check(&self, reader: &Device, part: &Range<u64>) -> Result<()> {
        let region = &self.region;
        let refused = |problem| Err(DriverError::refused(&region.place, InvalidArgument, problem));
        let (own, of) = (reader.function(), region.reader.function());
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

    /// Returns the bus address of a byte, for the reader.
    pub(crate) fn address(&self, at: u64) -> BusAddress {
        self.region.base.offset(at)
    }
}

/// See [`Device::peer_memory`].
pub(crate) async fn open(reader: &Device, function: RoutingId, bar: u8) -> Result<PeerMemory> {
    let (shared, bus, own) = (reader.shared(), reader.bus(), reader.function());
    let functions = bus.functions().map_err(|error| shared.bus_error(error.into()))?;
    let Some(peer) = functions.iter().find(|info| info.id == function) else {
        let problem = format!("there is no {function} below the same host");
        return Err(shared.refused(Unsupported, problem));
    };
    if function == own.id {
        return Err(shared.refused(InvalidArgument, "it cannot read itself as a peer"));
    }
    let Some(found) = peer.bars.iter().find(|found| found.index == usize::from(bar)) else {
        let problem = format!("{} has no BAR{bar}", peer.name);
        return Err(shared.refused(Unsupported, problem));
    };
    let plan = Plan::of_reads(bus, PathEnd::Function(own.id), PathEnd::Function(function))?;
    let is_pinned = plan.addressing == Addressing::Mapped;
    let base = match is_pinned {
        true => bus.pin_bar(own.id, function, bar).await,
        false => Ok(found.base),
    };
    let region = Region {
        reader: reader.clone(),
        function,
        bar,
        place: format!("BAR{bar} of {}", peer.name),
        base: base.map_err(|error| shared.bus_error(error))?,
        bytes: found.size_bytes,
        is_pinned,
    };
    Ok(PeerMemory { region: Arc::new(region), plan })
}
