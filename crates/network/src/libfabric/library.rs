// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loaded library: its errors, its offers, and ownership of its objects.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crosslane_host::ErrorKind;

use super::abi::{self, Api};

static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();

/// The program was built to do without the library (`build.rs` says so when it is).
pub const IS_LEFT_OUT: bool = cfg!(no_libfabric);

/// Returns the functions of the library.
///
/// # Panics
/// Before [`load`] has succeeded: all calls here need its [`Library`], or an object made with it.
pub fn api() -> &'static Api {
    LOADED.get().and_then(|loaded| loaded.as_ref().ok()).expect("the library is loaded")
}

/// Outcome of a call of the library.
pub type Result<T, E = FiError> = std::result::Result<T, E>;

/// Error number of libfabric, with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiError(pub c_int);

impl FiError {
    /// Try again: the queue is full, or empty.
    pub const AGAIN: Self = Self(abi::EAGAIN);
    /// The operation was in flight when the connection ended.
    pub const CANCELED: Self = Self(libc::ECANCELED);
    /// No provider meets the request.
    pub const NO_DATA: Self = Self(libc::ENODATA);

    /// Converts the result of a call, which is negative for an error.
    pub const fn check(result: c_int) -> Result<(), Self> {
        if result < 0 { Err(Self(-result)) } else { Ok(()) }
    }

    /// Converts the result of a call that counts; `None` if there is nothing to count.
    pub fn count(result: isize) -> Result<Option<usize>, Self> {
        match usize::try_from(result).map_err(|_| Self(-result as c_int)) {
            Err(Self::AGAIN) => Ok(None),
            count => count.map(Some),
        }
    }

    /// Returns the kind of the error: its numbers are those of Linux.
    pub fn kind(self) -> ErrorKind {
        ErrorKind::from_errno(self.0)
    }

    pub fn text(self) -> String {
        // SAFETY: the library is loaded, and returns a constant string for every number.
        unsafe { text_of((api().strerror)(self.0)) }
    }
}

/// Copies a text; empty if there is none.
///
/// # Safety
/// It must be null, or end in a zero.
pub unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub fn c_string(text: &str) -> CString {
    // Only names of providers and numbers; a zero would cut them off.
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// The program's handlers of signals. Providers take signals for themselves, to print or to clean
/// up; the program has its handlers back when this is dropped.
pub struct KeptSignals([libc::sigaction; 32]);

impl KeptSignals {
    pub fn keep() -> Self {
        // SAFETY: zeros are a valid value of it.
        let mut kept: [libc::sigaction; 32] = unsafe { std::mem::zeroed() };
        for (signal, kept) in (0..).zip(&mut kept).skip(1) {
            // SAFETY: only asks for the handler, and has room for it.
            unsafe { libc::sigaction(signal, ptr::null(), kept) };
        }
        Self(kept)
    }
}

impl Drop for KeptSignals {
    fn drop(&mut self) {
        for (signal, kept) in (0..).zip(&self.0).skip(1) {
            if ![libc::SIGKILL, libc::SIGSTOP].contains(&signal) {
                // SAFETY: sets a handler that the program had.
                unsafe { libc::sigaction(signal, kept, ptr::null_mut()) };
            }
        }
    }
}

/// Proof that the library is loaded, required by all calls.
#[derive(Clone, Copy, Debug)]
pub struct Library(());

/// Loads the library and its providers the first time; returns the reason if it fails.
pub fn load() -> Result<Library, String> {
    let loaded = LOADED.get_or_init(|| {
        let api = found()?;
        let _kept = KeptSignals::keep();
        let mut info = ptr::null_mut();
        let flags = abi::PROV_ATTR_ONLY;
        let version = abi::API_VERSION;
        // SAFETY: the first question loads the providers; its answer is freed at once.
        unsafe {
            if (api.getinfo)(version, ptr::null(), ptr::null(), flags, ptr::null(), &mut info) == 0
            {
                (api.freeinfo)(info);
            }
        }
        Ok(api)
    });
    loaded.as_ref().map(|_| Library(())).map_err(Clone::clone)
}

/// Returns the version of the library that is installed, such as 1.17, without asking it for its
/// providers; or the reason why none can be loaded.
pub fn version_found() -> Result<String, String> {
    // SAFETY: the call only returns a number.
    found().map(|api| version_text(unsafe { (api.version)() }))
}

/// Opens the library, without its providers.
fn found() -> Result<Api, String> {
    if IS_LEFT_OUT {
        return Err("it was built with CROSSLANE_NO_LIBFABRIC set".into());
    }
    // libfabric caches registrations of memory that is no longer used, and notices new memory
    // at the same addresses by watching the C library's calls. This program makes its mappings
    // by direct system calls, so an adapter would keep using the old pages. Registrations here
    // are kept as long as needed anyway.
    if std::env::var_os("FI_MR_CACHE_MAX_COUNT").is_none_or(|count| count != "0") {
        // SAFETY: only a concurrent read of the environment without the standard library's lock
        // could conflict; the only such reader is the library that is about to be loaded.
        unsafe { std::env::set_var("FI_MR_CACHE_MAX_COUNT", "0") };
    }
    open().map_err(|why| format!("{why} (Debian: package libfabric1)"))
}

/// Opens the library and looks at its version.
fn open() -> Result<Api, String> {
    let _kept = KeptSignals::keep();
    // SAFETY: libfabric may be loaded at any time; the name ends in a zero.
    let loaded =
        unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if loaded.is_null() {
        // SAFETY: the text is copied before the loader is called again.
        let why = unsafe { text_of(libc::dlerror()) };
        return Err(if why.is_empty() { "libfabric.so.1 cannot be loaded".into() } else { why });
    }
    // SAFETY: it is a handle of libfabric, and stays open.
    let api = unsafe { Api::of(loaded) };
    let api = api.ok_or("the libfabric that is installed lacks the interface of FABRIC_1.3")?;
    // SAFETY: the call only returns a number.
    if unsafe { (api.version)() } < abi::API_VERSION {
        return Err("the libfabric that is installed is older than 1.17".into());
    }
    Ok(api)
}

/// Returns the version of the loaded library, such as 1.17.
pub fn version(_: Library) -> String {
    // SAFETY: the call only returns a number.
    version_text(unsafe { (api().version)() })
}

fn version_text(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}

/// Options for opening a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderOptions {
    /// libfabric's name for it.
    pub provider: &'static str,
    /// Connected endpoints; else reliable datagrams with one peer each.
    pub with_connections: bool,
    /// Whether it is an adapter that accesses memory itself.
    pub hardware: bool,
}

