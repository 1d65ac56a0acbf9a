// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to questions.

use std::path::PathBuf;
use std::sync::Arc;

use anstream::adapter::strip_str;
use crosslane::bench::{How, run};
use crosslane::edit::{self, edited, outline};
use crosslane::experiment::{Progress, Scenario, topology};
use crosslane::explain::Explainable;
use crosslane::import::import_texts;
use crosslane::lab::{EngineKind, Lab, library, shipped};
use crosslane::labs;
use crosslane::results::{DirectionLoad, LabCheck, LabImport, LabSummary, Outcome};
use crosslane::results::{Figure, json_text, topology::Topology};
use crosslane_report::runs::page;
use crosslane_report::text::{Columns, Notes, text};
use crosslane_report::{
    Axis, Block, Plot, Scale, Section, Series, TopologyFigure, loaded_svg, page_style, page_svg,
    plot_part, topology_svg,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::lab::LabText;
use crate::question::{Dump, PlotAxis, Question, TraceWish, Work};
use crate::trace::{Recorder, Traced};

/// Most characters of a question: far more than a lab file and dumps of a large machine have.
pub const MAX_QUESTION_BYTES: usize = 64 << 20;

/// Answers a question, JSON for JSON: an object with the key `answer` or `failure`. `progress` is
/// told of runs, and may end them.
pub fn answer(question: &str, progress: &dyn Progress) -> String {
    let asked = match question.len() {
        0..=MAX_QUESTION_BYTES => serde_json::from_str(question)
            .map_err(|error| Failure::said(format!("this is no question: {error}"))),
        bytes => Err(Failure::said(format!(
            "the question has {bytes} B, and at most {MAX_QUESTION_BYTES} B are read"
        ))),
    };
    match asked.and_then(|question: Question| answered(&question, progress)) {
        Ok(answer) => answer,
        Err(failure) => failed(&failure),
    }
}

fn said(key: &str, what: &impl Serialize) -> String {
    let what = serde_json::to_string(what).expect("plain data can be written as JSON");
    format!("{{\"{key}\":{what}}}")
}

fn answered(question: &Question, progress: &dyn Progress) -> Result<String, Failure> {
    Ok(match question {
        Question::Labs => told(&all_labs()?),
        Question::Text { name } => match shipped().iter().find(|lab| lab.name == name) {
            Some(lab) => told(&lab.text),
            None => return Err(Failure::said(format!("no shipped lab is {name}"))),
        },
        Question::Check { lab } => told(&checked(lab)?),
        Question::Constants { lab } => told(&labs::constants(&lab.loaded()?.0)),
        Question::Topology { lab, loads, standing } => {
            told(&drawn(&lab.loaded()?.0, loads, *standing)?)
        }
        Question::Run { lab, work, seed, why, trace } => {
            told(&ran(lab, work, (*seed, *why), *trace, progress)?)
        }
        Question::Report { lab, outcome, command } => {
            told(&report(&lab.loaded()?.0, outcome, command)?)
        }
        Question::Written { lab } => told(&lab.written()?),
        Question::Edit { lab, edit } => {
            let (text, added) = edited(lab.file_text()?, edit)?;
            told(&Edited { text, added })
        }
        Question::Outline { lab } => told(&outline(lab.file_text()?)?),
        Question::Node { lab, node } => {
            told(&edit::node(lab.file_text()?, lab.variant.as_deref(), node)?)
        }
        Question::Plot { title, x, y, lines } => {
            let (title, [x, y]) = (title.clone(), [x, y].map(axis));
            let line = |(name, points): &(String, Vec<(f64, f64)>)| {
                Series::ours(name, points.iter().copied())
            };
            let series = lines.iter().map(line).collect();
            told(&plot_part(&Plot { title, x, y, series }))
        }
        Question::Import { dumps, name } => told(&imported(dumps, name)?),
    })
}

fn axis(axis: &PlotAxis) -> Axis {
    let scale = if axis.is_logarithmic { Scale::Logarithmic } else { Scale::Linear };
    Axis::new(&axis.label, &axis.unit, scale)
}

/// Writes an answer as JSON.
pub fn told(what: &impl Serialize) -> String {
    said("answer", what)
}

/// Writes that there is no answer as JSON.
pub fn failed(failure: &Failure) -> String {
    said("failure", failure)
}

/// All that is shipped.
#[derive(Serialize)]
struct Labs {
    version: &'static str,
    labs: Vec<LabSummary>,
    parts: Vec<LibraryPart>,
    /// Style sheet of reports, drawings included.
    style: String,
}

#[derive(Serialize)]
struct LibraryPart {
    name: String,
    kind: &'static str,
    summary: String,
}

fn all_labs() -> Result<Labs, Failure> {
    let parts = library()?.into_iter().map(|part| LibraryPart {
        name: part.name,
        kind: part.kind.word(),
        summary: part.summary,
    });
    Ok(Labs {
        version: env!("CARGO_PKG_VERSION"),
        labs: labs::list()?.labs,
        parts: parts.collect(),
        style: page_style(),
    })
}

/// A lab that can be built.
#[derive(Serialize)]
struct Checked {
    name: String,
    summary: String,
    /// The lab, then each variant, unless one was chosen.
    checked: Vec<LabCheck>,
    variants: Vec<String>,
    nodes: Nodes,
    /// Consequences of changes, a sentence each.
    notes: Vec<String>,
}

/// Nodes of a lab, by name.
#[derive(Serialize)]
struct Nodes {
    hosts: Vec<String>,
    switches: Vec<String>,
    endpoints: Vec<String>,
    /// Endpoints with a DMA engine.
    engines: Vec<String>,
}

fn checked(text: &LabText) -> Result<Checked, Failure> {
    let (lab, notes) = text.loaded()?;
    let file = lab.file();
    let mut checked = vec![labs::check_lab(&lab)?];
    let variants: Vec<String> = file.variants.iter().map(|it| it.name.clone()).collect();
    if text.variant.is_none() && text.changes.is_empty() {
        for variant in &variants {
            checked.push(labs::check_lab(&lab.with_variant(variant)?)?);
        }
    }
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let nodes = Nodes {
        hosts: file.hosts.iter().map(|it| it.name.clone()).collect(),
        switches: file.switches.iter().map(|it| it.name.clone()).collect(),
        endpoints: owned(lab.endpoints_with(|_| true)),
        engines: owned(lab.endpoints_with(|part| part.engine.is_some())),
    };
    let (name, summary) = (lab.name().to_owned(), lab.summary().to_owned());
    Ok(Checked { name, summary, checked, variants, nodes, notes })
}

/// A topology and its drawing.
#[derive(Serialize)]
struct Drawn {
    topology: Topology,
    svg: String,
}

fn drawn(lab: &Lab, loads: &[DirectionLoad], standing: bool) -> Result<Drawn, Failure> {
    let topology = topology(lab, &lab.build(1)?);
    let svg = match (standing, loads) {
        (true, []) => topology_svg(&topology),
        (true, loads) => loaded_svg(&topology, loads),
        (false, loads) => page_svg(&topology, loads),
    };
    Ok(Drawn { topology, svg })
}

/// A run that was made.
#[derive(Serialize)]
pub struct Run {
    /// The outcome, as `crosslane bench --json` prints it.
    pub json: String,
    /// The same as text.
    pub text: String,
    /// Of each scenario, its figure.
    pub figures: Vec<Option<Figure>>,
    /// A fault that it found, such as wrong data.
    pub problem: Option<String>,
    /// The trace, if it was asked for.
    pub trace: Option<Traced>,
    /// Remarks on the lab.
    pub notes: Vec<String>,
}

fn ran(
    text: &LabText,
    work: &Work,
    (seed, why): (u64, bool),
    wish: Option<TraceWish>,
    progress: &dyn Progress,
) -> Result<Run, Failure> {
    let (lab, notes) = text.loaded()?;
    let run = match work {
        Work::Traffic(traffic) => {
            let recorder = wish.map(|wish| (Recorder::new(wish), false));
            let scenarios = traffic.scenarios(&lab, seed)?;
            made(&lab, "traffic", scenarios, (seed, why), recorder, progress)
        }
        Work::Transfers(transfers) => {
            let recorder = wish.map(|wish| (Recorder::new(wish), true));
            let scenarios = transfers.scenarios(&lab, seed)?;
            made(&lab, &transfers.bench, scenarios, (seed, why), recorder, progress)
        }
    };
    Ok(Run { notes, ..run? })
}

/// Makes runs; `recorder` says whether engines take part.
fn made<W: Explainable>(
    lab: &Arc<Lab>,
    bench: &str,
    scenarios: Vec<Scenario<W>>,
    (seed, why): (u64, bool),
    recorder: Option<(Recorder, bool)>,
    progress: &dyn Progress,
) -> Result<Run, Failure> {
    if recorder.is_some() && scenarios.len() > 1 {
        return Err(Failure::said("a trace is of one run: give one size instead of a range"));
    }
    let sink = || recorder.as_ref().expect("a trace is asked for").0.sink();
    let trace = recorder.is_some().then_some(&sink as _);
    let how = How { bench, engine: EngineKind::Model, seed, why, progress, trace };
    let made = run(lab, scenarios, &how)?;
    let traced = recorder.map(|(recorder, with_engines)| {
        let running = if with_engines { lab.build_engines(seed) } else { lab.build(seed) };
        running.map(|running| recorder.traced(&running))
    });
    let outcome = Outcome::Bench(made.outcome);
    let json = json_text(&outcome).map_err(Failure::said)?;
    // The styles of a terminal are no part of a text.
    let text = text(&outcome, Notes::default(), Columns::default());
    Ok(Run {
        json,
        text: strip_str(&text).to_string(),
        figures: made.figures,
        problem: made.problem,
        trace: traced.transpose()?,
        notes: Vec::new(),
    })
}

fn report(lab: &Lab, outcome: &str, command: &str) -> Result<String, Failure> {
    let outcome = Outcome::parse(outcome).map_err(Failure::said)?;
    let page = page(&outcome, command);
    let mut page = page.ok_or_else(|| Failure::said("there is no page for this outcome"))?;
    if page.summary.is_empty() {
        lab.summary().clone_into(&mut page.summary);
    }
    let Outcome::Bench(bench) = outcome else { return Ok(page.to_html()) };
    let loads = bench.scenarios.into_iter().next_back().map(|last| last.link_loads);
    if let Some(loads) = loads.filter(|loads| !loads.is_empty()) {
        let topology = topology(lab, &lab.build(1)?);
        let figure = TopologyFigure { title: String::new(), topology, loads };
        let title = "Load of every link, in the last run".to_owned();
        page.sections.push(Section { title, blocks: vec![Block::Topology(figure)] });
    }
    Ok(page.to_html())
}

/// A lab file after an edit.
#[derive(Serialize)]
struct Edited {
    text: String,
    /// Name of the node that was added, if one was.
    added: Option<String>,
}

/// The lab of a machine.
#[derive(Serialize)]
struct Twin {
    text: String,
    summary: LabImport,
}

fn imported(dumps: &[Dump], name: &str) -> Result<Twin, Failure> {
    let dumps: Vec<(PathBuf, String)> =
        dumps.iter().map(|dump| (PathBuf::from(&dump.name), dump.text.clone())).collect();
    let imported = import_texts(&dumps, name)?;
    Ok(Twin { text: imported.text, summary: imported.summary })
}
