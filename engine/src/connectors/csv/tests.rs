//! Delimited text against rows written by hand.

use std::io::Write;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use thalweg_runtime::Error;
use thalweg_runtime::source::SourceSpec;

use crate::catalog::Table;
use crate::connectors::testing::{read, rows_as_text, run, spec, text_file};
use crate::connectors::{FileOptions, FileTable};

fn rows(text: &str) -> Vec<String> {
    let (_dir, path) = text_file("a.csv", text);
    rows_as_text(&read(&path, &FileOptions::default()).unwrap())
}

fn types(text: &str) -> Vec<(String, DataType)> {
    let (_dir, path) = text_file("a.csv", text);
    let table = FileTable::discover(&[path], None, &FileOptions::default()).unwrap();
    table.schema().fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
}

fn error(text: &str, options: &FileOptions) -> (String, Option<String>) {
    let (_dir, path) = text_file("a.csv", text);
    match read(&path, options) {
        Err(Error::User { message, hint, .. }) => (message.replace(&path, "FILE"), hint),
        other => panic!("{other:?}"),
    }
}

#[test]
fn types_are_inferred() {
    let text = "b,i,d,day,t,z,s,n\ntrue,1,1.5,2024-01-31,2024-01-31 10:00:00,2024-01-31T10:00:00Z,x,\n\
                false,-2,3,2024-02-01,2024-01-31,2024-01-31 10:00:00+02,7,\n";
    let micros =
        |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
    let expected = [
        ("b", DataType::Boolean),
        ("i", DataType::Int64),
        ("d", DataType::Float64),
        ("day", DataType::Date32),
        ("t", micros(None)),
        ("z", micros(Some("+00:00"))),
        ("s", DataType::Utf8View),
        ("n", DataType::Utf8View),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(n, t)| (n.to_string(), t)).collect();
    assert_eq!(types(text), expected);
}

#[test]
fn headers_are_found_out() {
    let names = |text: &str| types(text).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(names("a,b\n1,2\n"), ["a", "b"]);
    assert_eq!(names("1,2\n3,4\n"), ["column_1", "column_2"]);
    assert_eq!(names("x,y\nfoo,bar\n"), ["x", "y"]);
    assert_eq!(names("a,a,\n1,2,3\n"), ["a", "a_1", "column_3"]);
    assert_eq!(names("1,x\n2,y\n"), ["column_1", "column_2"]);
}

#[test]
fn delimiters_are_found_out() {
    assert_eq!(rows("a;b\n1,5;2\n"), ["1,5|2"]);
    assert_eq!(rows("a\tb\n1\tx, y\n"), ["1|x, y"]);
    assert_eq!(rows("a|b\n1|2\n"), ["1|2"]);
    assert_eq!(rows("only\n1\n"), ["1"]);
}

#[test]
fn a_delimiter_at_which_quoted_fields_do_not_end_is_none() {
    let text = "\"2503\";\"1,234\"\n\"-41\";\"0,75\"\n\"-45\";\"12,5\"\n";
    assert_eq!(rows(text), ["2503|1,234", "-41|0,75", "-45|12,5"]);
    assert_eq!(rows("\"x\";\"1,2\"\n\"y\";\"3,4\"\n"), ["x|1,2", "y|3,4"]);
    assert_eq!(rows("\"a, b\"|\"c\"\r\n\"d, e\"|\"f\"\r\n"), ["d, e|f"]);
    // At none of the delimiters all fields end.
    assert_eq!(rows("k,v\n1,\"x\" y\n2,z\n"), ["1|x y", "2|z"]);
}

#[test]
fn null_and_the_empty_string_differ() {
    assert_eq!(rows("a,b\nx,\ny,\"\"\n"), ["x|∅", "y|"]);
    assert_eq!(rows("a\nx\n\n\"\"\n"), ["x", "∅", ""]);
    let (_dir, path) = text_file("a.csv", "a,b\nNA,1\nx,NA\n\"NA\",2");
    let mut options = FileOptions::default();
    options.set("csv.null", "NA").unwrap();
    assert_eq!(rows_as_text(&read(&path, &options).unwrap()), ["∅|1", "x|∅", "NA|2"]);
}

