//! Where the parts of a suite lie: a folder `queries`, and above it folders `inputs` and `golden_outputs`.

use std::fs;
use std::path::{Path, PathBuf};

use super::case::Case;

/// How far below a folder its queries are looked for.
const DEPTH_MAX: usize = 8;

/// The queries of a folder and where their files are.
#[derive(Debug, Clone)]
pub struct Suite {
    /// The queries, by name.
    pub cases: Vec<Case>,
    /// Where the files lie that they read.
    pub inputs: PathBuf,
    /// Where the files lie that they should write.
    pub golden: PathBuf,
}

impl Suite {
    /// The suite in a folder: it holds `queries`, or is that folder, or lies above it.
    ///
    /// # Errors
    /// What is missing, or cannot be read.
    pub fn find(folder: &Path) -> Result<Self, String> {
        let folder = folder
            .canonicalize()
            .map_err(|error| format!("cannot read \"{}\": {error}", folder.display()))?;
        let queries = queries_below(&folder, DEPTH_MAX)
            .ok_or_else(|| format!("there is no folder \"queries\" in \"{}\"", folder.display()))?;
        let above = |name: &str| {
            let found = queries.ancestors().map(|ancestor| ancestor.join(name));
            found.into_iter().find(|path| path.is_dir()).ok_or_else(|| {
                format!("there is no folder \"{name}\" above \"{}\"", queries.display())
            })
        };
        let (inputs, golden) = (above("inputs")?, above("golden_outputs")?);
        Ok(Suite { cases: cases(&queries)?, inputs, golden })
    }
}

fn queries_below(folder: &Path, depth: usize) -> Option<PathBuf> {
    if folder.file_name().is_some_and(|name| name == "queries") {
        return Some(folder.to_path_buf());
    }
    let direct = folder.join("queries");
    if direct.is_dir() {
        return Some(direct);
    }
    let mut folders: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).collect();
    folders.retain(|path| path.is_dir() && depth > 0);
    folders.sort();
    folders.iter().find_map(|folder| queries_below(folder, depth.saturating_sub(1)))
}

fn cases(queries: &Path) -> Result<Vec<Case>, String> {
    let failed =
        |path: &Path, error: std::io::Error| format!("cannot read \"{}\": {error}", path.display());
    let entries = fs::read_dir(queries).map_err(|error| failed(queries, error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    let case = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| failed(path, error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Case::new(&name.unwrap_or_default(), &text))
    };
    files.iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_from_any_folder_above_the_queries() {
        let dir = tempfile::tempdir().unwrap();
        let queries = dir.path().join("crates/tests/src/queries");
        fs::create_dir_all(&queries).unwrap();
        assert!(Suite::find(dir.path()).unwrap_err().contains("\"inputs\""));
        for name in ["inputs", "golden_outputs"] {
            fs::create_dir_all(dir.path().join("crates/tests").join(name)).unwrap();
        }
        fs::write(queries.join("b.sql"), "SELECT 2").unwrap();
        fs::write(queries.join("a.sql"), "SELECT 1").unwrap();
        fs::write(queries.join("c.txt"), "").unwrap();
        for folder in [dir.path(), &dir.path().join("crates/tests/src"), &queries] {
            let suite = Suite::find(folder).unwrap();
            let names: Vec<&str> = suite.cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names, ["a", "b"]);
            assert!(suite.inputs.ends_with("crates/tests/inputs"));
        }
        assert!(Suite::find(&dir.path().join("crates/tests/inputs")).is_err());
    }
}
