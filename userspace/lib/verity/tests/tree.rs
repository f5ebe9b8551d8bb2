//! The tree, its digest and the check of single blocks.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::path::Path;
use std::process::Command;

use capos_verity::*;
use proptest::prelude::*;

/// A file of repeatable contents: 64 KiB of a pattern, each next piece with one more added to
/// every byte.
fn sample(size: usize) -> Vec<u8> {
    let base: Vec<u8> = (0..65536usize).map(|i| (i.wrapping_mul(7) + (i >> 8) * 13) as u8).collect();
    let mut file = Vec::with_capacity(size);
    let mut added = 0u8;
    while file.len() < size {
        let wanted = (size - file.len()).min(base.len());
        file.extend(base[..wanted].iter().map(|byte| byte.wrapping_add(added)));
        added = added.wrapping_add(1);
    }
    file
}

fn build(file: &[u8], piece: usize) -> (FileDigest, Vec<u8>) {
    let mut tree = Vec::new();
    let mut builder = TreeBuilder::new(file.len() as u64).unwrap();
    for bytes in file.chunks(piece.max(1)) {
        builder.update(bytes, &mut tree).unwrap();
    }
    let digest = builder.finish(&mut tree).unwrap();
    (digest, tree)
}

fn tree_block(tree: &[u8], index: u64) -> &[u8] {
    &tree[index as usize * BLOCK_SIZE..][..BLOCK_SIZE]
}

/// Checks a block as a pager does: asks for the needed blocks, supplies them, checks.
fn check(verifier: &mut BlockVerifier, file: &[u8], tree: &[u8], block: u64) -> Result<(), VerityError> {
    let needed = verifier.needed(block)?;
    let brought: Vec<(u64, &[u8])> = needed.iter().map(|i| (*i, tree_block(tree, *i))).collect();
    let start = block as usize * BLOCK_SIZE;
    let end = file.len().min(start + BLOCK_SIZE);
    verifier.verify_block(block, &file[start..end], &brought)
}

fn fsverity(file: &Path, tree: &Path) -> Option<String> {
    let output = Command::new("fsverity")
        .args(["digest", "--compact", "--hash-alg=sha256", "--block-size=4096"])
        .arg(format!("--out-merkle-tree={}", tree.display()))
        .arg(file)
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim().to_string())
}

/// Printed by `fsverity digest --hash-alg=sha256 --block-size=4096` for `sample` files.
const DIGESTS: [(usize, &str); 13] = [
    (0, "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"),
    (1, "sha256:b803429503d95915829b29fdbc8bbad142f3abfd11b1cadf5526582e685c0551"),
    (4095, "sha256:a1af7177d2a116e8f575b2b0a94dd400f308aa1e2c9412d1324d191f6c1b272a"),
    (4096, "sha256:dc1f8bf5ee9d486c0d4585878ee812d42a1ff6987b43bcf1b76198cb639fc60e"),
    (4097, "sha256:77966aa2f22bdae9c614f267b9675ca9880f44bd5c6e5a07cde4e1920716b679"),
    (8192, "sha256:d61903f02d762c05b5c852f812469c8d513ae57a6919133c2a07233953ecd3fa"),
    (524287, "sha256:48bdfd0eee291dff7bdd023a5f2b46fc6ffe50f28c27000bc5b00814dffcd10d"),
    (524288, "sha256:3ec2d6aa0a53bb6b105e0b7689a7c285e2bf77956d3ce01db0fc6c48bddbd31c"),
    (524289, "sha256:84f2af2a692420471841b9cdbf4300ca07c05a71514cdc8c8c41ab94562c1996"),
    (528384, "sha256:7d9097aec299bc64608608618499d667d700dd4a763becf58184e65bbdb208e7"),
    (1000003, "sha256:6d9923a6c529c2fcf9c651f98ec8dcb7f64ef0ac08636e89d54c4f50902317c5"),
    (67108864, "sha256:9b75fd5056760642dda3810b6165e80cd3705eca91ee7616c444365cb0cc890b"),
    (67108865, "sha256:3d2730d8963abf412f476b4eb5cf0aafd0e52eaa29ae705167ffafef70d665b3"),
];

#[test]
fn digests_are_those_that_fsverity_prints() {
    for (size, expected) in DIGESTS {
        let (digest, tree) = build(&sample(size), 1 << 20);
        assert_eq!(digest.to_string(), expected, "a file of {size} bytes");
        assert_eq!(FileDigest::parse(expected), Some(digest));
        TreeGeometry::for_size(size as u64).unwrap().check_tree_length(tree.len() as u64).unwrap();
    }
}

