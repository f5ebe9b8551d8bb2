//! Dimensions of budgets as messages have them.

use capos_budget::Dimension;
use capos_schema::authority::BudgetDimension;

/// A dimension that a message names.
#[must_use]
pub fn dimension(named: BudgetDimension) -> Dimension {
    match named {
        BudgetDimension::WallClock => Dimension::WallClock,
        BudgetDimension::Steps => Dimension::Steps,
        BudgetDimension::Tokens => Dimension::Tokens,
        BudgetDimension::Cost => Dimension::Cost,
        BudgetDimension::Cpu => Dimension::Cpu,
        BudgetDimension::Memory => Dimension::Memory,
        BudgetDimension::Egress => Dimension::Egress,
        BudgetDimension::Writes => Dimension::Writes,
    }
}
