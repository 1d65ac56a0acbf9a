// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run was not faster: found for each run of a command, and said to a person and to a
//! program.

use std::fmt::Write as _;

use crosslane::explain::{Case, STEPS, explain};
use crosslane::results::{
    Account, Better, Consequence, Explanation, Figure, Flow, LimitKind, Step,
};
use rayon::prelude::*;

use crate::interrupt::is_asked;
use crate::progress::Explaining;
use crate::quantity::{megabytes, microseconds, percent};

/// Shares below this are printed as nothing, and so are left out.
const LEAST_SHARE: f64 = 0.0005;

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
pub fn explain_all<C: Case>(made: &[Made<'_, C>], every: bool) -> Vec<Why> {
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

/// Whether rows of a table have their bottleneck beside them: those of several runs.
#[must_use]
pub fn has_column(whys: &[Why]) -> bool {
    whys.len() > 1 && whys.iter().any(|why| !matches!(why, Why::LeftOut))
}

/// Explains runs whose figures are the rates of their flows and whose data were compared; accounts
/// may be missing.
pub fn explained<C: Case>(
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

/// Formats what limits the last run, behind a table; nothing if that is not known.
#[must_use]
pub fn why_block(whys: &[Why]) -> String {
    let block = whys.last().map(Why::block).filter(|block| !block.is_empty());
    block.map_or(String::new(), |block| format!("\n{}\n", block.trim_end()))
}

fn why<C: Case>(made: &Made<'_, C>, steps: usize, progress: &Explaining) -> Why {
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

    /// The block of a page; empty where nobody wants to know.
    #[must_use]
    pub fn block(&self) -> String {
        let lines = match self {
            Self::LeftOut => return String::new(),
            Self::Unknown(reason) => format!("not explained: {reason}\n"),
            Self::Found(explanation) => lines(explanation),
        };
        format!("Why not faster\n\n{lines}\n")
    }

    /// The bottleneck in a cell of a table.
    #[must_use]
    pub fn cell(&self) -> String {
        let Self::Found(explanation) = self else { return "-".to_owned() };
        let Some(step) = explanation.steps.first() else { return "none found".to_owned() };
        let mut kinds: Vec<String> = Vec::new();
        for limit in &step.limits {
            let words = kind_words(limit.kind);
            if !kinds.contains(&words) {
                kinds.push(words);
            }
        }
        kinds.join(" + ")
    }
}

/// A kind of limit in few words: as a program reads it, but with blanks.
fn kind_words(kind: LimitKind) -> String {
    let words = serde_json::to_value(kind).unwrap_or_default();
    words.as_str().unwrap_or_default().replace('_', " ").replace("dllps", "DLLPs")
}

fn lines(explanation: &Explanation) -> String {
    let mut text = String::new();
    if let Some(account) = &explanation.account {
        let _ = writeln!(text, "{}", account_line(account));
        for iommu in &account.iommus {
            let _ = writeln!(text, "{iommu}");
        }
    }
    let mut before = explanation.figure;
    let mut consequence = explanation.consequence.as_ref();
    for (step, name) in explanation.steps.iter().zip(["bottleneck", "then"]) {
        let _ = writeln!(text, "{name}: {}", step_words(step, before));
        if let Some(consequence) = consequence.take() {
            let _ = writeln!(text, "{}", consequence_words(consequence));
        }
        before.value = step.value;
    }
    text.push_str(match explanation.steps.len() {
        0 => "bottleneck: none was found; nothing that was lifted made the run faster\n",
        1 => "then: nothing else that was lifted made it faster\n",
        _ => "",
    });
    let what = match explanation.figure.better {
        Better::Higher => "rates are those that the application sees",
        Better::Lower => "times are one way",
    };
    let model =
        if explanation.on_model { "; the model was run in the gateware's place" } else { "" };
    let _ = match &explanation.shortened {
        Some(how) => writeln!(text, "({what}, of shorter runs: {how}{model})"),
        None => writeln!(text, "({what}{model})"),
    };
    if let (Some(off), Some(measured)) = (explanation.unlike(), explanation.measured) {
        let _ = writeln!(text, "{}", unlike_words(off, explanation.figure, measured));
    }
    text
}

/// `no tag, 44.2 % of the time, comes of the bottleneck: 2.1 % without it`.
fn consequence_words(consequence: &Consequence) -> String {
    format!(
        "{}, {} % of the time, comes of the bottleneck: {} % without it",
        consequence.what,
        percent(consequence.share),
        percent(consequence.share_without)
    )
}

/// That the run that was explained is not like the one that was measured.
fn unlike_words(off: f64, explained: Figure, measured: Figure) -> String {
    let words = |figure: Figure| match figure.better {
        Better::Higher => format!("{} MB/s", megabytes(figure.value)),
        Better::Lower => format!("{} us", microseconds(figure.value as u64)),
    };
    let side = if off < 0.0 { "less" } else { "more" };
    format!(
        "warning: the run that was explained reached {}, {} % {side} than the {} that were \
         measured: what limits it may not limit the whole run",
        words(explained),
        percent(off.abs()),
        words(measured)
    )
}

/// `fpga1 -> rc47a.down0 (Gen2 x4): 80.3 % payload, 12.6 % headers`, and what else there was.
fn account_line(account: &Account) -> String {
    let shown = account.uses.iter().filter(|entry| entry.share >= LEAST_SHARE);
    let parts: Vec<String> =
        shown.map(|entry| format!("{} % {}", percent(entry.share), entry.what)).collect();
    format!("{} ({}): {}", account.direction, account.link, parts.join(", "))
}

/// `16 tags of fpga1; 256 tags: 1681.9 MB/s instead of 1598.3 (+5.2 %)`.
fn step_words(step: &Step, before: Figure) -> String {
    let words: Vec<&str> = step.limits.iter().map(|limit| limit.words.as_str()).collect();
    let mut lifted: Vec<&str> = Vec::new();
    for limit in &step.limits {
        if !lifted.contains(&limit.lifted.as_str()) {
            lifted.push(&limit.lifted);
        }
    }
    let held = if words.len() > 1 { " (each is enough to limit the run)" } else { "" };
    let (value, old, change) = match before.better {
        Better::Higher => {
            (format!("{} MB/s", megabytes(step.value)), megabytes(before.value), step.gain)
        }
        Better::Lower => {
            let time = |ps: f64| microseconds(ps as u64);
            (format!("{} us", time(step.value)), time(before.value), -step.gain)
        }
    };
    let sign = if change >= 0.0 { "+" } else { "" };
    format!(
        "{}{held}; {}: {value} instead of {old} ({sign}{} %)",
        words.join(" and "),
        lifted.join(", "),
        percent(change)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane::results::{Limit, TimeUse, Use};

    fn limit(kind: LimitKind, words: &str, lifted: &str) -> Limit {
        let place = "fpga1".to_owned();
        Limit { kind, place, words: words.to_owned(), lifted: lifted.to_owned() }
    }

    fn found(better: Better, steps: Vec<Step>, account: Option<Account>) -> Why {
        Why::Found(Box::new(Explanation {
            figure: Figure { value: 1_598_300_000.0, better },
            measured: None,
            shortened: None,
            on_model: false,
            account,
            steps,
            consequence: None,
            trials: Vec::new(),
        }))
    }

    #[test]
    fn each_step_is_compared_with_the_one_before() {
        let tags = limit(LimitKind::Tags, "16 tags of fpga1", "256 tags");
        let link = limit(LimitKind::Link, "Gen2 x4 of fpga1", "twice the rate");
        let account = Account {
            direction: "fpga1 -> switch.down0".to_owned(),
            link: "Gen2 x4".to_owned(),
            span_ps: 1000,
            uses: vec![
                TimeUse { what: Use::Payload, share: 0.8996 },
                TimeUse { what: Use::Dllp, share: 0.0004 },
                TimeUse { what: Use::NoTag, share: 0.1 },
            ],
            iommus: Vec::new(),
        };
        let steps = vec![
            Step { limits: vec![tags.clone()], value: 1_681_900_000.0, gain: 0.0523 },
            Step { limits: vec![link.clone(), tags], value: 1_719_400_000.0, gain: 0.022 },
        ];
        let why = found(Better::Higher, steps, Some(account));
        assert_eq!(
            why.block(),
            "Why not faster\n\n\
             fpga1 -> switch.down0 (Gen2 x4): 90.0 % payload, 10.0 % no tag\n\
             bottleneck: 16 tags of fpga1; 256 tags: 1681.9 MB/s instead of 1598.3 (+5.2 %)\n\
             then: Gen2 x4 of fpga1 and 16 tags of fpga1 (each is enough to limit the run); twice \
             the rate, 256 tags: 1719.4 MB/s instead of 1681.9 (+2.2 %)\n\
             (rates are those that the application sees)\n\n"
        );
        assert_eq!(why.cell(), "tags");
    }

    #[test]
    fn latencies_fall() {
        let core = limit(LimitKind::EndpointLatency, "100 ns in fpga1", "none");
        let steps = vec![Step { limits: vec![core], value: 1_400_000_000.0, gain: 0.124 }];
        let block = found(Better::Lower, steps, None).block();
        let line = "bottleneck: 100 ns in fpga1; none: 1400.000 us instead of 1598.300 (-12.4 %)\n";
        assert!(block.contains(line), "{block}");
        assert!(block.contains("then: nothing else"), "{block}");
    }

    #[test]
    fn a_run_unlike_the_measured_one_is_warned_of() {
        let why = found(Better::Higher, Vec::new(), None);
        let block = |value| {
            let Why::Found(explanation) = &why else { unreachable!() };
            let measured = Some(Figure { value, better: Better::Higher });
            Why::Found(Box::new(Explanation { measured, ..(**explanation).clone() })).block()
        };
        assert!(!block(1_600_000_000.0).contains("warning"));
        let block = block(2_283_285_714.0);
        let line = "warning: the run that was explained reached 1598.3 MB/s, 30.0 % less than the \
                    2283.3 MB/s that were measured: what limits it may not limit the whole run\n";
        assert!(block.contains(line), "{block}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let why = Why::Unknown("the run had errors".to_owned());
        assert_eq!(why.block(), "Why not faster\n\nnot explained: the run had errors\n\n");
        assert_eq!((why.explanation(), why.not_explained()), (None, Some("the run had errors")));
        assert_eq!((why.cell().as_str(), Why::LeftOut.not_explained()), ("-", None));
        assert!(found(Better::Higher, Vec::new(), None).block().contains("none was found"));
    }
}
