// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of docs with blocks ```` ```console ````: what stands behind `$ ` is typed into a shell,
//! page by page, each in a folder with a machine's `server.txt`, and must print what stands below.
//! `make readme` writes the output anew.
//!
//! A line `...` stands for all the output between the lines above it and those below it. A command
//! that ends in `&` runs until the page ends, once it has printed what is shown. Below the line
//! `<!-- numbers vary -->` any number is as good as the one shown. A block below
//! `<!-- file: NAME -->` is written into that file; one below `<!-- from: PATH -->` stands in that
//! file of the tree.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;

use crate::device::machine_that_binds;
use crate::readme::{is_writing, root};
use crate::run::folder;

const FENCE: &str = "```";
const ANY: &str = "...";
const NUMBERS_VARY: &str = "<!-- numbers vary -->";
/// Columns of the output that pages show.
const COLUMNS: &str = "88";
/// Least number of pages and of their commands: none is overlooked.
const LEAST: (usize, usize) = (12, 40);

/// Programs that were started to run beside others; they end with this.
#[derive(Default)]
struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            // With its shell: it leads a group.
            let group = rustix::process::Pid::from_child(server);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = server.wait();
        }
    }
}

/// The place in which the commands of a page are typed.
struct Shell {
    folder: PathBuf,
    path: String,
    servers: Servers,
}

impl Shell {
    /// A folder with a dump of a machine, and the program on the path. Its commands about a
    /// machine see one whose kernel binds and unbinds, and `sudo` asks nobody.
    fn new(name: &str, machine: &Path) -> Self {
        let folder = folder(&format!("pages/{name}"));
        let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/server.txt");
        fs::copy(dump, folder.join("server.txt")).unwrap();
        let programs = folder.with_extension("programs");
        let _ = fs::remove_dir_all(&programs);
        fs::create_dir_all(&programs).unwrap();
        let program = env!("CARGO_BIN_EXE_crosslane");
        let program = format!(
            "#!/bin/sh\n\
             if [ \"$1\" = device ] && [ \"$2\" != test ]; then\n\
             command=$2; shift 2\n\
             exec {program} device \"$command\" --root {} \"$@\"\n\
             fi\n\
             exec {program} \"$@\"\n",
            machine.display(),
        );
        let sudo = "#!/bin/sh\nexec \"$@\"\n".to_owned();
        for (name, text) in [("crosslane", program), ("sudo", sudo)] {
            let path = programs.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        Self { folder, path, servers: Servers::default() }
    }

    fn command(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1; {line}")]).current_dir(&self.folder);
        shell.env("PATH", &self.path).env("COLUMNS", COLUMNS).env("NO_COLOR", "1");
        shell.stdin(Stdio::null());
        shell
    }

    /// Runs a command to its end.
    fn run(&self, line: &str) -> (ExitStatus, String) {
        let output = self.command(line).output().expect("sh starts");
        (output.status, String::from_utf8(output.stdout).expect("output is UTF-8"))
    }

    /// Starts a command that goes on; its first lines.
    fn start(&mut self, line: &str, count: usize) -> String {
        let mut server = self.command(&format!("exec {line}"));
        let mut server = server.stdout(Stdio::piped()).process_group(0).spawn().expect("sh starts");
        let mut output = BufReader::new(server.stdout.take().expect("it is piped"));
        let mut text = String::new();
        for _ in 0..count {
            output.read_line(&mut text).expect("it prints text");
        }
        // Read to the end, so that it never waits for a reader.
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        self.servers.0.push(server);
        text
    }
}

/// Output with every number as `#`.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        let is_digit = c.is_ascii_digit() || (c == '.' && shown.ends_with('#'));
        if !is_digit {
            shown.push(c);
        } else if !shown.ends_with('#') {
            shown.push('#');
        }
    }
    shown
}

/// Output in the form in which a page shows it: whole, or without what `...` stands for.
fn in_form_of(shown: &[&str], output: &str) -> Vec<String> {
    let lines: Vec<String> = output.lines().map(|line| line.trim_end().to_owned()).collect();
    let Some(head) = shown.iter().position(|line| *line == ANY) else { return lines };
    let tail = shown.len() - head - 1;
    if lines.len() <= head + tail {
        return lines;
    }
    let mut form = lines[..head].to_vec();
    form.push(ANY.to_owned());
    form.extend_from_slice(&lines[lines.len() - tail..]);
    form
}

