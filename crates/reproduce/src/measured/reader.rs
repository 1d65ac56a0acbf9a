// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of measurements: a heading that names the columns, then a row a line.

use crosslane_results::quantity::parse_size;

use super::words::{Quantity, Unit};
use super::{MAX_MEASURED_BYTES, MeasuredRow, Measurements, Role, TOLERANCE};
use crate::error::{ReproduceError, Result};

/// Most rows: each is a run, many times over.
const MAX_ROWS: usize = 10_000;
/// Most operations in flight.
const MAX_OUTSTANDING: u32 = 1 << 16;
/// Bounds of a figure in seconds, or bytes per second.
const LEAST: f64 = 1e-12;
const MOST: f64 = 1e18;

/// The columns that a file may have; the first three are needed.
const COLUMNS: [&str; 10] =
    ["flow", "size", "value", "unit", "what", "outstanding", "window", "tolerance", "use", "note"];
const NEEDED: usize = 3;

/// A problem with a field: its column, and the sentence.
type Fault = (&'static str, String);

impl Measurements {
    /// Reads the text of a file; `file` is its name for errors and for the sources of constants.
    /// Empty lines are left out; fields may be quoted.
    ///
    /// # Errors
    /// The first problem, with its line, and its column where it is one of a field.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let failed = |line: usize, problem: String| ReproduceError::Published {
            file: file.to_owned(),
            line: line as u64,
            problem,
        };
        if text.len() > MAX_MEASURED_BYTES {
            let length = text.len();
            return Err(failed(
                1,
                format!("more than the {MAX_MEASURED_BYTES} B read: {length} B"),
            ));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let Some((first, heading)) = lines.next() else {
            return Err(failed(1, "it is empty; a heading and rows are needed".to_owned()));
        };
        let heading = fields(heading).map_err(|problem| failed(first, problem))?;
        let columns = columns(&heading).map_err(|problem| failed(first, problem))?;
        let mut rows = Vec::new();
        for (line, text) in lines {
            let fields = fields(text).map_err(|problem| failed(line, problem))?;
            if fields.len() != columns.len() {
                let (have, want) = (fields.len(), columns.len());
                let noun = if have == 1 { "field" } else { "fields" };
                return Err(failed(line, format!("{have} {noun}; the heading has {want}")));
            }
            if rows.len() == MAX_ROWS {
                return Err(failed(line, format!("more than {MAX_ROWS} rows")));
            }
            let get = |name: &str| {
                let place = columns.iter().position(|column| *column == name)?;
                Some(fields[place].as_str()).filter(|field| !field.is_empty())
            };
            let row = row((file, line, rows.len() + 1), &get);
            rows.push(row.map_err(|(column, problem)| ReproduceError::Field {
                file: file.to_owned(),
                line,
                column,
                problem,
            })?);
        }
        match rows.is_empty() {
            true => Err(failed(first, "no rows follow the heading".to_owned())),
            false => Ok(Self { file: file.to_owned(), rows }),
        }
    }
}

/// Returns the columns that a heading names, in its order.
fn columns(heading: &[String]) -> Result<Vec<&'static str>, String> {
    let mut columns = Vec::new();
    for name in heading {
        let known = COLUMNS.iter().find(|known| *known == name).ok_or_else(|| {
            format!("\"{name}\" is not a column; columns are {}", COLUMNS.join(", "))
        })?;
        if columns.contains(known) {
            return Err(format!("two columns are called \"{name}\""));
        }
        columns.push(*known);
    }
    match COLUMNS[..NEEDED].iter().find(|needed| !columns.contains(needed)) {
        Some(missing) => Err(format!("the column {missing} is missing")),
        None => Ok(columns),
    }
}

