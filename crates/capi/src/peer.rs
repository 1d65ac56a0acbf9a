// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peers: receive queues of other cards, which peer channels write to, and memory of other cards,
//! which H2C channels read.

use std::ffi::{c_char, c_int};
use std::rc::Rc;

use crosslane::driver::{Peer, PeerMemory, PeerOptions, ReceiveQueuePolicy};

use crate::device::{DeviceObject, crosslane_check, crosslane_device};
use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::structs::{self, sized};

/// The sender never stops, and keeps no window of credits.
pub const CROSSLANE_PEER_NO_CREDITS: u32 = 1;
/// A full receive queue drops data and reports it, where else it would hold up the link.
pub const CROSSLANE_PEER_DROP: u32 = 2;

/// A connection from one card's peer channel to a receive queue of another.
pub struct crosslane_peer {
    _private: (),
}

/// Memory of another card, for the H2C and C2H channels of one device.
pub struct crosslane_peer_memory {
    _private: (),
}

/// How to connect two cards. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_peer_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Number of the sender's peer channel.
    pub channel: u32,
    /// CROSSLANE_PEER_* that hold, joined by |.
    pub flags: u32,
}

/// Description of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_peer_info {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Bus address of the receive queue.
    pub address: u64,
    /// Number of the receive queue at the target.
    pub receive_queue: u32,
    /// 1 if the connection has credits, else 0.
    pub has_credits: u32,
    /// Bytes received, modulo 2^32.
    pub received_bytes: u32,
    /// Bytes taken out, modulo 2^32.
    pub drained_bytes: u32,
    /// 1 if the queue has lost data, else 0.
    pub has_lost: u32,
    /// Must be ignored.
    pub reserved: u32,
}

sized!(crosslane_peer_attr, crosslane_peer_info);

/// Object behind a handle on a peer.
pub(crate) struct PeerObject {
    pub sender: Rc<DeviceObject>,
    /// Number of the sender's channel.
    pub channel: u8,
    /// Keeps the target open.
    _target: Rc<DeviceObject>,
    pub peer: Peer,
    pub has_credits: bool,
}

/// Object behind a handle on a peer's memory.
pub(crate) struct PeerMemoryObject {
    device: Rc<DeviceObject>,
    pub memory: PeerMemory,
}

impl Handled for PeerObject {
    type Opaque = crosslane_peer;
    const NAME: &'static str = "peer";
}

impl Handled for PeerMemoryObject {
    type Opaque = crosslane_peer_memory;
    const NAME: &'static str = "peer_memory";
}

impl PeerObject {
    /// Checks that a device is the sender.
    pub fn check_sender(&self, device: &Rc<DeviceObject>) -> Result<()> {
        if Rc::ptr_eq(&self.sender, device) {
            return Ok(());
        }
        let (of, own) = (&self.sender.device.function().name, &device.device.function().name);
        Err(Failure::argument(format!("the peer was connected for {of}, not for {own}")))
    }
}

/// Connects a card's peer channel to a receive queue of another card.
///
/// @param sender  Device that writes.
/// @param target  Device that has the receive queue, of the same session.
/// @param attr  How to connect them; NULL for the defaults: channel 0, with credits.
/// @param peer  Gets the connection.
/// @return 0, or a negative number of errno.h; the sentence says why there is no path.
///
/// # Safety
/// `attr` and `peer` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_connect(
    sender: *const crosslane_device,
    target: *const crosslane_device,
    attr: *const crosslane_peer_attr,
    peer: *mut *mut crosslane_peer,
) -> c_int {
    guard("crosslane_peer_connect", || {
        structs::check_place(peer, "peer")?;
        let sender = handle::get::<DeviceObject>(sender)?;
        let target = handle::get::<DeviceObject>(target)?;
        if !Rc::ptr_eq(&sender.session, &target.session) {
            return Err(Failure::argument("the two devices are not of one session"));
        }
        // SAFETY: as the caller promises.
        let attr = unsafe { structs::read_or_default(attr)? };
        if attr.flags & !(CROSSLANE_PEER_NO_CREDITS | CROSSLANE_PEER_DROP) != 0 {
            return Err(Failure::argument(format!(
                "there are no such peer flags {:#x}",
                attr.flags
            )));
        }
        let number = attr.channel;
        let channel = u8::try_from(number)
            .map_err(|_| Failure::argument(format!("there is no peer channel {number}")))?;
        let policy = match attr.flags & CROSSLANE_PEER_DROP {
            0 => ReceiveQueuePolicy::Stall,
            _ => ReceiveQueuePolicy::Drop,
        };
        let has_credits = attr.flags & CROSSLANE_PEER_NO_CREDITS == 0;
        let options = PeerOptions::default()
            .with_channel(channel)
            .with_credits(has_credits)
            .with_policy(policy);
        let connected = sender.session.run(sender.device.connect(&target.device, options))?;
        let object = PeerObject { sender, channel, _target: target, peer: connected, has_credits };
        let connected = handle::insert(object)?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(peer, "peer", connected)? };
        Ok(0)
    })
}

