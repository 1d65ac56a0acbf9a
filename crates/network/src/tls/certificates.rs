// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identities from certificates (X.509): a node's own, with its private key, and those of the
//! authorities that it trusts.
//!
//! A server's certificate has to be for the name or address that the client connects to, and a
//! client's names are those of its certificate: host names and URIs of its subject alternative
//! names. A subject's common name is no name here, as in RFC 9525.
//!
//! Files that change are read anew for the next connection, if the node wants it: authorities
//! renew certificates often.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason, check_private, lock};
use rustls::client::{ClientConfig, Resumption, WebPkiServerVerifier};
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{AlertDescription, CertificateError, Error, RootCertStore};
use webpki::{EndEntityCert, KeyUsage};

use super::keys::cryptography;

/// Most bytes of a file with certificates that are read: some hundreds of them.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// The protocol inside, so that a service of another kind with a certificate of the same authority
/// takes no connection that was meant for this one (RFC 7301).
const PROTOCOL: &[u8] = b"crosslane";

/// A node's certificate with its private key, and the certificates of the authorities that it
/// trusts. Clones are the same.
#[derive(Clone)]
pub struct Certificates(Arc<Inner>);

struct Inner {
    files: Files,
    state: Mutex<State>,
}

struct State {
    current: Current,
    /// Hears of each time that changed files were read; without one they are read but once.
    tell: Option<Tell>,
}

type Tell = Box<dyn Fn(RdmaResult<()>) + Send + Sync>;

/// Paths of the files.
struct Files {
    own: PathBuf,
    key: PathBuf,
    trusted: PathBuf,
}

/// Content of the files, as it was read last.
#[derive(Clone)]
struct Current {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// State of the files before they were read.
    seen: [Option<FileState>; 3],
}

/// Identity, size and times of a file. A file that is replaced differs in one of these.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileState {
    node: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Files { own, trusted, .. } = &self.0.files;
        write!(f, "Certificates({}, trusts {})", own.display(), trusted.display())
    }
}

impl Files {
    fn states(&self) -> [Option<FileState>; 3] {
        [&self.own, &self.key, &self.trusted].map(|path| {
            let data = std::fs::metadata(path).ok()?;
            Some(FileState {
                node: (data.dev(), data.ino()),
                bytes: data.size(),
                modified: (data.mtime(), data.mtime_nsec()),
                changed: (data.ctime(), data.ctime_nsec()),
            })
        })
    }

    fn read(&self) -> RdmaResult<Current> {
        let seen = self.states();
        let Self { own, key, trusted } = self;
        let chain = certificates(own)?;
        is_valid_now(own, &chain[0])?;
        let private = PrivateKeyDer::from_pem_slice(&read(key, true)?);
        let private = private.map_err(|error| match error {
            PemError::NoItemsFound => {
                bad(key, "no private key is in it (PEM, not encrypted by a password)")
            }
            error => bad(key, format_args!("it is not PEM: {error}")),
        })?;
        let pair = any_supported_type(&private).map_err(|error| bad(key, error))?;
        let pair = CertifiedKey::new(chain, pair);
        let not_its = |_| bad(key, format_args!("it is not the key of {}", own.display()));
        pair.keys_match().map_err(not_its)?;
        let mut roots = RootCertStore::empty();
        for (number, certificate) in certificates(trusted)?.into_iter().enumerate() {
            let wrong = |error| bad(trusted, format_args!("certificate {}: {error}", number + 1));
            roots.add(certificate).map_err(wrong)?;
        }
        let (pair, roots) = (Arc::new(SingleCertAndKey::from(pair)), Arc::new(roots));
        let client = client(&pair, &roots).map_err(|error| bad(trusted, error))?;
        let server = server(pair, roots).map_err(|error| bad(trusted, error))?;
        Ok(Current { client, server, seen })
    }
}

