//! What is inside an address of Byron: CBOR in CBOR, with a check sum.

use minicbor::{Decoder, bytes::ByteSlice, data::Tag, decode::Error};

const NETWORK_MAGIC: u8 = 2;

/// Whether an address is for the main network: those for others carry a magic number. `None` when
/// the bytes are no address of Byron.
pub(super) fn is_for_mainnet(address: &[u8]) -> Option<bool> {
    read(address).ok().flatten()
}

fn read(address: &[u8]) -> Result<Option<bool>, Error> {
    let mut outer = Decoder::new(address);
    if outer.array()? != Some(2) || outer.tag()? != Tag::new(24) {
        return Ok(None);
    }
    let payload = outer.bytes()?;
    let is_whole = crc32fast::hash(payload) == outer.u32()? && outer.position() == address.len();
    let mut inner = Decoder::new(payload);
    if !is_whole || inner.array()? != Some(3) || inner.bytes()?.len() != 28 {
        return Ok(None);
    }
    let mut is_for_mainnet = true;
    for attribute in inner.map_iter::<u8, &ByteSlice>()? {
        let (key, value) = attribute?;
        if key == NETWORK_MAGIC {
            Decoder::new(value).u32()?;
            is_for_mainnet = false;
        }
    }
    inner.u64()?;
    Ok((inner.position() == payload.len()).then_some(is_for_mainnet))
}
