//! What fuzzing starts from: good ones of each kind, small.

use anyhow::{Result, anyhow};
use capos_audit::{Chain, Kind};
use capos_schema::audit::{Phase, ToolEvent};
use capos_schema::authority::Decision;
use capos_schema::models::{ChatMessage, Outcome, ToolDescriptor};
use capos_schema::wire;

/// A file of the source.
macro_rules! source {
    ($path:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path)).to_vec()
    };
}

/// Tables of the firmware with right checksums.
pub fn acpi() -> Result<Vec<Vec<u8>>> {
    let seal = |bytes: &mut [u8], at: usize| {
        let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        if let Some(place) = bytes.get_mut(at) {
            *place = place.wrapping_sub(sum);
        }
    };
    let table = |signature: &[u8; 4], revision: u8, body: &[u8]| {
        let length = u32::try_from(capos_machine::acpi::HEADER + body.len())?;
        let mut bytes = [signature.as_slice(), &length.to_le_bytes(), &[revision, 0]].concat();
        bytes.resize(capos_machine::acpi::HEADER, 0);
        bytes.extend(body);
        seal(&mut bytes, 9);
        anyhow::Ok(bytes)
    };
    // A processor, an I/O controller, and an interrupt that is wired otherwise.
    let madt = [
        &[0, 0, 0xe0, 0xfe, 1, 0, 0, 0, 0, 8, 0, 0, 1, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0][..],
        &[2, 10, 0, 9, 9, 0, 0, 0, 13, 0],
    ]
    .concat();
    let mcfg = [[0; 8], 0xb000_0000_u64.to_le_bytes(), [0, 0, 0, 255, 0, 0, 0, 0]].concat();
    let mut pointer = [b"RSD PTR ".as_slice(), &[0; 7], &[2], &[0, 0, 1, 0]].concat();
    seal(&mut pointer, 8);
    pointer.extend(36_u32.to_le_bytes());
    pointer.extend(0x2_0000_u64.to_le_bytes());
    pointer.extend([0; 4]);
    seal(&mut pointer, 32);
    Ok(vec![
        table(b"APIC", 3, &madt)?,
        table(b"MCFG", 1, &mcfg)?,
        table(b"FACP", 4, &[0; 208])?,
        table(b"XSDT", 1, &0x3_0000_u64.to_le_bytes())?,
        pointer,
        // The name of a package, and the package: the machine's method to turn itself off.
        b"\x08_S5_\x12\x06\x04\x0a\x05\x0a\x05\x00\x00".to_vec(),
    ])
}

pub fn audit() -> Result<Vec<Vec<u8>>> {
    let mut chain = Chain::new(1 << 20);
    let start = Kind::SessionStart.event("session-1", "ada", &[("profile", &"operator")]);
    chain.append_general(5, start).map_err(|why| anyhow!("{why:?}"))?;
    let said = capos_audit::message("session-1", "ada", "c1", 1, "user", "read my notes");
    chain.append_general(6, said).map_err(|why| anyhow!("{why:?}"))?;
    let call = ToolEvent {
        phase: Phase::Refused,
        session: "session-1".into(),
        principal: "ada".into(),
        conversation: "c1".into(),
        turn: 1,
        call_id: "call-1".into(),
        model_id: "0123abcd-llama".into(),
        backend: "scripted".into(),
        nonce: vec![1, 2, 3],
        runner: "capos-side".into(),
        descriptor: ToolDescriptor { name: "power_off".into(), method_name: "off".into(), ..ToolDescriptor::default() },
        arguments: "{}".into(),
        decision: Decision::Forbidden,
        outcome: Outcome::RefusedByPolicy,
        decided: true,
        advertised: vec!["power_off".into()],
        ..ToolEvent::default()
    };
    chain.append_tool(7, call).map_err(|why| anyhow!("{why:?}"))?;
    let lines: Vec<_> = chain.records().iter().map(|record| record.line()).collect();
    Ok(vec![lines.join("\n").into_bytes()])
}

