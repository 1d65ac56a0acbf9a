// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Declarations of the part of libfabric's binary interface that is used: the library is loaded
//! when a network is opened, and a program can be built where its headers are not installed. Names
//! are those of the manual pages; unused functions of tables are pointers to nothing, and unused
//! members at the end are left out.
//!
//! The layout of `fi_info` and its parts is that of the symbol version FABRIC_1.3, which later
//! libraries keep, and [`Api::of`] asks for exactly that. Other structures grow at their end only,
//! by the version that a program asks for: here 1.17. A test compares all of this with the headers
//! where they are installed.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

/// Version of the interface that is asked for: 1.17.
pub const API_VERSION: u32 = 1 << 16 | 17;

macro_rules! constants {
    ($($(#[$doc:meta])* $type:ty { $($name:ident = $value:expr,)* })*) => {
        $($(pub const $name: $type = $value;)*)*

        #[cfg(test)]
        const VALUES: &[(&str, u64)] = &[$($((stringify!($name), $name as u64),)*)*];
    };
}

constants! {
    // Capabilities, rights and flags of operations.
    u64 {
        MSG = 1 << 1, RMA = 1 << 2, READ = 1 << 8, WRITE = 1 << 9, RECV = 1 << 10, SEND = 1 << 11,
        TRANSMIT = SEND, REMOTE_READ = 1 << 12, REMOTE_WRITE = 1 << 13, COMPLETION = 1 << 24,
        DELIVERY_COMPLETE = 1 << 28, PROV_ATTR_ONLY = 1 << 54, SOURCE = 1 << 57,
        // Modes: duties of the program.
        CONTEXT = 1 << 59, CONTEXT2 = 1 << 52,
        // Order: a send after a send.
        ORDER_SAS = 1 << 8,
        ADDR_UNSPEC = u64::MAX,
    }
    u32 { FORMAT_UNSPEC = 0, CONNREQ = 1, CONNECTED = 2, SHUTDOWN = 3, }
    c_int {
        // Modes of registered memory.
        MR_LOCAL = 1 << 2, MR_VIRT_ADDR = 1 << 4, MR_ALLOCATED = 1 << 5, MR_PROV_KEY = 1 << 6,
        EP_MSG = 1, EP_RDM = 3, THREAD_DOMAIN = 3, AV_UNSPEC = 0, AV_TABLE = 2, WAIT_NONE = 0,
        WAIT_FD = 3, CQ_FORMAT_MSG = 2,
        // Commands of `control`.
        GETWAIT = 5, ENABLE = 6,
        // Errors besides those of Linux.
        EAGAIN = 11, EOTHER = 256, EAVAIL = 259,
    }
}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $theirs:literal {
        $($(#[$member_doc:meta])* $member:ident: $type:ty,)*
    })*) => {
        $($(#[$doc])* #[repr(C)] pub struct $name { $($(#[$member_doc])* pub $member: $type,)* })*

        /// Each member, with its structure, offset and size.
        #[cfg(test)]
        const MEMBERS: &[(&str, &str, usize, usize)] = &[$($((
            $theirs,
            stringify!($member),
            std::mem::offset_of!($name, $member),
            size_of::<$type>(),
        ),)*)*];
    };
}

type Call<A> = unsafe extern "C" fn(*mut A) -> c_int;
type Open<A, B, C> = unsafe extern "C" fn(*mut A, *mut B, *mut *mut C, *mut c_void) -> c_int;
type Unused = *const c_void;
/// Text of a provider's error number.
type Text<A> =
    unsafe extern "C" fn(*mut A, c_int, *const c_void, *mut c_char, usize) -> *const c_char;

structures! {
    Ops = "fi_ops" {
        size: usize,
        close: Call<Fid>,
        bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
        control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    }
    /// Beginning of every object.
    Fid = "fid" { fclass: usize, context: *mut c_void, ops: *mut Ops, }

    TxAttr = "fi_tx_attr" {
        caps: u64, mode: u64, op_flags: u64, msg_order: u64, comp_order: u64, inject_size: usize,
        size: usize,
    }
    RxAttr = "fi_rx_attr" {
        caps: u64, mode: u64, op_flags: u64, msg_order: u64, comp_order: u64,
        total_buffered_recv: usize, size: usize,
    }
    EpAttr = "fi_ep_attr" {
        r#type: c_int, protocol: u32, protocol_version: u32, max_msg_size: usize,
    }
    DomainAttr = "fi_domain_attr" {
        domain: *mut Domain, name: *mut c_char, threading: c_int, control_progress: c_int,
        data_progress: c_int, resource_mgmt: c_int, av_type: c_int, mr_mode: c_int,
    }
    FabricAttr = "fi_fabric_attr" {
        fabric: *mut Fabric, name: *mut c_char, prov_name: *mut c_char,
    }
    /// A request to providers, or an offer of one.
    Info = "fi_info" {
        next: *mut Info, caps: u64, mode: u64, addr_format: u32, src_addrlen: usize,
        dest_addrlen: usize, src_addr: *mut c_void, dest_addr: *mut c_void, handle: *mut Fid,
        tx_attr: *mut TxAttr, rx_attr: *mut RxAttr, ep_attr: *mut EpAttr,
        domain_attr: *mut DomainAttr, fabric_attr: *mut FabricAttr,
    }

    EqAttr = "fi_eq_attr" {
        size: usize, flags: u64, wait_obj: c_int, signaling_vector: c_int, wait_set: *mut c_void,
    }
    /// An event of a connection, with its greeting.
    EqCmEntry = "fi_eq_cm_entry" { fid: *mut Fid, info: *mut Info, data: [u8; 0], }
    EqErrEntry = "fi_eq_err_entry" {
        fid: *mut Fid, context: *mut c_void, data: u64, err: c_int, prov_errno: c_int,
        err_data: *mut c_void, err_data_size: usize,
    }
    OpsEq = "fi_ops_eq" {
        size: usize,
        read: unsafe extern "C" fn(*mut Eq, *mut u32, *mut c_void, usize, u64) -> isize,
        readerr: unsafe extern "C" fn(*mut Eq, *mut EqErrEntry, u64) -> isize,
        write: Unused, sread: Unused,
        strerror: Text<Eq>,
    }
    /// Queue of events of connections.
    Eq = "fid_eq" { fid: Fid, ops: *mut OpsEq, }

    CqAttr = "fi_cq_attr" {
        size: usize, flags: u64, format: c_int, wait_obj: c_int, signaling_vector: c_int,
        wait_cond: c_int, wait_set: *mut c_void,
    }
    CqMsgEntry = "fi_cq_msg_entry" { op_context: *mut Context2, flags: u64, len: usize, }
    CqErrEntry = "fi_cq_err_entry" {
        op_context: *mut Context2, flags: u64, len: usize, buf: *mut c_void, data: u64, tag: u64,
        olen: usize, err: c_int, prov_errno: c_int, err_data: *mut c_void, err_data_size: usize,
        /// Room for members of later versions.
        spare: [u64; 8],
    }
    OpsCq = "fi_ops_cq" {
        size: usize,
        read: unsafe extern "C" fn(*mut Cq, *mut CqMsgEntry, usize) -> isize,
        readfrom: Unused,
        readerr: unsafe extern "C" fn(*mut Cq, *mut CqErrEntry, u64) -> isize,
        sread: Unused, sreadfrom: Unused, signal: Unused,
        strerror: Text<Cq>,
    }
    /// Queue of completions.
    Cq = "fid_cq" { fid: Fid, ops: *mut OpsCq, }

    AvAttr = "fi_av_attr" {
        r#type: c_int, rx_ctx_bits: c_int, count: usize, ep_per_node: usize, name: *const c_char,
        map_addr: *mut c_void, flags: u64,
    }
    OpsAv = "fi_ops_av" {
        size: usize,
        insert: unsafe extern "C" fn(
            *mut Av, *const u8, usize, *mut u64, u64, *mut c_void,
        ) -> c_int,
    }
    /// Addresses of peers.
    Av = "fid_av" { fid: Fid, ops: *mut OpsAv, }
    /// Registered memory.
    Mr = "fid_mr" { fid: Fid, mem_desc: *mut c_void, key: u64, }
    OpsMr = "fi_ops_mr" {
        size: usize,
        reg: unsafe extern "C" fn(
            *mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut Mr, *mut c_void,
        ) -> c_int,
    }

    /// The library's notes on an operation in flight.
    Context2 = "fi_context2" { internal: [*mut c_void; 8], }
    OpsCm = "fi_ops_cm" {
        size: usize, setname: Unused,
        getname: unsafe extern "C" fn(*mut Fid, *mut u8, *mut usize) -> c_int,
        getpeer: unsafe extern "C" fn(*mut Ep, *mut u8, *mut usize) -> c_int,
        connect: unsafe extern "C" fn(*mut Ep, *const c_void, *const u8, usize) -> c_int,
        listen: Call<Pep>,
        accept: unsafe extern "C" fn(*mut Ep, *const u8, usize) -> c_int,
        reject: unsafe extern "C" fn(*mut Pep, *mut Fid, *const u8, usize) -> c_int,
        shutdown: unsafe extern "C" fn(*mut Ep, u64) -> c_int,
    }
    OpsMsg = "fi_ops_msg" {
        size: usize,
        recv: unsafe extern "C" fn(
            *mut Ep, *mut c_void, usize, *mut c_void, u64, *mut Context2,
        ) -> isize,
        recvv: Unused, recvmsg: Unused,
        send: unsafe extern "C" fn(
            *mut Ep, *const c_void, usize, *mut c_void, u64, *mut Context2,
        ) -> isize,
    }
    RmaIov = "fi_rma_iov" { addr: u64, len: usize, key: u64, }
    MsgRma = "fi_msg_rma" {
        msg_iov: *const libc::iovec, desc: *mut *mut c_void, iov_count: usize, addr: u64,
        rma_iov: *const RmaIov, rma_iov_count: usize, context: *mut Context2, data: u64,
    }
    OpsRma = "fi_ops_rma" {
        size: usize,
        read: unsafe extern "C" fn(
            *mut Ep, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut Context2,
        ) -> isize,
        readv: Unused, readmsg: Unused, write: Unused, writev: Unused,
        writemsg: unsafe extern "C" fn(*mut Ep, *const MsgRma, u64) -> isize,
    }
    /// Endpoint.
    Ep = "fid_ep" {
        fid: Fid, ops: Unused, cm: *mut OpsCm, msg: *mut OpsMsg, rma: *mut OpsRma,
    }
    /// Endpoint that listens for connections.
    Pep = "fid_pep" { fid: Fid, ops: Unused, cm: *mut OpsCm, }

    OpsDomain = "fi_ops_domain" {
        size: usize,
        av_open: Open<Domain, AvAttr, Av>,
        cq_open: Open<Domain, CqAttr, Cq>,
        endpoint: Open<Domain, Info, Ep>,
    }
    Domain = "fid_domain" { fid: Fid, ops: *mut OpsDomain, mr: *mut OpsMr, }
    OpsFabric = "fi_ops_fabric" {
        size: usize,
        domain: Open<Fabric, Info, Domain>,
        passive_ep: Open<Fabric, Info, Pep>,
        eq_open: Open<Fabric, EqAttr, Eq>,
        wait_open: Unused,
        trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
    }
    Fabric = "fid_fabric" { fid: Fid, ops: *mut OpsFabric, }
}

macro_rules! api {
    ($($name:ident: $version:literal, $type:ty;)*) => {
        /// Functions that the library exports; all others are those of its objects.
        pub struct Api {
            $(pub $name: $type,)*
        }

        impl Api {
            /// Finds the functions in a loaded library; `None` if one is missing.
            ///
            /// # Safety
            /// `loaded` must be a handle of libfabric from `dlopen` that is never closed.
            pub unsafe fn of(loaded: *mut c_void) -> Option<Self> {
                // SAFETY: the handle is valid; the functions have these types in these versions of
                // the interface, which later libraries keep.
                unsafe {
                    Some(Self {
                        $($name: std::mem::transmute::<*mut c_void, $type>(
                            symbol(loaded, concat!("fi_", stringify!($name), "\0"), $version)?,
                        ),)*
                    })
                }
            }
        }
    };
}

api! {
    getinfo: c"FABRIC_1.3", unsafe extern "C" fn(
        u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info,
    ) -> c_int;
    freeinfo: c"FABRIC_1.3", unsafe extern "C" fn(*mut Info);
    dupinfo: c"FABRIC_1.3", unsafe extern "C" fn(*const Info) -> *mut Info;
    fabric: c"FABRIC_1.1", unsafe extern "C" fn(
        *mut FabricAttr, *mut *mut Fabric, *mut c_void,
    ) -> c_int;
    strerror: c"FABRIC_1.0", unsafe extern "C" fn(c_int) -> *const c_char;
    version: c"FABRIC_1.0", unsafe extern "C" fn() -> u32;
}

/// Finds a function as it is in one version of the library's interface.
///
/// # Safety
/// As [`Api::of`]; the name ends in a zero.
unsafe fn symbol(loaded: *mut c_void, name: &str, version: &CStr) -> Option<*mut c_void> {
    let name = name.as_ptr().cast();
    // SAFETY: the handle is valid, and both names end in a zero.
    #[cfg(target_env = "gnu")]
    let found = unsafe { libc::dlvsym(loaded, name, version.as_ptr()) };
    #[cfg(not(target_env = "gnu"))]
    // SAFETY: as above.
    let found = unsafe { (libc::dlsym(loaded, name), version).0 };
    (!found.is_null()).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::process::Command;

    use super::*;

    /// Returns compiler options for libfabric's headers; `None` if they are not installed.
    fn options() -> Option<Vec<String>> {
        let asked = Command::new("pkg-config").args(["--cflags", "libfabric"]).output().ok();
        let told = asked.filter(|output| output.status.success());
        let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        match told {
            Some(told) => Some(told.split_whitespace().map(str::to_owned).collect()),
            None => std::path::Path::new("/usr/include/rdma/fabric.h").exists().then(Vec::new),
        }
    }

    /// A C program that compiles if the headers say the same.
    fn program() -> String {
        let mut text = String::new();
        for header in ["fabric", "fi_cm", "fi_domain", "fi_endpoint", "fi_eq", "fi_errno", "fi_rma"]
        {
            let _ = writeln!(text, "#include <rdma/{header}.h>");
        }
        let mut same = |what: &str, is: &str| {
            let _ = writeln!(text, "_Static_assert({is}, \"{what}\");");
        };
        same("API_VERSION", &format!("FI_VERSION(1, 17) == {API_VERSION}"));
        for (name, value) in VALUES {
            same(name, &format!("(uint64_t)FI_{name} == {value}ULL"));
        }
        for (theirs, member, offset, size) in MEMBERS {
            let member = member.trim_start_matches("r#");
            // `spare` is ours, and `data` as long as the greeting.
            if member != "spare" {
                same(member, &format!("offsetof(struct {theirs}, {member}) == {offset}"));
            }
            if member != "spare" && *size > 0 {
                same(member, &format!("sizeof(((struct {theirs} *)0)->{member}) == {size}"));
            }
        }
        for (theirs, size) in [
            ("fi_eq_attr", size_of::<EqAttr>()),
            ("fi_eq_err_entry", size_of::<EqErrEntry>()),
            ("fi_cq_attr", size_of::<CqAttr>()),
            ("fi_cq_msg_entry", size_of::<CqMsgEntry>()),
            ("fi_av_attr", size_of::<AvAttr>()),
            ("fi_context2", size_of::<Context2>()),
            ("fi_rma_iov", size_of::<RmaIov>()),
            ("fi_msg_rma", size_of::<MsgRma>()),
        ] {
            same(theirs, &format!("sizeof(struct {theirs}) == {size}"));
        }
        let size = size_of::<CqErrEntry>();
        same("fi_cq_err_entry", &format!("sizeof(struct fi_cq_err_entry) <= {size}"));
        text
    }

    #[test]
    fn declarations_agree_with_the_headers() {
        let Some(options) = options() else {
            println!("left out: libfabric's headers are not installed");
            return;
        };
        let file = std::env::temp_dir().join(format!("libfabric-abi-{}.c", std::process::id()));
        let compile = |program: &str| {
            std::fs::write(&file, program).unwrap();
            let mut compiler = Command::new("cc");
            compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
            compiler.args(&options).arg(&file).output().expect("there is a C compiler")
        };
        let same = compile(&program());
        // A wrong value would be found.
        let other = compile(&program().replace("FI_EAVAIL == 259", "FI_EAVAIL == 258"));
        std::fs::remove_file(&file).unwrap();
        assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stderr));
        let words = String::from_utf8_lossy(&other.stderr);
        assert!(!other.status.success() && words.contains("EAVAIL"), "{words}");
    }
}
