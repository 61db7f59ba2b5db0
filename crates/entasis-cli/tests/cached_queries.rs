//! `entasis bench cache`

#![cfg(all(feature = "sql", feature = "cache"))]
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::fs;

use common::{Place, parquet_bytes, table};

#[test]
fn answers_behind_caches_are_compared_and_timed() {
    let place = Place::new();
    fs::create_dir(place.path("tables")).unwrap();
    place.write("tables/t.parquet", parquet_bytes(&table(20_000)));
    let queries = "
        CREATE VIEW high AS SELECT * FROM t WHERE level > 80;
        SELECT count(*), min(id), sum(level) FROM t WHERE level < 90;
        SELECT city, count(*) AS c FROM high WHERE city LIKE 'B%' GROUP BY city ORDER BY c DESC LIMIT 3;
        SELECT level FROM t WHERE city IS NOT NULL ORDER BY level LIMIT 5;";
    place.write("queries.sql", queries);
    let found = place.json(&["bench", "cache", "tables", "queries.sql", "--rounds", "1"]);
    let all = found["queries"].as_array().unwrap();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|one| one["answer"] == "equal"), "{all:?}");
    let first = &all[0];
    let names = ["parquet", "parquet_pushdown", "parquet_first", "parquet_pushdown_first"];
    for name in names.into_iter().chain(["arrow_cold", "arrow", "cold", "warming", "warm", "limited"]) {
        assert!(first["cpu_seconds"][name].as_f64().unwrap() > 0.0, "{name}");
    }
    let bytes = |of: &str| first["bytes"][of].as_u64().unwrap();
    assert!(bytes("parquet") > 0 && bytes("blocks") > 0 && bytes("arrow") > bytes("blocks"), "{first}");
    let shown = place.good(&["bench", "cache", "tables", "queries.sql", "--rounds", "1", "--only", "2"]);
    assert!(shown.contains("Geometric means: warm"), "{shown}");
}

#[test]
fn the_demo_needs_no_request_once_it_is_warm() {
    let place = Place::new();
    let found = place.json(&["demo", "cache"]);
    let runs = found["runs"].as_array().unwrap();
    let of = |run: usize, what: &str| runs[run][what].as_u64().unwrap();
    assert!(of(1, "bytes") > 0 && of(1, "requests") > 0, "{found}");
    // The file is so small that it is read whole where its metadata are.
    assert_eq!(of(1, "requests"), 2, "{found}");
    // A query always asks which version there is.
    assert_eq!((of(3, "bytes"), of(3, "requests")), (0, 1), "{found}");
    assert!(place.good(&["demo", "cache"]).contains("from blocks"));
}
