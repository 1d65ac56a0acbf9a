// SPDX-License-Identifier: Apache-2.0 OR MIT
//! vfio-user: PCI functions that other processes serve over Unix sockets.
//!
//! Read first: [`open()`]; [`protocol`] for the messages, which the server's side (the crate
//! `crosslane-serve`) shares.
//!
//! The client of the crate `vfio_user` is not used: it waits forever for the payload of a refusal,
//! ignores the refusal's content, and has no deadlines.

mod client;
mod function;
mod open;
pub mod protocol;
mod reachable;
pub mod socket;
mod tree;

pub use function::UserFunction;
pub use open::{REQUEST_DEADLINE, open, open_bus};
