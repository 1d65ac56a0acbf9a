// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measured transfers in a file of comma-separated values: one a line under a heading.

use std::collections::BTreeSet;

use crosslane_host::kinds;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use thiserror::Error;

/// Longest file that is read, bytes.
pub const MAX_FIT_BYTES: usize = 16 << 20;
/// Most series of a file: more are not meant.
const MAX_SERIES: usize = 1000;
/// Most bytes of a transfer: 1 EiB.
const MAX_BYTES: u64 = 1 << 60;
/// Bounds of times, seconds, and of k: a femtosecond to some years.
const MOST: f64 = 1e9;
const LEAST: f64 = 1e-15;

/// Names of the column with the size.
const SIZES: [&str; 2] = ["bytes", "size_bytes"];

/// Column with a measurement: its name, and seconds of its unit.
const TIMES: [(&str, f64); 4] = [("seconds", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
/// Units of rates: bytes per second of the unit.
const RATES: [(&str, f64); 4] = [
    ("bytes_per_second", 1.0),
    ("mb_per_s", 1e6),
    ("mib_per_s", (1 << 20) as f64),
    ("gb_per_s", 1e9),
];

/// A file of measurements that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}, line {line}: {problem}")]
pub struct FitError {
    /// The file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// The problem there, a sentence with its values.
    pub problem: String,
}

kinds!(FitError {
    _ => InvalidArgument,
});

/// One measured transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Line of the file, from 1.
    pub line: usize,
    /// Name of its series: the contents of its other columns.
    pub series: String,
    /// Bytes of the transfer.
    pub bytes: u64,
    /// The link, where the file says it.
    pub link: Option<LinkRate>,
    /// Rate of the link as a multiple of that of k = 1.
    pub k: f64,
    /// Measured time.
    pub seconds: f64,
}

/// The measurements of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    file: String,
    samples: Vec<Sample>,
    /// Whether k comes from generation and width: k = 1 is then Gen1 x1.
    has_links: bool,
}

/// Meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Bytes,
    K,
    Generation,
    Width,
    /// Seconds of its unit.
    Time(f64),
    /// Bytes per second of its unit.
    Rate(f64),
    /// Text that tells series apart.
    Series,
}

impl Column {
    fn of(heading: &str) -> Self {
        let find = |known: &[(&str, f64)]| {
            known.iter().find(|(name, _)| *name == heading).map(|(_, unit)| *unit)
        };
        match heading {
            heading if SIZES.contains(&heading) => Self::Bytes,
            "k" => Self::K,
            "generation" => Self::Generation,
            "width" => Self::Width,
            _ => match (find(&TIMES), find(&RATES)) {
                (Some(unit), _) => Self::Time(unit),
                (_, Some(unit)) => Self::Rate(unit),
                _ => Self::Series,
            },
        }
    }
}