/// Ends a connection once all data in flight have arrived, and gives the receive queue back.
///
/// @return 0; -EBUSY if a transfer to it is in flight or was not polled: it then stays connected.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_close(peer: *mut crosslane_peer) -> c_int {
    guard("crosslane_peer_close", || {
        let object = handle::take::<PeerObject>(peer)?;
        object.sender.session.run(object.peer.close())?;
        Ok(0)
    })
}

/// Starts comparing what the receive queue takes with the generator's pattern of a seed.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_check(peer: *const crosslane_peer, seed: u32) -> c_int {
    guard("crosslane_peer_check", || {
        let object = handle::get::<PeerObject>(peer)?;
        object.sender.session.run(object.peer.check(seed))?;
        Ok(0)
    })
}

/// Reads what the receive queue's checker has found so far.
///
/// @param check  Gets the result; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `check` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_check_result(
    peer: *const crosslane_peer,
    check: *mut crosslane_check,
) -> c_int {
    guard("crosslane_peer_check_result", || {
        let object = handle::get::<PeerObject>(peer)?;
        let found = object.sender.session.run(object.peer.check_result())?;
        // SAFETY: as the caller promises.
        unsafe { structs::write(check, found.into())? };
        Ok(0)
    })
}

/// Describes a connection, with the counters of its receive queue.
///
/// @param info  Gets the description; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `info` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_describe(
    peer: *const crosslane_peer,
    info: *mut crosslane_peer_info,
) -> c_int {
    guard("crosslane_peer_describe", || {
        let object = handle::get::<PeerObject>(peer)?;
        let counters = object.sender.session.run(object.peer.counters())?;
        let described = crosslane_peer_info {
            size: 0,
            address: object.peer.address().0,
            receive_queue: object.peer.receive_queue().into(),
            has_credits: object.has_credits.into(),
            received_bytes: counters.received_bytes,
            drained_bytes: counters.drained_bytes,
            has_lost: counters.overflow.into(),
            reserved: 0,
        };
        // SAFETY: as the caller promises.
        unsafe { structs::write(info, described)? };
        Ok(0)
    })
}

/// Opens memory behind a BAR of another card, so that H2C channels of a device can read it, and C2H
/// channels write it. A write is complete when it is sent; what the same device reads of that
/// memory from then on ends behind it. The other card must have been opened.
///
/// @param device  Device that reads and writes.
/// @param function  Name of the other card's function in the tree.
/// @param bar  Number of the BAR; 2 for an engine's own memory.
/// @param memory  Gets the memory.
/// @param bytes  Gets its size; may be NULL.
/// @return 0, or a negative number of errno.h; the sentence says why there is no path.
///
/// # Safety
/// `function` is NULL or ends with a NUL; `memory` and `bytes` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_memory_open(
    device: *const crosslane_device,
    function: *const c_char,
    bar: u32,
    memory: *mut *mut crosslane_peer_memory,
    bytes: *mut u64,
) -> c_int {
    guard("crosslane_peer_memory_open", || {
        structs::check_place(memory, "memory")?;
        let device = handle::get::<DeviceObject>(device)?;
        // SAFETY: as the caller promises.
        let name = unsafe { structs::text(function, "name of the function")? };
        let of = device.session.function(&name)?.id;
        let bar =
            u8::try_from(bar).map_err(|_| Failure::argument(format!("{name} has no BAR{bar}")))?;
        let opened = device.session.run(device.device.peer_memory(of, bar))?;
        let size = opened.size_bytes();
        let opened = handle::insert(PeerMemoryObject { device, memory: opened })?;
        // SAFETY: `memory` was checked above not to be NULL; `bytes` is valid then.
        unsafe {
            structs::put(memory, "memory", opened)?;
            if !bytes.is_null() {
                structs::put(bytes, "size", size)?;
            }
        }
        Ok(0)
    })
}

/// Closes memory of another card.
///
/// @return 0; -EBUSY if a transfer from it is in flight or was not polled: it then stays open.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_memory_close(memory: *mut crosslane_peer_memory) -> c_int {
    guard("crosslane_peer_memory_close", || {
        let object = handle::take::<PeerMemoryObject>(memory)?;
        object.device.session.run(object.memory.close())?;
        Ok(0)
    })
}
