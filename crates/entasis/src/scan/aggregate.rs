//! Aggregates of the rows that pass: told by zones where all rows of a block do and its zone is exact, else by its encoded values.

use entasis_encoding::{Aggregates, FloatOrder, Physical, Wanted};

use super::{
    Scan,
    blocks::Rows,
    prepared::{BlockPart, is_union},
    zones::{Verdict, scalar},
};
use crate::{
    arrow::{plain_array, with_column},
    error::{Error, Result},
    read::column::{ReadColumn, chunk_of},
    zone::{Bound, Zone},
};

/// What is known of a column once zones have been asked, and what only its blocks can tell.
struct Asked {
    found: Aggregates,
    /// Parts of blocks that have to be read, and what is wanted of each.
    blocks: Vec<(PartPlace, Wanted)>,
}

/// A block's number in its chunk, and the vector in it that begins the part.
type PartPlace = (usize, usize);

fn place_of(part: &BlockPart<'_>) -> PartPlace {
    (part.block, part.at)
}

impl Scan {
    /// Counts rows that pass into `into`, instead of making batches of them: one of each for each column of the projection, none of which
    /// may be a struct. Some 65,536 rows are looked through, more where few pass; false if there were none left. Rows that passed are counted
    /// by [`Scan::metrics`].
    ///
    /// # Errors
    /// Those of the scan, and an invalid argument for other columns; `into` is as it was then. After [`Error::Missing`] the call can be made
    /// again.
    pub fn aggregate(&mut self, wanted: &[Wanted], into: &mut [Aggregates]) -> Result<bool> {
        let columns = self.columns.columns.len();
        if self.columns.trees.len() != columns || wanted.len() != columns || into.len() != columns {
            let what = format!("{} aggregates of {columns} columns, which may not be structs", wanted.len());
            return Err(Error::InvalidArgument(what));
        }
        if let Some(union) = self.columns.columns.iter().find(|column| is_union(&column.data_type)) {
            return Err(Error::Unsupported(format!("aggregates of the union {:?}", union.path)));
        }
        if !self.find()? {
            return Ok(false);
        }
        if columns > 0 {
            let found = if self.is_sparse() { self.reduce_taken(wanted, into) } else { self.reduce(wanted, into) }?;
            into.iter_mut().zip(found).for_each(|(into, found)| *into = found);
        }
        self.found.clear();
        self.found_count = 0;
        Ok(true)
    }

    /// What `known` and the values of the rows that were found come to.
    fn reduce(&mut self, wanted: &[Wanted], known: &[Aggregates]) -> Result<Vec<Aggregates>> {
        let mut asked = Vec::with_capacity(known.len());
        let mut answered = 0;
        for ((column, wanted), known) in self.columns.columns.iter().zip(wanted).zip(known) {
            let mut of_column = Asked { found: known.clone(), blocks: Vec::new() };
            for rows in &self.found {
                let chunk = chunk_of(&self.blocks.reader, column, rows.group.number, rows.group.rows)?;
                for part in rows.vectors.blocks(chunk).filter(|part| rows.are_in(part)) {
                    answered += of_column.ask_zone(&part, rows, *wanted, &column.physical);
                }
            }
            asked.push(of_column);
        }
        let places = || self.columns.columns.iter().zip(&asked);
        let is_needed = |column: &ReadColumn, part: &BlockPart<'_>| {
            places().any(|(other, asked)| other.key == column.key && asked.wanted_of(part).is_some())
        };
        if let Some(first) = self.found.first() {
            for column in &self.columns.columns {
                self.blocks.close_before(first.group.number, column, first.vectors.first_row, first.group.rows)?;
            }
        }
        self.blocks.open(self.columns.columns.iter(), &self.found, &[], is_needed)?;
        let mut all = Vec::with_capacity(asked.len());
        for (column, mut asked) in self.columns.columns.iter().zip(asked) {
            let mut found = std::mem::take(&mut asked.found);
            for rows in &mut self.found {
                let decide =
                    |part: &BlockPart<'_>| if asked.wanted_of(part).is_some() { Verdict::Some } else { Verdict::All };
                self.blocks.visit(column, rows, decide, |part, block, selection| {
                    let wanted = asked.wanted_of(part).unwrap_or(Wanted::COUNT);
                    block.aggregate(selection, wanted, &mut self.aggregates, &mut found)
                })?;
            }
            all.push(found);
        }
        self.metrics.aggregated_by_zones += answered;
        Ok(all)
    }

    /// As [`Scan::reduce`], of a few rows that are got singly.
    fn reduce_taken(&mut self, wanted: &[Wanted], known: &[Aggregates]) -> Result<Vec<Aggregates>> {
        let batch = self.take_found()?;
        let mut all = known.to_vec();
        for ((array, wanted), found) in batch.columns().iter().zip(wanted).zip(&mut all) {
            with_column(&plain_array(array)?, |column| column.aggregate(*wanted, &mut self.aggregates, found))?;
        }
        Ok(all)
    }
}

