//! Names of hosts and pages, as settings have them.

/// Whether a text is a name that may stand in `Host`, without a port.
pub fn is_host_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// Whether a text is an origin as browsers write it, or `*`.
pub fn is_origin(text: &str) -> bool {
    let is_allowed = |byte: u8| {
        (byte.is_ascii_alphanumeric() && !byte.is_ascii_uppercase()) || b"-._:[]".contains(&byte)
    };
    let authority = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    text == "*" || authority.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_allowed))
}
