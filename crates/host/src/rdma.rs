// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to other nodes: registered memory, one-sided reads and writes, small messages.
//!
//! Read first: [`Rdma`], then [`RdmaConnection`].

use std::future::Future;

use crosslane_pcie::units::Picoseconds;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bus::{DmaMemory, PageSize};
use crate::{Reason, kinds};

/// Longest message that every network carries, bytes.
pub const MAX_RDMA_MESSAGE_BYTES: usize = 4096;

/// Rights of other nodes to registered memory. The node itself may always use it for its own reads
/// and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteAccess {
    /// Permission to read.
    pub read: bool,
    /// Permission to write.
    pub write: bool,
}

impl RemoteAccess {
    /// No rights: for the near end of reads and writes.
    pub const NONE: Self = Self { read: false, write: false };
    /// Both rights.
    pub const READ_WRITE: Self = Self { read: true, write: true };
}

/// A node's description of memory that another node may reach. A receiver must check these numbers
/// before it uses them: they come from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemoteMemory {
    /// Address of its first byte, as the network counts them at that node.
    pub address: u64,
    /// Key from the registration.
    pub key: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl RemoteMemory {
    /// Whether `bytes` from `offset_bytes` lie within the memory, and its addresses do not wrap.
    pub fn holds(&self, offset_bytes: u64, bytes: u64) -> bool {
        offset_bytes.checked_add(bytes).is_some_and(|end| end <= self.bytes)
            && self.address.checked_add(self.bytes).is_some()
    }
}

/// Memory that is registered with a network. Clones are the same registration; it ends with the
/// last one, including those that the network keeps for operations in flight.
pub trait RdmaRegion: Clone {
    /// The type of memory that is registered.
    type Memory: DmaMemory;

    /// The registered memory.
    fn memory(&self) -> &Self::Memory;

    /// The description that another node needs to reach it.
    fn remote(&self) -> RemoteMemory;

    /// Makes the present content of these bytes visible to other nodes that read them. Does nothing
    /// if the network reaches the memory itself.
    ///
    /// # Errors
    /// A range beyond the memory.
    fn publish(&self, offset_bytes: u64, bytes: u64) -> RdmaResult<()> {
        let _ = (offset_bytes, bytes);
        Ok(())
    }
}

/// A part of registered memory, for the near end of a read or write.
#[derive(Clone, Debug)]
pub struct NearEnd<R: RdmaRegion> {
    /// The registration that holds the bytes.
    pub region: R,
    /// Offset of the first byte in the registered memory.
    pub offset_bytes: u64,
}

impl<R: RdmaRegion> NearEnd<R> {
    /// Checks that `bytes` lie within the memory of both ends, as each network must before it
    /// begins a read or write.
    ///
    /// # Errors
    /// [`RdmaError::BeyondMemory`], for the near end first.
    pub fn check(&self, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        let beyond = |what, offset_bytes, size_bytes| {
            Err(RdmaError::BeyondMemory { what, offset_bytes, bytes, size_bytes })
        };
        let near_bytes = self.region.memory().size_bytes();
        if self.offset_bytes.checked_add(bytes).is_none_or(|end| end > near_bytes) {
            return beyond("the near", self.offset_bytes, near_bytes);
        }
        if !far.memory.holds(far.offset_bytes, bytes) {
            return beyond("the far", far.offset_bytes, far.memory.bytes);
        }
        Ok(())
    }
}

/// The part of another node's memory that is the far end of a read or write.
#[derive(Clone, Copy, Debug)]
pub struct FarEnd {
    /// The other node's description of its memory.
    pub memory: RemoteMemory,
    /// Offset of the first byte in that memory.
    pub offset_bytes: u64,
}

/// One node's access to a network: an adapter, or a provider of a network library.
pub trait Rdma: Clone {
    /// Memory that can be registered.
    type Memory: DmaMemory;
    /// Registered memory.
    type Region: RdmaRegion<Memory = Self::Memory>;
    /// A connection to another node.
    type Connection: RdmaConnection<Region = Self::Region>;
    /// A listener for connections from other nodes.
    type Listener: RdmaListener<Connection = Self::Connection>;

    /// Name of the adapter or provider, such as `tcp (libfabric 1.17)` or `nic0 of rnode`.
    fn name(&self) -> String;

    /// Whether the network moves data directly between the link and registered memory, without a
    /// copy through buffers.
    fn is_zero_copy(&self) -> bool {
        true
    }

    /// Allocates zeroed memory that can be registered.
    ///
    /// # Errors
    /// [`RdmaError::OutOfMemory`].
    fn allocate(&self, bytes: u64, pages: PageSize) -> RdmaResult<Self::Memory>;

    /// Registers memory: pins it, and lets the network reach it.
    ///
    /// # Errors
    /// Memory that cannot be registered.
    fn register(
        &self,
        memory: &Self::Memory,
        access: RemoteAccess,
    ) -> impl Future<Output = RdmaResult<Self::Region>>;

    /// Waits for connections at an address of this node, such as `127.0.0.1:7471`; port 0 lets the
    /// network choose.
    ///
    /// # Errors
    /// An address that is taken, or does not belong to this network.
    fn listen(&self, address: &str) -> impl Future<Output = RdmaResult<Self::Listener>>;

    /// Connects to a node that listens.
    ///
    /// # Errors
    /// No node listens there, or the deadline (in the time of the network's
    /// [`Clock`](crate::Clock)) has passed.
    fn connect(
        &self,
        address: &str,
        deadline: Picoseconds,
    ) -> impl Future<Output = RdmaResult<Self::Connection>>;
}

