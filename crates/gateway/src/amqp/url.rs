//! Where RabbitMQ is and who we are there: an `amqp` or `amqps` URL whose password is never shown.

use std::fmt;

use ::url::{Host, Url};
use lapin::uri::AMQPUri;

/// A checked URL. Printing it shows neither user nor password.
#[derive(Clone, PartialEq, Eq)]
pub struct AmqpUrl(AMQPUri);

/// What is wrong with a URL; it does not repeat the URL, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAmqpUrl {
    /// Not a URL at all.
    #[error("is not a URL")]
    NotAUrl,
    /// A URL of something else.
    #[error("does not begin with amqp:// or amqps://")]
    Scheme,
    /// User, password or virtual host are not well encoded, or a parameter has no such value.
    #[error("has a user, password, virtual host or parameter that cannot be read")]
    Part,
}

impl AmqpUrl {
    /// Reads `amqp://user:password@host:port/vhost`. Left out, user and password are `guest`, the
    /// port is 5672 (TLS 5671), and the virtual host is `/`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadAmqpUrl> {
        let url = Url::parse(text).map_err(|_| BadAmqpUrl::NotAUrl)?;
        if !matches!(url.scheme(), "amqp" | "amqps") || url.cannot_be_a_base() {
            return Err(BadAmqpUrl::Scheme);
        }
        let mut uri: AMQPUri = text.parse().map_err(|_| BadAmqpUrl::Part)?;
        if let Some(Host::Ipv6(address)) = url.host() {
            // The library takes only names for hosts and would go to localhost.
            uri.authority.host = address.to_string();
        }
        Ok(Self(uri))
    }

    pub(super) fn uri(&self) -> AMQPUri {
        self.0.clone()
    }
}

impl fmt::Display for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri { scheme, authority, vhost, .. } = &self.0;
        let is_ipv6 = authority.host.contains(':');
        let (open, close) = if is_ipv6 { ("[", "]") } else { ("", "") };
        write!(
            f,
            "{scheme}://{open}{}{close}:{}/{}",
            authority.host,
            authority.port,
            vhost.replace('/', "%2f")
        )
    }
}

impl fmt::Debug for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_user_and_password() {
        for (text, shown) in [
            ("amqp://u:s3cret@rabbit:5673/site", "amqp://rabbit:5673/site"),
            ("amqps://u:s3cret@rabbit", "amqps://rabbit:5671/%2f"),
            ("amqp://127.0.0.1/%2f?heartbeat=10", "amqp://127.0.0.1:5672/%2f"),
            ("amqp://u:s3cret@[::1]:5673", "amqp://[::1]:5673/%2f"),
        ] {
            let url = AmqpUrl::parse(text).expect(text);
            assert_eq!((url.to_string().as_str(), format!("{url:?}").as_str()), (shown, shown));
        }
    }

    #[test]
    fn user_password_and_address_reach_the_library() {
        let uri = AmqpUrl::parse("amqp://u%40x:s%2f@[::1]/a%20b").expect("a URL").uri();
        let authority = uri.authority;
        assert_eq!(
            (authority.userinfo.username.as_str(), authority.userinfo.password.as_str()),
            ("u@x", "s/")
        );
        assert_eq!((authority.host.as_str(), authority.port, uri.vhost.as_str()), ("::1", 5_672, "a b"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_url() {
        for (text, wrong) in [
            ("", BadAmqpUrl::NotAUrl),
            ("rabbit", BadAmqpUrl::NotAUrl),
            ("amqp:rabbit", BadAmqpUrl::Scheme),
            ("http://u:s3cret@rabbit", BadAmqpUrl::Scheme),
            ("amqp://u:s3cret@rabbit/?heartbeat=often", BadAmqpUrl::Part),
            ("amqp://u:%ff@rabbit", BadAmqpUrl::Part),
        ] {
            assert_eq!(AmqpUrl::parse(text), Err(wrong), "{text}");
            assert!(!wrong.to_string().contains("s3cret"));
        }
    }
}
