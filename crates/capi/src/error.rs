// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failures of calls: the number that a call returns, and what `crosslane_last_error` says.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crosslane::blocking;
use crosslane::bridge::BridgeError;
use crosslane::driver::network_processor::NetworkError;
use crosslane::driver::{DriverError, PlanError, TransferError};
use crosslane::experiment::ExperimentError;
use crosslane::explain::ExplainError;
use crosslane::host::{BusError, ErrorKind, RdmaError, TopologyError};
use crosslane::lab::LabError;
use crosslane::open::OpenError;

use crate::handle;

/// Outcome of the inner part of a call.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The last failure of a call in this thread. All texts live until the thread's next failure.
#[repr(C)]
pub struct crosslane_error {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Negative error number of errno.h, as the call returned it; 0 if no call has failed yet.
    pub code: i32,
    /// Kind: one of CROSSLANE_KIND_*. Several kinds may share an error number, and the reverse.
    pub kind: u32,
    /// One sentence with its values. Never NULL.
    pub sentence: *const c_char,
    /// The function that failed, then the causes, one a line. Never NULL.
    pub detail: *const c_char,
    /// Bytes that a failed transfer has moved.
    pub moved_bytes: u64,
    /// Bytes of a failed transfer; 0 if the failure is not that of a transfer.
    pub total_bytes: u64,
    /// Bus address or card address that a failed transfer concerns; 0 if none is known.
    pub address: u64,
    /// Ports of a failed transfer's path that have detected errors, one a line: the port's name, a
    /// colon, and its errors with commas between them. Empty if none is known. Never NULL.
    pub ports: *const c_char,
}

/// No device, lab, node, address or file has this name.
pub const CROSSLANE_KIND_NOT_FOUND: u32 = 1;
/// In use, or used up: free some, or try again later.
pub const CROSSLANE_KIND_BUSY: u32 = 2;
/// The device, bus, network or build cannot do this.
pub const CROSSLANE_KIND_UNSUPPORTED: u32 = 3;
/// A value, an option, a handle or the order of calls is invalid.
pub const CROSSLANE_KIND_INVALID_ARGUMENT: u32 = 4;
/// A deadline passed.
pub const CROSSLANE_KIND_TIMEOUT: u32 = 5;
/// The link, device or connection is lost or does not answer.
pub const CROSSLANE_KIND_LINK_DOWN: u32 = 6;
/// The system, a policy or the other end does not permit this.
pub const CROSSLANE_KIND_DENIED: u32 = 7;
/// Data are poisoned, damaged or malformed.
pub const CROSSLANE_KIND_DATA: u32 = 8;
/// The caller or the other end stopped it before its end.
pub const CROSSLANE_KIND_CANCELLED: u32 = 9;
/// A failure that is none of these.
pub const CROSSLANE_KIND_FAILED: u32 = 10;

/// A failure on its way to the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: c_int,
    kind: ErrorKind,
    sentence: String,
    causes: Vec<String>,
    moved_bytes: u64,
    total_bytes: u64,
    address: u64,
    ports: String,
}

/// Returns the error number of a kind.
pub(crate) const fn errno_of(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Busy => libc::EBUSY,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::InvalidArgument => libc::EINVAL,
        ErrorKind::Timeout => libc::ETIMEDOUT,
        ErrorKind::LinkDown => libc::ENOLINK,
        ErrorKind::Denied => libc::EACCES,
        ErrorKind::Data => libc::EBADMSG,
        ErrorKind::Cancelled => libc::ECANCELED,
        _ => libc::EIO,
    }
}

impl Failure {
    pub fn new(kind: ErrorKind, sentence: impl Into<String>) -> Self {
        Self {
            errno: errno_of(kind),
            kind,
            sentence: sentence.into(),
            causes: Vec::new(),
            moved_bytes: 0,
            total_bytes: 0,
            address: 0,
            ports: String::new(),
        }
    }

    /// A wrong argument of the caller's.
    pub fn argument(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, sentence)
    }

    /// The same failure under another error number of errno.h.
    pub fn with_errno(self, errno: c_int) -> Self {
        Self { errno, ..self }
    }

    /// The same failure, of one of several elements that the caller has passed.
    pub fn of_element(self, name: &str, index: usize, count: usize) -> Self {
        let sentence = format!("{name} {index} of {count}: {}", self.sentence);
        Self { sentence, ..self }
    }

    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the negative error number.
    pub const fn code(&self) -> c_int {
        -self.errno
    }

    fn of(kind: ErrorKind, error: &dyn Error) -> Self {
        let mut causes = Vec::new();
        let mut said = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            // A transparent error says what its cause does.
            let sentence = cause.to_string();
            if sentence != said {
                causes.push(sentence.clone());
                said = sentence;
            }
            next = cause.source();
        }
        Self { causes, ..Self::new(kind, error.to_string()) }
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let ports = error.fault.detected().iter();
        let ports: Vec<String> =
            ports.map(|found| format!("{}: {}", found.port, found.errors)).collect();
        Self {
            ports: ports.join("\n"),
            moved_bytes: error.moved_bytes,
            total_bytes: error.total_bytes,
            address: error.address.map_or(0, |address| address.0),
            ..Self::of(error.kind(), &error)
        }
    }
}

impl From<blocking::Error> for Failure {
    fn from(error: blocking::Error) -> Self {
        match error {
            blocking::Error::Transfer(error) => (*error).into(),
            error => Self::of(error.kind(), &error),
        }
    }
}

impl From<NetworkError> for Failure {
    fn from(error: NetworkError) -> Self {
        let (moved_bytes, total_bytes) = (error.moved_bytes, error.total_bytes);
        Self { moved_bytes, total_bytes, ..Self::of(error.kind(), &error) }
    }
}

