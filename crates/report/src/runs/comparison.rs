// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two outcomes side by side: as data, as text and as a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crosslane_results::quantity::{count_words, signed};
use crosslane_results::{
    Compared, ComparedBottleneck, ComparedFigure, Outcome, ScenarioResult, SingleFigure, distinct,
};

use super::rows_page::Lines;
use super::run_page::{limit_words, size_words, sizes};
use super::values::{AT_APPLICATION, BY_TIMERS, values};
use crate::page::{Block, Page, Section};
use crate::plot::{Axis, Plot, Scale, Series, SeriesKind};
use crate::table::{Align, Cell, Column, Table};
use crate::text::Columns;

/// Two outcomes, and what they have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The first and the second outcome.
    pub outcomes: [Outcome; 2],
    /// The comparison as plain data: figures in the order of the first outcome.
    pub result: Compared,
}

/// Identity of a figure: subject, conditions, quantity and unit, and its number among the figures
/// with the same four.
type Key = ([String; 4], usize);

fn keyed(figures: Vec<SingleFigure>) -> Vec<(Key, SingleFigure)> {
    let mut seen: BTreeMap<[String; 4], usize> = BTreeMap::new();
    let key = |figure: SingleFigure| {
        let SingleFigure { subject, conditions, quantity, unit, .. } = &figure;
        let key = [subject, conditions, quantity, unit].map(Clone::clone);
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        ((key, *count), figure)
    };
    figures.into_iter().map(key).collect()
}

impl Comparison {
    /// Compares two outcomes.
    pub fn of(first: Outcome, second: Outcome) -> Self {
        let of_second = keyed(values(&second));
        let others: BTreeMap<&Key, f64> =
            of_second.iter().map(|(key, figure)| (key, figure.value)).collect();
        let (mut figures, mut only_first) = (Vec::new(), Vec::new());
        let mut in_both = BTreeSet::new();
        for (key, figure) in keyed(values(&first)) {
            match others.get(&key) {
                Some(other) => {
                    figures.push(ComparedFigure::new(figure, *other));
                    in_both.insert(key);
                }
                None => only_first.push(figure),
            }
        }
        let only_second = of_second.into_iter().filter(|(key, _)| !in_both.contains(key));
        let result = Compared {
            first: first.name(),
            second: second.name(),
            figures,
            only_first,
            only_second: only_second.map(|(_, figure)| figure).collect(),
            bottlenecks: bottlenecks(&first, &second),
        };
        Self { outcomes: [first, second], result }
    }
}

/// Returns the bottleneck of each scenario that both outcomes explain; none of reproductions.
fn bottlenecks(first: &Outcome, second: &Outcome) -> Vec<ComparedBottleneck> {
    let (Outcome::Bench(first), Outcome::Bench(second)) = (first, second) else {
        return Vec::new();
    };
    let words = |scenario: &ScenarioResult| {
        let why = scenario.why_not_faster.as_ref()?;
        let Some(step) = why.steps.first() else { return Some("nothing".to_owned()) };
        Some(limit_words(step, " and "))
    };
    let both = first.scenarios.iter().filter_map(|scenario| {
        let size = size_words(scenario);
        let other = second.scenarios.iter().find(|other| size_words(other) == size)?;
        Some(ComparedBottleneck { first: words(scenario)?, second: words(other)?, size })
    });
    both.collect()
}

/// A second run that is worse by more than this is marked.
const WORSE: f64 = 0.01;

impl Comparison {
    /// Returns the page: `command` is the command line that makes it, `names` are those of the
    /// runs.
    pub fn page(&self, command: &str, names: [&str; 2]) -> Page {
        let mut sections = Vec::new();
        sections.extend(self.plots(names));
        sections.extend(self.bottleneck_section(names));
        let blocks = vec![Block::Table(self.table(names))];
        sections.push(Section { title: "Figures of both".to_owned(), blocks });
        sections.extend(self.only(names));
        Page {
            title: format!("{} and {}", names[0], names[1]),
            summary: self.summary(),
            facts: self.facts(command, names),
            sections,
        }
    }

