//! The patterns of `to_char` in the words of the library, which takes those of strftime.
//!
//! A pattern without `%` whose letters are all of PostgreSQL's fields becomes one with `%`; any other stays as it is. Names
//! of months and days that are filled with blanks (`Month`, `Day`) are not among them.

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Value,
};

/// The fields; of those that begin alike the longer ones are first.
const FIELDS: [(&str, &str); 18] = [
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("MI", "%M"),
    ("MS", "%3f"),
    ("Mon", "%b"),
    ("FMMonth", "%B"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("Dy", "%a"),
    ("FMDay", "%A"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("SS", "%S"),
    ("US", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
];

/// Rewrites the pattern of a call of `to_char`.
pub(super) fn rewrite_pattern(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    if !name.value.eq_ignore_ascii_case("to_char") {
        return;
    }
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] =
        list.args.as_mut_slice()
    else {
        return;
    };
    if let Value::SingleQuotedString(pattern) = &mut value.value
        && let Some(translated) = translate(pattern)
    {
        *pattern = translated;
    }
}

fn translate(pattern: &str) -> Option<String> {
    if pattern.contains('%') {
        return None;
    }
    let (mut rest, mut out) = (pattern, String::new());
    while let Some(next) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"')?;
            out.push_str(text);
            rest = after;
        } else if let Some((field, code)) = FIELDS.iter().find(|(f, _)| starts_with(rest, f)) {
            out.push_str(code);
            rest = &rest[field.len()..];
        } else if next.is_alphabetic() {
            return None;
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(out)
}

/// Fields of numbers may be written in small letters; the case of others is the case of the result.
fn starts_with(text: &str, field: &str) -> bool {
    let any_case =
        field.len() > 1 && field.chars().all(|c| !c.is_lowercase()) && !field.ends_with('M');
    let any_case = any_case || field == "MM";
    match text.get(..field.len()) {
        Some(start) if any_case => start.eq_ignore_ascii_case(field),
        Some(start) => start == field,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn fields_are_translated_and_other_patterns_left() {
        let translated = |pattern| translate(pattern).unwrap_or_default();
        assert_eq!(translated("YYYY-MM-DD HH24:MI:SS.MS"), "%Y-%m-%d %H:%M:%S.%3f");
        assert_eq!(translated("yyyy\"year\"mm, Mon FMMonth Dy AM"), "%Yyear%m, %b %B %a %p");
        for other in ["%Y", "Month", "YYYY x", "\"open", "mon"] {
            assert_eq!(translate(other), None, "{other}");
        }
    }
}
