// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens functions behind sockets and assigns addresses to their BARs, since no firmware has.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;

use super::function::UserFunction;
use super::tree::SocketTree;
use crate::bus::{BusOptions, VfioBus};
use crate::function::{Function, FunctionError, Result};

/// Default time for one request: a hundred times that of the longest, a reset, on a busy machine.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Alignment of each function's BARs as a whole: the granularity of the ranges that bridges
/// forward, so that no two functions share one (PCIe 6.x 7.5.1.3.8).
const GRAIN: u64 = 1 << 20;
/// Addresses of BARs below 4 GiB, assigned upwards.
const BELOW_4_GIB: std::ops::Range<u64> = 0xa000_0000..0xfec0_0000;
/// Addresses of 64-bit prefetchable BARs: above every I/O virtual address.
const ABOVE_4_GIB: std::ops::Range<u64> = 1 << 48..1 << 51;

/// Opens functions behind sockets and assigns disjoint addresses to all their BARs. The functions
/// get the numbers 01:00.0, 02:00.0 and so on.
///
/// # Errors
/// A server that does not answer, or too little room for BARs.
pub fn open(sockets: &[impl AsRef<Path>], deadline: Duration) -> Result<Vec<Arc<UserFunction>>> {
    let mut functions = Vec::new();
    let mut next = [BELOW_4_GIB.start, ABOVE_4_GIB.start];
    for (number, path) in sockets.iter().enumerate() {
        let bus = u8::try_from(number + 1).map_err(|_| {
            let (path, why) = (path.as_ref().display(), "255 functions can be open at once");
            FunctionError::unsupported(&path.to_string(), "number", why)
        })?;
        let id = RoutingId::new(bus, 0, 0);
        let function = UserFunction::open(path.as_ref(), id, deadline)?;
        assign(&function, &mut next)?;
        functions.push(Arc::new(function));
    }
    Ok(functions)
}

/// Opens a bus of functions behind sockets. Its tree has a root port above each, because the
/// servers do not describe their own ports.
///
/// # Errors
/// Those of [`open`] and [`VfioBus::new`].
pub fn open_bus(
    sockets: &[impl AsRef<Path>],
    deadline: Duration,
    options: BusOptions,
) -> Result<VfioBus> {
    let functions = open(sockets, deadline)?;
    let tree = SocketTree::new(&functions)?;
    let functions = functions.into_iter().map(|function| function as Arc<dyn Function>).collect();
    VfioBus::with_options(functions, Some(Arc::new(tree)), options)
}

/// Assigns addresses to a function's BARs, from `next` upwards.
fn assign(function: &UserFunction, next: &mut [u64; 2]) -> Result<()> {
    let mut bars: Vec<_> = (0..6).filter_map(|bar| Some((bar, function.region(bar)?))).collect();
    // Largest first: powers of two leave no gaps.
    bars.sort_by_key(|(_, region)| std::cmp::Reverse(region.bytes));
    for (bar, region) in bars {
        let space = usize::from(region.kind.is_64_bit() && region.kind.is_prefetchable());
        let no_room = || {
            let why = format!("there is no room for {} B", region.bytes);
            FunctionError::unsupported(function.name(), format!("address for its BAR{bar}"), why)
        };
        let end = [BELOW_4_GIB, ABOVE_4_GIB][space].end;
        let size = region.bytes.checked_next_power_of_two().ok_or_else(no_room)?;
        let base = next[space].checked_next_multiple_of(size).ok_or_else(no_room)?;
        let last = base.checked_add(size).filter(|last| *last <= end).ok_or_else(no_room)?;
        next[space] = last;
        let register = reg::BAR0 + 4 * u16::from(bar);
        function.config_write(register, &(base as u32).to_le_bytes())?;
        if region.kind.is_64_bit() {
            function.config_write(register + 4, &((base >> 32) as u32).to_le_bytes())?;
        }
    }
    for next in next {
        *next = next.next_multiple_of(GRAIN);
    }
    Ok(())
}
