// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output fits the terminal: here 80 columns, by COLUMNS.

use crate::device::{machine_that_binds, on_machine};
use crate::run::{Run, command, folder, stdout_of};

/// Commands that end soon, of every kind that prints tables or sentences.
const COMMANDS: [&str; 39] = [
    "topo rosta",
    "topo torus",
    "topo nget",
    "topo sbdt",
    "topo pciebench:iommu",
    "lab list",
    "lab show rosta:crosslane",
    "lab show torus",
    "bench write --lab rosta:crosslane --size 4K..8K --iterations 16",
    "bench write --lab rosta --flows 2 --size 64K --no-why",
    "bench write --device lab:rosta:crosslane/fpga1 --size 4K --no-why",
    "bench read --lab kc705:crosslane --size 64K",
    "bench p2p --lab rosta --size 2K..4K --iterations 64",
    "bench latency --lab rosta --size 64..128 --iterations 20",
    "bench chain --lab rosta --no-why --iterations 2 --size 64K",
    "bench mmio --lab aws-f1 --verbose",
    "bench mmio --lab aws-f1 --all --no-why --passes 1",
    "bench nget --size 1K..2K --iterations 20",
    "bench halo --nodes 2..4",
    "bench link --bit-error-rate 1e-5",
    "bench sweep --lab kc705 --link 1x1,2x4 --size 1K..4K",
    "bench traffic --lab rosta --flow fpga1:fpga5:write:64K --flow fpga2:fpga6:write:64K",
    "bench traffic --lab pciebench --flow nfp:host:read:64..256 --operations 100",
    "what-if minimal --link card0=2x2 --no-why",
    "what-if rosta --move fpga5=rc47a --flow fpga1:fpga5:write:64K --operations 8",
    "tune rosta --flow fpga1:fpga5:write:16K --operations 8",
    "bench overhead --device lab:kc705:crosslane --rounds 4 --large 64K",
    "bench operations --device lab:minimal --rounds 4",
    "bench packets --device lab:minimal --packets 40",
    "bridge bench --lab sbdt:crosslane --size 1M",
    "bridge providers",
    "reproduce",
    "torture --seeds 0..2",
    "torture --tori --seeds 0..2",
    "device list --all",
    "device info 03:00.0",
    "device doctor 03:00.0",
    "device set-mps --path 03:00.0 host 256",
    "device test lab:minimal/card0 --largest 64K",
];

/// Returns the output of a command at a width, standard output and standard error.
#[track_caller]
fn printed(arguments: &str, columns: &str) -> String {
    let run = Run::of(command(arguments).env("COLUMNS", columns));
    // The doctor of a machine that has a problem.
    let is_found = run.code == 1 && arguments.starts_with("device doctor");
    assert!(run.code == 0 || is_found, "crosslane {arguments}: {run:?}");
    run.stdout + &run.stderr
}

#[track_caller]
fn assert_fits(arguments: &str, page: &str) {
    let wide: Vec<&str> = page.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty() && !page.is_empty(), "crosslane {arguments}: {wide:#?}");
}

#[test]
fn every_line_fits_80_columns() {
    let machine = machine_that_binds("every_line_fits_80_columns");
    for arguments in COMMANDS {
        let arguments = on_machine(arguments, &machine.root);
        assert_fits(&arguments, &printed(&arguments, "80"));
    }
}

/// The sentences of help pages are folded where the terminal ends, not where the source is.
#[test]
fn help_pages_fill_80_columns() {
    let page = printed("bench --help", "80");
    assert_fits("bench --help", &page);
    let sentences = "\n`mmio` needs a memory card, `nget`, `halo` and `link` need network \
                     processors,\n`traffic` runs between any endpoints of a lab; all others need a \
                     DMA engine. All\nbut `traffic`";
    assert!(page.contains(sentences), "{page}");
}

#[test]
fn files_that_are_read_fit_80_columns() {
    let folder = folder("files_that_are_read_fit_80_columns");
    let path = |name: &str| folder.join(name).display().to_string();
    for (name, lab) in [("a.json", "rosta"), ("b.json", "rosta:crosslane")] {
        let bench = "bench p2p --size 4K..8K --iterations 16 --json --lab";
        std::fs::write(path(name), stdout_of(&format!("{bench} {lab}"))).unwrap();
    }
    std::fs::write(path("m.csv"), "bytes,us\n1024,5\n4096,8\n").unwrap();
    std::fs::write(path("lab.toml"), stdout_of("lab show rosta --file")).unwrap();
    // Names of folders are as long as they are.
    for arguments in ["compare a.json b.json", "fit m.csv", "lab check lab.toml"] {
        let run = Run::of(command(arguments).current_dir(&folder).env("COLUMNS", "80"));
        assert_eq!(run.code, 0, "crosslane {arguments}: {run:?}");
        assert_fits(arguments, &run.stdout);
    }
}

#[test]
fn columns_that_are_left_out_are_named() {
    let bench = "bench p2p --lab rosta --size 2K --iterations 16";
    let narrow = printed(&format!("{bench} --no-why"), "80");
    assert!(narrow.contains(" columns left out: "), "{narrow}");
    assert!(narrow.contains("(--wide)") && !narrow.contains("TLP B  "), "{narrow}");
    let whole = stdout_of(bench);
    assert!(!whole.contains("left out"), "{whole}");
    // Tables are whole, and sentences fold all the same.
    let wide = printed(&format!("{bench} --no-why --wide"), "80");
    assert!(!wide.contains("left out"), "{wide}");
    let heading = |page: &str| page.lines().find(|line| line.contains("min us")).map(str::to_owned);
    assert_eq!(heading(&wide), heading(&whole));
    let plan = |page: &str| page.lines().find(|line| line.starts_with("plan: ")).map(str::len);
    assert!(plan(&wide).unwrap() <= 80 && plan(&whole).unwrap() > 80, "{wide}");
}

#[test]
fn lab_files_and_json_are_never_folded() {
    for arguments in ["lab show minimal --file", "lab list --json", "completions bash"] {
        assert_eq!(printed(arguments, "60"), stdout_of(arguments), "crosslane {arguments}");
    }
}

#[test]
fn lines_of_a_lab_file_at_fault_are_whole_only_if_wide() {
    let folder = folder("lines_of_a_lab_file_at_fault_are_whole_only_if_wide");
    let long = format!("max_widht = [\"{}\"] # ", "word ".repeat(40));
    let text = stdout_of("lab show minimal --file").replacen("max_width = ", &long, 1);
    std::fs::write(folder.join("lab.toml"), text).unwrap();
    let shown = |arguments: &str| {
        let text = Run::of(command(arguments).current_dir(&folder).env("COLUMNS", "80")).stderr;
        assert!(text.starts_with("error: lab.toml:"), "{text}");
        (text.lines().map(|line| line.chars().count()).max(), text)
    };
    let (longest, text) = shown("lab check lab.toml");
    assert!(longest <= Some(80) && text.matches("word").count() == 40, "{text}");
    let (longest, text) = shown("lab check lab.toml --wide");
    assert!(longest > Some(200) && text.contains("\nthe keys here are "), "{text}");
}

#[test]
fn errors_fit_too() {
    for arguments in ["topo nowhere", "bench p2p --lab kc705:crosslane --from a --to b"] {
        let Run { code, stderr: text, .. } = Run::of(command(arguments).env("COLUMNS", "60"));
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(code > 0 && text.lines().count() > 1, "{text}");
        assert!(longest <= Some(60), "{text}");
    }
}
