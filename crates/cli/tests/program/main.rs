// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program from outside, as a user types it.

mod bridge;
mod bridge_certificates;
mod bridge_hours;
mod bridge_kills;
mod bridge_reload;
mod bridge_servers;
mod calibrations;
mod commands;
mod completions;
mod device;
mod fits;
mod gateware;
mod interrupts;
mod lab_check;
#[path = "../../../vfio/tests/integration/sysfs/machine.rs"]
#[allow(dead_code, reason = "another crate's tests need more of it")]
mod machine;
mod mmio;
#[path = "../../../open/tests/integration/support/namespaces.rs"]
#[allow(dead_code, reason = "another crate's tests need more of it")]
mod namespaces;
mod outputs;
mod pages;
mod processes;
#[path = "../../../open/tests/integration/support/proxy.rs"]
#[allow(dead_code, reason = "another crate's tests need more of it")]
mod proxy;
mod readme;
mod refusals;
mod reports;
mod run;
mod served;
mod shards;
mod sockets;
mod torture;
mod torus;
mod traffic;
mod ui;
mod what_if;
mod why;
mod width;
mod workload;
