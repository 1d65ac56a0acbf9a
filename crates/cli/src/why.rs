// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run was not faster, as a person reads it.

use crosslane_explain::Account;

use crate::quantity::percent;

/// Shares below this are printed as nothing, and so are left out.
const LEAST_SHARE: f64 = 0.0005;

/// `fpga1 -> rc47a.down0 (Gen2 x4): 80.3 % payload, 12.6 % headers, …`.
#[must_use]
pub fn account_line(account: &Account) -> String {
    let shown = account.uses.iter().filter(|entry| entry.share >= LEAST_SHARE);
    let parts: Vec<String> =
        shown.map(|entry| format!("{} % {}", percent(entry.share), entry.what)).collect();
    format!("{} ({}): {}", account.direction, account.link, parts.join(", "))
}

/// The block of one run; empty where nothing is known.
#[must_use]
pub fn block(account: Option<&Account>) -> String {
    let Some(account) = account else { return String::new() };
    format!("Why not faster\n\n{}\n\n", account_line(account))
}
