// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions by the shell, and the names that they know.

use std::process::Command;

use crate::run::{folder, json_of, run, stdout_of};

/// What bash offers for a line that is typed so far.
fn offered(script: &std::path::Path, line: &str) -> Vec<String> {
    let program = "source \"$1\"; COMP_LINE=\"$2\"; COMP_POINT=${#2}; COMP_WORDBREAKS=':'; \
                   _crosslane_joined crosslane; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    let output = bash.args(["-c", program, "bash"]).arg(script).arg(line).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_labs_variants_and_reproductions() {
    let script = folder("bash_completes").join("crosslane.bash");
    std::fs::write(&script, stdout_of("completions bash")).unwrap();
    for (line, words) in [
        ("crosslane topo kc", vec!["kc705", "kc705:narrow", "kc705:next", "kc705:crosslane"]),
        // What is before the colon is not offered again: bash has parted the word there.
        ("crosslane topo kc705:n", vec!["narrow", "next"]),
        ("crosslane bench write --lab sb", vec!["sbdt", "sbdt:crosslane"]),
        ("crosslane bench write --device lab:sbdt:", vec!["crosslane"]),
        ("crosslane bench p2p --from fpga1", vec!["fpga1", "fpga10", "fpga11"]),
        ("crosslane reproduce ro", vec!["rosta"]),
        ("crosslane validate pciebench:", vec!["iommu"]),
        ("crosslane lab show tor", vec!["torus"]),
    ] {
        let offered = offered(&script, line);
        assert!(offered.iter().zip(&words).all(|(one, two)| one == two), "{line}: {offered:?}");
        assert!(offered.len() >= words.len(), "{line}: {offered:?}");
    }
    assert_eq!(offered(&script, "crosslane topo /tmp/no-lab"), [""; 0]);
}

#[test]
fn zsh_and_fish_offer_labs_and_files() {
    let zsh = stdout_of("completions zsh");
    assert!(zsh.contains("'labs:lab:(aws-f1 kc705 "), "{zsh}");
    assert!(zsh.contains("--lab=[") && zsh.contains(":LAB:_crosslane_labs'"));
    assert!(!zsh.contains(":LAB:(aws-f1 "), "a lab is completed without files");
    let fish = stdout_of("completions fish");
    assert!(fish.contains("-r -F -a \"aws-f1\\t") && !fish.contains("-r -f -a \"aws-f1\\t"));
    let topo = "complete -c crosslane -n \"__fish_crosslane_using_subcommand topo\" -a \"aws-f1 ";
    assert!(fish.contains(topo), "{fish}");
    let show = "using_subcommand lab; and __fish_seen_subcommand_from show\" -a \"aws-f1 ";
    assert!(fish.contains(show), "{fish}");
}

#[test]
fn variants_are_listed() {
    let list = stdout_of("lab list");
    let json = json_of("lab list --json");
    let labs = json["labs"].as_array().unwrap();
    let rosta = labs.iter().find(|lab| lab["name"] == "rosta").unwrap();
    let variants = rosta["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 2);
    for variant in variants {
        let (name, summary) = (variant["name"].as_str().unwrap(), variant["summary"].as_str());
        assert!(list.contains(&format!("\nrosta:{name} ")), "{list}");
        assert!(list.contains(summary.unwrap()), "{list}");
    }
}

#[test]
fn unknown_variant_is_answered_with_those_there_are() {
    let run = run("topo rosta:croslane");
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    let sentence = "lab rosta has no variant croslane (its variants are crosslane, iommu); did you \
                    mean crosslane?";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
    let none = self::run("topo minimal:x");
    assert!(none.stderr.contains("no variant x (it has no variants)"), "{}", none.stderr);
}
