//! What tells machines apart.

/// Files that tell a machine from others, where the system has them and lets them be read. Disks
/// are copied with the first one alone, or not even with that.
pub const IDENTITY_FILES: [&str; 3] =
    ["/etc/machine-id", "/proc/device-tree/serial-number", "/sys/class/dmi/id/product_uuid"];
