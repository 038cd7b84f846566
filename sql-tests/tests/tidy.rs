//! House rules that a machine can check, so that no reviewer has to: crate edges, file sizes, banned words,
//! and that every operator is tested by the harness.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file with its path relative to the workspace.
struct Source {
    path: String,
    text: String,
    /// Whether a parent declares the module for tests alone.
    test_module: bool,
}

impl Source {
    /// The text before the file's own tests, comments included.
    fn without_tests(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default()
    }

    /// Tests and benches may say what the engine must not.
    fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        self.test_module
            || parts.contains(&"tests")
            || parts[0] == "benches"
            || parts.contains(&"examples")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("test_data.rs")
    }

    fn lines_with<'a>(&'a self, words: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
        self.text.lines().enumerate().flat_map(move |(i, line)| {
            words
                .iter()
                .filter(|word| line.contains(**word))
                .map(move |word| format!("{}:{}: {word}", self.path, i + 1))
        })
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .to_path_buf()
}

const CRATES: &[&str] = &["planner", "optimizer", "runtime", "engine", "sql-tests", "benches"];

/// This file names what it bans.
const THIS_FILE: &str = "sql-tests/tests/tidy.rs";

fn sources() -> Vec<Source> {
    let root = workspace();
    let mut found = Vec::new();
    CRATES.iter().for_each(|member| read_into(&root, &root.join(member), &mut found));
    assert!(found.len() > 50, "the sources were not found below {}", root.display());
    let of_tests: Vec<String> = found.iter().flat_map(test_modules).collect();
    for source in &mut found {
        source.test_module = of_tests.iter().any(|module| source.path.starts_with(module));
    }
    found
}

/// The paths, without their ends, of modules that a file declares for tests alone.
fn test_modules(source: &Source) -> Vec<String> {
    let path = Path::new(&source.path);
    let folder = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") | None => path.with_file_name(""),
        Some(_) => path.with_extension(""),
    };
    let lines: Vec<&str> = source.text.lines().collect();
    lines
        .windows(2)
        .filter(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].ends_with(';'))
        .filter_map(|pair| pair[1].trim_end_matches(';').rsplit_once("mod ").map(|(_, name)| name))
        .flat_map(|name| {
            [
                format!("{}.rs", folder.join(name).display()),
                format!("{}/", folder.join(name).display()),
            ]
        })
        .collect()
}

fn read_into(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.ends_with("target") {
            read_into(root, &path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let relative =
                path.strip_prefix(root).expect("below the workspace").display().to_string();
            if relative != THIS_FILE {
                found.push(Source {
                    path: relative,
                    text: fs::read_to_string(&path).expect("a readable source"),
                    test_module: false,
                });
            }
        }
    }
}

fn fail_on(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

fn manifest(member: &str) -> String {
    fs::read_to_string(workspace().join(member).join("Cargo.toml")).expect("a manifest")
}

/// The dependencies of a manifest, tests' included.
fn dependencies(member: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest(member).lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies");
        } else if inside
            && let Some(name) = line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty())
        {
            names.push(name.to_string());
        }
    }
    names
}

#[test]
fn crates_depend_in_one_direction() {
    let allowed: &[(&str, &[&str])] = &[
        ("planner", &[]),
        ("optimizer", &["thalweg-planner"]),
        ("runtime", &[]),
        ("engine", &["thalweg-planner", "thalweg-optimizer", "thalweg-runtime"]),
    ];
    let mut wrong = Vec::new();
    for (member, allowed) in allowed {
        for name in dependencies(member) {
            if name.starts_with("thalweg") && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{member} depends on {name}"));
            }
        }
    }
    for member in CRATES {
        if dependencies(member)
            .iter()
            .any(|name| name == "datafusion" || name == "datafusion-physical-plan")
        {
            wrong.push(format!("{member} depends on DataFusion's own execution"));
        }
    }
    fail_on("crate edges that the architecture forbids", wrong);
}

#[test]
fn planning_touches_no_file_thread_or_clock() {
    let banned: &[(&str, &[&str])] = &[
        ("planner/src/", &["std::fs", "std::net", "tokio", "File::open"]),
        (
            "optimizer/src/",
            &["std::fs", "std::net", "std::thread", "tokio", "Instant::now", "SystemTime::now"],
        ),
    ];
    let sources = sources();
    let found = banned.iter().flat_map(|(folder, words)| {
        let inside = sources.iter().filter(move |s| s.path.starts_with(folder) && !s.is_test());
        inside.flat_map(|source| source.lines_with(words))
    });
    fail_on("planning must do no I/O", found.collect());
}

#[test]
fn no_foreign_execution_plan_runs() {
    let sources = sources();
    // The words may stand in comments that say so.
    let found = sources.iter().flat_map(|source| {
        source.lines_with(&["ExecutionPlan"]).filter(|hit| {
            let line = hit.split(':').nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
            let text = source.text.lines().nth(line - 1).unwrap_or_default().trim_start();
            !text.starts_with("//")
        })
    });
    fail_on("DataFusion's execution plans must not be used", found.collect());
}

#[test]
fn files_stay_readable() {
    const LINES_MAX: usize = 1000;
    const LINES_WARN: usize = 600;
    let mut too_long = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            too_long.push(format!("{}: {lines} lines", source.path));
        } else if lines > LINES_WARN {
            println!("getting long: {}: {lines} lines", source.path);
        }
    }
    fail_on("files of more than 1,000 lines", too_long);
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent = sources()
        .iter()
        .filter(|source| !source.text.starts_with("//!") && !source.path.ends_with("build.rs"))
        .map(|source| source.path.clone())
        .collect();
    fail_on("modules without a description", silent);
}

