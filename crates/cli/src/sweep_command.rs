// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench sweep`: one figure of transfers over any parameters of a lab, or over those of
//! a card's transfers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueHint};
use crosslane::experiment::sweep::{
    Axes, Descriptors, FlowSweep, LabSweep, Point, SweepError, SweepOptions, SweepPoint,
    TransferKind, csv, measure_point,
};
use crosslane::experiment::{
    ExperimentError, FlowArgument, Notification, Progress as _, Scenario, SizeRange,
    parse_register_size, unless_over,
};
use crosslane::explain::{Explainable, Ran, Why};
use crosslane::lab::{Items as _, Lab};
use crosslane::open::DeviceName;
use crosslane::pcie::link::LinkRate;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::{Outcome, SCHEMA, Sweep, SweepRow};
use crosslane_report::output::{Kind, OutputFile, not_written};
use crosslane_report::text::Notes;
use serde::{Deserialize, Serialize};

use crate::arguments::MAX_OPERATIONS;
use crate::bench::{explained, opened, parts_of, platform, print_outcome, run_on};
use crate::engine_argument::EngineArguments;
use crate::error::{CommandError, Result, usage};
use crate::files::{Where, output_of, report_of, write_outcome_page};
use crate::interrupt::is_asked;
use crate::items::{Items, ItemsArguments, Work};
use crate::place_argument::{Named, PlaceArguments, one_endpoint};
use crate::progress::Steps;
use crate::traffic_command::expanded;
use crate::values::{one_of, parse_constant, whole};
use crate::workload::{DescriptorWord, MAX_POSTED, NOTIFICATIONS};

/// Kinds of transfers.
const KINDS: [(&str, &str, TransferKind); 4] = [
    ("write", "The card's stream to host memory", TransferKind::Write),
    ("read", "Host memory to the card's stream", TransferKind::Read),
    ("to-card", "Host memory to the card's memory", TransferKind::ToCard),
    ("from-card", "The card's memory to host memory", TransferKind::FromCard),
];

/// Arguments of `bench sweep`.
#[derive(Args, Debug)]
#[command(after_help = "\
Every combination of the given values is a point; points share the machine's cores. Values left
out are as the lab has them. --set changes any number of the lab file by its path, as
`crosslane lab show LAB` lists them. A card of --device stays as it is: --link, --mps, --tags and
--set are for labs. Where --link is more than the ports at its ends can do, they are raised, and
the table says which.

--flow puts flows of generators in the place of transfers with an engine, in the form that `bench
traffic --help` describes; several run at once, and the figure is the rate of all together.

With --outstanding 1 the time of a transfer is its median, for to-card and from-card from its
start (behind the setting of parameters) until the host knows that it is complete; with more it is
the time of all, divided by their number. Every byte is compared, outside of what is timed.
--csv FILE can be read by `crosslane fit`. With --items several machines share the points
(docs/shards.md), and `crosslane merge` has --json, --csv and --report.

Examples:
  crosslane bench sweep --lab kc705 --link 1x1,2x4 --size 1K,1M --csv sweep.csv
  crosslane bench sweep --lab kc705 --descriptors table --notify interrupt --size 1K..16K
  crosslane bench sweep --lab kc705:crosslane --size 1K --outstanding 1,4,16,64
  crosslane bench sweep --lab kc705 --way from-card --size 64K --why
  crosslane bench sweep --lab kc705:crosslane --size 64K --engine rtl
  crosslane bench sweep --lab rosta:crosslane --way read --tags 4,8,16,32,64 --size 64K
  crosslane bench sweep --lab kc705 --set part.kc705.card_memory.axi_bytes=8,32 --report sweep
  crosslane bench sweep --lab minimal --flow card0:host:write:256,4K --link 3x8,4x8,5x16,6x16
  crosslane bench sweep --lab pciebench --flow nfp:host:read:64,1K --tags 8,16,32
  crosslane bench sweep --lab kc705 --size 1K..16K --items points --shard 0/2")]
