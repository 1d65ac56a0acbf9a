// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules of the tree that no compiler checks: licence lines, sizes, paths of one machine, links.
//!
//! Each test collects all that is wrong before it fails, one line a place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of one source file.
const MAX_FILE_LINES: usize = 700;
/// Most columns of one line of Rust, of Python and of a register map.
const MAX_COLUMNS: usize = 100;
/// Folders that are built, not written.
const IGNORED_FOLDERS: [&str; 8] = [
    ".git", "target", "build", ".cache", ".venv", "node_modules", "shared",
    // Files that the wheel takes in beside the module.
    "crosslane.data",
];
/// Folders whose files are generated: as long as what they are generated from makes them.
const GENERATED_FOLDERS: [&str; 4] = [
    "crates/regs/src/", "registers/generated/", "gateware/rtl/generated/",
    "crates/capi/include/crosslane.h",
];
/// Endings of files that are read as text.
const TEXT_ENDINGS: [&str; 21] = [
    "rs", "toml", "sh", "py", "sv", "svh", "rdl", "c", "cpp", "h", "hpp", "md", "csv", "snap",
    "css", "js", "ts", "yml", "cff", "tcl", "xdc",
];
/// The page that lists all pages of documentation.
const INDEX: &str = "docs/README.md";
/// Crates that have unsafe code, and so their own copy of the workspace's lints.
const UNSAFE_CRATES: [&str; 6] = [
    "crates/capi/Cargo.toml", "crates/cosim/Cargo.toml", "crates/network/Cargo.toml",
    "crates/python/Cargo.toml", "crates/vfio/Cargo.toml", "crates/web/Cargo.toml",
];
/// The project's crates from the ground floor up, each with those that it may stand on. Tests may
/// use others.
const HOUSE: [(&str, &str); 30] = [
    ("random", ""),
    ("pcie", ""),
    ("regs", ""),
    ("torus-link", ""),
    ("host", "pcie"),
    ("results", "pcie"),
    ("fabric", "pcie random"),
    ("device", "pcie random regs torus-link fabric"),
    ("cosim", "random pcie regs fabric"),
    ("driver", "pcie regs host"),
    ("bridge", "pcie host driver"),
    ("torus", "pcie host driver"),
    ("sysfs", "pcie host"),
    ("vfio", "pcie host sysfs"),
    ("twin", "pcie host sysfs"),
    ("network", "pcie host"),
    ("lab", "pcie results torus-link host fabric device cosim"),
    ("mpi", "host lab"),
    ("open", "pcie host driver vfio network lab"),
    ("experiment", "pcie host results fabric driver bridge torus lab"),
    ("explain", "pcie host results fabric driver bridge lab experiment"),
    ("serve", "pcie host fabric vfio lab"),
    ("torture", "random pcie regs torus-link host fabric device cosim driver lab"),
    ("report", "results"),
    ("reproduce", "pcie host results fabric driver bridge torus lab experiment report"),
    (
        "crosslane",
        "pcie host results fabric driver bridge torus vfio twin network lab open experiment \
         explain",
    ),
    ("capi", "crosslane"),
    ("web", "report crosslane"),
    ("cli", "cosim vfio mpi serve torture report reproduce crosslane web"),
    ("python", "report crosslane"),
];
/// Files that write JSON whose format is another's: JSON Schema, and vfio-user's versions.
const FOREIGN_JSON: [&str; 2] =
    ["crates/lab/src/keys/schema.rs", "crates/vfio/src/user/protocol/mod.rs"];
/// Places whose errors have no kind; `ErrorKind` of crate `pcie` says why. The program's own has an
/// exit code.
const WITHOUT_KINDS: [&str; 4] =
    ["crates/torus-link/", "crates/report/", "crates/fabric/src/errors.rs", "crates/cli/"];
/// Most files and bytes of one fuzz target's corpus, as `tools/corpus.py` writes it.
const MAX_CORPUS_FILES: usize = 60;
const MAX_CORPUS_BYTES: u64 = 60_000;

/// A text file of the tree: its path from the root, and what it says.
struct TextFile {
    path: String,
    text: String,
}

