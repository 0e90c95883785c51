//! Writes what serde serialises as a message of the contract.
//!
//! # Invariants
//!
//! * A value goes into the field of its name, as the kind that the contract says; what does not fit
//!   is refused.
//! * Numbers stay numbers: this format is not for people, so that amounts are not written as text.

use prost::encoding::{WireType, encode_key, encode_varint};
use serde::ser::{
    Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer,
};

use super::{
    descriptors::{self, Field, Kind, Message, Presence},
    error::WireError,
};

type Written = Result<(), WireError>;

/// Writes a value as a message.
pub(super) fn message(
    message: &'static Message,
    value: &impl Serialize,
) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    value
        .serialize(Writer { place: Place::Message(message), out: &mut out })
        .map_err(|error| error.within(message.name))?;
    Ok(out)
}

/// Where a value goes.
#[derive(Clone, Copy)]
enum Place {
    /// It is the whole message.
    Message(&'static Message),
    /// It is what a field holds.
    Field(&'static Field),
    /// It is one of those that a field holds.
    Item(&'static Field),
    /// It is the name of a field.
    Name,
}

struct Writer<'o> {
    place: Place,
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    /// The field that takes a value that is no message, and whether nothing may be left out.
    fn field(&self) -> Result<(&'static Field, bool), WireError> {
        match self.place {
            Place::Message(_) => Err(WireError::new("", "an answer is a record")),
            Place::Name => Err(WireError::new("", "a field has a text for its name")),
            Place::Field(field) if field.presence == Presence::Repeated => {
                Err(WireError::new("", "the contract has a list"))
            }
            Place::Field(field) => Ok((field, field.presence != Presence::Implicit)),
            Place::Item(field) => Ok((field, true)),
        }
    }

    fn varint(self, field: &Field, value: u64, is_always: bool) {
        if value != 0 || is_always {
            encode_key(field.number, WireType::Varint, self.out);
            encode_varint(value, self.out);
        }
    }

    fn bytes(self, field: &Field, value: &[u8], is_always: bool) {
        if !value.is_empty() || is_always {
            encode_key(field.number, WireType::LengthDelimited, self.out);
            encode_varint(value.len() as u64, self.out);
            self.out.extend_from_slice(value);
        }
    }

    fn number(self, value: i128) -> Written {
        let (field, is_always) = self.field()?;
        let fitting = match field.kind {
            Kind::Uint32 => u32::try_from(value).ok().map(u64::from),
            Kind::Uint64 => u64::try_from(value).ok(),
            Kind::Int64 => i64::try_from(value).ok().map(i64::cast_unsigned),
            _ => return Err(WireError::new("", "the contract has no number")),
        };
        let too_large = || WireError::new("", format!("{value} does not fit the contract"));
        self.varint(field, fitting.ok_or_else(too_large)?, is_always);
        Ok(())
    }

    fn text(self, value: &str) -> Written {
        if let Place::Name = self.place {
            self.out.extend_from_slice(value.as_bytes());
            return Ok(());
        }
        let (field, is_always) = self.field()?;
        match field.kind {
            Kind::Text => self.bytes(field, value.as_bytes(), is_always),
            Kind::Enum(words) => {
                let known = words.iter().find(|(_, word)| *word == value);
                let unknown = || WireError::new("", format!("{value} is no word of the contract"));
                let (number, _) = known.ok_or_else(unknown)?;
                self.varint(field, u64::from(*number), is_always);
            }
            _ => return Err(WireError::new("", "the contract has no text")),
        }
        Ok(())
    }

    fn record(self) -> Result<Record<'o>, WireError> {
        let (message, field) = match self.place {
            Place::Message(message) => (message, None),
            Place::Name => return Err(WireError::new("", "a field has a text for its name")),
            Place::Field(field) | Place::Item(field) => match field.kind {
                Kind::Message(at) => (descriptors::message(at), Some(field)),
                _ => return Err(WireError::new("", "the contract has no message")),
            },
        };
        Ok(Record { message, field, inner: Vec::new(), out: self.out, key: None })
    }

    fn list(self) -> Result<List<'o>, WireError> {
        match self.place {
            Place::Field(field) if field.presence == Presence::Repeated => {
                Ok(List { field, out: self.out, at: 0 })
            }
            _ => Err(WireError::new("", "the contract has no list")),
        }
    }
}

