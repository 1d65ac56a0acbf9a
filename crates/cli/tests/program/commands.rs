// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands, exit codes, help, labs and trees.

use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::bridge::Server;
use crate::device::{machine_that_binds, on_machine};
use crate::run::{
    Run, assert_refused, command, document, folder, json_of, run, run_well, stdout_as_written,
    stdout_of,
};

/// Examples of `validate` that have a test of their own.
const VALIDATIONS: [&str; 2] = ["validate pciebench", "validate pciebench --json"];

/// Measurements of the examples: reads that are slower than the lab's.
const FLOWS: &str = "\
flow,size,value,unit,outstanding
card0:host0:read,64,950,ns,
card0:host0:read,512,1100,ns,
card0:host0:read,64,68,MB/s,1
card0:host0:write,4K,3.5,GB/s,
";

/// Adds a command with all below it that its help lists, each as it is typed in.
fn add_pages(command: &str, pages: &mut Vec<String>) {
    let help = stdout_of(&format!("{command} --help"));
    let mut lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.by_ref().take_while(|line| !line.is_empty());
    // The rest of a folded line is further to the right.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    pages.push(command.to_owned());
    for name in names.map(|line| line.split(' ').next().unwrap()).filter(|name| *name != "help") {
        add_pages(format!("{command} {name}").trim_start(), pages);
    }
}

/// Returns every command that has a help page.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    add_pages("", &mut pages);
    assert!(pages.len() > 55, "{pages:?}");
    pages
}

#[test]
fn exit_code_2_for_an_empty_command_line() {
    assert_refused("", 2, "Usage: crosslane");
}

