// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-torus-link` from outside, in one program.

mod document;
mod end;
mod exhaustive;
mod fuzz_link;
mod lossy_frames;
mod rates;
mod routing;
mod support;
mod symbols;
