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

/// Two queries on a small table.
fn with_queries() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("tables")).unwrap();
    place.write("tables/t.parquet", parquet_bytes(&table(20_000)));
    let queries = "
        SELECT count(*), min(id), sum(level) FROM t WHERE city LIKE '%e%';
        SELECT city, level FROM t WHERE id < 900 AND city <> '';";
    place.write("queries.sql", queries);
    place
}

const BENCH: [&str; 6] = ["bench", "cache", "tables", "queries.sql", "--rounds", "2"];

#[test]
fn the_first_time_alone_is_timed_on_request() {
    let place = with_queries();
    let found = place.json(&[&BENCH[..], &["--cold"]].concat());
    let all = found["queries"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    for one in all {
        assert_eq!(one["answer"], "equal", "{one}");
        let seconds = |name: &str| one["cpu_seconds"][name].as_f64().unwrap();
        let better = seconds("parquet_first").min(seconds("parquet_pushdown_first"));
        assert!((one["cold_ratio"].as_f64().unwrap() - seconds("cold") / better).abs() < 1e-9, "{one}");
    }
    assert!(found["cold_geometric_mean"].as_f64().unwrap() > 0.0, "{found}");
    assert!(place.good(&[&BENCH[..], &["--cold"]].concat()).contains("Geometric mean"));
    assert_eq!(place.run(&[&BENCH[..], &["--cold", "--latency"]].concat()).code, 2);
}

#[test]
fn steps_of_the_warm_cache_are_timed_on_request() {
    let place = with_queries();
    let found = place.json(&[&BENCH[..], &["--ablation"]].concat());
    let all = found["queries"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    for one in all {
        assert_eq!(one["answer"], "equal", "{one}");
        let seconds = |name: &str| one["cpu_seconds"][name].as_f64().unwrap();
        let steps = ["parquet", "left", "together", "decoded", "encoded"];
        assert!(steps.into_iter().all(|name| seconds(name) > 0.0), "{one}");
        assert!((one["gain"].as_f64().unwrap() - seconds("left") / seconds("encoded")).abs() < 1e-9, "{one}");
    }
    assert!(place.good(&[&BENCH[..], &["--ablation"]].concat()).contains("+ on encoded values"));
}

#[test]
fn what_columns_take_is_told_on_request() {
    let place = with_queries();
    let found = place.json(&[&BENCH[..], &["--columns"]].concat());
    let all = found["columns"].as_array().unwrap();
    assert!(!all.is_empty(), "{found}");
    for one in all {
        let bytes = |name: &str| one["bytes"][name].as_u64().unwrap();
        assert!(bytes("parquet") > 0 && bytes("blocks") > 0 && bytes("blocks") < bytes("arrow"), "{one}");
        assert!(one["cells"].as_u64().unwrap() > 0 && one["cpu_seconds"].as_f64().unwrap() > 0.0, "{one}");
        assert!(one["table"].as_str().unwrap().ends_with(".parquet") && one["column"] != "", "{one}");
    }
    assert!(place.good(&[&BENCH[..], &["--columns"]].concat()).contains("transcoding, ms"));
    assert_eq!(place.run(&[&BENCH[..], &["--cold", "--columns"]].concat()).code, 2);
}

#[test]
fn times_while_it_transcodes_are_told_on_request() {
    let place = with_queries();
    let found = place.json(&[&BENCH[..], &["--latency"]].concat());
    for one in found["queries"].as_array().unwrap() {
        assert_eq!(one["answer"], "equal", "{one}");
        assert!(one["seconds"]["arrow"].as_f64().unwrap() > 0.0 && one["seconds"]["entasis"].as_f64().unwrap() > 0.0);
    }
    assert!(!place.good(&[&BENCH[..], &["--latency"]].concat()).is_empty());
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
    // So it is for an .ent file: what isn't told by its tail, which was read before, comes by as many requests as without the cache.
    assert!(of(5, "requests") <= of(4, "requests") && of(5, "bytes") > 0, "{found}");
    assert_eq!((of(6, "bytes"), of(6, "requests")), (0, 1), "{found}");
    assert!(place.good(&["demo", "cache"]).contains("an .ent file"));
}
