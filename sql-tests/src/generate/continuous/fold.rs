//! What is left of a changelog when all its changes are applied.

use std::collections::BTreeMap;

/// The rows that are left, sorted. Each change is its kind (`+I`, `-U`, `+U`, `-D`) and its row.
///
/// # Errors
/// The first row that is withdrawn while it is not there.
pub(in super::super) fn fold(
    changes: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<String>, String> {
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for (place, (op, row)) in changes.into_iter().enumerate() {
        match op.as_str() {
            "+I" | "+U" => *rows.entry(row).or_default() += 1,
            "-D" | "-U" => match rows.get_mut(&row) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => drop(rows.remove(&row)),
                None => {
                    return Err(format!(
                        "change {} withdraws a row that is not there: {row}",
                        place + 1
                    ));
                }
            },
            other => return Err(format!("change {} is of no kind: {other}", place + 1)),
        }
    }
    Ok(rows.into_iter().flat_map(|(row, count)| std::iter::repeat_n(row, count)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(changes: &[(&'static str, &str)]) -> Result<Vec<String>, String> {
        fold(changes.iter().map(|(op, row)| ((*op).to_string(), (*row).to_string())))
    }

    #[test]
    fn rows_are_counted_and_an_absent_one_is_named() {
        let left = folded(&[("+I", "b"), ("+I", "a"), ("+I", "b"), ("-U", "a"), ("+U", "c")]);
        assert_eq!(left.unwrap(), ["b", "b", "c"]);
        let absent = folded(&[("+I", "a"), ("-D", "a"), ("-D", "a")]).unwrap_err();
        assert_eq!(absent, "change 3 withdraws a row that is not there: a");
    }
}