pub struct SweepArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub engines: EngineArguments,
    /// The endpoint with the engine [default: the lab's first]; with --flow, that of --link and
    /// --tags [default: the first of the flows].
    #[arg(long, value_name = "NAME")]
    pub card: Option<String>,
    /// Kind of transfers [default: to-card,from-card with a card that has memory, else write,read].
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = one_of(&KINDS),
        conflicts_with = "flow")]
    pub way: Vec<TransferKind>,
    /// A flow of a generator, with its sizes; may be given many times, all run at once.
    #[arg(long, value_name = "FLOW",
        conflicts_with_all = ["way", "size", "descriptors", "notify"])]
    pub flow: Vec<FlowArgument>,
    /// Generation and lanes of the card's own link.
    #[arg(long, value_name = "GxN", value_delimiter = ',')]
    pub link: Vec<LinkRate>,
    /// Max_Payload_Size of all functions, bytes.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_register_size)]
    pub mps: Vec<u32>,
    /// Reads of data that the card keeps in flight.
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = whole::<u16>(1..=1024))]
    pub tags: Vec<u16>,
    /// Place of descriptors [default: ring].
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    pub descriptors: Vec<DescriptorWord>,
    /// Transfers that are kept posted [default: 1]; with --flow, operations of each flow in flight
    /// [default: by size].
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = whole::<u32>(1..=MAX_POSTED))]
    pub outstanding: Vec<u32>,
    /// Any number of the lab file.
    #[arg(long, value_name = "PATH=N,N,...", value_parser = parse_constant)]
    pub set: Vec<(String, Vec<f64>)>,
    /// Bytes of a transfer, a multiple of 4; 1K..4M are the powers of two.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "64K")]
    pub size: Vec<SizeRange>,
    /// How the host learns of completions.
    #[arg(long, value_name = "HOW", default_value = "poll", value_parser = one_of(&NOTIFICATIONS))]
    pub notify: Notification,
    /// Transfers of each point [default: by size, about 4 MiB, 4 or twice --outstanding at least];
    /// with --flow, operations of each flow.
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub iterations: Option<u64>,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Look for what limits each point, in a lab: that takes many more runs.
    #[arg(long, conflicts_with = "items")]
    pub why: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "items")]
    pub json: bool,
    /// Write the points into this file as comma-separated values.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "items")]
    pub csv: Option<PathBuf>,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath,
        conflicts_with = "items")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub items: ItemsArguments,
}

/// A measured point as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Generation and lanes of the card's link, as `3x8`.
    link: Option<String>,
    transfer_s: f64,
    bytes_per_second: f64,
    wrong_words: u64,
    elapsed_ps: u64,
    raised_ports: Vec<String>,
}

impl From<SweepPoint> for Kept {
    fn from(point: SweepPoint) -> Self {
        let link = |link: LinkRate| format!("{}x{}", link.generation.number(), link.width.lanes());
        Self {
            link: point.link.map(link),
            transfer_s: point.transfer_s,
            bytes_per_second: point.bytes_per_second,
            wrong_words: point.wrong_words,
            elapsed_ps: point.elapsed.0,
            raised_ports: point.raised_ports,
        }
    }
}

impl Kept {
    /// Returns it as measured at a point.
    fn of(self, point: &Point) -> SweepPoint {
        SweepPoint {
            point: point.clone(),
            link: self.link.and_then(|link| link.parse().ok()),
            transfer_s: self.transfer_s,
            bytes_per_second: self.bytes_per_second,
            wrong_words: self.wrong_words,
            elapsed: Picoseconds(self.elapsed_ps),
            raised_ports: self.raised_ports,
        }
    }
}

/// Runs the sweep.
///
/// # Errors
/// A lab, a card or a point that is impossible, wrong data, or an output that cannot be written.
pub fn run(arguments: &SweepArguments) -> Result<()> {
    match arguments.place.named()? {
        Named::Lab { lab, endpoints } => {
            let endpoints: Vec<String> = endpoints.into_iter().flatten().collect();
            let wanted = one_endpoint(&endpoints, "--card", arguments.card.as_deref())?;
            let lab = Lab::load(&lab)?;
            match arguments.flow.is_empty() {
                true => with_engine(arguments, &lab, wanted),
                false => {
                    arguments.engines.only_model("a --flow is of a generator")?;
                    with_flows(arguments, &lab, wanted)
                }
            }
        }
        Named::Cards(names) => {
            arguments.engines.only_model("--device names a card")?;
            on_card(arguments, &names)
        }
    }
}