impl Measurements {
    /// Reads the text of a file; `file` is its name for errors. The heading names the columns:
    /// `bytes` (or `size_bytes`); one of `seconds`, `ms`, `us`, `ns`, `bytes_per_second`,
    /// `mb_per_s`, `mib_per_s`, `gb_per_s`; and perhaps `k`, or `generation` and `width`. All other
    /// columns tell series apart. Empty lines are left out; fields may be quoted.
    ///
    /// # Errors
    /// The first line with a problem.
    pub fn parse(file: &str, text: &str) -> Result<Self, FitError> {
        let error =
            |line: usize, problem: String| FitError { file: file.to_owned(), line, problem };
        if text.len() > MAX_FIT_BYTES {
            let length = text.len();
            return Err(error(1, format!("{length} B are more than the {MAX_FIT_BYTES} B read")));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let Some((number, heading)) = lines.next() else {
            return Err(error(1, "it is empty; a heading and records are needed".to_owned()));
        };
        let headings = fields(heading).ok_or_else(|| error(number, "a quote is open".into()))?;
        let columns: Vec<Column> = headings.iter().map(|heading| Column::of(heading)).collect();
        check(&columns, &headings).map_err(|problem| error(number, problem))?;
        let (mut samples, mut series) = (Vec::new(), BTreeSet::new());
        for (number, line) in lines {
            let fields = fields(line).ok_or_else(|| error(number, "a quote is open".into()))?;
            if fields.len() != columns.len() {
                let (have, want) = (fields.len(), columns.len());
                let noun = if have == 1 { "field" } else { "fields" };
                let problem = format!("{have} {noun}; the heading has {want}");
                return Err(error(number, problem));
            }
            let sample = sample(number, &columns, &headings, &fields);
            let sample: Sample = sample.map_err(|problem| error(number, problem))?;
            if !series.contains(&sample.series) {
                series.insert(sample.series.clone());
            }
            if series.len() > MAX_SERIES {
                let problem = format!(
                    "more than {MAX_SERIES} series: every column that is none of the known ones \
                     tells series apart"
                );
                return Err(error(number, problem));
            }
            samples.push(sample);
        }
        if samples.is_empty() {
            return Err(error(number, "no records follow the heading".to_owned()));
        }
        let has_links = columns.contains(&Column::Generation);
        Ok(Self { file: file.to_owned(), samples, has_links })
    }

    /// Returns the measurements, in the order of the file.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the series, in the order in which they come.
    pub fn series(&self) -> Vec<&str> {
        let mut series: Vec<&str> = Vec::new();
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            if seen.insert(sample.series.as_str()) {
                series.push(&sample.series);
            }
        }
        series
    }

    /// Rate of a link of k = 1 before any overhead, bytes per second, where the file says what that
    /// is.
    pub fn theory_bytes_per_second(&self) -> Option<f64> {
        self.has_links.then(one_lane_bytes_per_second)
    }

    pub(super) fn error(&self, line: usize, problem: String) -> FitError {
        FitError { file: self.file.clone(), line, problem }
    }
}

/// Returns the rate of Gen1 x1, encoding taken off: 250 MB/s.
fn one_lane_bytes_per_second() -> f64 {
    let width = Width::new(1).expect("there are links of one lane");
    LinkRate { generation: Generation::Gen1, width }.bytes_per_second()
}

/// Whether columns can be used as they are.
fn check(columns: &[Column], headings: &[String]) -> Result<(), String> {
    for (at, heading) in headings.iter().enumerate() {
        if headings[..at].contains(heading) {
            return Err(format!("two columns are called \"{heading}\""));
        }
    }
    let count = |is: fn(&Column) -> bool| columns.iter().filter(|column| is(column)).count();
    if count(|it| *it == Column::Bytes) != 1 {
        return Err(format!("one column {} is needed", SIZES.join(" or ")));
    }
    let measures = count(|it| matches!(it, Column::Time(_) | Column::Rate(_)));
    if measures != 1 {
        let names: Vec<&str> = TIMES.iter().chain(&RATES).map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("one of the columns {names} is needed, and there are {measures}"));
    }
    let [k, generation, width] =
        [Column::K, Column::Generation, Column::Width].map(|column| columns.contains(&column));
    match (k, generation, width) {
        (true, false, false) | (false, true, true) | (false, false, false) => Ok(()),
        (false, ..) => Err("generation and width are needed both, or neither".to_owned()),
        (true, ..) => Err("k is given, or generation and width, and not both".to_owned()),
    }
}