/// Methods that take a number of some width.
macro_rules! numbers {
    ($($name:ident($kind:ty);)+) => {
        $(fn $name(self, value: $kind) -> Written {
            self.number(value.into())
        })+
    };
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = WireError;
    type SerializeSeq = List<'o>;
    type SerializeTuple = List<'o>;
    type SerializeTupleStruct = Impossible<(), WireError>;
    type SerializeTupleVariant = Impossible<(), WireError>;
    type SerializeMap = Record<'o>;
    type SerializeStruct = Record<'o>;
    type SerializeStructVariant = Impossible<(), WireError>;

    numbers! {
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
    }

    fn serialize_u128(self, value: u128) -> Written {
        let number = i128::try_from(value);
        self.number(number.map_err(|_| WireError::new("", "the number is too large"))?)
    }

    fn serialize_bool(self, value: bool) -> Written {
        let (field, is_always) = self.field()?;
        let Kind::Bool = field.kind else {
            return Err(WireError::new("", "the contract has no yes or no"));
        };
        self.varint(field, value.into(), is_always);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Written {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Written {
        let (field, is_always) = self.field()?;
        if !matches!(field.kind, Kind::Double) {
            return Err(WireError::new("", "the contract has no fraction"));
        }
        if value != 0.0 || is_always {
            prost::encoding::double::encode(field.number, &value, self.out);
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Written {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        self.text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        let (field, is_always) = self.field()?;
        let Kind::Bytes = field.kind else {
            return Err(WireError::new("", "the contract has no bytes"));
        };
        self.bytes(field, value, is_always);
        Ok(())
    }

    fn serialize_none(self) -> Written {
        match self.place {
            // An absent number would be read as 0.
            Place::Field(field) if field.presence == Presence::Implicit => {
                Err(WireError::new("", "the contract does not know that it may be absent"))
            }
            _ => Ok(()),
        }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.record()?.finish();
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, word: &'static str) -> Written {
        self.text(word)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Written {
        Err(no_choices(name))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'o>, WireError> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'o>, WireError> {
        self.list()
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, WireError> {
        Err(no_choices(name))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, WireError> {
        Err(no_choices(name))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Record<'o>, WireError> {
        self.record()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Record<'o>, WireError> {
        self.record()
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, WireError> {
        Err(no_choices(name))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

fn no_choices(name: &str) -> WireError {
    WireError::new("", format!("{name} has no form in the contract"))
}

/// The items of a field.
struct List<'o> {
    field: &'static Field,
    out: &'o mut Vec<u8>,
    at: usize,
}

impl List<'_> {
    fn item(&mut self, value: &(impl Serialize + ?Sized)) -> Written {
        let (place, at) = (Place::Item(self.field), self.at);
        self.at += 1;
        value
            .serialize(Writer { place, out: self.out })
            .map_err(|error| error.within(&format!("[{at}]")))
    }
}

impl SerializeSeq for List<'_> {
    type Ok = ();
    type Error = WireError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.item(value)
    }

    fn end(self) -> Written {
        Ok(())
    }
}

impl SerializeTuple for List<'_> {
    type Ok = ();
    type Error = WireError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.item(value)
    }

    fn end(self) -> Written {
        Ok(())
    }
}

/// The fields of a message.
struct Record<'o> {
    message: &'static Message,
    /// The field that holds the message, unless it is the whole.
    field: Option<&'static Field>,
    /// The message so far.
    inner: Vec<u8>,
    out: &'o mut Vec<u8>,
    key: Option<&'static Field>,
}

impl Record<'_> {
    fn entry(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Written {
        let field =
            self.message.named(name).ok_or_else(|| WireError::new(name, "not in the contract"))?;
        self.write(field, value)
    }

    fn write(&mut self, field: &'static Field, value: &(impl Serialize + ?Sized)) -> Written {
        let writer = Writer { place: Place::Field(field), out: &mut self.inner };
        value.serialize(writer).map_err(|error| error.within(field.name))
    }

    fn finish(self) {
        if let Some(field) = self.field {
            encode_key(field.number, WireType::LengthDelimited, self.out);
            encode_varint(self.inner.len() as u64, self.out);
        }
        self.out.extend_from_slice(&self.inner);
    }
}

impl SerializeStruct for Record<'_> {
    type Ok = ();
    type Error = WireError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
        self.entry(name, value)
    }

    fn end(self) -> Written {
        self.finish();
        Ok(())
    }
}

/// Records that are put together of others are maps to serde.
impl SerializeMap for Record<'_> {
    type Ok = ();
    type Error = WireError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        let name = field_name(key)?;
        let field = self.message.named(&name);
        self.key = Some(field.ok_or_else(|| WireError::new(&name, "not in the contract"))?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        let field = self.key.take().ok_or_else(|| WireError::new("", "a value without a name"))?;
        self.write(field, value)
    }

    fn end(self) -> Written {
        self.finish();
        Ok(())
    }
}

/// The text of a key.
fn field_name(key: &(impl Serialize + ?Sized)) -> Result<String, WireError> {
    let mut out = Vec::new();
    key.serialize(Writer { place: Place::Name, out: &mut out })?;
    String::from_utf8(out).map_err(|error| WireError::new("", error))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde::Serialize;

    use super::*;
    use crate::grpc::proto;

    fn of(name: &str) -> &'static Message {
        let answers = descriptors::methods().map(|method| method.answer);
        answers.into_iter().find(|message| message.name == name).unwrap()
    }

    #[derive(Serialize)]
    struct Point {
        height: u32,
        slot: u64,
        hash: &'static str,
    }

    #[derive(Serialize, Default)]
    struct Balance {
        point: Option<Point>,
        #[serde(flatten)]
        sum: Sum,
        amounts: Vec<Amount>,
    }

    #[derive(Serialize, Default)]
    struct Sum {
        amount: u128,
        lovelace_amount: Option<u64>,
        utxo_count: u64,
    }

    #[derive(Serialize)]
    struct Amount {
        unit: &'static str,
        quantity: String,
    }

    #[test]
    fn an_answer_becomes_the_message_of_the_contract() {
        let answer = Balance {
            point: Some(Point { height: 3, slot: 0, hash: "aa" }),
            sum: Sum { amount: u64::MAX.into(), lovelace_amount: Some(0), utxo_count: 2 },
            amounts: ["sat", "x"].map(|unit| Amount { unit, quantity: "7".to_owned() }).into(),
        };
        let bytes = message(of("OwnerBalanceResponse"), &answer).unwrap();
        let read = proto::OwnerBalanceResponse::decode(bytes.as_slice()).unwrap();
        let point = proto::ChainPoint { height: 3, slot: 0, hash: "aa".to_owned() };
        assert_eq!(
            (read.point, read.amount, read.lovelace_amount),
            (Some(point), u64::MAX, Some(0))
        );
        let units: Vec<_> = read.amounts.iter().map(|amount| amount.unit.as_str()).collect();
        assert_eq!((units, read.utxo_count), (vec!["sat", "x"], 2));
        assert!(message(of("OwnerBalanceResponse"), &Balance::default()).unwrap().is_empty());
    }

    #[test]
    fn what_does_not_fit_the_contract_is_an_error_that_names_its_field() {
        #[derive(Serialize)]
        struct Wrong<T> {
            utxo_count: T,
        }
        #[derive(Serialize)]
        struct Unknown {
            no_such_field: u32,
        }
        let told =
            |value: &dyn Fn() -> Result<Vec<u8>, WireError>| value().unwrap_err().to_string();
        let of = of("OwnerBalanceResponse");
        let path = "OwnerBalanceResponse.utxo_count: ";
        let large = told(&|| message(of, &Wrong { utxo_count: u128::from(u64::MAX) + 1 }));
        assert_eq!(large, format!("{path}18446744073709551616 does not fit the contract"));
        let text = told(&|| message(of, &Wrong { utxo_count: "2" }));
        assert_eq!(text, format!("{path}the contract has no text"));
        let absent = told(&|| message(of, &Wrong { utxo_count: None::<u64> }));
        assert!(absent.starts_with(path), "{absent}");
        let unknown = told(&|| message(of, &Unknown { no_such_field: 1 }));
        assert_eq!(unknown, "OwnerBalanceResponse.no_such_field: not in the contract");
    }
}