#[test]
fn trees_are_those_that_fsverity_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (file, tree) = (folder.path().join("file"), folder.path().join("tree"));
    for (size, _) in DIGESTS.iter().filter(|(size, _)| *size < 2_000_000) {
        let bytes = sample(*size);
        std::fs::write(&file, &bytes).unwrap();
        let Some(printed) = fsverity(&file, &tree) else {
            println!("fsverity is not installed; the fixed digests are checked by another test");
            return;
        };
        let (digest, ours) = build(&bytes, 100_000);
        assert_eq!(digest.to_string(), format!("sha256:{printed}"));
        assert!(std::fs::read(&tree).unwrap_or_default() == ours, "tree of {size} bytes");
    }
}

#[test]
fn geometry_puts_the_root_first() {
    let of = |size| TreeGeometry::for_size(size).unwrap();
    assert_eq!(of(0).tree_blocks(), 0);
    assert_eq!(of(4096).tree_blocks(), 0);
    assert_eq!(of(4097).levels(), [Level { first: 0, blocks: 1 }]);
    assert_eq!(of(128 * 4096).tree_blocks(), 1);
    let two = of(129 * 4096);
    assert_eq!(two.levels(), [Level { first: 1, blocks: 2 }, Level { first: 0, blocks: 1 }]);
    assert_eq!(two.path(127).unwrap().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(two.path(128).unwrap().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(two.tree_bytes(), 3 * 4096);
    assert_eq!(two.path(129).unwrap_err(), VerityError::BlockOutOfRange { block: 129, blocks: 129 });
    assert_eq!(two.check_tree_length(4096), Err(VerityError::TreeLength { expected: 12288, found: 4096 }));
    let largest = of(i64::MAX as u64);
    assert_eq!(largest.levels().len(), 8);
    assert_eq!(largest.path(largest.data_blocks() - 1).unwrap().count(), 8);
    assert!(matches!(TreeGeometry::for_size(1 << 63), Err(VerityError::FileTooLarge { .. })));
}

#[test]
fn every_block_of_a_sound_file_passes_with_a_small_cache() {
    let file = sample(300 * 4096 + 17);
    let (digest, tree) = build(&file, 4096);
    let mut verifier = BlockVerifier::with_digest(file.len() as u64, digest, 0).unwrap();
    for block in (0..301).chain((0..301).rev()) {
        check(&mut verifier, &file, &tree, block).unwrap();
        assert!(verifier.cached_blocks() <= 8);
    }
}

#[test]
fn the_cache_is_bounded_and_drops_what_was_used_least() {
    let file = vec![1u8; 20 * 128 * 4096];
    let (digest, tree) = build(&file, 1 << 20);
    let mut verifier = BlockVerifier::with_digest(file.len() as u64, digest, 10).unwrap();
    for block in 0..20 {
        check(&mut verifier, &file, &tree, block * 128).unwrap();
        assert!(verifier.cached_blocks() <= 10);
    }
    // The root was used by each check and stays; the first level-0 block was evicted long ago.
    assert_eq!(verifier.needed(0).unwrap(), [1]);
    assert_eq!(verifier.needed(19 * 128 + 5).unwrap(), []);
    // Without the dropped block the check says which one it wants.
    assert_eq!(verifier.verify_block(0, &file[..4096], &[]), Err(VerityError::TreeBlockMissing { tree_block: 1 }));
}

#[test]
fn a_changed_file_tree_or_digest_is_caught() {
    let mut file = sample(200 * 4096);
    let (digest, mut tree) = build(&file, 4096);
    let fresh = || BlockVerifier::with_digest(200 * 4096, digest, 64).unwrap();

    file[150 * 4096 + 9] ^= 0x10;
    let mut verifier = fresh();
    check(&mut verifier, &file, &tree, 149).unwrap();
    assert_eq!(check(&mut verifier, &file, &tree, 150), Err(VerityError::DataMismatch { block: 150 }));
    file[150 * 4096 + 9] ^= 0x10;
    check(&mut verifier, &file, &tree, 150).unwrap();

    // In the block that vouches for blocks 128 to 199, in an entry that this check does not use.
    tree[2 * 4096 + 4000] ^= 1;
    assert_eq!(check(&mut fresh(), &file, &tree, 150), Err(VerityError::TreeMismatch { tree_block: 2 }));
    tree[2 * 4096 + 4000] ^= 1;

    tree[0] ^= 1;
    assert_eq!(check(&mut fresh(), &file, &tree, 0), Err(VerityError::TreeMismatch { tree_block: 0 }));
    tree[0] ^= 1;

    let other = FileDigest([7; 32]);
    let mut verifier = BlockVerifier::with_digest(200 * 4096, other, 64).unwrap();
    assert!(check(&mut verifier, &file, &tree, 0).is_err());
    // The size is part of the signed form.
    let mut verifier = BlockVerifier::with_digest(200 * 4096 - 1, digest, 64).unwrap();
    assert!(check(&mut verifier, &file, &tree, 0).is_err());
}

#[test]
fn a_block_changed_after_a_first_good_read_is_caught() {
    let mut file = sample(140 * 4096);
    let (digest, tree) = build(&file, 4096);
    let mut verifier = BlockVerifier::with_digest(140 * 4096, digest, 64).unwrap();
    check(&mut verifier, &file, &tree, 3).unwrap();
    file[3 * 4096] ^= 1;
    assert_eq!(check(&mut verifier, &file, &tree, 3), Err(VerityError::DataMismatch { block: 3 }));
}

#[test]
fn the_last_block_may_come_short_or_with_zeros_behind() {
    let file = sample(2 * 4096 + 100);
    let (digest, tree) = build(&file, 4096);
    let mut verifier = BlockVerifier::with_digest(file.len() as u64, digest, 64).unwrap();
    check(&mut verifier, &file, &tree, 2).unwrap();
    let mut whole = file[8192..].to_vec();
    whole.resize(4096, 0);
    verifier.verify_block(2, &whole, &[]).unwrap();
    whole[4095] = 1;
    assert_eq!(verifier.verify_block(2, &whole, &[]), Err(VerityError::DataMismatch { block: 2 }));
    assert_eq!(
        verifier.verify_block(2, &whole[..99], &[]),
        Err(VerityError::DataLength { block: 2, expected: 100, found: 99 })
    );
    assert_eq!(
        verifier.verify_block(0, &whole[..100], &[]),
        Err(VerityError::DataLength { block: 0, expected: 4096, found: 100 })
    );
}

#[test]
fn files_without_a_tree_are_checked_by_their_digest_alone() {
    for size in [1usize, 100, 4096] {
        let file = sample(size);
        let (digest, tree) = build(&file, 4096);
        assert!(tree.is_empty());
        let mut verifier = BlockVerifier::with_digest(size as u64, digest, 64).unwrap();
        assert_eq!(verifier.needed(0).unwrap(), []);
        verifier.verify_block(0, &file, &[]).unwrap();
        let mut changed = file.clone();
        changed[size - 1] ^= 1;
        assert!(verifier.verify_block(0, &changed, &[]).is_err());
    }
    let (digest, _) = build(&[], 1);
    BlockVerifier::with_digest(0, digest, 64).unwrap().verify_empty().unwrap();
    assert!(BlockVerifier::with_digest(0, FileDigest([1; 32]), 64).unwrap().verify_empty().is_err());
}

#[test]
fn a_file_that_changes_length_while_it_is_signed_is_refused() {
    let mut builder = TreeBuilder::new(10).unwrap();
    assert_eq!(builder.update(&[0; 11], &mut ()), Err(BuildError::Verity(VerityError::TooMuchData { size: 10 })));
    let mut builder = TreeBuilder::new(10).unwrap();
    builder.update(&[0; 9], &mut ()).unwrap();
    assert_eq!(builder.finish(&mut ()), Err(BuildError::Verity(VerityError::TooLittleData { size: 10, found: 9 })));
}

proptest! {
    #[test]
    fn pieces_do_not_matter(size in 0usize..600_000, piece in 1usize..20_000) {
        let file = sample(size);
        prop_assert_eq!(build(&file, piece), build(&file, usize::MAX));
    }

    #[test]
    fn any_flipped_byte_is_caught(size in 4097usize..1_200_000, at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut file = sample(size);
        let (digest, mut tree) = build(&file, 1 << 20);
        let at = at.index(file.len() + tree.len());
        let mut verifier = BlockVerifier::with_digest(size as u64, digest, 64).unwrap();
        let blocks = verifier.geometry().data_blocks();
        match at.checked_sub(file.len()) {
            None => file[at] ^= 1 << bit,
            Some(in_tree) => tree[in_tree] ^= 1 << bit,
        }
        let refused = (0..blocks).any(|block| check(&mut verifier, &file, &tree, block).is_err());
        prop_assert!(refused, "a flip at {} of {} went through", at, size);
    }
}
