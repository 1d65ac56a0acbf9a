// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Has the linker keep one of all functions that have the same code. Generic code has many: without
//! it the program is a ninth larger.

use std::env::var;
use std::process::Command;

/// The first version 1.x of Rust that links for Linux on x86-64 by its own linker, which knows the
/// option; others may refuse it.
const FIRST_WITH_OWN_LINKER: u32 = 90;

fn minor_version() -> Option<u32> {
    let output = Command::new(var("RUSTC").ok()?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split('.').nth(1)?.parse().ok()
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value: &str| var(name).is_ok_and(|it| it == value);
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let has_own_linker = is("TARGET", "x86_64-unknown-linux-gnu")
        && is("HOST", "x86_64-unknown-linux-gnu")
        && !flags.contains("link")
        && !flags.contains("-fuse-ld")
        && var("RUSTC_LINKER").is_err()
        && minor_version().is_some_and(|minor| minor >= FIRST_WITH_OWN_LINKER);
    if is("PROFILE", "release") && has_own_linker {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
