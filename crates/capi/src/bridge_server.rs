// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bridge's server as it describes itself, and cards that it reloads for a client.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::time::Duration;

use crosslane::bridge::MemoryPart;
use crosslane::bridge::messages::{CardKind, MOST_IMAGE_BYTES};
use crosslane::host::{DmaMemory, PageSize, Rdma, RemoteAccess};
use crosslane::pcie::units::Picoseconds;
use futures_executor::block_on;

use crate::bridge::{BridgeObject, crosslane_bridge, optional, time};
use crate::bridge_transfer::check_idle;
use crate::error::{Failure, c_text, guard};
use crate::handle;
use crate::structs::{self, Array, sized};

/// Time for an image to arrive, and again for the card to come back, that names none.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// A kind of card: a DMA engine.
pub const CROSSLANE_CARD_ENGINE: u32 = 0;
/// A kind of card: memory of the server's node.
pub const CROSSLANE_CARD_MEMORY: u32 = 1;
/// A kind of card: nothing, which takes all data and gives zeros.
pub const CROSSLANE_CARD_NULL: u32 = 2;

/// A card of a bridge's server. The texts live until the next survey or reload of the connection,
/// or its end. Of an array only the first needs its size set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_bridge_card {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Name of the card at the server.
    pub name: *const c_char,
    /// The reason for which it is out of service; NULL if it is not.
    pub outage: *const c_char,
    /// Bytes of its memory; 0 if the server knows no end of it.
    pub memory_bytes: u64,
    /// Bytes that it has moved since the server began.
    pub moved_bytes: u64,
    /// A CROSSLANE_CARD_*.
    pub kind: u32,
    /// Transfers under way.
    pub transfers: u32,
    /// Slots of each of its two rings, to the card and from it.
    pub slots: u32,
    /// Free ones of those to the card.
    pub free_slots_to_card: u32,
    /// Free ones of those from it.
    pub free_slots_from_card: u32,
    /// Must be ignored.
    pub reserved: u32,
}

/// A bridge's server.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_bridge_survey_info {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Bytes that naive transfers and copies to other servers may have together.
    pub memory_bytes: u64,
    /// Free ones of these.
    pub free_memory_bytes: u64,
    /// Number of cards that it has described, 32 at most.
    pub cards: u32,
    /// Must be ignored.
    pub reserved: u32,
}

/// A configuration or bitstream for a card of a bridge's server. Members that are 0 have their
/// defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_bridge_image {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Name of the card at the server.
    pub card: *const c_char,
    /// `bytes` readable bytes.
    pub image: *const c_void,
    /// Length, in bytes.
    pub bytes: usize,
    /// Ending of its file name without the point, such as bit, by which programs tell formats
    /// apart; NULL for none.
    pub ending: *const c_char,
    /// Longest time for the image to be at the server, and again for the card to come back, in ns;
    /// 0 for ten minutes.
    pub timeout_ns: u64,
}

/// A card that was reloaded. The text lives until the next survey or reload of the connection, or
/// its end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_bridge_reloaded {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Bytes of the image, the same at both ends.
    pub bytes: u64,
    /// Time from the request until the card was served again, in ps.
    pub elapsed_ps: u64,
    /// The last lines that the server's program has written.
    pub said: *const c_char,
    /// SHA-256 of the image, the same at both ends.
    pub sha256: [u8; 32],
}

sized!(
    crosslane_bridge_card, crosslane_bridge_survey_info, crosslane_bridge_image,
    crosslane_bridge_reloaded
);

