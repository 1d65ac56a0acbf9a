// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `validate` and `calibrate` with one's own measurements.

use std::fs;

use crate::run::{folder, json_of, number, run_as_written, run_well, stdout_of};

const ROWS: &str = "\
flow,size,value,unit,outstanding,tolerance,note
card0:host0:read,64,950,ns,,0.05,one at a time
card0:host0:read,512,1100,ns,,0.05,
card0:host:read,64,68,MB/s,1,,
card0:host0:read,2K,1.5,us,,,\"with a comma, in quotes\"
card0:host0:write,4K,3.5,GB/s,,,
";

/// A lab file that names its measurements, and a calibration that writes another one.
#[test]
fn own_measurements_are_compared_and_fitted() {
    let folder = folder("own_measurements_are_compared_and_fitted");
    let at = |name: &str| folder.join(name).display().to_string();
    let lab = stdout_of("lab show minimal --file") + "\n[[measurements]]\nfile = \"data/m.csv\"\n";
    fs::create_dir(folder.join("data")).unwrap();
    fs::write(folder.join("data/m.csv"), ROWS).unwrap();
    fs::write(folder.join("my-lab.toml"), &lab).unwrap();

    let json = json_of(&format!("validate {} --json", at("my-lab.toml")));
    let set = &json["sets"][0];
    assert_eq!((&set["set"], &set["file"]), (&at("my-lab.toml").into(), &at("data/m.csv").into()));
    let rows = set["measured"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[3]["note"]), (5, &"with a comma, in quotes".into()));
    assert!(rows.iter().all(|row| row["kind"] == "predicted"));
    assert!(number(&rows[0]["error"]) < -0.1, "{set}");
    assert_eq!(rows[0]["moved_by"], "part.host.memory.read_latency_ns");
    assert_eq!(set["outside"][0], "row 1 (card0:host0:read:64, latency)");

    let calibrate = |more: &str| {
        let (lab, rows) = (at("my-lab.toml"), at("data/m.csv"));
        format!("calibrate {lab} {rows} --fit part.host.memory.read_latency_ns --rows 1-3 {more}")
    };
    let json = json_of(&calibrate("--json"));
    let constant = &json["constants"][0];
    assert_eq!((number(&constant["before"]), &json["fitted_rows"][2]), (200.0, &3.into()));
    // As much more as the shortest read is slower than it was.
    let slower = 950.0 - number(&rows[0]["simulated"]);
    let more = number(&constant["value"]) - 200.0;
    assert!((more / slower - 1.0).abs() < 0.1, "{more} {slower}");
    let report = format!("--report {}", at("page"));
    let run = run_well(&calibrate(&format!("--write {} {report}", at("fitted.toml"))));
    let page = fs::read_to_string(folder.join("page/index.html")).unwrap();
    for words in ["inside their intervals", "Predicted", "part.host.memory.read_latency_ns"] {
        assert!(page.contains(words), "{words} is not on the page");
    }
    assert!(run.stderr.contains("fitted.toml"), "{}", run.stderr);
    assert!(run.stdout.contains("measurements: 2 of 2\n"), "{}", run.stdout);
    let fitted = fs::read_to_string(folder.join("fitted.toml")).unwrap();
    assert!(fitted.starts_with("# Calibrated by `crosslane calibrate "), "{fitted}");
    assert!(fitted.contains("source = \"fit: rows 1-3 of m.csv\""), "{fitted}");

    let page = stdout_of(&format!("validate {} --csv {}", at("fitted.toml"), at("data/m.csv")));
    let kinds = |page: &str| page.lines().filter(|line| line.contains("  fit ")).count();
    assert_eq!(kinds(&page), 3, "{page}");
    // A lab that the user has written is not replaced, one of an earlier calibration is.
    let refused = run_as_written(&calibrate(&format!("--write {}", at("my-lab.toml"))));
    assert!(refused.code == 1 && refused.stderr.contains("it is not replaced"), "{refused:?}");
    assert_eq!(fs::read_to_string(folder.join("my-lab.toml")).unwrap(), lab);
    run_well(&calibrate(&format!("--write {}", at("fitted.toml"))));
}

#[test]
fn bad_measurements_are_refused_with_their_place() {
    let folder = folder("bad_measurements_are_refused_with_their_place");
    let file = folder.join("bad.csv").display().to_string();
    for (row, sentence) in [
        ("card9:host:read,64,1", "line 2, column flow: the lab has no card9; it has host0, card0"),
        ("card0:host:read,64Q,1", "line 2, column size: 64Q is not a size"),
        ("card0:host:read,64", "line 2: 2 fields; the heading has 3"),
        ("\"card0:host:read,64,1", "line 2: a quote is open"),
    ] {
        fs::write(&file, format!("flow,size,value\n{row}\n")).unwrap();
        for command in [
            format!("validate minimal --csv {file}"),
            format!("calibrate minimal {file} --fit part.host.memory.read_latency_ns --rows 1"),
        ] {
            let run = run_as_written(&command);
            let expected = format!("error: {file}, {sentence}");
            let said = run.stderr.starts_with(&expected);
            assert!(run.code == 1 && said && run.stdout.is_empty(), "{command}: {run:?}");
        }
    }
    let lab = folder.join("lab.toml");
    fs::write(&lab, stdout_of("lab show minimal --file")).unwrap();
    let run = run_as_written(&format!("validate {}", lab.display()));
    let expected = "names no measurements: give --csv FILE";
    assert!(run.code == 1 && run.stderr.contains(expected), "{run:?}");
}
