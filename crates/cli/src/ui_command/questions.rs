// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers of `crosslane ui`: those about labs are the page's module, compiled for this machine;
//! those about the machine, its cards and its bridge servers are here.
//!
//! A run on cards is a process of its own, this program again: one that is stopped, or whose card
//! never answers, is ended with its process, and the kernel takes the card from it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anstream::adapter::strip_str;
use crosslane::experiment::Progress;
use crosslane::machine::{
    self, Address, DoctorOptions, Machine, PredictionProgress, VFIO_PCI, diagnose_card,
    diagnose_machine,
};
use crosslane::open::DeviceName;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::machine::{FunctionSummary, MachineDiagnosis};
use crosslane::results::{Better, DirectionLoad, Figure, Outcome, ScenarioResult};
use crosslane_report::text::{Columns, Notes, card_diagnosis, text};
pub use crosslane_web::MAX_QUESTION_BYTES;
use crosslane_web::{Failure, Run, answer, failed, told};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most bytes of what a run on cards prints.
const MAX_PRINTED_BYTES: u64 = 64 << 20;
/// Time between two looks at a run on cards.
const INTERVAL: Duration = Duration::from_millis(20);
/// Bytes at the end of a bridge server's log that are read.
const LOG_BYTES: u64 = 1 << 20;
/// Most events of a bridge server that are shown, beside its transfers that go on.
const MAX_EVENTS: usize = 50;

/// A question about this machine; others are the module's.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// The lab that the page begins with.
    Begin {},
    /// Functions of this machine, and the doctor's findings on it.
    Cards {},
    /// The doctor's findings on a card, and the rates that its path reaches.
    Doctor { address: String },
    /// A benchmark of cards.
    RunCards {
        /// Their names: `vfio:ADDRESS`, `vfio-user:SOCKET`.
        devices: Vec<String>,
        bench: CardBench,
        size: Option<String>,
        iterations: Option<u64>,
    },
    /// The last events of bridge servers.
    Bridges {},
}

/// Benchmarks of cards, as the command line names them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CardBench {
    Write,
    Read,
    P2p,
    Latency,
    Chain,
}

impl CardBench {
    const fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::P2p => "p2p",
            Self::Latency => "latency",
            Self::Chain => "chain",
        }
    }
}

/// Questions of this module, by their words.
const OWN: [&str; 5] = ["begin", "cards", "doctor", "run_cards", "bridges"];

/// The lab that a page begins with.
#[derive(Clone, Debug, Serialize)]
pub struct Begin {
    /// A shipped lab, or the path of a file.
    pub name: String,
    /// Text of the file, if it is one.
    pub text: Option<String>,
    /// Variant of the lab.
    pub variant: Option<String>,
}

/// Facts that answers need.
pub struct Questions {
    /// The lab that the page begins with, if one was named.
    pub begin: Option<Begin>,
    /// The machine whose cards are shown.
    pub machine: Machine,
    /// Logs of bridge servers.
    pub bridges: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Cards {
    functions: Vec<FunctionSummary>,
    diagnosis: MachineDiagnosis,
    /// Names of those that programs may open.
    names: Vec<String>,
}

#[derive(Serialize)]
struct Bridge<'a> {
    file: &'a Path,
    /// The last events, the newest last; each is an object of the server.
    events: Vec<Value>,
    /// Of each transfer that has not ended, the last event that says how far it is.
    moving: Vec<Value>,
    problem: Option<String>,
}

/// A line of what is said about a question.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Progressed {
    /// The run goes on.
    Moved {
        /// Bytes so far.
        moved: u64,
        /// Simulated time so far.
        picoseconds: u64,
        /// Runs of the search for limits so far.
        tried: u64,
    },
    /// Loads of links meanwhile.
    Loads {
        /// Loads since the last ones.
        loads: Vec<DirectionLoad>,
    },
    /// It has failed in a way that should not be possible.
    Panic {
        /// A sentence.
        panic: &'static str,
    },
}

/// Returns what is said as JSON, without the line's end.
pub fn line_of(said: &impl Serialize) -> String {
    serde_json::to_string(said).expect("plain data can be written as JSON")
}