fn with_engine(arguments: &SweepArguments, lab: &Lab, card: Option<&str>) -> Result<()> {
    let (begun, kind) = (Instant::now(), arguments.engines.kind()?);
    let sweep = LabSweep::new(lab, card, options(arguments))?;
    let of_kind = lab.clone().with_engines(kind);
    let measured = LabSweep::new(&of_kind, card, options(arguments))?;
    let points = sweep.axes(axes(arguments)?)?.points()?;
    let measure = |point: &Point, progress: &Steps| measured.measure(point, progress);
    // Limits are looked for on the model.
    in_lab(arguments, (lab, sweep.card()), &points, measure, |point| sweep.scenario(point))?;
    arguments.engines.print_speed(begun);
    Ok(())
}

fn with_flows(arguments: &SweepArguments, lab: &Lab, card: Option<&str>) -> Result<()> {
    let flows = expanded(&arguments.flow, &lab.build(arguments.seed)?)?;
    let sweep = FlowSweep::new(lab, card, &flows, options(arguments))?;
    let points = axes(arguments)?.with_flows(flows).points()?;
    let measure = |point: &Point, progress: &Steps| sweep.measure(point, progress);
    in_lab(arguments, (lab, sweep.card()), &points, measure, |point| sweep.scenario(point))
}

/// Returns a point by its parameters.
fn named(point: &Point) -> String {
    let parameters = point.parameters(point.link).into_iter();
    let parameters = parameters.map(|(name, value)| format!("{name} {value}, "));
    format!("{}bytes {}", parameters.collect::<String>(), point.size_bytes)
}

/// Measures points in a lab and shows them.
fn in_lab<W: Explainable>(
    arguments: &SweepArguments,
    (lab, card): (&Lab, &str),
    points: &[Point],
    measure: impl Fn(&Point, &Steps) -> Result<SweepPoint, SweepError> + Sync,
    scenario: impl Fn(&Point) -> Result<Scenario<W>, SweepError>,
) -> Result<()> {
    let name = |item: u64| named(&points[item as usize]);
    let count = points.len() as u64;
    let work = Work { items: count, inputs: vec![lab.file().text().to_owned()], name: &name };
    let items = Items::open(&arguments.items, work)?;
    let output = Output::open(arguments, Where::Lab(lab), card, items.left(0..count))?;
    let steps = &output.steps;
    let numbered: Vec<(u64, &Point)> = (0..).zip(points).collect();
    let measured = steps.watch.each(&numbered, true, |&(item, point)| {
        match items.once(item, || measure(point, steps).map(Kept::from)) {
            Ok(Some(kept)) => {
                let measured = kept.of(point);
                steps.shown(&point.way(), measured.elapsed);
                Ok(Some(measured))
            }
            Ok(None) | Err(SweepError::Run(ExperimentError::Interrupted)) => Ok(None),
            Err(error) => Err(CommandError::from(error)),
        }
    });
    let measured: Vec<SweepPoint> = measured?.into_iter().flatten().collect();
    steps.finish();
    if !items.end(&steps.watch)? {
        return Ok(());
    }
    let whys = match arguments.why {
        true => {
            let scenarios = measured.iter().map(|one| scenario(&one.point));
            let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
            let ran = measured.iter().map(|one| Ran::rate(one.bytes_per_second, one.wrong_words));
            explained(&scenarios, ran, arguments.json)
        }
        false => vec![None; measured.len()],
    };
    output.show(&measured, whys)
}

fn on_card(arguments: &SweepArguments, names: &[DeviceName]) -> Result<()> {
    if let Some(card) = &arguments.card {
        return Err(usage(format!("--card {card}: --device names the card")));
    }
    if names.len() > 1 {
        return Err(usage("--device: one card is measured at a time"));
    }
    if let Some(flow) = arguments.flow.first() {
        return Err(usage(format!("--flow {flow}: flows are of a lab's generators, lab:NAME")));
    }
    if arguments.items.items.is_some() {
        return Err(usage(
            "--items: points are shared in a lab, lab:NAME: a card is one machine's",
        ));
    }
    if arguments.why {
        return Err(usage("--why: limits are lifted in a lab, lab:NAME: a card stays as it is"));
    }
    let axes = axes(arguments)?;
    axes.check_no_lab()?;
    let session = opened(names, None)?;
    let failed = |error: &dyn std::error::Error| CommandError::Failed(error.to_string());
    let device = run_on(&session, async { session.device(0).await.map_err(|e| failed(&e)) })?;
    let card = &session.cards()[0].name;
    let points = axes.for_card(card, device.description().card_memory)?.points()?;
    let output = Output::open(arguments, Where::Cards(names), card, points.len() as u64)?;
    let mut all = Vec::new();
    for point in &points {
        let options = options(arguments);
        let measuring = unless_over(measure_point(&device, point, &options), is_asked);
        let measured =
            run_on(&session, async { measuring.await.transpose().map_err(|e| failed(&e)) })?;
        let Some(measured) = measured else { break };
        output.steps.done(&point.way(), measured.elapsed);
        all.push(measured);
    }
    output.steps.finish();
    output.show(&all, vec![None; all.len()])?;
    Ok(session.finish()?)
}

