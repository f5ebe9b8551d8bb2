//! Requirement C08.

use super::*;
use alloc::format;
use proptest::prelude::*;

#[test]
fn secrets_are_taken_out() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----";
    let cases = [
        ("password=hunter2 next", "password=[redacted]", 1),
        ("password\t:\thunter2\tnext\r\nkept", "password\t:\t[redacted]\r\nkept", 1),
        (r#"{"output":"a\npassword: hunter2\nb"}"#, r#"{"output":"a\npassword: [redacted]\nb"}"#, 1),
        ("DB_PASSWORD: \"hunter2\", x", "DB_PASSWORD: \"[redacted]\", x", 1),
        (r#"{"api_key":"abc","n":1}"#, r#"{"api_key":"[redacted]","n":1}"#, 1),
        (r#"{\"token\": \"abc\"}"#, r#"{\"token\": \"[redacted]\"}"#, 1),
        (r#"{\"token\": \"a\\\"bc\", x}"#, r#"{\"token\": \"[redacted]\", x}"#, 1),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]", 1),
        ("id ASIAIOSFODNN7EXAMPLE", "id [redacted]", 1),
        ("Authorization: Bearer abcdefghijklmnopqr\n", "Authorization: Bearer [redacted]\n", 1),
        ("Authorization: Basic dTpw\n", "Authorization: Basic [redacted]\n", 1),
        ("send Bearer  abcdefghijklmnopqr now", "send Bearer  [redacted] now", 1),
        (&format!("a {key} b"), "a [redacted] b", 1),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]", 1),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\ncut off", "[redacted]", 1),
        ("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----", 0),
        ("password=", "password=", 0),
        ("password = \"\"", "password = \"\"", 0),
    ];
    for (text, wanted, count) in cases {
        assert_eq!(redact(text), (wanted.into(), count), "{text}");
    }
}

#[test]
fn no_rest_of_a_value_survives() {
    let token = "0123456789abcdefghijABCDEFGHIJ";
    for text in [
        r#"passwd = "quoted hunter two""#,
        r#""password" = "multi\"hunter""#,
        "password=hunter2,tail",
        "password='it;tail'",
        "password='it'\\''s tail'",
        "password: 'it''s tail'",
        "password: a}tail",
        r#"password: ["tail"]"#,
        r#"{"password": ["tail", {"a": "hunter"}], "n": 1}"#,
        r#"{"a": "{\"password\": \"multi\\\"hunter\"}"}"#,
        r#"{"a": "password: |\n  hunter\n  tail\n"}"#,
        "password: |\n  hunter two\n\n  tail\nkept: 1",
        "- password: >-\n    hunter\n  kept: 1",
        "passwords:\n- hunter\n- tail\nkept: 1",
        "password:\n  hunter tail\nkept: 1",
        "password:\nhunter\nkept: 1",
        "password=hunter\\\ntail\nkept",
        "passwords = [\n  'hunter',\n  'tail',\n]\nkept",
        "password = \"\"\"hunter\n\"tail\"\"\"\nkept",
        "AWS_SECRET_ACCESS_KEY=hunter/tail",
        "password=[ab],hunter\nkept",
        "PASSWORD={ab};hunter\nkept",
        r#"log: {\"credentials\": {\"b\": \"x},hunter\"}}"#,
        "secrets = {\n    'a': b'}',\n    'b': 'hunter',\n}\nkept",
        "{u'credentials': {u'b': u'x},hunter'}}",
        "SECRETS=(\n  # a) first\n  hunter\n)\nkept",
        "secrets: {\n  // up to }\n  a: 'hunter'\n}\nkept",
        "client = Client(\n    passwords=[\n        # 1) the old one\n        \"hunter\",\n    ],\n)\nkept",
        "secrets = {\n  \"a\": \"\"\"x\n  }y\n  hunter\n  \"\"\",\n}\nkept",
        "x {\"credentials\": {\"user\": \"bob\",\n\"key\": \"hunter\",\n",
        "secrets =\n{\n\"key\": \"hunter\"\n}\nkept",
        "\"secrets\" =>\n[\n\"hunter\"\n]\nkept",
        "$secrets = array(\n\"hunter\",\n);\nkept",
        "secrets := map[string]string{\n\"key\": \"hunter\",\n}\nkept",
        "const credentials: Creds = {\nkey: \"hunter\",\n};\nkept",
        "let secrets: [&str; 2] = [\n\"hunter\",\n\"tail\"];\nkept",
        "3.5\" disk: {\"credentials\": {\"user\": \"bob\",\n\"key\": \"hunter\"\n}}\nkept",
        "credentials: # production\n  key: hunter\nkept",
        "args:\n- --password\n- hunter\n- kept",
        "  - \"--password\"\n  - \"hunter\"\n  - kept",
        "x [\"--password\" , \"hunter\", \"kept\"]",
        "<password>hunter tail</password>\nkept",
        "<db:Password type=\"x\">hunter\ntail</db:Password>kept",
        "<client-secret><![CDATA[hunter<tail>]]></client-secret>kept",
        "<credentials><user>tail</user><key>hunter</key></credentials>kept",
        "<apiKey value=\"hunter tail\" x=\"kept\"/>",
        "<add key=\"DbPassword\" value='hunter tail'/>kept",
        "<property name=\"api_key\">hunter tail</property>kept",
        "<key>token</key>\n  <string>hunter tail</string>kept",
        "login --password hunter --kept",
        "login --password=hunter --kept",
        "login -password hunter\nkept",
        "login --db-password 'hunter tail' --kept",
        "login --token hunter\\ tail kept",
        "args: ['--password', 'hunter tail', 'kept']",
        r#"{"args": ["--password", "hunter tail", "kept"]}"#,
        "not JSON: {\"args\": [\"--password\",\n\"hunter tail\",\n\"kept\"]}",
        "not JSON: {\"credentials\": {\n\"key\": \"hunter\",\n\"b\": [\"}\", \"tail\"]\n},\n\"kept\": 1}",
        "not JSON: {\"passwords\": [\"tail\",\n\"hunter\"], \"kept\": 1}",
        "kept\n{\"secrets\":\n{\n\"it's\": \"hunter\",\n\"key\": \"tail",
        "secrets = [\n'hunter',\n'tail',\n]; kept",
        "secrets: {\n  // don't (ever\n  a: 'hunter',\n  b: tail\n}\nkept",
        "password: 123hunter",
        "max_tokens: hunter",
        "https://kept:hunter@host/x",
        "postgres://kept:hu/nter@tail@host",
        "SECRET_KEY=hunter",
        "secret_key: hunter",
        "secretKey: hunter",
        "token_v2 = hunter",
        "password2=hunter",
        "pwd=hunter",
        "config['password'] = 'hunter'",
        "password := \"hunter\"",
        &format!("gho_hunter{token}"),
        &format!("ghp_hunter{token}"),
    ] {
        let (out, count) = redact(text);
        assert!(count > 0 && !out.contains("hunter") && !out.contains("tail"), "{text}\n{out}");
        assert_eq!(text.contains("kept"), out.contains("kept"), "{text}\n{out}");
    }
}

#[test]
fn lines_keep_their_numbers() {
    let key = "a\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb";
    for text in [key, "password: x\ny", "{\"password\":\n\"x\",\n\"y\": 1}", "", "plain\n"] {
        let clean = redact_lines(text);
        assert_eq!(clean.matches('\n').count(), text.matches('\n').count(), "{clean}");
        let flat = |text: &str| text.replace('\n', "");
        assert_eq!(flat(&clean), flat(&redact(text).0));
    }
}

#[test]
fn ordinary_text_keeps_its_words() {
    for text in [
        "the password is asked for at login",
        "the password is not here; tokens are counted",
        "task-force, sky",
        "use crate::token::Token;",
        "see https://host:8080/a@b and mail a@b.example",
        "Basic understanding of a bearer of bad news",
        "PASSWORD=\nUSER=bob",
        "secrets:\nuser: bob",
        r#"{"token": null, "note": "the password is asked for at login"}"#,
        "max_tokens: 4096",
        "max_tokens_per_call = 8\n",
        "maxTokens=4_096, temperature=0.7",
        "tokens: 1,024 of 200,000",
        "tokens_per_second: 12.5",
        "password_min_length = 12",
        "token_ttl: \"3600\"",
        r#"{"usage": {"prompt_tokens": 12, "completionTokens": 3, "max_tokens": "4096"}, "token_type": "bearer"}"#,
        "token_type: Bearer",
        "password_file=/run/login",
        "requires_password: false",
        "token = None",
        "--password-stdin < file",
        "--password-file /run/login --user bob",
        "--password to log in, and --token for the rest",
        "--password <PASSWORD>  the password",
        "--password PASSWORD",
        "--password    Ask for the password",
        "--token $TOKEN --password \"$PASSWORD\" --secret ${SECRET} --api-key $(cat key)",
        "the option `--password` takes a word; --password, --token",
        "fn all() -> Vec<Token> { Vec::<Token>::new() } Option<Secret> and Map<Token, Secret> too",
        "replace <password> with yours, and <token> too",
        "<password/><password></password><secret  />",
        "<input type=\"password\" name=\"password\"><label for=\"password\">Your password</label>",
        "<a name=\"tokens\">Tokens</a>",
        "https://host/?page=2&tokens=3",
        "The kinds of token:\n\n(a) access tokens live for an hour",
        "Tokens:\n\n[See the manual](https://x/y) first.",
        "How to reset your password:\n\n[1] Open settings.",
        "Use `--password`,\n`--user` and `--host`.",
        "x [\"--password\",\n\"--user\", \"bob\"]",
        "- --password\n- --token\n- the token of the host",
    ] {
        assert_eq!(redact(text), (text.into(), 0));
    }
}

/// The number of looks ahead does not grow with the text: what took hours would not end here.
#[test]
fn long_texts_are_read_once() {
    for part in [
        "password",
        "password:\n\n",
        "password= ",
        "a://",
        "-----BEGIN ",
        "password:\\",
        "://u:p@",
        "\"password\": [",
        "<token>",
        "<token a>x<",
        "x:token ",
        "<x:token><b>",
        "(",
        "]",
        ":[",
        "token: (((]\n",
        "- --token\n- ",
        "token: [\n",
        "token: [x ",
        "token=({['\"\n",
        "\"--token\",\n",
        "--token ",
        "name=\"token\" ",
        "<key>token</key> ",
    ] {
        let (out, _) = redact(&part.repeat(400_000));
        assert!(!out.is_empty());
    }
}

proptest! {
    #[test]
    fn any_text_is_handled(text in "(password|[=:\" \\\\\n{}\\[\\]-]|sk-|://|@|.|-----BEGIN |PRIVATE KEY-----){0,40}") {
        let (out, count) = redact(&text);
        prop_assert_eq!(out.matches(MASK).count() >= count, true);
    }

    #[test]
    fn a_password_never_survives(before in "[a-z \n]{0,20}", value in "[A-Z0-9]{8,20}") {
        let (out, _) = redact(&format!("{before} password = {value} end"));
        prop_assert!(!out.contains(&value));
    }

    /// Capital letters stand in the value alone.
    #[test]
    fn no_letter_of_a_quoted_value_survives(
        name in "(db_)?(password|secret|api-key|pwd|token)(_v2|s)?",
        separator in "\"?( ?[:=] ?|:=)",
        quote in "[\"'`]",
        value in "([A-Z]|[ ,;:=\"'`\n{}\\[\\]()<>@/|#]|\\\\|é|\\\\\\\\){0,30}",
        levels in 0_u32..3,
    ) {
        let escape = |text: &str| text.replace('\\', "\\\\").replace(quote.as_str(), &format!("\\{quote}"));
        let mut text = format!("{quote}{}{quote}", escape(&value));
        for _ in 0..levels {
            text = escape(&text);
        }
        let (out, _) = redact(&format!("a\n{name}{separator}{text}\nlast"));
        prop_assert!(!out.contains(|letter: char| letter.is_ascii_uppercase()), "{}", out);
        prop_assert!(out.ends_with("\nlast"), "{}", out);
    }

    /// A name such as `password_uri` would say where a secret is, and have none as its value.
    #[test]
    fn no_letter_of_a_value_in_json_survives(name in "[a-z_]{0,5}(password|secret)(s|_[qxz_]{0,4})?", value in "\\PC{0,20}") {
        let text = serde_json::json!({ "a": 1, name: [value.clone(), { "b": value }], "c": "last" }).to_string();
        let (out, count) = redact(&text);
        let out: Value = serde_json::from_str(&out).unwrap();
        prop_assert_eq!((out["a"].clone(), out["c"].clone(), count), (1.into(), "last".into(), 1));
        prop_assert!(out.as_object().unwrap().values().any(|value| value == MASK));
    }

    /// JSON that a line before it makes invalid, with its lines indented or not, whole or cut off.
    #[test]
    fn no_letter_of_a_value_in_lines_of_json_survives(
        name in "[a-z]{0,5}_(password|secret)s?",
        value in "([A-Z]|[ ,;:=\"'`\n{}\\[\\]()<>@/|#]|\\\\|é){0,30}",
        indented: bool,
        cut in 0_usize..400,
    ) {
        let inner = serde_json::json!([value, { "b": value, "c": [value] }]);
        let text = serde_json::json!({ "a": 1, name: inner, "z": "last" });
        let mut text = serde_json::to_string_pretty(&text).unwrap();
        if !indented {
            text = text.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        }
        let (whole, _) = redact(&format!("x\n{text}"));
        prop_assert!(!whole.contains(|letter: char| letter.is_ascii_uppercase()), "{}", whole);
        prop_assert!(whole.contains("last"), "{}", whole);
        let cut = text.floor_char_boundary(cut);
        let (beginning, _) = redact(&format!("x\n{}", &text[..cut]));
        prop_assert!(!beginning.contains(|letter: char| letter.is_ascii_uppercase()), "{}", beginning);
    }
}

/// What is not the value's own stays, whatever brackets stand in it.
#[test]
fn a_value_in_brackets_ends_with_them() {
    let colours = "\u{1b}[0m".repeat(200);
    for (text, wanted) in [
        ("I lost my password :(\nPlease help me.", "I lost my password :[redacted]\nPlease help me."),
        ("DB_PASSWORD=(x9\nUSER=bob\nkept", "DB_PASSWORD=[redacted]\nUSER=bob\nkept"),
        ("x {\"secrets\": [\n\"a\"\n], \"b\": 1}", "x {\"secrets\": [redacted], \"b\": 1}"),
        // What is outside closes it.
        ("x {\"secrets\": [\n\"a\"\n}, \"b\": 1", "x {\"secrets\": [redacted]}, \"b\": 1"),
        ("secrets => {\nkey => 'a'\n}\nkept", "secrets => [redacted]\nkept"),
        ("secrets: {\n`}`: 1,\n}\nkept", "secrets: [redacted]\nkept"),
    ] {
        assert_eq!(redact(text).0, wanted, "{text}");
        assert_eq!(redact(&format!("{colours}\n{text}")).0, format!("{colours}\n{wanted}"));
    }
}
