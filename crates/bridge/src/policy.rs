// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy file of a server: its clients and their rights.
//!
//! ```toml
//! [[client]]
//! name = "rnode"
//! key = "8e1f…"            # 64 hexadecimal digits, or key_file = "rnode.key", or, over tls,
//!                           # certificate = "rnode.example", a name of its certificate
//!
//! [[client.allow]]
//! card = "fpga0"
//! from = 0x0
//! bytes = 0x4000_0000
//! access = "read-write"     # or "read", "write"
//!
//! [[client.allow]]
//! card = "fpga0"
//! access = "stream"         # round trips through the compute core
//!
//! [[client.allow]]
//! card = "fpga0"
//! access = "reload"         # reconfigure the card with an image of the client's
//!
//! [[client.allow]]
//! server = "other:7471"     # as this server reaches it: copies from here to there
//! card = "fpga0"
//! bytes = 0x1000
//! access = "write"
//! ```

use std::fmt;
use std::fs::Metadata;
use std::path::Path as FilePath;

use crosslane_host::ErrorKind::{Denied, InvalidArgument};
use serde::Deserialize;

use crate::error::{BridgeError, Result};
use crate::key::{Key, check_private};
use crate::messages::{PeerTarget, TransferRequest};
use crate::report::Path;
use crate::stage::Stage;

/// Largest policy file, bytes.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// A client's rights in a range of a card's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read only.
    Read,
    /// Write only.
    Write,
    /// Read and write.
    ReadWrite,
    /// Send data through the card's stream, without access to memory.
    Stream,
    /// Reconfigure the card, without access to memory.
    Reload,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowEntry {
    server: Option<String>,
    card: String,
    from: Option<u64>,
    bytes: Option<u64>,
    access: Access,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientEntry {
    name: String,
    key: Option<String>,
    key_file: Option<String>,
    certificate: Option<String>,
    #[serde(default)]
    allow: Vec<AllowEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    client: Vec<ClientEntry>,
}

/// A range of a card, with a client's rights in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Allowed {
    /// The other server that has the card; `None` is this one.
    server: Option<String>,
    card: String,
    from: u64,
    end: u64,
    access: Access,
}

/// The way in which a client shows that it is itself.
#[derive(Clone, Debug)]
enum Proof {
    Key(Key),
    /// A name that its certificate has.
    Certificate(String),
}

#[derive(Clone, Debug)]
struct Client {
    name: String,
    proof: Proof,
    allowed: Vec<Allowed>,
}

/// Clients with their keys or certificates, and rights.
#[derive(Clone, Debug)]
pub struct Policy {
    clients: Vec<Client>,
    /// The key for unknown names; no client has it.
    decoy: Key,
}

fn bad(place: &str, why: impl fmt::Display) -> BridgeError {
    BridgeError::new(Stage::Request, InvalidArgument, format!("{place}: {why}"))
}

fn read_bounded(path: &FilePath) -> Result<(String, Metadata)> {
    let place = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        BridgeError::new(Stage::Request, error.kind().into(), format!("{place}: {error}"))
    };
    let file = std::fs::metadata(path).map_err(unreadable)?;
    let size = file.len();
    if size > MAX_POLICY_BYTES {
        return Err(bad(&place, format!("{size} B: at most {MAX_POLICY_BYTES} are read")));
    }
    Ok((std::fs::read_to_string(path).map_err(unreadable)?, file))
}

fn parsed(place: &str, text: &str) -> Result<PolicyFile> {
    toml::from_str(text).map_err(|error| bad(place, error))
}

impl Policy {
    /// Reads a policy file; key files are found relative to it, and nobody but its owner may read a
    /// file with a key. `decoy` is a random key that is given to no client.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid, with the position.
    pub fn read(path: &FilePath, decoy: Key) -> Result<Self> {
        let place = path.display().to_string();
        let folder = path.parent().unwrap_or(FilePath::new(""));
        let (text, metadata) = read_bounded(path)?;
        let file = parsed(&place, &text)?;
        let has_keys = file.client.iter().any(|client| client.key.is_some());
        let policy = Self::of(&place, file, decoy, |file| Key::read(&folder.join(file)))?;
        if has_keys {
            check_private(path, &metadata)?;
        }
        Ok(policy)
    }