impl TextFile {
    fn ending(&self) -> &str {
        Path::new(&self.path).extension().and_then(|ending| ending.to_str()).unwrap_or("")
    }

    fn is_generated(&self) -> bool {
        GENERATED_FOLDERS.iter().any(|folder| self.path.starts_with(folder))
    }

    fn is_source(&self) -> bool {
        let is_text = TEXT_ENDINGS.contains(&self.ending());
        (is_text && !matches!(self.ending(), "md" | "csv" | "snap"))
            || self.path.ends_with("Makefile")
            || self.path == ".ci/run"
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree's root")
}

fn collect(folder: &Path, root: &Path, files: &mut Vec<TextFile>) {
    let entries = fs::read_dir(folder).expect("a folder of the tree can be listed");
    for entry in entries {
        let path = entry.expect("an entry of the tree can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_owned();
        if path.is_dir() {
            if !IGNORED_FOLDERS.contains(&name.as_str()) {
                collect(&path, root, files);
            }
            continue;
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let is_text = TEXT_ENDINGS.contains(&ending) || name == "Makefile" || name == "run";
        if is_text {
            let text = fs::read_to_string(&path).expect("a text file of the tree is UTF-8");
            let path = path.strip_prefix(root).expect("within the tree");
            files.push(TextFile { path: path.to_string_lossy().into_owned(), text });
        }
    }
}

fn tree() -> Vec<TextFile> {
    let root = root();
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.iter().any(|file| file.path == "crates/cli/tests/tidy.rs"), "this file is seen");
    files
}

/// Returns the lines with a fault, each with its place, of some files.
fn lines_that(
    is_wrong: impl Fn(&str) -> bool,
    is_looked_at: impl Fn(&TextFile) -> bool,
) -> Vec<String> {
    let mut places = Vec::new();
    for file in tree().iter().filter(|file| is_looked_at(file)) {
        let lines = file.text.lines().enumerate().filter(|(_, line)| is_wrong(line));
        places.extend(
            lines.map(|(number, line)| format!("{}:{}: {}", file.path, number + 1, line.trim())),
        );
    }
    places
}

fn assert_none(rule: &str, places: &[String]) {
    assert!(places.is_empty(), "{rule}:\n  {}", places.join("\n  "));
}

#[test]
fn sources_begin_with_their_licence() {
    let wanted = "SPDX-License-Identifier: Apache-2.0 OR MIT";
    let places: Vec<String> = tree()
        .iter()
        .filter(|file| file.is_source())
        .filter(|file| {
            let after_interpreter = usize::from(file.text.starts_with("#!"));
            !file.text.lines().nth(after_interpreter).is_some_and(|line| line.contains(wanted))
        })
        .map(|file| file.path.clone())
        .collect();
    assert_none("no licence in the first line", &places);
}

#[test]
fn files_and_lines_are_short() {
    let mut places = Vec::new();
    for file in tree().iter().filter(|file| file.is_source()) {
        let lines = file.text.lines().count();
        if lines > MAX_FILE_LINES && !file.is_generated() {
            places.push(format!("{}: {lines} lines, {MAX_FILE_LINES} are allowed", file.path));
        }
        if !matches!(file.ending(), "rs" | "py" | "rdl") {
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                places.push(format!("{}:{}: {columns} columns", file.path, number + 1));
            }
        }
    }
    assert_none("too long", &places);
}

#[test]
fn text_is_clean() {
    let is_looked_at = |file: &TextFile| file.ending() != "snap";
    assert_none("blanks at the end", &lines_that(|line| line.ends_with([' ', '\t']), is_looked_at));
    let mut files = tree();
    files.retain(|file| is_looked_at(file) && !file.text.is_empty());
    files.retain(|file| !file.text.ends_with('\n'));
    let places: Vec<String> = files.into_iter().map(|file| file.path).collect();
    assert_none("no newline at the end", &places);
}

#[test]
fn nothing_names_one_persons_machine() {
    // Joined here, so that this file does not hold what it looks for.
    let homes =
        [["/ho", "me/"], ["/Us", "ers/"], ["/ro", "ot/"], ["/wo", "rk/"], ["C:\\Us", "ers"]]
            .map(|parts| parts.concat());
    let names_one = |line: &str| homes.iter().any(|home| names_folder(line, home));
    assert_none("an absolute path of one machine", &lines_that(names_one, |_| true));
}

/// Whether `folder` stands in `line` at the beginning of a path, not within one.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '}' | ')'))
    })
}

