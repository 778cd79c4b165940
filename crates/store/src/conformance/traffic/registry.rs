//! Traffic of the registry: clients, portals, nodes, notices and operations.

use std::collections::BTreeSet;

use base::{ClientId, EntityId, Incarnation};
use records::{
    Client, Notice, NoticeKey, NoticeKind, NoticePost, Op, Operation, OperationAction, OperationCounts,
    OperationError, OperationState, OperationStatus, PeerNode, PortalRights, PortalToken, PreviousSecret,
    TokenDigest,
};

use super::{CLIENTS, Traffic};
use crate::conformance::streams::node;

/// What a registry has.
#[derive(Clone, Debug, Default)]
pub(super) struct InRegistry {
    last_number: u32,
    portals: Vec<Incarnation>,
    nodes: BTreeSet<Box<str>>,
    notices: Vec<NoticeKey>,
    posts: Vec<(Incarnation, NoticeKey)>,
    operations: Vec<EntityId>,
}

impl Traffic {
    /// Notices that were made and are there.
    #[must_use]
    pub fn notices(&self) -> &[NoticeKey] {
        &self.in_registry.notices
    }

    /// Operations that are there.
    #[must_use]
    pub fn operations(&self) -> &[EntityId] {
        &self.in_registry.operations
    }

    pub(super) fn registry(&mut self, ops: &mut Vec<Op>) {
        match self.below(24) {
            0..=5 => self.client(ops),
            6 => self.put_portal(ops),
            7 => self.delete_portal(ops),
            8..=9 => self.put_notice(ops),
            10 => self.delete_notice(ops),
            11 => self.put_notice_post(ops),
            12 => self.delete_notice_post(ops),
            13..=14 => self.put_operation(ops),
            15 => self.delete_operation(ops),
            16..=17 => self.change_of_nodes(ops),
            _ => self.change_of_rollouts(ops),
        }
    }

    fn client(&mut self, ops: &mut Vec<Op>) {
        let Some(id) = ClientId::new(&format!("client-{}", self.below(20))) else { return };
        if self.below(4) == 0 {
            ops.push(Op::DeleteClient(id));
            return;
        }
        self.head.next_incarnation += 1;
        ops.push(Op::PutClient(Box::new(Client {
            id,
            incarnation: Incarnation(self.head.next_incarnation),
            name: "Ворота".to_owned(),
            url: "https://example.org/hook".to_owned(),
            secret: self.random.next_u64().to_le_bytes().to_vec(),
            previous_secret: self.maybe(|traffic| PreviousSecret {
                secret: traffic.random.next_u64().to_le_bytes().to_vec(),
                until: traffic.head.now,
            }),
            enabled: self.below(2) == 0,
            notices: self.below(2) == 0,
            created_at: self.head.now,
        })));
    }

    pub(super) fn incarnation(&mut self) -> Incarnation {
        self.head.next_incarnation += 1;
        Incarnation(self.head.next_incarnation)
    }

    fn put_portal(&mut self, ops: &mut Vec<Op>) {
        let client = 1 + self.below(CLIENTS);
        let Some(client_id) = ClientId::new(&format!("client-{client}")) else { return };
        let id = self.incarnation();
        self.in_registry.portals.push(id);
        ops.push(Op::PutPortalToken(Box::new(PortalToken {
            id,
            client: Incarnation(client),
            client_id,
            digest: TokenDigest([self.below(256) as u8; 32]),
            may: PortalRights { read: true, retry: self.below(2) == 0, url: self.below(2) == 0 },
            created_at: self.head.now,
            expires_at: self.some_ts(),
            by: self.maybe(|_| "ops".into()),
        })));
    }

