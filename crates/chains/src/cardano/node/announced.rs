//! A header the node announced, and how to recognise its block.

use pallas_network::miniprotocols::chainsync::HeaderContent;
use pallas_traverse::MultiEraHeader;

use super::{NodeError, NodePoint};

/// Slots of a Byron epoch on every public network. Byron headers name epoch and slot within it.
const BYRON_EPOCH_SLOTS: u64 = 21_600;

/// Nodes keep this limit among themselves; real headers have about one kilobyte.
const HEADER_BYTES_MAX: usize = 65_535;

/// The last era whose headers are understood: Conway.
const LAST_VARIANT: u8 = 6;

/// A header the node announced and whose block is still to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) point: NodePoint,
    pub(super) previous: Option<[u8; 32]>,
    pub(super) height: u64,
    /// Era tag of the wrapper its block comes in.
    pub(super) wrapper_tag: u8,
    /// The header's own bytes, which are the bytes the hash covers.
    pub(super) header: Vec<u8>,
}

impl Announced {
    /// Reads an announcement.
    pub(super) fn read(content: &HeaderContent) -> Result<Self, NodeError> {
        let HeaderContent { variant, byron_prefix, cbor } = content;
        if *variant > LAST_VARIANT {
            return Err(NodeError::UnknownEra { variant: *variant });
        }
        if cbor.len() > HEADER_BYTES_MAX {
            return Err(NodeError::protocol(format!("a header of {} bytes", cbor.len())));
        }
        // Byron has two kinds of blocks, and the prefix tells which: 0 is an epoch boundary.
        let subtag = byron_prefix.map(|(kind, _)| kind);
        let wrapper_tag = match (variant, subtag) {
            (0, Some(kind @ (0 | 1))) => kind,
            (0, _) => return Err(NodeError::protocol("a Byron header of an unknown kind")),
            (variant, _) => variant + 1,
        };
        let header = MultiEraHeader::decode(*variant, subtag, cbor)
            .map_err(|error| NodeError::protocol(format!("a header that is none: {error}")))?;
        let slot = slot_of(&header)
            .ok_or_else(|| NodeError::protocol("a Byron header beyond the end of time"))?;
        Ok(Self {
            point: NodePoint { slot, hash: *header.hash() },
            previous: header.previous_hash().map(|hash| *hash),
            height: header.number(),
            wrapper_tag,
            header: header.cbor().to_vec(),
        })
    }

    /// Whether `block`, with its wrapper, is the block of this header.
    ///
    /// The header stands right behind the wrapper and the head of the block's array. A header is
    /// one CBOR item, so equal bytes are an equal header and an equal hash; the rest of the block
    /// need not be decoded for that.
    pub(super) fn is_header_of(&self, block: &[u8]) -> bool {
        let Some(inner) = block.strip_prefix(&[0x82, self.wrapper_tag]) else { return false };
        array_head_len(inner)
            .and_then(|head| inner.get(head..))
            .is_some_and(|fields| fields.starts_with(&self.header))
    }
}

/// The absolute slot; `None` when it does not fit. Done here because the sum must not overflow.
fn slot_of(header: &MultiEraHeader<'_>) -> Option<u64> {
    if let Some(boundary) = header.as_eb() {
        boundary.consensus_data.epoch_id.checked_mul(BYRON_EPOCH_SLOTS)
    } else if let Some(byron) = header.as_byron() {
        let place = &byron.consensus_data.0;
        place.epoch.checked_mul(BYRON_EPOCH_SLOTS)?.checked_add(place.slot)
    } else {
        Some(header.slot())
    }
}

/// Length of the head of a CBOR array; `None` when the bytes do not start with one.
fn array_head_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        0x80..=0x97 | 0x9f => Some(1),
        0x98 => Some(2),
        0x99 => Some(3),
        0x9a => Some(5),
        0x9b => Some(9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(wrapper_tag: u8, header: &[u8]) -> Announced {
        Announced {
            point: NodePoint { slot: 1, hash: [1; 32] },
            previous: None,
            height: 1,
            wrapper_tag,
            header: header.to_vec(),
        }
    }

    #[test]
    fn a_block_is_recognised_by_wrapper_and_header() {
        let header = announced(6, &[0x82, 0x01, 0x02]);
        assert!(header.is_header_of(&[0x82, 0x06, 0x85, 0x82, 0x01, 0x02, 0x80]));
        assert!(header.is_header_of(&[0x82, 0x06, 0x9f, 0x82, 0x01, 0x02, 0xff]));
        assert!(header.is_header_of(&[0x82, 0x06, 0x98, 0x05, 0x82, 0x01, 0x02]));
        for other in [
            &[][..],
            &[0x82],
            &[0x82, 0x06],
            &[0x82, 0x06, 0x85],
            &[0x82, 0x06, 0x98],
            &[0x82, 0x06, 0x9b, 0x00],
            &[0x82, 0x07, 0x85, 0x82, 0x01, 0x02],
            &[0x82, 0x06, 0x85, 0x82, 0x01, 0x03],
            &[0x82, 0x06, 0x85, 0x82, 0x01],
            &[0x82, 0x06, 0xa5, 0x82, 0x01, 0x02],
        ] {
            assert!(!header.is_header_of(other), "{other:02x?}");
        }
    }

    #[test]
    fn bytes_that_are_no_header_are_an_error() {
        let too_long = vec![0xff; HEADER_BYTES_MAX + 1];
        for variant in 0..=LAST_VARIANT {
            for kind in 0..3 {
                for cbor in [&[][..], &[0x80], &[0x85, 0x1b, 0xff, 0xff], &too_long] {
                    let byron_prefix = (variant == 0).then_some((kind, 0));
                    let content = HeaderContent { variant, byron_prefix, cbor: cbor.to_vec() };
                    let error = Announced::read(&content).unwrap_err();
                    assert!(matches!(error, NodeError::Protocol { .. }), "{error}");
                }
            }
        }
        let future = HeaderContent { variant: 7, byron_prefix: None, cbor: vec![0x80] };
        let error = Announced::read(&future).unwrap_err();
        assert!(matches!(error, NodeError::UnknownEra { variant: 7 }), "{error}");
    }
}
