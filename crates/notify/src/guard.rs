//! Which addresses a webhook may reach. A client's URL comes from outside; without this check it
//! could point the server at its own network.
//!
//! The check is made on addresses, after the look-up and for literals alike. The connection goes to
//! what the check lets through: there is no second look-up that could answer differently. Of a
//! mixed answer only the public addresses are used.

use std::net::IpAddr;

use base::address;

/// The check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressGuard {
    pub(crate) allow_private: bool,
}

/// Every address that was offered is private.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnlyPrivateAddresses;

impl AddressGuard {
    /// The addresses that may be connected to, in their order.
    pub(crate) fn admit(self, offered: &[IpAddr]) -> Result<Vec<IpAddr>, OnlyPrivateAddresses> {
        let may = |address: &IpAddr| self.allow_private || !address::is_private(*address);
        let admitted: Vec<IpAddr> = offered.iter().copied().filter(may).collect();
        if admitted.is_empty() { Err(OnlyPrivateAddresses) } else { Ok(admitted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow_private: bool, offered: &[&str], expect: Result<&[&str], OnlyPrivateAddresses>) {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
        let offered: Vec<IpAddr> = parse(offered);
        assert_eq!(AddressGuard { allow_private }.admit(&offered), expect.map(parse), "{offered:?}");
    }

    #[test]
    fn only_public_addresses_pass() {
        check(false, &["1.1.1.1", "2606:4700::1111"], Ok(&["1.1.1.1", "2606:4700::1111"]));
        check(false, &["10.0.0.1", "1.1.1.1", "::1"], Ok(&["1.1.1.1"]));
        check(false, &["127.0.0.1"], Err(OnlyPrivateAddresses));
        check(false, &["::ffff:10.0.0.1", "169.254.169.254"], Err(OnlyPrivateAddresses));
    }

    #[test]
    fn the_operator_may_let_private_ones_pass() {
        check(true, &["127.0.0.1", "1.1.1.1"], Ok(&["127.0.0.1", "1.1.1.1"]));
    }
}
