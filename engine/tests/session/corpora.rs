//! Third-party files, where they are at hand: each is read, or refused with a clear error; none panics, hangs, ends
//! the process or takes more memory than the limit allows.

mod hostile;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hostile::{Ended, MEMORY_LIMIT_MB, Report, read_all, run_as_child};

/// By how much the process may grow beyond the memory limit while it reads a file.
const PROCESS_MB: u64 = 96;

/// The folder with third-party files; a test that does not find it says so and passes.
fn corpus(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora").join(name);
    if !path.exists() {
        println!("skipped: there is no ../shared/corpora/{name}");
        return None;
    }
    Some(path)
}

/// The child's part; without a list of files it does nothing.
#[test]
fn child() {
    run_as_child();
}

/// The format to read a file in: by its name, or by the folder that it lies in.
fn format_of(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let plain = lower.trim_end_matches(".gz").trim_end_matches(".zst");
    let (_, extension) = plain.rsplit_once('.').unwrap_or((plain, ""));
    // A select list of 9,074 columns takes the SQL planner minutes in the dev profile: it compares each with each.
    if path.ends_with("05c_frictionless/data/wide.csv") {
        return None;
    }
    match extension {
        "md" | "yaml" | "sql" | "py" | "zip" | "xz" | "crc" | "feature" => None,
        "csv" | "tsv" | "txt" => Some("csv"),
        "json" | "ndjson" | "jsonl" | "geojson" => Some("json"),
        "parquet" | "parq" | "encrypted" => Some("parquet"),
        "arrow_file" | "arrow" | "stream" | "ipc" | "feather" => Some("arrow"),
        _ if plain.contains("/arrow-ipc-") => Some("arrow"),
        _ if plain.contains("/parquet/") => Some("parquet"),
        _ if plain.contains("/csv/") => Some("csv"),
        _ => None,
    }
}

/// Reads what lies in a folder, and tells what nobody may see.
fn outcomes(folder: &Path) -> Vec<Report> {
    let reports = read_all(&hostile::files(folder, format_of), "corpora::child");
    let broken: Vec<&Report> =
        reports.iter().filter(|r| matches!(r.ended, Ended::Broken(_))).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let fat: Vec<&Report> =
        reports.iter().filter(|r| r.growth_mb > MEMORY_LIMIT_MB + PROCESS_MB).collect();
    assert!(fat.is_empty(), "{fat:#?}");
    reports
}

/// The files that were not read for a reason.
fn ended(reports: &[Report], reason: fn(&Ended) -> Option<&str>) -> Vec<String> {
    reports
        .iter()
        .filter_map(|r| Some(format!("{}: {}", r.path.display(), reason(&r.ended)?)))
        .collect()
}

fn unsupported(ended: &Ended) -> Option<&str> {
    if let Ended::Unsupported(why) = ended { Some(why) } else { None }
}

fn refused(ended: &Ended) -> Option<&str> {
    if let Ended::Refused(why) = ended { Some(why) } else { None }
}

fn exhausted(ended: &Ended) -> Option<&str> {
    if let Ended::Exhausted(why) = ended { Some(why) } else { None }
}

/// Rows and a hash of the values of files whose rows were compared with what other readers make of them.
fn expected() -> BTreeMap<&'static str, (usize, u64)> {
    include_str!("corpora/parquet_testing.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut fields = line.split_whitespace();
            let (name, rows, hash) = (fields.next(), fields.next(), fields.next());
            let line = name.zip(rows.and_then(|rows| rows.parse().ok()));
            let hash = hash.and_then(|hash| u64::from_str_radix(hash, 16).ok());
            let ((name, rows), hash) = line.zip(hash).expect("a line has a name and two numbers");
            (name, (rows, hash))
        })
        .collect()
}

#[test]
fn good_parquet_files_have_the_rows_that_other_readers_see() {
    let Some(folder) = corpus("04a_parquet-testing/data") else { return };
    let reports = outcomes(&folder);
    let unsupported = ended(&reports, unsupported);
    assert!(unsupported.len() <= 5, "{unsupported:#?}");
    assert!(unsupported.iter().all(|u| u.contains("encrypted")), "{unsupported:#?}");
    // One of the files carries wrong checksums on purpose; a reader may notice or not.
    let refused = ended(&reports, refused);
    assert!(refused.iter().all(|r| r.contains("corrupt-checksum")), "{refused:#?}");
    // Two texts of a gigabyte each do not fit the limit.
    let exhausted = ended(&reports, exhausted);
    assert!(exhausted.iter().all(|e| e.contains("large_string_map")), "{exhausted:#?}");
    let expected = expected();
    let mut wrong = Vec::new();
    for report in &reports {
        let Ended::Read { rows, hash } = report.ended else { continue };
        let name = report.path.strip_prefix(&folder).unwrap().to_str().unwrap();
        if expected.get(name) != Some(&(rows, hash)) {
            wrong.push(format!("{name} {rows} {hash:x}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn damaged_parquet_files_are_refused() {
    let Some(folder) = corpus("04a_parquet-testing/bad_data") else { return };
    let reports = outcomes(&folder);
    let read: Vec<_> = reports.iter().filter(|r| matches!(r.ended, Ended::Read { .. })).collect();
    assert!(read.is_empty(), "{read:#?}");
}

#[test]
fn arrow_files_and_what_broke_other_readers() {
    let Some(folder) = corpus("04b_arrow-testing") else { return };
    outcomes(&folder);
}

#[test]
fn text_and_other_files() {
    for folder in
        ["05b_csv-spectrum", "05c_frictionless", "05e_csvlint", "05f_polars-io", "03_duckdb/data"]
    {
        if let Some(folder) = corpus(folder) {
            outcomes(&folder);
        }
    }
}
