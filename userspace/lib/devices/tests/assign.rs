//! Every device of a known kind gets a process of its own, and nothing else changes.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::panic)] // Helpers of tests count as tests.

use std::collections::BTreeSet;

use capos_devices::{Found, MAX_DEVICES, Place, assign, wanted};
use capos_schema::manifest::{GrantSource, Manifest, Service};
use proptest::prelude::*;

const SHIPPED: &str = include_str!("../../../../iso_root/etc/manifest.toml");
const PACKAGE: [&str; 5] = ["init", "virtio-blk", "ahci", "iso9660", "manifest"];

fn shipped() -> Manifest {
    capos_manifest::read("manifest.toml", SHIPPED).unwrap()
}

/// Functions at different places: virtio disks of both numbers, AHCI controllers, others.
fn functions(kinds: impl IntoIterator<Item = u8>) -> Vec<Found> {
    let function = |(number, kind): (u16, u8)| {
        let [device, bus] = number.to_le_bytes();
        let place = Place { bus, device: device >> 3, function: device & 7 };
        let (vendor, device, class) = match kind {
            0 => (0x1af4, 0x1001, 0x01_0000),
            1 => (0x1af4, 0x1042, 0x01_0000),
            2 => (0x8086, 0x2922, 0x01_0601),
            _ => (0x8086, 0x29c0, 0x06_0000),
        };
        Found { place, vendor, device, class }
    };
    (0..).zip(kinds).map(function).collect()
}

fn service<'m>(manifest: &'m Manifest, name: &str) -> &'m Service {
    manifest.services.iter().find(|service| service.name == name).unwrap()
}

/// The names of a process's grants, with what they are of.
fn grants(manifest: &Manifest, name: &str) -> Vec<(String, String)> {
    service(manifest, name).grants.iter().map(|grant| (grant.name.clone(), grant.from.clone())).collect()
}

#[test]
fn each_disk_and_each_controller_has_a_process() {
    let mut manifest = shipped();
    let found = functions([3, 0, 2, 2, 1, 2]);
    let assignment = assign(&mut manifest, &found);
    let devices: Vec<(&str, Found)> = assignment.devices.iter().map(|(name, found)| (&**name, *found)).collect();
    let expected = [
        ("ahci", found[2]),
        ("ahci-2", found[3]),
        ("ahci-3", found[5]),
        ("virtio-blk", found[1]),
        ("virtio-blk-2", found[4]),
    ];
    assert_eq!(devices, expected);
    assert_eq!(assignment.left_out, []);
    let held = grants(&manifest, "iso9660");
    let held: Vec<(&str, &str)> = held.iter().map(|(name, from)| (&**name, &**from)).collect();
    assert_eq!(
        held,
        [
            ("device", "virtio-blk.BlockDevice"),
            ("device-2", "virtio-blk-2.BlockDevice"),
            ("drives", "ahci.DiskController"),
            ("drives-2", "ahci-2.DiskController"),
            ("drives-3", "ahci-3.DiskController"),
            ("boot", "kernel.boot"),
            ("log", "kernel.log"),
        ]
    );
    for (copy, first) in [("virtio-blk-2", "virtio-blk"), ("ahci-2", "ahci"), ("ahci-3", "ahci")] {
        assert_eq!(*service(&manifest, copy), Service { name: copy.into(), ..service(&manifest, first).clone() });
    }
}

#[test]
fn a_machine_with_one_of_each_has_the_manifest_as_it_is() {
    for kinds in [vec![], vec![0], vec![2], vec![0, 2], vec![3, 3, 1, 2]] {
        let mut manifest = shipped();
        let assignment = assign(&mut manifest, &functions(kinds));
        assert_eq!(manifest, shipped());
        assert!(assignment.devices.len() <= 2);
    }
}

