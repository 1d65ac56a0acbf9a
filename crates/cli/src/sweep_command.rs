// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench sweep`: one figure of transfers over any parameters of a lab.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use crosslane_bench::{
    BenchError, CardDirection, CardOptions, Options, card_transfer, read, write,
};
use crosslane_driver::{DescriptorSource, Device, Notification};
use crosslane_explain::size_words;
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Outcome, SCHEMA, Sweep, SweepRow};

use serde_json::json;

use crate::arguments::{MAX_OPERATIONS, parse_register_size};
use crate::error::CommandError;
use crate::interrupt::until_asked;
use crate::output::{print, print_json};
use crate::output_file::{Kind, OutputFile, not_written};
use crate::place_argument::{PlaceArguments, one_endpoint};
use crate::progress::Steps;
use crate::report_file::{report_of, write_outcome_page};
use crate::size::SizeRange;
use crate::table::{Align, Table};
use crate::whole_number::whole;
use crate::workload::arguments::{DescriptorWord, MAX_POSTED, NotifyWord};

/// Most points of a sweep.
const MAX_POINTS: usize = 10_000;
/// Transfers of a point, where nothing else is asked for: so many bytes, but no more than so many.
const ENOUGH_BYTES: u64 = 4 << 20;
const MOST_TRANSFERS: u64 = 4096;
/// Descriptors of a ring: places for what is posted.
const RING_ENTRIES: std::ops::RangeInclusive<u32> = 1024..=65_536;

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// The card's stream to host memory.
    Write,
    /// Host memory to the card's stream.
    Read,
    /// Host memory to the card's memory.
    ToCard,
    /// The card's memory to host memory.
    FromCard,
}

impl Way {
    const fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::ToCard => "to-card",
            Self::FromCard => "from-card",
        }
    }
}

/// A link as `2x4`: generation and lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWord(LinkRate);

impl FromStr for LinkWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.split_once('x').and_then(|(generation, lanes)| {
            let generation = Generation::from_number(generation.parse().ok()?)?;
            Some(LinkRate { generation, width: Width::new(lanes.parse().ok()?)? })
        });
        rate.map(Self).ok_or_else(|| {
            format!(
                "{text} is not a link; write generation x lanes, such as 2x4: generations are 1 to \
                 5, lanes 1, 2, 4, 8, 12, 16 or 32"
            )
        })
    }
}

/// A constant of the lab and the values that it is to have, as `PATH=1,2,3`.
#[derive(Clone, Debug, PartialEq)]
pub struct SetWord {
    path: String,
    values: Vec<f64>,
}

impl FromStr for SetWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not a constant with values, such as PATH=1,2,3");
        let (path, values) = text.split_once('=').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
        let values: Option<Vec<f64>> = values.split(',').map(number).collect();
        let values = values.ok_or_else(wrong)?;
        Ok(Self { path: path.to_owned(), values })
    }
}

/// Arguments of `bench sweep`.
#[derive(Args, Debug)]
#[command(mut_arg("device", |device| {
    device.help("A lab, or an endpoint of one, in place of --lab: lab:NAME or lab:NAME/ENDPOINT")
}))]
#[command(after_help = "\
Every combination of what is given is a point; points share the machine's cores. What is left out
is as the lab has it. --set changes any number of the lab file by its path, as
`crosslane lab show LAB` lists them.

With --outstanding 1 the time of a transfer is its median, for to-card and from-card from its
start (behind the setting of parameters) until the host knows that it is complete; with more it is
the time of all, divided by their number. Every byte is compared, outside of what is timed.
--csv FILE can be read by `crosslane fit`.

Examples:
  crosslane bench sweep --lab kc705 --link 1x1,2x4 --size 1K,1M --csv sweep.csv
  crosslane bench sweep --lab kc705 --descriptors table --notify interrupt --size 1K..16K
  crosslane bench sweep --lab kc705:crosslane --size 1K --outstanding 1,4,16,64
  crosslane bench sweep --lab rosta:crosslane --way read --tags 4,8,16,32,64 --size 64K
  crosslane bench sweep --lab kc705 --set part.kc705.card_memory.axi_bytes=8,32 --report sweep")]
