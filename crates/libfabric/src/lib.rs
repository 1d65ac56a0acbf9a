// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks on libfabric: [`Rdma`](crosslane_host::Rdma) over verbs, EFA, tcp and shared memory,
//! and the machine's clock.
//!
//! Read first: [`Network`]. The library is loaded when a network is opened first; a program built
//! with `CROSSLANE_NO_LIBFABRIC` loads none, and [`providers`] says why.
//!
//! ```
//! use crosslane_host::{Rdma, RdmaConnection, RdmaListener};
//! use crosslane_libfabric::{MachineClock, Network, Provider};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), crosslane_host::RdmaError> {
//! let clock = MachineClock::new();
//! let network = Network::open(Provider::Tcp, &clock)?;
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

mod clock;
mod memory;
mod network;
mod provider;

pub use clock::MachineClock;
pub use memory::NetworkMemory;
pub use network::{Connection, Listener, Network, Region, providers};
pub use provider::{Provider, ProviderState};
