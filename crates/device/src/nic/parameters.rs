// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a NIC and its network are built with.

use crosslane_pcie::units::Picoseconds;

use crate::parameters::{ParameterError, SECOND, power_of_two, within};

/// How a NIC is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicParameters {
    /// Tags: reads of host memory in flight, 1 to 256.
    pub tags: u16,
    /// Longest payload of a write to host memory that it can build, bytes, a power of two from 128
    /// to 4096.
    pub max_write_bytes: u32,
    /// Longest read of host memory that it can ask for, bytes, a power of two from 128 to 4096.
    pub max_read_bytes: u32,
    /// A read of host memory that is not answered within this time has failed; 1 ns to 100 s.
    pub completion_timeout: Picoseconds,
    /// RDMA reads of one connection that may be on their way at once, 1 to 128.
    pub outstanding_reads: u16,
    /// From a work request in the NIC to the first read or packet for it, up to 1 s.
    pub request_latency: Picoseconds,
    /// Least time from one work request that is begun to the next, of all connections together, up
    /// to 1 s.
    pub request_interval: Picoseconds,
    /// From the last bit of a packet at the NIC to what it does with it, up to 1 s.
    pub packet_latency: Picoseconds,
    /// Data that it holds on their way from host memory to the network, bytes, 8 KiB to 16 MiB.
    pub send_buffer_bytes: u32,
    /// Packets that it holds on their way from the network to host memory, bytes with their
    /// headers, 8 KiB to 16 MiB. The other end sends no more than has room.
    pub receive_buffer_bytes: u32,
    /// After so long without a sign of the other end a connection is lost; 1 us to 100 s.
    pub retry_timeout: Picoseconds,
    /// What connecting takes beside the system calls at both ends: messages of the connection
    /// manager and commands to the NICs; up to 1 s.
    pub connect: Picoseconds,
}

impl NicParameters {
    /// Whether a NIC can be built like this.
    ///
    /// # Errors
    /// The first field that is out of its bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
        within("tags", self.tags.into(), 1, 256)?;
        power_of_two("max_write_bytes", self.max_write_bytes.into(), 128, 4096)?;
        power_of_two("max_read_bytes", self.max_read_bytes.into(), 128, 4096)?;
        within("completion_timeout (ps)", self.completion_timeout.0, 1_000, 100 * SECOND)?;
        within("outstanding_reads", self.outstanding_reads.into(), 1, 128)?;
        within("request_latency (ps)", self.request_latency.0, 0, SECOND)?;
        within("request_interval (ps)", self.request_interval.0, 0, SECOND)?;
        within("packet_latency (ps)", self.packet_latency.0, 0, SECOND)?;
        within("send_buffer_bytes", self.send_buffer_bytes.into(), 8 << 10, 16 << 20)?;
        within("receive_buffer_bytes", self.receive_buffer_bytes.into(), 8 << 10, 16 << 20)?;
        within("retry_timeout (ps)", self.retry_timeout.0, 1_000_000, 100 * SECOND)?;
        within("connect (ps)", self.connect.0, 0, SECOND)
    }
}

/// The network link between two NICs, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkParameters {
    /// Bits of packets a second, without the line code; 1 Mb/s to 100 Tb/s.
    pub bits_per_second: u64,
    /// Longest payload of a packet, bytes, a power of two from 256 to 4096.
    pub mtu_bytes: u32,
    /// Bytes that each packet has beside its payload, up to 256.
    pub header_bytes: u32,
    /// Bytes more of a packet that says where in the other end's memory, up to 256.
    pub request_bytes: u32,
    /// Bytes more of an acknowledgement, and of the first and the last answer to a read, up to 256.
    pub acknowledgement_bytes: u32,
    /// From one end to the other: cable and switches, up to 1 s.
    pub latency: Picoseconds,
}

impl NetworkParameters {
    /// Whether NICs can be joined like this.
    ///
    /// # Errors
    /// The first field that is out of its bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
        within("bits_per_second", self.bits_per_second, 1_000_000, 100_000_000_000_000)?;
        power_of_two("mtu_bytes", self.mtu_bytes.into(), 256, 4096)?;
        within("header_bytes", self.header_bytes.into(), 0, 256)?;
        within("request_bytes", self.request_bytes.into(), 0, 256)?;
        within("acknowledgement_bytes", self.acknowledgement_bytes.into(), 0, 256)?;
        within("latency (ps)", self.latency.0, 0, SECOND)
    }
}
