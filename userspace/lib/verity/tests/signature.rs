//! Signatures, keys and trust stores: what is accepted, and each way to be rejected.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use capos_verity::*;
use proptest::prelude::*;

const NAME: &str = "builtin.gguf";
const SIZE: u64 = 67_108_864;
const DIGEST: FileDigest = FileDigest([0xab; 32]);
const EXPECTED: Expected<'static> = Expected { purpose: PURPOSE_MODEL_WEIGHTS, name: NAME, size: SIZE };

fn key(purpose: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(purpose, [seed; 32]).unwrap()
}

fn trust(key: &SigningKey, purpose: &str) -> TrustStore {
    let mut store = TrustStore::new();
    store.allow(key.public(), purpose).unwrap();
    store
}

fn signed(key: &SigningKey) -> FileSignature {
    FileSignature::sign(key, NAME, SIZE, DIGEST).unwrap()
}

#[test]
fn a_good_signature_is_believed() {
    let key = key(PURPOSE_MODEL_WEIGHTS, 1);
    let store = TrustStore::parse(trust(&key, PURPOSE_MODEL_WEIGHTS).to_text().as_bytes()).unwrap();
    let text = signed(&key).to_text();
    let file = FileSignature::parse(text.as_bytes()).unwrap().verify(&store, &EXPECTED).unwrap();
    assert_eq!((file.size(), file.name(), *file.digest()), (SIZE, NAME, DIGEST));
    assert_eq!((file.purpose(), file.key()), (PURPOSE_MODEL_WEIGHTS, key.public().id()));
}

/// The form is fixed: files signed today must be readable by later versions.
#[test]
fn the_text_form_is_fixed() {
    let key = key(PURPOSE_MODEL_WEIGHTS, 1);
    let text = signed(&key).to_text();
    let lines: Vec<&str> = text.split('\n').collect();
    assert_eq!(lines[..2], ["capos-signature 1", "purpose: model-weights"]);
    assert_eq!(lines[2..4], ["name: builtin.gguf", "size: 67108864"]);
    assert_eq!(lines[4], format!("digest: sha256:{}", "ab".repeat(32)));
    assert_eq!(lines[5], format!("key: {}", key.public().id()));
    assert_eq!((lines.len(), lines[7]), (8, ""));
    // Ed25519 has no randomness: the same facts give the same bytes.
    assert_eq!(text, signed(&key).to_text());
}

/// Requirement A18: a key of another purpose is refused for weights.
#[test]
fn a18_keys_of_other_purposes_are_refused() {
    let program = key(PURPOSE_PROGRAM, 2);
    // Signed honestly, for programs.
    let refusal = signed(&program).verify(&trust(&program, PURPOSE_PROGRAM), &EXPECTED).unwrap_err();
    assert!(matches!(refusal, Refusal::Purpose { .. }), "{refusal}");
    // A signer who lies about the purpose: the store knows better.
    let liar = key(PURPOSE_MODEL_WEIGHTS, 2);
    let refusal = signed(&liar).verify(&trust(&program, PURPOSE_PROGRAM), &EXPECTED).unwrap_err();
    assert_eq!(refusal, Refusal::KeyPurpose { key: program.public().id(), purpose: PURPOSE_MODEL_WEIGHTS.into() });
    assert!(refusal.to_string().contains("not for the purpose 'model-weights'"));
    // And relabelling a signature for programs breaks it.
    let text = signed(&program).to_text().replace("purpose: program", "purpose: model-weights");
    let both = trust(&program, PURPOSE_MODEL_WEIGHTS);
    let refusal = FileSignature::parse(text.as_bytes()).unwrap().verify(&both, &EXPECTED).unwrap_err();
    assert_eq!(refusal, Refusal::BadSignature { key: program.public().id() });
}

#[test]
fn strangers_and_other_files_are_refused() {
    let key = key(PURPOSE_MODEL_WEIGHTS, 1);
    let store = trust(&key, PURPOSE_MODEL_WEIGHTS);
    let stranger = self::key(PURPOSE_MODEL_WEIGHTS, 9);
    assert_eq!(signed(&stranger).verify(&store, &EXPECTED), Err(Refusal::UnknownKey { key: stranger.public().id() }));
    let refused = |expected| signed(&key).verify(&store, &expected).unwrap_err();
    assert!(matches!(refused(Expected { name: "other.gguf", ..EXPECTED }), Refusal::Name { .. }));
    assert_eq!(refused(Expected { size: SIZE + 1, ..EXPECTED }), Refusal::Size { signed: SIZE, found: SIZE + 1 });
}

