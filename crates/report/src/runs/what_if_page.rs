// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of a lab beside itself with changes, and of a search for settings.

use crosslane_results::quantity::{count_words, megabytes};
use crosslane_results::{BeforeAfter, ChangedPairs, HasWhy, ScenarioResult, Tuning, WhatIf};

use super::run_page::{capital, explanation_blocks};
use crate::page::{Block, Page, Section};
use crate::plot::{Axis, Plot, Scale, Series, SeriesKind};
use crate::table::{Cell, Table};
use crate::text::what_if::{
    NO_GAIN, NOTHING_TO_SET, PAIR, TRIAL, change, flow_table, limits, problems, tuning_words,
    unchanged_words,
};

/// Most pairs, flows or levers with bars: a page is for reading.
const DRAWN: usize = 12;

fn section(title: &str, blocks: Vec<Block>) -> Section {
    Section { title: title.to_owned(), blocks }
}

fn facts(command: &str, lab: &str, version: &str) -> Vec<(String, String)> {
    [("command", command), ("lab", lab), ("version", version)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// Returns the page of a lab beside itself with changes. `command` is the command line that makes
/// it, `version` that of the program.
pub fn what_if_page(compared: &WhatIf, command: &str, version: &str) -> Page {
    let WhatIf { lab, changes, notes, pairs, flows } = compared;
    let mut sections = Vec::new();
    sections.extend(pairs.as_ref().map(of_pairs));
    if let Some(flows) = flows {
        sections.push(of_flows(flows));
        for (title, run) in TITLES.into_iter().zip([&flows.before, &flows.after]) {
            let blocks = why_blocks(title, run, &run.errors);
            sections.extend((!blocks.is_empty()).then(|| section(title, blocks)));
        }
    }
    let mut made = Table::headed("change");
    changes.iter().for_each(|change| made.row([change.as_str()]));
    let mut blocks = vec![Block::Table(made)];
    blocks.extend(notes.iter().map(|note| Block::Text(format!("{}.", capital(note)))));
    sections.push(section("Changes", blocks));
    Page {
        title: format!("what-if on {lab}"),
        summary: format!("The lab {lab} beside itself with {}.", changes.join(" ")),
        facts: facts(command, lab, version),
        sections,
    }
}

/// Titles of the two runs.
const TITLES: [&str; 2] = ["As it is", "With the changes"];

fn of_pairs(pairs: &ChangedPairs) -> Section {
    let ChangedPairs { changed, .. } = pairs;
    let count = count_words(changed.len(), "pair changes", "pairs change");
    let mut blocks = vec![Block::Verdict(match unchanged_words(pairs) {
        Some(others) => format!("{count}; {others}."),
        None => format!("{count}."),
    })];
    let rates = changed.iter().filter_map(|both| {
        let pair = &both.before.pair;
        let rates = [&both.before, &both.after].map(|it| it.pair.one_way_bytes_per_second);
        Some((format!("{} to {}", pair.from, pair.to), [rates[0]?, rates[1]?]))
    });
    blocks.extend(bars("Rate one way", rates.collect()));
    if !changed.is_empty() {
        let title = "Payload, GB/s, and the time of a read of 64 B";
        let mut table = Table::of(&PAIR, changed).titled(title);
        table.is_searchable = changed.len() > DRAWN;
        blocks.push(Block::Table(table));
    }
    let limits = limits(changed);
    if !limits.is_empty() {
        let mut table = Table::headed("pairs | before | after").titled("What limits them one way");
        limits.into_iter().for_each(|row| table.row(row));
        blocks.push(Block::Table(table));
    }
    let problems = problems(changed).into_iter();
    blocks.extend(problems.map(|problem| Block::Text(format!("{}.", capital(&problem)))));
    section("Pairs", blocks)
}

fn of_flows(flows: &BeforeAfter<ScenarioResult>) -> Section {
    let BeforeAfter { before, after } = flows;
    let sum = |run: &ScenarioResult| run.flows.iter().filter_map(|it| it.rate()).sum::<f64>();
    let mut blocks = Vec::new();
    if !before.flows.is_empty() && !after.flows.is_empty() {
        let [first, then] = [sum(before), sum(after)];
        blocks.push(Block::Verdict(format!(
            "{}: {} MB/s instead of {} ({} %).",
            count_words(before.flows.len(), "flow", "flows together"),
            megabytes(then),
            megabytes(first),
            change(first, then),
        )));
    }
    let rates = before.flows.iter().zip(&after.flows);
    let rates = rates.filter_map(|(was, is)| Some((was.name.clone(), [was.rate()?, is.rate()?])));
    blocks.extend(bars("Rate", rates.collect()));
    blocks.push(Block::Table(flow_table(flows)));
    section("Flows", blocks)
}

/// Draws rates before and after, bar beside bar.
fn bars(title: &str, mut rates: Vec<(String, [f64; 2])>) -> Option<Block> {
    let mut title = title.to_owned();
    if rates.len() > DRAWN {
        // Those that change most.
        let gain = |(_, [before, after]): &(String, [f64; 2])| (after / before - 1.0).abs();
        rates.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        rates.truncate(DRAWN);
        title.push_str(&format!(", of the {DRAWN} that change most"));
    }
    let names = match &rates[..] {
        [] => return None,
        [_] => TITLES.map(str::to_owned).into(),
        rates => rates.iter().flat_map(|(name, _)| [name.clone(), name.clone()]).collect(),
    };
    let series = TITLES.into_iter().enumerate().map(|(index, name)| {
        let bars = rates.iter().enumerate();
        let bars = bars.map(|(place, (_, both))| ((2 * place + index) as f64, both[index] / 1e6));
        Series::new(name.to_lowercase(), SeriesKind::Stacked, bars)
    });
    Some(Block::Plot(Plot {
        series: series.collect(),
        title,
        x: Axis::new("", "", Scale::Categories(names)),
        y: Axis::new("rate", "MB/s", Scale::Linear),
    }))
}

/// Returns the errors of a run, or else what limits it.
fn why_blocks(name: &str, run: &impl HasWhy, errors: &[String]) -> Vec<Block> {
    if !errors.is_empty() {
        let mut table = Table::headed("error");
        let cell = |error: &String| vec![Cell { text: error.clone(), is_bad: true }];
        table.rows = errors.iter().map(cell).collect();
        return vec![Block::Table(table)];
    }
    match run.why() {
        Some(Ok(why)) => explanation_blocks(name, why),
        Some(Err(reason)) => vec![Block::Text(format!("Not explained: {reason}."))],
        None => Vec::new(),
    }
}

/// Returns the page of a search for settings and places; `argument` is the lab as the user named
/// it.
pub fn tuning_page(tuning: &Tuning, argument: &str, command: &str, version: &str) -> Page {
    let Tuning { lab, flows, figure, alone, steps, .. } = tuning;
    let mut blocks = vec![Block::Verdict(verdict(tuning))];
    for (number, step) in (1..).zip(steps) {
        let title = format!("{number}. {}", step.words.join(", "));
        let mut table = Table::headed("command").titled(title);
        step.commands.iter().for_each(|command| table.row([command.as_str()]));
        blocks.push(Block::Table(table));
        let (rate, gain) = (megabytes(step.value), change(1.0, 1.0 + step.gain));
        blocks.push(Block::Text(format!("Then {rate} MB/s ({gain} %).")));
        blocks.extend(step.notes.iter().map(|note| Block::Text(format!("{}.", capital(note)))));
    }
    if !steps.is_empty() {
        let detail = tuning_words(tuning, argument);
        blocks.push(Block::Text(format!("In detail: {detail}")));
    }
    let mut sections = vec![section("Steps", blocks)];
    if !alone.is_empty() {
        let mut blocks: Vec<Block> = lever_bars(tuning).map(Block::Plot).into_iter().collect();
        let mut table = Table::of(&TRIAL, alone);
        table.is_searchable = alone.len() > DRAWN;
        blocks.push(Block::Table(table));
        let problem = |it: &crosslane_results::TuneTrial| {
            Some(Block::Text(format!("{}: {}.", it.words, it.problem.as_ref()?)))
        };
        blocks.extend(alone.iter().filter_map(problem));
        sections.push(section("Each lever alone", blocks));
    }
    let title = if steps.is_empty() { "What limits then" } else { "What limits afterwards" };
    let why = why_blocks("the flows", tuning, &[]);
    sections.extend((!why.is_empty()).then(|| section(title, why)));
    Page {
        title: format!("tune on {lab}"),
        summary: format!(
            "Settings and places that make {} faster: {} MB/s as it is.",
            flows.join(" "),
            megabytes(figure.value),
        ),
        facts: facts(command, lab, version),
        sections,
    }
}

fn verdict(tuning: &Tuning) -> String {
    let Tuning { figure, alone, steps, .. } = tuning;
    match steps.last() {
        Some(last) => format!(
            "{}: {} MB/s instead of {} ({} %).",
            count_words(steps.len(), "step", "steps"),
            megabytes(last.value),
            megabytes(figure.value),
            change(figure.value, last.value),
        ),
        None if alone.is_empty() => format!("{NOTHING_TO_SET}."),
        None => format!("{NO_GAIN}."),
    }
}

/// Draws the levers that gain or lose something.
fn lever_bars(tuning: &Tuning) -> Option<Plot> {
    let moves = |gain: f64| gain.abs() >= 0.001;
    let shown = tuning.alone.iter().filter(|it| moves(it.gain)).take(DRAWN);
    let (names, rates): (Vec<String>, Vec<f64>) =
        shown.filter_map(|it| Some((it.words.clone(), it.value? / 1e6))).unzip();
    if names.is_empty() {
        return None;
    }
    let places = |rates: &[f64]| (0..).map(f64::from).zip(rates.to_vec()).collect::<Vec<_>>();
    let as_it_is = vec![tuning.figure.value / 1e6; rates.len()];
    Some(Plot {
        title: "Rate with each lever alone".to_owned(),
        x: Axis::new("", "", Scale::Categories(names)),
        y: Axis::new("rate", "MB/s", Scale::Linear),
        series: vec![
            Series::new("with the lever", SeriesKind::Stacked, places(&rates)),
            Series::ours("as it is", places(&as_it_is)),
        ],
    })
}
