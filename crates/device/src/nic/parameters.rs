// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Build parameters of a NIC and its network.

use crosslane_fabric::parameters;
use crosslane_pcie::units::Picoseconds;

use crate::parameters::SECOND;

parameters! {
    /// Build parameters of a NIC.
    NicParameters {
        /// Tags: reads of host memory in flight, 1 to 256.
        tags: u16 [1, 256],
        /// Longest payload of a write to host memory, bytes, a power of two from 128 to 4096.
        max_write_bytes: u32 [power of two, 128, 4096],
        /// Longest read of host memory, bytes, a power of two from 128 to 4096.
        max_read_bytes: u32 [power of two, 128, 4096],
        /// Time after which an unanswered read of host memory has failed, 1 ns to 100 s.
        completion_timeout: Picoseconds [1_000, 100 * SECOND],
        /// RDMA reads of one connection in flight at once, 1 to 128.
        outstanding_reads: u16 [1, 128],
        /// Time from a work request's arrival in the NIC to its first read or packet, up to 1 s.
        request_latency: Picoseconds [0, SECOND],
        /// Minimum time between the starts of two work requests over all connections, up to 1 s.
        request_interval: Picoseconds [0, SECOND],
        /// Time from the last bit of a packet to its processing by the NIC, up to 1 s.
        packet_latency: Picoseconds [0, SECOND],
        /// Buffer for data from host memory to the network, bytes, 8 KiB to 16 MiB.
        send_buffer_bytes: u32 [8 << 10, 16 << 20],
        /// Buffer for packets from the network to host memory, with their headers, bytes, 8 KiB to
        /// 16 MiB. The other end sends only what fits.
        receive_buffer_bytes: u32 [8 << 10, 16 << 20],
        /// Time without a sign of the other end after which a connection is lost, 1 us to 100 s.
        retry_timeout: Picoseconds [1_000_000, 100 * SECOND],
        /// Time to connect beyond the system calls at both ends, up to 1 s: messages of the
        /// connection manager and commands to the NICs.
        connect: Picoseconds [0, SECOND],
    }
}

parameters! {
    /// Build parameters of a network link between two NICs, the same in each direction.
    NetworkParameters {
        /// Bits of packets per second, without the line code; 1 Mb/s to 100 Tb/s.
        bits_per_second: u64 [1_000_000, 100_000_000_000_000],
        /// Longest payload of a packet, bytes, a power of two from 256 to 4096.
        mtu_bytes: u32 [power of two, 256, 4096],
        /// Bytes of each packet besides its payload, up to 256.
        header_bytes: u32 [0, 256],
        /// Additional bytes of a packet with an address in the other end's memory, up to 256.
        request_bytes: u32 [0, 256],
        /// Additional bytes of an acknowledgement, and of the first and last answer to a read, up
        /// to 256.
        acknowledgement_bytes: u32 [0, 256],
        /// Time from one end to the other through cable and switches, up to 1 s.
        latency: Picoseconds [0, SECOND],
    }
}