#[test]
fn every_changed_fact_breaks_the_signature() {
    let key = key(PURPOSE_MODEL_WEIGHTS, 1);
    let store = trust(&key, PURPOSE_MODEL_WEIGHTS);
    let text = signed(&key).to_text();
    for (from, to) in [("builtin", "builtim"), ("67108864", "67108865"), ("sha256:a", "sha256:b")] {
        let changed = FileSignature::parse(text.replacen(from, to, 1).as_bytes()).unwrap();
        let expected = Expected { name: changed.name(), size: changed.size(), ..EXPECTED };
        assert!(matches!(changed.verify(&store, &expected), Err(Refusal::BadSignature { .. })), "{to}");
    }
}

/// Requirement F03: what a model can do besides answering is its signer's word, and a signature without that word stays as it was.
#[test]
fn f03_a_signer_declares_that_a_model_summarises() {
    let key = key(PURPOSE_MODEL_WEIGHTS, 1);
    let store = trust(&key, PURPOSE_MODEL_WEIGHTS);
    let text = FileSignature::declare(&key, (NAME, SIZE, DIGEST), true).unwrap().to_text();
    assert_eq!(text.lines().nth(5), Some("summarises: true"));
    let read = |text: &str| FileSignature::parse(text.as_bytes()).unwrap().verify(&store, &EXPECTED);
    assert!(read(&text).unwrap().summarises());
    assert!(!read(&signed(&key).to_text()).unwrap().summarises());
    let line = "summarises: true\n";
    let bad = Refusal::BadSignature { key: key.public().id() };
    assert_eq!(read(&text.replace(line, "")), Err(bad.clone()), "it cannot be taken away");
    assert_eq!(read(&signed(&key).to_text().replace("key:", &format!("{line}key:"))), Err(bad), "nor added");
    let error = FileSignature::parse(text.replace(line, "summarises: false\n").as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 6: summarises: it is true, or the line is absent"), "{error}");
}

#[test]
fn malformed_signatures_are_refused_in_words() {
    let good = signed(&key(PURPOSE_MODEL_WEIGHTS, 1)).to_text();
    let cases: &[(String, &str)] = &[
        (String::new(), "final line feed"),
        (good.trim_end().to_string(), "final line feed"),
        (good.replace("signature 1", "signature 2"), "version '2' is not known"),
        (good.replace("signature 1", "signature 01"), "version '01' is not known"),
        (good.replace("capos-sig", "other-sig"), "does not begin with 'capos-signature'"),
        (good.replace("size: ", "size: +"), "line 4: size: not a decimal number"),
        (good.replace("size: ", "size: 0"), "line 4: size: not a decimal number"),
        (good.replace("size: 67108864", "size: 18446744073709551616"), "line 4: size"),
        (good.replace("name: ", "name: ../"), "line 3: name: a name holds no '/'"),
        (good.replace("name: builtin.gguf", "name: "), "line 3: name: a name has 1 to 255"),
        (good.replace("name: builtin.gguf", "name: .."), "line 3: name: a name is not"),
        (good.replace("name: b", "name: \x1b"), "line 3 holds bytes that are not printable"),
        (good.replace("model-weights", "Model"), "line 2: purpose: a purpose is made of"),
        (good.replace("sha256:ab", "sha256:AB"), "line 5: digest"),
        (good.replace("sha256:ab", "sha512:ab"), "line 5: digest"),
        (good.replace("\nkey:", "\nkeys:"), "line 6: expected key"),
        (format!("{good}comment: hi\n"), "line 8: the field 'comment' is not known"),
        (format!("{good}\n"), "line 8"),
        (good.replace("\nsize: 67108864", ""), "line 4: expected size"),
        (good.split("key:").next().unwrap().to_string(), "the field 'key' is missing"),
        (good.replace('\n', "\r\n"), "line 1 holds bytes that are not printable"),
        ("x".repeat(MAX_TEXT_BYTES + 1), "more than 65536 are not read"),
    ];
    for (text, words) in cases {
        let error = FileSignature::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} should hold {words:?}");
    }
    let error = FileSignature::parse(b"capos-signature 1\npurpose: \xff\n").unwrap_err();
    assert_eq!(error, FormatError::NotText { line: 2 });
}

