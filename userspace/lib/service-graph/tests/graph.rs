//! Malicious manifests that can be decoded: each is rejected with an error message.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

use capos_schema::manifest::{GrantSource, Manifest, Service};
use capos_service_graph::{FIRST_INTERFACES, MAX_PROCESSES, check, cycle};
use proptest::prelude::*;

const SHIPPED: &str = include_str!("../../../../iso_root/etc/manifest.toml");
const PACKAGE: [&str; 5] = ["init", "virtio-blk", "ahci", "iso9660", "manifest"];

fn shipped() -> Manifest {
    capos_manifest::read("manifest.toml", SHIPPED).unwrap()
}

fn service<'m>(manifest: &'m mut Manifest, name: &str) -> &'m mut Service {
    manifest.services.iter_mut().find(|service| service.name == name).unwrap()
}

/// The grant of a service by its place.
fn source<'m>(
    manifest: &'m mut Manifest,
    name: &str,
    place: usize,
) -> &'m mut capos_schema::manifest::GrantSourceService {
    match &mut service(manifest, name).grants[place].source {
        GrantSource::Service(source) => source,
        other => panic!("{other:?}"),
    }
}

/// The error for the shipped manifest after a change.
fn refused(change: impl FnOnce(&mut Manifest)) -> String {
    let mut manifest = shipped();
    change(&mut manifest);
    check(&manifest, &PACKAGE).unwrap_err().to_string()
}

#[test]
fn the_shipped_manifest_is_good() {
    assert_eq!(check(&shipped(), &PACKAGE), Ok(()));
    assert_eq!(usize::from(FIRST_INTERFACES), capos_manifest::FIRST_PROVIDES.len());
}

#[test]
fn names_are_had_once() {
    let words = refused(|manifest| service(manifest, "log").name = "audit".into());
    assert_eq!(words, "two services or programs are called `audit`; rename one");
    let words = refused(|manifest| manifest.programs[0].name = "log".into());
    assert_eq!(words, "two services or programs are called `log`; rename one");
    let words = refused(|manifest| service(manifest, "log").name = "init".into());
    assert!(words.contains("`init`, a name of the system; choose another"), "{words}");
    assert_eq!(
        refused(|manifest| service(manifest, "log").name.clear()),
        "a service or a program has no name; give it one"
    );
    let words = refused(|manifest| {
        let copy = manifest.services[0].clone();
        manifest.services.resize(MAX_PROCESSES + 1, copy);
    });
    assert!(words.contains("at most 256 are accepted"), "{words}");
}

#[test]
fn programs_of_the_package_are_in_it() {
    let words = refused(|manifest| service(manifest, "iso9660").program = "boot:udf".into());
    assert_eq!(
        words,
        "the program of service `iso9660` is `udf`, and the boot package has only init, virtio-blk, ahci, iso9660, manifest"
    );
    let words = refused(|manifest| manifest.medium = "log".into());
    assert_eq!(words, "the boot medium's root is to be `log`, which is not a service of the boot package");
    assert!(refused(|manifest| manifest.medium_ordinal = 1).contains("the boot medium's root"));
}

#[test]
fn grants_are_of_what_is_provided() {
    let words = refused(|manifest| source(manifest, "iso9660", 0).service = "virtio-scsi".into());
    assert_eq!(words, "grant `device` of `iso9660` is from `virtio-scsi`, and there is no service `virtio-scsi`");
    let words = refused(|manifest| source(manifest, "iso9660", 0).ordinal = 1);
    assert_eq!(words, "grant `device` of `iso9660` is of an interface that `virtio-blk` does not provide");
    let words = refused(|manifest| service(manifest, "iso9660").grants[0].interface ^= 1);
    assert!(words.contains("does not provide"), "{words}");
    let words = refused(|manifest| source(manifest, "iso9660", 0).client = 0);
    assert!(words.contains(", whose list of clients lacks `"), "{words}");
    let words = refused(|manifest| source(manifest, "model-loader", 1).ordinal = FIRST_INTERFACES);
    assert_eq!(words, "grant `spawner` of `model-loader` is of an interface that `init` does not provide");
}

/// Services, each of which calls those that are listed with it.
fn services(calls: &[(&str, &[&str])]) -> Vec<Service> {
    let grant = |provider: &&str| capos_schema::manifest::Grant {
        source: GrantSource::Service(capos_schema::manifest::GrantSourceService {
            service: (*provider).into(),
            ordinal: 0,
            client: 1,
        }),
        ..Default::default()
    };
    let service = |(name, calls): &(&str, &[&str])| Service {
        name: (*name).into(),
        grants: calls.iter().map(grant).collect(),
        ..Service::default()
    };
    calls.iter().map(service).collect()
}

#[test]
fn circles_are_told_by_their_names() {
    let way = |calls: &[(&str, &[&str])]| cycle(&services(calls)).map(|way| way.join(" "));
    assert_eq!(way(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &["init"])]), None);
    assert_eq!(way(&[("a", &["a"])]).unwrap(), "a a");
    // The path into the cycle is not part of it.
    assert_eq!(way(&[("a", &["b"]), ("b", &["c"]), ("c", &["d", "b"]), ("d", &[])]).unwrap(), "b c b");
    let words = refused(|manifest| {
        let back = service(manifest, "iso9660").grants[0].clone();
        service(manifest, "virtio-blk").grants.push(back);
        service(manifest, "virtio-blk").clients.push("virtio-blk".into());
        let last = service(manifest, "virtio-blk").grants.len() - 1;
        source(manifest, "virtio-blk", last).client = 2;
    });
    assert_eq!(
        words,
        "services call each other in a cycle and could wait forever: virtio-blk -> virtio-blk; remove a grant"
    );
}

#[test]
fn long_ways_are_followed_to_their_end() {
    let names: Vec<String> = (0..5000).map(|number| format!("s{number}")).collect();
    let next: Vec<[&str; 1]> = names.iter().skip(1).map(|name| [name.as_str()]).collect();
    let mut calls: Vec<(&str, &[&str])> =
        names.iter().zip(&next).map(|(name, next)| (name.as_str(), next.as_slice())).collect();
    assert_eq!(cycle(&services(&calls)), None);
    calls.push(("s4999", &["s0"]));
    assert_eq!(cycle(&services(&calls)).unwrap().len(), 5001);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// An encoded manifest with any change or cut is rejected with an error message or is consistent: every program and
    /// every provider that it names exists.
    #[test]
    fn any_change_is_judged(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = capos_manifest::encode(&shipped()).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let Ok(manifest) = capos_schema::wire::from_bytes::<Manifest>(&bytes) else { return Ok(()) };
        if check(&manifest, &PACKAGE).is_ok() {
            let known = |name: &str| name == "init" || manifest.services.iter().any(|service| service.name == name);
            for grant in manifest.services.iter().flat_map(|service| &service.grants) {
                if let GrantSource::Service(source) = &grant.source {
                    prop_assert!(known(&source.service));
                }
            }
        }
    }

    /// Any bytes are decoded or refused.
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = capos_schema::wire::from_bytes::<Manifest>(&bytes).map(|manifest| check(&manifest, &PACKAGE).is_ok());
    }
}
