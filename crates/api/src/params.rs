//! Query parameters: each is asked for by name, and what nobody asked for is refused.
//!
//! So a misspelt filter is told and not taken for "all of them".

use std::fmt::Write;
use std::time::Duration;

use access::Caller;
use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use base::limits::{DEVICE_ID_CHARS_MAX, LABEL_KEY_CHARS_MAX, LABEL_VALUE_BYTES_MAX, PAGE_ITEMS_MAX};
use base::{ClientId, DeviceId, Problem, Timestamp, hash};
use engine::Engine;
use engine::fleet::Selection;
use engine::queues::QueueName;
use net::problem::{Refused, quoted};
use net::shares::SenderKey;

use crate::authorization::StandingRights;
use crate::compression;
use crate::cursor::{self, CursorKey};
use crate::page::{FeedQuery, ListForm, PageOf, TimeOrder};

/// Parameters that do not say which list it is, but which part of it.
const OF_THE_PAGE: [&str; 3] = ["limit", "cursor", "wait"];
/// Longest beginning of an id that is asked for, in characters.
const ID_PREFIX_CHARS_MAX: usize = DEVICE_ID_CHARS_MAX;
/// Longest part of a text that is looked for, in bytes.
pub(crate) const PART_BYTES_MAX: usize = 256;
/// How long a page may wait for its first item.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The parameters that were given and not yet taken.
#[derive(Debug)]
pub(crate) struct Params {
    given: Vec<(String, String)>,
    /// Of path and filters: what a cursor of this list is good for.
    fingerprint: u64,
    form: ListForm,
    tail: bool,
    gzip: bool,
    whose: SenderKey,
    rights: Option<StandingRights>,
    known: Vec<&'static str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let given = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(given) =
            given.map_err(|error| Problem::unreadable(format!("the query cannot be read: {error}")))?;
        let fingerprint = fingerprint(parts.uri.path(), &given);
        let (form, gzip) = (ListForm::accepted(&parts.headers), compression::is_accepted(&parts.headers));
        if form != ListForm::Page
            && parts.extensions.get::<Caller>().is_some_and(|caller| caller.portal().is_some())
        {
            let detail = "a portal gets lists page by page and not as exports; ask for application/json";
            return Err(Problem::new(403, "forbidden", detail).into());
        }
        let whose = SenderKey::of(&parts.extensions);
        let rights = parts.extensions.get().cloned();
        Ok(Self { given, fingerprint, form, tail: false, gzip, whose, rights, known: Vec::new() })
    }
}

/// That a call which takes no parameters is given none.
///
/// # Errors
/// `unknown_parameter`.
pub(crate) fn none(uri: &Uri) -> Result<(), Problem> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name = match Query::<Vec<(String, String)>>::try_from_uri(uri) {
        Ok(Query(given)) => given.into_iter().next().map(|(name, _)| name),
        Err(_) => Some(query.to_owned()),
    };
    let Some(name) = name else { return Ok(()) };
    let detail = format!("there is no parameter {} here; this call takes none", quoted(&name));
    Err(Problem::not_allowed("unknown_parameter", detail))
}

fn fingerprint(path: &str, given: &[(String, String)]) -> u64 {
    let mut filters: Vec<_> =
        given.iter().filter(|(name, _)| !OF_THE_PAGE.contains(&name.as_str())).collect();
    filters.sort_unstable();
    let mut list = path.to_owned();
    for (name, value) in filters {
        write!(list, " {name:?}={value:?}").expect("a String takes every write");
    }
    hash::derived(0, list.as_bytes())
}

impl Params {
    /// Of path and filters.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether the caller takes gzip.
    pub(crate) fn takes_gzip(&self) -> bool {
        self.gzip
    }

    /// The parameters of a list that are named elsewhere than in a query.
    pub(crate) fn of_filter(given: Vec<(String, String)>) -> Self {
        Self {
            given,
            fingerprint: 0,
            form: ListForm::Page,
            tail: false,
            gzip: false,
            whose: SenderKey::default(),
            rights: None,
            known: Vec::new(),
        }
    }

