// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices of a lab, served over vfio-user: a virtual machine, or a driver in another process,
//! finds each as a PCI function behind a Unix socket, while the lab runs free beside it.
//!
//! Read first: [`Server`]. `docs/serve.md` says what a client sees, and what it does not.
//!
//! * One thread runs the lab ([`Simulation::run_free`](crosslane_lab::Simulation::run_free)), and
//!   one thread each socket, with a second one where the client is asked for its memory. What a
//!   client asks of its device is done in the lab, one thing after the other: BARs by loads and
//!   stores of a core, all of which take simulated time; configuration space outside of it.
//! * What a device reads and writes is the memory that its client has mapped for it, and nothing
//!   else: see [`Mappings`].
//! * The addresses that clients write into BARs decide the routes in the lab, so that devices of
//!   one lab reach each other there.
//!
//! The messages are read by `crosslane_vfio::user`. The server side of the crate `vfio_user`
//! (0.1.7) is not used: a length that is too small, or a text without its end, makes it panic, and
//! what is left of a message that it refuses is read as the next one.

#![forbid(unsafe_code)]

mod ask;
mod board;
mod caller;
mod connection;
mod error;
mod function;
mod mappings;
mod placement;
mod plain;
mod server;

pub use error::{ServeError, ServeEvent};
pub use mappings::{Mappings, SharedMappings};
pub use server::{ServedDevice, Server};
