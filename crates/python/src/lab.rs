// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs as Python code sees them: changed, drawn, and run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crosslane::bench::{Traffic, Transfers};
use crosslane::experiment::topology;
use crosslane::lab::{EngineKind, Lab as Loaded, shipped};
use crosslane::labs;
use crosslane::results::DirectionLoad;
use crosslane_report::{loaded_svg, topology_svg};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde::Serialize;

use crate::call::{at_work, without_gil};
use crate::error::Failure;
use crate::run::{self, Made, Overhead};
use crate::running::{self, RunningLab};

/// A lab: a topology of hosts, switches and cards with its constants. It never changes: what
/// changes it makes another one.
#[pyclass(frozen, module = "crosslane")]
pub struct Lab {
    lab: Arc<Loaded>,
    /// Choices beside the file.
    chosen: Chosen,
}

#[derive(Clone, Default)]
struct Chosen {
    constants: BTreeMap<String, f64>,
    engine: EngineKind,
    numa_node: Option<u16>,
}

/// Reads the word for a kind of engines.
pub fn engine_kind(word: &str) -> Result<EngineKind, Failure> {
    match word {
        "model" => Ok(EngineKind::Model),
        "rtl" => Ok(EngineKind::Rtl),
        _ => Err(Failure::argument(format!("engine {word:?}: it is 'model' or 'rtl'"))),
    }
}

/// Writes plain data as JSON.
pub fn json(data: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(data).map_err(Failure::argument)
}

/// Reads JSON with Python's own reader.
fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.getattr("loads")?.call1((text,))
}

impl Lab {
    const fn new(lab: Arc<Loaded>, chosen: Chosen) -> Self {
        Self { lab, chosen }
    }

    /// Returns the lab with engines of a kind, or with those that were chosen before.
    pub fn with_engine_kind(&self, kind: Option<EngineKind>) -> Loaded {
        Loaded::clone(&self.lab).with_engines(kind.unwrap_or(self.chosen.engine))
    }

    /// Makes runs and returns their result as Python code sees it.
    fn result<'py>(
        slf: &Bound<'py, Self>,
        work: impl FnOnce(&run::Place<'_>) -> Result<Made, Failure> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let made = at_work(py, |watch| {
            work(&run::Place { lab: &this.lab, engine: this.chosen.engine, watch })
        })?;
        let class = py.import("crosslane._results")?.getattr("Result")?;
        class.call1((loads(py, &made.outcome)?, slf, loads(py, &made.figures)?))
    }

    fn svg(&self, loads: &[DirectionLoad]) -> Result<String, Failure> {
        let topology = topology(&self.lab, &self.lab.build(1)?);
        Ok(match loads {
            [] => topology_svg(&topology),
            loads => loaded_svg(&topology, loads),
        })
    }
}

#[pymethods]
impl Lab {
    /// Loads a shipped lab by its name (`NAME` or `NAME:VARIANT`), a file by its path, or the text
    /// of a lab file, which `name` stands for in errors.
    #[staticmethod]
    #[pyo3(signature = (source, *, name = None))]
    fn load(py: Python<'_>, source: &Bound<'_, PyAny>, name: Option<&str>) -> PyResult<Self> {
        let source = py.import("os")?.getattr("fspath")?.call1((source,))?;
        let source: String = source.extract()?;
        let lab = without_gil(py, || match source.contains('\n') {
            true => Ok(Loaded::from_text(name.unwrap_or("lab.toml"), &source)?),
            false => Ok(Loaded::load(&source)?),
        })?;
        Ok(Self::new(Arc::new(lab), Chosen::default()))
    }

