//! Where a server can be reached, also while it is restarted.
//!
//! A server that listens on `:0` has another port after each start. Devices and API callers hold an
//! [`Endpoint`]; whoever starts and kills the server moves it. While the server is known to be down
//! the address is unknown and everyone waits for the next one instead of knocking.
//!
//! With the address goes what the server asks of whoever comes in ([`ConnectOptions`]); where it
//! asks nothing, nothing is said.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::access::ConnectOptions;

/// A shared address that may change or be unknown for a while. Clones speak of the same address.
#[derive(Debug, Clone)]
pub struct Endpoint {
    address: Arc<watch::Sender<Option<SocketAddr>>>,
    access: Arc<ConnectOptions>,
}

impl Endpoint {
    /// An endpoint that nobody knows yet.
    #[must_use]
    pub fn unknown() -> Self {
        Self { address: Arc::new(watch::Sender::new(None)), access: Arc::default() }
    }

    /// An endpoint at `address`.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { address: Arc::new(watch::Sender::new(Some(address))), access: Arc::default() }
    }

    /// The same address, entered with `access`.
    #[must_use]
    pub fn entered_with(self, access: ConnectOptions) -> Self {
        Self { access: Arc::new(access), ..self }
    }

    /// What is said to be let in.
    #[must_use]
    pub fn access(&self) -> &ConnectOptions {
        &self.access
    }

    /// The server is at `address` from now on.
    pub fn move_to(&self, address: SocketAddr) {
        self.address.send_replace(Some(address));
    }

    /// The server is down; its next address is not known.
    pub fn lose(&self) {
        self.address.send_replace(None);
    }

    /// The address, as soon as it is known.
    pub async fn address(&self) -> SocketAddr {
        let mut changes = self.address.subscribe();
        let known = changes.wait_for(Option::is_some).await;
        known
            .ok()
            .and_then(|address| *address)
            .expect("the sender lives in self and the wait is for an address")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caller_waits_until_the_address_is_known() {
        let endpoint = Endpoint::unknown();
        let waiting = tokio::spawn({
            let endpoint = endpoint.clone();
            async move { endpoint.address().await }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 4711));
        endpoint.move_to(address);
        assert_eq!(waiting.await.expect("it does not panic"), address);
        endpoint.lose();
        endpoint.move_to(SocketAddr::from(([127, 0, 0, 1], 4712)));
        assert_eq!(endpoint.address().await.port(), 4712);
    }
}
