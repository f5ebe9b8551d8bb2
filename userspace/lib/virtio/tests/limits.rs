//! Requests are cut to what the device can do, whatever it says.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::panic)] // Helpers of tests count as tests.

use capos_virtio::{Limits, MAX_PIECES, MAX_QUEUE, Offer, Refusal, SECTOR, total};
use proptest::prelude::*;

const GAP: u64 = 1 << 32;

fn queue(size: u32) -> Result<u16, Refusal> {
    Limits::agree(&Offer { queue: size, ..Offer::default() }).map(|limits| limits.queue)
}

#[test]
fn the_queue_is_as_long_as_both_sides_can_do() {
    let agreed = [(4, 4), (8, 8), (16, 16), (64, 64), (100, 64), (128, 128), (256, 128), (1024, 128), (1 << 20, 128)];
    for (offered, taken) in agreed {
        assert_eq!(queue(offered), Ok(taken), "{offered}");
    }
    for offered in 0..4 {
        assert_eq!(queue(offered), Err(Refusal::Queue(offered)));
    }
    let words = Refusal::Queue(2).to_string();
    assert_eq!(words, "its queue has 2 descriptors, and a request takes three at least");
}

#[test]
fn what_a_device_says_is_heeded() {
    let offer = Offer { queue: 256, pieces: Some(2), piece_bytes: Some(1024), block_bytes: Some(4096) };
    let limits = Limits::agree(&offer).unwrap();
    assert_eq!(limits, Limits { queue: 128, pieces: 2, piece_bytes: 1024, block_bytes: 4096 });
    assert_eq!(limits.cut([(0, 8192)], 0, 8192), [], "no block fits into two pieces of 1,024 bytes");
    let said_nothing = Limits::agree(&Offer { queue: 256, pieces: Some(0), piece_bytes: Some(0), ..offer }).unwrap();
    assert_eq!((said_nothing.pieces, said_nothing.piece_bytes), (MAX_PIECES, u32::MAX.into()));
    for block_bytes in [0, 1, 256, 513, 1536, 8192, u32::MAX] {
        let offer = Offer { queue: 256, block_bytes: Some(block_bytes), ..Offer::default() };
        assert_eq!(Limits::agree(&offer), Err(Refusal::Block(block_bytes)));
    }
}

#[test]
fn the_shortest_queue_carries_two_pages() {
    let limits = Limits::agree(&Offer { queue: 4, ..Offer::default() }).unwrap();
    assert_eq!(limits.cut([(0x10_0000, 4096); 8], 512, 16384), [(0x10_0200, 3584), (0x10_0000, 4096)]);
    assert_eq!(limits.cut([(0x5000, 4096), (0x1_0000, 65536)], 512, 16384), [(0x5200, 3584), (0x1_0000, 12800)]);
}

proptest! {
    /// A device is only asked for what it can do, each request carries whole blocks, and all of them together carry what
    /// was asked for, once and in order.
    #[test]
    fn requests_keep_to_the_limits_and_carry_everything(
        log in 2_u32..11,
        pieces in prop::option::of(2_u32..100),
        piece_bytes in prop::option::of(4096_u32..100_000),
        block in 9_u32..13,
        stretches in prop::collection::vec(1_u64..5, 1..80),
        skip in 0_u64..8,
        blocks in 1_u64..80,
    ) {
        let offer = Offer { queue: 1 << log, pieces, piece_bytes, block_bytes: Some(1 << block) };
        let limits = Limits::agree(&offer).unwrap();
        prop_assert!(limits.queue <= MAX_QUEUE && u32::from(limits.queue) <= offer.queue);
        prop_assert!(limits.pieces + 2 <= limits.queue);
        let stretches: Vec<u64> = stretches.into_iter().map(|pages| pages * 4096).collect();
        let room = stretches.iter().sum::<u64>().saturating_sub(skip * u64::from(SECTOR));
        let block = u64::from(limits.block_bytes);
        let bytes = (blocks * block).min(room / block * block);
        // Between two stretches lies memory of others.
        let mut edge = 0;
        let stretches: Vec<(u64, u64)> = (1..).zip(stretches).map(|(number, bytes)| {
            edge += bytes;
            (edge - bytes + number * GAP, bytes)
        }).collect();
        let (mut at, end) = (skip * u64::from(SECTOR), skip * u64::from(SECTOR) + bytes);
        while at < end {
            let cut = limits.cut(stretches.iter().copied(), at, end - at);
            prop_assert!(cut.len() <= pieces.unwrap_or(u32::MAX) as usize && cut.len() + 2 <= usize::from(limits.queue));
            prop_assert!(total(&cut) > 0 && total(&cut).is_multiple_of(block));
            for (begin, bytes) in cut {
                prop_assert!(bytes > 0 && bytes <= piece_bytes.unwrap_or(u32::MAX).into());
                let number = (1..).zip(&stretches).find(|(_, (address, stretch))| {
                    *address <= begin && begin + bytes <= address + stretch
                });
                let (number, _) = number.ok_or_else(|| TestCaseError::fail("a piece lies in no stretch"))?;
                prop_assert_eq!(begin - number * GAP, at);
                at += bytes;
            }
        }
        prop_assert_eq!(at, end);
    }
}
