// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations: the bottleneck of a run, the account of its time, and the run without it.

use std::fmt::Write as _;

use crosslane_results::quantity::{megabytes, microseconds, percent};
use crosslane_results::{
    Account, Better, Consequence, Explanation, Figure, HasWhy, LimitKind, Step, distinct,
};

use crate::runs::{limit_words, unlike_words};
use crate::table::Table;

/// Smaller shares are printed as 0.0 %, and so are left out.
const LEAST_SHARE: f64 = 0.0005;

/// Adds the bottleneck of each run to a table of several runs, if any run was explained. Each row
/// belongs to one of `rows`.
pub fn push_bottlenecks<'a, R: HasWhy + 'a>(
    table: &mut Table,
    runs: &[R],
    rows: impl IntoIterator<Item = &'a R>,
) {
    if runs.len() > 1 && runs.iter().any(|run| run.why().is_some()) {
        table.push_column("bottleneck", rows.into_iter().map(bottleneck));
    }
}

/// Formats the bottleneck of a run in few words.
fn bottleneck(run: &impl HasWhy) -> String {
    let Some(Ok(explanation)) = run.why() else { return "-".to_owned() };
    let Some(step) = explanation.steps.first() else { return "none found".to_owned() };
    let kinds = distinct(step.limits.iter().map(|limit| kind_words(limit.kind)));
    kinds.join(" + ")
}

/// Formats a kind of limit in few words: its name in JSON, with blanks.
fn kind_words(kind: LimitKind) -> String {
    let words = serde_json::to_value(kind).unwrap_or_default();
    words.as_str().unwrap_or_default().replace('_', " ").replace("dllps", "DLLPs")
}

/// Formats the explanation of a run as a separate block; empty if none was asked for.
pub fn block(run: &impl HasWhy) -> String {
    block_under("Why not faster", run)
}

/// Formats it under another title.
pub fn block_under(title: &str, run: &impl HasWhy) -> String {
    let lines = match run.why() {
        Some(Ok(explanation)) => lines(explanation),
        Some(Err(reason)) => format!("not explained: {reason}\n"),
        None => return String::new(),
    };
    format!("{title}\n\n{lines}\n")
}

/// Formats the explanation of the last run, to end a text; empty if none was asked for.
pub fn last_block<R: HasWhy>(runs: &[R]) -> String {
    let block = runs.last().map(block).filter(|block| !block.is_empty());
    block.map_or(String::new(), |block| format!("\n{}\n", block.trim_end()))
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
    let unlike = unlike_words(explanation, |figure| {
        format!("{} {}", value_words(figure, figure.value), unit(figure.better))
    });
    if let Some(words) = unlike {
        let _ = writeln!(text, "warning: {words}");
    }
    text
}

/// Formats `no tag, 44.2 % of the time, comes of the bottleneck: 2.1 % without it`.
fn consequence_words(consequence: &Consequence) -> String {
    format!(
        "{}, {} % of the time, comes of the bottleneck: {} % without it",
        consequence.what,
        percent(consequence.share),
        percent(consequence.share_without)
    )
}

/// Formats `fpga1 -> rc47a.down0 (Gen2 x4): 80.3 % payload, 12.6 % headers`, and the other uses.
fn account_line(account: &Account) -> String {
    let shown = account.uses.iter().filter(|entry| entry.share >= LEAST_SHARE);
    let parts: Vec<String> =
        shown.map(|entry| format!("{} % {}", percent(entry.share), entry.what)).collect();
    format!("{} ({}): {}", account.direction, account.link, parts.join(", "))
}

const fn unit(better: Better) -> &'static str {
    match better {
        Better::Higher => "MB/s",
        Better::Lower => "us",
    }
}

fn value_words(figure: Figure, value: f64) -> String {
    match figure.better {
        Better::Higher => megabytes(value),
        Better::Lower => microseconds(value as u64),
    }
}

/// Formats `16 tags of fpga1; 256 tags: 1681.9 MB/s instead of 1598.3 (+5.2 %)`.
fn step_words(step: &Step, before: Figure) -> String {
    let lifted = distinct(step.limits.iter().map(|limit| limit.lifted.as_str()));
    let held = if step.limits.len() > 1 { " (each is enough to limit the run)" } else { "" };
    let change = if before.better == Better::Lower { -step.gain } else { step.gain };
    let sign = if change >= 0.0 { "+" } else { "" };
    format!(
        "{}{held}; {}: {} {} instead of {} ({sign}{} %)",
        limit_words(step, " and "),
        lifted.join(", "),
        value_words(before, step.value),
        unit(before.better),
        value_words(before, before.value),
        percent(change)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_results::{Limit, ScenarioResult, TimeUse, Use};

    fn limit(kind: LimitKind, words: &str, lifted: &str) -> Limit {
        let place = "fpga1".to_owned();
        Limit { kind, place, words: words.to_owned(), lifted: lifted.to_owned() }
    }

    fn found(better: Better, steps: Vec<Step>, account: Option<Account>) -> ScenarioResult {
        let explanation = Explanation {
            figure: Figure { value: 1_598_300_000.0, better },
            measured: None,
            shortened: None,
            on_model: false,
            account,
            steps,
            consequence: None,
            trials: Vec::new(),
        };
        ScenarioResult { why_not_faster: Some(explanation), ..ScenarioResult::default() }
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
            block(&why),
            "Why not faster\n\n\
             fpga1 -> switch.down0 (Gen2 x4): 90.0 % payload, 10.0 % no tag\n\
             bottleneck: 16 tags of fpga1; 256 tags: 1681.9 MB/s instead of 1598.3 (+5.2 %)\n\
             then: Gen2 x4 of fpga1 and 16 tags of fpga1 (each is enough to limit the run); twice \
             the rate, 256 tags: 1719.4 MB/s instead of 1681.9 (+2.2 %)\n\
             (rates are those that the application sees)\n\n"
        );
        assert_eq!(bottleneck(&why), "tags");
    }

    #[test]
    fn latencies_fall() {
        let core = limit(LimitKind::EndpointLatency, "100 ns in fpga1", "none");
        let steps = vec![Step { limits: vec![core], value: 1_400_000_000.0, gain: 0.124 }];
        let block = block(&found(Better::Lower, steps, None));
        let line = "bottleneck: 100 ns in fpga1; none: 1400.000 us instead of 1598.300 (-12.4 %)\n";
        assert!(block.contains(line), "{block}");
        assert!(block.contains("then: nothing else"), "{block}");
    }

    #[test]
    fn a_run_unlike_the_measured_one_is_warned_of() {
        let why = found(Better::Higher, Vec::new(), None);
        let measured = |value| {
            let mut why = why.clone();
            let explanation = why.why_not_faster.as_mut().unwrap();
            explanation.measured = Some(Figure { value, better: Better::Higher });
            block(&why)
        };
        assert!(!measured(1_600_000_000.0).contains("warning"));
        let block = measured(2_283_285_714.0);
        let line = "warning: the run that was explained reached 1598.3 MB/s, 30.0 % less than the \
                    2283.3 MB/s that were measured: what limits it may not limit the whole run\n";
        assert!(block.contains(line), "{block}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let not_explained = Some("the run had errors".to_owned());
        let why = ScenarioResult { not_explained, ..ScenarioResult::default() };
        assert_eq!(block(&why), "Why not faster\n\nnot explained: the run had errors\n\n");
        assert_eq!(
            (bottleneck(&why), block(&ScenarioResult::default())),
            ("-".into(), String::new())
        );
        assert!(block(&found(Better::Higher, Vec::new(), None)).contains("none was found"));
    }
}
