//! From a dialect's text to the plain form that the record parser reads.
//!
//! DuckDB's loops are unrolled and its directives resolved; a file that needs what the engine does not have ends at
//! the requirement. The other dialects pass nearly unchanged. Line numbers are those of the unrolled text.

use super::dialect::Dialect;

/// The records' text; what follows an unmet requirement is left out.
pub(super) fn preprocess(dialect: Dialect, text: &str, scratch: &str) -> String {
    match dialect {
        Dialect::Datafusion => substituted(text, scratch).replace("test_files/scratch", scratch),
        Dialect::Thalweg | Dialect::Sqlite | Dialect::Postgres | Dialect::Risingwave => {
            substituted(text, scratch)
        }
        Dialect::Duckdb => {
            let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_string()).collect();
            let mut out = Vec::new();
            unroll(&lines, &mut out);
            let text = out.join("\n").replace("{DATA_DIR}", "data").replace("{TEMP_DIR}", scratch);
            text.replace("__TEST_DIR__", scratch).replace("{TEST_DIR}", scratch) + "\n"
        }
    }
}

/// The text with a folder to write to in the place of its name, in files that switch substitution on.
fn substituted(text: &str, scratch: &str) -> String {
    match text.lines().any(|line| line.trim() == "control substitution on") {
        true => text.replace("${__TEST_DIR__}", scratch).replace("$__TEST_DIR__", scratch),
        false => text.to_string(),
    }
}

/// Requirements that the engine meets.
const MET: &[&str] = &[
    "parquet",
    "json",
    "skip_reload",
    "vector_size",
    "64bit",
    "notwindows",
    "no_alternative_verify",
    "no_extension_autoloading",
    "ram",
];

/// Copies lines, loops unrolled. False if the rest of the file is to be left out.
fn unroll(lines: &[String], out: &mut Vec<String>) -> bool {
    let (mut at, mut skipping) = (0, false);
    while at < lines.len() {
        let line = &lines[at];
        let words: Vec<&str> = line.split_whitespace().collect();
        at += 1;
        match words.as_slice() {
            ["mode", "skip"] => skipping = true,
            ["mode", "unskip"] => skipping = false,
            ["mode", ..] => {}
            _ if skipping => {}
            ["require", name, ..] if !MET.contains(name) => return false,
            ["require-env", ..] => return false,
            [
                "require" | "restart" | "load" | "sleep" | "reconnect" | "test-env" | "tags"
                | "set" | "reset" | "unzip",
                ..,
            ] => {}
            ["halt"] => return false,
            ["loop" | "concurrentloop", name, from, to] => {
                let body = body(lines, &mut at);
                let (from, to) = (from.parse().unwrap_or(0), to.parse().unwrap_or(0));
                if !repeat(
                    &body,
                    name,
                    (from..to.min(from + LOOPS_MAX)).map(|i: i64| i.to_string()),
                    out,
                ) {
                    return false;
                }
            }
            ["foreach" | "concurrentforeach", name, values @ ..] => {
                let body = body(lines, &mut at);
                let values = values.iter().flat_map(|value| expand(value));
                if !repeat(&body, name, values, out) {
                    return false;
                }
            }
            ["statement", "maybe", ..] => {
                // Either outcome is right, so there is nothing to check.
                while at < lines.len() && !lines[at].is_empty() {
                    at += 1;
                }
            }
            ["statement" | "query", "error", ..] => out.push(words[..2].join(" ")),
            ["query", ..] => out.push(line.clone()),
            _ => out.push(line.clone()),
        }
    }
    true
}

/// Rounds of a loop that are run; more would show nothing new.
const LOOPS_MAX: i64 = 300;

/// The lines up to the matching `endloop`, which are passed over.
fn body(lines: &[String], at: &mut usize) -> Vec<String> {
    let (mut depth, mut body) = (1, Vec::new());
    while *at < lines.len() {
        let line = &lines[*at];
        *at += 1;
        let first = line.split_whitespace().next().unwrap_or_default();
        match first {
            "loop" | "foreach" | "concurrentloop" | "concurrentforeach" => depth += 1,
            "endloop" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        body.push(line.clone());
    }
    body
}

fn repeat(
    body: &[String],
    name: &str,
    values: impl Iterator<Item = String>,
    out: &mut Vec<String>,
) -> bool {
    for value in values {
        // Several names may be bound to a tuple of values: `foreach a,b 1,2 3,4`.
        let pairs: Vec<(&str, &str)> = match name.contains(',') {
            true => name.split(',').zip(value.split(',')).collect(),
            false => vec![(name, value.as_str())],
        };
        let round: Vec<String> = body
            .iter()
            .map(|line| {
                pairs.iter().fold(line.clone(), |line, (name, value)| {
                    line.replace(&format!("${{{name}}}"), value)
                        .replace(&format!("{{{name}}}"), value)
                })
            })
            .collect();
        if !unroll(&round, out) {
            return false;
        }
        out.push(String::new());
    }
    true
}

/// The named lists of types that DuckDB's loops know.
fn expand(value: &str) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let signed = "tinyint smallint integer bigint";
    let unsigned = "utinyint usmallint uinteger ubigint";
    match value {
        "<signed>" => words(signed),
        "<unsigned>" => words(unsigned),
        "<integral>" => words(&format!("{signed} {unsigned}")),
        "<numeric>" => words(&format!("{signed} {unsigned} float double")),
        "<alltypes>" => words(&format!("{signed} {unsigned} float double bool interval varchar")),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_unrolled_and_requirements_end_a_file() {
        let text = "loop i 0 2\nforeach t a b\nquery I\nselect ${i}, '${t}'\n----\n1\n\nendloop\nendloop\nrequire httpfs\nstatement ok\nselect 9\n";
        let out = preprocess(Dialect::Duckdb, text, "/scratch");
        let selects: Vec<&str> = out.lines().filter(|line| line.starts_with("select")).collect();
        assert_eq!(selects, ["select 0, 'a'", "select 0, 'b'", "select 1, 'a'", "select 1, 'b'"]);
    }
}
