// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files: TOML text, parsed into parts, hosts, switches, endpoints and links, and checked.
//!
//! Read first: `labs/minimal.toml`, which explains every key it uses.

pub mod constant;
mod instances;
pub mod library;
mod model;
mod networks;
pub mod parts;
mod rewritten;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crosslane_fabric::parameters::PortParameters;
use crosslane_pcie::link::LinkRate;
use toml::Spanned;
use toml::de::DeTable;

use crate::error::{LabError, Position, Problem, Result, nearest};
use constant::Constant;
pub use crosslane_device::network_processor::CableParameters;
pub use crosslane_device::nic::NetworkParameters;
pub(crate) use instances::no_socket;
pub use instances::{
    EndpointInstance, HostBuffers, HostInstance, LinkInstance, PeersInstance, SwitchInstance,
};
pub(crate) use model::requester_key;
pub(crate) use networks::Share;
pub use networks::{NetworkInstance, TorusInstance};
use parts::PartKind;
use table::{Source, Table, Word};

/// Size limit of a lab file, bytes.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Format of lab files that this version reads and writes. A file without a number has format 1.
pub const FORMAT: u32 = 1;

/// Published measurements to compare a lab with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// The CSV file, relative to the lab file.
    pub file: String,
}

/// A variant of a lab: other constants for the same topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name of the variant, asked for as `lab:variant`.
    pub name: String,
    /// Description of the variant, one sentence.
    pub summary: String,
}

/// A lab file, read and checked.
#[derive(Clone, Debug)]
pub struct LabFile {
    /// Name of the lab.
    pub name: String,
    /// Description of the lab, one sentence.
    pub summary: String,
    /// The publication it reproduces, if any.
    pub source: Option<String>,
    /// Hosts; the first is [`HostId`](crosslane_pcie::HostId) 0.
    pub hosts: Vec<HostInstance>,
    /// Switches.
    pub switches: Vec<SwitchInstance>,
    /// Endpoints.
    pub endpoints: Vec<EndpointInstance>,
    /// Links, in the order in which they add ports.
    pub links: Vec<LinkInstance>,
    /// Pairs of root ports with rules of their own for peers.
    pub peers: Vec<PeersInstance>,
    /// Network links between NICs.
    pub networks: Vec<NetworkInstance>,
    /// Tori of network processors.
    pub tori: Vec<TorusInstance>,
    /// Published measurements to compare with.
    pub measurements: Vec<Measurements>,
    /// Variants of the lab.
    pub variants: Vec<Variant>,
    /// Constants in force, in the order of the file.
    pub constants: Vec<Constant>,
    file: Arc<str>,
    text: Arc<str>,
}

/// A named part, read when it is used.
struct Part<'a> {
    kind: PartKind,
    table: Table<'a>,
}

impl LabFile {
    /// Reads a lab file. `file` is its name for errors; `variant` selects one of its variants;
    /// `replaced` sets constants anew by path.
    ///
    /// # Errors
    /// The first problem of the file, with its position.
    pub fn parse(
        file: &str,
        text: &str,
        variant: Option<&str>,
        replaced: &BTreeMap<String, f64>,
    ) -> Result<Self> {
        let source = Source::new(file, text, replaced);
        let parsed = parsed(&source)?;
        let root = Table::root(&source, parsed.get_ref());
        let lab = read(&root, variant)?;
        for path in replaced.keys() {
            lab.check_replaced(path, variant)?;
        }
        Ok(lab)
    }

    /// Rejects a path that is not one of the numbers in force.
    fn check_replaced(&self, path: &str, variant: Option<&str>) -> Result<()> {
        let in_force = |path: &str| {
            self.constants.iter().any(|constant| constant.is_number && constant.path() == path)
        };
        if in_force(path) {
            return Ok(());
        }
        let path = path.to_owned();
        Err(LabError::nowhere(match variant.map(|name| (name, format!("variant.{name}.{path}"))) {
            Some((variant, instead)) if in_force(&instead) => {
                Problem::Overruled { path, variant: variant.to_owned(), instead }
            }
            _ => {
                let paths: Vec<String> = self.constants.iter().map(Constant::path).collect();
                let suggestion = nearest(&path, paths.iter().map(String::as_str));
                let what = "number among the constants";
                Problem::UnknownName { what, name: path, suggestion }
            }
        }))
    }

