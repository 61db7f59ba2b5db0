//! A file, or some rows of it, as a stream of batches with the columns of the plan.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::{
    common::Result,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileOpenFuture, FileOpener},
    },
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    physical_expr::PhysicalExpr,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use entasis::{
    ScanRequest,
    encoding::{Aggregates, Wanted},
    scan::ScanMetrics,
};
use futures::{StreamExt, stream::BoxStream};

use crate::{
    aggregate::{Function, Term},
    asked::Asked,
    memory::held_bytes,
    metrics::{Counters, SCAN},
    needed::Needed,
    opened::{FileCache, FileScan, OpenFile},
    output::Output,
    place::Place,
    ranges::rows_of,
    schema::{read_schema, strings_of},
    translate::Translation,
};

/// Opens the files of one partition.
#[derive(Clone)]
pub(crate) struct EntasisOpener {
    pub files: Arc<FileCache>,
    pub place: Place,
    pub asked: Asked,
    pub metrics: ExecutionPlanMetricsSet,
    pub memory: Option<Arc<dyn MemoryPool>>,
    pub partition: usize,
}

impl FileOpener for EntasisOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(Box::pin(async move { opener.open_file(file).await }))
    }
}

/// What a file says to aggregates.
pub(crate) enum Answer {
    /// What each takes from the file, and what was found of it.
    Found(Vec<(Term, Aggregates)>),
    /// Rows that only the engine can aggregate.
    Rows(BoxStream<'static, Result<RecordBatch>>),
}

/// A file that is open, and what is asked of it in its own terms.
struct Prepared {
    opened: Arc<OpenFile>,
    physical: SchemaRef,
    /// The plan's columns, on those of the file.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    needed: Needed,
    translation: Translation,
    request: ScanRequest,
    /// Which version of the predicate the request has; 0 for one that never changes.
    generation: u64,
    held: Option<MemoryReservation>,
}

impl EntasisOpener {
    async fn prepare(&self, file: &PartitionedFile) -> Result<Prepared> {
        let opened = self.files.open(&self.place, &file.object_meta).await?;
        let strings = strings_of(self.asked.table.file_schema());
        let physical = Arc::new(read_schema(opened.schema(), strings));
        let columns = self.asked.adapt_projection(file, &physical)?;
        let predicate = self.asked.predicate_now(file, &physical)?;
        let touched = Needed::of(columns.iter().chain(&predicate), &physical).projection();
        let needed = Needed::of(&columns, &physical);
        let rows = match &file.range {
            Some(range) => rows_of(range, file.object_meta.size, opened.row_group_rows()),
            None => 0..opened.rows(),
        };
        let held = match &self.memory {
            None => None,
            Some(pool) => {
                let reservation = MemoryConsumer::new(format!("EntasisScan[{}]", self.partition)).register(pool);
                reservation.try_grow(opened.call(|reader| held_bytes(reader, &touched, &rows)).await?)?;
                Some(reservation)
            }
        };
        let generation = self.asked.generation();
        let mut translation = Translation::new(physical.clone(), self.asked.predicates);
        let request = ScanRequest {
            projection: needed.projection(),
            condition: translation.condition_of(predicate.as_ref())?,
            rows: Some(rows),
            limit: self.asked.limit.map(|limit| limit as u64),
            batch_rows: self.asked.batch_rows,
            strings,
        };
        Ok(Prepared { opened, physical, columns, needed, translation, request, generation, held })
    }

    async fn open_file(self, file: PartitionedFile) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let prepared = self.prepare(&file).await?;
        self.read(file, prepared).await
    }

