// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Search for the limits of the runs of a command.

use crosslane::experiment::{Outcome as _, Scenario, Work};
use crosslane::explain::{Explainable, STEPS, explain};
use crosslane::results::Explanation;
use rayon::prelude::*;

use crate::interrupt::is_asked;
use crate::progress::Explaining;

/// Explanation of a run, or the reason for which there is none; `None` if it was not asked for.
pub type Why = Option<Result<Explanation, String>>;

/// Explains each run: by others, many more than there were. Pages and reports say of the last what
/// would hold it next, and of the others the bottleneck alone; JSON says all of `every` run. Runs
/// of gateware are explained by the same runs of the model.
pub fn explain_all<W: Explainable>(
    cases: &[Scenario<W>],
    outcomes: &[W::Outcome],
    every: bool,
    on_model: bool,
) -> Vec<Why> {
    let progress = Explaining::new(cases.len() as u64);
    let runs = cases.par_iter().zip(outcomes).enumerate();
    let whys = runs.map(|(index, (case, outcome))| {
        if is_asked() {
            return None;
        }
        let steps = if every || index + 1 == cases.len() { STEPS } else { 1 };
        let why = why(case, outcome, steps, &progress);
        progress.done();
        Some(why.map(|explanation| Explanation { on_model, ..explanation }))
    });
    let whys = whys.collect();
    progress.finish();
    whys
}

fn why<W: Explainable>(
    case: &Scenario<W>,
    outcome: &<W as Work>::Outcome,
    steps: usize,
    progress: &Explaining,
) -> Result<Explanation, String> {
    if outcome.has_errors() {
        return Err("the run had errors".to_owned());
    }
    let explanation = explain(case, outcome.figure(), steps, &|_| progress.run());
    let explanation = explanation.map_err(|error| error.to_string())?;
    Ok(Explanation { account: outcome.account().cloned(), ..explanation })
}
