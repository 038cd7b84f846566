//! Scalar functions by name.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion_expr::{HigherOrderUDF, ScalarUDF};

use crate::error::{Error, Result};

/// The functions that expressions may name: the library's, and the session's own.
#[derive(Clone)]
pub struct FunctionRegistry {
    scalar: Arc<HashMap<String, Arc<ScalarUDF>>>,
    higher_order: Arc<HashMap<String, Arc<HigherOrderUDF>>>,
}

static BUILT_IN: LazyLock<FunctionRegistry> = LazyLock::new(|| {
    let mut scalar = HashMap::new();
    let all = datafusion_functions::all_default_functions()
        .into_iter()
        .chain(datafusion_functions_nested::all_default_nested_functions());
    for function in all {
        for alias in function.aliases() {
            scalar.insert(alias.clone(), function.clone());
        }
        scalar.insert(function.name().to_string(), function);
    }
    let higher_order = datafusion_functions_nested::all_default_higher_order_functions()
        .into_iter()
        .map(|f| (f.name().to_string(), f))
        .collect();
    FunctionRegistry { scalar: Arc::new(scalar), higher_order: Arc::new(higher_order) }
});

impl FunctionRegistry {
    /// The library's functions.
    pub fn built_in() -> Self {
        BUILT_IN.clone()
    }

    /// The same functions and these, which hide those of the same name.
    pub fn with_scalar(&self, functions: impl IntoIterator<Item = Arc<ScalarUDF>>) -> Self {
        let mut scalar = (*self.scalar).clone();
        scalar.extend(functions.into_iter().map(|f| (f.name().to_string(), f)));
        FunctionRegistry { scalar: Arc::new(scalar), higher_order: self.higher_order.clone() }
    }

    /// A scalar function by its name.
    pub fn scalar(&self, name: &str) -> Result<Arc<ScalarUDF>> {
        self.scalar
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Unsupported(format!("the function {name} is not registered")))
    }

    /// A function that takes lambdas, by its name.
    pub fn higher_order(&self, name: &str) -> Result<Arc<HigherOrderUDF>> {
        self.higher_order
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Unsupported(format!("the function {name} is not registered")))
    }
}