#[test]
fn nothing_is_unfinished() {
    let marks = [["todo", "!("], ["unimplemented", "!("], ["FIX", "ME"], ["dbg", "!("]]
        .map(|parts| parts.concat());
    let is_marked = |line: &str| marks.iter().any(|mark| line.contains(mark));
    assert_none("unfinished", &lines_that(is_marked, TextFile::is_source));
}

/// Types of crate `results` make the output of `--json`; only foreign formats are written by hand.
#[test]
fn json_is_made_of_types() {
    let macro_name = ["js", "on!"].concat();
    let is_looked_at = |file: &TextFile| {
        let is_code = file.path.starts_with("crates/") && file.path.contains("/src/");
        is_code && file.ending() == "rs" && !FOREIGN_JSON.contains(&&*file.path)
    };
    let is_written_by_hand = |line: &str| line.contains(&macro_name);
    assert_none("JSON without a type", &lines_that(is_written_by_hand, is_looked_at));
}

/// An error without a kind tells a caller nothing of what can be done about it.
#[test]
fn every_error_has_a_kind() {
    let mut places = Vec::new();
    for file in tree() {
        let is_exempt = WITHOUT_KINDS.iter().any(|place| file.path.starts_with(place));
        if is_exempt || !file.path.contains("/src/") {
            continue;
        }
        for derived in file.text.split("\n#[derive(").skip(1) {
            let (traits, behind) = derived.split_once(')').expect("a derive has an end");
            let mut items = behind.lines().filter_map(|line| {
                line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "))
            });
            let name = items.next().and_then(|item| item.split([' ', '(', ';', '<']).next());
            let name = name.filter(|_| traits.contains("Error")).unwrap_or_default();
            // That of a generic error is that of what it carries.
            let own = format!("> {name}<E> {{\n    /// Returns the kind of the error");
            let has_kind = [format!("kinds!({name} {{"), own];
            if !has_kind.iter().any(|it| file.text.contains(it)) && !name.is_empty() {
                places.push(format!("{}: {name}", file.path));
            }
        }
    }
    assert_none("no kind", &places);
}

#[test]
fn every_crate_follows_the_workspace() {
    let mut places = Vec::new();
    for file in tree() {
        if !file.path.starts_with("crates/") || !file.path.ends_with("Cargo.toml") {
            continue;
        }
        for wanted in ["license.workspace = true", "[lints]\nworkspace = true"] {
            let is_own = wanted.starts_with("[lints]") && UNSAFE_CRATES.contains(&&*file.path);
            if !is_own && !file.text.contains(wanted) {
                places.push(format!("{}: no `{}`", file.path, wanted.replace('\n', " ")));
            }
        }
    }
    assert_none("a crate on its own", &places);
}

#[test]
fn crates_stand_only_on_crates_below_them() {
    let mut places = Vec::new();
    for (floor, (name, below)) in HOUSE.iter().enumerate() {
        let allowed: BTreeSet<&str> = below.split_whitespace().collect();
        for known in &allowed {
            if !HOUSE[..floor].iter().any(|(lower, _)| lower == known) {
                places.push(format!("HOUSE: {known} is not below {name}"));
            }
        }
        let path = root().join("crates").join(name).join("Cargo.toml");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Those of all targets, and those of one that has a machine.
        let sections = text.split("\n[").filter_map(|section| section.split_once("]\n"));
        let sections = sections.filter(|(name, _)| {
            *name == "dependencies"
                || name.starts_with("target.") && name.ends_with(".dependencies")
        });
        let names = sections.flat_map(|(_, section)| section.lines()).filter_map(|line| {
            let dependency = line.split(['.', ' ', '=']).next()?;
            match dependency {
                "crosslane" => Some(dependency),
                _ => dependency.strip_prefix("crosslane-"),
            }
        });
        let used: BTreeSet<&str> = names.collect();
        let (new, gone) = (used.difference(&allowed), allowed.difference(&used));
        places.extend(new.map(|other| format!("{name} -> {other}: an arrow that the house lacks")));
        places.extend(gone.map(|other| format!("{name} -> {other}: in HOUSE, and not used")));
    }
    let crates = fs::read_dir(root().join("crates")).expect("the crates' folder").count();
    assert_eq!(crates, HOUSE.len(), "crates in the house");
    assert_none("crooked", &places);
}

