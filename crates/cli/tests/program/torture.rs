// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane torture`.

use crate::run::{folder, json_of, run, stdout_of};

#[test]
fn seeds_are_run_and_counted() {
    let report = json_of("torture --seeds 0..4 --json");
    assert_eq!((report["seeds"].as_u64(), report["failed"].as_u64()), (Some(4), Some(0)));
    assert!(report["words"].as_u64() > Some(1_000) && report["faults"]["deadline"].is_u64());
    assert_eq!(report, json_of("torture --seeds 0..4 --json"));
    let page = stdout_of("torture --seeds 3 --lab minimal");
    assert!(page.starts_with("seeds 3..4: 1 run, 0 failed; "), "{page}");
}

#[test]
fn one_seed_is_told_and_its_lab_is_written() {
    let path = folder("torture").join("lab.toml");
    // A seed whose lab is made up, so that the file alone is the lab.
    let seed = (0..8).find(|seed| {
        let run = run(&format!("torture --seeds {seed} --write-lab {}", path.display()));
        assert_eq!(run.code, 0, "{run:?}");
        run.stderr.is_empty()
    });
    let seed = seed.expect("one of them has no variant");
    let own = run(&format!("torture --seeds {seed} --verbose"));
    assert!(own.stderr.contains("[lab]") && own.stderr.contains(": open: "), "{own:?}");
    let report = json_of(&format!("torture --seeds {seed} --json"));
    let written = json_of(&format!("torture --seeds {seed} --json --lab {}", path.display()));
    assert_eq!(written, report);
}