/// Describes a server and its cards. `crosslane bridge pool` asks several servers.
///
/// @param cards  Gets up to `capacity` cards, the first ones; the size of the first is set. May be
/// NULL if `capacity` is 0.
/// @param server  Gets the server; its size is set. May be NULL.
/// @return The number of cards in the array; or a negative number of errno.h; -EBUSY while a
/// transfer is posted.
///
/// # Safety
/// `cards` is NULL or has `capacity` of the size that the first begins with; `server` is NULL or
/// valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_survey(
    bridge: *const crosslane_bridge,
    cards: *mut crosslane_bridge_card,
    capacity: usize,
    server: *mut crosslane_bridge_survey_info,
) -> c_int {
    guard("crosslane_bridge_survey", || {
        let bridge = handle::get::<BridgeObject>(bridge)?;
        // SAFETY: as the caller promises.
        let into = unsafe { Array::new(cards, capacity)? };
        check_idle(&bridge)?;
        let found = block_on(bridge.client.survey())?;
        if !server.is_null() {
            let made = crosslane_bridge_survey_info {
                size: 0,
                memory_bytes: found.memory_bytes,
                free_memory_bytes: found.free_memory_bytes,
                cards: found.cards.len() as u32,
                reserved: 0,
            };
            // SAFETY: as the caller promises.
            unsafe { structs::write(server, made)? };
        }
        let mut texts: Vec<CString> = Vec::new();
        // A text stays where it is when its owner is moved.
        let mut kept = |text: &str| {
            texts.push(c_text(text));
            texts.last().map_or(ptr::null(), |text| text.as_ptr())
        };
        for (index, card) in found.cards.iter().take(into.len()).enumerate() {
            let made = crosslane_bridge_card {
                size: 0,
                name: kept(&card.name),
                outage: card.outage.as_ref().map_or(ptr::null(), |why| kept(why)),
                memory_bytes: card.memory_bytes.unwrap_or(0),
                moved_bytes: card.moved_bytes,
                kind: match card.kind {
                    CardKind::Engine => CROSSLANE_CARD_ENGINE,
                    CardKind::Memory => CROSSLANE_CARD_MEMORY,
                    CardKind::Null => CROSSLANE_CARD_NULL,
                },
                transfers: card.transfers,
                slots: card.slots,
                free_slots_to_card: card.free_slots[0],
                free_slots_from_card: card.free_slots[1],
                reserved: 0,
            };
            into.put(index, made);
        }
        *bridge.texts.borrow_mut() = texts;
        Ok(found.cards.len().min(into.len()) as c_int)
    })
}

/// Has the server reload a card with an image, and waits until the card is served again. The
/// client needs the right `reload` in the server's policy, and the server a program that
/// reconfigures the card. A failed one, unless the server has merely refused it, makes the
/// connection unusable.
///
/// @param reloaded  Gets how it went; its size is set. May be NULL.
/// @return 0, or a negative number of errno.h; -EBUSY while a transfer is posted.
///
/// # Safety
/// `image` and `reloaded` are NULL or valid; the image's texts are NULL or end with a NUL, and its
/// bytes are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_reload(
    bridge: *const crosslane_bridge,
    image: *const crosslane_bridge_image,
    reloaded: *mut crosslane_bridge_reloaded,
) -> c_int {
    guard("crosslane_bridge_reload", || {
        let bridge = handle::get::<BridgeObject>(bridge)?;
        // SAFETY: as the caller promises.
        let (image, card, ending, bytes) = unsafe {
            let image = structs::read(image)?;
            let card = structs::text(image.card, "name of the card")?;
            let ending = optional(image.ending, "ending")?.unwrap_or_default();
            let bytes = structs::bytes(image.image.cast(), image.bytes, "image")?;
            (image, card, ending, bytes)
        };
        check_idle(&bridge)?;
        let length = bytes.len() as u64;
        if !(1..=MOST_IMAGE_BYTES).contains(&length) {
            let sentence = format!("an image of {length} B: 1 to {MOST_IMAGE_BYTES} are possible");
            return Err(Failure::argument(sentence));
        }
        let client = &bridge.client;
        let memory = client.rdma().allocate(length, PageSize::Huge)?;
        memory.write(0, bytes)?;
        let read_only = RemoteAccess { read: true, write: false };
        let region = block_on(client.register(&memory, read_only))?;
        let part = MemoryPart { region, range: 0..length };
        let time = Picoseconds::from(time(image.timeout_ns, RELOAD_TIMEOUT));
        let done = block_on(client.reload(&card, &part, &ending, time, |_| {}))?;
        if !reloaded.is_null() {
            let said = c_text(&done.said);
            let made = crosslane_bridge_reloaded {
                size: 0,
                bytes: done.bytes,
                elapsed_ps: done.elapsed.0,
                said: said.as_ptr(),
                sha256: done.sha256,
            };
            *bridge.texts.borrow_mut() = vec![said];
            // SAFETY: as the caller promises.
            unsafe { structs::write(reloaded, made)? };
        }
        Ok(0)
    })
}