/// The facade has every floor; the program names none below `lab`.
#[test]
fn the_program_imports_no_driver_and_no_fabric() {
    let hidden = ["driver", "fabric", "device", "{"].map(|name| format!("crosslane::{name}"));
    let names_one = |line: &str| hidden.iter().any(|path| line.contains(path));
    let is_programs = |file: &TextFile| file.path.starts_with("crates/cli/src/");
    assert_none("a floor below the program's", &lines_that(names_one, is_programs));
}

/// Folders in which bolero looks for the inputs of a file's fuzz targets, as paths from the root.
/// It makes their names from the target's module and function.
fn fuzz_folders(file: &TextFile) -> Vec<String> {
    let Some((tests, module)) = file.path.split_once("tests/integration/") else {
        return Vec::new();
    };
    let module = module.trim_end_matches(".rs");
    let folder = module.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let module = module.trim_end_matches("/mod").replace('/', "__");
    let mut folders = Vec::new();
    for (at, _) in file.text.match_indices("bolero::check!") {
        let function =
            file.text[..at].rsplit("\nfn ").next().and_then(|text| text.split('(').next());
        let function = function.expect("a split has a first part");
        let name = function.strip_prefix("fuzz_").unwrap_or(function);
        folders.push(format!("{tests}tests/integration/{folder}__fuzz__/{module}__{name}"));
    }
    folders
}

/// Folders of a crate's tests that hold what fuzz targets replay.
fn replayed_folders(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry of the tree can be read").path();
        if folder.ends_with("__fuzz__") {
            found.push(path);
        } else if path.is_dir() {
            replayed_folders(&path, found);
        }
    }
}

/// bolero ignores a folder with any other name silently, so a target that is renamed would lose its
/// corpus.
#[test]
fn every_fuzz_corpus_is_that_of_a_target() {
    let root = root();
    let targets: BTreeSet<String> = tree().iter().flat_map(fuzz_folders).collect();
    let mut folders = Vec::new();
    for entry in fs::read_dir(root.join("crates")).expect("there are crates").flatten() {
        replayed_folders(&entry.path().join("tests"), &mut folders);
    }
    assert!(folders.len() > 1, "no corpus was found");
    let mut places = Vec::new();
    for folder in folders {
        let path = folder.strip_prefix(&root).expect("within the tree").to_string_lossy();
        if !targets.contains(&*path) {
            places.push(format!("{path}: there is no such target"));
        }
        let files = fs::read_dir(folder.join("corpus")).into_iter().flatten().flatten();
        let bytes: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
        let (files, bytes) = (bytes.len(), bytes.iter().sum::<u64>());
        if files == 0 || files > MAX_CORPUS_FILES || bytes > MAX_CORPUS_BYTES {
            places.push(format!("{path}: a corpus of {files} files, {bytes} B"));
        }
    }
    assert_none("a corpus that no test replays, or that is too large", &places);
}

/// Every `make NAME` that a document tells to type is a target of the Makefile.
#[test]
fn documented_commands_exist() {
    let files = tree();
    let text = |path: &str| {
        &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).text
    };
    let targets: BTreeSet<&str> = text("Makefile")
        .lines()
        .filter(|line| !line.starts_with([' ', '\t', '#', '.']))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    let mut places = Vec::new();
    for file in files.iter().filter(|file| file.ending() == "md") {
        let in_lines = file.text.lines().filter_map(|line| line.trim_start().strip_prefix("make "));
        let in_prose = file.text.split("`make ").skip(1);
        for rest in in_lines.chain(in_prose) {
            let target = rest.split([' ', '`', '\n']).next().unwrap_or("");
            if !targets.contains(target) {
                places.push(format!("{}: `make {target}`", file.path));
            }
        }
    }
    assert_none("a command that does not exist", &places);
    for command in ["make run", "make test"] {
        assert!(text("README.md").contains(command), "README.md does not name `{command}`");
    }
}

