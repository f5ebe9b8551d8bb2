//! The canonical text of a JSON value (RFC 8785): what is hashed, compared and shown.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Number, Value};

/// The canonical text of a value by RFC 8785: no white space, members sorted by the UTF-16 code units of their names, numbers
/// as ECMAScript writes them. Two values have one text exactly if they are the same value.
///
/// RFC 8785 gives each number as a double. An integer of 64 bits that no double holds has its own digits here, so that two
/// such integers do not have one text.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let mut separator = '{';
            for (name, member) in &members {
                out.push(separator);
                separator = ',';
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(member, out);
            }
            out.push_str(if members.is_empty() { "{}" } else { "}" });
        }
        Value::Array(items) => {
            let mut separator = '[';
            for item in items {
                out.push(separator);
                separator = ',';
                write(item, out);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Number(number) => out.push_str(&number_text(number)),
        // What the RFC says of strings is what `serde_json` writes.
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => float_text(value),
        _ => number.to_string(),
    }
}

/// A finite number as ECMAScript writes it: the shortest digits that read as the same double.
fn float_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let text = shortest(value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(|letter| *letter != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if value < 0.0 { "-" } else { "" };
    // Digits before the point.
    let before = exponent.saturating_add(1);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if (count..=21).contains(&before) {
        return format!("{sign}{digits}{}", zeros(before.saturating_sub(count)));
    }
    let (first, rest) = match before {
        1..=21 => digits.split_at(usize::try_from(before).unwrap_or(0)),
        -5..=0 => return format!("{sign}0.{}{digits}", zeros(before.saturating_neg())),
        _ => digits.split_at(1),
    };
    let point = if rest.is_empty() { "" } else { "." };
    match before {
        1..=21 => format!("{sign}{first}{point}{rest}"),
        _ => format!("{sign}{first}{point}{rest}e{}{}", if exponent < 0 { "-" } else { "+" }, exponent.unsigned_abs()),
    }
}

/// As few digits as read as the same double; of several such the nearest, and of two that are as near the even one.
fn shortest(value: f64) -> String {
    let text = format!("{value:e}");
    let digits = text.split('e').next().unwrap_or_default().len();
    // A digit and a point stand before the others.
    let nearest = format!("{value:.*e}", digits.saturating_sub(2));
    if nearest.parse() == Ok(value) { nearest } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> String {
        canonical(&serde_json::from_str(text).unwrap())
    }

    /// Appendix B of RFC 8785.
    #[test]
    fn numbers_are_those_of_rfc_8785() {
        let vectors: [(u64, &str); 24] = [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ];
        for (bits, text) in vectors {
            assert_eq!(float_text(f64::from_bits(bits)), text, "{bits:016x}");
        }
    }

    /// Sections 3.2.2 and 3.2.3 of RFC 8785.
    #[test]
    fn texts_are_those_of_rfc_8785() {
        let given = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#;
        let wanted = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
        assert_eq!(of(given), wanted);
        let given = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        assert_eq!(of(given), "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}");
        assert_eq!(of(r#"{ "a" : [ ] , "b" : { } }"#), r#"{"a":[],"b":{}}"#);
        assert_eq!(of("[1.0, 1, -0.0, -1]"), "[1,1,0,-1]");
    }

    #[test]
    fn integers_that_no_double_holds_stay_apart() {
        assert_eq!(of("[18446744073709551615,9007199254740993]"), "[18446744073709551615,9007199254740993]");
        assert_eq!(of("-9223372036854775808"), "-9223372036854775808");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::num::f64::NORMAL.prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The text reads as the same value, and its own text is itself.
        #[test]
        fn a_text_is_read_as_its_value(value in value()) {
            let text = canonical(&value);
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(canonical(&read), text);
        }

        #[test]
        fn a_number_is_read_as_itself(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let read: f64 = float_text(value).parse().unwrap();
            prop_assert!(read == value);
        }
    }
}