/// Letters, arrows, a paste of two lines, answers to the question for the size, the ends of a line and of a session.
pub fn keyboard() -> Result<Vec<Vec<u8>>> {
    let keys = "\u{3}héllo\x1b[D\x1b[1;5C\x7f\x01\x0b\x1b[A\r\x1b[200~one\ntwo\x1b[201~\r\x1b[24;80R\x03\x04";
    Ok(vec![keys.as_bytes().to_vec()])
}

/// Colours, a title, a cursor that is moved, text in the other direction, bytes that are not text.
pub fn screen() -> Result<Vec<Vec<u8>>> {
    let mut text =
        "\u{2}\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\rover\r\n\u{202e}abc\u{200d}e\u{301}\t\x1b".as_bytes().to_vec();
    text.extend(b"\xff\xe2\x82");
    Ok(vec![text])
}

pub fn elf() -> Result<Vec<Vec<u8>>> {
    // A program of one segment, by hand.
    let mut file = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in file.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[2, 0, 0x3e, 0, 1]);
    put(24, &0x40_0000_u64.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    put(52, &[64, 0, 56, 0, 1, 0]);
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    put(80, &0x40_0000_u64.to_le_bytes());
    put(96, &4096_u64.to_le_bytes());
    put(104, &4096_u64.to_le_bytes());
    put(112, &4096_u64.to_le_bytes());
    Ok(vec![file])
}

pub fn models() -> Result<Vec<Vec<u8>>> {
    let mut files: Vec<_> = capos_hostile_models::all()?.into_iter().map(|model| model.file).collect();
    // Larger ones are slow to go through.
    files.retain(|file| file.len() <= 64 << 10);
    files.push(source!("tests/infer/tokenizers/byte_pair.gguf"));
    Ok(files)
}

pub fn template() -> Result<Vec<Vec<u8>>> {
    let forms =
        b"{% set ns = namespace(x=[1]) %}{% macro m(a, b=2) %}{{ '%5s' % a|sort(attribute='b') }}{% endmacro %}\
                  {{ m(messages[0].content[::-1].split(' ', 1)) ~ {'a': (1, 2.5)}|tojson(indent=1) }}{# #}";
    Ok(vec![
        forms.to_vec(),
        source!("tests/infer/templates/hermes.jinja"),
        source!("tests/infer/templates/header.jinja"),
    ])
}

pub fn handbook() -> Result<Vec<Vec<u8>>> {
    Ok(vec![b"? How is the system?\nI will look.\ncall system_status\n\n? Who are you?\nA handbook.\n".to_vec()])
}

pub fn script() -> Result<Vec<Vec<u8>>> {
    Ok(vec![source!("tests/scenarios/engine/model.jsonl"), source!("tests/scenarios/weights/model.jsonl")])
}

pub fn disk_content() -> Result<Vec<Vec<u8>>> {
    let disk = |parts: &[(usize, &[u8])]| {
        let mut disk = vec![0; 36 << 10];
        for (at, part) in parts {
            for (to, from) in disk.iter_mut().skip(*at).zip(*part) {
                *to = *from;
            }
        }
        disk
    };
    let signature: (usize, &[u8]) = (510, &[0x55, 0xaa]);
    let fat: &[u8] = &[0xeb, 0x3c, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 0, 2, 224, 0, 64, 11, 0xf0, 9, 0];
    Ok(vec![
        disk(&[(0, &capos_disk_content::DATA_DISK), (8, &[1])]),
        disk(&[(16 * 2048, b"\x01CD001\x01")]),
        disk(&[(0, fat), signature]),
        disk(&[(446, &[0x80, 0, 0, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 1]), signature]),
        disk(&[(512, b"EFI PART")]),
    ])
}

