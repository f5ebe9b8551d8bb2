//! Text.

#[test]
fn regex() {
    let date = regex::Regex::new(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})").unwrap();
    let text = "from 2024-02-29 to 2025-01-01";
    assert_eq!(date.replace_all(text, "$day.$month.$year"), "from 29.02.2024 to 01.01.2025");
    assert!(regex::Regex::new(r"\p{Greek}+").unwrap().is_match("abcδ"));
}

#[test]
fn unicode_segmentation() {
    use unicode_segmentation::UnicodeSegmentation;
    assert_eq!("a🇨🇭é".graphemes(true).count(), 3);
    assert_eq!("it's 3.14, yes".unicode_words().collect::<Vec<_>>(), ["it's", "3.14", "yes"]);
}
