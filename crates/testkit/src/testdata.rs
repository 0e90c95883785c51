//! Public chain data that is too large to be part of the project. Tests that need it are skipped
//! where it is absent, and counted; with `UTXOKEEP_REQUIRE_TESTDATA` they fail.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use liblzma::read::XzDecoder;

use crate::skipped;

/// Set to make missing data a failure in place of a skip.
const REQUIRE: &str = "UTXOKEEP_REQUIRE_TESTDATA";
/// Names the directory with the data.
const VARIABLE: &str = "UTXOKEEP_TESTDATA";
/// Where it is looked for otherwise: beside the checkout.
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// A file or directory of the data; `None`, with a message, where there is none.
pub fn testdata(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(BESIDE), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    let message = format!("{name} is missing; set {VARIABLE} to the directory that has it");
    skipped("test data", REQUIRE, &message);
    None
}

/// The blocks of the preview network up to its fifteenth epoch, as a node's immutable database.
/// Unpacked once into `cache`.
pub fn preview_immutable(cache: &Path) -> Option<PathBuf> {
    let archive = testdata("cardano/preview-immutable.tar.xz")?;
    Some(unpacked(&archive, cache).expect("the archive can be unpacked"))
}

fn unpacked(archive: &Path, cache: &Path) -> io::Result<PathBuf> {
    let name = format!("preview-immutable-{}", fs::metadata(archive)?.len());
    let target = cache.join(name);
    if target.exists() {
        return Ok(target);
    }
    fs::create_dir_all(cache)?;
    let work = tempfile::tempdir_in(cache)?;
    unpack(&mut XzDecoder::new(BufReader::new(File::open(archive)?)), work.path())?;
    match fs::rename(work.keep(), &target) {
        // Another test was faster.
        Err(_) if target.exists() => Ok(target),
        renamed => renamed.map(|()| target),
    }
}

/// Unpacks the plain files of a tar archive into one directory, whatever directory they were in.
fn unpack(archive: &mut impl Read, into: &Path) -> io::Result<()> {
    const BLOCK: u64 = 512;
    const PLAIN_FILE: u8 = b'0';
    let mut header = [0; 512];
    loop {
        archive.read_exact(&mut header)?;
        if header.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let text = |range: std::ops::Range<usize>| {
            let field = &header[range];
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).trim().to_owned()
        };
        let len = u64::from_str_radix(&text(124..136), 8).map_err(io::Error::other)?;
        let padding = len.next_multiple_of(BLOCK) - len;
        let mut content = Vec::new();
        archive.by_ref().take(len + padding).read_to_end(&mut content)?;
        if header[156] == PLAIN_FILE {
            let name = text(0..100);
            let name = Path::new(&name).file_name().ok_or_else(|| io::Error::other("no name"))?;
            content.truncate(usize::try_from(len).map_err(io::Error::other)?);
            fs::write(into.join(name), content)?;
        }
    }
}

/// Rows of a CSV file without quoting, as text by column, the heading left out.
pub fn csv(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).expect("the file can be read");
    let rows = text.lines().skip(1);
    rows.map(|row| row.split(',').map(str::to_owned).collect()).collect()
}
