// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--shard`: which of several shards of a command's items a run is, by its argument or by the
//! variables of Slurm and Kubernetes.
//!
//! A task of a Slurm array knows its number, the least and the largest one, and how many there
//! are (sbatch(1), *OUTPUT ENVIRONMENT VARIABLES*); a pod of an Indexed Job of Kubernetes knows its
//! index from 0 alone.

use std::fmt;

use crate::error::{Result, usage};

/// Most shards: more than the largest arrays of Slurm (4,000,001) and Kubernetes (100,000) have.
const MAX_SHARDS: u64 = 10_000_000;

/// The value of `--shard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardArgument {
    /// The index, if it is not that of the environment.
    index: Option<u64>,
    count: u64,
}

/// One of several shards of a command's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its index, from 0.
    pub index: u64,
    /// Their number.
    pub count: u64,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Shard {
    /// Returns the name of its file.
    pub fn file(self) -> String {
        format!("shard-{}-of-{}.jsonl", self.index, self.count)
    }

    /// Returns the shard whose file has this name.
    pub fn of_file(name: &str) -> Option<Self> {
        let name = name.strip_prefix("shard-")?.strip_suffix(".jsonl")?;
        let (index, count) = name.split_once("-of-")?;
        let shard = Self { index: index.parse().ok()?, count: count.parse().ok()? };
        (shard.index < shard.count && shard.file() == format!("shard-{name}.jsonl"))
            .then_some(shard)
    }

    /// Whether an item is its.
    pub const fn has(self, item: u64) -> bool {
        item % self.count == self.index
    }
}

/// Reads `I/N`, or `/N`.
pub fn parse_shard(text: &str) -> Result<ShardArgument, String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let shard = text.split_once('/').and_then(|(index, count)| {
        let index = if index.is_empty() { None } else { Some(number(index)?) };
        Some(ShardArgument { index, count: number(count)? })
    });
    let shard = shard.ok_or_else(|| {
        format!("{text} is not a shard: write I/N, as in 0/4 for the first of four, or /N")
    })?;
    match shard {
        ShardArgument { count, .. } if !(1..=MAX_SHARDS).contains(&count) => {
            Err(format!("{text}: the number of shards is from 1 to {MAX_SHARDS}"))
        }
        ShardArgument { index: Some(index), count } if index >= count => {
            Err(format!("{text}: shards count from 0, so the last is {}/{count}", count - 1))
        }
        shard => Ok(shard),
    }
}

/// Completes `--shard` from the variables of the environment.
///
/// # Errors
/// Variables that do not tell the shard.
pub fn shard_of(
    argument: Option<ShardArgument>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Shard> {
    const SLURM: &str = "SLURM_ARRAY_TASK_ID";
    const KUBERNETES: &str = "JOB_COMPLETION_INDEX";
    let number = |name: &str| match variable(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(usage(format!("{name} is \"{text}\", which is not a whole number"))),
        },
    };
    match argument {
        Some(ShardArgument { index: Some(index), count }) => Ok(Shard { index, count }),
        Some(ShardArgument { index: None, count }) => {
            let name = if variable(SLURM).is_some() { SLURM } else { KUBERNETES };
            let Some(index) = number(name)? else {
                return Err(usage(format!(
                    "--shard /{count}: neither {SLURM} nor {KUBERNETES} is set: give I/{count}"
                )));
            };
            if index >= count {
                return Err(usage(format!(
                    "--shard /{count}: {name} is {index}, and shards count from 0 to {}: give \
                     I/{count}",
                    count - 1
                )));
            }
            Ok(Shard { index, count })
        }
        None => {
            if let Some(id) = number(SLURM)? {
                let least = number("SLURM_ARRAY_TASK_MIN")?;
                let most = number("SLURM_ARRAY_TASK_MAX")?;
                let count = number("SLURM_ARRAY_TASK_COUNT")?;
                return shard_of_array(id, least.zip(most), count).ok_or_else(|| {
                    usage(format!(
                        "{SLURM} is {id}, and from the array's other variables its place in it is \
                         not clear: give --shard I/N"
                    ))
                });
            }
            match number(KUBERNETES)? {
                Some(index) => Err(usage(format!(
                    "{KUBERNETES} is {index}: say of how many with --shard /N, the job's \
                     completions"
                ))),
                None => Ok(Shard { index: 0, count: 1 }),
            }
        }
    }
}

/// Returns the shard of a task of a Slurm array, whose numbers begin anywhere and have the same
/// distance.
fn shard_of_array(id: u64, ends: Option<(u64, u64)>, count: Option<u64>) -> Option<Shard> {
    let ((least, most), count) = ends.zip(count)?;
    let behind = id.checked_sub(least)?;
    let index = match count {
        1 => behind,
        2..=MAX_SHARDS => {
            let distance = most.checked_sub(least)? / (count - 1);
            let is_even = distance > 0 && (most - least) % (count - 1) == 0;
            if !is_even || behind % distance != 0 {
                return None;
            }
            behind / distance
        }
        _ => return None,
    };
    (index < count).then_some(Shard { index, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shard, or the error, with these variables set.
    fn shard(argument: Option<&str>, variables: &[(&str, &str)]) -> String {
        let argument = argument.map(|text| parse_shard(text).unwrap());
        let variable = |name: &str| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match shard_of(argument, variable) {
            Ok(shard) => shard.to_string(),
            Err(error) => error.to_string(),
        }
    }

    fn task(
        id: &'static str,
        least: &'static str,
        most: &'static str,
        count: &'static str,
    ) -> String {
        let names = ["ID", "MIN", "MAX", "COUNT"].map(|name| format!("SLURM_ARRAY_TASK_{name}"));
        let values = names.iter().map(String::as_str).zip([id, least, most, count]);
        shard(None, &values.collect::<Vec<_>>())
    }

    #[test]
    fn shards_come_from_the_variables() {
        assert_eq!(shard(None, &[]), "0/1");
        let index = [("JOB_COMPLETION_INDEX", "3")];
        assert_eq!(shard(Some("1/2"), &index), "1/2");
        assert_eq!(shard(Some("/4"), &index), "3/4");
        assert!(shard(Some("/3"), &index).contains("is 3, and shards count from 0 to 2"));
        assert!(shard(Some("/3"), &[]).contains("neither"));
        assert!(shard(None, &index).contains("say of how many"));
        assert!(shard(Some("/3"), &[("JOB_COMPLETION_INDEX", "x")]).contains("is \"x\""));
    }

    #[test]
    fn slurm_arrays_begin_anywhere() {
        assert_eq!(task("0", "0", "31", "32"), "0/32");
        assert_eq!(task("8", "1", "8", "8"), "7/8");
        // --array=1-7:2, or 1,3,5,7.
        assert_eq!(task("5", "1", "7", "4"), "2/4");
        assert_eq!(task("6", "6", "6", "1"), "0/1");
        // --array=1,2,9.
        assert!(task("2", "1", "9", "3").contains("give --shard I/N"));
        assert!(task("2", "3", "9", "3").contains("give --shard I/N"));
        assert!(task("2", "0", "9", "0").contains("give --shard I/N"));
        let alone = shard(None, &[("SLURM_ARRAY_TASK_ID", "2")]);
        assert!(alone.contains("give --shard I/N"), "{alone}");
    }
}
