// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device doctor`: what is well with a card and its way, and the rate that the fabric
//! model predicts for exactly that way.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use crosslane::machine::{Exported, HOST, Rate, export, measure};
use crosslane_explain::{Choices, FlowRequest, TrafficOutcome, TrafficRun};
use crosslane_fabric::FlowKind;
use crosslane_lab::Lab;
use crosslane_vfio::sysfs::{Machine, PciFunction, Tree, why_kept};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::arguments::DoctorArguments;
use super::findings::{Finding, State, look, look_at_machine};
use super::list::BRIDGES;
use super::machine;
use crate::error::CommandError;
use crate::output;
use crate::output_file::{Kind, OutputFile};
use crate::progress::Progress;
use crate::quantity::{count_words, mebibytes, megabytes, percent};
use crate::table::{Align, Table};
use crate::why::{Made, Why, explain_all};

/// Bytes of one operation of a prediction, at most.
const OPERATION_BYTES: u64 = 1 << 20;
/// Bytes that a prediction moves.
const PREDICTED_BYTES: u64 = 16 << 20;
/// BARs with less room are no target of a prediction.
const LEAST_ROOM_BYTES: u64 = 4096;
/// Operations in flight.
const OUTSTANDING: u32 = 4;

/// What the fabric model says of one way.
struct Prediction {
    what: String,
    outcome: TrafficOutcome,
    why: Why,
}

/// `device doctor`.
///
/// # Errors
/// A function that is not there, a file that cannot be written, and [`CommandError::Run`] where
/// there is a problem, behind all that was found.
pub fn run(arguments: &DoctorArguments) -> Result<(), CommandError> {
    let machine = machine(&arguments.output.root);
    let tree = machine.tree()?;
    let findings = match arguments.address {
        Some(address) => of_card(arguments, &machine, &tree, tree.function(address)?)?,
        None => of_machine(arguments, &machine, &tree)?,
    };
    match findings.iter().any(|finding| finding.state == State::Problem) {
        true => Err(CommandError::Run),
        false => Ok(()),
    }
}

/// Whether the machine is ready for cards, and the functions that programs may have.
fn of_machine(
    arguments: &DoctorArguments,
    machine: &Machine,
    tree: &Tree,
) -> Result<Vec<Finding>, CommandError> {
    let findings = look_at_machine(machine);
    let (kept, candidates): (Vec<&PciFunction>, Vec<&PciFunction>) = tree
        .functions()
        .filter(|function| !function.kind.is_bridge() && function.class >> 16 != BRIDGES)
        .partition(|function| why_kept(function).is_some());
    if arguments.output.json {
        let candidate = |function: &&PciFunction| {
            json!({
                "address": function.address.to_string(),
                "class_words": function.class_words(),
                "driver": function.driver,
            })
        };
        output::print_json(&json!({
            "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
            "problems": problems(&findings),
            "candidates": candidates.iter().map(candidate).collect::<Vec<_>>(),
            "kept": kept.iter().map(|it| it.address.to_string()).collect::<Vec<_>>(),
        }))?;
        return Ok(findings);
    }
    let mut page = format!("this machine\n{}", findings_page(&findings));
    let mut table = Table::new(&[
        ("address", Align::Left),
        ("IDs", Align::Left),
        ("class", Align::Left),
        ("driver", Align::Left),
        ("more", Align::Left),
    ]);
    for function in &candidates {
        table.row([
            function.address.to_string(),
            format!("{:04x}:{:04x}", function.vendor, function.device),
            function.class_words().to_owned(),
            function.driver.clone().unwrap_or_else(|| "-".to_owned()),
            format!("crosslane device doctor {}", function.address),
        ]);
    }
    match candidates.len() {
        0 => page.push_str("\nNo function is there that a program may have\n"),
        _ => {
            let _ = write!(page, "\nFunctions that a program may have\n\n{table}");
        }
    }
    if !kept.is_empty() {
        let count = count_words(kept.len(), "function is", "functions are");
        let _ = writeln!(page, "\n{count} the system's: `crosslane device list` has all");
    }
    page.push_str(&last_line(&findings));
    output::print(&page)?;
    Ok(findings)
}

