// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes that know each other by certificates.

use crate::support::authority::{Authority, BOTH, key_of};
use crate::support::{join, listener, run, tls};

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crosslane_host::{ErrorKind, RdmaConnection, RdmaListener, RdmaResult};
use crosslane_network::{Certificates, MachineClock, Network, Provider, SharedKey, Trust};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The error of a client of this trust with a server of that one.
fn refused(client: &Trust, server: &Trust) -> String {
    let server = tls(server);
    let listening = listener(&server.0);
    let error = join(&tls(client), &listening.address(), &listening).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    error.to_string()
}

#[test]
fn certificates_of_one_authority_join_nodes() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let server = tls(&authority.node(&["server.example", "127.0.0.1", "::1", "localhost"]));
    let client = tls(&authority.node(&["Client.example", "other.example"]));
    let listening = listener(&server.0);
    let port = listening.address().rsplit_once(':').unwrap().1.to_owned();
    for address in [listening.address(), format!("localhost:{port}")] {
        let (near, there) = join(&client, &address, &listening).unwrap();
        assert_eq!(there.proven_names(), ["client.example", "other.example"]);
        assert_eq!(near.proven_names(), ["server.example", "localhost"]);
        run("a word", async {
            near.send(b"a word").await.unwrap();
            assert_eq!(there.receive().await.unwrap(), b"a word");
        });
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let folder = folder();
    let ours = Authority::new(folder.path(), "ours");
    let theirs = Authority::new(folder.path(), "theirs");
    let server = ours.node(&["127.0.0.1"]);
    // A server that the client does not trust.
    let error = refused(&theirs.node(&["client.example"]), &server);
    assert!(error.contains("no authority in ") && error.contains("theirs.pem"), "{error}");
    // Nor one of the same name.
    let elsewhere = self::folder();
    let namesake = Authority::new(elsewhere.path(), "ours");
    let error = refused(&namesake.node(&["client.example"]), &server);
    assert!(error.contains("another one of the same name has signed it"), "{error}");
    // A client that the server does not trust, though it trusts the server.
    let stranger = theirs.sign(&["stranger.example"], |_| {});
    let stranger = Certificates::read(&stranger, &key_of(&stranger), &ours.file).unwrap();
    let stranger = Trust { certificates: Some(stranger), ..Trust::default() };
    let error = refused(&stranger, &server);
    assert!(error.contains("trusts no authority that has signed "), "{error}");
    assert!(error.contains("stranger.example.pem"), "{error}");
}

#[test]
fn who_shows_no_certificate_gets_no_connection() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let server = authority.node(&["127.0.0.1"]);
    let everybody = Trust { everybody: true, ..Trust::default() };
    let key = Trust { present: Some(SharedKey([5; 32])), ..Trust::default() };
    for (client, words) in
        [(&everybody, "not sealed"), (&Trust::default(), "not sealed"), (&key, "does not")]
    {
        let error = refused(client, &server);
        assert!(error.contains(words), "{client:?}: {error}");
    }
    let error = refused(&server, &Trust { accept: vec![SharedKey([5; 32])], ..Trust::default() });
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn a_server_has_to_have_the_name_that_is_asked_for() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let client = authority.node(&["client.example"]);
    let error = refused(&client, &authority.node(&["node.example", "10.0.0.1"]));
    let words = "the other end's certificate is for node.example, 10.0.0.1, not for 127.0.0.1";
    assert!(error.ends_with(words), "{error}");
    // A common name is no name.
    let common = authority.sign(&[], |it| {
        it.distinguished_name.push(rcgen::DnType::CommonName, "127.0.0.1");
    });
    let common = Some(authority.read(&common).unwrap());
    let error = refused(&client, &Trust { certificates: common, ..Trust::default() });
    assert!(error.contains("is for no host, not for 127.0.0.1"), "{error}");
}

#[test]
fn a_certificate_is_for_clients_or_servers() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let [for_server, for_client] = BOTH.map(|usage| {
        let name = format!("{usage:?}.example");
        let file = authority.sign(&[&name, "127.0.0.1"], |it| it.extended_key_usages = vec![usage]);
        Trust { certificates: Some(authority.read(&file).unwrap()), ..Trust::default() }
    });
    let error = refused(&for_client, &for_client);
    assert!(error.contains("another purpose (extended key usage)"), "{error}");
    let error = refused(&for_server, &for_server);
    assert!(error.contains("the other end refuses ") && error.contains("ServerAuth"), "{error}");
    let server = tls(&for_server);
    let listening = listener(&server.0);
    join(&tls(&for_client), &listening.address(), &listening).unwrap();
}