/// Accepts connections from other nodes.
pub trait RdmaListener {
    /// Connections that it accepts.
    type Connection;

    /// The address that it listens at, for use by other nodes.
    fn address(&self) -> String;

    /// Waits for the next connection. Dropping the future loses none.
    ///
    /// # Errors
    /// A network that has failed as a whole.
    fn accept(&self) -> impl Future<Output = RdmaResult<Self::Connection>>;
}

/// A connection to another node. Clones are the same connection; the last one closes it.
///
/// Operations begin when their future is first polled. Several may be in flight; reads and writes
/// end in any order, messages arrive in the order in which they were sent. Dropping a future does
/// not end its operation: the network keeps the memory until it has ended. After
/// [`close`](Self::close) has returned, nothing of this connection reads or writes memory of this
/// node, and every operation has ended with [`RdmaError::Lost`].
pub trait RdmaConnection: Clone {
    /// Registered memory that reads and writes use.
    type Region: RdmaRegion;

    /// Name of the node at the other end.
    fn peer(&self) -> String;

    /// Names that the other end has proven to have, by a certificate that this end trusts. None by
    /// default, and where the network knows nobody.
    fn proven_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Sends a whole message of at most [`MAX_RDMA_MESSAGE_BYTES`]. Returns when the caller may
    /// reuse its buffer; only an answer confirms arrival.
    ///
    /// # Errors
    /// A message that is too long, or a lost connection.
    fn send(&self, message: &[u8]) -> impl Future<Output = RdmaResult<()>>;

    /// Waits for the next message. Dropping the future loses none. Only one caller may wait at a
    /// time.
    ///
    /// # Errors
    /// The connection is lost and no message is left.
    fn receive(&self) -> impl Future<Output = RdmaResult<Vec<u8>>>;

    /// Reads memory of the other node into memory of this one; returns when the data have arrived.
    ///
    /// # Errors
    /// A range beyond either end's memory, a refusal by the other node, or a lost connection.
    fn read(
        &self,
        near: &NearEnd<Self::Region>,
        far: FarEnd,
        bytes: u64,
    ) -> impl Future<Output = RdmaResult<()>>;

    /// Writes memory of this node into memory of the other; returns when programs there can see the
    /// data.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn write(
        &self,
        near: &NearEnd<Self::Region>,
        far: FarEnd,
        bytes: u64,
    ) -> impl Future<Output = RdmaResult<()>>;

    /// Ends the connection immediately, for both ends.
    fn close(&self) -> impl Future<Output = ()>;
}

/// Outcome of an operation on a network.
pub type RdmaResult<T> = Result<T, RdmaError>;

/// Errors of a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// The network does not exist, or cannot be used here.
    #[error("{network} cannot be used: {why}")]
    Unusable {
        /// Name of the network.
        network: String,
        /// The missing part.
        #[source]
        why: Reason,
    },
    /// An address that cannot be listened at or connected to.
    #[error("{address}: {why}")]
    Address {
        /// The address as given.
        address: String,
        /// The reason.
        #[source]
        why: Reason,
    },
    /// Memory that cannot be allocated.
    #[error("cannot allocate {bytes} B of network memory: {why}")]
    OutOfMemory {
        /// Size that was asked for.
        bytes: u64,
        /// The reason.
        #[source]
        why: Reason,
    },
    /// Memory that cannot be registered.
    #[error("cannot register {bytes} B of memory: {why}")]
    Registration {
        /// Size of the memory.
        bytes: u64,
        /// The reason.
        #[source]
        why: Reason,
    },
    /// An operation that reaches beyond its memory; nothing was moved.
    #[error("{bytes} B at offset {offset_bytes} reach beyond {what} memory of {size_bytes} B")]
    BeyondMemory {
        /// The end that is exceeded: `the near` or `the far`.
        what: &'static str,
        /// Offset of the first byte.
        offset_bytes: u64,
        /// Length of the operation.
        bytes: u64,
        /// Size of the memory.
        size_bytes: u64,
    },
    /// A message longer than every network carries.
    #[error("cannot send a message of {bytes} B: the limit is {most} B")]
    LongMessage {
        /// Length of the message.
        bytes: usize,
        /// The longest message, bytes.
        most: usize,
    },
    /// An operation that the other node or its network has refused.
    #[error("{peer} refused a {operation}: {why}")]
    Refused {
        /// Name of the node that refused.
        peer: String,
        /// `read`, `write` or `message`.
        operation: &'static str,
        /// The network's reason.
        #[source]
        why: Reason,
    },
    /// The connection has ended.
    #[error("the connection to {peer} is lost: {why}")]
    Lost {
        /// Name of the node at the other end.
        peer: String,
        /// The reason.
        why: String,
    },
    /// The deadline passed before the operation ended.
    #[error("the deadline passed while {what}")]
    Deadline {
        /// The operation that was waited for.
        what: String,
    },
}

kinds!(RdmaError {
    Self::BeyondMemory { .. } | Self::LongMessage { .. } => InvalidArgument,
    Self::OutOfMemory { .. } => Busy,
    Self::Lost { .. } => LinkDown,
    Self::Deadline { .. } => Timeout,
    Self::Unusable { why, .. } | Self::Address { why, .. } | Self::Registration { why, .. }
    | Self::Refused { why, .. } => why.kind(),
});