/// The client's side of handshakes.
fn client(
    own: &Arc<SingleCertAndKey>,
    trusted: &Arc<RootCertStore>,
) -> Result<Arc<ClientConfig>, Error> {
    let verifier = WebPkiServerVerifier::builder_with_provider(trusted.clone(), cryptography());
    let verifier = verifier.build().map_err(|error| Error::General(error.to_string()))?;
    let mut config = ClientConfig::builder_with_provider(cryptography())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_webpki_verifier(verifier)
        .with_client_cert_resolver(own.clone());
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Each handshake looks at the certificates anew, also whether they have expired since.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The server's side of handshakes.
fn server(
    own: Arc<SingleCertAndKey>,
    trusted: Arc<RootCertStore>,
) -> Result<Arc<ServerConfig>, Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(trusted, cryptography());
    let verifier = verifier.build().map_err(|error| Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(cryptography())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(own);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// An error about a file.
fn unusable(kind: ErrorKind, why: String) -> RdmaError {
    RdmaError::Unusable { network: "tls".into(), why: Reason::new(kind, why) }
}

fn bad(path: &Path, why: impl fmt::Display) -> RdmaError {
    unusable(ErrorKind::InvalidArgument, format!("{}: {why}", path.display()))
}

/// Reads a file of PEM, of certificates or of a key.
fn read(path: &Path, is_key: bool) -> RdmaResult<Vec<u8>> {
    let unreadable = |error: std::io::Error| {
        unusable(error.kind().into(), format!("{} cannot be read: {error}", path.display()))
    };
    let file = File::open(path).map_err(unreadable)?;
    if is_key {
        let metadata = file.metadata().map_err(unreadable)?;
        check_private(path, &metadata).map_err(|why| unusable(ErrorKind::Denied, why))?;
    }
    let mut bytes = Vec::new();
    file.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > MOST_FILE_BYTES {
        true => Err(bad(path, format_args!("more than {MOST_FILE_BYTES} B"))),
        false => Ok(bytes),
    }
}

fn certificates(path: &Path) -> RdmaResult<Vec<CertificateDer<'static>>> {
    let bytes = read(path, false)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all.map_err(|error| bad(path, format_args!("it is not PEM: {error}")))? {
        none if none.is_empty() => {
            Err(bad(path, "no certificate is in it (PEM, -----BEGIN CERTIFICATE-----)"))
        }
        all => Ok(all),
    }
}

/// A time in words, as far as a reader wants to know it.
fn long(seconds: u64) -> String {
    match seconds {
        0..=7_199 => format!("{seconds} s"),
        7_200..=172_799 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

impl Certificates {
    /// Reads a node's certificate, with those between it and its authority behind it; its private
    /// key, which nobody but its owner may read; and the certificates of the authorities that are
    /// trusted. All are PEM.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`]: a file that cannot be read, that has not in it what it should, a
    /// key that others may read or that is of another certificate, and a certificate that has
    /// expired; all name the file.
    pub fn read(own: &Path, key: &Path, trusted: &Path) -> RdmaResult<Self> {
        let files = Files { own: own.into(), key: key.into(), trusted: trusted.into() };
        let state = Mutex::new(State { current: files.read()?, tell: None });
        Ok(Self(Arc::new(Inner { files, state })))
    }

    /// Has the files read anew for the next connection whenever one of them has changed; `tell`
    /// hears how that went. If it failed, new connections have what was read before. Connections
    /// that are open stay as they are.
    pub fn follow(&self, tell: impl Fn(RdmaResult<()>) + Send + Sync + 'static) {
        lock(&self.0.state).tell = Some(Box::new(tell));
    }

    /// Returns the content that new connections are made with.
    fn current(&self) -> Current {
        let Inner { files, state } = &*self.0;
        let State { current, tell } = &mut *lock(state);
        if let Some(tell) = tell {
            let states = files.states();
            if states != current.seen {
                // Each change is tried once.
                current.seen = states;
                tell(files.read().map(|read| *current = read));
            }
        }
        current.clone()
    }

    /// The client's side of a handshake that begins.
    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.current().client
    }

    /// The server's side of a handshake that begins.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.current().server
    }

    /// An error of a handshake in words, if it is about certificates.
    pub(super) fn words(&self, error: &Error) -> Option<String> {
        let Files { own, trusted, .. } = &self.0.files;
        let (own_file, trusted_file) = (own.display(), &trusted.display().to_string());
        Some(match error {
            Error::InvalidCertificate(error) => of_certificate(error, trusted_file),
            Error::AlertReceived(alert) => match alert {
                AlertDescription::UnknownCA => {
                    format!("the other end trusts no authority that has signed {own_file}")
                }
                AlertDescription::CertificateExpired => {
                    format!("the other end says that {own_file} has expired, or is not valid yet")
                }
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::DecryptError => {
                    format!("the other end refuses {own_file}: {alert:?}")
                }
                AlertDescription::AccessDenied
                | AlertDescription::HandshakeFailure
                | AlertDescription::NoApplicationProtocol
                | AlertDescription::UnrecognisedName => {
                    "the other end does not take certificates, or is no bridge".into()
                }
                _ => return None,
            },
            Error::PeerIncompatible(_) | Error::NoCertificatesPresented => {
                "the other end shows no certificate".into()
            }
            _ => return None,
        })
    }
}

/// The reason for which the other end's certificate is refused.
fn of_certificate(error: &CertificateError, trusted_file: &str) -> String {
    match error {
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            format!("the other end's certificate expired {} ago", long(ago))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let left = not_before.as_secs().saturating_sub(time.as_secs());
            format!("the other end's certificate is valid only in {}", long(left))
        }
        CertificateError::UnknownIssuer => {
            format!("no authority in {trusted_file} has signed the other end's certificate")
        }
        CertificateError::BadSignature => format!(
            "the other end's certificate names an authority of {trusted_file}, and another one of \
             the same name has signed it"
        ),
        CertificateError::NotValidForNameContext { expected, presented } => {
            // They come as DnsName("node") and IpAddress(10.0.0.1).
            let bare = |name: &String| {
                let bare = name.split_once('(').map_or("", |(_, rest)| rest);
                bare.trim_end_matches(')').trim_matches('"').to_owned()
            };
            let names: Vec<_> =
                presented.iter().map(bare).filter(|name| !name.is_empty()).collect();
            let names = if names.is_empty() { "no host".into() } else { names.join(", ") };
            let expected = expected.to_str();
            format!("the other end's certificate is for {names}, not for {expected}")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the other end's certificate is for another purpose (extended key usage)".into()
        }
        error => format!("the other end's certificate is refused: {error}"),
    }
}

