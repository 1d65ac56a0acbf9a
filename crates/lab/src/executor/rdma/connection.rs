// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections, as programs see them.

use std::fmt;
use std::sync::Arc;

use crosslane_device::nic::layout::{INLINE_BYTES, Operation, WorkRequest};
use crosslane_fabric::CoreWork;
use crosslane_host::{
    ErrorKind, FarEnd, MAX_RDMA_MESSAGE_BYTES, NearEnd, RdmaConnection, RdmaError, RdmaRegion,
    RdmaResult, Reason,
};

use super::super::shared::{Shared, Wait, What};
use super::connections::Life;
use super::{LabRdma, LabRegion};

/// A connection over a network of a lab. Posting an operation is a store into a doorbell of the
/// NIC; waiting for its end takes no core's time. Clones share the connection; dropping the last
/// one closes it, in no simulated time.
#[derive(Clone)]
pub struct LabConnection {
    handle: Arc<Handle>,
}

struct Handle {
    network: LabRdma,
    id: u64,
    peer: Arc<str>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.network.shared.lock().let_go(self.id);
        self.network.shared.bury();
    }
}

impl fmt::Debug for LabConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, peer) = (&self.handle.network, &self.handle.peer);
        write!(f, "LabConnection({network:?} to {peer})")
    }
}

/// An operation in progress, owned by its future.
struct Begun<'a> {
    shared: &'a Shared,
    id: u64,
    number: u32,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.shared.lock().forget_result(self.id, self.number);
    }
}

impl LabConnection {
    pub(super) fn new(network: LabRdma, id: u64, peer: Arc<str>) -> Self {
        Self { handle: Arc::new(Handle { network, id, peer }) }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.network.shared
    }

    fn lost(&self, why: &str) -> RdmaError {
        RdmaError::Lost { peer: self.handle.peer.to_string(), why: why.to_owned() }
    }

    /// Starts an operation and waits for its end.
    async fn run(
        &self,
        operation: &'static str,
        work: WorkRequest,
        message: Option<Vec<u8>>,
        holds: Option<LabRegion>,
    ) -> RdmaResult<()> {
        let (shared, id) = (self.shared(), self.handle.id);
        let begun = shared.lock().begin_operation(id, operation, work, message, holds);
        shared.bury();
        let (number, token) = begun?;
        let begun = Begun { shared, id, number };
        let mut wait = Wait::new(shared.clone(), token);
        loop {
            (&mut wait).await;
            let result = shared.lock().result_of(id, number);
            if let Some(result) = result {
                drop(begun);
                return result;
            }
        }
    }

    /// Makes the work request of an operation between memories, after checking both ends.
    fn between(
        &self,
        operation: Operation,
        near: &NearEnd<LabRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> RdmaResult<WorkRequest> {
        let (region, offset_bytes) = (&near.region, near.offset_bytes);
        let memory = region.own();
        if !region.is_of(&self.handle.network.adapter) {
            let text = format!("it is not registered with {:?}", self.handle.network);
            let why = Reason::new(ErrorKind::InvalidArgument, text);
            return Err(RdmaError::Registration { bytes: memory.size(), why });
        }
        near.check(far, bytes)?;
        let FarEnd { memory: remote, offset_bytes: far_offset } = far;
        // NICs give keys of at most 32 bits; 0 is not a key.
        let far_key = u32::try_from(remote.key).unwrap_or(0);
        Ok(WorkRequest {
            operation,
            id: 0,
            near_address: region.remote().address + offset_bytes,
            near_key: region.key(),
            far_address: remote.address + far_offset,
            far_key,
            bytes,
        })
    }

    /// Returns the length of the next message, or the error of a lost connection; else a wait.
    fn look_for_message(&self) -> Result<RdmaResult<usize>, Wait> {
        let mut state = self.shared().lock();
        let id = self.handle.id;
        let Some(connection) = state.networks.connections.get(&id) else {
            return Ok(Err(self.lost("the lab has ended")));
        };
        let first = connection.saved.front().map(Vec::len);
        let first = first.or(connection.messages.front().map(|bytes| *bytes as usize));
        if let Some(bytes) = first {
            return Ok(Ok(bytes));
        }
        // A closing connection may still have messages on their way into memory.
        if let (Life::Lost(_), Some(error)) = (&connection.life, connection.loss()) {
            return Ok(Err(error));
        }
        let what = What::Message { host: connection.adapter.host, peer: self.handle.peer.clone() };
        let token = state.begin_wait(what);
        if let Some(connection) = state.networks.connections.get_mut(&id) {
            connection.receiving = Some(token);
        }
        drop(state);
        Err(Wait::new(self.shared().clone(), token))
    }
}

impl RdmaConnection for LabConnection {
    type Region = LabRegion;

    fn peer(&self) -> String {
        self.handle.peer.to_string()
    }

    /// Costs a copy of the message, into its work request if it is short, and a store; ends when it
    /// is in the other node's memory.
    async fn send(&self, message: &[u8]) -> RdmaResult<()> {
        let (bytes, most) = (message.len(), MAX_RDMA_MESSAGE_BYTES);
        if bytes > most {
            return Err(RdmaError::LongMessage { bytes, most });
        }
        let is_short = bytes as u64 <= INLINE_BYTES;
        let operation = if is_short { Operation::SendInline } else { Operation::Send };
        let work = WorkRequest {
            operation,
            id: 0,
            near_address: 0,
            near_key: 0,
            far_address: 0,
            far_key: 0,
            bytes: bytes as u64,
        };
        self.run("message", work, Some(message.to_vec()), None).await
    }

    /// Costs a copy of the message, and a store that gives its slot back.
    async fn receive(&self) -> RdmaResult<Vec<u8>> {
        let network = &self.handle.network;
        network.bus.turn().await;
        loop {
            match self.look_for_message() {
                Ok(Err(error)) => return Err(error),
                Ok(Ok(bytes)) => {
                    network.bus.spend(&[CoreWork::Copy(bytes as u64)]).await;
                    let message = self.shared().lock().take_message(self.handle.id);
                    if let Some(message) = message {
                        return Ok(message);
                    }
                }
                Err(wait) => {
                    wait.await;
                }
            }
        }
    }

    async fn read(&self, near: &NearEnd<LabRegion>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        let work = self.between(Operation::Read, near, far, bytes)?;
        self.run("read", work, None, Some(near.region.clone())).await
    }

    async fn write(&self, near: &NearEnd<LabRegion>, far: FarEnd, bytes: u64) -> RdmaResult<()> {
        let work = self.between(Operation::Write, near, far, bytes)?;
        self.run("write", work, None, Some(near.region.clone())).await
    }

    /// Costs a system call, and the time until the NIC is done with the connection.
    async fn close(&self) {
        let id = self.handle.id;
        self.shared().lock().close(id);
        self.handle.network.bus.spend(&[CoreWork::SystemCall]).await;
        loop {
            let wait = {
                let mut state = self.shared().lock();
                let Some(connection) = state.networks.connections.get(&id) else { return };
                if matches!(connection.life, Life::Lost(_)) {
                    return;
                }
                let (host, peer) = (connection.adapter.host, self.handle.peer.clone());
                let token = state.begin_wait(What::Closing { host, peer });
                if let Some(connection) = state.networks.connections.get_mut(&id) {
                    connection.closing.push(token);
                }
                Wait::new(self.shared().clone(), token)
            };
            wait.await;
        }
    }
}
