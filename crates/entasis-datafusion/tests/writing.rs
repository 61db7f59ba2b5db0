//! `COPY … TO` and `INSERT INTO`.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::*;

#[tokio::test]
async fn what_is_copied_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    let context = session(4);
    let copied =
        text(&context, &format!("COPY (SELECT * FROM '{}') TO '{}'", sample().display(), path.display())).await;
    assert!(copied.contains("68000"), "{copied}");
    let rows = |path: &std::path::Path| format!("SELECT * FROM '{}' WHERE trip_id % 97 = 3", path.display());
    assert_eq!(sorted_rows(&context, &rows(&path)).await, sorted_rows(&context, &rows(&sample())).await);
    let stored = entasis::Reader::open(&path).unwrap().schema().unwrap();
    assert!(!format!("{stored:?}").contains("View"), "{stored:?}");
}

#[tokio::test]
async fn rows_are_inserted_beside_those_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(2);
    let create = format!(
        "CREATE EXTERNAL TABLE t (a BIGINT, b VARCHAR) STORED AS ENTASIS LOCATION '{}/' OPTIONS (format.profile 'scan')",
        folder.path().display()
    );
    text(&context, &create).await;
    assert!(text(&context, "INSERT INTO t VALUES (1, 'one'), (2, NULL)").await.contains('2'));
    text(&context, "INSERT INTO t SELECT a + 10, b FROM t").await;
    assert_eq!(sorted_rows(&context, "SELECT * FROM t").await, ["|11|one|", "|12||", "|1|one|", "|2||"]);
    let error = try_text(&context, "INSERT OVERWRITE t VALUES (1, 'one')").await.unwrap_err().to_string();
    assert!(error.contains("only rows can be added"), "{error}");
}

#[tokio::test]
async fn a_query_that_fails_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    let context = session(1);
    let copy = format!("COPY (SELECT 10 / (trip_id - 7467000) FROM '{}') TO '{}'", sample().display(), path.display());
    try_text(&context, &copy).await.unwrap_err();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
    let error =
        try_text(&context, &format!("COPY (SELECT 1) TO '{}' OPTIONS (format.speed 'x')", path.display())).await;
    assert!(error.unwrap_err().to_string().contains("format.speed"));
}
