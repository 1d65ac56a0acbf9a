// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver against the engine's model, on whole labs: tests use the public interface, and check
//! every byte moved.

mod card_memory;
mod faults;
mod iommu;
mod lies;
mod packets;
mod peer_memory;
mod peers;
mod plans;
mod proxy;
mod push;
mod refusals;
mod removal;
pub mod setup;
mod transfers;
