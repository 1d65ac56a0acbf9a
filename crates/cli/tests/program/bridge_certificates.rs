// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers and clients that know each other by certificates.

use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::bridge::{MIB, Server, assert_same, client, file, folder, program, succeed, write_key};
use crate::run::Run;

/// An authority, whose files are in a folder.
struct Authority {
    folder: PathBuf,
    name: &'static str,
    issuer: Issuer<'static, KeyPair>,
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("text").to_owned()
}

impl Authority {
    fn new(folder: &Path, name: &'static str) -> Self {
        let mut parameters = CertificateParams::new([]).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let own = parameters.self_signed(&key).expect("its certificate");
        std::fs::write(path(folder, &format!("{name}.pem")), own.pem()).expect("it is written");
        Self { folder: folder.to_owned(), name, issuer: Issuer::new(parameters, key) }
    }

    /// Signs a certificate of these names; returns the arguments that use it.
    fn sign(&self, names: &[&str]) -> String {
        let file = path(&self.folder, names[0]);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let parameters = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let signed = parameters.signed_by(&key, &self.issuer).expect("it is signed");
        std::fs::write(format!("{file}.pem"), signed.pem()).expect("it is written");
        write_key(&format!("{file}.key"), &key.serialize_pem());
        let trusted = path(&self.folder, &format!("{}.pem", self.name));
        format!("--tls-cert {file}.pem --tls-key {file}.key --tls-ca {trusted}")
    }
}

const POLICY: &str = "
    [[client]]
    name = 'rnode'
    certificate = 'rnode.example'
    [[client.allow]]
    card = 'fpga0'
    bytes = 0x400000
    access = 'read-write'

    [[client]]
    name = 'reader'
    certificate = 'spiffe://lab/reader'
    [[client.allow]]
    card = 'fpga0'
    bytes = 0x1000
    access = 'read'

    [[client]]
    name = 'old'
    key_file = 'old.key'
    [[client.allow]]
    card = 'fpga0'
    bytes = 0x100000
    access = 'read'
    ";

fn serve(folder: &Path, arguments: &str) -> Server {
    serve_by(folder, POLICY, arguments)
}

fn serve_by(folder: &Path, text: &str, arguments: &str) -> Server {
    let policy = path(folder, "policy.toml");
    std::fs::write(&policy, text).expect("it is written");
    write_key(&path(folder, "old.key"), &Run::of(&mut client("key")).stdout);
    let arguments = format!("--device mem:4M --listen 127.0.0.1:0 --policy {policy} {arguments}");
    Server::with(Command::new(program()), &arguments)
}

/// Runs a client that is refused; its error.
#[track_caller]
fn refused(arguments: &str) -> String {
    let run = Run::of(&mut client(arguments));
    assert_eq!(run.code, 1, "{run:?}");
    run.stderr
}

