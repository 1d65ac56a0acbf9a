// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks on libfabric: [`Rdma`](crosslane_host::Rdma) over verbs, EFA, tcp and shared memory,
//! and the machine's clock.
//!
//! Read first: [`Network`]. In a build with `CROSSLANE_NO_LIBFABRIC` all of this exists but no
//! network opens, and [`providers`] says why.
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
mod provider;

#[cfg(has_libfabric)]
mod real;
#[cfg(has_libfabric)]
pub use real::{Connection, Listener, Network, Region, providers};

#[cfg(not(has_libfabric))]
mod absent;
#[cfg(not(has_libfabric))]
pub use absent::{Connection, Listener, Network, Region, providers};

pub use clock::MachineClock;
pub use memory::NetworkMemory;
pub use provider::{Provider, ProviderState};
