//! Standard input as a table, rows on standard output, and queries that end when they are told to.

use crate::command::Thalweg;

const STDIN: &str =
    "CREATE TABLE s (a BIGINT, b VARCHAR) WITH ('connector'='stdin', 'format'='csv');";
const PRINT: &str = "CREATE TABLE p (a BIGINT, b VARCHAR) WITH ('connector'='print');";
const ENDLESS: &str = "CREATE TABLE g (a BIGINT, b VARCHAR) WITH ('connector'='datagen');";

fn run(statements: &[&str]) -> Thalweg {
    Thalweg::new().args(["--no-rc", "--format", "csv", "-c", &statements.join(" ")])
}

#[test]
fn rows_of_standard_input_are_printed() {
    let insert = "INSERT INTO p SELECT a + 1, b FROM s WHERE a > 1;";
    let out = run(&[STDIN, PRINT, insert]).input("1,x\n2,y\n3,\n4,last").run();
    assert_eq!(out.stdout, "+I[3, y]\n+I[4, null]\n+I[5, last]\n", "{}", out.stderr);
    assert_eq!((out.stderr.as_str(), out.status), ("", 0));
}

#[test]
fn rows_are_printed_on_standard_error() {
    let print = PRINT.replace("'print'", "'print', 'print-identifier'='t', 'standard-error'='on'");
    let out = run(&[&print, "INSERT INTO p VALUES (1, 'x');"]).run();
    assert_eq!((out.stdout.as_str(), out.status), ("", 0));
    assert_eq!(out.stderr, "t> +I[1, x]\n");
}

#[test]
fn a_query_that_waits_for_input_is_interrupted() {
    let insert = "INSERT INTO p SELECT * FROM s;";
    let out =
        run(&["SELECT 1 AS one;", STDIN, PRINT, insert]).run_and_interrupt_reading("one\n1\n");
    assert_eq!((out.stdout.as_str(), out.status), ("one\n1\n", 130), "{}", out.stderr);
}

#[test]
fn a_generator_without_an_end_is_interrupted() {
    let print = PRINT.replace("print", "blackhole");
    let insert = "INSERT INTO p SELECT * FROM g;";
    let out =
        run(&["SELECT 1 AS one;", ENDLESS, &print, insert]).run_and_interrupt_after("one\n1\n");
    assert_eq!((out.stdout.as_str(), out.status), ("one\n1\n", 130), "{}", out.stderr);
}

#[test]
fn a_printer_that_nobody_reads_ends_quietly() {
    let out = run(&[ENDLESS, PRINT, "INSERT INTO p SELECT * FROM g;"]).run_until_stdout_has(10_000);
    assert_eq!((out.stderr.as_str(), out.status), ("", 0));
}