/// Checks whether a provider is available.
pub fn probe(_: Library, options: ProviderOptions) -> Result<()> {
    Info::wished(options)?.offers(None, 0).map(|_| ())
}

/// A request to providers, or the first of their offers.
pub struct Info(NonNull<abi::Info>);

// SAFETY: libfabric's objects have no thread affinity, and the lock of their state is held whenever
// one is used (`raw.rs`).
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Info {
    /// Takes over an offer; `None` if it is null.
    ///
    /// # Safety
    /// It must come from the library, and nobody else may free it.
    pub unsafe fn of(info: *mut abi::Info) -> Option<Self> {
        NonNull::new(info).map(Self)
    }

    /// Copies an offer; without one makes an empty request.
    fn copied(info: *const abi::Info) -> Result<Self> {
        // SAFETY: it is null or valid; the copy is ours.
        unsafe { Self::of((api().dupinfo)(info)) }.ok_or(FiError(libc::ENOMEM))
    }

    pub fn copy(&self) -> Result<Self> {
        Self::copied(self.get())
    }

    /// Returns the request for a provider with these options.
    pub fn wished(options: ProviderOptions) -> Result<Self> {
        let wished = Self::copied(ptr::null())?;
        let provider = c_string(options.provider);
        let all_modes = abi::MR_LOCAL | abi::MR_VIRT_ADDR | abi::MR_ALLOCATED | abi::MR_PROV_KEY;
        let (endpoint, addresses) = match options.with_connections {
            true => (abi::EP_MSG, abi::AV_UNSPEC),
            false => (abi::EP_RDM, abi::AV_TABLE),
        };
        // SAFETY: an empty request has all its parts, which are ours. Its strings are freed with
        // it, as the C library's memory.
        unsafe {
            let info = &mut *wished.get();
            info.caps = abi::MSG | abi::RMA;
            info.mode = abi::CONTEXT | abi::CONTEXT2;
            (*info.ep_attr).r#type = endpoint;
            (*info.domain_attr).mr_mode = if options.hardware { all_modes } else { 0 };
            (*info.domain_attr).threading = abi::THREAD_DOMAIN;
            (*info.domain_attr).av_type = addresses;
            (*info.tx_attr).msg_order = abi::ORDER_SAS;
            (*info.rx_attr).msg_order = abi::ORDER_SAS;
            (*info.fabric_attr).prov_name = libc::strdup(provider.as_ptr());
        }
        Ok(wished)
    }

    /// Asks the providers, about an address (node and service) if one is given.
    pub fn offers(&self, at: Option<&(CString, CString)>, flags: u64) -> Result<Self> {
        let (node, service) = at.map_or((ptr::null(), ptr::null()), |(node, service)| {
            (node.as_ptr(), service.as_ptr())
        });
        let mut info = ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the answer is ours.
        unsafe {
            let result =
                (api().getinfo)(abi::API_VERSION, node, service, flags, self.get(), &mut info);
            FiError::check(result)?;
            Self::of(info).ok_or(FiError::NO_DATA)
        }
    }

    /// Returns a request for endpoints of this network with another address. An adapter's have to
    /// be of the same device; else any interface will do, as the kernel finds the way.
    pub fn elsewhere(&self, by_device: bool) -> Result<Self> {
        let mut wished = self.copy()?;
        wished.forget_source();
        wished.forget_target();
        // SAFETY: the copy of an offer has all its parts, which are ours; strings are the C
        // library's memory.
        unsafe {
            let info = &mut *wished.get();
            info.addr_format = abi::FORMAT_UNSPEC;
            info.handle = ptr::null_mut();
            let (domain, fabric) = (&mut *info.domain_attr, &mut *info.fabric_attr);
            if !by_device {
                free_and_forget(&mut domain.name);
                free_and_forget(&mut fabric.name);
            }
            domain.domain = ptr::null_mut();
            fabric.fabric = ptr::null_mut();
        }
        Ok(wished)
    }

    pub fn forget_source(&mut self) {
        // SAFETY: it is ours, and its addresses are the C library's memory.
        unsafe {
            free_and_forget(&mut (*self.get()).src_addr);
            (*self.get()).src_addrlen = 0;
        }
    }

    pub fn forget_target(&mut self) {
        // SAFETY: as above.
        unsafe {
            free_and_forget(&mut (*self.get()).dest_addr);
            (*self.get()).dest_addrlen = 0;
        }
    }

    pub const fn get(&self) -> *mut abi::Info {
        self.0.as_ptr()
    }
}

