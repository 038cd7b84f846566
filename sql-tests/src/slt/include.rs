//! Files that include files.
//!
//! Invariant: a record runs with the records around it. A fragment that is asked for alone therefore runs through the
//! file that includes it, and a folder's fragments run where they are included, once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sqllogictest::{DefaultColumnType, Location, Record, parse_with_name};

use super::fixtures::Fixture;
use super::preprocess::preprocess;
use super::runner::Options;

/// Files may include files, so deep.
const INCLUDES_MAX: usize = 8;
/// So many folders up a file is looked for that includes another.
const FOLDERS_UP: usize = 2;

/// The records of a file, those of included files in their place.
pub(super) fn records(
    path: &Path,
    options: &Options,
    fixture: &Fixture,
) -> Result<Vec<Record<DefaultColumnType>>, String> {
    let mut all = Vec::new();
    add_records(path, options, fixture, 0, &mut all)?;
    Ok(all)
}

fn add_records(
    path: &Path,
    options: &Options,
    fixture: &Fixture,
    depth: usize,
    all: &mut Vec<Record<DefaultColumnType>>,
) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut text = preprocess(options.dialect, &text, &options.scratch.to_string_lossy());
    for (written, meant) in &fixture.replaced {
        text = text.replace(written, meant);
    }
    let parsed = parse_with_name::<DefaultColumnType>(&text, path.display().to_string())
        .map_err(|error| error.to_string())?;
    for record in parsed {
        match record {
            Record::Include { filename, .. } if depth < INCLUDES_MAX => {
                let included = matching(path, &filename);
                if included.is_empty() && !options.dialect.misses_files() {
                    return Err(format!("{}: there is no file {filename}", path.display()));
                }
                for file in included {
                    add_records(&file, options, fixture, depth + 1, all)?;
                }
            }
            other => all.push(other),
        }
    }
    Ok(())
}

/// The place of a record that runs something.
pub(super) fn place(record: &Record<DefaultColumnType>) -> Option<&Location> {
    match record {
        Record::Statement { loc, .. } | Record::Query { loc, .. } => Some(loc),
        _ => None,
    }
}

/// The file that includes this one, directly or through others; `None` when nothing near does.
pub(super) fn including(path: &Path) -> Option<PathBuf> {
    let mut found = including_directly(path)?;
    for _ in 0..INCLUDES_MAX {
        match including_directly(&found) {
            Some(outer) => found = outer,
            None => break,
        }
    }
    Some(found)
}

fn including_directly(path: &Path) -> Option<PathBuf> {
    let folders = path.ancestors().skip(1).take(FOLDERS_UP);
    let includes_it = |file: &PathBuf| {
        // A whole tree of files is a list of tests, each of which stands for itself.
        includes(file).iter().any(|(name, file)| file == path && !name.contains("**"))
    };
    folders.flat_map(test_files).find(|file| file != path && includes_it(file))
}

/// The files of a folder run without those that others of them include.
pub fn without_fragments(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let included = files.iter().flat_map(|file| includes(file));
    let included: HashSet<PathBuf> = included.map(|(_, file)| file).collect();
    files.into_iter().filter(|file| !included.contains(file)).collect()
}

/// The test files in a folder, sorted, folders below left out.
fn test_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_test = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".slt") || name.ends_with(".test") || name.ends_with(".slt.part")
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_test).collect();
    files.sort();
    files
}

/// The files that a file includes, each with the name that is written.
fn includes(file: &Path) -> Vec<(String, PathBuf)> {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let names = text.lines().filter_map(|line| line.strip_prefix("include "));
    let named = |name: &str| {
        let files = matching(file, name.trim()).into_iter();
        files.map(|file| (name.to_string(), file)).collect::<Vec<_>>()
    };
    names.flat_map(named).collect()
}

/// The files that `include name` in a file means; `*` in the last part stands for any characters, and `**` before it for
/// all folders below.
fn matching(file: &Path, name: &str) -> Vec<PathBuf> {
    let path = file.parent().unwrap_or(Path::new(".")).join(name);
    let canonical = |path: &Path| path.canonicalize().ok();
    if !name.contains('*') {
        return canonical(&path).into_iter().collect();
    }
    let pattern = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut files = Vec::new();
    match path.parent() {
        Some(folder) if folder.ends_with("**") => {
            add_fitting(folder.parent().unwrap_or(Path::new(".")), &pattern, true, &mut files);
        }
        Some(folder) => add_fitting(folder, &pattern, false, &mut files),
        None => {}
    }
    files.sort();
    files.iter().filter_map(|path| canonical(path)).collect()
}

fn add_fitting(folder: &Path, pattern: &str, below: bool, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if below && path.is_dir() {
            add_fitting(&path, pattern, below, files);
        } else if fits(pattern, &entry.file_name().to_string_lossy()) {
            files.push(path);
        }
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|at| tail.is_char_boundary(*at))
                .any(|at| fits(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_found_by_those_who_include_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("parts")).unwrap();
        std::fs::write(root.join("all.slt"), "include ./**/*.slt.part\n").unwrap();
        let files = ["main.slt", "parts/q1.slt.part", "parts/q2.slt.part", "other.slt"];
        let files = files.map(|name| root.join(name));
        std::fs::write(&files[0], "include ./parts/q*.slt.part\n").unwrap();
        for file in &files[1..] {
            std::fs::write(file, "statement ok\nselect 1\n").unwrap();
        }
        assert_eq!(including(&files[2]), Some(files[0].clone()));
        assert_eq!(including(&files[3]), None);
        assert_eq!(matching(&root.join("all.slt"), "./**/q*.slt.part").len(), 2);
        let own = without_fragments(files.to_vec());
        assert_eq!(own, [files[0].clone(), files[3].clone()]);
    }
}
