// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leaves libfabric out if `CROSSLANE_NO_LIBFABRIC` is set to anything but 0, and says so.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CROSSLANE_NO_LIBFABRIC");
    println!("cargo::rustc-check-cfg=cfg(no_libfabric)");
    if std::env::var_os("CROSSLANE_NO_LIBFABRIC").is_some_and(|value| value != "0") {
        println!("cargo::rustc-cfg=no_libfabric");
        println!(
            "cargo::warning=CROSSLANE_NO_LIBFABRIC is set: the only network of this build is tls"
        );
    }
}
