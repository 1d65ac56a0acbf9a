// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The providers of libfabric that this crate knows, and which one to take.

use std::fmt;
use std::net::ToSocketAddrs;
use std::str::FromStr;

use crosslane_host::RdmaError;

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// RDMA adapters, also software ones (Soft-RoCE).
    Verbs,
    /// Amazon's adapter. Written by its documentation: nobody has tested it.
    Efa,
    /// Memory that programs of this machine share.
    Shm,
    /// TCP sockets: everywhere.
    Tcp,
}

impl Provider {
    /// All of them, the fastest first.
    pub const ALL: [Self; 4] = [Self::Verbs, Self::Efa, Self::Shm, Self::Tcp];

    /// As libfabric calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verbs => "verbs",
            Self::Efa => "efa",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }

    /// Which one to take for an address to listen at or connect to, and why: within one machine
    /// shared memory, else the first adapter that is usable, else TCP. Both ends have to come to
    /// the same, which they do where the address of the listener is one of the loopback, or both
    /// machines have the same adapters.
    #[must_use]
    pub fn choose(address: &str) -> (Self, String) {
        let usable = |provider: Self| {
            crate::providers()
                .iter()
                .any(|found| found.provider == provider && found.usable.is_ok())
        };
        if is_loopback(address) {
            return match usable(Self::Shm) {
                true => (Self::Shm, format!("{address} is on this machine")),
                false => (Self::Tcp, "shared memory is not usable here".into()),
            };
        }
        for provider in [Self::Verbs, Self::Efa] {
            if usable(provider) {
                return (provider, "there is an adapter for it".into());
            }
        }
        (Self::Tcp, "there is no RDMA adapter".into())
    }
}

/// Whether an address is one of the loopback, and nothing else.
pub(crate) fn is_loopback(address: &str) -> bool {
    let addresses = address.to_socket_addrs();
    addresses.is_ok_and(|mut all| all.all(|address| address.ip().is_loopback()))
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Provider {
    type Err = RdmaError;

    fn from_str(name: &str) -> Result<Self, RdmaError> {
        Self::ALL.into_iter().find(|provider| provider.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            RdmaError::Unusable {
                network: format!("the provider {name:?}"),
                why: format!("there are {known}"),
            }
        })
    }
}

/// Whether a provider can be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderState {
    /// Which.
    pub provider: Provider,
    /// What it is here, or why it cannot be used.
    pub usable: Result<String, String>,
}