    /// Returns the clients' keys.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.clients.iter().filter_map(|client| match &client.proof {
            Proof::Key(key) => Some(key),
            Proof::Certificate(_) => None,
        })
    }

    /// Returns the name of a client that is known by a certificate, if there is one.
    pub fn with_certificate(&self) -> Option<&str> {
        let is_known_so = |client: &&Client| matches!(client.proof, Proof::Certificate(_));
        self.clients.iter().find(is_known_so).map(|client| client.name.as_str())
    }

    /// Parses a policy; `place` stands for the file in errors, `key_of` reads a key file.
    ///
    /// # Errors
    /// The first problem, with its position.
    pub fn parse(
        place: &str,
        text: &str,
        decoy: Key,
        key_of: impl Fn(&str) -> Result<Key>,
    ) -> Result<Self> {
        Self::of(place, parsed(place, text)?, decoy, key_of)
    }

    fn of(
        place: &str,
        file: PolicyFile,
        decoy: Key,
        key_of: impl Fn(&str) -> Result<Key>,
    ) -> Result<Self> {
        let mut clients: Vec<Client> = Vec::new();
        for entry in file.client {
            let place = format!("{place}: client {}", entry.name);
            if clients.iter().any(|client| client.name == entry.name) {
                return Err(bad(&place, "is there twice"));
            }
            let proof = match (&entry.key, &entry.key_file, &entry.certificate) {
                (Some(key), None, None) => key.parse().map(Proof::Key),
                (None, Some(file), None) => key_of(file).map(Proof::Key),
                (None, None, Some(name)) if name.is_empty() => {
                    return Err(bad(&place, "a certificate without a name"));
                }
                (None, None, Some(name)) => Ok(Proof::Certificate(name.clone())),
                _ => return Err(bad(&place, "needs one of key, key_file and certificate")),
            };
            let proof = proof.map_err(|error: BridgeError| {
                BridgeError::new(Stage::Request, error.kind(), format!("{place}: {}", error.why))
            })?;
            let allowed = entry.allow.into_iter().map(|allow| allowed(&place, allow));
            let allowed = allowed.collect::<Result<_, _>>()?;
            clients.push(Client { name: entry.name, proof, allowed });
        }
        Ok(Self { clients, decoy })
    }

    /// Returns the name of a client that calls itself so, or nothing, and whose certificate has
    /// these names; and the key that it has to show, unless its certificate is enough.
    fn admit(&self, name: &str, proven: &[String]) -> Result<Admitted> {
        let is_it = |client: &&Client| match &client.proof {
            Proof::Certificate(known) => proven.iter().any(|proven| is_same_name(known, proven)),
            Proof::Key(_) => false,
        };
        let client = match name {
            // The first one that the certificate is of.
            "" => self.clients.iter().find(is_it),
            name => self.clients.iter().find(|client| client.name == name),
        };
        match client {
            Some(Client { name, proof: Proof::Key(key), .. }) => {
                Ok(Admitted { name: name.clone(), key: Some(key.clone()) })
            }
            Some(client) if is_it(&client) => Ok(Admitted { name: client.name.clone(), key: None }),
            // A name that is not known and one whose proof is missing are answered alike.
            _ if proven.is_empty() => {
                Ok(Admitted { name: name.to_owned(), key: Some(self.decoy.clone()) })
            }
            _ => {
                let of_it = match name {
                    "" => "that of no client".to_owned(),
                    name => format!("not that of {name}"),
                };
                let names = proven.join(", ");
                let why = format!("a certificate for {names} is {of_it} in the policy");
                Err(BridgeError::new(Stage::Connection, Denied, why))
            }
        }
    }

    /// Returns the rights of a client.
    fn allowed(&self, name: &str) -> &[Allowed] {
        let client = self.clients.iter().find(|client| client.name == name);
        client.map_or(&[][..], |client| &client.allowed)
    }

    /// Whether a client may reload a card.
    fn may_reload(&self, name: &str, card: &str) -> bool {
        self.allowed(name).iter().any(|it| it.allows(None, card, Access::Reload, (0, 0)))
    }

    /// Checks whether a client may make a transfer.
    pub(crate) fn check(&self, name: &str, request: &TransferRequest) -> Result<()> {
        let allowed = self.allowed(name);
        let TransferRequest { path, address, bytes, card, peer, .. } = request;
        let wanted = match path {
            Path::ToFpga => Access::Write,
            Path::FromFpga | Path::ToPeer | Path::WithinNode => Access::Read,
            Path::RoundTrip => Access::Stream,
        };
        let denied = |why: String| Err(BridgeError::new(Stage::Request, Denied, why));
        if !allowed.iter().any(|it| it.allows(None, card, wanted, (*address, *bytes))) {
            return denied(match wanted {
                Access::Stream => format!("{name} may not use the stream of {card}"),
                _ => {
                    let verb = if wanted == Access::Write { "write" } else { "read" };
                    format!("{name} may not {verb} {bytes} B from {address:#x} on of {card}")
                }
            });
        }
        let Some(PeerTarget { server, card, address }) = peer else { return Ok(()) };
        let range = (*address, *bytes);
        let is_here = *path == Path::WithinNode;
        let server = Some(server.as_str()).filter(|_| !is_here);
        if allowed.iter().any(|it| it.allows(server, card, Access::Write, range)) {
            return Ok(());
        }
        let Some(server) = server else {
            return denied(format!(
                "{name} may not write {bytes} B from {address:#x} on of {card}"
            ));
        };
        denied(format!(
            "{name} may not copy {bytes} B to {address:#x} of {card} at {server}: the policy has \
             to name that server"
        ))
    }
}

