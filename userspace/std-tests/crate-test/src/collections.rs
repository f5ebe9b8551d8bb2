//! Data structures and related crates.

use std::collections::BTreeSet;

#[test]
fn bitflags() {
    bitflags::bitflags! {
        #[derive(Debug, PartialEq, Eq, Clone, Copy)]
        struct Rights: u32 {
            const READ = 1;
            const WRITE = 2;
        }
    }
    assert_eq!(Rights::READ | Rights::WRITE, Rights::all());
    assert_eq!(Rights::from_bits(4), None);
}

#[test]
fn bytes() {
    use bytes::{Buf, BufMut, BytesMut};
    let mut buffer = BytesMut::with_capacity(16);
    buffer.put_u32(0xca90_5000);
    buffer.put_slice(b"rest");
    let mut whole = buffer.freeze();
    let head = whole.split_to(4);
    assert_eq!((head.clone().get_u32(), &whole[..]), (0xca90_5000, &b"rest"[..]));
}

#[test]
fn either() {
    let numbers = |down: bool| if down { either::Left((0..3).rev()) } else { either::Right(0..3) };
    assert_eq!(numbers(true).chain(numbers(false)).collect::<Vec<i32>>(), [2, 1, 0, 0, 1, 2]);
}

#[test]
fn hashbrown() {
    let mut map: hashbrown::HashMap<u64, u64> = (0..10_000).map(|n| (n, n * n)).collect();
    map.retain(|key, _| key % 3 == 0);
    assert_eq!((map.len(), map.get(&9_999), map.get(&1)), (3_334, Some(&99_980_001), None));
}

#[test]
fn indexmap() {
    let mut map: indexmap::IndexMap<&str, u32> = [("c", 3), ("a", 1), ("b", 2)].into_iter().collect();
    map.shift_remove("a");
    assert_eq!(map.keys().copied().collect::<Vec<_>>(), ["c", "b"]);
}

#[test]
fn itertools() {
    use itertools::Itertools;
    let pairs: Vec<(u32, u32)> = (1..4).tuple_combinations().collect();
    assert_eq!(pairs, [(1, 2), (1, 3), (2, 3)]);
    assert_eq!(["x", "y"].iter().join("+"), "x+y");
}

#[test]
fn petgraph() {
    let mut graph = petgraph::Graph::<&str, u32>::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| graph.add_node(name));
    graph.extend_with_edges([(a, b, 5), (b, c, 1), (a, c, 10)]);
    let costs = petgraph::algo::dijkstra(&graph, a, None, |edge| *edge.weight());
    assert_eq!(costs[&c], 6);
    assert!(!petgraph::algo::is_cyclic_directed(&graph));
}

#[test]
fn rand() {
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let seeded = |seed| StdRng::seed_from_u64(seed).random::<u64>();
    assert_eq!(seeded(7), seeded(7));
    // Seeded by the granted entropy.
    let drawn: BTreeSet<u64> = (0..100).map(|_| rand::rng().random()).collect();
    assert_eq!(drawn.len(), 100);
    let mut cards: Vec<u32> = (0..52).collect();
    cards.shuffle(&mut rand::rng());
    cards.sort_unstable();
    assert!(cards.into_iter().eq(0..52));
}

#[test]
fn smallvec() {
    let mut small: smallvec::SmallVec<[u32; 4]> = (0..4).collect();
    assert!(!small.spilled());
    small.push(4);
    assert!(small.spilled() && small.iter().sum::<u32>() == 10);
}
