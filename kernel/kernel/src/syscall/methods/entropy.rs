//! Entropy: random bytes.

use capos_schema::kernel_capnp::entropy as m;
use capos_schema::kernel_dispatch::EntropyKernel;
use capos_schema::sync::{Completion, Exception};

use crate::cpu::entropy;
use crate::object::Answer;
use crate::object::invocation::Invocation;

/// The kernel's random generator.
pub struct Entropy;

impl EntropyKernel<Invocation<'_>> for Entropy {
    fn read(
        &self,
        _cx: &mut Invocation<'_>,
        params: m::read_params::Reader<'_>,
        results: m::read_results::Builder<'_>,
    ) -> Answer {
        let bytes = params.get_bytes();
        if !(1..=1024).contains(&bytes) {
            return Err(Exception::invalid_argument("1 to 1024 random bytes can be read at once"));
        }
        entropy::fill(results.init_data(bytes.into()));
        Ok(Completion::Done)
    }
}
