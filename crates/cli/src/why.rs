// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Search for the limits of the runs of a command.

use crosslane::explain::{Liftable, STEPS, explain};
use crosslane::results::{Account, Better, Explanation, Figure, Flow};
use rayon::prelude::*;

use crate::interrupt::is_asked;
use crate::progress::Explaining;

/// Explanation of a run, if there is one.
#[derive(Clone, Debug)]
pub enum Why {
    /// It was not asked for.
    LeftOut,
    /// It cannot be said, for this reason.
    Unknown(String),
    /// This.
    Found(Box<Explanation>),
}

/// A run that was made, to be explained.
pub struct Made<'a, C> {
    /// The run.
    pub case: &'a C,
    /// Its figure, as it was measured.
    pub measured: Option<Figure>,
    /// Its account.
    pub account: Option<&'a Account>,
    /// Whether anything went wrong in it.
    pub has_errors: bool,
}

/// Explains each run: by others, many more than there were. Pages and reports say of the last what
/// would hold it next, and of the others the bottleneck alone; JSON says all of `every` run.
pub fn explain_all<C: Liftable>(made: &[Made<'_, C>], every: bool) -> Vec<Why> {
    let progress = Explaining::new(made.len() as u64);
    let whys = made.par_iter().enumerate().map(|(index, run)| {
        if is_asked() {
            return Why::LeftOut;
        }
        let steps = if every || index + 1 == made.len() { STEPS } else { 1 };
        let why = why(run, steps, &progress);
        progress.done();
        why
    });
    let whys = whys.collect();
    progress.finish();
    whys
}

/// Explains runs whose figures are the rates of their flows and whose data were compared; accounts
/// may be missing.
pub fn explained<C: Liftable>(
    cases: &[C],
    flows: &[Flow],
    accounts: &[Account],
    every: bool,
) -> Vec<Why> {
    let figure = |value| Figure { value, better: Better::Higher };
    let made = cases.iter().zip(flows).enumerate().map(|(index, (case, flow))| Made {
        case,
        measured: flow.rate().map(figure),
        account: accounts.get(index),
        has_errors: false,
    });
    explain_all(&made.collect::<Vec<_>>(), every)
}

fn why<C: Liftable>(made: &Made<'_, C>, steps: usize, progress: &Explaining) -> Why {
    if made.has_errors {
        return Why::Unknown("the run had errors".to_owned());
    }
    match explain(made.case, made.measured, steps, &|_| progress.run()) {
        Ok(explanation) => {
            Why::Found(Box::new(Explanation { account: made.account.cloned(), ..explanation }))
        }
        Err(error) => Why::Unknown(error.to_string()),
    }
}

impl Why {
    /// Returns the explanation, if there is one.
    #[must_use]
    pub fn explanation(&self) -> Option<&Explanation> {
        match self {
            Self::LeftOut | Self::Unknown(_) => None,
            Self::Found(explanation) => Some(explanation),
        }
    }

    /// Why it is not known, where that was not wished for.
    #[must_use]
    pub fn not_explained(&self) -> Option<&str> {
        match self {
            Self::Unknown(reason) => Some(reason),
            Self::LeftOut | Self::Found(_) => None,
        }
    }

    /// Marks it as found with the model in place of the gateware.
    #[must_use]
    pub fn on_model(self) -> Self {
        match self {
            Self::Found(found) => Self::Found(Box::new(Explanation { on_model: true, ..*found })),
            other => other,
        }
    }
}
