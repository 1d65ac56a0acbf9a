// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A way to other nodes: registered memory, one-sided reads and writes, small messages.
//!
//! Read first: [`Rdma`], then [`RdmaConnection`].

use std::future::Future;

use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

use crate::bus::{DmaMemory, PageSize};

/// Longest small message that every network carries, bytes.
pub const MAX_RDMA_MESSAGE_BYTES: usize = 4096;

/// What other nodes may do with registered memory. The node itself may use it for its own reads
/// and writes always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteAccess {
    /// They may read it.
    pub read: bool,
    /// They may write it.
    pub write: bool,
}

impl RemoteAccess {
    /// None: for the near end of reads and writes.
    pub const NONE: Self = Self { read: false, write: false };
    /// Both.
    pub const READ_WRITE: Self = Self { read: true, write: true };
}

/// What a node tells another one of memory that it may reach. Whoever gets it from outside has to
/// look whether its numbers fit what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteMemory {
    /// Address of its first byte, as the network counts them there.
    pub address: u64,
    /// Key that the registration gave.
    pub key: u64,
    /// Bytes.
    pub bytes: u64,
}

impl RemoteMemory {
    /// Whether so many bytes from an offset on lie within it, and its addresses do not wrap.
    #[must_use]
    pub fn holds(&self, offset_bytes: u64, bytes: u64) -> bool {
        offset_bytes.checked_add(bytes).is_some_and(|end| end <= self.bytes)
            && self.address.checked_add(self.bytes).is_some()
    }
}

/// Memory that is registered with a network. Clones are the same registration; it ends when the
/// last one goes, also the network's own for what is on its way.
pub trait RdmaRegion: Clone {
    /// The memory.
    type Memory: DmaMemory;

    /// The memory.
    fn memory(&self) -> &Self::Memory;

    /// What another node has to know of it.
    fn remote(&self) -> RemoteMemory;

    /// Lets what lies there now be seen by other nodes that read it. Where the network reaches the
    /// memory itself there is nothing to do.
    ///
    /// # Errors
    /// Beyond the memory.
    fn publish(&self, offset_bytes: u64, bytes: u64) -> Result<(), RdmaError> {
        let _ = (offset_bytes, bytes);
        Ok(())
    }
}

/// A part of registered memory, for the near end of a read or write.
#[derive(Clone, Debug)]
pub struct NearEnd<R: RdmaRegion> {
    /// The registration.
    pub region: R,
    /// First byte.
    pub offset_bytes: u64,
}

impl<R: RdmaRegion> NearEnd<R> {
    /// Looks whether so many bytes lie within both ends' memory, as each network has to before it
    /// begins a read or write.
    ///
    /// # Errors
    /// [`RdmaError::BeyondMemory`], the near end first.
    pub fn check(&self, far: FarEnd, bytes: u64) -> Result<(), RdmaError> {
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
    /// What the node has told of it.
    pub memory: RemoteMemory,
    /// First byte.
    pub offset_bytes: u64,
}

/// One node's way into a network: an adapter, or a provider of a network library.
pub trait Rdma: Clone {
    /// Memory that can be registered.
    type Memory: DmaMemory;
    /// Memory that is.
    type Region: RdmaRegion<Memory = Self::Memory>;
    /// To another node.
    type Connection: RdmaConnection<Region = Self::Region>;
    /// Waits for others.
    type Listener: RdmaListener<Connection = Self::Connection>;

    /// What it is, such as `tcp (libfabric 1.17)` or `nic0 of rnode`.
    fn name(&self) -> String;

    /// Whether the network moves data straight between wire and registered memory; false where they
    /// are copied on the way through memory of its own.
    fn is_zero_copy(&self) -> bool {
        true
    }

    /// Gets zeroed memory that can be registered.
    ///
    /// # Errors
    /// [`RdmaError::OutOfMemory`].
    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<Self::Memory, RdmaError>;

    /// Registers memory: pins it, and lets the network reach it.
    ///
    /// # Errors
    /// Memory that cannot be.
    fn register(
        &self,
        memory: &Self::Memory,
        access: RemoteAccess,
    ) -> impl Future<Output = Result<Self::Region, RdmaError>>;

    /// Waits for connections at an address of this node, such as `127.0.0.1:7471`; port 0 lets the
    /// network choose.
    ///
    /// # Errors
    /// An address that is taken, or is not of this network.
    fn listen(&self, address: &str) -> impl Future<Output = Result<Self::Listener, RdmaError>>;

