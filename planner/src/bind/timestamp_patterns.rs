//! `to_timestamp(text, pattern)` with a constant pattern of PostgreSQL's words, such as `YYYY-MM-DD HH24:MI:SS`.
//!
//! The library takes the patterns of `strftime`, with `%`. Invariant: a pattern with `%` stays as it is, and a letter
//! without a meaning is an error, never itself.

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Spanned, Value,
};

use crate::error::{PlannerError, Result};
use crate::parse::span_of;

/// Words and what they are called there; longer ones first.
const WORDS: [(&str, &str); 26] = [
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("YYYY", "%Y"),
    ("MONTH", "%B"),
    ("DAY", "%A"),
    ("DDD", "%j"),
    ("MON", "%b"),
    ("DY", "%a"),
    ("TZH:TZM", "%:z"),
    ("TZHTZM", "%z"),
    ("TZH", "%#z"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("YY", "%y"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("IYYY", "%G"),
    ("IW", "%V"),
    ("FF3", "%3f"),
    ("FF6", "%6f"),
    ("FF9", "%9f"),
];

/// Rewrites the pattern of a call.
pub(super) fn rewrite_timestamp_pattern(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return Ok(()) };
    if !name.value.eq_ignore_ascii_case("to_timestamp") {
        return Ok(());
    }
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))] = list.args.as_mut_slice() else {
        return Ok(());
    };
    let span = span_of(pattern.span());
    let Expr::Value(value) = pattern else { return Ok(()) };
    let Value::SingleQuotedString(text) = &mut value.value else { return Ok(()) };
    if !text.contains('%') {
        *text = translated(text).map_err(|error| error.with_span(span))?;
    }
    Ok(())
}

fn translated(pattern: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let upper = rest.to_ascii_uppercase();
        let longest = WORDS
            .iter()
            .filter(|(word, _)| upper.starts_with(word))
            .max_by_key(|(word, _)| word.len());
        if let Some((word, meaning)) = longest {
            out.push_str(meaning);
            rest = &rest[word.len()..];
        } else if let Some((quoted, after)) =
            rest.strip_prefix('"').and_then(|inner| inner.split_once('"'))
        {
            out.push_str(quoted);
            rest = after;
        } else if first.is_ascii_alphabetic() && first != 'T' && first != 'Z' {
            let message = format!("the pattern {pattern} has a letter without a meaning: {first}");
            let hint = "words are YYYY MM DD HH24 HH12 MI SS MS US AM Mon Month TZH:TZM; \
                        put text between double quotes";
            return Err(PlannerError::invalid(message).with_hint(hint.to_string()));
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_those_of_the_library() {
        for (pattern, wanted) in [
            ("YYYY-MM-DD HH24:MI:SS", "%Y-%m-%d %H:%M:%S"),
            ("DD Mon YYYY HH12:MI AM", "%d %b %Y %I:%M %p"),
            ("YYYY-MM-DD\"at\"HH24:MI:SS.US TZH:TZM", "%Y-%m-%dat%H:%M:%S.%6f %:z"),
            ("yyyy/mm/dd", "%Y/%m/%d"),
        ] {
            assert_eq!(translated(pattern).unwrap(), wanted);
        }
        assert!(translated("YYYY-QQ").is_err());
    }
}
