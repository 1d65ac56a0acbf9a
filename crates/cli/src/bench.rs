// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of every `crosslane bench`, in a lab or on cards: progress, interruption, limits, and
//! the outcome as text, JSON and page.

use std::sync::Arc;
use std::time::Instant;

use crosslane::experiment::{ExperimentError, Outcome as _, Progress as _, Scenario, Work};
use crosslane::explain::{Explainable, Ran, Why, explain_all};
use crosslane::lab::{EngineKind, Lab, RunningLab};
use crosslane::open::{BusOptions, DeviceName, NumaNode, Session, SessionOptions};
use crosslane::results::{
    Bench as BenchOutcome, Explanation, Outcome, Platform, SCHEMA, ScenarioResult,
};
use crosslane::trace::Trace;
use crosslane_report::output::{Kind, OutputError, OutputFile, not_written};
use crosslane_report::text::{Notes, errors, text};

use crate::arguments::{ShownArguments, TraceArguments};
use crate::engine_argument::EngineArguments;
use crate::error::{CommandError, Result};
use crate::files::{Where, output_of, report_of, write_outcome_page};
use crate::interrupt::{is_asked, kept};
use crate::output::{print_error, print_hint, show};
use crate::place_argument::is_served;
use crate::progress::{Explaining, Progress, Steps};

/// A benchmark: its place, and how its outcome is shown.
pub struct Bench<'a> {
    name: &'a str,
    place: Where<'a>,
    seed: u64,
    is_json: bool,
    page: Option<OutputFile>,
    /// Facts of the runs that their outcomes do not contain.
    pub notes: Notes<'a>,
    /// Whether a single run is shown with all details.
    pub is_verbose: bool,
    /// Whether another process shows the outcome.
    pub is_silent: bool,
}

/// How scenarios are run in a lab.
pub struct Runs<'a, W: Work> {
    /// Plural of the word for a run.
    pub what: &'static str,
    /// Bytes of all runs, by which their progress is shown; else it is by their number.
    pub bytes: Option<u64>,
    /// Whether the machine's cores make several runs at a time.
    pub at_once: bool,
    /// The trace that may be wanted, and a lab like the one that runs.
    pub trace: Option<(&'a TraceArguments, RunningLab)>,
    /// Whether the limits of each run are searched for.
    pub why: bool,
    /// Kind of this project's engines, if it can be chosen.
    pub engines: Option<&'a EngineArguments>,
    /// Converts the error of a run.
    pub failed: fn(&W, ExperimentError) -> CommandError,
}

impl<W: Work> Runs<'_, W> {
    /// Runs that are shown by their number, several at a time.
    pub fn new(what: &'static str, why: bool) -> Self {
        Self {
            what,
            bytes: None,
            at_once: true,
            trace: None,
            why,
            engines: None,
            failed: |_, error| error.into(),
        }
    }
}

/// Runs that were made.
#[derive(Default)]
struct Made {
    scenarios: Vec<ScenarioResult>,
    deadlocks: Vec<String>,
    /// Details of the runs.
    details: String,
    is_wrong: bool,
}

impl Made {
    fn add(&mut self, outcome: &impl crosslane::experiment::Outcome, why: Why, on_model: bool) {
        let (why, not_explained) = parts_of(why);
        let why = why.map(|why| Explanation { on_model, ..why });
        let result = outcome.result();
        self.scenarios.push(ScenarioResult { why_not_faster: why, not_explained, ..result });
        self.deadlocks.extend(outcome.deadlock().map(str::to_owned));
        self.details.push_str(&outcome.details());
        self.is_wrong |= outcome.wrong_data().is_some();
    }
}

impl<'a> Bench<'a> {
    /// Begins a benchmark; the folder of its page is tried.
    ///
    /// # Errors
    /// A folder that cannot be made or written, or has somebody else's page.
    pub fn new(name: &'a str, place: Where<'a>, seed: u64, shown: &ShownArguments) -> Result<Self> {
        let (page, is_json) = (report_of(shown.report.as_deref())?, shown.json);
        let (notes, is_verbose, is_silent) = (Notes::default(), false, false);
        Ok(Self { name, place, seed, is_json, page, notes, is_verbose, is_silent })
    }

