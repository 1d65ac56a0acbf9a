// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times and shares that a server grants its clients.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::mappings::Quota;

/// Descriptors kept for everything but clients' files: the lab's files, logs, standard streams.
const KEPT: usize = 64;
/// Descriptors kept for each device: clients that wait, commands that wait with their descriptors,
/// eventfds of interrupts.
const KEPT_EACH: usize = 144;

/// Times that a server grants its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Time for a client's first message after it has connected, and for the rest of every message
    /// that it has begun.
    pub message: Duration,
    /// Time for which a client may say nothing while another one waits, if it has set up nothing
    /// (no memory, no interrupt, no register).
    pub unused: Duration,
    /// The same for a client that has set up something; `None` for any time: a virtual machine may
    /// leave its device alone for days.
    pub used: Option<Duration>,
    /// Time after which a client that waits is refused (`EBUSY`).
    pub waiting: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            message: Duration::from_secs(10),
            unused: Duration::from_secs(3),
            used: None,
            // Less than the deadline of our client's requests, so that it learns the reason.
            waiting: Duration::from_secs(8),
        }
    }
}

/// Returns what the client of each of several devices may hold of this process.
pub(crate) fn quota(devices: usize) -> Quota {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Quota::PROCESS.share(devices, most.saturating_sub(open + KEPT + KEPT_EACH * devices))
}

/// Raises this process's limit of open files to the most that its user may have, for servers whose
/// clients map many files that can be made shorter. Child processes inherit it.
pub fn raise_limit_of_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If that fails, the limit stays, and clients have fewer files.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