/// Neither end starts with a certificate that has expired; one that expires later is refused by the
/// other end, whose clock here says that it has.
#[test]
fn certificates_that_have_expired_are_refused() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let expired = authority.sign(&["old.example", "127.0.0.1"], Authority::expire);
    let error = authority.read(&expired).unwrap_err().to_string();
    assert!(error.contains("old.example.pem: the certificate expired 9"), "{error}");
    assert!(error.ends_with(" days ago"), "{error}");
    let future = authority.sign(&["new.example"], |it| {
        it.not_before = rcgen::date_time_ymd(4000, 1, 1);
    });
    let error = authority.read(&future).unwrap_err().to_string();
    assert!(error.contains("new.example.pem: the certificate is valid only in "), "{error}");
}

/// A server that knows clients by keys and by certificates takes each by its own.
#[test]
fn keys_and_certificates_at_one_server() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let keys = [SharedKey([1; 32]), SharedKey([2; 32])];
    let by_both = Trust { accept: keys.to_vec(), ..authority.node(&["127.0.0.1"]) };
    let server = tls(&by_both);
    let listening = listener(&server.0);
    let by_key = |byte| Trust { present: Some(SharedKey([byte; 32])), ..Trust::default() };
    let clients = [
        (authority.node(&["a.example"]), vec!["a.example"]),
        (by_key(1), vec![]),
        (authority.node(&["b.example"]), vec!["b.example"]),
        (by_key(2), vec![]),
    ];
    for (client, names) in clients {
        let (_near, there) = join(&tls(&client), &listening.address(), &listening).unwrap();
        assert_eq!(there.proven_names(), names);
    }
    let error = refused(&by_key(3), &by_both);
    assert!(error.contains("it does not know this key"), "{error}");
}

#[test]
fn files_of_certificates_that_cannot_be_used() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let own = authority.sign(&["one.example"], |_| {});
    let other = authority.sign(&["other.example"], |_| {});
    let (key, ca) = (key_of(&own), authority.file.clone());
    let why = |own: &Path, key: &Path, ca: &Path| {
        Certificates::read(own, key, ca).unwrap_err().to_string()
    };
    let missing = folder.path().join("missing");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    std::fs::set_permissions(&empty, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = std::fs::read_to_string(&ca).unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, text.replace("END", "AND")).unwrap();
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    for (why, words) in [
        (why(&missing, &key, &ca), "missing cannot be read: "),
        (why(&own, &missing, &ca), "missing cannot be read: "),
        (why(&own, &key, &missing), "missing cannot be read: "),
        (why(&empty, &key, &ca), "empty: no certificate is in it"),
        (why(&own, &empty, &ca), "empty: no private key is in it"),
        (why(&own, &key, &empty), "empty: no certificate is in it"),
        (why(&key, &key, &ca), "one.example.key: no certificate is in it"),
        (why(&broken, &key, &ca), "broken: it is not PEM: "),
        (why(&wrong, &key, &ca), "wrong: no certificate: "),
        (why(&own, &key, &wrong), "wrong: certificate 1: "),
        (why(&own, &key_of(&other), &ca), "other.example.key: it is not the key of "),
        (why(folder.path(), &key, &ca), " cannot be read: "),
        (why(Path::new("/dev/zero"), &key, &ca), "/dev/zero: more than 1048576 B"),
    ] {
        assert!(why.starts_with("tls cannot be used: ") && why.contains(words), "{words}: {why}");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = Certificates::read(&own, &key, &ca).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("(mode 640): chmod 600 "), "{error}");
}

