//! Segments of a path and the object of a body, read as the fields of one request.

use std::marker::PhantomData;

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor,
        value::{BytesDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

/// A reader that sees the segments as the first fields of the object. A field that stands in both is
/// given twice, which a request refuses.
pub(super) struct Merged<'s, D> {
    pub(super) segments: &'s [(String, String)],
    pub(super) json: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Merged<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.json.deserialize_map(Object { segments: self.segments, visitor })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Object<'s, V> {
    segments: &'s [(String, String)],
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, rest: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Fields { segments: self.segments.iter(), value: None, rest })
    }
}

/// The segments, then the fields of the object.
struct Fields<'s, A> {
    segments: std::slice::Iter<'s, (String, String)>,
    value: Option<&'s str>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some((name, value)) = self.segments.next() else {
            return self.rest.next_key_seed(seed);
        };
        self.value = Some(value);
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(Given::Text(value).into_deserializer()),
            None => self.rest.next_value_seed(seed),
        }
    }
}

/// A value that is not JSON.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'s> {
    /// A segment of a path, which may be a number.
    Text(&'s str),
    /// A body of another kind.
    Bytes(&'s [u8]),
}

impl<E: Error> IntoDeserializer<'_, E> for Given<'_> {
    type Deserializer = GivenReader<Self, E>;

    fn into_deserializer(self) -> Self::Deserializer {
        GivenReader { given: self, error: PhantomData }
    }
}

pub(super) struct GivenReader<G, E> {
    given: G,
    error: PhantomData<E>,
}

impl<'de, E: Error> Deserializer<'de> for GivenReader<Given<'_>, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.given {
            Given::Text(text) => StrDeserializer::new(text).deserialize_any(visitor),
            Given::Bytes(bytes) => BytesDeserializer::new(bytes).deserialize_any(visitor),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.given {
            Given::Text(text) => match text.parse() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(E::custom("expected a whole number")),
            },
            Given::Bytes(_) => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        wallet: String,
        id: Option<i64>,
        label: String,
    }

    fn read(segments: &[(&str, &str)], json: &str) -> Result<Asked, serde_json::Error> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let segments: Vec<(String, String)> = segments.iter().map(owned).collect();
        let mut reader = serde_json::Deserializer::from_str(json);
        Asked::deserialize(Merged { segments: &segments, json: &mut reader })
    }

    #[test]
    fn segments_and_a_body_are_one_request_and_nothing_is_said_twice() {
        let asked = Asked { wallet: "7".to_owned(), id: Some(-7), label: "x".to_owned() };
        let segments = [("wallet", "7"), ("id", "-7")];
        assert_eq!(read(&segments, r#"{"label":"x"}"#).unwrap(), asked);
        for (wrong, text) in [
            (r#"{"label":"x","wallet":"8"}"#, "duplicate field"),
            (r#"{"label":"x","label":"y"}"#, "duplicate field"),
            (r#"{"label":"x","other":1}"#, "unknown field"),
            ("[]", "expected an object"),
            ("{}", "missing field"),
        ] {
            let error = read(&segments, wrong).unwrap_err().to_string();
            assert!(error.contains(text), "{wrong}: {error}");
        }
        assert!(read(&[("wallet", "w"), ("id", "x")], "{}").is_err());
    }
}
