//! Makes the gRPC services from the contract of `utxokeep-proto`, which has the messages. Beside them
//! it writes what each message takes in memory, so that a request can be refused before it does.

use std::{collections::BTreeMap, env, error::Error, fmt::Write as _, fs, path::Path};

/// Fields of a message: number, type as the descriptor has it, name of a message type, repeated.
type Fields = Vec<(i32, i32, String, bool)>;

/// Numbers of types in descriptors.
const STRING: i32 = 9;
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = env::var("DEP_UTXOKEEP_PROTO_DIR")?;
    println!("cargo::rerun-if-changed={dir}");
    let contract = ["txstore", "pruner", "wallet"].map(|name| format!("utxokeep/v1/{name}.proto"));
    let files = protox::compile(contract, [dir])?;
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