#[test]
fn a_client_has_a_key_or_all_of_its_certificates() {
    let folder = folder();
    let authority = Authority::new(folder.path(), "ours");
    let own = authority.sign(&["client.example"], |_| {});
    let key = key_of(&own);
    let all = [Some(own.as_path()), Some(key.as_path()), Some(authority.file.as_path())];
    let trust = Trust::of_client(None, all, false).unwrap();
    let network = |provider| {
        let opened = Network::open_for("127.0.0.1:7471", provider, &MachineClock::new(), &trust);
        opened.map(|network| network.provider()).map_err(|error| error.to_string())
    };
    // Without certificates it is shared memory, where that can be used.
    assert_eq!(network(None), Ok(Provider::Tls));
    assert_eq!(network(Some(Provider::Tls)), Ok(Provider::Tls));
    let words = "shm cannot be used: it takes no certificates, which are for tls";
    assert_eq!(network(Some(Provider::Shm)).unwrap_err(), words);
    // Beyond this machine tcp is for those who trust its network.
    let tcp = |trust: &Trust| {
        let far =
            Network::open_for("192.0.2.1:7471", Some(Provider::Tcp), &MachineClock::new(), trust);
        far.map(|_| ()).map_err(|error| (error.kind(), error.to_string()))
    };
    let (kind, why) = tcp(&Trust::default()).unwrap_err();
    assert_eq!(kind, ErrorKind::Denied);
    assert!(why.starts_with("tcp cannot be used: beyond this machine it is for networks"), "{why}");
    // Without libfabric, another error.
    let trusted = tcp(&Trust { everybody: true, ..Trust::default() });
    assert!(!trusted.is_err_and(|(kind, _)| kind == ErrorKind::Denied));
    let shared = Some(SharedKey([5; 32]));
    assert!(Trust::of_client(shared.clone(), [None; 3], true).unwrap().certificates.is_none());
    let missing = "is missing: certificates need tls_cert, tls_key and tls_ca";
    for (present, files, everybody, words) in [
        (shared, all, false, "certificates and a key: give one of the two"),
        (None, all, true, "certificates and a network that is trusted"),
        (None, [all[0], None, all[2]], false, &format!("tls_key {missing}")),
        (None, [None, all[1], None], false, &format!("tls_cert, tls_ca {missing}")),
    ] {
        let error = Trust::of_client(present, files, everybody).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A server's certificate, and the authorities that it trusts, change while it listens.
#[test]
fn files_that_change_are_read_for_new_connections() {
    let folder = folder();
    let ours = Authority::new(folder.path(), "ours");
    let file = ours.sign(&["127.0.0.1"], |_| {});
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = {
        let told = told.clone();
        move |outcome: RdmaResult<()>| {
            told.lock().unwrap().push(outcome.err().map(|error| error.to_string()));
        }
    };
    let certificates = ours.read(&file).unwrap();
    certificates.follow(tell);
    let server = tls(&Trust { certificates: Some(certificates), ..Trust::default() });
    let listening = listener(&server.0);
    let old = tls(&ours.node(&["client.example"]));
    let (near, there) = join(&old, &listening.address(), &listening).unwrap();
    assert!(told.lock().unwrap().is_empty(), "nothing has changed");
    // Another authority, in the files of the first one.
    let elsewhere = self::folder();
    let theirs = Authority::new(elsewhere.path(), "theirs");
    let new = tls(&theirs.node(&["new.example"]));
    let renewed = theirs.sign(&["127.0.0.1"], |_| {});
    let replace = |from: &Path, to: &Path| {
        let beside = to.with_extension("new");
        std::fs::copy(from, &beside).unwrap();
        std::fs::rename(beside, to).unwrap();
    };
    // Half of them: a certificate without its key. What was read before stays.
    replace(&renewed, &file);
    join(&old, &listening.address(), &listening).unwrap();
    join(&old, &listening.address(), &listening).unwrap();
    let tried = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(tried.len(), 1, "a bad file is told once: {tried:?}");
    let words = format!("{} is not the key of", key_of(&file).display());
    let why = tried[0].clone().unwrap().replace(": it is", " is");
    assert!(why.contains(&words), "{why}");
    replace(&key_of(&renewed), &key_of(&file));
    replace(&theirs.file, &ours.file);
    let (_, joined) = join(&new, &listening.address(), &listening).unwrap();
    assert_eq!(joined.proven_names(), ["new.example"]);
    assert_eq!(*told.lock().unwrap(), [None]);
    let error = join(&old, &listening.address(), &listening).unwrap_err().to_string();
    assert!(error.contains("no authority in "), "{error}");
    // The connection of before goes on.
    run("a word", async {
        near.send(b"a word").await.unwrap();
        assert_eq!(there.receive().await.unwrap(), b"a word");
    });
    // A file that goes is a bad one, too.
    std::fs::remove_file(&ours.file).unwrap();
    join(&new, &listening.address(), &listening).unwrap();
    let told = told.lock().unwrap();
    assert!(told[1].as_ref().is_some_and(|why| why.contains("cannot be read")), "{told:?}");
}
