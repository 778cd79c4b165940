//! What to do about a refusal, where the server's own words do not say.

use fieldpost_client::Refusal;

/// Whether the same might be accepted later.
pub(super) fn is_temporary(refusal: &Refusal) -> bool {
    refusal.status == 429 || refusal.status >= 500
}

/// What the person can do about it, where the refusal itself does not say.
pub(super) fn advice(refusal: &Refusal) -> Option<&'static str> {
    match (refusal.status, refusal.code.as_deref()) {
        (401, _) => Some("give the token in FIELDPOST_TOKEN or with --token"),
        (403, _) => Some("the token is good, but not for this; ask for one with the scope"),
        (_, Some("unknown_device")) => Some("`fieldpost device ls` lists those that there are"),
        (_, Some("unknown_client")) => Some("`fieldpost client ls` lists those that there are"),
        (_, Some("unknown_delivery")) => Some("`fieldpost delivery ls` lists those that there are"),
        (_, Some("unknown_quarantined")) => Some("`fieldpost report rejected ls` lists those that there are"),
        (_, Some("unknown_command")) => Some("`fieldpost command ls` lists those that there are"),
        (_, Some("unknown_campaign")) => Some("`fieldpost campaign ls` lists those that there are"),
        (_, Some("unknown_task")) => Some("a task is kept for a day after its end"),
        (_, Some("finished")) => {
            Some("`fieldpost command retry` tries a failed, expired or cancelled one anew")
        }
        (_, Some("not_finished")) => Some("`fieldpost command cancel` calls it off"),
        (_, Some("unknown_job")) => Some("`fieldpost job ls` lists those that are not done"),
        (_, Some("stale_reservation")) => {
            Some("its ttr was over, or the job was done or cancelled: it has to be consumed again")
        }
        (_, Some("unknown_route")) => {
            Some("either the server is older than this program, or --url leads elsewhere")
        }
        (_, Some("stream_full")) if refusal.detail.starts_with("the stream holds") => Some(
            "`fieldpost stream show` tells what it may hold; `fieldpost stream set` changes that with \
             --keep-bytes and --when-full",
        ),
        (_, Some("storage_unavailable")) => Some(
            "it works again once the storage does; `fieldpost stream handlers` shows the last error of each",
        ),
        (_, Some("spool_full")) => {
            Some("it takes more once it has forwarded some; its GET /v1/spool shows what holds it up")
        }
        (429 | 503, Some(code)) if code != "too_many_requests" && code.starts_with("too_many_") => {
            Some("there is room again once others have ended or been deleted")
        }
        (429, _) => Some("this token may ask again a little later"),
        (503, _) => Some("try again; if it lasts, the server's /readyz gives the reason"),
        (_, None) => Some("this is not how Fieldpost answers: does --url lead to it?"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_says_what_is_missing_leads_to_it() {
        let body = r#"{"type":"about:blank","status":404,"code":"unknown_device","detail":"no"}"#;
        let refusal = Refusal::read(404, None, body.as_bytes());
        assert!(advice(&refusal).is_some_and(|advice| advice.contains("device ls")));
        assert!(advice(&Refusal::read(502, None, b"<html>")).is_some_and(|advice| advice.contains("--url")));
    }

    #[test]
    fn of_something_that_is_full_it_is_said_what_makes_room() {
        for (status, code, says) in [
            (503, "stream_full", "--keep-bytes"),
            (503, "storage_unavailable", "stream handlers"),
            (503, "spool_full", "/v1/spool"),
            (503, "too_many_waiting", "once others have ended"),
            (429, "too_many_streams", "once others have ended"),
            (429, "too_many_requests", "a little later"),
            (503, "store_failed", "/readyz"),
        ] {
            let body = format!(r#"{{"code":"{code}","detail":"the stream holds too much"}}"#);
            let refusal = Refusal::read(status, None, body.as_bytes());
            assert!(advice(&refusal).is_some_and(|advice| advice.contains(says)), "{code}");
        }
        let of_disk =
            Refusal::read(503, None, br#"{"code":"stream_full","detail":"the disk is nearly full"}"#);
        assert!(advice(&of_disk).is_some_and(|advice| advice.contains("/readyz")));
    }

    #[test]
    fn what_is_refused_for_now_may_be_accepted_later() {
        for (status, for_now) in
            [(404, false), (409, false), (422, false), (429, true), (500, true), (503, true)]
        {
            assert_eq!(is_temporary(&Refusal::read(status, None, b"")), for_now, "{status}");
        }
    }
}
