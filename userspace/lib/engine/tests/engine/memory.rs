//! Running a model takes no more memory than the estimate.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use crate::support::{files, folder, kernels, name};
use capos_engine::memory::{Load, pass_bytes, token_bytes};
use capos_engine::{Batch, Cache, CacheType, Forward, Machine, Model, Single};

const LOAD: Load = Load { prefill: 128, sequences: 4, threads: 1 };

/// Models of every architecture and type of tensors, each set of kernels: prompts of growing length are read, and several
/// tokens' logits requested at once.
#[test]
fn a07_no_model_takes_more_than_its_shape_says() {
    let mut least = f64::MAX;
    for path in files(&folder()) {
        let name = name(&path);
        let file = std::fs::read(&path).unwrap();
        let model = Model::open(&file, None).unwrap();
        if !model.writes() {
            continue;
        }
        let config = model.config();
        let said = pass_bytes(config, model.vocabulary() as u64, LOAD, 512);
        for kernels in kernels() {
            let machine = Machine { kernels, pool: &Single };
            let mut caches = [Cache::of_type(CacheType::F16, config, 512)];
            let mut forward = Forward::new();
            for tokens in [1, 70, 132] {
                let mut batch = Batch::new();
                (1..=tokens).for_each(|place| batch.push(1, 0, place > tokens - 4));
                forward.pass(&model, machine, &batch, &mut caches).unwrap();
            }
            let used = forward.bytes() as u64;
            assert!(used <= said, "{name}, {}: {used} bytes, said were {said}", kernels.name());
            least = least.min(said as f64 / used as f64);
        }
        for kind in [CacheType::F16, CacheType::Q8_0] {
            let mut cache = Cache::of_type(kind, config, 300);
            cache.reserve(300).unwrap();
            assert!(cache.bytes() as u64 <= 300 * token_bytes(config), "{name}: {} bytes", cache.bytes());
        }
    }
    // An estimate is useful only if it is close to the actual use.
    assert!((1.0..16.0).contains(&least), "the nearest is {least} times what is used");
}
