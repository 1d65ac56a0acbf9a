// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the shim over libfabric, without the library's headers. The library is loaded only when
//! a network is opened.
//!
//! * `CROSSLANE_NO_LIBFABRIC`: build without libfabric.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim/abi.h");
    println!("cargo::rerun-if-changed=shim/shim.c");
    println!("cargo::rerun-if-env-changed=CROSSLANE_NO_LIBFABRIC");
    if std::env::var_os("CROSSLANE_NO_LIBFABRIC").is_some_and(|value| value != "0") {
        println!("cargo::rustc-env=CROSSLANE_WITHOUT=it was built with CROSSLANE_NO_LIBFABRIC set");
        return;
    }
    let mut compiler = cc::Build::new();
    compiler.file("shim/shim.c").std("gnu11").warnings(true).extra_warnings(true);
    compiler.compile("crosslane_libfabric_shim");
    println!("cargo::rustc-link-lib=dl");
    println!("cargo::rustc-cfg=has_libfabric");
}
