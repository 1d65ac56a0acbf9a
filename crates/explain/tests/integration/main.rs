// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-explain` from outside, in one program.

mod accounts;
mod bridge;
mod card_memory;
mod document;
mod network;
mod planted;
mod stores;
