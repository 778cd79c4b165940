//! Ports for servers that cannot be told to choose one themselves, and for those that are started
//! again where they were.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::Mutex;

/// Below the ports that outgoing connections get, so that a test with many of those cannot take
/// one between two starts of a server.
const PORTS: Range<u16> = 21_000..32_000;

/// Ports on loopback that nobody listens on; none is given twice in this process.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: Mutex<u16> = Mutex::new(0);
    let mut given = GIVEN.lock().expect("no panic");
    let span = PORTS.end - PORTS.start;
    // Processes that start together look in different places.
    let first = (u64::from(std::process::id()) * 7 % u64::from(span)) as u16;
    let mut next = || {
        (0..span)
            .map(|_| {
                *given += 1;
                PORTS.start + ((u32::from(first) + u32::from(*given)) % u32::from(span)) as u16
            })
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .expect("there are free ports")
    };
    std::array::from_fn(|_| next())
}
