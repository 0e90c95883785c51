//! Makes the gRPC services from the contract of `utxokeep-proto`, which has the messages. Beside them
//! it writes what each message takes in memory, so that a request can be refused before it does, and
//! the descriptors of the services that are served from the table of operations.

use std::{collections::BTreeMap, env, error::Error, fmt::Write as _, fs, path::Path};

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

/// Fields of a message: number, type as the descriptor has it, name of a message type, repeated.
type Fields = Vec<(i32, i32, String, bool)>;

/// Files of the contract whose services are served from the table of operations.
const FROM_TABLES: &[&str] = &["/chain.proto"];

/// Numbers of types in descriptors.
const STRING: i32 = 9;
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = env::var("DEP_UTXOKEEP_PROTO_DIR")?;
    println!("cargo::rerun-if-changed={dir}");
    let contract = ["txstore", "pruner", "wallet", "chain", "stream"];
    let contract = contract.map(|name| format!("utxokeep/v1/{name}.proto"));
    let mut files = protox::compile(contract, [dir])?;
    let mut messages = BTreeMap::new();
    for message in files.file.iter().flat_map(|file| &file.message_type) {
        let fields = message.field.iter().map(|field| {
            let of = field.type_name().rsplit('.').next().unwrap_or_default().to_owned();
            (field.number(), field.r#type.unwrap_or_default(), of, field.label == Some(3))
        });
        messages.insert(message.name().to_owned(), fields.collect::<Fields>());
    }
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("shapes.rs"), shapes(&messages)?)?;
    let tables = tables(&DescriptorPool::from_file_descriptor_set(files.clone())?)?;
    fs::write(Path::new(&out).join("tables.rs"), tables)?;
    // They need no methods of their own.
    let from_tables = |file: &str| FROM_TABLES.iter().any(|name| file.ends_with(name));
    files.file.iter_mut().filter(|file| from_tables(file.name())).for_each(|f| f.service.clear());
    let codec = "crate::grpc::bounded::BoundedCodec";
    tonic_prost_build::configure()
        .codec_path(codec)
        .extern_path(".utxokeep.v1", "::utxokeep_proto::v1")
        .build_client(false)
        .compile_fds(files)?;
    Ok(())
}

/// The table of `grpc::bounded`.
fn shapes(messages: &BTreeMap<String, Fields>) -> Result<String, std::fmt::Error> {
    let mut text = String::from("static SHAPES: &[Shape] = &[\n");
    for (name, fields) in messages {
        let bytes = size(messages, name, 0);
        write!(text, "    Shape {{ name: {name:?}, bytes: {bytes}, fields: &[")?;
        for (number, kind, of, is_repeated) in fields {
            let holds = match (*kind, is_repeated) {
                (MESSAGE, _) => {
                    let at = messages.keys().position(|other| other == of);
                    format!("Holds::Message({})", at.unwrap_or(usize::MAX))
                }
                (STRING | BYTES, true) => "Holds::Texts".to_owned(),
                (_, true) => "Holds::Numbers".to_owned(),
                _ => continue,
            };
            write!(text, "({number}, {holds}), ")?;
        }
        writeln!(text, "] }},")?;
    }
    text.push_str("];\n");
    Ok(text)
}

/// About what a message takes before anything in its lists and texts.
fn size(messages: &BTreeMap<String, Fields>, name: &str, depth: usize) -> usize {
    let Some(fields) = messages.get(name).filter(|_| depth < 8) else { return 24 };
    let of = |(_, kind, of, is_repeated): &(i32, i32, String, bool)| match *kind {
        MESSAGE if !is_repeated => size(messages, of, depth + 1) + 8,
        STRING | BYTES => 24,
        _ if *is_repeated => 24,
        _ => 8,
    };
    fields.iter().map(of).sum()
}

/// The tables of `grpc::table`: messages and methods of the services that come from operations.
fn tables(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let is_ours = |file: &str| FROM_TABLES.iter().any(|name| file.ends_with(name));
    let messages: Vec<MessageDescriptor> =
        pool.all_messages().filter(|message| is_ours(message.parent_file().name())).collect();
    let place = |of: &MessageDescriptor| {
        let at = messages.iter().position(|message| message == of);
        at.ok_or_else(|| format!("{} is in a file of its own", of.full_name()))
    };
    let mut text = String::from("static MESSAGES: &[Message] = &[\n");
    for message in &messages {
        writeln!(text, "    Message {{ name: {:?}, fields: &[", message.name())?;
        for field in message.fields() {
            let presence = match (field.is_list(), field.supports_presence()) {
                (true, _) => "Repeated",
                (_, true) => "Optional",
                _ => "Implicit",
            };
            let (name, number, kind) = (field.name(), field.number(), kind(&field, &place)?);
            writeln!(
                text,
                "        Field {{ name: {name:?}, number: {number}, kind: Kind::{kind}, presence: \
                 Presence::{presence} }},"
            )?;
        }
        text.push_str("    ] },\n");
    }
    text.push_str("];\nstatic METHODS: &[Method] = &[\n");
    for service in pool.services().filter(|service| is_ours(service.parent_file().name())) {
        for method in service.methods() {
            let (asked, answered) = (place(&method.input())?, place(&method.output())?);
            let (path, label) =
                (format!("/{}/{}", service.full_name(), method.name()), service.name());
            writeln!(
                text,
                "    Method {{ path: {path:?}, label: \"{label}/{}\", request: &MESSAGES[{asked}], \
                 answer: &MESSAGES[{answered}] }},",
                method.name()
            )?;
        }
    }
    text.push_str("];\n");
    Ok(text)
}

/// What a field holds, in the words of `grpc::table`.
fn kind(
    field: &FieldDescriptor,
    place: &impl Fn(&MessageDescriptor) -> Result<usize, String>,
) -> Result<String, Box<dyn Error>> {
    Ok(match field.kind() {
        Kind::Bool => "Bool".to_owned(),
        Kind::Uint32 => "Uint32".to_owned(),
        Kind::Uint64 => "Uint64".to_owned(),
        Kind::Int64 => "Int64".to_owned(),
        Kind::Double => "Double".to_owned(),
        Kind::String => "Text".to_owned(),
        Kind::Bytes => "Bytes".to_owned(),
        Kind::Message(of) if !field.is_map() => format!("Message({})", place(&of)?),
        Kind::Enum(of) => {
            // `CHAIN_ORDER_ASC` of `ChainOrder` is the word `asc`; 0 is no word at all.
            let prefix = screaming(of.name()) + "_";
            let mut words = String::new();
            for value in of.values().filter(|value| value.number() != 0) {
                let word = value.name().strip_prefix(&prefix).ok_or("a value of another name")?;
                write!(words, "({}, {:?}), ", value.number(), word.to_lowercase())?;
            }
            format!("Enum(&[{words}])")
        }
        other => return Err(format!("{}: {other:?} is not supported", field.full_name()).into()),
    })
}

/// `ChainOrder` as `CHAIN_ORDER`.
fn screaming(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_uppercase() {
            text.push('_');
        }
        text.extend(letter.to_uppercase());
    }
    text
}
