//! How to power off: the `_S5_` package of the DSDT.
//!
//! The package is a constant in practice on every machine, so it is found by its name instead of
//! by interpreting the whole table's byte code. Its first element is the sleep type for the control
//! register; the others are for registers that machines do not have.

const NAME_OP: u8 = 0x08;
const PACKAGE_OP: u8 = 0x12;
const ROOT: u8 = b'\\';

/// Finds `Name (_S5_, Package () {type, ...})` in the byte code of a table; gives the type.
#[must_use]
pub fn find(code: &[u8]) -> Option<u8> {
    let mut from = 0usize;
    loop {
        let rest = code.get(from..)?;
        let at = from.checked_add(rest.windows(4).position(|window| window == b"_S5_")?)?;
        if is_named(code, at)
            && let Some(found) = package(code.get(at.checked_add(4)?..)?)
        {
            return Some(found);
        }
        from = at.checked_add(1)?;
    }
}

/// Whether the name at `at` is being defined: by a name operation, with or without the root prefix.
fn is_named(code: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|i| code.get(i)).copied();
    before(1) == Some(NAME_OP) || (before(1) == Some(ROOT) && before(2) == Some(NAME_OP))
}

/// Reads the first element of a package.
fn package(code: &[u8]) -> Option<u8> {
    let (operation, rest) = code.split_first()?;
    if *operation != PACKAGE_OP {
        return None;
    }
    // The length is 1 to 4 bytes; the first byte's upper two bits say how many follow it.
    let length_bytes = usize::from(rest.first()? >> 6).checked_add(1)?;
    let (count, elements) = rest.get(length_bytes..)?.split_first()?;
    if *count == 0 { None } else { integer(elements) }
}

/// An integer constant below 8: the register's field has three bits.
fn integer(code: &[u8]) -> Option<u8> {
    let (first, rest) = code.split_first()?;
    let value = match first {
        0 => 0,
        1 => 1,
        // Byte, word, double word: little endian.
        0x0a => *rest.first()?,
        0x0b => *rest.get(..2)?.first()?,
        0x0c => *rest.get(..4)?.first()?,
        _ => return None,
    };
    (value < 8).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_as_firmware_writes_them() {
        let cases: [(&[u8], u8); 4] = [
            (b"xx\x08_S5_\x12\x06\x04\x00\x00\x00\x00", 0),
            (b"\x08\\_S5_\x12\x08\x04\x0a\x05\x0a\x07\x00\x00", 5),
            (b"\x08_S5_\x12\x40\x00\x02\x01\x0b\x02\x00", 1),
            (b"\x08_S5_\x12\x04\x01\x0b\x07\x00", 7),
        ];
        for (code, expected) in cases {
            assert_eq!(find(code), Some(expected), "{code:?}");
        }
    }

    #[test]
    fn uses_of_the_name_are_passed_over() {
        let code = b"\x70_S5_\x12\x06\x04\x0a\x03\x08_S5_\x12\x06\x04\x0a\x05\x00\x00";
        assert_eq!(find(code), Some(5));
    }

    #[test]
    fn cut_or_odd_code_gives_nothing() {
        let code = b"\x08_S5_\x12\x08\x04\x0a\x05\x0a\x05\x00\x00";
        for end in 0..10 {
            assert_eq!(find(&code[..end]), None, "cut at {end}");
        }
        assert_eq!(find(b"\x08_S5_\x12\x06\x04\x0a\x09\x00\x00"), None, "nine does not fit");
        assert_eq!(find(b"\x08_S5_\x10\x06\x04\x00\x00"), None, "no package");
        assert_eq!(find(b"\x08_S5_\x12\x02\x00"), None, "empty package");
        assert_eq!(find(b""), None);
    }
}
