// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a benchmark, and the columns of flows and ping-pongs, each defined once for text and
//! pages.

use crosslane_results::quantity::{
    change, count_words, mebibytes, megabytes, microseconds, percent, size_words as bytes_words,
};
use crosslane_results::{
    Bench, Better, Detail, Explanation, Figure, Flow, HasWhy, IommuUse, Latencies, Latency, Link,
    Outcome, Platform, ScenarioResult, Step, Trial, distinct,
};

use super::{network, rows_page};
use crate::page::{Bar, Bars, Block, Page, Section};
use crate::plot::{Axis, Plot, Scale, Series, SeriesKind};
use crate::table::{Cell, Field, Table, or_none};

/// Note on transfers of cards whose clock is not the machine's.
pub(crate) const SERVED: &str = "all times and rates are in this machine's time: a program serves \
                                 the cards and may simulate them, so that the engines' timers are \
                                 left out";
/// Note on round trips of such cards.
pub(crate) const SERVED_LATENCY: &str = "times are by the engine's timer: a program serves the \
                                         cards, and if it simulates them, they are in its \
                                         simulated time";
/// Picoseconds in a microsecond.
const PS_PER_US: f64 = 1e6;
/// A smaller gain, as a fraction, is printed as 0.0 %.
const LEAST_GAIN: f64 = 0.0005;

/// Returns the page of a benchmark: rates and times as plots and tables, the bottleneck, the use of
/// links. `command` is the command line that makes it. `None` for reproductions, whose pages need
/// more than their rows.
pub fn page(outcome: &Outcome, command: &str) -> Option<Page> {
    let (title, (summary, sections)) = match outcome {
        Outcome::Bench(run) => {
            let title = format!("bench {} on {}", run.bench, run.platform.name());
            if let Some(sections) = of_detail(run) {
                let summary = match run.platform {
                    Platform::Lab { .. } => String::new(),
                    Platform::Cards { .. } => "Times are those of the machine that ran it.".into(),
                };
                let facts = facts(command, outcome);
                let facts =
                    facts.into_iter().filter(|(name, _)| name == "command" || name == "version");
                return Some(Page { title, summary, facts: facts.collect(), sections });
            }
            (title, of_flows(run))
        }
        Outcome::Overhead(run) => {
            (format!("bench overhead on {}", run.device), rows_page::overhead(run))
        }
        Outcome::Operations(run) => {
            (format!("bench operations on {}", run.device), rows_page::operations(run))
        }
        Outcome::Packets(run) => {
            (format!("bench packets on {}", run.device), rows_page::packets(run))
        }
        Outcome::Sweep(run) => {
            (format!("bench sweep on {}", run.platform.name()), rows_page::sweep(run))
        }
        Outcome::Bridge(run) => (format!("bridge bench, {}", run.place), rows_page::bridge(run)),
        _ => return None,
    };
    Some(Page { title, summary, facts: facts(command, outcome), sections })
}

/// Returns the section of a benchmark whose flows have their own plots.
fn of_detail(bench: &Bench) -> Option<Vec<Section>> {
    let flow = bench.flows().next()?;
    Some(vec![match &flow.detail {
        Detail::Stores(_) => rows_page::stores_section(bench),
        Detail::Gets(_) => network::gets_section(bench),
        Detail::Exchange(_) => network::halo_section(bench),
        Detail::LinkSoak(_) => network::soak_section(bench),
        _ => return None,
    }])
}

fn of_flows(bench: &Bench) -> (String, Vec<Section>) {
    let mut sections = vec![result_section(bench)];
    sections.extend(why_section(bench.scenarios.iter().map(|one| (size_words(one), one))));
    sections.extend(link_section(bench));
    sections.extend(error_section(bench));
    (summary(bench), sections)
}

/// Returns the rate of a flow on the same clock as its other values: that of the application on
/// served cards, that of the engines' timers elsewhere.
fn rate(bench: &Bench, flow: &Flow) -> Option<f64> {
    let application = flow.application_bytes_per_second.filter(|_| bench.platform.is_served());
    application.or(flow.rate())
}

/// Formats a value of a figure: `1599.8 MB/s`, `706.0 ns`.
fn figure_words(figure: Figure, value: f64) -> String {
    match figure.better {
        Better::Lower => format!("{:.1} ns", value / 1e3),
        Better::Higher => format!("{:.1} MB/s", value / 1e6),
    }
}

