// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI tree of machines that lie in folders: what is read of them, and what is changed.

mod binding;
mod machine;
mod reload;
mod tree;
