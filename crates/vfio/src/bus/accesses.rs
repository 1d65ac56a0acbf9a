// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads and stores behind a BAR.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crosslane_host::{BusError, BusResult, ErrorKind, Mapping, Reason, RegisterAddress, Stores};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;

use super::{VfioBus, bus_error, lost};
use crate::flat;
use crate::function::{FunctionError, Part, Region};
use crate::memory::Mapped;
use crate::reactor::Held;
use crate::stores::{StoreWidth, empty_combining_buffers, finish_combined_stores, keep_order};

const REGISTER_BYTES: u32 = 4;
/// The widest load, and the widest access that goes through a call, bytes.
const WIDEST_CALL_BYTES: usize = 8;

/// Length of the longest naturally aligned access at `offset`: a power of two, at most `widest` and
/// `left` bytes.
fn piece(offset: u64, left: usize, widest: usize) -> usize {
    let aligned = 1 << offset.trailing_zeros().min(6);
    widest.min(aligned).min(1 << left.ilog2())
}

impl Part {
    fn mapping(&self, mapping: Mapping) -> Option<&Mapped> {
        match mapping {
            Mapping::Uncached => Some(&self.uncached),
            Mapping::WriteCombined => self.combined.as_ref(),
        }
    }
}

impl VfioBus {
    /// Finds a function and its BAR, which must hold all of these bytes.
    pub(super) fn region(
        &self,
        at: RegisterAddress,
        bytes: u64,
    ) -> BusResult<(&Arc<Held>, &Region)> {
        let held = self.held(at.function)?;
        let no_register = |why| Err(BusError::NoSuchRegister { at, bytes, why });
        let Some(region) = held.function.region(at.bar) else {
            return no_register(format!("{} has no memory BAR{}", held.function.name(), at.bar));
        };
        match at.offset_bytes.checked_add(bytes) {
            Some(end) if end <= region.bytes => Ok((held, region)),
            _ => no_register(format!("BAR{} has {} B", at.bar, region.bytes)),
        }
    }

    /// Like [`region`](Self::region), for a function that is not lost and decodes memory accesses.
    fn answering(&self, at: RegisterAddress, bytes: u64) -> BusResult<(&Arc<Held>, &Region)> {
        let (held, region) = self.region(at, bytes)?;
        if held.lost.load(Ordering::Relaxed) {
            return Err(lost(held));
        }
        if !held.decodes.load(Ordering::Acquire) {
            let why = format!("{} does not decode memory accesses", held.function.name());
            let why = Reason::new(ErrorKind::LinkDown, why);
            return Err(BusError::NoAnswer { at, why });
        }
        Ok((held, region))
    }

    pub(super) fn mapping(&self, function: RoutingId, bar: u8, mapping: Mapping) -> BusResult<()> {
        let at = RegisterAddress { function, bar, offset_bytes: 0 };
        let (_, region) = self.region(at, 0)?;
        match mapping {
            Mapping::Uncached => Ok(()),
            Mapping::WriteCombined => {
                let parts = &region.parts;
                match !parts.is_empty() && parts.iter().all(|part| part.combined.is_some()) {
                    true => Ok(()),
                    false => {
                        let why = region.not_combined.clone();
                        Err(BusError::CannotCombine { function, bar, why })
                    }
                }
            }
        }
    }

    pub(super) fn register(&self, at: RegisterAddress) -> BusResult<u32> {
        aligned(at)?;
        let (held, region) = self.answering(at, REGISTER_BYTES.into())?;
        let mut bytes = [0; REGISTER_BYTES as usize];
        load_one(held, region, at, &mut bytes, Mapping::Uncached)?;
        keep_order();
        Ok(u32::from_le_bytes(bytes))
    }

    pub(super) fn set_register(&self, at: RegisterAddress, value: u32) -> BusResult<()> {
        aligned(at)?;
        let (held, region) = self.answering(at, REGISTER_BYTES.into())?;
        keep_order();
        let bytes = value.to_le_bytes();
        match region.part(at.offset_bytes, bytes.len() as u64) {
            Some((part, within)) => store_part(part, at, Mapping::Uncached, within, &bytes, 4)?,
            None => call_write(held, at, &bytes)?,
        }
        Ok(())
    }

    pub(super) fn store_run(
        &self,
        at: RegisterAddress,
        bytes: &[u8],
        stores: Stores,
    ) -> BusResult<()> {
        let most = StoreWidth::widest().bytes() as u32;
        let width = stores.width_bytes;
        if !width.is_power_of_two() || width > most {
            return Err(BusError::BadStoreWidth { width_bytes: width, most });
        }
        self.mapping(at.function, at.bar, stores.mapping)?;
        let (held, region) = self.answering(at, bytes.len() as u64)?;
        keep_order();
        let mut done = 0;
        while done < bytes.len() {
            let offset_bytes = at.offset_bytes + done as u64;
            let left = &bytes[done..];
            let at = RegisterAddress { offset_bytes, ..at };
            done += match region.part(offset_bytes, 1) {
                Some((part, within)) => {
                    let here = left.len().min((part.uncached.bytes() - within) as usize);
                    let (mapping, width) = (stores.mapping, width as usize);
                    store_part(part, at, mapping, within, &left[..here], width)?;
                    here
                }
                None => {
                    let widest = WIDEST_CALL_BYTES.min(width as usize);
                    let here = piece(offset_bytes, left.len(), widest);
                    call_write(held, at, &left[..here])?;
                    here
                }
            };
        }
        Ok(())
    }

