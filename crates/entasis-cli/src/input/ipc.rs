//! Arrow IPC in: files and streams, told apart by their first bytes.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::{Endianness, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};

use super::{Counted, Input, InputOptions, Position, open_counted};
use crate::columns::Picks;
use crate::exit::Failure;

/// The first bytes of an IPC file; a stream begins with a message.
const FILE_MAGIC: &[u8; 6] = b"ARROW1";

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

struct IpcInput {
    path: PathBuf,
    batches: Batches,
    position: Position,
    schema: SchemaRef,
    picks: Option<Picks>,
    batch_rows: usize,
    /// What is left of a batch that is larger than asked for.
    rest: Option<RecordBatch>,
}

/// Opens an IPC file or stream.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    let (file, position) = open_counted(path)?;
    let (schema, batches) = batches(file).map_err(|error| Failure::arrow(path, error))?;
    let picks = options.columns.as_ref().map(|names| Picks::new(&schema, names, path)).transpose()?;
    let schema = picks.as_ref().map_or(schema, Picks::schema);
    let (path, batch_rows) = (path.to_owned(), options.batch_rows);
    Ok(Box::new(IpcInput { path, batches, position, schema, picks, batch_rows, rest: None }))
}

fn batches(file: Counted<File>) -> Result<(SchemaRef, Batches), ArrowError> {
    let mut file = BufReader::new(file);
    let mut magic = Vec::new();
    file.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    if magic == FILE_MAGIC {
        let reader = FileReader::try_new(file, None)?;
        Ok((reader.schema(), Box::new(reader)))
    } else {
        refuse_big_endian(&mut file)?;
        let reader = StreamReader::try_new(file, None)?;
        Ok((reader.schema(), Box::new(reader)))
    }
}

/// Arrow's reader of streams doesn't ask for the order of bytes, as its reader of files does, and would read other values.
fn refuse_big_endian(file: &mut BufReader<Counted<File>>) -> Result<(), ArrowError> {
    /// Before the length of a message, but for the first streams, which had none.
    const CONTINUATION: [u8; 4] = [0xFF; 4];
    let mut length = [0; 4];
    let mut is_read = file.read_exact(&mut length);
    if length == CONTINUATION {
        is_read = file.read_exact(&mut length);
    }
    let mut message = Vec::new();
    if is_read.is_ok() {
        file.by_ref().take(u32::from_le_bytes(length).into()).read_to_end(&mut message)?;
    }
    file.seek(SeekFrom::Start(0))?;
    let schema = root_as_message(&message).ok().and_then(|message| message.header_as_schema());
    match schema.map(|schema| schema.endianness()) {
        Some(Endianness::Big) => Err(ArrowError::IpcError("the stream is big-endian".to_owned())),
        _ => Ok(()),
    }
}

impl IpcInput {
    fn next_batch(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        if let Some(rest) = self.rest.take() {
            return Some(Ok(rest));
        }
        let batch = self.batches.next()?;
        Some(batch.and_then(|batch| match &self.picks {
            Some(picks) => picks.apply(&batch),
            None => Ok(batch),
        }))
    }
}

impl Iterator for IpcInput {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch()?;
        Some(batch.map_err(|error| Failure::arrow(&self.path, error)).map(|batch| {
            let rows = batch.num_rows();
            if rows <= self.batch_rows {
                return batch;
            }
            self.rest = Some(batch.slice(self.batch_rows, rows - self.batch_rows));
            batch.slice(0, self.batch_rows)
        }))
    }
}

impl Input for IpcInput {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn fraction_done(&self) -> f64 {
        self.position.fraction()
    }
}