impl Allowed {
    /// Whether this gives a right to a range (first byte and length) of a card.
    fn allows(
        &self,
        server: Option<&str>,
        card: &str,
        wanted: Access,
        (address, bytes): (u64, u64),
    ) -> bool {
        if self.server.as_deref() != server || self.card != card {
            return false;
        }
        match wanted {
            Access::Stream | Access::Reload => self.access == wanted,
            wanted => {
                let end = address.saturating_add(bytes);
                (self.access == wanted || self.access == Access::ReadWrite)
                    && (self.from..=self.end).contains(&address)
                    && end <= self.end
            }
        }
    }
}

fn allowed(place: &str, entry: AllowEntry) -> Result<Allowed> {
    let AllowEntry { server, card, from, bytes, access } = entry;
    if let Some(server) = server.as_ref().filter(|_| access != Access::Write) {
        return Err(bad(place, format!("{card} at {server} can only be written, by copies to it")));
    }
    match (access, from, bytes) {
        (Access::Stream | Access::Reload, None, None) => {
            Ok(Allowed { server, card, from: 0, end: 0, access })
        }
        (Access::Stream, ..) => Err(bad(place, "the stream of a card has no range")),
        (Access::Reload, ..) => Err(bad(place, "a reload is of the whole card: it has no range")),
        (_, from, Some(bytes)) => {
            let from = from.unwrap_or(0);
            let Some(end) = from.checked_add(bytes) else {
                return Err(bad(place, format!("{bytes} B from {from:#x} on: no card has them")));
            };
            Ok(Allowed { server, card, from, end, access })
        }
        _ => Err(bad(place, format!("access to {card} needs bytes, how many of its memory"))),
    }
}

/// A client that is admitted, once it shows this key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub name: String,
    /// None if it has shown already who it is, or nobody asks.
    pub key: Option<Key>,
}

/// Whether a name of a policy is one of a certificate: hosts have no case, URIs do.
fn is_same_name(known: &str, proven: &str) -> bool {
    known == proven || (!known.contains(':') && known.eq_ignore_ascii_case(proven))
}

