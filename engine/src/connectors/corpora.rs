//! Third-party files, where they are at hand: each is read, or refused with a clear error; none panics or hangs.

use std::path::{Path, PathBuf};

use thalweg_runtime::Error;

use super::FileOptions;
use super::testing::read;

/// The folder with third-party files; a test that does not find it says so and passes.
fn corpus(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora").join(name);
    if !path.exists() {
        println!("skipped: there is no ../shared/corpora/{name}");
        return None;
    }
    Some(path)
}

fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.to_str().is_some_and(|p| extensions.iter().any(|e| p.ends_with(e))) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Files read, those refused as unsupported, and those refused otherwise, with the reason.
fn outcomes(paths: &[PathBuf]) -> (usize, Vec<String>, Vec<String>) {
    let (mut read_whole, mut unsupported, mut refused) = (0, Vec::new(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        match read(&name, &FileOptions::default()) {
            Ok(_) => read_whole += 1,
            Err(Error::Unsupported(what)) => unsupported.push(format!("{name}: {what}")),
            Err(Error::Internal(what)) => panic!("{name}: {what}"),
            Err(Error::User { message, detail, .. }) => {
                refused.push(format!("{name}: {message} ({})", detail.unwrap_or_default()));
            }
            Err(other) => refused.push(format!("{name}: {other}")),
        }
    }
    (read_whole, unsupported, refused)
}

#[test]
fn good_parquet_files_are_read() {
    let Some(folder) = corpus("04a_parquet-testing/data") else { return };
    let (_, unsupported, refused) = outcomes(&files(&folder, &[".parquet"]));
    // Two of the files carry wrong checksums on purpose; a reader may notice or not.
    let refused: Vec<_> = refused.iter().filter(|r| !r.contains("corrupt-checksum")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(unsupported.len() <= 5, "{unsupported:#?}");
}

#[test]
fn damaged_files_are_refused() {
    let Some(folder) = corpus("04a_parquet-testing/bad_data") else { return };
    let bad = files(&folder, &[".parquet"]);
    let (read_whole, unsupported, refused) = outcomes(&bad);
    println!("{read_whole} read, {unsupported:#?}, {refused:#?}");
    assert_eq!(read_whole + unsupported.len() + refused.len(), bad.len());
}

#[test]
fn arrow_files_never_panic() {
    let Some(folder) = corpus("04b_arrow-testing") else { return };
    let paths = files(&folder, &[".arrow_file", ".stream", ".arrow", ".csv", ".parquet", ".json"]);
    let (read_whole, unsupported, refused) = outcomes(&paths);
    println!("{read_whole} read, {unsupported:#?}, {refused:#?}");
}

#[test]
fn text_files_are_read_or_refused() {
    for folder in
        ["05b_csv-spectrum", "05c_frictionless", "05e_csvlint", "05f_polars-io", "03_duckdb/data"]
    {
        let Some(folder) = corpus(folder) else { continue };
        let paths = files(
            &folder,
            &[
                ".csv", ".tsv", ".csv.gz", ".csv.zst", ".json", ".ndjson", ".jsonl", ".parquet",
                ".ipc",
            ],
        );
        let (read_whole, unsupported, refused) = outcomes(&paths);
        println!("{}: {read_whole} read", folder.display());
        println!("{unsupported:#?}\n{refused:#?}");
    }
}
