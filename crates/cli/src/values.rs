// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of options: whole numbers in a range, words, and constants of a lab.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use crosslane::pcie::units::Picoseconds;

/// Words of an option: each with its help and its value.
pub type Words<T> = [(&'static str, &'static str, T)];

/// Reads one of a few words, for `value_parser`.
pub fn one_of<T: Clone + Send + Sync>(
    words: &'static Words<T>,
) -> impl TypedValueParser<Value = T> {
    let possible = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(possible).map(|given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.expect("clap takes no other word").2.clone()
    })
}

/// Reads a whole number in a range, for `value_parser`.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let (least, most) = (range.start(), range.end());
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit()) {
            return Err(format!("{text} is not a whole number: {least} to {most} are possible"));
        }
        match text.parse::<T>() {
            Ok(number) if range.contains(&number) => Ok(number),
            // Digits alone fail to parse only where there are too many of them.
            _ => Err(format!("{text} is out of range: {least} to {most}")),
        }
    }
}

/// A transfer between cards and their host, or over their links, has failed if it takes longer. It
/// is only for those that nothing else ends: the machine may be busy, and a server simulate cards.
pub const CARD_TIMEOUT: Picoseconds = Picoseconds::from_secs(60);

/// Longest time of [`parse_time`].
pub const MAX_TIME: Picoseconds = Picoseconds::from_secs(100);

/// Reads a time as `100us`, `2ms` or `1s`, up to [`MAX_TIME`].
pub fn parse_time(text: &str) -> Result<Picoseconds, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ps = match &text[number.len()..] {
        "ns" => Some(1_000_u64),
        "us" => Some(1_000_000),
        "ms" => Some(1_000_000_000),
        "s" => Some(1_000_000_000_000),
        _ => None,
    };
    let is_whole = number.chars().all(|digit| digit.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|number| is_whole && *number > 0);
    let time = unit_ps.zip(number).and_then(|(unit, number)| number.checked_mul(unit));
    time.map(Picoseconds)
        .filter(|time| *time <= MAX_TIME)
        .ok_or_else(|| format!("{text} is not a time up to 100 s, such as 100us, 2ms or 1s"))
}

/// Reads a constant of the lab and its values, as `PATH=1,2,3`.
pub fn parse_constant(text: &str) -> Result<(String, Vec<f64>), String> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    let constant = text.split_once('=').and_then(|(path, values)| {
        let values: Option<Vec<f64>> = values.split(',').map(number).collect();
        Some((path.to_owned(), values?))
    });
    constant.ok_or_else(|| format!("{text} is not a constant with values, such as PATH=1,2,3"))
}

/// Reads a constant of the lab and its value, as `PATH=1`.
pub fn parse_setting(text: &str) -> Result<(String, f64), String> {
    match parse_constant(text) {
        Ok((path, values)) if values.len() == 1 => Ok((path, values[0])),
        _ => Err(format!("{text} is not a constant with its value, such as PATH=1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_read() {
        let (path, values) = parse_constant("part.a.b=1,2.5").unwrap();
        assert_eq!((path.as_str(), &values[..]), ("part.a.b", &[1.0, 2.5][..]));
        for text in ["", "a", "a=", "a=1,", "a=x", "a=nan", "a=inf"] {
            assert!(parse_constant(text).is_err() && parse_setting(text).is_err(), "{text}");
        }
        assert_eq!(parse_setting("part.a.b=2.5"), Ok(("part.a.b".to_owned(), 2.5)));
        assert!(parse_setting("part.a.b=1,2").is_err());
    }

    #[test]
    fn times_are_read_with_their_units() {
        for (text, ps) in [("7ns", 7e3), ("100us", 1e8), ("2ms", 2e9), ("100s", 1e14)] {
            assert_eq!(parse_time(text), Ok(Picoseconds(ps as u64)), "{text}");
        }
        for text in ["", "s", "5", "0us", "-1us", "1.5us", "101s", "99999999999999999999s", "1 s"] {
            let error = format!("{text} is not a time up to 100 s, such as 100us, 2ms or 1s");
            assert_eq!(parse_time(text), Err(error));
        }
    }

    #[test]
    fn numbers_outside_are_refused_in_words() {
        let read = whole::<u16>(1..=64);
        assert_eq!((read("1"), read("64"), read("007")), (Ok(1), Ok(64), Ok(7)));
        for text in ["0", "65", "65536", "99999999999999999999999"] {
            assert_eq!(read(text), Err(format!("{text} is out of range: 1 to 64")));
        }
        for text in ["", "x", "-1", "1.5", "+1", " 1"] {
            let error = format!("{text} is not a whole number: 1 to 64 are possible");
            assert_eq!(read(text), Err(error));
        }
    }
}
