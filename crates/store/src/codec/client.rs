//! The stored form of a client.

use std::borrow::Cow;

use base::ClientId;
use records::Client;

use super::field::stored;
use super::key;
use crate::record::record;

stored!(
    Client, "a client", version 1:
    id, incarnation, name, url, secret, previous_secret, enabled, created_at
);

record!(
    Client: Clients by ClientId,
    key: |id| key::client(id),
    place: |client| Cow::Borrowed(&client.id),
);
