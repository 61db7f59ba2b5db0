//! Writes a seed corpus for each target: `cargo run --example seeds -- corpus`.

use std::{fs, io, path::Path};

use entasis::{
    Profile, WriteOptions, Writer,
    arrow::{physical_of, with_column},
    encoding::{ChunkEncoder, EncodeOptions, digest},
    fuzzing::blooms_of,
    generate::{Generator, flat_types, nested_types},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let corpus = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    let corpus = Path::new(&corpus);
    let mut generator = Generator::new(1);
    for (number, data_type) in flat_types().into_iter().chain(nested_types()).cycle().take(400).enumerate() {
        let data_type = if number % 3 == 0 { generator.data_type(2) } else { data_type };
        let Ok(physical) = physical_of(&data_type) else { continue };
        let options = EncodeOptions::of(Profile::ALL[number / 3 % Profile::ALL.len()]);
        let mut chunk = ChunkEncoder::new(physical, options);
        let mut last = Vec::new();
        for _ in 0..2 {
            let array = generator.array(&data_type, [1, 40, 1_500][number % 3]);
            let only = number % 4 == 0;
            last = with_column(&array, |column| chunk.encode(column, only, &mut |_| Ok(0)))??.bytes;
        }
        let parts = chunk.finish()?.into_iter().flat_map(|part| part.bytes);
        keep(&corpus.join("block"), &parts.chain(last).collect::<Vec<u8>>())?;
    }
    for number in 0..60 {
        let schema = generator.schema([1, 2, 5, 20][number % 4]);
        let batch = generator.batch(&schema, [0, 3, 60, 2_100][number % 7 % 4]);
        let encode = EncodeOptions::of(Profile::ALL[number % Profile::ALL.len()]);
        let bloom = if number % 2 == 0 { blooms_of(&schema) } else { Vec::new() };
        let options = WriteOptions { row_group_rows: 1_100, encode, bloom, ..WriteOptions::default() };
        let mut writer = Writer::new(Vec::new(), schema, options)?;
        writer.write(&batch)?;
        keep(&corpus.join("file"), &writer.finish()?.0)?;
        keep(&corpus.join("batches"), &generator.next_u64().to_le_bytes())?;
        keep(&corpus.join("scan"), &generator.next_u64().to_le_bytes())?;
    }
    Ok(())
}

/// Keeps what isn't too long to be changed in many places.
fn keep(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    const MOST_BYTES: usize = 32 << 10;
    fs::create_dir_all(folder)?;
    if bytes.len() > MOST_BYTES {
        return Ok(());
    }
    fs::write(folder.join(format!("{:016x}", digest(bytes))), bytes)
}