fn options(arguments: &SweepArguments) -> SweepOptions {
    SweepOptions::default()
        .with_notification(arguments.notify)
        .with_iterations(arguments.iterations)
        .with_seed(arguments.seed)
}

fn axes(arguments: &SweepArguments) -> Result<Axes> {
    let descriptors = arguments.descriptors.iter().map(|word| match word {
        DescriptorWord::Table => Ok(Descriptors::Table),
        DescriptorWord::Ring => Ok(Descriptors::Ring),
        DescriptorWord::Command => Err(usage("--descriptors command: the command port is for p2p")),
    });
    Ok(Axes::default()
        .with_kinds(&arguments.way[..])
        .with_links(&arguments.link[..])
        .with_payload_bytes(&arguments.mps[..])
        .with_tags(&arguments.tags[..])
        .with_descriptors(descriptors.collect::<Result<Vec<_>>>()?)
        .with_outstanding(&arguments.outstanding[..])
        .with_constants(&arguments.set[..])
        .with_sizes(arguments.size.iter().flat_map(SizeRange::sizes).collect::<Vec<_>>()))
}

/// Returns the ports whose maxima the links of the points have raised, each once.
fn raised_ports(measured: &[SweepPoint]) -> Vec<String> {
    let ports: BTreeSet<&String> = measured.iter().flat_map(|one| &one.raised_ports).collect();
    ports.into_iter().cloned().collect()
}

/// Outputs of a sweep.
struct Output<'a> {
    arguments: &'a SweepArguments,
    place: Where<'a>,
    card: &'a str,
    rows: Option<OutputFile>,
    page: Option<OutputFile>,
    steps: Steps,
}

impl<'a> Output<'a> {
    fn open(
        arguments: &'a SweepArguments,
        place: Where<'a>,
        card: &'a str,
        points: u64,
    ) -> Result<Self> {
        let rows = arguments.csv.as_deref().map(|path| output_of(path, Kind::Rows));
        let (rows, page) = (rows.transpose()?, report_of(arguments.report.as_deref())?);
        let steps = Steps::new(points, "points");
        Ok(Self { arguments, place, card, rows, page, steps })
    }

    fn show(self, measured: &[SweepPoint], whys: Vec<Why>) -> Result<()> {
        let Self { arguments, place, card, rows, page, steps } = self;
        let row = |(measured, why): (&SweepPoint, Why)| {
            let (why_not_faster, not_explained) = parts_of(why);
            SweepRow { why_not_faster, not_explained, ..measured.row() }
        };
        let outcome = Outcome::Sweep(Sweep {
            schema: SCHEMA,
            bench: "sweep".to_owned(),
            platform: platform(place),
            card: card.to_owned(),
            seed: arguments.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rows: measured.iter().zip(whys).map(row).collect(),
            raised_ports: raised_ports(measured),
            interrupted: steps.watch.interrupted(),
        });
        let parameters = measured.first().map(SweepPoint::parameters).unwrap_or_default();
        let parameters: Vec<String> = parameters.into_iter().map(|(name, _)| name).collect();
        let notes = Notes { parameters: &parameters, ..Notes::default() };
        print_outcome(&outcome, arguments.json, notes)?;
        steps.watch.end(&not_written([&rows, &page]))?;
        if let Some(rows) = rows {
            rows.write(csv(measured).as_bytes())?;
        }
        if let Some(file) = page {
            write_outcome_page(&outcome, place.lab(), &file)?;
        }
        match measured.iter().all(|one| one.wrong_words == 0) {
            true => Ok(()),
            false => Err(CommandError::Run),
        }
    }
}
