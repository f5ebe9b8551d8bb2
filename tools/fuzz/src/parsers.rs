//! The bodies of the targets.

use std::pin::pin;
use std::task::{Context, Waker};

use capos_iso9660::{ReadSectors, SECTOR, Volume};
use capos_machine::acpi;
use capos_schema::cap::IncomingMessage;
use capos_schema::wire::{self, Wire};
use capos_schema::{audit, kernel, manifest, models};
use capos_terminal::{Console, Event, Read, Sanitiser, Settings, sanitise};
use sha2::{Digest, Sha256};

/// The firmware's tables, each parsed as every kind.
pub fn acpi(data: &[u8]) {
    let _ = acpi::root::pointer(data);
    for wide in [false, true] {
        let _ = acpi::root::entries(data, wide).map(Iterator::count);
    }
    if let Some(table) = acpi::madt::Madt::new(data) {
        let _ = (table.local_address(), table.entries().count());
    }
    let _ = (acpi::fadt::Fadt::new(data), acpi::mcfg::first_segment(data), acpi::sleep::find(data));
}

/// Lines of an audit log.
pub fn audit(data: &[u8]) {
    let _ = capos_audit::verify_lines(data.split(|byte| *byte == b'\n'), None);
}

/// The start of a program's file.
pub fn elf(data: &[u8]) {
    if let Ok(program) = capos_elf::Program::parse(data, data.len() as u64) {
        assert!(program.segments().iter().all(|segment| segment.file_bytes <= segment.memory_bytes));
    }
}

/// The header of a model file.
pub fn gguf(data: &[u8]) {
    if let Ok(header) = capos_gguf::Header::parse(data, data.len() as u64) {
        let _ = (header.facts(), header.entries().count());
    }
}

/// A model's whole path to an answer.
pub fn model(data: &[u8]) {
    let _ = crate::drive::drive(data);
}

/// A chat template, and its output for a short conversation, without tools and with a call of one.
pub fn template(data: &[u8]) {
    use capos_jinja::{Host, Limits, Template, Value};
    let Ok(template) = str::from_utf8(data).map_err(drop).and_then(|source| Template::new(source).map_err(drop)) else {
        return;
    };
    let limits = Limits { steps: 100_000, text: 1 << 16, depth: 112 };
    let dict = |entries: Vec<(&str, Value)>| {
        Value::dict(entries.into_iter().map(|(name, value)| (Value::own(name), value)).collect())
    };
    let message = |role: &str, content: &str| vec![("role", Value::own(role)), ("content", Value::foreign(content))];
    let asked = dict(message("user", "Hi <a>, \u{e9}\n'b'"));
    let plain = vec![("messages", Value::list(vec![asked.clone()])), ("tools", Value::None)];
    let function =
        dict(vec![("name", Value::foreign("read")), ("arguments", dict(vec![("path", Value::foreign("a"))]))]);
    let call = dict(vec![("type", Value::own("function")), ("id", Value::own("1")), ("function", function)]);
    let mut calling = message("assistant", "");
    calling.push(("tool_calls", Value::list(vec![call])));
    let parameters = dict(vec![("type", Value::foreign("object")), ("properties", dict(Vec::new()))]);
    let tool = dict(vec![
        ("name", Value::foreign("read")),
        ("description", Value::foreign("reads")),
        ("parameters", parameters),
    ]);
    let tool = dict(vec![("type", Value::own("function")), ("function", tool)]);
    let with_tool = vec![
        ("messages", Value::list(vec![asked, dict(calling), dict(message("tool", "text"))])),
        ("tools", Value::list(vec![tool])),
        ("add_generation_prompt", Value::Bool(true)),
    ];
    for values in [plain, with_tool] {
        let _ = template.render(values, Host { now: Some(0) }, limits);
    }
}

/// The text of a handbook.
pub fn handbook(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        let _ = capos_retrieval::Handbook::parse(text);
    }
}

/// The script of the scripted model.
pub fn script(data: &[u8]) {
    let _ = capos_script::Script::parse(data);
}

/// The blocks of a disk: the beginning, and one other place.
pub fn disk_content(data: &[u8]) {
    let (head, other) = data.split_at(data.len().min(68 << 10));
    let content = capos_disk_content::classify(head, [other]);
    assert!(content.details().bytes().all(|byte| matches!(byte, 0x20..0x7f)), "{content:?}");
}

