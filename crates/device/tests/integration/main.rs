// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `crosslane-device`, in one program.

mod card_memory;
mod completion_space;
mod errors;
mod fuzz_engine;
mod fuzz_memory_card;
mod fuzz_outside;
mod injected;
mod kit;
mod moves_data;
mod network_processor;
mod nic;
mod outside;
mod packets;
mod peers;
mod pipeline;
mod push;
mod rates;
mod support;
