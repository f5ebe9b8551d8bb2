//! Every target with its seeds, and with those with some bytes changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use capos_fuzz::{TARGETS, named, transfer};
use capos_hostile_models::{Random, changed};
use capos_machine::acpi;

/// Changed ones of each target; of whole models, which are slow and have a test of their own, fewer.
const CHANGED: usize = 500;
const CHANGED_MODELS: usize = 20;

#[test]
fn a15_every_target_comes_back_from_its_seeds_and_from_changed_ones() {
    for target in TARGETS {
        let seeds = (target.seeds)().unwrap();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in &seeds {
            (target.run)(seed);
        }
        let mut random = Random::new(1);
        for _ in 0..if target.name == "model" { CHANGED_MODELS } else { CHANGED } {
            let seed = &seeds[random.below(seeds.len())];
            (target.run)(&changed(seed, &mut random));
        }
    }
}

#[test]
fn seeds_are_what_they_are_to_be() {
    let first = |name: &str| (named(name).unwrap().seeds)().unwrap().swap_remove(0);
    let tables = (named("acpi").unwrap().seeds)().unwrap();
    assert_eq!(acpi::madt::Madt::new(&tables[0]).unwrap().entries().count(), 3);
    assert!(acpi::mcfg::first_segment(&tables[1]).is_some() && acpi::fadt::Fadt::new(&tables[2]).is_some());
    assert_eq!(acpi::root::entries(&tables[3], true).unwrap().collect::<Vec<_>>(), [0x3_0000]);
    assert_eq!(acpi::root::pointer(&tables[4]).unwrap().address, 0x2_0000);
    assert_eq!(acpi::sleep::find(&tables[5]), Some(5));
    let program = first("elf");
    assert_eq!(capos_elf::Program::parse(&program, 4096).unwrap().segments().len(), 1);
    assert_eq!(capos_ustar::find(&first("ustar"), "bin/init").unwrap(), Some(&b"hello"[..]));
    let lines = first("audit");
    let found = capos_audit::verify_lines(lines.split(|byte| *byte == b'\n'), None).unwrap();
    assert_eq!(found.records, 3);
    assert_eq!(transfer::sound(&first("transfer")).unwrap(), ["/A.TXT", "/long dir name"]);
    let signed = (named("signature").unwrap().seeds)().unwrap();
    capos_verity::TrustStore::parse(&signed[0]).unwrap();
    capos_verity::SigningKey::parse(&signed[1]).unwrap();
    capos_verity::FileSignature::parse(&signed[2]).unwrap();
    capos_jinja::Template::new(str::from_utf8(&first("template")).unwrap()).unwrap();
    capos_retrieval::Handbook::parse(str::from_utf8(&first("handbook")).unwrap()).unwrap();
    let model = first("gguf");
    capos_gguf::Header::parse(&model, model.len() as u64).unwrap();
    capos_manifest::read("manifest.toml", str::from_utf8(&first("manifest")).unwrap()).unwrap();
    capos_script::Script::parse(&first("script")).unwrap();
    for schema in (named("json-schema").unwrap().seeds)().unwrap() {
        let schema = serde_json::from_slice(&schema).unwrap();
        capos_json_schema::normalise(&schema, capos_json_schema::Unresolved::Refuse).unwrap();
    }
    assert_eq!(capos_volume::Header::parse(&first("volume")).unwrap().slots().count(), 2);
    assert!(named("nothing").is_err());
}
