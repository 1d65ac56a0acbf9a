// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks for libfabric. Where its headers are there the shim over it is compiled, else the crate
//! is one whose networks say that it was built without.
//!
//! * `CROSSLANE_NO_LIBFABRIC`: build without it even where it is there.

/// The oldest version that has what is asked of it.
const OLDEST: &str = "1.17";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim/shim.c");
    println!("cargo::rerun-if-env-changed=CROSSLANE_NO_LIBFABRIC");
    if std::env::var_os("CROSSLANE_NO_LIBFABRIC").is_some_and(|value| value != "0") {
        println!("cargo::rustc-env=CROSSLANE_WITHOUT=it was built with CROSSLANE_NO_LIBFABRIC set");
        return;
    }
    // Only the headers count: the library is loaded when the program asks for a network.
    let found =
        pkg_config::Config::new().atleast_version(OLDEST).cargo_metadata(false).probe("libfabric");
    let includes = match found {
        Ok(library) => library.include_paths,
        Err(pkg_config::Error::Failure { .. } | pkg_config::Error::ProbeFailure { .. }) => {
            return without("libfabric 1.17 or newer was not there when it was built");
        }
        // No pkg-config: the compiler may find it where everything is.
        Err(_) if headers_are_there() => Vec::new(),
        Err(_) => return without("libfabric's headers were not there when it was built"),
    };
    let mut compiler = cc::Build::new();
    compiler.file("shim/shim.c").std("gnu11").warnings(true).extra_warnings(true);
    // Of the library's headers nothing is said.
    for include in includes {
        compiler.flag("-isystem").flag(include);
    }
    compiler.compile("crosslane_libfabric_shim");
    println!("cargo::rustc-link-lib=dl");
    println!("cargo::rustc-cfg=has_libfabric");
}

fn without(why: &str) {
    println!(
        "cargo::rustc-env=CROSSLANE_WITHOUT={why} (Debian: packages libfabric-dev and pkg-config)"
    );
}

fn headers_are_there() -> bool {
    let out = std::env::var("OUT_DIR").unwrap_or_else(|_| panic!("cargo sets OUT_DIR"));
    let probe = std::path::Path::new(&out).join("probe.c");
    let text = "#include <rdma/fabric.h>\n#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 17\n\
                #error \"too old\"\n#endif\n";
    let written = std::fs::write(&probe, text);
    written.is_ok() && cc::Build::new().cargo_metadata(false).file(&probe).try_expand().is_ok()
}
