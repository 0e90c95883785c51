//! Blocks as a node keeps them for good.

use std::{fs, io, path::Path};

use super::{BYRON_EPOCH_SLOTS, Built, Era, address::crc32};

/// Writes an immutable database: a chunk with its index for each list of blocks.
pub fn write_immutable(dir: &Path, chunks: &[&[Built]]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for (number, blocks) in chunks.iter().enumerate() {
        let (mut chunk, mut index) = (Vec::new(), Vec::new());
        for block in *blocks {
            let slot_or_epoch = match block.era {
                Era::ByronBoundary => block.slot / BYRON_EPOCH_SLOTS,
                _ => block.slot,
            };
            index.extend((chunk.len() as u64).to_be_bytes());
            // Where the header lies is not read by anybody here.
            index.extend([0; 4]);
            index.extend(crc32(&block.raw).to_be_bytes());
            index.extend(block.hash);
            index.extend(slot_or_epoch.to_be_bytes());
            chunk.extend(&block.raw);
        }
        fs::write(dir.join(format!("{number:05}.chunk")), chunk)?;
        fs::write(dir.join(format!("{number:05}.secondary")), index)?;
        fs::write(dir.join(format!("{number:05}.primary")), [1])?;
    }
    Ok(())
}
