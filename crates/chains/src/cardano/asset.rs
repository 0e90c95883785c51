//! Texts people use for native assets.

use blake2b_simd::Params;
use utxokeep_core::{AssetFilter, hex_decode, hex_encode};

use super::address::bech32_text;

const POLICY_HEX: usize = 2 * 28;
const NAME_BYTES_MAX: usize = 32;

/// A text that names no asset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: give POLICY or POLICY.* for all assets of a policy, POLICY.NAME or POLICYNAME for one, \
     both in hexadecimal (56 digits of policy, at most 64 of name)",
    problem.text()
)]
pub struct AssetParseError {
    /// What is wrong.
    pub problem: AssetProblem,
}

/// What is wrong with a text that names no asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssetProblem {
    /// It does not start with the 56 digits of a policy.
    Policy,
    /// The name is not hexadecimal.
    Name,
    /// The name has more than 32 bytes.
    NameTooLong,
}

impl AssetProblem {
    const fn text(self) -> &'static str {
        match self {
            Self::Policy => "an asset starts with the 56 hexadecimal digits of its policy",
            Self::Name => "the name of the asset is not hexadecimal",
            Self::NameTooLong => "the name of the asset has more than 32 bytes",
        }
    }
}

/// Reads an asset. A policy alone stands for all its assets; the one without a name is `POLICY.`
/// with nothing behind the dot.
pub fn parse_asset(text: &str) -> Result<AssetFilter, AssetParseError> {
    let error = |problem| AssetParseError { problem };
    let (policy, rest) =
        text.split_at_checked(POLICY_HEX).ok_or_else(|| error(AssetProblem::Policy))?;
    let policy = hex_decode(policy).and_then(|policy| policy.try_into().ok());
    let policy = policy.ok_or_else(|| error(AssetProblem::Policy))?;
    if matches!(rest, "" | ".*") {
        return Ok(AssetFilter { policy, name: None });
    }
    let name = rest.strip_prefix('.').unwrap_or(rest);
    if name.len() > 2 * NAME_BYTES_MAX {
        return Err(error(AssetProblem::NameTooLong));
    }
    let name = hex_decode(name).ok_or_else(|| error(AssetProblem::Name))?;
    Ok(AssetFilter { policy, name: Some(name) })
}

/// The short name of an asset that wallets show, from a hash of policy and name (CIP-14).
#[must_use]
pub fn asset_fingerprint(policy: &[u8; 28], name: &[u8]) -> String {
    let mut state = Params::new().hash_length(20).to_state();
    let hash = state.update(policy).update(name).finalize();
    bech32_text("asset", hash.as_bytes()).unwrap_or_else(|| hex_encode(hash.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "7eae28af2208be856f7a119668ae52a49b73725e326dc16579dcc373";

    #[test]
    fn every_form_of_an_asset_is_read() {
        let policy: [u8; 28] = hex_decode(POLICY).unwrap().try_into().unwrap();
        let of = |text: &str| parse_asset(&text.replace('P', POLICY));
        let filter = |name: Option<&[u8]>| AssetFilter { policy, name: name.map(<[u8]>::to_vec) };
        assert_eq!(of("P"), Ok(filter(None)));
        assert_eq!(of("P.*"), Ok(filter(None)));
        assert_eq!(of("P."), Ok(filter(Some(b""))));
        assert_eq!(of("P.504154"), Ok(filter(Some(b"PAT"))));
        assert_eq!(of("P504154"), Ok(filter(Some(b"PAT"))));
        let longest = "ab".repeat(32);
        assert_eq!(of(&format!("P{longest}")), Ok(filter(Some(&[0xab; 32]))));
        for (text, problem) in [
            ("", AssetProblem::Policy),
            ("lovelace", AssetProblem::Policy),
            (&POLICY[1..], AssetProblem::Policy),
            (&"ä".repeat(56), AssetProblem::Policy),
            ("P.5", AssetProblem::Name),
            ("P..", AssetProblem::Name),
            ("P.xy", AssetProblem::Name),
            (&format!("P{longest}00"), AssetProblem::NameTooLong),
        ] {
            assert_eq!(of(text), Err(AssetParseError { problem }), "{text}");
        }
        assert!(of("P.xy").unwrap_err().to_string().contains("not hexadecimal"));
    }

    #[test]
    fn fingerprints_are_those_of_the_standard() {
        let fingerprint = |policy: &str, name: &str| {
            let policy = hex_decode(policy).unwrap().try_into().unwrap();
            asset_fingerprint(&policy, &hex_decode(name).unwrap())
        };
        assert_eq!(fingerprint(POLICY, ""), "asset1rjklcrnsdzqp65wjgrg55sy9723kw09mlgvlc3");
        assert_eq!(
            fingerprint(POLICY, "504154415445"),
            "asset13n25uv0yaf5kus35fm2k86cqy60z58d9xmde92"
        );
    }
}