#[test]
fn messages_are_for_people() {
    let folder = folder("messages_are_for_people");
    let binary = folder.join("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    let binary = binary.display().to_string();
    let missing = format!("{binary}.not");
    let not_text = "is not a text file (UTF-8)";
    for (arguments, words) in [
        (format!("fit {missing}"), "No such file or directory\n"),
        (format!("compare {missing} {missing}"), "No such file or directory\n"),
        (format!("lab check {binary}"), not_text),
        (format!("fit {binary}"), not_text),
        (format!("compare {binary} {binary}"), not_text),
        ("bench write --lab minimal --size 2T".to_owned(), "2T is not a size from 1 byte to 1 TiB"),
        ("bench write --lab minimal --flows 300".to_owned(), "300 is out of range: 1 to 256"),
        ("bench write --lab minimal --flows x".to_owned(), "x is not a whole number: 1 to 256"),
        ("bridge serve --device nosuch".to_owned(), "have names like lab:kc705:crosslane"),
        ("bridge serve --device lab:nosuch".to_owned(), "nosuch"),
    ] {
        let run = run(&arguments);
        assert!(run.code > 0 && run.stderr.contains(words), "{arguments}: {}", run.stderr);
        for noise in ["os error", "utf-8", "..=", "libfabric"] {
            assert!(!run.stderr.contains(noise), "{arguments}: {}", run.stderr);
        }
    }
    let constants = stdout_of("lab show minimal");
    let class = constants.lines().find(|line| line.contains(".class_code")).unwrap();
    assert!(class.contains("  0x"), "{class}");
}

#[test]
fn every_command_explains_itself_with_examples() {
    for arguments in pages() {
        let help = stdout_of(&format!("{arguments} --help"));
        assert!(help.contains("Examples:\n  crosslane "), "{help}");
        assert!(help.contains("Usage: crosslane"), "{help}");
    }
}

/// Examples of a help page that can be typed in here.
fn examples_of(page: &str) -> Vec<String> {
    // One that is too long for a line goes on behind a backslash.
    let help = stdout_of(&format!("{page} --help")).replace(" \\\n   ", "");
    let lines = help.lines().filter_map(|line| line.strip_prefix("  crosslane "));
    // An example ends where a remark begins.
    let end = |line: &str| line.split("    ").next().unwrap().len();
    let mut examples: Vec<String> = lines.map(|line| line[..end(line)].to_owned()).collect();
    // The reproduction takes most of a minute; the crate `reproduce` runs it in its own tests.
    examples.retain(|example| !example.starts_with("reproduce rosta"));
    // `a_validation_names_the_constants_that_matter` types these.
    examples.retain(|example| !VALIDATIONS.contains(&example.as_str()));
    // A range of seeds takes minutes; the crate `torture` runs one in its own tests.
    let is_long = |example: &str| example == "torture" || example.contains("--seeds 0..");
    examples.retain(|example| page != "torture" || !is_long(example));
    // Servers do not end, and no other nodes are there; those of this machine have a server.
    let is_elsewhere = |example: &str| {
        ["node:", "one:", "10.0.0.2:", "bridge.sock"].iter().any(|node| example.contains(node))
    };
    let is_server = |example: &str| {
        ["bridge serve", "lab serve", "ui"].iter().any(|server| example.starts_with(server))
    };
    examples.retain(|example| !is_server(example) && !is_elsewhere(example));
    examples
}

/// The examples of the help are typed in, with a lab of one's own beside them, several pages at a
/// time: each page in a folder of its own. The search for the bottleneck would take most of the
/// time; the tests of the README's samples and of the crate `explain` run it.
#[test]
fn the_examples_work() {
    // At the address of the examples.
    let mut server = command("bridge serve --device lab:kc705:crosslane");
    server.stderr(Stdio::null());
    let server = Server::start(server);
    assert_eq!(server.address, "127.0.0.1:7471");
    let pages = pages();
    let next = AtomicUsize::new(0);
    let typed = AtomicUsize::new(0);
    let run_pages = || {
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = format!("the_examples_work/of_{}", page.replace(' ', "_"));
            let folder = folder(&name);
            let lab = stdout_of("lab show minimal --file");
            std::fs::write(folder.join("my-lab.toml"), lab).unwrap();
            std::fs::write(folder.join("measured.csv"), "bytes,us\n1024,5\n4096,8\n").unwrap();
            std::fs::write(folder.join("flows.csv"), FLOWS).unwrap();
            std::fs::write(folder.join("pool.txt"), "127.0.0.1:7471   # the server above\n")
                .unwrap();
            std::fs::write(folder.join("data.bin"), vec![7; 1 << 20]).unwrap();
            for dump in ["server.txt", "nccl.xml"] {
                let dumps = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps");
                std::fs::copy(format!("{dumps}/{dump}"), folder.join(dump)).unwrap();
            }
            // Machines differ: the examples that are about one have one in a folder.
            let machine = machine_that_binds(&name);
            if *page == "device unbind" {
                let bind = on_machine("device bind 03:00.0", &machine.root);
                assert!(command(&bind).output().unwrap().status.success(), "{bind}");
            }
            let can_skip_search = stdout_of(&format!("{page} --help")).contains("--no-why");
            for example in examples_of(page) {
                // No shell takes quotes away.
                let example = example.replace('\'', "");
                let (arguments, file) = example.split_once(" > ").unwrap_or((&example, ""));
                let mut arguments = on_machine(arguments, &machine.root);
                if can_skip_search && !arguments.contains("--no-why") {
                    arguments.push_str(" --no-why");
                }
                let arguments = &arguments;
                let run = Run::of(command(arguments).current_dir(&folder));
                // The doctor finds problems in that machine.
                let has_findings = example.starts_with("device doctor 03") && run.stderr.is_empty();
                assert!(run.code == 0 || has_findings, "crosslane {example}: {run:?}");
                // Into the user's home the completions do not go.
                if !file.is_empty() && !file.starts_with('~') {
                    std::fs::write(folder.join(file), run.stdout).unwrap();
                }
                for written in ["rosta.svg", "t.pftrace", "compared/index.html"] {
                    let is_named = arguments.contains(written.split('/').next().unwrap());
                    assert!(!is_named || folder.join(written).exists(), "{example}: {written}");
                }
                typed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(run_pages);
        }
    });
    let typed = typed.into_inner();
    assert!(typed >= 40, "{typed} examples");
}

#[test]
fn reproductions_are_listed() {
    let list = stdout_of("reproduce");
    assert!(list.contains("\nrosta  "), "{list}");
    assert_eq!(stdout_of("reproduce --list"), list);
    for arguments in ["reproduce --json", "reproduce rosta --list", "reproduce rosta --seed x"] {
        assert_eq!(run(arguments).code, 2, "crosslane {arguments}");
    }
}