#[test]
fn bom_crlf_and_quoted_line_ends() {
    assert_eq!(rows("\u{feff}a,b\r\n1,\"x\r\ny\"\r\n\r\n2,\"q\"\"q\""), ["1|x\r\ny", "2|q\"q"]);
}

#[test]
fn errors_name_the_place() {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8View, true),
    ]);
    let mut options = FileOptions { schema: Some(Arc::new(schema)), ..Default::default() };
    let text = "id,name\n1,\"a\nb\"\nabc,x\n4,y\n";
    let (message, hint) = error(text, &options);
    assert_eq!(
        message,
        "CSV error in FILE, line 4, column 1 (\"id\"): cannot read \"abc\" as BIGINT"
    );
    assert!(hint.unwrap().contains("csv.ignore-errors"));
    let (message, _) = error("id,name\n1,a\n2\n", &FileOptions::default());
    assert_eq!(message, "CSV error in FILE, line 3: 1 field instead of 2");
    options.csv.ignore_errors = true;
    let (_dir, path) = text_file("a.csv", "id,name\n1,a\nabc,x\n4\n5,z\n");
    assert_eq!(rows_as_text(&read(&path, &options).unwrap()), ["1|a", "5|z"]);
}

#[test]
fn pieces_of_a_large_file_add_up() {
    // Quoted line ends all over, so that every cut is likely to lie inside or near quotes.
    let (dir, path) = text_file("a.csv", "id,text\n");
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let mut expected = 0_i64;
    let mut text = String::new();
    for id in 0..300_000_i64 {
        let filler = "x\n,\"\"".repeat((id % 23) as usize);
        text.push_str(&format!("{id},\"{filler}\"\r\n"));
        expected += id;
    }
    file.write_all(text.as_bytes()).unwrap();
    let table =
        FileTable::discover(std::slice::from_ref(&path), None, &FileOptions::default()).unwrap();
    for subtasks in [1, 3] {
        let batch = run(&spec(&table), subtasks).unwrap();
        assert_eq!(batch.num_rows(), 300_000);
        let ids = batch.column(0).as_primitive::<Int64Type>();
        assert_eq!(ids.values().iter().sum::<i64>(), expected);
        let bytes: usize = batch.column(1).as_string_view().iter().map(|v| v.unwrap().len()).sum();
        assert_eq!(bytes, (0..300_000).map(|id| 4 * (id % 23)).sum::<usize>());
    }
    let rows = table.statistics().rows.unwrap();
    assert!((200_000.0..450_000.0).contains(&rows), "{rows}");
    let packed = dir.path().join("a.csv.zst");
    std::fs::write(&packed, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let options = FileOptions { schema: Some(table.schema()), ..Default::default() };
    let batch = read(&packed.display().to_string(), &options).unwrap();
    assert_eq!(batch.num_rows(), 300_000);
}

#[test]
fn packed_text_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"a,b\n1,x\n2,y\n").unwrap();
    std::fs::write(&path, encoder.finish().unwrap()).unwrap();
    let batch = read(&path.display().to_string(), &FileOptions::default()).unwrap();
    assert_eq!(rows_as_text(&batch), ["1|x", "2|y"]);
}

#[test]
fn files_are_joined_by_their_headers() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "x,y\n1,a\n").unwrap();
    std::fs::write(dir.path().join("b.csv"), "y,z,x\nb,true,2.5\n").unwrap();
    let batch = read(&format!("{}/*.csv", dir.path().display()), &FileOptions::default()).unwrap();
    assert_eq!(rows_as_text(&batch), ["1.0|a|∅", "2.5|b|true"]);
}

#[test]
fn only_wanted_columns_are_parsed() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
    ]);
    let options = FileOptions { schema: Some(Arc::new(schema)), ..Default::default() };
    let (_dir, path) = text_file("a.csv", "a,b\n1,not a number\n");
    let table = FileTable::discover(&[path], None, &options).unwrap();
    let batch = run(&SourceSpec { projection: vec![0], ..spec(&table) }, 1).unwrap();
    assert_eq!(rows_as_text(&batch), ["1"]);
    let count = run(&SourceSpec { projection: vec![], ..spec(&table) }, 1).unwrap();
    assert_eq!(count.num_rows(), 1);
}

