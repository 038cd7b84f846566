//! One aggregate as lowering writes it.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::expr::Expr;
use crate::operators::sort_key_spec::SortKeySpec;

/// An aggregate function over expressions of the input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregateSpec {
    /// The function's registered name.
    pub function: String,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// The arguments' types.
    pub arg_types: Vec<DataType>,
    /// Each combination of arguments counts once a group.
    pub distinct: bool,
    /// Only rows for which this is true count.
    pub filter: Option<Expr>,
    /// The order in which rows are taken in, for functions that depend on it.
    pub order_by: Vec<SortKeySpec>,
    /// Rows whose first argument is NULL are passed over, for functions that see NULLs.
    pub ignore_nulls: bool,
    /// The type of the result.
    pub result: DataType,
}
