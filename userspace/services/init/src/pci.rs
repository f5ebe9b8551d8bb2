//! The PCI bus, through configuration ports 0xCF8 and 0xCFC.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_rt::{Context, Error};
use capos_schema::cap::CallError;
use capos_schema::kernel::IoPortsClient;
use capos_schema::manifest::GrantSourcePci;

/// Port of the register address, and port of the register.
const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

/// Where a function is on the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// The bus and what was found on it.
#[derive(Debug)]
pub struct Bus {
    ports: IoPortsClient,
    found: Vec<Found>,
}

impl Bus {
    /// Looks for all functions, behind bridges too.
    ///
    /// # Errors
    /// The ports are not to be had.
    pub async fn scan(ports: &IoPortsClient) -> Result<Self, Error> {
        let ports = ports.narrow(ADDRESS, 8).await.context("the ports of the PCI bus")?;
        let mut bus = Self { ports, found: Vec::new() };
        let mut open = Vec::from([0_u8]);
        let mut seen = Vec::new();
        while let Some(number) = open.pop() {
            if seen.contains(&number) {
                continue;
            }
            seen.push(number);
            for device in 0..32 {
                bus.probe(number, device, &mut open).await?;
            }
        }
        Ok(bus)
    }

    async fn probe(&mut self, bus: u8, device: u8, open: &mut Vec<u8>) -> Result<(), CallError> {
        let mut functions = 1;
        let mut function = 0;
        while function < functions {
            let place = Place { bus, device, function };
            function = function.saturating_add(1);
            let [vendor_low, vendor_high, device_low, device_high] = self.read(place, 0).await?.to_le_bytes();
            let vendor = u16::from_le_bytes([vendor_low, vendor_high]);
            if vendor == 0xffff {
                continue;
            }
            let class = self.read(place, 8).await? >> 8;
            let [_, _, header, _] = self.read(place, 12).await?.to_le_bytes();
            if place.function == 0 && header & 0x80 != 0 {
                functions = 8;
            }
            if header & 0x7f == 1 {
                let [_, secondary, _, _] = self.read(place, 0x18).await?.to_le_bytes();
                open.push(secondary);
            }
            self.found.push(Found { place, vendor, device: u16::from_le_bytes([device_low, device_high]), class });
        }
        Ok(())
    }

    /// The first function that a grant is of: of this class, or of this vendor with one of these devices.
    #[must_use]
    pub fn find(&self, wanted: &GrantSourcePci) -> Option<Found> {
        let fits = |found: &&Found| match wanted.class {
            0 => found.vendor == wanted.vendor && wanted.devices.contains(&found.device),
            class => found.class == class,
        };
        self.found.iter().find(fits).copied()
    }

    /// What is on the bus, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let all: Vec<String> = self.found.iter().map(|found| format!("{found}")).collect();
        if all.is_empty() { "nothing".into() } else { all.join(", ") }
    }

    /// What a grant is of, in words.
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

    fn register(place: Place, offset: u8) -> u32 {
        0x8000_0000 | (place.address() << 8) | u32::from(offset & 0xfc)
    }

    /// Reads a register; `offset` is a multiple of 4.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn read(&self, place: Place, offset: u8) -> Result<u32, CallError> {
        // Both go into the ring one after the other, and nobody else holds these ports.
        let (selected, value) =
            capos_rt::join(self.ports.write(ADDRESS, 4, Self::register(place, offset)), self.ports.read(DATA, 4)).await;
        selected?;
        value
    }

    /// Writes a register; `offset` is a multiple of 4.
    ///
    /// # Errors
    /// The ports are gone.
    pub async fn write(&self, place: Place, offset: u8, value: u32) -> Result<(), CallError> {
        let (selected, written) = capos_rt::join(
            self.ports.write(ADDRESS, 4, Self::register(place, offset)),
            self.ports.write(DATA, 4, value),
        )
        .await;
        selected?;
        written
    }
}
