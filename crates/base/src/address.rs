//! Which network addresses are private: a webhook must not reach them unless the operator allows
//! it.
//!
//! "Private" is everything that is not plainly a public unicast address: loopback, link-local,
//! site-local, shared, documentation, benchmarking, multicast, reserved and unspecified ranges
//! (IANA special-purpose registries). So are public addresses under which a cloud's own platform
//! answers its machines, and IPv6 forms that carry such an IPv4 address inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` is anything but a public unicast address.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

/// Public addresses under which platforms answer their own machines, metadata and credentials among
/// it. Those of the others are link-local (169.254.169.254), shared (100.100.100.200) or reserved
/// (192.0.0.192) anyway.
const PLATFORMS: [Ipv4Addr; 1] = [
    // Azure's WireServer, which also answers DHCP, DNS and health probes
    Ipv4Addr::new(168, 63, 129, 16),
];

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    special || PLATFORMS.contains(&address)
}

/// How much of an IPv6 address is its site's, in bits. Providers give a customer 56 bits or fewer
/// (RIPE-690, RFC 6177), so one host may have 256 networks of 64 bits.
const SITE_BITS: u32 = 56;

/// The key of per-address limits: an IPv4 address, or the /56 network of an IPv6 address. One host
/// can use every address of its network.
#[must_use]
pub fn sender(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - SITE_BITS))).into(),
        v4 => v4,
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = embedded_v4(address) {
        return is_private_v4(inner);
    }
    let [first, second, ..] = address.segments();
    let global_unicast = first & 0xe000 == 0x2000;
    let special = match first {
        // Teredo carries an IPv4 address in disguise, and is here with all that is not for hosts.
        0x2001 => second < 0x0200 || second == 0x0db8,
        0x3fff => true,
        _ => false,
    };
    !global_unicast || special || local_v4(address).is_some_and(is_private_v4)
}

/// The IPv4 address that an ISATAP address (`..:0:5efe:a.b.c.d`) leads to on a network that has it.
fn local_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [.., 0x0000 | 0x0200, 0x5efe, high, low] => Some(v4(high, low)),
        _ => None,
    }
}

/// The IPv4 address inside a mapped (`::ffff:0:0/96`), translated (`64:ff9b::/96`) or 6to4
/// (`2002::/16`) address. A translator of one's own (`64:ff9b:1::/48`) is private whatever it
/// carries.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE: [&str; 44] = [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:db8::1",
        "2001::1",
        "::127.0.0.1",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "::ffff:168.63.129.16",
        "::168.63.129.16",
        "64:ff9b::a83f:8110",
        "64:ff9b:1::a83f:8110",
        "64:ff9b::a9fe:a9fe",
        "2002:a83f:8110::1",
        "2002:a9fe:a9fe::",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
        "fe80::a9fe:a9fe",
        "2001:0:a9fe:a9fe::1",
        "2606:4700::5efe:a9fe:a9fe",
        "2606:4700::200:5efe:7f00:1",
        "::ffff:0:7f00:1",
        "fe80::5efe:808:808",
    ];
    const PUBLIC: [&str; 12] = [
        "1.1.1.1",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "192.0.1.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "168.63.129.15",
        "168.63.129.17",
        "64:ff9b::808:808",
        "2002:808:808::1",
        "2606:4700::5efe:808:808",
    ];

    #[test]
    fn the_addresses_of_one_sender_are_one() {
        for (text, expect) in [
            ("10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
            ("2001:db8:1:ff02:3:4:5:6", "2001:db8:1:ff00::"),
            ("::1", "::"),
        ] {
            let address = sender(text.parse().expect(text));
            assert_eq!(address.to_string(), expect, "{text}");
        }
    }

    #[test]
    fn public_and_private_addresses_are_told_apart() {
        for (texts, expect) in [(&PRIVATE[..], true), (&PUBLIC[..], false)] {
            for text in texts {
                assert_eq!(is_private(text.parse().expect(text)), expect, "{text}");
            }
        }
    }
}
