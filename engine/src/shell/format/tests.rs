//! Every format on the values that are easily got wrong.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};

use super::*;

/// Prints a result of these batches as an output that is no terminal gets it.
fn printed(name: FormatName, batches: &[RecordBatch]) -> String {
    printed_on(name, batches, None)
}

fn printed_on(name: FormatName, batches: &[RecordBatch], width: Option<usize>) -> String {
    let display = Display { width, insert_table: "t\"x".to_string(), ..Display::default() };
    printed_for(name, batches, &display)
}

fn printed_for(name: FormatName, batches: &[RecordBatch], display: &Display) -> String {
    let mut format = result_format(name, display);
    let mut out = Vec::new();
    format.begin(&batches[0].schema(), &mut out).unwrap();
    batches.iter().for_each(|batch| format.batch(batch, &mut out).unwrap());
    format.end(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// NULL, the empty string, quotes, separators and line breaks.
fn texts() -> RecordBatch {
    let text = StringViewArray::from(vec![
        Some("plain"),
        None,
        Some(""),
        Some("a \"b\", <c>|'d'"),
        Some("x\ny"),
    ]);
    let number = Int64Array::from(vec![Some(1), Some(-2), None, Some(0), Some(5)]);
    batch(vec![("n", Arc::new(number)), ("a text", Arc::new(text))])
}

fn doubles() -> RecordBatch {
    let values = [0.1, 1e21, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    batch(vec![("d", Arc::new(Float64Array::from_iter_values(values)))])
}

/// One row of the types that have a form of their own.
fn typed() -> RecordBatch {
    let decimal = Decimal128Array::from(vec![-1250]).with_precision_and_scale(10, 2).unwrap();
    let timestamp = TimestampMicrosecondArray::from(vec![1_767_225_600_500_000]);
    let zoned = TimestampMicrosecondArray::from(vec![1_767_225_600_000_000]).with_timezone("UTC");
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None])]);
    let point: ArrayRef = Arc::new(StringViewArray::from(vec!["q\"uote"]));
    let structure =
        StructArray::from(vec![(Arc::new(Field::new("k", DataType::Utf8View, true)), point)]);
    batch(vec![
        ("dec", Arc::new(decimal)),
        ("day", Arc::new(Date32Array::from(vec![20_454]))),
        ("ts", Arc::new(timestamp)),
        ("tz", Arc::new(zoned)),
        ("yes", Arc::new(BooleanArray::from(vec![true]))),
        ("bin", Arc::new(BinaryArray::from_vec(vec![b"\x00\xff"]))),
        ("list", Arc::new(list)),
        ("struct", Arc::new(structure)),
    ])
}

#[test]
fn csv_keeps_null_and_the_empty_string_apart() {
    assert_eq!(
        printed(FormatName::Csv, &[texts()]),
        "n,a text\n1,plain\n-2,\n,\"\"\n0,\"a \"\"b\"\", <c>|'d'\"\n5,\"x\ny\"\n"
    );
}

#[test]
fn csv_writes_each_type_in_its_form() {
    assert_eq!(
        printed(FormatName::Csv, &[doubles()]),
        "d\n0.1\n1e21\n-0.0\nNaN\nInfinity\n-Infinity\n"
    );
    let text = printed(FormatName::Csv, &[typed()]);
    let expected = "-12.50,2026-01-01,2026-01-01 00:00:00.5,2026-01-01 00:00:00+00,true,\\x00ff,\"[1,null]\",\"{\"\"k\"\":\"\"q\\\"\"uote\"\"}\"";
    assert_eq!(text.lines().nth(1), Some(expected));
}

#[test]
fn csv_of_one_null_is_an_empty_line() {
    let column: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some("")]));
    assert_eq!(printed(FormatName::Csv, &[batch(vec![("a", column)])]), "a\n\n\"\"\n");
}

#[test]
fn tsv_is_csv_with_tabs() {
    let column: ArrayRef = Arc::new(StringViewArray::from(vec!["a,b", "c\td"]));
    assert_eq!(
        printed(FormatName::Tsv, &[batch(vec![("a", column.clone()), ("b", column)])]),
        "a\tb\na,b\ta,b\n\"c\td\"\t\"c\td\"\n"
    );
}

#[test]
fn json_is_one_array_over_all_batches() {
    let text = printed(FormatName::Json, &[texts(), texts()]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[8], serde_json::json!({"n": 0, "a text": "a \"b\", <c>|'d'"}));
    assert_eq!(rows[1]["a text"], serde_json::Value::Null);
    let none = texts().slice(0, 0);
    assert_eq!(printed(FormatName::Json, &[none]), "[]\n");
}

#[test]
fn json_lines_are_exact_and_tell_repeated_names_apart() {
    let text = printed(FormatName::JsonLines, &[typed()]);
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.starts_with("{\"dec\":-12.50,\"day\":\"2026-01-01\",\"ts\":\"2026-01-01 00:00:00.5\""),
        "{text}"
    );
    assert!(text.contains("\"yes\":true"), "{text}");
    assert!(text.ends_with("\"list\":[1,null],\"struct\":{\"k\":\"q\\\"uote\"}}\n"), "{text}");
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let twice = batch(vec![("a", column.clone()), ("a", column)]);
    assert_eq!(printed(FormatName::JsonLines, &[twice]), "{\"a\":1,\"a_1\":1}\n");
}

