//! Formats of data.

use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Plant {
    name: String,
    days: u32,
}

fn plant() -> Plant {
    Plant { name: "fern".into(), days: 3 }
}

#[test]
fn base64() {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let text = BASE64_STANDARD.encode(b"any carnal pleas");
    assert_eq!(text, "YW55IGNhcm5hbCBwbGVhcw==");
    assert_eq!(BASE64_STANDARD.decode(text).unwrap(), b"any carnal pleas");
}

#[test]
fn csv() {
    let mut reader = csv::Reader::from_reader("name,days\nfern,3\n\"a, b\",4\n".as_bytes());
    let plants: Vec<Plant> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(plants, [plant(), Plant { name: "a, b".into(), days: 4 }]);
}

#[test]
fn flate2() {
    use flate2::{Compression, read::GzDecoder, write::GzEncoder};
    use std::io::{Read, Write};
    let text = "the same again and again ".repeat(1000);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let mut back = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut back).unwrap();
    assert!(back == text && packed.len() < text.len() / 50, "{} bytes", packed.len());
}

#[test]
fn semver() {
    let wanted = semver::VersionReq::parse(">=1.2, <2").unwrap();
    let matches = |text: &str| wanted.matches(&semver::Version::parse(text).unwrap());
    assert!(matches("1.10.0") && !matches("2.0.0-rc.1") && !matches("1.1.9"));
}

#[test]
fn serde_json() {
    let text = serde_json::to_string(&plant()).unwrap();
    assert_eq!(text, r#"{"name":"fern","days":3}"#);
    assert_eq!(serde_json::from_str::<Plant>(&text).unwrap(), plant());
    let error = serde_json::from_str::<Plant>(r#"{"name": 1}"#).unwrap_err();
    assert_eq!((error.line(), error.column()), (1, 10));
}

#[test]
fn toml() {
    let text = toml::to_string(&plant()).unwrap();
    assert_eq!(toml::from_str::<Plant>(&text).unwrap(), plant());
    assert!(toml::from_str::<Plant>("name = 'fern'\ndays = -1").is_err());
}

#[test]
fn url() {
    let base = url::Url::parse("https://example.org/a/b?x=1#f").unwrap();
    let joined = base.join("../c?q=ä").unwrap();
    assert_eq!(joined.as_str(), "https://example.org/c?q=%C3%A4");
}

#[test]
fn uuid() {
    use uuid::Uuid;
    assert_ne!(Uuid::new_v4(), Uuid::new_v4());
    let named = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"www.example.com");
    assert_eq!(named.to_string(), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
}