/// Reads a row: its file, line and number, and its fields by column.
fn row<'a>(
    (file, line, number): (&str, usize, usize),
    get: &impl Fn(&str) -> Option<&'a str>,
) -> Result<MeasuredRow, Fault> {
    let needed = |column: &'static str| get(column).ok_or((column, "it is empty".to_owned()));
    let quantity = get("what").map(Quantity::parse).transpose().map_err(|it| ("what", it))?;
    let unit = get("unit").map(Unit::parse).transpose().map_err(|it| ("unit", it))?;
    let unit = unit.unwrap_or_else(|| quantity.unwrap_or(Quantity::Rate).default_unit());
    if quantity.is_some_and(|quantity| quantity != unit.quantity) {
        let (word, of) = (unit.word, unit.quantity.word());
        return Err(("what", format!("{word} is a unit of a {of}")));
    }
    let value = real(needed("value")?, LEAST / unit.scale..=MOST / unit.scale);
    let tolerance = get("tolerance").map_or(Ok(TOLERANCE), |text| {
        let problem = format!("\"{text}\" is not a fraction from 0.0001 to 1: 0.05 is 5 %");
        real(text, 0.0001..=1.0).map_err(|_| problem)
    });
    let outstanding = get("outstanding").map(|text| {
        let number = text.parse().ok().filter(|number| (1..=MAX_OUTSTANDING).contains(number));
        number
            .ok_or_else(|| format!("\"{text}\" is not a whole number from 1 to {MAX_OUTSTANDING}"))
    });
    let role = get("use").map(|text| match text {
        "fit" => Ok(Role::Fit),
        "predict" => Ok(Role::Predict),
        _ => Err(format!("\"{text}\" is neither fit nor predict")),
    });
    Ok(MeasuredRow {
        number,
        file: file.to_owned(),
        line,
        flow: needed("flow")?.parse().map_err(|problem| ("flow", problem))?,
        bytes: parse_size(needed("size")?).map_err(|problem| ("size", problem))?,
        value: value.map_err(|problem| ("value", problem))?,
        unit,
        outstanding: outstanding.transpose().map_err(|problem| ("outstanding", problem))?,
        window_bytes: get("window")
            .map(parse_size)
            .transpose()
            .map_err(|problem| ("window", problem))?,
        tolerance: tolerance.map_err(|problem| ("tolerance", problem))?,
        note: get("note").unwrap_or_default().to_owned(),
        role: role.transpose().map_err(|problem| ("use", problem))?,
    })
}

/// Reads a number within bounds.
fn real(text: &str, bounds: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        Ok(number) if number.is_finite() && number > 0.0 => {
            Err(format!("{text} is not between {:e} and {:e}", bounds.start(), bounds.end()))
        }
        _ => Err(format!("\"{text}\" is not a number more than 0")),
    }
}

/// Returns the fields of one line (RFC 4180, but for line breaks in fields), without blanks around
/// them.
fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let after = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (field, after) = until_quote(quoted).ok_or("a quote is open")?;
                fields.push(field.trim().to_owned());
                after.trim_start()
            }
            None => {
                let (field, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if field.contains('"') {
                    let field = field.trim();
                    return Err(format!("a quote within {field}: quotes enclose whole fields"));
                }
                fields.push(field.trim().to_owned());
                after
            }
        };
        rest = match after.strip_prefix(',') {
            Some(rest) => rest,
            None if after.is_empty() => return Ok(fields),
            None => {
                let field = fields.pop().unwrap_or_default();
                return Err(format!("more text behind the quotes around \"{field}\""));
            }
        };
    }
}

