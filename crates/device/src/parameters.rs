// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Build parameters of an engine.

use crosslane_fabric::parameters;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::ring_descriptor;

use crate::card_memory::CardMemoryParameters;
use crate::kit::CompletionCredits;

/// Tags that each channel reserves for descriptor fetches, beyond those for data, so that data
/// waiting for room in a stream cannot block descriptors.
pub(crate) const FETCH_TAGS: u16 = 4;

/// More credits for completions than all tags can need: no limit.
pub const UNLIMITED_COMPLETIONS: u32 = 1 << 20;

/// Tags that a requester can have (PCIe 6.x 2.2.6.2, 10-bit tags).
const MAX_TAGS: u64 = 1024;

parameters! {
    /// Build parameters of a DMA engine, including everything that can slow it. This project's
    /// engine has no idle clocks and no gap.
    EngineParameters {
        /// Clock period, 1 ps to 1 us.
        clock: Picoseconds [1, US],
        /// Bytes per clock of the stream to the link core, 1 to 1024. Carries payloads, and headers
        /// too if `header_on_datapath` is set.
        datapath_bytes: u32 [1, 1024],
        /// Whether headers occupy clocks of the datapath. If not, a TLP takes the clocks of its
        /// payload, at least one.
        header_on_datapath: bool [any],
        /// Idle clocks after each TLP, up to 1024.
        idle_clocks_per_tlp: u32 [cost, 0, 1024],
        /// Time after a descriptor's last TLP before its channel begins the next, up to 1 s.
        descriptor_gap: Picoseconds [0, SECOND],
        /// Tags for data: reads in flight, from 1. Each channel has four more for descriptor
        /// fetches; the sum is at most 1024.
        tags: u16 [|p| 1, MAX_TAGS.saturating_sub((p.channels() * FETCH_TAGS).into())],
        /// Longest write payload that the engine can build, bytes, a power of two from 64 to 4096.
        max_write_bytes: u32 [power of two, 64, 4096],
        /// Longest read that the engine can send, bytes, a power of two from 128 to 4096.
        max_read_bytes: u32 [power of two, 128, 4096],
        /// Descriptors of an H2C channel with reads in flight at once, from 1.
        reading_descriptors: u16 [1, u16::MAX as u64],
        /// Time after which an unanswered read has failed, 1 ns to 100 s.
        completion_timeout: Picoseconds [1_000, 100 * SECOND],
        /// Time from the arrival of a register read to its completion, up to 1 s.
        register_latency: Picoseconds [0, SECOND],
        /// Clocks from an available descriptor to its first TLP on an otherwise idle channel, up to
        /// 1024.
        request_latency_clocks: u32 [cost, 0, 1024; 0],
        /// Additional clocks if that TLP is a write, whose payload must be assembled; up to 1024.
        write_latency_clocks: u32 [cost, 0, 1024; 0],
        /// Clocks from the doorbell to the fetch of the posted descriptors, and from a credit to
        /// the status block that waits for it; up to 1024.
        fetch_latency_clocks: u32 [cost, 0, 1024; 0],
        /// Clocks that data take through a receive queue or the staging memory, from arrival to the
        /// TLP that carries them; up to 1024. A queue that feeds nothing drains them
        /// `write_latency_clocks` earlier.
        stream_latency_clocks: u32 [cost, 0, 1024; 0],
        /// H2C channels, 1 to 4.
        h2c_channels: u8 [1, 4],
        /// C2H channels, 1 to 4.
        c2h_channels: u8 [1, 4],
        /// Peer channels, 1 to 4.
        peer_channels: u8 [1, 4],
        /// Receive queues, 1 to 16, a power of two.
        lanes: u8 [power of two, 1, 16],
        /// Bytes of each receive queue's FIFO, a power of two from `max_write_bytes`, because a
        /// write is built once all of its bytes have arrived, to 16 MiB.
        lane_fifo_bytes: u32 [|p| power of two, p.max_write_bytes.into(), MAX_FIFO_BYTES],
        /// Bytes of each H2C channel's staging ring, in which answers are put together and wait to
        /// be taken: a power of two, at least the longest read plus the longest write, up to
        /// 16 MiB. A read is sent when all of it has room, and data are taken once a write is
        /// complete: a remainder too short for a write must not block the next read.
        staging_bytes: u32
            [|p| power of two, (p.max_write_bytes + p.max_read_bytes).into(), MAX_FIFO_BYTES],
        /// Descriptors of each table in the engine, a power of two, up to 1024.
        table_descriptors: u16 [power of two, 1, 1024],
        /// Most descriptors that one fetch from a ring asks for, a power of two, 1 to 128.
        fetch_batch: u16 [power of two, 1, 128],
        /// Completions that the receive buffer of the link core takes, in header credits. An
        /// endpoint promises infinite credit for them, so the engine sends a read while the buffer
        /// has room for the completions of a longest one (of data or of descriptors), each cut at
        /// every 64 B, and then reserves what that read needs. At least a longest read's, up to
        /// 1048576, which stands for no limit.
        completion_header_credits: u32
            [|p| p.longest_read_credits().headers.into(), UNLIMITED_COMPLETIONS.into();
             UNLIMITED_COMPLETIONS],
        /// The same in data credits, of 16 B.
        completion_data_credits: u32
            [|p| p.longest_read_credits().data.into(), UNLIMITED_COMPLETIONS.into();
             UNLIMITED_COMPLETIONS],
        /// Whether H2C and C2H channel 0 have a packet mode.
        packets: bool [any; 0],
        /// Whether each channel has a line in the push aperture, BAR 4, into which the host writes
        /// a descriptor with its doorbell.
        push: bool [any; 0],
        ;
        /// Card memory that H2C and C2H channel 0 may use instead of streams; `None` if the engine
        /// has no such mode.
        card_memory: CardMemoryParameters,
    }
}

pub(crate) const US: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000 * US;
/// Upper bound of FIFO sizes, more than any chip has.
const MAX_FIFO_BYTES: u64 = 16 << 20;

impl EngineParameters {
    /// Converts clocks to picoseconds.
    pub(crate) fn clocks_ps(&self, clocks: u32) -> u64 {
        u64::from(clocks) * self.clock.0
    }

    /// Time from the arrival of data to their draining from a stream that feeds nothing. It is
    /// shorter because no TLP is assembled.
    pub(crate) fn drain_ps(&self) -> u64 {
        self.clocks_ps(self.stream_latency_clocks.saturating_sub(self.write_latency_clocks))
    }

    /// Returns the most credits that the completions of one read need.
    pub(crate) fn longest_read_credits(&self) -> CompletionCredits {
        let fetch_bytes = u32::from(self.fetch_batch) * ring_descriptor::BYTES;
        CompletionCredits::most_of(self.max_read_bytes.max(fetch_bytes))
    }

    /// Number of channels of all kinds.
    pub(crate) fn channels(&self) -> u16 {
        u16::from(self.h2c_channels) + u16::from(self.c2h_channels) + u16::from(self.peer_channels)
    }
}