    /// The parameter, read by `read`.
    ///
    /// # Errors
    /// `invalid_parameter` when it is there twice, or `read` does not know what to make of it: then
    /// `right` is told.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        right: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.known.push(name);
        let mut values = self.given.extract_if(.., |(given, _)| given == name).map(|(_, value)| value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(invalid(format!("{name} is there twice; it may be there once")));
        }
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(invalid(format!("{name} is {}; it must be {right}", quoted(&value)))),
        }
    }

    /// One of some words.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[T],
        as_str: fn(T) -> &'static str,
    ) -> Result<Option<T>, Problem> {
        let right =
            format!("one of {}", words.iter().map(|word| as_str(*word)).collect::<Vec<_>>().join(", "));
        self.take(name, &right, |text| words.iter().copied().find(|word| as_str(*word) == text))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        self.take(name, "true or false", |text| text.parse().ok())
    }

    /// A device's id.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn device(&mut self, name: &'static str) -> Result<Option<DeviceId>, Problem> {
        self.take(name, "a device's id: ASCII letters, digits, '-', '_', '.' and ':'", DeviceId::new)
    }

    /// A client's id.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn client(&mut self, name: &'static str) -> Result<Option<ClientId>, Problem> {
        self.take(name, "a client's id: ASCII letters, digits, '_' and '-'", ClientId::new)
    }

    /// Labels: the parameters whose names are `label.` and a key.
    ///
    /// # Errors
    /// `invalid_parameter` for what no label can be.
    pub(crate) fn labels(&mut self) -> Result<Vec<(String, String)>, Problem> {
        const PREFIX: &str = "label.";
        self.known.push("label.KEY");
        let named = |name: &str| name.len() > PREFIX.len() && name.starts_with(PREFIX);
        let taken: Vec<_> = self.given.extract_if(.., |(name, _)| named(name)).collect();
        for (name, value) in &taken {
            if !is_label_key(&name[PREFIX.len()..]) {
                let right = "a lower-case letter and up to 31 of a-z 0-9 _ . - behind \"label.\"";
                return Err(invalid(format!("{} names no label; it must be {right}", quoted(name))));
            }
            if value.len() > LABEL_VALUE_BYTES_MAX {
                let right = format!("at most {LABEL_VALUE_BYTES_MAX} bytes");
                return Err(invalid(format!("{name} has {} bytes; it must have {right}", value.len())));
            }
        }
        Ok(taken.into_iter().map(|(name, value)| (name[PREFIX.len()..].to_owned(), value)).collect())
    }

    /// `selector` and `place`, which mean devices together; `None` where neither is there.
    ///
    /// # Errors
    /// `bad_selector`, `bad_place`; `invalid_parameter` for one that is there twice.
    pub(crate) fn selection(&mut self, engine: &Engine) -> Result<Option<Selection>, Problem> {
        let text = |text: &str| Some(text.to_owned());
        let (selector, place) = (self.take("selector", "text", text)?, self.take("place", "text", text)?);
        engine.selection(selector.as_deref(), place.as_deref())
    }

    /// `from` and `to`.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn span(&mut self) -> Result<(Option<Timestamp>, Option<Timestamp>), Problem> {
        Ok((self.time("from")?, self.time("to")?))
    }

    /// `from`, `to`, `order` and `wait`: newest first unless it is asked for otherwise, and at
    /// once.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn feed(&mut self) -> Result<FeedQuery, Problem> {
        let (from, to) = self.span()?;
        let (order, wait) = self.order_and_wait()?;
        Ok(FeedQuery { from, to, order, wait })
    }

    /// `order` and `wait`, of a feed that is not told apart by time.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn order_and_wait(&mut self) -> Result<(TimeOrder, Duration), Problem> {
        let order = self.word("order", &TimeOrder::ALL, TimeOrder::as_str)?.unwrap_or(TimeOrder::Descending);
        let wait = self.wait(WAIT_MAX)?;
        if wait.is_some() && self.form != ListForm::Page {
            return Err(invalid("wait is for pages; an export ends with what is there".to_owned()));
        }
        self.tail = order == TimeOrder::Ascending;
        Ok((order, wait.unwrap_or_default()))
    }

    /// `wait`, at most so long.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn wait(&mut self, most: Duration) -> Result<Option<Duration>, Problem> {
        let right = format!("a duration such as 30s, at most {}", base::duration::format(most));
        self.take("wait", &right, |text| base::duration::parse(text).ok().filter(|wait| *wait <= most))
    }

    /// `wait`, of a call that has no other parameter; at once where it is left out.
    ///
    /// # Errors
    /// `invalid_parameter`, `unknown_parameter`.
    pub(crate) fn wait_alone(mut self, most: Duration) -> Result<Duration, Problem> {
        let wait = self.wait(most)?;
        self.end()?;
        Ok(wait.unwrap_or_default())
    }

    /// Whose share the request counts for.
    pub(crate) fn whose(&self) -> SenderKey {
        self.whose.clone()
    }

    /// `limit`.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn limit(&mut self) -> Result<Option<usize>, Problem> {
        let right = format!("a number from 1 to {PAGE_ITEMS_MAX}");
        self.take("limit", &right, |text| {
            text.parse().ok().filter(|limit| (1..=PAGE_ITEMS_MAX).contains(limit))
        })
    }

    /// `namespace`, of queues or of streams.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn namespace(&mut self) -> Result<Option<String>, Problem> {
        let right = "the name of a namespace: letters, digits, '-' and '_'";
        self.take("namespace", right, |name| {
            (QueueName::is_name(name) && !name.starts_with('_')).then(|| name.to_owned())
        })
    }

    /// `limit` and `cursor`, which end the list of parameters: what was not taken by now is
    /// unknown.
    ///
    /// # Errors
    /// `invalid_parameter`, `invalid_cursor`, `unknown_parameter`.
    pub(crate) fn page<K: CursorKey>(mut self) -> Result<PageOf<K>, Problem> {
        let limit = self.limit()?;
        let cursor = self.take("cursor", "text", |text| Some(text.to_owned()))?;
        self.end()?;
        let after = cursor.map(|cursor| cursor::read(self.fingerprint, &cursor)).transpose()?;
        let Self { fingerprint, form, tail, gzip, whose, rights, .. } = self;
        Ok(PageOf { limit, after, fingerprint, form, tail, gzip, whose, rights })
    }

    /// What was not taken by now is unknown.
    ///
    /// # Errors
    /// `unknown_parameter`.
    pub(crate) fn end(&self) -> Result<(), Problem> {
        let Some((name, _)) = self.given.first() else { return Ok(()) };
        let known = match self.known.as_slice() {
            [] => "this call takes none".to_owned(),
            known => format!("known are {}", known.join(", ")),
        };
        let detail = format!("there is no parameter {} here; {known}", quoted(name));
        Err(Problem::not_allowed("unknown_parameter", detail))
    }

    /// A part of a text.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn part(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let right = format!("a text of 1 to {PART_BYTES_MAX} bytes");
        let fits = |text: &&str| (1..=PART_BYTES_MAX).contains(&text.len());
        self.take(name, &right, |text| Some(text).filter(fits).map(str::to_owned))
    }

    /// A duration.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn duration(&mut self, name: &'static str) -> Result<Option<Duration>, Problem> {
        self.take(name, "a duration of up to ten years, such as 30s or 1h", |text| {
            base::duration::parse(text).ok()
        })
    }

    /// What ids begin with.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn id_prefix(&mut self) -> Result<Option<String>, Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        let right = "the beginning of an id: ASCII letters, digits, '-', '_', '.' and ':'";
        self.take("id_prefix", right, |text| {
            let fits = (1..=ID_PREFIX_CHARS_MAX).contains(&text.len()) && text.bytes().all(plain);
            fits.then(|| text.to_owned())
        })
    }

    /// A time.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Problem> {
        self.take(name, "an RFC 3339 time such as 2026-11-21T01:02:03.456Z", moment)
    }
}

/// A time; the `+` of an offset, which is a space where a URL was put together without escaping, is
/// meant as it was written.
fn moment(text: &str) -> Option<Timestamp> {
    let unescaped = || text.rsplit_once(' ').map(|(moment, offset)| format!("{moment}+{offset}"));
    Timestamp::parse(text).ok().or_else(|| Timestamp::parse(&unescaped()?).ok())
}

fn is_label_key(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    let begins = text.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    begins && text.len() <= LABEL_KEY_CHARS_MAX && text.bytes().all(plain)
}

fn invalid(detail: String) -> Problem {
    Problem::not_allowed("invalid_parameter", detail)
}
