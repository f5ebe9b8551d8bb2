//! What a budget limits.

use alloc::format;
use alloc::string::{String, ToString};

use capos_plural::{count, with_commas};

/// A dimension of a budget. Amounts are whole numbers of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Milliseconds.
    WallClock,
    /// Tool calls.
    Steps,
    /// Tokens that models read and write.
    Tokens,
    /// Millionths of a dollar.
    Cost,
    /// Milliseconds of CPU time of programs.
    Cpu,
    /// Memory of programs over time: a KiB for a millisecond.
    Memory,
    /// Bytes that leave the machine.
    Egress,
    /// Bytes that are written to what is kept.
    Writes,
}

/// A KiB for a millisecond in a MiB for a second.
const MIB_SECONDS: u64 = 1_024_000;
/// Millionths in a cent.
const CENT: u64 = 10_000;

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// All, in their order.
    pub const ALL: [Self; Self::COUNT] =
        [Self::WallClock, Self::Steps, Self::Tokens, Self::Cost, Self::Cpu, Self::Memory, Self::Egress, Self::Writes];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::WallClock => 0,
            Self::Steps => 1,
            Self::Tokens => 2,
            Self::Cost => 3,
            Self::Cpu => 4,
            Self::Memory => 5,
            Self::Egress => 6,
            Self::Writes => 7,
        }
    }

    /// The dimension at this place of their order.
    #[must_use]
    pub fn at(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// The name in a configuration and in the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WallClock => "wall_clock",
            Self::Steps => "steps",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Egress => "egress",
            Self::Writes => "writes",
        }
    }

    /// The dimension of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.name() == name)
    }

    /// What a person calls it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::WallClock => "time",
            Self::Steps => "tool calls",
            Self::Tokens => "model tokens",
            Self::Cost => "model cost",
            Self::Cpu => "CPU time of programs",
            Self::Memory => "memory of programs over time",
            Self::Egress => "bytes that leave this machine",
            Self::Writes => "bytes written",
        }
    }

    /// How many of its unit are one in a configuration, and in what a person types: a second, a MiB for a second, a token.
    #[must_use]
    pub fn scale(self) -> u64 {
        match self {
            Self::WallClock | Self::Cpu => 1000,
            Self::Memory => MIB_SECONDS,
            Self::Steps | Self::Tokens | Self::Cost | Self::Egress | Self::Writes => 1,
        }
    }

    /// An amount as text.
    #[must_use]
    pub fn text(self, amount: u64) -> String {
        let whole = amount.checked_div(self.scale()).unwrap_or_default();
        match self {
            Self::WallClock | Self::Cpu if !amount.is_multiple_of(1000) => {
                let tenths = amount.checked_div(100).unwrap_or_default();
                let (seconds, tenth) = (tenths.checked_div(10).unwrap_or_default(), tenths % 10);
                format!("{}.{tenth} s", with_commas(seconds))
            }
            Self::WallClock | Self::Cpu => format!("{} s", with_commas(whole)),
            Self::Memory => format!("{} MiB·s", with_commas(whole)),
            Self::Cost => {
                let cents = amount.div_ceil(CENT);
                format!("${}.{:02}", with_commas(cents.checked_div(100).unwrap_or_default()), cents % 100)
            }
            Self::Egress | Self::Writes => bytes(amount),
            Self::Steps | Self::Tokens => with_commas(amount),
        }
    }

    /// Reads an amount that a person types: dollars of a cost, otherwise a whole number of seconds, MiB for a second, calls,
    /// tokens or bytes.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<u64> {
        let text = text.trim().replace(',', "");
        if self == Self::Cost {
            let text = text.trim_start_matches('$');
            let (dollars, cents) = text.split_once('.').unwrap_or((text, ""));
            let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            if text.is_empty() || cents.len() > 6 || !is_number(dollars) || !is_number(cents) {
                return None;
            }
            let dollars: u64 = if dollars.is_empty() { 0 } else { dollars.parse().ok()? };
            let part: u64 = format!("{cents:0<6}").parse().ok()?;
            return dollars.checked_mul(1_000_000)?.checked_add(part);
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        text.parse::<u64>().ok()?.checked_mul(self.scale())
    }
}

/// Bytes as text, in the largest unit that has a whole number of them.
fn bytes(amount: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let whole = amount.checked_shr(shift).unwrap_or_default();
        if whole > 0 && whole.checked_shl(shift) == Some(amount) {
            return format!("{} {unit}", with_commas(whole));
        }
    }
    if amount < 10_000 {
        return count(amount, "byte").to_string();
    }
    format!("{} bytes", with_commas(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_units() {
        for (dimension, amount, text) in [
            (Dimension::WallClock, 600_000, "600 s"),
            (Dimension::Cpu, 1_250, "1.2 s"),
            (Dimension::Steps, 50, "50"),
            (Dimension::Tokens, 100_000, "100,000"),
            (Dimension::Cost, 500_000, "$0.50"),
            (Dimension::Cost, 1, "$0.01"),
            (Dimension::Memory, 15_360 * MIB_SECONDS, "15,360 MiB·s"),
            (Dimension::Egress, 10 << 20, "10 MiB"),
            (Dimension::Writes, 1, "1 byte"),
            (Dimension::Writes, 9_999, "9999 bytes"),
            (Dimension::Writes, 10_000, "10,000 bytes"),
            (Dimension::Writes, 123_457, "123,457 bytes"),
        ] {
            assert_eq!(dimension.text(amount), text);
        }
    }

    #[test]
    fn what_a_person_types_is_read_in_the_unit_of_the_question() {
        for (dimension, text, amount) in [
            (Dimension::WallClock, "90", Some(90_000)),
            (Dimension::Tokens, "50,000", Some(50_000)),
            (Dimension::Cost, "0.25", Some(250_000)),
            (Dimension::Cost, "$1", Some(1_000_000)),
            (Dimension::Cost, ".5", Some(500_000)),
            (Dimension::Cost, "-1", None),
            (Dimension::Cost, "1.234567", Some(1_234_567)),
            (Dimension::Cost, "1.2345678", None),
            (Dimension::Cost, "", None),
            (Dimension::Steps, "-1", None),
            (Dimension::Steps, "many", None),
            (Dimension::Steps, "", None),
            (Dimension::Memory, "99999999999999999999", None),
        ] {
            assert_eq!(dimension.parse(text), amount, "{text}");
        }
    }

    #[test]
    fn names_are_those_of_a_configuration() {
        for (place, dimension) in Dimension::ALL.into_iter().enumerate() {
            assert_eq!(Dimension::from_name(dimension.name()), Some(dimension));
            assert_eq!((dimension.index(), Dimension::at(place)), (place, Some(dimension)));
        }
        assert_eq!((Dimension::from_name("money"), Dimension::at(8)), (None, None));
    }
}
