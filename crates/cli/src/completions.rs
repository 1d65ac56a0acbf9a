// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane completions`: scripts for shells, which know the labs with their variants, their
//! endpoints, the reproductions and the sets of measurements. Any other word is as good an
//! argument: a path, or a name of one's own lab.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use crosslane::lab::{Lab, shipped};
use crosslane_reproduce::study::{reproducible, studies};

use crate::arguments::Cli;

const PROGRAM: &str = "crosslane";

/// Takes any word, and knows some: shells complete these.
#[derive(Clone, Copy)]
pub struct Known(pub fn() -> &'static [String]);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0().iter().map(|name| PossibleValue::new(name.as_str()))))
    }
}

/// Names for which the shipped labs are read, in the order of these.
struct LabNames {
    labs: Vec<String>,
    devices: Vec<String>,
    endpoints: Vec<String>,
}

static LAB_NAMES: LazyLock<LabNames> = LazyLock::new(|| {
    let (mut labs, mut endpoints) = (Vec::new(), Vec::new());
    for lab in shipped() {
        let lab = Lab::load(lab.name).expect("a shipped lab is right");
        labs.push(lab.name().to_owned());
        let variants = lab.file().variants.iter();
        labs.extend(variants.map(|variant| format!("{}:{}", lab.name(), variant.name)));
        for endpoint in lab.endpoints_with(|_| true) {
            if !endpoints.iter().any(|known| known == endpoint) {
                endpoints.push(endpoint.to_owned());
            }
        }
    }
    let devices = labs.iter().map(|lab| format!("lab:{lab}")).collect();
    LabNames { labs, devices, endpoints }
});

/// The shipped labs, each with its variants behind it: `rosta`, `rosta:crosslane`.
pub fn labs() -> &'static [String] {
    &LAB_NAMES.labs
}

/// Cards of the shipped labs as `--device` names them: `lab:rosta:crosslane`.
pub fn devices() -> &'static [String] {
    &LAB_NAMES.devices
}

/// Names of the endpoints of the shipped labs, each once.
pub fn endpoints() -> &'static [String] {
    &LAB_NAMES.endpoints
}

/// The reproductions.
pub fn reproductions() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| reproducible().map(|known| known.name.to_owned()).collect());
    &NAMES
}

/// The sets of measurements that `validate` has.
pub fn sets() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| studies().map(str::to_owned).collect());
    &NAMES
}

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    let mut command = Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
    let script = String::from_utf8(script).expect("names and help are UTF-8");
    match shell {
        Shell::Bash => with_colons_in_bash(&script),
        Shell::Fish => with_arguments_in_fish(&script, &command),
        Shell::Zsh => with_files_in_zsh(&script),
        _ => script,
    }
}

/// Bash parts words at colons, and the names of variants have one: words are parted again at
/// blanks only, and what is before the last colon is taken off the answers.
const JOINED: &str = r#"
_crosslane_joined() {
    local IFS=$' \t\n'
    local line="${COMP_LINE:0:COMP_POINT}"
    local -a COMP_WORDS
    read -ra COMP_WORDS <<< "$line"
    if [[ "$line" == *[[:space:]] ]]; then
        COMP_WORDS+=("")
    fi
    local COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    local typed="${COMP_WORDS[COMP_CWORD]}"
    _crosslane "$1" "$typed" "${COMP_WORDS[COMP_CWORD - 1]}"
    if [[ "$typed" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        local before="${typed%"${typed##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
}
"#;

fn with_colons_in_bash(script: &str) -> String {
    let registration = "complete -F _crosslane -o";
    assert!(script.contains(registration), "the script registers its function");
    let script = script.replace(registration, "complete -F _crosslane_joined -o");
    format!("{}\n{script}", JOINED.trim_start())
}

/// Offers files beside the labs that zsh completes.
fn with_files_in_zsh(script: &str) -> String {
    let escaped: Vec<String> = labs().iter().map(|lab| lab.replace(':', "\\:")).collect();
    let only_labs = format!("({})", escaped.join(" "));
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    let labs = labs().join(" ");
    format!(
        "{first}\n\n_crosslane_labs() {{\n    _alternative 'labs:lab:({labs})' \
         'files:file:_files'\n}}\n{}",
        rest.replace(&only_labs, "_crosslane_labs")
    )
}

/// Offers files too where fish completes a lab, and adds arguments without an option, which the
/// script leaves out.
fn with_arguments_in_fish(script: &str, command: &Command) -> String {
    let first = labs().first().map_or("", String::as_str);
    let mut script =
        script.replace(&format!("-r -f -a \"{first}\\t"), &format!("-r -F -a \"{first}\\t"));
    for one in command.get_subcommands() {
        let using = format!("__fish_crosslane_using_subcommand {}", one.get_name());
        add_arguments(&mut script, one, &using);
        for nested in one.get_subcommands() {
            let seen = format!("{using}; and __fish_seen_subcommand_from {}", nested.get_name());
            add_arguments(&mut script, nested, &seen);
        }
    }
    script
}

fn add_arguments(script: &mut String, command: &Command, condition: &str) {
    for argument in command.get_positionals() {
        let values = argument.get_possible_values();
        if values.is_empty() {
            continue;
        }
        let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        // A lab may be a file too.
        let files = if names.iter().eq(labs()) { "" } else { " -f" };
        let names = names.join(" ");
        let _ = writeln!(script, "complete -c crosslane -n \"{condition}\"{files} -a \"{names}\"");
    }
}
