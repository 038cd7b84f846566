//! Options that hints set for a part of a query: `OPTIONS('key' = 'value', …)`.
//!
//! There is one option. Its value is read where settings are read, as it has the same form; here it is only text.

use crate::error::{PlannerError, Result};
use crate::parse::{Hint, HintScope};
use crate::statement::OptionHint;
use crate::suggest::did_you_mean;

/// The options that parts of a query can have.
const KNOWN: [&str; 1] = ["buffer_timeout"];

/// The options of one hint.
pub(super) fn options_of(hint: &Hint) -> Result<Vec<OptionHint>> {
    if hint.scope == HintScope::Unnamed {
        return Err(PlannerError::not_supported("OPTIONS for a query without a name".to_string())
            .with_hint(
                "OPTIONS stands in the outermost SELECT, in a derived table with an alias, in a common table \
                 expression, or behind a table's name"
                    .to_string(),
            )
            .with_span(hint.span));
    }
    let invalid = || {
        PlannerError::syntax("cannot read the options of the hint OPTIONS".to_string())
            .with_hint("write OPTIONS('buffer_timeout' = '0')".to_string())
            .with_span(hint.span)
    };
    let mut options = Vec::new();
    let mut rest = hint.arguments.as_str();
    loop {
        let (key, after) = quoted(rest).ok_or_else(invalid)?;
        let after = after.trim_start().strip_prefix('=').ok_or_else(invalid)?;
        let (value, after) = quoted(after).ok_or_else(invalid)?;
        let (scope, key) = (hint.scope.clone(), key.to_lowercase());
        let blocks = hint.blocks.clone();
        if !KNOWN.contains(&key.as_str()) {
            return Err(PlannerError::name(format!(
                "unknown option \"{key}\" of the hint OPTIONS"
            ))
            .with_hint(
                did_you_mean(&key, KNOWN)
                    .or_else(|| Some(format!("the options are {}", KNOWN.join(", ")))),
            )
            .with_span(hint.span));
        }
        options.push(OptionHint { scope, key, value: value.to_string(), blocks });
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None if after.trim().is_empty() => return Ok(options),
            None => return Err(invalid()),
        }
    }
}

/// The text in the quotes that a text begins with, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('\'')?.split_once('\'')
}
