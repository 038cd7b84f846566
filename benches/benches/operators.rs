//! The hot operators through the engine's front door: tables in memory, one thread, results thrown away.

use criterion::{Criterion, criterion_group, criterion_main};
use futures::executor::block_on;
use thalweg::Session;
use thalweg_benches::table;

const QUERIES: [(&str, &str); 7] = [
    ("filter", "SELECT count(*) FROM big WHERE v % 7 = 3"),
    ("aggregate few groups", "SELECT k % 10, sum(v), count(*) FROM big GROUP BY k % 10"),
    ("aggregate many groups", "SELECT count(*) FROM (SELECT k, sum(v) FROM big GROUP BY k)"),
    ("aggregate by text", "SELECT count(*) FROM (SELECT s, min(v) FROM big GROUP BY s)"),
    ("hash join", "SELECT sum(big.v) FROM big JOIN small ON big.k = small.k"),
    ("sort", "SELECT v FROM big ORDER BY k DESC, v LIMIT 1 OFFSET 900000"),
    (
        "window",
        "SELECT sum(n) FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY v) n FROM big)",
    ),
];

fn operators(criterion: &mut Criterion) {
    let session = Session::builder().build().expect("a session starts");
    session.set("threads", "1").expect("a valid setting");
    let big = table(1_000_000, 100_000).expect("columns of one length");
    let small = table(50_000, 100_000).expect("columns of one length");
    session.register_batches("big", big).expect("a new table");
    session.register_batches("small", small).expect("a new table");
    let mut group = criterion.benchmark_group("operators");
    group.sample_size(10);
    for (name, sql) in QUERIES {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let frame = block_on(session.sql(sql)).expect("it plans");
                block_on(frame.collect()).expect("it runs")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, operators);
criterion_main!(benches);
