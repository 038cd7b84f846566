//! Whether an output says the same as the golden one.
//!
//! Lines are JSON; neither their order nor that of their keys counts, but a whole number is not a double. An output
//! whose lines have a text `op` is a changelog: the rows count that are left.

use serde_json::Value;

use super::replay::rows_left;

/// The first difference between an output and the golden one; none if they say the same. `key` are the columns by
/// which the rows of a changelog are told apart.
pub fn difference(output: &str, golden: &str, key: &[String]) -> Option<String> {
    let read = |text: &str, which: &str| {
        rows(text, key).map_err(|problem| format!("{which} output: {problem}"))
    };
    match (read(output, "the"), read(golden, "the golden")) {
        (Err(problem), _) | (_, Err(problem)) => Some(problem),
        (Ok(output), Ok(golden)) => first_difference(&output, &golden),
    }
}

/// The rows of a text in an order that depends on nothing but them.
fn rows(text: &str, key: &[String]) -> Result<Vec<String>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate();
    let lines = lines.map(|(number, line)| {
        serde_json::from_str::<Value>(line)
            .map_err(|error| format!("line {} is no JSON: {error}: {line}", number + 1))
    });
    let lines = lines.collect::<Result<Vec<Value>, String>>()?;
    let is_changelog =
        lines.first().is_some_and(|line| line.get("op").is_some_and(Value::is_string));
    let rows = if is_changelog { rows_left(&lines, key)? } else { lines };
    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.sort();
    Ok(rows)
}

/// Both are in order.
fn first_difference(output: &[String], golden: &[String]) -> Option<String> {
    let at = (0..output.len().max(golden.len())).find(|&at| output.get(at) != golden.get(at))?;
    let counts = match output.len() == golden.len() {
        true => String::new(),
        false => format!("{} rows instead of {}; ", output.len(), golden.len()),
    };
    Some(match (output.get(at), golden.get(at)) {
        (Some(found), Some(wanted)) if found > wanted => {
            format!("{counts}row {} is missing: {wanted}; the next one is {found}", at + 1)
        }
        (Some(found), Some(wanted)) => {
            format!("{counts}row {} should not be there: {found}; the next one is {wanted}", at + 1)
        }
        (Some(found), None) => format!("{counts}row {} should not be there: {found}", at + 1),
        (None, Some(wanted)) => format!("{counts}row {} is missing: {wanted}", at + 1),
        (None, None) => counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_count() {
        let golden = "{\"a\":1,\"b\":2.0}\n{\"a\":2,\"b\":null}";
        assert_eq!(difference("{\"b\":null,\"a\":2}\n{\"b\":2.0,\"a\":1}\n", golden, &[]), None);
    }

    #[test]
    fn values_and_counts_do() {
        let different = |output: &str, golden: &str, part: &str| {
            let found = difference(output, golden, &[]).unwrap();
            assert!(found.contains(part), "{found}");
        };
        different("{\"a\":1}", "{\"a\":1.0}", "row 1");
        different("{\"a\":1}\n{\"a\":1}", "{\"a\":1}", "2 rows instead of 1");
        different("", "{\"a\":1}", "is missing: {\"a\":1}");
        different("{", "{\"a\":1}", "no JSON");
    }

    #[test]
    fn changelogs_are_compared_by_what_is_left() {
        let golden = "{\"before\":null,\"after\":{\"n\":2},\"op\":\"c\"}";
        let output = "{\"before\":null,\"after\":{\"n\":1},\"op\":\"c\"}\n\
                      {\"before\":{\"n\":1},\"after\":null,\"op\":\"d\"}\n\
                      {\"before\":null,\"after\":{\"n\":2},\"op\":\"c\"}";
        assert_eq!(difference(output, golden, &[]), None);
        assert!(difference(golden, output.lines().next().unwrap(), &[]).is_some());
    }
}
