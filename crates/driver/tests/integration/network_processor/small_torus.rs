// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab of a small torus of hosts with network processors, for tests of its driver and of the
//! communication library.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crosslane_lab::Lab;
use crosslane_pcie::units::Picoseconds;

pub const fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_ns(ns)
}

/// The lab `torus` with one size for each dimension, with few slots, so that they run out, and with
/// links that are soon up.
pub fn lab(sizes: &[u16]) -> Lab {
    let torus = crosslane_lab::open("torus").unwrap().with_torus(sizes).unwrap();
    let small = torus.edited(|file| {
        for endpoint in &mut file.endpoints {
            let part = Arc::make_mut(&mut endpoint.part);
            let processor = part.network_processor.as_mut().unwrap();
            (processor.links, processor.put_slots) = (4, 4);
            (processor.get_slots, processor.credit_slots) = (16, 32);
        }
        file.tori[0].parameters.bring_up = ns(2_000);
    });
    small.unwrap()
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
