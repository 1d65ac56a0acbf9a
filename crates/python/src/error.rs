// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of the Rust crates as exceptions of the Python package, which have the same names.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;

use crosslane::bench::BenchError;
use crosslane::bridge::BridgeError;
use crosslane::driver::network_processor::NetworkError;
use crosslane::driver::{DriverError, TransferError};
use crosslane::experiment::ExperimentError;
use crosslane::experiment::sweep::SweepError;
use crosslane::explain::ExplainError;
use crosslane::host::{BusError, ErrorKind, RdmaError};
use crosslane::lab::{LabError, RunError, Stuck};
use crosslane::open::OpenError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Module that has the classes of exceptions.
const MODULE: &str = "crosslane._errors";

/// A call that failed.
#[derive(Debug)]
pub enum Failure {
    /// An exception that Python code has raised, such as `KeyboardInterrupt`.
    Raised(PyErr),
    /// An error that becomes an exception.
    Said {
        /// Class of the exception.
        class: &'static str,
        /// Kind of the error.
        kind: ErrorKind,
        /// Sentence for people.
        message: String,
        /// Further attributes.
        details: Vec<(&'static str, Detail)>,
    },
}

/// An attribute of an exception.
#[derive(Debug, IntoPyObject)]
pub enum Detail {
    /// A number of bytes.
    Bytes(u64),
    /// A word.
    Word(String),
    /// Words by their names.
    Words(BTreeMap<String, String>),
}

impl Failure {
    fn new(class: &'static str, kind: ErrorKind, message: impl Display) -> Self {
        Self::Said { class, kind, message: message.to_string(), details: Vec::new() }
    }

    /// An argument that cannot be used.
    pub fn argument(message: impl Display) -> Self {
        Self::new("ArgumentError", ErrorKind::InvalidArgument, message)
    }

    /// A use of something that was closed, freed, or belongs to another process.
    pub fn closed(message: impl Display) -> Self {
        Self::new("ClosedError", ErrorKind::InvalidArgument, message)
    }

    /// Something that is not possible here.
    pub fn unsupported(message: impl Display) -> Self {
        Self::new("ArgumentError", ErrorKind::Unsupported, message)
    }

    /// Something that cannot be given back because it is in use.
    pub fn busy(message: impl Display) -> Self {
        Self::new("DriverError", ErrorKind::Busy, message)
    }

    /// A TLP that a port refuses.
    pub fn port(kind: ErrorKind, message: impl Display) -> Self {
        Self::new("PortError", kind, message)
    }

    /// A wait that has ended before what it waited for.
    pub fn deadline(message: impl Display) -> Self {
        Self::new("DeadlineError", ErrorKind::Timeout, message)
    }

    /// A failed assertion of the Rust code.
    pub fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let message = format!("an assertion failed: {}", text.unwrap_or("no text"));
        Self::new("PanicError", ErrorKind::Failed, message)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let (class, kind, message, details) = match failure {
            Failure::Raised(error) => return error,
            Failure::Said { class, kind, message, details } => (class, kind, message, details),
        };
        let raised = Python::attach(|py| {
            let named = PyDict::new(py);
            for (name, detail) in details {
                named.set_item(name, detail)?;
            }
            let class = py.import(MODULE)?.getattr(class)?;
            let arguments = PyTuple::new(py, [message, kind_word(kind)])?;
            Ok(Self::from_value(class.call(arguments, Some(&named))?))
        });
        raised.unwrap_or_else(|error| error)
    }
}

/// Returns the name of a kind in snake case: `not_found`.
fn kind_word(kind: ErrorKind) -> String {
    let mut word = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// Makes exceptions of errors that are nothing but their class, kind and sentence.
macro_rules! exceptions {
    ($($error:ty: $class:literal,)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new($class, error.kind(), error)
            }
        })*
    };
}
exceptions!(
    BusError: "BusError",
    RdmaError: "RdmaError",
    LabError: "LabError",
    Stuck: "Stuck",
);

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        let class = match error {
            DriverError::Plan(_) => "PlanError",
            _ => "DriverError",
        };
        Self::new(class, error.kind(), error)
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let (moved, total) = (Detail::Bytes(error.moved_bytes), Detail::Bytes(error.total_bytes));
        let ports = error.fault.detected().iter();
        let ports = ports.map(|found| (found.port.clone(), found.errors.clone())).collect();
        let details =
            vec![("moved_bytes", moved), ("total_bytes", total), ("ports", Detail::Words(ports))];
        let (kind, message) = (error.kind(), error.to_string());
        Self::Said { class: "TransferError", kind, message, details }
    }
}

impl From<BridgeError> for Failure {
    fn from(error: BridgeError) -> Self {
        let details = vec![
            ("stage", Detail::Word(error.stage.to_string())),
            ("arrived_bytes", Detail::Bytes(error.arrived_bytes)),
            ("total_bytes", Detail::Bytes(error.total_bytes)),
        ];
        let (kind, message) = (error.kind(), error.to_string());
        Self::Said { class: "BridgeError", kind, message, details }
    }
}

impl From<NetworkError> for Failure {
    fn from(error: NetworkError) -> Self {
        let (moved, total) = (Detail::Bytes(error.moved_bytes), Detail::Bytes(error.total_bytes));
        let details = vec![("moved_bytes", moved), ("total_bytes", total)];
        let (kind, message) = (error.kind(), error.to_string());
        Self::Said { class: "NetworkError", kind, message, details }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Lab(error) => (*error).into(),
            error => Self::new("OpenError", error.kind(), error),
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Driver(error) => error.into(),
            ExperimentError::Transfer(error) => (*error).into(),
            ExperimentError::Lab(error) => (*error).into(),
            ExperimentError::Bus(error) => error.into(),
            error => Self::new("ExperimentError", error.kind(), error),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Lab(error) => (*error).into(),
            BenchError::Run(error) => (*error).into(),
            error => Self::argument(error),
        }
    }
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        Self::new("ExplainError", error.kind(), error)
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Run(error) => error.into(),
            error => Self::new("SweepError", error.kind(), error),
        }
    }
}

impl<E: Into<Self>> From<RunError<E>> for Failure {
    fn from(error: RunError<E>) -> Self {
        let message = match error {
            RunError::Program(error) => return error.into(),
            RunError::Stuck(stuck) => return stuck.into(),
            RunError::Left(stuck) => RunError::<Stuck>::Left(stuck).to_string(),
            RunError::Fabric { first, count } => {
                RunError::<Stuck>::Fabric { first, count }.to_string()
            }
        };
        Self::new("RunError", ErrorKind::Failed, message)
    }
}

impl From<std::convert::Infallible> for Failure {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
