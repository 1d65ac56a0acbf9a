// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: the path between two places, its expected rate, and why no faster path is used.

use crosslane::driver::{DriverError, PathEnd, Plan as Made, set_max_payload_on_path};
use pyo3::prelude::*;

use crate::card::Card;
use crate::error::Failure;
use crate::session::Shared;
use crate::state::State;

/// The path between two places.
#[pyclass(frozen, get_all, eq, module = "crosslane")]
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Names of its ports, from source to target.
    path: Vec<String>,
    /// Payload bytes a second that the slowest link can carry.
    expected_bytes_per_second: f64,
    /// Port at the upper end of that link.
    slowest_link: String,
    /// Largest payload that every port of the path takes, bytes.
    max_payload_bytes: u32,
    /// Whether it goes through the root complex.
    through_root_complex: bool,
    /// Kind of address by which requests name the target.
    addressing: String,
    /// Reasons for which no faster path is used.
    refused: Vec<String>,
}

impl From<&Made> for Plan {
    fn from(made: &Made) -> Self {
        Self {
            path: made.path.iter().map(|port| port.name.clone()).collect(),
            expected_bytes_per_second: made.expected_bytes_per_second,
            slowest_link: made.slowest_link.clone(),
            max_payload_bytes: made.max_payload_bytes,
            through_root_complex: made.through_root_complex,
            addressing: made.addressing.to_string(),
            refused: made.refused.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Plan {
    /// Names both ends.
    pub fn ends(&self) -> String {
        let ends = [self.path.first(), self.path.last()];
        let ends: Vec<&str> = ends.into_iter().flatten().map(String::as_str).collect();
        ends.join(" -> ")
    }
}

#[pymethods]
impl Plan {
    fn __str__(&self) -> String {
        let mut text = self.path.join(" -> ");
        let rate = self.expected_bytes_per_second / 1e6;
        let link = &self.slowest_link;
        text.push_str(&format!(": up to {rate:.1} MB/s, as the link below {link} carries"));
        for reason in &self.refused {
            text.push_str("; ");
            text.push_str(reason);
        }
        text
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Plan {}>", self.path.join(" -> "))
    }
}

/// Returns the name by which a function is found: that of a card of the session, or one of the
/// tree.
///
/// # Errors
/// A card of another session, or something that names no function.
pub fn function_name(session: &Shared, which: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(card) = which.cast::<Card>() {
        return Ok(card.get().address_in(session)?);
    }
    let unknown = |_| Failure::argument("a Card, or the name of a function, is expected");
    Ok(which.extract::<String>().map_err(unknown)?)
}

/// Returns the end of a path; none is host memory.
fn end(state: &State, name: Option<&str>) -> Result<PathEnd, Failure> {
    Ok(match name {
        Some(name) => PathEnd::Function(state.function(name)?.id),
        None => PathEnd::HostMemory,
    })
}

/// Makes the plan of writes between two functions; `None` is host memory.
///
/// # Errors
/// An unknown function, or no path.
pub fn plan(state: &State, from: Option<&str>, to: Option<&str>) -> Result<Plan, Failure> {
    let made = Made::new(state.bus(), end(state, from)?, end(state, to)?);
    Ok(Plan::from(&made.map_err(DriverError::from)?))
}

/// Sets Max_Payload_Size of every port of the path between two functions; returns their names.
///
/// # Errors
/// An unknown function, no path, or a port that does not support it.
pub fn set_max_payload(
    state: &State,
    from: Option<&str>,
    to: Option<&str>,
    bytes: u32,
) -> Result<Vec<String>, Failure> {
    let (from, to) = (end(state, from)?, end(state, to)?);
    let set = set_max_payload_on_path(state.bus(), from, to, bytes);
    Ok(set.map_err(DriverError::from)?)
}
