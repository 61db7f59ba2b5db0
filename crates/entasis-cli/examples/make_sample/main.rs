//! Writes the sample table that `entasis demo` ships: `cargo run -p entasis-cli --example make_sample`.

mod trips;

use std::fs::File;
use std::path::Path;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/trips.parquet");
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?)).build();
    let batch = trips::table()?;
    let mut writer = ArrowWriter::try_new(File::create(&path)?, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    println!("{}: {} rows", path.display(), batch.num_rows());
    Ok(())
}