    pub(super) fn load_run(
        &self,
        at: RegisterAddress,
        into: &mut [u8],
        mapping: Mapping,
    ) -> BusResult<()> {
        self.mapping(at.function, at.bar, mapping)?;
        let (held, region) = self.answering(at, into.len() as u64)?;
        let mut done = 0;
        while done < into.len() {
            let offset_bytes = at.offset_bytes + done as u64;
            let here = piece(offset_bytes, into.len() - done, WIDEST_CALL_BYTES);
            let at = RegisterAddress { offset_bytes, ..at };
            load_one(held, region, at, &mut into[done..done + here], mapping)?;
            done += here;
        }
        keep_order();
        Ok(())
    }
}

/// Stores a run with stores of this width, shorter where one would be unaligned or too long.
fn store_part(
    part: &Part,
    at: RegisterAddress,
    mapping: Mapping,
    offset: u64,
    bytes: &[u8],
    width: usize,
) -> BusResult<()> {
    let mapped = mapped(part, at, mapping)?;
    // The kernel may have made both mappings of a BAR combining: a store that must not be combined
    // then has to leave before the next.
    let is_fenced = mapping == Mapping::Uncached && part.combined.is_some();
    let wide = StoreWidth::ALL.into_iter().find(|wide| wide.bytes() == width);
    if let Some(wide) = wide.filter(|_| !is_fenced) {
        mapped.store(offset, bytes, wide);
        return Ok(());
    }
    let mut done = 0;
    while done < bytes.len() {
        let place = offset + done as u64;
        let here = piece(place, bytes.len() - done, width);
        // A piece that is aligned to its length is one store.
        mapped.store(place, &bytes[done..done + here], wide.unwrap_or(StoreWidth::B8));
        if is_fenced {
            empty_combining_buffers();
        }
        done += here;
    }
    Ok(())
}

fn aligned(at: RegisterAddress) -> BusResult<()> {
    match at.offset_bytes.is_multiple_of(REGISTER_BYTES.into()) {
        true => Ok(()),
        false => Err(BusError::Unaligned { at, width_bytes: REGISTER_BYTES }),
    }
}

fn mapped(part: &Part, at: RegisterAddress, mapping: Mapping) -> BusResult<&Mapped> {
    let (function, bar) = (at.function, at.bar);
    let why = || format!("the bytes at {:#x} of it are not mapped so", at.offset_bytes);
    part.mapping(mapping).ok_or_else(|| BusError::CannotCombine { function, bar, why: why() })
}

/// Makes one aligned load of 1 to 8 bytes. All ones may be a value or a missing answer.
fn load_one(
    held: &Held,
    region: &Region,
    at: RegisterAddress,
    into: &mut [u8],
    mapping: Mapping,
) -> BusResult<()> {
    match region.part(at.offset_bytes, into.len() as u64) {
        Some((part, within)) => {
            if mapping == Mapping::Uncached && part.combined.is_some() {
                finish_combined_stores();
            }
            mapped(part, at, mapping)?.load(within, into);
        }
        None => {
            let read = held.function.read(at.bar, at.offset_bytes, into);
            read.map_err(|error| no_answer(at, error))?;
        }
    }
    if into.iter().all(|byte| *byte == 0xff) {
        check_presence(held, at)?;
    }
    Ok(())
}

fn call_write(held: &Held, at: RegisterAddress, bytes: &[u8]) -> BusResult<()> {
    let written = held.function.write(at.bar, at.offset_bytes, bytes);
    written.map_err(|error| bus_error(at.function, error))
}

fn no_answer(at: RegisterAddress, error: FunctionError) -> BusError {
    match error {
        FunctionError::Gone { .. } => bus_error(at.function, error),
        _ => BusError::NoAnswer { at, why: error.into() },
    }
}

/// Checks whether a function that read as all ones still answers: a Vendor ID is never all ones
/// (PCIe 6.x 7.5.1.1.1).
fn check_presence(held: &Held, at: RegisterAddress) -> BusResult<()> {
    if held.look() {
        return Err(lost(held));
    }
    match flat::config_dw(&*held.function, reg::VENDOR_DEVICE) {
        Ok(ids) if ids as u16 == u16::MAX => {
            let name = held.function.name();
            let why = format!("{name} does not answer reads of its configuration space either");
            let why = Reason::new(ErrorKind::LinkDown, why);
            Err(BusError::NoAnswer { at, why })
        }
        Ok(_) => Ok(()),
        Err(error) => Err(no_answer(at, error)),
    }
}