/// A volume, all of whose folders are listed and whose files' starts are read.
pub fn iso9660(data: &[u8]) {
    struct Bytes<'a>(&'a [u8]);

    impl ReadSectors for Bytes<'_> {
        type Error = ();

        async fn read(&self, lba: u32, buffer: &mut [u8]) -> Result<(), ()> {
            let start = lba as usize * SECTOR;
            let from = self.0.get(start..start + buffer.len()).ok_or(())?;
            buffer.copy_from_slice(from);
            Ok(())
        }
    }

    // A device of whole sectors; missing bytes of a small input are zero.
    let mut device = data.to_vec();
    device.resize(data.len().next_multiple_of(SECTOR).max(24 * SECTOR), 0);
    now(async {
        let Ok(volume) = Volume::mount(Bytes(&device), (device.len() / SECTOR) as u64).await else { return };
        // As many folders as a small volume may have: they can name one another.
        let mut left = 64;
        let mut folders = vec![volume.root().clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = volume.list(&folder, |_| ()).await else { continue };
            for entry in entries {
                let mut start = [0; 64];
                let _ = volume.read(&entry.node, 1, &mut start).await;
                if !entry.node.is_file() && left > 0 {
                    left -= 1;
                    folders.push(entry.node);
                }
            }
        }
    });
}

/// Runs a future that waits for nothing.
pub(crate) fn now(future: impl Future<Output = ()>) {
    let done = pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(done, "a source that never waits made its reader wait");
}

/// The system's manifest.
pub fn manifest(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        let _ = capos_manifest::read("manifest.toml", text);
    }
}

/// A signature's file, a store of trusted keys, and a key.
pub fn signature(data: &[u8]) {
    let _ = capos_verity::FileSignature::parse(data);
    let _ = capos_verity::TrustStore::parse(data);
    let _ = capos_verity::SigningKey::parse(data);
}

/// An archive.
pub fn ustar(data: &[u8]) {
    let _ = capos_ustar::find(data, "bin/init");
}

/// A disk that begins with a volume's header, with the header's checksum corrected.
pub fn volume(data: &[u8]) {
    use capos_volume::sim::SimDisk;
    use capos_volume::{BLOCK, Disk, Header, Locked, Secret};
    const BLOCKS: u64 = 64;
    let _ = Header::parse(data);
    let mut block = vec![0; BLOCK];
    for (to, from) in block.iter_mut().zip(data) {
        *to = *from;
    }
    if let Some((body, checksum)) = block.split_last_chunk_mut::<32>() {
        *checksum = Sha256::digest(body).into();
    }
    if let Ok(header) = Header::parse(&block) {
        let geometry = header.geometry;
        let last = geometry.blocks().saturating_sub(1);
        assert!(geometry.block(0, last, 1) < geometry.physical() && header.slots().count() <= capos_volume::SLOTS);
    }
    let mut disk = SimDisk::new(BLOCKS, 1);
    if disk.write(0, &block).is_ok()
        && let Ok(locked) = Locked::read(disk)
    {
        let _ = locked.unlock(&Secret::KeyFile(&[7; 32]), None, 1 << 20);
        let _ = locked.unlock(&Secret::Passphrase(b"x"), Some(1), 0);
    }
}

/// Entries of a submission ring: a decoded entry is encoded to the same bytes.
pub fn ring_entry(data: &[u8]) {
    for raw in data.as_chunks().0 {
        if let Ok(entry) = capos_abi::Entry::decode(raw) {
            assert_eq!(entry.encode(), *raw, "an entry is written otherwise than it was read");
        }
    }
}

/// A message: the first two bytes select the method, whose parameters or results the rest are.
pub fn message(data: &[u8]) {
    let Some((&[interface, method], bytes)) = data.split_first_chunk() else { return };
    let interfaces = capos_schema::INTERFACES;
    let Some(interface) = interfaces.get(usize::from(interface) % interfaces.len()) else { return };
    let methods = interface.methods;
    let Some(method) = methods.get(usize::from(method) % methods.len().max(1)) else { return };
    for kind in [method.params_type, method.results_type] {
        let message = IncomingMessage::from_bytes(bytes, Vec::new());
        if let Ok(value) = capos_reflect::decode(kind(), &message) {
            // A value that can be shown can be sent, if it contains no capabilities.
            let _ = capos_reflect::encode(kind(), &value);
        }
    }
}