/// Tells how the explained run differs from the measured one, if it does.
pub(crate) fn unlike_words(
    why: &Explanation,
    figure_words: impl Fn(Figure) -> String,
) -> Option<String> {
    let (off, measured) = (why.unlike()?, why.measured?);
    Some(format!(
        "the run that was explained reached {}, {} % {} than the {} that were measured: what \
         limits it may not limit the whole run",
        figure_words(why.figure),
        percent(off.abs()),
        if off < 0.0 { "less" } else { "more" },
        figure_words(measured),
    ))
}

/// Lists the command, name, version and seed of a run.
pub(super) fn facts(command: &str, run: &Outcome) -> Vec<(String, String)> {
    let (version, seed) = run.origin();
    [
        ("command", command.to_owned()),
        ("run", run.name()),
        ("version", version.to_owned()),
        ("seed", seed.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn summary(bench: &Bench) -> String {
    let Some(last) = bench.scenarios.last() else { return "Nothing was run.".to_owned() };
    let mut sentences = Vec::new();
    let best = |flow: &Flow| rate(bench, flow).map(|rate| (flow.name.clone(), rate));
    let rates: Vec<f64> = bench.flows().filter_map(|flow| rate(bench, flow)).collect();
    let is_in_turn = bench.flows_in_turn();
    if is_in_turn && !rates.is_empty() {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min) / 1e6;
        let most = rates.iter().copied().fold(0.0, f64::max) / 1e6;
        sentences.push(format!("Flows in turn, {least:.1} to {most:.1} MB/s."));
    } else if let [flow] = &last.flows[..] {
        if let Some((name, rate)) = best(flow) {
            let share = flow.share_of_ceiling.map_or(String::new(), |share| {
                format!(", {:.1} % of what the links allow", share * 100.0)
            });
            let size = bytes_words(flow.bytes);
            sentences.push(format!("{name}: {:.1} MB/s at {size}{share}.", rate / 1e6));
        }
    } else if !last.flows.is_empty() {
        let sum: f64 = last.flows.iter().filter_map(|flow| rate(bench, flow)).sum();
        let count = last.flows.len();
        sentences.push(format!("{count} flows at once, {:.1} MB/s together.", sum / 1e6));
    }
    if let Some(latency) = &last.latency {
        let ns = latency.one_way.typical_ps as f64 / 1e3;
        sentences.push(format!("{}: {ns:.1} ns one way.", latency.name));
    }
    if let Some(step) = last.why_not_faster.as_ref().and_then(|why| why.steps.first()) {
        sentences.push(format!("What limits it: {}.", limits_words(step)));
    }
    sentences.join(" ")
}

/// Joins the limits of a step.
pub(crate) fn limit_words(step: &Step, and: &str) -> String {
    let words: Vec<&str> = step.limits.iter().map(|limit| limit.words.as_str()).collect();
    words.join(and)
}

/// Returns the limits of a step, as the subject of a sentence.
fn limits_words(step: &Step) -> String {
    limit_words(step, ", and ")
}

fn lifted_words(step: &Step) -> String {
    let words: Vec<&str> = step.limits.iter().map(|limit| limit.lifted.as_str()).collect();
    words.join(", ")
}

/// Returns the size of transfers, `4 KiB`, or the sizes of several flows.
pub(super) fn size_words(scenario: &ScenarioResult) -> String {
    match scenario.bytes {
        Some(bytes) => bytes_words(bytes),
        None => {
            let mut sizes: Vec<String> =
                scenario.flows.iter().map(|flow| bytes_words(flow.bytes)).collect();
            sizes.dedup();
            sizes.join(", ")
        }
    }
}

/// Returns the blocks of an explanation: the bottleneck, the next one, the account of time, and
/// every limit that was tried.
pub fn explanation_blocks(name: &str, why: &Explanation) -> Vec<Block> {
    let mut blocks = Vec::new();
    let figure = |value: f64| figure_words(why.figure, value);
    match why.steps.first() {
        Some(step) => blocks.push(Block::Verdict(format!(
            "{}. {}: {} instead of {} ({} %).",
            capital(&limits_words(step)),
            capital(&lifted_words(step)),
            figure(step.value),
            figure(why.figure.value),
            change(step.gain * if why.figure.better == Better::Lower { -1.0 } else { 1.0 }),
        ))),
        None => blocks.push(Block::Verdict(
            "Nothing that can be lifted holds this run: no change of a constant or setting gained \
             anything."
                .to_owned(),
        )),
    }
    if let Some(wait) = &why.consequence {
        blocks.push(Block::Text(format!(
            "{}, {:.1} % of the time, comes of that: {:.1} % without it.",
            capital(&wait.what.to_string()),
            100.0 * wait.share,
            100.0 * wait.share_without,
        )));
    }
    for step in why.steps.iter().skip(1) {
        blocks.push(Block::Text(format!(
            "Without that, the next one is {}; {}: {}.",
            limits_words(step),
            lifted_words(step),
            figure(step.value),
        )));
    }
    if let Some(account) = &why.account {
        let bars = Bars {
            title: format!("Time of {} ({})", account.direction, account.link),
            bars: vec![Bar { name: name.to_owned(), parts: parts(why) }],
        };
        blocks.push(Block::Bars(bars));
        if !account.iommus.is_empty() {
            blocks.push(Block::Table(iommu_table(&account.iommus)));
        }
    }
    let (idle, gaining): (Vec<&Trial>, Vec<&Trial>) =
        why.trials.iter().partition(|trial| trial.gain.abs() < LEAST_GAIN);
    if !gaining.is_empty() {
        let mut tried = Table::headed("what was lifted | where | to | figure: | gain %:");
        for Trial { limit, value, gain } in gaining {
            let (words, place, lifted) = (&limit.words, &limit.place, &limit.lifted);
            let cells = [words, place, lifted, &figure(*value), &change(*gain)];
            tried.row(cells.map(String::as_str));
        }
        tried.title = "Each limit lifted alone".to_owned();
        blocks.push(Block::Table(tried));
    }
    blocks.extend(idle_block(&idle));
    if let Some(how) = &why.shortened {
        blocks.push(Block::Text(format!("Compared in shortened runs: {how}.")));
    }
    let unlike = unlike_words(why, |figure| figure_words(figure, figure.value));
    blocks.extend(unlike.map(|words| Block::Text(format!("Warning: {words}."))));
    blocks
}

/// Lists the limits without gain: `2 limits gain nothing when lifted alone: 16 tags of card0, the
/// switch.`
fn idle_block(idle: &[&Trial]) -> Option<Block> {
    let words: Vec<&str> = idle.iter().map(|trial| trial.limit.words.as_str()).collect();
    let count = count_words(words.len(), "limit gains", "limits gain");
    let text = format!("{count} nothing when lifted alone: {}.", words.join("; "));
    (!words.is_empty()).then_some(Block::Text(text))
}

fn iommu_table(iommus: &[IommuUse]) -> Table {
    fn each_ns(one: &IommuUse, ps: u64) -> String {
        format!("{:.1}", ps as f64 / one.requests.max(1) as f64 / 1e3)
    }
    let fields: [Field<IommuUse>; 9] = [
        ("IOMMU of", |one| one.host.clone()),
        ("pages in its IOTLB:", |one| one.iotlb_entries.to_string()),
        ("requests:", |one| one.requests.to_string()),
        ("missed %:", |one| percent(one.misses as f64 / one.requests.max(1) as f64)),
        ("ns a walk:", |one| format!("{:.1}", one.walk_ps as f64 / 1e3)),
        ("walks at once:", |one| format!("{:.2}", one.walks_at_once)),
        ("of:", |one| one.walks.to_string()),
        ("ns a request waited:", |one| each_ns(one, one.waited_ps)),
        ("ns of it for a free walk:", |one| each_ns(one, one.queued_ps)),
    ];
    Table::of(&fields, iommus).titled("Translations meanwhile")
}

fn parts(why: &Explanation) -> Vec<(String, f64)> {
    let uses = why.account.iter().flat_map(|account| &account.uses);
    uses.map(|part| (part.what.to_string(), part.share)).collect()
}

/// Makes the first letter of a sentence a capital.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Returns the section of the runs that are explained, each with its name.
pub(super) fn why_section<'a, R: HasWhy + 'a>(
    runs: impl IntoIterator<Item = (String, &'a R)>,
) -> Option<Section> {
    let explained = runs.into_iter().filter_map(|(name, run)| Some((name, run.why()?.ok()?)));
    let explained: Vec<(String, &Explanation)> = explained.collect();
    let (last_size, last) = explained.last()?;
    let mut blocks = explanation_blocks(last_size, last);
    if explained.len() > 1 {
        let headings = "size | what limits | to | figure: | without it: | gain %:";
        let mut sizes = Table::headed(headings).titled("What limits each size");
        for (size, why) in &explained {
            let text =
                |words: &dyn Fn(&Step) -> String| why.steps.first().map(words).unwrap_or_default();
            sizes.row([
                size.clone(),
                text(&limits_words),
                text(&lifted_words),
                figure_words(why.figure, why.figure.value),
                text(&|step| figure_words(why.figure, step.value)),
                text(&|step| change(step.gain)),
            ]);
        }
        blocks.push(Block::Table(sizes));
        let bars = explained.iter().filter(|(_, why)| why.account.is_some());
        let bars = bars.map(|(size, why)| Bar { name: size.clone(), parts: parts(why) }).collect();
        let title = "Time of the busiest direction, by size".to_owned();
        blocks.push(Block::Bars(Bars { title, bars }));
    }
    Some(Section { title: "Why not faster".to_owned(), blocks })
}

/// Values of a series by transfer size.
type Points = Vec<(f64, f64)>;

/// Returns the names of all flows, each once, in order of appearance.
pub(super) fn flow_names(bench: &Bench) -> Vec<String> {
    distinct(bench.flows().map(|flow| flow.name.clone()))
}

/// Returns a value of the flow of that name, for each size.
pub(super) fn by_size(bench: &Bench, name: &str, value: impl Fn(&Flow) -> Option<f64>) -> Points {
    let flows = bench.flows();
    let flows = flows.filter(|flow| flow.name.clone() == name);
    flows.filter_map(|flow| Some((flow.bytes as f64, value(flow)?))).collect()
}

/// Returns a logarithmic axis of sizes.
pub(super) fn sizes() -> Axis {
    Axis { label: "transfer".into(), unit: "B".into(), scale: Scale::Logarithmic }
}

pub(super) fn rate_axis() -> Axis {
    Axis { label: "rate".into(), unit: "MB/s".into(), scale: Scale::Linear }
}

pub(super) fn time_axis() -> Axis {
    Axis { label: "time".into(), unit: "us".into(), scale: Scale::Logarithmic }
}

fn result_section(bench: &Bench) -> Section {
    let mut blocks = Vec::new();
    if bench.platform.is_served() {
        let is_latency = bench.scenarios.iter().any(|one| one.latency.is_some());
        let words = if is_latency { SERVED_LATENCY } else { SERVED };
        blocks.push(Block::Text(format!("{}.", capital(words))));
    }
    let is_sweep = bench.scenarios.len() > 1;
    let names = flow_names(bench);
    if is_sweep && !names.is_empty() {
        blocks.push(Block::Plot(rate_plot(bench, &names)));
        blocks.push(Block::Plot(time_plot(bench, &names)));
        blocks.extend(depth_words(bench).map(Block::Text));
    }
    if !names.is_empty() {
        blocks.push(Block::Table(flow_table(bench)));
    }
    let latencies: Vec<_> = bench.scenarios.iter().filter_map(|one| one.latency.as_ref()).collect();
    if !latencies.is_empty() {
        blocks.extend(is_sweep.then(|| Block::Plot(latency_plot(bench))));
        blocks.push(Block::Table(latency_table(bench)));
    }
    Section { title: "Results".to_owned(), blocks }
}

fn rate_plot(bench: &Bench, names: &[String]) -> Plot {
    let mut series = Vec::new();
    let megabytes = |rate: Option<f64>| rate.map(|rate| rate / 1e6);
    for name in names {
        let prefix = if names.len() > 1 { format!("{name}, ") } else { String::new() };
        let application = by_size(bench, name, |flow| megabytes(flow.application_bytes_per_second));
        let ceiling = by_size(bench, name, |flow| {
            megabytes(flow.ceiling.as_ref().map(|ceiling| ceiling.less_dllps_bytes_per_second))
        });
        if names.len() == 1 && !ceiling.is_empty() {
            let kind = SeriesKind::Ceiling;
            series.push(Series { name: "less DLLPs".into(), kind, points: ceiling });
        }
        if bench.platform.is_served() {
            series.push(Series::ours(format!("{prefix}at the application"), application));
            continue;
        }
        let timer = by_size(bench, name, |flow| megabytes(flow.rate()));
        series.push(Series::ours(format!("{prefix}rate"), timer));
        if !application.is_empty() && names.len() == 1 {
            series.push(Series::ours("at the application", application));
        }
    }
    Plot { title: "Rate by size".into(), x: sizes(), y: rate_axis(), series }
}

fn time_plot(bench: &Bench, names: &[String]) -> Plot {
    let mut series = Vec::new();
    for name in names {
        let prefix = if names.len() > 1 { format!("{name}, ") } else { String::new() };
        type Figure = fn(&Latencies) -> u64;
        let typical: Figure = |times| times.typical_ps;
        let p99: Figure = |times| times.p99_ps;
        for (words, figure) in [("typical", typical), ("p99", p99)] {
            let us = |flow: &Flow| Some(figure(flow.latency.as_ref()?) as f64 / PS_PER_US);
            series.push(Series::ours(format!("{prefix}{words}"), by_size(bench, name, us)));
        }
    }
    let depth = depths(bench).map_or(String::new(), |depth| format!(", {depth}"));
    let title = format!("Time of a transfer by size{depth}");
    Plot { title, x: sizes(), y: time_axis(), series }
}

/// Returns the number of transfers in flight: `4 in flight`, or `64 to 2 in flight`, that of the
/// shortest transfers first; `None` if the outcome does not contain it.
fn depths(bench: &Bench) -> Option<String> {
    let flows = bench.flows();
    let mut depths: Vec<(u64, u64)> =
        flows.map(|flow| Some((flow.bytes, flow.in_flight?))).collect::<Option<_>>()?;
    depths.sort_unstable();
    let (first, last) = (depths.first()?.1, depths.last()?.1);
    let is_one = depths.iter().all(|(_, depth)| *depth == first);
    Some(if is_one { format!("{first} in flight") } else { format!("{first} to {last} in flight") })
}

/// Explains the times of a plot if more than one transfer is in flight.
fn depth_words(bench: &Bench) -> Option<String> {
    let flows = bench.flows();
    let most = flows.filter_map(|flow| flow.in_flight).max()?;
    (most > 1).then(|| {
        format!(
            "The time of a transfer is from its post to its end, with the wait for those that were \
             posted before it: {}. With `--outstanding 1` each is alone.",
            depths(bench).unwrap_or_default()
        )
    })
}

fn latency_plot(bench: &Bench) -> Plot {
    let points = |figure: fn(&Latencies) -> u64| {
        let scenarios = bench.scenarios.iter();
        let point = |one: &ScenarioResult| {
            let times = &one.latency.as_ref()?.one_way;
            Some((one.bytes? as f64, figure(times) as f64 / PS_PER_US))
        };
        scenarios.filter_map(point).collect::<Points>()
    };
    let series = vec![
        Series::ours("typical", points(|times| times.typical_ps)),
        Series::ours("p99", points(|times| times.p99_ps)),
    ];
    Plot { title: "One way, by size".into(), x: sizes(), y: time_axis(), series }
}

fn flow_table(bench: &Bench) -> Table {
    // Engine timers and ceilings use another clock than transfers of served cards.
    let more: &[Field<Flow>] = match bench.platform.is_served() {
        true => &[APPLICATION],
        false => &[RATE, CEILING, LESS_DLLPS, SHARE],
    };
    let fields = [&[FLOW, BYTES, ITERATIONS, IN_FLIGHT][..], &times(), more].concat();
    let flows = bench.flows();
    Table::of(&fields, flows).titled("Transfers")
}

fn latency_table(bench: &Bench) -> Table {
    let fields = [&[ENDS, MESSAGE][..], &times()].concat();
    let latencies = bench.scenarios.iter().filter_map(|one| one.latency.as_ref());
    Table::of(&fields, latencies).titled("One way: half of a round trip")
}

/// Returns the section on the links of the last scenario.
fn link_section(bench: &Bench) -> Option<Section> {
    let last = bench.scenarios.iter().rev().find(|scenario| !scenario.links.is_empty())?;
    let fields: [Field<Link>; 5] = [
        ("direction", |link| link.direction.clone()),
        ("link", Link::rate),
        ("MB/s:", |link| megabytes(link.bytes_per_second)),
        ("it could carry:", |link| megabytes(link.ceiling_bytes_per_second)),
        ("of it %:", |link| {
            let (rate, ceiling) = (link.bytes_per_second, link.ceiling_bytes_per_second);
            or_none(Some(ceiling).filter(|rate| *rate > 0.0), |ceiling| percent(rate / ceiling))
        }),
    ];
    let rows = Table::of(&fields, &last.links);
    let title = format!("Links on the way, in the run of {}", size_words(last));
    Some(Section { title, blocks: vec![Block::Table(rows)] })
}

fn error_section(bench: &Bench) -> Option<Section> {
    let errors = bench.scenarios.iter().flat_map(|scenario| &scenario.errors);
    let mut rows = Table::headed("error");
    rows.rows = errors.map(|error| vec![Cell { text: error.clone(), is_bad: true }]).collect();
    let blocks = vec![Block::Table(rows.clone())];
    (!rows.rows.is_empty()).then(|| Section { title: "Errors".to_owned(), blocks })
}

pub const FLOW: Field<Flow> = ("flow", |flow| flow.name.clone());
pub const BYTES: Field<Flow> = ("bytes:", |flow| flow.bytes.to_string());
pub const ITERATIONS: Field<Flow> = ("iterations:", |flow| flow.iterations.to_string());
pub const IN_FLIGHT: Field<Flow> =
    ("in flight:", |flow| or_none(flow.in_flight, |n| n.to_string()));

/// Rate as the application sees it.
pub const APPLICATION: Field<Flow> =
    ("app MB/s:", |flow| or_none(flow.application_bytes_per_second, megabytes));
/// Rate by the engines' timers.
pub const RATE: Field<Flow> = ("MB/s:", |flow| or_none(flow.rate(), megabytes));
pub const BINARY_RATE: Field<Flow> = ("MiB/s:", |flow| or_none(flow.rate(), mebibytes));

/// Average payload of a TLP.
pub const PAYLOAD: Field<Flow> =
    ("TLP B:", |flow| or_none(flow.ceiling.as_ref(), |it| length_words(it.payload_bytes)));
pub const CEILING: Field<Flow> =
    ("ceiling MB/s:", |flow| or_none(flow.ceiling.as_ref(), |it| megabytes(it.bytes_per_second)));
pub const LESS_DLLPS: Field<Flow> = ("less DLLPs:", |flow| {
    or_none(flow.ceiling.as_ref(), |it| megabytes(it.less_dllps_bytes_per_second))
});
pub const SHARE: Field<Flow> = ("of it %:", |flow| or_none(flow.share_of_ceiling, percent));

/// Rate that the driver's plan expects.
pub const PLAN: Field<Flow> = ("plan MB/s:", |flow| megabytes(planned(flow)));
pub const SHARE_OF_PLAN: Field<Flow> = ("of it %:", |flow| {
    let plan = Some(planned(flow)).filter(|plan| *plan > 0.0);
    or_none(plan, |plan| percent(flow.rate().unwrap_or_default() / plan))
});

/// Ends of a ping-pong.
pub const ENDS: Field<Latency> = ("from, to", |one| one.name.clone());
pub const MESSAGE: Field<Latency> = ("bytes:", |one| one.bytes.to_string());
pub const ROUND_TRIPS: Field<Latency> = ("iterations:", |one| one.round_trips.to_string());

fn planned(flow: &Flow) -> f64 {
    flow.transfers().map_or(0.0, |it| it.plan.expected_bytes_per_second)
}

/// Formats an average length; whole if it is whole.
fn length_words(bytes: f64) -> String {
    if bytes.fract() == 0.0 { format!("{bytes:.0}") } else { format!("{bytes:.1}") }
}

/// A measurement that contains latencies.
pub trait Timed {
    /// Returns its latencies, if there are any.
    fn times(&self) -> Option<&Latencies>;
}

impl Timed for Flow {
    fn times(&self) -> Option<&Latencies> {
        self.latency.as_ref().filter(|_| self.iterations > 0)
    }
}

impl Timed for Latency {
    fn times(&self) -> Option<&Latencies> {
        Some(&self.one_way)
    }
}

fn us<R: Timed>(row: &R, time: fn(&Latencies) -> u64) -> String {
    or_none(row.times(), |times| microseconds(time(times)))
}

/// Returns the five columns of latencies.
pub fn times<R: Timed>() -> [Field<R>; 5] {
    [
        ("min us:", |row| us(row, |times| times.min_ps)),
        ("typical:", |row| us(row, |times| times.typical_ps)),
        ("average:", |row| us(row, |times| times.average_ps)),
        ("p99:", |row| us(row, |times| times.p99_ps)),
        ("max:", |row| us(row, |times| times.max_ps)),
    ]
}
