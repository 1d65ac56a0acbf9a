// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--items`, `--shard` and `crosslane merge`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{Run, command, folder, run_as_written, stdout_of};

/// Runs the program in a folder.
fn run_in(folder: &Path, arguments: &str) -> Run {
    Run::of(command(arguments).current_dir(folder))
}

/// Runs it, which must succeed.
#[track_caller]
fn well(folder: &Path, arguments: &str) -> Run {
    let run = run_in(folder, arguments);
    assert_eq!(run.code, 0, "crosslane {arguments}: {run:?}");
    run
}

/// Runs it, which must end with this code, nothing shown and these words.
#[track_caller]
fn refused_with(folder: &Path, arguments: &str, code: i32, words: &str) {
    let run = run_in(folder, arguments);
    assert_eq!((run.code, run.stdout.as_str()), (code, ""), "crosslane {arguments}: {run:?}");
    assert!(run.stderr.contains(words), "crosslane {arguments}: {}", run.stderr);
}

/// Runs it, which must be refused with these words and exit code 1.
#[track_caller]
fn refused(folder: &Path, arguments: &str, words: &str) {
    refused_with(folder, arguments, 1, words);
}

/// The text of a campaign without its rate, which no two runs have in common.
fn without_rate(text: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!("{}\n{rest}", first.split("; ").next().unwrap())
}

/// Runs a command in three shards.
#[track_caller]
fn sharded(folder: &Path, arguments: &str) {
    for shard in 0..3 {
        let run = well(folder, &format!("{arguments} --items kept --shard {shard}/3"));
        assert_eq!(run.stdout, "", "{arguments}");
        assert!(run.stderr.starts_with(&format!("shard {shard}/3: ")), "{}", run.stderr);
    }
}

#[test]
fn merged_sweep_is_one_run() {
    for (name, sweep) in [
        ("engine", "--lab rosta:crosslane --way read --tags 4,8,16 --size 1K,16K"),
        ("flows", "--lab minimal --flow card0:host0:write:256,4K --link 3x4,4x8,6x16"),
    ] {
        let folder = folder(&format!("merged_sweep_is_one_run_{name}"));
        let sweep = format!("bench sweep {sweep}");
        sharded(&folder, &sweep);
        let merged = well(&folder, "merge kept --csv merged.csv --report page");
        let whole = well(&folder, &format!("{sweep} --csv whole.csv"));
        assert_eq!(merged.stdout, whole.stdout);
        let json = well(&folder, "merge kept --json");
        assert_eq!(json.stdout, well(&folder, &format!("{sweep} --json")).stdout);
        let csv = |name| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(csv("merged.csv"), csv("whole.csv"));
        assert!(folder.join("page/index.html").exists());
    }
}

#[test]
fn merged_torture_is_one_run() {
    for torture in ["torture --seeds 5..17", "torture --tori --seeds 5..8"] {
        let folder = folder("merged_torture_is_one_run");
        sharded(&folder, torture);
        let (merged, whole) = (well(&folder, "merge kept"), well(&folder, torture));
        assert_eq!(merged.stdout, without_rate(&whole.stdout));
        let json = well(&folder, "merge kept --json").stdout;
        assert_eq!(json, well(&folder, &format!("{torture} --json")).stdout);
        refused_with(&folder, "merge kept --csv rows.csv", 2, "--csv is for sweeps");
    }
}

/// A lab, and measurements that are worse than it.
fn measured(test: &str) -> PathBuf {
    let folder = folder(test);
    fs::write(folder.join("lab.toml"), stdout_of("lab show minimal --file")).unwrap();
    let flows = "flow,size,value,unit\ncard0:host0:read,64,950,ns\ncard0:host0:write,4K,3,GB/s\n";
    fs::write(folder.join("flows.csv"), flows).unwrap();
    folder
}

