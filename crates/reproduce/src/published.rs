// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published figures: files of comma-separated values beside the labs, built into the program.

use crate::error::ReproduceError;
use crosslane_bench::fit::csv_fields;

/// The files, by the name that lab files give them.
const FILES: [(&str, &str); 9] = [
    (
        "published/aws-f1-write-combining.csv",
        include_str!("../../../labs/published/aws-f1-write-combining.csv"),
    ),
    ("published/kc705.csv", include_str!("../../../labs/published/kc705.csv")),
    ("published/nget.csv", include_str!("../../../labs/published/nget.csv")),
    ("published/rosta.csv", include_str!("../../../labs/published/rosta.csv")),
    ("published/sbdt.csv", include_str!("../../../labs/published/sbdt.csv")),
    (
        "published/pciebench-supermicro-bandwidth.csv",
        include_str!("../../../labs/published/pciebench-supermicro-bandwidth.csv"),
    ),
    (
        "published/pciebench-supermicro-latency.csv",
        include_str!("../../../labs/published/pciebench-supermicro-latency.csv"),
    ),
    (
        "published/pciebench-supermicro-iommu-bandwidth.csv",
        include_str!("../../../labs/published/pciebench-supermicro-iommu-bandwidth.csv"),
    ),
    (
        "published/pciebench-supermicro-iommu-latency.csv",
        include_str!("../../../labs/published/pciebench-supermicro-iommu-latency.csv"),
    ),
];

/// A file of published figures: one record a line under a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    name: String,
    heading: Vec<String>,
    records: Vec<Vec<String>>,
}

impl PublishedFile {
    /// The file that a lab file names, such as `published/rosta.csv`.
    ///
    /// # Errors
    /// A file that is not built in.
    pub fn open(name: &str) -> Result<Self, ReproduceError> {
        let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
            let known = FILES.map(|(name, _)| name).join(", ");
            let what = "file of published figures";
            return Err(ReproduceError::Unknown { what, name: name.to_owned(), known });
        };
        Self::parse(name, text)
    }

    /// Reads the text of such a file. Fields may be quoted; a quote within is written twice.
    ///
    /// # Errors
    /// A record with more or fewer fields than the heading, or a quote that does not end.
    pub fn parse(name: &str, text: &str) -> Result<Self, ReproduceError> {
        let wrong = |line: usize, problem: String| ReproduceError::Published {
            file: name.to_owned(),
            line,
            problem,
        };
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let fields = csv_fields(line).ok_or_else(|| wrong(number, "a quote is open".into()))?;
            lines.push(fields);
        }
        if lines.is_empty() {
            return Err(wrong(1, "there is no heading".into()));
        }
        let heading = lines.remove(0);
        for (number, record) in (2..).zip(&lines) {
            if record.len() != heading.len() {
                let (have, want) = (record.len(), heading.len());
                return Err(wrong(number, format!("{have} fields; the heading has {want}")));
            }
        }
        Ok(Self { name: name.to_owned(), heading, records: lines })
    }

    /// Each record's text in these columns; of alternative names the first that there is.
    ///
    /// # Errors
    /// A column that is not there.
    pub fn columns<const N: usize>(
        &self,
        names: [&[&str]; N],
    ) -> Result<Vec<[&str; N]>, ReproduceError> {
        let mut places = [0; N];
        for (place, names) in places.iter_mut().zip(names) {
            let found = self.heading.iter().position(|heading| names.contains(&heading.as_str()));
            *place = found.ok_or_else(|| ReproduceError::Published {
                file: self.name.clone(),
                line: 1,
                problem: format!("there is no column {}", names.join(" or ")),
            })?;
        }
        Ok(self.records.iter().map(|record| places.map(|at| record[at].as_str())).collect())
    }

    /// A number that stands in record `index` (from 0).
    ///
    /// # Errors
    /// Text that is no finite number.
    pub fn number<T: std::str::FromStr>(
        &self,
        index: usize,
        text: &str,
    ) -> Result<T, ReproduceError> {
        text.parse().map_err(|_| ReproduceError::Published {
            file: self.name.clone(),
            line: index + 2,
            problem: format!("\"{text}\" is not a number"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_hold_commas_and_quotes() {
        let fields = csv_fields("a,\"b, \"\"c\"\"\",,d").unwrap();
        assert_eq!(fields, ["a", "b, \"c\"", "", "d"]);
        assert_eq!(csv_fields("a,\"b"), None);
    }

    #[test]
    fn every_file_that_is_built_in_can_be_read() {
        for (name, _) in FILES {
            let least = if name == "published/kc705.csv" { 5 } else { 10 };
            assert!(PublishedFile::open(name).unwrap().records.len() >= least, "{name}");
        }
    }

    #[test]
    fn a_problem_names_file_and_line() {
        let error = |text: &str| PublishedFile::parse("x.csv", text).unwrap_err().to_string();
        assert_eq!(error("a,b\n1,2\n3\n"), "x.csv, line 3: 1 fields; the heading has 2");
        assert_eq!(error("a,b\n1,\"2\n"), "x.csv, line 2: a quote is open");
        assert_eq!(error(""), "x.csv, line 1: there is no heading");
        let file = PublishedFile::parse("x.csv", "a,b\n1,q\n").unwrap();
        let error = file.columns([&["a"], &["c", "d"]]).unwrap_err().to_string();
        assert_eq!(error, "x.csv, line 1: there is no column c or d");
        let error = file.number::<f64>(0, "q").unwrap_err().to_string();
        assert_eq!(error, "x.csv, line 2: \"q\" is not a number");
        let error = PublishedFile::open("nothing.csv").unwrap_err().to_string();
        assert!(error.starts_with("there is no file of published figures nothing.csv; there are"));
    }
}
