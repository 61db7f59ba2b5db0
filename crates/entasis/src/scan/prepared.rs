//! Conditions made ready for one file: negations at the leaves, columns found, predicates turned into filters.

use arrow_schema::DataType;
use entasis_encoding::{Comparison, Filter, FloatOrder, Physical, Predicate, Scalar};

use super::{
    blooms::Lookup,
    condition::Condition,
    expression::PreparedExpression,
    zones::{Verdict, verdict},
};
use crate::{
    Reader, Strings,
    error::{Error, Result},
    metadata::record::{BlockRef, Chunk},
    read::{
        Selected,
        column::{ReadColumn, ReadColumns, chunk_of},
    },
};

/// A condition in negation normal form.
pub(super) enum Prepared {
    Always(bool),
    And(Vec<Prepared>),
    Or(Vec<Prepared>),
    Leaf(Box<Leaf>),
    /// The rows that aren't null and that the leaf doesn't pass: a negation that no predicate is, because of NaNs.
    Unless(Box<Leaf>, Box<Leaf>),
    Expression(Box<PreparedExpression>),
}

/// A predicate on a column, or on the validity of a struct.
pub(super) struct Leaf {
    pub column: ReadColumn,
    pub predicate: Predicate,
    pub filter: Filter,
    /// What it asks of Bloom filters, where these can tell.
    pub lookup: Option<Lookup>,
}

/// What is asked about blocks that aren't open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Their zones.
    Zones,
    /// Their zones, and what their Bloom filters answered.
    ZonesAndBlooms,
}

impl Prepared {
    /// The condition for the file of `reader`, or its negation. Expressions get byte strings as `strings` wants them.
    pub fn new(reader: &Reader, condition: &Condition, strings: Strings, is_negated: bool) -> Result<Self> {
        let all = |conditions: &[Condition]| -> Result<Vec<Prepared>> {
            conditions.iter().map(|condition| Self::new(reader, condition, strings, is_negated)).collect()
        };
        Ok(match condition {
            Condition::Always(holds) => Self::Always(*holds != is_negated),
            Condition::And(conditions) if is_negated => Self::any(all(conditions)?),
            Condition::Or(conditions) if is_negated => Self::every(all(conditions)?),
            Condition::And(conditions) => Self::every(all(conditions)?),
            Condition::Or(conditions) => Self::any(all(conditions)?),
            Condition::Not(condition) => Self::new(reader, condition, strings, !is_negated)?,
            Condition::Column { path, predicate } => Self::of_column(reader, path, predicate, is_negated)?,
            Condition::Expression(expression) => {
                Self::Expression(Box::new(PreparedExpression::new(reader, expression, strings, is_negated)?))
            }
        })
    }

    fn leaf(leaf: Leaf) -> Self {
        Self::Leaf(Box::new(leaf))
    }