pub struct SweepArguments {
    /// The lab.
    #[command(flatten)]
    pub place: PlaceArguments,
    /// The endpoint with the engine [default: the lab's first].
    #[arg(long, value_name = "NAME")]
    pub card: Option<String>,
    /// What is moved [default: to-card,from-card with a card that has memory, else write,read].
    #[arg(long, value_name = "WAY", value_delimiter = ',')]
    pub way: Vec<Way>,
    /// Generation and lanes of the card's own link.
    #[arg(long, value_name = "GxN", value_delimiter = ',')]
    pub link: Vec<LinkWord>,
    /// Max_Payload_Size of all functions, bytes.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_register_size)]
    pub mps: Vec<u32>,
    /// Reads of data that the engine keeps in flight.
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = whole::<u16>(1..=1024))]
    pub tags: Vec<u16>,
    /// Where the engine finds descriptors [default: ring].
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    pub descriptors: Vec<DescriptorWord>,
    /// Transfers that are kept posted [default: 1].
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = whole::<u32>(1..=MAX_POSTED))]
    pub outstanding: Vec<u32>,
    /// Any number of the lab file.
    #[arg(long, value_name = "PATH=N,N,...")]
    pub set: Vec<SetWord>,
    /// Bytes of a transfer, a multiple of 4; 1K..4M are the powers of two.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "64K")]
    pub size: Vec<SizeRange>,
    /// How the host learns of completions.
    #[arg(long, value_name = "HOW", default_value = "poll")]
    pub notify: NotifyWord,
    /// Transfers of each point [default: by size, about 4 MiB, 4 or twice --outstanding at least].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub iterations: Option<u64>,
    /// Random seed; it also makes the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the points into this file as comma-separated values.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write an HTML page to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
}

/// A point; what is none is as the lab has it.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    way: Way,
    link: Option<LinkRate>,
    mps: Option<u32>,
    tags: Option<u16>,
    descriptors: DescriptorWord,
    outstanding: u32,
    set: Vec<(String, f64)>,
    size_bytes: u64,
}

/// A point with what was measured.
struct Measured {
    point: Point,
    /// As it was in the run.
    link: LinkRate,
    transfer_s: f64,
    bytes_per_second: f64,
    wrong_words: u64,
}

fn usage(sentence: String) -> CommandError {
    CommandError::Usage(sentence)
}

/// Runs it.
///
/// # Errors
/// A lab, a card or a point that cannot be, wrong data, an output that cannot be written.
pub fn run(arguments: &SweepArguments) -> Result<(), CommandError> {
    let named = arguments.place.named()?;
    let (lab, endpoints) = named.lab_only("a sweep changes what the lab is made of")?;
    let wanted = one_endpoint(&endpoints, "--card", arguments.card.as_deref())?;
    let lab = Lab::load(&lab)?;
    let card = card_of(&lab, wanted)?;
    let points = points(arguments, &lab, &card)?;
    let rows = arguments.csv.as_deref().map(|path| OutputFile::file(path, Kind::Rows));
    let files = [rows.transpose()?, report_of(arguments.report.as_ref())?];
    let steps = Steps::new(points.len() as u64, "points");
    let measured = steps.watch.each(&points, |point| {
        let made = measure(arguments, &lab, &card, point.clone())?;
        Ok::<_, CommandError>(made.map(|(measured, simulated)| {
            steps.shown(measured.point.way.word(), simulated);
            measured
        }))
    });
    steps.finish();
    let measured: Vec<Measured> = measured?.into_iter().flatten().collect();
    let outcome = Outcome::Sweep(Sweep {
        schema: SCHEMA,
        bench: "sweep".to_owned(),
        lab: lab.name().to_owned(),
        card,
        seed: arguments.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rows: measured.iter().map(|one| row(arguments, one)).collect(),
        interrupted: steps.watch.interrupted(),
    });
    match arguments.json {
        true => print_json(&outcome)?,
        false => print(&table(arguments, &measured).to_string())?,
    }
    steps.watch.end(&not_written(&files))?;
    let [rows, file] = files;
    if let Some(rows) = rows {
        rows.write(csv(arguments, &measured).as_bytes())?;
    }
    if let Some(file) = file {
        write_outcome_page(&outcome, Some(&lab), None, &file)?;
    }
    match measured.iter().all(|one| one.wrong_words == 0) {
        true => Ok(()),
        false => Err(CommandError::Run),
    }
}

/// The endpoint that is meant: the lab's first with an engine, or one by its name.
fn card_of(lab: &Lab, wanted: Option<&str>) -> Result<String, CommandError> {
    let endpoints = lab.file().endpoints.iter().filter(|one| one.part.engine.is_some());
    let cards: Vec<&str> = endpoints.map(|one| one.name.as_str()).collect();
    match (wanted, cards.first()) {
        (_, None) => Err(usage(format!(
            "--lab {}: no endpoint has a DMA engine: its part needs an `engine` table",
            lab.name()
        ))),
        (None, Some(first)) => Ok((*first).to_owned()),
        (Some(wanted), _) if cards.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => {
            let known = cards.join(", ");
            Err(usage(format!("--card {wanted}: endpoints with a DMA engine are {known}")))
        }
    }
}

