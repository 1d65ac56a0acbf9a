// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane manual`: man pages, or the reference of the site in Markdown, made of the same texts
//! as `--help`.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Arg, Args, Command, CommandFactory, ValueHint};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use crosslane_report::output::Kind;

use crate::arguments::Cli;
use crate::error::{CommandError, Result};
use crate::files::output_of;
use crate::output::print;

/// The paragraph of a help text that has the examples begins so.
const EXAMPLES: &str = "Examples:\n";
/// How roff writes an apostrophe.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The arguments of `manual`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crosslane manual man1
  crosslane manual --markdown commands

Each command has a page, with the text of its --help: crosslane-bench-write.1 is that of `crosslane
bench write`. `man -l man1/crosslane.1` shows one; `man` finds them by name in
~/.local/share/man/man1.")]
pub struct ManualArguments {
    /// The folder for the pages, made if it is missing.
    #[arg(value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Write Markdown instead.
    #[arg(long)]
    markdown: bool,
}

/// Writes a page for each command.
///
/// # Errors
/// A folder or a file that cannot be written, or a file that is something else.
pub fn run(arguments: &ManualArguments) -> Result<()> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add_pages(&root, arguments.markdown, &mut pages);
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(|error| {
        CommandError::Failed(format!("cannot make the folder {}: {error}", folder.display()))
    })?;
    // All are tried before the first is written.
    let files = pages.iter().map(|(name, _)| output_of(&folder.join(name), Kind::Manual));
    let files = files.collect::<Result<Vec<_>>>()?;
    for (file, (_, text)) in files.iter().zip(&pages) {
        file.write(text.as_bytes())?;
    }
    print(&format!("{} pages in {}\n", pages.len(), folder.display()))
}

/// Name of the page of a command, without its ending.
fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn add_pages(command: &Command, is_markdown: bool, pages: &mut Vec<(String, String)>) {
    pages.push(match is_markdown {
        true => (format!("{}.md", page_name(command)), as_markdown(command)),
        false => (format!("{}.1", page_name(command)), as_man(command)),
    });
    subcommands(command).for_each(|one| add_pages(one, is_markdown, pages));
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

/// Arguments of a command that its page describes: those of every command are on the first page.
fn described(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_first = page_name(command) == command.get_name();
    command.get_arguments().filter(move |argument| {
        let is_everywhere = ["help", "version"].contains(&argument.get_id().as_str());
        !argument.is_hide_set() && !is_everywhere && (is_first || !argument.is_global_set())
    })
}

/// The text behind the options of a help page: its examples, and its other paragraphs.
fn notes(command: &Command) -> (Vec<String>, Vec<String>) {
    let text = command.get_after_long_help().or(command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    let paragraphs = text.trim().split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let (examples, others): (Vec<&str>, Vec<&str>) =
        paragraphs.partition(|paragraph| paragraph.starts_with(EXAMPLES));
    let lines = examples.iter().flat_map(|paragraph| paragraph.lines().skip(1));
    let without_indent = |line: &str| line.strip_prefix("  ").unwrap_or(line).to_owned();
    (lines.map(without_indent).collect(), others.into_iter().map(str::to_owned).collect())
}

/// The usage of a command, as its help page has it.
fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage: ").to_owned()
}

/// Whether the lines of a paragraph are to stay as they are: a list or a table.
pub(crate) fn is_laid_out(paragraph: &str) -> bool {
    paragraph.lines().any(|line| line.starts_with(' '))
}

fn as_man(command: &Command) -> String {
    let shown = command.clone().override_usage(usage(command));
    let shown = shown.subcommand_help_heading("COMMANDS").mut_args(|argument| {
        let is_hidden = described(command).all(|it| it.get_id() != argument.get_id());
        argument.hide(is_hidden)
    });
    let mut page = Vec::new();
    render(command, shown, &mut page).expect("memory can be written");
    let page = String::from_utf8(page).expect("names and help are UTF-8");
    // It stands before each section.
    let (first, others) = page.split_at(PREAMBLE.len());
    format!("{first}{}", others.replace(PREAMBLE, ""))
}

fn render(command: &Command, shown: Command, page: &mut Vec<u8>) -> io::Result<()> {
    let (has_options, has_commands) =
        (described(command).next().is_some(), subcommands(command).next().is_some());
    let has_description = command.get_long_about().is_some();
    let version = concat!("crosslane ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(shown).source(version).manual("Crosslane").date(" ");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    if has_description {
        man.render_description_section(page)?;
    }
    if has_options {
        man.render_options_section(page)?;
    }
    if has_commands {
        man.render_subcommands_section(page)?;
    }
    let (examples, others) = notes(command);
    let mut behind = Roff::new();
    if !others.is_empty() {
        behind.control("SH", ["NOTES"]);
    }
    for paragraph in &others {
        behind.control("PP", []);
        add_lines(&mut behind, paragraph.lines(), is_laid_out(paragraph));
    }
    if !examples.is_empty() {
        behind.control("SH", ["EXAMPLES"]);
        add_lines(&mut behind, examples.iter().map(String::as_str), true);
    }
    behind.to_writer(page)
}

/// Adds lines of text, as they are or to be filled.
fn add_lines<'a>(roff: &mut Roff, lines: impl Iterator<Item = &'a str>, is_laid_out: bool) {
    if is_laid_out {
        roff.control("nf", []);
    }
    lines.for_each(|line| {
        roff.text([roman(line)]);
    });
    if is_laid_out {
        roff.control("fi", []);
    }
}

