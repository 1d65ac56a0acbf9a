// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench mmio`, as the program shows it.

use crate::run::{folder, run_as_written, stdout_as_written, stdout_of};

/// The paper's first experiment: 16 integers, which are 16 writes or one.
#[test]
fn sixteen_integers_are_sixteen_writes_or_one() {
    let page = stdout_of("bench mmio --lab aws-f1");
    assert!(page.ends_with("0  16 of 4 B\n"), "{page}");
    let page = stdout_of("bench mmio --lab aws-f1 -w -v");
    assert!(page.contains("0  1 of 64 B\n"), "{page}");
    assert!(page.contains("fence behind it: "), "{page}");
    assert!(!page.contains("Why not faster"), "{page}");
}

#[test]
fn a_page_says_what_holds_the_stores() {
    let page = &stdout_as_written("bench mmio --lab aws-f1 -i 4096");
    let begin = page.find("Why not faster\n\n").unwrap_or_else(|| panic!("{page}"));
    let lines: Vec<&str> = page[begin..].lines().skip(2).collect();
    let uncached = "bottleneck: uncached stores of host0, each of which is a write of its own; ";
    assert!(lines[0].starts_with(uncached), "{page}");
    assert!(lines[1].starts_with("then: the library's loop of 4 B; stores of 32 B"), "{page}");
}

/// JSON is that of the other benchmarks: runs can be compared.
#[test]
fn two_runs_can_be_compared() {
    let folder = folder("two_runs_can_be_compared");
    let files = [("a", "-i 4096 -w"), ("b", "-i 4096 -w -p 4")].map(|(name, arguments)| {
        let run = run_as_written(&format!("bench mmio --lab aws-f1 {arguments} --json"));
        let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        let flow = &document["scenarios"][0]["flows"][0];
        assert_eq!((&flow["name"], &flow["wrong_words"]), (&"burst-wc".into(), &0.into()));
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, document.to_string()).unwrap();
        path.display().to_string()
    });
    let page = stdout_of(&format!("compare {} {}", files[0], files[1]));
    let row = page.lines().find(|line| line.starts_with("burst-wc")).unwrap_or_default();
    assert!(row.contains("16 KiB") && row.contains("MB/s"), "{page}");
    assert!(page.contains("16 KiB: the library's loop of 4 B"), "{page}");
}

#[test]
fn size_is_bytes_of_the_integers() {
    let integers = stdout_of("bench mmio --lab aws-f1 --integers 1024 --passes 3");
    assert_eq!(stdout_of("bench mmio --lab aws-f1 --size 4K --iterations 3"), integers);
}