/// One card and its way.
fn of_card(
    arguments: &DoctorArguments,
    machine: &Machine,
    tree: &Tree,
    card: &PciFunction,
) -> Result<Vec<Finding>, CommandError> {
    let peer = arguments.peer.map(|peer| tree.function(peer)).transpose()?;
    if peer.is_some_and(|peer| peer.address == card.address) {
        let sentence = format!("--peer {}: that is the card itself", card.address);
        return Err(CommandError::Usage(sentence));
    }
    let file = arguments.to_lab.as_deref().map(|path| OutputFile::file(path, Kind::Lab));
    let file = file.transpose()?;
    let findings = look(machine, tree, card, peer);
    let cards: Vec<&PciFunction> = std::iter::once(card).chain(peer).collect();
    let name = match &arguments.to_lab {
        Some(path) => lab_name(path),
        None => "this-machine".to_owned(),
    };
    let exported = export(tree, &name, &cards, arguments.engine);
    if let Some(file) = file {
        let exported = exported.as_ref().map_err(|why| {
            CommandError::Input(format!("{} cannot be a lab: {why}", card.address))
        })?;
        file.write(exported.text.as_bytes())?;
    }
    let predictions = match &exported {
        Ok(both) if !arguments.no_model => {
            // A lab has one payload in force, and the peer's may be less than the card's own.
            let alone =
                export(tree, &name, &[card], arguments.engine).map_err(CommandError::Input)?;
            predict(&alone, both, card, peer)?
        }
        _ => Vec::new(),
    };
    let refused = exported.err();
    // A machine in a folder has no cards.
    let may_measure = !arguments.no_measure && arguments.output.root == Path::new("/");
    let measured = may_measure.then(|| measure(card));
    if arguments.output.json {
        let mut json = to_json((card, arguments), &findings, &predictions, refused);
        json["measured"] = measured.as_ref().map_or(Value::Null, measured_json);
        json["not_measured"] = json!(measured.and_then(Result::err));
        output::print_json(&json)?;
        return Ok(findings);
    }
    let mut page = format!("{}\n{}", card.address, findings_page(&findings));
    page.push_str(&prediction_page(arguments, &predictions, refused.as_deref()));
    page.push_str(&measured.map(|measured| measured_page(&measured)).unwrap_or_default());
    page.push_str(&last_line(&findings));
    output::print(&page)?;
    Ok(findings)
}

fn measured_json(measured: &Result<Vec<Rate>, String>) -> Value {
    let rates = measured.iter().flatten().map(|rate| {
        json!({
            "what": rate.what,
            "application_bytes_per_second": rate.application,
            "hardware_bytes_per_second": rate.hardware,
        })
    });
    rates.collect::<Vec<_>>().into()
}

fn measured_page(measured: &Result<Vec<Rate>, String>) -> String {
    let rates = match measured {
        Ok(rates) => rates,
        Err(why) => return format!("\nNo rate was measured: {why}\n"),
    };
    let mut table = Table::new(&[
        ("what", Align::Left),
        ("app MB/s", Align::Right),
        ("MB/s", Align::Right),
        ("MiB/s", Align::Right),
    ]);
    for rate in rates {
        let cells = [
            rate.what.to_owned(),
            megabytes(rate.application),
            megabytes(rate.hardware),
            mebibytes(rate.hardware),
        ];
        table.row(cells);
    }
    format!(
        "\nMeasured, every byte compared: as the program sees it (app), and by the engine's \
         timers\n\n{table}"
    )
}

/// A lab's name from that of its file: letters, digits, - and _.
fn lab_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = stem.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect();
    if name.is_empty() { "this-machine".to_owned() } else { name }
}

/// Runs the ways in the fabric model: those to host memory in the lab of the card `alone`.
fn predict(
    alone: &Exported,
    both: &Exported,
    card: &PciFunction,
    peer: Option<&PciFunction>,
) -> Result<Vec<Prediction>, CommandError> {
    let mut ways = vec![
        ("writes to host memory".to_owned(), alone, HOST, FlowKind::Write, OPERATION_BYTES),
        ("reads of host memory".to_owned(), alone, HOST, FlowKind::Read, OPERATION_BYTES),
    ];
    // What is in flight at once has to have room behind the peer's largest BAR.
    let room = peer.and_then(|peer| peer.bars.iter().map(|bar| bar.size_bytes).max());
    if let (Some(peer), Some(room)) = (peer, room.filter(|&room| room >= LEAST_ROOM_BYTES)) {
        let bytes = (room / u64::from(OUTSTANDING)).min(OPERATION_BYTES);
        let what = format!("writes to {}", peer.address);
        ways.push((what, both, both.name(peer.address), FlowKind::Write, bytes));
    }
    let mut runs = Vec::new();
    for (what, exported, to, kind, operation_bytes) in &ways {
        let lab = Arc::new(Lab::from_text("this machine", &exported.text)?);
        let request = FlowRequest {
            label: what.clone(),
            from: exported.name(card.address).to_owned(),
            to: (*to).to_owned(),
            kind: *kind,
            operation_bytes: *operation_bytes,
            payload_bytes: None,
        };
        let operations = Some(PREDICTED_BYTES / operation_bytes);
        let outstanding = Some(OUTSTANDING);
        let choices = Choices { operations, outstanding, relaxed: false, relaxed_reads: false };
        runs.push(TrafficRun::new(lab, vec![request], choices));
    }
    let progress = Progress::new(PREDICTED_BYTES * runs.len() as u64);
    let outcomes: Result<Vec<_>, _> = runs.par_iter().map(|run| run.run(&progress, None)).collect();
    progress.finish();
    let outcomes = outcomes?;
    let made: Vec<Made<'_, TrafficRun>> = runs
        .iter()
        .zip(&outcomes)
        .map(|(case, outcome)| Made {
            case,
            measured: Some(outcome.figure),
            account: outcome.account.as_ref(),
            has_errors: outcome.error_count > 0,
        })
        .collect();
    let whys = explain_all(&made, false);
    let ways = ways.into_iter().zip(outcomes).zip(whys);
    Ok(ways.map(|(((what, ..), outcome), why)| Prediction { what, outcome, why }).collect())
}

