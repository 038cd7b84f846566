//! Tables of events: their rows, the order in which these arrive, and how they are spread over files.
//!
//! Rows have the columns of the other random tables and an event time `ts`. A row arrives at most [`BOUND_MS`] behind
//! a later one, which is what the tables declare, unless late rows are asked for. Times lie close together, so that
//! windows of a few seconds hold several rows and close while others still come.

use std::fs;
use std::path::Path;

use super::super::random::Random;

/// How far rows are out of order at most, in milliseconds; tables declare it.
const BOUND_MS: usize = 5_000;

/// Rows of a table at most.
const ROWS_MAX: usize = 40;

/// Names of the tables: three with a watermark, one without, and one of versions with a key.
pub(super) const NAMES: [&str; 5] = ["t0", "t1", "t2", "t3", "v"];

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Event {
    id: i32,
    a: Option<i32>,
    b: Option<i64>,
    c: Option<f64>,
    d: Option<&'static str>,
    /// Days since 2022-01-01.
    e: Option<u32>,
    /// Hundredths.
    f: Option<i64>,
    g: Option<bool>,
    /// Milliseconds after the first possible one.
    time_ms: usize,
}

/// What the columns are called, and their types.
pub(in super::super) const COLUMNS: &str = "id INT, a INT, b BIGINT, c DOUBLE, d VARCHAR, e DATE, f DECIMAL(10, 2), g BOOLEAN, \
                              ts TIMESTAMP";

impl Event {
    /// A row with this number; every column but the number and the time may be NULL.
    pub fn random(id: i32, random: &mut Random) -> Self {
        let mut any = |percent: usize| !random.chance(percent);
        let present: Vec<bool> = (0..7).map(|_| any(12)).collect();
        Event {
            id,
            a: present[0].then(|| random.below(5) as i32 - 1),
            b: present[1].then(|| *random.pick(&[i64::MIN, i64::MAX, 0, 1, -1, 7])),
            c: present[2].then(|| double(random)),
            d: present[3].then(|| *random.pick(&["x", "a", "b", "ab", "B", "a longer text", "ä"])),
            e: present[4].then(|| random.below(5) as u32 * 6 + 1),
            f: present[5].then(|| random.below(9) as i64 * 50 - 200),
            g: present[6].then(|| random.chance(50)),
            time_ms: random.below(80) * 500,
        }
    }

    /// The values as SQL spells them, each as a text that any form of literal quotes; `None` is NULL.
    fn values(&self) -> [Option<String>; 9] {
        let decimal = |f: i64| {
            format!("{}{}.{:02}", if f < 0 { "-" } else { "" }, f.abs() / 100, f.abs() % 100)
        };
        [
            Some(self.id.to_string()),
            self.a.map(|a| a.to_string()),
            self.b.map(|b| b.to_string()),
            self.c.map(|c| if c.is_infinite() { "Infinity".to_string() } else { format!("{c:?}") }),
            self.d.map(str::to_string),
            self.e.map(|e| format!("2022-01-{e:02}")),
            self.f.map(decimal),
            self.g.map(|g| g.to_string()),
            Some(self.time()),
        ]
    }

    fn time(&self) -> String {
        let (seconds, ms) = (self.time_ms / 1_000, self.time_ms % 1_000);
        format!("2024-01-01 00:{:02}:{:02}.{ms:03}", seconds / 60, seconds % 60)
    }

    fn csv(&self) -> String {
        self.values().map(Option::unwrap_or_default).join(",")
    }

    /// The row as it stands behind VALUES.
    pub fn literals(&self) -> String {
        let literal = |value: Option<String>| match value {
            Some(text) => format!("'{text}'"),
            None => "NULL".to_string(),
        };
        format!("({})", self.values().map(literal).join(", "))
    }
}

/// Quarters, whose sums are exact in any order, and what is special about floats.
fn double(random: &mut Random) -> f64 {
    match random.below(16) {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::INFINITY,
        n => n as f64 * 0.25 - 1.5,
    }
}

/// A table whose rows are in the order of their arrival.
#[derive(Debug, Clone)]
pub(super) struct Arrivals {
    pub name: &'static str,
    pub rows: Vec<Event>,
}

/// The rows of all tables, by no order.
pub(super) fn tables(random: &mut Random) -> Vec<Arrivals> {
    let rows = |name: &'static str, random: &mut Random| {
        let count = if random.chance(6) { 0 } else { 1 + random.below(ROWS_MAX) };
        let mut rows: Vec<Event> = (0..count).map(|id| Event::random(id as i32, random)).collect();
        if name == "v" {
            // A key has no NULL, and no two versions at a time.
            for (at, row) in rows.iter_mut().enumerate() {
                row.a = row.a.or(Some(0));
                row.time_ms = row.time_ms / 1_000 * 1_000 + at;
            }
        }
        rows
    };
    NAMES.into_iter().map(|name| Arrivals { name, rows: rows(name, random) }).collect()
}

