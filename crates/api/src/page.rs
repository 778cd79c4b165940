//! What part of a list was asked for: from where on, how many items, in which form, and of a feed
//! which span of time.

use std::cmp;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use base::Timestamp;
use base::limits::PAGE_ITEMS_DEFAULT;
use engine::Page;
use net::shares::SenderKey;

use crate::authorization::StandingRights;

/// The part of a list that was asked for.
#[derive(Debug)]
pub(crate) struct PageOf<K> {
    /// As many items as were asked for; left out, a page has a hundred and an export has all.
    pub limit: Option<usize>,
    /// The last item of the page before.
    pub after: Option<K>,
    pub fingerprint: u64,
    pub form: ListForm,
    /// Whether it tells where the feed goes on later.
    pub tail: bool,
    /// Whether the caller takes gzip.
    pub gzip: bool,
    /// Whose share of the memory budget it takes.
    pub whose: SenderKey,
    /// Of a caller whose rights may end: to be asked for again by whoever answers late.
    pub rights: Option<StandingRights>,
}

impl<K> PageOf<K> {
    /// Items on a page.
    pub(crate) fn items(&self) -> usize {
        self.limit.unwrap_or(PAGE_ITEMS_DEFAULT)
    }
}

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// A page with a cursor.
    Page,
    /// Everything, in rows of one form.
    Export(RowFormat),
}

/// The form of an export's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// A JSON object a line.
    Ndjson,
    /// RFC 4180, with a line of names.
    Csv,
}

impl RowFormat {
    pub(crate) const ALL: [Self; 2] = [Self::Ndjson, Self::Csv];

    /// The content type, as it is asked for.
    pub(crate) fn asked_as(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
        }
    }

    /// The content type, as it is answered.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

impl ListForm {
    /// The form that `Accept` likes best; a page where it likes none that there is.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best = (0.0, Self::Page);
        for (form, weight) in texts.flat_map(|text| text.split(',')).filter_map(weighed) {
            if weight > best.0 {
                best = (weight, form);
            }
        }
        best.1
    }
}

/// A media range that is ours, with its weight.
fn weighed(range: &str) -> Option<(ListForm, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next()?.to_ascii_lowercase();
    let rows = RowFormat::ALL.into_iter().find(|rows| rows.asked_as() == name);
    let form = match (rows, name.as_str()) {
        (Some(rows), _) => ListForm::Export(rows),
        (None, "application/json" | "application/*" | "*/*") => ListForm::Page,
        (None, _) => return None,
    };
    let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok())?;
    Some((form, weight))
}

/// The span and the order of a feed: `from` is in it, `to` is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedQuery {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub order: TimeOrder,
    /// How long a page waits for its first item.
    pub wait: Duration,
}

impl FeedQuery {
    /// A part of the feed, as the engine takes it.
    pub(crate) fn page<K: Copy>(&self, after: Option<&K>, limit: usize) -> Page<K> {
        Page {
            from: self.from.unwrap_or(Timestamp(i64::MIN)),
            to: self.to.unwrap_or(Timestamp::MAX),
            ascending: self.order == TimeOrder::Ascending,
            after: after.copied(),
            limit,
        }
    }

    /// Whether that time is one of those that are asked for.
    pub(crate) fn has(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }

    /// The same feed without what is before that time.
    pub(crate) fn skip_to(&mut self, at: Timestamp) {
        self.from = self.from.max(Some(at));
    }

    /// The same feed up to now where it is exported: one that is read forwards while it grows would
    /// have no end.
    #[must_use]
    pub(crate) fn ending(self, form: ListForm, now: Timestamp) -> Self {
        match form {
            ListForm::Page => self,
            ListForm::Export(_) => Self { to: Some(self.to.map_or(now, |to| cmp::min(to, now))), ..self },
        }
    }
}

/// The order of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeOrder {
    Ascending,
    Descending,
}

base::names! {
    /// Both orders.
    pub(crate) TimeOrder: Ascending = "asc", Descending = "desc"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_that_is_liked_best_is_taken() {
        let (ndjson, csv) = (ListForm::Export(RowFormat::Ndjson), ListForm::Export(RowFormat::Csv));
        for (accept, expect) in [
            ("", ListForm::Page),
            ("*/*", ListForm::Page),
            ("application/json", ListForm::Page),
            ("image/png", ListForm::Page),
            ("text/csv", csv),
            ("Text/CSV; charset=utf-8", csv),
            ("application/x-ndjson", ndjson),
            ("application/x-ndjson, application/json", ndjson),
            ("application/x-ndjson;q=0.5, application/json", ListForm::Page),
            ("text/csv;q=0.5, application/x-ndjson;q=0.9, */*;q=0.1", ndjson),
            ("text/csv;q=0", ListForm::Page),
            ("text/csv;q=much", ListForm::Page),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().expect("a header"))]);
            assert_eq!(ListForm::accepted(&headers), expect, "{accept}");
        }
    }
}
