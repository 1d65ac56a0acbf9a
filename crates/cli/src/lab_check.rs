// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab check`: builds a lab, warns of cards whose datapath is slower than their link,
//! and notes links that share a slower one, and peers without a route.

use std::fmt::Write as _;
use std::path::Path;

use crosslane_fabric::parameters::PeerToPeer;
use crosslane_lab::{Lab, RunningLab};
use crosslane_pcie::ceiling::write_ceiling_bytes_per_second;
use crosslane_pcie::config::PortType;
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::quantity::{count_words, megabytes};
use crate::tree::collect::collect;
use crate::tree::{Function, Host, Tree};

/// Header of a memory write below 4 GiB, DW (PCIe 6.x 2.2.4).
const HEADER_DW: u32 = 3;

/// A warning is probably a mistake; a note may be how the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    Warning,
    Note,
}

/// A property of a lab that slows runs or makes them impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Remark {
    weight: Weight,
    kind: &'static str,
    /// Names of nodes.
    subjects: Vec<String>,
    /// A sentence with `{}` for the subjects.
    words: String,
}

impl Remark {
    fn sentence(&self) -> String {
        let subjects = match &self.subjects[..] {
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            [] => String::new(),
        };
        self.words.replace("{}", &subjects)
    }

    fn line(&self) -> String {
        let word = match self.weight {
            Weight::Warning => "warning",
            Weight::Note => "note",
        };
        format!("  {word}: {}\n", self.sentence())
    }

    fn to_json(&self) -> Value {
        json!({ "kind": self.kind, "nodes": self.subjects, "sentence": self.sentence() })
    }
}

/// Checks a lab file and every variant in it.
///
/// # Errors
/// The first problem of the file, or an output that cannot be written.
pub fn run(file: &Path, is_json: bool) -> Result<(), CommandError> {
    let path = file.to_string_lossy();
    let lab = Lab::load(&path)?;
    let mut labs = vec![lab.clone()];
    for variant in &lab.file().variants {
        labs.push(lab.with_variant(&variant.name)?);
    }
    let (mut page, mut checked) = (String::new(), Vec::new());
    for lab in &labs {
        let running = lab.build(1)?;
        let remarks = remarks(lab, &running);
        page.push_str(&paragraph(&path, lab, &running, &remarks));
        checked.push(to_json(lab, &running, &remarks));
    }
    match is_json {
        true => print_json(&json!({ "file": path, "checked": checked })),
        false => print(&page),
    }
}

fn functions(running: &RunningLab) -> usize {
    running.hosts.iter().map(|host| host.tree.functions.len()).sum()
}

fn paragraph(path: &str, lab: &Lab, running: &RunningLab, remarks: &[Remark]) -> String {
    let variant = lab.variant().map_or(String::new(), |name| format!(", variant {name}"));
    let warnings = remarks.iter().filter(|remark| remark.weight == Weight::Warning).count();
    let verdict = match warnings {
        0 => "is fine".to_owned(),
        count => format!("can be built, with {}", count_words(count, "warning", "warnings")),
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{path}: lab {}{variant} {verdict}: {}, {}, {}, {}",
        lab.name(),
        count_words(running.hosts.len(), "host", "hosts"),
        count_words(running.fabric.links().len(), "link", "links"),
        count_words(functions(running), "function", "functions"),
        count_words(lab.constants().count(), "constant", "constants"),
    );
    remarks.iter().for_each(|remark| text.push_str(&remark.line()));
    text
}

fn to_json(lab: &Lab, running: &RunningLab, remarks: &[Remark]) -> Value {
    let of = |weight: Weight| -> Vec<Value> {
        let remarks = remarks.iter().filter(|remark| remark.weight == weight);
        remarks.map(Remark::to_json).collect()
    };
    json!({
        "lab": lab.name(),
        "variant": lab.variant(),
        "hosts": running.hosts.len(),
        "links": running.fabric.links().len(),
        "functions": functions(running),
        "constants": lab.constants().count(),
        "warnings": of(Weight::Warning),
        "notes": of(Weight::Note),
    })
}