/// A message as generated code reads it: the first byte says which type of the schema it is. A value that was read can
/// be written, and is then read as the same.
pub fn typed_message(data: &[u8]) {
    fn read<T: Wire + std::fmt::Debug>(bytes: &[u8]) {
        let Ok(value) = wire::from_bytes::<T>(bytes) else { return };
        // A message with shared parts may be too long when written.
        let Ok(written) = wire::to_bytes(&value) else { return };
        // Compared as text, in which NaN equals itself.
        let again = wire::from_bytes::<T>(&written).map(|again| format!("{again:?}"));
        assert_eq!(again, Ok(format!("{value:?}")), "it is read otherwise than it was written");
    }
    const READERS: &[fn(&[u8])] = &[
        read::<models::ChatMessage>,
        read::<models::InferenceRequest>,
        read::<models::InferenceResponse>,
        read::<models::StreamChunk>,
        read::<models::ToolDescriptor>,
        read::<audit::ToolEvent>,
        read::<audit::GeneralEvent>,
        read::<audit::Query>,
        read::<manifest::Manifest>,
        read::<kernel::LaunchRecord>,
        read::<kernel::ExitInfo>,
        read::<kernel::Limits>,
    ];
    let Some((&kind, bytes)) = data.split_first() else { return };
    if let Some(read) = READERS.get(usize::from(kind) % READERS.len()) {
        read(bytes);
    }
}

/// JSON that a model wrote: against the parameters of each tool, and as a schema.
pub fn json(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(value) = capos_reflect::parse(text) else { return };
    let _ = capos_reflect::check_schema(&value);
    for interface in capos_schema::INTERFACES {
        for method in interface.methods {
            let _ = capos_reflect::encode_params(method, &value);
        }
    }
}

/// A JSON Schema: it is normalised, the result is normalised again, and an answer is compared with it.
pub fn json_schema(data: &[u8]) {
    use capos_json_schema::{Unresolved, normalise};
    let Ok(schema) = serde_json::from_slice(data) else { return };
    for unresolved in [Unresolved::Refuse, Unresolved::Ignore] {
        if let Ok(normal) = normalise(&schema, unresolved) {
            let again = normalise(&normal.into_document(), Unresolved::Refuse);
            assert_eq!(again.err(), None, "a normalised schema is rejected");
        }
    }
    if let Ok(schema) = capos_script::Schema::parse(&schema.to_string()) {
        let _ = schema.check(r#"{"i":{"a":1},"a":[1,[2,"x"]],"b":null}"#);
    }
}

/// Input from a keyboard, at a prompt on a narrow screen: the first byte says how often it is cut.
pub fn keyboard(data: &[u8]) {
    let Some((&every, bytes)) = data.split_first() else { return };
    let mut console = Console::new(Settings { columns: 20, ..Settings::default() });
    console.read(Read::line("> "));
    for piece in bytes.chunks(usize::from(every).max(1)) {
        console.input(piece);
        while let Some(event) = console.next_event() {
            if let Event::Line(line) = &event {
                assert!(shown(line), "a line has what moves the cursor: {line:?}");
            }
            if !console.is_reading() {
                console.read(Read::line("> "));
            }
        }
        let _ = console.take_output();
    }
}

/// Output of programs and models for the screen: the first byte says where it is cut, which makes no difference.
pub fn screen(data: &[u8]) {
    let Some((&every, bytes)) = data.split_first() else { return };
    let whole = sanitise(bytes);
    assert!(shown(whole.as_str()), "the screen would obey {whole:?}");
    let mut sanitiser = Sanitiser::default();
    let mut pieces: String =
        bytes.chunks(usize::from(every).max(1)).map(|piece| sanitiser.push(piece).into_string()).collect();
    pieces.push_str(sanitiser.finish().as_str());
    assert_eq!(pieces, whole.as_str());
}

/// Whether a text has no more than lines and tabs to move a cursor with.
fn shown(text: &str) -> bool {
    text.chars().all(|character| !character.is_control() || matches!(character, '\n' | '\t'))
}
