//! Runs continuous queries whose output is known, and says which of them wrote it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use thalweg_sql_tests::golden::{InProcess, Outcome, Runs, Shell, Suite, check};

/// Runs the queries of a folder in the layout of Arroyo's SQL tests and compares what they write.
#[derive(Debug, Parser)]
#[command(name = "golden")]
struct Arguments {
    /// The shell that runs the queries; without one they are run in this process.
    #[arg(long, value_name = "PATH")]
    thalweg: Option<PathBuf>,
    /// A query that is left out, by name.
    #[arg(long, value_name = "NAME")]
    skip: Vec<String>,
    /// A query that is run alone, by name.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// A setting of each session.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Statements that are run before each query, such as those that create functions.
    #[arg(long, value_name = "FILE")]
    prelude: Option<PathBuf>,
    /// Keeps the outputs in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Seconds that a query may take.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// The folder that holds `queries`, or one above it.
    folder: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("Error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing failed.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let suite = Suite::find(&arguments.folder)?;
    let runs = runner(arguments)?;
    let prelude = match &arguments.prelude {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read \"{}\": {error}", path.display()))?,
        None => String::new(),
    };
    let own = std::env::temp_dir().join(format!("thalweg-golden-{}", std::process::id()));
    let scratch = arguments.keep.clone().unwrap_or_else(|| own.clone());
    std::fs::create_dir_all(&scratch)
        .map_err(|error| format!("cannot create \"{}\": {error}", scratch.display()))?;
    // A panic is reported with its query; the default hook would print it once more.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut right, mut all, mut skipped) = (0, 0, 0);
    for case in &suite.cases {
        if !arguments.only.is_empty() && !arguments.only.contains(&case.name) {
            continue;
        }
        let outcome = match arguments.skip.contains(&case.name) {
            true => Outcome::Skipped("asked for".to_string()),
            false => check(case, &suite, runs.as_ref(), &prelude, &scratch),
        };
        match outcome {
            Outcome::Right => {
                (right, all) = (right + 1, all + 1);
                println!("ok {}", case.name);
            }
            Outcome::Wrong(why) => {
                all += 1;
                println!("FAIL {}: {why}", case.name);
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                println!("skipped {}: {why}", case.name);
            }
        }
    }
    println!("{right} of {all} right; {skipped} skipped");
    if arguments.keep.is_none() {
        let _ = std::fs::remove_dir_all(&own);
    }
    Ok(right == all)
}

fn runner(arguments: &Arguments) -> Result<Box<dyn Runs>, String> {
    let mut settings = Vec::new();
    for setting in &arguments.settings {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("--set wants KEY=VALUE, not {setting}"))?;
        settings.push((key.to_string(), value.to_string()));
    }
    let timeout = Duration::from_secs(arguments.timeout);
    Ok(match &arguments.thalweg {
        Some(program) => Box::new(Shell { program: program.clone(), settings, timeout }),
        None => Box::new(InProcess { settings, timeout }),
    })
}
