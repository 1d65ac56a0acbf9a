// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that bolero replays a committed corpus: it finds the folder by the names of module and
//! function, and is silent if none matches. `crates/cli/tests/tidy.rs` checks that every committed
//! folder has such a name.

use std::sync::Mutex;

/// Not named `fuzz_*`, so that `make fuzz` and `make corpus` leave it alone.
#[test]
#[cfg_attr(target_family = "wasm", ignore = "bolero looks for it from a folder of its own")]
fn corpus_is_replayed() {
    let inputs = Mutex::new(Vec::new());
    bolero::check!().with_iterations(0).for_each(|bytes: &[u8]| {
        inputs.lock().unwrap().push(bytes.to_vec());
    });
    assert_eq!(inputs.into_inner().unwrap(), [b"replayed"]);
}
