// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library as it is installed: built once for all tests, from the archive that cargo has made
//! beside them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::header::{crate_folder, declared};

/// The installed library, which goes when the tests have ended.
pub struct Installed {
    _folder: tempfile::TempDir,
    pub prefix: PathBuf,
}

/// Runs a command, and returns what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, error] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{out}{error}", output.status);
    out
}

/// Returns the archive of this build: cargo leaves it beside the tests, with a hash in its name.
fn archive() -> PathBuf {
    let tests = std::env::current_exe().expect("a program has a path");
    let folder = tests.parent().expect("a program is in a folder");
    let built = fs::read_dir(folder).expect("the folder of the tests").flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("libcrosslane_capi-")
            && Path::new(&name).extension() == Some(OsStr::new("a"))
    });
    let changed = |entry: &fs::DirEntry| entry.metadata().and_then(|data| data.modified()).ok();
    built.max_by_key(changed).expect("cargo builds the archive with the tests").path()
}

/// Installs the library.
pub fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder for the library");
        let prefix = folder.path().join("usr");
        let mut install = Command::new(crate_folder().join("install.sh"));
        // The gateware, which the archive may have, is C++.
        run(install.env("LDLIBS", "-lstdc++").arg(archive()).arg(&prefix));
        Installed { _folder: folder, prefix }
    })
}

impl Installed {
    /// Asks pkg-config how to compile and link.
    pub fn flags(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig"));
        let flags = run(command.args(arguments).arg("crosslane"));
        flags.split_whitespace().map(str::to_owned).collect()
    }

    pub fn libraries(&self) -> PathBuf {
        self.prefix.join("lib")
    }
}

/// Whether a program is on the machine.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Symbols of the version script.
fn scripted() -> Vec<String> {
    let text = fs::read_to_string(crate_folder().join("crosslane.map")).expect("a version script");
    let names = text.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let names = names.filter(|name| name.starts_with("crosslane_"));
    names.map(str::to_owned).collect()
}

#[test]
fn only_the_headers_functions_leave_the_library() {
    let (mut scripted, declared) = (scripted(), declared());
    scripted.sort();
    assert!(declared.len() > 40, "{declared:?}");
    assert_eq!(scripted, declared, "crosslane.map and the header");
    let library = installed().libraries().join("libcrosslane.so");
    let listed = run(Command::new("nm")
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(&library));
    let mut exported: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|symbol| *symbol != "CROSSLANE_0.1")
        .collect();
    exported.sort_unstable();
    let wanted: Vec<String> =
        declared.iter().map(|name| format!("{name}@@CROSSLANE_0.1")).collect();
    assert_eq!(exported, wanted);
}

#[test]
fn library_has_its_name_and_version() {
    let installed = installed();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(installed.flags(&["--modversion"]), [version]);
    let library = installed.libraries().join(format!("libcrosslane.so.{version}"));
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("soname: [libcrosslane.so.0]"), "{dynamic}");
    for link in ["libcrosslane.so", "libcrosslane.so.0"] {
        let target = installed.libraries().join(link).canonicalize().expect("a link");
        assert_eq!(target, library.canonicalize().expect("the library"));
    }
}
