// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane ui`: the page of the lab on this machine, whose runs are the machine's own.
//!
//! Read first: [`site`], the requests that are answered, then [`questions`].

mod page;
mod questions;
mod site;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::{Args, ValueHint};
use crosslane::lab::{Lab, shipped};
use crosslane::machine::Machine;

use crate::completions::{self, Known};
use crate::error::{CommandError, Result};
use crate::files::cannot_read;
use crate::output::{print, print_hint};
use page::PageFiles;
use questions::{Begin, Questions};
use site::Site;

/// Arguments of `ui`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane ui
  crosslane ui rosta:crosslane --open
  crosslane ui my-lab.toml --port 8080
  crosslane ui --bridge bridge.log        of `crosslane bridge serve --log json 2> bridge.log`

The page is that of the documentation's lab in a browser, but runs are made by this program, on all
cores, and it also shows the cards of this machine and runs transfers on them. The address holds a
random token: whoever has it can do with cards what you can. Only this machine reaches it; from
another one, take the port along: ssh -L 8080:127.0.0.1:8080 HOST. Ctrl-C ends it and its runs.")]
pub struct UiArguments {
    /// The lab to begin with: a shipped lab's name, or a lab file; `:VARIANT` behind it chooses a
    /// variant [default: rosta].
    #[arg(value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: Option<String>,
    /// Port on this machine [default: any that is free].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Open the page in the desktop's browser (xdg-open).
    #[arg(long)]
    pub open: bool,
    /// Show a bridge server by the events that it logs; may be given many times.
    #[arg(long = "bridge", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub bridges: Vec<PathBuf>,
    /// The folder with the page [default: share/crosslane/lab beside the program's folder, or what
    /// `make web` has built].
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub page: Option<PathBuf>,
    /// The folder that holds `sys`, `dev` and `proc`: a machine in a folder, for tests.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, default_value = "/",
        hide = true)]
    pub root: PathBuf,
}

/// Serves the page until the program is ended.
///
/// # Errors
/// A lab that cannot be loaded, a page that is not there, and a port that cannot be used.
pub fn run(arguments: &UiArguments) -> Result<()> {
    let begin = arguments.lab.as_deref().map(begin_with).transpose()?;
    let page = PageFiles::read(arguments.page.as_deref())?;
    let port = arguments.port;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| {
        CommandError::Failed(match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "--port {port}: another program has this port; without --port a free one is taken"
            ),
            _ => format!("--port {port}: cannot listen at 127.0.0.1: {error}"),
        })
    })?;
    let questions = Questions {
        begin,
        machine: Machine::below(&arguments.root),
        bridges: arguments.bridges.clone(),
    };
    let site = Site::new(page, questions)?;
    let address = format!("http://{}", listener.local_addr()?);
    // Begun here, threads of runs are not named after the first question.
    let pool = rayon::ThreadPoolBuilder::new().thread_name(|number| format!("run {number}"));
    pool.build_global().map_err(CommandError::failed)?;
    print(&format!("{address}{}\n", site.root()))?;
    if arguments.open {
        open(&format!("{address}{}", site.once()));
    }
    site.serve(&listener)
}

/// Opens an address in the desktop's browser; the page is there without it, too.
fn open(address: &str) {
    let mut opener = Command::new("xdg-open");
    opener.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match opener.spawn() {
        // Some openers end with their browser.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => print_hint(&format!(
            "cannot open a browser: xdg-open: {error}; open the address yourself"
        )),
    }
}

/// Loads the lab that the page begins with, so that its problems are said here.
fn begin_with(name: &str) -> Result<Begin> {
    let lab = Lab::load(name)?;
    let variant = lab.variant().map(str::to_owned);
    let file = match &variant {
        Some(variant) => name.strip_suffix(&format!(":{variant}")).unwrap_or(name),
        None => name,
    };
    if shipped().iter().any(|shipped| shipped.name == file) {
        return Ok(Begin { name: file.to_owned(), text: None, variant });
    }
    // As it was written, so that commands on the page work here.
    let text = std::fs::read_to_string(file).map_err(|error| cannot_read(file.as_ref(), &error))?;
    Ok(Begin { name: file.to_owned(), text: Some(text), variant })
}
