//! The outbox relay inside the server.

use super::*;

#[test]
fn an_outbox_is_read() {
    let url = "postgres://me:s3cret@db/shop?sslmode=disable";
    let file = format!("[relay]\ndatabase = \"{url}\"\ntable = \"shop.Outbox\"\non_refused = \"hold\"");
    check(&file, &[], |settings| {
        settings.relay = RelaySettings {
            database: Some(::relay::DatabaseUrl::parse(url).expect("a URL")),
            table: ::relay::TableName::outbox("shop.Outbox").expect("a name"),
            on_refused: ::relay::OnRefused::Hold,
        };
    });
    let shown = format!("{:?}", load(&file, &[]).expect("right settings"));
    assert!(shown.contains("db:5432/shop") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_wrong_url_of_a_database_is_told_without_its_password() {
    for url in
        ["postgres://me:s3cret@db", "mysql://me:s3cret@db/shop", "postgres://me:s3cret@db/shop?sslmode=s"]
    {
        let told = load("", &[("FIELDPOST_RELAY__DATABASE", url)]).expect_err(url).to_string();
        assert!(told.contains("FIELDPOST_RELAY__DATABASE") && !told.contains("s3cret"), "{told}");
    }
    let told = load("relay.table = \"a.b.c\"", &[]).expect_err("no table").to_string();
    assert!(told.ends_with("write a table or schema.table, of at most 48 bytes"), "{told}");
}