fn findings_page(findings: &[Finding]) -> String {
    let mut table = Table::new(&[("", Align::Left), ("what", Align::Left), ("found", Align::Left)]);
    for finding in findings {
        let state = finding.state.word().to_owned();
        table.row([state, finding.what.clone(), finding.found.clone()]);
    }
    let mut page = table.to_string();
    let help: Vec<&Finding> = findings.iter().filter(|finding| !finding.help.is_empty()).collect();
    if !help.is_empty() {
        page.push_str("\nWhat would help\n\n");
        for finding in help {
            let _ = writeln!(page, "{}: {}", finding.what, finding.help);
        }
    }
    page
}

fn problems(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.state == State::Problem).count()
}

fn last_line(findings: &[Finding]) -> String {
    let words = match problems(findings) {
        0 => "no problems".to_owned(),
        count => count_words(count, "problem", "problems"),
    };
    format!("\n{words}\n")
}

fn prediction_page(
    arguments: &DoctorArguments,
    predictions: &[Prediction],
    refused: Option<&str>,
) -> String {
    if let Some(why) = refused {
        return format!("\nNo rate is predicted: {why}\n");
    }
    let mut page = String::new();
    if !predictions.is_empty() {
        page.push_str("\nPredicted by the fabric model, from what was read and assumptions\n\n");
        let mut table = Table::new(&[
            ("what", Align::Left),
            ("MB/s", Align::Right),
            ("MiB/s", Align::Right),
            ("of ceiling", Align::Right),
            ("bottleneck", Align::Left),
        ])
        .least_first(&["MiB/s"]);
        for it in predictions {
            let Some(flow) = it.outcome.flows.first() else { continue };
            let rate = flow.bytes_per_second;
            let share = flow.share().map_or("-".to_owned(), |s| format!("{} %", percent(s)));
            let failed = it.outcome.errors.first().or(it.outcome.deadlock.as_ref());
            let bottleneck = match failed {
                Some(error) => error.clone(),
                None => bottleneck(&it.why),
            };
            table.row([it.what.clone(), megabytes(rate), mebibytes(rate), share, bottleneck]);
        }
        page.push_str(&table.to_string());
    }
    if let Some(path) = &arguments.to_lab {
        let _ = writeln!(page, "\nThe lab is in {}", path.display());
    }
    page
}

/// What holds a way, in the words of its limits.
fn bottleneck(why: &Why) -> String {
    match why {
        Why::Found(explanation) => match explanation.steps.first() {
            Some(step) => {
                let words: Vec<&str> = step.limits.iter().map(|it| it.words.as_str()).collect();
                words.join(" and ")
            }
            None => "none was found".to_owned(),
        },
        Why::Unknown(why) => format!("not known: {why}"),
        Why::LeftOut => "-".to_owned(),
    }
}

fn to_json(
    (card, arguments): (&PciFunction, &DoctorArguments),
    findings: &[Finding],
    predictions: &[Prediction],
    refused: Option<String>,
) -> Value {
    let predicted: Vec<Value> = predictions
        .iter()
        .map(|it| {
            let flow = it.outcome.flows.first();
            let ceiling = flow.and_then(|flow| flow.ceiling.as_ref());
            json!({
                "what": it.what,
                "bytes_per_second": flow.map(|flow| flow.bytes_per_second),
                "ceiling_bytes_per_second": ceiling.map(|it| it.less_dllps_bytes_per_second),
                "bottleneck": bottleneck(&it.why),
                "errors": it.outcome.errors,
                "why": it.why.explanation(),
            })
        })
        .collect();
    json!({
        "address": card.address.to_string(),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "problems": problems(findings),
        "predicted": predicted,
        "not_predicted": refused,
        "lab": arguments.to_lab,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_named_after_its_file() {
        assert_eq!(lab_name(Path::new("x/my board.toml")), "my-board");
        assert_eq!(lab_name(Path::new("/")), "this-machine");
    }
}