fn as_markdown(command: &Command) -> String {
    let name = page_name(command).replace('-', " ");
    let name = command.get_bin_name().map_or(name, str::to_owned);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = usage(command);
    let mut page = format!("# {name}\n\n{}\n\n```text\n{usage}\n```\n", escaped(&about));
    let (examples, others) = notes(command);
    if !examples.is_empty() {
        let _ = write!(page, "\n## Examples\n\n```text\n{}\n```\n", examples.join("\n"));
    }
    if subcommands(command).next().is_some() {
        page.push_str("\n## Commands\n\n");
        add_list(&mut page, command, 0);
    }
    let mut arguments = described(command).peekable();
    if arguments.peek().is_some() {
        page.push_str("\n## Arguments and options\n");
    }
    arguments.for_each(|argument| add_argument(&mut page, argument));
    if !others.is_empty() {
        page.push_str("\n## Notes\n");
    }
    for paragraph in &others {
        let _ = match is_laid_out(paragraph) {
            true => write!(page, "\n```text\n{paragraph}\n```\n"),
            false => write!(page, "\n{}\n", escaped(paragraph)),
        };
    }
    page
}

/// Adds the commands below one, and those below them, with their pages.
fn add_list(page: &mut String, command: &Command, level: usize) {
    for one in subcommands(command) {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        let name = one.get_bin_name().unwrap_or_else(|| one.get_name());
        let (indent, link) = ("  ".repeat(level), page_name(one));
        let _ = writeln!(page, "{indent}- [{name}]({link}.md): {}", escaped(&about));
        add_list(page, one, level + 1);
    }
}

fn add_argument(page: &mut String, argument: &Arg) {
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let text = escaped(&help).replace('\n', "\n  ");
    let _ = write!(page, "\n{short}`{argument}`\n: {text}");
    let takes_values = argument.get_action().takes_values();
    let values: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if takes_values && !argument.is_hide_default_value_set() && !values.is_empty() {
        let _ = write!(page, " \\[default: `{}`\\]", values.join(" "));
    }
    page.push('\n');
    let possible = argument.get_possible_values();
    if takes_values && !argument.is_hide_possible_values_set() && !possible.is_empty() {
        page.push('\n');
        for value in possible.iter().filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(|help| format!(": {}", escaped(&help.to_string())));
            let _ = writeln!(page, "  - `{}`{}", value.get_name(), help.unwrap_or_default());
        }
    }
}

/// Text in which no character means anything to Markdown but the backtick.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (number, part) in text.split('`').enumerate() {
        let is_code = number % 2 == 1;
        if number > 0 {
            escaped.push('`');
        }
        for c in part.chars() {
            if !is_code && r"\*_<>[]|~".contains(c) {
                escaped.push('\\');
            }
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(is_markdown: bool) -> Vec<(String, String)> {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut pages = Vec::new();
        add_pages(&root, is_markdown, &mut pages);
        pages
    }

    fn page<'a>(pages: &'a [(String, String)], name: &str) -> &'a str {
        &pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn man_page_has_usage_options_and_examples() {
        let pages = pages(false);
        let text = page(&pages, "crosslane-bench-write.1");
        for part in [
            ".TH crosslane-bench-write 1 \" \" \"crosslane ",
            ".SH SYNOPSIS\n\\fBcrosslane bench write\\fR [OPTIONS]\n.SH OPTIONS\n",
            "\\fB\\-\\-iterations\\fR",
            ".SH EXAMPLES\n.nf\ncrosslane bench write \\-\\-lab rosta\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // It is described once, on the first page.
        assert!(!text.contains("\\fB\\-\\-wide\\fR\n"), "{text}");
        assert!(page(&pages, "crosslane.1").contains("\\fB\\-\\-wide\\fR"));
        assert!(!pages.iter().any(|(name, _)| name.contains("help")));
    }

    #[test]
    fn markdown_page_has_every_argument_and_link() {
        let pages = pages(true);
        let text = page(&pages, "crosslane-bench-write.md");
        assert!(text.starts_with("# crosslane bench write\n"), "{text}");
        assert!(text.contains("\n`--size <SIZE>`\n: Bytes of one transfer"), "{text}");
        assert!(text.contains("\\[default: `1M`\\]"), "{text}");
        assert!(text.contains("\n  - `ring`: In a ring in host memory"), "{text}");
        let first = page(&pages, "crosslane.md");
        for (name, _) in &pages[1..] {
            assert!(first.contains(&format!("]({name})")), "{name}");
        }
    }

    #[test]
    fn escaped_text_keeps_code_and_shows_stars() {
        assert_eq!(escaped("`a*b` is *:*:<x>"), r"`a*b` is \*:\*:\<x\>");
    }
}
