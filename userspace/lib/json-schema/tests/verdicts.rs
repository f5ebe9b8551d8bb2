//! Schemas of several drafts and values, with the verdicts of the Python package jsonschema 4.26.0.

use capos_script::Schema;
use serde_json::Value;

#[test]
fn normalised_schemas_accept_the_same_values_as_the_written_ones() {
    let cases: Value = serde_json::from_str(include_str!("verdicts.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 24);
    let mut wrong = Vec::new();
    for case in cases {
        let name = &case["name"];
        let schema = Schema::parse(&case["schema"].to_string()).unwrap_or_else(|why| panic!("{name}: {why}"));
        for (key, is_valid) in [("valid", true), ("invalid", false)] {
            for value in case[key].as_array().unwrap() {
                if schema.check(&value.to_string()).is_ok() != is_valid {
                    wrong.push(format!("{name}: {value} is {key}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
