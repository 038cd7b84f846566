//! Data that a suite's own runner generates before its tests run.
//!
//! Some files state answers over the tables of TPC-H, which their projects generate instead of keeping them. The
//! generator gives the same rows as the benchmark's own, so that the answers can be checked. Files are made once and
//! kept in the folder for temporary files.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

/// The tables, each of which is one file.
const TABLES: [&str; 8] =
    ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

/// What a file needs besides its own records.
#[derive(Debug, Default)]
pub(super) struct Fixture {
    /// Pieces of the file's text, and what stands for them.
    pub(super) replaced: Vec<(String, String)>,
    /// Settings under which the file means what it means to its engine.
    pub(super) settings: Vec<(&'static str, &'static str)>,
    /// Another file whose records come first, without being counted.
    pub(super) before: Option<PathBuf>,
    /// Statements that come after those and before the file's own, without being counted.
    pub(super) statements: Vec<String>,
}

impl Fixture {
    /// What the file at this path needs; makes the data if it is not there yet.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn of(path: &Path) -> std::result::Result<Self, String> {
        let named = |names: &[&str]| {
            let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
            parts.windows(names.len()).any(|window| window == names)
        };
        if named(&["test_files", "tpch"]) {
            let data = generated(0.1).map_err(|error| error.to_string())?;
            let folder = ("test_files/tpch/data".to_string(), data.display().to_string());
            return Ok(Fixture { replaced: vec![folder], ..Fixture::default() });
        }
        if named(&["sql", "tpch-full"]) {
            let data = generated(1.0).map_err(|error| error.to_string())?;
            let copy = |table: &&str| {
                format!("COPY {table} FROM '{}/{table}.tbl' (DELIMITER '|')", data.display())
            };
            let create = path.parent().and_then(Path::parent);
            return Ok(Fixture {
                before: create.map(|folder| folder.join("tpch").join("_create.slt")),
                statements: TABLES.iter().map(copy).collect(),
                ..Fixture::default()
            });
        }
        if named(&["11a_risinglight"]) {
            // A primary key is a declaration there: one file inserts its values twice.
            let key = (", primary key(v1)".to_string(), String::new());
            let settings = vec![("division_by_zero", "null")];
            return Ok(Fixture { replaced: vec![key], settings, ..Fixture::default() });
        }
        Ok(Fixture::default())
    }
}

/// The folder with all tables at a scale factor.
fn generated(scale: f64) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("thalweg-tpch-{scale}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Another process may do the same: the one that is ready first names the folder.
    let own = std::env::temp_dir().join(format!("thalweg-tpch-{scale}-{}", std::process::id()));
    fs::create_dir_all(&own)?;
    let file = |table: &str| own.join(format!("{table}.tbl"));
    write(&file("nation"), NationGenerator::new(scale, 1, 1).iter())?;
    write(&file("region"), RegionGenerator::new(scale, 1, 1).iter())?;
    write(&file("part"), PartGenerator::new(scale, 1, 1).iter())?;
    write(&file("supplier"), SupplierGenerator::new(scale, 1, 1).iter())?;
    write(&file("partsupp"), PartSuppGenerator::new(scale, 1, 1).iter())?;
    write(&file("customer"), CustomerGenerator::new(scale, 1, 1).iter())?;
    write(&file("orders"), OrderGenerator::new(scale, 1, 1).iter())?;
    write(&file("lineitem"), LineItemGenerator::new(scale, 1, 1).iter())?;
    match fs::rename(&own, &folder) {
        Err(error) if !folder.is_dir() => Err(error),
        Err(_) => fs::remove_dir_all(&own).map(|()| folder),
        Ok(()) => Ok(folder),
    }
}

fn write(path: &Path, rows: impl Iterator<Item = impl Display>) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for row in rows {
        writeln!(out, "{row}")?;
    }
    out.flush()
}