/// Admission of clients.
#[derive(Clone, Debug)]
pub enum Guard {
    /// Everyone, to everything: only for this machine's loopback, or in a lab.
    Open,
    /// Clients with a key or a certificate, each with its rights.
    Keys(Policy),
}

impl Guard {
    /// Decides whether a client of this name, whose certificate has those, may come.
    pub(crate) fn admit(&self, name: &str, proven: &[String]) -> Result<Admitted> {
        match self {
            Self::Open => {
                // A name that is proven is better than one that is only said.
                let name = proven.first().map_or(name, String::as_str);
                Ok(Admitted { name: name.to_owned(), key: None })
            }
            Self::Keys(policy) => policy.admit(name, proven),
        }
    }

    /// Checks whether a client may reload a card: only a policy can allow that, or a network that
    /// no one else reaches.
    pub(crate) fn check_reload(&self, name: &str, card: &str, is_closed: bool) -> Result<()> {
        let denied = |why: String| Err(BridgeError::new(Stage::Request, Denied, why));
        match self {
            Self::Open if is_closed => Ok(()),
            Self::Open => denied(format!(
                "{card} is reloaded only for clients of a policy file that gives them the right"
            )),
            Self::Keys(policy) if policy.may_reload(name, card) => Ok(()),
            Self::Keys(_) => denied(format!("{name} may not reload {card}")),
        }
    }

    /// Checks whether a client may make a transfer. Other servers beyond this machine are asked
    /// only if the policy names them and this server can show who it is; `is_closed` is a network
    /// that no one else reaches.
    pub(crate) fn check(
        &self,
        name: &str,
        request: &TransferRequest,
        has_proof: bool,
        is_closed: bool,
    ) -> Result<()> {
        let far = request.peer.as_ref().map(|peer| &peer.server);
        let far = far.filter(|_| request.path != Path::WithinNode);
        let missing = match self {
            Self::Open => Some("a policy file that names it"),
            Self::Keys(_) if !has_proof => Some("a key or a certificate of this server"),
            Self::Keys(_) => None,
        };
        if let (Some(missing), Some(far)) = (missing, far)
            && !is_closed
            && !is_loopback(far)
        {
            let why = format!("copies to {far}, beyond this machine, need {missing}");
            return Err(BridgeError::new(Stage::Request, Denied, why));
        }
        match self {
            Self::Open => Ok(()),
            Self::Keys(policy) => policy.check(name, request),
        }
    }
}