    fn every(conditions: Vec<Prepared>) -> Self {
        let mut flat = Vec::new();
        for condition in conditions {
            match condition {
                Prepared::Always(true) => {}
                Prepared::Always(false) => return Prepared::Always(false),
                Prepared::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Prepared::Always(true),
            1 => flat.remove(0),
            _ => Prepared::And(flat),
        }
    }

    fn any(conditions: Vec<Prepared>) -> Self {
        let mut flat = Vec::new();
        for condition in conditions {
            match condition {
                Prepared::Always(false) => {}
                Prepared::Always(true) => return Prepared::Always(true),
                Prepared::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Prepared::Always(false),
            1 => flat.remove(0),
            _ => Prepared::Or(flat),
        }
    }

    /// A predicate on a column. The fields of a struct that is null are null.
    fn of_column(reader: &Reader, path: &[usize], predicate: &Predicate, is_negated: bool) -> Result<Self> {
        let mut columns = columns_of(reader, path)?;
        let Some(column) = columns.pop() else {
            return Err(Error::InvalidArgument("a predicate on no column".to_owned()));
        };
        let parents = columns.into_iter().map(|parent| Leaf::not_null(parent).map(Self::leaf));
        let parents: Vec<_> = parents.collect::<Result<_>>()?;
        let mut conditions = parents;
        let is_null = match (predicate, is_negated) {
            (Predicate::IsNull, false) | (Predicate::IsNotNull, true) => true,
            (Predicate::IsNull, true) | (Predicate::IsNotNull, false) => false,
            _ if column.record.children.is_some() => {
                return Err(Error::InvalidArgument(format!("column {:?} is a struct: {predicate}", column.path)));
            }
            _ => {
                conditions.push(Self::of_values(column, predicate, is_negated)?);
                return Ok(Self::every(conditions));
            }
        };
        if !is_null {
            conditions.push(Self::leaf(Leaf::not_null(column)?));
            return Ok(Self::every(conditions));
        }
        let mut any = Vec::new();
        for depth in 0..path.len() {
            let columns = columns_of(reader, &path[..=depth])?;
            any.extend(columns.into_iter().next_back().map(|column| Leaf::null(column).map(Self::leaf)));
        }
        Ok(Self::any(any.into_iter().collect::<Result<_>>()?))
    }

    fn of_values(column: ReadColumn, predicate: &Predicate, is_negated: bool) -> Result<Self> {
        if !is_negated {
            return Ok(Self::leaf(Leaf::new(column, predicate.clone())?));
        }
        if let Some(negated) = negated(predicate, &column.physical) {
            return Ok(Self::leaf(Leaf::new(column, negated)?));
        }
        let not_null = Leaf::not_null(column.clone())?;
        Ok(Self::Unless(Box::new(not_null), Box::new(Leaf::new(column, predicate.clone())?)))
    }

    /// What is known of the rows of each of `vectors`, which are of one row group.
    pub fn verdicts(
        &self,
        reader: &Reader,
        known: Known,
        group: &Group,
        vectors: &VectorRange,
    ) -> Result<Vec<Verdict>> {
        let combine = |conditions: &[Prepared], first, of: fn(Verdict, Verdict) -> Verdict| {
            let mut all = vec![first; vectors.count];
            for condition in conditions {
                let verdicts = condition.verdicts(reader, known, group, vectors)?;
                all.iter_mut().zip(verdicts).for_each(|(own, other)| *own = of(*own, other));
            }
            Ok(all)
        };
        match self {
            Prepared::Always(true) => Ok(vec![Verdict::All; vectors.count]),
            Prepared::Always(false) => Ok(vec![Verdict::None; vectors.count]),
            Prepared::And(conditions) => combine(conditions, Verdict::All, Verdict::and),
            Prepared::Or(conditions) => combine(conditions, Verdict::None, Verdict::or),
            Prepared::Leaf(leaf) => leaf.verdicts(reader, known, group, vectors),
            Prepared::Unless(not_null, leaf) => {
                let mut all = not_null.verdicts(reader, known, group, vectors)?;
                let passed = leaf.verdicts(reader, known, group, vectors)?;
                all.iter_mut().zip(passed).for_each(|(own, passed)| *own = own.and(passed.not()));
                Ok(all)
            }
            Prepared::Expression(_) => Ok(vec![Verdict::Some; vectors.count]),
        }
    }

    /// Whether values may have to be decoded for it.
    pub fn has_expression(&self) -> bool {
        match self {
            Prepared::Expression(_) => true,
            Prepared::And(conditions) | Prepared::Or(conditions) => conditions.iter().any(Self::has_expression),
            _ => false,
        }
    }
}

/// A row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub number: usize,
    /// The file's row that is its first.
    pub first_row: u64,
    pub rows: u64,
}

/// Vectors of a row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VectorRange {
    /// The row group's row that is their first.
    pub first_row: u64,
    /// Rows: a multiple of 1,024 but at the end of the row group.
    pub rows: usize,
    pub count: usize,
}

/// The part of a block that lies in some vectors.
pub(super) struct BlockPart<'a> {
    pub block: usize,
    pub reference: &'a BlockRef,
    /// Among those vectors.
    pub vectors: std::ops::Range<usize>,
    /// The first of them within the block.
    pub at: usize,
}

impl VectorRange {
    pub fn new(first_row: u64, rows: usize) -> Self {
        Self { first_row, rows, count: rows.div_ceil(entasis_encoding::VECTOR_ROWS) }
    }

    /// The blocks of a chunk that hold these vectors. Blocks begin where vectors do.
    pub fn blocks<'a>(&self, chunk: &'a Chunk) -> impl Iterator<Item = BlockPart<'a>> + use<'a> {
        const ROWS: u64 = entasis_encoding::VECTOR_ROWS as u64;
        let (start, end) = (self.first_row, self.first_row + self.rows as u64);
        chunk.overlapping(start..end).map(move |(block, first, reference)| {
            let block_end = first + u64::from(reference.rows);
            let from = (start.max(first) - start) / ROWS;
            let to = (end.min(block_end) - start).div_ceil(ROWS);
            let at = (start.max(first) - first) / ROWS;
            BlockPart { block, reference, vectors: from as usize..to as usize, at: at as usize }
        })
    }
}

