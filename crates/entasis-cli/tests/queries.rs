//! `entasis bench queries`

#![cfg(feature = "sql")]
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::fs;

use common::{Place, parquet_bytes, table};

#[test]
fn queries_are_compared_and_timed() {
    let place = Place::new();
    fs::create_dir(place.path("tables")).unwrap();
    place.write("tables/t.parquet", parquet_bytes(&table(20_000)));
    let queries = "
        CREATE VIEW high AS SELECT * FROM t WHERE level > 80;
        SELECT count(*), min(id), sum(level) FROM t;
        SELECT city, count(*) AS c FROM high WHERE city LIKE 'B%' GROUP BY city ORDER BY c DESC LIMIT 3;
        SELECT level FROM t WHERE city IS NOT NULL ORDER BY level LIMIT 5;
        SELECT id FROM t LIMIT 4;";
    place.write("queries.sql", queries);
    let arguments = ["bench", "queries", "tables", "queries.sql", "--rounds", "2", "--keep", "kept", "--tuned"];
    let found = place.json(&[&arguments[..], &["--html", "page.html"]].concat());
    let all = found["queries"].as_array().unwrap();
    assert_eq!(all.len(), 4);
    let agreed = ["equal", "equal but for ties", "any rows"];
    assert!(all.iter().all(|one| agreed.contains(&one["answer"].as_str().unwrap())), "{all:?}");
    assert_eq!(all[0]["answer"], "equal");
    assert_eq!(all[2]["rows"], 5);
    assert!(all[0]["contenders"]["Parquet_tuned_pushdown"]["cpu_seconds"].as_f64().unwrap() > 0.0);
    assert!(all[1]["contenders"]["Entasis"]["bytes_read"].as_u64().unwrap() > 0, "{}", all[1]);
    assert!(place.path("kept/t.ent").exists());
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_eq!(page.matches("<rect").count(), 4);
    // A folder without tables, and a query that isn't SQL.
    fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(place.run(&["bench", "queries", "empty", "queries.sql"]).code, 2);
    place.write("wrong.sql", "SELEC 1");
    assert_eq!(place.run(&["bench", "queries", "tables", "wrong.sql", "--keep", "kept"]).code, 2);
}
