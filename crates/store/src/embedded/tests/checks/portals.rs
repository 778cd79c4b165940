//! Tokens of portals, and notices on their way: what must be told of them.

use records::{Notice, NoticeKey, NoticeKind, NoticePost, PortalRights, PortalToken, TokenDigest};

use super::*;

const TOKEN: Incarnation = Incarnation(2);

fn owner() -> Client {
    Client { id: ClientId::new("owner").expect("an id"), incarnation: Incarnation(0), ..client() }
}

pub(super) fn everything() -> Vec<Op> {
    let notice = notice();
    let (client, at) = (owner().incarnation, notice.id.into());
    let post = NoticePost { client, notice: at, attempts: 1, due_at: Timestamp(7) };
    vec![
        Op::PutClient(Box::new(owner())),
        Op::PutPortalToken(Box::new(token())),
        Op::PutPeerNode(Box::new(crate::conformance::node("centre", Some("secret")))),
        Op::PutNotice(Box::new(notice)),
        Op::PutNoticePost(post),
    ]
}

fn notice() -> Notice {
    Notice { id: id(9), kind: NoticeKind::StorageLow, subject: "disk".into(), detail: "{}".into() }
}

fn token() -> PortalToken {
    PortalToken {
        id: TOKEN,
        client: owner().incarnation,
        client_id: owner().id,
        digest: TokenDigest([7; 32]),
        may: PortalRights { read: true, retry: false, url: true },
        created_at: Timestamp(5),
        expires_at: Timestamp(6),
        by: Some("ops".into()),
    }
}

#[test]
fn what_outlived_its_client_is_told() {
    let directory = directory();
    change(directory.path(), |writer| {
        writer.table(Table::Clients)?.remove(PartitionId::REGISTRY, &key::client(&owner().id))
    });
    let (found, _) = check(directory.path());
    let told = found.iter().filter(|told| told.contains("its client, of incarnation 0, is missing"));
    assert_eq!(told.count(), 2, "the token and the notice: {found:?}");
}

#[test]
fn what_only_the_registry_keeps_is_told_in_a_partition_of_devices() {
    let directory = directory();
    change(directory.path(), |writer| {
        writer.table(Table::Clients)?.put(PARTITION, &key::client(&owner().id), &owner().to_row())
    });
    let (found, _) = check(directory.path());
    assert!(found.len() == 1 && found[0].contains("such rows are not kept in this partition"), "{found:?}");
}

#[test]
fn a_record_that_no_rule_is_about_is_told_under_the_key_of_another() {
    let directory = directory();
    let elsewhere = NoticeKey { at: Timestamp(1), number: 1 };
    change(directory.path(), |writer| {
        writer.table(Table::Notices)?.put(
            PartitionId::REGISTRY,
            &key::feed_entry(elsewhere),
            &notice().to_row(),
        )
    });
    let (found, _) = check(directory.path());
    assert!(found.len() == 1 && found[0].contains("it stands under the key of another"), "{found:?}");
}
