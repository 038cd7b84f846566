//! The command line.

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};

use super::format::FormatName;

/// Thalweg: SQL over files and streams.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, disable_help_subcommand = true, args_override_self = true)]
struct Flags {
    /// Do not read the start-up file ~/.thalwegrc
    #[arg(long)]
    no_rc: bool,
    /// How results are printed
    #[arg(
        long,
        value_name = "FMT",
        ignore_case = true,
        value_parser = PossibleValuesParser::new(FormatName::names())
            .try_map(|name| FormatName::from_name(&name))
    )]
    format: Option<FormatName>,
    /// Run statements and end; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL", action = ArgAction::Append, allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Run a script and end, `-` for standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", action = ArgAction::Append)]
    files: Vec<String>,
    /// Change a setting; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append, value_parser = key_value)]
    settings: Vec<(String, String)>,
    /// Memory the process may use, such as 512MB
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Threads that run queries
    #[arg(long, value_name = "N")]
    threads: Option<String>,
}

/// One thing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Statements of the command line.
    Text(String),
    /// A script file.
    File(String),
}

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// Whether the start-up file is read.
    pub read_rc: bool,
    /// How results are printed, if it says so.
    pub format: Option<FormatName>,
    /// What to run, in the order given; nothing means standard input.
    pub inputs: Vec<Input>,
    /// Settings to change, in the order given; `--memory-limit` and `--threads` come last.
    pub settings: Vec<(String, String)>,
}

/// Why nothing is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Help or version was asked for: text for stdout.
    Answer(String),
    /// Wrong usage: text for stderr, beginning `Error: `.
    Usage(String),
}

impl Arguments {
    /// Reads the command line; the first argument is the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Refusal> {
        let matches = command().try_get_matches_from(arguments).map_err(refusal)?;
        let flags = Flags::from_arg_matches(&matches).map_err(refusal)?;
        let inputs = in_order(&matches, &flags);
        let mut settings = flags.settings;
        settings.extend(flags.memory_limit.map(|limit| ("memory_limit".to_string(), limit)));
        settings.extend(flags.threads.map(|threads| ("threads".to_string(), threads)));
        Ok(Arguments { read_rc: !flags.no_rc, format: flags.format, inputs, settings })
    }
}

fn command() -> Command {
    Flags::command().after_help(
        "Without -c and -f, standard input is run as a script; on a terminal it is the shell.\n\
         Exit status: 0 if all went well, 1 after a failed statement, 2 for wrong usage, 130 after Ctrl-C.",
    )
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

/// Texts and files as they stand on the command line.
fn in_order(matches: &ArgMatches, flags: &Flags) -> Vec<Input> {
    let at = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
    let texts = at("commands").into_iter().zip(flags.commands.iter().cloned().map(Input::Text));
    let files = at("files").into_iter().zip(flags.files.iter().cloned().map(Input::File));
    let mut inputs: Vec<(usize, Input)> = texts.chain(files).collect();
    inputs.sort_by_key(|(index, _)| *index);
    inputs.into_iter().map(|(_, input)| input).collect()
}

fn refusal(error: clap::Error) -> Refusal {
    let text = error.render().to_string();
    if error.use_stderr() {
        Refusal::Usage(text.replacen("error: ", "Error: ", 1))
    } else {
        Refusal::Answer(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, Refusal> {
        Arguments::parse(
            std::iter::once("thalweg").chain(arguments.iter().copied()).map(OsString::from),
        )
    }

    #[test]
    fn everything_at_once() {
        let arguments = parse(&[
            "--no-rc",
            "--format",
            "csv",
            "-c",
            "SELECT 1",
            "-f",
            "a.sql",
            "-c",
            "-- x",
            "--set",
            "batch_size=7",
            "--memory-limit",
            "512MB",
            "--threads",
            "3",
        ]);
        let arguments = arguments.unwrap();
        assert!(!arguments.read_rc);
        assert_eq!(arguments.format, Some(FormatName::Csv));
        let text = |sql: &str| Input::Text(sql.to_string());
        assert_eq!(
            arguments.inputs,
            [text("SELECT 1"), Input::File("a.sql".to_string()), text("-- x")]
        );
        let keys: Vec<&str> = arguments.settings.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["batch_size", "memory_limit", "threads"]);
    }

    #[test]
    fn of_what_is_given_twice_the_last_holds() {
        let twice = ["--no-rc", "--threads", "1", "--no-rc", "--threads", "2", "--format", "csv"];
        let arguments = parse(&[&twice[..], &["--format", "TSV"]].concat()).unwrap();
        assert_eq!(arguments.settings, [("threads".to_string(), "2".to_string())]);
        assert_eq!(arguments.format, Some(FormatName::Tsv));
        let both = parse(&["-c", "SELECT 1", "-c", "SELECT 2"]).unwrap();
        assert_eq!(both.inputs.len(), 2);
    }

    #[test]
    fn wrong_usage_begins_like_every_error() {
        for wrong in
            [&["--format", "xml"][..], &["--nope"], &["-c"], &["--set", "threads"], &["stray"]]
        {
            let Err(Refusal::Usage(text)) = parse(wrong) else {
                panic!("{wrong:?} is wrong usage")
            };
            assert!(text.starts_with("Error: "), "{text}");
        }
    }

    #[test]
    fn help_and_version_are_answers() {
        assert!(
            matches!(parse(&["--help"]), Err(Refusal::Answer(text)) if text.contains("--memory-limit"))
        );
        assert!(
            matches!(parse(&["--help"]), Err(Refusal::Answer(text)) if text.contains("jsonl, markdown"))
        );
        assert!(matches!(parse(&["--version"]), Err(Refusal::Answer(_))));
    }
}