/// A block of commands with the output that they have now, and their number.
fn typed(block: &[&str], varies: bool, shell: &mut Shell, place: &str) -> (String, usize) {
    let (mut fresh, mut count, mut at) = (String::new(), 0, 0);
    while at < block.len() {
        let begin = at;
        let first = block[at].strip_prefix("$ ");
        let first = first.unwrap_or_else(|| panic!("{place}: not a command: {}", block[at]));
        let mut line = first.to_owned();
        while line.ends_with('\\') {
            at += 1;
            line.truncate(line.len() - 1);
            line.push_str(block[at].trim_start());
        }
        at += 1;
        let end = at + block[at..].iter().take_while(|line| !line.starts_with("$ ")).count();
        let shown = &block[at..end];
        let (status, output) = match line.strip_suffix('&') {
            Some(server) => (None, shell.start(server.trim_end(), shown.len().max(1))),
            None => {
                let (status, output) = shell.run(&line);
                (Some(status), output)
            }
        };
        let form = in_form_of(shown, &output);
        // A page may show how a command fails, and what the doctor finds.
        let fails = |line: &String| line.starts_with("error: ") || line.contains("problem");
        let is_well = status.is_none_or(|status| status.success()) || form.iter().any(fails);
        assert!(is_well, "{place}: {line}: {output}");
        let is_same =
            varies && without_numbers(&shown.join("\n")) == without_numbers(&form.join("\n"));
        let form = if is_same { shown.iter().map(|&line| line.to_owned()).collect() } else { form };
        for line in block[begin..at].iter().copied().chain(form.iter().map(String::as_str)) {
            let _ = writeln!(fresh, "{line}");
        }
        count += 1;
        at = end;
    }
    (fresh, count)
}

/// A page with the output that its commands have now, and their number.
fn with_output(text: &str, page: &str, shell: &mut Shell) -> (String, usize) {
    let (mut fresh, mut count, mut mark) = (String::new(), 0, "");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(fresh, "{line}");
        let Some(language) = line.strip_prefix(FENCE) else {
            mark = line;
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != FENCE).collect();
        let argument = |name: &str| {
            let mark = mark.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
            mark.strip_prefix(name)?.strip_prefix(": ")
        };
        let mut body = block.join("\n") + "\n";
        if let Some(name) = argument("file") {
            fs::write(shell.folder.join(name), &body).unwrap();
        } else if let Some(path) = argument("from") {
            let source = fs::read_to_string(root().join(path)).unwrap();
            let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
            let is_there = trimmed(&source).contains(&trimmed(&body));
            assert!(is_there, "{page}: a block that is not in {path}:\n{body}");
        } else if language == "console" {
            let (output, commands) = typed(&block, mark == NUMBERS_VARY, shell, page);
            (body, count) = (output, count + commands);
        }
        let _ = writeln!(fresh, "{body}{FENCE}");
        mark = "";
    }
    (fresh, count)
}

/// Files of docs with commands, as paths from the root.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("\n```console\n") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn commands_of_pages_print_what_pages_show() {
    let pages = Mutex::new((pages(&root().join("docs")), 0, 0));
    let wrong = Mutex::new(Vec::new());
    let check = || {
        loop {
            let Some(path) = pages.lock().unwrap().0.pop() else { return };
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let machine = machine_that_binds(&format!("pages/machine_of_{name}"));
            let text = fs::read_to_string(&path).unwrap();
            let mut shell = Shell::new(&name, &machine.root);
            let (fresh, commands) = with_output(&text, &name, &mut shell);
            let mut pages = pages.lock().unwrap();
            (pages.1, pages.2) = (pages.1 + 1, pages.2 + commands);
            drop(pages);
            if is_writing() {
                fs::write(&path, fresh).unwrap();
                continue;
            }
            let differs = text.lines().zip(fresh.lines()).find(|(old, new)| old != new);
            if let Some((old, new)) = differs {
                wrong.lock().unwrap().push(format!("{name}:\n  {old}\n  {new}"));
            } else if text.lines().count() != fresh.lines().count() {
                wrong.lock().unwrap().push(format!("{name}: its output is longer or shorter"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(check);
        }
    });
    let (_, count, commands) = pages.into_inner().unwrap();
    assert!(count >= LEAST.0 && commands >= LEAST.1, "{count} pages, {commands} commands");
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "`make readme` writes these anew:\n{}", wrong.join("\n"));
}

#[test]
fn output_takes_the_form_that_a_page_shows() {
    let output = "a\nb\nc\nd\n";
    assert_eq!(in_form_of(&["x", ANY, "y"], output), ["a", ANY, "d"]);
    assert_eq!(in_form_of(&[ANY, "y", "z"], output), [ANY, "c", "d"]);
    assert_eq!(in_form_of(&["x"], output), ["a", "b", "c", "d"]);
    assert_eq!(without_numbers("in 0.013 s, 80.0 MB/s."), without_numbers("in 1.5 s, 7 MB/s."));
}
