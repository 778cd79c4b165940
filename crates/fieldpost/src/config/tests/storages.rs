//! Storages of blocks: what each kind needs, and that a secret is never told.

use super::super::storages::HiddenUrl;
use super::*;

#[test]
fn each_kind_has_its_settings() {
    let file = "[[storages]]\nname = \"cold\"\nkind = \"disk\"\npath = \"/mnt/big\"\n\
         [[storages]]\nname = \"bucket\"\nkind = \"s3\"\nurl = \"s3://blocks/of/this\"\nendpoint = \"http://127.0.0.1:9000\"\n\
         access_key = \"AKID\"\nsecret_key_file = \"/etc/secret\"\n\
         [[storages]]\nname = \"table\"\nkind = \"postgres\"\nurl = \"postgres://u:p@db/blocks\"\n";
    check(file, &[], |settings| {
        let entry = |name: &str, kind| StorageEntry { name: name.to_owned(), kind };
        let bucket = ::storages::S3Settings {
            url: "s3://blocks/of/this".to_owned(),
            endpoint: Some("http://127.0.0.1:9000".to_owned()),
            region: None,
            access_key: Some("AKID".to_owned()),
            secret_key: Some(String::new()),
        };
        let url = HiddenUrl("postgres://u:p@db/blocks".to_owned());
        settings.storages = vec![
            entry("cold", StorageEntryKind::Disk("/mnt/big".into())),
            entry("bucket", StorageEntryKind::S3(bucket, "/etc/secret".into())),
            entry("table", StorageEntryKind::Postgres(url, None)),
        ];
    });
}

#[test]
fn mistakes_in_storages_are_told_without_secrets() {
    for (entry, part) in [
        ("name = \"local\"\nkind = \"disk\"\npath = \"/mnt/big\"\n", "the data directory"),
        ("name = \"cold\"\nkind = \"tape\"\n", "storages.kind"),
        ("name = \"cold\"\nkind = \"disk\"\n", "storages.path: is missing"),
        ("name = \"cold\"\nkind = \"disk\"\npath = \"/mnt\"\nurl = \"x\"\n", "storages.url: unknown key"),
        (
            "name = \"b\"\nkind = \"s3\"\nurl = \"https://b\"\naccess_key = \"a\"\nsecret_key_file = \"f\"\n",
            "s3://BUCKET",
        ),
        (
            "name = \"b\"\nkind = \"s3\"\nurl = \"s3://b\"\naccess_key = \"a\"\n",
            "secret_key_file: is missing",
        ),
        ("name = \"t\"\nkind = \"postgres\"\nurl = \"mysql://u:hidden@db/b\"\n", "postgres://"),
    ] {
        let told = load(&format!("[[storages]]\n{entry}"), &[]).expect_err(entry).to_string();
        assert!(told.contains(part) && !told.contains("hidden@"), "{entry}: {told}");
    }
    let one = "[[storages]]\nname = \"cold\"\nkind = \"disk\"\npath = \"/mnt/big\"\n";
    let told = load(&one.repeat(2), &[]).expect_err("two of one name").to_string();
    assert!(told.contains("another storage"), "{told}");
}

#[test]
fn two_storages_in_one_place_are_refused_with_both_names() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("c/inner")).expect("is made");
    std::os::unix::fs::symlink(at("c"), at("link")).expect("is linked");
    let disk = |name: &str, path: &str| {
        format!("[[storages]]\nname = \"{name}\"\nkind = \"disk\"\npath = \"{}\"\n", at(path).display())
    };
    std::fs::write(at("secret"), "s\n").expect("is written");
    let bucket = |name: &str, url: &str| {
        format!(
            "[[storages]]\nname = \"{name}\"\nkind = \"s3\"\nurl = \"{url}\"\naccess_key = \"a\"\nsecret_key_file = \"{}\"\n",
            at("secret").display()
        )
    };
    let table = |name: &str, url: &str| {
        format!("[[storages]]\nname = \"{name}\"\nkind = \"postgres\"\nurl = \"{url}\"\n")
    };
    let load = |text: String| {
        std::fs::write(at("f.toml"), text).expect("is written");
        let settings = ServerSettings::load(Some(&at("f.toml")), [], Some(&at("data")), no_file);
        settings.map(drop).map_err(|errors| errors.to_string())
    };
    for (one, other) in [
        (disk("c", "c"), disk("d", "c")),
        (disk("c", "c"), disk("d", "link")),
        (disk("c", "c"), disk("d", "link/not/there")),
        (disk("c", "c/inner"), disk("d", "c")),
        (disk("c", "new"), disk("d", "new")),
        (bucket("c", "s3://b/p"), bucket("d", "s3://b/p/")),
        (table("c", "postgres://u@db/b"), table("d", "postgres://u@db/b")),
    ] {
        let told = load(format!("{one}{other}")).expect_err("one place");
        assert!(told.contains("storages") && told.contains("\"c\"") && told.contains("\"d\""), "{told}");
    }
    for (one, other) in [
        (disk("c", "c"), disk("d", "c2")),
        (disk("c", "data/c"), disk("d", "data/d")),
        (bucket("c", "s3://b/p"), bucket("d", "s3://b/q")),
        (table("c", "postgres://u@db/b"), table("d", "postgres://u@db/c")),
    ] {
        assert_eq!(load(format!("{one}{other}")), Ok(()));
    }
    let told = load(disk("c", "data")).expect_err("the data directory");
    assert!(told.contains("\"c\"") && told.contains("data directory"), "{told}");
}
