// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab devices served over vfio-user: a virtual machine, or a driver in another process, finds each
//! as a PCI function behind a Unix socket, while the lab runs free beside it.
//!
//! Read first: [`Server`]. `docs/serve.md` describes what a client sees, and what it does not.
//!
//! * One thread runs the lab ([`Simulation::run_free`](crosslane_lab::Simulation::run_free)), and
//!   one thread each socket, one for its client, and another one if the client is asked for its
//!   memory. A client's requests are carried out in the lab, one after the other: BARs by loads
//!   and stores of a core, all of which take simulated time; configuration space outside
//!   simulated time.
//! * A device reads and writes only the memory that its client has mapped for it: see [`Mappings`].
//! * The addresses that clients write into BARs set the routes in the lab, so that devices of one
//!   lab reach each other there.
//!
//! `crosslane_vfio::user` parses the messages. The server side of the crate `vfio_user` (0.1.7) is
//! not used: a length that is too small, or an unterminated text, makes it panic, and the rest of a
//! message that it refuses is parsed as the next one.

#![forbid(unsafe_code)]

mod ask;
mod board;
mod caller;
mod connection;
mod error;
mod event_log;
mod function;
mod mappings;
mod options;
mod placement;
mod plain;
mod server;
mod waiting;

pub use error::{ServeError, ServeEvent};
pub use event_log::EventLog;
pub use mappings::{Mappings, Quota, SharedMappings};
pub use options::{ServeOptions, raise_limit_of_files};
pub use server::{ServedDevice, Server, free_socket};