/// What was asked for, or the one thing that the lab has.
fn or_one<T: Clone>(asked: &[T], one: T) -> Vec<T> {
    if asked.is_empty() { vec![one] } else { asked.to_vec() }
}

fn or_none<T: Copy>(asked: &[T]) -> Vec<Option<T>> {
    if asked.is_empty() { vec![None] } else { asked.iter().copied().map(Some).collect() }
}

/// Every combination, in the order of the options.
fn points(arguments: &SweepArguments, lab: &Lab, card: &str) -> Result<Vec<Point>, CommandError> {
    let endpoint = lab.file().endpoints.iter().find(|one| one.name == card);
    let engine = endpoint.and_then(|one| one.part.engine);
    let has_memory = engine.is_some_and(|engine| engine.card_memory.is_some());
    let ways = match (arguments.way.is_empty(), has_memory) {
        (true, true) => vec![Way::ToCard, Way::FromCard],
        (true, false) => vec![Way::Write, Way::Read],
        (false, _) => arguments.way.clone(),
    };
    if let Some(way) = ways.iter().find(|way| matches!(way, Way::ToCard | Way::FromCard))
        && !has_memory
    {
        let word = way.word();
        return Err(usage(format!("--way {word}: {card} has no table `card_memory`")));
    }
    let mut sets: Vec<Vec<(String, f64)>> = vec![Vec::new()];
    for set in &arguments.set {
        let more = |before: &Vec<(String, f64)>| {
            let one = |value: &f64| {
                before.iter().cloned().chain([(set.path.clone(), *value)]).collect::<Vec<_>>()
            };
            set.values.iter().map(one).collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(more).collect();
        if sets.len() > MAX_POINTS {
            return Err(too_many());
        }
    }
    let sizes: Vec<u64> = arguments.size.iter().flat_map(SizeRange::sizes).collect();
    let mut points = Vec::new();
    let links: Vec<LinkRate> = arguments.link.iter().map(|link| link.0).collect();
    for way in ways {
        for link in or_none(&links) {
            for mps in or_none(&arguments.mps) {
                for tags in or_none(&arguments.tags) {
                    for descriptors in or_one(&arguments.descriptors, DescriptorWord::Ring) {
                        for outstanding in or_one(&arguments.outstanding, 1) {
                            let point = |(set, size_bytes): (&Vec<(String, f64)>, u64)| Point {
                                way,
                                link,
                                mps,
                                tags,
                                descriptors,
                                outstanding,
                                set: set.clone(),
                                size_bytes,
                            };
                            let rest = sets
                                .iter()
                                .flat_map(|set| sizes.iter().map(move |size| (set, *size)));
                            points.extend(rest.map(point).take(MAX_POINTS + 1));
                            if points.len() > MAX_POINTS {
                                return Err(too_many());
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(points)
}

fn too_many() -> CommandError {
    usage(format!("more than {MAX_POINTS} points: fewer values, or several sweeps"))
}

/// The lab of a point, and the rate of the card's own link in it.
fn lab_of(lab: &Lab, card: &str, point: &Point) -> Result<(Lab, LinkRate), CommandError> {
    let mut lab = lab.clone();
    for (path, value) in &point.set {
        lab = lab.with_constant(path, *value)?;
    }
    if let Some(mps) = point.mps {
        let file = lab.file();
        let hosts = file.hosts.iter().map(|one| &one.part.port);
        let switches =
            file.switches.iter().flat_map(|one| [&one.part.upstream, &one.part.downstream]);
        let cards = file.endpoints.iter().map(|one| &one.part.port);
        let ports = hosts.chain(switches).chain(cards);
        let least = ports.map(|port| u32::from(port.capability.max_payload_bytes)).min();
        if let Some(least) = least.filter(|least| mps > *least) {
            return Err(usage(format!("--mps {mps}: some port of the lab has at most {least} B")));
        }
    }
    let mut found = None;
    let mut problem = None;
    let edited = lab.edited(|file| {
        for link in file.links.iter_mut().filter(|link| link.lower == card) {
            link.parameters.rate = point.link.unwrap_or(link.parameters.rate);
            found = Some(link.parameters.rate);
        }
        if point.mps.is_some() {
            file.hosts.iter_mut().for_each(|host| host.max_payload_limit_bytes = point.mps);
        }
        for endpoint in file.endpoints.iter_mut().filter(|endpoint| endpoint.name == card) {
            let part = Arc::make_mut(&mut endpoint.part);
            if let (Some(engine), Some(tags)) = (&mut part.engine, point.tags) {
                engine.tags = tags;
                part.parameters.requester.tags = tags;
                problem = engine.check().err();
            }
        }
    })?;
    if let Some(problem) = problem {
        return Err(usage(format!("--tags: {problem}")));
    }
    let rate = found.ok_or_else(|| usage(format!("--card {card}: no link leads to it")))?;
    Ok((edited, rate))
}

fn iterations(arguments: &SweepArguments, point: &Point) -> u64 {
    let least = if point.outstanding > 1 { 2 * u64::from(point.outstanding) } else { 4 };
    let by_size = (ENOUGH_BYTES / point.size_bytes).min(MOST_TRANSFERS).max(least);
    // One after the other all take nearly the same time.
    let by_size = if point.outstanding == 1 { by_size.min(least) } else { by_size };
    arguments.iterations.unwrap_or(by_size)
}

/// Runs a point; the simulated time that it took. Nothing where it was interrupted.
fn measure(
    arguments: &SweepArguments,
    lab: &Lab,
    card: &str,
    point: Point,
) -> Result<Option<(Measured, Picoseconds)>, CommandError> {
    let (lab, link) = lab_of(lab, card, &point)?;
    let words = format!("bench sweep, {}", describe(&point));
    let failed = |why: String| usage(format!("{words}: {why}"));
    let running = lab.build_engines(arguments.seed)?;
    let node = running.find(card).expect("a lab that was built has its endpoints");
    let host = running.fabric.node(node).host;
    let simulation = Simulation::new(running);
    let bus = simulation.bus(host);
    let iterations = iterations(arguments, &point);
    let seed = arguments.seed as u32;
    let descriptors = match point.descriptors {
        DescriptorWord::Table => DescriptorSource::Table,
        DescriptorWord::Ring => DescriptorSource::Ring {
            entries: (2 * point.outstanding)
                .next_power_of_two()
                .clamp(*RING_ENTRIES.start(), *RING_ENTRIES.end()),
        },
        DescriptorWord::Command => {
            return Err(usage("--descriptors command: the command port is for p2p".to_owned()));
        }
    };
    let notification = match arguments.notify {
        NotifyWord::Poll => Notification::Poll,
        NotifyWord::Interrupt => Notification::Interrupt,
    };
    let run = simulation.run(
        "bench sweep",
        until_asked(async {
            let device = Device::open_by_name(bus, card).await?;
            // Total time, time of one, wrong words.
            Ok::<_, BenchError>(match point.way {
                Way::Write | Way::Read => {
                    let options = Options {
                        size_bytes: point.size_bytes,
                        iterations,
                        outstanding: point.outstanding,
                        descriptors,
                        notification,
                        seed,
                        ..Options::default()
                    };
                    let measured = match point.way {
                        Way::Write => write(&device, &options).await?,
                        _ => read(&device, &options).await?,
                    };
                    let typical = Picoseconds(measured.statistics().typical_ps);
                    let elapsed = measured.ended.since(measured.started);
                    (elapsed, typical, measured.data_errors.words)
                }
                Way::ToCard | Way::FromCard => {
                    let direction = match point.way {
                        Way::ToCard => CardDirection::ToCard,
                        _ => CardDirection::FromCard,
                    };
                    let options = CardOptions {
                        iterations,
                        outstanding: point.outstanding,
                        descriptors,
                        notification,
                        ..CardOptions::by_registers(direction, point.size_bytes, seed)
                    };
                    let measured = card_transfer(&device, &options).await?;
                    (measured.elapsed, measured.median(), measured.data_errors.words)
                }
            })
        }),
    );
    let Some(run) = run.map_err(|stuck| failed(stuck.to_string()))? else { return Ok(None) };
    let (elapsed, typical, wrong_words) = run.map_err(|error| failed(error.to_string()))?;
    let transfer_s = match point.outstanding {
        1 => typical.as_seconds(),
        _ => elapsed.as_seconds() / iterations as f64,
    };
    let bytes_per_second =
        if transfer_s > 0.0 { point.size_bytes as f64 / transfer_s } else { 0.0 };
    let simulated = simulation.with_fabric(|fabric| fabric.now());
    let measured = Measured { point, link, transfer_s, bytes_per_second, wrong_words };
    Ok(Some((measured, simulated)))
}

fn describe(point: &Point) -> String {
    let mut words = format!("{} of {}", point.way.word(), size_words(point.size_bytes));
    if let Some(link) = point.link {
        let _ = write!(words, ", {} {}", link.generation, link.width);
    }
    for (path, value) in &point.set {
        let _ = write!(words, ", {path} = {value}");
    }
    words
}

/// Names of the parameters that a sweep has, and of each point their values: those that are asked
/// for, and always way and link.
fn parameters(arguments: &SweepArguments, one: &Measured) -> Vec<(String, String)> {
    let point = &one.point;
    let mut all = vec![
        ("way".to_owned(), point.way.word().to_owned()),
        ("generation".to_owned(), one.link.generation.number().to_string()),
        ("width".to_owned(), one.link.width.lanes().to_string()),
    ];
    all.extend(point.mps.map(|mps| ("mps".to_owned(), mps.to_string())));
    all.extend(point.tags.map(|tags| ("tags".to_owned(), tags.to_string())));
    if !arguments.descriptors.is_empty() {
        let word = match point.descriptors {
            DescriptorWord::Table => "table",
            DescriptorWord::Ring => "ring",
            DescriptorWord::Command => "command",
        };
        all.push(("descriptors".to_owned(), word.to_owned()));
    }
    if !arguments.outstanding.is_empty() {
        all.push(("outstanding".to_owned(), point.outstanding.to_string()));
    }
    all.extend(point.set.iter().map(|(path, value)| (path.clone(), value.to_string())));
    all
}

fn table(arguments: &SweepArguments, measured: &[Measured]) -> Table {
    let names = measured.first().map(|one| parameters(arguments, one)).unwrap_or_default();
    let mut headings: Vec<(&str, Align)> =
        names.iter().map(|(name, _)| (name.as_str(), Align::Right)).collect();
    headings.extend([
        ("bytes", Align::Right),
        ("us", Align::Right),
        ("MB/s", Align::Right),
        ("MiB/s", Align::Right),
        ("wrong words", Align::Right),
    ]);
    let mut table = Table::new(&headings).least_first(&["MiB/s", "wrong words", "us"]);
    for one in measured {
        let values = parameters(arguments, one).into_iter().map(|(_, value)| value);
        let own = [
            one.point.size_bytes.to_string(),
            format!("{:.3}", one.transfer_s * 1e6),
            format!("{:.1}", one.bytes_per_second / 1e6),
            format!("{:.1}", one.bytes_per_second / f64::from(1 << 20)),
            one.wrong_words.to_string(),
        ];
        table.row(values.chain(own));
    }
    table
}

fn csv(arguments: &SweepArguments, measured: &[Measured]) -> String {
    let names = measured.first().map(|one| parameters(arguments, one)).unwrap_or_default();
    let mut text = String::new();
    for (name, _) in &names {
        let _ = write!(text, "{name},");
    }
    text.push_str("bytes,us\n");
    for one in measured {
        for (_, value) in parameters(arguments, one) {
            let _ = write!(text, "{value},");
        }
        let _ = writeln!(text, "{},{}", one.point.size_bytes, one.transfer_s * 1e6);
    }
    text
}

fn row(arguments: &SweepArguments, one: &Measured) -> SweepRow {
    let parameters = parameters(arguments, one).into_iter().map(|(name, value)| {
        let number = value.parse::<f64>();
        (name, number.map_or_else(|_| json!(value), |number| json!(number)))
    });
    SweepRow {
        size_bytes: one.point.size_bytes,
        transfer_ns: one.transfer_s * 1e9,
        bytes_per_second: one.bytes_per_second,
        wrong_words: one.wrong_words,
        parameters: parameters.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_constants_are_read() {
        let link: LinkWord = "2x4".parse().unwrap();
        assert_eq!((link.0.generation.number(), link.0.width.lanes()), (2, 4));
        for text in ["", "2", "x4", "0x4", "6x4", "2x3", "2x", "-1x4", "2X4"] {
            let error = text.parse::<LinkWord>().unwrap_err();
            assert!(error.starts_with(&format!("{text} is not a link; ")), "{error}");
        }
        let set: SetWord = "part.a.b=1,2.5".parse().unwrap();
        assert_eq!((set.path.as_str(), &set.values[..]), ("part.a.b", &[1.0, 2.5][..]));
        for text in ["", "a", "a=", "a=1,", "a=x", "a=nan", "a=inf"] {
            assert!(text.parse::<SetWord>().is_err(), "{text}");
        }
    }
}
