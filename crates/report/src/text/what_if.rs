// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab beside itself with changes, and the levers that make flows faster.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crosslane_results::quantity::{
    change as change_words, count_words, megabytes, microseconds, percent,
};
use crosslane_results::topology::MatrixPair;
use crosslane_results::{
    BeforeAfter, ChangedPairs, ExplainedPair, Flow, ScenarioResult, Step, TuneTrial, Tuning,
    WhatIf, distinct,
};

use super::{Columns, paragraph, why};
use crate::runs::limit_words;
use crate::table::{Field, Table, or_none};

/// Formats what changes of a lab make of its pairs, or of flows.
pub fn what_if(compared: &WhatIf, columns: Columns) -> String {
    let mut text = format!("{} with {}\n", compared.lab, compared.changes.join(" "));
    for note in &compared.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    text.push('\n');
    if let Some(pairs) = &compared.pairs {
        text.push_str(&changed_pairs(pairs, columns));
    }
    if let Some(flows) = &compared.flows {
        text.push_str(&changed_flows(flows, columns));
    }
    text
}

/// Formats a change of a figure in percent: `+5.2`.
pub(crate) fn change(before: f64, after: f64) -> String {
    match before > 0.0 {
        true => change_words(after / before - 1.0),
        false => "-".to_owned(),
    }
}

/// Figures of a pair before and after.
pub(crate) type Pair = BeforeAfter<ExplainedPair>;

fn changed_of(pair: &Pair, of: fn(&MatrixPair) -> Option<f64>) -> String {
    match (of(&pair.before.pair), of(&pair.after.pair)) {
        (Some(before), Some(after)) => change(before, after),
        _ => "-".to_owned(),
    }
}

fn gigabytes(rate: Option<f64>) -> String {
    or_none(rate, |rate| format!("{:.2}", rate / 1e9))
}

fn nanoseconds(time: Option<f64>) -> String {
    or_none(time, |ns| format!("{ns:.0}"))
}

const ONE_WAY: fn(&MatrixPair) -> Option<f64> = |pair| pair.one_way_bytes_per_second;
const BOTH_WAYS: fn(&MatrixPair) -> Option<f64> = |pair| pair.both_ways_bytes_per_second;
const LATENCY: fn(&MatrixPair) -> Option<f64> = |pair| pair.read_latency_ns;

/// Columns of a pair that changes.
pub(crate) const PAIR: [Field<Pair>; 12] = [
    ("from", |it| it.before.pair.from.clone()),
    ("to", |it| it.before.pair.to.clone()),
    ("way", |it| {
        let [before, after] = [&it.before, &it.after].map(|it| it.pair.way.words().0);
        if before == after { before.to_owned() } else { format!("{before}->{after}") }
    }),
    ("one way:", |it| gigabytes(ONE_WAY(&it.before.pair))),
    ("then:", |it| gigabytes(ONE_WAY(&it.after.pair))),
    ("change %:", |it| changed_of(it, ONE_WAY)),
    ("both ways:", |it| gigabytes(BOTH_WAYS(&it.before.pair))),
    ("then:", |it| gigabytes(BOTH_WAYS(&it.after.pair))),
    ("change %:", |it| changed_of(it, BOTH_WAYS)),
    ("read ns:", |it| nanoseconds(LATENCY(&it.before.pair))),
    ("then:", |it| nanoseconds(LATENCY(&it.after.pair))),
    ("change %:", |it| changed_of(it, LATENCY)),
];

/// Tells how many pairs do not change.
pub(crate) fn unchanged_words(pairs: &ChangedPairs) -> Option<String> {
    let ChangedPairs { changed, unchanged, threshold } = pairs;
    let others = match (changed.len(), *unchanged) {
        (_, 0) => return None,
        (0, count) => count_words(count, "pair", "pairs"),
        (_, count) => count_words(count, "other pair", "other pairs"),
    };
    let verb = if *unchanged == 1 { "changes" } else { "change" };
    Some(format!("{others} {verb} by less than {} %", percent(*threshold)))
}

