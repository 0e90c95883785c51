//! Reads a message of the contract into what serde deserialises.
//!
//! # Invariants
//!
//! * A field that the contract does not have is refused: to leave it out would answer another
//!   question.
//! * Of a field that stands twice the last one counts, as in every reader of such messages.

use prost::encoding::{WireType, decode_key, decode_varint};
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::{
    descriptors::{self, Field, Kind, Message, Presence},
    error::WireError,
};
use crate::grpc::calls::CallError;

/// Values that one message may have, those of inner messages not counted.
const VALUES_MAX: usize = 10_000;

/// Reads a request.
pub(super) fn message<T: DeserializeOwned>(
    message: &'static Message,
    bytes: &[u8],
) -> Result<T, CallError> {
    let values = Values::read(message, bytes).map_err(WireError::of_request)?;
    T::deserialize(values).map_err(WireError::of_request)
}

/// A value as it came.
#[derive(Debug, Clone, Copy)]
enum Raw<'de> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'de [u8]),
}

/// The fields of a message, each with what came for it.
struct Values<'de> {
    fields: std::slice::Iter<'static, Field>,
    /// Which field, and its value, in the order they came.
    came: Vec<(u32, Raw<'de>)>,
    next: Option<&'static Field>,
}

fn broken(problem: &str) -> WireError {
    WireError::new("", format!("the message cannot be read: {problem}"))
}

impl<'de> Values<'de> {
    fn read(message: &'static Message, mut bytes: &'de [u8]) -> Result<Self, WireError> {
        let mut came = Vec::new();
        while !bytes.is_empty() {
            let (number, wire) =
                decode_key(&mut bytes).map_err(|_| broken("a field has no key"))?;
            let field = message.fields.iter().find(|field| field.number == number);
            let field = field.ok_or_else(|| {
                let text = format!("there is no field {number} in the server's contract");
                WireError::new(message.name, text)
            })?;
            let raw = raw(wire, &mut bytes).map_err(|error| error.within(field.name))?;
            if came.len() == VALUES_MAX {
                return Err(WireError::new(message.name, format!("more than {VALUES_MAX} values")));
            }
            if !fits(field, raw) {
                return Err(WireError::new(
                    field.name,
                    "another kind of value than in the contract",
                ));
            }
            came.push((number, raw));
        }
        Ok(Self { fields: message.fields.iter(), came, next: None })
    }

    fn of(&self, field: &Field) -> impl DoubleEndedIterator<Item = Raw<'de>> + use<'_, 'de> {
        let number = field.number;
        self.came.iter().filter(move |(of, _)| *of == number).map(|(_, raw)| *raw)
    }

    /// What a field that holds one value holds.
    fn single(&self, field: &Field) -> Option<Raw<'de>> {
        let raw = self.of(field).next_back();
        match (field.kind, raw) {
            (Kind::Enum(_), None | Some(Raw::Varint(0))) => None,
            (Kind::Text | Kind::Bytes, None) if field.presence == Presence::Implicit => {
                Some(Raw::Bytes(&[]))
            }
            (Kind::Double, None) if field.presence == Presence::Implicit => Some(Raw::Fixed64(0)),
            (_, None) if field.presence == Presence::Implicit => Some(Raw::Varint(0)),
            (_, raw) => raw,
        }
    }
}

/// Takes the next value from the bytes.
fn raw<'de>(wire: WireType, bytes: &mut &'de [u8]) -> Result<Raw<'de>, WireError> {
    match wire {
        WireType::Varint => {
            decode_varint(bytes).map(Raw::Varint).map_err(|_| broken("a number breaks off"))
        }
        WireType::SixtyFourBit => {
            let (eight, rest) =
                bytes.split_first_chunk::<8>().ok_or_else(|| broken("it breaks off"))?;
            *bytes = rest;
            Ok(Raw::Fixed64(from_wire(*eight)))
        }
        WireType::LengthDelimited => {
            let length = decode_varint(bytes).ok().and_then(|length| usize::try_from(length).ok());
            let length = length.ok_or_else(|| broken("a length breaks off"))?;
            let (taken, rest) =
                bytes.split_at_checked(length).ok_or_else(|| broken("it breaks off"))?;
            *bytes = rest;
            Ok(Raw::Bytes(taken))
        }
        _ => Err(broken("a value of a kind that the contract does not use")),
    }
}

/// Eight bytes of a message, which has the lowest first.
fn from_wire(bytes: [u8; 8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Whether a value can be one of the field.
fn fits(field: &Field, raw: Raw<'_>) -> bool {
    match raw {
        Raw::Varint(_) => {
            matches!(
                field.kind,
                Kind::Bool | Kind::Uint32 | Kind::Uint64 | Kind::Int64 | Kind::Enum(_)
            )
        }
        Raw::Fixed64(_) => matches!(field.kind, Kind::Double),
        Raw::Bytes(_) => matches!(field.kind, Kind::Text | Kind::Bytes | Kind::Message(_)),
    }
}

impl<'de> MapAccess<'de> for Values<'de> {
    type Error = WireError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, WireError> {
        let next = loop {
            let Some(field) = self.fields.next() else { return Ok(None) };
            if field.presence == Presence::Repeated || self.single(field).is_some() {
                break field;
            }
        };
        self.next = Some(next);
        let name: StrDeserializer<'_, WireError> = next.name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, WireError> {
        let field = self.next.take().ok_or_else(|| broken("a value without a name"))?;
        let value = if field.presence == Presence::Repeated {
            let items: Vec<_> = self.of(field).collect();
            seed.deserialize(Items { field, items: items.into_iter() })
        } else {
            let raw = self.single(field).ok_or_else(|| broken("a name without a value"))?;
            seed.deserialize(Value { field, raw })
        };
        value.map_err(|error| error.within(field.name))
    }
}

impl<'de> Deserializer<'de> for Values<'de> {
    type Error = WireError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The items of a field.
struct Items<'de> {
    field: &'static Field,
    items: std::vec::IntoIter<Raw<'de>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = WireError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, WireError> {
        let field = self.field;
        self.items.next().map(|raw| seed.deserialize(Value { field, raw })).transpose()
    }
}

