// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identities from shared keys: both ends of a connection derive the same pairs of keys from the
//! key that they share, and show each other in TLS 1.3 that they have them.
//!
//! Each shared key gives two Ed25519 pairs, the client's and the server's, and a name. They go over
//! the wire as raw public keys (RFC 7250), the name as the server's name (SNI), so that a server of
//! many clients knows which key is meant. Whoever has not the shared key can neither make these
//! pairs nor tell which key a name belongs to.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ring::hkdf;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ClientConfig};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, CipherSuite, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, SignatureScheme,
};

/// PKCS #8 (RFC 8410) of an Ed25519 key, without its 32 bytes.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// End of the names of keys; before it are the digits of 16 B.
const SUFFIX: &str = ".crosslane";

/// Whether a server's name is that of a key.
pub fn is_of_key(name: &str) -> bool {
    let digits = name.strip_suffix(SUFFIX).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// A key that two nodes share: 256 random bits. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey(pub [u8; 32]);

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

/// The pairs of keys, and the name, that a shared key gives.
struct Identities {
    name: String,
    client: Arc<CertifiedKey>,
    server: Arc<CertifiedKey>,
}

impl Identities {
    fn of(key: &SharedKey) -> Result<Self, Error> {
        let derive = |what: &[u8]| {
            let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"crosslane tls 1");
            let (mut bytes, info) = ([0; 32], [what]);
            let derived = salt.extract(&key.0);
            let derived = derived.expand(&info, hkdf::HKDF_SHA256);
            let filled = derived.and_then(|derived| derived.fill(&mut bytes));
            filled.map(|()| bytes).map_err(|_| Error::General("no key can be derived".into()))
        };
        let name = format!("{}{SUFFIX}", crosslane_host::hex(&derive(b"name")?[..16]));
        Ok(Self { name, client: pair(derive(b"client")?)?, server: pair(derive(b"server")?)? })
    }
}

/// Makes the pair of keys of a seed.
fn pair(seed: [u8; 32]) -> Result<Arc<CertifiedKey>, Error> {
    let private = PrivatePkcs8KeyDer::from([&PKCS8[..], &seed].concat());
    let key = provider::sign::any_eddsa_type(&private)?;
    let public = key.public_key().ok_or(Error::General("a key without a public one".into()))?;
    let public = CertificateDer::from(public.to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// The public key that the other end has to show.
fn is_key(shown: &CertificateDer<'_>, expected: &CertifiedKey) -> bool {
    expected.cert.first().is_some_and(|expected| expected == shown)
}

/// The methods in which both verifiers are alike: signatures of the handshake by the raw public key
/// that was shown. TLS 1.2 is not spoken here.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(PeerIncompatible::Tls13RequiredForQuic))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = provider::default_provider().signature_verification_algorithms;
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// The client's side of a handshake with a shared key, and the name to ask for.
///
/// # Errors
/// A failure of the library.
pub fn client(key: &SharedKey) -> Result<(Arc<ClientConfig>, ServerName<'static>), Error> {
    let Identities { name, client, server } = Identities::of(key)?;
    let config = ClientConfig::builder_with_provider(cryptography())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TheServer(server)))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(client)));
    let name = ServerName::try_from(name).map_err(|error| Error::General(error.to_string()))?;
    Ok((Arc::new(config), name))
}

/// The server's side of handshakes with whoever has one of these keys.
///
/// # Errors
/// A failure of the library.
pub fn server(keys: &[SharedKey]) -> Result<Arc<ServerConfig>, Error> {
    let mut known = HashMap::new();
    for key in keys {
        let identities = Identities::of(key)?;
        known.insert(identities.name.clone(), identities);
    }
    let known = Arc::new(Known(known));
    let config = ServerConfig::builder_with_provider(cryptography())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(known.clone())
        .with_cert_resolver(known);
    Ok(Arc::new(config))
}

/// The library's algorithms, with AES-128 before AES-256: 128 bits are more than enough, and both
/// ends seal a quarter more in the same time.
pub fn cryptography() -> Arc<CryptoProvider> {
    let mut all = provider::default_provider();
    all.cipher_suites.sort_by_key(|suite| {
        let rank = [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS13_AES_256_GCM_SHA384];
        rank.iter().position(|first| *first == suite.suite()).unwrap_or(rank.len())
    });
    Arc::new(all)
}

/// The server that a client expects.
#[derive(Debug)]
struct TheServer(Arc<CertifiedKey>);

impl ServerCertVerifier for TheServer {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match is_key(shown, &self.0) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    signatures!();
}

/// The clients that a server knows, by the names of their keys.
struct Known(HashMap<String, Identities>);

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} keys)", self.0.len())
    }
}

impl ResolvesServerCert for Known {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.get(hello.server_name()?).map(|identities| identities.server.clone())
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.0.values().any(|identities| is_key(shown, &identities.client)) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    signatures!();
}