#[test]
fn a_validation_names_the_constants_that_matter() {
    let [page, json] = VALIDATIONS;
    let (page, json) = (stdout_of(page), json_of(json));
    let set = &json["sets"][0];
    assert_eq!(set["rows"], 164);
    assert_eq!(set["compared"]["rows"], 68);
    assert_eq!(set["outside"].as_array().unwrap().len(), 4);
    let influences = set["influences"].as_array().unwrap();
    assert_eq!(influences.len(), 5);
    let sizes: Vec<f64> = influences.iter().map(|one| one["average"].as_f64().unwrap()).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[4] > 0.0, "{sizes:?}");
    for one in influences {
        assert!(page.contains(one["constant"].as_str().unwrap()), "{page}");
    }
}

#[test]
fn network_links_are_shown() {
    let page = stdout_of("topo sbdt");
    assert!(page.contains("fnic     rnic     12500.0  4096 B       12421.2   200 ns"), "{page}");
    let json = json_of("topo sbdt --json");
    assert_eq!(json["networks"][0]["mtu_bytes"], 4096);
    let page = stdout_of("topo torus");
    assert!(
        page.contains("fpga1 to fpga16  2 x 2 x 2 x 2  joined      64  x8 at 5 Gb/s  4000.0"),
        "{page}"
    );
    let json = json_of("topo torus --json");
    assert_eq!((&json["tori"][0]["cables"], &json["tori"][0]["lanes"]), (&64.into(), &8.into()));
    assert!(!stdout_of("topo rosta").contains("Network links"));
    assert_eq!(json_of("topo rosta --json")["networks"].as_array().unwrap().len(), 0);
}

/// Tests of cards of this machine, of served ones and of files look at the others.
#[test]
fn json_contains_the_number_of_its_schema() {
    let minimal = folder("json_contains_the_number_of_its_schema").join("minimal.toml");
    std::fs::write(&minimal, stdout_of("lab show minimal --file")).unwrap();
    for arguments in [
        "lab list",
        "lab show rosta",
        &format!("lab check {}", minimal.display()),
        "topo torus",
        "bench traffic --lab minimal --flow card0:host:write:4K --operations 4 --no-why",
        "bench write --lab rosta:crosslane --iterations 4",
        "bench overhead --device lab:kc705:crosslane --rounds 2",
        "bench operations --device lab:minimal --rounds 2",
        "bench packets --device lab:minimal --size 64 --packets 4",
        "bench sweep --lab minimal --way write --size 1K --iterations 2",
        "bridge bench --lab sbdt:crosslane --size 64K --iterations 1",
        "torture --seeds 0..1",
        "torture --tori --seeds 0..1",
        "device test lab:kc705:crosslane",
    ] {
        // It is looked for as this is read.
        document(&stdout_as_written(&format!("{arguments} --json")));
    }
    let providers: Value = stdout_of("bridge providers --json").parse().unwrap();
    assert!(providers.is_array(), "a list has no place for it: {providers}");
}

#[test]
fn the_version_names_the_networks() {
    let first = concat!("crosslane ", env!("CARGO_PKG_VERSION"), "\nnetworks: tls, libfabric (");
    for flag in ["-V", "--version"] {
        let said = run_well(flag).stdout;
        assert!(said.starts_with(first), "{said}");
        assert!(said.ends_with(" found)\n") && said.contains("libfabric.so.1 1."), "{said}");
    }
    // A machine whose libfabric cannot be loaded.
    let folder = folder("the_version_names_the_networks");
    std::fs::write(folder.join("libfabric.so.1"), "no library").unwrap();
    let said = Run::of(command("--version").env("LD_LIBRARY_PATH", &folder));
    assert_eq!(said.code, 0, "{said:?}");
    let why = format!("{first}not usable here: {}", folder.join("libfabric.so.1").display());
    assert!(said.stdout.starts_with(&why), "{said:?}");
    assert!(said.stdout.ends_with(" (Debian: package libfabric1))\n"), "{said:?}");
}

