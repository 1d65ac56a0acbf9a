// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads on cards that are opened by name: boards, and what a server shows on a socket. Time is
//! the machine's there, and of the links nothing is known but what the cards and the tree say.

use crosslane_bench::{Brought, Job, NoObserver, RoundTrips, WorkloadFlow};
use crosslane_open::{CardError, DeviceName, OpenError, Session, SessionOptions};
use crosslane_results::{Platform, Scenario};

use super::arguments::WorkloadArguments;
use super::opened_report::{page, wrong_sentence};
use crate::bench_outcome::bench_outcome;
use crate::engine_argument::EngineWord;
use crate::error::CommandError;
use crate::output::{print, print_error, print_json};
use crate::place_argument::{Named, is_served};
use crate::report_file::{report_of, write_outcome_page};

/// Where a workload is run.
pub enum Place<'a> {
    /// In a lab; with the cards that `--device` names, of a flow the first and the last.
    Lab {
        /// Name, or path of a lab file.
        lab: String,
        /// The first card.
        first: Option<String>,
        /// The last one, if there are several.
        last: Option<String>,
    },
    /// On cards that are to be opened.
    Cards(Opened<'a>),
}

fn usage(sentence: String) -> CommandError {
    CommandError::Usage(sentence)
}

/// What cannot be opened, as the command says it.
pub fn refused(error: OpenError) -> CommandError {
    match error {
        OpenError::Lab(error) => CommandError::Lab(error),
        OpenError::Function(_) => CommandError::Card(error.to_string()),
        error => usage(error.to_string()),
    }
}

/// Converts the error of a card that cannot be used.
pub fn card_failed(error: CardError) -> CommandError {
    CommandError::Card(error.to_string())
}

/// Runs a program on the cards of a session.
///
/// # Errors
/// The program's, and in a lab a program that can never end.
pub fn run_on<T>(
    session: &Session,
    program: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    session.block_on(program).map_err(|stuck| CommandError::Card(stuck.to_string()))?
}

impl<'a> Place<'a> {
    /// Where the command line of `bench` says.
    ///
    /// # Errors
    /// A name that is none, cards that cannot be used together, and options that only labs have.
    pub fn of(bench: &'a str, common: &'a WorkloadArguments) -> Result<Self, CommandError> {
        match common.place.named()? {
            Named::Lab { lab, endpoints } => {
                let last = endpoints.last().filter(|_| endpoints.len() > 1).cloned().flatten();
                Ok(Self::Lab { lab, first: endpoints.into_iter().next().flatten(), last })
            }
            Named::Cards(names) => {
                check_options(common)?;
                Ok(Self::Cards(Opened { bench, common, names }))
            }
        }
    }
}

/// What a lab can do and a board cannot.
fn check_options(common: &WorkloadArguments) -> Result<(), CommandError> {
    let given = [
        ("--engine", common.engines.engine != EngineWord::Model),
        ("--trace-fst", common.trace_fst.is_some()),
        ("--trace", common.trace.is_some()),
        ("--mps", common.mps.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some(("--mps", _)) => Err(usage(
            "--mps: ports of a machine are set by `crosslane device set-mps`, before a run".into(),
        )),
        Some((option, _)) => Err(usage(format!("{option} is for labs"))),
        None => Ok(()),
    }
}

/// A workload on opened cards, but for who moves data to whom.
pub struct Opened<'a> {
    bench: &'a str,
    common: &'a WorkloadArguments,
    names: Vec<DeviceName>,
}