/// Frees memory of the C library.
///
/// # Safety
/// It must be null, or such memory that nobody else frees.
unsafe fn free_and_forget<T>(memory: &mut *mut T) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(memory.cast::<c_void>()) };
    *memory = ptr::null_mut();
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: it came from the library, and is freed once.
        unsafe { (api().freeinfo)(self.get()) };
    }
}

/// An object of the library, closed when this is dropped. Objects made from others are dropped
/// before them.
pub struct Object<T>(NonNull<T>);

// SAFETY: as of `Info`.
unsafe impl<T> Send for Object<T> {}
// SAFETY: as of `Info`.
unsafe impl<T> Sync for Object<T> {}

impl<T> Object<T> {
    /// Keeps the object that a call makes.
    pub fn made(make: impl FnOnce(*mut *mut T) -> c_int) -> Result<Self> {
        let mut object = ptr::null_mut();
        FiError::check(make(&raw mut object))?;
        NonNull::new(object).map(Self).ok_or(FiError::NO_DATA)
    }

    pub const fn get(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Returns its beginning, whose address identifies it in events.
    pub const fn fid(&self) -> *mut abi::Fid {
        self.0.as_ptr().cast()
    }

    /// Binds another object to it.
    pub fn bind(&self, other: *mut abi::Fid, flags: u64) -> Result<()> {
        // SAFETY: both are open, and every object begins with a table of functions.
        let result = unsafe { ((*(*self.fid()).ops).bind)(self.fid(), other, flags) };
        FiError::check(result)
    }

    /// Gives it a command that takes nothing, or fills a number.
    pub fn control(&self, command: c_int, number: Option<&mut c_int>) -> Result<()> {
        let number = number.map_or(ptr::null_mut(), |number| ptr::from_mut(number).cast());
        // SAFETY: as above; the number is valid for the call.
        let result = unsafe { ((*(*self.fid()).ops).control)(self.fid(), command, number) };
        FiError::check(result)
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once, after everything made from it.
        unsafe { ((*(*self.fid()).ops).close)(self.fid()) };
    }
}