/// All remarks on a lab, warnings first; nodes of which the same is said are in one.
fn remarks(lab: &Lab, running: &RunningLab) -> Vec<Remark> {
    let tree = collect(lab, running);
    let mut remarks: Vec<Remark> = Vec::new();
    let mut add = |remark: Remark| {
        let same = |known: &&mut Remark| known.words == remark.words;
        match remarks.iter_mut().find(same) {
            Some(known) => known.subjects.extend(remark.subjects),
            None => remarks.push(remark),
        }
    };
    for host in &tree.hosts {
        let functions: Vec<&Function> = host.functions.iter().flat_map(Function::walk).collect();
        functions.iter().filter_map(|function| datapath(lab, function)).for_each(&mut add);
        functions.iter().filter_map(|function| uplink(function)).for_each(&mut add);
        peers(lab, host).into_iter().for_each(&mut add);
    }
    remarks.sort_by_key(|remark| remark.weight == Weight::Note);
    remarks
}

/// A card that cannot fill its link with writes of the longest payload, for its datapath's sake.
fn datapath(lab: &Lab, function: &Function) -> Option<Remark> {
    let link = function.link.as_ref().filter(|_| function.kind == PortType::Endpoint)?;
    let mut endpoints = lab.file().endpoints.iter();
    let part = &endpoints.find(|endpoint| endpoint.name == function.node)?.part;
    let requester = &part.parameters.requester;
    let (bytes, clock) = (requester.datapath_bytes, requester.clock);
    // Of the devices only engines, and endpoints that are none, move data through it.
    let is_other = part.memory_card.is_some() || part.nic.is_some();
    if bytes == 0 || is_other || part.network_processor.is_some() {
        return None;
    }
    let is_with_header = part.engine.is_none_or(|engine| engine.header_on_datapath);
    let header = if is_with_header { 4 * HEADER_DW } else { 0 };
    let payload = link.payload_bytes.min(requester.max_write_bytes);
    let clocks = (payload + header).div_ceil(bytes);
    let rate = f64::from(payload) / (f64::from(clocks) * clock.as_seconds());
    let ceiling = write_ceiling_bytes_per_second(link.rate, HEADER_DW, payload);
    let words = format!(
        "the datapath of {{}}, {bytes} B each {clock}, carries {} MB/s of payload in TLPs of \
         {payload} B, and its link, {}, {} MB/s",
        megabytes(rate),
        link.rate,
        megabytes(ceiling),
    );
    let subjects = vec![function.node.clone()];
    let remark = Remark { weight: Weight::Warning, kind: "datapath", subjects, words };
    (rate < ceiling).then_some(remark)
}

/// A switch whose links below carry more together than the one above.
fn uplink(function: &Function) -> Option<Remark> {
    let above = function.link.as_ref().filter(|_| function.kind == PortType::UpstreamPort)?;
    let below = function.children.iter().flat_map(|port| &port.children);
    let below: Vec<f64> =
        below.filter_map(|lower| Some(lower.link.as_ref()?.rate.bytes_per_second())).collect();
    let (count, together) = (below.len(), below.iter().sum::<f64>());
    let words = format!(
        "the {count} links below {{}} carry {} MB/s together, and its link up, {}, {} MB/s",
        megabytes(together),
        above.rate,
        megabytes(above.rate.bytes_per_second()),
    );
    let (weight, subjects) = (Weight::Note, vec![function.node.clone()]);
    let remark = Remark { weight, kind: "oversubscribed", subjects, words };
    (together > above.rate.bytes_per_second()).then_some(remark)
}

/// A line for each host that forbids peers, for the page of a tree.
#[must_use]
pub fn forbidden_peers(lab: &Lab, tree: &Tree) -> String {
    tree.hosts.iter().filter_map(|host| peers(lab, host)).map(|remark| remark.line()).collect()
}

/// Endpoints below several root ports of a host that keeps them apart.
fn peers(lab: &Lab, host: &Host) -> Option<Remark> {
    let mut hosts = lab.file().hosts.iter();
    let part = &hosts.find(|instance| instance.name == host.name)?.part;
    let ports = host.functions.iter().filter_map(|port| {
        let functions = port.walk();
        let endpoints = functions.into_iter().filter(|it| it.kind == PortType::Endpoint);
        let names: Vec<&str> = endpoints.map(|endpoint| endpoint.node.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    });
    let ports: Vec<String> = ports.collect();
    let is_forbidden = part.parameters.peer_to_peer == PeerToPeer::Forbidden;
    if !is_forbidden || ports.len() < 2 {
        return None;
    }
    let words = format!(
        "{{}} forbids peer-to-peer between its root ports ({} is false), so that these do not \
         reach each other: {}",
        part.peer_to_peer_key,
        ports.join(" | ")
    );
    let (weight, subjects) = (Weight::Note, vec![host.name.clone()]);
    Some(Remark { weight, kind: "forbidden-peers", subjects, words })
}
