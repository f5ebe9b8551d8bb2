//! Child runs: a part of a run's budget, which another run uses.

use alloc::rc::Rc;
use alloc::string::ToString;
use core::cell::RefCell;
use core::fmt::Display;

use capos_audit::Kind;
use capos_broker::budgets;
use capos_budget::{Amounts, Dimension, Estimate};
use capos_keyspace::Durability;
use capos_policy::SessionPolicy;
use capos_schema::authority::BudgetAnswer;
use capos_schema::cap::CallError;

use super::{Consents, Counter, RunObject, amounts, record_end, text};

/// The turn of a child run in its conversation.
const TURN: u32 = 1;

impl Counter {
    /// Begins a child run of the session's run. Its part is kept before this returns.
    ///
    /// # Errors
    /// The session has ended, the audit log takes no record, or the part cannot be kept.
    pub async fn begin_child(
        self: &Rc<Self>,
        conversation: &str,
        shares: &[u64],
        (least, most): (u64, u64),
        policy: &Rc<RefCell<SessionPolicy>>,
    ) -> Result<(Option<Rc<RunObject>>, BudgetAnswer), CallError> {
        self.look().await;
        let (id, at) = (&self.key, self.broker.moment());
        let tokens = |amount| Amounts::of(Dimension::Tokens, amount);
        let estimate = Estimate { least: tokens(least), most: tokens(most) };
        let begun = self.broker.budgets.borrow_mut().begin_child(id, (conversation, amounts(shares)), estimate, at);
        if let Err(refused) = begun {
            return Ok((None, self.refuse_child(refused).await));
        }
        let scope = self.broker.budgets.borrow().child_of(id);
        let consents = Consents { policy: policy.clone(), conversation: conversation.to_string(), turn: TURN };
        let run = Rc::new(RunObject::child(self.clone(), scope, (least, most), consents));
        let (limits, _) = self.broker.budgets.borrow_mut().child_use(id, at).unwrap_or_default();
        let parent = self.broker.budgets.borrow().run_name(id).unwrap_or_default().to_string();
        let fields: [(&str, &dyn Display); 5] = [
            ("conversation", &conversation),
            ("turn", &TURN),
            ("parent", &parent),
            ("limits", &text(limits)),
            ("estimate", &format_args!("tokens={least}..{most}")),
        ];
        // If one of these fails, the run ends with its object.
        self.record(Kind::BudgetBegin, &fields).await?;
        self.broker.keep(Durability::Now).await.map_err(CallError::failed)?;
        self.bind().await;
        let checked = self.broker.budgets.borrow_mut().check(id, &tokens(least), at);
        if let Err(refused) = checked {
            let answer = self.refuse_child(refused).await;
            if let Some((_, fields)) = run.finish("not begun", false) {
                record_end(self, &fields).await;
            }
            return Ok((None, answer));
        }
        Ok((Some(run), BudgetAnswer::default()))
    }

    /// What a child run is told that may not begin: nobody is asked for more.
    async fn refuse_child(&self, refused: capos_budget::Refused) -> BudgetAnswer {
        let exceeded = budgets::refusal(&refused);
        BudgetAnswer { exceeded, asks: false, ..self.refuse(refused).await }
    }
}
