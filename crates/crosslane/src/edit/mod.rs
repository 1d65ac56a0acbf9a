// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Edits of a lab file's text: parts of the library are added to its tree, moved, removed and
//! linked, and keys are set. The text is the one source; its comments stay, and so do its mistakes:
//! a file needs to be TOML to be edited, but no lab that can be built.
//!
//! Read first: [`Edit`], then [`edited`]. [`outline`](outline()) and [`node`](node()) show a file
//! to those who edit it.

mod file;
mod names;
mod part;
mod view;

use crosslane_host::kinds;
use serde::Deserialize;
use thiserror::Error;
use toml_edit::{Item, Table};

use self::file::{File, Row, put};
pub(crate) use self::names::{Names, forget_positions, further, quoted};
pub use self::view::{
    KeyView, NodeView, Outline, OutlineNode, OutlinePart, TableView, node, outline,
};

/// An edit of a lab file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Adds a node, with a link above it unless it is a host.
    Add {
        /// Name of a part of the file, or of one of the library, which is copied into the file.
        part: String,
        /// Host or switch above it; none for a host.
        below: Option<String>,
    },
    /// Removes a node and all that is below it.
    Remove {
        /// Name of the node.
        node: String,
    },
    /// Moves a switch or endpoint, with all that is below it, to another host or switch.
    Move {
        /// Name of the node.
        node: String,
        /// Host or switch above it from then on.
        below: String,
    },
    /// Gives a node another name.
    Rename {
        /// Name of the node.
        node: String,
        /// Its new name.
        name: String,
    },
    /// Sets a key, in a table that is made if it is missing.
    Set {
        /// Path of the table: `part.v7.requester`, `endpoint.fpga1.requester`, or `link.fpga1` for
        /// the link above it.
        place: String,
        /// The key.
        key: String,
        /// Its value.
        value: Scalar,
        /// Range that the value lies in.
        range: Option<[f64; 2]>,
        /// Source of the value; none for a key that is no constant.
        source: Option<String>,
    },
    /// Removes a key.
    Unset {
        /// Path of its table.
        place: String,
        /// The key.
        key: String,
    },
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// True or false.
    Truth(bool),
    /// A whole number.
    Whole(i64),
    /// Another number.
    Real(f64),
    /// A word.
    Word(String),
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Truth(truth) => truth.to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Real(number) => toml_edit::Value::from(*number).to_string(),
            Self::Word(word) => quoted(word),
        }
    }
}

/// Reason for which a file cannot be edited.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EditError {
    /// A file that is not TOML.
    #[error("cannot edit the lab: line {line} is not TOML: {problem}")]
    Syntax {
        /// The reason.
        problem: String,
        /// Line, from 1.
        line: usize,
    },
    /// A table in a form that edits do not reach, such as a list in one line.
    #[error("cannot edit {place}: the file does not have it as tables in brackets")]
    Form {
        /// Its path.
        place: String,
    },
    /// A name that nothing in the file has.
    #[error("cannot edit the lab: it has no {what} named {name}")]
    Unknown {
        /// A node, a part, a link.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A change of the tree that is impossible.
    #[error("cannot {0}")]
    Impossible(String),
}

kinds!(EditError {
    _ => InvalidArgument,
});

type Result<T> = std::result::Result<T, EditError>;

/// Returns the text of a lab file after an edit, and the name of the node that was added, if one
/// was.
///
/// # Errors
/// A text that is not TOML, names that it does not have, and trees that are impossible.
pub fn edited(text: &str, edit: &Edit) -> Result<(String, Option<String>)> {
    let mut file = File::parsed(text)?;
    let mut added = None;
    match edit {
        Edit::Add { part, below } => added = Some(add(&mut file, part, below.as_deref())?),
        Edit::Remove { node } => remove(&mut file, node)?,
        Edit::Move { node, below } => relocate(&mut file, node, below)?,
        Edit::Rename { node, name } => {
            let (kind, _) = file.node(node)?;
            if node != name && file.names().contains(name) {
                return Err(EditError::Impossible(format!(
                    "rename {node}: another node is named {name}"
                )));
            }
            file.rename(kind, node, name)?;
        }
        Edit::Set { place, key, value, range, source } => {
            let value = value.text();
            let text = match source {
                None => value,
                Some(source) => {
                    let range = range.map_or_else(String::new, |[low, high]| {
                        format!(", low = {low}, high = {high}")
                    });
                    format!("{{ value = {value}{range}, source = {} }}", quoted(source))
                }
            };
            put(file.table(place)?, key, &text);
        }
        Edit::Unset { place, key } => {
            file.table(place)?.remove(key);
            file.remove_empty(place)?;
        }
    }
    Ok((file.document.to_string(), added))
}

