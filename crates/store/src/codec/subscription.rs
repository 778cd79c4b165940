//! The stored form of subscriptions.

use std::borrow::Cow;

use base::Incarnation;
use records::{StreamSubscription, SubscriptionPush};

use super::field::stored;
use super::key::{self, TableKey};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    StreamSubscription, "a subscription", version 1:
    stream, name, position, segments, push, created_at
);

stored!(
    SubscriptionPush, "where a subscription is pushed", version 1:
    url, max, secret
);

/// All by which a subscription is found.
#[derive(Clone, Debug)]
pub(crate) struct SubscriptionPlace {
    key: TableKey,
    is_pushed: bool,
}

impl SubscriptionPlace {
    /// In every list that it may be in.
    pub(crate) fn anywhere(stream: Incarnation, name: &str) -> Self {
        Self { key: key::subscription(stream, name), is_pushed: true }
    }

    /// Where a subscription is no more, if it was there.
    fn left_by(subscription: &StreamSubscription) -> impl Iterator<Item = (Table, TableKey)> {
        let key = || key::subscription(subscription.stream, &subscription.name);
        subscription.push.is_none().then(|| (Table::PushedSubscriptions, key())).into_iter()
    }
}

record!(
    StreamSubscription: Subscriptions by SubscriptionPlace,
    key: |place| place.key.clone(),
    place: |subscription| Cow::Owned(SubscriptionPlace {
        key: key::subscription(subscription.stream, &subscription.name),
        is_pushed: subscription.push.is_some(),
    }),
    left: |subscription| SubscriptionPlace::left_by(subscription),
    indexes: [Index {
        table: Table::PushedSubscriptions,
        rows: |place, row| {
            if place.is_pushed {
                row(place.key.clone(), &[]);
            }
        },
        names: |row, _| Ok(TableKey::from_slice(row)),
    }],
);