    /// Lists the names of the shipped labs.
    #[staticmethod]
    fn shipped() -> Vec<&'static str> {
        shipped().iter().map(|lab| lab.name).collect()
    }

    /// Makes the same lab in another process.
    #[staticmethod]
    fn _again(
        name: &str,
        text: &str,
        variant: Option<&str>,
        constants: BTreeMap<String, f64>,
        engine: &str,
        numa_node: Option<u16>,
    ) -> PyResult<Self> {
        let mut lab = Loaded::from_text(name, text).map_err(Failure::from)?;
        if let Some(variant) = variant {
            lab = lab.with_variant(variant).map_err(Failure::from)?;
        }
        let lab = Self::new(Arc::new(lab), Chosen::default()).with_engine(engine)?;
        let lab = lab.with_(constants)?;
        match numa_node {
            Some(node) => lab.with_numa_node(node),
            None => Ok(lab),
        }
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        let engine = match this.chosen.engine {
            EngineKind::Model => "model",
            EngineKind::Rtl => "rtl",
        };
        let arguments = (
            this.lab.origin(),
            this.lab.file().text(),
            this.lab.variant(),
            this.chosen.constants.clone(),
            engine,
            this.chosen.numa_node,
        );
        Ok((slf.getattr("_again")?, arguments.into_pyobject(py)?))
    }

    /// Returns the same lab with other values of constants, by their paths.
    fn with_(&self, constants: BTreeMap<String, f64>) -> PyResult<Self> {
        let (mut lab, mut chosen) = (Loaded::clone(&self.lab), self.chosen.clone());
        for (path, value) in constants {
            lab = lab.with_constant(&path, value).map_err(Failure::from)?;
            chosen.constants.insert(path, value);
        }
        Ok(Self::new(Arc::new(lab), chosen))
    }

    /// Returns one of its variants.
    fn with_variant(&self, name: &str) -> PyResult<Self> {
        let lab = self.lab.with_variant(name).map_err(Failure::from)?;
        let mut chosen = self.chosen.clone();
        // The variant may have other constants, or overrule some.
        let paths: Vec<String> = lab.constants().map(|constant| constant.path()).collect();
        chosen.constants.retain(|path, _| paths.contains(path));
        Ok(Self::new(Arc::new(lab), chosen))
    }

    /// Returns the same lab with another kind of engines.
    fn with_engine(&self, engine: &str) -> PyResult<Self> {
        let engine = engine_kind(engine)?;
        let lab = Loaded::clone(&self.lab).with_engines(engine);
        Ok(Self::new(Arc::new(lab), Chosen { engine, ..self.chosen.clone() }))
    }

    /// Returns the same lab with the buffers of hosts in the memory of another socket.
    fn with_numa_node(&self, node: u16) -> PyResult<Self> {
        let lab = self.lab.with_numa_node(node).map_err(Failure::from)?;
        Ok(Self::new(Arc::new(lab), Chosen { numa_node: Some(node), ..self.chosen.clone() }))
    }

    #[getter]
    fn name(&self) -> &str {
        self.lab.name()
    }

    #[getter]
    fn summary(&self) -> &str {
        self.lab.summary()
    }

    #[getter]
    fn variant(&self) -> Option<&str> {
        self.lab.variant()
    }

    #[getter]
    fn variants(&self) -> Vec<&str> {
        self.lab.file().variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    /// Text of its file.
    #[getter]
    fn text(&self) -> &str {
        self.lab.file().text()
    }

    /// Names of its endpoints.
    #[getter]
    fn endpoints(&self) -> Vec<&str> {
        self.lab.endpoints_with(|_| true)
    }

    /// Names of its endpoints with a DMA engine.
    #[getter]
    fn engines(&self) -> Vec<&str> {
        self.lab.endpoints_with(|part| part.engine.is_some())
    }

    /// Its constants in force, each with its provenance.
    #[getter]
    fn constants<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &json(&labs::constants(&self.lab).constants)?)
    }

    /// Its topology, enumerated.
    fn topology<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = without_gil(py, || json(&topology(&self.lab, &self.lab.build(1)?)))?;
        loads(py, &text)
    }

    /// Flows between generic requesters and memories: `crosslane bench traffic`. A flow is
    /// `FROM:TO:KIND:SIZE`, as `card0:host:write:4K`.
    #[pyo3(signature = (*flows, operations = None, outstanding = None, mps = None, window = None,
                        offset = 0, relaxed = false, random = false, write_combined = false,
                        shuffle = false, in_turn = false, seed = 1, why = true))]
    #[expect(clippy::too_many_arguments, reason = "options of the command, by name")]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        flows: Vec<String>,
        operations: Option<u64>,
        outstanding: Option<u32>,
        mps: Option<u32>,
        window: Option<u64>,
        offset: u64,
        relaxed: bool,
        random: bool,
        write_combined: bool,
        shuffle: bool,
        in_turn: bool,
        seed: u64,
        why: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let traffic = Traffic {
            flows,
            operations,
            outstanding,
            mps,
            window,
            offset,
            relaxed,
            random,
            write_combined,
            shuffle,
            in_turn,
        };
        Self::result(slf, move |place| run::traffic(place, &traffic, seed, why))
    }

    /// Makes transfers by the driver, as `crosslane bench write`, `read`, `p2p`, `latency` and
    /// `chain`.
    #[pyo3(signature = (bench, *, from_ = None, to = None, size = None, iterations = None,
                        outstanding = None, flows = 1, descriptors = "ring", notify = "poll",
                        pages = "huge", payload = None, mps = None, credits = true,
                        both_ways = false, by = "write", seed = 1, why = true))]
    #[expect(clippy::too_many_arguments, reason = "options of the command, by name")]
    fn bench<'py>(
        slf: &Bound<'py, Self>,
        bench: String,
        from_: Option<String>,
        to: Option<String>,
        size: Option<&Bound<'py, PyAny>>,
        iterations: Option<u64>,
        outstanding: Option<u32>,
        flows: u16,
        descriptors: &str,
        notify: &str,
        pages: &str,
        payload: Option<u32>,
        mps: Option<u32>,
        credits: bool,
        both_ways: bool,
        by: &str,
        seed: u64,
        why: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let size = size.map(|size| Ok::<_, PyErr>(size.str()?.to_string())).transpose()?;
        let bench = Transfers {
            bench,
            from: from_,
            to,
            size,
            iterations,
            outstanding,
            flows,
            descriptors: descriptors.to_owned(),
            notify: notify.to_owned(),
            pages: pages.to_owned(),
            payload,
            mps,
            credits,
            both_ways,
            by: by.to_owned(),
        };
        Self::result(slf, move |place| run::bench(place, &bench, seed, why))
    }

    /// Measures single accesses and transfers, as `crosslane bench overhead`.
    #[pyo3(signature = (card = None, *, rounds = 200, large = 4194304, seed = 1))]
    fn overhead<'py>(
        slf: &Bound<'py, Self>,
        card: Option<String>,
        rounds: u64,
        large: u64,
        seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let overhead = Overhead { card, rounds, large };
        Self::result(slf, move |place| run::overhead(place, &overhead, seed))
    }

    /// Runs the lab step by step beside code outside of it, whose logic takes the place of these
    /// endpoints. BARs, MSI-X, credits and latencies are those of the lab file; all other endpoints
    /// are generic.
    #[pyo3(signature = (*endpoints, seed = 1))]
    fn attach(&self, py: Python<'_>, endpoints: Vec<String>, seed: u64) -> PyResult<RunningLab> {
        running::attach(py, &self.lab, endpoints, seed)
    }

    fn _repr_svg_(&self, py: Python<'_>) -> PyResult<String> {
        without_gil(py, || self.svg(&[]))
    }

    /// Draws the topology with the loads of links, JSON.
    fn _loads_svg(&self, py: Python<'_>, loads: &str) -> PyResult<String> {
        let loads: Vec<DirectionLoad> = serde_json::from_str(loads).map_err(Failure::argument)?;
        without_gil(py, || self.svg(&loads))
    }

    fn __repr__(&self) -> String {
        let variant = self.lab.variant().map_or_else(String::new, |name| format!(":{name}"));
        format!("<crosslane.Lab {}{variant}>", self.lab.name())
    }
}
