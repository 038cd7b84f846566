//! What a folder holds before files are written into it.
//!
//! Nothing is written beside files of others unless the user says so. Files to be replaced are removed when the new
//! ones are all there; a statement that fails leaves the old ones. Only files that are data by their names are
//! removed, never what else a folder may hold.

use std::fs;
use std::path::{Path, PathBuf};

use thalweg_runtime::{Error, Result};

use super::options::FileWriteOptions;
use crate::connectors::files::format_by_name;

/// Files that new ones take the place of.
#[derive(Debug, Default)]
pub struct Replaced {
    root: PathBuf,
    files: Vec<PathBuf>,
}

impl Replaced {
    /// Looks at the folder that will be written; an error if it must not be.
    pub fn find(options: &FileWriteOptions) -> Result<Self> {
        let root = PathBuf::from(&options.path);
        let mut files = Vec::new();
        if options.is_single_file() || options.append {
            return Ok(Replaced { root, files });
        }
        list(&root, &mut files)?;
        if files.is_empty() {
            return Ok(Replaced { root, files });
        }
        if !options.overwrite {
            return Err(Error::User {
                message: format!("the folder \"{}\" is not empty", options.path),
                detail: None,
                hint: Some(
                    "set overwrite = true to replace its files, or append = true to add to them"
                        .into(),
                ),
            });
        }
        match files.iter().find(|file| !is_data(file)) {
            Some(other) => Err(Error::User {
                message: format!("the folder \"{}\" cannot be replaced", options.path),
                detail: Some(format!("it holds \"{}\", which is no data file", other.display())),
                hint: Some("name a folder of its own for the result".into()),
            }),
            None => Ok(Replaced { root, files }),
        }
    }

    /// Removes the files, and folders that are empty without them.
    pub fn remove(self) -> Result<()> {
        for file in &self.files {
            fs::remove_file(file)
                .map_err(|e| Error::io(format!("cannot remove \"{}\"", file.display()), &e))?;
        }
        let mut folders: Vec<&Path> = self.files.iter().filter_map(|file| file.parent()).collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        folders.dedup();
        for folder in folders {
            let mut folder = folder;
            // A folder that still holds something cannot be removed, and need not be.
            while folder != self.root && fs::remove_dir(folder).is_ok() {
                match folder.parent() {
                    Some(above) => folder = above,
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// All files below a folder but hidden ones, which readers leave out. Links to folders are not followed.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let context = |e: &std::io::Error| {
        Error::io(format!("cannot list the folder \"{}\"", folder.display()), e)
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(context(&e)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| context(&e))?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        match entry.file_type().map_err(|e| context(&e))?.is_dir() {
            true => list(&entry.path(), files)?,
            false => files.push(entry.path()),
        }
    }
    Ok(())
}

fn is_data(file: &Path) -> bool {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with('_') || format_by_name(&name).is_some()
}
