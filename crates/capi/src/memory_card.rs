// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cards, which the host stores into through windows, and what has reached them.

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use crosslane::driver::MemoryCard;

use crate::error::guard;
use crate::handle::{self, Handled};
use crate::session::{SessionObject, crosslane_session};
use crate::structs::{self, sized};

/// Most banks that are counted.
const MOST_BANKS: usize = 16;

/// An open memory card.
pub struct crosslane_memory_card {
    _private: (),
}

/// Traffic that has reached a memory card since its counters were last taken.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_memory_card_counters {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Number of banks.
    pub banks: u32,
    /// Writes taken by the FIFO.
    pub fifo_writes: u32,
    /// Bytes taken by the FIFO.
    pub fifo_bytes: u32,
    /// Bytes that the FIFO has lost.
    pub fifo_lost: u32,
    /// Beats written on each bank's data bus.
    pub write_beats: [u32; 16],
    /// Beats read on each bank's data bus.
    pub read_beats: [u32; 16],
}

sized!(crosslane_memory_card_counters);

/// Object behind a handle on a memory card.
struct MemoryCardObject {
    session: Rc<SessionObject>,
    card: MemoryCard,
}

impl Handled for MemoryCardObject {
    type Opaque = crosslane_memory_card;
    const NAME: &'static str = "memory_card";
}

/// Opens a memory card: checks that it is one, and enables its memory space for windows.
///
/// @param function  Name of its function in the tree.
/// @param card  Gets the card.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `function` is NULL or ends with a NUL; `card` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_memory_card_open(
    session: *const crosslane_session,
    function: *const c_char,
    card: *mut *mut crosslane_memory_card,
) -> c_int {
    guard("crosslane_memory_card_open", || {
        structs::check_place(card, "card")?;
        let session = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        let name = unsafe { structs::text(function, "name of the function")? };
        let name = session.function(&name)?.name;
        let opened = session.run(MemoryCard::open_by_name(session.bus().clone(), &name))?;
        let opened = handle::insert(MemoryCardObject { session, card: opened })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(card, "card", opened)? };
        Ok(0)
    })
}

/// Closes a memory card.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_memory_card_close(card: *mut crosslane_memory_card) -> c_int {
    guard("crosslane_memory_card_close", || handle::take::<MemoryCardObject>(card).map(|_| 0))
}

/// Takes the counters of a memory card, which begin anew.
///
/// @param counters  Gets them; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `counters` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_memory_card_take(
    card: *const crosslane_memory_card,
    counters: *mut crosslane_memory_card_counters,
) -> c_int {
    guard("crosslane_memory_card_take", || {
        structs::check_place(counters, "counters")?;
        let object = handle::get::<MemoryCardObject>(card)?;
        let metrics = object.session.run(object.card.take_metrics())?;
        let mut taken = crosslane_memory_card_counters {
            size: 0,
            banks: metrics.beats.len() as u32,
            fifo_writes: metrics.fifo_writes,
            fifo_bytes: metrics.fifo_bytes,
            fifo_lost: metrics.fifo_lost,
            write_beats: [0; MOST_BANKS],
            read_beats: [0; MOST_BANKS],
        };
        for (bank, (writes, reads)) in metrics.beats.iter().take(MOST_BANKS).enumerate() {
            (taken.write_beats[bank], taken.read_beats[bank]) = (*writes, *reads);
        }
        // SAFETY: as the caller promises.
        unsafe { structs::write(counters, taken)? };
        Ok(0)
    })
}

/// Takes bytes out of a memory card's FIFO, oldest first: all that are there at the beginning of
/// the call, and at most as many as there is room for. The others stay for the next call.
///
/// @param into  Gets up to `capacity` bytes.
/// @return The number of bytes, 0 from an empty FIFO; or a negative number of errno.h.
///
/// # Safety
/// `into` has `capacity` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_memory_card_drain(
    card: *const crosslane_memory_card,
    into: *mut c_void,
    capacity: usize,
) -> c_int {
    guard("crosslane_memory_card_drain", || {
        let object = handle::get::<MemoryCardObject>(card)?;
        let most = u32::try_from(capacity).unwrap_or(u32::MAX).min(c_int::MAX as u32);
        // SAFETY: as the caller promises.
        let into = unsafe { structs::bytes_mut(into.cast(), capacity, "memory for the bytes")? };
        let taken = object.session.run(object.card.take_fifo(most))?;
        into[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len() as c_int)
    })
}