    /// Sets the rate of the link above a switch or an endpoint, and raises the maxima of the ports
    /// at its ends that are lower. Returns these ports; `None` if there is no such link.
    pub(crate) fn set_link(&mut self, lower: &str, rate: LinkRate) -> Option<Vec<String>> {
        let link = self.links.iter_mut().find(|link| link.lower == lower)?;
        link.parameters.rate = rate;
        let mut raised = Vec::new();
        let mut raise = |port: &mut PortParameters, name: String| {
            let most = &mut port.capability.max_rate;
            let enough = LinkRate {
                generation: most.generation.max(rate.generation),
                width: most.width.max(rate.width),
            };
            if std::mem::replace(most, enough) != enough {
                raised.push(name);
            }
        };
        for host in self.hosts.iter_mut().filter(|host| host.name == link.upper) {
            raise(&mut Arc::make_mut(&mut host.part).port, format!("root ports of {}", host.name));
        }
        for switch in &mut self.switches {
            if switch.name == link.upper {
                let ports = &mut Arc::make_mut(&mut switch.part).downstream;
                raise(ports, format!("downstream ports of {}", switch.name));
            }
            if switch.name == lower {
                raise(&mut Arc::make_mut(&mut switch.part).upstream, format!("{lower}.up"));
            }
        }
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.name == lower) {
            raise(&mut Arc::make_mut(&mut endpoint.part).port, lower.to_owned());
        }
        Some(raised)
    }

    /// Returns the link above a switch or an endpoint, as an index.
    pub fn link_above(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.lower == name)
    }

    /// Lists the links from the one above a node up to that of its root port, as indexes.
    pub fn links_upwards<'a>(&'a self, name: &str) -> impl Iterator<Item = usize> + use<'a> {
        let upwards = std::iter::successors(self.link_above(name), move |link| {
            self.link_above(&self.links[*link].upper)
        });
        // The check of the wiring finds rings.
        upwards.take(self.links.len())
    }

    /// Returns the link of the root port above a switch or an endpoint, as an index.
    pub fn root_link(&self, name: &str) -> Option<usize> {
        self.links_upwards(name).last()
    }

    /// Returns the pair of the root ports above two switches or endpoints, if it has a rule of its
    /// own.
    pub fn peers_between(&self, one: &str, other: &str) -> Option<&PeersInstance> {
        if self.peers.is_empty() {
            return None;
        }
        let ends = [self.root_link(one)?, self.root_link(other)?];
        self.peers.iter().find(|peers| {
            let of = |name: &str| self.root_link(name);
            let (first, second) = (of(&peers.first), of(&peers.second));
            [first, second] == ends.map(Some) || [second, first] == ends.map(Some)
        })
    }

    /// Returns the position of a problem with an instance.
    pub(crate) fn place(&self, span: std::ops::Range<usize>, key: &str) -> Position {
        Position::new(self.file.clone(), self.text.clone(), span, key.to_owned())
    }

    pub(crate) fn error(
        &self,
        span: std::ops::Range<usize>,
        key: &str,
        problem: Problem,
    ) -> LabError {
        LabError::at(self.place(span, key), problem)
    }

    /// Returns the line of a byte of the text, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Parses the text of a file.
fn parsed(source: &Source) -> Result<Spanned<DeTable<'_>>> {
    let text: &str = &source.text;
    let whole = |problem| source.error(0..text.len().min(1), "", problem);
    if text.len() > MAX_FILE_BYTES {
        let (count, limit) = (text.len(), MAX_FILE_BYTES);
        return Err(whole(Problem::TooMany { what: "bytes of a lab file".into(), count, limit }));
    }
    let parsed = DeTable::parse(text).map_err(|error| {
        let message = error.message().trim().replace('\n', ", ");
        source.error(error.span().unwrap_or(0..0), "", Problem::Syntax { message })
    })?;
    if parsed.get_ref().is_empty() {
        return Err(whole(Problem::Empty));
    }
    Ok(parsed)
}

