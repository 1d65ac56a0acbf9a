// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Strangers who speak TLS by a program of their own.

use crate::support::authority::{Authority, key_of};
use crate::support::{far, join, listener, run, tls};

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crosslane_host::{ErrorKind, Rdma, RdmaListener};
use crosslane_network::{SharedKey, Trust};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::Acceptor;
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};

/// Believes whoever answers.
#[derive(Debug)]
struct Anybody {
    raw_keys: bool,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw_keys
    }
}

fn certified(own: &Path) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_file_iter(own).unwrap().map(Result::unwrap).collect();
    (chain, PrivateKeyDer::from_pem_file(key_of(own)).unwrap())
}

/// A client that believes any server.
fn believing(
    raw_keys: bool,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody { raw_keys }))
}

/// Connects to a server by this name, sends a greeting of the stranger's own, and returns the alert
/// that ends it.
fn alert_to(config: ClientConfig, address: &str, name: &str) -> AlertDescription {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    let written = stream.write_all(&[1; 32]).and_then(|()| stream.read_exact(&mut [0; 32]));
    let error = written.expect_err("it is refused");
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(alert)) => *alert,
        _ => panic!("no alert: {error}"),
    }
}

#[test]
fn clients_with_bad_certificates_are_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let theirs = Authority::new(folder.path(), "theirs");
    let server = tls(&ours.node(&["127.0.0.1"]));
    let listening = listener(&server.0);
    let with = |own: &Path| {
        let (chain, key) = certified(own);
        believing(false).with_client_auth_cert(chain, key).unwrap()
    };
    // Its own authority is no help, nor is to sign by oneself.
    let client = ours.sign(&["client.example"], |_| {});
    let by_itself = folder.path().join("self.pem");
    let alone = rcgen::generate_simple_self_signed(["client.example".to_owned()]).unwrap();
    std::fs::write(&by_itself, alone.cert.pem()).unwrap();
    std::fs::write(key_of(&by_itself), alone.signing_key.serialize_pem()).unwrap();
    let expired = ours.sign(&["expired.example"], Authority::expire);
    let strange = theirs.sign(&["stranger.example"], |_| {});
    let is_for = |config, alert| {
        assert_eq!(alert_to(config, &listening.address(), "127.0.0.1"), alert);
    };
    is_for(believing(false).with_no_client_auth(), AlertDescription::CertificateRequired);
    is_for(with(&expired), AlertDescription::CertificateExpired);
    is_for(with(&strange), AlertDescription::UnknownCA);
    is_for(with(&by_itself), AlertDescription::UnknownCA);
    // With a good one it is heard, and its greeting is none.
    let mut socket = TcpStream::connect(listening.address()).unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = ClientConnection::new(Arc::new(with(&client)), name).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(&[1; 32]).unwrap();
    let error = stream.read_exact(&mut [0; 32]).unwrap_err();
    assert!(error.get_ref().is_none_or(|error| !error.is::<Error>()), "no alert: {error}");
    // Others still come.
    let good = tls(&ours.node(&["good.example"]));
    join(&good, &listening.address(), &listening).unwrap();
}

#[test]
fn a_server_whose_certificate_expired_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let (network, clock) = tls(&ours.node(&["client.example"]));
    let (chain, key) = certified(&ours.sign(&["127.0.0.1"], Authority::expire));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut session = ServerConnection::new(Arc::new(config)).unwrap();
        let (mut socket, _) = socket.accept().unwrap();
        session.complete_io(&mut socket).unwrap_err()
    });
    let error = run("connecting", network.connect(&address, far(&clock))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let error = error.to_string();
    assert!(error.contains("the other end's certificate expired ") && error.ends_with("days ago"));
    let told = server.join().unwrap().to_string();
    assert!(told.contains("CertificateExpired"), "{told}");
}

/// The name of a key goes in the clear. Whoever has heard it has not the key.
#[test]
fn who_knows_a_keys_name_has_not_the_key() {
    let key = SharedKey([3; 32]);
    let with_key = Trust { present: Some(key.clone()), ..Trust::default() };
    let client = tls(&with_key);
    let listens = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listens.local_addr().unwrap().to_string();
    let deadline = client.1.after(Duration::from_millis(200));
    run("connecting", client.0.connect(&address, deadline)).unwrap_err();
    let (mut heard, _) = listens.accept().unwrap();
    let mut acceptor = Acceptor::default();
    let name = loop {
        assert_ne!(acceptor.read_tls(&mut heard).unwrap(), 0, "it ends");
        if let Some(asked) = acceptor.accept().map_err(|(error, _)| error).unwrap() {
            break asked.client_hello().server_name().unwrap().to_owned();
        }
    };
    let server = tls(&Trust { accept: vec![key], ..Trust::default() });
    let listening = listener(&server.0);
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let private = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
    let own = rustls::crypto::ring::sign::any_eddsa_type(match &private {
        PrivateKeyDer::Pkcs8(key) => key,
        _ => unreachable!("it is PKCS #8"),
    });
    let own = own.unwrap();
    let public = CertificateDer::from(own.public_key().unwrap().to_vec());
    let own = Arc::new(CertifiedKey::new(vec![public], own));
    let config = believing(true)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own)));
    let alert = alert_to(config, &listening.address(), &name);
    assert_eq!(alert, AlertDescription::UnknownCA);
    join(&client, &listening.address(), &listening).unwrap();
}
