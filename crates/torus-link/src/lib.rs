// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link between two network processors of a torus: frames, sequence numbers and retry, credits
//! of eight channels, 8b/10b lanes and their training, 64b/66b blocks, routing. All of it is pure:
//! symbols or frames and the time in, symbols or frames out; no I/O, no clock.
//!
//! Read first: `docs/torus-link.md`, which defines every bit and rule. [`LinkEnd`] is the data link
//! at the level of frames, for simulators of many nodes.

#![forbid(unsafe_code)]

pub mod block;
pub mod code;
pub mod end;
pub mod frame;
pub mod lanes;
pub mod pattern;
pub mod routing;
pub mod wire;

pub use end::{Counters, EndParameters, LinkEnd};
pub use frame::{Channel, Command, Damaged, Datagram, Frame, Header, Kind, Operation, Payload};
pub use lanes::{Port, PortState};