#[test]
fn nothing_is_left_undone() {
    let words = &["todo!", "unimplemented!", "#[ignore", "#![allow", "TODO", "FIXME", "XXX"];
    fail_on(
        "unfinished or silenced code",
        sources().iter().flat_map(|s| s.lines_with(words).collect::<Vec<_>>()).collect(),
    );
}

#[test]
fn no_path_of_a_machine_is_named() {
    let words = &["\"/work", "\"/home/", "\"/root/", "\"/tmp/", "/work/"];
    let sources = sources();
    let found = sources.iter().filter(|s| !s.is_test()).flat_map(|source| {
        let kept = Source {
            path: source.path.clone(),
            text: source.without_tests().to_string(),
            test_module: false,
        };
        kept.lines_with(words).collect::<Vec<_>>()
    });
    fail_on("absolute paths", found.collect());
    let shared = sources.iter().filter(|s| !s.is_test()).flat_map(|s| s.lines_with(&["../shared"]));
    fail_on("material outside the project", shared.collect());
}

#[test]
fn benchmarks_are_not_known_to_the_engine() {
    let words = &[
        "lineitem",
        "l_orderkey",
        "o_orderkey",
        "partsupp",
        "c_custkey",
        "store_sales",
        "catalog_sales",
        "web_sales",
        "date_dim",
        "tpch",
        "tpcds",
        "TPC-H",
        "TPC-DS",
        "clickbench",
        "ClickBench",
    ];
    let engine = ["planner/src/", "optimizer/src/", "runtime/src/", "engine/src/"];
    let found = sources()
        .iter()
        .filter(|s| engine.iter().any(|folder| s.path.starts_with(folder)) && !s.is_test())
        .flat_map(|source| {
            let kept = Source {
                path: source.path.clone(),
                text: source.without_tests().to_string(),
                test_module: false,
            };
            kept.lines_with(words).collect::<Vec<_>>()
        })
        .collect();
    fail_on("benchmark schemas inside the engine", found);
}

#[test]
fn modules_have_names_that_mean_something() {
    let vague = ["util", "utils", "helper", "helpers", "common", "misc", "base"];
    let found = sources()
        .iter()
        .filter(|source| {
            let stem =
                Path::new(&source.path).file_stem().and_then(|s| s.to_str()).unwrap_or_default();
            let folders = source.path.split('/');
            vague.contains(&stem) || folders.into_iter().any(|folder| vague.contains(&folder))
        })
        .map(|source| source.path.clone())
        .collect();
    fail_on("vague names", found);
}

/// Files of operators that may handle single values, and why.
const VALUE_AT_A_TIME: &[(&str, &str)] = &[
    (
        "window/accumulator.rs",
        "aggregates of the library over frames, which work a value at a time",
    ),
    ("hash_aggregate/shape.rs", "a grouping set's id is one constant"),
    ("window/frame.rs", "a frame's offset is one constant"),
];

#[test]
fn operators_work_on_batches() {
    let words = &["ScalarValue", "HashMap", "Box<dyn Accumulator", "Vec<Vec<u8>>"];
    let sources = sources();
    let found = sources
        .iter()
        .filter(|s| s.path.starts_with("runtime/src/operators/") && !s.is_test())
        .filter(|s| !s.path.ends_with("harness.rs"))
        .filter(|s| !VALUE_AT_A_TIME.iter().any(|(file, _)| s.path.ends_with(file)))
        .flat_map(|source| {
            let kept = Source {
                path: source.path.clone(),
                text: source.without_tests().to_string(),
                test_module: false,
            };
            kept.lines_with(words).collect::<Vec<_>>()
        })
        .collect();
    fail_on("values handled one by one in operators", found);
}

#[test]
fn every_operator_is_tested_by_the_harness() {
    let sources = sources();
    let of = |path: &str| {
        sources.iter().find(|s| s.path == path).map(|s| s.text.as_str()).unwrap_or_default()
    };
    let spec = of("runtime/src/operators/spec.rs");
    // The variants with their modules: `Filter(filter::FilterSpec),`.
    let variants: Vec<(&str, &str)> = spec
        .lines()
        .take_while(|line| !line.starts_with("impl"))
        .filter_map(|line| {
            let (name, rest) = line.trim().split_once('(')?;
            let module = rest.split_once("::")?.0;
            name.chars().all(char::is_alphanumeric).then_some((name, module))
        })
        .collect();
    assert!(variants.len() > 5, "the variants were not found");
    let tested: Vec<&Source> = sources
        .iter()
        .filter(|s| {
            s.path.starts_with("runtime/")
                && s.text.contains("harness")
                && !s.path.ends_with("harness.rs")
        })
        .collect();
    // Scans and sinks need connectors and are tested in whole jobs.
    let in_jobs = ["SourceScan", "Sink"];
    let untested = variants
        .iter()
        .filter(|(name, module)| {
            let by_spec = tested.iter().any(|s| {
                s.text.contains(&format!("OperatorSpec::{name}")) && !s.path.ends_with("spec.rs")
            });
            let by_module = tested.iter().any(|s| {
                s.path.contains(&format!("/{module}.rs")) || s.path.contains(&format!("/{module}/"))
            });
            !by_spec && !by_module && !in_jobs.contains(name)
        })
        .map(|(name, module)| format!("{name} ({module})"))
        .collect();
    fail_on("operators without a harness test", untested);
}
