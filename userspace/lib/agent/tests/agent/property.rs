//! Whatever a model proposes, a person answers and a clock does: records and effects belong together one to one.

use capos_agent::world::{Answer, Secret};
use capos_schema::authority::SessionLimits;
use capos_schema::models::FinishReason;
use proptest::prelude::*;

use crate::interrupt::check_conversation;
use crate::world::*;

#[derive(Clone, Debug)]
struct Proposed {
    tool: usize,
    handle: usize,
    id: u8,
    ms: u64,
    broken: bool,
}

fn proposed() -> impl Strategy<Value = Proposed> {
    (0..TOOLS.len(), 0..TOOLS.len() * 4, 0_u8..6, 0_u64..150, prop::bool::weighted(0.1))
        .prop_map(|(tool, handle, id, ms, broken)| Proposed { tool, handle, id, ms, broken })
}

fn pieces(responses: &[(Vec<Proposed>, u8)]) -> Vec<Vec<Piece>> {
    let mut number = 0;
    responses
        .iter()
        .map(|(calls, end)| {
            let mut pieces = vec![Piece::Text("text")];
            for call in calls {
                number += 1;
                // Mostly the right handle, sometimes another tool's.
                let named = if call.handle < TOOLS.len() { call.handle } else { call.tool };
                pieces.push(Piece::Call {
                    id: if call.id == 0 { String::new() } else { call.id.to_string() },
                    name: TOOLS[call.tool].0.into(),
                    handle: handle(TOOLS[named].0),
                    arguments: if call.broken {
                        "{\"n\":".into()
                    } else {
                        format!("{{\"n\":{number},\"ms\":{}}}", call.ms)
                    },
                });
            }
            match end {
                0 => pieces.push(Piece::Break),
                1 => pieces.push(Piece::Finish(FinishReason::Length)),
                _ => {}
            }
            pieces
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn records_equal_effects_one_to_one(
        responses in prop::collection::vec((prop::collection::vec(proposed(), 0..6), 0_u8..8), 1..5),
        answers in prop::collection::vec(any::<bool>(), 0..8),
        interrupt in prop::option::of(0_u64..600),
        audit_fails in prop::bool::weighted(0.1),
        seconds in 0_u64..4,
    ) {
        let world = World::new(pieces(&responses));
        for yes in answers {
            world.0.answers.borrow_mut().push_back(if yes { Answer::Yes } else { Answer::No });
            let secret = if yes { "open sesame" } else { "guess" };
            world.0.secrets.borrow_mut().push_back(Secret::Given(secret.into()));
        }
        world.0.interrupt_at.set(interrupt.map(|at| at * MS));
        world.0.audit_down.set(audit_fails);
        let limits = SessionLimits { max_seconds: seconds.max(1), ..SessionLimits::default() };
        let mut agent = agent(&world, limits);
        world.run(agent.turn("go", &snapshot()));
        world.drain();
        world.check_audit();
        if !audit_fails {
            world.check_decisions();
        }
        if audit_fails {
            prop_assert!(world.effects().is_empty());
        }
        check_conversation(&agent.conversation().entries().iter().map(|entry| entry.message.clone()).collect::<Vec<_>>());
        let dump = agent.conversation().dump();
        prop_assert_eq!(capos_agent::Conversation::load(&dump).unwrap().dump(), dump);
    }
}
