// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--lab` and `--device` of what runs in a lab, or on cards wherever they are.

use clap::{Args, ValueHint};
use crosslane::lab::Lab;
use crosslane::open::{DeviceName, OpenError};

use crate::completions::{self, Known};
use crate::error::{Result, usage};

/// Names that a sentence lists at most.
const SHOWN_NAMES: usize = 8;

/// The place of a benchmark: a lab or cards.
#[derive(Args, Clone, Debug)]
pub struct PlaceArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant.
    #[arg(long, value_hint = ValueHint::AnyPath, required_unless_present = "device",
        value_parser = Known(completions::labs), hide_possible_values = true)]
    pub lab: Option<String>,
    /// A card, in place of a lab: vfio:ADDRESS of this machine, vfio-user:SOCKET of a server, or
    /// lab:LAB/ENDPOINT.
    #[arg(long, value_name = "NAME", conflicts_with = "lab",
        value_parser = Known(completions::devices), hide_possible_values = true)]
    pub device: Vec<String>,
}

impl PlaceArguments {
    /// The lab or the cards that they name.
    ///
    /// # Errors
    /// A text that is not a name, and cards that cannot be used together.
    pub fn named(&self) -> Result<Named> {
        Named::of(self.lab.as_deref(), &self.device)
    }
}

/// The lab or the cards that `--lab` and `--device` name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A lab, and of each card that is named the endpoint, if that is.
    Lab {
        /// Name, or path of a lab file; `:VARIANT` behind it.
        lab: String,
        /// Endpoints of `--device`, in order.
        endpoints: Vec<Option<String>>,
    },
    /// Cards of this machine, or of servers: one at least.
    Cards(Vec<DeviceName>),
}

impl Named {
    /// The lab or the cards that these name; the lab if both are given.
    ///
    /// # Errors
    /// A text that is not a name, and cards that cannot be used together.
    pub fn of(lab: Option<&str>, devices: &[String]) -> Result<Self> {
        if let Some(lab) = lab {
            return Ok(Self::Lab { lab: lab.to_owned(), endpoints: Vec::new() });
        }
        let names: Result<Vec<DeviceName>, OpenError> =
            devices.iter().map(|name| name.parse()).collect();
        let names = names?;
        let labs = names.iter().filter_map(|name| match name {
            DeviceName::Lab(card) => Some(card),
            _ => None,
        });
        let labs: Vec<_> = labs.collect();
        let Some(first) = labs.first() else {
            return Ok(Self::Cards(names));
        };
        if labs.len() < names.len() || labs.iter().any(|other| other.lab != first.lab) {
            return Err(usage("--device: cards of a lab work with cards of the same lab only"));
        }
        let endpoints = labs.iter().map(|card| card.endpoint.clone()).collect();
        Ok(Self::Lab { lab: first.lab.clone(), endpoints })
    }

    /// The lab or the cards that they name; this default lab if they name nothing.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn or_lab(own: &str, lab: Option<&str>, devices: &[String]) -> Result<Self> {
        let lab = lab.or(devices.is_empty().then_some(own));
        Self::of(lab, devices)
    }

    /// The lab of a benchmark that runs in labs only, and the endpoints that are named of it.
    ///
    /// # Errors
    /// Other cards; `why` ends the sentence.
    pub fn lab_only(self, why: &str) -> Result<(String, Vec<String>)> {
        match self {
            Self::Lab { lab, endpoints } => Ok((lab, endpoints.into_iter().flatten().collect())),
            Self::Cards(names) => {
                let name = &names[0];
                Err(usage(format!("--device {name}: a lab is needed, lab:NAME: {why}")))
            }
        }
    }

    /// The lab of a benchmark whose endpoints `--device` does not choose.
    ///
    /// # Errors
    /// Other cards, and an endpoint; `why` ends the sentence.
    pub fn whole_lab(self, why: &str) -> Result<String> {
        let (lab, endpoints) = self.lab_only(why)?;
        match endpoints.first() {
            None => Ok(lab),
            Some(endpoint) => {
                Err(usage(format!("--device lab:{lab}/{endpoint}: name the lab alone: {why}")))
            }
        }
    }
}

/// The one endpoint that is meant: by `--device`, or by an option of the benchmark's own.
///
/// # Errors
/// Several of them, or two that differ.
pub fn one_endpoint<'a>(
    named: &'a [String],
    option: &str,
    wanted: Option<&'a str>,
) -> Result<Option<&'a str>> {
    match (named, wanted) {
        ([], wanted) => Ok(wanted),
        ([one], None) => Ok(Some(one)),
        ([one], Some(wanted)) if one == wanted => Ok(Some(one)),
        ([one], Some(wanted)) => Err(usage(format!("{option} {wanted}: --device names {one}"))),
        _ => Err(usage("--device: one card is measured at a time")),
    }
}

/// Rejects a lab without endpoints of a kind, and wanted ones that are not of it. The kind is named
/// in words and by its table.
pub fn check_named<'a>(
    lab: &Lab,
    (kind, table): (&str, &str),
    all: &[&str],
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    if all.is_empty() {
        return Err(usage(format!(
            "lab {} has no {kind}: no endpoint whose part has a table `{table}`",
            lab.name()
        )));
    }
    match wanted.into_iter().find(|name| !all.contains(name)) {
        None => Ok(()),
        Some(unknown) => {
            let first = all[..all.len().min(SHOWN_NAMES)].join(", ");
            Err(usage(format!("no {kind} is named {unknown}; there are {first}")))
        }
    }
}

/// Whether a program serves any of the cards.
pub fn is_served(names: &[DeviceName]) -> bool {
    names.iter().any(|name| matches!(name, DeviceName::VfioUser(_)))
}