#[test]
fn merged_validation_is_one_run() {
    let folder = measured("merged_validation_is_one_run");
    let validate = "validate lab.toml --csv flows.csv";
    sharded(&folder, validate);
    for json in ["", " --json"] {
        let merged = well(&folder, &format!("merge kept{json}"));
        assert_eq!(merged.stdout, well(&folder, &format!("{validate}{json}")).stdout);
    }
    // The measurements of the items are not those of the file any more.
    let mut file = OpenOptions::new().append(true).open(folder.join("flows.csv")).unwrap();
    file.write_all(b"card0:host0:write,8K,3,GB/s\n").unwrap();
    let changed = "-of-3.jsonl: the lab or the measurements have changed since";
    refused(&folder, "merge kept", changed);
    refused(&folder, &format!("{validate} --items kept --shard 0/3"), changed);
}

/// Lines of a shard's file that end with a newline.
fn lines_of(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count()
}

#[test]
fn killed_shards_go_on_where_they_were() {
    let folder = folder("killed_shards_go_on_where_they_were");
    let torture = "torture --seeds 0..80";
    let shard = |index: usize| format!("{torture} --items kept --shard {index}/4");
    let path = |index: usize| folder.join(format!("kept/shard-{index}-of-4.jsonl"));
    for index in [1, 3] {
        let mut killed = command(&shard(index));
        killed.current_dir(&folder).stderr(Stdio::null());
        let mut killed = killed.spawn().unwrap();
        let begun = Instant::now();
        while lines_of(&path(index)) < 3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no item is kept");
            std::thread::sleep(Duration::from_millis(1));
        }
        if index == 1 {
            refused(&folder, &shard(1), "another process is running this shard");
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        let kept = lines_of(&path(index)) - 1;
        assert!((2..20).contains(&kept), "{kept} items when it was killed");
        // The kernel may have taken a part of a line.
        let mut file = OpenOptions::new().append(true).open(path(index)).unwrap();
        file.write_all(br#"{"item":79,"name":"se"#).unwrap();
    }
    [0, 2].iter().for_each(|index| drop(well(&folder, &shard(*index))));
    let missing = run_in(&folder, "merge kept");
    assert!(missing.stderr.contains(" of 80 items are missing: seed "), "{missing:?}");
    assert!(missing.stderr.ends_with("Run again: shard 1/4, 3/4\n"), "{missing:?}");
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    for index in [1, 3] {
        let kept = fs::read_to_string(path(index)).unwrap();
        let again = well(&folder, &shard(index)).stderr;
        let before = kept.lines().count() - 2;
        let counts = format!("shard {index}/4: {} items run, {before} were", 20 - before);
        assert!(again.starts_with(&counts), "{again}");
        let whole = kept.rsplit_once('\n').unwrap().0;
        assert!(fs::read_to_string(path(index)).unwrap().starts_with(whole), "lines stay");
    }
    let whole = well(&folder, torture);
    assert_eq!(well(&folder, "merge kept").stdout, without_rate(&whole.stdout));
}

#[test]
fn failed_seeds_are_those_of_the_merge() {
    let folder = folder("failed_seeds_are_those_of_the_merge");
    let well_done = well(&folder, "torture --seeds 3 --items kept");
    assert!(well_done.stderr.starts_with("shard 0/1: 1 items run"), "{}", well_done.stderr);
    // No seed fails; one is made to.
    let path = folder.join("kept/shard-0-of-1.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once("{\"Ok\":").unwrap();
    let failed = r#"{"Err":{"check":"Data","what":"word 7 after 9"}}}"#;
    fs::write(&path, format!("{before}{failed}\n")).unwrap();
    // The shard is done all the same.
    well(&folder, "torture --seeds 3 --items kept");
    let merged = run_in(&folder, "merge kept");
    assert_eq!(merged.code, 1);
    assert!(merged.stdout.starts_with("seeds 3..4: 1 run, 1 failed\n"), "{}", merged.stdout);
    let said = "error: seed 3: data: word 7 after 9\n  crosslane torture --seeds 3..4 --verbose\n";
    assert_eq!(merged.stderr, said);
}

#[test]
fn other_files_are_refused_by_name() {
    let folder = folder("other_files_are_refused_by_name");
    let (shard, merge) = ("torture --seeds 0..4 --items kept --shard 0/2", "merge kept");
    let path = folder.join("kept/shard-0-of-2.jsonl");
    well(&folder, shard);
    refused(&folder, merge, "2 of 4 items are missing: seed 1, seed 3. Run again: shard 1/2");
    let other = "torture --seeds 0..5 --items kept --shard";
    let not_of = "it has items of `crosslane torture --seeds 0..4`, not of `crosslane torture";
    refused(&folder, &format!("{other} 0/2"), not_of);
    refused(&folder, &format!("{other} 1/2"), not_of);
    let count = "shard-0-of-2.jsonl is of 2 shards, not of 3";
    refused(&folder, "torture --seeds 0..4 --items kept --shard 1/3", count);
    fs::copy(&path, folder.join("kept/shard-0-of-3.jsonl")).unwrap();
    refused(&folder, merge, "shard-0-of-3.jsonl is of 3 shards, not of 2");
    fs::rename(folder.join("kept/shard-0-of-3.jsonl"), folder.join("kept/copy.jsonl")).unwrap();
    for refused_one in [merge, shard] {
        refused(&folder, refused_one, "kept/copy.jsonl is not a file of --items");
    }
    fs::rename(folder.join("kept/copy.jsonl"), folder.join("kept/shard-1-of-2.jsonl")).unwrap();
    refused(&folder, merge, "shard-1-of-2.jsonl:1 is damaged: the file is that of shard 0/2");
    fs::write(folder.join("kept/shard-1-of-2.jsonl"), "way,bytes,us\n").unwrap();
    refused(&folder, merge, "shard-1-of-2.jsonl is not a file of --items");
    fs::remove_file(folder.join("kept/shard-1-of-2.jsonl")).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    for (from, to, words) in [
        ("\"tlps\":", "\"tlps\"", "jsonl:2 is damaged: expected `:`. Remove the line"),
        ("\"tlps\":", "\"tulips\":", "jsonl:2 is damaged: missing field `tlps`. Remove the line"),
        ("{\"item\":", "{\"item\":1", "is not of shard 0/2"),
        ("\"version\":\"", "\"version\":\"9", "of crosslane wrote it, and this is version"),
        ("_items\":1", "_items\":7", "jsonl:1 is damaged: its format is 7, not 1"),
    ] {
        assert!(whole.contains(from), "{whole}");
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        refused(&folder, merge, words);
        fs::write(&path, &whole).unwrap();
    }
    // A file without an item may become that of other work.
    let first = whole.split_inclusive('\n').next().unwrap();
    fs::write(&path, first).unwrap();
    refused(&folder, merge, "kept has no items");
    well(&folder, &format!("{other} 0/2"));
}

/// A limit on the size of files is as good as a full disk: a part of a line is written, then none.
#[test]
fn full_disk_keeps_whole_items() {
    let folder = folder("full_disk_keeps_whole_items");
    let torture = "torture --seeds 0..12 --items kept";
    let program = env!("CARGO_BIN_EXE_crosslane");
    let script = format!("trap '' XFSZ; ulimit -f 4; exec {program} {torture}");
    let run = Run::of(Command::new("sh").args(["-c", &script]).current_dir(&folder));
    let path = folder.join("kept/shard-0-of-1.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let kept = text.lines().count() - 1;
    assert!(text.ends_with('\n') && (1..12).contains(&kept), "{text}");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    let said = "error: kept/shard-0-of-1.jsonl cannot be written: File too large; ";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
    let again = well(&folder, torture).stderr;
    assert!(again.contains(&format!("{} items run, {kept} were there", 12 - kept)), "{again}");
    well(&folder, "merge kept");
}

#[test]
fn folder_that_cannot_be_made_is_refused() {
    let file = folder("folder_that_cannot_be_made_is_refused").join("file");
    fs::write(&file, "").unwrap();
    let run = run_as_written(&format!("torture --seeds 0..2 --items {}", file.display()));
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert!(run.stderr.contains("cannot be written: File exists"), "{}", run.stderr);
}
