//! Buffer timeouts reach the nodes of the part of the query that a hint is about.

use thalweg_optimizer::physical::PhysicalPlan;

use super::catalog::{nodes, plan, text};

/// The names of the nodes with each timeout, parents first: `10: Filter Scan`.
fn timed(plan: &PhysicalPlan) -> Vec<String> {
    let mut found: Vec<(i64, Vec<&str>)> = Vec::new();
    for node in nodes(plan) {
        let Some(micros) = plan.buffer_timeouts.get(&node.id) else { continue };
        match found.iter_mut().find(|(of, _)| of == micros) {
            Some((_, names)) => names.push(node.op.name()),
            None => found.push((*micros, vec![node.op.name()])),
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(micros, names)| format!("{micros}: {}", names.join(" "))).collect()
}

#[test]
fn the_outermost_block_covers_all_that_was_made_of_it() {
    let plan = plan(
        "select /*+ OPTIONS('buffer_timeout'='0') */ country, count(*) from customer group by 1",
    );
    assert_eq!(plan.buffer_timeouts.len(), nodes(&plan).len(), "{}", text(&plan));
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
}

#[test]
fn a_table_s_hint_covers_its_scan_alone() {
    for hinted in [
        "sale /*+ OPTIONS('buffer_timeout'='7') */ s, customer c",
        "sale s, customer /*+ OPTIONS('buffer_timeout'='7') */ as c",
    ] {
        let plan = plan(&format!("select count(*) from {hinted} where s.customer = c.id"));
        assert_eq!(timed(&plan), ["7: Scan"], "{}", text(&plan));
    }
    let both = plan(
        "select /*+ OPTIONS('buffer_timeout'='5') */ count(*)
         from customer /*+ OPTIONS('buffer_timeout'='-1') */",
    );
    assert_eq!(timed(&both)[0], "-1: Scan", "the table goes before its block\n{}", text(&both));
}

#[test]
fn an_inner_block_has_its_own() {
    let inner = "select /*+ OPTIONS('buffer_timeout'='3') */ country, max(id) as id from customer group by country";
    let derived = format!("select id % 10, count(*) from ({inner}) d group by 1");
    let named = format!("with d as ({inner}) select id % 10, count(*) from d group by 1");
    for sql in [derived, named] {
        let plan = plan(&sql);
        let [inner] = timed(&plan).try_into().unwrap_or_else(|_| panic!("{}", text(&plan)));
        assert!(inner.starts_with("3: ") && inner.ends_with("Scan"), "{inner}\n{}", text(&plan));
        assert!(plan.buffer_timeouts.len() < nodes(&plan).len(), "{}", text(&plan));
    }
    let outer = plan(
        "select /*+ OPTIONS('buffer_timeout'='3') */ id % 10, count(*)
         from (select country, max(id) as id from customer group by country) d group by 1",
    );
    assert!(!timed(&outer)[0].contains("Scan"), "{}", text(&outer));
    assert!(timed(&outer)[0].contains("Aggregate"), "{}", text(&outer));
}
