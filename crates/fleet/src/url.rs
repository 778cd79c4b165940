//! The URL of a client: where notifications are posted.
//!
//! It is kept as it was given. What it means is what the WHATWG parser says, here and wherever it
//! is used. So an odd spelling of an address (`127.1`, `0x7f.1`, `2130706433`) is the same address
//! to everyone. A name is not looked up here: what it stands for is checked at every attempt.

use std::net::IpAddr;

use ::url::{Host, Url};
use base::limits::URL_CHARS_MAX;
use base::{Problem, address};

use crate::RegistryRefusal;

/// Whether notifications may be posted to `text`.
///
/// # Errors
/// `too_long`, `invalid_url`, or, unless `allow_private`, `private_address`.
pub fn check_url(text: &str, allow_private: bool) -> Result<(), Problem> {
    let chars = text.chars().count();
    if chars > URL_CHARS_MAX {
        let detail = format!("url has {chars} characters; it may have at most {URL_CHARS_MAX}");
        return Err(RegistryRefusal::TooLong.problem(detail));
    }
    let url = plain(text)?;
    let literal = match url.host() {
        None => return Err(invalid("has no host")),
        Some(Host::Domain(_)) => return Ok(()),
        Some(Host::Ipv4(v4)) => IpAddr::V4(v4),
        Some(Host::Ipv6(v6)) => IpAddr::V6(v6),
    };
    if !allow_private && address::is_private(literal) {
        let detail = format!(
            "url names {literal}, which is not a public address; use one, or let the server set notify.allow_private"
        );
        return Err(RegistryRefusal::PrivateAddress.problem(detail));
    }
    Ok(())
}

/// The same for somebody who looks after one client and may learn nothing of the network that the
/// server is in. With `allow_private`, no attempt checks what a name leads to. Then only a public
/// address will do, or the host and port that the client has at `present`.
///
/// # Errors
/// See [`check_url`].
pub fn check_url_of_portal(text: &str, present: &str, allow_private: bool) -> Result<(), Problem> {
    if !allow_private {
        return check_url(text, false);
    }
    let authority = |text: &str| {
        let url = plain(text).ok()?;
        Some((url.host()?.to_owned(), url.port_or_known_default()))
    };
    let given = authority(text);
    if given.is_some() && given == authority(present) {
        return check_url(text, true);
    }
    check_url(text, false)?;
    match given {
        Some((Host::Domain(name), _)) => Err(RegistryRefusal::PrivateAddress.problem(format!(
            "url names {name}, which may lead to a private address; because this server allows those, a portal may name a public address, or stay at the client's present host and port"
        ))),
        _ => Ok(()),
    }
}

/// The parsed URL, without what the parser would silently mend or what would be kept but not used.
fn plain(text: &str) -> Result<Url, Problem> {
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(invalid("has a space, a control character or a backslash"));
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| invalid("has no scheme"))?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(invalid("has another scheme than http or https"));
    }
    if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
        return Err(invalid("has no host"));
    }
    let url = Url::parse(text).map_err(|error| invalid(&format!("cannot be read ({error})")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "has a user name or password, which would be shown to everyone who may read clients",
        ));
    }
    Ok(url)
}

fn invalid(what: &str) -> Problem {
    RegistryRefusal::InvalidUrl.problem(format!("url {what}; it should look like https://example.com/path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, allow_private: bool, expect: Option<&str>) {
        let code = check_url(text, allow_private).err().map(|problem| problem.code);
        assert_eq!(code, expect, "{text}");
    }

    #[test]
    fn http_and_https_urls_with_a_host_are_taken() {
        for text in [
            "https://example.com/hook?key=1#part",
            "http://example.com",
            "HTTPS://EXAMPLE.COM:8443/",
            "http://8.8.8.8/",
            "http://[2606:4700::1111]:8080/",
            "http://[::ffff:8.8.8.8]/",
            "http://bücher.example/ключ",
            "http://localhost:8080/",
            "http://127.0.0.1.nip.example/",
        ] {
            check(text, false, None);
        }
    }

    #[test]
    fn what_is_not_a_plain_http_url_is_refused() {
        for text in [
            "",
            "example.com/hook",
            "ftp://example.com/",
            "file:///etc/passwd",
            "http:example.com",
            "http:/example.com",
            "http://",
            "http:///example.com",
            "http://?x",
            "http://#x",
            "http:\\\\example.com",
            " http://example.com",
            "http://example.com/a b",
            "http://exa\tmple.com",
            "http://example.com\n",
            "http://example.com:99999/",
            "http://exa mple.com",
            "http://a%00b/",
            "http://[::1",
            "http://1.2.3.4.5/",
            "http://user@example.com/",
            "http://user:secret@example.com/",
            "http://:secret@example.com/",
        ] {
            check(text, true, Some("invalid_url"));
        }
    }

    #[test]
    fn a_private_address_is_seen_however_it_is_spelled() {
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://0x7f.1/",
            "http://0x7f000001:8080/",
            "http://0177.0.0.1/",
            "http://2130706433/",
            "http://%31%32%37.0.0.1/",
            "http://①②⑦.0.0.1/",
            "http://１２７.１/",
            "http://127。0。0。1/",
            "http://0.0.0.0/",
            "http://0/",
            "http://10.0.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://[::]/",
            "http://[::1]/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::10.0.0.1]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
        ] {
            check(text, false, Some("private_address"));
            check(text, true, None);
        }
    }

    #[test]
    fn a_portal_reaches_no_other_private_address() {
        let private = Some("private_address");
        for (text, present, allow_private, expect) in [
            ("https://a.example/new", "https://b.example/", false, None),
            ("http://127.0.0.1/", "https://b.example/", false, private),
            ("https://a.example/new", "https://b.example/", true, private),
            ("http://localhost:8080/", "https://b.example/", true, private),
            ("http://10.0.0.1/", "https://b.example/", true, private),
            ("http://0x0a.1/", "http://10.0.0.2/", true, private),
            ("http://10.0.0.1:81/", "http://10.0.0.1/", true, private),
            ("https://8.8.8.8/", "https://b.example/", true, None),
            ("https://b.example:443/new?x", "HTTPS://B.example/", true, None),
            ("http://10.0.0.1:80/new", "http://10.0.0.1/", true, None),
            ("ftp://b.example/", "https://b.example/", true, Some("invalid_url")),
            ("nothing", "nothing", true, Some("invalid_url")),
        ] {
            let code = check_url_of_portal(text, present, allow_private).err().map(|problem| problem.code);
            assert_eq!(code, expect, "{text} from {present}, {allow_private}");
        }
    }

    #[test]
    fn a_url_may_have_2048_bytes() {
        let of = |bytes: usize| format!("http://example.com/{}", "x".repeat(bytes - 19));
        check(&of(2_048), false, None);
        check(&of(2_049), false, Some("too_long"));
    }

    #[test]
    fn a_refusal_does_not_show_a_password() {
        let problem = check_url("http://user:secret@example.com/", true).expect_err("credentials");
        assert!(!problem.detail.contains("secret"), "{}", problem.detail);
    }
}