    /// Makes runs in a lab, each in a separate simulation, searches for their limits, and shows
    /// them.
    ///
    /// # Errors
    /// A run that cannot be made, an output that cannot be written, an interruption, and
    /// [`CommandError::Run`] if anything went wrong in a run.
    pub fn in_lab<W: Explainable>(
        self,
        scenarios: Vec<Scenario<W>>,
        how: Runs<'_, W>,
    ) -> Result<()> {
        let steps = Steps::new(scenarios.len() as u64, how.what);
        let bytes = how.bytes.map(Progress::new);
        let begun = Instant::now();
        let one = |scenario: &Scenario<W>, trace: Option<&Trace>| {
            let trace = trace.map(Trace::sink);
            let outcome = match &bytes {
                Some(bytes) => scenario.run(bytes, trace),
                None => scenario.run(&steps, trace),
            };
            match outcome {
                Err(ExperimentError::Interrupted) => Ok(None),
                Err(error) => Err((how.failed)(&scenario.work, error)),
                Ok(outcome) if bytes.is_some() => Ok(Some(outcome)),
                Ok(outcome) => {
                    steps.shown(&scenario.name(), outcome.simulated());
                    Ok(Some(outcome))
                }
            }
        };
        let all = |trace: Option<&Trace>| {
            steps.watch.each(&scenarios, how.at_once, |scenario| one(scenario, trace))
        };
        let lab = self.place.lab().map_or("", |lab| lab.name());
        let made = match how.trace {
            Some((wanted, running)) => traced(wanted, lab, running, all)?,
            None => all(None),
        };
        steps.finish();
        bytes.iter().for_each(Progress::finish);
        let (mut scenarios, outcomes) = kept(scenarios, made?);
        how.engines.iter().for_each(|engines| engines.print_speed(begun));
        if !self.is_silent {
            steps.print_parts();
        }
        // Limits of engines are lifted by their parameters, which gateware that is built has not.
        let is_rtl = how.engines.is_some_and(|engines| engines.engine == EngineKind::Rtl);
        for scenario in scenarios.iter_mut().filter(|_| is_rtl) {
            let model = Lab::clone(&scenario.lab).with_engines(EngineKind::Model);
            scenario.lab = Arc::new(model);
        }
        let whys = match how.why {
            true => explained(&scenarios, outcomes.iter().map(Ran::of), self.is_json),
            false => vec![None; outcomes.len()],
        };
        let mut made = Made::default();
        outcomes.iter().zip(whys).for_each(|(outcome, why)| made.add(outcome, why, is_rtl));
        self.show(&steps, made, None)
    }

