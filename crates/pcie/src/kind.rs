// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of errors, by what a caller can do about them.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// Kind of an error. Every public error has one: `error.kind()`. The numbers are stable; 0 means
/// success where a number stands for the outcome of a call.
///
/// Errors of two crates have none, as neither stands on this one: `torus-link`, whose errors are
/// about parameters and single frames, and reach users as those of lab and driver; and `report`,
/// which writes files for the program alone. What ports of the simulated fabric detect
/// (`fabric::ErrorRecord`) is an entry of a log, not an error of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorKind {
    /// No device, lab, node, address or file has this name: correct the name.
    NotFound = 1,
    /// In use, or used up (memory, descriptors, a port): free some, or try again later.
    Busy = 2,
    /// The device, bus, network or build cannot do this: take another path.
    Unsupported = 3,
    /// A value, an option, a file's content or the order of calls is invalid: correct the call.
    InvalidArgument = 4,
    /// A deadline passed: look at the device, then try again with a later deadline.
    Timeout = 5,
    /// The link, device or connection is lost or does not answer: bring it up, then open it again.
    LinkDown = 6,
    /// The system, a policy or the other end does not permit this: obtain the permission.
    Denied = 7,
    /// Data are poisoned, damaged or malformed: discard what has arrived, then try again.
    Data = 8,
    /// The caller or the other end stopped it before its end: start again if it is still wanted.
    Cancelled = 9,
    /// A failure of the device, the platform or the other end that is none of these: report the
    /// message, and reset the device.
    Failed = 10,
}

impl ErrorKind {
    /// Returns the kind of an error number of Linux.
    pub fn from_errno(errno: i32) -> Self {
        const ENXIO: i32 = 6;
        const ENODEV: i32 = 19;
        const ENOTTY: i32 = 25;
        match errno {
            ENXIO | ENODEV => Self::NotFound,
            ENOTTY => Self::Unsupported,
            _ => io::Error::from_raw_os_error(errno).kind().into(),
        }
    }
}

impl From<io::ErrorKind> for ErrorKind {
    fn from(kind: io::ErrorKind) -> Self {
        use io::ErrorKind as Io;
        match kind {
            Io::NotFound | Io::AddrNotAvailable => Self::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => Self::Denied,
            Io::ConnectionRefused
            | Io::ConnectionReset
            | Io::ConnectionAborted
            | Io::HostUnreachable
            | Io::NetworkUnreachable
            | Io::NetworkDown
            | Io::NotConnected
            | Io::BrokenPipe => Self::LinkDown,
            Io::AddrInUse
            | Io::AlreadyExists
            | Io::OutOfMemory
            | Io::QuotaExceeded
            | Io::ResourceBusy
            | Io::StorageFull
            | Io::WouldBlock => Self::Busy,
            Io::InvalidInput | Io::InvalidFilename | Io::IsADirectory | Io::NotADirectory => {
                Self::InvalidArgument
            }
            Io::InvalidData | Io::UnexpectedEof => Self::Data,
            Io::TimedOut => Self::Timeout,
            Io::Interrupted => Self::Cancelled,
            Io::Unsupported => Self::Unsupported,
            _ => Self::Failed,
        }
    }
}

/// Makes the method `kind` of an error from an [`ErrorKind`] for each pattern, and its conversion
/// to a [`Reason`]. Kinds are written without a path.
///
/// ```
/// # use crosslane_pcie::kind::ErrorKind;
/// #[derive(Debug, thiserror::Error)]
/// enum CardError {
///     #[error("there is no card {0}")]
///     Missing(u8),
///     #[error("cannot open the card: {0}")]
///     Failed(std::io::Error),
/// }
///
/// crosslane_pcie::kinds!(CardError {
///     Self::Missing(_) => NotFound,
///     Self::Failed(error) => error.kind().into(),
/// });
///
/// assert_eq!(CardError::Missing(1).kind(), ErrorKind::NotFound);
/// ```
#[macro_export]
macro_rules! kinds {
    ($error:ty { $($pattern:pat => $kind:expr,)+ }) => {
        impl $error {
            /// Returns the kind of the error.
            pub fn kind(&self) -> $crate::kind::ErrorKind {
                #[allow(unused_imports)]
                use $crate::kind::ErrorKind::*;
                match self {
                    $($pattern => $kind,)+
                }
            }
        }

        impl From<$error> for $crate::kind::Reason {
            fn from(error: $error) -> Self {
                Self::new(error.kind(), error)
            }
        }
    };
}

/// The reason in an error: a sentence with its kind, or the error that was the cause.
///
/// Dereferences to the cause, which is thus the [`source`](Error::source) of an error that holds
/// it. Two reasons are equal if kind and sentence are.
#[derive(Clone)]
pub struct Reason {
    kind: ErrorKind,
    cause: Arc<dyn Error + Send + Sync>,
}

impl Reason {
    /// Makes the reason of a sentence, or of an error that has no kind of its own.
    pub fn new(kind: ErrorKind, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, cause: cause.into().into() }
    }

    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// Of no error there is no reason.
impl From<Infallible> for Reason {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Deref for Reason {
    type Target = dyn Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.cause
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// Prints kind and sentence: `Busy("it is open already")`.
impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.kind, self.to_string())
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.to_string() == other.to_string()
    }
}

impl Eq for Reason {}

/// A sentence alone is a failure, unless [`Reason::new`] says otherwise.
impl From<String> for Reason {
    fn from(sentence: String) -> Self {
        Self::new(ErrorKind::Failed, sentence)
    }
}

impl From<&str> for Reason {
    fn from(sentence: &str) -> Self {
        sentence.to_owned().into()
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        let kind = error.raw_os_error().map(ErrorKind::from_errno);
        Self::new(kind.unwrap_or_else(|| error.kind().into()), error)
    }
}
