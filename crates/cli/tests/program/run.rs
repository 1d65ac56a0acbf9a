// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the program as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Output of one run of the program.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self {
            code: output.status.code().expect("the program ends by itself"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Run {
    /// Runs a command to its end.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the program starts").into()
    }
}

/// The program with these arguments, separated by blanks, not yet started.
pub fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crosslane"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    // As wide as it has to be, whatever the shell says.
    command.env_remove("COLUMNS");
    command
}

/// Runs the program with these arguments, as they are written.
pub fn run_as_written(arguments: &str) -> Run {
    Run::of(&mut command(arguments))
}

/// Runs the program as written, which must succeed.
#[track_caller]
pub fn run_well(arguments: &str) -> Run {
    let run = run_as_written(arguments);
    assert_eq!(run.code, 0, "crosslane {arguments}: {run:?}");
    run
}

/// Runs the program with these arguments. Of a benchmark it leaves out the search for what holds
/// its runs: it takes many runs more, and few tests look at what comes of it.
pub fn run(arguments: &str) -> Run {
    run_as_written(&without_search(arguments))
}

fn without_search(arguments: &str) -> String {
    // Network processors have that search only if they are asked for it.
    let asks = ["bench nget", "bench halo", "bench link"];
    let is_searching = arguments.starts_with("bench ")
        && arguments.contains("--lab")
        && !asks.iter().any(|bench| arguments.starts_with(bench));
    format!("{arguments}{}", if is_searching { " --no-why" } else { "" })
}

/// Runs the program, which must succeed and keep standard error silent; its standard output.
#[track_caller]
pub fn stdout_of(arguments: &str) -> String {
    stdout_as_written(&without_search(arguments))
}

/// The same, read as JSON.
#[track_caller]
pub fn json_of(arguments: &str) -> Value {
    document(&stdout_of(arguments))
}

/// Reads what `--json` has printed: an object that contains the number of its schema.
#[track_caller]
pub fn document(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).expect("--json prints JSON");
    assert_eq!(document["schema"], 1, "{text}");
    document
}

/// Runs the program with these arguments: it ends with the code, prints nothing on standard output,
/// and says the words on standard error, however its sentences are folded.
#[track_caller]
pub fn assert_refused(arguments: &str, code: i32, words: &str) {
    let run = run_as_written(arguments);
    let found = (run.code, run.stdout.as_str());
    assert_eq!(found, (code, ""), "crosslane {arguments}: {}", run.stderr);
    let said = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(words), "crosslane {arguments}: {}", run.stderr);
}

/// Runs the program as written, which must succeed and keep standard error silent; its output.
#[track_caller]
pub fn stdout_as_written(arguments: &str) -> String {
    let run = run_as_written(arguments);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "crosslane {arguments}");
    run.stdout
}

/// A number of a JSON document.
#[track_caller]
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The numbers of a list of a JSON document.
#[track_caller]
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).iter().map(number).collect()
}

/// A new folder for the files of one test, in the build's folder for such.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    // Left over from an earlier run, or not there.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test's files");
    folder
}

/// A file with the text of a shipped lab, with some words replaced; its path.
#[track_caller]
pub fn changed_lab(test: &str, lab: &str, changes: &[(&str, &str)]) -> String {
    let mut text = stdout_of(&format!("lab show {lab} --file"));
    for (from, to) in changes {
        assert!(text.contains(from), "{lab} has {from}");
        text = text.replace(from, to);
    }
    let path = folder(test).join("lab.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}
