//! JSON files against rows written by hand.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use thalweg_runtime::Error;
use thalweg_runtime::source::SourceSpec;

use crate::connectors::testing::{read, rows_as_text, run, spec, text_file};
use crate::connectors::{FileOptions, FileTable};

fn rows(text: &str) -> Vec<String> {
    let (_dir, path) = text_file("a.json", text);
    rows_as_text(&read(&path, &FileOptions::default()).unwrap())
}

#[test]
fn types_are_widened() {
    let text = "{\"a\":1,\"b\":true,\"c\":\"x\",\"d\":[1,2]}\n{\"a\":2.5,\"c\":null,\"d\":[],\"e\":{\"f\":1}}\n";
    assert_eq!(rows(text), ["1.0|true|x|[1, 2]|∅", "2.5|∅|∅|[]|{f: 1}"]);
    assert_eq!(rows("{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":{\"b\":[1]}}\n"), ["1", "x", "{\"b\":[1]}"]);
    assert_eq!(rows("{\"a\":18446744073709551615}\n{\"a\":-1}\n"), ["18446744073709551615", "-1"]);
}

#[test]
fn names_of_doubles_are_doubles_among_numbers() {
    let text = "{\"a\":1,\"b\":\"NaN\",\"c\":[1.5,\"-Infinity\"],\"d\":\"NaN\"}\n\
                {\"a\":\"Infinity\",\"b\":\"NaN\",\"c\":[],\"d\":\"x\"}\n";
    let (_dir, path) = text_file("a.json", text);
    let batch = read(&path, &FileOptions::default()).unwrap();
    assert_eq!(rows_as_text(&batch), ["1.0|NaN|[1.5, -inf]|NaN", "inf|NaN|[]|x"]);
    let types: Vec<_> = batch.columns().iter().map(|c| c.data_type().clone()).collect();
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
    // By themselves they are text, as all strings are.
    assert_eq!(types, [DataType::Float64, DataType::Utf8View, list, DataType::Utf8View]);
}

#[test]
fn an_empty_file_has_the_columns_that_are_declared() {
    let (_dir, path) = text_file("a.json", "");
    let Err(Error::User { hint, .. }) = read(&path, &FileOptions::default()) else { panic!() };
    assert!(hint.is_some_and(|hint| hint.contains("'format' = 'json'")));
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    let options = FileOptions { schema: Some(Arc::new(schema)), ..Default::default() };
    assert_eq!(read(&path, &options).unwrap().num_rows(), 0);
}

#[test]
fn columns_keep_the_order_of_the_keys() {
    let (_dir, path) = text_file("a.json", "{\"z\":1,\"a\":2}\n{\"m\":3,\"z\":4}\n");
    let batch = read(&path, &FileOptions::default()).unwrap();
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["z", "a", "m"]);
}

#[test]
fn arrays_and_objects_over_several_lines() {
    assert_eq!(rows("[{\"a\":1},\n{\"a\":2}]"), ["1", "2"]);
    assert_eq!(rows("{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n"), ["1", "2"]);
    assert_eq!(rows("\u{feff}{\"a\":1}\r\n\r\n{\"a\":2}"), ["1", "2"]);
}

#[test]
fn errors_name_the_line() {
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    let mut options = FileOptions { schema: Some(Arc::new(schema)), ..Default::default() };
    let (_dir, path) = text_file("a.ndjson", "{\"a\":1}\n\n{\"a\":\"x\"}\n{\"a\":2\n{\"a\":3}\n");
    let Err(Error::User { message, .. }) = read(&path, &options) else { panic!() };
    assert!(message.contains("line 3"), "{message}");
    options.json_ignore_errors = true;
    assert_eq!(rows_as_text(&read(&path, &options).unwrap()), ["1", "3"]);
}

#[test]
fn pieces_of_a_large_file_add_up() {
    let mut text = String::new();
    for id in 0..200_000 {
        text.push_str(&format!("{{\"id\":{id},\"text\":\"{}\"}}\n", "é{\\\"".repeat(id % 19)));
    }
    let (_dir, path) = text_file("a.ndjson", &text);
    let table = FileTable::discover(&[path], None, &FileOptions::default()).unwrap();
    for subtasks in [1, 2] {
        let batch = run(&spec(&table), subtasks).unwrap();
        assert_eq!(batch.num_rows(), 200_000);
        let sum: i64 = batch.column(0).as_primitive::<Int64Type>().values().iter().sum();
        assert_eq!(sum, (0..200_000).sum::<i64>());
    }
    let count = run(&SourceSpec { projection: vec![], ..spec(&table) }, 1).unwrap();
    assert_eq!(count.num_rows(), 200_000);
}