    /// Returns a sentence with the number of figures, and how many of them are better or worse.
    pub fn summary(&self) -> String {
        let Compared { figures, only_first, only_second, .. } = &self.result;
        let count = |is_so: &dyn Fn(&ComparedFigure) -> bool| {
            figures.iter().filter(|figure| is_so(figure)).count()
        };
        let worse = count(&|figure| figure.is_worse(WORSE));
        let same = count(&|figure| figure.change == Some(0.0));
        let better = count(&|figure| figure.swapped().is_worse(WORSE));
        format!(
            "{} in both: {same} equal, {better} better by more than 1 %, {worse} worse by \
             more than 1 %; {} only in the first, {} only in the second.",
            count_words(figures.len(), "figure", "figures"),
            only_first.len(),
            only_second.len(),
        )
    }

    fn facts(&self, command: &str, names: [&str; 2]) -> Vec<(String, String)> {
        let mut facts = vec![("command".to_owned(), command.to_owned())];
        for (name, run) in names.into_iter().zip(&self.outcomes) {
            let (version, seed) = run.origin();
            let words = format!("{}, version {version}, seed {seed}", run.name());
            facts.push((name.to_owned(), words));
        }
        facts
    }

    /// Returns a table of all figures that both runs have.
    pub fn table(&self, names: [&str; 2]) -> Table {
        let mut rows = Table::headed("what | conditions | figure");
        rows = rows.with_numbers([names[0], names[1], "unit", "change %"]);
        rows.is_searchable = true;
        for figure in &self.result.figures {
            let ComparedFigure { subject, conditions, quantity, unit, .. } = figure;
            let change = figure.change.map_or("-".to_owned(), |change| {
                if change == 0.0 { "0".to_owned() } else { signed(100.0 * change, 2) }
            });
            let (first, second) = (digits(figure.first), digits(figure.second));
            let texts = [subject, conditions, quantity, &first, &second, unit];
            let change = Cell { text: change, is_bad: figure.is_worse(WORSE) };
            rows.row(texts.map(|text| Cell::from(text.as_str())).into_iter().chain([change]));
        }
        rows
    }

    fn bottleneck_section(&self, names: [&str; 2]) -> Option<Section> {
        let column = |heading: &str| Column { heading: heading.to_owned(), align: Align::Left };
        let columns = ["size", names[0], names[1]].map(column).into();
        let mut shown = Table { columns, ..Table::default() };
        for ComparedBottleneck { size, first, second } in &self.result.bottlenecks {
            shown.row([&**size, first, second]);
        }
        let has_rows = !shown.rows.is_empty();
        let blocks = vec![Block::Table(shown)];
        has_rows.then(|| Section { title: "What limits each".to_owned(), blocks })
    }

    fn only(&self, names: [&str; 2]) -> Option<Section> {
        let mut blocks = Vec::new();
        for (name, values) in
            names.into_iter().zip([&self.result.only_first, &self.result.only_second])
        {
            if values.is_empty() {
                continue;
            }
            let title = format!("Only in {name}");
            let mut rows =
                Table::headed("what | conditions | figure | value: | unit:").titled(title);
            rows.is_searchable = true;
            for value in values {
                let SingleFigure { subject, conditions, quantity, unit, value, .. } = value;
                let texts = [subject, conditions, quantity, &digits(*value), unit];
                rows.row(texts.map(|text| text.as_str()));
            }
            blocks.push(Block::Table(rows));
        }
        (!blocks.is_empty()).then(|| Section { title: "Figures of one only".to_owned(), blocks })
    }

    /// Returns plots of the rates and typical times of both runs, one for each unit.
    fn plots(&self, names: [&str; 2]) -> Option<Section> {
        let runs = self.outcomes.each_ref().map(values);
        let all = || runs.iter().flatten();
        let has_timers = all().any(|figure| figure.quantity == BY_TIMERS);
        let kind = |figure: &SingleFigure| match &*figure.quantity {
            AT_APPLICATION if has_timers => None,
            "typical time" | "time" => Some(("Typical time", Scale::Logarithmic)),
            _ => figure.unit.ends_with("/s").then_some(("Rate", Scale::Linear)),
        };
        let mut blocks = Vec::new();
        for (kind_of_plot, unit) in
            distinct(all().filter_map(|figure| Some((kind(figure)?, &*figure.unit))))
        {
            let is_in = |figure: &&SingleFigure| {
                figure.unit == unit && kind(figure).as_ref() == Some(&kind_of_plot)
            };
            let shown = runs.each_ref().map(|run| run.iter().filter(is_in).collect());
            blocks.extend(plot(kind_of_plot, unit, names, &shown).map(Block::Plot));
        }
        (!blocks.is_empty()).then(|| Section { title: "Side by side".to_owned(), blocks })
    }
}

