//! What requests say outside of their bodies, as descriptions of routes list it.

use utoipa::{
    IntoParams, PartialSchema as _,
    openapi::{
        Object, Required,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::{SchemaType, Type},
    },
};

/// A wallet in the path.
pub(super) struct InWallet;

impl IntoParams for InWallet {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![in_path("wallet", "Name of the wallet")]
    }
}

/// A wallet and one of its transactions in the path.
pub(super) struct OfTransaction;

impl IntoParams for OfTransaction {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![in_path("wallet", "Name of the wallet"), in_path("txid", "Transaction id")]
    }
}

/// The header of a request that may be sent twice.
pub(super) struct WithKey;

impl IntoParams for WithKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = Object::with_type(SchemaType::new(Type::String));
        let what = "Sent again with the same key, the request is answered as before and changes \
                    nothing";
        let header =
            ParameterBuilder::new().name("Idempotency-Key").parameter_in(ParameterIn::Header);
        let header = header.required(Required::False).description(Some(what));
        vec![header.schema(Some(text)).build()]
    }
}

fn in_path(name: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(String::schema()))
        .build()
}