#[test]
fn codes_with_leading_zeros_stay_text() {
    let types: Vec<_> =
        types("a,b,c,d\n007,0,-05,0.5\n1,10,7,1\n").into_iter().map(|t| t.1).collect();
    let (text, number) = (DataType::Utf8View, DataType::Int64);
    assert_eq!(types, [text.clone(), number, text, DataType::Float64]);
}

#[test]
fn a_quote_that_is_never_closed_is_an_error() {
    let (message, hint) = error("a,b\n1,x\n2,\"y\n3,z\n", &FileOptions::default());
    assert_eq!(message, "CSV error in FILE, line 3: the quote is never closed");
    assert!(hint.unwrap().contains("csv.quote"));
}

#[test]
fn intervals_are_read_as_they_are_written() {
    let text = "i\n1 year 2 mons -3 days +04:05:06.7\n-1 days -01:00:00\n00:00:00\n";
    let (_dir, path) = text_file("a.csv", text);
    let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
    let schema = Arc::new(Schema::new(vec![Field::new("i", interval, true)]));
    let options = FileOptions { schema: Some(schema), ..FileOptions::default() };
    let rows = rows_as_text(&read(&path, &options).unwrap());
    // Arrow's own words for the same intervals.
    let expected =
        ["14 mons -3 days 4 hours 5 mins 6.700000000 secs", "-1 days -1 hours", "0 secs"];
    assert_eq!(rows, expected);
}

#[test]
fn quotes_say_that_a_value_is_text_unless_everything_is_quoted() {
    let found = |text: &str| types(text).into_iter().map(|(_, t)| t).collect::<Vec<_>>();
    let (text, number) = (DataType::Utf8View, DataType::Int64);
    assert_eq!(found("a,b\n\"1\",2\n\"3\",4\n"), [text.clone(), number.clone()]);
    // Whoever quotes some of a column's numbers means nothing by it.
    assert_eq!(found("a\n\"1\"\n2\n"), [DataType::Int64]);
    // Nor does whoever quotes what needs no quotes, and all of it.
    assert_eq!(found("id,n\n\"1\",\"x\"\n\"2\",\"y\"\n"), [number.clone(), text.clone()]);
    assert_eq!(found("\"id\"\n\"1\"\n"), [DataType::Int64]);
    assert_eq!(found("\"id\",\"n\",\"c\"\n1,\"x\",\"7\"\n"), [number, text.clone(), text]);
}

#[test]
fn a_file_that_quotes_everything_need_not_have_a_header() {
    let found = |text: &str| (rows(text), types(text));
    let (double, number) = (DataType::Float64, DataType::Int64);
    let named = |types: &[&DataType]| -> Vec<(String, DataType)> {
        let named = types.iter().enumerate();
        named.map(|(i, t)| (format!("column_{}", i + 1), (*t).clone())).collect()
    };
    let text = "\"39.26\",\"45.48\"\n\"45.48\",\"-5.48\"\n";
    let expected = vec!["39.26|45.48".to_string(), "45.48|-5.48".to_string()];
    assert_eq!(found(text), (expected, named(&[&double, &double])));
    // An empty text between quotes is no value of a number, nor a name.
    let text = "\"1\",\"\",\"x\"\n\"\",\"2\",\"y\"\n";
    let expected = vec!["1|∅|x".to_string(), "∅|2|y".to_string()];
    assert_eq!(found(text), (expected, named(&[&number, &number, &DataType::Utf8View])));
    // A record by itself is a row unless it ends as the writer's headers do.
    assert_eq!(rows("\"-74,91\",\"-4.1\",\"true\"\n"), ["-74,91|-4.1|true"]);
    assert_eq!(rows("\"-4.1\",\"true\""), ["-4.1|true"]);
    assert_eq!(rows("\"-4.1\"\n"), ["-4.1"]);
    assert_eq!(rows("\"-4.1\",\"true\"\n\n"), [""; 0]);
    // Numbers that are quoted only for their commas follow numbers without quotes.
    assert_eq!(rows("12,a\n\"1,234\",b\n7,c\n"), ["12|a", "1,234|b", "7|c"]);
    assert_eq!(rows("\"600\"\n\"025\"\n"), ["600", "025"]);
    // Names are above, even where they look like numbers.
    assert_eq!(rows("\"2024\",\"2025\"\n1,2\n"), ["1|2"]);
    assert_eq!(rows("\"k,v\",\"2025\"\n\"1\",\"2\"\n"), ["1|2"]);
    assert_eq!(rows("2024,2025\n\"1\",\"2\"\n"), ["1|2"]);
}

