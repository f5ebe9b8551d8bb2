//! What a guest sends over its third serial port at the end of a scenario: a line that announces it, and a ustar
//! archive.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use capos_image::ustar;

/// The line in front of the archive.
const HEADER: &[u8] = b"CAPOS-EXPORT 1\n";
/// The guest's own result.
const RESULT: &str = "result.json";

/// The content of an export.
#[derive(Debug, Default)]
pub struct Export {
    /// Files unpacked.
    pub files: usize,
    /// The guest's `result.json`.
    pub result: Option<serde_json::Value>,
}

/// Unpacks the stream in the file `stream` into `out`: `audit.jsonl` and everything in `home/`. With `required`,
/// a missing or cut-off export is an error.
pub fn unpack(stream: &Path, out: &Path, required: bool) -> Result<Export> {
    let home = out.join("home");
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    std::fs::create_dir_all(&home)?;
    let bytes = std::fs::read(stream).with_context(|| format!("reading {}", stream.display()))?;
    let Some(archive) = bytes.strip_prefix(HEADER) else {
        if bytes.is_empty() {
            ensure!(!required, "the guest exported nothing");
            return Ok(Export::default());
        }
        bail!("what the guest exported does not begin with `CAPOS-EXPORT 1`");
    };
    let archive = ustar::entries(archive).context("reading what the guest exported")?;
    let mut export = Export::default();
    for entry in &archive.files {
        if entry.name == RESULT {
            let result = serde_json::from_slice(entry.content).context("the guest's result.json is no JSON")?;
            export.result = Some(result);
            continue;
        }
        ensure!(
            entry.name == "audit.jsonl" || entry.name.starts_with("home/"),
            "the guest exported `{}`, which is neither audit.jsonl nor in home/",
            entry.name
        );
        let path = out.join(&entry.name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, entry.content).with_context(|| format!("writing {}", path.display()))?;
        export.files += 1;
    }
    ensure!(archive.complete || !required, "the guest's export is cut off after {} files", export.files);
    Ok(export)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ustar::Writer::new(HEADER.to_vec());
        for (name, content) in files {
            writer.file(name, content).unwrap();
        }
        writer.finish().unwrap()
    }

    fn unpacked(bytes: &[u8], required: bool) -> (tempfile::TempDir, Result<Export>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export.tar");
        std::fs::write(&path, bytes).unwrap();
        let result = unpack(&path, folder.path(), required);
        (folder, result)
    }

    #[test]
    fn audit_home_and_result_come_out() {
        let files: [(&str, &[u8]); 3] =
            [("audit.jsonl", b"{}\n"), ("home/notes/a.txt", b"hi"), ("result.json", b"{\"turns\":2}")];
        let (folder, export) = unpacked(&stream(&files), true);
        let export = export.unwrap();
        assert_eq!(export.files, 2);
        assert_eq!(export.result.unwrap()["turns"], 2);
        assert_eq!(std::fs::read(folder.path().join("home/notes/a.txt")).unwrap(), b"hi");
        assert_eq!(std::fs::read(folder.path().join("audit.jsonl")).unwrap(), b"{}\n");
    }

    #[test]
    fn a_cut_or_missing_export_is_told() {
        let whole = stream(&[("audit.jsonl", &[b'x'; 700])]);
        assert!(unpacked(&whole[..whole.len() - 600], true).1.is_err());
        assert_eq!(unpacked(&whole[..whole.len() - 600], false).1.unwrap().files, 1);
        assert!(unpacked(b"", true).1.is_err());
        assert_eq!(unpacked(b"", false).1.unwrap().files, 0);
        assert!(unpacked(b"noise", false).1.is_err());
    }

    #[test]
    fn an_unexpected_file_is_refused() {
        assert!(unpacked(&stream(&[("serial.log", b"forged")]), true).1.is_err());
        assert!(unpacked(&stream(&[("homework", b"x")]), true).1.is_err());
    }
}
