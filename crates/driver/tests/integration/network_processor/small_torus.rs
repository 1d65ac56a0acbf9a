// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab file of a small torus of hosts with network processors, for tests of its driver and of the
//! communication library.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crosslane_lab::Lab;
use crosslane_pcie::units::Picoseconds;

/// Parts without nodes.
const PARTS: &str = include_str!("parts.toml");

pub const fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_ns(ns)
}

/// Hosts and cards of a torus with one size for each dimension.
pub fn lab(sizes: &[u16]) -> Lab {
    let nodes: u16 = sizes.iter().product();
    let text = format!(
        "{PARTS}
[[host]]
name = \"node{{1..{nodes}}}\"
part = \"host\"
buffers = {{ value = \"below-4-gib\", source = \"assumption: an IOMMU\" }}
[[endpoint]]
name = \"fpga{{1..{nodes}}}\"
part = \"fpga\"
[[link]]
upper = \"node{{1..{nodes}}}\"
lower = \"fpga{{1..{nodes}}}\"
part = \"slot\"
[[torus]]
nodes = \"fpga{{1..{nodes}}}\"
sizes = {sizes:?}
part = \"cable\"
"
    );
    Lab::from_text("small-torus.toml", &text).unwrap()
}

/// Bytes that differ from message to message.
pub fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    let mut random = crosslane_random::Random::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// Polls a future at most `polls` times, then drops it.
pub async fn limited<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // After the last poll it is dropped at once.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