pub fn iso9660() -> Result<Vec<Vec<u8>>> {
    const SECTOR: usize = 2048;
    let mut disc = vec![0; 24 * SECTOR];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in disc.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    let both = |value: u32| [value.to_le_bytes(), value.to_be_bytes()].concat();
    // A record of a folder or a file: where it is, how long, and its name.
    let record = |lba: u32, bytes: u32, folder: bool, name: &[u8]| {
        let length = (33 + name.len()).next_multiple_of(2);
        let mut record = vec![length as u8, 0];
        record.extend(both(lba));
        record.extend(both(bytes));
        record.extend([120, 1, 1, 0, 0, 0, 0, if folder { 2 } else { 0 }, 0, 0, 1, 0, 0, 1, name.len() as u8]);
        record.extend(name);
        record.resize(length, 0);
        record
    };
    put(16 * SECTOR, b"\x01CD001\x01");
    put(16 * SECTOR + 80, &both(24));
    put(16 * SECTOR + 120, &[1, 0, 0, 1, 1, 0, 0, 1, 0, 8, 8, 0]);
    put(16 * SECTOR + 156, &record(18, 2048, true, b"\0"));
    put(17 * SECTOR, b"\xffCD001\x01");
    let root =
        [record(18, 2048, true, b"\0"), record(18, 2048, true, b"\x01"), record(20, 5, false, b"A.TXT;1")].concat();
    put(18 * SECTOR, &root);
    put(20 * SECTOR, b"hello");
    Ok(vec![disc])
}