impl Opened<'_> {
    fn position(&self, option: &str, name: &str) -> Result<usize, CommandError> {
        let wanted = name.parse::<DeviceName>().ok();
        let found = self.names.iter().position(|card| Some(card) == wanted.as_ref());
        found.ok_or_else(|| {
            let names = self.names.iter().map(ToString::to_string);
            let names = names.collect::<Vec<_>>().join(", ");
            usage(format!("{option} {name}: the cards are {names}"))
        })
    }

    fn check_count(&self, flows: u16) -> Result<(), CommandError> {
        let have = self.names.len();
        match usize::from(flows) <= have {
            true => Ok(()),
            false => Err(usage(format!("--flows {flows}: --device names {have}"))),
        }
    }

    /// Flows between host memory and so many cards from one on.
    ///
    /// # Errors
    /// A name that is none of the cards', and what [`run`](Self::run) runs into.
    pub fn with_host(
        self,
        card: &Option<String>,
        host: &Option<String>,
        flows: u16,
        jobs: &[Job],
    ) -> Result<(), CommandError> {
        if let Some(host) = host.as_ref().filter(|host| *host != "host") {
            return Err(usage(format!("{host} is not the host that the cards are in: `host` is")));
        }
        let first = card.as_ref().map_or(Ok(0), |name| self.position("--from or --to", name))?;
        self.check_count(flows)?;
        let count = self.names.len();
        let flows = (0..usize::from(flows)).map(|flow| vec![(first + flow) % count]).collect();
        self.run(flows, jobs)
    }

    /// So many flows from card to card, both going on in the order in which they are named.
    ///
    /// # Errors
    /// As [`with_host`](Self::with_host), and a card to itself.
    pub fn pairs(
        self,
        from: &Option<String>,
        to: &Option<String>,
        flows: u16,
        jobs: &[Job],
    ) -> Result<(), CommandError> {
        let count = self.names.len();
        if count < 2 {
            return Err(usage("two cards are needed: --device names one".to_owned()));
        }
        let first = from.as_ref().map_or(Ok(0), |name| self.position("--from", name))?;
        let second = to.as_ref().map_or(Ok(first + 1), |name| self.position("--to", name))?;
        self.check_count(flows)?;
        if first % count == second % count {
            let name = &self.names[first % count];
            return Err(usage(format!("--to {name}: it cannot move data to itself")));
        }
        let pair = |flow: usize| vec![(first + flow) % count, (second + flow) % count];
        let flows = (0..usize::from(flows)).map(pair).collect();
        self.run(flows, jobs)
    }

    /// Through the cards from one to another.
    ///
    /// # Errors
    /// As [`with_host`](Self::with_host), and an order that is not that of `--device`.
    pub fn row(
        self,
        from: &Option<String>,
        to: &Option<String>,
        jobs: &[Job],
    ) -> Result<(), CommandError> {
        let first = from.as_ref().map_or(Ok(0), |name| self.position("--from", name))?;
        let end = self.names.len() - 1;
        let last = to.as_ref().map_or(Ok(end), |name| self.position("--to", name))?;
        if last < first {
            return Err(usage(format!("--to {}: it stands before --from", self.names[last])));
        }
        self.run(vec![(first..=last).collect()], jobs)
    }

    /// Opens the cards, runs each job and prints.
    fn run(self, flows: Vec<Vec<usize>>, jobs: &[Job]) -> Result<(), CommandError> {
        let file = report_of(self.common.report.as_ref())?;
        let session = Session::open_all(&self.names, SessionOptions::default());
        let session = session.map_err(refused)?;
        let (brought, failed) = run_on(&session, async {
            let devices = session.devices().await.map_err(card_failed)?;
            let cards: Vec<Vec<_>> = flows
                .iter()
                .map(|flow| flow.iter().map(|card| devices[*card].clone()).collect())
                .collect();
            let (mut all, mut failed) = (Vec::new(), None);
            for job in jobs {
                match job.run(&cards, &NoObserver).await {
                    Ok(brought) => all.push((*job, brought)),
                    Err(error) => {
                        // What was measured before is still worth seeing.
                        failed = Some(error.to_string());
                        break;
                    }
                }
            }
            Ok((all, failed))
        })?;
        let runs: Vec<OpenedRun> = brought.into_iter().map(OpenedRun::new).collect();
        let is_served = is_served(&self.names);
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        let platform = Platform::Cards { devices: names, served: is_served };
        let scenarios = runs.iter().map(OpenedRun::scenario).collect();
        let outcome = bench_outcome(self.bench, platform, self.common.seed, scenarios, None);
        match self.common.json {
            true => print_json(&outcome)?,
            false => print(&page(&runs, is_served, self.common.no_why))?,
        }
        if let Some(file) = &file {
            write_outcome_page(&outcome, None, None, file)?;
        }
        let wrong: u64 = runs.iter().map(OpenedRun::wrong_words).sum();
        if wrong > 0 {
            print_error(&wrong_sentence(wrong));
        }
        match failed {
            Some(error) => Err(CommandError::Card(error)),
            None if wrong > 0 => Err(CommandError::Run),
            None => Ok(()),
        }
    }
}

/// What a job has brought.
pub struct OpenedRun {
    /// What was run.
    pub job: Job,
    /// Flow by flow.
    pub flows: Vec<WorkloadFlow>,
    /// Of a latency.
    pub round_trips: Option<RoundTrips>,
}

impl OpenedRun {
    fn new((job, brought): (Job, Brought)) -> Self {
        match brought {
            Brought::Flows(together) => {
                let flows = together.flows.into_iter();
                let flows = flows.map(|measured| WorkloadFlow { measured, ceiling: None });
                Self { job, flows: flows.collect(), round_trips: None }
            }
            Brought::RoundTrips(trips) => Self { job, flows: Vec::new(), round_trips: Some(trips) },
        }
    }

    fn scenario(&self) -> Scenario {
        let wrong = self.wrong_words();
        Scenario {
            bytes: Some(self.job.size_bytes()),
            flows: self.flows.iter().map(|flow| flow.result(&self.job)).collect(),
            latency: self.round_trips.as_ref().map(RoundTrips::result),
            errors: (wrong > 0).then(|| wrong_sentence(wrong)).into_iter().collect(),
            error_count: u64::from(wrong > 0),
            ..Scenario::default()
        }
    }

    pub(super) fn wrong_words(&self) -> u64 {
        let trips = self.round_trips.as_ref().map_or(0, |trips| trips.data_errors.words);
        trips + self.flows.iter().map(|flow| flow.measured.data_errors.words).sum::<u64>()
    }
}