impl<'de> Deserializer<'de> for Items<'de> {
    type Error = WireError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_seq(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// One value of a field.
struct Value<'de> {
    field: &'static Field,
    raw: Raw<'de>,
}

impl Value<'_> {
    /// The word that a number stands for.
    fn word(words: &[(u32, &'static str)], number: u64) -> Result<&'static str, WireError> {
        let known = words.iter().find(|(of, _)| u64::from(*of) == number);
        known
            .map(|(_, word)| *word)
            .ok_or_else(|| WireError::new("", format!("there is no value {number}")))
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = WireError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        match (self.field.kind, self.raw) {
            (Kind::Bool, Raw::Varint(number)) => visitor.visit_bool(number != 0),
            (Kind::Uint32, Raw::Varint(number)) => {
                let number = u32::try_from(number);
                visitor
                    .visit_u32(number.map_err(|_| WireError::new("", "the number is too large"))?)
            }
            (Kind::Int64, Raw::Varint(number)) => visitor.visit_i64(number.cast_signed()),
            (Kind::Enum(words), Raw::Varint(number)) => {
                visitor.visit_str(Self::word(words, number)?)
            }
            (_, Raw::Varint(number)) => visitor.visit_u64(number),
            (_, Raw::Fixed64(bits)) => visitor.visit_f64(f64::from_bits(bits)),
            (Kind::Text, Raw::Bytes(bytes)) => {
                let text =
                    std::str::from_utf8(bytes).map_err(|_| WireError::new("", "no UTF-8"))?;
                visitor.visit_borrowed_str(text)
            }
            (Kind::Message(at), Raw::Bytes(bytes)) => {
                visitor.visit_map(Values::read(descriptors::message(at), bytes)?)
            }
            (_, Raw::Bytes(bytes)) => visitor.visit_borrowed_bytes(bytes),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WireError> {
        let word = match (self.field.kind, self.raw) {
            (Kind::Enum(words), Raw::Varint(number)) => Self::word(words, number)?,
            (Kind::Text, Raw::Bytes(bytes)) => {
                std::str::from_utf8(bytes).map_err(|_| WireError::new("", "no UTF-8"))?
            }
            _ => return Err(WireError::new("", "no word")),
        };
        let word: StrDeserializer<'_, WireError> = word.into_deserializer();
        visitor.visit_enum(word)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde::Deserialize;
    use tonic::Status;

    use super::*;
    use crate::grpc::proto;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Asc,
        Desc,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        owner: String,
        kind: Option<String>,
        at: Option<String>,
        page: Option<u64>,
        page_size: Option<u64>,
        order: Option<Order>,
        cursor: Option<String>,
        asset: Option<String>,
    }

    fn read(bytes: &[u8]) -> Result<Asked, String> {
        let of = descriptors::method("/utxokeep.v1.Chain/AddressUtxos").unwrap().request;
        super::message(of, bytes).map_err(|error| Status::from(error).message().to_owned())
    }

    #[test]
    fn a_request_is_read_by_the_names_of_the_contract() {
        let request = proto::OwnerUtxosRequest {
            owner: "51".to_owned(),
            page_size: Some(u64::MAX),
            order: proto::ChainOrder::Desc.into(),
            ..Default::default()
        };
        let asked = read(&request.encode_to_vec()).unwrap();
        assert_eq!((asked.owner.as_str(), asked.page_size), ("51", Some(u64::MAX)));
        assert_eq!((asked.order, asked.kind, asked.page), (Some(Order::Desc), None, None));
        // What was not sent is empty, not missing.
        assert_eq!(read(&[]).unwrap().owner, "");
        // The last one counts.
        let twice = [request.encode_to_vec(), vec![0x0a, 1, b'x']].concat();
        assert_eq!(read(&twice).unwrap().owner, "x");
    }

    #[test]
    fn what_the_contract_does_not_have_is_refused_by_name() {
        let unknown = read(&[0x7a, 0]).unwrap_err();
        assert!(unknown.contains("there is no field 15 in the server's contract"), "{unknown}");
        let kind = read(&[0x08, 1]).unwrap_err();
        assert!(kind.starts_with("owner: another kind"), "{kind}");
        let word = read(&[0x30, 9]).unwrap_err();
        assert!(word.starts_with("order: there is no value 9"), "{word}");
        let text = read(&[0x0a, 1, 0xff]).unwrap_err();
        assert!(text.starts_with("owner: no UTF-8"), "{text}");
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        for bytes in [
            &[0xff; 20][..],
            &[0x0a],
            &[0x0a, 5, 1],
            &[0x0a, 0xff],
            &[0x0b],
            &[0x20, 0x80],
            &[0x21, 1],
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
        let many = [0x0a, 0].repeat(VALUES_MAX + 1);
        assert!(read(&many).unwrap_err().contains("more than 10000 values"));
    }
}
