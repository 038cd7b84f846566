//! The queries of the Nexmark benchmark as they are written for Flink, where they are at hand, and others in its spirit:
//! each gives the same rows as a batch query and as a stream.
//!
//! Windows of processing time hold other rows in each run, so that only their sums are compared. Where a query leaves
//! open which of several rows it gives, only the columns that it does not leave open are compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::executor::block_on;
use thalweg::{Result, Session};

const EVENTS: &str = "30000";

/// The folder with the queries; a test that does not find it says so and passes.
fn corpus() -> Option<PathBuf> {
    let queries = "../../shared/corpora/08b_nexmark/nexmark-flink/src/main/resources/queries";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(queries);
    if !path.exists() {
        println!("skipped: there is no {queries}");
        return None;
    }
    Some(path)
}

fn run(session: &Session, sql: &str) -> Result<Vec<RecordBatch>> {
    block_on(async {
        let mut script = session.execute(sql);
        let mut rows = Vec::new();
        while let Some(frame) = script.next_frame().await? {
            rows = frame.collect().await?;
        }
        Ok(rows)
    })
}

fn ok(session: &Session, sql: &str) {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The rows as text, in order; only some columns where they are named.
fn rows(
    session: &Session,
    sql: &str,
    columns: &[&str],
) -> std::result::Result<Vec<String>, String> {
    let batches = run(session, sql).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for batch in &batches {
        let schema = batch.schema();
        let wanted = |name: &str| columns.is_empty() || columns.contains(&name);
        let shown = (0..batch.num_columns()).filter(|&at| wanted(schema.field(at).name()));
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<ArrayFormatter<'_>> = shown
            .map(|at| ArrayFormatter::try_new(batch.column(at), &options).expect("it has a text"))
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            cells.join("|")
        }));
    }
    rows.sort();
    Ok(rows)
}

/// The statements of a text, without comments.
fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let code: Vec<&str> = lines.collect();
    let parts = code.join("\n");
    parts.split(';').map(str::trim).filter(|s| !s.is_empty()).map(String::from).collect()
}

/// A session with the generator's table and the benchmark's views.
fn session(corpus: &Path) -> Session {
    let session = Session::builder().threads(2).build().expect("the settings are right");
    let options = [
        ("TPS", "1000"),
        ("EVENTS_NUM", EVENTS),
        ("PERSON_PROPORTION", "1"),
        ("AUCTION_PROPORTION", "3"),
        ("BID_PROPORTION", "46"),
        ("NEXMARK_TABLE", "datagen"),
    ];
    for file in ["ddl_gen.sql", "ddl_views.sql"] {
        let mut text = std::fs::read_to_string(corpus.join(file)).expect("it is readable");
        for (key, value) in options {
            text = text.replace(&format!("${{{key}}}"), value);
        }
        statements(&text).iter().for_each(|statement| ok(&session, statement));
    }
    session
}

/// The query of an INSERT; views it needs are created.
fn query(session: &Session, text: &str) -> String {
    let mut query = None;
    for statement in statements(text) {
        if statement.starts_with("CREATE VIEW") {
            ok(session, &statement);
        } else if statement.starts_with("INSERT") {
            query = statement.find("SELECT").map(|at| statement[at..].to_string());
        }
    }
    query.expect("there is one INSERT")
}

const Q4: &str = "SELECT category, avg(final) FROM (SELECT max(b.price) AS final, a.category \
    FROM auction a, bid b WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires \
    GROUP BY a.id, a.category) GROUP BY category";

const Q6: &str = "SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY sold, id \
    ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average FROM (SELECT a.id, a.seller, b.price, b.`dateTime` AS sold, \
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime`) AS place FROM auction a, bid b \
    WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires) WHERE place = 1";

const Q7: &str = "SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra FROM bid b JOIN (SELECT max(price) AS highest, \
    window_end AS closed FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) \
    GROUP BY window_start, window_end) w \
    ON b.price = w.highest AND b.`dateTime` BETWEEN w.closed - INTERVAL '10' SECOND AND w.closed";

const Q16: &str = "SELECT channel, date_format(`dateTime`, 'yyyy-MM-dd') AS day, \
    max(date_format(`dateTime`, 'HH:mm')) AS minute, count(*) AS total_bids, \
    count(*) FILTER (WHERE price < 10000) AS rank1_bids, \
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids, \
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids, count(DISTINCT bidder) AS total_bidders, \
    count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders, \
    count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders, \
    count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders, count(DISTINCT auction) AS total_auctions, \
    count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions, \
    count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions, \
    count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions \
    FROM bid GROUP BY channel, date_format(`dateTime`, 'yyyy-MM-dd')";

/// The columns that a query determines, where it leaves others open.
fn determined(query: &str) -> &'static [&'static str] {
    match query {
        "q9" => &["id", "price", "bid_dateTime"],
        "q12" => &["bidder", "bid_count"],
        "q18" => &["bidder", "auction", "dateTime"],
        "q19" => &["auction", "price", "rank_number"],
        _ => &[],
    }
}

/// All queries by name.
fn queries(session: &Session, corpus: &Path) -> BTreeMap<String, String> {
    let mut queries = BTreeMap::new();
    for number in 0..=23 {
        let name = format!("q{number}");
        if let Ok(text) = std::fs::read_to_string(corpus.join(format!("{name}.sql"))) {
            queries.insert(name, query(session, &text));
        }
    }
    for (name, sql) in [("q4", Q4), ("q6", Q6), ("q7", Q7), ("q16", Q16)] {
        queries.insert(name.to_string(), sql.to_string());
    }
    // Windows of processing time hold other rows in each run; all windows together hold the same.
    let all = queries["q12"].clone();
    let all = format!("SELECT bidder, sum(bid_count) AS bid_count FROM ({all}) GROUP BY bidder");
    queries.insert("q12".to_string(), all);
    queries
}

#[test]
fn queries_of_the_benchmark_give_the_same_rows_in_both_modes() {
    let Some(corpus) = corpus() else { return };
    let session = session(&corpus);
    let side = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    let lines: String = (0..10_000).map(|key| format!("{key},value {key}\n")).collect();
    std::fs::write(side.path(), lines).unwrap();
    let create = format!(
        "CREATE TABLE side_input (key BIGINT, `value` VARCHAR) WITH ('connector' = 'filesystem', 'path' = '{}', \
         'format' = 'csv', 'csv.header' = 'false')",
        side.path().display()
    );
    ok(&session, &create);
    let mut failures = Vec::new();
    for (name, sql) in queries(&session, &corpus) {
        let in_mode = |mode: &str| {
            ok(&session, &format!("SET execution.runtime_mode = {mode}"));
            rows(&session, &sql, determined(&name))
        };
        match (in_mode("batch"), in_mode("streaming")) {
            (Ok(batch), Ok(streamed)) if batch == streamed && !batch.is_empty() => {}
            (Ok(batch), Ok(streamed)) => {
                let first = batch.iter().zip(&streamed).find(|(b, s)| b != s);
                let (batch, streamed) = (batch.len(), streamed.len());
                failures.push(format!("{name}: {batch} rows and {streamed}, such as {first:?}"));
            }
            (Err(error), _) => failures.push(format!("{name}, batch: {error}")),
            (_, Err(error)) => failures.push(format!("{name}, streaming: {error}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