/// Small volumes: FAT12 with a file and a folder that has a long name, and ISO 9660.
pub fn transfer() -> Result<Vec<Vec<u8>>> {
    const BLOCK: usize = 512;
    let mut disk = vec![0; 64 * BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in disk.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    // Blocks of 512 bytes, one in a cluster, two tables of one block, a top folder of one block.
    put(0, &[0xeb, 0x3c, 0x90]);
    put(3, b"MTOO4043");
    put(11, &[0, 2, 1, 1, 0, 2, 16, 0, 64, 0, 0xf8, 1, 0]);
    put(36, &[0x80, 0, 0x29, 1, 2, 3, 4]);
    put(43, b"SMALL      FAT12   ");
    put(510, &[0x55, 0xaa]);
    // Clusters 2 and 3 end.
    for table in [1, 2] {
        put(table * BLOCK, &[0xf8, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }
    let entry = |name: &[u8; 11], attributes: u8, cluster: u8, bytes: u8| {
        let mut entry = [0; 32];
        entry[..11].copy_from_slice(name);
        (entry[11], entry[26], entry[28]) = (attributes, cluster, bytes);
        entry
    };
    let sum = b"FOLDER~1   ".iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut long = [0xff; 32];
    for (unit, at) in b"long dir name".iter().zip([1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30]) {
        long.iter_mut().skip(at).zip([*unit, 0]).for_each(|(to, from)| *to = from);
    }
    (long[0], long[11], long[12], long[13], long[26], long[27]) = (0x41, 0x0f, 0, sum, 0, 0);
    let top = [entry(b"A       TXT", 0x20, 2, 5), long, entry(b"FOLDER~1   ", 0x10, 3, 0)].concat();
    put(3 * BLOCK, &top);
    put(4 * BLOCK, b"hello");
    put(5 * BLOCK, &[entry(b".          ", 0x10, 3, 0), entry(b"..         ", 0x10, 0, 0)].concat());
    Ok([vec![disk], iso9660()?].concat())
}

pub fn manifest() -> Result<Vec<Vec<u8>>> {
    Ok(vec![source!("iso_root/etc/manifest.toml"), source!("tests/scenarios/engine/manifest.toml")])
}

pub fn signature() -> Result<Vec<Vec<u8>>> {
    let key = capos_verity::SigningKey::from_seed("model-weights", [7; 32])?;
    let mut trust = capos_verity::TrustStore::default();
    trust.allow(key.public(), key.purpose())?;
    let digest = capos_verity::FileDigest::parse(&format!("sha256:{}", "ab".repeat(32)));
    let digest = digest.ok_or_else(|| anyhow!("no digest"))?;
    let signature = capos_verity::FileSignature::sign(&key, "small.gguf", 4096, digest)?;
    Ok([trust.to_text(), key.to_text(), signature.to_text()].map(String::into_bytes).to_vec())
}

pub fn ustar() -> Result<Vec<Vec<u8>>> {
    let mut header = vec![0; 512];
    for (at, bytes) in
        [(0, &b"bin/init"[..]), (100, b"0000644\0"), (124, b"00000000005\0"), (156, b"0"), (257, b"ustar\x0000")]
    {
        for (to, from) in header.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
    for (to, from) in header.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *to = from;
    }
    let mut archive = header;
    archive.extend(b"hello");
    archive.resize(4 * 512, 0);
    Ok(vec![archive])
}

pub fn ring_entry() -> Result<Vec<Vec<u8>>> {
    // One of each operation, whatever it makes of the rest.
    Ok((0..12).map(|opcode| std::iter::once(opcode).chain([0; capos_abi::entry::ENTRY_SIZE - 1]).collect()).collect())
}

pub fn message() -> Result<Vec<Vec<u8>>> {
    // A root of one word of data and one pointer to a text.
    let words: [u64; 4] = [0x0001_0001_0000_0000, 7, 0x0000_002a_0000_0001, 0x0000_006f_6c6c_6568];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok((0..40).map(|interface| [&[interface, 0], bytes.as_slice()].concat()).collect())
}

pub fn typed_message() -> Result<Vec<Vec<u8>>> {
    let seed = |kind: u8, content: &str| -> Result<Vec<u8>> {
        let message = ChatMessage { content: content.to_owned(), ..ChatMessage::default() };
        Ok([&[kind], wire::to_bytes(&message)?.as_slice()].concat())
    };
    let text = "list the files of";
    let kinds = (0..12).map(|kind| seed(kind, text));
    // Every way in which a text can end within its last word.
    let lengths = (0..text.len()).map(|length| seed(0, text.get(..length).unwrap_or_default()));
    // Requests with many messages of no size: one with more than the request's length accounts for, and one with as
    // many as are permitted.
    let lists = [400_u64, 20].map(|count| {
        let words = [1 << 48, 1 | 7 << 32, count << 2];
        let words = words.into_iter().chain(core::iter::repeat_n(0, 100));
        Ok(core::iter::once(1).chain(words.flat_map(u64::to_le_bytes)).collect())
    });
    kinds.chain(lengths).chain(lists).collect()
}

pub fn json() -> Result<Vec<Vec<u8>>> {
    let texts =
        [r#"{"path":"notes/a.txt","text":"hi"}"#, r#"{"type":"object","properties":{"a":{"enum":[1,"x",null]}}}"#];
    Ok(texts.iter().map(|text| text.as_bytes().to_vec()).collect())
}

/// Schemas of each draft, one whose definitions contain each other, one whose reference never ends, and a deep one.
pub fn json_schema() -> Result<Vec<Vec<u8>>> {
    let cases: Vec<serde_json::Value> =
        serde_json::from_slice(&source!("userspace/lib/json-schema/tests/verdicts.json"))?;
    let written = cases.iter().filter_map(|case| case.get("schema")).map(ToString::to_string);
    // Each of the nested schemas is a definition, and contains those inside it.
    let paths = (1..60).map(|depth| format!(r##"{{"$ref":"#{}"}}"##, "/items".repeat(depth)));
    let nested = format!(
        r#"{{"allOf":[{}],"items":{}{}{}}}"#,
        paths.collect::<Vec<_>>().join(","),
        r#"{"items":"#.repeat(60),
        r#"{"enum":[1,"a"]}"#,
        "}".repeat(60),
    );
    let endless = r##"{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#"}]},"b":{"$ref":"#/$defs/a"}}}"##;
    let deep = format!("{}true{}", r#"{"not":"#.repeat(126), "}".repeat(126));
    Ok(written.chain([nested, endless.to_owned(), deep]).map(String::into_bytes).collect())
}

pub fn volume() -> Result<Vec<Vec<u8>>> {
    use capos_volume::{BLOCK, CipherKind, Cost, Disk, Format, Secret, Volume, sim};
    let format = Format { cipher: CipherKind::ChaCha20Poly1305, cost: Cost::LEAST, label: "seed", cache_nodes: 2 };
    let mut seed = sim::Seed(1);
    let mut random = |bytes: &mut [u8]| seed.fill(bytes);
    let disk = sim::SimDisk::new(64, 1);
    let mut volume = Volume::format(disk, format, &Secret::KeyFile(&[7; 32]), &mut random)?;
    volume.add_slot(&Secret::Passphrase(b"x"), Cost::LEAST, "second", &mut random)?;
    let mut header = vec![0; BLOCK];
    volume.into_disk().read(0, &mut header).map_err(|error| anyhow!("{error}"))?;
    Ok(vec![header])
}
