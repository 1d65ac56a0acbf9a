// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions by the shell, and the names that they know.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{Run, folder, stdout_of};

/// Whether a shell is installed; in CI it has to be.
fn has(shell: &str) -> bool {
    let is_there = Command::new(shell).args(["-c", "true"]).output().is_ok();
    assert!(is_there || std::env::var_os("CROSSLANE_CI").is_none(), "{shell} is not installed");
    if !is_there {
        eprintln!("not tried: {shell} is not installed");
    }
    is_there
}

/// Words that a shell prints, of each line the first.
fn printed(shell: &mut Command) -> Vec<String> {
    let run = Run::of(shell);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let first = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    run.stdout.lines().map(first).filter(|word| !word.is_empty()).collect()
}

/// Returns the words that bash offers for a line typed so far.
fn offered_by_bash(script: &Path, line: &str) -> Vec<String> {
    let program = "source \"$1\"; COMP_LINE=\"$2\"; COMP_POINT=${#2}; COMP_WORDBREAKS=':'; \
                   _crosslane_joined crosslane; printf '%s\\n' \"${COMPREPLY[@]}\"";
    printed(Command::new("bash").args(["-c", program, "bash"]).arg(script).arg(line))
}

/// Returns the words that fish offers.
fn offered_by_fish(script: &Path, line: &str) -> Vec<String> {
    let program = "source $argv[1]; complete -C $argv[2]";
    printed(Command::new("fish").args(["--no-config", "-c", program]).arg(script).arg(line))
}

/// Returns the words that zsh offers.
fn offered_by_zsh(script: &Path, line: &str) -> Vec<String> {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/offered.zsh");
    let file = script.with_extension("offered");
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", driver]).arg(script.parent().unwrap()).arg(&file).arg(line);
    let said = printed(&mut zsh).join("\n");
    assert!(!said.contains("_crosslane:"), "{line}: {said}");
    let offered = fs::read_to_string(file).unwrap();
    offered.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Lines that are typed so far, and the first words that are offered for them.
const TYPED: [(&str, &[&str]); 8] = [
    ("crosslane topo kc705:n", &["kc705:narrow", "kc705:next"]),
    ("crosslane bench write --lab sb", &["sbdt", "sbdt:crosslane"]),
    ("crosslane bench write --device lab:sbdt:", &["lab:sbdt:crosslane"]),
    ("crosslane bench p2p --from fpga1", &["fpga1", "fpga10", "fpga11"]),
    ("crosslane reproduce ro", &["rosta"]),
    ("crosslane validate pciebench:", &["pciebench:iommu"]),
    ("crosslane lab show tor", &["torus"]),
    ("crosslane bench ov", &["overhead"]),
];

#[test]
fn shells_complete_labs_variants_reproductions() {
    type Offered = fn(&Path, &str) -> Vec<String>;
    let shells: [(&str, &str, Offered); 3] = [
        ("bash", "crosslane.bash", offered_by_bash),
        ("fish", "crosslane.fish", offered_by_fish),
        ("zsh", "_crosslane", offered_by_zsh),
    ];
    let folder = folder("shells_complete");
    fs::write(folder.join("rosta-rows.csv"), "").unwrap();
    for (shell, script, offered) in shells.into_iter().filter(|(shell, ..)| has(shell)) {
        let script = folder.join(script);
        fs::write(&script, stdout_of(&format!("completions {shell}"))).unwrap();
        for (line, words) in TYPED {
            let offered = offered(&script, line);
            // Bash has parted the word at the colon, and offers what is behind it.
            let word = |word: &&str| match shell {
                "bash" => word.rsplit(':').next().unwrap_or(word).to_owned(),
                _ => (*word).to_owned(),
            };
            let words: Vec<String> = match line.contains(':') {
                true => words.iter().map(word).collect(),
                false => words.iter().map(|word| (*word).to_owned()).collect(),
            };
            assert!(offered.starts_with(&words), "{shell}, {line}: {offered:?}");
        }
        // A lab may be a file too, a reproduction not.
        let topo = format!("crosslane topo {}/rosta-", folder.display());
        let files = offered(&script, &topo);
        let is_offered = files.iter().any(|file| file.ends_with("rosta-rows.csv"));
        assert!(is_offered || shell == "bash", "{shell}: {files:?}");
        let reproduce = format!("crosslane reproduce {}/rosta-", folder.display());
        assert_eq!(offered(&script, &reproduce), [""; 0], "{shell}");
    }
}