/// The word of a question; all else is its own reader's.
#[derive(Deserialize)]
struct Word {
    ask: String,
}

impl Questions {
    /// Answers a question, JSON for JSON.
    pub fn answer(&self, question: &str, progress: &dyn Progress) -> String {
        let word: Option<Word> = serde_json::from_str(question).ok();
        if !word.is_some_and(|word| OWN.contains(&word.ask.as_str())) {
            return answer(question, progress);
        }
        let said = serde_json::from_str(question)
            .map_err(|error| Failure::said(format!("this is no question: {error}")))
            .and_then(|question| self.answered(question, progress));
        said.unwrap_or_else(|failure| failed(&failure))
    }

    fn answered(&self, question: Question, progress: &dyn Progress) -> Result<String, Failure> {
        Ok(match question {
            Question::Begin {} => told(&self.begin),
            Question::Cards {} => told(&self.cards()?),
            Question::Doctor { address } => told(&self.doctor(&address, progress)?),
            Question::RunCards { devices, bench, size, iterations } => {
                let words = words_of(&devices, bench, size.as_deref(), iterations)?;
                told(&run_on_cards(&words, progress)?)
            }
            Question::Bridges {} => {
                told(&self.bridges.iter().map(|file| bridge(file)).collect::<Vec<_>>())
            }
        })
    }

    fn cards(&self) -> Result<Cards, Failure> {
        let tree = self.machine.tree().map_err(Failure::said)?;
        let functions = machine::list(&tree, false).functions;
        let diagnosis = diagnose_machine(&self.machine).map_err(Failure::said)?;
        let is_free = |it: &&FunctionSummary| it.driver.as_deref() == Some(VFIO_PCI);
        let names = functions.iter().filter(is_free).map(|it| format!("vfio:{}", it.address));
        Ok(Cards { names: names.collect(), functions, diagnosis })
    }

    fn doctor(&self, address: &str, progress: &dyn Progress) -> Result<String, Failure> {
        let address: Address = address.parse().map_err(Failure::said)?;
        let options = DoctorOptions::default();
        let found = diagnose_card(&self.machine, address, &options, &Observed(progress));
        let found = found.map_err(Failure::said)?;
        Ok(strip_str(&card_diagnosis(&found, Columns::default())).to_string())
    }
}

/// A prediction's observer is that of any run.
struct Observed<'a>(&'a dyn Progress);