/// Returns the text before the closing quote, with doubled quotes made single, and the rest.
fn until_quote(text: &str) -> Option<(String, &str)> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let (before, after) = rest.split_once('"')?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Mover;

    fn parse(text: &str) -> Result<Measurements, String> {
        Measurements::parse("x.csv", text).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_read_with_defaults_and_units() {
        let text = "\u{feff}flow, size ,value,unit,outstanding,tolerance,use,note\r\n\r\n\
                    nic0:host0:read,4K,3.5,,,,,\r\n\
                    nic0:host:write,64,1.5,us,2,0.02,fit,\"a \"\"b\"\", c\"\r\n\
                    fpga1:fpga2:p2p,1MiB,\"12\",Gbit/s,,,predict,\n";
        let rows = parse(text).unwrap().rows;
        let [read, write, peer] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((read.number, read.line, read.bytes), (1, 3, 4096));
        assert_eq!((read.unit.word, read.tolerance, read.role), ("GB/s", TOLERANCE, None));
        assert_eq!(read.label(), "nic0:host0:read:4K");
        assert_eq!((write.unit.quantity, write.role), (Quantity::Latency, Some(Role::Fit)));
        assert_eq!((write.tolerance, &*write.note), (0.02, "a \"b\", c"));
        assert_eq!(write.label(), "nic0:host:write:64, latency, 2 in flight");
        assert_eq!((peer.flow.mover, peer.role), (Mover::Peer, Some(Role::Predict)));
        assert_eq!(peer.value * peer.unit.scale, 1.5e9);
        let latency = parse("flow,size,value,what\na:b:read,64,700,latency\n").unwrap();
        assert_eq!(latency.rows[0].unit.word, "ns");
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        let row = |row: &str| format!("flow,size,value,unit,what,outstanding,tolerance,use\n{row}");
        for (text, error) in [
            (String::new(), "x.csv, line 1: it is empty; a heading and rows are needed"),
            ("\n\nflow,size,value\n".to_owned(), "x.csv, line 3: no rows follow the heading"),
            ("flow,size\na".to_owned(), "x.csv, line 1: the column value is missing"),
            ("flow,size,value,size\n".to_owned(), "x.csv, line 1: two columns are called \"size\""),
            (
                "flow,size,value,tolerence\n".to_owned(),
                "x.csv, line 1: \"tolerence\" is not a column; columns are flow, size, value, \
                 unit, what, outstanding, window, tolerance, use, note",
            ),
            ("flow,size,value\na,1\n".to_owned(), "x.csv, line 2: 2 fields; the heading has 3"),
            ("flow,size,value\n\"a,1,2\n".to_owned(), "x.csv, line 2: a quote is open"),
            (
                "flow,size,value\n\"a:b:read\"x,1,2\n".to_owned(),
                "x.csv, line 2: more text behind the quotes around \"a:b:read\"",
            ),
            (
                "flow,size,value\na:b\"c:read,1,2\n".to_owned(),
                "x.csv, line 2: a quote within a:b\"c:read: quotes enclose whole fields",
            ),
            (
                row("a:b:read:64,64,1,,,,,"),
                "x.csv, line 2, column flow: \"a:b:read:64\" has 4 parts; a flow is \
                 FROM:TO:KIND, and its size has a column",
            ),
            (
                row("a:b:copy,64,1,,,,,"),
                "x.csv, line 2, column flow: \"copy\" is not a kind of flow; known are write, \
                 read, writeread, both, c2h, h2c, p2p",
            ),
            (row("a:b:read,,1,,,,,"), "x.csv, line 2, column size: it is empty"),
            (
                row("a:b:read,0,1,,,,,"),
                "x.csv, line 2, column size: 0 is not a size from 1 byte to 1 TiB",
            ),
            (
                row("a:b:read,64,nan,,,,,"),
                "x.csv, line 2, column value: \"nan\" is not a number more than 0",
            ),
            (
                row("a:b:read,64,1,GBps,,,,"),
                "x.csv, line 2, column unit: \"GBps\" is not a unit; units are GB/s, MB/s, \
                 GiB/s, MiB/s, Gbit/s, Gb/s, Mbit/s, ns, us, ms, s",
            ),
            (
                row("a:b:read,64,1,ns,rate,,,"),
                "x.csv, line 2, column what: ns is a unit of a latency",
            ),
            (
                row("a:b:read,64,1,,,0,,"),
                "x.csv, line 2, column outstanding: \"0\" is not a whole number from 1 to 65536",
            ),
            (
                row("a:b:read,64,1,,,,5,"),
                "x.csv, line 2, column tolerance: \"5\" is not a fraction from 0.0001 to 1: \
                 0.05 is 5 %",
            ),
            (
                row("a:b:read,64,1,,,,,both"),
                "x.csv, line 2, column use: \"both\" is neither fit nor predict",
            ),
        ] {
            assert_eq!(parse(&text).unwrap_err(), error);
        }
    }
}
