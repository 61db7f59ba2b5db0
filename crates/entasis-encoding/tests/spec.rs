//! The specification and the registry agree: the same ids, the same names, and a section for each.

#![cfg(all(feature = "pco", feature = "zstd"))]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use entasis_encoding::encoding_names;

const SPEC: &str = include_str!("../../../spec/encodings.md");

/// The first two cells of every row of the table at the top, its heading left out.
fn listed() -> Vec<(u8, String)> {
    let table = SPEC.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let mut cells = line.split('|').skip(1).map(|cell| cell.trim().to_owned());
        (cells.next().unwrap().parse().expect("an id"), cells.next().unwrap())
    };
    table.skip(2).map(row).collect()
}

#[test]
fn the_table_lists_exactly_the_registry() {
    let registry: Vec<_> = encoding_names().into_iter().map(|(id, name)| (id, name.to_owned())).collect();
    assert_eq!(listed(), registry);
}

#[test]
fn every_encoding_has_a_section_and_every_section_an_encoding() {
    let sections: Vec<_> = SPEC.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let names: Vec<_> = encoding_names().into_iter().map(|(_, name)| name).collect();
    assert_eq!(sections, names);
}

#[test]
fn the_reserved_ids_are_those_that_nobody_has() {
    let last = encoding_names().last().unwrap().0;
    assert!(SPEC.contains(&format!("Ids 0 and {} to 255 are reserved", last + 1)));
}
