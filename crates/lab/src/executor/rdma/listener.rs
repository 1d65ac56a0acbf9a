// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listeners, as programs see them.

use std::fmt;

use crosslane_fabric::CoreWork;
use crosslane_host::{RdmaListener, RdmaResult};

use super::super::shared::{Wait, What};
use super::{LabConnection, LabRdma};

/// Waits for connections at a port of a host. Dropping it closes connections not yet accepted.
pub struct LabListener {
    network: LabRdma,
    port: u16,
}

impl LabListener {
    pub(super) const fn new(network: LabRdma, port: u16) -> Self {
        Self { network, port }
    }
}

impl fmt::Debug for LabListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabListener({})", self.address())
    }
}

impl RdmaListener for LabListener {
    type Connection = LabConnection;

    fn address(&self) -> String {
        format!("{}:{}", self.network.host_name(), self.port)
    }

    /// Costs a system call.
    async fn accept(&self) -> RdmaResult<LabConnection> {
        let (host, shared) = (self.network.adapter.host, &self.network.shared);
        self.network.bus.spend(&[CoreWork::SystemCall]).await;
        loop {
            let wait = {
                let mut state = shared.lock();
                if let Some((id, peer)) = state.networks.accept(host, self.port) {
                    state.set_core(id, self.network.bus.core());
                    return Ok(LabConnection::new(self.network.clone(), id, peer));
                }
                let address = self.address().into();
                let token = state.begin_wait(What::Accept(address));
                state.wait_to_accept(host, self.port, token);
                Wait::new(shared.clone(), token)
            };
            wait.await;
        }
    }
}

impl Drop for LabListener {
    fn drop(&mut self) {
        let (host, shared) = (self.network.adapter.host, &self.network.shared);
        shared.lock().stop_listening(host, self.port);
        shared.bury();
    }
}