    fn delete_portal(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.in_registry.portals);
        ops.extend(gone.map(Op::DeletePortalToken));
    }

    /// A node is put, put again with other contents, or deleted.
    fn change_of_nodes(&mut self, ops: &mut Vec<Op>) {
        let name: Box<str> = format!("node{}", self.below(5)).into();
        if self.in_registry.nodes.remove(&name) && self.below(2) == 0 {
            ops.push(Op::DeletePeerNode(name));
            return;
        }
        let token = self.maybe(|_| "secret");
        let one = PeerNode { created_at: self.head.now, ..node(&name, token) };
        ops.push(Op::PutPeerNode(Box::new(one)));
        self.in_registry.nodes.insert(name);
    }

    /// An id of something of the registry's own, which nothing else has.
    fn id_of_registry(&mut self) -> EntityId {
        self.in_registry.last_number += 1;
        let number = self.in_registry.last_number;
        EntityId { routing: 0, at: self.head.now, number, tag: u64::from(number) }
    }

    fn put_notice(&mut self, ops: &mut Vec<Op>) {
        let id = self.id_of_registry();
        self.in_registry.notices.push(id.into());
        ops.push(Op::PutNotice(Box::new(Notice {
            id,
            kind: NoticeKind::ALL[self.below(9) as usize],
            subject: format!("queue a/{}", self.below(5)).into(),
            detail: format!("{{\"ready\":{}}}", self.below(100)).into(),
        })));
    }

    fn delete_notice(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.in_registry.notices);
        ops.extend(gone.map(Op::DeleteNotice));
    }

    fn put_notice_post(&mut self, ops: &mut Vec<Op>) {
        let Some(notice) = self.pick(&self.in_registry.notices.clone()) else { return };
        let client = Incarnation(1 + self.below(CLIENTS));
        if !self.in_registry.posts.contains(&(client, notice)) {
            self.in_registry.posts.push((client, notice));
        }
        let (attempts, due_at) = (self.below(10) as u32, self.some_ts());
        ops.push(Op::PutNoticePost(NoticePost { client, notice, attempts, due_at }));
    }

    fn delete_notice_post(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.in_registry.posts);
        ops.extend(gone.map(|(client, notice)| Op::DeleteNoticePost(client, notice)));
    }

    /// An operation begins, or goes on.
    fn put_operation(&mut self, ops: &mut Vec<Op>) {
        let again = self.pick(&self.in_registry.operations.clone()).filter(|_| self.random.below(3) > 0);
        let id = again.unwrap_or_else(|| {
            let id = self.id_of_registry();
            self.in_registry.operations.push(id);
            ops.push(Op::PutOperation(Box::new(self.operation(id))));
            id
        });
        ops.push(Op::PutOperationState(Box::new(self.operation_state(id))));
    }

    fn operation(&mut self, id: EntityId) -> Operation {
        Operation {
            id,
            action: OperationAction::ALL[self.below(13) as usize],
            filter: "{\"label.site\":\"Москва\"}".into(),
            arguments: "{}".into(),
            rate: 1 + self.below(1_000) as u32,
            by: self.maybe(|_| "ops".into()),
            scopes: (0..self.below(3)).map(|n| format!("jobs:shop{n}").into()).collect(),
            created_at: self.head.now,
            until: self.some_ts(),
        }
    }

    fn operation_state(&mut self, id: EntityId) -> OperationState {
        let mut count = || self.random.below(1_000);
        let counts = OperationCounts { matched: count(), done: count(), refused: count(), skipped: count() };
        let error = |_: &mut Self| {
            let (code, detail, subject) = ("unknown_device".into(), "gone".into(), "dev1".into());
            Box::new(OperationError { code, detail, subject })
        };
        OperationState {
            id,
            status: OperationStatus::ALL[self.below(4) as usize],
            chunk: (0..self.below(4)).map(|row| format!("dev{row}").into()).collect(),
            next: self.maybe(|traffic| traffic.random.next_u64().to_le_bytes().into()),
            next_at: self.some_ts(),
            counts,
            ended_at: self.maybe(Self::some_ts),
            last_error: self.maybe(error),
        }
    }

    fn delete_operation(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.in_registry.operations);
        ops.extend(gone.map(Op::DeleteOperation));
    }
}
