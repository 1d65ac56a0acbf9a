// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An authority that signs certificates for tests, into files of a folder.

use std::path::{Path, PathBuf};

use crosslane_host::RdmaResult;
use crosslane_network::{Certificates, Trust};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    pub file: PathBuf,
}

/// The two ends that a certificate may be used at.
pub const BOTH: [ExtendedKeyUsagePurpose; 2] =
    [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, parameters.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder: folder.to_owned(), issuer: Issuer::new(parameters, key), file }
    }

    /// Signs a certificate with these names, which anything else of it is of; returns its file.
    pub fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> PathBuf {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let file = format!("{}.pem", names.first().map_or("nobody", String::as_str));
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.extended_key_usages = BOTH.to_vec();
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.issuer).unwrap();
        let file = self.folder.join(file);
        std::fs::write(&file, signed.pem()).unwrap();
        write_private(&key_of(&file), &key.serialize_pem());
        file
    }

    /// Reads what [`sign`](Self::sign) wrote, as of a node that trusts this authority.
    pub fn read(&self, own: &Path) -> RdmaResult<Certificates> {
        Certificates::read(own, &key_of(own), &self.file)
    }

    /// The trust of a node of these names.
    pub fn node(&self, names: &[&str]) -> Trust {
        let certificates = self.read(&self.sign(names, |_| {})).unwrap();
        Trust { certificates: Some(certificates), ..Trust::default() }
    }

    /// The trust of a node whose certificate has expired since it began.
    pub fn expire(parameters: &mut CertificateParams) {
        parameters.not_before = date_time_ymd(2001, 1, 1);
        parameters.not_after = date_time_ymd(2002, 1, 1);
    }
}

/// The file with a certificate's key.
pub fn key_of(file: &Path) -> PathBuf {
    file.with_extension("key")
}

fn write_private(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}
