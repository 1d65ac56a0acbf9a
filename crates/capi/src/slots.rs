// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots: small messages through a window onto memory, in any mapping.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use crosslane::driver::{SlotReceiver, SlotSender};
use crosslane::pcie::units::Picoseconds;

use crate::error::{Failure, guard};
use crate::handle::{self, Handled};
use crate::structs;
use crate::window::{WindowObject, crosslane_window};

/// The longest message of a slot, in bytes.
pub const CROSSLANE_SLOT_MESSAGE_BYTES: u32 = 47;
/// Pause between two looks for a free slot.
const PAUSE: Picoseconds = Picoseconds::from_ns(100);

/// The sending end of slots.
pub struct crosslane_slot_sender {
    _private: (),
}

/// The receiving end of slots.
pub struct crosslane_slot_receiver {
    _private: (),
}

/// Object behind a handle on a sender.
struct SenderObject {
    window: Rc<WindowObject>,
    sender: RefCell<SlotSender>,
}

/// Object behind a handle on a receiver.
struct ReceiverObject {
    window: Rc<WindowObject>,
    receiver: RefCell<SlotReceiver>,
}

impl Handled for SenderObject {
    type Opaque = crosslane_slot_sender;
    const NAME: &'static str = "slot_sender";
}

impl Handled for ReceiverObject {
    type Opaque = crosslane_slot_receiver;
    const NAME: &'static str = "slot_receiver";
}

/// Fills a window with slots for messages, and clears it of earlier ones. The receiver must be made
/// anew, too.
///
/// @param sender  Gets the sender.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `sender` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_sender_create(
    window: *const crosslane_window,
    sender: *mut *mut crosslane_slot_sender,
) -> c_int {
    guard("crosslane_slot_sender_create", || {
        structs::check_place(sender, "sender")?;
        let window = handle::get::<WindowObject>(window)?;
        let made = window.session.run(SlotSender::new(window.window.clone()))?;
        let made = handle::insert(SenderObject { window, sender: RefCell::new(made) })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(sender, "sender", made)? };
        Ok(0)
    })
}

/// Destroys a sender; what it has sent stays in the slots.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_sender_destroy(
    sender: *mut crosslane_slot_sender,
) -> c_int {
    guard("crosslane_slot_sender_destroy", || handle::take::<SenderObject>(sender).map(|_| 0))
}

/// Sends a message, once a slot is free.
///
/// @param message  `bytes` bytes, CROSSLANE_SLOT_MESSAGE_BYTES at most.
/// @param timeout_ns  Longest wait for a slot, in ns.
/// @return 0; -ETIMEDOUT if no slot was free in time; or another negative number of errno.h.
///
/// # Safety
/// `message` has `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_send(
    sender: *const crosslane_slot_sender,
    message: *const c_void,
    bytes: usize,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_slot_send", || {
        let object = handle::get::<SenderObject>(sender)?;
        // SAFETY: as the caller promises.
        let message = unsafe { structs::bytes(message.cast(), bytes, "message")? };
        let session = &object.window.session;
        let deadline = session.until(timeout_ns);
        let mut sender = object.sender.borrow_mut();
        session.run(sender.send(message, PAUSE, deadline))?;
        Ok(0)
    })
}

/// Makes all messages sent so far visible to the receiver: a fence.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_flush(sender: *const crosslane_slot_sender) -> c_int {
    guard("crosslane_slot_flush", || {
        let object = handle::get::<SenderObject>(sender)?;
        object.window.session.run(object.sender.borrow().flush())?;
        Ok(0)
    })
}

/// Makes a receiver for slots, through an uncached window onto the same memory.
///
/// @param receiver  Gets the receiver.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `receiver` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_receiver_create(
    window: *const crosslane_window,
    receiver: *mut *mut crosslane_slot_receiver,
) -> c_int {
    guard("crosslane_slot_receiver_create", || {
        structs::check_place(receiver, "receiver")?;
        let window = handle::get::<WindowObject>(window)?;
        let made = RefCell::new(SlotReceiver::new(window.window.clone())?);
        let made = handle::insert(ReceiverObject { window, receiver: made })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(receiver, "receiver", made)? };
        Ok(0)
    })
}

/// Destroys a receiver.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_receiver_destroy(
    receiver: *mut crosslane_slot_receiver,
) -> c_int {
    guard("crosslane_slot_receiver_destroy", || handle::take::<ReceiverObject>(receiver).map(|_| 0))
}

/// Takes the next message if it has arrived in whole, and frees its slot.
///
/// @param into  Gets the message.
/// @param capacity  Room in `into`, at least CROSSLANE_SLOT_MESSAGE_BYTES.
/// @param bytes  Gets the length of the message; 0 if there is none.
/// @return 1 if there was a message, 0 if not, or a negative number of errno.h.
///
/// # Safety
/// `into` has `capacity` writable bytes; `bytes` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_slot_receive(
    receiver: *const crosslane_slot_receiver,
    into: *mut c_void,
    capacity: usize,
    bytes: *mut usize,
) -> c_int {
    guard("crosslane_slot_receive", || {
        structs::check_place(bytes, "length")?;
        let object = handle::get::<ReceiverObject>(receiver)?;
        // SAFETY: as the caller promises.
        let into = unsafe { structs::bytes_mut(into.cast(), capacity, "message")? };
        // Before the message is taken: it would be lost.
        if capacity < CROSSLANE_SLOT_MESSAGE_BYTES as usize {
            let sentence = format!(
                "there is room for {capacity} B, and messages have up to \
                 {CROSSLANE_SLOT_MESSAGE_BYTES} B"
            );
            return Err(Failure::argument(sentence));
        }
        let mut receiver = object.receiver.borrow_mut();
        let message = object.window.session.run(receiver.try_receive())?;
        let length = message.as_ref().map_or(0, Vec::len);
        if let Some(message) = &message {
            into[..length].copy_from_slice(message);
        }
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(bytes, "length", length)? };
        Ok(message.is_some().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_message_is_the_drivers() {
        let bytes = CROSSLANE_SLOT_MESSAGE_BYTES as usize;
        assert_eq!(bytes, crosslane::driver::MAX_MESSAGE_BYTES);
    }
}
