//! Just enough CBOR to write blocks; written apart from any decoder so that the two check each other.

/// Null.
pub(super) const NULL: u8 = 0xf6;
const BREAK: u8 = 0xff;

/// First bytes of an item: its kind, and a number in as few bytes as hold it.
pub(super) fn head(major: u8, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let (info, width) = match value {
        0..=23 => (bytes[7], 0),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    [&[major << 5 | info], &bytes[8 - width..]].concat()
}

pub(super) fn uint(value: u64) -> Vec<u8> {
    head(0, value)
}

pub(super) fn bytes(content: &[u8]) -> Vec<u8> {
    [head(2, len(content)), content.to_vec()].concat()
}

pub(super) fn zeros(count: usize) -> Vec<u8> {
    bytes(&vec![0; count])
}

pub(super) fn text(content: &str) -> Vec<u8> {
    [head(3, len(content.as_bytes())), content.as_bytes().to_vec()].concat()
}

pub(super) fn tag(number: u64, item: &[u8]) -> Vec<u8> {
    [&head(6, number), item].concat()
}

/// An item packed into a byte string.
pub(super) fn embedded(item: &[u8]) -> Vec<u8> {
    tag(24, &bytes(item))
}

pub(super) fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, len(items)), items.concat()].concat()
}

pub(super) fn array_indefinite(items: &[Vec<u8>]) -> Vec<u8> {
    [vec![4 << 5 | 31], items.concat(), vec![BREAK]].concat()
}

pub(super) fn map(entries: &[Vec<u8>]) -> Vec<u8> {
    [head(5, len(entries)), entries.concat()].concat()
}

pub(super) fn map_indefinite(entries: &[Vec<u8>]) -> Vec<u8> {
    [vec![5 << 5 | 31], entries.concat(), vec![BREAK]].concat()
}

fn len<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).expect("a length fits 64 bits")
}