fn changed_pairs(pairs: &ChangedPairs, columns: Columns) -> String {
    let changed = &pairs.changed;
    let mut text = String::new();
    if !changed.is_empty() {
        let what = "Payload one way from one to the other, and both ways at once, GB/s; time of a \
                    read of 64 B, ns";
        let _ = writeln!(text, "{}", paragraph(what, columns));
        text.push_str(&Table::of(&PAIR, changed).to_text(columns.tables));
        text.push('\n');
    }
    if let Some(words) = unchanged_words(pairs) {
        let _ = writeln!(text, "{words}");
    }
    for problem in problems(changed) {
        let _ = writeln!(text, "{problem}");
    }
    text.push_str(&bottlenecks(changed));
    text
}

/// Formats the names of pairs: `gpu0 to nic0 and 3 other pairs`.
fn named(pairs: &[&Pair]) -> String {
    let Some(first) = pairs.first() else { return String::new() };
    let first_words = format!("{} to {}", first.before.pair.from, first.before.pair.to);
    match pairs.len() {
        1 => first_words,
        count => {
            format!("{first_words} and {}", count_words(count - 1, "other pair", "other pairs"))
        }
    }
}

/// Lists the problems of pairs, each once.
pub(crate) fn problems(changed: &[Pair]) -> Vec<String> {
    let mut found = Vec::new();
    for (word, of) in
        [("before", (|it| &it.before) as fn(&Pair) -> &ExplainedPair), ("after", |it| &it.after)]
    {
        let mut pairs: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        for pair in changed {
            if let Some(problem) = &of(pair).pair.problem {
                pairs.entry(problem).or_default().push(pair);
            }
        }
        for (problem, pairs) in pairs {
            found.push(format!("{word}, {}: {problem}", named(&pairs)));
        }
    }
    found
}

/// Formats the limit of a rate one way: `the link a -> b, Gen3 x8`.
fn limit(pair: &ExplainedPair) -> String {
    let words = |step: &Step| limit_words(step, " and ");
    let unknown = if pair.pair.one_way_bytes_per_second.is_some() { "nothing found" } else { "-" };
    pair.bottleneck.as_ref().map_or_else(|| unknown.to_owned(), words)
}

/// Lists what limits the rates one way before and after, each behind the names of its pairs; empty
/// if nobody has looked for it.
pub(crate) fn limits(changed: &[Pair]) -> Vec<[String; 3]> {
    if changed.iter().all(|it| it.before.bottleneck.is_none() && it.after.bottleneck.is_none()) {
        return Vec::new();
    }
    let of = |it: &Pair| (limit(&it.before), limit(&it.after));
    let row = |limits: (String, String)| {
        let pairs: Vec<&Pair> = changed.iter().filter(|it| of(it) == limits).collect();
        [named(&pairs), limits.0, limits.1]
    };
    distinct(changed.iter().map(of)).into_iter().map(row).collect()
}

/// Formats what limits the rates one way; pairs with the same limits are named together.
fn bottlenecks(changed: &[Pair]) -> String {
    let limits = limits(changed);
    if limits.is_empty() {
        return String::new();
    }
    let mut text = "\nWhat limits them one way\n".to_owned();
    for [pairs, before, after] in limits {
        let _ = writeln!(text, "\n{pairs}");
        let _ = match before == after {
            true => writeln!(text, "  before and after: {after}"),
            false => writeln!(text, "  before: {before}\n  after: {after}"),
        };
    }
    text
}

/// A flow before and after, as far as it runs.
type Both<'a> = [Option<&'a Flow>; 2];

fn rate(flow: Option<&Flow>) -> Option<f64> {
    flow?.rate()
}

fn typical_ps(flow: Option<&Flow>) -> Option<u64> {
    Some(flow?.latency.as_ref()?.typical_ps)
}

/// Makes the table of flows before and after.
pub(crate) fn flow_table(flows: &BeforeAfter<ScenarioResult>) -> Table {
    fn fields<'a>() -> [Field<Both<'a>>; 7] {
        [
            ("flow", |both| or_none(both.iter().flatten().next(), |flow| flow.name.clone())),
            ("MB/s:", |both| or_none(rate(both[0]), megabytes)),
            ("then:", |both| or_none(rate(both[1]), megabytes)),
            ("change %:", |both| {
                let [before, after] = both.map(rate);
                or_none(before.zip(after), |(before, after)| change(before, after))
            }),
            ("typical us:", |both| or_none(typical_ps(both[0]), microseconds)),
            ("then:", |both| or_none(typical_ps(both[1]), microseconds)),
            ("change %:", |both| {
                let [before, after] = both.map(typical_ps);
                let both = before.zip(after);
                or_none(both, |(before, after)| change(before as f64, after as f64))
            }),
        ]
    }
    let BeforeAfter { before, after } = flows;
    let count = before.flows.len().max(after.flows.len());
    let both = (0..count).map(|index| [before, after].map(|run| run.flows.get(index)));
    let both: Vec<Both<'_>> = both.collect();
    Table::of(&fields(), &both)
}

