//! Messages and methods of the contract, as its descriptors have them.

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) presence: Presence,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Uint32,
    Uint64,
    Int64,
    #[allow(dead_code, reason = "the contract decides which kinds it uses")]
    Double,
    Text,
    #[allow(dead_code, reason = "the contract decides which kinds it uses")]
    Bytes,
    /// Numbers, and the words that operations have for them. 0 means that there is none.
    Enum(&'static [(u32, &'static str)]),
    /// The message at this place of the list.
    Message(usize),
}

/// Whether a field that is absent differs from one that holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// It does not: an absent number is 0.
    Implicit,
    Optional,
    Repeated,
}

/// A method of a service.
#[derive(Debug)]
pub(super) struct Method {
    /// `/PACKAGE.SERVICE/METHOD`.
    pub(super) path: &'static str,
    /// `SERVICE/METHOD`, by which metrics call it.
    pub(super) label: &'static str,
    pub(super) request: &'static Message,
    pub(super) answer: &'static Message,
}

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

impl Message {
    /// The field of this name.
    pub(super) fn named(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The message that a field holds.
pub(super) fn message(at: usize) -> &'static Message {
    &MESSAGES[at]
}

/// The method at a path.
pub(super) fn method(path: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.path == path)
}

#[cfg(test)]
pub(super) fn methods() -> impl Iterator<Item = &'static Method> {
    METHODS.iter()
}

/// How metrics call the methods.
pub(in crate::grpc) fn labels() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|method| method.label)
}
