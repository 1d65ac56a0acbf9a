// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The providers of networks, and the choice between them.

use std::net::ToSocketAddrs;
use std::str::FromStr;

use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason};
use strum::{Display, IntoStaticStr, VariantArray};

use crate::libfabric;

/// A provider of networks: libfabric's, and our own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Provider {
    /// RDMA adapters, including software ones (Soft-RoCE).
    Verbs,
    /// Amazon's adapter. Written from its documentation, and untested.
    Efa,
    /// Memory shared by programs of one machine.
    Shm,
    /// TCP sockets by ourselves, sealed by TLS where both ends have a key. Works everywhere.
    Tls,
    /// TCP sockets by libfabric, for whoever has to talk to other programs of it. It looks at what
    /// strangers send, and some of that ends it: not for networks that are not trusted.
    Tcp,
}

impl Provider {
    /// All providers, the fastest first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns its name; libfabric's for those that it has.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Chooses a provider for an address to listen at or connect to, with the reason: shared memory
    /// within one machine, else the first usable adapter, else TLS. Both ends must choose alike,
    /// which they do if the listener's address is a loopback address, or if both machines have the
    /// same adapters.
    pub fn choose(address: &str) -> (Self, String) {
        let usable = |provider: Self| {
            crate::providers()
                .iter()
                .any(|found| found.provider == provider && found.usable.is_ok())
        };
        if is_loopback(address) {
            return match usable(Self::Shm) {
                true => (Self::Shm, format!("{address} is on this machine")),
                false => (Self::Tls, "shared memory is not usable here".into()),
            };
        }
        for provider in [Self::Verbs, Self::Efa] {
            if usable(provider) {
                return (provider, "there is an adapter for it".into());
            }
        }
        (Self::Tls, "there is no RDMA adapter".into())
    }
}

/// Returns whether an address resolves to loopback addresses only.
pub(crate) fn is_loopback(address: &str) -> bool {
    let addresses = address.to_socket_addrs();
    addresses.is_ok_and(|mut all| all.all(|address| address.ip().is_loopback()))
}

impl FromStr for Provider {
    type Err = RdmaError;

    fn from_str(name: &str) -> RdmaResult<Self> {
        Self::ALL.iter().copied().find(|provider| provider.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|provider| provider.name()).collect();
            let known = known.join(", ");
            RdmaError::Unusable {
                network: format!("the provider {name:?}"),
                why: Reason::new(ErrorKind::NotFound, format!("there are {known}")),
            }
        })
    }
}

/// Lists all providers, in the order of [`Provider::ALL`], with the reasons why some are unusable.
pub fn providers() -> Vec<ProviderState> {
    let usable = |provider| match provider {
        Provider::Tls => Ok("TCP sockets, sealed where both ends have a key".into()),
        provider => libfabric::usable(provider),
    };
    let state = |provider| ProviderState { provider, usable: usable(provider) };
    Provider::ALL.iter().copied().map(state).collect()
}

/// Returns the networks of this build in one line, with the libfabric that the machine has.
///
/// The library is opened, its providers are not: a matter of milliseconds.
pub fn summary() -> String {
    if libfabric::IS_LEFT_OUT {
        return "tls (libfabric was left out by CROSSLANE_NO_LIBFABRIC)".into();
    }
    match libfabric::version_found() {
        Ok(version) => format!("tls, libfabric (libfabric.so.1 {version} found)"),
        Err(why) => format!("tls, libfabric (not usable here: {why})"),
    }
}

/// Availability of a provider on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderState {
    /// The provider.
    pub provider: Provider,
    /// Description of the device, or the reason why it cannot be used.
    pub usable: Result<String, String>,
}