impl Progress for Observed<'_> {
    fn is_due(&self) -> bool {
        self.0.is_due()
    }

    fn moved(&self, bytes: u64, simulated: Picoseconds) {
        self.0.moved(bytes, simulated);
    }

    fn tried(&self) {
        self.0.tried();
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

impl PredictionProgress for Observed<'_> {}

/// Returns the command line of a run on cards.
fn words_of(
    devices: &[String],
    bench: CardBench,
    size: Option<&str>,
    iterations: Option<u64>,
) -> Result<Vec<String>, Failure> {
    if devices.is_empty() {
        return Err(Failure::said("a run needs a card, such as vfio:0000:03:00.0"));
    }
    let mut words: Vec<String> =
        ["bench", bench.word(), "--json"].iter().map(|word| (*word).to_owned()).collect();
    for device in devices {
        match device.parse().map_err(Failure::said)? {
            DeviceName::Lab(_) => {
                let problem = "labs run above, cards are vfio:ADDRESS and vfio-user:SOCKET";
                return Err(Failure::said(format!("{device}: {problem}")));
            }
            name => words.push(format!("--device={name}")),
        }
    }
    words.extend(size.map(|size| format!("--size={size}")));
    words.extend(iterations.map(|count| format!("--iterations={count}")));
    Ok(words)
}

/// Runs this program with these words until it ends or somebody ends it.
fn run_on_cards(words: &[String], progress: &dyn Progress) -> Result<Run, Failure> {
    let program = std::env::current_exe().map_err(Failure::said)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("NO_COLOR", "1").env_remove("COLUMNS");
    let mut process = Ended(command.spawn().map_err(Failure::said)?);
    let printed = read_beside(process.0.stdout.take());
    let errors = read_beside(process.0.stderr.take());
    loop {
        if process.0.try_wait().map_err(Failure::said)?.is_some() {
            break;
        }
        if progress.is_over() {
            return Err(Failure { is_interrupted: true, ..Failure::said("the run was stopped") });
        }
        thread::sleep(INTERVAL);
    }
    let (printed, errors) = (joined(printed), joined(errors));
    if printed.trim().is_empty() {
        let sentence = errors.lines().find_map(|line| line.strip_prefix("error: "));
        let sentence = sentence.unwrap_or(errors.trim());
        return Err(Failure::said(if sentence.is_empty() {
            "the run said nothing"
        } else {
            sentence
        }));
    }
    let outcome = Outcome::parse(&printed).map_err(Failure::said)?;
    let Outcome::Bench(bench) = &outcome else {
        return Err(Failure::said("the run has another kind of outcome"));
    };
    let figures = bench.scenarios.iter().map(figure_of).collect();
    let notes = Notes { has_counters: true, ..Notes::default() };
    let text = strip_str(&text(&outcome, notes, Columns::default())).to_string();
    let problem = (!errors.trim().is_empty()).then(|| errors.trim().to_owned());
    Ok(Run { json: printed, text, figures, problem, trace: None, notes: Vec::new() })
}

/// Ends a process when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a stream in a thread, so that the process never waits for its reader.
fn read_beside(stream: Option<impl Read + Send + 'static>) -> Option<JoinHandle<String>> {
    let stream = stream?;
    Some(thread::spawn(move || {
        let mut bytes = Vec::new();
        // Whatever could be read is shown.
        let _ = stream.take(MAX_PRINTED_BYTES).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn joined(reader: Option<JoinHandle<String>>) -> String {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}

/// Returns the figure of a run on cards: the rate of all flows together, or the latency one way.
fn figure_of(scenario: &ScenarioResult) -> Option<Figure> {
    if let Some(latency) = &scenario.latency {
        let value = latency.one_way.typical_ps as f64;
        return Some(Figure { value, better: Better::Lower });
    }
    let rates = scenario.flows.iter().filter_map(|flow| flow.application_bytes_per_second);
    let value: f64 = rates.sum();
    (value > 0.0).then_some(Figure { value, better: Better::Higher })
}

/// Reads the last events of a bridge server's log.
fn bridge(file: &Path) -> Bridge<'_> {
    let read = || -> std::io::Result<String> {
        let mut log = File::open(file)?;
        let length = log.seek(SeekFrom::End(0))?;
        let begin = length.saturating_sub(LOG_BYTES);
        log.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        log.take(LOG_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // In the middle of a line, if the log is longer.
        Ok(if begin > 0 { text.split_once('\n').map_or("", |it| it.1).to_owned() } else { text })
    };
    match read() {
        Ok(text) => {
            // The last line may be half written.
            let lines = text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines();
            let parsed: Vec<Result<Value, _>> = lines.map(serde_json::from_str).collect();
            let broken = parsed.iter().filter(|line| line.is_err()).count();
            let problem = match broken {
                0 => None,
                1 => Some("1 line is no event".to_owned()),
                _ => Some(format!("{broken} lines are no events")),
            };
            let (mut events, mut moving) = (Vec::new(), BTreeMap::new());
            for event in parsed.into_iter().flatten() {
                let (kind, session) = (event["event"].as_str(), event["session"].as_u64());
                match (kind, session) {
                    (Some("moving"), Some(session)) => {
                        moving.insert(session, event);
                        continue;
                    }
                    (_, Some(session)) => drop(moving.remove(&session)),
                    _ => {}
                }
                events.push(event);
            }
            events.drain(..events.len().saturating_sub(MAX_EVENTS));
            Bridge { file, events, moving: moving.into_values().collect(), problem }
        }
        Err(error) => {
            let (events, moving) = (Vec::new(), Vec::new());
            Bridge { file, events, moving, problem: Some(error.to_string()) }
        }
    }
}
