//! The Fixed ACPI Description Table: where power management is.

use super::{Table, u8_at, u16_at, u32_at, u64_at};

/// The fields that the kernel uses. Ports of 0 are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fadt {
    /// Physical address of the DSDT.
    pub dsdt: u64,
    /// Port and value that turn ACPI mode on.
    pub smi_command: u16,
    pub acpi_enable: u8,
    /// Port of the power management control register.
    pub control: u16,
    /// Port of the power management timer, and whether it counts 32 bits instead of 24.
    pub timer: u16,
    pub timer_wide: bool,
    /// Index of the clock's century register, 0 if there is none.
    pub century: u8,
}

impl Fadt {
    /// Reads the table.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let table = Table::new(bytes, b"FACP")?;
        let bytes = table.bytes();
        let wide_dsdt = u64_at(bytes, 140).filter(|address| *address != 0);
        Some(Self {
            dsdt: wide_dsdt.or_else(|| u32_at(bytes, 40).map(u64::from))?,
            smi_command: u32_at(bytes, 48)? as u16,
            acpi_enable: u8_at(bytes, 52)?,
            control: port(bytes, 172, 64)?,
            timer: port(bytes, 208, 76)?,
            timer_wide: u32_at(bytes, 112)? >> 8 & 1 == 1,
            century: u8_at(bytes, 108)?,
        })
    }
}

/// A port from the wide field at `wide`, if that names one in I/O space, or the narrow one.
fn port(bytes: &[u8], wide: usize, narrow: usize) -> Option<u16> {
    const IO_SPACE: u8 = 1;
    if u8_at(bytes, wide) == Some(IO_SPACE)
        && let Some(address) = u64_at(bytes, wide.checked_add(4)?)
        && let Ok(port @ 1..) = u16::try_from(address)
    {
        return Some(port);
    }
    u16_at(bytes, narrow)
}

#[cfg(test)]
mod tests {
    use super::super::{HEADER, build};
    use super::*;

    fn sample(length: usize) -> Vec<u8> {
        let mut whole = vec![0; length];
        whole[40..44].copy_from_slice(&0x7fe0_0040u32.to_le_bytes());
        whole[48] = 0xb2;
        whole[52] = 2;
        whole[64..66].copy_from_slice(&0x604u16.to_le_bytes());
        whole[76..78].copy_from_slice(&0x608u16.to_le_bytes());
        whole[108] = 0x32;
        whole[113] = 1;
        build::table(b"FACP", 3, &whole[HEADER..])
    }

    #[test]
    fn the_first_revision() {
        let fadt = Fadt::new(&sample(116)).unwrap();
        let expected = Fadt {
            dsdt: 0x7fe0_0040,
            smi_command: 0xb2,
            acpi_enable: 2,
            control: 0x604,
            timer: 0x608,
            timer_wide: true,
            century: 0x32,
        };
        assert_eq!(fadt, expected);
        let short = build::table(b"FACP", 1, &[0; 64]);
        assert_eq!(Fadt::new(&short), None, "too short");
    }

    #[test]
    fn wide_fields_win_where_they_name_a_port() {
        let mut bytes = sample(244);
        bytes[140..148].copy_from_slice(&0x1_0000_0000u64.to_le_bytes());
        bytes[172] = 1;
        bytes[176..184].copy_from_slice(&0x404u64.to_le_bytes());
        bytes[208] = 0;
        bytes[212..220].copy_from_slice(&0x9999u64.to_le_bytes());
        build::seal(&mut bytes, 9);
        let fadt = Fadt::new(&bytes).unwrap();
        assert_eq!((fadt.dsdt, fadt.control, fadt.timer), (0x1_0000_0000, 0x404, 0x608));
    }
}
