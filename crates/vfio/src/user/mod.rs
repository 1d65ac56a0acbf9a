// SPDX-License-Identifier: Apache-2.0 OR MIT
//! vfio-user: a PCI function that another process serves over a Unix socket.
//!
//! Read first: [`protocol`] for the messages that both ends share.

pub mod protocol;
pub mod socket;
