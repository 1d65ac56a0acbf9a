// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failures as pages show them: a sentence, and the place in the lab file.

use crosslane::bench::BenchError;
use crosslane::edit::EditError;
use crosslane::experiment::ExperimentError;
use crosslane::host::kinds;
use crosslane::import::ImportError;
use crosslane::lab::{LabError, Position};
use crosslane::what_if::WhatIfError;
use serde::Serialize;
use thiserror::Error;

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Error)]
#[error("{message}")]
pub struct Failure {
    /// The reason, a sentence.
    pub message: String,
    /// A sentence that helps, if there is more to say.
    pub help: Option<String>,
    /// The place in the lab file, if it is about one.
    pub place: Option<Box<Place>>,
    /// Whether the run was ended from outside.
    pub is_interrupted: bool,
}

/// A place in a lab file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The key or table, as a dotted path: `part.v7.requester.tags`. Empty for the whole file.
    pub key: String,
    /// Name of the part, host, switch, endpoint or link that it is in, if it is in one.
    pub part: Option<String>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Characters of the text at fault, at least 1.
    pub length: usize,
}

kinds!(Failure {
    Self { is_interrupted: true, .. } => Cancelled,
    _ => InvalidArgument,
});

impl Failure {
    /// A failure that a sentence says.
    pub fn said(message: impl ToString) -> Self {
        Self { message: message.to_string(), help: None, place: None, is_interrupted: false }
    }
}

impl From<&Position> for Place {
    fn from(position: &Position) -> Self {
        let mut words = position.key.split('.');
        let part = match (words.next(), words.next()) {
            (Some(_), Some(name)) => Some(name.to_owned()),
            _ => None,
        };
        let fault = &position.text[position.span.clone()];
        let length = fault.split('\n').next().map_or(0, |line| line.chars().count()).max(1);
        let (line, column) = (position.line, position.column);
        Self { key: position.key.clone(), part, line, column, length }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let place = error.place.as_deref().map(|place| Box::new(Place::from(place)));
        Self { help: error.help(), place, ..Self::said(&error.problem) }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Lab(error) => (*error).into(),
            error => {
                let is_interrupted = matches!(error, ExperimentError::Interrupted);
                Self { is_interrupted, ..Self::said(error) }
            }
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Lab(error) => (*error).into(),
            BenchError::Run(error) => (*error).into(),
            error => Self::said(error),
        }
    }
}

impl From<WhatIfError> for Failure {
    fn from(error: WhatIfError) -> Self {
        Self::said(error)
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        Self::said(error)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::said(error)
    }
}
