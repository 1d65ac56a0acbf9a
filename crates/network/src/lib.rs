// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks: [`Rdma`](crosslane_host::Rdma) over verbs, EFA, shared memory and tcp by libfabric,
//! over TCP and TLS by ourselves; and the machine's clock.
//!
//! Read first: [`Network`]. The library is loaded when one of its networks is opened first; a
//! program built with `CROSSLANE_NO_LIBFABRIC` loads none, and [`providers`] says why.
//!
//! ```
//! use crosslane_host::{Rdma, RdmaConnection, RdmaListener};
//! use crosslane_network::{MachineClock, Network, Provider};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), crosslane_host::RdmaError> {
//! let clock = MachineClock::new();
//! let network = Network::open(Provider::Tls, &clock)?;
//! futures_executor::block_on(async {
//!     let listener = network.listen("127.0.0.1:0").await?;
//!     let (address, deadline) = (listener.address(), clock.after(Duration::from_secs(5)));
//!     let (near, far) = futures_util::join!(
//!         network.connect(&address, deadline),
//!         listener.accept(),
//!     );
//!     let (near, far) = (near?, far?);
//!     near.send(b"hello").await?;
//!     assert_eq!(far.receive().await?, b"hello");
//!     Ok(())
//! })
//! # }
//! ```

mod address;
mod clock;
mod damage;
mod inbox;
mod libfabric;
mod memory;
mod network;
mod provider;
mod tls;

pub use clock::MachineClock;
pub use memory::NetworkMemory;
pub use network::{Connection, Listener, Network, Region};
pub use provider::{Provider, ProviderState, providers, summary};
pub use tls::{Certificates, SharedKey, Trust, TurnedAway};

/// The error of memory that is registered with another network than the connection's.
fn another_network(memory: &NetworkMemory) -> crosslane_host::RdmaError {
    let why = "it is registered with another network";
    crosslane_host::RdmaError::Registration {
        bytes: crosslane_host::DmaMemory::size_bytes(memory),
        why: crosslane_host::Reason::new(crosslane_host::ErrorKind::InvalidArgument, why),
    }
}