fn sample(
    line: usize,
    columns: &[Column],
    headings: &[String],
    fields: &[String],
) -> Result<Sample, String> {
    let mut names = Vec::new();
    let (mut bytes, mut k, mut measure) = (0, 1.0, (0.0, false));
    let (mut generation, mut width) = (None, None);
    for ((column, heading), field) in columns.iter().zip(headings).zip(fields) {
        match column {
            Column::Bytes => bytes = whole(heading, field, MAX_BYTES)?,
            Column::K => k = number(heading, field)?,
            Column::Generation => {
                let number = whole(heading, field, 255)? as u8;
                let known = Generation::from_number(number);
                generation = Some(known.ok_or(format!("generation {number} is not 1 to 6"))?);
            }
            Column::Width => {
                let number = whole(heading, field, 255)? as u8;
                let known = Width::new(number);
                width = Some(known.ok_or(format!("width {number} is not that of a link"))?);
            }
            Column::Time(unit) => measure = (number(heading, field)? * unit, false),
            Column::Rate(unit) => measure = (number(heading, field)? * unit, true),
            Column::Series => names.push(field.as_str()),
        }
    }
    let link = generation.zip(width).map(|(generation, width)| LinkRate { generation, width });
    if let Some(link) = link {
        k = link.bytes_per_second() / one_lane_bytes_per_second();
    }
    let seconds = match measure {
        (rate, true) => bytes as f64 / rate,
        (seconds, false) => seconds,
    };
    if !(LEAST..=MOST).contains(&seconds) {
        return Err(format!("a transfer cannot take {seconds:e} s"));
    }
    Ok(Sample { line, series: names.join(", "), bytes, link, k, seconds })
}

fn whole(heading: &str, field: &str, most: u64) -> Result<u64, String> {
    let number = field.parse::<u64>().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{heading} \"{field}\" is not a whole number from 1 to {most}"))
}

fn number(heading: &str, field: &str) -> Result<f64, String> {
    let number = field.parse::<f64>().ok().filter(|number| (LEAST..=1e15).contains(number));
    number.ok_or_else(|| format!("{heading} \"{field}\" is not a number more than 0"))
}

/// Returns the fields of one line of comma-separated values (RFC 4180, but for line breaks in
/// fields), without blanks around them; none where a quote is left open.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let (mut field, mut quoted) = (String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                field.push('"');
                rest.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => {
                fields.push(field.trim().to_owned());
                field.clear();
            }
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Measurements, String> {
        Measurements::parse("x.csv", text).map_err(|error| error.to_string())
    }

    #[test]
    fn times_and_rates_are_read_in_any_unit() {
        for text in [
            "bytes,us\n1000,10\n",
            "us , size_bytes\n10,1000\n",
            "bytes,mb_per_s\r\n\r\n1000,100\r\n",
            "\u{feff}bytes,\"gb_per_s\"\n\"1000\",0.1\n",
            "bytes,k,ns\n1000,1,10000\n",
        ] {
            let found = parse(text).unwrap();
            let [sample] = found.samples() else { panic!("{found:?}") };
            assert_eq!((sample.bytes, sample.k), (1000, 1.0), "{text}");
            assert!((sample.seconds - 10e-6).abs() < 1e-18, "{text}");
        }
        let links = parse("generation,width,bytes,us,note\n2,4,1,1,\"a, b\"\n").unwrap();
        assert_eq!((links.samples()[0].k, links.samples()[0].series.as_str()), (8.0, "a, b"));
        assert_eq!(links.theory_bytes_per_second(), Some(250e6));
        assert_eq!(
            links.samples()[0].link.map(|link| link.to_string()).as_deref(),
            Some("Gen2 x4")
        );
        let multiples = parse("k,bytes,us\n8,1,1\n").unwrap();
        assert_eq!((multiples.samples()[0].link, multiples.samples()[0].k), (None, 8.0));
    }

    #[test]
    fn a_problem_names_file_and_line() {
        let said = [
            "", "\n\nbytes,us\n", "bytes,us\n1,2\n\n3\n", "bytes,us\n1,\"2\n", "size,us\n1,2\n",
            "bytes,bytes,us\n1,1,2\n", "bytes,us\n0,2\n", "bytes,us\n1.5,2\n", "bytes,us\n1,-2\n",
            "bytes,us\n1,nan\n", "bytes,us\n1,inf\n", "bytes,us,k\n1,2,0\n",
            "bytes,us,width\n1,2,4\n", "bytes,us,k,generation,width\n",
            "bytes,us,generation,width\n1,2,7,4\n", "bytes,us,generation,width\n1,2,3,5\n",
            "bytes,us,ms\n",
        ]
        .map(|text| format!("{text:?}: {}", parse(text).unwrap_err()));
        insta::assert_snapshot!(said.join("\n"));
        parse("bytes,bytes_per_second\n1,1e12\n").unwrap();
    }
}