#[test]
fn markdown_keeps_each_row_on_a_line() {
    assert_eq!(
        printed(FormatName::Markdown, &[texts()]),
        "| n | a text |\n|---:|---|\n| 1 | plain |\n| -2 | NULL |\n| NULL |  |\n| 0 | a \"b\", &lt;c>\\|'d' |\n| 5 | x<br>y |\n"
    );
}

#[test]
fn markdown_shows_texts_as_they_are() {
    let column: ArrayRef =
        Arc::new(StringViewArray::from(vec!["a&amp;b", "*x* `y` ~z~", "_u_ a_b", "\\|", "[l](u)"]));
    let text = printed(FormatName::Markdown, &[batch(vec![("a_b", column)])]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "| a_b |");
    assert_eq!(
        lines[2..],
        [
            "| a&amp;amp;b |",
            "| \\*x\\* \\`y\\` \\~z\\~ |",
            "| \\_u\\_ a_b |",
            "| \\\\\\| |",
            "| [l\\](u) |"
        ]
    );
}

#[test]
fn results_behind_others_are_set_off() {
    let follows = Display { follows: true, ..Display::default() };
    let first = texts().slice(0, 1);
    for (name, set_off) in
        [(FormatName::Markdown, true), (FormatName::Line, true), (FormatName::Csv, false)]
    {
        let text = printed_for(name, std::slice::from_ref(&first), &follows);
        assert_eq!(text.starts_with('\n'), set_off, "{text}");
    }
    let nothing = texts().slice(0, 0);
    assert_eq!(printed_for(FormatName::Line, &[nothing], &follows), "");
}

#[test]
fn formats_for_people_show_the_sessions_zone() {
    let instants = TimestampMicrosecondArray::from(vec![1_767_225_600_500_000]);
    let instants: ArrayRef = Arc::new(instants.with_timezone("UTC"));
    let field = Arc::new(Field::new("t", instants.data_type().clone(), true));
    let structure: ArrayRef = Arc::new(StructArray::from(vec![(field, instants.clone())]));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([1]);
    let item = Arc::new(Field::new_list_field(structure.data_type().clone(), true));
    let list: ArrayRef = Arc::new(ListArray::new(item, offsets, structure, None));
    let rows = batch(vec![("t", instants), ("l", list)]);
    let zone = Some("Asia/Kolkata".to_string());
    let display = Display { zone, insert_table: "x".to_string(), ..Display::default() };
    for (name, format) in FormatName::ALL {
        let text = printed_for(format, std::slice::from_ref(&rows), &display);
        let here = ["table", "markdown", "line", "html"].contains(&name);
        assert_eq!(text.matches("05:30:00.5+05:30").count(), if here { 2 } else { 0 }, "{text}");
        let everywhere = !here && format != FormatName::None;
        assert_eq!(text.matches("00:00:00.5+00").count(), if everywhere { 2 } else { 0 }, "{text}");
    }
}

#[test]
fn line_aligns_names() {
    assert_eq!(
        printed(FormatName::Line, &[texts().slice(0, 2)]),
        "     n = 1\na text = plain\n\n     n = -2\na text = NULL\n"
    );
}

#[test]
fn html_escapes() {
    let text = printed(FormatName::Html, &[texts()]);
    assert!(
        text.starts_with(
            "<table>\n<tr><th>n</th><th>a text</th></tr>\n<tr><td>1</td><td>plain</td></tr>\n"
        ),
        "{text}"
    );
    assert!(text.contains("<td>-2</td><td class=\"null\"></td>"), "{text}");
    assert!(text.contains("<td>a &quot;b&quot;, &lt;c&gt;|'d'</td>"), "{text}");
    assert!(text.ends_with("</table>\n"));
}

#[test]
fn insert_writes_literals() {
    let text = printed(FormatName::Insert, &[texts()]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "INSERT INTO \"t\"\"x\" (\"n\", \"a text\") VALUES (1, 'plain');");
    assert_eq!(lines[1], "INSERT INTO \"t\"\"x\" (\"n\", \"a text\") VALUES (-2, NULL);");
    assert_eq!(
        lines[3],
        "INSERT INTO \"t\"\"x\" (\"n\", \"a text\") VALUES (0, 'a \"b\", <c>|''d''');"
    );
    let text = printed(FormatName::Insert, &[typed()]);
    let values = text.split(" VALUES ").nth(1).unwrap();
    assert!(values.starts_with("(-12.50, DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00.5', TIMESTAMPTZ '2026-01-01 00:00:00+00', true, X'00ff', "), "{values}");
    assert!(printed(FormatName::Insert, &[doubles()]).contains("VALUES (CAST('NaN' AS DOUBLE));"));
}

