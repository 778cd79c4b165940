//! Tokens of portals: what must be told of them.

use records::{PortalRights, PortalToken, TokenDigest};

use super::*;

const TOKEN: Incarnation = Incarnation(2);

fn owner() -> Client {
    Client { id: ClientId::new("owner").expect("an id"), incarnation: Incarnation(0), ..client() }
}

pub(super) fn everything() -> Vec<Op> {
    vec![Op::PutClient(Box::new(owner())), Op::PutPortalToken(Box::new(token()))]
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
fn a_token_that_outlived_its_client_is_told() {
    let directory = directory();
    change(directory.path(), |writer| {
        writer.table(Table::Clients)?.remove(PartitionId::REGISTRY, &key::client(&owner().id))
    });
    let (found, _) = check(directory.path());
    assert!(found.iter().any(|told| told.contains("its client, of incarnation 0, is missing")), "{found:?}");
}
