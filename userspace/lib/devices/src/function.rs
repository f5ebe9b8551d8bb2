//! A function of a PCI device: where it is and what it is.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_schema::manifest::GrantSourcePci;

/// Where a function is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl Place {
    /// Bus, device and function as one number, as the device sees itself.
    #[must_use]
    pub fn address(self) -> u32 {
        (u32::from(self.bus) << 8) | (u32::from(self.device) << 3) | u32::from(self.function)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus, self.device, self.function)
    }
}

/// A function that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where.
    pub place: Place,
    /// Vendor.
    pub vendor: u16,
    /// Device of the vendor.
    pub device: u16,
    /// Class, subclass and programming interface.
    pub class: u32,
}

impl Found {
    /// Whether a grant can be of it: it names this class, or this vendor and this device.
    #[must_use]
    pub fn fits(&self, wanted: &GrantSourcePci) -> bool {
        match wanted.class {
            0 => self.vendor == wanted.vendor && wanted.devices.contains(&self.device),
            class => self.class == class,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.class >> 8 {
            0x0101 => "IDE controller",
            0x0100 | 0x0102..=0x0105 | 0x0107 | 0x0180 => "storage",
            0x0106 => "SATA controller",
            0x0108 => "NVMe",
            0x0200..=0x02ff => "network",
            0x0300..=0x03ff => "display",
            0x0600..=0x06ff => "bridge",
            _ => "device",
        };
        write!(f, "{} {:04x}:{:04x} ({kind})", self.place, self.vendor, self.device)
    }
}

/// What a grant is of, for messages.
#[must_use]
pub fn describe_wanted(wanted: &GrantSourcePci) -> String {
    match wanted.class {
        0 => {
            let named = wanted.devices.iter().map(|device| format!("{:04x}:{device:04x}", wanted.vendor));
            named.collect::<Vec<_>>().join(" or ")
        }
        class => format!("of class {class:06x}"),
    }
}