impl Asked {
    /// What is wanted of a part of a block, if it has to be read.
    fn wanted_of(&self, part: &BlockPart<'_>) -> Option<Wanted> {
        self.blocks.iter().find(|(place, _)| *place == place_of(part)).map(|(_, wanted)| *wanted)
    }

    /// Takes what the zone of a part's block tells of its living rows, notes what it doesn't, and says how many rows it told everything of.
    fn ask_zone(&mut self, part: &BlockPart<'_>, rows: &Rows, wanted: Wanted, physical: &Physical) -> u64 {
        let zone = &part.reference.zone;
        let block_rows = u64::from(part.reference.rows);
        let alive: u64 = part.vectors.clone().map(|vector| rows.alive.count_in(vector) as u64).sum();
        let is_whole = alive == block_rows;
        let has_values = zone.null_count < block_rows;
        let is_known = |bound: &Option<Bound>| is_whole && bound.as_ref().is_some_and(|bound| bound.is_exact);
        let is_flat = matches!(physical, Physical::Bool | Physical::Fixed(_) | Physical::Bytes);
        let has_ends = has_values && is_flat;
        let has_sum = matches!(physical, Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8);
        let needed = Wanted {
            min: wanted.min && has_ends && !is_known(&zone.min) && !self.is_within(zone, true),
            max: wanted.max && has_ends && !is_known(&zone.max) && !self.is_within(zone, false),
            sum: wanted.sum && has_values && has_sum && !(is_whole && zone.sum.is_some()),
        };
        let nulls = match zone.null_count {
            0 => Some(0),
            nulls if nulls == block_rows => Some(alive),
            nulls => is_whole.then_some(nulls),
        };
        let wants_ends = wanted.min || wanted.max;
        // Of more nulls and NaNs than rows nothing is believed. How many of the living values are NaN only the block itself can tell, unless
        // all live.
        let is_sound = zone.null_count.saturating_add(zone.nan_count) <= block_rows;
        if !is_sound || wants_ends && zone.nan_count > 0 && !is_whole {
            self.blocks.push((place_of(part), wanted));
            return 0;
        }
        let end = |is_wanted: bool, bound: &Option<Bound>| {
            bound.as_ref().filter(|_| is_wanted && is_known(bound)).map(|bound| scalar(&bound.value))
        };
        self.found.merge(Aggregates {
            // Who looks for an end counts them, too.
            nan_count: if wants_ends && !needed.min && !needed.max { zone.nan_count } else { 0 },
            min: end(wanted.min && has_ends, &zone.min),
            max: end(wanted.max && has_ends, &zone.max),
            sum: (wanted.sum && has_sum && !needed.sum).then(|| zone.sum.filter(|_| has_values).unwrap_or(0)),
            ..Aggregates::default()
        });
        match nulls {
            Some(null_count) if needed == Wanted::COUNT => {
                self.found.count += alive - null_count;
                self.found.null_count += null_count;
                alive
            }
            _ => {
                self.blocks.push((place_of(part), needed));
                0
            }
        }
    }

    /// Whether no value of a block can lie below the least, or above the greatest, that is known.
    fn is_within(&self, zone: &Zone, is_min: bool) -> bool {
        let (known, bound) = if is_min { (&self.found.min, zone.min()) } else { (&self.found.max, zone.max()) };
        known.as_ref().zip(bound).is_some_and(|(known, bound)| {
            let ordering = scalar(bound).compare(known, FloatOrder::Total);
            if is_min { ordering.is_some_and(|o| o.is_ge()) } else { ordering.is_some_and(|o| o.is_le()) }
        })
    }
}