/// Targets of the links of a document that lead to files of the tree or into the document itself:
/// a path, empty for the document, and the anchor behind `#`, empty for none.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = text.split("](").skip(1).filter_map(|part| part.split(')').next());
    targets
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
        .map(|target| target.split_once('#').unwrap_or((target, "")))
}

/// Anchors of a document's headings, as the sites that show Markdown make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let words: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        anchors.insert(words.replace(' ', "-"));
    }
    anchors
}

/// Every relative link of a document leads to a file of the tree, and to a heading of it where it
/// names one.
#[test]
fn links_lead_somewhere() {
    let root = root();
    let mut places = Vec::new();
    for file in tree().iter().filter(|file| file.ending() == "md") {
        let folder = root.join(&file.path).parent().expect("a file has a folder").to_owned();
        for (path, anchor) in links(&file.text) {
            let target = if path.is_empty() { root.join(&file.path) } else { folder.join(path) };
            if !target.exists() {
                places.push(format!("{}: {path}", file.path));
            } else if !anchor.is_empty() {
                let text = fs::read_to_string(&target).expect("a page with headings is text");
                if !anchors(&text).contains(anchor) {
                    places.push(format!("{}: {path}#{anchor}", file.path));
                }
            }
        }
    }
    assert_none("a link to nowhere", &places);
}

#[test]
fn anchors_are_those_of_headings() {
    let text = "# The *card's* memory\n```\n# no heading\n```\n#none\n## Gen3 x8, `MPS` 256\n";
    let expected = ["gen3-x8-mps-256", "the-cards-memory"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(expected));
}

/// A page that nobody links to is a page that nobody finds.
#[test]
fn the_index_lists_every_page_of_docs() {
    let root = root();
    let files = tree();
    let index = files.iter().find(|file| file.path == INDEX).expect("docs has an index");
    let listed: BTreeSet<PathBuf> = links(&index.text)
        .filter_map(|(path, _)| root.join("docs").join(path).canonicalize().ok())
        .collect();
    let places: Vec<String> = files
        .iter()
        .filter(|file| file.path.starts_with("docs/") && file.ending() == "md")
        .filter(|file| file.path != INDEX && !listed.contains(&root.join(&file.path)))
        .map(|file| file.path.clone())
        .collect();
    assert_none("a page that docs/README.md does not list", &places);
}

/// The pages that an outsider looks for first are where the sites of repositories look for them.
#[test]
fn the_security_page_names_tests_that_exist() {
    let (tree, mut wrong) = (tree(), Vec::new());
    let page = tree.iter().find(|file| file.path == "docs/security.md").expect("it is there");
    let rows = page.text.lines().filter(|line| line.starts_with("| can"));
    for test in rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next()) {
        for name in test.split('`').skip(1).step_by(2) {
            let codes = [("rs", format!("fn {name}(")), ("py", format!("def {name}("))];
            let has = |file: &TextFile| {
                codes.iter().any(|(ending, it)| file.ending() == *ending && file.text.contains(it))
            };
            if !tree.iter().any(has) {
                wrong.push(format!("{}: no test is called {name}", page.path));
            }
        }
    }
    assert_none("a line of the page on security has a test", &wrong);
}

#[test]
fn pages_for_newcomers_exist() {
    let files = tree();
    let wanted = [
        "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs/glossary.md",
        "docs/decisions/README.md", ".github/workflows/ci.yml", ".github/pull_request_template.md",
    ];
    let missing: Vec<String> = wanted
        .iter()
        .filter(|path| !files.iter().any(|file| file.path == **path))
        .map(|path| (*path).to_owned())
        .collect();
    assert_none("a page that is not there", &missing);
}