#[test]
fn a_certificate_gives_the_rights_of_its_name() {
    let folder = folder("certificates");
    let authority = Authority::new(&folder, "ours");
    let server = serve(&folder, &authority.sign(&["node.example", "127.0.0.1", "localhost"]));
    let rnode = authority.sign(&["rnode.example"]);
    let (sent, back) = (file(&folder, "sent", 4 * MIB), path(&folder, "back"));
    let card = format!("{}/fpga0", server.address);
    // The network is tls without a word, and the name is the certificate's.
    let put = succeed(client(format!("put {sent} {card} {rnode}")));
    assert_eq!(put["network"], "tls, sealed");
    succeed(client(format!("get {card} {back} --bytes 4M --as rnode {rnode}")));
    assert_same(&sent, &back);
    let error = refused(&format!("put {sent} {card}:1 {rnode}"));
    assert!(error.contains("rnode may not write 4194304 B from 0x1 on of fpga0"), "{error}");
    // Another client of the authority has its own rights, also by a URI.
    let uri = rcgen::SanType::URI("spiffe://lab/reader".try_into().expect("a URI"));
    let mut parameters = CertificateParams::new([]).expect("no names");
    parameters.subject_alt_names = vec![uri];
    let key = KeyPair::generate().expect("a key");
    let signed = parameters.signed_by(&key, &authority.issuer).expect("it is signed");
    let reader = path(&folder, "reader");
    std::fs::write(format!("{reader}.pem"), signed.pem()).expect("it is written");
    write_key(&format!("{reader}.key"), &key.serialize_pem());
    let trusted = path(&folder, "ours.pem");
    let reader = format!("--tls-cert {reader}.pem --tls-key {reader}.key --tls-ca {trusted}");
    succeed(client(format!("get {card} {back} --bytes 4K {reader}")));
    let error = refused(&format!("put {sent} {card} {reader}"));
    assert!(error.contains("reader may not write"), "{error}");
    // Nobody has the name of another one, or comes without being named.
    let error = refused(&format!("put {sent} {card} --as rnode {reader} --retries 0"));
    let words = "a certificate for spiffe://lab/reader is not that of rnode in the policy";
    assert!(error.contains(words), "{error}");
    let unnamed = authority.sign(&["unnamed.example"]);
    let error = refused(&format!("put {sent} {card} {unnamed} --retries 0"));
    let words = "a certificate for unnamed.example is that of no client in the policy";
    assert!(error.contains(words), "{error}");
    let error = refused(&format!("put {sent} {card} --as old {unnamed} --retries 0"));
    assert!(error.contains("this client and this key do not fit"), "{error}");
    // Those who have a key still come by it, to their own rights.
    let old = format!("--network tls --as old --key {}", path(&folder, "old.key"));
    succeed(client(format!("get {card} {back} --bytes 1M {old}")));
    let error = refused(&format!("put {sent} {card} {old}"));
    assert!(error.contains("old may not write"), "{error}");
    let error =
        refused(&format!("put {sent} {card} {} --retries 0", old.replace("as old", "as rnode")));
    assert!(error.contains("this client and this key do not fit"), "{error}");
    let _ = std::fs::remove_dir_all(folder);
}

/// A server shows another one its own certificate, whose name that one's policy has.
#[test]
fn servers_copy_to_each_other_by_certificates() {
    let folder = folder("certificates-copy");
    let authority = Authority::new(&folder, "ours");
    let may = |name: &str, access: &str| {
        let right = format!("card = 'fpga0'\nbytes = 0x400000\naccess = '{access}'");
        format!("[[client]]\nname = '{name}'\ncertificate = '{name}'\n[[client.allow]]\n{right}\n")
    };
    let both = may("rnode.example", "read-write") + &may("one.example", "write");
    let other = authority.sign(&["other.example", "127.0.0.1"]);
    let other = serve_by(&folder, &both, &other);
    let to_other = format!(
        "[[client.allow]]\nserver = '{}'\ncard = 'fpga0'\nbytes = 0x400000\naccess = 'write'\n",
        other.address
    );
    let policy = may("rnode.example", "read-write") + &to_other;
    let one = serve_by(&folder, &policy, &authority.sign(&["one.example", "127.0.0.1"]));
    let stranger = authority.sign(&["third.example", "127.0.0.1"]);
    let third = serve_by(&folder, &policy, &stranger);
    let rnode = authority.sign(&["rnode.example"]);
    let (sent, back) = (file(&folder, "sent", MIB), path(&folder, "back"));
    let at = |server: &Server| format!("{}/fpga0", server.address);
    for server in [&one, &third] {
        succeed(client(format!("put {sent} {} {rnode}", at(server))));
    }
    succeed(client(format!("copy {} {}:64 --bytes 1M {rnode}", at(&one), at(&other))));
    succeed(client(format!("get {}:64 {back} --bytes 1M {rnode}", at(&other))));
    assert_same(&sent, &back);
    let copy = format!("copy {} {} --bytes 1M --retries 0 {rnode}", at(&third), at(&other));
    let error = refused(&copy);
    let words = "a certificate for third.example is that of no client in the policy";
    assert!(error.contains(words), "{error}");
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn certificates_that_cannot_be_used_are_refused() {
    let folder = folder("certificates-refused");
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let server = serve(&folder, &ours.sign(&["node.example", "127.0.0.1"]));
    let rnode = ours.sign(&["rnode.example"]);
    let card = format!("{}/fpga0", server.address);
    let get = format!("get {card} {} --bytes 1 --retries 0", path(&folder, "back"));
    // A stranger's own rnode.example.
    let stranger = theirs.sign(&["theirs.example"]);
    let error = refused(&format!("{get} {stranger}"));
    assert!(error.contains("no authority in ") && error.contains("theirs.pem"), "{error}");
    let trusting = stranger.replace("theirs.pem", "ours.pem");
    let error = refused(&format!("{get} {trusting}"));
    assert!(error.contains("trusts no authority that has signed "), "{error}");
    assert!(error.contains("theirs.example.pem"), "{error}");
    let by_name = get.replace("127.0.0.1", "localhost");
    let error = refused(&format!("{by_name} {rnode}"));
    assert!(error.contains("is for node.example, 127.0.0.1, not for localhost"), "{error}");
    let error = refused(&format!("{get} --network tls"));
    assert!(error.contains("takes no connection that is not sealed"), "{error}");
    // Faults of the command line and of the files.
    let wrong = |arguments: &str, code: i32| {
        let run = Run::of(&mut client(arguments));
        assert_eq!(run.code, code, "{run:?}");
        run.stderr
    };
    let error = wrong(&format!("{get} --network shm {rnode}"), 2);
    assert!(error.contains("--tls-cert: shm takes no certificates"), "{error}");
    let policy = path(&folder, "policy.toml");
    let error = wrong(&format!("serve --device mem:4M --policy {policy}"), 2);
    assert!(error.contains("client rnode has a certificate in the policy: --tls-cert"), "{error}");
    let exposed = path(&folder, "rnode.example.key");
    let others_read = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&exposed, others_read).expect("it is ours");
    let error = wrong(&format!("{get} {rnode}"), 1);
    assert!(error.contains(&format!("chmod 600 {exposed}")), "{error}");
    let _ = std::fs::remove_dir_all(folder);
}

