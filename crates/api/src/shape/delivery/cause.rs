//! Why an attempt came to nothing, in one sentence that says what to do.
//!
//! It follows from what is stored of the attempt, and is stored nowhere itself.

use base::Timestamp;
use engine::records::AttemptError;

use crate::shape::text::Time;

/// Where it is not known which of the two it is.
const CERTIFICATE_INVALID: &str =
    "the receiver's certificate has expired or is not valid yet; renew it there";

/// The cause of an attempt at that time; `None` if the receiver took the notification.
pub(super) fn cause(
    at: Timestamp,
    status_code: Option<u16>,
    error: Option<AttemptError>,
    certificate_bound: Option<Timestamp>,
) -> Option<String> {
    match (error, status_code) {
        (Some(AttemptError::TlsExpired), _) => Some(of_certificate(at, certificate_bound)),
        (Some(error), _) => Some(of_error(error).to_owned()),
        (None, Some(200..=299) | None) => None,
        (None, Some(code)) => Some(of_status(code)),
    }
}

fn of_certificate(at: Timestamp, bound: Option<Timestamp>) -> String {
    match bound {
        Some(bound) if bound <= at => {
            format!("the receiver's certificate expired on {}; renew it there", Time(bound))
        }
        Some(bound) => {
            let begins = Time(bound);
            format!(
                "the receiver's certificate is valid only from {begins} on; check the clocks of both sides"
            )
        }
        None => CERTIFICATE_INVALID.to_owned(),
    }
}

fn of_error(error: AttemptError) -> &'static str {
    match error {
        AttemptError::Interrupted => {
            "this server was stopped during the attempt; it is repeated by itself, so check only whether the receiver had it already"
        }
        AttemptError::AddressRefused => {
            "the name leads to private addresses only; give the client a public URL, or set notify.allow_private"
        }
        AttemptError::NameUnresolved => {
            "the name in the URL does not resolve; correct the URL, or the receiver's DNS"
        }
        AttemptError::ConnectFailed => {
            "nobody answers at that address and port; check that the receiver runs and that its firewall lets this server in"
        }
        AttemptError::TlsFailed => {
            "the receiver and this server have no TLS version or cipher in common; offer TLS 1.2 or 1.3 there"
        }
        AttemptError::TimedOut => {
            "no answer came within notify.timeout; have the receiver answer first and work afterwards"
        }
        AttemptError::ConnectionBroken => {
            "the connection broke before the answer; look into the receiver's log, and at any proxy in front of it"
        }
        AttemptError::TlsUntrusted => {
            "the receiver's certificate is signed by no authority that this machine trusts; serve its whole chain, or install its authority here"
        }
        AttemptError::TlsExpired => CERTIFICATE_INVALID,
        AttemptError::TlsWrongName => {
            "the receiver's certificate is for another name; correct the URL, or the certificate"
        }
        AttemptError::TlsNotSpoken => {
            "the receiver does not speak TLS on that port; use http:// in the URL, or another port"
        }
    }
}

fn of_status(code: u16) -> String {
    let what = match code {
        300..=399 => "redirects, and redirects are not followed; give the client the URL that it names",
        401 | 403 => "refuses the request; check that it verifies with the client's present secret",
        404 | 405 => "has nothing to post to at that path; correct the client's URL",
        408 | 504 => "waited too long for something itself; look into its log",
        410 => {
            "wants nothing more; after a notification to its present URL the client is disabled: enable it when the receiver is there again"
        }
        413 => "takes no body of that size; raise its limit",
        429 => "gets too many requests; the notification is retried later, so raise its limit if that lasts",
        400..=499 => "does not accept the notification; the answer may say why",
        503 => "is not available now; it is tried again later",
        500..=599 => "failed itself; look into its log for the webhook-id",
        _ => "answered with a status that means no success",
    };
    format!("the receiver answered {code}: it {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp(1_795_219_200_000);

    fn check(status: Option<u16>, error: Option<AttemptError>, bound: Option<i64>, expect: Option<&str>) {
        let found = cause(AT, status, error, bound.map(|ms| Timestamp(AT.0 + ms)));
        match expect {
            None => assert_eq!(found, None),
            Some(part) => assert!(found.as_deref().is_some_and(|text| text.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn a_cause_says_what_to_do() {
        use AttemptError as E;
        check(Some(204), None, None, None);
        check(None, Some(E::TlsExpired), Some(-1_000), Some("expired on 2026-11-20T23:59:59.000Z; renew"));
        check(None, Some(E::TlsExpired), Some(1_000), Some("valid only from 2026-11-21T00:00:01.000Z on"));
        check(None, Some(E::TlsExpired), None, Some("renew"));
        check(None, Some(E::NameUnresolved), None, Some("does not resolve"));
        check(Some(302), None, None, Some("not followed"));
        check(Some(401), None, None, Some("secret"));
        // A test post, and one to the URL of before, leave the client enabled.
        check(Some(410), None, None, Some("the client is disabled"));
        check(Some(418), None, None, Some("418"));
        check(Some(500), None, None, Some("webhook-id"));
        check(Some(700), None, None, Some("no success"));
    }

    #[test]
    fn every_error_has_a_cause_of_one_line() {
        for error in AttemptError::ALL {
            let text = cause(AT, None, Some(error), None).expect("a cause");
            assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
        }
    }
}
