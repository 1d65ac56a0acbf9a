// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs as pages name them: text, variant, and changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crosslane::lab::{Lab, shipped};
use crosslane::what_if::{Change, apply, written};
use serde::Deserialize;

use crate::failure::Failure;

/// A lab: a shipped one, or the text of a file, and what is changed in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LabText {
    /// Name of the file in errors, or of a shipped lab if there is no text.
    pub name: String,
    /// Text of the lab file.
    pub text: Option<String>,
    /// Variant of the lab.
    pub variant: Option<String>,
    /// Other values of constants, by their paths.
    pub set: BTreeMap<String, f64>,
    /// Changes, in the words of `crosslane what-if`.
    pub changes: Vec<ChangeText>,
}

/// A change of a lab, as an option of `crosslane what-if` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeText {
    /// `NODE.SETTING=VALUE`, or a constant.
    Set(String),
    /// `NODE=PLACE`.
    Move(String),
    /// `NODE=GxN`.
    Link(String),
    /// `on`, `off`, `NODE=on` or `NODE=off`.
    Acs(String),
}

impl ChangeText {
    fn parsed(&self) -> Result<Change, Failure> {
        let parsed = match self {
            Self::Set(text) => Change::set(text),
            Self::Move(text) => Change::moved(text),
            Self::Link(text) => Change::link(text),
            Self::Acs(text) => Change::acs(text),
        };
        parsed.map_err(Failure::said)
    }
}

impl LabText {
    /// Reads the lab without its changes.
    fn unchanged(&self) -> Result<Lab, Failure> {
        let name = if self.name.is_empty() { "lab.toml" } else { &self.name };
        let mut lab = match &self.text {
            Some(text) => Lab::from_text(name, text)?,
            None => {
                self.file_text()?;
                Lab::load(name)?
            }
        };
        if let Some(variant) = &self.variant {
            lab = lab.with_variant(variant)?;
        }
        for (path, value) in &self.set {
            lab = lab.with_constant(path, *value)?;
        }
        Ok(lab)
    }

    /// Returns the text of the file, as it is.
    ///
    /// # Errors
    /// The name of no shipped lab, and no text.
    pub fn file_text(&self) -> Result<&str, Failure> {
        if let Some(text) = &self.text {
            return Ok(text);
        }
        let found = shipped().iter().find(|lab| lab.name == self.name);
        found.map(|lab| lab.text).ok_or_else(|| {
            let names: Vec<&str> = shipped().iter().map(|lab| lab.name).collect();
            let known = names.join(", ");
            Failure::said(format!("no shipped lab is {}: there are {known}", self.name))
        })
    }

    fn parsed_changes(&self) -> Result<Vec<Change>, Failure> {
        self.changes.iter().map(ChangeText::parsed).collect()
    }

    /// Reads the lab, and makes its changes. Also returns what they imply, a sentence each.
    ///
    /// # Errors
    /// The first problem of the text, or the first change that is not possible.
    pub fn loaded(&self) -> Result<(Arc<Lab>, Vec<String>), Failure> {
        let lab = self.unchanged()?;
        if self.changes.is_empty() {
            return Ok((Arc::new(lab), Vec::new()));
        }
        let changed = apply(&lab, &self.parsed_changes()?)?;
        Ok((changed.lab, changed.notes))
    }

    /// Returns the text of the file with the changes written into it.
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded), and changes that no file can have.
    pub fn written(&self) -> Result<String, Failure> {
        let lab = self.unchanged()?;
        let changes = self.parsed_changes()?;
        match changes.is_empty() {
            true => Ok(lab.file().text().to_owned()),
            false => Ok(written(&lab, &changes, "the lab in a browser")?),
        }
    }
}