#[test]
fn what_a_driver_leaves_out_is_said() {
    let found = functions([0; MAX_DEVICES + 2]);
    let mut manifest = shipped();
    let assignment = assign(&mut manifest, &found);
    assert_eq!(assignment.devices.len(), MAX_DEVICES);
    assert_eq!(assignment.left_out, [("virtio-blk".to_owned(), found[MAX_DEVICES..].to_vec())]);
}

/// A driver that calls other services is another client there in each of its processes, so that what is kept or logged for
/// one is not the other's.
#[test]
fn processes_of_a_driver_are_clients_of_their_own() {
    let text = SHIPPED.replacen(
        "{ name = \"dma\", from = \"kernel.dma\" },",
        "{ name = \"dma\", from = \"kernel.dma\" },\n{ name = \"logger\", from = \"log.Logger\" },\n\
         { name = \"keeper\", from = \"init.StateKeeper\" },",
        1,
    );
    let text = text.split("[[property]]").next().unwrap().to_owned();
    let mut manifest = capos_manifest::read("manifest.toml", &text).unwrap();
    assign(&mut manifest, &functions([0, 0, 0]));
    assert_eq!(capos_service_graph::check(&manifest, &PACKAGE), Ok(()));
    let mut numbers = BTreeSet::new();
    for process in manifest.services.iter().chain(&manifest.programs) {
        for grant in &process.grants {
            if let GrantSource::Service(source) = &grant.source
                && source.service == "init"
                && grant.name == "keeper"
            {
                assert!(numbers.insert(source.client), "`{}` is a client of its own", process.name);
            }
        }
    }
    assert_eq!(numbers.len(), 4);
    let clients = &service(&manifest, "log").clients;
    for name in ["virtio-blk", "virtio-blk-2", "virtio-blk-3"] {
        assert_eq!(clients.iter().filter(|client| *client == name).count(), 1, "{clients:?}");
    }
}

proptest! {
    /// For any devices of a machine, no two processes hold one device, and no process holds two. Each device of a known
    /// kind has a process or is reported as left out. Clients hold what all of the processes serve, and the manifest
    /// stays consistent.
    #[test]
    fn devices_are_given_out_once(kinds in prop::collection::vec(0_u8..5, 0..60)) {
        let found = functions(kinds);
        let mut manifest = shipped();
        let assignment = assign(&mut manifest, &found);
        prop_assert_eq!(capos_service_graph::check(&manifest, &PACKAGE), Ok(()));
        let given: BTreeSet<Place> = assignment.devices.values().map(|found| found.place).collect();
        prop_assert_eq!(given.len(), assignment.devices.len());
        let left_out = assignment.left_out.iter().flat_map(|(_, found)| found);
        let all: BTreeSet<Place> = left_out.map(|found| found.place).chain(given).collect();
        let known = found.iter().filter(|found| found.vendor == 0x1af4 || found.class == 0x01_0601);
        prop_assert_eq!(all, known.map(|found| found.place).collect::<BTreeSet<_>>());
        let (mut disks, mut controllers) = (0, 0);
        for service in &manifest.services {
            let Some(wanted) = wanted(service) else { continue };
            prop_assert_eq!(service.grants.iter().filter(|grant| matches!(grant.source, GrantSource::Pci(_))).count(), 1);
            if let Some(found) = assignment.devices.get(&service.name) {
                prop_assert!(found.fits(wanted));
            }
            *(if wanted.class == 0 { &mut disks } else { &mut controllers }) += 1;
        }
        let held = service(&manifest, "iso9660");
        prop_assert_eq!(held.grants.len(), disks + controllers + 2);
        let names: BTreeSet<&str> = held.grants.iter().map(|grant| grant.name.as_str()).collect();
        prop_assert_eq!(names.len(), held.grants.len());
        // The capabilities of all other processes are unchanged.
        for before in shipped().services.iter().filter(|before| before.name != "iso9660") {
            prop_assert_eq!(service(&manifest, &before.name), before);
        }
        prop_assert_eq!(&manifest.programs, &shipped().programs);
    }
}
