//! Aggregates that read their result from the order of a group's values: `percentile_cont`, `percentile_disc`, `mode` and
//! `approx_percentile`, each with `WITHIN GROUP (ORDER BY value)`.
//!
//! Only names and types are here; the runtime computes them. Invariant: the value is the first argument, as the binder
//! puts it there, and a fraction may be NULL, which makes the result NULL.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

/// All of them.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    [Kind::Continuous, Kind::Discrete, Kind::Approximate, Kind::Mode]
        .into_iter()
        .map(|kind| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(AggregateUDF::from(OrderedSet { kind, signature, aliases: kind.aliases() }))
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Continuous,
    Discrete,
    Approximate,
    Mode,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Continuous => "percentile_cont",
            Kind::Discrete => "percentile_disc",
            Kind::Approximate => "approx_percentile",
            Kind::Mode => "mode",
        }
    }

    fn aliases(self) -> Vec<String> {
        let aliases: &[&str] = match self {
            Kind::Continuous => &["quantile_cont"],
            Kind::Discrete => &["quantile_disc"],
            Kind::Approximate | Kind::Mode => &[],
        };
        aliases.iter().map(|alias| alias.to_string()).collect()
    }

    /// How many arguments may follow the value.
    fn others(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Kind::Continuous | Kind::Discrete => 1..=1,
            Kind::Approximate => 1..=2,
            Kind::Mode => 0..=0,
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Kind::Continuous => "percentile_cont(fraction) WITHIN GROUP (ORDER BY value)",
            Kind::Discrete => "percentile_disc(fraction) WITHIN GROUP (ORDER BY value)",
            Kind::Approximate => {
                "approx_percentile(fraction [, relative_error]) WITHIN GROUP (ORDER BY value)"
            }
            Kind::Mode => "mode() WITHIN GROUP (ORDER BY value)",
        }
    }

    /// The type in which values are taken in.
    fn value_type(self, given: &DataType) -> Result<DataType> {
        match self {
            Kind::Discrete | Kind::Mode => Ok(given.clone()),
            Kind::Continuous if matches!(given, DataType::Float16 | DataType::Float32) => {
                Ok(given.clone())
            }
            Kind::Continuous | Kind::Approximate if given.is_numeric() || given.is_null() => {
                Ok(DataType::Float64)
            }
            Kind::Continuous | Kind::Approximate => {
                plan_err!("{} takes numbers, not values of type {given}", self.name())
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: Kind,
    signature: Signature,
    aliases: Vec<String>,
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let Some((value, others)) = arg_types.split_first() else {
            return plan_err!("{} needs a value: {}", self.name(), self.kind.usage());
        };
        if !self.kind.others().contains(&others.len()) {
            return plan_err!("{} is called as {}", self.name(), self.kind.usage());
        }
        if let Some(other) = others.iter().find(|other| !other.is_numeric() && !other.is_null()) {
            return plan_err!("a fraction is a number, not of type {other}");
        }
        let mut types = vec![self.kind.value_type(value)?];
        types.resize(arg_types.len(), DataType::Float64);
        Ok(types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first() {
            Some(value) => self.kind.value_type(value),
            None => plan_err!("{} needs a value: {}", self.name(), self.kind.usage()),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Err(DataFusionError::NotImplemented(format!("{} as a window function", self.name())))
    }

    fn state_fields(&self, _args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(Vec::new())
    }
}