    async fn read(self, file: PartitionedFile, prepared: Prepared) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Prepared { opened, physical, columns, needed, translation, request, generation, held } = prepared;
        let columns = columns.into_iter().map(|column| needed.reassign(column)).collect::<Result<Vec<_>>>()?;
        let output = self.asked.output.clone();
        let output = Output::new(columns, &needed.schema(&physical), output, &self.metrics, self.partition)?;
        let scan = opened.scan(request).await?;
        let counters = Counters::new(SCAN, &self.metrics, self.partition);
        let reading = Reading {
            opener: self,
            file,
            opened,
            physical,
            translation,
            scan,
            generation,
            output,
            counters,
            _held: held,
        };
        let batches = futures::stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next().await?.map(|batch| (batch, reading)))
        });
        Ok(batches.boxed())
    }

    /// What the file says to `functions`, each of one of the columns that are asked for.
    pub async fn answer(self, file: PartitionedFile, functions: &[Function]) -> Result<Answer> {
        let prepared = self.prepare(&file).await?;
        let terms = functions.iter().zip(&prepared.columns);
        let terms: Option<Vec<Term>> =
            terms.map(|(function, column)| function.term(column, &prepared.physical)).collect();
        let Some(terms) = terms else { return Ok(Answer::Rows(self.read(file, prepared).await?)) };
        let Prepared { opened, request, held: _held, .. } = prepared;
        let columns: Vec<usize> =
            request.projection.selected().unwrap_or_default().iter().map(|selected| selected.column).collect();
        let wanted_of = |column: &usize| {
            let asked = functions.iter().zip(&terms).filter(|(_, term)| term.index() == Some(*column));
            asked.fold(Wanted::COUNT, |wanted, (function, _)| wanted.or(function.wanted()))
        };
        let wanted: Vec<Wanted> = columns.iter().map(wanted_of).collect();
        let mut found = vec![Aggregates::default(); columns.len()];
        let mut scan = opened.scan(ScanRequest { batch_rows: AGGREGATED_ROWS, ..request }).await?;
        let mut counters = Counters::new(SCAN, &self.metrics, self.partition);
        loop {
            let more = scan.aggregate(&wanted, &mut found).await;
            counters.set(&scan.metrics());
            // Bytes of another file may be why it can't be read.
            opened.check_version()?;
            if !more? {
                break;
            }
            tokio::task::yield_now().await;
        }
        let rows = Aggregates { count: scan.metrics().rows_passed, ..Aggregates::default() };
        let found_of = |term: Term| {
            let place = columns.iter().position(|&column| Some(column) == term.index());
            let found = place.map_or_else(|| rows.clone(), |place| found[place].clone());
            (term, found)
        };
        Ok(Answer::Found(terms.into_iter().map(found_of).collect()))
    }
}

/// Rows that aggregates look through at a time.
const AGGREGATED_ROWS: usize = entasis::encoding::BLOCK_ROWS;

/// A file that is being read.
struct Reading {
    opener: EntasisOpener,
    file: PartitionedFile,
    opened: Arc<OpenFile>,
    physical: SchemaRef,
    translation: Translation,
    scan: FileScan,
    /// Which version of the predicate the scan has; 0 for one that never changes.
    generation: u64,
    output: Output,
    counters: Counters<ScanMetrics>,
    /// Given back when the stream is dropped.
    _held: Option<MemoryReservation>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.follow_predicate().await?;
        let batch = self.scan.next().await;
        self.counters.set(&self.scan.metrics());
        // Bytes of another file may be why a batch can't be read.
        self.opened.check_version()?;
        batch?.map(|batch| self.output.project(&batch)).transpose()
    }

    /// Tells the scan of a predicate that has changed since: joins and `ORDER BY … LIMIT` make theirs stricter as they go along.
    async fn follow_predicate(&mut self) -> Result<()> {
        let generation = match self.generation {
            0 => 0,
            _ => self.opener.asked.generation(),
        };
        if generation != self.generation {
            let predicate = self.opener.asked.predicate_now(&self.file, &self.physical)?;
            self.scan.set_condition(&self.translation.condition_of(predicate.as_ref())?).await?;
            self.generation = generation;
        }
        Ok(())
    }
}
