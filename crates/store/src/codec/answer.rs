//! The stored form of an answer that a repeat gets.

use std::borrow::Cow;

use base::Timestamp;
use records::{AnswerKey, KeptAnswer};

use super::field::stored;
use super::key;
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    KeptAnswer, "a kept answer", version 1:
    key, at, body, answer
);

record!(
    KeptAnswer: Answers by (AnswerKey, Timestamp),
    key: |(answer, _)| key::answer(*answer),
    place: |answer| Cow::Owned((answer.key, answer.at)),
    indexes: [Index {
        table: Table::AnswersByTime,
        rows: |(answer, at), row| row(key::answer_at(*at, *answer), &[]),
        names: |row, _| key::answer_from_key(row).map(|(_, answer)| key::answer(answer)),
    }],
);
