//! Certificates in files that come, change and break.

use std::fs;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;

/// A folder with a certificate in it.
struct Rig {
    folder: tempfile::TempDir,
    files: config::TlsSettings,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files =
            config::TlsSettings { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        Self { folder, files }
    }

    /// Puts a new pair in place that expires at the beginning of a year.
    fn write(&self, expires: i32) {
        let (cert, key) = pair(expires);
        fs::write(&self.files.cert, cert).expect("written");
        fs::write(&self.files.key, key).expect("written");
    }

    fn load(&self) -> Result<Certificate, String> {
        Certificate::load(&self.files).map_err(|unusable| format!("{}: {unusable}", unusable.key()))
    }

    /// Loading is refused, and says so.
    fn check_refused(&self, says: &str) {
        let told = self.load().map(|_| ()).expect_err("it cannot be used");
        let told = told.replace(&format!("{}/", self.folder.path().display()), "");
        assert!(told.starts_with(says), "{told}");
    }
}

fn pair(expires: i32) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.not_after = date_time_ymd(expires, 1, 1);
    (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
}

/// The beginning of a year, in seconds since 1970.
fn year(year: &str) -> i64 {
    Timestamp::parse(&format!("{year}-01-01T00:00:00Z")).expect("a time").0 / 1_000
}

fn loads(certificate: &Certificate, result: &'static str) -> u64 {
    certificate.metrics.loads.get_or_create(&Loaded { result }).get()
}

#[test]
fn a_certificate_is_served_until_its_files_change() {
    let rig = Rig::new();
    rig.write(2_040);
    let mut certificate = rig.load().expect("usable");
    let first = certificate.source().load_full();
    certificate.look(false);
    assert!(Arc::ptr_eq(&first, &certificate.source().load_full()), "nothing has changed");
    assert_eq!(certificate.metrics.expiry.get(), year("2040"));
    rig.write(2_041);
    certificate.look(false);
    assert!(!Arc::ptr_eq(&first, &certificate.source().load_full()));
    assert_eq!((certificate.metrics.expiry.get(), loads(&certificate, "served")), (year("2041"), 2));
}

#[test]
fn a_certificate_is_read_again_when_that_is_asked_for() {
    let rig = Rig::new();
    rig.write(2_040);
    let mut certificate = rig.load().expect("usable");
    certificate.look(true);
    assert_eq!(loads(&certificate, "served"), 2);
}

#[test]
fn a_certificate_that_cannot_be_used_leaves_the_one_before() {
    let rig = Rig::new();
    rig.write(2_040);
    let mut certificate = rig.load().expect("usable");
    let before = certificate.source().load_full();
    // The certificate is there already, its key not yet: so a renewal looks halfway.
    let (cert, key) = pair(2_041);
    fs::write(&rig.files.cert, cert).expect("written");
    certificate.look(false);
    certificate.look(false);
    assert!(Arc::ptr_eq(&before, &certificate.source().load_full()));
    assert_eq!(loads(&certificate, "refused"), 1, "told once for each change");
    fs::remove_file(&rig.files.key).expect("removed");
    certificate.look(false);
    assert_eq!((certificate.metrics.expiry.get(), loads(&certificate, "refused")), (year("2040"), 2));
    fs::write(&rig.files.key, key).expect("written");
    certificate.look(false);
    assert_eq!((certificate.metrics.expiry.get(), loads(&certificate, "served")), (year("2041"), 2));
}

#[test]
fn what_is_wrong_with_a_file_is_told_by_key_and_name() {
    let rig = Rig::new();
    rig.check_refused("tls.cert: cert.pem cannot be read: No such file");
    rig.write(2_040);
    let (other, _) = pair(2_040);
    let right = fs::read(&rig.files.cert).expect("read");
    for (cert, says) in [
        (&b"nothing"[..], "tls.cert: cert.pem has no certificate in PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "tls.cert: cert.pem is no X.509"),
        (other.as_bytes(), "tls.key: key.pem and the certificate cert.pem cannot be used together"),
    ] {
        fs::write(&rig.files.cert, cert).expect("written");
        rig.check_refused(says);
    }
    fs::write(&rig.files.key, &right).expect("written");
    fs::write(&rig.files.cert, right).expect("written");
    rig.check_refused("tls.key: key.pem has no private key in PEM");
}