fn changed_flows(flows: &BeforeAfter<ScenarioResult>, columns: Columns) -> String {
    let BeforeAfter { before, after } = flows;
    let mut text = flow_table(flows).to_text(columns.tables);
    for (title, run) in [("As it is", before), ("With the changes", after)] {
        let block = match run.errors.is_empty() {
            true => why::block_under(title, run),
            false => format!("{title}\n\n{}", run.errors.join("\n")),
        };
        if !block.is_empty() {
            let _ = write!(text, "\n{}\n", block.trim_end());
        }
    }
    text
}

/// Columns of a lever.
pub(crate) const TRIAL: [Field<TuneTrial>; 3] = [
    ("lever", |it| it.words.clone()),
    ("MB/s:", |it| or_none(it.value, megabytes)),
    ("gain %:", |it| match it.problem {
        None => change(1.0, 1.0 + it.gain),
        Some(_) => "cannot".to_owned(),
    }),
];

/// Returns the command that compares the flows before and after all steps.
pub(crate) fn tuning_words(tuning: &Tuning, argument: &str) -> String {
    let options = tuning.steps.iter().flat_map(|step| &step.options);
    let all: Vec<&str> = tuning.flows.iter().chain(options).map(String::as_str).collect();
    format!("crosslane what-if {argument} {}", all.join(" "))
}

/// Sentence of a search without levers.
pub(crate) const NOTHING_TO_SET: &str =
    "There is nothing to set: no lever is on the way of the flows";
/// Sentence of a search whose levers bring too little.
pub(crate) const NO_GAIN: &str = "No lever gains 1 %, nor do all settings together gain 3 %";

/// Formats the levers that make flows faster, with the commands for each; `argument` is the lab as
/// the user named it.
pub fn tuning(tuning: &Tuning, argument: &str, columns: Columns) -> String {
    let Tuning { lab, flows, figure, alone, steps, .. } = tuning;
    let rate = megabytes(figure.value);
    let mut text = format!("{lab} with {}: {rate} MB/s as it is\n", flows.join(" "));
    match alone.is_empty() {
        true => text.push_str(&format!("\n{NOTHING_TO_SET}\n")),
        false => {
            text.push_str("\nEach lever alone\n\n");
            text.push_str(&Table::of(&TRIAL, alone).to_text(columns.tables));
            for trial in alone {
                if let Some(problem) = &trial.problem {
                    let _ = writeln!(text, "\n{}: {problem}", trial.words);
                }
            }
        }
    }
    let mut before = figure.value;
    for (number, step) in steps.iter().enumerate() {
        let (words, rate) = (step.words.join(", "), megabytes(step.value));
        let gain = change(before, step.value);
        let _ = writeln!(text, "\n{}. {words}: {rate} MB/s ({gain} %)", number + 1);
        for command in &step.commands {
            let _ = writeln!(text, "     {command}");
        }
        for note in &step.notes {
            let _ = writeln!(text, "   {note}");
        }
        before = step.value;
    }
    if steps.is_empty() && !alone.is_empty() {
        text.push_str(&format!("\n{NO_GAIN}\n"));
    }
    if steps.len() > 1 {
        let _ = writeln!(
            text,
            "\nTogether: {} MB/s instead of {rate} ({} %)",
            megabytes(before),
            change(figure.value, before)
        );
    }
    if !steps.is_empty() {
        let _ = writeln!(text, "\nIn detail: {}", tuning_words(tuning, argument));
    }
    let title = if steps.is_empty() { "What limits then" } else { "What limits afterwards" };
    let block = why::block_under(title, tuning);
    if !block.is_empty() {
        let _ = write!(text, "\n{}\n", block.trim_end());
    }
    text
}