/// An authority that nobody has trusted before takes the place of the first one.
#[test]
fn renewed_certificates_need_no_restart() {
    let folder = folder("certificates-renewed");
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let policy = path(&folder, "policy.toml");
    std::fs::write(&policy, POLICY).expect("it is written");
    write_key(&path(&folder, "old.key"), &Run::of(&mut client("key")).stdout);
    let node = ours.sign(&["node.example", "127.0.0.1"]);
    let log = path(&folder, "log");
    let mut command = Command::new(program());
    command.args(["bridge", "serve", "--device", "mem:4M", "--listen", "127.0.0.1:0"]);
    command.args(["--policy", &policy]).args(node.split(' '));
    let server = Server::start({
        command.stderr(std::fs::File::create(&log).expect("a log"));
        command
    });
    let get = format!("get {}/fpga0 {} --bytes 4K", server.address, path(&folder, "back"));
    succeed(client(format!("{get} {}", ours.sign(&["rnode.example"]))));
    let renewed = |name: &str, becomes: &str| {
        let (from, to) = (path(&folder, name), path(&folder, becomes));
        std::fs::rename(from, to).expect("both are in the folder");
    };
    theirs.sign(&["renewed.example", "127.0.0.1"]);
    renewed("renewed.example.pem", "node.example.pem");
    renewed("renewed.example.key", "node.example.key");
    let rnode = theirs.sign(&["rnode.example"]);
    std::fs::copy(path(&folder, "theirs.pem"), path(&folder, "ours.pem")).expect("a copy");
    succeed(client(format!("{get} {rnode}")));
    // A file that cannot be read changes nothing.
    std::fs::write(path(&folder, "node.example.pem"), "no certificate").expect("it is written");
    for _ in 0..2 {
        succeed(client(format!("{get} {rnode}")));
    }
    let log = std::fs::read_to_string(log).expect("a log");
    let told: Vec<&str> = log.lines().filter(|line| line.starts_with("certificates: ")).collect();
    let [read, stay] = told[..] else { panic!("{log}") };
    assert_eq!(read, "certificates: their files have changed, and were read");
    assert!(stay.starts_with("certificates: they stay as they were: "), "{stay}");
    assert!(stay.contains("node.example.pem: no certificate is in it"), "{stay}");
    let _ = std::fs::remove_dir_all(folder);
}
