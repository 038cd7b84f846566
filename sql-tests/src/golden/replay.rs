//! Changelogs in Debezium's form: the rows that are left when all changes have been applied.

use std::collections::BTreeMap;

use serde_json::Value;

/// The rows that are left, each as a line of JSON with its keys in order.
///
/// # Errors
/// What is wrong with the first change that cannot be applied: a row that is there already, or one that is not.
pub(super) fn rows_left(changes: &[Value], key: &[String]) -> Result<Vec<Value>, String> {
    let mut rows: BTreeMap<String, Value> = BTreeMap::new();
    for (number, change) in changes.iter().enumerate() {
        let line = number + 1;
        let op = change.get("op").and_then(Value::as_str);
        let (removed, added) = match op {
            Some("c" | "r") => (None, Some(side(change, "after", line)?)),
            Some("u") => (Some(side(change, "before", line)?), Some(side(change, "after", line)?)),
            Some("d") => (Some(side(change, "before", line)?), None),
            _ => return Err(format!("line {line} is no change: {change}")),
        };
        if let Some(row) = removed
            && rows.remove(&key_of(row, key)).is_none()
        {
            return Err(format!("line {line} takes away a row that is not there: {row}"));
        }
        if let Some(row) = added
            && let Some(there) = rows.insert(key_of(row, key), row.clone())
        {
            return Err(format!("line {line} adds {row}, but there is {there}"));
        }
    }
    Ok(rows.into_values().collect())
}

fn side<'a>(change: &'a Value, name: &str, line: usize) -> Result<&'a Value, String> {
    let row = change.get(name).filter(|row| row.is_object());
    row.ok_or_else(|| format!("line {line} has no row \"{name}\": {change}"))
}

/// The values of the key, or the whole row where there is none. Keys of objects are in order.
fn key_of(row: &Value, key: &[String]) -> String {
    match key {
        [] => row.to_string(),
        columns => {
            let values = columns.iter().map(|column| row.get(column).cloned().unwrap_or_default());
            Value::Array(values.collect()).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_applied_in_their_order() {
        let changes = [
            json!({"before": null, "after": {"k": 1, "v": "a"}, "op": "c"}),
            json!({"before": null, "after": {"k": 2, "v": "a"}, "op": "r"}),
            json!({"before": {"k": 1, "v": "a"}, "after": {"k": 1, "v": "b"}, "op": "u"}),
            json!({"before": {"k": 2, "v": "a"}, "after": null, "op": "d"}),
        ];
        let key = ["k".to_string()];
        assert_eq!(rows_left(&changes, &key).unwrap(), [json!({"k": 1, "v": "b"})]);
        assert_eq!(rows_left(&changes, &[]).unwrap(), [json!({"k": 1, "v": "b"})]);
        assert_eq!(rows_left(&changes[..2], &key).unwrap().len(), 2);
    }

    #[test]
    fn changes_that_fit_no_row_are_errors() {
        let added = json!({"before": null, "after": {"k": 1}, "op": "c"});
        let gone = json!({"before": {"k": 2}, "after": null, "op": "d"});
        assert!(rows_left(&[added.clone(), added.clone()], &[]).unwrap_err().contains("line 2"));
        assert!(rows_left(&[added, gone], &[]).unwrap_err().contains("not there"));
        assert!(rows_left(&[json!({"k": 1})], &[]).unwrap_err().contains("no change"));
    }
}
