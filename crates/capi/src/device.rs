// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices: open engines, their capabilities, and the user circuit behind them.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use crosslane::driver::{Device, StreamSource, fill_pattern};

use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::session::{SessionObject, crosslane_session};
use crate::structs::{self, sized};

/// The stream of the user circuit's generator.
pub const CROSSLANE_SOURCE_GENERATOR: u32 = 0;
/// The stream of H2C channel 0.
pub const CROSSLANE_SOURCE_H2C: u32 = 1;
/// The stream of receive queue 0; add the number for another.
pub const CROSSLANE_SOURCE_RECEIVE_QUEUE: u32 = 0x100;
/// Largest number of a receive queue.
const MOST_RECEIVE_QUEUES: u32 = 0xff;

/// An open engine.
pub struct crosslane_device {
    _private: (),
}

/// Capabilities of an engine.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_description {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Number of H2C channels.
    pub h2c_channels: u32,
    /// Number of C2H channels.
    pub c2h_channels: u32,
    /// Number of peer channels.
    pub peer_channels: u32,
    /// Number of receive queues.
    pub receive_queues: u32,
    /// Number of interrupt vectors.
    pub vectors: u32,
    /// Most reads in flight.
    pub tags: u32,
    /// Longest payload that it can build, in bytes.
    pub max_write_bytes: u32,
    /// Longest read that it can ask for, in bytes.
    pub max_read_bytes: u32,
    /// Size of each receive queue's FIFO, in bytes.
    pub receive_queue_bytes: u32,
    /// 1 if H2C and C2H channel 0 can reach the card's memory, else 0.
    pub has_card_memory: u32,
    /// 1 if C2H channel 0 can copy within the card's memory, else 0.
    pub has_card_copy: u32,
    /// 1 if H2C and C2H channel 0 have a packet mode, else 0.
    pub has_packets: u32,
    /// Duration of one clock of engine time, in ps.
    pub clock_ps: u64,
}

/// Result of a checker, which compares data with the generator's pattern.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_check {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Number of wrong words of 4 B.
    pub errors: u32,
    /// Position of the first wrong word, if there is one.
    pub first_word: u32,
}

sized!(crosslane_description, crosslane_check);

/// Object behind a handle on a device.
pub(crate) struct DeviceObject {
    pub session: Rc<SessionObject>,
    pub device: Device,
    card: usize,
}

impl Handled for DeviceObject {
    type Opaque = crosslane_device;
    const NAME: &'static str = "device";
}

impl Drop for DeviceObject {
    fn drop(&mut self) {
        self.session.devices.borrow_mut().remove(&self.card);
    }
}

/// Opens the engine of a card. A card is opened once.
///
/// @param card  Number of the card in the session, from 0 on.
/// @param device  Gets the device.
/// @return 0, or a negative number of errno.h; -EBUSY if the card is open.
///
/// # Safety
/// `device` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_open(
    session: *const crosslane_session,
    card: usize,
    device: *mut *mut crosslane_device,
) -> c_int {
    guard("crosslane_device_open", || {
        structs::check_place(device, "device")?;
        let session = handle::get::<SessionObject>(session)?;
        session.check_card(card)?;
        if !session.devices.borrow_mut().insert(card) {
            let name = &session.session.inner().cards()[card].name;
            let sentence = format!("{name} is open already: open each card once");
            return Err(Failure::new(crosslane::host::ErrorKind::Busy, sentence));
        }
        let opened = session.run(session.session.inner().device(card));
        let opened = opened.inspect_err(|_| {
            session.devices.borrow_mut().remove(&card);
        })?;
        let opened = handle::insert(DeviceObject { session, device: opened, card })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(device, "device", opened)? };
        Ok(0)
    })
}

/// Closes a device. Its channels, buffers and peers must be closed before.
///
/// @return 0; -EBUSY if something of it is still open: it then stays open.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_close(device: *mut crosslane_device) -> c_int {
    guard("crosslane_device_close", || handle::take::<DeviceObject>(device).map(|_| 0))
}

/// Describes a device.
///
/// @param description  Gets the description; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `description` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_describe(
    device: *const crosslane_device,
    description: *mut crosslane_description,
) -> c_int {
    guard("crosslane_device_describe", || {
        let object = handle::get::<DeviceObject>(device)?;
        let known = object.device.description();
        let described = crosslane_description {
            size: 0,
            h2c_channels: known.h2c_channels.into(),
            c2h_channels: known.c2h_channels.into(),
            peer_channels: known.peer_channels.into(),
            receive_queues: known.lanes.into(),
            vectors: known.vectors.into(),
            tags: known.tags.into(),
            max_write_bytes: known.max_write_bytes,
            max_read_bytes: known.max_read_bytes,
            receive_queue_bytes: known.lane_fifo_bytes,
            has_card_memory: known.card_memory.into(),
            has_card_copy: known.card_copy.into(),
            has_packets: known.packets.into(),
            clock_ps: known.clock.0,
        };
        // SAFETY: as the caller promises.
        unsafe { structs::write(description, described)? };
        Ok(0)
    })
}