impl From<BridgeError> for Failure {
    fn from(error: BridgeError) -> Self {
        let (moved_bytes, total_bytes) = (error.arrived_bytes, error.total_bytes);
        Self { moved_bytes, total_bytes, ..Self::of(error.kind(), &error) }
    }
}

/// Failures of errors that have no more to say than their sentence and causes.
macro_rules! failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of(error.kind(), &error)
            }
        })+
    };
}

failures!(
    OpenError, LabError, DriverError, PlanError, BusError, RdmaError, TopologyError,
    ExperimentError, ExplainError
);

/// The last failure of a thread, with its texts.
struct Last {
    error: crosslane_error,
    sentence: CString,
    detail: CString,
    ports: CString,
}

impl Last {
    fn new(function: &str, failure: &Failure) -> Self {
        let mut detail = format!("in {function}");
        for cause in &failure.causes {
            detail.push_str("\nbecause: ");
            detail.push_str(cause);
        }
        let (sentence, detail) = (c_text(&failure.sentence), c_text(&detail));
        let ports = c_text(&failure.ports);
        let error = crosslane_error {
            size: size_of::<crosslane_error>(),
            code: failure.code(),
            kind: failure.kind as u32,
            sentence: sentence.as_ptr(),
            detail: detail.as_ptr(),
            moved_bytes: failure.moved_bytes,
            total_bytes: failure.total_bytes,
            address: failure.address,
            ports: ports.as_ptr(),
        };
        Self { error, sentence, detail, ports }
    }
}

thread_local! {
    static LAST: RefCell<Option<Box<Last>>> = const { RefCell::new(None) };
}

/// Makes a C string; a NUL within it ends it.
pub(crate) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// Remembers a failure as the thread's last one, and returns its code.
pub(crate) fn remember(function: &str, failure: &Failure) -> c_int {
    let last = Box::new(Last::new(function, failure));
    // A thread at its end has no such memory any more; the code still says what happened.
    let _ = LAST.try_with(|place| {
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = Some(last);
        }
    });
    failure.code()
}

/// Runs the inner part of a call. Its failure becomes the last error; so does a panic, which never
/// leaves the library.
pub(crate) fn guard(function: &str, call: impl FnOnce() -> Result<c_int>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    handle::end_call();
    match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => remember(function, &failure),
        Err(panic) => {
            let sentence = format!("internal error of the library: {}", words_of(&*panic));
            let failure = Failure::new(ErrorKind::Failed, sentence);
            remember(function, &failure.with_errno(libc::ENOTRECOVERABLE))
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Returns the last failure of a call in this thread; never NULL. It, and its texts, live until
/// the thread's next failure. Calls that succeed leave it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn crosslane_last_error() -> *const crosslane_error {
    let found = LAST.try_with(|place| {
        let last = place.try_borrow().ok()?;
        let last = last.as_ref()?;
        debug_assert!(last.error.sentence == last.sentence.as_ptr(), "the texts are its own");
        debug_assert!(last.error.detail == last.detail.as_ptr(), "the texts are its own");
        debug_assert!(last.error.ports == last.ports.as_ptr(), "the texts are its own");
        Some(&raw const last.error)
    });
    found.ok().flatten().unwrap_or_else(|| {
        struct Shared(crosslane_error);
        // SAFETY: it is never written, and points to constants.
        unsafe impl Sync for Shared {}
        static NONE: Shared = Shared(crosslane_error {
            size: size_of::<crosslane_error>(),
            code: 0,
            kind: 0,
            sentence: c"no call has failed in this thread".as_ptr(),
            detail: c"".as_ptr(),
            moved_bytes: 0,
            total_bytes: 0,
            address: 0,
            ports: c"".as_ptr(),
        });
        &raw const NONE.0
    })
}

/// Returns the version of the library, such as 0.1.0. The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn crosslane_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no NUL"),
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_a_code_and_a_sentence() {
        let code = guard("crosslane_test", || panic!("seven of {}", 9));
        assert_eq!(code, -libc::ENOTRECOVERABLE);
        // SAFETY: never NULL, and no other call of this thread has failed since.
        let (error, sentence) = unsafe {
            let error = &*crosslane_last_error();
            (error, CStr::from_ptr(error.sentence))
        };
        assert_eq!(error.code, code);
        assert_eq!(sentence, c"internal error of the library: seven of 9");
    }

    #[test]
    fn every_kind_has_its_constant_and_an_error_number() {
        use ErrorKind as Kind;
        let kinds = [
            (Kind::NotFound, CROSSLANE_KIND_NOT_FOUND),
            (Kind::Busy, CROSSLANE_KIND_BUSY),
            (Kind::Unsupported, CROSSLANE_KIND_UNSUPPORTED),
            (Kind::InvalidArgument, CROSSLANE_KIND_INVALID_ARGUMENT),
            (Kind::Timeout, CROSSLANE_KIND_TIMEOUT),
            (Kind::LinkDown, CROSSLANE_KIND_LINK_DOWN),
            (Kind::Denied, CROSSLANE_KIND_DENIED),
            (Kind::Data, CROSSLANE_KIND_DATA),
            (Kind::Cancelled, CROSSLANE_KIND_CANCELLED),
            (Kind::Failed, CROSSLANE_KIND_FAILED),
        ];
        for (kind, constant) in kinds {
            assert_eq!(kind as u32, constant);
        }
        let numbers: std::collections::BTreeSet<_> = kinds.map(|(kind, _)| errno_of(kind)).into();
        assert_eq!(numbers.len(), kinds.len());
    }
}
