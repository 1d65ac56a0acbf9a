// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Build parameters of a NIC and its network.

use crosslane_pcie::units::Picoseconds;

use crate::parameters::{ParameterError, SECOND, power_of_two, within};

/// Build parameters of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicParameters {
    /// Tags: reads of host memory in flight, 1 to 256.
    pub tags: u16,
    /// Longest payload of a write to host memory, bytes, a power of two from 128 to 4096.
    pub max_write_bytes: u32,
    /// Longest read of host memory, bytes, a power of two from 128 to 4096.
    pub max_read_bytes: u32,
    /// Time after which an unanswered read of host memory has failed, 1 ns to 100 s.
    pub completion_timeout: Picoseconds,
    /// RDMA reads of one connection in flight at once, 1 to 128.
    pub outstanding_reads: u16,
    /// Time from a work request's arrival in the NIC to its first read or packet, up to 1 s.
    pub request_latency: Picoseconds,
    /// Minimum time between the starts of two work requests over all connections, up to 1 s.
    pub request_interval: Picoseconds,
    /// Time from the last bit of a packet to its processing by the NIC, up to 1 s.
    pub packet_latency: Picoseconds,
    /// Buffer for data from host memory to the network, bytes, 8 KiB to 16 MiB.
    pub send_buffer_bytes: u32,
    /// Buffer for packets from the network to host memory, with their headers, bytes, 8 KiB to 16
    /// MiB. The other end sends only what fits.
    pub receive_buffer_bytes: u32,
    /// Time without a sign of the other end after which a connection is lost, 1 us to 100 s.
    pub retry_timeout: Picoseconds,
    /// Time to connect beyond the system calls at both ends, up to 1 s: messages of the connection
    /// manager and commands to the NICs.
    pub connect: Picoseconds,
}

impl NicParameters {
    /// Checks that a NIC can be built with these parameters.
    ///
    /// # Errors
    /// Returns the first field that is out of bounds.
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

/// Build parameters of a network link between two NICs, the same in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkParameters {
    /// Bits of packets per second, without the line code; 1 Mb/s to 100 Tb/s.
    pub bits_per_second: u64,
    /// Longest payload of a packet, bytes, a power of two from 256 to 4096.
    pub mtu_bytes: u32,
    /// Bytes of each packet besides its payload, up to 256.
    pub header_bytes: u32,
    /// Additional bytes of a packet with an address in the other end's memory, up to 256.
    pub request_bytes: u32,
    /// Additional bytes of an acknowledgement, and of the first and last answer to a read, up to
    /// 256.
    pub acknowledgement_bytes: u32,
    /// Time from one end to the other through cable and switches, up to 1 s.
    pub latency: Picoseconds,
}

impl NetworkParameters {
    /// Checks that NICs can be joined with these parameters.
    ///
    /// # Errors
    /// Returns the first field that is out of bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
        within("bits_per_second", self.bits_per_second, 1_000_000, 100_000_000_000_000)?;
        power_of_two("mtu_bytes", self.mtu_bytes.into(), 256, 4096)?;
        within("header_bytes", self.header_bytes.into(), 0, 256)?;
        within("request_bytes", self.request_bytes.into(), 0, 256)?;
        within("acknowledgement_bytes", self.acknowledgement_bytes.into(), 0, 256)?;
        within("latency (ps)", self.latency.0, 0, SECOND)
    }
}
