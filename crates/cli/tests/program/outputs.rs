// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands write: tried before the work, complete or not there, and never in place of
//! something else.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::{command, folder, run_as_written, run_well};

/// A sweep that takes no time.
const SWEEP: &str = "bench sweep --lab rosta:crosslane --way write --size 1K --iterations 2";
/// A run that takes minutes.
const LONG: &str =
    "bench traffic --lab minimal --flow card0:host:write:64 --operations 100000000 --no-why";

/// Every name in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn output_that_cannot_be_is_said_before_the_run() {
    let folder = folder("output_that_cannot_be_is_said_before_the_run");
    fs::write(folder.join("file"), "not a folder").unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    for (arguments, complaint) in [
        ("reproduce rosta --report /dev/null".to_owned(), "the folder /dev/null cannot be made"),
        (format!("{LONG} --report /proc/nope"), "the folder /proc/nope cannot be made"),
        (format!("{LONG} --report {}", at("file/below")), "cannot be made: Not a directory\n"),
        (format!("{LONG} --trace {}", at("none/x.pftrace")), "cannot be written: No such file"),
        (format!("{SWEEP} --csv {}", at("none/x.csv")), "cannot be written: No such file"),
        (format!("{SWEEP} --csv {}", at("")), "cannot be written: "),
        (format!("topo rosta --svg {}", at("none/x.svg")), "cannot be written: No such file"),
        (format!("manual {}", at("file")), "cannot make the folder "),
    ] {
        let begun = Instant::now();
        let run = run_as_written(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(complaint), "{arguments}: {}", run.stderr);
        assert!(!run.stderr.contains("os error"), "{arguments}: {}", run.stderr);
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments} has run");
    }
    assert_eq!(names(&folder), ["file"]);
}

#[test]
fn foreign_files_are_not_replaced() {
    let folder = folder("foreign_files_are_not_replaced");
    let file = folder.join("index.html");
    let mine = "<html>mine</html>";
    let (place, path) = (folder.display(), file.display());
    for arguments in [
        format!("{SWEEP} --report {place}"),
        format!("{SWEEP} --csv {path}"),
        format!("topo rosta --svg {path}"),
        format!("torture --seeds 17 --write-lab {path}"),
        format!("bench traffic --lab minimal --flow card0:host:write:4K --no-why --trace {path}"),
    ] {
        fs::write(&file, mine).unwrap();
        let run = run_as_written(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{arguments}: {}", run.stderr);
        let words = "index.html is there and is not ";
        assert!(run.stderr.contains(words), "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains("Remove it, or name another f"), "{}", run.stderr);
        assert_eq!(fs::read_to_string(&file).unwrap(), mine, "{arguments}");
        assert_eq!(names(&folder), ["index.html"], "{arguments}");
    }
    fs::write(folder.join("crosslane-topo.1"), mine).unwrap();
    let run = run_as_written(&format!("manual {place}"));
    assert!(run.stderr.contains("is not a page of crosslane's manual"), "{}", run.stderr);
    assert_eq!(names(&folder), ["crosslane-topo.1", "index.html"], "no other page");
}

#[test]
fn own_files_are_replaced() {
    let folder = folder("own_files_are_replaced");
    let at = |name: &str| folder.join(name).display().to_string();
    let traffic = "bench traffic --lab minimal --flow card0:host:write:4K --operations 8 --no-why";
    for _ in 0..2 {
        for arguments in [
            format!("{SWEEP} --csv {} --report {}", at("rows.csv"), at("page")),
            format!("topo rosta --svg {}", at("tree.svg")),
            format!("manual {}", at("man")),
            format!("manual --markdown {}", at("md")),
            format!("torture --seeds 17 --write-lab {}", at("lab.toml")),
            format!("{traffic} --trace {}", at("run.pftrace")),
        ] {
            run_well(&arguments);
        }
    }
    assert_eq!(
        names(&folder),
        ["lab.toml", "man", "md", "page", "rows.csv", "run.pftrace", "tree.svg"]
    );
    assert_eq!(names(&folder.join("page")), ["index.html"]);
    // Devices are written as they are, and links followed.
    std::os::unix::fs::symlink("rows.csv", folder.join("link.csv")).unwrap();
    fs::write(folder.join("rows.csv"), "").unwrap();
    for to in ["/dev/null", &at("link.csv")] {
        run_well(&format!("{SWEEP} --csv {to}"));
    }
    let rows = fs::read_to_string(folder.join("rows.csv")).unwrap();
    assert!(rows.contains("bytes,us\nwrite,"), "{rows}");
    assert!(fs::symlink_metadata(folder.join("link.csv")).unwrap().is_symlink());
}

#[test]
fn failed_run_leaves_nothing_behind() {
    let folder = folder("failed_run_leaves_nothing_behind");
    let (rows, page) = (folder.join("rows.csv"), folder.join("new/page"));
    let files = format!("--csv {} --report {}", rows.display(), page.display());
    let run = run_as_written(&format!("{SWEEP} --mps 4096 {files}"));
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));
}

#[test]
fn ended_run_leaves_no_half_file() {
    let folder = folder("ended_run_leaves_no_half_file");
    let (trace, page) = (folder.join("run.pftrace"), folder.join("new/page"));
    let files = format!("--trace {} --report {}", trace.display(), page.display());
    let mut long = command(&format!("{LONG} {files}"));
    let mut child = long.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let is_written = || {
        let entries = fs::read_dir(&folder).unwrap().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .any(|file| file.is_file() && file.len() > 0)
    };
    while !is_written() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the trace is begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!trace.exists(), "it has its name when it is complete");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));
}

#[test]
fn bridge_get_keeps_its_file_until_it_has_another() {
    let folder = folder("bridge_get_keeps_its_file_until_it_has_another");
    let file = folder.join("precious");
    fs::write(&file, "precious").unwrap();
    let input = folder.join("input");
    fs::write(&input, "data").unwrap();
    let (path, input) = (file.display(), input.display());
    // Nobody listens at port 1.
    for arguments in [
        format!("bridge get 127.0.0.1:1/fpga0:0x0 {path} --bytes 64"),
        format!("bridge roundtrip {input} 127.0.0.1:1/fpga0 --output {path}"),
    ] {
        let run = run_as_written(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{arguments}: {}", run.stderr);
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious", "{arguments}");
        assert_eq!(names(&folder), ["input", "precious"], "{arguments}");
    }
}
