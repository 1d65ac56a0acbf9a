// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI tree of machines in folders: reading and changing it.

mod binding;
mod machine;
mod reload;
mod tree;