/// How the rows of all tables arrive.
#[derive(Debug, Clone)]
pub(super) struct Arrangement {
    /// For each table its files.
    files: Vec<(&'static str, Vec<Vec<Event>>)>,
}

impl Arrangement {
    /// An order within the bound, spread over up to `files_max` files.
    pub fn random(tables: &[Arrivals], files_max: usize, random: &mut Random) -> Self {
        let files = tables.iter().map(|table| {
            let rows = in_order(&table.rows, *random.pick(&[1, BOUND_MS / 4, BOUND_MS]), random);
            (table.name, spread(rows, 1 + random.below(files_max), random))
        });
        Arrangement { files: files.collect() }
    }

    /// One file a table, some rows of which come far behind.
    pub fn late(tables: &[Arrivals], random: &mut Random) -> Self {
        let files = tables.iter().map(|table| {
            let disorder = *random.pick(&[2 * BOUND_MS, 4 * BOUND_MS, 10 * BOUND_MS]);
            (table.name, vec![in_order(&table.rows, disorder, random)])
        });
        Arrangement { files: files.collect() }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.files.iter().flat_map(|(_, files)| files).map(Vec::len).sum()
    }

    /// Without the rows at these places, counted through all files.
    pub fn without(&self, places: std::ops::Range<usize>) -> Self {
        let mut place = 0;
        let mut kept = |_: &Event| {
            place += 1;
            !places.contains(&(place - 1))
        };
        let mut files = self.files.clone();
        files.iter_mut().flat_map(|(_, files)| files).for_each(|file| file.retain(&mut kept));
        Arrangement { files }
    }

    /// The same rows in one file a table, by their number.
    pub fn gathered(&self) -> Self {
        let files = self.files.iter().map(|(name, files)| {
            let mut rows: Vec<Event> = files.iter().flatten().cloned().collect();
            rows.sort_by_key(|row| row.id);
            (*name, vec![rows])
        });
        Arrangement { files: files.collect() }
    }

    /// Writes the files below `folder`; gives the statements that declare the tables.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> Result<Vec<String>, String> {
        let mut statements = Vec::new();
        for (name, files) in &self.files {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(|error| error.to_string())?;
            for (at, rows) in files.iter().enumerate() {
                let lines: String = rows.iter().map(|row| row.csv() + "\n").collect();
                fs::write(path.join(format!("{at}.csv")), lines)
                    .map_err(|error| error.to_string())?;
            }
            statements.push(declaration(name, &path));
        }
        Ok(statements)
    }

    /// Shell commands and statements that make the tables that a query reads, for a person.
    pub fn script(&self, sql: &str) -> String {
        let mut lines = Vec::new();
        for (name, files) in self.files.iter().filter(|(name, _)| reads(sql, name)) {
            let path = Path::new("case").join(name);
            lines.push(format!("mkdir -p {}", path.display()));
            for (at, rows) in files.iter().enumerate() {
                let rows: String = rows.iter().map(|row| row.csv() + "\n").collect();
                lines.push(format!("cat > {}/{at}.csv <<END\n{rows}END", path.display()));
            }
            lines.push(declaration(name, &path) + ";");
        }
        lines.join("\n")
    }
}

/// Whether a query names a table.
fn reads(sql: &str, name: &str) -> bool {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

fn declaration(name: &str, path: &Path) -> String {
    let more = match name {
        "t3" => "",
        "v" => ", PRIMARY KEY (a) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        _ => ", WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
    };
    format!(
        "CREATE TABLE {name} ({COLUMNS}{more}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', \
         'csv.header' = 'false')",
        path.display()
    )
}

/// The rows by their times, each up to `disorder_ms` later than its own.
fn in_order(rows: &[Event], disorder_ms: usize, random: &mut Random) -> Vec<Event> {
    let mut arriving: Vec<(usize, Event)> =
        rows.iter().map(|row| (row.time_ms + random.below(disorder_ms), row.clone())).collect();
    arriving.sort_by_key(|(at, _)| *at);
    arriving.into_iter().map(|(_, row)| row).collect()
}

/// Rows over files, each of which keeps the order: dealt out in turn, by chance, or cut.
fn spread(rows: Vec<Event>, files: usize, random: &mut Random) -> Vec<Vec<Event>> {
    let way = random.below(3);
    let cut = rows.len().div_ceil(files).max(1);
    let mut spread = vec![Vec::new(); files];
    for (at, row) in rows.into_iter().enumerate() {
        let file = match way {
            0 => at % files,
            1 => random.below(files),
            _ => at / cut,
        };
        spread[file].push(row);
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_arrive_within_the_bound_in_each_file() {
        let mut random = Random::new(7);
        for _ in 0..20 {
            let tables = tables(&mut random);
            let arranged = Arrangement::random(&tables, 4, &mut random);
            assert_eq!(arranged.len(), tables.iter().map(|t| t.rows.len()).sum::<usize>());
            for rows in arranged.files.iter().flat_map(|(_, files)| files) {
                let mut latest = 0;
                for row in rows {
                    assert!(row.time_ms + BOUND_MS > latest);
                    latest = latest.max(row.time_ms);
                }
            }
        }
    }
}