fn read(root: &Table<'_>, variant: Option<&str>) -> Result<LabFile> {
    root.only_known()?;
    let source = root.source;
    let head = root.unchecked_table("lab")?.ok_or_else(|| root.missing("lab"))?;
    if let Some(format) = head.plain_whole("format")?.filter(|format| *format != FORMAT.into()) {
        let problem = format!("this version reads format {FORMAT} of lab files, not {format}");
        return Err(head.bad("format", problem));
    }
    head.only_known()?;
    let own_parts = root.needed_table("part")?;
    let (variants, layers) = variants(root, &own_parts)?;
    let chosen = match variant {
        None => own_parts,
        Some(name) => match variants.iter().position(|variant| variant.name == name) {
            Some(index) => layers[index].clone(),
            None => {
                let known = variants.iter().map(|variant| variant.name.as_str());
                return Err(LabError::nowhere(Problem::NoSuchVariant {
                    lab: head.needed_word("name")?.text,
                    name: name.to_owned(),
                    suggestion: nearest(name, known.clone()),
                    known: known.map(str::to_owned).collect(),
                }));
            }
        },
    };
    // Constants of variants read only to check them are not in force.
    source.constants.borrow_mut().clear();
    let parts = parts(&chosen)?;
    let name = head.needed_word("name")?;
    check_name(&head, "name", &name)?;
    let mut lab = LabFile {
        name: name.text,
        summary: head.needed_word("summary")?.text,
        source: head.word("source")?.map(|word| word.text),
        hosts: Vec::new(),
        switches: Vec::new(),
        endpoints: Vec::new(),
        links: Vec::new(),
        peers: Vec::new(),
        networks: Vec::new(),
        tori: Vec::new(),
        measurements: measurements(root)?,
        variants,
        constants: Vec::new(),
        file: source.file.clone(),
        text: source.text.clone(),
    };
    instances::read(root, &parts, &mut lab)?;
    lab.constants = source.constants.take().into_values().collect();
    Ok(lab)
}

/// Reads the variants, and for each the lab's parts with the variant's constants on top. Every
/// variant is checked, whichever is selected.
fn variants<'a>(root: &Table<'a>, own_parts: &Table<'a>) -> Result<(Vec<Variant>, Vec<Table<'a>>)> {
    let Some(table) = root.table("variant")? else { return Ok(Default::default()) };
    let (mut variants, mut layers) = (Vec::new(), Vec::new());
    for (name, table) in table.children()? {
        table.only_known()?;
        check_name(&table, "", &name)?;
        let over = table.needed_table("part")?;
        let known: BTreeSet<String> =
            own_parts.children()?.into_iter().map(|(word, _)| word.text).collect();
        for (part, _) in over.children()? {
            if !known.contains(&part.text) {
                let suggestion = nearest(&part.text, known.iter().map(String::as_str));
                let problem = Problem::UnknownName { what: "part", name: part.text, suggestion };
                return Err(root.source.error(part.span, table.path(), problem));
            }
        }
        let together = own_parts.under(&over);
        parts(&together)?;
        let summary = table.needed_word("summary")?.text;
        variants.push(Variant { name: name.text, summary });
        layers.push(together);
    }
    Ok((variants, layers))
}

fn parts<'a>(table: &Table<'a>) -> Result<BTreeMap<String, Part<'a>>> {
    let mut parts = BTreeMap::new();
    for (name, table) in table.children()? {
        check_name(&table, "", &name)?;
        let kind = PartKind::read(&table)?;
        let table = table.with_keys(kind.keys());
        parts::check(kind, &table)?;
        parts.insert(name.text, Part { kind, table });
    }
    Ok(parts)
}

fn measurements(root: &Table<'_>) -> Result<Vec<Measurements>> {
    let read = |table: Table<'_>| {
        table.only_known()?;
        let file = table.needed_word("file")?.text;
        let inside = !file.is_empty()
            && !file.starts_with('/')
            && !file.contains('\\')
            && file.split('/').all(|piece| !piece.is_empty() && piece != "..");
        if !inside {
            let problem = format!("\"{file}\" is not a path below the folder of the lab file");
            return Err(table.bad("file", problem));
        }
        Ok(Measurements { file })
    };
    root.list("measurements")?.into_iter().map(read).collect()
}

/// Size limit of a name, bytes.
const MAX_NAME_BYTES: usize = 64;

/// Checks a name: letters, digits, `-` and `_` only, since a dot separates a node from its port.
fn check_name(table: &Table<'_>, key: &str, name: &Word) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let good = (1..=MAX_NAME_BYTES).contains(&name.text.len()) && name.text.bytes().all(fits);
    if good {
        return Ok(());
    }
    let problem = Problem::BadValue {
        key: if key.is_empty() {
            table.path().to_owned()
        } else {
            format!("{}.{key}", table.path())
        },
        problem: format!(
            "\"{}\" is not a name; a name is 1 to {MAX_NAME_BYTES} letters, digits, - and _{}",
            name.text,
            match key == "upper" && name.text.contains('.') {
                true => "; the port's socket and name have the keys socket and upper_port",
                false => "",
            }
        ),
    };
    Err(table.source.error(name.span.clone(), table.path(), problem))
}
