// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--engine rtl`: the gateware in the place of engines, where it is built (feature `rtl`).

#[cfg(feature = "rtl")]
mod built;
#[cfg(feature = "rtl")]
mod routed;

use crate::run::{assert_refused, folder};

/// Whether the program has it.
const IS_BUILT: bool = cfg!(feature = "rtl");

#[test]
fn what_the_program_does_not_have_is_said() {
    let file = folder("gateware").join("t.fst");
    let traced = format!("--trace-fst {}", file.display());
    let cases = [
        ("--lab minimal --engine rtl".to_owned(), 2, "`make rtl` builds one", !IS_BUILT),
        (format!("--lab minimal {traced}"), 2, "--trace-fst is of the gateware", true),
        (
            format!("--lab minimal --engine rtl {traced}"),
            1,
            "--features rtl-trace",
            IS_BUILT && !cfg!(feature = "rtl-trace"),
        ),
        ("--lab rosta --engine rtl".to_owned(), 1, "headers go through the datapath", IS_BUILT),
    ];
    for (arguments, code, why, is_wanted) in cases {
        if is_wanted {
            let arguments = format!("bench write --size 4K --iterations 16 {arguments}");
            assert_refused(&arguments, code, why);
        }
    }
}
