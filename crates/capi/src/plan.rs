// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: the path between two places, its expected rate, and why no faster path is used.

use std::ffi::{CString, c_char, c_int};
use std::fmt::Write;

use crosslane::driver::{PathEnd, Plan, set_max_payload_on_path};

use crate::error::{Result, c_text, guard};
use crate::handle::{self, Handled};
use crate::session::{SessionObject, crosslane_session};
use crate::structs::{self, sized};

/// The path between two places.
pub struct crosslane_plan {
    _private: (),
}

/// Description of a plan. The texts live until the plan is destroyed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_plan_info {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Payload bytes per second that the slowest link can carry.
    pub expected_bytes_per_second: f64,
    /// Largest payload that every port of the path takes, in bytes.
    pub max_payload_bytes: u32,
    /// 1 if the path goes through the root complex, else 0.
    pub is_through_root_complex: u32,
    /// Port at the upper end of the slowest link.
    pub slowest_link: *const c_char,
    /// The ports of the path, from source to target, joined by " -> ".
    pub path: *const c_char,
    /// Why no faster path is used, one reason a line; empty if none is faster.
    pub refused: *const c_char,
}

sized!(crosslane_plan_info);

/// Object behind a handle on a plan.
pub(crate) struct PlanObject {
    plan: Plan,
    slowest_link: CString,
    path: CString,
    refused: CString,
}

impl Handled for PlanObject {
    type Opaque = crosslane_plan;
    const NAME: &'static str = "plan";
}

/// Returns the end of a path that a name stands for.
///
/// # Safety
/// `name` is NULL or ends with a NUL.
unsafe fn path_end(session: &SessionObject, name: *const c_char) -> Result<PathEnd> {
    if name.is_null() {
        return Ok(PathEnd::HostMemory);
    }
    // SAFETY: as the caller promises.
    let name = unsafe { structs::text(name, "name of the function")? };
    Ok(PathEnd::Function(session.function(&name)?.id))
}

/// Makes the plan of writes from one place to another.
///
/// @param from  Name of the function that writes; NULL for the host.
/// @param to  Name of the function that is written to; NULL for host memory.
/// @param plan  Gets the plan.
/// @return 0, or a negative number of errno.h; the sentence says why there is no path.
///
/// # Safety
/// `from` and `to` are NULL or end with a NUL; `plan` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_plan_create(
    session: *const crosslane_session,
    from: *const c_char,
    to: *const c_char,
    plan: *mut *mut crosslane_plan,
) -> c_int {
    guard("crosslane_plan_create", || {
        structs::check_place(plan, "plan")?;
        let session = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        let (from, to) = unsafe { (path_end(&session, from)?, path_end(&session, to)?) };
        let made = Plan::new(session.bus(), from, to)?;
        let names: Vec<&str> = made.path.iter().map(|function| function.name.as_str()).collect();
        let mut refused = String::new();
        for refusal in &made.refused {
            let _ = writeln!(refused, "{refusal}");
        }
        let object = PlanObject {
            slowest_link: c_text(&made.slowest_link),
            path: c_text(&names.join(" -> ")),
            refused: c_text(refused.trim_end()),
            plan: made,
        };
        let made = handle::insert(object)?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(plan, "plan", made)? };
        Ok(0)
    })
}

/// Destroys a plan.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_plan_destroy(plan: *mut crosslane_plan) -> c_int {
    guard("crosslane_plan_destroy", || handle::take::<PlanObject>(plan).map(|_| 0))
}

/// Describes a plan.
///
/// @param info  Gets the description; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `info` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_plan_describe(
    plan: *const crosslane_plan,
    info: *mut crosslane_plan_info,
) -> c_int {
    guard("crosslane_plan_describe", || {
        let object = handle::get::<PlanObject>(plan)?;
        let described = crosslane_plan_info {
            size: 0,
            expected_bytes_per_second: object.plan.expected_bytes_per_second,
            max_payload_bytes: object.plan.max_payload_bytes,
            is_through_root_complex: object.plan.through_root_complex.into(),
            slowest_link: object.slowest_link.as_ptr(),
            path: object.path.as_ptr(),
            refused: object.refused.as_ptr(),
        };
        // SAFETY: as the caller promises.
        unsafe { structs::write(info, described)? };
        Ok(0)
    })
}

/// Sets Max_Payload_Size of every port of the path between two places, as setpci would, and nothing
/// else. A channel learns of it when it is opened or restarted. The ports above real cards are not
/// the library's to change.
///
/// @param from  Name of the function at the one end; NULL for the host.
/// @param to  Name of the function at the other; NULL for host memory.
/// @param bytes  The size: a power of two from 128 to 4096.
/// @return The number of ports; or a negative number of errno.h, such as -EOPNOTSUPP if a port does
/// not support the size: then nothing is changed.
///
/// # Safety
/// `from` and `to` are NULL or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_set_max_payload(
    session: *const crosslane_session,
    from: *const c_char,
    to: *const c_char,
    bytes: u32,
) -> c_int {
    guard("crosslane_session_set_max_payload", || {
        let session = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        let (from, to) = unsafe { (path_end(&session, from)?, path_end(&session, to)?) };
        Ok(set_max_payload_on_path(session.bus(), from, to, bytes)?.len() as c_int)
    })
}
