// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes as text.

/// Returns bytes as hexadecimal digits, two each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
