// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of channels.

use std::ffi::c_int;

use crate::channel::{ChannelObject, crosslane_channel};
use crate::error::guard;
use crate::handle;
use crate::structs::{self, sized};

/// Counters of a channel: the host's since it was opened, and the engine's since their last reset.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_channel_counters {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Transfers posted.
    pub posted: u64,
    /// Transfers complete.
    pub completed: u64,
    /// Transfers that failed or were cancelled.
    pub failed: u64,
    /// Bytes of the complete transfers.
    pub bytes: u64,
    /// Descriptors posted.
    pub descriptors: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Restarts of the channel.
    pub restarts: u64,
    /// Payload bytes that the engine has moved.
    pub engine_bytes: u64,
    /// Request TLPs that it has built.
    pub engine_tlps: u64,
    /// Engine time of the first TLP, in clocks.
    pub first_clocks: u64,
    /// Engine time of the last TLP or data, in clocks.
    pub last_clocks: u64,
    /// Idle clocks for lack of a descriptor.
    pub no_descriptor_clocks: u64,
    /// Idle clocks for lack of data in the stream.
    pub no_data_clocks: u64,
    /// Idle clocks because the most reads allowed were in flight.
    pub no_tag_clocks: u64,
    /// Clocks held back by the link.
    pub link_clocks: u64,
    /// Clocks held back by the peer's credit window.
    pub no_credit_clocks: u64,
    /// Packets whose end the engine has moved.
    pub packets: u64,
    /// Packets of which nothing was written, because nothing was posted.
    pub packets_dropped: u64,
    /// Packets of which only a first part was written.
    pub packets_truncated: u64,
}

sized!(crosslane_channel_counters until packets);

/// Reads the counters of a channel.
///
/// @param counters  Gets them; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `counters` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_count(
    channel: *const crosslane_channel,
    counters: *mut crosslane_channel_counters,
) -> c_int {
    guard("crosslane_channel_count", || {
        let object = handle::get::<ChannelObject>(channel)?;
        let state = object.state.borrow();
        let host = state.channel.statistics();
        let engine = object.device.session.run(state.channel.counters())?;
        let read = crosslane_channel_counters {
            size: 0,
            posted: host.posted,
            completed: host.completed,
            failed: host.failed,
            bytes: host.bytes,
            descriptors: host.descriptors,
            doorbells: host.doorbells,
            restarts: host.restarts,
            engine_bytes: engine.bytes,
            engine_tlps: engine.tlps.into(),
            first_clocks: engine.first_clocks,
            last_clocks: engine.last_clocks,
            no_descriptor_clocks: engine.no_descriptor_clocks.into(),
            no_data_clocks: engine.no_data_clocks.into(),
            no_tag_clocks: engine.no_tag_clocks.into(),
            link_clocks: engine.link_clocks.into(),
            no_credit_clocks: engine.no_credit_clocks.into(),
            packets: engine.packets.into(),
            packets_dropped: engine.packets_dropped.into(),
            packets_truncated: engine.packets_truncated.into(),
        };
        // SAFETY: as the caller promises.
        unsafe { structs::write(counters, read)? };
        Ok(0)
    })
}