/// Returns the stream that a number stands for.
fn source(number: u32) -> Result<StreamSource> {
    let queue = number.wrapping_sub(CROSSLANE_SOURCE_RECEIVE_QUEUE);
    match number {
        CROSSLANE_SOURCE_GENERATOR => Ok(StreamSource::Generator),
        CROSSLANE_SOURCE_H2C => Ok(StreamSource::H2c),
        _ if queue <= MOST_RECEIVE_QUEUES => Ok(StreamSource::ReceiveQueue(queue as u8)),
        _ => Err(Failure::argument(format!("there is no source of a stream {number:#x}"))),
    }
}

/// Selects the sources of the streams of C2H channel 0 and of peer channel 0, while neither has
/// anything to send.
///
/// @param c2h  A CROSSLANE_SOURCE_*.
/// @param peer  A CROSSLANE_SOURCE_*.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_route(
    device: *const crosslane_device,
    c2h: u32,
    peer: u32,
) -> c_int {
    guard("crosslane_device_route", || {
        let object = handle::get::<DeviceObject>(device)?;
        let (c2h, peer) = (source(c2h)?, source(peer)?);
        object.session.run(object.device.user().route(c2h, peer))?;
        Ok(0)
    })
}

/// Seeds the generator; its streams begin anew.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_seed(
    device: *const crosslane_device,
    seed: u32,
) -> c_int {
    guard("crosslane_device_seed", || {
        let object = handle::get::<DeviceObject>(device)?;
        object.session.run(object.device.user().seed(seed))?;
        Ok(0)
    })
}

/// Starts comparing the data of H2C channel 0 with the pattern of a seed.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_check_h2c(
    device: *const crosslane_device,
    seed: u32,
) -> c_int {
    guard("crosslane_device_check_h2c", || {
        let object = handle::get::<DeviceObject>(device)?;
        object.session.run(object.device.user().check_h2c(seed))?;
        Ok(0)
    })
}

/// Reads what the checker of H2C channel 0 has found so far.
///
/// @param check  Gets the result; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `check` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_h2c_check_result(
    device: *const crosslane_device,
    check: *mut crosslane_check,
) -> c_int {
    guard("crosslane_device_h2c_check_result", || {
        let object = handle::get::<DeviceObject>(device)?;
        let found = object.session.run(object.device.user().h2c_check_result())?;
        // SAFETY: as the caller promises.
        unsafe { structs::write(check, found.into())? };
        Ok(0)
    })
}

impl From<crosslane::driver::Check> for crosslane_check {
    fn from(check: crosslane::driver::Check) -> Self {
        Self { size: 0, errors: check.errors, first_word: check.first_word.unwrap_or(0) }
    }
}

/// Clears the engine's counters and hardware timers.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_reset_counters(device: *const crosslane_device) -> c_int {
    guard("crosslane_device_reset_counters", || {
        let object = handle::get::<DeviceObject>(device)?;
        object.session.run(object.device.reset_counters())?;
        Ok(0)
    })
}

/// Writes the generator's pattern into memory.
///
/// @param into  Gets `bytes` bytes.
/// @param seed  Seed of the pattern.
/// @param word  Number of the first word of 4 B.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `into` has `bytes` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_pattern(
    into: *mut c_void,
    bytes: usize,
    seed: u32,
    word: u32,
) -> c_int {
    guard("crosslane_pattern", || {
        // SAFETY: as the caller promises.
        let into = unsafe { structs::bytes_mut(into.cast(), bytes, "memory for the pattern")? };
        fill_pattern(into, seed, word);
        Ok(0)
    })
}

/// Reads the engine's clock, whose duration crosslane_device_describe gives as clock_ps. Counters
/// and round trips are in these clocks.
///
/// @param clocks  Gets the engine time, in clocks.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `clocks` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_device_time(
    device: *const crosslane_device,
    clocks: *mut u64,
) -> c_int {
    guard("crosslane_device_time", || {
        structs::check_place(clocks, "time")?;
        let object = handle::get::<DeviceObject>(device)?;
        let time = object.session.run(object.device.time_clocks())?;
        // SAFETY: as the caller promises.
        unsafe { structs::put(clocks, "time", time)? };
        Ok(0)
    })
}