/// Whether only programs of this machine reach an address.
pub fn is_loopback(address: &str) -> bool {
    let host = match address.rsplit_once(':') {
        Some((host, _)) => host,
        None => address,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[client]]
        name = "rnode"
        key = "0101010101010101010101010101010101010101010101010101010101010101"
        [[client.allow]]
        card = "fpga0"
        from = 0x1000
        bytes = 0x1000
        access = "read-write"
        [[client.allow]]
        card = "fpga0"
        bytes = 0x100
        access = "read"
        [[client.allow]]
        card = "fpga1"
        access = "stream"
    "#;

    fn policy(text: &str) -> Result<Policy, BridgeError> {
        Policy::parse("policy.toml", text, Key::new([9; 32]), |_| Ok(Key::new([2; 32])))
    }

    #[test]
    fn a_client_may_use_what_is_its_own_and_nothing_else() {
        let policy = policy(TEXT).expect("it is right");
        let may = |name, path, card, address, bytes| {
            policy.check(name, &TransferRequest::new(path, card, address, bytes)).is_ok()
        };
        assert!(may("rnode", Path::ToFpga, "fpga0", 0x1000, 0x1000));
        assert!(may("rnode", Path::FromFpga, "fpga0", 0x1fff, 1));
        assert!(!may("rnode", Path::ToFpga, "fpga0", 0x1001, 0x1000), "one byte beyond");
        assert!(!may("rnode", Path::ToFpga, "fpga0", 0xfff, 2), "one byte before");
        assert!(may("rnode", Path::FromFpga, "fpga0", 0, 0x100));
        assert!(!may("rnode", Path::ToFpga, "fpga0", 0, 0x100), "it may only read there");
        assert!(!may("rnode", Path::FromFpga, "fpga1", 0x1000, 1), "another card");
        assert!(may("rnode", Path::RoundTrip, "fpga1", 0, 1 << 40));
        assert!(!may("rnode", Path::RoundTrip, "fpga0", 0, 1));
        assert!(!may("other", Path::FromFpga, "fpga0", 0, 1), "another client");
        assert!(!may("rnode", Path::ToPeer, "fpga0", u64::MAX, u64::MAX), "no wrap");
    }

    #[test]
    fn copies_go_only_to_servers_the_policy_names() {
        let text = format!(
            "{TEXT}\n[[client.allow]]\nserver = 'other:1'\ncard = 'far'\nbytes = 64\n\
             access = 'write'"
        );
        let guard = Guard::Keys(policy(&text).expect("it is right"));
        let why = |guard: &Guard, server: &str, card: &str, address, has_key| {
            let peer = PeerTarget { server: server.to_owned(), card: card.to_owned(), address };
            let request = TransferRequest::new(Path::ToPeer, "fpga0", 0, 64);
            let request = TransferRequest { peer: Some(peer), ..request };
            let checked = guard.check("rnode", &request, has_key, false);
            checked.map_err(|error| error.why.to_string()).err()
        };
        assert_eq!(why(&guard, "other:1", "far", 0, true), None);
        let named = Some(
            "rnode may not copy 64 B to 0x1 of far at other:1: the policy has to name that server"
                .to_owned(),
        );
        assert_eq!(why(&guard, "other:1", "far", 1, true), named);
        assert!(why(&guard, "other:22", "far", 0, true).is_some());
        assert!(why(&guard, "127.0.0.1:22", "far", 0, true).is_some());
        assert!(why(&guard, "other:1", "fpga0", 0, true).is_some());
        let beyond = "copies to other:1, beyond this machine, need";
        let unnamed = why(&Guard::Open, "other:1", "far", 0, true);
        assert_eq!(unnamed, Some(format!("{beyond} a policy file that names it")));
        let keyless = why(&guard, "other:1", "far", 0, false);
        assert_eq!(keyless, Some(format!("{beyond} a key or a certificate of this server")));
        assert_eq!(why(&Guard::Open, "127.0.0.1:22", "far", 0, false), None);
        // A right at the other server is none at this one.
        let Guard::Keys(policy) = &guard else { unreachable!("it has keys") };
        let own = TransferRequest::new(Path::ToFpga, "far", 0, 64);
        assert!(policy.check("rnode", &own).is_err());
    }

    #[test]
    fn copies_within_the_node_need_both_rights_here() {
        let guard = Guard::Keys(policy(TEXT).expect("it is right"));
        let may = |from: (&str, u64), to: (&str, u64)| {
            let server = String::new();
            let peer = PeerTarget { server, card: to.0.to_owned(), address: to.1 };
            let request = TransferRequest::new(Path::WithinNode, from.0, from.1, 0x100);
            let request = TransferRequest { peer: Some(peer), ..request };
            // Without a key for other servers: none is asked.
            guard.check("rnode", &request, false, false).map_err(|error| error.why.to_string())
        };
        assert_eq!(may(("fpga0", 0), ("fpga0", 0x1000)), Ok(()));
        let refused = "rnode may not write 256 B from 0x0 on of fpga0";
        assert_eq!(may(("fpga0", 0x1000), ("fpga0", 0)), Err(refused.to_owned()));
        assert!(may(("fpga0", 0x1000), ("fpga1", 0)).is_err(), "its stream is no memory");
        assert!(may(("fpga1", 0), ("fpga0", 0x1000)).is_err());
    }

    #[test]
    fn a_name_that_is_not_known_has_a_key_that_nobody_has() {
        let policy = policy(TEXT).expect("it is right");
        for (name, byte) in [("rnode", 1), ("other", 9), ("", 9)] {
            let key = Some(Key::new([byte; 32]));
            assert_eq!(policy.admit(name, &[]), Ok(Admitted { name: name.to_owned(), key }));
        }
    }

    #[test]
    fn a_certificate_is_the_name_that_a_client_has() {
        let text = format!(
            "{TEXT}\n[[client]]\nname = 'one'\ncertificate = 'One.example'\n\
             [[client]]\nname = 'two'\ncertificate = 'spiffe://lab/Two'\n"
        );
        let policy = policy(&text).expect("it is right");
        assert_eq!(policy.with_certificate(), Some("one"));
        assert_eq!(policy.keys().count(), 1);
        let admit = |name: &str, proven: &[&str]| {
            let proven: Vec<String> = proven.iter().map(|name| (*name).to_owned()).collect();
            let admitted = policy.admit(name, &proven).map_err(|error| error.why.to_string());
            admitted.map(|Admitted { name, key }| (name, key))
        };
        let is = |name: &str| Ok((name.to_owned(), None));
        // By its own name, or by the first one that the certificate is of.
        assert_eq!(admit("one", &["one.example"]), is("one"));
        assert_eq!(admit("", &["other.example", "ONE.example"]), is("one"));
        assert_eq!(admit("two", &["one.example", "spiffe://lab/Two"]), is("two"));
        let other = "a certificate for one.example is not that of two in the policy";
        assert_eq!(admit("two", &["one.example"]), Err(other.to_owned()));
        let none = "a certificate for a.example, b is that of no client in the policy";
        assert_eq!(admit("", &["a.example", "b"]), Err(none.to_owned()));
        assert!(admit("", &["spiffe://lab/two"]).is_err(), "URIs have case");
        assert!(admit("nobody", &["one.example"]).is_err());
        // Without a certificate there is no difference to a name that is not known.
        let decoy = Some(Key::new([9; 32]));
        for name in ["one", "nobody", ""] {
            assert_eq!(admit(name, &[]), Ok((name.to_owned(), decoy.clone())));
        }
        let open = Guard::Open.admit("rnode", &["one.example".to_owned()]);
        assert_eq!(open.map(|admitted| admitted.name), Ok("one.example".to_owned()));
        // A client with a key shows it, whatever certificate it has.
        let key = Some(Key::new([1; 32]));
        assert_eq!(admit("rnode", &["one.example"]), Ok(("rnode".to_owned(), key)));
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_said_with_its_place() {
        let why = |text: &str| policy(text).expect_err("it is wrong").why.to_string();
        assert!(why("[[client]]\nname = 3").contains("policy.toml: TOML parse error at line 2"));
        let client = |rest: &str| why(&format!("[[client]]\nname = 'a'\n{rest}"));
        assert_eq!(client(""), "policy.toml: client a: needs one of key, key_file and certificate");
        let both = client("key_file = 'k'\ncertificate = 'a'");
        assert_eq!(both, "policy.toml: client a: needs one of key, key_file and certificate");
        let none = client("certificate = ''");
        assert_eq!(none, "policy.toml: client a: a certificate without a name");
        assert!(client("key = '00'").starts_with("policy.toml: client a: a key is 64"));
        let with = |allow: &str| client(&format!("key_file = 'k'\n[[client.allow]]\n{allow}"));
        assert_eq!(
            with("card = 'c'\naccess = 'read'"),
            "policy.toml: client a: access to c needs bytes, how many of its memory"
        );
        assert_eq!(
            with("card = 'c'\naccess = 'stream'\nfrom = 1"),
            "policy.toml: client a: the stream of a card has no range"
        );
        assert_eq!(
            with("server = 's:1'\ncard = 'c'\nbytes = 1\naccess = 'read-write'"),
            "policy.toml: client a: c at s:1 can only be written, by copies to it"
        );
    }

    #[test]
    fn loopback_is_what_the_addresses_say() {
        for yes in ["127.0.0.1:7471", "localhost:1", "[::1]:7471", "127.8.9.1:0"] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in ["0.0.0.0:7471", "10.0.0.1:1", "node:7471", "[::]:1", "localhost.example:1"] {
            assert!(!is_loopback(no), "{no}");
        }
    }
}
