//! Operations: what must be told of them.

use records::{Operation, OperationAction, OperationCounts, OperationError, OperationState, OperationStatus};

use super::*;

fn id() -> EntityId {
    EntityId { routing: 0, at: Timestamp(5), number: 1, tag: 7 }
}

fn state() -> OperationState {
    OperationState {
        id: id(),
        status: OperationStatus::Running,
        chunk: vec!["0xA".into(), "0xB".into()],
        next: Some(Box::from(&b"0xB"[..])),
        next_at: Timestamp(9),
        counts: OperationCounts { matched: 7, done: 3, refused: 1, skipped: 1 },
        ended_at: None,
        last_error: Some(Box::new(OperationError {
            code: "too_many_links".into(),
            detail: "it has 100 links".into(),
            subject: "0xC".into(),
        })),
    }
}

pub(super) fn everything() -> Vec<Op> {
    let operation = Operation {
        id: id(),
        action: OperationAction::LinkDevice,
        filter: r#"{"kind":"lock"}"#.into(),
        arguments: r#"{"client":"acme"}"#.into(),
        rate: 100,
        by: Some("ops".into()),
        scopes: vec!["admin".into()],
        created_at: Timestamp(5),
        until: Timestamp(6),
    };
    vec![Op::PutOperation(Box::new(operation)), Op::PutOperationState(Box::new(state()))]
}

#[test]
fn what_operations_lack_is_told() {
    let wrong = OperationState { counts: OperationCounts { matched: 8, ..state().counts }, ..state() };
    for (table, row, expect) in [
        (Table::Operations, None, "its operation is missing"),
        (Table::OperationStates, None, "its row in operation_states is missing"),
        (Table::OperationStates, Some(wrong.to_row()), "7 of its rows had their turn, and 8 were found"),
    ] {
        let directory = directory();
        change(directory.path(), |writer| {
            let (mut rows, key) = (writer.table(table)?, key::operation(id()));
            assert!(rows.get(PartitionId::REGISTRY, &key)?.is_some(), "{table:?} has it");
            match &row {
                Some(row) => rows.put(PartitionId::REGISTRY, &key, row),
                None => rows.remove(PartitionId::REGISTRY, &key),
            }
        });
        let (found, _) = check(directory.path());
        assert!(found.iter().any(|text| text.contains(expect)), "{table:?}: {found:?}");
    }
}