/// Checks that a node's own certificate can be read and has not expired.
fn is_valid_now(path: &Path, certificate: &CertificateDer<'_>) -> RdmaResult<()> {
    let parsed = EndEntityCert::try_from(certificate);
    let parsed = parsed.map_err(|error| bad(path, format_args!("no certificate: {error}")))?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    // Nobody is trusted here: this finds what is wrong with the certificate alone.
    let (now, usage) = (UnixTime::now(), KeyUsage::client_auth());
    match parsed.verify_for_usage(algorithms, &[], &[], now, usage, None, None) {
        Err(webpki::Error::CertExpired { time, not_after }) => {
            let ago = long(time.as_secs().saturating_sub(not_after.as_secs()));
            Err(bad(path, format_args!("the certificate expired {ago} ago")))
        }
        Err(webpki::Error::CertNotValidYet { time, not_before }) => {
            let left = long(not_before.as_secs().saturating_sub(time.as_secs()));
            Err(bad(path, format_args!("the certificate is valid only in {left}")))
        }
        _ => Ok(()),
    }
}

/// The names of a certificate that has been verified.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let hosts = parsed.valid_dns_names().map(str::to_ascii_lowercase);
    hosts.chain(parsed.valid_uri_names().map(str::to_owned)).collect()
}

/// The name that the certificate of the server at an address, `HOST:PORT`, has to be for.
pub(super) fn server_name(address: &str) -> Result<ServerName<'static>, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    name.map_err(|_| format!("no certificate is for a name like {host}"))
}
