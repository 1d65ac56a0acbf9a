// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening cards, and sessions as Python code sees them.

use std::sync::Arc;

use crosslane::open::{DeviceName, Session as Opened, SessionOptions};
use pyo3::prelude::*;

use crate::call::without_gil;
use crate::card::Card;
use crate::error::Failure;
use crate::lab::{Lab, engine_kind};
use crate::network::{NetworkProcessor, Words};
use crate::plan::{Plan, function_name, plan, set_max_payload};
use crate::session::Shared;
use crate::transfer::seconds;

/// Cards that are open, of one host.
#[pyclass(frozen, module = "crosslane")]
pub struct Session {
    shared: Arc<Shared>,
    cards: Vec<Py<Card>>,
}

/// Opens cards by their names: `lab:LAB`, `lab:LAB/ENDPOINT`, `vfio:ADDRESS`, `vfio-user:SOCKET`;
/// or those of a lab, all of its first host or the one named by `endpoint`.
#[pyfunction]
#[pyo3(signature = (name, *, endpoint = None, engine = None, seed = 1))]
pub fn open(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    endpoint: Option<&str>,
    engine: Option<&str>,
    seed: u64,
) -> PyResult<Session> {
    let engine = engine.map(engine_kind).transpose()?;
    let (name, session) = if let Ok(lab) = name.cast::<Lab>() {
        let lab = lab.get().with_engine_kind(engine);
        let name = lab.name().to_owned();
        let options = SessionOptions::default().with_seed(seed).with_any_endpoint(true);
        let opened =
            without_gil(py, || Ok(Moved(Opened::open_in(&lab, &name, &[endpoint], options)?)))?;
        (format!("lab:{name}"), opened)
    } else {
        if endpoint.is_some() {
            return Err(Failure::argument("endpoint= is for labs; a name has it: lab:LAB/X").into());
        }
        let names: Vec<String> = match name.extract::<String>() {
            Ok(name) => vec![name],
            Err(_) => name
                .extract()
                .map_err(|_| Failure::argument("a name, a list of names, or a Lab is expected"))?,
        };
        if names.is_empty() {
            return Err(Failure::argument("no names: at least one card is expected").into());
        }
        let shown = names.join(", ");
        let engines = engine.unwrap_or_default();
        let opened = without_gil(py, || {
            let parsed = names.iter().map(|name| name.parse::<DeviceName>());
            let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
            let options = SessionOptions::default().with_engines(engines).with_seed(seed);
            let options = options.with_any_endpoint(true);
            Ok(Moved(Opened::open_all(&parsed, options)?))
        })?;
        (shown, opened)
    };
    let Moved(session) = session;
    let found: Vec<(String, String)> =
        session.cards().iter().map(|card| (card.name.clone(), card.function.to_string())).collect();
    let shared = Shared::new(name, session);
    let cards = found.into_iter().enumerate().map(|(index, (name, address))| {
        Py::new(py, Card::new(Arc::clone(&shared), index, name, address))
    });
    let cards = cards.collect::<PyResult<_>>()?;
    Ok(Session { shared, cards })
}

/// Returns the index of a card that is chosen by its name or its number; the first one by default.
/// `missing` is the sentence for one that is not there, of what was asked for and of the names.
///
/// # Errors
/// There is none.
pub fn chosen(
    names: &[&str],
    which: Option<&Bound<'_, PyAny>>,
    missing: impl Fn(&str, &str) -> String,
) -> PyResult<usize> {
    let found = match which {
        None => Some(0),
        Some(which) => match which.extract::<usize>() {
            Ok(index) => Some(index),
            Err(_) => {
                let wanted: String = which.extract()?;
                names.iter().position(|name| *name == wanted)
            }
        },
    };
    let missing = || {
        let which = which.map_or_else(String::new, ToString::to_string);
        Failure::argument(missing(&which, &names.join(", ")))
    };
    Ok(found.filter(|index| *index < names.len()).ok_or_else(missing)?)
}

/// A session that was just opened and that its thread has not used yet.
struct Moved(Opened);

#[allow(unsafe_code)]
// SAFETY: no future was spawned in it, and nothing else refers to its cells.
unsafe impl Send for Moved {}

impl Session {
    /// Returns the names of the functions at the ends of a path; none is host memory.
    fn ends(&self, ends: [Option<&Bound<'_, PyAny>>; 2]) -> PyResult<[Option<String>; 2]> {
        let [from, to] =
            ends.map(|which| which.map(|which| function_name(&self.shared, which)).transpose());
        Ok([from?, to?])
    }
}

#[pymethods]
impl Session {
    #[getter]
    fn cards(&self, py: Python<'_>) -> Vec<Py<Card>> {
        self.cards.iter().map(|card| card.clone_ref(py)).collect()
    }

    /// Returns a card by its name or its number.
    #[pyo3(signature = (which = None))]
    fn card(&self, py: Python<'_>, which: Option<&Bound<'_, PyAny>>) -> PyResult<Py<Card>> {
        let names: Vec<&str> = self.cards.iter().map(|card| card.get().name.as_str()).collect();
        let missing =
            |which: &str, there: &str| format!("there is no card {which}; there are {there}");
        Ok(self.cards[chosen(&names, which, missing)?].clone_ref(py))
    }

    /// Time of the cards' bus in seconds: simulated in a lab.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        Ok(self.shared.now()?.as_seconds())
    }

    /// The same in picoseconds.
    #[getter]
    fn now_ps(&self) -> PyResult<u64> {
        Ok(self.shared.now()?.0)
    }

    #[getter]
    fn is_lab(&self) -> bool {
        self.shared.is_lab
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Lets time pass: simulated in a lab.
    fn sleep(&self, py: Python<'_>, span: f64) -> PyResult<()> {
        let span = seconds("span", span)?;
        self.shared.call(py, |state| state.sleep(span))
    }

    /// The path of writes between two functions, by card or by name in the tree; `None` is host
    /// memory. Without a path `PlanError` says why.
    #[pyo3(signature = (from_ = None, to = None))]
    fn plan(
        &self,
        py: Python<'_>,
        from_: Option<&Bound<'_, PyAny>>,
        to: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Plan> {
        let [from, to] = self.ends([from_, to])?;
        self.shared.call(py, |state| plan(state, from.as_deref(), to.as_deref()))
    }

    /// Sets Max_Payload_Size of every port of the path between two functions.
    #[pyo3(signature = (bytes, from_ = None, to = None))]
    fn set_max_payload(
        &self,
        py: Python<'_>,
        bytes: u32,
        from_: Option<&Bound<'_, PyAny>>,
        to: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let [from, to] = self.ends([from_, to])?;
        self.shared.call(py, |state| set_max_payload(state, from.as_deref(), to.as_deref(), bytes))
    }

    /// Opens a network processor; in a lab that of any host, so that one program acts for several
    /// nodes.
    #[pyo3(signature = (function, *, buffers = "user", requests = "fastest", waiting = "polling"))]
    fn network_processor(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        buffers: &str,
        requests: &str,
        waiting: &str,
    ) -> PyResult<NetworkProcessor> {
        let name = match function.cast::<Card>() {
            Ok(card) => card.get().endpoint(py, &self.shared)?,
            Err(_) => function_name(&self.shared, function)?,
        };
        let words = Words { buffers, requests, waiting };
        NetworkProcessor::open(py, &self.shared, &name, &words)
    }

    /// In a lab, runs what the program has left, such as TLPs, to its end, and raises errors that
    /// ports have detected.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.call(py, |state| state.finish())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py, false)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.shared.close(py, !raised.is_none())
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Session {}>", self.shared.name)
    }
}
