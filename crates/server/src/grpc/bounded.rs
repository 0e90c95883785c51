//! Requests are measured before they are decoded: two bytes that say "an empty item" become some
//! hundred in memory.

use std::marker::PhantomData;

use prost::{
    Message,
    bytes::Buf as _,
    encoding::{WireType, decode_key, decode_varint},
};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::memory::refused;
use crate::memory;

/// What a message of any length may take in memory, and how often its own length a longer one may.
const DECODED_BYTES_MIN: usize = 64 << 20;
const DECODED_TIMES_MAX: usize = 4;

/// Messages within messages that are looked into; the decoder has the same limit.
const DEPTH_MAX: usize = 100;

/// What a message takes in memory, and which of its fields take more.
struct Shape {
    name: &'static str,
    bytes: usize,
    fields: &'static [(u32, Holds)],
}

/// What a field holds.
#[derive(Clone, Copy)]
enum Holds {
    /// A message, or a list of them: the one at this place of [`SHAPES`].
    Message(usize),
    /// A list of texts or bytes.
    Texts,
    /// A list of numbers.
    Numbers,
}

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// The codec of every call: that of the contract, after a look at what a message would take.
#[derive(Debug, Clone)]
pub(crate) struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstDecoder::default())
    }
}

/// Decodes a message that does not take too much.
#[derive(Debug, Clone)]
pub(crate) struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The bytes of a message lie together; of others only the first would be measured.
        let bytes = buf.chunk();
        let max = DECODED_BYTES_MIN.max(DECODED_TIMES_MAX.saturating_mul(buf.remaining()));
        if let Some(shape) = shape_of::<U>() {
            let mut left = max;
            if measure(shape, bytes, 0, &mut left).is_none() {
                return Err(Status::resource_exhausted(format!(
                    "the items of this message would take more than {} MiB of memory; send fewer \
                     at a time; nothing was changed",
                    max >> 20
                )));
            }
            // What is made of the items takes about as much again.
            memory::take((max - left).saturating_mul(2)).map_err(refused)?;
        }
        self.0.decode(buf)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// The shape of a generated message, by the last part of its type's name.
fn shape_of<U>() -> Option<&'static Shape> {
    let name = std::any::type_name::<U>().rsplit("::").next()?;
    SHAPES.iter().find(|shape| shape.name == name)
}

/// Takes what a message needs from `left`; `None` when there is not enough. What cannot be read is
/// left to the decoder, which says what is wrong with it.
fn measure(shape: &Shape, mut bytes: &[u8], depth: usize, left: &mut usize) -> Option<()> {
    while !bytes.is_empty() {
        let Ok((number, wire)) = decode_key(&mut bytes) else { return Some(()) };
        let length = match wire {
            WireType::Varint => {
                let Ok(_) = decode_varint(&mut bytes) else { return Some(()) };
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => match decode_varint(&mut bytes).map(usize::try_from) {
                Ok(Ok(length)) => length,
                _ => return Some(()),
            },
            WireType::StartGroup | WireType::EndGroup => return Some(()),
        };
        let Some((content, rest)) = bytes.split_at_checked(length) else { return Some(()) };
        bytes = rest;
        let holds = shape.fields.iter().find(|(field, _)| *field == number);
        match holds.map(|(_, holds)| *holds) {
            Some(Holds::Message(at)) if wire == WireType::LengthDelimited => {
                let Some(inner) = SHAPES.get(at).filter(|_| depth < DEPTH_MAX) else { continue };
                *left = left.checked_sub(inner.bytes)?;
                measure(inner, content, depth + 1, left)?;
            }
            Some(Holds::Texts) => {
                *left = left.checked_sub(size_of::<Vec<u8>>() + length)?;
            }
            Some(Holds::Numbers) => {
                *left = left.checked_sub(size_of::<u64>().saturating_mul(length.max(1)))?;
            }
            _ => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto;

    fn fits<U>(bytes: &[u8], max: usize) -> bool {
        let mut left = max;
        measure(shape_of::<U>().unwrap(), bytes, 0, &mut left).is_some()
    }

    #[test]
    fn empty_items_are_measured_as_what_they_become() {
        let of_list = proto::NewTransaction::default();
        let real = size_of_val(&of_list);
        let request = proto::CreateRequest { transactions: vec![of_list; 1_000], height: 1 };
        let bytes = request.encode_to_vec();
        assert!(bytes.len() < 3_000 && !fits::<proto::CreateRequest>(&bytes, real * 500));
        assert!(fits::<proto::CreateRequest>(&bytes, real * 4_000));
        // In a transaction the same.
        let outputs = vec![proto::Output::default(); 1_000];
        let transaction = proto::Transaction { outputs, ..proto::Transaction::default() };
        let bytes = transaction.encode_to_vec();
        assert!(!fits::<proto::Transaction>(&bytes, 10_000));
        // And lists of ids.
        let request = proto::GetRequest { txids: vec![Vec::new(); 1_000], ..Default::default() };
        assert!(!fits::<proto::GetRequest>(&request.encode_to_vec(), 10_000));
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_decoder() {
        for bytes in [&[0xff; 20][..], &[0x0a, 0xff], &[0x0b], &[0x0a, 0x05, 1]] {
            assert!(fits::<proto::CreateRequest>(bytes, 1 << 20));
        }
    }
}