/// Refuses places below which nothing can be.
fn check_upper(file: &File, upper: &str) -> Result<()> {
    match file.node(upper)?.0 {
        "endpoint" => Err(EditError::Impossible(format!(
            "put anything below {upper}: it is an endpoint, and links lead down from hosts and \
             switches"
        ))),
        _ => Ok(()),
    }
}

fn add(file: &mut File, part: &str, below: Option<&str>) -> Result<String> {
    let kind = part::taken(file, part)?;
    let list = match kind.as_str() {
        "root-complex" => "host",
        "switch" => "switch",
        "endpoint" => "endpoint",
        _ => return Err(EditError::Unknown { what: "part of a node", name: part.to_owned() }),
    };
    let names = file.names();
    let word = if list == "endpoint" { "card" } else { list };
    let name = (0..).map(|number| format!("{word}{number}")).find(|name| !names.contains(name));
    let name = name.expect("there are more numbers than names");
    let mut lines = format!("name = \"{name}\"\npart = {}\n", quoted(part));
    let link = match (list, below) {
        ("host", _) => {
            lines.push_str(
                "buffers = { value = \"below-4-gib\", source = \"assumption: as an IOMMU gives \
                 addresses out\" }\n",
            );
            None
        }
        (_, None) => {
            let problem = format!("add {part}: choose the host or switch that it is below");
            return Err(EditError::Impossible(problem));
        }
        (_, Some(upper)) => {
            check_upper(file, upper)?;
            Some((upper, part::best_rate(file, upper, part)?))
        }
    };
    append(file, list, &lines)?;
    if let Some((upper, (generation, width))) = link {
        let source = "assumption: the best of both ports";
        let lines = format!(
            "upper = {}\nlower = \"{name}\"\n\
             generation = {{ value = {generation}, source = \"{source}\" }}\n\
             width = {{ value = {width}, source = \"{source}\" }}\n\
             flight_ns = {{ value = 1, source = \"assumption: 15 cm of board\" }}\n",
            quoted(upper)
        );
        append(file, "link", &lines)?;
    }
    Ok(name)
}

/// Adds a table to a list.
fn append(file: &mut File, list: &'static str, lines: &str) -> Result<()> {
    let table = part::parsed(lines);
    file.list_mut(list)?.push(table);
    Ok(())
}

fn remove(file: &mut File, node: &str) -> Result<()> {
    file.node(node)?;
    if let Some(torus) = file.list("torus").find(|it| is_of_torus(it, node)) {
        let nodes = torus.get("nodes").and_then(Item::as_str).unwrap_or_default();
        let problem = format!("remove {node}: it is one of {nodes}, the nodes of a torus");
        return Err(EditError::Impossible(problem));
    }
    let gone = file.below(node);
    let kept = |is_gone: bool| if is_gone { Row::Gone } else { Row::Kept };
    for kind in file::NODES {
        file.divide(kind, |row| kept(gone.contains(&row[0])));
    }
    for kind in ["link", "network", "peers"] {
        file.divide(kind, |row| kept(row[..2].iter().any(|name| gone.contains(name))));
    }
    Ok(())
}

fn is_of_torus(table: &Table, node: &str) -> bool {
    let names = Names::of(table.get("nodes").and_then(Item::as_str).unwrap_or_default());
    (0..names.count).any(|index| names.name(index) == node)
}

fn relocate(file: &mut File, node: &str, below: &str) -> Result<()> {
    if file.node(node)?.0 == "host" {
        let problem = format!("move {node}: it is a host, and nothing is above hosts");
        return Err(EditError::Impossible(problem));
    }
    check_upper(file, below)?;
    if file.below(node).contains(below) {
        let problem = format!("move {node} below {below}, which is below {node} itself");
        return Err(EditError::Impossible(problem));
    }
    if file.above().get(node).is_some_and(|upper| upper == below) {
        return Ok(());
    }
    let table = file.own("link", node)?;
    put(table, "upper", &quoted(below));
    // Of the port that it was at.
    for key in ["upper_port", "socket"] {
        table.remove(key);
    }
    Ok(())
}