    /// Connects to a node that listens.
    ///
    /// # Errors
    /// Nobody is there, or the deadline (in the time of the network's
    /// [`Clock`](crate::Clock)) has passed.
    fn connect(
        &self,
        address: &str,
        deadline: Picoseconds,
    ) -> impl Future<Output = Result<Self::Connection, RdmaError>>;
}

/// Takes connections.
pub trait RdmaListener {
    /// What it takes.
    type Connection;

    /// Where it listens, as another node has to name it.
    fn address(&self) -> String;

    /// Waits for the next connection. To drop the future loses none.
    ///
    /// # Errors
    /// A network that has failed as a whole.
    fn accept(&self) -> impl Future<Output = Result<Self::Connection, RdmaError>>;
}

/// A connection to another node. Clones are the same connection; it is closed when the last one
/// goes.
///
/// Operations begin when their future is polled first. Several may be on their way at once; reads
/// and writes end in any order, messages come in the order in which they were sent. A future that
/// is dropped does not end its operation: the network keeps the memory until it has ended. After
/// [`close`](Self::close) has returned, nothing of this connection reads or writes memory of this
/// node, and every operation has ended with [`RdmaError::Lost`].
pub trait RdmaConnection: Clone {
    /// Registered memory.
    type Region: RdmaRegion;

    /// Who is at the other end.
    fn peer(&self) -> String;

    /// Sends a message, whole: at most [`MAX_RDMA_MESSAGE_BYTES`]. Returns when it may be
    /// forgotten here; that it has come, only an answer says.
    ///
    /// # Errors
    /// Too long, or the connection is lost.
    fn send(&self, message: &[u8]) -> impl Future<Output = Result<(), RdmaError>>;

    /// Waits for the next message. To drop the future loses none. One waits at a time.
    ///
    /// # Errors
    /// The connection is lost and no message is left.
    fn receive(&self) -> impl Future<Output = Result<Vec<u8>, RdmaError>>;

    /// Reads memory of the other node into memory of this one; returns when it is there.
    ///
    /// # Errors
    /// Beyond either end's memory, refused by the other node, or the connection is lost.
    fn read(
        &self,
        near: &NearEnd<Self::Region>,
        far: FarEnd,
        bytes: u64,
    ) -> impl Future<Output = Result<(), RdmaError>>;

    /// Writes memory of this node into memory of the other; returns when programs there can see
    /// it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn write(
        &self,
        near: &NearEnd<Self::Region>,
        far: FarEnd,
        bytes: u64,
    ) -> impl Future<Output = Result<(), RdmaError>>;

    /// Ends the connection at once, for both ends.
    fn close(&self) -> impl Future<Output = ()>;
}

/// What a network refuses, or cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// No such network, or it cannot be used here.
    #[error("{network} cannot be used: {why}")]
    Unusable {
        /// Its name.
        network: String,
        /// What is missing.
        why: String,
    },
    /// An address that cannot be listened at or connected to.
    #[error("{address}: {why}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// Memory that cannot be had.
    #[error("{bytes} B of memory for the network are not to be had: {why}")]
    OutOfMemory {
        /// What was asked for.
        bytes: u64,
        /// The reason.
        why: String,
    },
    /// Memory that cannot be registered.
    #[error("{bytes} B of memory cannot be registered: {why}")]
    Registration {
        /// Its size.
        bytes: u64,
        /// The reason.
        why: String,
    },
    /// An operation that reaches beyond its memory; nothing was moved.
    #[error("{bytes} B at offset {offset_bytes} reach beyond {what} memory of {size_bytes} B")]
    BeyondMemory {
        /// `the near` or `the far`.
        what: &'static str,
        /// First byte.
        offset_bytes: u64,
        /// Length.
        bytes: u64,
        /// Size of the memory.
        size_bytes: u64,
    },
    /// A message that no network carries.
    #[error("a message of {bytes} B: at most {most} B are possible")]
    LongMessage {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// The other node, or its network, has refused an operation.
    #[error("{peer} refused a {operation}: {why}")]
    Refused {
        /// Who.
        peer: String,
        /// `read`, `write` or `message`.
        operation: &'static str,
        /// The network's reason.
        why: String,
    },
    /// The connection is no more.
    #[error("the connection to {peer} is lost: {why}")]
    Lost {
        /// To whom.
        peer: String,
        /// The reason.
        why: String,
    },
    /// The deadline has passed.
    #[error("the deadline passed while {what}")]
    Deadline {
        /// What was waited for.
        what: String,
    },
}