/// Returns a plot of figures of both runs: lines by size, or if each is of one size only, bars
/// beside each other on a linear scale.
fn plot(
    (title, scale): (&str, Scale),
    unit: &str,
    names: [&str; 2],
    runs: &[Vec<&SingleFigure>; 2],
) -> Option<Plot> {
    let all = || runs.iter().flatten();
    let first = parts(all().next()?);
    let differs = [0, 1, 2].map(|at| all().any(|figure| parts(figure)[at] != first[at]));
    // The first parts of a figure's name, without those that all figures have.
    let label = |figure: &SingleFigure, most: usize| {
        let parts = parts(figure).into_iter().zip(differs).take(most);
        let parts = parts.filter(|(part, differs)| *differs && !part.is_empty());
        parts.map(|(part, _)| part).collect::<Vec<_>>().join(", ")
    };
    let has_lines = |run: &Vec<&SingleFigure>| {
        distinct(run.iter().map(|figure| label(figure, 2))).len() < run.len()
    };
    let both = names.into_iter().zip(runs);
    if all().all(|figure| figure.bytes.is_some()) && runs.iter().any(has_lines) {
        let mut lines = Lines::default();
        for (name, figure) in both.flat_map(|(name, run)| run.iter().map(move |one| (name, one))) {
            let label = label(figure, 2);
            let line = if label.is_empty() { name.to_owned() } else { format!("{name}: {label}") };
            lines.add(line, (figure.bytes? as f64, figure.value));
        }
        let y = Axis::new(&title.to_lowercase(), unit, scale);
        return Some(Plot { title: format!("{title} by size"), x: sizes(), y, series: lines.0 });
    }
    let places = distinct(all().map(|figure| label(figure, 3)));
    let place = |figure: &SingleFigure| places.iter().position(|place| *place == label(figure, 3));
    let bars = both.enumerate().map(|(index, (name, run))| {
        let bar =
            |figure: &&SingleFigure| Some(((2 * place(figure)? + index) as f64, figure.value));
        Series::new(name, SeriesKind::Stacked, run.iter().filter_map(bar))
    });
    let series = bars.collect();
    let places = match &places[..] {
        [_] => names.map(str::to_owned).into(),
        places => places.iter().flat_map(|place| [place.clone(), place.clone()]).collect(),
    };
    let x = Axis::new("", "", Scale::Categories(places));
    let y = Axis::new(&title.to_lowercase(), unit, Scale::Linear);
    Some(Plot { title: title.to_owned(), x, y, series })
}

/// Returns the parts of a figure's name.
fn parts(figure: &SingleFigure) -> [&str; 3] {
    [&figure.subject, &figure.quantity, &figure.conditions]
}

/// Formats a number with six significant digits, and at most three decimals.
pub(super) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (5 - magnitude).clamp(0, 3) as usize;
    if magnitude < -3 { format!("{value:.3e}") } else { format!("{value:.decimals$}") }
}

impl Comparison {
    /// Formats the comparison as text; `names` are those of the runs. Cells to look at are marked.
    pub fn text(&self, names: [&str; 2], columns: Columns) -> String {
        let mut text = String::new();
        for (name, run) in names.into_iter().zip(&self.outcomes) {
            let (version, seed) = run.origin();
            let _ = writeln!(text, "{name}: {}, version {version}, seed {seed}", run.name());
        }
        let mut table = self.table(names);
        for cell in table.rows.iter_mut().flatten().filter(|cell| cell.is_bad) {
            cell.text.push_str(" !");
        }
        let _ = writeln!(text, "\n{}", table.to_text(columns.tables));
        let bottlenecks = &self.result.bottlenecks;
        if !bottlenecks.is_empty() {
            let _ = writeln!(text, "What limits each");
            for ComparedBottleneck { size, first, second } in bottlenecks {
                let _ = if first == second {
                    writeln!(text, "{size}: {first}, in both")
                } else {
                    writeln!(text, "{size}: {first}; {}: {second}", names[1])
                };
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.summary());
        text
    }
}