#[test]
fn malformed_trust_stores_are_refused_in_words() {
    let one = key(PURPOSE_PROGRAM, 1);
    let good = trust(&one, PURPOSE_PROGRAM).to_text();
    let entry = good.lines().nth(1).unwrap();
    let id = one.public().id().to_string();
    let public = one.public().to_string();
    let cases: &[(String, &str)] = &[
        (good.replace("trust 1", "trust 3"), "version '3' is not known"),
        (format!("{good}{entry}\n"), "line 3: this key is in the store already"),
        (good.replace(" purposes", " expires=never purposes"), "the field 'expires' is not known"),
        (good.replace(" purposes", &format!(" id={id} purposes")), "the field is there twice: id"),
        (good.replace(&id, &"0".repeat(32)), "line 2: id: the id does not belong"),
        (good.replace(&public, &"0".repeat(64)), "line 2: public: not 64"),
        (good.replace("purposes=program", "purposes="), "line 2: purposes: a purpose has 1"),
        (good.replace("=program", "=program,program"), "line 2: purposes: a purpose is there twice"),
        (good.replace("key ", "key  "), "one blank between them"),
        (good.replace("key ", "lock "), "line 2: expected 'key'"),
        (good.replace(" purposes=program", ""), "the field 'purposes' is missing"),
    ];
    for (text, words) in cases {
        let error = TrustStore::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{error:?} should hold {words:?}");
    }
}

#[test]
fn trust_stores_and_keys_survive_their_text() {
    let (one, two) = (key(PURPOSE_PROGRAM, 1), key(PURPOSE_MODEL_WEIGHTS, 2));
    let mut store = trust(&one, PURPOSE_PROGRAM);
    store.allow(two.public(), PURPOSE_MODEL_WEIGHTS).unwrap();
    store.allow(one.public(), PURPOSE_MODEL_WEIGHTS).unwrap();
    store.allow(one.public(), PURPOSE_MODEL_WEIGHTS).unwrap();
    assert_eq!(store.keys()[0].purposes, [PURPOSE_PROGRAM, PURPOSE_MODEL_WEIGHTS]);
    let text = store.to_text().replace("\nkey", "\n\n# why this key\nkey");
    assert_eq!(TrustStore::parse(text.as_bytes()).unwrap(), store);

    let text = two.to_text();
    let again = SigningKey::parse(text.as_bytes()).unwrap();
    assert_eq!((again.public(), again.purpose()), (two.public(), two.purpose()));
    assert!(!format!("{two:?}").contains(&"02".repeat(8)), "the seed is not shown");
    let error = SigningKey::parse(text.replace("id: ", "id: 0").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 3: id"));
    let other = one.to_text();
    let mixed = text.replace(text.lines().nth(3).unwrap(), other.lines().nth(3).unwrap());
    let error = SigningKey::parse(mixed.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 3: id: the id does not belong to this seed"), "{error}");
    assert!(SigningKey::from_seed(PURPOSE_PROGRAM, [0; 32]).is_err());
    assert!(SigningKey::from_seed("no purpose", [1; 32]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = FileSignature::parse(&bytes);
        let _ = TrustStore::parse(&bytes);
        let _ = SigningKey::parse(&bytes);
    }

    #[test]
    fn any_flipped_bit_of_a_signature_file_is_caught(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let key = key(PURPOSE_MODEL_WEIGHTS, 1);
        let store = trust(&key, PURPOSE_MODEL_WEIGHTS);
        let mut text = signed(&key).to_text().into_bytes();
        let at = at.index(text.len());
        text[at] ^= 1 << bit;
        let verdict = FileSignature::parse(&text).map_err(Refusal::from).and_then(|s| s.verify(&store, &EXPECTED));
        prop_assert!(verdict.is_err());
    }
}
