// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks this crate's declarations of libfabric against libfabric's own headers.

use std::process::Command;

/// Returns compiler options for libfabric's headers; `None` if they are not installed.
fn options() -> Option<Vec<String>> {
    let asked = Command::new("pkg-config").args(["--cflags", "libfabric"]).output().ok();
    let told = asked.filter(|output| output.status.success());
    let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match told {
        Some(told) => Some(told.split_whitespace().map(str::to_owned).collect()),
        None => std::path::Path::new("/usr/include/rdma/fabric.h").exists().then(Vec::new),
    }
}

#[test]
fn declarations_agree_with_the_headers() {
    let Some(options) = options() else {
        println!("left out: libfabric's headers are not installed");
        return;
    };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/abi.c");
    let compile = |more: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        compiler.args(&options).args(more).arg(file).output().expect("there is a C compiler")
    };
    let same = compile(&[]);
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stderr));
    // A wrong value would be found.
    let other = compile(&["-DWRONG_VALUE"]);
    let words = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && words.contains("EAVAIL"), "{words}");
}
