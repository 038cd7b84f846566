//! Dot commands: the shell's own, one a line.

use thalweg_planner::suggest;

use super::format::FormatName;
use crate::error::{Error, Report, Result};

/// A dot command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DotCommand {
    /// Whether each statement's time is printed.
    Timer(bool),
    /// How results are printed; the table is the one that the insert format names, with its quotes.
    Mode(FormatName, Option<String>),
    /// Prints text.
    Print(String),
    /// Runs a script.
    Read(String),
    /// Whether a script ends at its first failed statement.
    Bail(bool),
    /// Sends results to a file, or back to standard output.
    Output(Option<String>),
    /// Lists tables and views.
    Tables,
    /// Shows the statements that create tables and views, or one of them.
    Schema(Option<String>),
    /// Lists these commands.
    Help,
    /// Ends the shell.
    Quit,
}

/// Names, forms and meanings, for help and suggestions.
const COMMANDS: [(&str, &str, &str); 11] = [
    ("bail", ".bail on|off", "End a script at its first failed statement (default: on)"),
    ("exit", ".exit", "The same as .quit"),
    ("help", ".help", "Show this list"),
    (
        "mode",
        ".mode FORMAT [TABLE]",
        "Print results as table, csv, tsv, json, jsonl, markdown, line, html, insert, changelog or none",
    ),
    ("output", ".output [FILE]", "Send results to a file, or back to standard output"),
    ("print", ".print TEXT", "Print text"),
    ("quit", ".quit", "End the shell"),
    ("read", ".read FILE", "Run a script"),
    ("schema", ".schema [NAME]", "Show the statements that create tables and views"),
    ("tables", ".tables", "List tables and views"),
    ("timer", ".timer on|off", "Print the time of each statement (default: off)"),
];

impl DotCommand {
    /// Reads a command without its dot.
    pub fn parse(line: &str) -> Result<DotCommand> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        // Whoever ends statements with a semicolon may end commands with one.
        let (name, rest) = match (name.strip_suffix(';'), rest) {
            (Some(name), "" | ";") => (name, ""),
            _ if name.eq_ignore_ascii_case("print") => (name, rest),
            _ => (name, rest.strip_suffix(';').unwrap_or(rest).trim_end()),
        };
        let name = name.to_ascii_lowercase();
        let optional = || (!rest.is_empty()).then(|| unquoted(rest).to_string());
        Ok(match name.as_str() {
            "timer" => DotCommand::Timer(switch(&name, rest)?),
            "bail" => DotCommand::Bail(switch(&name, rest)?),
            "mode" => mode(rest)?,
            "print" => DotCommand::Print(unquoted(rest).to_string()),
            "read" => DotCommand::Read(optional().ok_or_else(|| usage(&name))?),
            "output" => DotCommand::Output(optional().filter(|file| file != "stdout")),
            "schema" => DotCommand::Schema(optional()),
            "tables" if rest.is_empty() => DotCommand::Tables,
            "help" => DotCommand::Help,
            "quit" | "exit" if rest.is_empty() => DotCommand::Quit,
            "tables" | "quit" | "exit" => return Err(usage(&name)),
            _ => {
                let known = COMMANDS.iter().filter_map(|(_, form, _)| form.split(' ').next());
                let hint = suggest::did_you_mean(&format!(".{name}"), known);
                let hint = hint.unwrap_or_else(|| ".help lists all commands.".to_string());
                return Err(failure(format!("unknown command \".{name}\""), hint));
            }
        })
    }
}

/// All commands, one a line.
pub fn help() -> String {
    let lines = COMMANDS.iter().map(|(_, form, meaning)| format!("{form:<22} {meaning}\n"));
    lines.collect::<String>() + "Anything else is SQL, up to a semicolon.\n"
}

fn failure(message: String, hint: String) -> Error {
    Error::Statement(Box::new(Report::new(message).with_hint(hint)))
}

fn usage(name: &str) -> Error {
    let form = COMMANDS.iter().find(|(known, _, _)| *known == name).map_or("", |(_, form, _)| form);
    let formats = match name {
        "mode" => format!(" The formats are {}.", FormatName::names().join(", ")),
        _ => String::new(),
    };
    failure(format!("wrong arguments for .{name}"), format!("Write {form}.{formats}"))
}

fn switch(name: &str, text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(usage(name)),
    }
}

fn mode(rest: &str) -> Result<DotCommand> {
    let (format, table) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let table = (!table.trim().is_empty()).then(|| table.trim().to_string());
    if format.is_empty() {
        return Err(usage("mode"));
    }
    let format = FormatName::from_name(format).map_err(Error::statement)?;
    if table.is_some() && format != FormatName::Insert {
        return Err(usage("mode"));
    }
    Ok(DotCommand::Mode(format, table))
}

/// Text without the quotes around it.
fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> DotCommand {
        DotCommand::parse(line).unwrap()
    }

    #[test]
    fn commands_with_their_arguments() {
        assert_eq!(parsed("timer on"), DotCommand::Timer(true));
        assert_eq!(parsed("BAIL off"), DotCommand::Bail(false));
        assert_eq!(parsed("mode csv"), DotCommand::Mode(FormatName::Csv, None));
        assert_eq!(
            parsed("mode insert  my table"),
            DotCommand::Mode(FormatName::Insert, Some("my table".into()))
        );
        assert_eq!(parsed("print"), DotCommand::Print(String::new()));
        assert_eq!(parsed("print 'a  b'"), DotCommand::Print("a  b".into()));
        assert_eq!(parsed("output"), DotCommand::Output(None));
        assert_eq!(parsed("output stdout"), DotCommand::Output(None));
        assert_eq!(parsed("output \"a b\""), DotCommand::Output(Some("a b".into())));
        assert_eq!(parsed("exit"), DotCommand::Quit);
    }

    #[test]
    fn wrong_commands_are_explained() {
        let hint = |line: &str| DotCommand::parse(line).unwrap_err().hint().map(str::to_string);
        assert_eq!(hint("tmer on").as_deref(), Some("did you mean \".timer\"?"));
        assert_eq!(hint("tabels").as_deref(), Some("did you mean \".tables\"?"));
        assert_eq!(hint("timer").as_deref(), Some("Write .timer on|off."));
        assert_eq!(hint("read").as_deref(), Some("Write .read FILE."));
        for wrong in ["mode", "mode csv t"] {
            assert!(
                hint(wrong)
                    .unwrap()
                    .starts_with("Write .mode FORMAT [TABLE]. The formats are table,")
            );
        }
        assert!(
            DotCommand::parse("mode xml")
                .unwrap_err()
                .to_string()
                .contains("expected one of: table, csv")
        );
    }

    #[test]
    fn help_names_every_command() {
        for (name, _, _) in COMMANDS {
            assert!(help().contains(&format!(".{name}")), "{name}");
        }
    }
}
