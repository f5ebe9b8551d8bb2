//! A grammar as the engine's constraint.

use capos_chat::ChatError;
use capos_engine::{Constraint, EngineError, Mask};
use capos_grammar::Grammar;

/// Holds an answer to a grammar.
pub struct Held(pub Grammar);

impl Constraint for Held {
    fn mask(&mut self, allowed: &mut Mask) -> Result<(), EngineError> {
        allowed.copy_from(self.0.allowed().map_err(failed)?.words());
        Ok(())
    }

    fn biases(&self) -> Vec<(u32, f32)> {
        self.0.biases()
    }

    fn accept(&mut self, token: u32) -> Result<(), EngineError> {
        self.0.accept(token).map_err(failed)
    }
}

fn failed(error: ChatError) -> EngineError {
    EngineError::Constraint { why: format!("cannot continue: {error}") }
}
