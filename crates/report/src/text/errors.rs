// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of runs.

use crosslane_results::ScenarioResult;

/// Errors that are shown before deadlocks, which all are; further ones are counted.
const SHOWN_ERRORS: usize = 10;

/// Formats the first errors of runs and all deadlocks, and says how many are not shown. Errors that
/// differ in their numbers only are one line. A deadlock comes last, behind the errors that cause
/// it.
pub fn errors(scenarios: &[ScenarioResult], deadlocks: &[String]) -> (Vec<String>, Option<String>) {
    let count: u64 = scenarios.iter().map(|scenario| scenario.error_count).sum();
    let errors = scenarios.iter().flat_map(|scenario| &scenario.errors);
    let errors = errors.filter(|error| !deadlocks.contains(error));
    let (mut lines, mut shown) = (Vec::new(), deadlocks.len() as u64);
    for (error, times) in alike(errors).into_iter().take(SHOWN_ERRORS) {
        lines.push(match times {
            1 => error.to_owned(),
            times => format!("{error} (and {} more like it)", times - 1),
        });
        shown += times;
    }
    lines.extend_from_slice(deadlocks);
    let hint = (count > shown).then(|| format!("{shown} of {count} errors are shown"));
    (lines, hint)
}

/// The first of all errors that say the same but for their numbers, and how many they are.
fn alike<'a>(errors: impl Iterator<Item = &'a String>) -> Vec<(&'a str, u64)> {
    let mut groups: Vec<(String, &str, u64)> = Vec::new();
    for error in errors {
        let words = without_numbers(error);
        match groups.iter_mut().find(|(known, ..)| *known == words) {
            Some((.., times)) => *times += 1,
            None => groups.push((words, error, 1)),
        }
    }
    groups.into_iter().map(|(_, error, times)| (error, times)).collect()
}

/// A sentence without times, addresses and counts. The numbers of names, as in `fpga1`, stay.
fn without_numbers(sentence: &str) -> String {
    let mut text = String::new();
    let (mut before, mut is_number) = (' ', false);
    for letter in sentence.chars() {
        if !is_number && letter.is_ascii_digit() && !before.is_alphanumeric() {
            text.push('#');
            is_number = true;
        } else if is_number && !letter.is_alphanumeric() && letter != '.' {
            is_number = false;
        }
        if !is_number {
            text.push(letter);
        }
        before = letter;
    }
    // Times have the unit that suits them.
    ["# ns", "# us", "# ms"].iter().fold(text, |text, time| text.replace(time, "# s"))
}

/// Leaves out the numbers that the standard library writes behind the system's own words: `No such
/// file or directory (os error 2)`.
pub fn without_error_numbers(sentence: &str) -> String {
    const BEFORE: &str = " (os error ";
    let mut parts = sentence.split(BEFORE);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.chars().all(|c| c.is_ascii_digit()) => text += rest,
            _ => text.extend([BEFORE, part]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_only_are_one() {
        let errors = [
            "fpga1 at 35.089 us: no answer from 0x1f00, tag 3",
            "fpga1 at 360 ns: no answer from 0x2f00, tag 15",
            "fpga2 at 36 us: no answer from 0x2f00, tag 15",
            "fpga1 at 37 us: no answer from 0x3f00, tag 4",
        ]
        .map(str::to_owned);
        assert_eq!(alike(errors.iter()), [(errors[0].as_str(), 3), (errors[2].as_str(), 1)]);
    }

    #[test]
    fn numbers_of_system_errors_are_left_out() {
        for (before, after) in [
            ("x: No such file (os error 2)", "x: No such file"),
            ("a (os error 13); b (os error 2). c", "a; b. c"),
            ("a (os error ?) b", "a (os error ?) b"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_error_numbers(before), after);
        }
    }
}