#[test]
fn labs_are_listed_with_their_variants() {
    let list = stdout_of("lab list");
    let json = json_of("lab list --json");
    let labs = json["labs"].as_array().unwrap();
    assert_eq!(labs.len(), 8);
    for lab in labs {
        let name = lab["name"].as_str().unwrap();
        let variants = lab["variants"].as_array().unwrap();
        let of_variant =
            |it: &Value| (format!("{name}:{}", it["name"].as_str().unwrap()), it.clone());
        let named = std::iter::once((name.to_owned(), lab.clone()));
        for (name, entry) in named.chain(variants.iter().map(of_variant)) {
            assert!(list.contains(&format!("\n{name} ")), "{name}: {list}");
            assert!(list.contains(entry["summary"].as_str().unwrap()), "{name}: {list}");
        }
        assert!(name != "rosta" || variants.len() == 3, "{lab}");
    }
}

#[test]
fn constants_have_their_provenance() {
    let json = json_of("lab show rosta --json");
    let page = stdout_of("lab show rosta");
    let constants = json["constants"].as_array().unwrap();
    assert!(constants.len() > 50);
    for constant in constants {
        let word = constant["provenance"].as_str().unwrap();
        assert!(["clause", "data sheet", "document", "fit", "assumption"].contains(&word));
        assert!(!constant["source"].as_str().unwrap().is_empty());
        assert!(page.contains(constant["path"].as_str().unwrap()));
    }
}

#[test]
fn a_problem_of_a_lab_file_names_line_and_key() {
    let folder = folder("a_problem_of_a_lab_file");
    let path = folder.join("bad.toml");
    let good = stdout_of("lab show minimal --file");
    std::fs::write(&path, good.replacen("max_width =", "max_widht =", 1)).unwrap();
    let check = || Run::of(command("lab check bad.toml").current_dir(&folder));
    let Run { code, stderr, .. } = check();
    assert_eq!(code, 1);
    let line = 1 + good[..good.find("max_width =").unwrap()].matches('\n').count();
    let sentence = format!("error: bad.toml:{line}:1: ");
    assert!(stderr.starts_with(&sentence) && stderr.contains("max_widht"), "{stderr}");
    assert!(stderr.contains("did you mean max_width?"), "{stderr}");
    assert!(stderr.is_ascii(), "no drawing characters where no terminal is: {stderr}");

    std::fs::write(&path, good).unwrap();
    let Run { code, stdout, .. } = check();
    assert_eq!(code, 0);
    assert!(stdout.starts_with("bad.toml: lab minimal is fine: 1 host, 1 link, "), "{stdout}");
}

#[test]
fn the_tree_of_eight_fpgas() {
    insta::assert_snapshot!(stdout_of("topo rosta"));
}

#[test]
fn the_tree_as_json_and_as_text_agree() {
    let page = stdout_of("topo rosta");
    let json = json_of("topo rosta --json");
    let mut functions = vec![&json["hosts"][0]["functions"][0]];
    let mut found = 0;
    while let Some(function) = functions.pop() {
        found += 1;
        let address = function["address"].as_str().unwrap();
        let row = page.lines().find(|line| line.starts_with(address)).unwrap();
        let port = row.split_whitespace().nth(1);
        assert_eq!(port, function["port"].as_str(), "{row}");
        functions.extend(function["children"].as_array().unwrap());
    }
    assert_eq!(found, 1 + 3 + 10 + 8, "root port, switches up and down, endpoints");
}

#[test]
fn the_drawing_is_one_whole_file() {
    let folder = folder("the_drawing");
    let run = Run::of(command("topo rosta --svg rosta.svg").current_dir(&folder));
    assert_eq!(run.code, 0);
    let svg = std::fs::read_to_string(folder.join("rosta.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for number in 1..=8 {
        assert!(svg.contains(&format!(">fpga{number}</text>")));
    }
    let elsewhere = svg.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http"), "nothing is fetched");
    assert_refused("topo rosta --svg no/such/folder.svg", 1, "no/such/folder.svg cannot be");
}

#[test]
fn a_page_that_is_not_for_a_terminal_is_plain() {
    for arguments in ["topo rosta", "lab list", "lab show minimal", "topo nowhere"] {
        let run = run(arguments);
        for text in [run.stdout, run.stderr] {
            assert!(text.is_ascii(), "crosslane {arguments}: {text}");
            assert!(!text.contains('\u{1b}'), "crosslane {arguments}: {text}");
        }
    }
}

#[test]
fn nobody_reads_to_the_end() {
    let mut child = command("lab show rosta")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The reading end closes before the program has written.
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout_of(&format!("completions {shell}"));
        for word in ["topo", "traffic", "completions", "outstanding"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
