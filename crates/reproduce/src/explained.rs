// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of an experiment, explained.

use crosslane_report::{Table, TopologyFigure};
use crosslane_results::{Better, Explanation, Step};

/// Explanation of a run, and the load of its links.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The run, in a few words.
    pub name: String,
    /// The explanation.
    pub explanation: Explanation,
    /// The lab with the load of every link.
    pub topology: TopologyFigure,
}

impl Explained {
    /// Formats a value of the explained figure: `1451.2 MiB/s`, `706 ns`.
    fn words(&self, value: f64) -> String {
        match self.explanation.figure.better {
            Better::Higher => format!("{:.1} MiB/s", value / f64::from(1 << 20)),
            Better::Lower => format!("{:.0} ns", value / 1e3),
        }
    }

    /// Returns a row of [`table`] as a sentence.
    pub fn sentence(&self) -> String {
        let Explanation { figure, steps, .. } = &self.explanation;
        let at = match figure.better {
            Better::Higher => "at the application",
            Better::Lower => "one way",
        };
        let mut sentence = format!("{}: {} {at}", self.name, self.words(figure.value));
        for (step, word) in steps.iter().zip(["limited by", "then by"]) {
            let [limit, without] = self.step(Some(step));
            sentence.push_str(&format!("; {word} {limit}: {without} without"));
        }
        if steps.is_empty() {
            sentence.push_str("; nothing that can be lifted holds it");
        }
        sentence.push('.');
        sentence
    }

    /// Returns the limits that a step lifts, and the gain.
    fn step(&self, step: Option<&Step>) -> [String; 2] {
        let Some(step) = step else { return ["nothing that can be lifted".into(), String::new()] };
        let limits: Vec<&str> = step.limits.iter().map(|limit| limit.words.as_str()).collect();
        [limits.join("; "), self.words(step.value)]
    }
}

/// Returns a table of the limits of each run, and the next ones.
pub fn table(runs: &[Explained]) -> Table {
    let mut table =
        Table::headed("run | figure: | what limits it | without it: | then | without that:");
    for run in runs {
        let mut steps = run.explanation.steps.iter();
        let (first, next) = (steps.next(), steps.next());
        let [limit, without] = run.step(first);
        let [then, without_both] =
            if first.is_some() { run.step(next) } else { Default::default() };
        let figure = run.words(run.explanation.figure.value);
        table.row([run.name.clone(), figure, limit, without, then, without_both]);
    }
    table
}