#[test]
fn insert_writes_constructors_of_nested_values() {
    let text = printed(FormatName::Insert, &[typed()]);
    assert!(
        text.ends_with(", X'00ff', ARRAY[1, NULL], named_struct('k', 'q\"uote'));\n"),
        "{text}"
    );
    let nanoseconds = TimestampNanosecondArray::from(vec![1_767_225_600_123_456_700]);
    let text = printed(FormatName::Insert, &[batch(vec![("t", Arc::new(nanoseconds))])]);
    assert!(text.contains("(CAST('2026-01-01 00:00:00.1234567' AS TIMESTAMP(9)));"), "{text}");
}

#[test]
fn insert_quotes_each_part_of_a_name() {
    let rows = texts().slice(0, 1);
    let head = |table: &str| {
        let display = Display { insert_table: table.to_string(), ..Display::default() };
        let text = printed_for(FormatName::Insert, std::slice::from_ref(&rows), &display);
        text.split(" (").next().unwrap().to_string()
    };
    assert_eq!(head("s.t"), "INSERT INTO \"s\".\"t\"");
    assert_eq!(head("\"s.t\""), "INSERT INTO \"s.t\"");
    assert_eq!(head("s.\"a\"\"b.c\""), "INSERT INTO \"s\".\"a\"\"b.c\"");
    assert_eq!(head("my table"), "INSERT INTO \"my table\"");
}

#[test]
fn plans_have_no_borders() {
    let mut format = text_lines();
    let (mut out, lines) = (Vec::new(), StringViewArray::from(vec!["Sort", "  Scan"]));
    let rows = batch(vec![("plan", Arc::new(lines))]);
    format.begin(&rows.schema(), &mut out).unwrap();
    format.batch(&rows, &mut out).unwrap();
    format.end(&mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "Sort\n  Scan\n");
}

#[test]
fn columns_that_do_not_fit_a_terminal_are_left_out() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let names: Vec<String> = (0..16).map(|at| format!("column_{at:02}")).collect();
    let rows = batch(names.iter().map(|name| (name.as_str(), number.clone())).collect());
    let text = printed_on(FormatName::Table, std::slice::from_ref(&rows), Some(80));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("│ … │") && text.contains("BIGINT"), "{text}");
    assert!(text.lines().nth(1).unwrap().starts_with("│ column_"), "{text}");
    assert!(text.ends_with("1 row, 16 columns (6 shown)\n"), "{text}");
    let all = printed_on(FormatName::Table, std::slice::from_ref(&rows), Some(200));
    assert!(all.ends_with("1 row\n") && !all.contains('…'), "{all}");
    let narrow = printed_on(FormatName::Table, &[rows], Some(5));
    assert!(narrow.ends_with("1 row, 16 columns (2 shown)\n"), "{narrow}");
}

#[test]
fn tables_elsewhere_show_everything() {
    let expected = "\
┌──────┬───────────────────┐
│  n   │      a text       │
├──────┼───────────────────┤
│    1 │ plain             │
│   -2 │ NULL              │
│ NULL │                   │
│    0 │ a \"b\", <c>|'d'    │
│    5 │ x\\ny              │
└──────┴───────────────────┘
";
    let text = printed(FormatName::Table, &[texts()]);
    assert_eq!(text.lines().count(), expected.lines().count());
    assert!(text.contains("│    5 │ x\\ny"), "{text}");
    let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    let long: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
    assert_eq!(printed(FormatName::Table, &[batch(vec![("a", long)])]).lines().count(), 20_004);
}

#[test]
fn tables_on_a_terminal_are_cut_and_counted() {
    let long: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let wide: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..100).map(|_| "word ".repeat(40))));
    let rows = batch(vec![("a", long), ("b", wide)]);
    let parts: Vec<RecordBatch> = (0..10).map(|at| rows.slice(at * 10, 10)).collect();
    let text = printed_on(FormatName::Table, &parts, Some(60));
    assert_eq!(
        text,
        printed_on(FormatName::Table, &[rows], Some(60)),
        "however the rows are batched"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
    assert!(lines[2].contains("BIGINT") && lines[2].contains("VARCHAR"), "{text}");
    assert!(
        text.contains("│     19 │") && !text.contains("│     20 │") && text.contains("│     99 │"),
        "{text}"
    );
    assert_eq!(lines.last(), Some(&"100 rows (40 shown)"));
}

#[test]
fn none_prints_nothing() {
    assert_eq!(printed(FormatName::None, &[texts()]), "");
}

#[test]
fn names_lead_back_to_their_formats() {
    for (name, format) in FormatName::ALL {
        assert_eq!(FormatName::from_name(&name.to_uppercase()), Ok(format));
    }
    assert!(FormatName::from_name("xml").unwrap_err().contains("table, csv"));
}

#[test]
fn timestamps_of_all_units_have_one_form() {
    let column = TimestampNanosecondArray::from(vec![1_767_225_600_123_456_700]);
    assert_eq!(column.data_type(), &DataType::Timestamp(TimeUnit::Nanosecond, None));
    assert_eq!(
        printed(FormatName::Csv, &[batch(vec![("t", Arc::new(column))])]),
        "t\n2026-01-01 00:00:00.1234567\n"
    );
}