impl Leaf {
    fn new(column: ReadColumn, predicate: Predicate) -> Result<Self> {
        if is_union(&column.data_type) {
            return Err(Error::Unsupported(format!("predicates on the union {:?}", column.path)));
        }
        let filter = Filter::new(&predicate, &column.physical);
        let lookup = Lookup::new(&predicate, &column);
        Ok(Self { column, predicate, filter, lookup })
    }

    fn not_null(column: ReadColumn) -> Result<Self> {
        Self::of_validity(column, true, Predicate::IsNotNull)
    }

    fn null(column: ReadColumn) -> Result<Self> {
        Self::of_validity(column, false, Predicate::IsNull)
    }

    /// The validity of a struct is a column of its own, that of other columns isn't.
    fn of_validity(column: ReadColumn, is_valid: bool, predicate: Predicate) -> Result<Self> {
        match column.record.children {
            Some(_) => {
                let order = FloatOrder::default();
                Self::new(column, Predicate::Compare(Comparison::Equal, Scalar::Bool(is_valid), order))
            }
            None => Self::new(column, predicate),
        }
    }

    fn verdicts(&self, reader: &Reader, known: Known, group: &Group, vectors: &VectorRange) -> Result<Vec<Verdict>> {
        let chunk = chunk_of(reader, &self.column, group.number, group.rows)?;
        let mut verdicts = vec![self.without_blocks(); vectors.count];
        for part in vectors.blocks(chunk) {
            verdicts[part.vectors.clone()].fill(match known {
                Known::Zones => self.verdict_of_zone(part.reference),
                Known::ZonesAndBlooms => self.verdict(group.number, &part),
            });
        }
        Ok(verdicts)
    }

    /// Of a struct that has no blocks, as nothing of it is null.
    pub fn without_blocks(&self) -> Verdict {
        if self.predicate.holds(Some(&Scalar::Bool(true))) { Verdict::All } else { Verdict::None }
    }

    /// What a block's zone tells.
    pub fn verdict_of_zone(&self, block: &BlockRef) -> Verdict {
        verdict(&self.predicate, &block.zone, u64::from(block.rows))
    }

    /// What the zone of a block, and what its Bloom filter answered, tell.
    pub fn verdict(&self, row_group: usize, part: &BlockPart<'_>) -> Verdict {
        match (self.verdict_of_zone(part.reference), &self.lookup) {
            (Verdict::Some, Some(lookup)) => lookup.verdict(row_group, part.block, part.reference),
            (verdict, _) => verdict,
        }
    }
}

/// True where a value is null as that of a union is: by which of its fields, which no predicate asks.
pub(crate) fn is_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Dictionary(_, values) => is_union(values),
        DataType::RunEndEncoded(_, values) => is_union(values.data_type()),
        _ => false,
    }
}

/// The columns along a path: of each struct its validity, and then what the path names.
fn columns_of(reader: &Reader, path: &[usize]) -> Result<Vec<ReadColumn>> {
    let Some((&column, fields)) = path.split_first() else { return Ok(Vec::new()) };
    let nested = |inner: Option<Vec<Selected>>, &column: &usize| Some(vec![Selected { column, fields: inner }]);
    let fields = fields.iter().rev().fold(None, nested);
    let mut columns = ReadColumns::new(reader, Some(&[Selected { column, fields }]), Strings::AsStored)?.columns;
    columns.truncate(path.len());
    Ok(columns)
}

/// The predicate that is true of the values of which `predicate` is false, nulls left out; `None` if there is no such, as of floats that may
/// be NaN.
pub fn negated(predicate: &Predicate, physical: &Physical) -> Option<Predicate> {
    let is_float = matches!(physical, Physical::Fixed(fixed) if fixed.is_float());
    let mut negated = predicate.clone();
    match &mut negated {
        Predicate::Compare(comparison, _, order) => {
            let is_total = !is_float || *order != FloatOrder::Ieee;
            *comparison = match comparison {
                Comparison::Equal => Comparison::NotEqual,
                Comparison::NotEqual => Comparison::Equal,
                _ if !is_total => return None,
                Comparison::Less => Comparison::GreaterOrEqual,
                Comparison::LessOrEqual => Comparison::Greater,
                Comparison::Greater => Comparison::LessOrEqual,
                Comparison::GreaterOrEqual => Comparison::Less,
            };
        }
        Predicate::Between { order, .. } if is_float && *order == FloatOrder::Ieee => return None,
        Predicate::In { negated, .. } | Predicate::Between { negated, .. } => *negated = !*negated,
        Predicate::Like(like) => like.negated = !like.negated,
        Predicate::IsNull => return Some(Predicate::IsNotNull),
        Predicate::IsNotNull => return Some(Predicate::IsNull),
    }
    Some(negated)
}