    /// Makes runs on opened cards, one after the other, and shows those that were made.
    ///
    /// # Errors
    /// The first run that fails, an output that cannot be written, an interruption, and
    /// [`CommandError::Run`] if data arrived wrong.
    pub fn on_cards<J, O: crosslane::experiment::Outcome>(
        self,
        session: &Session,
        (jobs, what): (&[J], &'static str),
        run: impl AsyncFn(&J) -> Result<(String, O), ExperimentError>,
    ) -> Result<()> {
        let steps = Steps::new(jobs.len() as u64, what);
        let mut made = Made::default();
        let mut failed = None;
        for job in jobs.iter().take_while(|_| !is_asked()) {
            // Errors name the card.
            let outcome = run_on(session, async { run(job).await.map_err(CommandError::failed) });
            match outcome {
                Ok((name, outcome)) => {
                    steps.done(&name, outcome.simulated());
                    made.add(&outcome, None, false);
                }
                // Earlier measurements are still worth seeing.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        steps.finish();
        let failed = failed.or_else(|| session.finish().err().map(CommandError::from));
        match failed {
            Some(error) if made.scenarios.is_empty() => Err(error),
            failed => self.show(&steps, made, failed),
        }
    }

    /// Shows runs: as text or JSON, as a page, and their errors.
    fn show(self, steps: &Steps, made: Made, failed: Option<CommandError>) -> Result<()> {
        let Made { scenarios, deadlocks, details, is_wrong } = made;
        if self.is_silent {
            steps.watch.end("")?;
            return failed.map_or(if is_wrong { Err(CommandError::Run) } else { Ok(()) }, Err);
        }
        let outcome = BenchOutcome {
            schema: SCHEMA,
            bench: self.name.to_owned(),
            platform: platform(self.place),
            seed: self.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenarios,
            interrupted: steps.watch.interrupted(),
        };
        let outcome = Outcome::Bench(outcome);
        let details = if self.is_verbose { &*details } else { "" };
        print_outcome(&outcome, self.is_json, Notes { details, ..self.notes })?;
        steps.watch.end(&not_written([&self.page]))?;
        if let Some(page) = &self.page {
            write_outcome_page(&outcome, self.place.lab(), page)?;
        }
        let Outcome::Bench(BenchOutcome { scenarios, .. }) = &outcome else { return Ok(()) };
        let has_errors = print_errors(scenarios, &deadlocks);
        match failed {
            Some(error) => Err(error),
            None if has_errors || is_wrong => Err(CommandError::Run),
            None => Ok(()),
        }
    }
}

/// Searches for the limits of runs in a lab; JSON says all of every run.
pub fn explained<W: Explainable>(
    scenarios: &[Scenario<W>],
    ran: impl Iterator<Item = Ran>,
    is_json: bool,
) -> Vec<Why> {
    let explaining = Explaining::new(scenarios.len() as u64);
    let whys = explain_all(scenarios, &ran.collect::<Vec<_>>(), is_json, &explaining);
    explaining.finish();
    whys
}

/// Returns the explanation of a run, or the reason for which there is none.
pub fn parts_of(why: Why) -> (Option<Explanation>, Option<String>) {
    match why {
        Some(Ok(why)) => (Some(why), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    }
}

/// Opens cards by their names, with buffers on a NUMA node, by default that of the first card.
///
/// # Errors
/// Cards that cannot be opened, and a node that cannot be used.
pub fn opened(names: &[DeviceName], numa: Option<u16>) -> Result<Session> {
    let node = numa.map_or(NumaNode::OfCard, |node| NumaNode::Is(node.into()));
    let bus = BusOptions::default().with_numa(node);
    let session = Session::open_all(names, SessionOptions::default().with_bus(bus))?;
    if let Some(placement) = session.placement().filter(|placement| placement.is_refused()) {
        print_hint(&format!("buffers are on {placement}"));
    }
    Ok(session)
}

/// Runs a program on the cards of a session.
///
/// # Errors
/// The program's, and in a lab a program that can never end.
pub fn run_on<T>(session: &Session, program: impl Future<Output = Result<T>>) -> Result<T> {
    session.block_on(program)?
}

/// Returns the platform of an outcome.
pub fn platform(place: Where<'_>) -> Platform {
    match place {
        Where::Lab(lab) => {
            Platform::Lab { lab: lab.name().to_owned(), variant: lab.variant().map(str::to_owned) }
        }
        Where::Cards(names) => Platform::Cards {
            devices: names.iter().map(ToString::to_string).collect(),
            served: is_served(names),
        },
    }
}

/// Prints an outcome as JSON or text.
///
/// # Errors
/// Standard output that cannot be written.
pub fn print_outcome(outcome: &Outcome, is_json: bool, notes: Notes<'_>) -> Result<()> {
    show(is_json, outcome, |columns| text(outcome, notes, columns))
}

/// Prints the errors of runs; returns whether there are any.
pub fn print_errors(scenarios: &[ScenarioResult], deadlocks: &[String]) -> bool {
    let (lines, hint) = errors(scenarios, deadlocks);
    lines.iter().for_each(|line| print_error(line));
    hint.iter().for_each(|hint| print_hint(hint));
    scenarios.iter().any(|scenario| scenario.error_count > 0)
}

/// Calls `run` with the trace that is wanted; `running` is a lab like the one that runs, to name
/// its links.
///
/// # Errors
/// A file that cannot be written.
fn traced<T>(
    TraceArguments { trace, trace_unit }: &TraceArguments,
    lab: &str,
    running: RunningLab,
    run: impl FnOnce(Option<&Trace>) -> T,
) -> Result<T> {
    let Some(path) = trace else { return Ok(run(None)) };
    let file_error = |source| OutputError::file(path, source);
    let (file, unfinished) = output_of(path, Kind::Trace)?.begin()?;
    let whole = file.try_clone().map_err(file_error)?;
    let trace = Trace::new(file, &format!("lab {lab}"), *trace_unit, running);
    let result = run(Some(&trace));
    trace.finish().map_err(file_error)?;
    unfinished.finish(&whole)?;
    Ok(result)
}
