//! From what the user wrote to a list of files.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use thalweg_runtime::env::{Environment, System};
use thalweg_runtime::{Error, Result};

use super::{glob, hive, spool};

/// Near names that an error about a missing file shows at most.
const SUGGESTIONS_MAX: usize = 3;

/// A file that belongs to a table.
#[derive(Debug, Clone)]
pub struct FoundFile {
    /// Where to open it.
    pub path: PathBuf,
    /// The name for messages, as the user would write it.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970 of its last change.
    pub mtime_ns: i64,
    /// `key=value` folders above it.
    pub partition: Vec<(String, Option<String>)>,
    /// For delimited text: its columns, if they are not those of the table in the table's order.
    pub columns: Option<Vec<String>>,
}

impl FoundFile {
    /// How columns are declared that the file does not tell; `format` is its name in SQL.
    pub fn declaration(&self, format: &str) -> String {
        let path = self.name.replace('\'', "''");
        format!(
            "declare the columns: CREATE TABLE t (…) WITH \
             ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
        )
    }
}

/// The environment through which planning reads heads and footers; it owns no thread unless asked to.
pub fn system_env() -> Arc<dyn Environment> {
    static ENV: LazyLock<Arc<System>> = LazyLock::new(System::new);
    ENV.clone()
}

/// The files behind paths, globs and folders, in the order in which they were written, each list sorted.
pub fn find(paths: &[String]) -> Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    for path in paths {
        find_one(path, &mut found)?;
    }
    if found.is_empty() {
        return Err(Error::user("no file was named"));
    }
    Ok(found)
}

fn find_one(written: &str, found: &mut Vec<FoundFile>) -> Result<()> {
    let plain = written.strip_prefix("file://").unwrap_or(written);
    let path = expand_home(plain);
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(_) if glob::is_pattern(plain) => return find_pattern(&path, written, found),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(missing(&path, written)),
        Err(e) => return Err(Error::io(format!("cannot open \"{written}\""), &e)),
    };
    if metadata.is_dir() {
        let before = found.len();
        list_folder(&path, found)?;
        for file in &mut found[before..] {
            // The folder that is named is the whole table, whatever its own name says.
            file.partition = hive::parse(file.path.strip_prefix(&path).unwrap_or(&file.path));
        }
        if found.len() == before {
            return Err(Error::User {
                message: format!("the folder \"{written}\" holds no file"),
                detail: None,
                hint: Some("names that begin with \".\" or \"_\" are left out".into()),
            });
        }
        return Ok(());
    }
    let kind = metadata.file_type();

    if kind.is_block_device() || kind.is_char_device() && !ends(&path, &metadata) {
        return Err(Error::User {
            message: format!("\"{written}\" is a device, not a file"),
            detail: None,
            hint: None,
        });
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        let spooled = spool::pipe(&path, written)?;
        found.push(described(spooled, written.to_string())?);
        return Ok(());
    }
    found.push(described(path, written.to_string())?);
    Ok(())
}

/// Whether a device is one that comes to an end: a terminal, or the null device.
fn ends(path: &Path, metadata: &fs::Metadata) -> bool {
    let null = fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == metadata.rdev());
    null || fs::File::open(path).is_ok_and(|file| file.is_terminal())
}

fn find_pattern(path: &Path, written: &str, found: &mut Vec<FoundFile>) -> Result<()> {
    let pattern = path.to_string_lossy();
    let matched = glob::expand(&pattern)
        .map_err(|e| Error::io(format!("cannot list the files of \"{written}\""), &e))?;
    if matched.is_empty() {
        return Err(Error::User {
            message: format!("no file matches \"{written}\""),
            detail: None,
            hint: None,
        });
    }
    for path in matched {
        let name = path.display().to_string();
        found.push(described(path, name)?);
    }
    Ok(())
}

fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}

fn list_folder(folder: &Path, found: &mut Vec<FoundFile>) -> Result<()> {
    let context = || format!("cannot list the folder \"{}\"", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| Error::io(context(), &e))? {
        names.push(entry.map_err(|e| Error::io(context(), &e))?.file_name());
    }
    names.sort();
    for name in names {
        let text = name.to_string_lossy();
        if text.starts_with(['.', '_']) && !text.contains('=') {
            continue;
        }
        let path = folder.join(&name);
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() && !path.is_symlink() {
            list_folder(&path, found)?;
        } else if metadata.is_file() {
            let name = path.display().to_string();
            found.push(described(path, name)?);
        }
    }
    Ok(())
}

/// Path, size and time of a file.
pub fn described(path: PathBuf, name: String) -> Result<FoundFile> {
    let metadata =
        fs::metadata(&path).map_err(|e| Error::io(format!("cannot open \"{name}\""), &e))?;
    let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000) + metadata.mtime_nsec();
    let partition = hive::parse(&path);
    Ok(FoundFile { path, name, size: metadata.len(), mtime_ns, partition, columns: None })
}

fn missing(path: &Path, written: &str) -> Error {
    let near = near_names(path);
    let hint = (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")));
    Error::User { message: format!("there is no file \"{written}\""), detail: None, hint }
}

/// Names in the missing file's folder that are a few letters away, nearest first.
fn near_names(path: &Path) -> Vec<String> {
    let Some(wanted) = path.file_name().map(|n| n.to_string_lossy().to_lowercase()) else {
        return Vec::new();
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
    let mut near: Vec<(usize, String)> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| {
            let distance = edits(&wanted, &name.to_lowercase());
            (distance <= 2 + wanted.chars().count() / 4).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.into_iter()
        .take(SUGGESTIONS_MAX)
        .map(|(_, name)| {
            format!("\"{}\"", folder.map_or(PathBuf::from(&name), |f| f.join(&name)).display())
        })
        .collect()
}

/// Insertions, deletions and replacements that turn one text into the other.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_names_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("orders.csv"), "a\n").unwrap();
        let written = format!("{}/order.csv", dir.path().display());
        let Err(Error::User { message, hint, .. }) = find(std::slice::from_ref(&written)) else {
            panic!()
        };
        assert!(message.contains(&written), "{message}");
        assert!(hint.unwrap().contains("orders.csv"));
    }

    #[test]
    fn folders_leave_out_hidden_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["_SUCCESS", ".x.csv", "k=1/b.csv", "a.csv"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "a\n").unwrap();
        }
        let files = find(&[dir.path().display().to_string()]).unwrap();
        let names: Vec<_> = files.iter().map(|f| f.path.file_name().unwrap()).collect();
        assert_eq!(names, ["a.csv", "b.csv"]);
        assert_eq!(files[1].partition, [("k".to_string(), Some("1".to_string()))]);
        let inner = find(&[format!("{}/k=1", dir.path().display())]).unwrap();
        assert!(inner[0].partition.is_empty(), "{inner:?}");
        let matched = find(&[format!("{}/k=1/*.csv", dir.path().display())]).unwrap();
        assert_eq!(matched[0].partition, files[1].partition);
    }
}