#[test]
fn names_may_look_like_values_of_other_types() {
    let names = |text: &str| types(text).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(names("2024,at\n2024-01-31,x\n2024-02-01,y\n"), ["2024", "at"]);
    assert_eq!(names("\"2024\";\"k\"\n\"true\";\"x\"\n\"false\";\"\"\n"), ["2024", "k"]);
    assert_eq!(names("2024-01-01,2024-02-01\n5,6\n"), ["2024-01-01", "2024-02-01"]);
    // Where a value is missing there are no names, but rows may be numbered without one.
    assert_eq!(rows("Main,\n,2024-01-31\nElbe,\n")[0], "Main|∅");
    assert_eq!(names(",name\n0,Main\n1,Elbe\n"), ["column_1", "name"]);
    // Codes and times with a zone are values among their like.
    assert_eq!(rows("007\n123\n"), ["007", "123"]);
    assert_eq!(rows("007,x\n008,y\n"), ["007|x", "008|y"]);
    let times = "2024-01-31T10:00:00Z\n2024-01-31 10:00:00\n";
    assert_eq!(rows(times), ["2024-01-31T10:00:00Z", "2024-01-31 10:00:00"]);
}

#[test]
fn numbers_with_commas_are_no_two_fields() {
    assert_eq!(rows("-2543;55,00\n2494;-83,04\n"), ["-2543|55,00", "2494|-83,04"]);
    assert_eq!(rows("1,5;2,5\n3,25;4,0\n"), ["1,5|2,5", "3,25|4,0"]);
    assert_eq!(rows("level\n20,96\n"), ["20,96"]);
    assert_eq!(rows("name\nSmith, John\n"), ["Smith, John"]);
}

#[test]
fn an_empty_file_says_how_its_columns_are_declared() {
    let (message, hint) = error("", &FileOptions::default());
    assert_eq!(message, "the file \"FILE\" is empty");
    assert!(hint.is_some_and(|hint| hint.contains("CREATE TABLE t (…) WITH ('connector'")));
}

#[test]
fn quoted_names_make_a_header() {
    let names = |text: &str| types(text).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(names("\"2024\",\"2025\"\n10,11\n"), ["2024", "2025"]);
    assert_eq!(names("\"id\",\"2024\"\n\"a\",1\n"), ["id", "2024"]);
    assert_eq!(names("\"1\",\"x\"\n\"2\",\"y\"\n"), ["column_1", "column_2"]);
    assert_eq!(names("\" a\", b\n1,2\n"), [" a", "b"]);
}

#[test]
fn the_header_decides_between_delimiters() {
    // Every row but the first has the same number of semicolons.
    assert_eq!(rows("a\nx;y\np;q\nr;s\n"), ["x;y", "p;q", "r;s"]);
    let many = "k,t\n".to_string() + &"1,a;b;c;d;e\n".repeat(300);
    assert_eq!(rows(&many)[0], "1|a;b;c;d;e");
}

#[test]
fn a_scale_is_expected_only_where_all_values_were_seen() {
    let mut text = "price\n".to_string() + &"1.50\n".repeat(2_000_000);
    text.push_str("1.505\n");
    text.push_str(&"1.50\n".repeat(2_000_000));
    assert_eq!(types(&text)[0].1, DataType::Float64, "the sample does not reach all rows");
    assert_eq!(types("price\n1.50\n2.25\n")[0].1, DataType::Decimal128(38, 2));
}

#[test]
fn the_header_is_no_row() {
    let (_dir, path) = text_file("a.csv", &("a_long_name\n".to_string() + &"1\n".repeat(1_472)));
    let table = FileTable::discover(&[path], None, &FileOptions::default()).unwrap();
    assert_eq!(table.statistics().rows, Some(1_472.0));
}

#[test]
fn files_without_a_common_column_are_no_table() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "x,y\n1,a\n").unwrap();
    std::fs::write(dir.path().join("b.csv"), "p,q\n1,2\n").unwrap();
    let folder = dir.path().display().to_string();
    let refused = read(&folder, &FileOptions::default()).map(drop).map_err(|e| e.to_string());
    assert!(refused.is_err_and(|e| e.contains("have no column in common")));
}
